"""What a node of a plan says of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tflow.combinators import hints
from tflow.combinators.actors import Actor, Actors, Resident
from tflow.combinators.hints import Hint
from tflow.combinators.labels import Shown
from tflow.live import Gate
from tflow.types import AnyOp

if TYPE_CHECKING:
    from tflow.combinators.nodes.sources import ParSource

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
