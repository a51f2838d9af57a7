"""Descriptions of actors. Making one of these starts nothing: the runtime makes the actors when a run needs them.

Two equal descriptions are two sets of actors: they are told apart as objects, never by what they contain.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal

from tflow.combinators import check, labels
from tflow.errors import PlanError
from tflow.laws import NO_EFFECTS, obeys
from tflow.types import A, D, Shard, W, W_co


@dataclass(frozen=True, eq=False)
class Place:
    """Where an actor is to live, and what it needs there. Runtimes of one process have one place and need nothing."""

    cpus: float | None = None
    """CPUs to reserve; None reserves nothing."""
    gpus: float = 0
    custom: Mapping[str, float] = field(default_factory=dict)
    """Resources of nodes by the names that the cluster gives them."""
    nodes: Literal["any", "spread", "same"] = "any"
    """Over as many nodes as possible, or all on one."""
    beside: Actors[object] | None = None
    """On the nodes where these are: shard i beside their shard i, again from the first when there are more."""

    def __post_init__(self) -> None:
        if self.cpus is not None:
            check.at_least_zero("Place", "cpus", self.cpus)
        check.at_least_zero("Place", "gpus", self.gpus)
        check.instance("Place", "custom", self.custom, Mapping, "a mapping from names to numbers")
        for name, amount in self.custom.items():
            check.at_least_zero("Place", f"custom[{name!r}]", amount)
        check.one_of("Place", "nodes", self.nodes, ("any", "spread", "same"))
        if self.beside is not None:
            check.instance("Place", "beside", self.beside, Actors, "what create_actors returns")
            if self.nodes != "any":
                raise PlanError(f"Place: give either beside= or nodes={self.nodes!r}; together they may contradict each other.")

    def __repr__(self) -> str:
        return labels.only_given(self)

    @property
    def needs(self) -> dict[str, float]:
        """What has to be free on its node."""
        amounts = {"CPU": self.cpus or 0, "GPU": self.gpus, **self.custom}
        return {name: amount for name, amount in amounts.items() if amount}


ANYWHERE = Place()


@dataclass(frozen=True, eq=False)
class Actors(Generic[W_co]):
    """``num`` actors, each made by ``make(shard)``. Any class can be an actor."""

    make: Callable[[Shard], W_co]
    num: int
    name: str
    mailbox: int = 8
    """How many events may wait at one actor before their sender has to."""
    timeout_s: float | None = None
    """How long an event may take before the actor counts as hung."""
    place: Place = ANYWHERE
    restores: bool = False
    """One that dies is restored from the latest checkpoint of the run. Without a checkpoint it starts fresh, with a warning."""

    def __post_init__(self) -> None:
        where = type(self).__name__
        check.function(where, self.make)
        check.called_with(where, self.make, "one argument, the Shard")
        check.integer(where, "num", self.num, least=1, most=check.MAX_ACTORS)
        check.integer(where, "mailbox", self.mailbox, least=1)
        if self.timeout_s is not None:
            check.positive(where, "timeout_s", self.timeout_s)
        check.instance(where, "name", self.name, str, "a string")
        check.instance(where, "place", self.place, Place, "a Place")

    def __repr__(self) -> str:
        return f"{self.name}[{self.num}]"

    def __str__(self) -> str:
        return self.name

    @property
    def label(self) -> str:
        """What drawings call them."""
        return self.name

    def actor_class(self) -> type | None:
        """The class of the actors, when it can be known without making one."""
        if inspect.isclass(self.make):
            return self.make
        try:
            made = inspect.get_annotations(self.make, eval_str=True).get("return")
        except Exception:  # an annotation can be any expression, and is evaluated here
            return None
        return made if inspect.isclass(made) and made is not typing.Any else None


class Actor(Actors[W_co]):
    """A single actor, such as a learner that trains beside sampling."""


class FedActor(Actor[W_co], Generic[W_co, A, D]):
    """An actor that says which items may be fed to it: operators that read whatever their actor reads want ``A``, of a stream
    that offers ``D``."""


class Resident(Actors[W_co]):
    """One object in the process of the driver. Operators that name it use it directly: ``live.resident(it)``."""


@obeys(NO_EFFECTS)
def create_actors(
    make: Callable[[Shard], W],
    *,
    num: int = 2,
    name: str | None = None,
    mailbox: int = 8,
    timeout_s: float | None = None,
    place: Place = ANYWHERE,
    restores: bool = False,
) -> Actors[W]:
    """Describe ``num`` actors made by ``make(shard)``; ``shard`` tells each its index and its seed.

    Up to ``mailbox`` events wait at each; one that takes longer than ``timeout_s`` for an event is restarted. ``place`` says
    what each needs of a cluster and where it should live. With ``restores``, one that dies comes back with its state in the
    latest checkpoint of the run.

    Law: describing creates nothing; two equal descriptions are two sets of actors.

    >>> from tflow import Shard, create_actors, from_actors
    >>> class Counter:
    ...     def __init__(self, start: int) -> None:
    ...         self.n = start
    ...     def next(self) -> int:
    ...         self.n += 1
    ...         return self.n
    >>> def make_counter(shard: Shard) -> Counter:
    ...     return Counter(10 * shard.index)
    >>> counters = create_actors(make_counter, num=2)
    >>> list(from_actors(counters, Counter.next).gather_sync().take(4).run())
    [1, 11, 2, 12]
    """
    return Actors(make, num, _name(name, make), mailbox, timeout_s, place, restores)


@obeys(NO_EFFECTS)
def create_actor(
    make: Callable[[Shard], W],
    *,
    name: str | None = None,
    mailbox: int = 8,
    timeout_s: float | None = None,
    place: Place = ANYWHERE,
    restores: bool = False,
) -> Actor[W]:
    """Describe one actor, for ``call`` and ``hand_off``. With ``restores``, it comes back after a death with its state in the
    latest checkpoint of the run; otherwise its death ends the run, unless ``on_death`` says otherwise.

    Law: describing creates nothing; two equal descriptions are two actors.
    """
    return Actor(make, 1, _name(name, make), mailbox, timeout_s, place, restores)


@obeys(NO_EFFECTS)
def create_resident(make: Callable[[Shard], W], *, name: str | None = None) -> Resident[W]:
    """Describe one object that lives in the driver, such as a learner that trains between two items.

    It is made when a run first needs it and outlives the session: ``run.ask(resident, method)`` works when the run is over.

    Law: describing creates nothing; two equal descriptions are two objects.
    """
    return Resident(make, 1, _name(name, make))


def _name(given: str | None, make: object) -> str:
    if given is not None:
        return given
    label = labels.label_of(make) if callable(make) else ""
    return label if label.isidentifier() else "actors"
