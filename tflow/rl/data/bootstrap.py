"""What several seeds say together: interquartile means with bootstrap intervals, as in "Deep Reinforcement Learning at the Edge
of the Statistical Precipice" (arXiv 2108.13264)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tflow.rl.data.arrays import Array

DRAWS = 10_000
MOST_POINTS = 200
"""Of a curve."""
Points = Sequence[tuple[float, float]]


class Estimate(NamedTuple):
    """A value, and the interval that it is in with a confidence of 95 %."""

    value: float
    low: float
    high: float


class Spread(NamedTuple):
    """A curve of several runs: where, the value there, and its interval."""

    x: list[float]
    value: list[float]
    low: list[float]
    high: list[float]


def iqm(values: Array) -> Array:
    """The interquartile mean over the last axis: the mean without a quarter of the values at either end."""
    cut = values.shape[-1] // 4
    return np.asarray(np.sort(values, axis=-1)[..., cut : values.shape[-1] - cut].mean(axis=-1))


def estimate(tasks: Sequence[Sequence[float]], *, draws: int = DRAWS, statistic: Callable[[Array], Array] = iqm) -> Estimate:
    """A statistic of the scores of all runs on all tasks, with a stratified bootstrap: runs are drawn anew within each task, so
    that every task keeps its weight.

    Args:
        tasks: The scores of the runs of each task.
        draws: How often they are drawn.
        statistic: A function of scores along the last axis.
    """
    dice = np.random.default_rng(0)
    scores = [np.array(runs, dtype=float) for runs in tasks if len(runs)]
    value = float(statistic(np.concatenate(scores)))
    if sum(len(runs) for runs in scores) < 2:
        return Estimate(value, value, value)
    drawn = np.concatenate([dice.choice(runs, (draws, len(runs))) for runs in scores], axis=-1)
    low, high = np.percentile(statistic(drawn), (2.5, 97.5))
    return Estimate(value, float(low), float(high))


def spread_of(curves: Sequence[Points], *, draws: int = 1_000) -> Spread:
    """The interquartile mean of several curves, with its interval at each place, as far as all of them go. Between its points a
    curve is straight."""
    known = [np.array(sorted(points), dtype=float).T for points in curves if points]
    first, last = max(x[0] for x, _ in known), min(x[-1] for x, _ in known)
    places = np.unique(np.concatenate([x for x, _ in known]))
    places = places[(places >= first) & (places <= last)]
    if not places.size:
        return Spread([], [], [], [])
    if places.size > MOST_POINTS:
        places = places[np.linspace(0, places.size - 1, MOST_POINTS).round().astype(int)]
    values = np.stack([np.interp(places, x, y) for x, y in known], axis=-1)
    rows = np.random.default_rng(0).integers(len(known), size=(draws, len(known)))
    low, high = np.percentile(iqm(values[:, rows]), (2.5, 97.5), axis=-1)
    return Spread(places.tolist(), iqm(values).tolist(), low.tolist(), high.tolist())
