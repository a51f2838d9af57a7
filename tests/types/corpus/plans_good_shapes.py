"""Right plans in every shape of data and function: containers, comprehensions, helpers, closures, values of functions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain
from typing import Final, Never, overload

import numpy as np
from typing_extensions import assert_type
from world import (
    First,
    Length,
    Metrics,
    OffPolicyStep,
    Report,
    Rollout,
    T,
    TrainStats,
    Worker,
    workers,
)

from tflow import (
    Async, create_actors, flow, from_actors, from_items, from_range, Iter, par_from_items, par_from_iterables,
    par_from_range, ParIter, ParUnion, Plan, plan, Shard, Sync, TimeBudget, Union,
)
from tflow.actors import Place

SIZE: Final = 4
LAG: Final[int] = 2
SHARES = (1.0, 2.0)
LOCK = threading.Lock()
NAMES = ("left", "right")


def double(number: int) -> int:
    return 2 * number


def guarded(number: int) -> int:
    """It travels by its name, and its lock stays here: each process has one of its own."""
    with LOCK:
        return number


def step(stream: Iter[Rollout]) -> Iter[TrainStats]:
    return stream.for_each(OffPolicyStep())


# --------------------------------------------------------------------------- containers and comprehensions


@flow
def list_over_split(stream: Iter[int], count: int) -> Iter[int]:
    return Union(*[branch.take(size) for size, branch in enumerate(stream.split(count))])


@flow
def generator_over_split(stream: Iter[int]) -> Iter[int]:
    return Union(*(branch.map(double) for branch in stream.split(3)))


@flow
def dict_over_split(stream: Iter[int]) -> dict[str, Iter[int]]:
    return {name: branch.named(name) for name, branch in zip(NAMES, stream.split(), strict=True)}


@flow
def set_over_split(stream: Iter[int]) -> Iter[int]:
    return Union(*{branch.map(double) for branch in stream.split(3)})


@flow
def list_over_range(count: int) -> Iter[int]:
    return Union(*[from_range(size).map(double) for size in range(count) if size > 0])


@flow
def nested_comprehension(names: list[str]) -> list[Iter[int]]:
    return [branch.named(name) for name in names for branch in from_range(4).split()]


@flow
def filled_in_a_loop(stream: Iter[int], count: int) -> Iter[int]:
    found = []
    for branch in stream.split(count):
        found.append(branch.map(double))
    found += [from_range(2)]
    found.extend(from_range(size) for size in range(count))
    return Union(*found)


@flow
def dict_of_streams(left: Iter[int], right: Iter[int]) -> Iter[int]:
    streams = {"left": left, "right": right}
    streams["left"] = streams["left"].map(double)
    return Union(streams["left"], streams["right"])


@flow
def loop_over_a_dict(streams: dict[str, Iter[int]]) -> Iter[int]:
    return Union(*[stream.named(name) for name, stream in streams.items()])


@flow
def by_index(stream: Iter[int]) -> Iter[int]:
    branches = stream.split(3)
    return Union(branches[0].map(double), branches[1], branches[2].take(1))


@flow
def from_a_stack(streams: list[Iter[int]]) -> Iter[int]:
    found = streams.pop()
    while streams:
        found = Union(found, streams.pop())
    return found


@flow
def head_and_tail(stream: Iter[int]) -> Iter[int]:
    first, *rest = stream.split(4)
    return Union(first.map(double), *rest)


@flow
def chained(left: Iter[int], right: Iter[int]) -> Iter[int]:
    return Union(*chain(left.split(2), right.split(3)))


@flow
def folded(streams: Sequence[Iter[int]]) -> Iter[int]:
    return reduce(lambda left, right: Union(left, right), streams)


@flow
def tuple_of_streams(few: Iter[int], many: Iter[str]) -> tuple[Iter[int], Iter[str]]:
    pair = (few.take(1), many.take(2))
    return pair


@flow
def star_arguments(*streams: Iter[int]) -> Iter[int]:
    return Union(*streams)


@flow
def star_arguments_in_a_loop(*streams: Iter[T]) -> list[Iter[list[T]]]:
    return [stream.batch(SIZE) for stream in streams]


@flow
def passed_on_with_a_star(stream: Iter[int]) -> Iter[int]:
    return star_arguments(*stream.split(), *[from_range(3)])


# --------------------------------------------------------------------------- functions


@flow
def halves(stream: Iter[T]) -> tuple[Iter[T], Iter[T]]:
    left, right = stream.split()
    return left, right


@flow
def uses_halves(stream: Iter[int]) -> Iter[int | str]:
    left, right = halves(stream)
    return Union(left.map(double), right.map(str))


@flow
def paired(stream: Iter[T, Sync]) -> Iter[tuple[T, list[T]]]:
    one, two = stream.split()
    return one.zip(two.batch(1))


@flow
def nested_functions(stream: Iter[Rollout], size: int) -> Iter[Rollout]:
    def first_of(batches: Iter[list[Rollout]]) -> Iter[Rollout]:
        return batches.for_each(First[Rollout]())

    @flow
    def large(rollouts: Iter[Rollout]) -> Iter[list[Rollout]]:
        return rollouts.batch(size)

    return first_of(large(stream))


@flow
def layers(stream: Iter[int], depth: int) -> Iter[int]:
    return stream if depth == 0 else layers(stream.map(double), depth - 1)


@flow
def tree(stream: Iter[int], depth: int) -> Iter[int]:
    if depth == 0:
        return stream
    left, right = stream.split()
    return Union(tree(left, depth - 1), tree(right, depth - 1))


@flow
def chosen_flow(stream: Iter[Rollout], short: bool) -> Iter[TrainStats]:
    def shortly(rollouts: Iter[Rollout]) -> Iter[TrainStats]:
        return step(rollouts.take(3))

    build = shortly if short else step
    return build(stream)


@flow
def by_name(stream: Iter[int], name: str) -> Iter[int]:
    flows: dict[str, Callable[[Iter[int]], Iter[int]]] = {"one": lambda s: s.map(double), "two": partial(layers, depth=2)}
    return flows[name](stream)


@flow
def applied(stream: Iter[T], *flows: Callable[[Iter[T]], Iter[T]]) -> Iter[T]:
    for each in flows:
        stream = each(stream)
    return stream


@flow
def each_by_map(stream: Iter[Rollout]) -> Iter[TrainStats]:
    return Union(*map(step, stream.split(3)))


def one_by_one(stream: Iter[int]) -> Iterator[Iter[int]]:
    left, right = stream.split()
    yield left
    yield right.map(double)


def planner(size: int) -> Callable[[], Plan[Metrics]]:
    @plan
    def build() -> Plan[Metrics]:
        stream = from_actors(workers, Worker.sample).gather_async(in_flight=size)
        return Report(step(stream), workers)

    return build


def flow_of(size: int) -> Callable[[Iter[T]], Iter[list[T]]]:
    @flow
    def build(stream: Iter[T]) -> Iter[list[T]]:
        return stream.batch(size)

    return build


@overload
def gathered(stream: Iter[T]) -> Iter[T]: ...
@overload
def gathered(stream: ParIter[T]) -> Iter[T]: ...
def gathered(stream: Iter[T] | ParIter[T]) -> Iter[T]:
    return stream.gather_sync() if isinstance(stream, ParIter) else stream


@flow
def with_options(shards: ParIter[Rollout], in_flight: int, per_call: int, timeout_s: float | None = None) -> Iter[Rollout]:
    budget = TimeBudget(items=per_call) if per_call > 1 else per_call
    return shards.gather_async(in_flight=in_flight, per_call=budget, timeout_s=timeout_s)


@flow
def sizes_in_variables(stream: Iter[int, Sync], shards: ParIter[int], size: int) -> Iter[int]:
    calls = 2 * size
    left, right = stream.batch(size).take(SIZE).split(max_lag=LAG)
    others = shards.par_batch(SIZE).gather_async(in_flight=size, per_call=calls, max_staleness=None)
    return Union(left.flatten(), right.flatten(), others.flatten(), weights=[size, *SHARES])


@flow
def shares_in_a_variable(left: Iter[int], right: Iter[int], more: Sequence[Iter[int]]) -> Iter[int]:
    return Union(Union(left, right, weights=SHARES), *more, weights=[1.0] * (len(more) + 1))


# --------------------------------------------------------------------------- what travels, and may


@dataclass(frozen=True)
class Settings:
    scale: float = 2.0
    names: tuple[str, ...] = ()


@plan
def travels(settings: Settings) -> Plan[Metrics]:
    scale, table, offset = settings.scale, np.arange(3.0), len(settings.names)
    shards = from_actors(workers, lambda worker: (worker.sample(), offset))
    scaled = shards.par_map(lambda pair: (pair[0], scale * float(table.sum()) + settings.scale))
    kept = scaled.par_filter(lambda pair: pair[1] > offset).par_map(lambda pair: pair[0])
    return Report(kept.gather_async(per_call=TimeBudget()).for_each(OffPolicyStep()), workers)


@flow
def travels_by_name() -> Iter[int]:
    return par_from_range(4).par_map(guarded).par_map(partial(max, 3)).par_map(abs).gather_async()


@flow
def stays_on_the_driver(stream: Iter[int], lines: Iterable[str]) -> Iter[str]:
    """What runs on the driver may hold what it likes."""
    lock, source = threading.Lock(), iter(lines)

    def locked(number: int) -> int:
        with lock:
            return number

    return stream.map(locked).map(lambda number: f"{number} {next(source)}")


@flow
def made_inside() -> Iter[int]:
    """The generator is made in the actor; here are only functions that make one."""
    size = 3
    return par_from_iterables([lambda: (number for number in range(size)), lambda: iter([1])]).gather_sync()


def maker(size: int) -> Callable[[Shard], Worker]:
    def make(shard: Shard) -> Worker:
        worker = Worker(shard)
        worker.weights = [0.0] * size
        return worker

    return make


@plan
def own_workers(size: int) -> Plan[Metrics]:
    pool = create_actors(maker(size), num=size, place=Place(cpus=1))
    return Report(from_actors(pool, Worker.sample).select_shards(0).gather_sync().for_each(OffPolicyStep()), pool)


# --------------------------------------------------------------------------- kinds of elements


@flow
def side_by_side(shards: ParIter[Rollout]) -> Iter[int | str]:
    return ParUnion(shards.par_for_each(Length()), par_from_items("ab")).gather_sync()


@flow
def sum_types(stream: Iter[int | str]) -> Iter[str]:
    texts, others = stream.split()
    return Union(texts.map(str), others.filter(lambda item: isinstance(item, int)).map(lambda item: f"{item}!"))


@flow
def nothing_shown(stream: Iter[Rollout], numbers: Iter[int]) -> Iter[int]:
    silent = stream.tap(print).drain()
    assert_type(silent, Iter[Never, Async])
    return Union(silent, numbers)


@flow
def zipped(left: Iter[int, Sync], right: Iter[str]) -> Iter[tuple[tuple[int, str], float]]:
    return left.zip(right).zip(from_items([0.5, 1.5], repeat=True))
