"""Operators of your own in the middle of a plan: reward shaping, then reward scaling by running statistics.

``ShapeRewards`` is stateless. It says which columns it reads and which it sets; a batch keeps all others, and a type
checker knows them. ``ScaleRewards`` has state, which the executor keeps: one per run, so two runs never share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, cast

import numpy as np
from typing_extensions import TypeVar

import tflow
from tflow import AddColumns, Batch, ConcatRounds, Iter, ParallelRollouts, Rollout, Stateful, Sync
from tflow.algos import PPO
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Sampled

Shaped = Batch[Sampled | Literal["env_rewards"]]
AnyRewards = TypeVar("AnyRewards", bound=Batch[Literal["rewards"]])  # a batch with rewards, whatever else it has
ANGLE = 2


@dataclass(frozen=True)
class ShapeRewards(AddColumns[Literal["obs", "rewards"], Literal["rewards", "env_rewards"]]):
    """An upright pole is worth more. What the env itself gave is kept in a column of its own."""

    per_radian: float = 5.0

    def compute(self, batch: Batch[Literal["obs", "rewards"]], /) -> dict[Literal["rewards", "env_rewards"], Array]:
        tilt = np.abs(batch["obs"][:, ANGLE])
        return {"rewards": batch["rewards"] - self.per_radian * tilt, "env_rewards": batch["rewards"]}


class ScaleRewards(Stateful[AnyRewards, AnyRewards, tuple[int, float]], Generic[AnyRewards]):
    """Divides rewards by their running root mean square; the state is their count and the sum of their squares."""

    def init(self) -> tuple[int, float]:
        return 0, 0.0

    def step(self, state: tuple[int, float], item: AnyRewards, /) -> tuple[tuple[int, float], AnyRewards]:
        count, squares = state[0] + len(item), state[1] + float(np.square(item["rewards"]).sum())
        scaled = item["rewards"] / np.float32(np.sqrt(squares / count) + 1e-8)
        return (count, squares), cast("AnyRewards", item.with_columns({"rewards": scaled}))  # the columns that it had


def shaped(stream: Iter[Rollout, Sync]) -> Iter[Shaped, Sync]:
    """A sub-flow: what goes in is synchronous and has the columns of a rollout; what comes out, too, and one more."""
    return stream.with_columns(ShapeRewards()).for_each(ScaleRewards())


def main(updates: int = 60) -> list[Shaped]:
    """Train, and return the batches that were trained on."""
    config = PPO(num_workers=1, num_envs=8, fragment=64, epochs=4, minibatch=128, normalize_rewards=False)  # ScaleRewards does
    seen: list[Shaped] = []
    workers = config.workers(config.loss())
    rollouts = ConcatRounds(ParallelRollouts(workers).gather_rounds())
    stats = tflow.algos.ppo_plan(shaped(rollouts).tap(seen.append), workers, config)
    plan = tflow.ReportMetrics(stats, workers)
    print(plan, end="\n\n")
    for metrics in tflow.train(plan, stop=tflow.Stop(updates=updates)):
        scaled, own = seen[-1]["rewards"].mean(), seen[-1]["env_rewards"].mean()
        print(f"{metrics.env_steps:5} steps: rewards {own:.2f} by the env, {scaled:.2f} shaped and scaled")
    return seen


if __name__ == "__main__":
    main()
