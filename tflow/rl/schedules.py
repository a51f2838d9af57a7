"""Schedules over env steps: of learning rates, epsilons, the beta of prioritized replay.

A schedule is a frozen value. It is a function of the number of env steps, so a resumed run continues where it was; those without
``steps`` also depend on the env steps after which the run stops, which travel with that number (``EnvSteps``).

>>> Linear(1.0, 0.1, steps=1_000_000).at(500_000)
0.55
>>> Linear(1.0, 0.0).at(EnvSteps(25, stops_at=100))
0.75
"""

from __future__ import annotations

import math
import numbers
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Protocol, Self, TypeGuard, runtime_checkable

from tflow.combinators import check
from tflow.combinators.labels import only_given
from tflow.errors import PlanError


@runtime_checkable
class Schedule(Protocol):
    """A value that depends on the number of env steps. Write your own as a frozen dataclass with this method."""

    def at(self, steps: int, /) -> float:
        """The value after ``steps`` env steps."""
        ...


class EnvSteps(int):
    """A number of env steps that knows after how many of them the run stops. Schedules and losses are called with it.

    Arithmetic gives a plain number, which does not know it.
    """

    stops_at: int | None
    """Env steps after which the run stops; None if that is not known."""

    def __new__(cls, steps: int, stops_at: int | None = None) -> Self:
        found = super().__new__(cls, steps)
        found.stops_at = stops_at
        return found


@dataclass(frozen=True)
class Constant:
    """A constant value."""

    value: float
    """The value."""

    def __post_init__(self) -> None:
        _number("Constant", "value", self.value)

    def at(self, steps: int, /) -> float:
        return self.value


@dataclass(frozen=True, repr=False)
class Annealed:
    """Base class of schedules from one value to another; constant afterwards."""

    start: float
    """Value at the start."""
    end: float
    """Value at the end of the annealing."""
    steps: int | None = None
    """Env steps until ``end`` is reached; more: slower annealing. None: those after which the run stops, ``Stop(env_steps=...)``;
    without such a stop the value stays at ``start``."""
    share: float = 1.0
    """Anneal within this share of them, above 0 and at most 1. Only without ``steps``."""

    def __post_init__(self) -> None:
        where = type(self).__name__
        if self.steps is not None:
            check.integer(where, "steps", self.steps, least=1)
        if not _is_number(self.share) or not 0 < self.share <= 1:
            raise PlanError(f"{where}: share must be above 0 and at most 1, got {self.share!r}.")
        if self.steps is not None and self.share != 1:
            raise PlanError(
                f"{where}: got steps={self.steps} and share={self.share}. Give steps= to anneal within so many env steps, or "
                "share= to anneal within this share of the run; not both."
            )

    def __repr__(self) -> str:
        return only_given(self)

    def fraction(self, steps: int) -> float:
        """The share of the annealing that is done, 0 to 1."""
        if self.steps is not None:
            return _fraction(steps, self.steps)
        stops_at = steps.stops_at if isinstance(steps, EnvSteps) else None
        return 0.0 if stops_at is None else _fraction(steps, self.share * stops_at)


@dataclass(frozen=True, repr=False)
class Linear(Annealed):
    """Linear annealing from ``start`` to ``end``, within ``steps`` env steps or a share of the run; constant afterwards.

    >>> [Linear(1.0, 0.0, share=0.5).at(EnvSteps(steps, stops_at=100)) for steps in (0, 25, 50, 100)]
    [1.0, 0.5, 0.0, 0.0]
    """

    def __post_init__(self) -> None:
        _number("Linear", "start", self.start)
        _number("Linear", "end", self.end)
        super().__post_init__()

    def at(self, steps: int, /) -> float:
        return _between(self.start, self.end, self.fraction(steps))


@dataclass(frozen=True, repr=False)
class Exponential(Annealed):
    """Exponential decay from ``start`` to ``end``, within ``steps`` env steps or a share of the run; constant afterwards.

    >>> [Exponential(1.0, 0.01, steps=100).at(steps) for steps in (0, 50, 100, 900)]
    [1.0, 0.1, 0.01, 0.01]
    """

    def __post_init__(self) -> None:
        check.positive("Exponential", "start", self.start)
        check.positive("Exponential", "end", self.end)
        super().__post_init__()

    def at(self, steps: int, /) -> float:
        fraction = self.fraction(steps)
        return self.end if fraction == 1 else self.start * (self.end / self.start) ** fraction


@dataclass(frozen=True, repr=False)
class Cosine(Annealed):
    """Half a wave of a cosine from ``start`` to ``end``, within ``steps`` env steps or a share of the run; constant afterwards.

    >>> [round(Cosine(1.0, 0.0, steps=100).at(steps), 6) for steps in (0, 50, 100, 900)]
    [1.0, 0.5, 0.0, 0.0]
    """

    def __post_init__(self) -> None:
        _number("Cosine", "start", self.start)
        _number("Cosine", "end", self.end)
        super().__post_init__()

    def at(self, steps: int, /) -> float:
        fraction = self.fraction(steps)
        return _between(self.start, self.end, fraction if fraction == 1 else 0.5 * (1 - math.cos(math.pi * fraction)))


@dataclass(frozen=True)
class Warmup:
    """Linear growth from almost 0 to another schedule within the first env steps, and that schedule from then on.

    >>> [Warmup(Constant(1.0), 100).at(steps) for steps in (0, 49, 99, 1000)]
    [0.01, 0.5, 1.0, 1.0]
    """

    schedule: float | Schedule
    """What it grows to."""
    steps: int
    """Env steps of the growth."""

    def __post_init__(self) -> None:
        schedule_of(self.schedule, where="Warmup: schedule")
        check.integer("Warmup", "steps", self.steps, least=1)

    def at(self, steps: int, /) -> float:
        return schedule_of(self.schedule).at(steps) * _fraction(steps + 1, self.steps)  # learning rates are above 0


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


NAMED: Mapping[str, tuple[Callable[..., Schedule], int]] = {
    "constant": (Constant, 1),
    "linear": (Linear, 2),
    "cosine": (Cosine, 2),
    "exponential": (Exponential, 2),
}
"""Schedules by name, and how many numbers each has."""
OPTIONS: Mapping[str, Callable[[str], float]] = {"steps": int, "share": float, "warmup": int}


def named_schedule(text: str) -> Schedule:
    """A schedule by its name: ``NAME:START:END``, with the options ``steps=``, ``share=`` and ``warmup=``, which is in env steps.

    >>> named_schedule("linear:1e-3:0"), named_schedule("cosine:1e-3:1e-5:warmup=5_000")
    (Linear(start=0.001, end=0.0), Warmup(schedule=Cosine(start=0.001, end=1e-05), steps=5000))
    """
    name, *parts = (part.strip() for part in text.split(":"))
    if name not in NAMED:
        raise PlanError(f"There is no schedule {name!r}: there are {', '.join(NAMED)}. Write linear:1e-3:0, for example.")
    kind, count = NAMED[name]
    allowed = f"{name}{':NUMBER' * count}, then steps=N, share=X or warmup=N with colons between"
    options = dict(part.split("=", 1) for part in parts if "=" in part)
    try:
        numbers_ = [float(part) for part in parts if "=" not in part]
        given = {key: OPTIONS[key](value) for key, value in options.items()}
    except (KeyError, ValueError) as error:
        raise PlanError(f"{text!r} is no schedule: {error}. It is {allowed}.") from None
    warmup = given.pop("warmup", None)
    if len(numbers_) != count or (given and kind is Constant):
        raise PlanError(f"{text!r} is no schedule. It is {allowed}.")
    made = kind(*numbers_, **given)
    return made if warmup is None else Warmup(made, int(warmup))


def is_named_schedule(text: str) -> bool:
    """True for a text that is meant as a schedule by name."""
    name, colon, rest = text.partition(":")
    return bool(colon) and name.strip() in NAMED and rest.strip()[:1] in set("+-.0123456789")


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


def check_absolute(where: str, name: str, value: float | Schedule | None) -> None:
    """Raise for a schedule that depends on the stop of the run, where that is not known."""
    while isinstance(value, Warmup):
        value = value.schedule
    if isinstance(value, Annealed) and value.steps is None:
        raise PlanError(
            f"{where}: {name} goes by the rows stored in replay, which does not know when the run stops; got {value!r}. Say "
            f"within how many: {type(value).__name__}({value.start!r}, {value.end!r}, steps=...)."
        )


@lru_cache(maxsize=256)
def _constant(value: float) -> Schedule:
    return Constant(value)


def _fraction(done: int, of: float) -> float:
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
