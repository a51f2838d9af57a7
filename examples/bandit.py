"""Asynchronous policy gradient on a bandit: the shape of A3C in forty lines, without a neural network.

Workers pull the arms and compute gradients beside their copy of the policy; the driver applies each gradient as it comes and
sends the new weights back to the worker it came from, inside the next call. Run it with ``python examples/bandit.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tflow import ActorOp, Actors, Iter, Live, Shard, create_actors, from_actors
from tflow.types import StatefulLiveOp

PAYOUTS = (0.2, 0.5, 0.8)
Weights = NDArray[np.float64]


class Pulls(NamedTuple):
    """What a worker did: which arms it pulled, and what they paid."""

    arms: NDArray[np.int64]
    rewards: NDArray[np.float64]


class Gradients(NamedTuple):
    direction: Weights
    mean_reward: float


class TrainStats(NamedTuple):
    updates: int
    mean_reward: float
    chance_of_best_arm: float


def softmax(weights: Weights) -> Weights:
    powers = np.exp(weights - weights.max())
    return np.asarray(powers / powers.sum())


class Worker:
    """An actor with its own random numbers and its own copy of the policy."""

    def __init__(self, shard: Shard) -> None:
        self.random = np.random.default_rng(shard.seed)
        self.weights = np.zeros(len(PAYOUTS))

    def pull_arms(self) -> Pulls:
        arms = self.random.choice(len(PAYOUTS), size=32, p=softmax(self.weights))
        return Pulls(arms, (self.random.random(32) < np.take(PAYOUTS, arms)).astype(float))

    def set_weights(self, weights: Weights) -> None:
        self.weights = weights


class ComputeGradients(ActorOp[Worker, Pulls, Gradients]):
    """Runs beside the worker: raw pulls never leave it."""

    def apply(self, actor: Worker, item: Pulls, /) -> Gradients:
        advantages = item.rewards - item.rewards.mean()
        chosen = np.eye(len(PAYOUTS))[item.arms] - softmax(actor.weights)
        return Gradients(np.asarray((advantages[:, None] * chosen).mean(axis=0)), float(item.rewards.mean()))


@dataclass(frozen=True)
class ApplyGradients(StatefulLiveOp[Gradients, TrainStats, Weights]):
    """Runs on the driver: the weights are its state, and go back to the worker that the gradient came from."""

    workers: Actors[Worker]
    learning_rate: float = 0.5

    def init(self) -> Weights:
        return np.zeros(len(PAYOUTS))

    def step(self, live: Live, state: Weights, item: Gradients, /) -> tuple[Weights, TrainStats]:
        weights = state + self.learning_rate * item.direction
        updates = live[self.workers].advance()
        live[self.workers].update(Worker.set_weights, weights, shards=live.shards(self.workers))
        return weights, TrainStats(updates, item.mean_reward, float(softmax(weights)[-1]))


def bandit_plan(num_workers: int = 2) -> Iter[TrainStats]:
    workers = create_actors(Worker, num=num_workers, name="workers")
    grads = from_actors(workers, Worker.pull_arms).par_for_each(ComputeGradients()).gather_async()
    return grads.for_each(ApplyGradients(workers)).every(items=50)


def main() -> None:
    plan = bandit_plan().take(8)
    print(plan, end="\n\n")
    with plan.run(seed=0) as run:
        for stats in run:
            print(
                f"after {stats.updates:3} updates: best arm with chance {stats.chance_of_best_arm:.2f}, "
                f"mean reward {stats.mean_reward:.2f}"
            )
        print(f"\n{run.stats()}")


if __name__ == "__main__":
    main()
