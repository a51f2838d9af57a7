"""Statistics of finished episodes: small, mergeable, travelling beside the rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tflow.types import Frozen

WINDOW = 100
"""Means are over so many episodes, the latest."""


@dataclass(frozen=True)
class Episodes(Frozen):
    """Episodes that have ended."""

    count: int = 0
    returns: tuple[float, ...] = ()
    """Of the latest ones, oldest first."""
    lengths: tuple[int, ...] = ()
    lost: int = 0
    """Episodes that were given up because their env failed."""
    policies: Mapping[str, Episodes] = field(default_factory=dict)
    """With several agents: the same for each policy, one episode per agent."""
    phases: Mapping[str, Episodes] = field(default_factory=dict)
    """With adapting to tasks: those ``before`` and ``after``."""
    weights_at: int = 0
    """Of an evaluation: how many env steps all workers had made when the weights were sent that it is about."""

    def merged(self, later: Episodes) -> Episodes:
        """Both, as if they had been counted together.

        Law: associative; ``Episodes()`` is neutral.
        """
        return Episodes(
            self.count + later.count,
            (self.returns + later.returns)[-WINDOW:],
            (self.lengths + later.lengths)[-WINDOW:],
            self.lost + later.lost,
            _merged(self.policies, later.policies),
            _merged(self.phases, later.phases),
            max(self.weights_at, later.weights_at),
        )

    def __repr__(self) -> str:
        lost = f", {self.lost} lost" if self.lost else ""
        return f"Episodes({self.count}{lost}, mean return {self.mean_return:.6g}, mean length {self.mean_length:.6g})"

    @property
    def mean_return(self) -> float:
        """Over the latest episodes; not a number before the first has ended."""
        return sum(self.returns) / len(self.returns) if self.returns else float("nan")

    @property
    def mean_length(self) -> float:
        return sum(self.lengths) / len(self.lengths) if self.lengths else float("nan")


def _merged(before: Mapping[str, Episodes], later: Mapping[str, Episodes]) -> dict[str, Episodes]:
    return {name: before.get(name, NONE).merged(later.get(name, NONE)) for name in {**before, **later}}


NONE = Episodes()
