"""What once was a false alarm, or worse: each of these made a rule complain, hang or crash."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from typing_extensions import assert_type
from world import Length, Metrics, Report, Rollout, TrainStats, workers

from tflow import (
    create_replay_actors, create_rollout_workers, flow, from_range, Iter, ParIter, Plan, plan, PlanError,
    Select, Stateless, Union,
)
from tflow.losses import DQNLoss, Loss, PPOLoss
from tflow.rl.rollout.worker_spec import ParallelRollouts


def double(number: int) -> int:
    return 2 * number


def policy_of(agent: str) -> str:
    return agent[:1]


# --------------------------------------------------------------------------- names that the plugin uses itself


class Algorithm:
    finished: bool = False


class Derived(Algorithm):
    @flow
    def build(self, stream: Iter[int]) -> Iter[int]:
        return stream.take(3)


# --------------------------------------------------------------------------- paths


@flow
def five_loops(stream: Iter[int], n: int, c: bool) -> Iter[int]:
    for a in range(n):
        if c:
            stream = stream.take(a)
        for b in range(n):
            if c:
                stream = stream.take(b)
            for d in range(n):
                if c:
                    stream = stream.take(d)
                for e in range(n):
                    if c:
                        stream = stream.take(e)
                    for f in range(n):
                        if c:
                            stream = stream.take(f)
    return stream


@flow
def while_there_are_more(streams: Iterator[Iter[int]]) -> Iter[int]:
    found: list[Iter[int]] = []
    while (stream := next(streams, None)) is not None:
        found.append(stream)
    return Union(*found)


@flow
def matched(stream: Iter[int] | int) -> Iter[int]:
    match stream:
        case Iter() as driver:
            return driver.map(double)
        case _:
            return from_range(3)


@flow
def by_default(stream: Iter[int]) -> Iter[int]:
    def build(given: Iter[int] = stream) -> Iter[int]:
        return given.map(double)

    return build()


@plan
def looked_into_first(stats: Iter[TrainStats], show: bool) -> Plan[Metrics]:
    if show:
        for metrics in Report(stats, workers):
            print(metrics)
        sys.exit(0)
    return Report(stats, workers)


# --------------------------------------------------------------------------- streams that belong to something else


@flow
def only_shown(streams: dict[str, Iter[int]]) -> Iter[int]:
    for name, stream in streams.items():
        print(name, stream)
    first = streams["first"]
    print(first.fingerprint)
    return Union(*streams.values())


class Keeper:
    last: Iter[int]

    def __init__(self) -> None:
        self.cache: dict[str, Iter[int]] = {}

    @flow
    def kept(self, stream: Iter[int]) -> Iter[int]:
        self.last = stream
        self.cache["last"] = stream
        return stream


class Mine(Iter[int]):
    @flow
    def doubled(self) -> Iter[int]:
        return from_range(3)


def mean(stream: Iter[int]) -> float:
    return sum(stream.run()) / 3


def same(left: Iter[int], right: Iter[int]) -> bool:
    return list(left.run()) == list(right.run())


@flow
def measured(stream: Iter[int]) -> Iter[float]:
    middle = mean(stream.take(3))
    return stream.map(lambda number: number - middle)


def compared() -> None:
    stream = from_range(5)
    assert same(stream.map(double).map(double), stream.map(lambda number: 4 * number))


@flow
def not_needed(stream: Iter[int], other: Iter[int]) -> Iter[int]:
    _ = other
    assert_type(stream.map(double), Iter[int])
    return stream


@flow
def other_splits(stream: Iter[int], env: str, path: str) -> Iter[int]:
    name, version = env.split("-")
    folder, file = os.path.split(path)
    return stream.named(name + folder)


# --------------------------------------------------------------------------- policies


def different_numbers(several: bool) -> object:
    if several:
        found = create_rollout_workers(env="x", losses={"A": PPOLoss(), "B": PPOLoss()}, policy_of=policy_of)
    else:
        found = create_rollout_workers(env="x", losses={"A": PPOLoss()}, policy_of=policy_of)
    return found


def filled_later() -> object:
    losses: dict[str, Loss[Any, Any]] = {"PPO": PPOLoss()}  # Any: whichever
    losses["DQN"] = DQNLoss()
    found = create_rollout_workers(env="x", losses=losses, policy_of=policy_of)
    return Select(ParallelRollouts(found).gather_sync(), policy="DQN")


def given_or_usual(losses: dict[str, Loss[Any, Any]] | None = None) -> object:  # Any: whichever
    if losses is None:
        losses = {"PPO": PPOLoss()}
    found = create_rollout_workers(env="x", losses=losses, policy_of=policy_of)
    return Select(ParallelRollouts(found).gather_sync(), policy="DQN")


# --------------------------------------------------------------------------- literals


class Size(IntEnum):
    SMALL = 4


@dataclass
class Config:
    capacity: int
    length: int


@flow
def sized(stream: Iter[int]) -> Iter[list[int]]:
    return stream.batch(Size.SMALL)


def limits_that_depend(config: Config) -> object:
    large = create_replay_actors(capacity=config.capacity, min_size=200_000)
    return large, create_replay_actors(kind="sequences", length=config.length, burn_in=100)


# --------------------------------------------------------------------------- travel


@dataclass(frozen=True)
class Table(Stateless[int, int]):
    rows: tuple[int, ...]

    def apply(self, item: int, /) -> int:
        return item


class Reads(Stateless[int, int]):
    def __init__(self, rows: Iterable[int]) -> None:
        self.rows = tuple(rows)

    def apply(self, item: int, /) -> int:
        return item


class Locked(Stateless[int, int]):
    def __init__(self, lock: Any) -> None:  # Any: kinds of locks differ between versions
        self.lock = lock

    def __getstate__(self) -> dict[str, object]:
        return {}

    def apply(self, item: int, /) -> int:
        return item


class Shared:
    guard = threading.Lock()
    scale = 2


class Schedule(Iterator[float]):
    def __init__(self) -> None:
        self.at = 0.0

    def __next__(self) -> float:
        return self.at


@flow
def all_travel(shards: ParIter[int], numbers: list[int]) -> Iter[int]:
    shared, schedule = Shared(), Schedule()
    first = shards.par_for_each(Table(tuple(number + 1 for number in numbers))).par_for_each(Reads(n for n in numbers))
    return first.par_for_each(Locked(threading.Lock())).par_map(lambda n: n * shared.scale + int(schedule.at)).gather_sync()


@flow
def rounds(rollouts: ParIter[Rollout], sizes: tuple[int, ...]) -> Iter[int]:
    return rollouts.par_for_each(Length()).gather_sync().batch(max(sizes, default=1)).map(len)


def refused() -> str:
    try:
        from_range(3).take(2)
    except PlanError as error:
        return str(error)
    return ""
