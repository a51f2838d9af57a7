"""Interquartile means and their intervals: against the definition, and what must be true of any scores."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tflow.rl.data.bootstrap import MOST_POINTS, estimate, iqm, spread_of

scores = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20)


@given(values=scores)
def test_the_interquartile_mean_is_that_of_the_middle_half(values: list[float]) -> None:
    cut = len(values) // 4
    assert float(iqm(np.array(values))) == pytest.approx(fmean(sorted(values)[cut : len(values) - cut]), abs=1e-6)


def test_the_extremes_do_not_matter() -> None:
    assert float(iqm(np.array([1e9, 3.0, 2.0, 4.0, -1e9]))) == 3


@given(tasks=st.lists(scores, min_size=1, max_size=4))
def test_an_interval_is_within_the_scores_and_the_same_each_time(tasks: list[list[float]]) -> None:
    found = estimate(tasks, draws=200)
    every = [value for runs in tasks for value in runs]
    assert min(every) - 1e-6 <= found.low <= found.high <= max(every) + 1e-6
    assert found == estimate(tasks, draws=200)


def test_a_single_run_has_no_interval() -> None:
    assert estimate([[3.0]]) == (3, 3, 3)


def test_runs_are_drawn_within_their_task() -> None:
    """Each task has one score, so drawing within them changes nothing; drawing from all would."""
    found = estimate([[0.0], [10.0]], statistic=lambda values: values.mean(axis=-1))
    assert found == (5, 5, 5)
    found = estimate([[0.0, 0.0], [10.0, 10.0]], statistic=lambda values: values.mean(axis=-1))
    assert found == (5, 5, 5)


def test_an_interval_covers_what_it_should() -> None:
    """95 % of the intervals of many samples, give or take, have the middle of what they were drawn from in them."""
    dice = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        found = estimate([dice.normal(size=20).tolist()], draws=400)
        hits += found.low <= 0 <= found.high
    assert 0.85 <= hits / 200 <= 0.99


def test_a_curve_goes_as_far_as_all_do_and_is_straight_between_points() -> None:
    found = spread_of([[(0.0, 0.0), (10.0, 10.0)], [(2.0, 4.0), (8.0, 4.0), (30.0, 0.0)]])
    assert found.x == [2, 8, 10]
    assert found.value == pytest.approx([3, 6, (10 + 4 - 4 * 2 / 22) / 2])
    assert all(low <= value <= high for low, value, high in zip(found.low, found.value, found.high, strict=True))
    assert (found.low[1], found.high[1]) == (4, 8)


def test_curves_that_have_no_place_in_common_have_no_mean() -> None:
    assert spread_of([[(0.0, 1.0)], [(5.0, 1.0)]]).x == []


def test_long_curves_are_thinned() -> None:
    curves = [[(float(place), 1.0) for place in range(5_000)] for _ in range(2)]
    found = spread_of(curves)
    assert len(found.x) == MOST_POINTS
    assert (found.x[0], found.x[-1]) == (0, 4_999)
