"""``print(plan)`` and the run-time element types behind it."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from typing_extensions import TypeVar

from tflow import (
    ActorOp,
    Actors,
    Async,
    Iter,
    Live,
    LiveOp,
    Shard,
    Stateless,
    Union,
    create_actor,
    create_actors,
    from_actors,
    from_items,
    from_range,
)
from tflow.combinators import graph, hints
from tflow.types import OnActor

T = TypeVar("T")


class Rollout: ...


class Gradients: ...


class TrainStats: ...


class Worker:
    def __init__(self, shard: Shard) -> None: ...

    def sample(self) -> Rollout:
        return Rollout()


class ComputeGradients(ActorOp[Worker, Rollout, Gradients]):
    def apply(self, actor: Worker, item: Rollout, /) -> Gradients:
        return Gradients()


@dataclass(frozen=True)
class ApplyGradients(LiveOp[Gradients, TrainStats]):
    workers: Actors[Worker]

    def apply(self, live: Live, item: Gradients, /) -> TrainStats:
        return TrainStats()


class First(Stateless[list[T], T]):
    def apply(self, item: list[T], /) -> T:
        return item[0]


class Length(Stateless[Any, int]):  # Any: it takes everything
    def apply(self, item: Any, /) -> int:  # Any: it takes everything
        return 0


workers = create_actors(Worker, num=2, name="workers")


def a3c() -> Iter[TrainStats]:
    grads = from_actors(workers, Worker.sample).par_for_each(ComputeGradients()).gather_async(in_flight=2)
    return grads.for_each(ApplyGradients(workers)).named("apply")


def test_print_shows_one_line_per_node_with_types_placement_and_bounds() -> None:
    stream = a3c()
    assert (
        str(stream)
        == f"""\
Iter of TrainStats, fingerprint {stream.fingerprint}
   operator                          where   yields      bounds
0  from_actors(workers, sample)      actor   Rollout     shards=2
1  par_for_each(ComputeGradients)    actor   Gradients
2  gather_async()                    driver  Gradients   in_flight=2, per_call=1
3  for_each(ApplyGradients) 'apply'  driver  TrainStats
not deterministic: 2 gather_async() order depends on which actor answers first"""
    )


def test_print_shows_where_streams_part_and_meet() -> None:
    a, b = from_range(3).split()
    learner = create_actor(lambda shard: 0, name="learner")
    stream = Union(a, b.batch(2).hand_off(learner, Length(), mailbox=3), weights=[2, 1])
    assert (
        str(stream)
        == f"""\
Union of int, fingerprint {stream.fingerprint}
   operator                   where   yields     bounds
0  from_range(3)              driver  int
1  split(2)                   driver  int        lock step
2  branch 0                   driver  int
3  branch 1 <- 1              driver  int
4  batch(2)                   driver  list[int]
5  hand_off(learner, Length)  actor   int        mailbox=3, on_full=block
6  Union() <- 2, 5            driver  int        mode=round_robin, weights=2:1
not deterministic: 5 hand_off(learner, Length) how far the actor has come depends on timing"""
    )


def test_deterministic_says_whether_one_sequence_is_all_there_is() -> None:
    shards = from_actors(workers, Worker.sample)
    assert from_range(3).shuffle(2).deterministic
    assert shards.gather_sync().deterministic
    assert Union(shards.gather_sync(), from_range(2)).deterministic
    assert not shards.gather_async().deterministic
    assert not from_range(3).every(seconds=1).deterministic
    assert not Union(from_range(1), from_range(1), mode="async").deterministic
    assert str(shards.gather_sync()).endswith("\ndeterministic")


def element(stream: Iter[object]) -> str:
    order = graph.walk(stream.node)
    return hints.show(graph.elements(order)[order[-1]])


def labels(item: int) -> list[str]:
    return []


def add(total: float, item: int) -> float:
    return total + item


def optional(item: int) -> int | None:
    return item


def broken(item: int) -> Missing:  # type: ignore[name-defined]  # noqa: F821  # on purpose
    return item


scanned: Iter[float] = from_range(3).scan(add, 0.5)
CASES: list[tuple[Iter[object], str]] = [
    (from_items([1, "a"]), "int | str"),
    (from_items([]), "?"),
    (from_range(3).map(str), "str"),
    (from_range(3).map(labels), "list[str]"),
    (from_range(3).map(optional), "int | None"),
    (from_range(3).map(broken), "?"),
    (from_range(3).map(lambda x: x), "?"),
    (from_range(3).flat_map(labels), "str"),
    (from_range(3).batch(2).batch(2), "list[list[int]]"),
    (from_range(3).batch(2).flatten(), "int"),
    (from_range(3).batch(2).for_each(First()), "int"),
    (from_range(3).batch(2).for_each(First[int]()), "int"),
    (scanned, "float"),
    (from_range(3).zip(from_items("ab")), "tuple[int, str]"),
    (from_range(3).drain(), "Never"),
    (Union(from_range(3).drain(), from_items("ab")), "str"),
    (from_range(3).tap(print).filter(bool).take(1).shuffle(2).every(items=2), "int"),
    (from_actors(workers, Worker.sample).gather_rounds(), "list[Rollout]"),
]


@pytest.mark.parametrize(("stream", "shown"), CASES, ids=[str(index) for index in range(len(CASES))])
def test_element_types_at_run_time(stream: Iter[object], shown: str) -> None:
    assert element(stream) == shown


@pytest.mark.parametrize(
    ("wanted", "given", "fits"),
    [
        (int, int, True),
        (float, int, True),
        (int, str, False),
        (int, bool, True),
        (list[int], list[str], True),  # only certain mismatches count
        (list[int], tuple[int], False),
        (int | str, str, True),
        (int, int | str, False),
        (int, hints.UNKNOWN, True),
        (Any, str, True),
        (int, typing.Never, True),
        (Literal["a"], str, True),
        (typing.SupportsInt, str, True),
        (OnActor, Async, False),
        (object, Async, True),
    ],
)
def test_only_certain_mismatches_are_mismatches(wanted: object, given: object, fits: bool) -> None:
    assert hints.accepts(wanted, given) is fits
