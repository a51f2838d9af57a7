"""Why chains of per-item operators are generated as source: the loop with one line per operator against one that goes over a
list of functions, which needs no ``exec``.

Both read a range, count items and yield pairs, as ``tflow/runtime/chain.py`` does. Interleaved in one process; the ratio of
their times, median [lowest..highest] over the rounds. Run it with ``python -m benchmarks.fusion``.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from benchmarks.overhead import add_one, some_work

ITEMS = 100_000
ROUNDS = 15
Function = Callable[[int], int]
Loop = Callable[[list[int], Iterator[int], Sequence[Function]], Iterator[tuple[int, None]]]


def listed(seen: list[int], values: Iterator[int], functions: Sequence[Function]) -> Iterator[tuple[int, None]]:
    """One loop for every chain."""
    for value in values:
        seen[0] += 1
        for fn in functions:
            value = fn(value)
        yield value, None


def generated(length: int) -> Loop:
    """A loop for chains of this length, one line per function."""
    names = ", ".join(f"f{index}" for index in range(length))
    lines = "".join(f"        value = f{index}(value)\n" for index in range(length))
    source = (
        f"def loop(seen, values, functions):\n    {names}, = functions\n    for value in values:\n        seen[0] += 1\n"
        f"{lines}        yield value, None\n"
    )
    namespace: dict[str, Loop] = {}
    exec(compile(source, "<loop>", "exec"), {}, namespace)
    return namespace["loop"]


def seconds(loop: Loop, functions: Sequence[Function]) -> float:
    start = time.perf_counter()
    deque(loop([0], iter(range(ITEMS)), functions), maxlen=0)
    return time.perf_counter() - start


def main() -> None:
    for fn in (add_one, some_work):
        for length in (1, 2, 5, 10):
            loop, functions = generated(length), [fn] * length
            ratios = [seconds(listed, functions) / seconds(loop, functions) for _ in range(ROUNDS)]
            shown = f"{median(ratios):.2f} [{min(ratios):.2f}..{max(ratios):.2f}]"
            print(f"{length:2} x {fn.__name__:9}  a list of functions takes {shown} times as long as generated lines")


if __name__ == "__main__":
    main()
