"""What tflow costs on Ray: plans against the loops that one would write by hand, and against ``ray.util.iter``.

All contestants of a comparison run in one process, in turns, in an order that rotates; a figure is the median over the rounds of
the ratio within a round [lowest..highest]. Above 1, tflow is faster. Machines are noisy: a range that spans 1 is a tie.

    python -m benchmarks.ray_overhead            everything, about seven minutes
    python -m benchmarks.ray_overhead loops      one part: loops, iter, sizes, refs, start
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, cast

import ray
from ray.util.iter import from_iterators

from benchmarks import ray_loops as loops
from tflow import Actors, Iter, Plan, RayRuntime, TimeBudget
from tflow.actors import Actor
from tflow.runtime.host import bytes_in

ROUNDS = 8
SECONDS = 0.8
"""How long one turn takes, roughly."""
WORK_S = 0.002
SIZES = {"tiny": 0, "64 KiB": 2**16, "4 MiB": 2**22}

Turn = Callable[[int], int]
"""Do so many items; returns how many were done."""


def compare(title: str, base: str, turns: dict[str, Turn], rounds: int = ROUNDS) -> None:
    """Run the contestants in turns and print their rates and ratios to the base."""
    rates, cpu = measured(turns, rounds)
    print(f"\n{title}")
    for name in turns:
        ratios = [mine / other for mine, other in zip(rates[name], rates[base], strict=True)]
        spread = f"{statistics.median(ratios):5.2f} [{min(ratios):.2f}..{max(ratios):.2f}]" if name != base else "    1"
        rate, busy = statistics.median(rates[name]), statistics.median(cpu[name])
        print(f"  {name:<34} {rate:9.0f} items/s {busy:7.0f} us of driver  {spread}")


def measured(
    turns: dict[str, Turn], rounds: int, seconds: float = SECONDS
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Run the contestants in turns, in an order that rotates: items per second, and the driver's CPU microseconds per item."""
    counts = {name: calibrated(turn, seconds) for name, turn in turns.items()}
    rates: dict[str, list[float]] = {name: [] for name in turns}
    cpu: dict[str, list[float]] = {name: [] for name in turns}
    names = list(turns)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            start, before = time.perf_counter(), time.process_time()
            done = turns[name](counts[name])
            rates[name].append(done / (time.perf_counter() - start))
            cpu[name].append((time.process_time() - before) / done * 1e6)
    return rates, cpu


def calibrated(turn: Turn, seconds: float = SECONDS) -> int:
    """How many items make a turn; also warms up."""
    turn(20)
    start = time.perf_counter()
    done = turn(100)
    return max(20, int(done / (time.perf_counter() - start) * seconds))


def by_hand(items: Iterable[object]) -> Turn:
    """An endless loop, some items at a time."""
    endless = iter(items)
    return lambda count: sum(1 for _ in islice(endless, count))


def as_plan(stream: Plan[object] | Iter[object], session: RayRuntime) -> Turn:
    """One run, some items at a time, as a loop by hand is one loop."""
    run = stream.run(runtime=session)
    return lambda count: sum(1 for _ in islice(run, count))


def remote(kind: type, *args: object, num: int = 2) -> list[Any]:  # Any: Ray makes the methods of its actors at run time
    made: list[Any] = [ray.remote(kind).remote(None, *args) for _ in range(num)]
    ray.get([each.__ray_ready__.remote() for each in made])
    return made


def free(*groups: Iterable[Any]) -> None:  # Any: as above
    for group in groups:
        for actor in group:
            ray.kill(actor)


def measure_loops(session: RayRuntime) -> None:
    """(a) Against hand-written loops: a policy of one number, and 2 ms of work per item."""
    for work_s, what in [(0.0, "one number, no work"), (WORK_S, "one number, 2 ms of work per item")]:
        for name, hand, plan in [("A3C", loops.hand_a3c, loops.a3c), ("Synchronous", loops.hand_sync, loops.sync)]:
            workers = remote(loops.Worker, work_s)
            turns = {"by hand": by_hand(hand(workers)), "tflow": as_plan(plan(loops.workers_of(2, work_s)), session)}
            compare(f"{name}, 2 workers, {what}", "by hand", turns)
            free(workers)
        workers, replay = remote(loops.Worker, work_s, num=4), remote(loops.Replay, num=2)
        turns = {
            "by hand": by_hand(loops.hand_apex(workers[:2], replay[0], 1)),
            "by hand, 2 batches in flight": by_hand(loops.hand_apex(workers[2:], replay[1], 2)),
            "tflow, 2 batches in flight": counted_apex(loops.workers_of(2, work_s), loops.new_replay(), session),
        }
        compare(f"Ape-X, 2 workers, {what}; rollouts stored and batches trained on", "by hand", turns)
        free(workers, replay)


def counted_apex(workers: Actors[loops.Worker], replay: Actor[loops.Replay], session: RayRuntime) -> Turn:
    """Counts what is stored and what is trained on, as the loop by hand does."""
    run = loops.apex(workers, replay).run(runtime=session)

    def turn(count: int) -> int:
        before = operations()
        for _ in islice(run, count // 2):  # about every other one is a batch
            pass
        return operations() - before

    def operations() -> int:
        return sum(each.shown for each in run.stats().operators if each.operator.startswith(("for_each(Store", "for_each(Train")))

    return turn


def measure_iter(session: RayRuntime) -> None:
    """(b) Against the parallel iterators that RLlib Flow was made of."""
    for work_s, what in [(0.0, "no work"), (WORK_S, "2 ms of work per item")]:
        mine = loops.workers_of(2, work_s)

        def endless(work_s: float = work_s) -> Iterable[object]:
            worker = loops.Worker(None, work_s)
            while True:
                yield worker.sample()

        shards = cast("Any", [endless, endless])  # Any: it takes functions, and its types do not say so
        theirs: Any = from_iterators(shards)  # Any: as above
        batched: Any = from_iterators(shards)  # Any: as above
        turns = {
            "ray.util.iter": by_hand(theirs.gather_async()),
            "tflow": as_plan(loops.gather(mine), session),
            "tflow, in_flight=2": as_plan(loops.gather(loops.workers_of(2, work_s), 2), session),
        }
        compare(f"Items alone, 2 workers, {what}", "ray.util.iter", turns)
        turns = {
            "ray.util.iter, batch_ms=5": by_hand(batched.gather_async(batch_ms=5)),
            "tflow, TimeBudget()": as_plan(loops.gather(mine, 1, TimeBudget()), session),
            "tflow, TimeBudget(items=100000)": as_plan(loops.gather(mine, 1, TimeBudget(items=100_000)), session),
        }
        compare(f"Several items per call, 2 workers, {what}", "ray.util.iter, batch_ms=5", turns)
        del theirs, batched, turns


def measure_sizes(session: RayRuntime) -> None:
    """(c) Sizes of items and numbers of workers."""
    for num in (2, 4):
        for name, size in SIZES.items():
            workers = remote(loops.Worker, 0.0, size, num=num)
            turns = {
                "by hand": by_hand(loops.hand_gather(workers)),
                "tflow": as_plan(loops.gather(loops.workers_of(num, 0.0, size)), session),
                "tflow, in_flight=2": as_plan(loops.gather(loops.workers_of(num, 0.0, size), 2), session),
                "tflow, TimeBudget()": as_plan(loops.gather(loops.workers_of(num, 0.0, size), 1, TimeBudget()), session),
            }
            compare(f"Items of {name}, {num} workers", "by hand", turns, rounds=5)
            free(workers)


def measure_refs(session: RayRuntime) -> None:
    """Rollouts to a replay actor: what the driver sees of them."""
    for name, size in list(SIZES.items())[1:]:
        workers, replay = remote(loops.Worker, 0.0, size), remote(loops.Replay, num=1)
        mine, store = loops.workers_of(2, 0.0, size), loops.new_replay()

        through, unopened = (storing(mine, store, session, by_ref=by_ref) for by_ref in (False, True))
        turns = {
            "by hand, through the driver": by_hand(loops.hand_store(workers, replay[0], by_ref=False)),
            "by hand, by reference": by_hand(loops.hand_store(workers, replay[0], by_ref=True)),
            "tflow, through the driver": through,
            "tflow, by reference (RefOp)": unopened,
        }
        compare(f"Rollouts of {name} to a replay actor, 2 workers", "by hand, through the driver", turns, rounds=5)
        for what, turn in {"through the driver": through, "by reference": unopened}.items():
            fetched, stored = fetched_per_item(turn, 50), most_in_store(turn, 200) / 2**20
            print(f"  tflow, {what:<20} {fetched:10.0f} bytes per item came to the driver, {stored:4.0f} MiB in the store")
        free(workers, replay)


def storing(workers: Actors[loops.Worker], replay: Actor[loops.Replay], session: RayRuntime, *, by_ref: bool) -> Turn:
    def turn(count: int) -> int:
        list(loops.store(workers, replay, count, by_ref=by_ref).run(runtime=session))
        return count

    return turn


def fetched_per_item(turn: Turn, count: int) -> float:
    """How many bytes of items ``ray.get`` gave to the driver."""
    found, get = 0, ray.get

    def counting(*args: Any, **kwargs: Any) -> Any:  # Any: as ray.get
        nonlocal found
        value = get(*args, **kwargs)
        found += bytes_in(value)
        return value

    ray.get = counting
    try:
        done = turn(count)
    finally:
        ray.get = get
    return found / done


def most_in_store(turn: Turn, count: int) -> float:
    """How many bytes were in the object store at most, as often as one can look."""
    most, over = 0.0, threading.Event()

    def look() -> None:
        nonlocal most
        while not over.wait(0.02):
            there: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]  # Ray's
            most = max(most, limit - there.get("object_store_memory", limit))

    limit: float = ray.cluster_resources()["object_store_memory"]  # type: ignore[no-untyped-call]  # Ray's
    looking = threading.Thread(target=look)
    looking.start()
    try:
        turn(count)
    finally:
        over.set()
        looking.join()
    return most


START = """
import time
begin = time.perf_counter()
from tflow import RayRuntime, par_from_range
imported = time.perf_counter()
session = RayRuntime(num_cpus=8)
started = time.perf_counter()
list(par_from_range(2, shards=2).gather_sync().run(runtime=session))
first = time.perf_counter()
session.close()
print(imported - begin, started - imported, first - started, time.perf_counter() - first)
"""


def measure_start() -> None:
    """How long it takes to start and to end."""
    runs = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True, timeout=120)
        runs.append([float(part) for part in done.stdout.split()])
    print("\nStart and end of RayRuntime(num_cpus=8), seconds, median of 3 processes")
    for what, figures in zip(("import", "start", "first items of 2 actors", "close"), zip(*runs, strict=True), strict=True):
        print(f"  {what:<26} {statistics.median(figures):5.2f} [{min(figures):.2f}..{max(figures):.2f}]")


PARTS = {"loops": measure_loops, "iter": measure_iter, "sizes": measure_sizes, "refs": measure_refs}


def main() -> None:
    chosen = sys.argv[1:] or [*PARTS, "start"]
    for part in chosen:
        if part == "start":
            measure_start()
            continue
        with RayRuntime(num_cpus=32, logs=False) as session:
            PARTS[part](session)


if __name__ == "__main__":
    main()
