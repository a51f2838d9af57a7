"""A callback of your own: typed, called at the start, with every report and at the end.

This one records every new best mean return, with its env steps. It is passed to any run:
``PPO(...).run(callbacks=[Records()])``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from typing_extensions import override

from tflow import Metrics, Stop
from tflow.algos import DQN, Callback, TrainingRun


@dataclass
class Records(Callback):
    """Records of the mean return, with the env steps at which they were reached."""

    found: list[tuple[int, float]] = field(default_factory=list)
    end: str = ""

    @override
    def started(self, run: TrainingRun) -> None:
        print(f"{run.workers.num} worker(s) on {run.workers.spec.env.name}")

    @override
    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        if metrics.episodes.count and (not self.found or metrics.mean_return > self.found[-1][1]):
            self.found.append((metrics.env_steps, metrics.mean_return))

    @override
    def ended(self, run: TrainingRun, error: BaseException | None) -> None:
        self.end = run.outcome  # "3,000 env steps", "interrupted", or what was raised
        print(f"{len(self.found)} records, the last of {self.found[-1][1]:.1f} at {self.found[-1][0]} env steps; {self.end}")


def main(env_steps: int = 3_000) -> Records:
    """Train, and show the records."""
    records = Records()
    DQN(env="CartPole-v1", learning_starts=200).run(stop=Stop(env_steps=env_steps), callbacks=[records]).finish()
    return records


if __name__ == "__main__":
    main()
