"""Nodes with several inputs or outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tflow.combinators import hints
from tflow.combinators.hints import Hint
from tflow.combinators.nodes.node import Mode, Node, Place, Refs, Size
from tflow.combinators.nodes.unary import Passing


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
