"""Running statistics of observations and returns: merged over workers, sent with the weights, saved, frozen in evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import tflow
from tests.laws.world import RUNTIMES, product
from tflow import (
    Batch,
    ComputeGradients,
    ParallelRollouts,
    PlanError,
    Policy,
    Stop,
    create_rollout_workers,
    evaluate,
)
from tflow.algos import PPO, SAC, SinglePolicy
from tflow.data import Episodes
from tflow.errors import OperatorError
from tflow.exploration import ParameterNoise
from tflow.losses import PPOLoss, SACLoss
from tflow.models import LSTM, MLP, Normalized
from tflow.operators import ComputePriorities
from tflow.rl.data.moments import Moments
from tflow.rl.envs.env_spec import EnvSpec
from tflow.rl.learning.agent import Agent
from tflow.rl.learning.learner import with_scaled_rewards
from tflow.rl.policy.network import AnySpace, RunningStatistics
from tflow.rl.policy.policy_spec import make_policy
from tflow.rl.rollout.worker import SingleWorker
from tflow.rl.rollout.worker_spec import WorkerSpec
from tflow.types import Shard

SMALL = MLP((8,))
loose: Any = tflow  # Any: keyword arguments that several configurations share


class Wide(gym.Env[Any, Any]):  # Any: what its spaces say
    """Observations far from 0 and on very different scales; the reward is 100 per step, episodes have 7 steps."""

    observation_space = spaces.Dict({"far": spaces.Box(-1e6, 1e6, (2,), np.float32), "kind": spaces.Discrete(3)})
    action_space = spaces.Discrete(2)

    def _obs(self) -> Any:  # Any: a dictionary
        far = self.np_random.normal((1_000, -5), (50, 0.1)).astype(np.float32)
        return {"far": far, "kind": int(self.np_random.integers(3))}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:  # Any: as above
        super().reset(seed=seed)
        self.steps = 0
        return self._obs(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # Any: as above
        self.steps += 1
        return self._obs(), 100.0, self.steps == 7, False, {}


def statistics(policy: Policy, column: str) -> list[RunningStatistics]:
    found = [each for each in policy.module.modules() if isinstance(each, RunningStatistics)]
    return [each for each in found if each.column == column]


@given(st.lists(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6), min_size=1, max_size=6))
def test_moments_merge_as_if_all_rows_had_come_at_once(parts: list[list[float]]) -> None:
    together = Moments.of(np.concatenate(parts))
    merged = Moments.of(np.array(parts[0]))
    for part in parts[1:]:
        merged = merged.merged(Moments.of(np.array(part)))
    assert merged.count == together.count
    np.testing.assert_allclose(merged.mean, together.mean, atol=1e-9, rtol=1e-9)
    np.testing.assert_allclose(merged.variance, together.variance, atol=1e-6, rtol=1e-9)


SAMPLING = {"env": Wide, "num_envs": 3, "fragment": 5, "model": SMALL, "normalize_obs": True}
REPLAY = {"learning_starts": 10, "batch": 8, "normalize_rewards": True}
CONFIGS: dict[str, SinglePolicy] = {
    "ppo": loose.algos.PPO(**SAMPLING, minibatch=10, normalize_rewards=True),
    "a3c": loose.algos.A3C(**SAMPLING),
    "impala": loose.algos.IMPALA(**SAMPLING, normalize_rewards=True),
    "dqn": loose.algos.DQN(**SAMPLING, **REPLAY),
    "sac": loose.algos.SAC(**SAMPLING, **REPLAY),
}


@product(CONFIGS, on_ray=("ppo", "impala"))
def test_the_policy_has_the_statistics_of_all_workers(name: str, runtime: str) -> None:
    config = CONFIGS[name]
    with RUNTIMES[runtime]() as session, config.run(stop=Stop(env_steps=600), runtime=session) as run:
        run.finish()
        policy = run.policy()
    for found in statistics(policy, "obs/far"):
        mean, std = found.mean.numpy(), 1 / found.scale.numpy()
        np.testing.assert_allclose(mean, (1_000, -5), rtol=0.02)
        np.testing.assert_allclose(std, (50, 0.1), rtol=0.2)
    assert statistics(policy, "obs/far"), "observations are normalised"
    assert not statistics(policy, "obs/kind"), "discrete parts are not"
    if config.normalize_rewards:  # returns of 100, 199, ... up to 679 within an episode
        (returns,) = statistics(policy, "returns")
        steps = [sum(100 * 0.99**back for back in range(count + 1)) for count in range(7)]
        np.testing.assert_allclose(1 / returns.scale.numpy(), np.std(steps), rtol=0.15)
        assert policy.reward_scale == pytest.approx(1 / np.std(steps), rel=0.2)


def test_rollouts_are_trained_on_with_the_statistics_they_were_sampled_with() -> None:
    """Otherwise the probability ratio of PPO would not begin at 1."""
    config = PPO(env=Wide, num_workers=2, num_envs=4, fragment=8, epochs=1, minibatch=None, normalize_obs=True, model=SMALL)
    kls = [metrics.training.latest["kl"] for _, metrics in zip(range(6), config.run(), strict=False)]
    np.testing.assert_allclose(kls, 0.0, atol=1e-6)


def test_reported_returns_are_those_of_the_env() -> None:
    metrics = CONFIGS["ppo"].run(stop=Stop(env_steps=400)).finish()
    assert metrics.mean_return == 700.0


def test_rewards_of_rollouts_are_scaled_by_the_worker_and_replayed_ones_by_the_learner() -> None:
    for loss_of, scaled in ((CONFIGS["ppo"], True), (CONFIGS["dqn"], False)):
        spec = WorkerSpec(EnvSpec(Wide), {"default": loss_of.agent()}, num_envs=2, fragment=9)
        worker = SingleWorker(spec, Shard("x", 0, 1, 0, 0))
        first = worker.sample()
        assert isinstance(first.summary, Episodes)
        worker.policy.load_moments(first.summary.moments["default"])
        rewards = worker.sample()["rewards"]
        np.testing.assert_allclose(rewards, 100 * worker.policy.reward_scale if scaled else 100.0, rtol=1e-5)
        replayed: Batch[str] = Batch({"rewards": np.full(3, 100.0, np.float32), "discounts": np.ones(3, np.float32)})
        np.testing.assert_allclose(
            with_scaled_rewards(worker.policy, CONFIGS["dqn"].loss(), replayed)["rewards"],
            100 * worker.policy.reward_scale,
            rtol=1e-5,
        )


def test_evaluation_changes_nothing_and_files_keep_the_statistics(tmp_path: Path) -> None:
    with CONFIGS["ppo"].run(stop=Stop(env_steps=200)) as run:
        run.finish()
        policy = run.policy()
    before = policy.flat.get()
    evaluate(policy, Wide, episodes=3)
    np.testing.assert_array_equal(policy.flat.get(), before)
    policy.save(tmp_path / "it.safetensors")
    loaded = Policy.load(tmp_path / "it.safetensors")
    np.testing.assert_array_equal(loaded.flat.get(), before)
    obs = [{"far": np.array([1_000 + 9 * k, -5], np.float32), "kind": k % 3} for k in range(5)]
    assert loaded.act(obs).tolist() == policy.act(obs).tolist()
    assert statistics(loaded, "obs/far")[0].mean[0] > 900


def test_a_model_of_ones_own_is_normalised_again_when_it_is_loaded(tmp_path: Path) -> None:
    with PPO(env="Pendulum-v1", num_envs=2, fragment=16, minibatch=32, normalize_obs=True, model=Mine).run() as run:
        next(run)
        policy = run.policy()
    policy.save(tmp_path / "it.safetensors")
    loaded = Policy.load(tmp_path / "it.safetensors", model=Mine)
    np.testing.assert_array_equal(loaded.flat.get(), policy.flat.get())
    assert statistics(loaded, "obs")


class Mine(nn.Module):
    def __init__(self, observation_space: AnySpace) -> None:
        super().__init__()
        self.features = 4
        self.layer = nn.Linear(3, 4)

    def forward(self, obs: Tensor) -> Tensor:
        found: Tensor = self.layer(obs)
        return found


def test_parameter_noise_leaves_the_statistics_alone() -> None:
    agent = Agent(CONFIGS["dqn"].loss(), SMALL, exploration=ParameterNoise(5.0), normalize_obs=True)
    worker = SingleWorker(WorkerSpec(EnvSpec(Wide), {"default": agent}, num_envs=2, fragment=3), Shard("x", 0, 1, 0, 0))
    (found,) = statistics(worker.policy, "obs/far")
    assert found.mean.tolist() == [0.0, 0.0]
    assert found.scale.tolist() == [1.0, 1.0]
    assert not np.array_equal(worker.policy.flat.get(), worker.weights["default"]), "there is noise"


def test_recurrent_policies_are_normalised_before_their_encoder() -> None:
    config = PPO(env=Wide, num_envs=2, fragment=8, minibatch=16, normalize_obs=True, model=LSTM(4, SMALL))
    with config.run(stop=Stop(updates=2)) as run:
        run.finish()
        assert statistics(run.policy(), "obs/far")[0].mean[0] > 900


def test_a_model_that_nobody_would_gather_statistics_for_is_refused() -> None:
    with pytest.raises(PlanError, match="Say normalize_obs=True instead"):
        Agent(PPOLoss(), model=Normalized())


class Bytes(gym.Env[Any, Any]):  # Any: what its spaces say
    """Bytes from 100 to 250, and whole numbers around a million."""

    observation_space = spaces.Dict(
        {"bytes": spaces.Box(0, 255, (4,), np.uint8), "whole": spaces.Box(0, 10_000_000, (1,), np.int64)}
    )
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def _obs(self) -> Any:  # Any: a dictionary
        return {
            "bytes": self.np_random.integers(100, 251, 4).astype(np.uint8),
            "whole": self.np_random.integers(1_000_000, 1_000_100, 1),
        }

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:  # Any: as above
        super().reset(seed=seed)
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # Any: as above
        return self._obs(), 0.0, bool(self.np_random.random() < 0.1), False, {}


def test_whole_numbers_and_bytes_are_normalised_and_so_is_a_critic_of_its_own() -> None:
    config = SAC(env=Bytes, learning_starts=50, batch=8, model=SMALL, critic_model=MLP((4,), "relu"), normalize_obs=True)
    with config.run(stop=Stop(env_steps=300)) as run:
        run.finish()
        policy = run.policy()
    for column, mean in (("obs/bytes", 175), ("obs/whole", 1_000_050)):
        found = statistics(policy, column)
        assert len(found) == 2, "in the actor and in the Q-functions"
        for each in found:
            np.testing.assert_allclose(each.mean, mean, rtol=0.05)
            assert (1 / each.scale).max() < 100


@pytest.mark.parametrize("space", [spaces.Box(0, 255, (64, 64, 3), np.uint8), spaces.Discrete(5)], ids=["picture", "discrete"])
def test_pictures_and_discrete_observations_stay_as_they_are(space: spaces.Space[Any]) -> None:  # Any: either
    agent = Agent(PPOLoss(), normalize_obs=True)
    policy = make_policy(PPOLoss().policy(), agent.network, space, spaces.Discrete(2))
    assert not policy.statistics


def test_a_warm_start_keeps_the_statistics_and_adds_to_them() -> None:
    config = CONFIGS["ppo"]
    with config.run(stop=Stop(env_steps=600)) as run:
        run.finish()
        before = run.policy()
    with config.run(stop=Stop(env_steps=30), start_from=before) as run:
        run.finish()
        after = run.policy()
    (one,), (other,) = statistics(before, "obs/far")[:1], statistics(after, "obs/far")[:1]
    assert float(other.count) == float(one.count) + 30
    np.testing.assert_allclose(other.mean, one.mean, rtol=0.02)


def test_meta_learning_gathers_statistics_in_all_phases() -> None:
    with loose.algos.MAML(num_workers=1, num_envs=2, fragment=20, tasks=2, normalize_obs=True, model=SMALL).run() as run:
        next(run)
        policy = run.policy()
    assert float(statistics(policy, "obs")[0].count) == 2 * 2 * 2 * 20, "two tasks, two phases"


def test_workers_that_lack_parts_do_not_compute_losses() -> None:
    workers = create_rollout_workers(env="Pendulum-v1", loss=SACLoss(), num_workers=1, num_envs=1, fragment=4, model=SMALL)
    for operator in (ComputePriorities(), ComputeGradients()):
        with pytest.raises(OperatorError, match='Say so in the agent: Agent\\(loss, sends="all"\\)'):
            next(ParallelRollouts(workers).par_for_each(operator).gather_sync().run())
