"""Proof that MAML learns to adapt: unseen tasks of 2-D navigation, before and after one gradient step.

Two policies of the same shape are trained on as many env steps: one by MAML, and one by PPO on all tasks of the family at once,
each episode another, which is what one would do without meta-learning. Both are judged on the same unseen goals: they play, make
the same gradient step on what they saw, and play again. The other policy is judged as often as MAML's, and its best counts: now
and then one step throws it far away.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, Literal, NamedTuple

import numpy as np

from tflow import Stop
from tflow.algos import MAML, PPO, Algorithm
from tflow.algos.evaluation import reporting
from tflow.envs import EnvSpec
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch, Sampled
from tflow.rl.data.episodes import Episodes
from tflow.rl.envs.env import Infos
from tflow.rl.envs.samples import NavigationVector
from tflow.rl.learning.losses import Loss, PPOLoss
from tflow.rl.learning.meta import AdaptToTask, MAMLLoss
from tflow.rl.policy.weights import seed_for
from tflow.rl.rollout.worker import SingleWorker
from tflow.rl.rollout.worker_spec import EnvLike
from tflow.rl.schedules import Schedule
from tflow.runtime.base import Runtime
from tflow.types import Shard, Sync

TASKS = 40
"""Unseen goals per judgement; 20 episodes before and 20 after adapting to each."""
STEPS, EVERY = 2_000_000, 200_000
"""Env steps of each policy, and between two judgements of MAML's."""
MARGIN = 0.5
"""Returns are negative, what the way to the goal costs: after one step, MAML's policy must pay at most this share of what it paid
before, and of what the other one pays, before and after its step."""
OTHERS = ("pretrained", "pretrained_adapted")
COLUMNS: tuple[str, ...] = ("seconds", "env_steps", "updates", "return", "evaluation", *OTHERS, "reached")


class AnyGoal(NavigationVector):
    """Every episode has another goal, which nobody is told."""

    def reset(self, *, seed: int | None = None, options: Infos | None = None) -> tuple[Array, dict[str, Any]]:  # Any: infos
        begun = super().reset(seed=seed, options=options)
        self.task = self.goals(self.num_envs)
        return begun

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:  # Any: gymnasium's
        moved = super().step(actions)
        ended = moved[2] | moved[3]
        if ended.any():
            assert self.task is not None
            self.task[ended] = self.goals(int(ended.sum()))
        return moved

    def goals(self, count: int) -> Array:
        """One per row."""
        return np.stack([self.sample_task(self.np_random) for _ in range(count)])


@dataclass(frozen=True, kw_only=True)
class Pretraining(PPO):
    """PPO with the policy that MAML has."""

    env: EnvLike = field(default=EnvSpec(AnyGoal, vectorizer="native"))
    num_envs: int = 32
    fragment: int = 64
    lr: float | Schedule = 3e-3
    epochs: int = 4
    entropy_coef: float | Schedule = 0.0
    max_kl: float | None = None
    normalize_obs: bool = False
    normalize_rewards: bool = False

    def loss(self) -> Loss[Batch[Sampled | Literal["advantages", "returns"]], Sync]:
        loss, other = super().loss(), MAML().loss()
        assert isinstance(loss, PPOLoss)
        assert isinstance(other, MAMLLoss)
        return replace(loss, spec=other.spec)


class Snapshot(NamedTuple):
    """A policy while it is being trained."""

    seconds: float
    env_steps: int
    updates: int
    weights: Array


def snapshots(algorithm: Algorithm, steps: int, *, seed: int, runtime: Runtime) -> Iterator[Snapshot]:
    """What it has learned after each ``EVERY`` env steps."""
    began, due = time.monotonic(), EVERY
    with algorithm.run(runtime=runtime, seed=seed, stop=Stop(env_steps=steps)) as run:
        for metrics in run:
            if metrics.env_steps >= due:
                due += EVERY
                weights = run.policy().flat.get()
                yield Snapshot(time.monotonic() - began, metrics.env_steps, metrics.training.updates, weights)


def judged(weights: Array, *, seed: int) -> tuple[float, float]:
    """Mean returns before and after one gradient step, over unseen goals."""
    worker = reporting(MAML().plan()).workers.spec(Shard("judge", 0, 1, 0, seed_for(seed, "unseen goals")))
    assert isinstance(worker, SingleWorker)
    worker.policy.flat.set(weights)
    phases: dict[str, list[float]] = {"before": [], "after": []}
    for _ in range(TASKS):
        played = AdaptToTask().apply(worker, worker.sample()).summary
        assert isinstance(played, Episodes)
        for name, returns in phases.items():
            returns.append(played.phases[name].mean_return)
    return fmean(phases["before"]), fmean(phases["after"])


def rows(*, seed: int, runtime: Runtime) -> Iterator[dict[str, float]]:
    """One row per judgement."""
    others = [judged(each.weights, seed=seed) for each in snapshots(Pretraining(), STEPS, seed=seed, runtime=runtime)]
    pretrained, pretrained_adapted = max(others, key=lambda pair: pair[1])
    for each in snapshots(MAML(), STEPS, seed=seed, runtime=runtime):
        before, after = judged(each.weights, seed=seed)
        reached = after >= MARGIN * max(before, pretrained, pretrained_adapted)
        yield {
            "seconds": round(each.seconds, 2),
            "env_steps": each.env_steps,
            "updates": each.updates,
            "return": round(before, 2),
            "evaluation": round(after, 2),
            "pretrained": round(pretrained, 2),
            "pretrained_adapted": round(pretrained_adapted, 2),
            "reached": int(reached),
        }
