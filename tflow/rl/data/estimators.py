"""Estimators of returns and advantages: pure functions over the rows of a batch and the ``ends`` of its pieces.

GAE, discounted returns, V-trace and Retrace all solve one linear recurrence backwards in time, within pieces:
``x[t] = deltas[t] + decays[t] * x[t + 1]``. It is written once, in ``backward``; the others say what their deltas and decays are.

A ``terminated`` row has no future. Where a piece ends otherwise it was truncated or cut off, and bootstraps from
``final_values``: one number per piece, the value of the observation after its last row.

Sums are made in double precision and rounded once, to float32: several times closer than sums of float32, at little cost.
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from tflow.rl.data.arrays import Array


class VTrace(NamedTuple):
    """The result of ``vtrace``, one number per row."""

    targets: Array
    """Targets of the value function."""
    advantages: Array
    """Advantages for the policy gradient, already multiplied by the clipped importance weights."""
    rhos: Array
    """Importance weights, clipped at ``clip_rho``."""


class NStep(NamedTuple):
    """The result of ``n_step``: the target of a row is ``returns + discounts * (value after the row last)``."""

    returns: Array
    """Discounted sum of the rewards of the window."""
    discounts: Array
    """Discount of the bootstrap value: ``gamma**k`` after k rows, 0 if the episode terminated."""
    last: Array
    """The index of the last row of the window."""


# --------------------------------------------------------------------------- the recurrence


def backward(deltas: Array, decays: Array, ends: Array) -> Array:
    """Solves ``x[t] = deltas[t] + decays[t] * x[t + 1]`` within pieces; after the last row of a piece, x is 0.

    A row that is not finite makes itself and the earlier rows of its piece NaN, and no other.

    >>> import numpy as np
    >>> backward(np.array([1, 2, 4]), np.array([0.5, 0.5, 0.5]), ends=np.array([1, 2]))  # two pieces: two rows and one
    array([2., 2., 4.], dtype=float32)
    """
    ends = _checked("backward", ends, deltas=deltas, decays=decays)
    return _single(_solve(_copied(deltas), _copied(decays), ends))


def successors(values: Array, final_values: Array, ends: Array) -> Array:
    """The successor of each row: the next row of its piece, or the final one after the last.

    >>> import numpy as np
    >>> successors(np.array([1, 2, 3]), np.array([20, 30]), ends=np.array([1, 2]))
    array([ 2, 20, 30])
    """
    ends = _checked("successors", ends, final_values, values=values)
    return _shifted(values, final_values, ends, np.result_type(values, final_values))


# --------------------------------------------------------------------------- on-policy


def gae(
    rewards: Array, values: Array, final_values: Array, terminated: Array, ends: Array, *, gamma: float, lam: float
) -> tuple[Array, Array]:
    """Generalised advantage estimation (GAE, arXiv 1506.02438): advantages, and the lambda returns ``advantages + values``.

    ``A[t] = td[t] + gamma * lam * A[t + 1]`` with ``td[t] = r[t] + gamma * V[t + 1] - V[t]``. With lam=0 that is the TD error,
    with lam=1 the discounted return minus the value.

    >>> import numpy as np
    >>> rewards, values, terminated = np.array([1, 1, 1]), np.array([1, 2, 3]), np.array([False, True, False])
    >>> advantages, returns = gae(rewards, values, np.array([9, 4]), terminated, np.array([1, 2]), gamma=0.5, lam=1.0)
    >>> returns  # the first episode terminated: 1 + 0.5, 1; the second goes on: 1 + 0.5 * 4
    array([1.5, 1. , 3. ], dtype=float32)
    >>> advantages
    array([ 0.5, -1. ,  0. ], dtype=float32)
    """
    _fraction("gae", gamma=gamma, lam=lam)
    ends = _checked("gae", ends, final_values, rewards=rewards, values=values, terminated=terminated)
    errors = _td_errors(rewards, values, terminated, _shifted(values, final_values, ends), gamma)
    advantages = _solve(errors, np.where(terminated, 0.0, gamma * lam), ends)
    return _single(advantages), _single(advantages + values)


def discounted_returns(rewards: Array, final_values: Array, terminated: Array, ends: Array, *, gamma: float) -> Array:
    """Discounted returns: ``G[t] = r[t] + gamma * G[t + 1]``; after a piece, G is the final value.

    >>> import numpy as np
    >>> discounted_returns(np.ones(3), np.array([8]), np.array([False, False, False]), np.array([2]), gamma=0.5)
    array([2.75, 3.5 , 5.  ], dtype=float32)
    """
    _fraction("discounted_returns", gamma=gamma)
    ends = _checked("discounted_returns", ends, final_values, rewards=rewards, terminated=terminated)
    sums = _copied(rewards)
    sums[ends] += gamma * np.where(np.asarray(terminated)[ends], 0.0, _copied(final_values))
    return _single(_solve(sums, np.where(terminated, 0.0, gamma), ends))


# --------------------------------------------------------------------------- off-policy


def n_step(rewards: Array, terminated: Array, ends: Array, *, n: int, gamma: float) -> NStep:
    """n-step returns: ``r[t] + ... + gamma**(k-1) * r[t+k-1] + gamma**k * V`` over up to ``n`` rows.

    A window has fewer rows than ``n`` where its piece ends before. ``V`` is the value of what follows its last row, so the next
    observation of the n-step transition is that of the row ``last``.

    >>> import numpy as np
    >>> n_step(np.array([1, 2, 4]), np.array([False, False, True]), np.array([2]), n=2, gamma=0.5)
    NStep(returns=array([2., 4., 4.], dtype=float32), discounts=array([0.25, 0.  , 0.  ], dtype=float32), last=array([1, 2, 2]))
    """
    _fraction("n_step", gamma=gamma)
    if not isinstance(n, Integral) or n < 1:
        raise ValueError(f"n_step: n must be a whole number of at least 1, got {n!r}.")
    ends = _checked("n_step", ends, rewards=rewards, terminated=terminated)
    terminated = np.asarray(terminated, dtype=np.bool_)
    closing = terminated.copy()
    closing[ends] = True
    stops = np.flatnonzero(closing)
    lengths = np.diff(stops, prepend=-1)
    stop = np.repeat(stops, lengths)  # of each row: where its rewards end, at the latest
    n = min(int(n), int(lengths.max(initial=1)))

    def joined(first: Array, then: Array, steps: int) -> Array:
        """The sums of each row, and those that begin so many rows later, if that is in the same piece."""
        sums = first.copy()
        inside = np.arange(steps, len(sums)) <= stop[:-steps]
        sums[:-steps] += np.where(inside, gamma**steps * then[steps:], 0.0)
        return sums

    # Sums over 1 row become sums over n by what makes n of 1: the binary digits say when to double and when to add one.
    rewards = returns = _copied(rewards)
    width = 1
    for digit in f"{n:b}"[1:]:
        returns, width = joined(returns, returns, width), 2 * width
        if digit == "1":
            returns, width = joined(rewards, returns, 1), width + 1
    rows = np.arange(len(rewards), dtype=np.int64)
    last = np.minimum(rows + (n - 1), stop)
    discounts = np.where(terminated[last], 0.0, np.power(gamma, np.arange(n + 1))[last - rows + 1])
    return NStep(_single(returns), _single(discounts), last)


def vtrace(
    behaviour_logp: Array,
    target_logp: Array,
    rewards: Array,
    values: Array,
    final_values: Array,
    terminated: Array,
    ends: Array,
    *,
    gamma: float,
    lam: float = 1.0,
    clip_rho: float = 1.0,
    clip_c: float = 1.0,
    clip_pg_rho: float = 1.0,
) -> VTrace:
    """V-trace: off-policy value targets and advantages (IMPALA, arXiv 1802.01561).

    With ``ratio = exp(target_logp - behaviour_logp)``, ``rho = min(clip_rho, ratio)`` and ``c = lam * min(clip_c, ratio)``:

    - targets: ``v[t] = V[t] + rho[t] * td[t] + gamma * c[t] * (v[t + 1] - V[t + 1])``, with the TD errors of ``gae``;
    - advantages: ``min(clip_pg_rho, ratio) * (r[t] + gamma * v[t + 1] - V[t])``. After a piece, v and V are the final value.

    On-policy, with all clips at least 1, the targets are the lambda returns. ``math.inf`` clips nothing.
    """
    _fraction("vtrace", gamma=gamma, lam=lam)
    logps = {"behaviour_logp": behaviour_logp, "target_logp": target_logp}
    ends = _checked("vtrace", ends, final_values, rewards=rewards, values=values, terminated=terminated, **logps)
    clips = {"clip_rho": clip_rho, "clip_c": clip_c, "clip_pg_rho": clip_pg_rho}
    rhos, traces, pg_rhos = _ratios("vtrace", behaviour_logp, target_logp, **clips)
    errors = rhos * _td_errors(rewards, values, terminated, _shifted(values, final_values, ends), gamma)
    targets = values + _solve(errors, np.where(terminated, 0.0, gamma * lam * traces), ends)
    advantages = pg_rhos * _td_errors(rewards, values, terminated, _shifted(targets, final_values, ends), gamma)
    return VTrace(_single(targets), _single(advantages), _single(rhos))


def retrace(
    behaviour_logp: Array,
    target_logp: Array,
    rewards: Array,
    q: Array,
    next_expected_q: Array,
    terminated: Array,
    ends: Array,
    *,
    gamma: float,
    lam: float = 1.0,
) -> Array:
    """Retrace: off-policy targets of Q-values (arXiv 1606.02647).

    ``T[t] = q[t] + td[t] + gamma * c[t + 1] * (T[t + 1] - q[t + 1])``, with ``td[t] = r[t] + gamma * next_expected_q[t] - q[t]``
    and ``c = lam * min(1, exp(target_logp - behaviour_logp))``. ``next_expected_q`` is what the target policy expects of the
    observation after each row; ``successors`` makes it of what it expects of the rows and of the final observations.
    """
    _fraction("retrace", gamma=gamma, lam=lam)
    rest = {"terminated": terminated, "behaviour_logp": behaviour_logp, "target_logp": target_logp}
    ends = _checked("retrace", ends, rewards=rewards, q=q, next_expected_q=next_expected_q, **rest)
    (traces,) = _ratios("retrace", behaviour_logp, target_logp, clip=1.0)
    errors = _td_errors(rewards, q, terminated, _copied(next_expected_q), gamma)
    decays = np.where(terminated, 0.0, gamma * lam * _shifted(traces, np.zeros(len(ends)), ends))
    return _single(q + _solve(errors, decays, ends))


# --------------------------------------------------------------------------- statistics


def standardized(x: Array, *, mask: Array | None = None, eps: float = 1e-8) -> Array:
    """Standardise to mean 0 and standard deviation 1: ``(x - mean) / (std + eps)``.

    With a mask, only the rows where it is true count, and the others become 0.

    >>> import numpy as np
    >>> standardized(np.array([1, 3, 99]), mask=np.array([True, True, False]))
    array([-1.,  1.,  0.], dtype=float32)
    """
    x = np.asarray(x, dtype=np.float64)
    kept = np.ones(x.shape, dtype=np.bool_) if mask is None else np.asarray(mask, dtype=np.bool_)
    if kept.shape != x.shape:
        raise ValueError(f"standardized: the mask must have the shape of x, {x.shape}; got {kept.shape}.")
    result = np.zeros(x.shape)
    if kept.any():
        counted = x[kept]
        result[kept] = (counted - counted.mean()) / (counted.std() + eps)
    return _single(result)


# --------------------------------------------------------------------------- inside


def _copied(column: Array) -> Array:
    return np.array(column, dtype=np.float64)


def _single(column: Array) -> Array:
    return column.astype(np.float32)


def _solve(sums: Array, factors: Array, ends: Array) -> Array:
    """The recurrence, of which ``sums`` are the deltas and ``factors`` the decays; both are overwritten, as memory costs most.

    It doubles how far every row has seen: 1, 2, 4, ... rows, until that is as far as pieces reach. The steps are few and long,
    where a loop over time has many short ones; that pieces differ in length costs nothing.
    """
    if not (np.isfinite(sums).all() and np.isfinite(factors).all()):  # 0 * NaN would carry it across the ends of pieces
        broken = ~(np.isfinite(sums) & np.isfinite(factors))
        reached = _solve(broken.astype(np.float64), np.ones(len(sums)), ends) > 0
        sums[broken] = factors[broken] = 0.0
        return np.where(reached, np.nan, _solve(sums, factors, ends))
    longest = int(np.diff(ends, prepend=-1).max(initial=0))
    factors[ends] = 0.0
    seen = 1
    while seen < longest:
        # sums[t] is over the rows t to t + seen - 1, and factors[t] is the product of their decays: 0 if one of them is the last
        # of its piece. Where fewer rows are left in the batch it would be 0, too, and is left out.
        sums[:-seen] += factors[:-1] * sums[seen:]
        factors = factors[:-seen] * factors[seen:]
        seen *= 2
    return sums


def _shifted(values: Array, final_values: Array, ends: Array, dtype: DTypeLike = np.float64) -> Array:
    """The successors of the rows."""
    following = np.empty(len(values), dtype)
    following[:-1] = values[1:]
    following[ends] = final_values
    return following


def _td_errors(rewards: Array, values: Array, terminated: Array, following: Array, gamma: float) -> Array:
    """TD errors, ``rewards + gamma * following - values``, in the memory of ``following``; terminated rows do not bootstrap."""
    np.copyto(following, 0.0, where=np.asarray(terminated, dtype=np.bool_))
    following *= gamma
    following += rewards
    following -= values
    return following


def _ratios(function: str, behaviour_logp: Array, target_logp: Array, **clips: float) -> list[Array]:
    """Importance weights, clipped at each of some thresholds."""
    for name, clip in clips.items():
        if not clip > 0:
            raise ValueError(f"{function}: {name} must be above 0, got {clip}; math.inf clips nothing.")
    most = math.log(max(clips.values()))  # so that no power overflows that is clipped anyway
    ratios = np.exp(np.minimum(np.subtract(target_logp, behaviour_logp, dtype=np.float64), most))
    return [np.minimum(clip, ratios) for clip in clips.values()]


def _fraction(function: str, **numbers: float) -> None:
    for name, number in numbers.items():
        if not 0 <= number <= 1:
            raise ValueError(f"{function}: {name} must be between 0 and 1, got {number}.")


def _checked(function: str, ends: Array, final_values: Array | None = None, /, **columns: Array) -> Array:
    """The ends, if the columns have one number per row, the ends fit them, and there is one final value per piece."""
    shapes = {name: np.shape(column) for name, column in columns.items()}
    rows = sum(next(iter(shapes.values()))[:1])
    if any(shape != (rows,) for shape in shapes.values()):
        raise ValueError(f"{function}: columns must be flat, one number per row, and equally long; got the shapes {shapes}.")
    ends = np.asarray(ends)
    none = rows == 0 and ends.shape == (0,)  # of any type: an empty list becomes an array of floats
    whole = ends.ndim == 1 and ends.size > 0 and ends.dtype.kind in "iu"
    if not none and (not whole or ends[0] < 0 or ends[-1] != rows - 1 or (ends[1:] <= ends[:-1]).any()):
        stop = f"stop at the last row, {rows - 1}" if rows else "be none, as there are no rows"
        raise ValueError(f"{function}: ends must be whole numbers that increase and {stop}; got {ends}.")
    if final_values is not None and np.shape(final_values) != ends.shape:
        given = np.shape(final_values)
        raise ValueError(f"{function}: final_values must have one number per piece, the shape {ends.shape}; got {given}.")
    return ends.astype(np.int64, copy=False)
