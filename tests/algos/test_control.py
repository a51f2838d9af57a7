"""Continuous control on all kinds of envs: spaces, bounds, what workers are sent, and that it learns."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from tflow import Policy, Stop, evaluate
from tflow.algos import DDPG, SAC, TD3, TQC, ApeXDDPG, ApeXSAC, ApeXTD3, CrossQ, OffPolicy
from tflow.exploration import ApexNoise, EpsilonGreedy, GaussianNoise, RandomFirst
from tflow.models import MLP
from tflow.rl.policy.exploration import ActionForm, Explorer
from tflow.rl.policy.weights import Weights
from tflow.rl.rollout.worker import RolloutWorker
from tflow.rl.rollout.worker_spec import CurrentPolicy

TINY = MLP((8,), "relu")
KINDS: dict[str, type[OffPolicy]] = {each.__name__: each for each in (SAC, TQC, CrossQ, TD3, DDPG)}
DISTRIBUTED: dict[str, type[OffPolicy]] = {each.__name__: each for each in (ApeXDDPG, ApeXTD3, ApeXSAC)}
FEW: dict[str, Any] = {"learning_starts": 20, "batch": 8, "capacity": 200, "model": TINY}  # Any: fields of several kinds

VECTOR = spaces.Box(-np.inf, np.inf, (3,), np.float32)
PICTURE = spaces.Box(0, 255, (3, 40, 40), np.uint8)
OBSERVATIONS: dict[str, spaces.Space[Any]] = {  # Any: what they hold
    "vector": VECTOR,
    "float64": spaces.Box(-1, 1, (2, 2), np.float64),
    "picture": PICTURE,
    "discrete": spaces.Discrete(5),
    "dict": spaces.Dict({"camera": PICTURE, "arm": spaces.Dict({"joints": VECTOR, "holds": spaces.Discrete(2)})}),
    "tuple": spaces.Tuple((VECTOR, spaces.MultiBinary(3))),
}
LOW, HIGH = np.array([-3.0, 0.5, 10.0], np.float32), np.array([-1.0, 0.75, 20.0], np.float32)
ACTIONS: dict[str, spaces.Space[Any]] = {  # Any: as above
    "bounds of its own": spaces.Box(LOW, HIGH),
    "matrix": spaces.Box(-1, 1, (2, 2), np.float64),
    "whole numbers": spaces.Box(-2, 5, (2,), np.int64),
}


Space = spaces.Space[Any]  # Any: as above


class Any3(gym.Env[Any, Any]):  # Any: what its spaces say
    """Observations at random, episodes of 5 steps; it refuses actions that are not in its space."""

    def __init__(self, observation_space: Space = VECTOR, action_space: Space = ACTIONS["matrix"]) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:  # Any: as above
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.steps = 0
        return self._obs(), {}

    def _obs(self) -> Any:  # Any: as above
        return self.observation_space.sample()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # Any: as above
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self.steps += 1
        return self._obs(), float(np.mean(action)), self.steps == 5, False, {}


def trained(config: OffPolicy, updates: int = 12) -> Policy:
    with config.run(stop=Stop(updates=updates)) as run:
        metrics = run.finish()
        assert metrics.training.updates >= updates
        assert metrics.training.skipped == 0
        return run.policy()


@pytest.mark.parametrize("name", OBSERVATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_any_observation(kind: str, name: str) -> None:
    space = OBSERVATIONS[name]
    model = "auto" if name in ("picture", "dict") else TINY
    policy = trained(KINDS[kind](env=lambda: Any3(space), **{**FEW, "model": model}), updates=3)
    assert np.isfinite(policy.flat.get()).all()
    action = policy.act(space.sample())
    assert ACTIONS["matrix"].contains(action)


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("kind", [*KINDS, *DISTRIBUTED])
def test_actions_stay_within_their_bounds(kind: str, name: str) -> None:
    space = ACTIONS[name]
    config = (KINDS | DISTRIBUTED)[kind](env=lambda: Any3(VECTOR, space), **FEW)
    policy = trained(config)
    obs = 100 * np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    for deterministic in (True, False):
        assert all(space.contains(action) for action in policy.act(obs, deterministic=deterministic))
    evaluate(policy, lambda: Any3(VECTOR, space), episodes=3)


def test_random_actions_at_first_fill_the_whole_space() -> None:
    seen: list[Any] = []  # Any: actions

    class Watched(Any3):
        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # Any: as above
            seen.append(action)
            return super().step(action)

    trained(SAC(env=lambda: Watched(VECTOR, ACTIONS["bounds of its own"]), **{**FEW, "learning_starts": 150}), updates=1)
    first = np.array(seen[:150])
    assert (first.min(0) < LOW + 0.1 * (HIGH - LOW)).all()
    assert (first.max(0) > HIGH - 0.1 * (HIGH - LOW)).all()
    np.testing.assert_allclose(first.mean(0), (LOW + HIGH) / 2, atol=0.15 * float((HIGH - LOW).max()))


# ------------------------------------------------------------------- what workers are sent


@pytest.mark.parametrize("kind", KINDS)
def test_workers_are_sent_the_actor_alone(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    usual = RolloutWorker.set_weights

    def watched(self: RolloutWorker, weights: Weights) -> None:
        sent.append(len(weights.values))
        usual(self, weights)

    monkeypatch.setattr(RolloutWorker, "set_weights", watched)
    policy = trained(KINDS[kind](env=Any3, **FEW))
    actor = policy.flat.parts["actor"]
    assert set(sent) == {actor.parameter.numel() + actor.buffers.numel()}
    assert sent[0] < len(policy.flat.values)


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_acts_as_the_learner_would(kind: str) -> None:
    with KINDS[kind](env=Any3, **FEW).run(stop=Stop(updates=15)) as run:
        run.finish()
        (weights,) = run.run.ask(run.workers.learner, CurrentPolicy.get_weights)
        policy = run.policy()
    fresh = policy.copy()
    fresh.flat.set(np.zeros_like(fresh.flat.get()))
    fresh.flat.set(weights)
    obs = np.random.default_rng(0).standard_normal((9, 3)).astype(np.float32)
    np.testing.assert_array_equal(fresh.act(obs), policy.act(obs))


# ------------------------------------------------------------------- exploration


def applied(
    explorer: Explorer, actions: np.ndarray[Any, Any], steps: int, seed: int = 0
) -> np.ndarray[Any, Any]:  # Any: as numpy has it
    return explorer.apply(actions, steps=steps, rng=np.random.default_rng(seed))


def test_random_first_hands_over() -> None:
    form = ActionForm(size=2)
    own = np.zeros((4, 2), np.float32)
    explorer = RandomFirst(10, GaussianNoise(0.1)).start(4, form)
    noise = GaussianNoise(0.1).start(4, form)
    assert np.abs(applied(explorer, own, 9)).max() > 0.5
    np.testing.assert_array_equal(applied(explorer, own, 10), applied(noise, own, 10))
    alone = RandomFirst(10).start(4, form)
    assert applied(alone, own, 10) is own
    discrete = RandomFirst(10, EpsilonGreedy(0.0)).start(500, ActionForm(choices=(3,)))
    assert set(applied(discrete, np.zeros(500, np.int64), 0)) == {0, 1, 2}
    assert set(applied(discrete, np.zeros(500, np.int64), 10)) == {0}


def test_each_env_of_all_workers_has_a_noise_of_its_own() -> None:
    form, own = ActionForm(size=1, low=-100.0, high=100.0), np.zeros((2, 1), np.float32)
    sizes = []
    for shard in range(2):
        explorer = ApexNoise(0.4, 3.0).start(2, form, shard_index=shard, shard_count=2)
        sizes += list(np.std([applied(explorer, own, 0, seed) for seed in range(400)], axis=0)[:, 0])
    np.testing.assert_allclose(sizes, [0.4 ** (1 + 3 * env / 3) for env in range(4)], rtol=0.15)


# ------------------------------------------------------------------- learning


class Reach(gym.Env[Any, Any]):  # Any: what its spaces say
    """Say the number that you see: the return of a perfect policy is 0, that of a random one about -6.7 in 10 steps."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(-2, 2, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:  # Any: as above
        super().reset(seed=seed)
        self.steps, self.seen = 0, self._draw()
        return self.seen, {}

    def _draw(self) -> Any:  # Any: as above
        return self.np_random.uniform(-1, 1, 1).astype(np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # Any: as above
        reward = -float(abs(action[0] - self.seen[0]))
        self.steps, self.seen = self.steps + 1, self._draw()
        return self.seen, reward, False, self.steps == 10, {}


@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_to_say_a_number(kind: str) -> None:
    config = KINDS[kind](env=Reach, learning_starts=100, batch=64, lr=3e-3, gamma=0.5, model=MLP((32,), "relu"), update_ratio=1.0)
    policy = trained(config, updates=700)
    assert evaluate(policy, Reach, episodes=20).mean_return > -1.5


def test_discrete_sac_learns_which_half_a_number_is_in() -> None:
    class Half(Reach):
        action_space = spaces.Discrete(2)  # type: ignore[assignment]  # another kind of action

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # Any: as above
            reward = float(action == int(self.seen[0] > 0))
            self.steps, self.seen = self.steps + 1, self._draw()
            return self.seen, reward, False, self.steps == 10, {}

    config = SAC(env=Half, learning_starts=100, batch=64, lr=3e-3, gamma=0.5, model=MLP((32,), "relu"))
    assert evaluate(trained(config, updates=500), Half, episodes=20).mean_return > 8.5
