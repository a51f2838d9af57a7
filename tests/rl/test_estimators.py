"""Estimators against slow reference code, against numbers worked out by hand or published, and against each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rl import reference
from tests.rl.reference import Rows, batches, column, ends_of, flags, near, numbers
from tflow.rl.data.arrays import Array
from tflow.rl.data.estimators import (
    backward,
    discounted_returns,
    gae,
    n_step,
    retrace,
    standardized,
    successors,
    vtrace,
)

ON_POLICY = "rewards values final_values terminated ends"
OFF_POLICY = f"behaviour_logp target_logp {ON_POLICY}"
RETURNS = "rewards final_values terminated ends"
WINDOWS = "rewards terminated ends"

fractions = st.sampled_from([0.0, 0.5, 0.9, 0.97, 1.0]) | st.floats(0, 1)
clips = st.sampled_from([0.5, 1.0, 1.5, math.inf])


def following(batch: Rows) -> Array:
    return successors(*batch.columns("values final_values ends"))


def retraced(batch: Rows, next_expected_q: Array, *, gamma: float, lam: float = 1.0) -> Array:
    """As if the values were those of the actions."""
    columns = batch.columns("behaviour_logp target_logp rewards values terminated ends")
    columns.insert(4, next_expected_q)
    return retrace(*columns, gamma=gamma, lam=lam)


# --------------------------------------------------------------------------- the recurrence


@given(batches())
def test_the_recurrence(batch: Rows) -> None:
    decays = [value / 8 for value in batch.values]  # also negative ones, and some above 1
    found = backward(batch["rewards"], np.array(decays), batch["ends"])
    near(found, reference.backward(batch.rewards, decays, batch.ends))


@pytest.mark.parametrize("length", range(1, 36))
def test_the_recurrence_for_pieces_of_every_length(length: int) -> None:
    rng = np.random.default_rng(length)
    for lengths in ([length], [length] * 3, [1, length, 2, length + 1]):
        deltas, decays = rng.normal(size=(2, sum(lengths)))
        expected = reference.backward(deltas.tolist(), decays.tolist(), ends_of(lengths).tolist())
        near(backward(deltas, decays, ends_of(lengths)), expected)


def test_long_pieces_are_summed_up_as_exactly_as_float32_can_say() -> None:
    rng = np.random.default_rng(0)
    deltas = rng.normal(1.0, size=6000).astype(np.float32)
    decays, ends = np.full(6000, 0.9999), ends_of([5000, 1000])
    exact = reference.backward(deltas.tolist(), decays.tolist(), ends.tolist())
    np.testing.assert_array_equal(backward(deltas, decays, ends), np.array(exact, dtype=np.float32))


def test_a_row_that_is_not_finite_spoils_its_piece_only() -> None:
    expected = column(1.5, 1.0, math.nan, math.nan, 1.5, 1.0, 1.0)
    for broken in (math.nan, math.inf, -math.inf):
        deltas, decays = np.ones(7), np.full(7, 0.5)
        deltas[3] = broken
        np.testing.assert_array_equal(backward(deltas, decays, ends_of([2, 4, 1])), expected)
        deltas[3], decays[3] = 1.0, broken
        np.testing.assert_array_equal(backward(deltas, decays, ends_of([2, 4, 1])), expected)


def test_successors() -> None:
    found = successors(column(1, 2, 3, 4), column(10, 20), ends_of([3, 1]))
    assert (found.tolist(), found.dtype) == ([2, 3, 10, 20], np.dtype(np.float32))
    assert successors(np.array([1, 2]), np.array([0.5]), ends_of([2])).tolist() == [2, 0.5]


# --------------------------------------------------------------------------- against the reference


@given(batches(), fractions, fractions)
def test_gae(batch: Rows, gamma: float, lam: float) -> None:
    advantages, returns = gae(*batch.columns(ON_POLICY), gamma=gamma, lam=lam)
    expected = reference.gae(batch, gamma, lam)
    near(advantages, expected)
    near(returns, np.array(expected) + np.array(batch.values))


@given(batches(), fractions, fractions)
def test_the_returns_of_gae_are_lambda_returns(batch: Rows, gamma: float, lam: float) -> None:
    _, found = gae(*batch.columns(ON_POLICY), gamma=gamma, lam=lam)
    near(found, reference.lambda_returns(batch, gamma, lam))


@given(batches(), fractions)
def test_discounted_returns(batch: Rows, gamma: float) -> None:
    near(discounted_returns(*batch.columns(RETURNS), gamma=gamma), reference.discounted_returns(batch, gamma))


@given(batches(), st.integers(1, 20), fractions)
def test_n_step(batch: Rows, n: int, gamma: float) -> None:
    found = n_step(*batch.columns(WINDOWS), n=n, gamma=gamma)
    returns, discounts, last = reference.n_step(batch, n, gamma)
    near(found.returns, returns)
    near(found.discounts, discounts)
    assert (found.last.tolist(), found.last.dtype) == (last, np.dtype(np.int64))


@given(batches(), fractions, fractions, clips, clips, clips)
def test_vtrace(batch: Rows, gamma: float, lam: float, clip_rho: float, clip_c: float, clip_pg_rho: float) -> None:
    found = vtrace(*batch.columns(OFF_POLICY), gamma=gamma, lam=lam, clip_rho=clip_rho, clip_c=clip_c, clip_pg_rho=clip_pg_rho)
    expected = reference.vtrace(batch, gamma, lam, clip_rho, clip_c, clip_pg_rho)
    for part, wanted in zip(found, expected, strict=True):
        near(part, wanted)


@given(batches(), fractions, fractions)
def test_retrace(batch: Rows, gamma: float, lam: float) -> None:
    expected_q = batch.rewards[::-1]  # any numbers will do
    near(retraced(batch, column(*expected_q), gamma=gamma, lam=lam), reference.retrace(batch, expected_q, gamma, lam))


# --------------------------------------------------------------------------- against each other


@given(batches(), fractions)
def test_gae_is_the_return_minus_the_value_with_lam_1_and_the_td_error_with_lam_0(batch: Rows, gamma: float) -> None:
    expected = np.array(reference.discounted_returns(batch, gamma))
    near(gae(*batch.columns(ON_POLICY), gamma=gamma, lam=1.0)[0], expected - np.array(batch.values))
    near(gae(*batch.columns(ON_POLICY), gamma=gamma, lam=0.0)[0], [batch.error(t, gamma) for t in range(len(batch))])


@given(batches(), fractions)
def test_windows_as_long_as_the_pieces_give_the_discounted_returns(batch: Rows, gamma: float) -> None:
    found = n_step(*batch.columns(WINDOWS), n=10**30, gamma=gamma)
    rest = found.discounts.astype(np.float64) * following(batch)[found.last]
    expected = discounted_returns(*batch.columns(RETURNS), gamma=gamma)
    rounded = 2**-22 * (np.abs(found.returns) + np.abs(rest))  # three numbers were, each by half of the last bit
    assert (np.abs(found.returns + rest - expected) <= rounded + 1e-40).all()


@given(batches(), fractions, fractions, st.sampled_from([1.0, 2.0, math.inf]))
def test_vtrace_on_the_policy_that_acted_gives_lambda_returns(batch: Rows, gamma: float, lam: float, clip: float) -> None:
    logp = batch["behaviour_logp"]
    found = vtrace(logp, logp, *batch.columns(ON_POLICY), gamma=gamma, lam=lam, clip_rho=clip, clip_c=clip, clip_pg_rho=clip)
    near(found.targets, reference.lambda_returns(batch, gamma, lam))
    assert (found.rhos == 1).all()
    if lam == 1.0:
        near(found.advantages, reference.gae(batch, gamma, 1.0))


@given(batches(), fractions, fractions)
def test_retrace_on_the_policy_that_acted_gives_lambda_returns(batch: Rows, gamma: float, lam: float) -> None:
    """If the action taken is worth what is expected of the policy, there is nothing left to correct."""
    same = replace(batch, target_logp=batch.behaviour_logp)
    near(retraced(same, following(batch), gamma=gamma, lam=lam), reference.lambda_returns(batch, gamma, lam))


ESTIMATORS: dict[str, Callable[[Rows], list[Array]]] = {
    "gae": lambda batch: list(gae(*batch.columns(ON_POLICY), gamma=0.9, lam=0.8)),
    "discounted_returns": lambda batch: [discounted_returns(*batch.columns(RETURNS), gamma=0.9)],
    "n_step": lambda batch: list(n_step(*batch.columns(WINDOWS), n=3, gamma=0.9)[:2]),
    "vtrace": lambda batch: list(vtrace(*batch.columns(OFF_POLICY), gamma=0.9, lam=0.9)),
    "retrace": lambda batch: [retraced(batch, following(batch), gamma=0.9)],
    "successors": lambda batch: [following(batch)],
}


@pytest.mark.parametrize("name", ESTIMATORS)
@given(batches(), batches(longest=40, pieces=2))
def test_concatenating_commutes_with_estimating(name: str, first: Rows, second: Rows) -> None:
    estimate = ESTIMATORS[name]
    for parts, together in zip(zip(estimate(first), estimate(second), strict=True), estimate(first + second), strict=True):
        np.testing.assert_array_equal(np.concatenate(parts), together)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_rows(name: str) -> None:
    for result in ESTIMATORS[name](Rows([], [], [], [], [])):
        assert (result.shape, result.dtype) == ((0,), np.dtype(np.float32))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_final_value_of_an_episode_that_terminated_does_not_matter(name: str) -> None:
    def batch(final: float) -> Rows:
        return Rows([1.0, 2.0], [3.0, 4.0], [final, 1.0], [True, False], [0, 1], [-1.0, -1.0], [-1.5, -0.5])

    if name != "successors":
        for one, other in zip(ESTIMATORS[name](batch(7.0)), ESTIMATORS[name](batch(math.nan)), strict=True):
            np.testing.assert_array_equal(one, other)


def test_columns_in_double_precision_are_left_alone() -> None:
    """They would need no conversion, so a careless estimator would work in their memory; here that would raise."""
    columns = [np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.6, 0.7]), np.array([0.4]), flags(0, 0, 0), ends_of([3])]
    for part in columns:
        part.flags.writeable = False
    rewards, values, finals, terminated, ends = columns
    results = [
        backward(rewards, values, ends),
        *gae(rewards, values, finals, terminated, ends, gamma=0.9, lam=0.8),
        discounted_returns(rewards, finals, terminated, ends, gamma=0.9),
        *n_step(rewards, terminated, ends, n=2, gamma=0.9)[:2],
        *vtrace(values, rewards, rewards, values, finals, terminated, ends, gamma=0.9),
        retrace(values, rewards, rewards, values, rewards, terminated, ends, gamma=0.9),
        standardized(rewards),
    ]
    assert {result.dtype for result in results} == {np.dtype(np.float32)}


# --------------------------------------------------------------------------- known numbers


@pytest.mark.parametrize(
    ("lam", "cut", "ended"),
    [
        (1.0, [-1.45118, -4.4557, 2.5396, 0.5249, -0.49], [3.0, 2.0, 1.0, 0.0, -4.9]),
        (0.7, [-0.676979, -5.248167, 2.4846, 0.6704, -0.49], [2.2899, 1.73, 1.0, 0.0, -4.9]),
        (0.4, [0.56731, -6.042, 2.3431, 0.815, -0.49], [1.725, 1.46, 1.0, 0.0, -4.9]),
    ],
)
def test_gae_gives_the_numbers_that_rlax_publishes(lam: float, cut: list[float], ended: list[float]) -> None:
    """Those of its own tests, given there to about three digits: a fragment that was cut, and one where an episode terminated."""
    one = (column(0, 0, 1, 0, -0.5), column(1, 4, -3, -2, -1), column(-1), flags(0, 0, 0, 0, 0), ends_of([5]))
    two = (column(0, 0, 0, 0, 1), column(-3, -2, -1, 0, 5), column(5, -1), flags(0, 0, 0, 1, 0), ends_of([4, 1]))
    np.testing.assert_allclose(gae(*one, gamma=0.99, lam=lam)[0], cut, atol=1e-3)
    np.testing.assert_allclose(gae(*two, gamma=0.9, lam=lam)[0], ended, atol=1e-3)


def test_gae_by_hand() -> None:
    """gamma = lam = 1/2. A piece that is cut, with the final value 8, and one that terminated, whose final value is ignored.

    Cut: the TD errors are 1 + 4/2 - 2 = 1 and 2 + 8/2 - 4 = 2; the advantages 1 + 2/4 = 1.5 and 2.
    Terminated: the TD errors are 4 + 2/2 - 1 = 4 and 0 + 0 - 2 = -2; the advantages 4 - 2/4 = 3.5 and -2.
    """
    columns = (column(1, 2, 4, 0), column(2, 4, 1, 2), column(8, 99), flags(0, 0, 0, 1), ends_of([2, 2]))
    advantages, returns = gae(*columns, gamma=0.5, lam=0.5)
    assert advantages.tolist() == [1.5, 2, 3.5, -2]
    assert returns.tolist() == [3.5, 6, 4.5, 0]


def test_n_step_by_hand() -> None:
    """Three rows that are cut, then two that terminated: windows of two, with gamma = 1/2.

    1 + 2/2 = 2, goes on with 1/4 after row 1; 2 + 4/2 = 4, with 1/4 after row 2; 4 alone, with 1/2 after row 2; then
    8 + 16/2 = 16 and 16, and nothing follows.
    """
    found = n_step(column(1, 2, 4, 8, 16), flags(0, 0, 0, 0, 1), ends_of([3, 2]), n=2, gamma=0.5)
    assert found.returns.tolist() == [2, 4, 4, 16, 16]
    assert found.discounts.tolist() == [0.25, 0.25, 0.5, 0, 0]
    assert found.last.tolist() == [1, 2, 2, 4, 4]


def test_vtrace_by_hand() -> None:
    """gamma = 1/2. The ratios are 1/2 and 4: clipped at 2 for rho, at 1 for the traces, at 3 for the advantages.

    The TD errors are 2 + 8/2 - 4 = 2 and 1 + 16/2 - 8 = 1.
    Row 1: v = 8 + 2 * 1 = 10. Row 0: v = 4 + 1/2 * 2 + 1/2 * 1/2 * (10 - 8) = 5.5.
    Advantages: 3 * (1 + 16/2 - 8) = 3 and 1/2 * (2 + 10/2 - 4) = 1.5.
    """
    columns = (np.zeros(2), np.log([0.5, 4.0]), column(2, 1), column(4, 8), column(16), flags(0, 0), ends_of([2]))
    found = vtrace(*columns, gamma=0.5, clip_rho=2.0, clip_c=1.0, clip_pg_rho=3.0)
    assert found.targets.tolist() == [5.5, 10]
    assert found.advantages.tolist() == [1.5, 3]
    assert found.rhos.tolist() == [0.5, 2]


def test_retrace_by_hand() -> None:
    """gamma = 1/2, lam = 1. The TD errors are 1 + 6/2 - 3 = 1 and 2 + 8/2 - 5 = 1.

    Row 1: 5 + 1 = 6. Row 0: its own ratio does not count, that of row 1 does, 1/4: 3 + 1 + 1/2 * 1/4 * 1 = 4.125.
    """
    columns = (np.zeros(2), np.log([0.01, 0.25]), column(1, 2), column(3, 5), column(6, 8), flags(0, 0), ends_of([2]))
    assert retrace(*columns, gamma=0.5).tolist() == [4.125, 6]


def test_ratios_that_would_overflow_are_clipped() -> None:
    far = vtrace(column(-2000), column(0), column(1), column(0), column(0), flags(1), ends_of([1]), gamma=0.9)
    assert (far.targets.tolist(), far.rhos.tolist()) == ([1], [1])
    never = vtrace(column(0), column(-math.inf), column(1), column(5), column(0), flags(1), ends_of([1]), gamma=0.9)
    assert (never.targets.tolist(), never.advantages.tolist()) == ([5], [0])


# --------------------------------------------------------------------------- statistics


@given(st.lists(numbers, min_size=2, max_size=30), st.data())
def test_standardized(values: list[float], data: st.DataObject) -> None:
    mask = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    kept = [value for value, counts in zip(values, mask, strict=True) if counts]
    mean = math.fsum(kept) / max(1, len(kept))
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in kept) / max(1, len(kept)))
    expected = [(value - mean) / (deviation + 0.5) if counts else 0.0 for value, counts in zip(values, mask, strict=True)]
    near(standardized(column(*values), mask=flags(*mask), eps=0.5), expected)


def test_standardized_by_default_counts_all_and_survives_equal_numbers() -> None:
    assert standardized(column(1, 2, 3, 6)).tolist() == pytest.approx(np.array([-2, -1, 0, 3]) / math.sqrt(3.5))
    assert standardized(np.full(3, 0.1)).tolist() == pytest.approx([0, 0, 0], abs=1e-7)
    assert standardized(column()).shape == (0,)
    assert standardized(column(1, 2), mask=flags(0, 0)).tolist() == [0, 0]


# --------------------------------------------------------------------------- mistakes


WRONG_ENDS = [[], [1], [0, 1], [2, 1, 2], [1, 1, 2], [3], [-1, 2], [-3, 2], [0.5, 2], [[2]], 2, [True, True], np.arange(0)]


@pytest.mark.parametrize("ends", WRONG_ENDS, ids=repr)
def test_ends_that_do_not_fit(ends: object) -> None:
    found = np.array(ends)
    with pytest.raises(ValueError, match=r"^gae: ends must be whole numbers that increase and stop at the last row, 2; got "):
        gae(np.ones(3), np.ones(3), np.ones(found.size), flags(0, 0, 0), found, gamma=0.9, lam=0.9)


def test_ends_of_no_rows() -> None:
    for ends in (0, -1):
        with pytest.raises(ValueError, match=rf"^backward: ends must .* and be none, as there are no rows; got \[{ends}\]\.$"):
            backward(column(), column(), np.array([ends]))
    assert backward(column(), column(), np.array([])).shape == (0,)


def test_columns_that_do_not_fit() -> None:
    ok, ends = np.ones(3), ends_of([3])
    with pytest.raises(ValueError, match=r"^gae: columns must be flat, .*'values': \(2,\)"):
        gae(ok, np.ones(2), np.ones(1), flags(0, 0, 0), ends, gamma=0.9, lam=0.9)
    with pytest.raises(ValueError, match=r"^gae: columns must be flat, .*'rewards': \(3, 1\)"):
        gae(ok[:, None], ok, np.ones(1), flags(0, 0, 0), ends, gamma=0.9, lam=0.9)
    with pytest.raises(ValueError, match="columns must be flat"):
        backward(np.array(1.0), np.array(1.0), ends)
    for finals in (np.ones(2), np.ones((1, 1)), np.ones(())):
        with pytest.raises(ValueError, match=r"^gae: final_values must have one number per piece, the shape \(1,\); got \("):
            gae(ok, ok, finals, flags(0, 0, 0), ends, gamma=0.9, lam=0.9)
    with pytest.raises(ValueError, match=r"standardized: the mask must have the shape of x, \(3,\); got \(2,\)"):
        standardized(ok, mask=flags(1, 1))


ROW = Rows([1.0], [1.0], [1.0], [False], [0], [0.0], [0.0])
FRACTION, CLIP = "must be between 0 and 1", "must be above 0"
LIMITS: dict[str, tuple[str, Callable[[float], object]]] = {
    "gae: gamma": (FRACTION, lambda wrong: gae(*ROW.columns(ON_POLICY), gamma=wrong, lam=0.9)),
    "gae: lam": (FRACTION, lambda wrong: gae(*ROW.columns(ON_POLICY), gamma=0.9, lam=wrong)),
    "discounted_returns: gamma": (FRACTION, lambda wrong: discounted_returns(*ROW.columns(RETURNS), gamma=wrong)),
    "n_step: gamma": (FRACTION, lambda wrong: n_step(*ROW.columns(WINDOWS), n=1, gamma=wrong)),
    "vtrace: gamma": (FRACTION, lambda wrong: vtrace(*ROW.columns(OFF_POLICY), gamma=wrong)),
    "vtrace: lam": (FRACTION, lambda wrong: vtrace(*ROW.columns(OFF_POLICY), gamma=0.9, lam=wrong)),
    "vtrace: clip_rho": (CLIP, lambda wrong: vtrace(*ROW.columns(OFF_POLICY), gamma=0.9, clip_rho=wrong)),
    "vtrace: clip_c": (CLIP, lambda wrong: vtrace(*ROW.columns(OFF_POLICY), gamma=0.9, clip_c=wrong)),
    "vtrace: clip_pg_rho": (CLIP, lambda wrong: vtrace(*ROW.columns(OFF_POLICY), gamma=0.9, clip_pg_rho=wrong)),
    "retrace: gamma": (FRACTION, lambda wrong: retraced(ROW, column(1), gamma=wrong)),
    "retrace: lam": (FRACTION, lambda wrong: retraced(ROW, column(1), gamma=0.9, lam=wrong)),
}


@pytest.mark.parametrize("name", LIMITS)
def test_settings_out_of_range(name: str) -> None:
    allowed, call = LIMITS[name]
    for wrong in (-0.1, math.nan, *([1.1, math.inf] if allowed is FRACTION else [0.0])):
        with pytest.raises(ValueError, match=f"^{name} {allowed}, got {wrong}"):
            call(wrong)


def test_windows_of_no_length() -> None:
    for n in (0, -1, 1.5, "2"):
        with pytest.raises(ValueError, match=r"^n_step: n must be a whole number of at least 1, got "):
            n_step(*ROW.columns(WINDOWS), n=n, gamma=0.9)  # type: ignore[arg-type]  # that is the mistake
    assert n_step(*ROW.columns(WINDOWS), n=np.int64(2), gamma=0.9).last.tolist() == [0]  # type: ignore[arg-type]  # as good
