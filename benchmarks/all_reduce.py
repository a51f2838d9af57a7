"""What averaging gradients costs: between actors, and on the driver.

    python -m benchmarks.all_reduce

Each of 2 or 4 actors on Ray gives an array of 1 MB or 40 MB per round. Either the actors average them among themselves
(``par_all_reduce``), or the driver gathers them, averages, and sends the mean back (``gather_rounds``, then a message to all).
Beside them, the same round by ``torch.distributed`` (gloo, over loopback) between bare processes: what a ring would take. All run
in turn, several times; medians with range, and what passes through the driver: bytes of arrays that it opens or sends.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue

import numpy as np

from tflow import ActorOp, Actors, Iter, Live, LiveOp, RayRuntime, Shard, Stateless, create_actors, from_actors
from tflow.rl.data.arrays import Array
from tflow.types import Async

ROUNDS, REPEATS = 20, 5


class Giver:
    """Has an array to give, and keeps the latest mean."""

    def __init__(self, values: Array) -> None:
        self.values = values
        self.mean = values

    def give(self) -> Array:
        return self.values

    def take(self, mean: Array) -> None:
        self.mean = mean


@dataclass(frozen=True)
class MakeGiver:
    size: int

    def __call__(self, shard: Shard) -> Giver:
        return Giver(np.full(self.size, shard.index, np.float32))


class Mean(Stateless[list[Array], Array]):
    """The mean of arrays."""

    def apply(self, item: list[Array], /) -> Array:
        total = item[0].copy()
        for each in item[1:]:
            total += each
        total /= len(item)
        return total


class Keep(ActorOp[Giver, Array, float]):
    """The actor keeps the mean."""

    def apply(self, actor: Giver, item: Array, /) -> float:
        actor.take(item)
        return float(item[0])


class SendBack(LiveOp[Array, float, Async]):
    """The driver sends the mean to all actors."""

    def __init__(self, givers: Actors[Giver]) -> None:
        self.givers = givers

    def apply(self, live: Live, item: Array, /) -> float:
        live[self.givers].update(Giver.take, item)
        return float(item[0])


def between_actors(num: int, size: int) -> Iter[list[float]]:
    """The actors average among themselves."""
    givers = create_actors(MakeGiver(size), num=num, name="givers")
    return from_actors(givers, Giver.give).par_all_reduce(Mean()).par_for_each(Keep()).gather_rounds()


def on_the_driver(num: int, size: int) -> Iter[float]:
    """The driver averages."""
    givers = create_actors(MakeGiver(size), num=num, name="givers")
    return from_actors(givers, Giver.give).gather_rounds().for_each(Mean()).for_each(SendBack(givers))


def seconds_per_round(stream: Iter[object], runtime: RayRuntime) -> float:
    """Seconds per round, after two that warm up."""
    with stream.run(runtime=runtime) as run:
        for _ in range(2):
            next(run)
        begin = time.perf_counter()
        for _ in range(ROUNDS):
            next(run)
        return (time.perf_counter() - begin) / ROUNDS


def rank(index: int, num: int, size: int, meeting: str, found: SimpleQueue[float]) -> None:
    """One process of a group of torch.distributed; the first one says how long a round takes."""
    import torch
    import torch.distributed as group

    torch.set_num_threads(1)
    group.init_process_group("gloo", init_method=f"file://{meeting}", rank=index, world_size=num)
    values = torch.full((size,), float(index))
    begin = 0.0
    for each in range(ROUNDS + 2):
        if each == 2:
            begin = time.perf_counter()
        mean = values.clone()
        group.all_reduce(mean)
        mean /= num
    if index == 0:
        found.put((time.perf_counter() - begin) / ROUNDS)
    group.destroy_process_group()


def gloo(num: int, size: int) -> float:
    """Seconds per round between bare processes."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        found: SimpleQueue[float] = context.SimpleQueue()
        processes = [context.Process(target=rank, args=(k, num, size, f"{folder}/meeting", found)) for k in range(num)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(120)
        return found.get()


def main() -> None:
    """Measure, and print a table."""
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    columns = ("between actors", "on the driver", "torch.distributed")
    print("actors  MB each" + "".join(f"{name:>26}" for name in columns) + "   MB through the driver, first and second")
    with RayRuntime(num_cpus=8) as runtime:
        for num, megabytes in ((2, 1), (2, 40), (4, 1), (4, 40)):
            size = megabytes * 250_000
            found: dict[str, list[float]] = {name: [] for name in columns}
            for _ in range(REPEATS):
                found["between actors"].append(seconds_per_round(between_actors(num, size), runtime))
                found["on the driver"].append(seconds_per_round(on_the_driver(num, size), runtime))
                found["torch.distributed"].append(gloo(num, size))
            shown = [
                f"{1e3 * statistics.median(each):.1f} ms ({1e3 * min(each):.1f}-{1e3 * max(each):.1f})" for each in found.values()
            ]
            passed = f"0 and {(num + 1) * megabytes}"  # the driver opens those of all, and sends the mean once
            print(f"{num:>6} {megabytes:>8}" + "".join(f"{each:>26}" for each in shown) + f"   {passed}", flush=True)


if __name__ == "__main__":
    main()
