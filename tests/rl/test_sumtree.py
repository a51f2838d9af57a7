"""The sum tree against a list, compiled and not, and what rounding must not do to it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from types import SimpleNamespace
from typing import cast
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tflow.errors import PlanError
from tflow.rl.replay import sumtree
from tflow.rl.replay.sumtree import LARGEST, ReplayError, SumTree

KINDS = [
    pytest.param(False, id="numpy"),
    pytest.param(True, id="numba", marks=pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")),
]
CAPACITIES = st.one_of(st.integers(1, 40), st.sampled_from([255, 256, 257, 1000, 5000]))
WILD = st.one_of(st.just(0.0), st.floats(0, LARGEST), st.floats(0, 1), st.sampled_from([5e-324, 1e-300, 0.1, 1.0, 1e16, LARGEST]))


def low(capacity: int, *, compiled: bool) -> SumTree:
    """A tree that has several levels although it is small."""
    with patch.object(sumtree, "TOP", 2):
        return SumTree(capacity, compiled=compiled)


def updates(data: st.DataObject, capacity: int, values: st.SearchStrategy[float]) -> Iterator[tuple[list[int], list[float]]]:
    for _ in range(data.draw(st.integers(1, 4))):
        pairs = data.draw(st.lists(st.tuples(st.integers(0, capacity - 1), values), max_size=40))
        yield [index for index, _ in pairs], [value for _, value in pairs]


@pytest.mark.parametrize("compiled", KINDS)
@given(data=st.data())
def test_it_is_what_a_list_is(compiled: bool, data: st.DataObject) -> None:
    """Whole numbers add up exactly, so that the list knows each answer."""
    capacity = data.draw(CAPACITIES)
    tree, model = low(capacity, compiled=compiled), [0.0] * capacity
    for indices, values in updates(data, capacity, st.integers(0, 9).map(float)):
        tree.set(np.array(indices, np.int64), values)
        for index, value in zip(indices, values, strict=True):
            model[index] = value  # of several, the last counts
        assert tree.priorities(slice(None)).tolist() == model
        assert tree.total == sum(model)
        assert tree.minimum == min((value for value in model if value), default=np.inf)
        if tree.total:
            prefixes = np.arange(2 * tree.total)[:: 1 + int(tree.total) // 25] / 2
            owners = [int(np.flatnonzero(np.cumsum(model) > prefix)[0]) for prefix in prefixes]
            assert tree.find(prefixes).tolist() == owners


@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
@given(data=st.data())
def test_compiled_or_not_the_results_are_the_same_bit_for_bit(data: st.DataObject) -> None:
    capacity = data.draw(CAPACITIES)
    plain, fast = low(capacity, compiled=False), low(capacity, compiled=True)
    assert fast.compiled
    assert not plain.compiled
    for indices, values in updates(data, capacity, WILD):
        for tree in (plain, fast):
            tree.set(np.array(indices, np.int64), values)
        assert (plain.total, plain.minimum) == (fast.total, fast.minimum)
        assert np.array_equal(plain._sums, fast._sums)
        if plain.total:
            count = data.draw(st.integers(1, 50))
            expected = plain.sample(count, np.random.default_rng(1))
            assert np.array_equal(fast.sample(count, np.random.default_rng(1)), expected)


@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
def test_compiled_or_not_full_trees_are_the_same_bit_for_bit() -> None:
    rng = np.random.default_rng(0)
    values, indices = rng.random(100_000) ** 9, rng.integers(100_000, size=5000)
    trees = [SumTree(100_000, compiled=compiled) for compiled in (False, True)]
    for tree in trees:
        tree.set(np.arange(100_000), values)
        tree.set(indices, values[:5000])
    assert np.array_equal(trees[0]._sums, trees[1]._sums)
    assert np.array_equal(trees[0]._running, trees[1]._running)
    assert np.array_equal(trees[0]._mins, trees[1]._mins)
    prefixes = rng.random(50_000) * trees[0].total
    assert np.array_equal(trees[0].find(prefixes), trees[1].find(prefixes))


@pytest.mark.parametrize("compiled", KINDS)
@given(data=st.data())
def test_what_has_no_priority_is_never_found(compiled: bool, data: st.DataObject) -> None:
    capacity = data.draw(CAPACITIES)
    tree = low(capacity, compiled=compiled)
    for indices, values in updates(data, capacity, WILD):
        tree.set(np.array(indices, np.int64), values)
        if tree.total:
            shares = data.draw(st.lists(st.floats(0, 1), min_size=1, max_size=20))
            found = tree.find(np.array([*(tree.total * np.array(shares)), 0.0, tree.total, 2 * tree.total]))
            assert np.all(tree.priorities(found) > 0)


@pytest.mark.parametrize("compiled", KINDS)
def test_after_millions_of_updates_it_is_still_a_function_of_its_priorities(compiled: bool) -> None:
    capacity, rng = 70_000, np.random.default_rng(3)  # more than 4096 rows of 16: two levels
    tree = SumTree(capacity, compiled=compiled)
    for _ in range(400):
        values = rng.random(5000) ** 20  # over many magnitudes
        values[rng.random(5000) < 0.5] = 0
        tree.set(rng.integers(capacity // 2, size=5000), values)  # the second half is never filled
        found = tree.find(np.concatenate([rng.random(200) * tree.total, [tree.total]]))
        assert np.all(tree.priorities(found) > 0)
    again = SumTree(capacity, compiled=compiled)
    again.set(np.arange(capacity), tree.priorities(slice(None)))
    assert np.array_equal(again._sums, tree._sums)
    assert np.array_equal(again._running, tree._running)
    assert again.minimum == tree.minimum


@pytest.mark.parametrize("compiled", KINDS)
def test_rounding_up_does_not_lead_past_the_last_item(compiled: bool) -> None:
    """The sum of a row is rounded up, then zeros follow: a value just below the total belongs to the last item before them."""
    values = np.zeros(64)
    values[:20] = 0.1
    tree = low(64, compiled=compiled)
    tree.set(np.arange(64), values)
    just_below = np.nextafter(tree.total, 0)
    assert tree.find(np.array([just_below, tree.total, np.inf])).tolist() == [19, 19, 19]


@pytest.mark.parametrize("compiled", KINDS)
def test_rounding_in_large_sums_does_not_lead_out_of_a_row(compiled: bool) -> None:
    """Two ties, both rounded to even: what is left of a value below the total is all of the row that it points to."""
    large = 2.0**52 + 2
    tree = SumTree(32, compiled=compiled)
    tree.set(np.array([1, 19]), [1.5, large])
    value = np.nextafter(tree.total, 0)
    assert value - 1.5 == large
    assert tree.find(np.array([value])).tolist() == [19]


@pytest.mark.parametrize("compiled", KINDS)
def test_samples_follow_the_priorities(compiled: bool) -> None:
    tree, rng = low(100, compiled=compiled), np.random.default_rng(7)
    weights = rng.random(100) ** 3
    weights[::7] = 0
    tree.set(np.arange(100), weights)
    draws = np.concatenate([tree.sample(1, rng) for _ in range(20_000)])
    expected = 20_000 * weights / weights.sum()
    counts = np.bincount(draws, minlength=100)
    assert np.all(counts[::7] == 0)
    often = expected >= 5  # the rest as one, as usual for this test
    seen = np.append(counts[often], counts[~often].sum())
    hoped = np.append(expected[often], expected[~often].sum())
    freedom = len(seen) - 1
    statistic = float(((seen - hoped) ** 2 / hoped).sum())
    assert abs(statistic - freedom) < 4 * (2 * freedom) ** 0.5  # its mean and four standard deviations


@given(values=st.lists(st.floats(0.01, 10), min_size=1, max_size=60), count=st.integers(1, 200), seed=st.integers(0, 99))
def test_one_sample_comes_from_each_part_of_the_total(values: list[float], count: int, seed: int) -> None:
    tree = low(len(values), compiled=False)
    tree.set(np.arange(len(values)), values)
    drawn = tree.sample(count, np.random.default_rng(seed))
    shares = count * np.array(values) / tree.total
    assert np.all(np.abs(np.bincount(drawn, minlength=len(values)) - shares) < 2)  # the parts at its two borders are shared
    assert np.all(np.diff(drawn) >= 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -1e-9, 1e300])
@pytest.mark.parametrize("compiled", KINDS)
def test_a_bad_priority_is_named_and_nothing_is_changed(compiled: bool, bad: float) -> None:
    tree = SumTree(10, compiled=compiled)
    tree.set(np.arange(10), np.arange(10.0))
    before = tree._sums.copy()
    with pytest.raises(ReplayError, match=r"from 0 to 1e\+290, got .* at position 2\. Nothing was changed"):
        tree.set(np.arange(4), [9.0, -0.0, bad, np.nan])
    assert np.array_equal(before, tree._sums)


def test_other_sentences() -> None:
    tree = SumTree(3)
    with pytest.raises(PlanError, match="capacity of at least 1, got 0"):
        SumTree(0)
    with pytest.raises(ReplayError, match="all priorities are 0"):
        tree.find(np.zeros(1))
    for index in (3, -1):
        with pytest.raises(ReplayError, match=f"from 0 to 2, got {min(index, 0)} to {max(index, 0)}"):
            tree.set(np.array([0, index]), [1.0, 1.0])
    with pytest.raises(ReplayError, match="2 indices and 1 priorities"):
        tree.set(np.arange(2), [1.0])
    with pytest.raises(ReplayError, match=r"one number per row, got an array of shape \(1, 1\)"):
        tree.set(np.arange(1), [[1.0]])
    tree.set(np.arange(0), [])
    assert tree.total == 0


@pytest.fixture
def fresh_kernels() -> Iterator[None]:
    sumtree.kernels.cache_clear()
    yield
    sumtree.kernels.cache_clear()


def test_without_numba_numpy_does_it(monkeypatch: pytest.MonkeyPatch, fresh_kernels: None) -> None:
    monkeypatch.setitem(sys.modules, "numba", cast("object", None))
    assert not SumTree(3).compiled
    with pytest.raises(PlanError, match=r"pip install 'tflow\[fast\]'"):
        SumTree(3, compiled=True)


def test_where_no_cache_can_be_written_it_compiles_anyway(monkeypatch: pytest.MonkeyPatch, fresh_kernels: None) -> None:
    def njit(function: object, cache: bool = False) -> object:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return function

    monkeypatch.setitem(sys.modules, "numba", SimpleNamespace(njit=njit))
    tree = SumTree(30)
    assert tree.compiled
    tree.set(np.arange(30), np.arange(30.0))
    assert tree.find(np.array([0.0, 1.0, 434.0])).tolist() == [1, 2, 29]
