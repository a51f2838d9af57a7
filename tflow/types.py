"""The vocabulary: capabilities, type variables, operators, and where an item comes from.

Everything here is small, frozen and free of effects. Streams are built from it in
``tflow.combinators`` and run in ``tflow.runtime``.

Operators are values with typed methods, never callables. ``Op[A, B, R]`` is what a stream accepts; the
kinds below say what the methods look like:

===================  ==============================  =======================================
where it runs        stateless                       stateful (the executor owns the state)
===================  ==============================  =======================================
anywhere             ``Stateless.apply(item)``       ``Stateful.step(state, item)``
beside its actor     ``ActorOp.apply(actor, item)``  ``StatefulActorOp.step(actor, state, item)``
on the driver, with  ``LiveOp.apply(live, item)``    ``StatefulLiveOp.step(live, state, item)``
live actors
on the driver, with  ``RefOp.forward(live, ref)``
items left unopened
===================  ==============================  =======================================

A stateful operator that holds items back says in ``at_end(state)`` what is left when its input has ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Never, TypeAlias, overload

from typing_extensions import TypeVar

if TYPE_CHECKING:
    from tflow.live import Live

# --------------------------------------------------------------------------- capabilities


class Async:
    """The driver. Items may be older than the latest update."""


class Sync(Async):
    """The driver, behind a barrier: every item of a round was made after the last update."""


# --------------------------------------------------------------------------- type variables

A = TypeVar("A", contravariant=True)
"""What an operator consumes."""
B = TypeVar("B", covariant=True)
"""What an operator produces."""
R = TypeVar("R", contravariant=True, default=object)
"""The capability that an operator requires of the place where it runs."""
T = TypeVar("T", covariant=True)
"""The element of a stream."""
C = TypeVar("C", covariant=True, bound=Async, default=Async)
"""The capability that a driver stream offers."""
G = TypeVar("G", covariant=True, bound=Async, default=Sync)
"""The capability that a parallel stream has once it is gathered behind a barrier."""
H = TypeVar("H", covariant=True, default=Any)  # Any: see below
"""The class of the actors of a parallel stream. Any where nobody says: whether an operator fits is then seen with the plan."""
S = TypeVar("S")
"""The state of an operator."""
W = TypeVar("W")
"""The class of an actor."""
W_co = TypeVar("W_co", covariant=True)
W_contra = TypeVar("W_contra", contravariant=True)
D = TypeVar("D", contravariant=True, bound=Async, default=Async)
"""The driver capability that a live operator requires."""
U = TypeVar("U")
V = TypeVar("V")


class OnActor(Generic[W_co]):
    """Inside an actor of class ``W``: one of a parallel stream, or one that a driver stream calls or hands its items to."""


# --------------------------------------------------------------------------- operators


class _Unknown:
    def __repr__(self) -> str:
        return "?"


UNKNOWN = _Unknown()
"""A type that no annotation tells. It fits everywhere."""


@dataclass(frozen=True)
class Signature:
    """What an operator says of itself: to validation, to drawings and to error sentences.

    The types are run-time annotations, such as ``int`` or ``list[str]``.
    """

    label: str
    """What it is called in plans and errors."""
    consumes: object = UNKNOWN
    produces: object = UNKNOWN
    requires: object = UNKNOWN
    """A capability: ``Sync``, ``Async`` or ``OnActor[...]``."""
    reads: tuple[str, ...] | None = None
    """The columns that a batch must have; None: those in the type that it consumes."""
    actor: type | str | None = None
    """The class of the actor that it works beside, or its name; None if it works beside none, or does not say."""
    sends_to: tuple[object, ...] = ()
    """The actors and residents that it names in its fields: it may send messages there."""
    needs_sync: bool = False
    """True if its stream must be synchronous, although it runs in an actor."""
    given: object = UNKNOWN
    """What the stream before it yields."""
    host: object = None
    """The actor that ``call`` or ``hand_off`` runs it in."""


Sends: TypeAlias = Mapping[str, str] | None
"""What an operator sends: the name of the field that has the receivers, and what they are sent."""


class Op(Generic[A, B, R]):
    """A typed stage: consumes ``A``, produces ``B``, requires the capability ``R``.

    Nominal on purpose and not callable: a restricted operator cannot slip in where a function is expected. Derive
    from one of the kinds below, which say what method to write.
    """

    batching: ClassVar[bool] = False
    """True if it holds items back on purpose, to make a larger one of several."""
    opens: ClassVar[bool] = True
    """False if it leaves items that are elsewhere where they are: it looks only at those that are here."""
    sends: ClassVar[Sends] = None
    """For drawings: what it sends to the actors in its fields, by field, such as ``{"workers": "weights"}``; under ``"reply"``,
    what it sends to where an item came from. None: not said."""

    def signature(self, usual: Signature, /) -> Signature:
        """What the operator consumes, produces and requires. ``usual`` is what its class tells; an operator that knows more,
        because it depends on its fields, on what it is given or on where it runs, replaces that."""
        return usual


AnyOp = Op[Never, object, Never]
"""Whatever it consumes, produces and requires."""


class Stateless(Op[A, B, R], ABC):
    """An operator whose result depends on the item alone.

    >>> from tflow import Stateless, from_items
    >>> class Double(Stateless[int, int]):
    ...     def apply(self, item: int) -> int:
    ...         return 2 * item
    >>> list(from_items([1, 2]).for_each(Double()).run())
    [2, 4]
    """

    @abstractmethod
    def apply(self, item: A, /) -> B:
        """Turn one item into another, without changing it."""


class Stateful(Op[A, B, R], ABC, Generic[A, B, S, R]):
    """An operator with memory. The executor keeps the state, so each run (and each shard) starts fresh.

    >>> from tflow import Stateful, from_items
    >>> class Count(Stateful[str, int, int]):
    ...     def init(self) -> int:
    ...         return 0
    ...     def step(self, state: int, item: str) -> tuple[int, int]:
    ...         return state + 1, state + 1
    >>> list(from_items(["a", "b"]).for_each(Count()).run())
    [1, 2]
    """

    @abstractmethod
    def init(self) -> S:
        """The state before the first item."""

    @abstractmethod
    def step(self, state: S, item: A, /) -> tuple[S, B]:
        """The next state, and what to show."""

    def at_end(self, state: S, /) -> Iterable[B]:
        """What is still to be shown when the input has ended; for operators that hold items back."""
        return ()


class ActorOp(Op[A, B, OnActor[W_contra]], ABC, Generic[W_contra, A, B]):
    """An operator that works beside an actor and receives it: gradients computed where the policy lives, a step of training
    where the learner lives."""

    @abstractmethod
    def apply(self, actor: W_contra, item: A, /) -> B:
        """Turn one item into another with the help of the actor."""


class StatefulActorOp(Op[A, B, OnActor[W_contra]], ABC, Generic[W_contra, A, B, S]):
    """An actor operator with memory, one state per shard and run."""

    @abstractmethod
    def init(self) -> S:
        """The state before the first item."""

    @abstractmethod
    def step(self, actor: W_contra, state: S, item: A, /) -> tuple[S, B]:
        """The next state, and what to show."""

    def at_end(self, actor: W_contra, state: S, /) -> Iterable[B]:
        """What is still to be shown when the input of the shard has ended; for operators that hold items back."""
        return ()


class LiveOp(Op[A, B, D], ABC, Generic[A, B, D]):
    """A driver operator that talks to actors: it names them in its fields and reaches them through ``live``."""

    @abstractmethod
    def apply(self, live: Live, item: A, /) -> B:
        """Turn one item into another; what is sent leaves before the item moves on."""


class StatefulLiveOp(Op[A, B, D], ABC, Generic[A, B, S, D]):
    """A live operator with memory."""

    @abstractmethod
    def init(self) -> S:
        """The state before the first item."""

    @abstractmethod
    def step(self, live: Live, state: S, item: A, /) -> tuple[S, B]:
        """The next state, and what to show."""

    def at_end(self, live: Live, state: S, /) -> Iterable[B]:
        """What is still to be shown when the input has ended; for operators that hold items back."""
        return ()


def shows_at_end(op: AnyOp) -> bool:
    """Whether an operator says what is left when its input has ended."""
    return any(
        isinstance(op, kind) and type(op).at_end is not kind.at_end for kind in (Stateful, StatefulActorOp, StatefulLiveOp)
    )


class Ref(Generic[T]):
    """An item that is not opened: it can be sent on, and what travels beside it can be read.

    An item tells what that is by attributes that it may have: the numbers ``env_steps`` and ``rows``, and ``summary``, anything
    small.
    """

    __slots__ = ("held",)

    def __init__(self, held: object) -> None:
        self.held = held

    @property
    def env_steps(self) -> int:
        """The env steps that went into the item, or into the members of a list."""
        return steps_of(self.held)

    @property
    def rows(self) -> int:
        """How many rows the item has: what it says itself, else its length, else its env steps."""
        return rows_of(self.held)

    @property
    def summary(self) -> object:
        """What the item says of itself, such as the statistics of its episodes; None if it says nothing."""
        return summary_of(self.held)


SILENT = frozenset({int, float, bool, str, bytes, type(None)})
"""Types whose values say nothing of themselves: a list of them is passed over without a look at each."""


def steps_of(item: object) -> int:
    """The env steps that went into an item, or into the members of a list."""
    if isinstance(item, (list, tuple)) and not hasattr(item, "env_steps"):
        return 0 if SILENT.issuperset(map(type, item)) else sum(map(steps_of, item))
    return int(getattr(item, "env_steps", 0))


def rows_of(item: object) -> int:
    """How many rows an item has: what it says itself, else its length, else its env steps. The same wherever the item is."""
    said = getattr(item, "rows", None)
    if isinstance(said, int):
        return said
    return len(item) if isinstance(item, Sized) else steps_of(item)


def summary_of(item: object) -> object:
    """What an item, or what the members of a list, say of themselves."""
    if isinstance(item, (list, tuple)) and not hasattr(item, "summary"):
        return None if SILENT.issuperset(map(type, item)) else merged(map(summary_of, item))
    summary = getattr(item, "summary", None)
    return None if callable(summary) else summary


def merged(summaries: Iterable[object]) -> object:
    """Summaries as one, if they know how to merge: ``summary.merged(later)``. Otherwise the first."""
    given = [summary for summary in summaries if summary is not None]
    found = given[0] if given else None
    for later in given[1:] if hasattr(found, "merged") else ():
        found = found.merged(later)  # type: ignore[attr-defined]  # checked in the line above
    return found


class RefOp(LiveOp[V, V, D], Generic[V, D]):
    """A live operator that never looks into its items: it may send them on, and they move on unchanged.

    On a cluster such an item goes from actor to actor; the driver only passes on where it is.
    """

    @abstractmethod
    def forward(self, live: Live, item: Ref[V], /) -> None:
        """Send the item, or whatever else is to be sent when it passes; what is sent leaves before the item moves on."""

    def apply(self, live: Live, item: V, /) -> V:
        self.forward(live, Ref(item))
        return item


# --------------------------------------------------------------------------- where an item comes from


@dataclass(frozen=True)
class Shard:
    """What an actor is told when it is made."""

    actors: str
    """The name of the actors it belongs to."""
    index: int
    count: int
    incarnation: int
    """0 at first, one more after each restart."""
    seed: int
    """A function of the run's seed, the actors, the index and the incarnation."""
    session_seed: int = 0
    """The same for all actors of a session: for what must begin equal everywhere, such as the weights of a policy."""
    given: object = None
    """What the run gives its actors to begin with (``Run.give``), such as the weights of a saved policy; None: nothing."""
    stops_at: int | None = None
    """Env steps after which the run that makes it stops (``Run.will_stop``); None: not known."""


class Source(NamedTuple):
    """One item as it left an actor."""

    actors: str
    shard: int
    incarnation: int
    sequence: int


class Provenance(NamedTuple):
    """The sources of an item and, per policy, the oldest weight version that went into it."""

    sources: frozenset[Source]
    versions: Mapping[str, int]

    @staticmethod
    def unite(parts: Iterable[Provenance]) -> Provenance:
        """The provenance of something made of all ``parts``."""
        distinct = {id(part): part for part in parts}
        if len(distinct) == 1:
            return next(iter(distinct.values()))
        versions: dict[str, int] = {}
        for policy in dict.fromkeys(policy for part in distinct.values() for policy in part.versions):
            pools = {source.actors for part in distinct.values() if policy in part.versions for source in part.sources}
            concerned = [part for part in distinct.values() if any(source.actors in pools for source in part.sources)]
            versions[policy] = min(part.versions.get(policy, 0) for part in concerned)  # never updated is version 0
        return Provenance(frozenset().union(*(part.sources for part in distinct.values())), versions)


NOWHERE = Provenance(frozenset(), {})
"""The provenance of items that the driver made itself."""


@dataclass(frozen=True)
class CallOrigins(Sequence[Provenance]):
    """Where the items of one call come from that were made by that call: all that their provenances share, and their numbers.
    Each provenance is made when it is looked at."""

    actors: str
    shard: int
    incarnation: int
    versions: Mapping[str, int]
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Provenance]:
        new = tuple.__new__  # as Source() and Provenance() do, but without a step of Python's in it: this is done for every item
        fields = zip(repeat(self.actors), repeat(self.shard), repeat(self.incarnation), self.numbers)  # endless
        sources = map(frozenset, zip(map(new, repeat(Source), fields)))  # of one each
        return map(new, repeat(Provenance), zip(sources, repeat(self.versions)))  # endless

    @overload
    def __getitem__(self, index: int) -> Provenance: ...

    @overload
    def __getitem__(self, index: slice) -> list[Provenance]: ...

    def __getitem__(self, index: int | slice) -> Provenance | list[Provenance]:
        return list(self)[index]


@dataclass(frozen=True)
class TimeBudget:
    """How many items one call may bring: as many as are ready in ``seconds``, within bounds on their number and size.

    For items that take much less time than a call. All items of a call are made with the same weights, so the last of them is up
    to ``items - 1`` items older than it would be with one item per call.

    >>> from tflow import TimeBudget
    >>> TimeBudget()
    TimeBudget(seconds=0.005, items=10000, megabytes=4.0)
    """

    seconds: float = 0.005
    items: int = 10_000
    megabytes: float = 4.0


class Columnar(Generic[A]):
    """A value with named columns, which its type argument names. Types are shown by their columns."""

    __slots__ = ()


class Keyed(Generic[A, B]):
    """A value with a part for each of some names: the first type argument names the columns of all, the second the parts."""

    __slots__ = ()


class Frozen:
    """A value that nobody changes after it was made. The branches of a split share it; other values are copied."""

    __slots__ = ()
