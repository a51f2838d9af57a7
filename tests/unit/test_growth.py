"""What grows with a plan, its shards or its items grows no faster than they do; counted, not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from tests.unit.test_driver_cost import Maker, instructions
from tflow import Iter, ParIter, PlanError, Union, create_actors, from_actors, from_range, par_from_range
from tflow.runtime.base import Runtime
from tflow.runtime.local import LocalRuntime
from tflow.testing import SimRuntime
from tflow.types import Async

LONG = 1_000
ITEMS = 20


@pytest.fixture(autouse=True)
def _usual_recursion_limit() -> Iterator[None]:
    before = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(before)


def grouped(length: int) -> Iter[int]:
    stream: Iter[int] = from_range(ITEMS)
    for _ in range(length // 2):
        stream = stream.batch(1).flatten()
    return stream


def grouped_in_actors(length: int) -> Iter[int]:
    stream: ParIter[int, Async] = par_from_range(ITEMS, shards=2)
    for _ in range(length // 2):
        stream = stream.par_batch(1).par_flatten()
    return stream.gather_async()


def joined(length: int) -> Iter[int]:
    stream: Iter[int] = from_range(ITEMS)
    for _ in range(length // 2):
        stream = Union(stream, from_range(0))
    return stream


def joined_as_they_come(length: int) -> Iter[int]:
    stream: Iter[int] = from_range(ITEMS)
    for _ in range(length // 2):
        stream = Union(stream, from_range(0), mode="async")
    return stream


def zipped(length: int) -> Iter[int]:
    """Each time, split, zipped and mapped."""
    stream: Iter[int] = from_range(ITEMS)
    for _ in range(length // 4):
        left, right = stream.split(2)
        stream = left.zip(right).map(lambda pair: pair[0])
    return stream


def limited(length: int) -> Iter[int]:
    stream: Iter[int] = from_range(ITEMS)
    for _ in range(length):
        stream = stream.take(ITEMS)
    return stream


PLANS: list[Callable[[int], Iter[int]]] = [grouped, grouped_in_actors, joined, joined_as_they_come, zipped, limited]


@pytest.mark.parametrize("runtime", [LocalRuntime, SimRuntime])
@pytest.mark.parametrize("plan", PLANS)
def test_plans_of_a_thousand_operators_that_cannot_be_fused_run(
    plan: Callable[[int], Iter[int]], runtime: Callable[[], Runtime]
) -> None:
    with runtime() as session:
        assert sorted(plan(LONG).run(runtime=session)) == list(range(ITEMS))


def test_a_plan_that_is_too_deep_for_the_stack_is_refused() -> None:
    with pytest.raises(PlanError, match=r"^take\(20\) comes after more than 5,000 operators that cannot be fused"):
        list(limited(6_000).take(ITEMS).run())


def test_a_short_plan_leaves_the_recursion_limit_alone() -> None:
    before = sys.getrecursionlimit()
    assert len(list(grouped(40).run())) == ITEMS
    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize("plan", [grouped, zipped, limited])
def test_an_item_takes_time_in_proportion_to_the_length_of_its_plan(plan: Callable[[int], Iter[int]]) -> None:
    def cost(length: int) -> int:
        run = plan(length).run()
        next(run)
        return instructions(lambda: list(islice(run, 10)))

    assert cost(160) < 2.5 * cost(80)


@pytest.mark.parametrize(
    "gathered",
    [
        lambda shards: from_actors(create_actors(Maker, num=shards), Maker.make).gather_async(),
        lambda shards: from_actors(create_actors(Maker, num=shards), Maker.make).gather_sync(),
        lambda shards: from_actors(create_actors(Maker, num=shards), Maker.make).gather_rounds().flatten(),
    ],
    ids=["gather_async", "gather_sync", "gather_rounds"],
)
def test_an_item_of_many_shards_costs_the_driver_what_one_of_few_does(gathered: Callable[[int], Iter[int]]) -> None:
    def cost(shards: int) -> float:
        run = gathered(shards).run()
        list(islice(run, 2 * shards))
        return instructions(lambda: list(islice(run, 2 * shards))) / shards

    assert cost(128) < 1.5 * cost(16)


def test_an_item_of_many_streams_that_are_joined_as_they_come_costs_what_one_of_few_does() -> None:
    def cost(streams: int) -> float:
        run = Union(*(from_range(1_000) for _ in range(streams)), mode="async").run()
        list(islice(run, 2 * streams))
        return instructions(lambda: list(islice(run, 200)))

    assert cost(320) < 1.2 * cost(20)


def test_shards_start_in_proportion_to_their_number() -> None:
    def cost(shards: int) -> int:
        run = from_actors(create_actors(Maker, num=shards), Maker.make).gather_sync().run()
        return instructions(lambda: next(run))

    assert cost(256) < 2.5 * cost(128)
