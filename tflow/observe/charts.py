"""The curves of reports: returns, evaluations, and everything else that was logged, of several groups of runs in one picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tflow.drawing.chart import Chart, Series
from tflow.observe.groups import Group
from tflow.observe.kept import Curve, KeptRun

FIRST = ("learner/loss", "learner/kl", "learner/entropy", "learner/explained_variance", "length", "env_steps_per_s")
"""What is shown before the rest."""
LEFT_OUT = (
    "return_min",
    "return_max",
    "seconds",
    "env_steps",
    "episodes",
    "episodes_discarded",
    "trained",
    "updates",
    "evaluation/",
)
"""What only grows, or is shown elsewhere."""
MOST = 24
"""Charts of training."""


def learning_charts(groups: Sequence[Group]) -> list[Chart]:
    """Returns and evaluations on one env."""
    by = axis(groups)
    names = list(dict.fromkeys(name for group in groups for run in group.runs for name in run.returns))
    charts = [
        Chart(
            titled(name),
            by.replace("_", " "),
            tuple(series(groups, [[run.curve(name, by) for run in group.runs] for group in groups])),
        )
        for name in names
    ]
    evaluated = [[run.evaluations for run in group.runs] for group in groups]
    charts.append(
        Chart("Evaluation: mean return without exploration", by.replace("_", " "), tuple(series(groups, evaluated, dots=True)))
    )
    return [chart for chart in charts if not chart.empty]


def titled(name: str) -> str:
    return "Mean return of the last 100 episodes" if name == "return" else f"Mean return of {name.removesuffix('/return')}"


def training_charts(groups: Sequence[Group]) -> list[Chart]:
    """All else that was logged, and changes."""
    by = axis(groups)
    names = list(dict.fromkeys(name for group in groups for run in group.runs for row in run.rows for name in row))
    names = [name for name in names if not name.startswith((*LEFT_OUT, "busy/")) and not name.endswith(("return", "/updates"))]
    names.sort(key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    found: list[Chart] = []
    for name in names:
        curves = [[run.curve(name, by) for run in group.runs] for group in groups]
        if len({value for each in curves for curve in each for _, value in curve}) > 1 and len(found) < MOST:
            found.append(Chart(name.replace("_", " "), by.replace("_", " "), tuple(series(groups, curves))))
    return found


def axis(groups: Sequence[Group]) -> str:
    """Env steps, or updates if one of the runs samples none."""
    return "updates" if any(run.rows and run.progress == "updates" for group in groups for run in group.runs) else "env_steps"


def series(groups: Sequence[Group], curves: Sequence[Sequence[Curve]], *, dots: bool = False) -> Iterator[Series]:
    """Each group's curve; of several seeds the interquartile mean with its interval, and those of the seeds behind it."""
    from tflow.rl.data.bootstrap import spread_of

    for hue, (group, own) in enumerate(zip(groups, curves, strict=True)):
        known = [(run, curve) for run, curve in zip(group.runs, own, strict=True) if curve]
        counted = [curve for run, curve in known if run in group.counted]
        label = "" if len(groups) == 1 else group.name
        if len(counted) == 1:
            yield Series(label or "value", tuple(counted[0]), hue, dots=dots)
        elif counted:
            found = spread_of(counted)
            band = tuple(zip(found.x, found.low, found.high, strict=True))
            yield Series(label or "IQM", tuple(zip(found.x, found.value, strict=True)), hue, band, dots=dots)
        if len(known) > 1:
            for run, curve in known:
                yield Series(named(run), tuple(curve), hue, faint=True)


def named(run: KeptRun) -> str:
    return f"seed {run.seed}" if run.seed is not None else run.name
