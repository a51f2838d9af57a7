"""A combinator that is defined in this file alone: a node, a function, a cell. Nothing else in tflow hears of it.

It prints, validates, is drawn and checked, obeys its laws in the simulator and runs on Ray, on the driver and inside actors.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.world import RUNTIMES, over_runtimes_and_ray
from tflow import (
    ActorOp,
    Async,
    Iter,
    LocalRuntime,
    ParIter,
    PlanError,
    Shard,
    Stateless,
    create_actors,
    from_actors,
    from_items,
    from_range,
    par_from_items,
    par_from_range,
)
from tflow.combinators import hints, nodes
from tflow.laws import BALANCE, BOUNDEDNESS, ISOLATION, NO_EFFECTS, ORDER
from tflow.runtime.answers import SKIP, Answer, Ready
from tflow.runtime.cell import Cell
from tflow.runtime.joints import ZipCell
from tflow.runtime.unary import united
from tflow.testing import check_combinator
from tflow.types import Signature

T = TypeVar("T")
C = TypeVar("C", bound=Async)


class PairwiseCell(Cell):
    """Remembers one item."""

    before: Ready | None = None

    def answers(self) -> Iterator[Answer]:
        for answer in self.ups[0].stream:
            if type(answer) is not tuple:
                yield answer
                continue
            self.seen += 1
            before, self.before = self.before, answer
            if before is None:
                yield SKIP
            else:
                self.shown += 1
                yield (before[0], answer[0]), united([before, answer])

    def queued(self) -> int:
        return int(self.before is not None)


@dataclass(frozen=True, eq=False)
class Pairwise(nodes.Unary):
    """Each item with the one before it."""

    shape: ClassVar[str] = "pairwise()"
    limits: ClassVar[str] = "holds=1"
    one_to_one: ClassVar[bool] = False
    holds_back: ClassVar[bool] = True
    cell: ClassVar[type[Cell]] = PairwiseCell

    def element(self, inputs: tuple[hints.Hint, ...]) -> hints.Hint:
        return hints.generic(tuple, inputs[0], inputs[0])


def pairs(stream: Iter[T, C]) -> Iter[tuple[T, T], C]:
    """Law: as ``itertools.pairwise``."""
    return Iter(Pairwise(stream.node))


def par_pairs(stream: ParIter[T, Async]) -> ParIter[tuple[T, T], Async]:
    """Law: as ``pairs``, per shard."""
    return ParIter(Pairwise(stream.node))


class Sum(Stateless[tuple[int, int], int]):
    def apply(self, item: tuple[int, int], /) -> int:
        return sum(item)


class Upper(Stateless[str, str]):
    def apply(self, item: str, /) -> str:
        return item.upper()


def test_it_prints() -> None:
    stream = par_pairs(par_from_range(6)).par_for_each(Sum()).gather_sync()
    assert str(stream).split("\n", 1)[1] == (
        "   operator             where   yields           bounds\n"
        "0  par_from_range(...)  actor   int              shards=2\n"
        "1  par_pairwise()       actor   tuple[int, int]  holds=1\n"
        "2  par_for_each(Sum)    actor   int\n"
        "3  gather_sync()        driver  int              one call per shard and round\n"
        "deterministic"
    )
    assert stream.fingerprint == par_pairs(par_from_range(6)).par_for_each(Sum()).gather_sync().fingerprint


def test_it_is_validated() -> None:
    pairs(from_items([1, 2])).for_each(Sum()).validate()
    with pytest.raises(PlanError, match=r'"Upper" consumes str, but "pairwise\(\)" before it yields tuple\[int, int\]'):
        pairs(from_items([1, 2])).for_each(Upper()).validate()  # type: ignore[arg-type]  # wrong on purpose
    assert not par_pairs(par_from_range(3)).gather_sync().node.sync, "it holds items of earlier calls back"


def test_it_is_drawn() -> None:
    from tflow.drawing.built import of_plan
    from tflow.drawing.mermaid import mermaid

    drawn = mermaid(of_plan(par_pairs(par_from_range(6)).gather_sync()))
    assert "par_pairwise()" in drawn


def test_it_is_checked(tmp_path: Path) -> None:
    """The plugin follows streams through it and knows its label."""
    plan = tmp_path / "plan.py"
    plan.write_text(
        "from tests.unit.test_own_combinator import Sum, Upper, pairs\n"
        "from tflow import Iter, Union, from_range\n\n"
        "def right() -> Iter[int]:\n"
        "    return pairs(from_range(3)).for_each(Sum())\n\n"
        "def wrong() -> Iter[str]:\n"
        "    return pairs(from_range(3)).for_each(Upper())\n\n"
        "def twice() -> Iter[int]:\n"
        "    stream = pairs(from_range(3))\n"
        "    return Union(stream.for_each(Sum()), stream.for_each(Sum()))\n"
    )
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nplugins = tflow.mypy_plugin\nignore_missing_imports = true\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", str(tmp_path / "cache"), str(plan)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[2])
    said = [line.partition(": error: ")[2] for line in done.stdout.splitlines() if "error" in line and "plan.py" in line]
    assert len(said) == 2, done.stdout + done.stderr
    assert said[0].startswith('Ill-typed plan: "Upper" consumes str, but "pairs" before it yields tuple[int, int].')
    assert said[1].startswith("The stream pairs is consumed twice: by for_each(Sum) and by for_each(Sum).")


TestPairs = check_combinator(
    lambda s: pairs(s).map(lambda pair: pair[1]), bound=1, laws=[ORDER, BALANCE, BOUNDEDNESS, ISOLATION, NO_EFFECTS]
)


@over_runtimes_and_ray
@given(items=st.lists(st.integers(), max_size=12), shards=st.integers(1, 3))
def test_it_runs_everywhere_as_its_namesake(runtime: str, items: list[int], shards: int) -> None:
    with RUNTIMES[runtime]() as session:
        assert list(pairs(from_items(items)).run(runtime=session)) == list(pairwise(items))
        inside = par_pairs(par_from_items(items, shards=shards)).gather_rounds()
        rounds = list(inside.run(runtime=session))
    dealt = [list(pairwise(items[shard::shards])) for shard in range(shards)]
    assert sorted(pair for each in rounds for pair in each) == sorted(pair for each in dealt for pair in each)


def test_a_node_that_nothing_runs_is_a_sentence() -> None:
    @dataclass(frozen=True, eq=False)
    class Idle(nodes.Unary):
        shape: ClassVar[str] = "idle()"

    stream: Iter[int] = Iter(Idle(from_range(3).node))
    with pytest.raises(PlanError, match=r"idle\(\): nothing runs a Idle. Name its cell on the class: cell = MyCell."):
        list(stream.run(runtime=LocalRuntime()))


# --------------------------------------------------------------------------- other kinds, and mistakes


@dataclass(frozen=True, eq=False)
class Together(nodes.Node):
    """Several streams side by side, held in a list; as ``zip``."""

    streams: list[nodes.Node]
    shape: ClassVar[str] = "together({names})"
    names: ClassVar[tuple[str, ...]] = ("a", "b")
    one_to_one: ClassVar[bool] = False

    @property
    def inputs(self) -> tuple[nodes.Node, ...]:
        return tuple(self.streams)

    def element(self, inputs: tuple[hints.Hint, ...]) -> hints.Hint:
        return hints.generic(tuple, *inputs)

    class cell(ZipCell):  # the name that nodes have for it
        pass


@dataclass(frozen=True, eq=False)
class Scaled(nodes.Unary):
    """A per-item operator that is fused with its neighbours."""

    factor: int
    fuses_as: ClassVar[nodes.StepKind | None] = "map"

    def fn(self, value: int) -> int:
        return value * self.factor


@dataclass(frozen=True, eq=False)
class FirstTwo(nodes.Take):
    """A built-in node under another name."""

    shape: ClassVar[str] = "first_two()"


def test_several_inputs_in_a_list_are_tapped_and_run_inside_actors() -> None:
    both: Iter[tuple[int, int]] = Iter(Together([from_range(3).map(abs).node, from_range(3).node]))
    seen: list[int] = []
    assert list(both.tapped("map", seen.append).run()) == [(0, 0), (1, 1), (2, 2)]
    assert seen == [0, 1, 2]
    assert "together(a:b)" in str(both)
    shards = par_from_range(4)
    left, right = shards.par_map(abs), shards.par_map(str)
    inside: ParIter[tuple[int, str]] = ParIter(Together([left.node, right.node]))
    with pytest.raises(PlanError, match="consumed twice"):
        inside.gather_sync().validate()


def test_inputs_must_be_in_one_place() -> None:
    apart: ParIter[object] = ParIter(Together([par_from_items("ab").node, par_from_range(2).node]))
    with pytest.raises(PlanError, match=r"par_together\(a:b\): its inputs run on different actors. Gather them first."):
        apart.gather_sync().validate()
    mixed: Iter[object] = Iter(Together([from_range(2).node, par_from_range(2).node]))
    with pytest.raises(PlanError, match=r"runs on the driver, but par_from_range\(...\) before it is a parallel stream."):
        mixed.validate()
    with pytest.raises(PlanError, match=r"Iter: par_from_range\(...\) is a parallel stream: use ParIter, or gather it first."):
        Iter(par_from_range(2).node)
    with pytest.raises(PlanError, match=r"ParIter: from_range\(2\) is on the driver: use Iter."):
        ParIter(from_range(2).node)


@pytest.mark.parametrize("fuse", [True, False])
def test_a_node_that_fuses_and_one_that_derives_from_ours(fuse: bool) -> None:
    stream: Iter[int] = Iter(FirstTwo(Scaled(from_range(5).map(abs).node, 3), 2))
    assert list(stream.map(abs).run(fuse=fuse)) == [0, 3]
    assert "Scaled()" in str(stream)
    inside: ParIter[int] = ParIter(Scaled(par_from_range(4).node, 2))
    assert sorted(inside.gather_sync().run(fuse=fuse)) == [0, 2, 4, 6]

    @dataclass(frozen=True, eq=False)
    class Empty(nodes.Unary):
        fuses_as: ClassVar[nodes.StepKind | None] = "map"

    idle: Iter[int] = Iter(Empty(from_range(2).node))
    with pytest.raises(PlanError, match="a node that fuses needs a function in its field fn; Empty has None"):
        list(idle.run())


class Anywhere(ActorOp["Room", int, int]):
    """Works beside actors of every class, whatever its type says; needs fresh items."""

    def signature(self, usual: Signature, /) -> Signature:
        return replace(usual, label="Wherever", actor=None)

    def apply(self, actor: object, item: int, /) -> int:
        return item


class Room:
    def __init__(self, shard: Shard) -> None:
        self.made = 0

    def make(self) -> int:
        self.made += 1
        return self.made


class Hall(Room):
    pass


class Fresh(Stateless[int, int]):
    def signature(self, usual: Signature, /) -> Signature:
        return replace(usual, needs_sync=True)

    def apply(self, item: int, /) -> int:
        return item


def test_what_an_operator_says_of_itself_counts_everywhere() -> None:
    halls = from_actors(create_actors(Hall, num=1), Hall.make)
    stream = halls.par_for_each(Anywhere()).gather_sync()
    assert "par_for_each(Wherever)" in str(stream)
    assert list(stream.take(2).run()) == [1, 2]
    from_range(2).for_each(Fresh()).validate()
    with pytest.raises(PlanError, match=r'"Fresh" needs a synchronous stream, but "gather_async\(\)" makes it asynchronous'):
        par_from_range(2).gather_async().for_each(Fresh()).validate()


def test_a_signature_that_is_wrong_is_a_sentence() -> None:
    class Raises(Stateless[int, int]):
        def signature(self, usual: Signature, /) -> Signature:
            raise KeyError("x")

        def apply(self, item: int, /) -> int:
            return item

    class Nothing(Raises):
        def signature(self, usual: Signature, /) -> Signature:
            return None  # type: ignore[return-value]  # wrong on purpose

    with pytest.raises(PlanError, match=r"Raises.signature raised KeyError: 'x'"):
        from_range(1).for_each(Raises()).validate()
    with pytest.raises(PlanError, match=r"Nothing.signature must return a Signature.*got None"):
        from_range(1).for_each(Nothing()).validate()
