"""What the cells of ``benchmarks.learn`` and the contests have reached, for ``docs/results.md``: tables and a picture.

    python -m benchmarks.curves

A row per cell and runtime: what the final policy of each seed is worth, the end of training over all seeds, and how far it fell
after it had been good.
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

from benchmarks import adapting, cheetah, collapse, dqn, guards, impala_pong, limit, ppo, sac
from benchmarks.contest import with_table
from benchmarks.learn import CELLS, CURVES, Cell
from tflow.presets import MEASURED
from tflow.rl.data.bootstrap import estimate

DOCS = Path(__file__).parent.parent / "docs"
PAGE, PICTURE = DOCS / "results.md", DOCS / "curves.svg"
COLOURS = {"local": "#1f77b4", "ray": "#d62728"}


Rows = list[dict[str, float]]


class Score(NamedTuple):
    """What a run comes to."""

    final: float
    """The last evaluation: of the policy that a user would keep."""
    late: float
    """The mean evaluation over the last tenth of the budget."""
    worst: float | None
    """The worst evaluation after the first that reached what is asked for; None if none did, or if it was the last."""


def read(path: Path) -> Rows:
    """The evaluations of a cell."""
    with path.open(newline="") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def score(rows: Rows, cell: Cell) -> Score:
    """The score of a run, over its whole budget."""
    late = [row["evaluation"] for row in rows if row["env_steps"] > 0.9 * cell.steps] or [rows[-1]["evaluation"]]
    evaluations, asked = column(rows, "evaluation"), cell.asked
    first = next((place for place, value in enumerate(evaluations) if asked is not None and value >= asked), len(rows))
    return Score(evaluations[-1], fmean(late), min(evaluations[first + 1 :], default=None))


def found(name: str) -> dict[str, list[Rows]]:
    """The runs of a cell, by runtime, one after another for each seed."""
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


def summary(values: list[float]) -> str:
    """Interquartile mean with its interval."""
    middle, low, high = estimate([values])
    return f"{middle:,.0f} [{low:,.0f}..{high:,.0f}]" if len(values) > 1 else f"{middle:,.0f}"


def learned_table() -> str:
    """Every cell that was run, whatever came of it."""
    lines = [
        "| `tflow train ...` | runtime | env steps | final policy, by seed | last tenth: IQM [95 %] | asked for "
        "| worst after the first success | RL-Zoo | seconds |",
        "|---|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    for name, cell in CELLS.items():
        for runtime, runs in found(name).items():
            scores = [score(rows, cell) for rows in runs]
            finals = ", ".join(f"{each.final:,.0f}" for each in scores)
            worst = [each.worst for each in scores if each.worst is not None]
            published = "-" if cell.published is None else f"{cell.published:,.0f} at {cell.published_at:,}"
            asked = "-" if cell.asked is None else f"{cell.asked:,.0f}"
            seconds = spread([rows[-1]["seconds"] for rows in runs], ".0f")
            late, lowest = summary([each.late for each in scores]), f"{min(worst):,.0f}" if worst else "-"
            entries = (f"`{cell.words}`", runtime, f"{cell.steps:,}", finals, late, asked, lowest, published, seconds)
            lines.append(f"| {' | '.join(entries)} |")
    return "\n".join(lines)


def measured() -> str:
    """What presets have reached, for ``tflow/presets/measured.toml``: runs of ``tflow train ALGO --env ENV``, local."""
    lines = ["# Written by python -m benchmarks.curves. Mean return of the final policy, by seed from 0."]
    for name, cell in CELLS.items():
        runs = found(name).get("local", [])
        if runs and " " not in cell.algo and cell.task.env:
            finals = ", ".join(f"{score(rows, cell).final:.1f}" for rows in runs)
            env = cell.task.env.rpartition(":")[2]
            lines += [f'\n[{cell.algo}."{env}"]', f"env_steps = {cell.steps}", f"final = [{finals}]"]
    return "\n".join(lines) + "\n"


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
    "adapted": adapted_table,
    "reach": ppo.reach_table,
    "equal": ppo.equal_table,
    "pong": impala_pong.table,
    "sac": partial(sac.table, "Pendulum-v1"),
    "cheetah": cheetah.table,
    "collapse": collapse.table,
    "guards": guards.table,
    "limit": limit.table,
    "dqn": dqn.table,
}
"""What stands between ``<!-- name -->`` and ``<!-- end name -->``."""


def filled(text: str) -> str:
    """The page with the tables as they are now."""
    for name, table in TABLES.items():
        text = with_table(text, name, table())
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
        asked = CELLS[name].asked if name in CELLS else None
        if asked is not None:
            panel.axhline(asked, color="#888888", linewidth=0.8, linestyle=":")
        panel.set_xlabel("thousand env steps")
        panel.legend(frameon=False, fontsize=6)
    figure.savefig(picture, metadata={"Date": None})


def column(rows: Rows, name: str) -> list[float]:
    return [row[name] for row in rows]


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
    draw(PICTURE)
    MEASURED.write_text(measured())
    print("\n\n".join(table() for table in TABLES.values()))
