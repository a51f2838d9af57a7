"""The nodes of a plan: frozen descriptions, compared by identity, with no behaviour beyond describing themselves.

``Iter`` and ``ParIter`` are typed shells around these; ``tflow.runtime`` gives each a cell that can be polled. The same
node stands on both sides of a gather: a ``Batch`` over a parallel input runs inside the actors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

from tflow.combinators.actors import Actor, Actors, Resident
from tflow.combinators.labels import Shown, label_of
from tflow.live import Gate
from tflow.types import AnyOp, TimeBudget

Function = Callable[..., object]
Mode = Literal["round_robin", "async"]
OnFull = Literal["block", "drop_oldest"]
OnDeath = Literal["restart", "skip", "raise"]
FAULTS = ", on_death={on_death}, timeout_s={timeout_s}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """One operator of a plan and, at the same time, the edge that leaves it."""

    name: str | None = None
    position: int = -1
    """Where the node stands in its plan; set only on the copies that travel to actors."""
    shown_as: str | None = None
    """The label of the original, on such a copy."""

    shape: ClassVar[str]
    """The operator with its arguments, such as ``batch({size})``."""
    limits: ClassVar[str] = ""
    """What bounds it: calls in flight, buffers, sizes."""
    chance: ClassVar[str] = ""
    """Why it may decide differently in another run; empty if it cannot."""
    always_sync: ClassVar[bool | None] = None
    """None: it is synchronous if its inputs are."""
    holds_back: ClassVar[bool] = False
    """True if, inside an actor, items of an earlier call may wait in it for a later one: then they are not fresh."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes whose edges this one consumes."""
        return ()

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

    @property
    def what(self) -> str:
        """The operator as users wrote it, such as ``par_map(double)``."""
        text = self.shape.format_map(Shown(self))
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


@dataclass(frozen=True, eq=False)
class FromActors(ParSource):
    """One shard per actor. An item is one call of ``pull(actor)``, or, if the stream ``opens`` its actors, one member of
    ``pull(actor)``, which is then called once per run."""

    pull: Function
    opens: bool = False
    gate: Resident[Gate] | None = None
    """Says when the actors may be asked."""
    title: str = ""
    """What made the stream, if it has a name of its own."""

    @property
    def what(self) -> str:
        if self.title:
            return f"{self.title}({self.of.name})"
        return f"{self.of.name}(...)" if self.opens else f"from_actors({self.of.name}, {label_of(self.pull)})"


@dataclass(frozen=True, eq=False)
class Scatter(ParSource):
    """Driver items dealt to fresh actors, one item per call."""

    up: Node
    always_sync: ClassVar[bool | None] = False
    holds_back: ClassVar[bool] = True

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.up,)

    @property
    def what(self) -> str:
        return f"repartition({self.of.num})"


# --------------------------------------------------------------------------- one input


@dataclass(frozen=True, eq=False)
class Unary(Node):
    """A node with one input."""

    up: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.up,)


@dataclass(frozen=True, eq=False)
class Map(Unary):
    fn: Function
    shape: ClassVar[str] = "map({fn})"


@dataclass(frozen=True, eq=False)
class Filter(Unary):
    fn: Function
    shape: ClassVar[str] = "filter({fn})"


@dataclass(frozen=True, eq=False)
class Tap(Unary):
    fn: Function
    shape: ClassVar[str] = "tap({fn})"


@dataclass(frozen=True, eq=False)
class FlatMap(Unary):
    fn: Function
    shape: ClassVar[str] = "flat_map({fn})"
    holds_back: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class Scan(Unary):
    fn: Function
    initial: object
    shape: ClassVar[str] = "scan({fn})"


@dataclass(frozen=True, eq=False)
class ForEach(Unary):
    op: AnyOp
    shape: ClassVar[str] = "for_each({op})"


@dataclass(frozen=True, eq=False)
class Batch(Unary):
    size: int
    weigh: Function | None = None
    """How much an item counts; one, if it is not given."""
    cut: Function | None = None
    """``cut(item, weight)``: an item in two, so that a group weighs no more than ``size``."""

    @cached_property
    def sync(self) -> bool:
        """What is cut off waits for the next group, and is older than it."""
        return self.up.sync and self.cut is None

    shape: ClassVar[str] = "batch({size})"


@dataclass(frozen=True, eq=False)
class Flatten(Unary):
    shape: ClassVar[str] = "flatten()"
    holds_back: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class Take(Unary):
    count: int
    shape: ClassVar[str] = "take({count})"


@dataclass(frozen=True, eq=False)
class Shuffle(Unary):
    buffer: int
    seed: int
    shape: ClassVar[str] = "shuffle({buffer})"
    limits: ClassVar[str] = "buffer={buffer}, seed={seed}"
    always_sync: ClassVar[bool | None] = False
    holds_back: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class MixIn(Unary):
    """Earlier items once more, between the new ones."""

    slots: int
    proportion: float
    seed: int
    shape: ClassVar[str] = "MixInReplay()"
    limits: ClassVar[str] = "slots={slots}, proportion={proportion}, seed={seed}"
    always_sync: ClassVar[bool | None] = False


@dataclass(frozen=True, eq=False)
class Drain(Unary):
    shape: ClassVar[str] = "drain()"


@dataclass(frozen=True, eq=False)
class Every(Unary):
    unit: Literal["items", "steps", "seconds"]
    amount: float
    shape: ClassVar[str] = "every({unit}={amount})"

    @property
    def unpredictable(self) -> str:
        return "reads the clock" if self.unit == "seconds" else ""


@dataclass(frozen=True, eq=False)
class SelectShards(Unary):
    chosen: tuple[int, ...]

    @property
    def what(self) -> str:
        return f"select_shards({', '.join(map(str, self.chosen))})"


# --------------------------------------------------------------------------- from actors to the driver


@dataclass(frozen=True, eq=False)
class Gathering(Unary):
    """A node that turns a parallel stream into a driver stream."""

    on_death: OnDeath = "restart"
    timeout_s: float | None = None

    @cached_property
    def parallel(self) -> bool:
        return False


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


@dataclass(frozen=True, eq=False)
class GatherAsync(Gathering):
    in_flight: int = 1
    per_call: int | TimeBudget = 1
    max_staleness: int | None = None
    shape: ClassVar[str] = "gather_async()"
    limits: ClassVar[str] = "in_flight={in_flight}, per_call={per_call}, max_staleness={max_staleness}" + FAULTS
    chance: ClassVar[str] = "order depends on which actor answers first"
    always_sync: ClassVar[bool | None] = False


@dataclass(frozen=True, eq=False)
class CallActor(Unary):
    """Each item is a call to one actor; nothing else is pulled meanwhile."""

    actor: Actor[object]
    op: AnyOp
    on_death: OnDeath = "raise"
    timeout_s: float | None = None
    shape: ClassVar[str] = "call({actor}, {op})"
    limits: ClassVar[str] = "one call in flight" + FAULTS


@dataclass(frozen=True, eq=False)
class HandOff(CallActor):
    """Items fill the mailbox of one actor; results come back in order."""

    mailbox: int = 2
    on_full: OnFull = "block"
    shape: ClassVar[str] = "hand_off({actor}, {op})"
    limits: ClassVar[str] = "mailbox={mailbox}, on_full={on_full}" + FAULTS
    chance: ClassVar[str] = "how far the actor has come depends on timing"
    always_sync: ClassVar[bool | None] = False


# --------------------------------------------------------------------------- several inputs or outputs


@dataclass(frozen=True, eq=False)
class Zip(Node):
    left: Node
    right: Node
    shape: ClassVar[str] = "zip()"

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @cached_property
    def sync(self) -> bool:
        """Inside an actor both sides are read in one call; on the driver one side waits for the other."""
        return self.parallel and self.left.sync and self.right.sync


@dataclass(frozen=True, eq=False)
class Several(Node):
    streams: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.streams


@dataclass(frozen=True, eq=False)
class UnionOf(Several):
    weights: tuple[float, ...] | None
    mode: Mode
    shape: ClassVar[str] = "Union()"
    limits: ClassVar[str] = "mode={mode}, weights={weights}"
    always_sync: ClassVar[bool | None] = False

    @property
    def unpredictable(self) -> str:
        return "serves whoever is ready" if self.mode == "async" else ""


@dataclass(frozen=True, eq=False)
class ParUnionOf(Several):
    shape: ClassVar[str] = "ParUnion()"


@dataclass(frozen=True, eq=False)
class Split(Unary):
    """Not an edge itself: its branches are."""

    branches: int
    max_lag: int | None
    shape: ClassVar[str] = "split({branches})"

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
