"""What the cells of ``benchmarks.learn`` have reached, as the table in ``docs/results.md``.

    python -m benchmarks.curves

A row per algorithm and runtime: how many seeds reached the target, and mean and spread of the env steps and seconds they took.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from benchmarks.learn import CELLS, CURVES

PAGE = Path(__file__).parent.parent / "docs" / "results.md"
START, END = "<!-- learned -->", "<!-- end -->"


class Ended(NamedTuple):
    """The last evaluation of a cell."""

    reached: bool
    evaluation: float
    env_steps: float
    seconds: float


def ended(path: Path) -> Ended | None:
    """How a cell ended; None if nothing was evaluated in time."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        return None
    last = rows[-1]
    return Ended(last["reached"] == "1", float(last["evaluation"]), float(last["env_steps"]), float(last["seconds"]))


def cells() -> dict[tuple[str, str], list[Ended | None]]:
    """The cells that were run, by algorithm and runtime."""
    found: dict[tuple[str, str], list[Ended | None]] = defaultdict(list)
    for name in CELLS:
        for path in sorted(CURVES.glob(f"{name}-*.csv")):
            rest = path.stem.removeprefix(f"{name}-").split("-")
            if rest[0] in ("local", "ray"):
                found[name, rest[0]].append(ended(path))
    return found


def spread(values: list[float], form: str) -> str:
    """Mean and standard deviation."""
    if not values:
        return "-"
    return f"{fmean(values):{form}}" + (f" ± {stdev(values):{form}}" if len(values) > 1 else "")


def table() -> str:
    """The table, in Markdown."""
    lines = ["| command | runtime | target | seeds that reached it | env steps | seconds |", "|---|---|---:|---:|---:|---:|"]
    for (name, runtime), seeds in cells().items():
        good = [each for each in seeds if each is not None and each.reached]
        counts = f"{len(good)} of {len(seeds)}"
        steps, seconds = spread([each.env_steps for each in good], ",.0f"), spread([each.seconds for each in good], ".0f")
        lines.append(
            f"| `tflow train {CELLS[name].words}` | {runtime} | {CELLS[name].target:g} | {counts} | {steps} | {seconds} |"
        )
    return "\n".join(lines)


def filled(text: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = text.partition(START)
    return f"{before}{START}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
    print(table())
