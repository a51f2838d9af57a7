"""Functions that build streams in every way that Python has. Each is drawn from source; most are also built and compared."""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeVar

from tests.drawing.parts import SIZE, Worker, doubled, numbers, twice, workers
from tflow import (
    ActorOp,
    Actors,
    Async,
    Batch,
    Gradients,
    Iter,
    MultiBatch,
    ParallelRollouts,
    ParIter,
    ParUnion,
    Plan,
    Replayed,
    ReportMetrics,
    Rollout,
    Shard,
    Stateless,
    Sync,
    Union,
    create_actor,
    create_actors,
    flow,
    from_actors,
    from_items,
    from_iterable,
    from_range,
    par_from_items,
    par_from_iterables,
    par_from_range,
)
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import AnyBatch, Sampled
from tflow.rl.learning.losses import ReplayedColumns

WIDTH: Final = 3
HALF = WIDTH * 4 // 2
letters = from_items("abc")
pairs = letters.zip(from_range(WIDTH)).named("pairs")
both_ways = (letters.map(str.upper), from_range(2))
answer = 42
Merged = Union


class Double(Stateless[int, int]):
    def apply(self, item: int, /) -> int:
        return 2 * item


class Negate(Double):
    pass


class Learner:
    def __init__(self, shard: Shard) -> None:
        self.seen = 0

    def weight(self) -> float:
        return 0.5


class Learn(ActorOp[Learner, list[int], float]):
    def apply(self, actor: Learner, item: list[int], /) -> float:
        return float(len(item))


class Times:
    """An object that can be called."""

    def __call__(self, x: int) -> int:
        return 3 * x


def is_even(x: int) -> bool:
    return x % 2 == 0


def add(total: int, x: int) -> int:
    return total + x


def every_type(
    number: int | None,
    pair: tuple[int, ...],
    two: tuple[int, str],
    rollout: Rollout,
    widened: Batch[Sampled | Literal["advantages", "returns"]],
    replayed: Replayed,
    few: Batch[Literal["rewards", "values"]],
    any_batch: AnyBatch,
    open_batch: Batch[str],
    multi: MultiBatch[Sampled, Literal["PPO", "DQN"]],
    multi_replayed: MultiBatch[ReplayedColumns, Literal["PPO"]],
    multi_open: MultiBatch[Sampled, str],
    names: Literal["a", "b", None],
    columns: Sampled,
    column_union: Literal["obs", "actions", "rewards", "terminated", "truncated", "t", "logp", "values"],
    stream: Iter[list[Rollout]],
    fresh: Iter[Rollout, Sync],
    shards: ParIter[Rollout],
    late: ParIter[Rollout, Async],
    union: Union[int | str],
    rollouts: ParallelRollouts[Rollout],
    report: ReportMetrics,
    plan: Plan[Gradients],
    function: Callable[[int, str], list[int]],
    either: Callable[[int], int] | int,
    anything: Callable[..., object],
    cls: type[Rollout],
    array: Array,
    named: Parts,
    scalar: Score,
    unknown: Any,  # Any: shown as such
    deep: dict[str, list[Iter[int]]],
    parameter: T,
    parameters: list[T],
) -> None: ...


Score = Literal["low", "high"]
T = TypeVar("T")


# --------------------------------------------------------------------------- straight on


def chain() -> Iter[int]:
    return (
        from_range(10)
        .map(twice)
        .filter(is_even)
        .tap(print)
        .flat_map(range)
        .scan(add, 0)
        .batch(2)
        .flatten()
        .take(HALF)
        .shuffle(SIZE, seed=1)
        .every(items=2)
        .for_each(Double())
        .map(lambda x: x + 1)
        .map(functools.partial(add, 1))
        .map(Times())
        .named("last")
    )


def inside() -> Iter[tuple[int, int]]:
    shards = from_actors(workers, Worker.sample)
    mapped = shards.par_map(twice).par_filter(is_even).par_tap(print).par_for_each(Negate()).par_scan(add, 0)
    flat = mapped.par_batch(2).par_flatten().par_flat_map(range).par_take(3).par_shuffle(4)
    return flat.par_zip(flat.par_map(twice)).select_shards(0, 1).repartition(2).gather_async(in_flight=2)


def sources() -> Iter[object]:
    endless = from_iterable(itertools.count)
    generated = from_iterable(lambda: iter([1]))
    spread = ParUnion(par_from_items("ab"), par_from_range(3, shards=2).named("range"), par_from_iterables([[1], [2]]))
    return Union(endless, generated, spread.gather_sync(), from_items(range(2, 7)), from_items([1]), weights=[1, 1, 1, 1, 1])


def learner() -> Iter[float]:
    trainer = create_actor(Learner, name="trainer")
    other = create_actor(Learner)
    anonymous = create_actor(lambda shard: Learner(shard))
    batches = from_range(8).every(seconds=0.5).every(steps=4).batch(2)
    return batches.tap(print).call(trainer, Learn()).batch(3).map(lambda x: [1]).hand_off(other, Learn()).batch(2).map(
        lambda x: [2]
    ).call(anonymous, Learn())  # fmt: skip


def rounds() -> Iter[int, Sync]:
    return par_from_range(4).gather_rounds().flatten()


def of_splits() -> Iter[object]:
    a, b = from_range(3).split()
    c, *rest = par_from_range(4).split(3, max_lag=2)
    first = b.split(2)[0]
    last = first.split(2)[-1].drain()
    return Union(a.zip(c), *rest, last)


def aliases() -> Iter[int]:
    r = from_range(5)
    same = r
    r = same.filter(is_even)
    r = r.map(twice)
    take = r.take
    return take(3)


def other_names() -> Iter[int]:
    return Merged(from_range(1), from_range(2), mode="async")


def used_elsewhere() -> Iter[int]:
    return numbers.batch(SIZE).flatten()


# --------------------------------------------------------------------------- paths


def branching(fast: bool) -> Iter[int]:
    r = from_range(5)
    if fast:
        r = r.take(2)
    elif answer > 3:
        r = r.map(twice)
    else:
        pass
    return r.filter(is_even)


def either(fast: bool) -> Iter[int]:
    return (from_range(1) if fast else from_range(2).map(twice)).filter(is_even)


def or_else(given: Iter[int] | None) -> Iter[int]:
    return (given or from_range(2)).map(twice)


def early(fast: bool) -> Iter[int]:
    r = from_range(5)
    if fast:
        return r
    return r.map(twice)


def optional(extra: bool) -> Iter[int]:
    r: Iter[int] = from_range(5)
    more: Iter[int] | None = None
    if extra:
        more = from_range(2)
    return r if more is None else Union(r, more)


def matched(kind: str) -> Iter[int]:
    r = from_range(5)
    match kind:
        case "even":
            r = r.filter(is_even)
        case "double":
            r = r.map(twice)
        case _:
            raise ValueError(kind)
    return r.take(1)


def tried() -> Iter[int]:
    r = from_range(5)
    try:
        r = r.map(twice)
    except ValueError:
        r = r.take(2)
    finally:
        answer.bit_length()
    return r.filter(is_even)


def with_file(name: str) -> Iter[int]:
    with open(name) as file:
        r = from_range(len(file.read())).map(twice)
    return r.take(1)


# --------------------------------------------------------------------------- several at once


def in_a_loop() -> Iter[int]:
    outs = []
    for branch in from_range(9).split(3):
        outs.append(branch.map(twice))
    return Union(*outs)


def again(times: int) -> Iter[int]:
    r = from_range(9)
    for _ in range(times):
        r = r.filter(is_even)
    while times > 3:
        r = r.take(times)
        break
    return r.map(twice)


def comprehended(n: int) -> Iter[int]:
    outs = [branch.map(twice) for branch in from_range(9).split(n)]
    return Union(*outs)


def by_name(names: list[str]) -> Iter[int]:
    made = {name: from_range(3).map(twice).named(name) for name in names if name}
    return Union(*made.values())


def skipping(times: int) -> Iter[int]:
    r = from_range(3)
    for turn in range(times):
        if turn == 2:
            continue
        r = r.map(twice)
    return r.take(1)


def nested_loops(times: int) -> Iter[int]:
    outs: list[Iter[int]] = []
    for size in range(times):
        for shift in range(size):
            outs.append(from_range(size).take(shift))
    return Union(*outs)


def in_lists(index: int) -> Iter[int]:
    kept = [from_range(1), from_range(2).map(twice)]
    kept += [from_range(3)]
    kept.append(from_range(4))
    return Union(kept[0], kept[index], Union(*kept))


def in_dicts(key: str) -> Iter[int]:
    named = {"a": from_range(1), "b": from_range(2)}
    named["c"] = from_range(3).map(twice)
    return Union(named["c"], named[key], *[each.take(1) for each in named.values()], *named.values())


class Parts(NamedTuple):
    left: Iter[int]
    right: Iter[str]


@dataclass(frozen=True)
class Kept:
    streams: dict[str, Iter[int]]
    source: Iter[int]


def in_fields(kept: Kept) -> Iter[object]:
    parts = Parts(from_range(1), right=from_items("ab"))
    return Union(parts.left, parts.right, kept.source.map(twice), kept.streams["a"])


def together() -> Iter[object]:
    a, b = from_range(1), from_items("ab")
    a, b = a.take(1), b.take(2)
    both = (a, b)
    return Union(*both)


def zipped_loops() -> Iter[int]:
    outs: list[Iter[int]] = []
    for index, (left, right) in enumerate(zip([from_range(1), from_range(2)], from_range(9).split(2), strict=True)):
        outs.append(left.zip(right).map(lambda pair: 1).take(index))
    return Union(*outs)


# --------------------------------------------------------------------------- functions


@flow
def halved(stream: Iter[int, Sync], *, by: int = 2) -> Iter[int, Sync]:
    return stream.map(lambda x: x // by).take(by)


def choose(stream: Iter[int], fast: bool) -> Iter[int]:
    if fast:
        return stream.take(1)
    return stream.map(twice)


def calling() -> Iter[int]:
    a, b = from_range(9).split()
    return Union(halved(a), doubled(halved(b, by=3)))


def calling_choice(fast: bool) -> Iter[int]:
    return choose(from_range(3), fast).filter(is_even)


def parted(stream: Iter[int]) -> tuple[Iter[int], Iter[str]]:
    a, b = stream.split()
    return a, b.map(str)


def both_parts() -> Iter[object]:
    numbers, texts = parted(from_range(4))
    return Union(numbers.map(twice), texts)


def local_flow() -> Iter[int]:
    r = from_range(4)

    def more(size: int) -> Iter[list[int]]:
        return r.batch(size)

    return more(2).flatten()


def many(*streams: Iter[int], named: dict[str, Iter[str]], unused: ParIter[int]) -> Iter[object]:
    return Union(*streams, *[each.map(len) for each in named.values()])


def make_workers() -> Actors[Worker]:
    return create_actors(Worker, name="fleet")


def over_made() -> ParIter[int]:
    return from_actors(make_workers(), Worker.sample)


def over_given(fleet: Actors[Worker], pull: Callable[[Worker], int], size: int) -> Iter[list[int]]:
    return from_actors(fleet, pull).gather_async().batch(size)


class Trainer:
    def __init__(self, source: Iter[int]) -> None:
        self.source = source

    def plan(self) -> Iter[int]:
        self.made = self.source.map(twice)
        return self.finish(from_range(2))

    def finish(self, stream: Iter[int]) -> Iter[int]:
        return Union(self.made, stream.take(1))

    def gather(self) -> Iter[int]:
        self.parts: list[Iter[int]] = []
        self.parts.append(self.source.map(twice))
        self.parts.append(self.source.take(2))
        return Union(*self.parts)

    @classmethod
    def start(cls) -> Iter[int]:
        return cls(from_range(3)).plan()


class Reported(Iter[int]):
    def __init__(self, stream: Iter[int]) -> None:
        super().__init__(stream.node)


def own_class() -> Iter[int]:
    return Reported(from_range(2)).map(twice)


# --------------------------------------------------------------------------- what cannot be followed


def looked_at() -> Iter[int]:
    r = from_range(2)
    logging.getLogger().debug("%s %s", r, r.deterministic)
    assert isinstance(r, Iter)
    r.validate()
    return r.map(twice)


def left_over() -> Iter[int]:
    r = from_range(2)
    r.map(str)
    _unused, used = r.split()
    return used


def folded() -> Iter[int]:
    return functools.reduce(lambda a, b: Union(a, b), [from_range(1), from_range(2)])


def keep(stream: Iter[int]) -> None:
    stream.validate()


def given_away() -> Iter[int]:
    a, b = from_range(2).split()
    keep(a)
    return b


def untyped(r: Any, op: Stateless[int, int]) -> Any:  # Any: drawn although it says nothing
    return r.par_map(twice).gather_sync().for_each(op)


def waiting(stream: Iter[int]) -> Callable[[int], Iter[int]]:
    return lambda count: stream.take(count)


def branches_of_either(fast: bool) -> Iter[int]:
    a, b = from_range(1).split() if fast else from_range(2).split()
    return Union(a.map(twice), b)


def guarded(stream: Iter[int]) -> Iter[int]:
    assert stream.deterministic, "the order must not depend on timing"
    if stream is None:
        raise ValueError("no stream")
    while True:
        stream = stream.map(twice)
        if stream.deterministic:
            break
    else:
        stream = stream.take(1)
    return stream


def yielded() -> Iterator[Iter[int]]:
    yield from_range(1)
    yield from_range(2).map(twice)


def compared(streams: list[Iter[int]]) -> Iter[int]:
    return sorted(streams, key=id)[0].map(twice)


def through_lambda() -> Iter[int]:
    r = from_range(3)
    make: Callable[[], Iter[int]] = lambda: r.map(twice)  # noqa: E731  # as people write it
    return make()


def multiplied(r: Iter[int]) -> list[Iter[int]]:
    return [r.map(twice)] * 3


def walrus() -> Iter[int]:
    if (r := from_range(3)) is not None:
        r = r.map(twice)
    return r


def own_actors() -> ParIter[int]:
    return from_actors(create_actors(Worker, num=3), lambda worker: worker.index)
