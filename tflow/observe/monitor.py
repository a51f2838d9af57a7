"""Signs of trouble in metrics, each told once, in a sentence that says what to try."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tflow.rl.data.episodes import WINDOW, Episodes
from tflow.rl.metrics import Metrics

WEIGHT = 0.2
"""Of the latest report in running means: one odd batch is no trouble."""
LEAST_REPORTS = 10
"""Reports before a mean is judged."""


class Sign(NamedTuple):
    """A limit for a running mean of a statistic of training."""

    stat: str
    limit: float
    above: bool
    sentence: str
    """With ``{:.2g}`` for the mean."""


SIGNS = (
    Sign("kl", 0.1, True, "KL {:.2g} per update: the learning rate is probably too large. Lower lr, or set max_kl"),
    Sign("clipped", 0.5, True, "{:.0%} of the probability ratios are clipped: take fewer epochs, or lower lr"),
    Sign(
        "explained_variance",
        -0.5,
        False,
        "explained variance {:.2g}: the values predict returns worse than a constant. Normalise rewards, or lower lr",
    ),
    Sign("grad_norm", 1e4, True, "gradient norm {:.2g}: rewards or observations are probably very large. Normalise them"),
    Sign(
        "grad_norm",
        1e-7,
        False,
        "gradient norm {:.2g}: nothing is learned. Units or actions are saturated, which a smaller lr or normalised observations "
        "may prevent, or all rewards are alike",
    ),
    Sign(
        "rho", 0.3, False, "importance weights are {:.2g} on average: rollouts are too old. Lower mailbox, or set max_staleness"
    ),
    Sign("td_error", 1e4, True, "TD errors of {:.2g}: values diverge. Lower lr, or update target networks more slowly"),
)
SPREADS = {"entropy": "the entropy of the policy", "action_std": "the spread of actions"}
"""What a policy explores with, if its actions are discrete, or else."""
COLLAPSED = 0.02
"""Share of its largest value: less is next to nothing."""
FELL_BY = 0.5
"""Share of what was gained that a run may lose before it is told."""
NOISE = 5.0
"""Standard errors: the best of many means is partly luck."""


class TrainingMonitor:
    """Looks at reports one after another."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}
        """What was told, by its kind."""
        self._means: dict[str, tuple[int, float]] = {}
        self._most: dict[str, float] = {}
        """The largest mean of what collapses."""
        self._first: float | None = None
        self._best, self._spread_at_best = -math.inf, 0.0
        self._updates = self._episodes = 0

    def see(self, metrics: Metrics) -> list[str]:
        """Sentences that were not told before."""
        new = {kind: sentence for kind, sentence in self._found(metrics) if kind not in self.told}
        self.told |= new
        return list(new.values())

    def _found(self, metrics: Metrics) -> Iterator[tuple[str, str]]:
        if metrics.training.updates > self._updates:
            self._updates = metrics.training.updates
            yield from self._in_training(metrics.training.latest)
        skipped = metrics.training.skipped
        if skipped:
            yield "skipped", f"{skipped:,} updates were skipped, because gradients were not finite. Lower lr, or clip gradients."
        if metrics.episodes.count > self._episodes:
            self._episodes = metrics.episodes.count
            yield from self._in_returns(metrics.episodes)

    def _in_training(self, latest: Mapping[str, float]) -> Iterator[tuple[str, str]]:
        for name, value in latest.items():
            policy, _, stat = name.rpartition("/")
            count, mean = self._means.get(name, (0, value))
            count, mean = count + 1, mean + WEIGHT * (value - mean)
            self._means[name] = count, mean
            if count < LEAST_REPORTS:
                continue
            told = f"{policy}: " if policy else ""
            kind = "grad_norm" if stat.endswith("_grad_norm") else stat
            for sign in SIGNS:
                if sign.stat == kind and (mean > sign.limit if sign.above else mean < sign.limit):
                    yield f"{name} {'above' if sign.above else 'below'}", f"{told}{sign.sentence.format(mean)}."
            if stat in SPREADS and (stat == "action_std" or name.replace(stat, "action_std") not in latest):
                most = self._most[name] = max(self._most.get(name, mean), mean)
                if mean < COLLAPSED * most and not self._has_risen():
                    yield (
                        f"{name} collapsed",
                        f"{told}{SPREADS[stat]} fell from {most:.2g} to {mean:.2g}, and returns have not risen: the policy has "
                        "settled too early. Explore more (entropy_coef, noise), or lower lr.",
                    )

    def _has_risen(self) -> bool:
        """True if returns have become better than they were at first, by more than luck."""
        return self._first is not None and self._best - self._first > NOISE * self._spread_at_best

    def _in_returns(self, episodes: Episodes) -> Iterator[tuple[str, str]]:
        """Returns that fell after they had risen, and episodes that are all alike."""
        mean = episodes.mean_return
        if len(episodes.returns) < WINDOW or not math.isfinite(mean):
            return
        self._first = mean if self._first is None else min(self._first, mean)
        if mean > self._best:
            self._best, self._spread_at_best = mean, spread(episodes)
        lost, gained = self._best - mean, self._best - self._first
        if lost > FELL_BY * gained and lost > NOISE * math.hypot(spread(episodes), self._spread_at_best):
            yield "fell", f"the mean return fell from {self._best:.4g} to {mean:.4g}: a smaller lr, or a schedule, may keep it."
        if episodes.truncated == episodes.count >= 3 * WINDOW and min(episodes.returns) == max(episodes.returns):
            yield (
                "alike",
                f"all {episodes.count:,} episodes have ended at their time limit, the last {WINDOW} with the return {mean:.4g}: "
                "no other reward was found yet. More exploration (entropy_coef, epsilon) may find one.",
            )


def spread(episodes: Episodes) -> float:
    """Standard error of the mean return: less than that is noise."""
    mean, count = episodes.mean_return, len(episodes.returns)
    return math.sqrt(sum((each - mean) ** 2 for each in episodes.returns) / count / count)
