"""Statistics of finished episodes: small, mergeable, travelling beside the rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tflow.rl.data.moments import ByColumn, merged_moments
from tflow.types import Frozen

WINDOW = 100
"""Means are over this many of the latest episodes."""


@dataclass(frozen=True)
class Episodes(Frozen):
    """Statistics of finished episodes."""

    count: int = 0
    returns: tuple[float, ...] = ()
    """Returns of the latest episodes, oldest first."""
    lengths: tuple[int, ...] = ()
    discarded: int = 0
    """Episodes discarded because their env failed."""
    policies: Mapping[str, Episodes] = field(default_factory=dict)
    """Multi-agent: the statistics of each policy, one episode per agent."""
    phases: Mapping[str, Episodes] = field(default_factory=dict)
    """Meta-learning: the statistics ``before`` and ``after`` adaptation."""
    weights_at: int = 0
    """Of an evaluation: env steps of all workers when its weights were sent."""
    moments: Mapping[str, ByColumn] = field(default_factory=dict)
    """By policy: running statistics of all observations and returns so far, for agents that normalise them."""
    truncated: int = 0
    """Episodes that were truncated, such as by a time limit."""

    def merged(self, later: Episodes) -> Episodes:
        """The statistics of both together.

        Law: associative; ``Episodes()`` is neutral.
        """
        return Episodes(
            self.count + later.count,
            (self.returns + later.returns)[-WINDOW:],
            (self.lengths + later.lengths)[-WINDOW:],
            self.discarded + later.discarded,
            _merged(self.policies, later.policies),
            _merged(self.phases, later.phases),
            max(self.weights_at, later.weights_at),
            merged_moments(self.moments, later.moments),
            self.truncated + later.truncated,
        )

    def plain(self) -> Episodes:
        """The same as plain numbers: without the running statistics, which are arrays."""
        returns, lengths = tuple(map(float, self.returns)), tuple(map(int, self.lengths))
        policies = {name: each.plain() for name, each in self.policies.items()}
        phases = {name: each.plain() for name, each in self.phases.items()}
        return replace(self, returns=returns, lengths=lengths, policies=policies, phases=phases, moments={})

    def __repr__(self) -> str:
        discarded = f", {self.discarded} discarded" if self.discarded else ""
        return f"Episodes({self.count}{discarded}, mean return {self.mean_return:.6g}, mean length {self.mean_length:.6g})"

    @property
    def mean_return(self) -> float:
        """Mean return over the latest episodes; NaN before the first has ended."""
        return sum(self.returns) / len(self.returns) if self.returns else float("nan")

    @property
    def mean_length(self) -> float:
        return sum(self.lengths) / len(self.lengths) if self.lengths else float("nan")


def _merged(before: Mapping[str, Episodes], later: Mapping[str, Episodes]) -> dict[str, Episodes]:
    return {name: before.get(name, NONE).merged(later.get(name, NONE)) for name in {**before, **later}}


NONE = Episodes()
