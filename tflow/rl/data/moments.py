"""Running mean and variance, mergeable: workers compute them for their rollouts, the driver merges them over all workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tflow.rl.data.arrays import Array
from tflow.types import Frozen


@dataclass(frozen=True, eq=False)
class Moments(Frozen):
    """Count, mean and sum of squared deviations of rows."""

    count: int
    mean: Array
    squares: Array

    @staticmethod
    def of(rows: Array) -> Moments:
        """The moments of rows; there must be some."""
        values = rows.astype(np.float64)
        mean = values.mean(axis=0)
        return Moments(len(rows), mean, np.square(values - mean).sum(axis=0))

    def merged(self, later: Moments) -> Moments:
        """The moments of all rows together (Chan et al. 1979).

        Law: associative and commutative, up to rounding.
        """
        count = self.count + later.count
        apart = later.mean - self.mean
        squares = self.squares + later.squares + np.square(apart) * (self.count * later.count / count)
        return Moments(count, self.mean + apart * (later.count / count), squares)

    @property
    def variance(self) -> Array:
        """The variance of the rows."""
        return self.squares / self.count


ByColumn = Mapping[str, Moments]
"""Moments by column: ``obs``, or ``obs/...`` for the parts of an observation, and ``returns``."""


def merged_moments(before: Mapping[str, ByColumn], later: Mapping[str, ByColumn]) -> dict[str, ByColumn]:
    """Moments by policy and column, merged."""
    if not before or not later:
        return dict(before or later)
    found: dict[str, ByColumn] = dict(before)
    for policy, columns in later.items():
        known = found.get(policy, {})
        found[policy] = {**known, **{name: known[name].merged(each) if name in known else each for name, each in columns.items()}}
    return found
