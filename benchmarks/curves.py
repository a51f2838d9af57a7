"""What the cells of ``benchmarks.learn`` and the contests have reached, for ``docs/results.md``: tables and a picture.

    python -m benchmarks.curves

A row per algorithm and runtime: how many seeds reached the target, and mean and spread of the env steps and seconds they took.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from benchmarks import adapting, dqn, impala_pong, ppo, sac
from benchmarks.learn import CELLS, CURVES

DOCS = Path(__file__).parent.parent / "docs"
PAGE, PICTURE = DOCS / "results.md", DOCS / "curves.svg"
COLOURS = {"local": "#1f77b4", "ray": "#d62728"}


Rows = list[dict[str, float]]


class Ended(NamedTuple):
    """The last evaluation of a cell."""

    reached: bool
    evaluation: float
    env_steps: float
    seconds: float


def read(path: Path) -> Rows:
    """The evaluations of a cell."""
    with path.open(newline="") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def ended(rows: Rows) -> Ended | None:
    """How a cell ended; None if nothing was evaluated in time."""
    if not rows:
        return None
    last = rows[-1]
    return Ended(last["reached"] == 1, last["evaluation"], last["env_steps"], last["seconds"])


def found(name: str) -> dict[str, list[Rows]]:
    """The cells of a name that were run, by runtime, one after another for each seed."""
    by_runtime: dict[str, list[Rows]] = defaultdict(list)
    for runtime in COLOURS:
        for path in sorted(CURVES.glob(f"{name}-{runtime}-*.csv")):
            by_runtime[runtime].append(read(path))
    return dict(by_runtime)


def spread(values: list[float], form: str) -> str:
    """Mean and standard deviation."""
    if not values:
        return "-"
    return f"{fmean(values):{form}}" + (f" ± {stdev(values):{form}}" if len(values) > 1 else "")


def learned_table() -> str:
    """What reached its target, when, and what did not."""
    lines = ["| command | runtime | target | seeds that reached it | env steps | seconds |", "|---|---|---:|---:|---:|---:|"]
    for name, cell in CELLS.items():
        for runtime, seeds in found(name).items() if cell.steps is None else ():
            ends = [ended(rows) for rows in seeds]
            good = [each for each in ends if each is not None and each.reached]
            steps, seconds = spread([each.env_steps for each in good], ",.0f"), spread([each.seconds for each in good], ".0f")
            counts = f"{len(good)} of {len(seeds)}"
            lines.append(f"| `tflow train {cell.words}` | {runtime} | {cell.target:g} | {counts} | {steps} | {seconds} |")
    return "\n".join(lines)


def budget_table() -> str:
    """What was reached at the end of a budget, seed by seed."""
    lines = [
        "| command | runtime | env steps | asked for | at the end, by seed | mean | published | seconds |",
        "|---|---|---:|---:|---|---:|---:|---:|",
    ]
    for name, cell in CELLS.items():
        for runtime, seeds in found(name).items() if cell.steps is not None else ():
            ends = [end for rows in seeds if (end := ended(rows)) is not None]
            each = ", ".join(f"{end.evaluation:.0f}" for end in ends)
            mean, seconds = spread([end.evaluation for end in ends], ".0f"), spread([end.seconds for end in ends], ".0f")
            asked = f"{cell.steps:,} | {cell.target:g}"
            lines.append(
                f"| `tflow train {cell.words}` | {runtime} | {asked} | {each} | {mean} | {cell.published or '-'} | {seconds} |"
            )
    return "\n".join(lines)


def adapted_table() -> str:
    """Returns on unseen tasks, before and after one gradient step."""
    lines = [
        "| runtime | seeds | MAML, before | after one step | without meta-learning, before | after one step |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for runtime, seeds in found("maml").items():
        ends = [rows[-1] for rows in seeds if rows]
        columns = (spread([end[name] for end in ends], ".1f") for name in ("return", "evaluation", *adapting.OTHERS))
        good = sum(end["reached"] == 1 for end in ends)
        lines.append(f"| {runtime} | {good} of {len(seeds)} | {' | '.join(columns)} |")
    return "\n".join(lines)


TABLES: Mapping[str, Callable[[], str]] = {
    "learned": learned_table,
    "budget": budget_table,
    "adapted": adapted_table,
    "reach": ppo.reach_table,
    "equal": ppo.equal_table,
    "pong": impala_pong.table,
    "sac": partial(sac.table, "Pendulum-v1"),
    "dqn": dqn.table,
}
"""What stands between ``<!-- name -->`` and ``<!-- end name -->``."""


def filled(text: str) -> str:
    """The page with the tables as they are now."""
    for name, table in TABLES.items():
        before, _, rest = text.partition(f"<!-- {name} -->")
        text = f"{before}<!-- {name} -->\n{table()}\n<!-- end {name} -->{rest.partition(f'<!-- end {name} -->')[2]}"
    return text


def draw(picture: Path) -> None:
    """One panel per cell: the mean of the evaluations over all seeds, and how far they lie apart."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "tflow", "svg.fonttype": "none", "font.size": 8})
    from matplotlib.figure import Figure

    shown = {name: by_runtime for name in (*CELLS, "maml") if (by_runtime := found(name))}
    columns = 3
    figure = Figure(figsize=(9, 2.2 * -(-len(shown) // columns)), layout="constrained")
    for place, (name, by_runtime) in enumerate(shown.items(), 1):
        panel = figure.add_subplot(-(-len(shown) // columns), columns, place)
        panel.set_title(name)
        for runtime, seeds in by_runtime.items():
            curves = [rows for rows in seeds if rows]
            steps = np.unique([row["env_steps"] for rows in curves for row in rows])
            values = np.array([np.interp(steps, column(rows, "env_steps"), column(rows, "evaluation")) for rows in curves])
            middle, apart = values.mean(axis=0), values.std(axis=0)
            panel.plot(steps / 1000, middle, color=COLOURS[runtime], label=f"{runtime}, {len(curves)} seeds")
            panel.fill_between(steps / 1000, middle - apart, middle + apart, color=COLOURS[runtime], alpha=0.2, linewidth=0)
        if name in CELLS:
            panel.axhline(CELLS[name].target, color="#888888", linewidth=0.8, linestyle=":")
        panel.set_xlabel("thousand env steps")
        panel.legend(frameon=False, fontsize=6)
    figure.savefig(picture, metadata={"Date": None})


def column(rows: Rows, name: str) -> list[float]:
    return [row[name] for row in rows]


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
    draw(PICTURE)
    print("\n\n".join(table() for table in TABLES.values()))
