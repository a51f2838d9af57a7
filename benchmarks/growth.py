"""What grows with workers, items, plans, envs and replay, in CPU time, for ``docs/scale.md`` (``make bench-growth``).

    python -m benchmarks.growth                     all of it
    python -m benchmarks.growth workers --most 256  one part, as named in PARTS

CPU time of the driver and all its threads, which a busy machine changes less than the clock. A figure is the median of the
rounds [lowest..highest]. Workers sleep as an env would work, so that two cores carry many of them: with ``n`` workers, an item
takes ``n`` times 2 ms, and 500 items per second arrive.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contest import RESULTS, ROOT, Row, fill, read, spread, write
from benchmarks.rollouts import worker
from tflow import Iter, Live, LocalRuntime, ParIter, RayRuntime, Shard, TimeBudget, create_actors, from_actors, from_range
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch
from tflow.rl.policy.network_spec import MLP
from tflow.rl.replay.buffer import PrioritizedBuffer
from tflow.types import Ref, RefOp

GROWTH = RESULTS / "growth.csv"
COLUMNS = ("contestant", "seed", "size", "figure")
ROUNDS = 3
PAUSE_S = 0.002
Found = Iterator[tuple[str, int, int, float]]
"""What, round, size, figure."""


class Sleeper:
    """Makes items of some size; each takes a while."""

    def __init__(self, shard: Shard, pause_s: float = 0.0, size: int = 0) -> None:
        self.pause_s, self.item = pause_s, np.zeros(size, np.uint8) if size else 1

    def make(self) -> int | NDArray[np.uint8]:
        if self.pause_s:
            time.sleep(self.pause_s)
        return self.item


class Pass(RefOp[Any]):  # Any: it never looks
    def forward(self, live: Live, item: Ref[object], /) -> None:
        return


def made(num: int, pause_s: float = 0.0, size: int = 0) -> ParIter[int | NDArray[np.uint8]]:
    return from_actors(create_actors(lambda shard: Sleeper(shard, pause_s, size), num=num), Sleeper.make)


def busy(job: Callable[[], object]) -> float:
    """CPU microseconds."""
    before = time.process_time()
    job()
    return (time.process_time() - before) * 1e6


def taken(run: Iterator[object], count: int) -> float:
    """CPU microseconds per item."""
    return busy(lambda: deque(islice(run, count), 0)) / count


def up_to(most: int, *sizes: int) -> list[int]:
    return [size for size in sizes if size <= most]


def workers(most: int) -> Found:
    """On Ray, by the number of workers: microseconds of the driver per item."""
    for num in up_to(most, 1, 4, 16, 32, 64, 128, 256):
        with RayRuntime(num_cpus=num + 1, logs=False) as session:
            them = made(num, num * PAUSE_S)
            several = them.gather_async(per_call=TimeBudget(seconds=4 * num * PAUSE_S))
            ways = {"an item per call": them.gather_async(), "rounds": them.gather_sync(), "four items per call": several}
            for way, stream in ways.items():
                with stream.run(runtime=session) as run:
                    taken(run, 4 * num)
                    for number in range(ROUNDS):
                        yield way, number, num, taken(run, 4 * max(num, 64))


def pending(most: int) -> Found:
    """On Ray, by the calls that are under way, of 4 workers together: microseconds of the driver per item."""
    with RayRuntime(num_cpus=8, logs=False) as session:
        for calls in up_to(most, 4, 16, 64, 256, 1024):
            with made(4, PAUSE_S).gather_async(in_flight=calls // 4).run(runtime=session) as run:
                taken(run, 2 * calls)
                for number in range(ROUNDS):
                    yield "an item per call", number, calls, taken(run, 300)


def items(most: int) -> Found:
    """On Ray, by the KiB of an item: microseconds of the driver per item of 4 workers."""
    del most
    with RayRuntime(num_cpus=8, logs=False) as session:
        for size in (0, 2**14, 2**16, 2**18, 2**20, 2**22):
            stream = made(4, PAUSE_S, size).gather_async().take(200)
            ways = {"opened by the driver": stream.map(type).drain(), "by reference": stream.for_each(Pass()).drain()}
            for number in range(-1, ROUNDS):
                for way, plan in ways.items():
                    figure = busy(lambda plan=plan: list(plan.run(runtime=session))) / 200  # type: ignore[misc]  # a default
                    if number >= 0:
                        yield way, number, size // 1024, figure


def shards(most: int) -> Found:
    """In one process, by the number of shards: microseconds per item, and to start."""
    for num in up_to(most, 1, 10, 100, 1_000, 10_000):
        for number in range(ROUNDS):
            for way, stream in {"an item per call": made(num).gather_async(), "rounds": made(num).gather_sync()}.items():
                with LocalRuntime() as session, stream.run(runtime=session) as run:
                    yield f"{way}: start, per shard", number, num, busy(lambda run=run: next(run)) / num  # type: ignore[misc]  # as above
                    yield way, number, num, taken(run, max(500, 2 * num))


def one(item: int) -> int:
    return item


def chained(length: int) -> Iter[int]:
    stream: Iter[int] = from_range(10**9)
    for _ in range(length):
        stream = stream.map(one)
    return stream


def grouped(length: int) -> Iter[int]:
    stream: Iter[int] = from_range(10**9)
    for _ in range(length // 2):
        stream = stream.batch(1).flatten()
    return stream


def plans(most: int) -> Found:
    """In one process, by the operators of a plan: microseconds per operator to build it, to start it, and per item."""
    for length in up_to(most, 10, 100, 1_000):
        for number in range(ROUNDS):
            for way, build in {"map": chained, "batch and flatten": grouped}.items():
                found: list[Iter[int]] = []
                yield f"{way}: build", number, length, busy(lambda: found.append(build(length))) / length  # noqa: B023  # called here
                run = found[0].run()
                yield f"{way}: validate and start", number, length, busy(lambda: next(run)) / length  # noqa: B023  # as above
                yield f"{way}: an item", number, length, taken(run, 200) / length


def session(most: int) -> Found:
    """In one process, by the plans that were run before in the same session: microseconds to run one more, of 20 items."""
    for number in range(ROUNDS):
        with LocalRuntime() as shared:
            for count in range(1, min(most, 1_000) + 1):
                figure = busy(lambda: list(made(2).gather_async().take(20).run(runtime=shared)))
                if count in (1, 10, 100, 1_000):
                    yield "one more plan", number, count, figure


def envs(most: int) -> Found:
    """By the CartPoles of a rollout worker: microseconds per env step."""
    cases = {num: worker("CartPole-v1", num, MLP(), shared=True) for num in up_to(most, 1, 10, 100, 1_000)}
    for case in cases.values():
        case()
    for number in range(ROUNDS):
        for num, case in cases.items():
            yield "an env step", number, num, busy(case) / (num * 64)


def replay(most: int) -> Found:
    """By the rows of a prioritised buffer: microseconds per row inserted, per batch of 512 drawn and updated, bytes per row."""
    del most
    rng = np.random.default_rng(0)
    part = 10_000
    data = {"obs": rng.random((part, 4), np.float32), "next_obs": rng.random((part, 4), np.float32)}
    columns: dict[str, Array] = {**data, "actions": rng.integers(2, size=part), "rewards": np.ones(part, np.float32)}
    rows: Batch[str] = Batch({**columns, "terminated": np.zeros(part, bool), "priorities": rng.random(part) + 1e-3})
    small = PrioritizedBuffer(part)
    insert(small, rows, 1)
    draw(small, rng, 1)  # what is compiled is compiled
    for size in (10**4, 10**5, 10**6, 10**7):
        before = resident()
        buffer = PrioritizedBuffer(size)
        filling = busy(partial(insert, buffer, rows, size // part))
        yield "insert a row", 0, size, filling / size
        yield "bytes per row, resident", 0, size, (resident() - before) / size
        for number in range(ROUNDS):
            yield "draw 512 and update their priorities", number, size, busy(partial(draw, buffer, rng, 100)) / 100


def insert(buffer: PrioritizedBuffer, rows: Batch[str], times: int) -> None:
    for _ in range(times):
        buffer.insert(rows)


def draw(buffer: PrioritizedBuffer, rng: np.random.Generator, times: int) -> None:
    for _ in range(times):
        buffer.update_priorities(buffer.sample(512)["ids"], rng.random(512) + 1e-3)


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


PARTS: dict[str, tuple[Callable[[int], Found], int]] = {
    "workers": (workers, 64),
    "pending": (pending, 1024),
    "items": (items, 0),
    "shards": (shards, 1_000),
    "plans": (plans, 1_000),
    "session": (session, 100),
    "envs": (envs, 1_000),
    "replay": (replay, 0),
}
"""What is measured, and up to which size if nobody says."""


def table(part: str) -> str:
    """Markdown: a column per size."""
    rows = [row for row in read(GROWTH) if row["contestant"].startswith(f"{part}: ")]
    found = sorted({int(row["size"]) for row in rows})
    lines = ["| | " + " | ".join(f"{size:,}" for size in found) + " |", "|---|" + "---:|" * len(found)]
    for name in dict.fromkeys(row["contestant"] for row in rows):
        figures = [
            [float(row["figure"]) for row in rows if (row["contestant"], int(row["size"])) == (name, size)] for size in found
        ]
        shown = [spread(each, ",.0f" if each and median(each) >= 100 else ".3g") for each in figures]
        lines.append(f"| {name.removeprefix(f'{part}: ')} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--most", type=int, help="the largest size of a part")
    given = parser.parse_args()
    for part in given.parts:
        measure, usual = PARTS[part]
        rows: list[Row] = [row for row in read(GROWTH) if not row["contestant"].startswith(f"{part}: ")]
        for what, number, size, figure in measure(given.most or usual):
            rows.append({"contestant": f"{part}: {what}", "seed": str(number), "size": str(size), "figure": f"{figure:.3f}"})
            write(GROWTH, rows, COLUMNS)
        fill(ROOT / "docs" / "scale.md", part, table(part))
        print(f"{part}\n{table(part)}\n", flush=True)


if __name__ == "__main__":
    main()
