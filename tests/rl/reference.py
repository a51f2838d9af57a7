"""Slow estimators that are obviously right, and the batches to try them on.

They take one row at a time, as the formulas of the papers say, in Python floats. Nothing is shared with
``tflow.rl.data.estimators``: sums are written out where the papers write sums, so that the recurrences there have
something else to agree with.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from tflow.rl.data.arrays import Array


@dataclass(frozen=True)
class Rows:
    """The rows of a batch, as lists of Python numbers."""

    rewards: list[float]
    values: list[float]
    final_values: list[float]
    terminated: list[bool]
    ends: list[int]
    behaviour_logp: list[float] = field(default_factory=list)
    target_logp: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rewards)

    def __add__(self, other: Rows) -> Rows:
        return Rows(
            self.rewards + other.rewards,
            self.values + other.values,
            self.final_values + other.final_values,
            self.terminated + other.terminated,
            self.ends + [end + len(self) for end in other.ends],
            self.behaviour_logp + other.behaviour_logp,
            self.target_logp + other.target_logp,
        )

    def __getitem__(self, name: str) -> Array:
        """A column as a batch has it, read-only."""
        dtypes: dict[str, type[np.generic]] = {"terminated": np.bool_, "ends": np.int64}
        array: Array = np.array(getattr(self, name), dtype=dtypes.get(name, np.float32))
        array.flags.writeable = False
        return array

    def columns(self, names: str) -> list[Array]:
        """Some columns, in this order."""
        return [self[name] for name in names.split()]

    def piece(self, t: int) -> int:
        """The piece that a row lies in."""
        return next(piece for piece, end in enumerate(self.ends) if t <= end)

    def goes_on(self, t: int) -> bool:
        """Whether the row after this one continues its episode."""
        return t not in self.ends and not self.terminated[t]

    def rest(self, t: int) -> Iterator[int]:
        """This row and those that continue its episode in its piece."""
        yield t
        while self.goes_on(t):
            t += 1
            yield t

    def following(self, t: int, numbers: Sequence[float], finals: Sequence[float]) -> float:
        """What comes after a row: nothing if it terminated, after the last row of a piece the final number, else the next one."""
        if self.terminated[t]:
            return 0.0
        return finals[self.piece(t)] if t in self.ends else numbers[t + 1]

    def error(self, t: int, gamma: float) -> float:
        """The TD error."""
        return self.rewards[t] + gamma * self.following(t, self.values, self.final_values) - self.values[t]

    def ratio(self, t: int) -> float:
        return math.exp(self.target_logp[t] - self.behaviour_logp[t])


def ends_of(lengths: list[int]) -> Array:
    """The ends of pieces of these lengths."""
    return np.cumsum(np.array(lengths, dtype=np.int64)) - 1


def column(*values: float) -> Array:
    return np.array(values, dtype=np.float32)


def flags(*values: int) -> Array:
    return np.array(values, dtype=np.bool_)


def near(actual: Array, expected: list[float] | Array) -> None:
    """Right to the last bit but one of a float32, except for what double precision loses when large numbers cancel."""
    assert actual.dtype == np.float32
    wanted = np.asarray(expected, dtype=np.float64)
    assert actual.shape == wanted.shape
    np.testing.assert_allclose(actual, wanted, rtol=2**-23, atol=1e-13 * max(1.0, np.abs(wanted).max(initial=0.0)))


# Integers become small soon when hypothesis looks for the smallest example; divided, they need all bits of a float32.
numbers = st.integers(-1000, 1000).map(lambda number: float(np.float32(number / 97)))
logps = st.integers(0, 200).map(lambda number: -float(np.float32(number / 97)))


@st.composite
def batches(draw: st.DrawFn, *, pieces: int = 5, longest: int = 17) -> Rows:
    """Pieces of any length that end in any way; now and then a row terminates before its piece ends."""
    lengths = draw(st.lists(st.integers(1, longest), max_size=pieces))
    count = sum(lengths)
    ends = [sum(lengths[: piece + 1]) - 1 for piece in range(len(lengths))]
    seldom = st.sampled_from([False] * 15 + [True])
    terminated = [draw(st.booleans() if t in ends else seldom) for t in range(count)]

    def column(size: int, kind: st.SearchStrategy[float]) -> list[float]:
        return draw(st.lists(kind, min_size=size, max_size=size))

    return Rows(
        column(count, numbers),
        column(count, numbers),
        column(len(ends), numbers),
        terminated,
        ends,
        column(count, logps),
        column(count, logps),
    )


def backward(deltas: list[float], decays: list[float], ends: list[int]) -> list[float]:
    """The recurrence, from the last row to the first."""
    solved, after = [0.0] * len(deltas), 0.0
    for t in reversed(range(len(deltas))):
        after = deltas[t] + (0.0 if t in ends else decays[t] * after)
        solved[t] = after
    return solved


def gae(rows: Rows, gamma: float, lam: float) -> list[float]:
    """Equation 16 of arXiv 1506.02438: the sum of (gamma lam)^l times the TD error l rows later."""
    return [sum((gamma * lam) ** (later - t) * rows.error(later, gamma) for later in rows.rest(t)) for t in range(len(rows))]


def discounted_returns(rows: Rows, gamma: float) -> list[float]:
    """The sum of the discounted rewards, and what the final value adds."""
    returns = []
    for t in range(len(rows)):
        *_, last = window = list(rows.rest(t))
        rest = 0.0 if rows.terminated[last] else rows.final_values[rows.piece(last)]
        returns.append(sum(gamma ** (later - t) * rows.rewards[later] for later in window) + gamma ** len(window) * rest)
    return returns


def n_step(rows: Rows, n: int, gamma: float) -> tuple[list[float], list[float], list[int]]:
    returns, discounts, lasts = [], [], []
    for t in range(len(rows)):
        *_, last = window = list(rows.rest(t))[:n]
        returns.append(sum(gamma ** (later - t) * rows.rewards[later] for later in window))
        discounts.append(0.0 if rows.terminated[last] else gamma ** len(window))
        lasts.append(last)
    return returns, discounts, lasts


def lambda_returns(rows: Rows, gamma: float, lam: float) -> list[float]:
    """The average of all n-step returns, (1 - lam) lam^(n-1) of each, and the rest of the weight for the longest."""
    averages = []
    for t in range(len(rows)):
        window = list(rows.rest(t))
        average, reward = 0.0, 0.0
        for n, later in enumerate(window, 1):
            reward += gamma ** (n - 1) * rows.rewards[later]
            target = reward + gamma**n * rows.following(later, rows.values, rows.final_values)
            average += (lam ** (n - 1) if n == len(window) else (1 - lam) * lam ** (n - 1)) * target
        averages.append(average)
    return averages


def vtrace(
    rows: Rows, gamma: float, lam: float, clip_rho: float, clip_c: float, clip_pg_rho: float
) -> tuple[list[float], list[float], list[float]]:
    """Equation 1 of arXiv 1802.01561 with the trace of its remark 2, and the advantage of section 4.2."""
    rhos = [min(clip_rho, rows.ratio(t)) for t in range(len(rows))]
    targets = []
    for t in range(len(rows)):
        total, trace = rows.values[t], 1.0
        for later in rows.rest(t):
            total += gamma ** (later - t) * trace * rhos[later] * rows.error(later, gamma)
            trace *= lam * min(clip_c, rows.ratio(later))
        targets.append(total)
    advantages = [
        min(clip_pg_rho, rows.ratio(t))
        * (rows.rewards[t] + gamma * rows.following(t, targets, rows.final_values) - rows.values[t])
        for t in range(len(rows))
    ]
    return targets, advantages, rhos


def retrace(rows: Rows, next_expected_q: Sequence[float], gamma: float, lam: float) -> list[float]:
    """Equation 3 of arXiv 1606.02647, with the traces of its section 3; the values of the rows are those of their actions."""
    targets = []
    for t in range(len(rows)):
        total, trace = rows.values[t], 1.0
        for later in rows.rest(t):
            if later > t:
                trace *= lam * min(1.0, rows.ratio(later))
            expected = 0.0 if rows.terminated[later] else next_expected_q[later]
            total += gamma ** (later - t) * trace * (rows.rewards[later] + gamma * expected - rows.values[later])
        targets.append(total)
    return targets
