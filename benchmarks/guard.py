"""Guards what tflow costs: key ratios against those in ``benchmarks/results/guard.csv``; fails if one has lost more than 15 %.

    python -m benchmarks.guard [--write] [--rounds 9] [CASE...]       (``make bench-guard``; two minutes)

Each ratio is that of two things which run in turns in one process, so that a slow or busy machine slows both; above 1 tflow is
faster. In-process cases are measured in CPU time, those on Ray by the clock. ``--write`` keeps what was measured as the new
ratios. What needs no clock is in ``tests/unit/test_driver_cost.py``.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from benchmarks import overhead, rollouts

RATIOS = Path(__file__).parent / "results" / "guard.csv"
MOST_LOST = 0.15
Job = Callable[[], object]
Pair = tuple[Job, Job]
"""The rival, and tflow; both do the same amount of work."""


def against_the_bare_loop(name: str) -> Pair:
    case = next(case for case in overhead.CASES if case.name == name)
    return case.bare, lambda: overhead.exhaust(case.flow().run())


def against_the_bare_env(num: int) -> Pair:
    from tflow.rl.policy.network_spec import MLP

    return rollouts.bare("CartPole-v1", num), rollouts.worker("CartPole-v1", num, MLP(), shared=True)


@contextmanager
def in_process(make: Callable[[], Pair]) -> Iterator[Pair]:
    yield make()


@contextmanager
def on_ray(*, several: bool) -> Iterator[Pair]:
    """Numbers of two workers: one per call against a loop by hand, or several per call against ``ray.util.iter``."""
    from ray.util.iter import from_iterators

    from benchmarks import ray_loops as loops
    from benchmarks.ray_overhead import as_plan, by_hand, remote
    from tflow import RayRuntime, TimeBudget

    def endless() -> Iterator[object]:
        worker = loops.Worker()
        while True:
            yield worker.sample()

    with RayRuntime(num_cpus=8, logs=False) as session:
        mine = loops.workers_of(2)
        if several:
            shards = cast("Any", [endless, endless])  # Any: it takes functions, and its types do not say so
            theirs: Any = from_iterators(shards)  # Any: as above
            rival = by_hand(theirs.gather_async(batch_ms=5))
            yield partial(rival, 50_000), partial(as_plan(loops.gather(mine, 1, TimeBudget()), session), 50_000)
        else:
            rival = by_hand(loops.hand_gather(remote(loops.Worker)))
            yield partial(rival, 500), partial(as_plan(loops.gather(mine), session), 500)


CASES = {
    "fused chain of 5": partial(in_process, partial(against_the_bare_loop, "fused chain of 5")),
    "2-way union": partial(in_process, partial(against_the_bare_loop, "2-way union")),
    "worker with 1 CartPole": partial(in_process, partial(against_the_bare_env, 1)),
    "worker with 64 CartPoles": partial(in_process, partial(against_the_bare_env, 64)),
    "Ray, an item per call": partial(on_ray, several=False),
    "Ray, several items per call": partial(on_ray, several=True),
}


def ratio(pair: Pair, rounds: int, clock: Callable[[], float]) -> float:
    """How much faster the second is, median over the rounds."""
    found = []
    for job in pair:
        job()  # warms up
    for turn in range(rounds):
        took = [0.0, 0.0]
        for which in (0, 1) if turn % 2 else (1, 0):
            start = clock()
            pair[which]()
            took[which] = clock() - start
        found.append(took[0] / took[1])
    return statistics.median(found)


def committed() -> dict[str, float]:
    """The ratios of before."""
    if not RATIOS.exists():
        return {}
    with RATIOS.open(encoding="utf-8") as file:
        return {row["case"]: float(row["ratio"]) for row in csv.DictReader(file)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--write", action="store_true", help="keep what was measured")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    unknown = [name for name in given.cases if name not in CASES]
    if unknown:
        parser.error(f"no case {unknown[0]!r}; there are {', '.join(CASES)}")
    before, lost = committed(), list[str]()
    for name in given.cases or CASES:
        with CASES[name]() as pair:
            clock = time.perf_counter if name.startswith("Ray") else time.process_time
            now = ratio(pair, given.rounds, clock)
        was = before.get(name)
        print(f"{name:<32} {now:6.3f}  was {'unknown' if was is None else f'{was:.3f}'}", flush=True)
        if was is not None and now < was * (1 - MOST_LOST):
            lost.append(f"{name}: {now:.3f} is {1 - now / was:.0%} less than {was:.3f}")
        before[name] = now
    if given.write:
        rows = "".join(f'"{name}",{value:.3f}\n' for name, value in before.items())
        RATIOS.write_text(f"case,ratio\n{rows}", encoding="utf-8")
    elif lost:
        sys.exit("Slower than before:\n" + "\n".join(lost))


if __name__ == "__main__":
    main()
