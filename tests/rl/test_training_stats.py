"""Statistics that show trouble early: learning rates, gradient norms, explained variance, spreads, truncated episodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tflow import Stop
from tflow.algos import A3C, PPO, SAC
from tflow.envs import EnvSpec
from tflow.models import MLP
from tflow.rl.data.batch import Batch
from tflow.rl.learning.learner import batch_stats
from tflow.rl.learning.losses import PPOLoss
from tflow.rl.policy.tensors import Tensors
from tflow.schedules import Linear

SMALL = MLP((8,))


def test_explained_variance_by_hand() -> None:
    returns, values = np.array([1.0, 2.0, 4.0, -1.0]), np.array([1.5, 1.0, 3.0, 0.0])
    actions = np.array([[0.0, 1.0], [2.0, 1.0], [0.0, 3.0], [2.0, 3.0]], np.float32)
    found = batch_stats(Batch({"returns": returns, "values": values, "actions": actions}))
    assert found == pytest.approx(
        {"explained_variance": 1 - np.var(returns - values) / np.var(returns), "value_scale": 2.0, "action_std": 1.0}
    )
    still = batch_stats(Batch({"returns": np.ones(3), "values": np.zeros(3), "actions": np.arange(3)}))
    assert still == {"value_scale": 1.0}, "nothing to explain, and discrete actions have no spread"


@pytest.mark.parametrize(("spread", "explains"), [(0.04, False), (0.06, True)])
def test_returns_that_are_all_alike_leave_nothing_to_explain(spread: float, explains: bool) -> None:
    """A policy that never fails has them, and values that are off by a little would seem worse than none."""
    returns = np.float32(-100.0) * (1 + spread * np.array([-1, 1, -1, 1], np.float32))
    found = batch_stats(Batch({"returns": returns, "values": returns[::-1].copy()}))
    assert ("explained_variance" in found) == explains


@pytest.mark.parametrize("algorithm", [PPO(num_envs=2, fragment=64, minibatch=32, model=SMALL), A3C(num_envs=2, model=SMALL)])
def test_learning_rate_and_gradient_norm_are_reported(algorithm: PPO | A3C) -> None:
    half = replace(algorithm, lr=Linear(1.0, 0.0, steps=2_000))
    last = half.run(stop=Stop(env_steps=1_000)).finish()
    assert last.flat()["learner/lr"] == pytest.approx(1 - last.env_steps / 2_000, abs=0.15)
    assert last.flat()["learner/grad_norm"] > 0


def test_each_part_has_its_own() -> None:
    config = SAC(learning_starts=20, batch=8, critic_lr=1e-2, lr=1e-4, model=SMALL)
    found = config.run(stop=Stop(env_steps=40)).finish().flat()
    assert (found["learner/actor_lr"], found["learner/critics_lr"]) == (1e-4, 1e-2)
    assert found["learner/critics_grad_norm"] > 0
    assert found["learner/action_std"] > 0


@pytest.mark.parametrize(("limit", "share"), [(5, 1.0), (500, 0.0)])
def test_truncated_episodes_are_counted(limit: int, share: float) -> None:
    """No policy falls within 5 steps, and an untrained one does long before 500."""
    env = EnvSpec("CartPole-v1", max_episode_steps=limit)
    last = PPO(env=env, num_envs=4, fragment=64, epochs=1, lr=1e-6, model=SMALL).run(stop=Stop(env_steps=500)).finish()
    assert last.episodes.count
    assert last.flat()["truncated"] == share
    assert last.flat()["return_min"] <= last.mean_return <= last.flat()["return_max"]


@pytest.mark.parametrize("size", [1e-3, 10.0])
def test_small_advantages_are_not_made_large(size: float) -> None:
    values = torch.tensor([1.0, -1.0, 1.0, -1.0]) * size
    rows: Tensors = Tensors.of(Batch({"advantages": values.numpy()}))
    assert float(rows.standardized(values).std(correction=0)) == pytest.approx(1.0, rel=1e-3)
    assert float(rows.standardized(values, 0.1).std(correction=0)) == pytest.approx(min(1.0, size / 0.1), rel=1e-3)


def test_the_floor_is_in_units_of_normalised_returns() -> None:
    for normalizes in (True, False):
        loss = PPO(advantage_floor=0.2, normalize_rewards=normalizes).loss()
        assert isinstance(loss, PPOLoss)
        assert loss.advantage_floor == (0.2 if normalizes else 0.0)
