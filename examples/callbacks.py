"""Callbacks and early stopping, without touching the plan of an algorithm.

``plan.tapped(at, fn)`` is the same plan with a function that sees each item of some operator. ``at`` is the operator's
class, and then the function is type-checked, or its name. The function runs where the operator does: here ``TrainOneStep``
is on the driver, and ``ParallelRollouts`` inside the workers, which on Ray are processes of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import tflow
from tflow import Metrics, Rollout, Stop, TrainOneStep, TrainStats
from tflow.algos import PPO


@dataclass
class Patience:
    """A stop condition of your own: stops when the mean return has grown by less than ``growth``.."""

    growth: float
    last: float = 0.0

    def __call__(self, metrics: Metrics) -> bool:
        before, self.last = self.last, metrics.mean_return
        return self.last < before + self.growth


@dataclass
class Log:
    """What the callbacks have seen."""

    stats: list[TrainStats] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    fragments: list[int] = field(default_factory=list)

    def trained(self, stats: TrainStats) -> None:
        self.stats.append(stats)
        print(f"weights {stats.version}: {stats.rows} rows, entropy {stats.stats['entropy']:.3f}")

    def together(self, batch: Rollout) -> None:
        self.batches.append(len(batch))

    def sampled(self, rollout: Rollout) -> None:
        self.fragments.append(len(rollout))


def main(env_steps: int = 1_000, growth: float = 1.0) -> tuple[Log, Metrics, Metrics]:
    """Train twice; what the callbacks saw in the first run, and the last metrics of both."""
    log = Log()
    original = PPO(num_workers=2, num_envs=4, fragment=32, epochs=2, minibatch=64).plan()
    plan = original.tapped(TrainOneStep, log.trained).tapped("ConcatRounds", log.together)
    plan = plan.tapped("ParallelRollouts", log.sampled)  # on Ray, each worker would fill a copy of the log
    print(plan, end="\n\n")
    first = tflow.train(plan, stop=Stop(env_steps=env_steps, seconds=20)).finish()  # whichever comes first
    second = tflow.train(original, stop=Patience(growth)).finish()
    print(f"\nstopped by Stop after {first.env_steps} steps, by Patience after {second.env_steps}")
    return log, first, second


if __name__ == "__main__":
    main()
