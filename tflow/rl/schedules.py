"""Schedules over env steps: of learning rates, epsilons, the beta of prioritized replay.

A schedule is a frozen value. It is a function of the number of env steps alone, so a resumed run continues where it was.

>>> Linear(1.0, 0.1, steps=1_000_000).at(500_000)
0.55
"""

from __future__ import annotations

import math
import numbers
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Protocol, TypeGuard, runtime_checkable

from tflow.combinators import check
from tflow.errors import PlanError


@runtime_checkable
class Schedule(Protocol):
    """A value that depends on the number of env steps. Write your own as a frozen dataclass with this method."""

    def at(self, steps: int, /) -> float:
        """The value after ``steps`` env steps."""
        ...


@dataclass(frozen=True)
class Constant:
    """A constant value."""

    value: float
    """The value."""

    def __post_init__(self) -> None:
        _number("Constant", "value", self.value)

    def at(self, steps: int, /) -> float:
        return self.value


@dataclass(frozen=True)
class Linear:
    """Linear annealing from ``start`` to ``end`` within ``steps`` env steps; constant afterwards."""

    start: float
    """Value at the start."""
    end: float
    """Value after ``steps`` env steps."""
    steps: int
    """Env steps until ``end`` is reached. More: slower annealing."""

    def __post_init__(self) -> None:
        _number("Linear", "start", self.start)
        _number("Linear", "end", self.end)
        check.integer("Linear", "steps", self.steps, least=1)

    def at(self, steps: int, /) -> float:
        return _between(self.start, self.end, _fraction(steps, self.steps))


@dataclass(frozen=True)
class Exponential:
    """Exponential decay from ``start`` to ``end`` within ``steps`` env steps; constant afterwards.

    >>> [Exponential(1.0, 0.01, steps=100).at(steps) for steps in (0, 50, 100, 900)]
    [1.0, 0.1, 0.01, 0.01]
    """

    start: float
    """Value at the start."""
    end: float
    """Value after ``steps`` env steps."""
    steps: int
    """Env steps until ``end`` is reached. More: slower annealing."""

    def __post_init__(self) -> None:
        check.positive("Exponential", "start", self.start)
        check.positive("Exponential", "end", self.end)
        check.integer("Exponential", "steps", self.steps, least=1)

    def at(self, steps: int, /) -> float:
        fraction = _fraction(steps, self.steps)
        return self.end if fraction == 1 else self.start * (self.end / self.start) ** fraction


@dataclass(frozen=True)
class Piecewise:
    """Linear interpolation between points (env steps, value); constant before the first and after the last.

    >>> schedule = Piecewise(((0, 1.0), (1_000_000, 0.1), (10_000_000, 0.01)))
    >>> [round(schedule.at(steps), 6) for steps in (0, 500_000, 1_000_000, 20_000_000)]
    [1.0, 0.55, 0.1, 0.01]
    """

    points: tuple[tuple[int, float], ...]
    """Pairs (env steps, value), in order."""

    def __post_init__(self) -> None:
        if not self.points or not _all_pairs(self.points):
            raise PlanError(
                f"Piecewise: points must be pairs (env steps, value) such as ((0, 1.0), (1000, 0.1)), got {self.points!r}."
            )
        for steps, value in self.points:
            check.integer("Piecewise", "the steps of a point", steps, least=0)
            _number("Piecewise", "the value of a point", value)
        steps_of_points = [steps for steps, _ in self.points]
        if any(later <= earlier for earlier, later in pairwise(steps_of_points)):
            raise PlanError(f"Piecewise: the steps of the points must increase, got {steps_of_points}.")

    def at(self, steps: int, /) -> float:
        after = bisect_right(self.points, steps, key=lambda point: point[0])
        if after in (0, len(self.points)):
            return self.points[max(after - 1, 0)][1]
        (left, start), (right, end) = self.points[after - 1], self.points[after]
        return _between(start, end, _fraction(steps - left, right - left))


def schedule_of(value: float | Schedule, *, where: str = "schedule") -> Schedule:
    """The schedule itself, or a constant one for a number. ``where`` names the setting in the error.

    >>> schedule_of(0.1)
    Constant(value=0.1)
    """
    if type(value) is float and math.isfinite(value):  # the usual case, asked for at every update
        return _constant(value)
    if isinstance(value, Schedule) and not isinstance(value, type):
        return value
    if _is_number(value):
        return Constant(float(value))
    raise PlanError(f"{where}: expected a finite number or a schedule such as Linear(1.0, 0.1, steps=1_000_000), got {value!r}.")


@lru_cache(maxsize=256)
def _constant(value: float) -> Schedule:
    return Constant(value)


def _fraction(done: int, of: int) -> float:
    return min(max(done / of, 0.0), 1.0)


def _between(start: float, end: float, fraction: float) -> float:
    return start + (end - start) * fraction if fraction < 1 else end  # the end itself, without rounding


def _is_number(value: object) -> TypeGuard[float]:
    return not isinstance(value, bool) and isinstance(value, numbers.Real) and math.isfinite(value)


def _all_pairs(points: object) -> bool:
    return isinstance(points, tuple) and all(isinstance(point, tuple) and len(point) == 2 for point in points)


def _number(where: str, name: str, value: object) -> None:
    if not _is_number(value):
        raise PlanError(f"{where}: {name} must be a finite number, got {value!r}.")
