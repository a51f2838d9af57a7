"""Driver cost per item: what tflow adds to the same work done in a bare Python loop.

Each case runs a plan and the loop that one would write by hand, interleaved in one process, and reports the ratio of their
times, median [lowest..highest] over the rounds. The work per operator is a function call that adds one, which is the worst
case: any real operator does more. Run it with ``make bench``.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tflow import Iter, Sync, Union, from_range

ITEMS = 100_000
ROUNDS = 9


def add_one(value: int) -> int:
    return value + 1


def some_work(value: int) -> int:
    """About a quarter of a microsecond: still far less than any operator that touches an array."""
    return sum((value, 1, 2, 3)) + len(str(value))


class Case(NamedTuple):
    name: str
    bare: Callable[[], object]
    flow: Callable[[], Iter[object]]
    operators: int


def exhaust(items: Iterable[object]) -> None:
    deque(items, maxlen=0)


def chain(length: int, fn: Callable[[int], int]) -> Iter[int, Sync]:
    stream = from_range(ITEMS)
    for _ in range(length):
        stream = stream.map(fn)
    return stream


def bare_1(f: Callable[[int], int]) -> None:
    for x in range(ITEMS):
        f(x)


def bare_5(f: Callable[[int], int]) -> None:
    for x in range(ITEMS):
        f(f(f(f(f(x)))))


def bare_10(f: Callable[[int], int]) -> None:
    for x in range(ITEMS):
        f(f(f(f(f(f(f(f(f(f(x))))))))))


def bare_union() -> None:
    left, right = iter(range(ITEMS // 2)), iter(range(ITEMS // 2))
    for x in left:
        add_one(x)
        add_one(next(right))


def bare_batches() -> None:
    for _ in range(3):
        batch = []
        for x in range(ITEMS):
            batch.append(x)
            if len(batch) == 2:
                batch = []


def union() -> Iter[int]:
    return Union(from_range(ITEMS // 2).map(add_one), from_range(ITEMS // 2).map(add_one))


def batches() -> Iter[object]:
    return from_range(ITEMS).batch(2).flatten().batch(2).flatten().batch(2).flatten()


CASES = [
    Case("fused chain of 1", lambda: bare_1(add_one), lambda: chain(1, add_one), 1),
    Case("fused chain of 5", lambda: bare_5(add_one), lambda: chain(5, add_one), 5),
    Case("fused chain of 10", lambda: bare_10(add_one), lambda: chain(10, add_one), 10),
    Case("fused chain of 1, 0.25 us of work", lambda: bare_1(some_work), lambda: chain(1, some_work), 1),
    Case("2-way union", bare_union, union, 3),
    Case("6 nodes that cannot fuse", bare_batches, batches, 6),
]


def seconds(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def measure(case: Case) -> str:
    ratios, added = [], []
    for _ in range(ROUNDS):
        bare = seconds(case.bare)
        ours = seconds(lambda: exhaust(case.flow().run()))
        ratios.append(ours / bare)
        added.append((ours - bare) / ITEMS * 1e9)
    spread = f"{statistics.median(ratios):.2f} [{min(ratios):.2f}..{max(ratios):.2f}]"
    per_item = statistics.median(added)
    return f"| {case.name} | {spread} | {per_item:.0f} | {per_item / case.operators:.0f} |"


def main() -> None:
    print("| case | ratio to the bare loop | added ns per item | added ns per operator |\n|---|---|---|---|")
    for case in CASES:
        print(measure(case), flush=True)


if __name__ == "__main__":
    main()
