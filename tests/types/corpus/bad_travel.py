"""Mistakes of travel: what runs inside actors holds something that stays where it is, such as a lock, a file or a stream.

The mark is on the captured name, or on the argument. No checker sees this without the plugin.
"""

from __future__ import annotations

import csv
import io
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import IO, Any, NamedTuple, TextIO, TypeVar

import world
from rl_good import LOSSES, policy_of
from world import Worker, learner

from tflow import (
    Actors, ApplyGradients, ComputeGradients, create_actor, create_actors, create_rollout_workers, flow,
    from_actors, from_range, Iter, Live, LiveOp, Metrics, par_from_items, par_from_iterables,
    par_from_range, ParallelRollouts, ParIter, Plan, plan, ReportMetrics, Rollout, Run, Select, Shard,
    Stateful, Stateless, TrainOneStep, Union,
)
from tflow.algos import PPO
from tflow.envs import EnvSpec
from tflow.live import Handles
from tflow.losses import A3CLoss

T = TypeVar("T")
LOCK = threading.Lock()
workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
many = create_rollout_workers(env="x", losses=LOSSES, policy_of=policy_of)


@dataclass(frozen=True)
class Guarded(Stateless[world.Rollout, world.Rollout]):
    """A right operator on the driver, where its lock is."""

    lock: threading.Lock

    def apply(self, item: world.Rollout, /) -> world.Rollout:
        with self.lock:
            return item


@dataclass(frozen=True)
class Numbered(Stateless[T, tuple[int, T]]):
    numbers: Iterator[int]

    def apply(self, item: T, /) -> tuple[int, T]:
        return next(self.numbers), item


def use(resource: object, item: T) -> T:
    return item if resource is not None else item


def numbers() -> Generator[int, None, None]:
    yield from range(10)


# --------------------------------------------------------------------------- captured by a function


@plan
def captures_a_lock() -> Plan[Metrics]:
    lock = threading.Lock()
    shards = ParallelRollouts(workers).par_map(lambda rollout: use(lock, rollout))  # PLUGIN travel
    return ReportMetrics(shards.gather_async().for_each(TrainOneStep(workers)), workers)


@plan
def captures_a_lock_on_its_own_line() -> Plan[Metrics]:
    lock = threading.RLock()
    shards = ParallelRollouts(workers).par_filter(
        lambda rollout: use(
            lock,  # PLUGIN travel
            len(rollout) > 1,
        )
    )
    return ReportMetrics(shards.gather_async().for_each(TrainOneStep(workers)), workers)


@flow
def captures_a_file(shards: ParIter[int], path: str) -> Iter[int]:
    log = open(path, "w")
    return shards.par_tap(lambda number: log.write(str(number))).gather_async()  # PLUGIN travel


@flow
def captures_a_file_in_a_context(shards: ParIter[int], path: str) -> Iter[int]:
    with open(path, "wb") as log:
        return shards.par_tap(lambda number: log.write(bytes(number))).gather_async()  # PLUGIN travel


@flow
def captures_a_given_file(shards: ParIter[int], log: TextIO) -> Iter[int]:
    return shards.par_tap(lambda number: print(number, file=log)).gather_async()  # PLUGIN travel


@flow
def captures_a_generator(shards: ParIter[int]) -> Iter[tuple[int, int]]:
    ids = numbers()
    return shards.par_map(lambda number: (next(ids), number)).gather_sync()  # PLUGIN travel


@flow
def captures_an_iterator(shards: ParIter[int], names: Iterable[str]) -> Iter[str]:
    each = iter(names)
    return shards.par_map(lambda number: f"{next(each)} {number}").gather_sync()  # PLUGIN travel


@flow
def captures_a_run(shards: ParIter[int], run: Run[int]) -> Iter[int]:
    return shards.par_map(lambda number: number + next(run)).gather_sync()  # PLUGIN travel


@flow
def captures_a_lock_of_the_module(shards: ParIter[int]) -> Iter[int]:
    """A lambda travels by value, with the globals that it names."""
    return shards.par_map(lambda number: use(LOCK, number)).gather_sync()  # PLUGIN travel


@flow
def through_a_nested_function(shards: ParIter[int]) -> Iter[int]:
    lock = threading.Lock()

    def locked(number: int) -> int:
        with lock:
            return number

    return shards.par_map(locked).gather_sync()  # PLUGIN travel


@flow
def through_a_partial(shards: ParIter[int]) -> Iter[int]:
    lock = threading.Lock()
    return shards.par_map(partial(use, lock)).gather_sync()  # PLUGIN travel


@flow
def through_a_scan(shards: ParIter[int]) -> Iter[int]:
    event = threading.Event()
    return shards.par_scan(lambda total, number: total + number + event.is_set(), 0).gather_sync()  # PLUGIN travel


@flow
def generic(shards: ParIter[T]) -> Iter[T]:
    lock = threading.Semaphore(2)
    return shards.par_map(lambda item: use(lock, item)).gather_async()  # PLUGIN travel


# --------------------------------------------------------------------------- given to an operator


@flow
def in_an_operator() -> Iter[world.Rollout]:
    shards = from_actors(world.workers, Worker.sample)
    return shards.par_for_each(Guarded(threading.Lock())).gather_async()  # PLUGIN travel


@flow
def in_an_operator_by_name(shards: ParIter[world.Rollout]) -> Iter[world.Rollout]:
    lock = threading.Lock()
    return shards.par_for_each(Guarded(lock=lock)).gather_async()  # PLUGIN travel


@flow
def in_an_operator_at_the_learner(stream: Iter[world.Rollout], lock: threading.Lock) -> Iter[world.Rollout]:
    return stream.hand_off(learner, Guarded(lock))  # PLUGIN travel


@flow
def in_an_operator_that_is_called(stream: Iter[world.Rollout]) -> Iter[tuple[int, world.Rollout]]:
    return stream.call(learner, Numbered[world.Rollout](iter(range(3))))  # PLUGIN travel


@flow
def in_a_generic_operator(shards: ParIter[T], ids: Generator[int, None, None]) -> Iter[tuple[int, T]]:
    return shards.par_for_each(Numbered[T](ids)).gather_sync()  # PLUGIN travel


# --------------------------------------------------------------------------- given to actors


@flow
def into_actors() -> Iter[world.Rollout]:
    lock = threading.Lock()
    pool = create_actors(lambda shard: use(lock, Worker(shard)))  # PLUGIN travel
    return from_actors(pool, Worker.sample).gather_async()


@flow
def into_one_actor(stream: Iter[world.Rollout], log: IO[str]) -> Iter[world.TrainStats]:
    def make(shard: Shard) -> world.Learner:
        log.write("made")
        return world.Learner(shard)

    return stream.hand_off(create_actor(make), world.LearnerStep())  # PLUGIN travel


@flow
def into_a_pull() -> Iter[world.Rollout]:
    lock = threading.Condition()
    return from_actors(world.workers, lambda worker: use(lock, worker.sample())).gather_async()  # PLUGIN travel


@flow
def live_iterators(names: list[str]) -> Iter[str]:
    first = iter(names)
    return par_from_iterables([first]).gather_sync()  # PLUGIN travel


@flow
def live_generators() -> Iter[int]:
    return par_from_iterables([numbers(), numbers()]).gather_sync()  # PLUGIN travel


@dataclass(frozen=True)
class Ahead(LiveOp[world.Rollout, world.Rollout]):
    """Handles of live actors stay on the driver, too."""

    pool: Actors[Worker]

    def apply(self, live: Live, item: world.Rollout, /) -> world.Rollout:
        handles: Handles[Worker] = live[self.pool]
        later = from_actors(self.pool, lambda worker: (worker, len(handles)))  # PLUGIN travel
        print(later)
        return item


# --------------------------------------------------------------------------- several policies, classes, paths


@plan
def several_policies() -> Plan[Metrics]:
    lock = threading.Lock()
    counted, rollouts = ParallelRollouts(many).par_tap(lambda item: use(lock, len(item))).split()  # PLUGIN travel
    chosen = Select(rollouts, policy="PPO").for_each(TrainOneStep(many, loss=A3CLoss()))
    return ReportMetrics(Union(chosen, counted.drain()), many)


class Trainer:
    def __init__(self, path: str) -> None:
        self.lock = threading.Lock()
        self.log = open(path, "w")
        self.scale = 2

    @plan
    def build(self) -> Plan[Metrics]:
        shards = ParallelRollouts(workers).par_map(lambda rollout: use(self.lock, rollout))  # PLUGIN travel
        grads = shards.par_for_each(ComputeGradients()).gather_async()
        return ReportMetrics(grads.for_each(ApplyGradients(workers)), workers)

    @flow
    def logged(self, shards: ParIter[int]) -> Iter[int]:
        return shards.par_tap(lambda number: self.log.write(f"{number}")).gather_sync()  # PLUGIN travel

    @flow
    def scaled(self, shards: ParIter[int]) -> Iter[int]:
        """The number is in the object, and so is the lock: both would have to travel."""
        return shards.par_map(lambda number: number * self.scale).gather_sync()  # PLUGIN travel

    @flow
    def by_method(self, shards: ParIter[int]) -> Iter[int]:
        return shards.par_map(self.times).gather_sync()  # PLUGIN travel

    def times(self, number: int) -> int:
        return number * self.scale


@flow
def on_one_path(shards: ParIter[int], careful: bool) -> Iter[int]:
    lock = threading.Lock()
    if careful:
        shards = shards.par_map(lambda number: use(lock, number))  # PLUGIN travel
    return shards.gather_async()


@flow
def in_a_loop(shards: ParIter[int], paths: list[str]) -> Iter[int]:
    for path in paths:
        log = open(path, "a")
        shards = shards.par_tap(partial(print, file=log))  # PLUGIN travel
    return shards.gather_async()


@flow
def when_it_fails(shards: ParIter[Rollout], path: str) -> Iter[int]:
    try:
        return shards.par_map(len).gather_async()
    except ValueError:
        log = open(path, "w")
        return shards.par_map(lambda rollout: log.write(str(rollout))).gather_async()  # PLUGIN travel


def planner(lock: threading.Lock) -> Callable[[], Iter[int]]:
    @flow
    def build() -> Iter[int]:
        return par_from_range(3).par_map(lambda number: use(lock, number)).gather_async()  # PLUGIN travel

    return build


def not_marked() -> None:
    """A test or a script: the operators are the same."""
    lock = threading.Lock()
    print(list(par_from_range(3).par_map(lambda number: use(lock, number)).gather_sync().run()))  # PLUGIN travel
    print(list(from_range(3).map(lambda number: use(lock, number)).run()))


# --------------------------------------------------------------------------- made by an operator itself


class Made(Stateless[int, int]):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def apply(self, item: int, /) -> int:
        return item


class Derived(Made):
    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor


class Opened(Stateless[int, int]):
    def __init__(self, path: str | None = None) -> None:
        self.log = open(path, "w") if path is not None else None
        self.connect()

    def connect(self) -> None:
        self.seen: list[int] = []

    def apply(self, item: int, /) -> int:
        return item


class Helped(Stateless[int, int]):
    def __init__(self, *, careful: bool = True) -> None:
        if careful:
            self.guard()

    def guard(self) -> None:
        self.locks = [threading.Lock() for _ in range(3)]

    def apply(self, item: int, /) -> int:
        return item


@dataclass(frozen=True)
class Factory(Stateless[int, int]):
    factor: int = 2
    pool: ThreadPoolExecutor | None = field(default_factory=ThreadPoolExecutor)

    def apply(self, item: int, /) -> int:
        return item


@dataclass(frozen=True)
class Frozen(Stateless[int, int]):
    seen: "queue.Queue[int]" = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seen", queue.Queue())

    def apply(self, item: int, /) -> int:
        return item


class Mean(Stateful[int, int, int]):
    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:")

    def init(self) -> int:
        return 0

    def step(self, state: int, item: int, /) -> tuple[int, int]:
        return state, item


@flow
def made_by_itself(shards: ParIter[int]) -> Iter[int]:
    return shards.par_for_each(Made()).gather_sync()  # PLUGIN travel


@flow
def made_by_its_base(shards: ParIter[int]) -> Iter[int]:
    return shards.par_for_each(Derived(2)).gather_sync()  # PLUGIN travel


@flow
def made_as_the_argument_says(shards: ParIter[int]) -> Iter[int]:
    return shards.par_for_each(Opened()).par_for_each(Opened("log")).gather_sync()  # PLUGIN travel


@flow
def made_by_a_helper(shards: ParIter[int]) -> Iter[int]:
    return shards.par_for_each(Helped(careful=False)).par_for_each(Helped()).gather_sync()  # PLUGIN travel


@flow
def made_by_a_factory(shards: ParIter[int]) -> Iter[int]:
    return shards.par_for_each(Factory(pool=None)).par_for_each(Factory(3)).gather_sync()  # PLUGIN travel


@flow
def made_after_the_fields(shards: ParIter[int]) -> Iter[int]:
    made = Frozen()
    return shards.par_for_each(made).gather_sync()  # PLUGIN travel


@flow
def copied_for_a_run(stream: Iter[int]) -> Iter[int]:
    """Operators of the driver stay there, but each run has a copy."""
    return stream.for_each(Mean())  # PLUGIN travel


# --------------------------------------------------------------------------- made by functions


def locked(fn: Callable[[int], int]) -> Callable[[int], int]:
    lock = threading.Lock()

    @wraps(fn)
    def wrapper(number: int) -> int:
        with lock:
            return fn(number)

    return wrapper


def limited(number: int) -> Callable[[Callable[[int], int]], Callable[[int], int]]:
    def decorate(fn: Callable[[int], int]) -> Callable[[int], int]:
        free = threading.Semaphore(number)
        return lambda n: fn(n) if free.acquire() else n

    return decorate


@flow
def made_by_a_function(shards: ParIter[int]) -> Iter[int]:
    return shards.par_map(locked(abs)).gather_sync()  # PLUGIN travel


@flow
def made_by_a_decorator(shards: ParIter[int]) -> Iter[int]:
    @limited(3)
    def double(number: int) -> int:
        return 2 * number

    return shards.par_map(double).gather_sync()  # PLUGIN travel


@flow
def through_another_function(shards: ParIter[int]) -> Iter[int]:
    db = sqlite3.connect(":memory:")

    def find(number: int) -> int:
        return len(db.execute("select ?", (number,)).fetchall())

    def found(number: int) -> int:
        return find(number) + 1

    return shards.par_map(found).gather_sync()  # PLUGIN travel


@flow
def as_a_default(shards: ParIter[int]) -> Iter[int]:
    def careful(number: int, lock: threading.Lock = threading.Lock()) -> int:
        with lock:
            return number

    return shards.par_map(careful).gather_sync()  # PLUGIN travel


@flow
def by_a_local_class() -> Iter[int]:
    store = threading.local()

    class Actor:
        def __init__(self, shard: Shard) -> None:
            store.index = shard.index

        def sample(self) -> int:
            return 1

    return from_actors(create_actors(Actor), Actor.sample).gather_sync()  # PLUGIN travel


# --------------------------------------------------------------------------- inside others


class Tools(NamedTuple):
    size: int
    handler: logging.Handler


class Guard:
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, number: int) -> int:
        return number


@flow
def in_a_dict(shards: ParIter[int]) -> Iter[int]:
    locks = {name: threading.Lock() for name in "ab"}
    return shards.par_map(lambda number: number + len(locks)).gather_sync()  # PLUGIN travel


@flow
def in_a_tuple(shards: ParIter[int]) -> Iter[int]:
    tools = Tools(3, logging.StreamHandler())
    return shards.par_map(lambda number: number + tools.size).gather_sync()  # PLUGIN travel


@flow
def in_an_object_that_is_called(shards: ParIter[int]) -> Iter[int]:
    return shards.par_map(Guard()).gather_sync()  # PLUGIN travel


@flow
def in_items() -> Iter[bool]:
    locks = [threading.Lock(), threading.Lock()]
    return par_from_items(locks).par_map(lambda lock: lock.locked()).gather_sync()  # PLUGIN travel


@flow
def by_a_method(shards: ParIter[int]) -> Iter[int]:
    seen = queue.SimpleQueue[int]()
    return shards.par_tap(seen.put).gather_sync()  # PLUGIN travel


@flow
def by_a_writer(shards: ParIter[list[str]]) -> Iter[list[str]]:
    return shards.par_tap(csv.writer(io.StringIO()).writerow).gather_sync()  # PLUGIN travel


# --------------------------------------------------------------------------- given to descriptions


def an_env() -> Plan[Metrics]:
    log = open("log", "w")

    def make() -> Any:  # Any: stands for an env
        log.write("made")

    spec = EnvSpec(make, max_episode_steps=50)
    return PPO(env=spec).plan()  # PLUGIN travel


def a_callback(shown: Plan[Metrics], log: TextIO) -> Plan[Metrics]:
    return shown.tapped("ParallelRollouts", lambda rollout: log.write(f"{rollout}"))  # PLUGIN travel


# --------------------------------------------------------------------------- perhaps None


@flow
def perhaps_given(shards: ParIter[int], out: TextIO | None) -> Iter[int]:
    return shards.par_map(lambda number: number if out is None else out.write(f"{number}")).gather_sync()  # PLUGIN travel


@flow
def perhaps_opened(shards: ParIter[int], path: str | None) -> Iter[int]:
    out = open(path, "w") if path else None
    return shards.par_map(lambda number: number if out is None else out.write(f"{number}")).gather_sync()  # PLUGIN travel


@flow
def opened_on_one_path(shards: ParIter[int], path: str) -> Iter[int]:
    out = None
    if path:
        out = open(path, "w")
    return shards.par_map(lambda number: number if out is None else out.write(f"{number}")).gather_sync()  # PLUGIN travel
