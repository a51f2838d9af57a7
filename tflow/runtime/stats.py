"""Exact counts and estimated busy time of every operator, and the report made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Reading(NamedTuple):
    """What one cell has done so far."""

    seen: int
    shown: int
    busy_ns: int
    queued: int

    def then(self, later: Reading) -> Reading:
        """The totals of two incarnations that have ended, whose queues are gone."""
        return Reading(self.seen + later.seen, self.shown + later.shown, self.busy_ns + later.busy_ns, 0)


NOTHING_READ = Reading(0, 0, 0, 0)


@dataclass(frozen=True)
class Staleness:
    """Updates made between a call's issue and the use of its items, for one policy."""

    items: int = 0
    total: int = 0
    worst: int = 0

    @property
    def mean(self) -> float:
        return self.total / self.items if self.items else 0.0

    def add(self, lag: int) -> Staleness:
        return Staleness(self.items + 1, self.total + lag, max(self.worst, lag))

    def merged(self, other: Staleness) -> Staleness:
        """Both together."""
        return Staleness(self.items + other.items, self.total + other.total, max(self.worst, other.worst))


@dataclass(frozen=True)
class OperatorStats:
    """One operator of a plan, summed over its shards."""

    position: int
    operator: str
    where: str
    seen: int
    """Items that entered it; for a source, items that it made."""
    shown: int
    """Items that left it."""
    busy_s: float
    """Time inside user code: measured on a sample of the items if they are quick, on all if they are slow."""
    queued: int
    """Items that it holds back right now."""
    staleness: Mapping[str, Staleness] = field(default_factory=dict)
    """Per policy, for operators that gather."""


@dataclass(frozen=True)
class RunStats:
    """A snapshot of a run, one entry per operator in the order of ``print(plan)``."""

    operators: tuple[OperatorStats, ...]
    env_steps: int
    waited_s: float = 0.0
    """How long the driver has waited for answers; on the local runtime, actors work meanwhile."""

    def __getitem__(self, operator: str) -> OperatorStats:
        """The operator with this label, or whose label starts with it."""
        for stats in self.operators:
            if stats.operator == operator:
                return stats
        for stats in self.operators:
            if stats.operator.startswith(operator):
                return stats
        raise KeyError(f"no operator {operator!r}; there are {[stats.operator for stats in self.operators]}")

    def __str__(self) -> str:
        rows = [("", "operator", "where", "seen", "shown", "queued", "busy s")]
        rows += [
            (str(s.position), s.operator, s.where, str(s.seen), str(s.shown), str(s.queued), f"{s.busy_s:.3f}")
            for s in self.operators
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
