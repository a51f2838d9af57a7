"""What numpy computes instead of torch is what torch computes, and the defaults of the usual algorithms act by it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from tflow.algos import A2C, DQN, IMPALA, PPO, SAC, TD3
from tflow.models import MLP

STEPS: dict[str, Any] = {"num_envs": 4, "fragment": 16}  # Any: fields of several kinds
REPLAY: dict[str, Any] = {"num_envs": 2, "learning_starts": 20, "batch": 16}  # Any: as above
SMALL = MLP((24, 24), "relu")
CONFIGS: dict[str, Any] = {  # Any: algorithms have no class in common that has a policy
    "PPO": PPO(env="CartPole-v1", minibatch=32, **STEPS),
    "PPO, continuous": PPO(env="Pendulum-v1", minibatch=32, **STEPS),
    "PPO, not normalised": PPO(env="CartPole-v1", minibatch=32, normalize_obs=False, **STEPS),
    "A2C": A2C(env="Acrobot-v1", **STEPS),
    "IMPALA": IMPALA(env="CartPole-v1", **STEPS),
    "DQN": DQN(env="CartPole-v1", **REPLAY),
    "SAC": SAC(env="Pendulum-v1", model=SMALL, critic_model=SMALL, normalize_obs=True, **REPLAY),
    "TD3": TD3(env="Pendulum-v1", model=SMALL, critic_model=SMALL, **REPLAY),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_it_acts_as_torch_does_whatever_became_of_its_memory(name: str) -> None:
    with CONFIGS[name].run(seed=1) as run:
        for _ in range(2):
            next(run)
        trained, fresh = run.policy(), run.policy(untrained=True)
    obs = np.random.default_rng(0).normal(0, 3, (7, *trained.observation_space.shape)).astype(np.float32)
    copied = copy.deepcopy(trained)
    fresh.flat.set(trained.flat.get())  # weights and statistics change in place
    for policy in (trained, copied, pickle.loads(pickle.dumps(trained)), fresh):
        assert policy.small_net(obs) is not None
        by_torch = copy.deepcopy(policy)
        by_torch._modules = ()  # what it is compared with
        for seen in (obs, obs.astype(np.float64), obs[:1], obs[::2]):
            ours, theirs = (
                each.rows(seen, np.random.default_rng(1), state=np.zeros((len(seen), 0), np.float32))
                for each in (policy, by_torch)
            )
            np.testing.assert_allclose(ours.actions, theirs.actions, rtol=1e-4, atol=1e-4)
            if ours.values is not None and theirs.values is not None:
                np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-4, atol=1e-4)


def test_other_networks_and_many_rows_are_left_to_torch() -> None:
    with PPO(env="CartPole-v1", model=MLP((512, 512)), minibatch=32, **STEPS).run(seed=1) as run:
        policy = run.policy(untrained=True)
    assert policy.small_net(np.zeros((1, 4), np.float32)) is not None
    assert policy.small_net(np.zeros((2, 4), np.float32)) is None
    assert policy.small_net(np.zeros((1, 4), np.int64)) is None
    with DQN(env="CartPole-v1", noisy=True, **REPLAY).run(seed=1) as run:
        assert run.policy(untrained=True).small_net(np.zeros((1, 4), np.float32)) is None
