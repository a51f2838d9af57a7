"""Where streams begin: on the driver, in actors, and inside an actor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from tflow.combinators import hints
from tflow.combinators.actors import Actors, Resident
from tflow.combinators.hints import Hint
from tflow.combinators.labels import label_of
from tflow.combinators.methods import portable
from tflow.combinators.nodes.node import Function, Missing, Node, Place, Refs, Size
from tflow.live import Gate


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


@dataclass(frozen=True, eq=False)
class Pulled(Node):
    """What ``FromActors`` is inside an actor."""

    pull: Function
    opens: bool


@dataclass(frozen=True, eq=False)
class Fed(Node):
    """Items that the driver sends along with the call."""
