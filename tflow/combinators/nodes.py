"""The nodes of a plan: frozen descriptions, compared by identity.

What the rest of the system must know of a node stands on its class, once: how it is shown, what it yields, whether it looks into
items, what it ships to actors, which actors it names, how its shards are arranged. ``Iter`` and ``ParIter`` are typed shells
around nodes; ``tflow.runtime`` gives each a cell that can be polled. The same node stands on both sides of a gather:
a ``BatchItems`` over a parallel input runs inside the actors.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from tflow import sentences
from tflow.combinators import hints
from tflow.combinators.actors import Actor, Actors, Resident
from tflow.combinators.hints import Hint
from tflow.combinators.labels import Shown, label_of
from tflow.combinators.methods import portable
from tflow.combinators.signatures import signature_of
from tflow.errors import PlanError
from tflow.live import Gate
from tflow.types import AnyOp, LiveOp, RefOp, Signature, Stateful, StatefulActorOp, StatefulLiveOp, TimeBudget, shows_at_end

Function = Callable[..., object]
Mode = Literal["round_robin", "async"]
OnFull = Literal["block", "drop_oldest"]
OnDeath = Literal["restart", "skip", "raise"]
Missing = Literal["raise", "skip"]
"""What to do when a shard gives nothing to a round of all."""
StepKind = Literal["map", "filter", "tap", "scan", "step"]
Refs = Literal["opens", "passes", "forwards", "takes"]
Size = Callable[[Actors[object]], int]
"""How many actors of a description there are."""
FAULTS = ", on_death={on_death}, timeout_s={timeout_s}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """One operator of a plan and, at the same time, the edge that leaves it."""

    name: str | None = None
    position: int = -1
    """Where the node stands in its plan; set only on the copies that travel to actors."""
    shown_as: str | None = None
    """A label that replaces the usual one: of a class of streams, or of the original on a copy for an actor."""

    # How it is shown.
    shape: ClassVar[str] = ""
    """The operator with its arguments, such as ``batch({size})``; empty: the name of the class."""
    limits: ClassVar[str] = ""
    """What bounds it: calls in flight, buffers, sizes."""

    # How it behaves in time.
    chance: ClassVar[str] = ""
    """Why it may decide differently in another run; empty if it cannot."""
    always_sync: ClassVar[bool | None] = None
    """None: it is synchronous if its inputs are."""
    holds_back: ClassVar[bool] = False
    """True if, inside an actor, items of an earlier call may wait in it for a later one: then they are not fresh."""

    # How it treats items.
    one_to_one: ClassVar[bool] = True
    """False if what leaves it is not one item per item that entered."""
    gathers: ClassVar[bool] = False
    """True if its items come from actors to the driver."""
    fuses_as: ClassVar[StepKind | None] = None
    """What ``step`` answers, if it depends on the class alone."""
    is_edge: ClassVar[bool] = True
    """False for a split, whose branches are the edges."""
    arranges: ClassVar[bool] = False
    """True if it only says which shards there are: nothing of it runs."""

    cell: ClassVar[Any] = None  # Any: a class of tflow.runtime, of which this layer knows nothing
    """What runs it, for a node that is not one of tflow's own: ``cell(node, inputs, site)``."""

    # ------------------------------------------------------------------- the graph

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes whose edges this one consumes."""
        return ()

    def with_inputs(self, new: dict[Node, Node]) -> Node:
        """The same node behind other inputs; itself if nothing changes."""
        moved = {each.name: _replaced(getattr(self, each.name), new) for each in fields(self)}
        changed = {name: value for name, value in moved.items() if value is not getattr(self, name)}
        return replace(self, **changed) if changed else self

    @cached_property
    def parallel(self) -> bool:
        """True if it runs inside the actors of a parallel stream."""
        return bool(self.inputs) and all(node.parallel for node in self.inputs)

    @cached_property
    def sync(self) -> bool:
        """True if an update made between two items reaches all that follow."""
        if self.always_sync is not None:
            return self.always_sync
        return all(node.sync for node in self.inputs) and not (self.parallel and self.holds_back)

    @cached_property
    def deterministic(self) -> bool:
        """True if no decision up to here depends on completion order or on the clock."""
        return not self.unpredictable and all(node.deterministic for node in self.inputs)

    # ------------------------------------------------------------------- how it is shown

    @property
    def what(self) -> str:
        """The operator as users wrote it, such as ``par_map(double)``."""
        text = self.shape.format_map(Shown(self)) or f"{type(self).__name__}()"
        return f"par_{text}" if self.parallel and self.inputs and text[0].islower() else text

    @property
    def label(self) -> str:
        """How errors and drawings call this node."""
        return self.shown_as or (f"{self.what} '{self.name}'" if self.name else self.what)

    @property
    def bounds(self) -> str:
        """The limits that are set, filled in."""
        limits = self.limits.format_map(Shown(self)).split(", ")
        usual = f"on_death={getattr(type(self), 'on_death', None)}"  # goes without saying
        return ", ".join(limit for limit in limits if not limit.endswith("=None") and limit != usual)

    @property
    def unpredictable(self) -> str:
        """Why this node may decide differently in another run; empty if it cannot."""
        return self.chance

    @property
    def where(self) -> Literal["driver", "actor"]:
        """Where its operator runs."""
        return "actor" if self.parallel else "driver"

    # ------------------------------------------------------------------- what it does to items

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        """The type of what leaves it when ``inputs`` enter it."""
        return inputs[0] if inputs else hints.UNKNOWN

    @property
    def refs(self) -> Refs:
        """What it does with items that stayed in an actor: it ``opens`` them, ``passes`` them on, ``forwards`` others that may
        also be elsewhere, or ``takes`` them unopened, so that they had better stay where they are."""
        return "opens"

    @property
    def one_item_per_call(self) -> bool:
        """True for a gather, if each call brings one item."""
        return True

    @property
    def step(self) -> StepKind | None:
        """How the result of its function is used, if it works item by item and can be fused with its neighbours."""
        return self.fuses_as

    @property
    def shows_more(self) -> bool:
        """True if it may show more items when its input has ended."""
        return False

    # ------------------------------------------------------------------- what it needs

    @property
    def operator(self) -> AnyOp | None:
        """The operator that it applies; it is checked against the stream and the place where it runs."""
        return None

    @property
    def host(self) -> Actor[object] | None:
        """The actor that it runs its operator in, if it is one for all items."""
        return None

    @property
    def gate(self) -> Resident[Gate] | None:
        """What says when its actors may be asked."""
        return None

    @property
    def sends_to(self) -> tuple[Actors[object], ...]:
        """The actors and residents that its operator may send messages to."""
        return ()

    @property
    def actors(self) -> tuple[Actors[object], ...]:
        """All actors and residents that it names."""
        return self.sends_to

    @property
    def ships(self) -> tuple[object, ...]:
        """What is sent to actors with it."""
        return ()

    def check(self, given: tuple[Hint, ...], order: Sequence[Node]) -> None:
        """Raise ``PlanError`` if it cannot work behind inputs that yield ``given``, in a plan of the nodes ``order``."""

    # ------------------------------------------------------------------- shards

    def places(self, inputs: list[list[Place]], size: Size) -> list[Place]:
        """Where each of its shards begins, given where those of its parallel inputs do."""
        return inputs[0]

    def reads(self, shard: int, counts: Sequence[int]) -> list[tuple[Node, int]]:
        """Which shard of which input one of its shards reads; the inputs have ``counts`` shards."""
        return [(up, shard) for up in self.inputs]

    def inside(self) -> Node | None:
        """What stands for it inside an actor, where it begins a stream; None for what is the same there."""
        return None


Place = tuple["ParSource", int]
"""Where a shard begins, and which of the actors there it is."""


def _replaced(value: object, new: dict[Node, Node]) -> Any:  # Any: the field of a node, whatever it holds
    if isinstance(value, Node):
        return new[value]
    if isinstance(value, dict):
        moved = {key: _replaced(item, new) for key, item in value.items()}
        return moved if any(moved[key] is not item for key, item in value.items()) else value
    if isinstance(value, (list, tuple)):
        items = [_replaced(item, new) for item in value]
        return type(value)(items) if any(mine is not item for mine, item in zip(items, value, strict=True)) else value
    return value


# --------------------------------------------------------------------------- sources


@dataclass(frozen=True, eq=False)
class FromItems(Node):
    """Items made by the driver: a value that can be read again, or a function that makes an iterable."""

    items: object
    repeat: bool

    @property
    def what(self) -> str:
        if isinstance(self.items, range):
            return f"from_range({self.items.stop})"
        return f"from_iterable({label_of(self.items)})" if callable(self.items) else "from_items(...)"

    @property
    def bounds(self) -> str:
        return "repeat" if self.repeat else ""

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return hints.member(hints.result_of(self.items)) if callable(self.items) else hints.of_values(self.items)


@dataclass(frozen=True, eq=False)
class ParSource(Node):
    """A node where a parallel stream begins."""

    of: Actors[object]
    limits: ClassVar[str] = "shards={shards}"

    @property
    def shards(self) -> int:
        return self.of.num

    @cached_property
    def parallel(self) -> bool:
        return True

    @property
    def actors(self) -> tuple[Actors[object], ...]:
        return (self.of,)

    @property
    def holds_actors(self) -> bool:
        """True if an operator inside finds an actor of the user's there."""
        return False

    def places(self, inputs: list[list[Place]], size: Size) -> list[Place]:
        return [(self, index) for index in range(size(self.of))]

    def reads(self, shard: int, counts: Sequence[int]) -> list[tuple[Node, int]]:
        return []


@dataclass(frozen=True, eq=False)
class FromActors(ParSource):
    """One shard per actor. An item is one call of ``pull(actor)``, or, if the stream ``opens`` its actors, one member of
    ``pull(actor)``, which is then called once per run."""

    pull: Function
    opens: bool = False
    limiter: Resident[Gate] | None = None
    """Says when the actors may be asked."""
    holds: Hint = hints.UNKNOWN
    """The type of the items, if the stream opens its actors."""
    stored: bool = False
    """Items were made before they are asked for, and kept: no barrier makes them fresh."""

    @cached_property
    def sync(self) -> bool:
        return not self.stored

    @property
    def what(self) -> str:
        return f"{self.of.name}(...)" if self.opens else f"from_actors({self.of.name}, {label_of(self.pull)})"

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return self.holds if self.opens else hints.result_of(self.pull)

    @property
    def gate(self) -> Resident[Gate] | None:
        return self.limiter

    @property
    def actors(self) -> tuple[Actors[object], ...]:
        return (self.of,) if self.limiter is None else (self.of, self.limiter)

    @property
    def holds_actors(self) -> bool:
        return not self.opens

    @property
    def ships(self) -> tuple[object, ...]:
        return self.of.make, self.pull

    def inside(self) -> Node:
        return Pulled(portable(self.pull), self.opens)


@dataclass(frozen=True, eq=False)
class FedSource(ParSource):
    """A parallel stream whose shards are fed by the driver."""

    up: Node
    feeds: ClassVar[Literal["one", "each", "all", "own"]]
    """An item goes to one shard, its members go to one shard each, or it goes to all of them; or each shard that gave to it gets
    its own member back."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.up,)

    @property
    def refs(self) -> Refs:
        return "takes"

    def inside(self) -> Node:
        return Fed()


@dataclass(frozen=True, eq=False)
class Repartition(FedSource):
    """Driver items dealt to fresh actors, one item per call."""

    feeds: ClassVar[Literal["one", "each", "all", "own"]] = "one"
    always_sync: ClassVar[bool | None] = False
    holds_back: ClassVar[bool] = True

    @property
    def what(self) -> str:
        return f"repartition({self.of.num})"


@dataclass(frozen=True, eq=False)
class Scatter(FedSource):
    """Driver items that are lists: member i goes to shard i."""

    feeds: ClassVar[Literal["one", "each", "all", "own"]] = "each"
    shape: ClassVar[str] = "scatter({of})"

    @property
    def holds_actors(self) -> bool:
        return True

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return hints.member(inputs[0])


@dataclass(frozen=True, eq=False)
class AllGather(FedSource):
    """Every shard gets one item of each shard, as a list."""

    on_death: Missing
    first: ParSource
    """Where the stream begins."""
    feeds: ClassVar[Literal["one", "each", "all", "own"]] = "all"
    shape: ClassVar[str] = "all_gather()"

    @property
    def holds_actors(self) -> bool:
        return self.first.holds_actors

    def places(self, inputs: list[list[Place]], size: Size) -> list[Place]:
        return [(self, index) for _, index in inputs[0]]


@dataclass(frozen=True, eq=False)
class BatchTogether(AllGather):
    """Every shard gets the list of its own items back."""

    feeds: ClassVar[Literal["one", "each", "all", "own"]] = "own"
    shape: ClassVar[str] = "batch_together()"

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return hints.member(inputs[0])


# --------------------------------------------------------------------------- sources inside an actor


@dataclass(frozen=True, eq=False)
class Pulled(Node):
    """What ``FromActors`` is inside an actor."""

    pull: Function
    opens: bool


@dataclass(frozen=True, eq=False)
class Fed(Node):
    """Items that the driver sends along with the call."""


# --------------------------------------------------------------------------- one input


@dataclass(frozen=True, eq=False)
class Unary(Node):
    """A node with one input."""

    up: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.up,)


@dataclass(frozen=True, eq=False)
class Passing(Unary):
    """A node that moves items on without looking into them."""

    @property
    def refs(self) -> Refs:
        return "passes"


@dataclass(frozen=True, eq=False)
class Applying(Unary):
    """A node that applies a function."""

    fn: Function

    @property
    def ships(self) -> tuple[object, ...]:
        return (self.fn,) if self.parallel else ()


@dataclass(frozen=True, eq=False)
class Map(Applying):
    shape: ClassVar[str] = "map({fn})"
    fuses_as: ClassVar[StepKind | None] = "map"

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return hints.result_of(self.fn, inputs[0])


@dataclass(frozen=True, eq=False)
class Filter(Applying):
    shape: ClassVar[str] = "filter({fn})"
    fuses_as: ClassVar[StepKind | None] = "filter"
    one_to_one: ClassVar[bool] = False

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return hints.narrowed(self.fn, inputs[0])


@dataclass(frozen=True, eq=False)
class Tap(Applying):
    shape: ClassVar[str] = "tap({fn})"
    fuses_as: ClassVar[StepKind | None] = "tap"


@dataclass(frozen=True, eq=False)
class FlatMap(Applying):
    shape: ClassVar[str] = "flat_map({fn})"
    holds_back: ClassVar[bool] = True
    one_to_one: ClassVar[bool] = False

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return hints.member(hints.result_of(self.fn))


@dataclass(frozen=True, eq=False)
class Scan(Applying):
    initial: object
    shape: ClassVar[str] = "scan({fn})"
    fuses_as: ClassVar[StepKind | None] = "scan"

    @property
    def ships(self) -> tuple[object, ...]:
        return (self.fn, self.initial) if self.parallel else ()

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return hints.result_of(self.fn)


@dataclass(frozen=True, eq=False)
class Operating(Unary):
    """A node that applies an operator."""

    op: AnyOp

    @property
    def operator(self) -> AnyOp:
        return self.op

    @cached_property
    def signature(self) -> Signature:
        """What the operator says of itself, whatever it is given."""
        return signature_of(self.op, host=self.host)

    @property
    def applied(self) -> str:
        """How the operator is shown."""
        return self.signature.label

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return signature_of(self.op, inputs[0], self.host).produces

    @property
    def sends_to(self) -> tuple[Actors[object], ...]:
        return typing.cast("tuple[Actors[object], ...]", self.signature.sends_to)

    @property
    def ships(self) -> tuple[object, ...]:
        return (self.op,) if self.where == "actor" else ()


@dataclass(frozen=True, eq=False)
class ForEach(Operating):
    shape: ClassVar[str] = "for_each({applied})"

    @property
    def refs(self) -> Refs:
        if isinstance(self.op, RefOp):
            return "takes"
        return "opens" if self.op.opens else "forwards"

    @property
    def step(self) -> StepKind | None:
        if isinstance(self.op, (LiveOp, StatefulLiveOp)):
            return None  # it talks to actors, so it is a cell of its own
        return "step" if isinstance(self.op, (Stateful, StatefulActorOp)) else "map"

    @property
    def shows_more(self) -> bool:
        return shows_at_end(self.op)


@dataclass(frozen=True, eq=False)
class Reduce(ForEach):
    """The operator of ``par_all_reduce``."""

    shape: ClassVar[str] = "all_reduce({applied})"


@dataclass(frozen=True, eq=False)
class BatchItems(Unary):
    size: int
    weigh: Function | None = None
    """How much an item counts; one, if it is not given."""
    cut: Function | None = None
    """``cut(item, weight)``: an item in two, so that a group weighs no more than ``size``."""
    shape: ClassVar[str] = "batch({size})"
    one_to_one: ClassVar[bool] = False

    @cached_property
    def sync(self) -> bool:
        """What is cut off waits for the next group, and is older than it."""
        return self.up.sync and self.cut is None

    @property
    def refs(self) -> Refs:
        return "passes" if self.weigh is None else "opens"

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return hints.generic(list, inputs[0])


@dataclass(frozen=True, eq=False)
class Flatten(Unary):
    shape: ClassVar[str] = "flatten()"
    holds_back: ClassVar[bool] = True
    one_to_one: ClassVar[bool] = False

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return hints.member(inputs[0])


@dataclass(frozen=True, eq=False)
class Take(Passing):
    count: int
    shape: ClassVar[str] = "take({count})"

    def check(self, given: tuple[Hint, ...], order: Sequence[Node]) -> None:
        if given[0] is typing.Never:
            raise PlanError(sentences.never_ends(self.label))


@dataclass(frozen=True, eq=False)
class Shuffle(Passing):
    buffer: int
    seed: int
    shape: ClassVar[str] = "shuffle({buffer})"
    limits: ClassVar[str] = "buffer={buffer}, seed={seed}"
    always_sync: ClassVar[bool | None] = False
    holds_back: ClassVar[bool] = True
    one_to_one: ClassVar[bool] = False


@dataclass(frozen=True, eq=False)
class MixIn(Passing):
    """Earlier items once more, between the new ones."""

    slots: int
    proportion: float
    seed: int
    shape: ClassVar[str] = "mix_in()"
    limits: ClassVar[str] = "slots={slots}, proportion={proportion}, seed={seed}"
    always_sync: ClassVar[bool | None] = False
    one_to_one: ClassVar[bool] = False


@dataclass(frozen=True, eq=False)
class Drain(Passing):
    shape: ClassVar[str] = "drain()"
    one_to_one: ClassVar[bool] = False

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return typing.Never


@dataclass(frozen=True, eq=False)
class Every(Passing):
    unit: Literal["items", "steps", "seconds"]
    amount: float
    shape: ClassVar[str] = "every({unit}={amount})"
    one_to_one: ClassVar[bool] = False

    @property
    def unpredictable(self) -> str:
        return "reads the clock" if self.unit == "seconds" else ""

    def check(self, given: tuple[Hint, ...], order: Sequence[Node]) -> None:
        if self.unit == "steps" and not any(isinstance(node, Gathering) for node in order):
            raise PlanError(
                f"{self.label} would never open: env steps are counted where items of actors arrive, and there are no items of "
                "actors in this plan."
            )


@dataclass(frozen=True, eq=False)
class SelectShards(Unary):
    chosen: tuple[int, ...]
    arranges: ClassVar[bool] = True

    @property
    def what(self) -> str:
        return f"select_shards({', '.join(map(str, self.chosen))})"

    def places(self, inputs: list[list[Place]], size: Size) -> list[Place]:
        return [inputs[0][index] for index in self.chosen if index < len(inputs[0])]

    def reads(self, shard: int, counts: Sequence[int]) -> list[tuple[Node, int]]:
        return [(self.up, [index for index in self.chosen if index < counts[0]][shard])]


# --------------------------------------------------------------------------- from actors to the driver


@dataclass(frozen=True, eq=False)
class Gathering(Unary):
    """A node that turns a parallel stream into a driver stream."""

    on_death: OnDeath = "restart"
    timeout_s: float | None = None
    gathers: ClassVar[bool] = True

    @cached_property
    def parallel(self) -> bool:
        return False

    @property
    def refs(self) -> Refs:
        return "takes"


@dataclass(frozen=True, eq=False)
class GatherSync(Gathering):
    rounds: bool = field(kw_only=True)
    limits: ClassVar[str] = "one call per shard and round" + FAULTS

    @cached_property
    def sync(self) -> bool:
        """A barrier, except over shards that are fed: the driver has pulled their items ahead of time."""
        return self.up.sync

    @property
    def what(self) -> str:
        return "gather_rounds()" if self.rounds else "gather_sync()"

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return hints.generic(list, inputs[0]) if self.rounds else inputs[0]


@dataclass(frozen=True, eq=False)
class GatherWhole(GatherSync):
    """Rounds of exactly one item of every shard; they go back to the shards."""

    @property
    def what(self) -> str:
        return "par_all_gather()"


@dataclass(frozen=True, eq=False, kw_only=True)
class GatherTogether(GatherWhole):
    """Rounds of up to ``size`` items of every shard; each shard gets its own back, as a list."""

    size: int
    share: float
    per_call: int | TimeBudget
    limits: ClassVar[str] = "size={size}, share={share}, per_call={per_call}" + FAULTS

    @property
    def what(self) -> str:
        return f"par_batch_together({self.size})"

    @property
    def one_item_per_call(self) -> bool:
        return False

    @property
    def unpredictable(self) -> str:
        return "" if self.share == 1 else "which shards are cut depends on timing"

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return hints.generic(list, hints.generic(list, inputs[0]))


@dataclass(frozen=True, eq=False)
class GatherAsync(Gathering):
    in_flight: int = 1
    per_call: int | TimeBudget = 1
    max_staleness: int | None = None
    shape: ClassVar[str] = "gather_async()"
    limits: ClassVar[str] = "in_flight={in_flight}, per_call={per_call}, max_staleness={max_staleness}" + FAULTS
    chance: ClassVar[str] = "order depends on which actor answers first"
    always_sync: ClassVar[bool | None] = False

    @property
    def one_item_per_call(self) -> bool:
        return self.per_call == 1


@dataclass(frozen=True, eq=False, kw_only=True)
class CallActor(Operating):
    """Each item is a call to one actor; nothing else is pulled meanwhile."""

    actor: Actor[object]
    on_death: OnDeath = "raise"
    timeout_s: float | None = None
    shape: ClassVar[str] = "call({actor}, {applied})"
    limits: ClassVar[str] = "one call in flight" + FAULTS
    gathers: ClassVar[bool] = True

    @property
    def host(self) -> Actor[object]:
        return self.actor

    @property
    def where(self) -> Literal["driver", "actor"]:
        return "actor"

    @property
    def refs(self) -> Refs:
        return "takes"

    @property
    def actors(self) -> tuple[Actors[object], ...]:
        return (self.actor, *self.sends_to)


@dataclass(frozen=True, eq=False, kw_only=True)
class HandOff(CallActor):
    """Items fill the mailbox of one actor; results come back in order."""

    mailbox: int = 2
    on_full: OnFull = "block"
    shape: ClassVar[str] = "hand_off({actor}, {applied})"
    limits: ClassVar[str] = "mailbox={mailbox}, on_full={on_full}" + FAULTS
    chance: ClassVar[str] = "how far the actor has come depends on timing"
    always_sync: ClassVar[bool | None] = False


# --------------------------------------------------------------------------- several inputs or outputs


@dataclass(frozen=True, eq=False)
class Zip(Node):
    left: Node
    right: Node
    shape: ClassVar[str] = "zip()"
    one_to_one: ClassVar[bool] = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @cached_property
    def sync(self) -> bool:
        """Inside an actor both sides are read in one call; on the driver one side waits for the other."""
        return self.parallel and self.left.sync and self.right.sync

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return hints.generic(tuple, *inputs)


@dataclass(frozen=True, eq=False)
class Merging(Node):
    """A node with several inputs of one kind."""

    streams: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.streams

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return hints.common(inputs)


@dataclass(frozen=True, eq=False)
class UnionOf(Merging):
    weights: tuple[float, ...] | None
    mode: Mode
    shape: ClassVar[str] = "Union()"
    limits: ClassVar[str] = "mode={mode}, weights={weights}"
    always_sync: ClassVar[bool | None] = False

    @property
    def unpredictable(self) -> str:
        return "serves whoever is ready" if self.mode == "async" else ""

    @property
    def refs(self) -> Refs:
        return "passes"


@dataclass(frozen=True, eq=False)
class ParUnionOf(Merging):
    shape: ClassVar[str] = "ParUnion()"
    arranges: ClassVar[bool] = True

    def places(self, inputs: list[list[Place]], size: Size) -> list[Place]:
        return [place for each in inputs for place in each]

    def reads(self, shard: int, counts: Sequence[int]) -> list[tuple[Node, int]]:
        for stream, count in zip(self.streams, counts, strict=True):
            if shard < count:
                return [(stream, shard)]
            shard -= count
        raise IndexError(shard)


@dataclass(frozen=True, eq=False)
class Split(Passing):
    """Not an edge itself: its branches are."""

    branches: int
    max_lag: int | None
    shape: ClassVar[str] = "split({branches})"
    is_edge: ClassVar[bool] = False

    @cached_property
    def sync(self) -> bool:
        return self.up.sync and self.max_lag is None

    @property
    def bounds(self) -> str:
        return "lock step" if self.max_lag is None else f"max_lag={self.max_lag}"


@dataclass(frozen=True, eq=False)
class Branch(Node):
    split: Split
    index: int
    shape: ClassVar[str] = "branch {index}"

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.split,)

    @property
    def refs(self) -> Refs:
        return "passes"
