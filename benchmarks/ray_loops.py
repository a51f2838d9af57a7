"""The same loops twice: as one would write them by hand against Ray, and as plans. ``ray_overhead.py`` measures them.

The hand-written ones are endless generators that yield once per item; they do what the plans do and no more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from tflow import Actors, Iter, Live, LiveOp, Shard, TimeBudget, Union, create_actor, create_actors, from_actors
from tflow.actors import Actor
from tflow.types import Ref, RefOp

Handle = Any  # Any: Ray makes the methods of its actors at run time
Endless = Iterator[object]


class Worker:
    """Makes items: a number, or an array of some size, after some work."""

    def __init__(self, shard: Shard | None = None, work_s: float = 0.0, size: int = 0) -> None:
        self.work_s, self.size, self.weights, self.made = work_s, size, 0.0, 0

    def sample(self) -> float | NDArray[np.uint8]:
        self.made += 1
        end = time.thread_time() + self.work_s
        while time.thread_time() < end:  # of CPU time, so that contention counts
            pass
        return np.full(self.size, self.made % 256, np.uint8) if self.size else self.weights + 1

    def sample_and_count(self) -> tuple[int, float | NDArray[np.uint8]]:
        return self.made, self.sample()

    def set_weights(self, weights: float) -> None:
        self.weights = weights


class Replay:
    """Keeps the last items."""

    def __init__(self, shard: Shard | None = None) -> None:
        self.items: list[object] = []

    def add(self, item: object) -> None:
        self.items.append(item)
        del self.items[:-8]

    def sample(self) -> float:
        return float(len(self.items))

    def prioritise(self, priority: float) -> None:
        self.priority = priority


# --------------------------------------------------------------------------- by hand


def hand_a3c(workers: list[Handle]) -> Endless:
    """The loop of the paper's slides."""
    weights, pending = 0.0, {worker.sample.remote(): worker for worker in workers}
    while True:
        (ref,), _ = ray.wait(list(pending))
        worker = pending.pop(ref)
        weights += ray.get(ref)
        worker.set_weights.remote(weights)
        pending[worker.sample.remote()] = worker
        yield weights


def hand_sync(workers: list[Handle]) -> Endless:
    weights = 0.0
    while True:
        for gradient in ray.get([worker.sample.remote() for worker in workers]):
            weights += gradient
            yield weights
        for worker in workers:
            worker.set_weights.remote(weights)


def hand_apex(workers: list[Handle], replay: Handle, batches: int) -> Endless:
    """Rollouts are stored and batches are trained on as they come. Rollouts go to the replay actor by reference, with their count
    beside them; the learner is the driver."""
    weights, pending = 0.0, {}

    def rollout(worker: Handle) -> None:
        count, item = worker.sample_and_count.options(num_returns=2).remote()
        pending[count] = worker, item

    def batch() -> None:
        pending[replay.sample.remote()] = None, None

    for each in workers:
        rollout(each)
    for _ in range(batches):
        batch()
    while True:
        (ref,), _ = ray.wait(list(pending))
        worker, item = pending.pop(ref)
        found = ray.get(ref)
        if worker is None:
            weights += found
            replay.prioritise.remote(found)
            batch()
        else:
            replay.add.remote(item)
            worker.set_weights.remote(weights)
            rollout(worker)
        yield found


def hand_gather(workers: list[Handle], in_flight: int = 1) -> Endless:
    """Only the items."""
    pending = {worker.sample.remote(): worker for worker in workers for _ in range(in_flight)}
    while True:
        (ref,), _ = ray.wait(list(pending))
        worker = pending.pop(ref)
        item = ray.get(ref)
        pending[worker.sample.remote()] = worker
        yield item


def hand_store(workers: list[Handle], replay: Handle, *, by_ref: bool) -> Endless:
    """Items go to the replay actor, one insertion under way per worker."""
    pending: dict[Any, tuple[Handle, Any]] = {}  # Any: refs

    def rollout(worker: Handle) -> None:
        count, item = worker.sample_and_count.options(num_returns=2).remote()
        pending[count] = worker, item

    for each in workers:
        rollout(each)
    while True:
        (ref,), _ = ray.wait(list(pending))
        worker, item = pending.pop(ref)
        ray.get(ref)
        replay.add.remote(item if by_ref else ray.get(item))
        rollout(worker)
        yield item


# --------------------------------------------------------------------------- as plans


@dataclass(frozen=True)
class ApplyGradient(LiveOp[Any, float]):  # Any: a number, as the workers of these plans make it
    """The gradient goes into the weights, the weights to the worker that it came from, or to all."""

    workers: Actors[Worker]
    to_all: bool

    def apply(self, live: Live, item: float, /) -> float:
        weights = live[self.workers].advance() + item
        live[self.workers].update(Worker.set_weights, weights, shards=None if self.to_all else live.shards(self.workers))
        return weights


@dataclass(frozen=True)
class Store(RefOp[Any]):  # Any: it never looks
    replay: Actor[Replay]

    def forward(self, live: Live, item: Ref[object], /) -> None:
        live[self.replay].send(Replay.add, item)


@dataclass(frozen=True)
class StoreOpened(LiveOp[Any, object]):  # Any: as above
    replay: Actor[Replay]

    def apply(self, live: Live, item: object, /) -> object:
        live[self.replay].send(Replay.add, item)
        return item


@dataclass(frozen=True)
class UpdateWeights(RefOp[Any]):  # Any: as above
    workers: Actors[Worker]

    def forward(self, live: Live, item: Ref[object], /) -> None:
        weights = float(live[self.workers].advance())
        live[self.workers].update(Worker.set_weights, weights, shards=live.shards(self.workers))


@dataclass(frozen=True)
class Train(LiveOp[float, float]):
    replay: Actor[Replay]

    def apply(self, live: Live, item: float, /) -> float:
        live[self.replay].send(Replay.prioritise, item)
        return item


def make_worker(work_s: float, size: int) -> Callable[[Shard], Worker]:
    return lambda shard: Worker(shard, work_s, size)


def workers_of(num: int, work_s: float = 0.0, size: int = 0) -> Actors[Worker]:
    return create_actors(make_worker(work_s, size), num=num, name="worker")


def a3c(workers: Actors[Worker]) -> Iter[object]:
    return from_actors(workers, Worker.sample).gather_async().for_each(ApplyGradient(workers, to_all=False))


def sync(workers: Actors[Worker]) -> Iter[object]:
    return from_actors(workers, Worker.sample).gather_sync().for_each(ApplyGradient(workers, to_all=True))


def apex(workers: Actors[Worker], replay: Actor[Replay]) -> Iter[object]:
    rollouts = from_actors(workers, Worker.sample).gather_async()
    stored = rollouts.for_each(Store(replay)).for_each(UpdateWeights(workers))
    trained = from_actors(replay, Replay.sample).gather_async(in_flight=2).for_each(Train(replay))
    return Union(stored.drain(), trained)


def gather(workers: Actors[Worker], in_flight: int = 1, per_call: int | TimeBudget = 1) -> Iter[object]:
    return from_actors(workers, Worker.sample).gather_async(in_flight=in_flight, per_call=per_call)


def store(workers: Actors[Worker], replay: Actor[Replay], items: int, *, by_ref: bool) -> Iter[object]:
    rollouts = from_actors(workers, Worker.sample).gather_async().take(items)
    return rollouts.for_each(Store(replay) if by_ref else StoreOpened(replay)).drain()


def new_replay() -> Actor[Replay]:
    return create_actor(Replay, name="replay")
