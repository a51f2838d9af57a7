"""How many schedules one core simulates per second (``make bench``).

Short schedules, up to 20 events, plain values; alone, and with hypothesis choosing them. The aim is 500 per second alone. The
speed of the machine is measured beside it, as so many turns of an empty loop, so that figures can be compared.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from hypothesis import HealthCheck, Phase, given, settings

from tflow import Actors, Iter, Live, LiveOp, Shard, create_actors, from_actors, par_from_range
from tflow.testing import SimSchedule, schedules, simulate

ROUNDS = 5
EACH = 300


class Worker:
    def __init__(self, shard: Shard) -> None:
        self.weights = 0

    def sample(self) -> int:
        return self.weights

    def set_weights(self, weights: int) -> None:
        self.weights = weights


@dataclass(frozen=True)
class Learn(LiveOp[int, int]):
    workers: Actors[Worker]

    def apply(self, live: Live, item: int, /) -> int:
        live[self.workers].update(Worker.set_weights, live[self.workers].advance())
        return item


def values() -> Iter[int]:
    return par_from_range(16, shards=2).par_map(abs).gather_async()


def a3c() -> Iter[int]:
    workers = create_actors(Worker, num=2)
    return from_actors(workers, Worker.sample).gather_async().for_each(Learn(workers)).take(18)


def alone(make: Callable[[], Iter[int]]) -> float:
    """Schedules per second from random tapes."""
    dice = random.Random(0)
    tapes = [[dice.randrange(8) for _ in range(20)] for _ in range(EACH)]
    plan = make()
    start = perf_counter()
    for tape in tapes:
        simulate(plan, tape)
    return EACH / (perf_counter() - start)


def with_hypothesis(make: Callable[[], Iter[int]]) -> float:
    """Examples per second of a property over schedules."""
    done = 0
    plan = make()

    @settings(
        max_examples=EACH, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow]
    )
    @given(schedule=schedules(max_size=20))
    def search(schedule: SimSchedule) -> None:
        nonlocal done
        done += 1
        simulate(plan, *schedule)

    start = perf_counter()
    search()
    return done / (perf_counter() - start)


def loop() -> float:
    """Millions of turns of an empty loop per second: how fast the machine is right now."""
    start = perf_counter()
    for _ in range(2_000_000):
        pass
    return 2 / (perf_counter() - start)


def main() -> None:
    print(f"{'plan':10} {'alone':>20} {'with hypothesis':>20}   schedules per second, median [worst..best] of {ROUNDS}")
    for make in (values, a3c):
        columns = []
        for measure in (alone, with_hypothesis):
            measure(make)
            rates = sorted(measure(make) for _ in range(ROUNDS))
            columns.append(f"{rates[ROUNDS // 2]:.0f} [{rates[0]:.0f}..{rates[-1]:.0f}]")
        print(f"{make.__name__:10} {columns[0]:>20} {columns[1]:>20}")
    print(f"the machine: {loop():.0f} million turns of an empty loop per second")


if __name__ == "__main__":
    main()
