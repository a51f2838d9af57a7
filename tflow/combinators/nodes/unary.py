"""Nodes with one input."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tflow import sentences
from tflow.combinators import hints
from tflow.combinators.actors import Actors
from tflow.combinators.hints import Hint
from tflow.combinators.nodes.node import Function, Node, Place, Refs, Size, StepKind
from tflow.combinators.signatures import signature_of
from tflow.errors import PlanError
from tflow.types import AnyOp, LiveOp, RefOp, Signature, Stateful, StatefulActorOp, StatefulLiveOp, shows_at_end


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
