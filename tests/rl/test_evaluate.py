"""``evaluate``: a policy on whole episodes, from Python."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import tflow
from tests.rl.toy_envs import ACTIONS, SPACES, PlannedEnv
from tflow import PlanError, Policy, evaluate
from tflow.data import Episodes
from tflow.envs import EnvSpec
from tflow.errors import EnvError
from tflow.models import LSTM, MLP, ActorCriticSpec, QSpec
from tflow.rl.policy.network_spec import ModelLike
from tflow.rl.policy.policy_spec import PolicySpec, make_policy
from tflow.rl.policy.weights import seed_for

PLANS = (((3, "terminated"), (2, "truncated")), ((7, "both"),))
SMALL = MLP((8,))
TOY = partial(PlannedEnv, PLANS)
loose: Any = tflow  # Any: arguments that type checkers refuse


def policy(model: ModelLike = SMALL, spec: PolicySpec | None = None, kind: str = "box") -> Policy:
    return make_policy(spec or ActorCriticSpec(), model, SPACES[kind], spaces.Discrete(ACTIONS), seed=1)


def played(policy: Policy, seed: int, envs: int, each: int) -> list[list[tuple[float, int]]]:
    """The first episodes of each env, played one after the other with ``act``."""
    found: list[list[tuple[float, int]]] = []
    for number in range(envs):
        env = TOY()
        obs, _ = env.reset(seed=seed_for(seed, "evaluation", 0) + number)
        found.append([])
        for _ in range(each):
            total, length, over = 0.0, 0, False
            while not over:
                obs, reward, terminated, truncated, _ = env.step(policy.act(obs, first=length == 0))
                total, length, over = total + float(np.float32(reward)), length + 1, terminated or truncated
            found[-1].append((total, length))
            obs, _ = env.reset()
    return found


@pytest.mark.parametrize("made", [policy(), policy(spec=QSpec()), policy(LSTM(5, MLP((8,))))])
def test_it_counts_the_first_episodes_of_each_env(made: Policy) -> None:
    by_env = played(made.copy(), seed=4, envs=2, each=2)
    first = [by_env[0][0], by_env[1][0], by_env[0][1]]
    wanted = Episodes(3, tuple(value for value, _ in first), tuple(length for _, length in first))
    assert evaluate(made, TOY, episodes=3, seed=4, num_envs=2) == wanted
    assert len(set(wanted.lengths)) > 1


def test_it_is_a_function_of_the_seed() -> None:
    made = make_policy(ActorCriticSpec(), MLP((8,)), *cartpole(), seed=1)
    for deterministic in (True, False):
        one, same, other = (evaluate(made, "CartPole-v1", seed=seed, deterministic=deterministic) for seed in (0, 0, 1))
        assert one == same
        assert one.returns != other.returns


def cartpole() -> tuple[Any, Any]:  # Any: spaces
    env = gymnasium.make("CartPole-v1")
    return env.observation_space, env.action_space


def test_actions_are_the_most_likely_or_sampled() -> None:
    class Corridor(gymnasium.Env[Any, Any]):  # Any: gymnasium's
        """Pays for every action but 0."""

        observation_space = spaces.Discrete(1)
        action_space = spaces.Discrete(2)
        left = 0

        def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:  # Any: gymnasium's
            self.left = 100
            return 0, {}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # Any: gymnasium's
            self.left -= 1
            return 0, float(action), self.left == 0, False, {}

    made = make_policy(ActorCriticSpec(), "auto", Corridor.observation_space, Corridor.action_space)
    best, sampled = evaluate(made, Corridor), evaluate(made, Corridor, deterministic=False)
    assert set(best.returns) == {100.0 * made.act(0)}
    assert all(20 < value < 80 for value in sampled.returns), "a new policy hardly prefers any"


@pytest.mark.parametrize("made", [policy(LSTM(5, MLP((8,)))), policy(spec=QSpec(noisy=True))])
@pytest.mark.parametrize("deterministic", [True, False])
def test_the_policy_stays_as_it_is(made: Policy, deterministic: bool) -> None:
    made, twin = made.copy(), made.copy()
    obs = [np.full(4, step, np.float32) for step in range(20)]
    dice = torch.random.get_rng_state()
    for policy in (made, twin):
        policy.act(obs[0], deterministic=False)
    training, weights = made.module.training, made.flat.get().copy()
    evaluate(made, TOY, episodes=3, deterministic=deterministic)
    assert made.module.training == training
    np.testing.assert_array_equal(made.flat.get(), weights)
    assert bool((torch.random.get_rng_state() == dice).all())
    for each in obs:
        assert made.act(each, deterministic=False) == twin.act(each, deterministic=False)


def test_envs_of_every_kind() -> None:
    assert evaluate(policy(kind="dict", model="auto"), EnvSpec(partial(PlannedEnv, PLANS, "dict")), episodes=2).count == 2
    limited = EnvSpec("CartPole-v1", max_episode_steps=5)
    made = make_policy(ActorCriticSpec(), "auto", *cartpole())
    assert evaluate(made, limited, episodes=20).lengths == (5,) * 20
    assert evaluate(made, EnvSpec("CartPole-v1", vectorizer="loop"), episodes=1).count == 1
    lake = gymnasium.make("FrozenLake-v1")
    assert evaluate(make_policy(QSpec(), "auto", lake.observation_space, lake.action_space), "FrozenLake-v1").count == 10


class Closes(PlannedEnv):
    """Counts how many are open."""

    open = 0

    def __init__(self, fails: bool = False) -> None:
        super().__init__(PLANS)
        self.fails = fails
        Closes.open += 1

    def step(self, action: Any) -> Any:  # Any: gymnasium's
        if self.fails:
            raise ValueError("oops")
        return super().step(action)

    def close(self) -> None:
        Closes.open -= 1


def test_all_envs_are_closed_whatever_happens() -> None:
    evaluate(policy(), Closes, episodes=3)
    with pytest.raises(PlanError, match="does not fit"):
        evaluate(policy(kind="number", model="auto"), Closes)
    with pytest.raises(EnvError, match="oops"):
        evaluate(policy(), partial(Closes, fails=True))
    assert Closes.open == 0


def test_only_what_a_network_depends_on_must_be_the_same() -> None:
    def wider() -> PlannedEnv:
        env = TOY()
        env.observation_space = spaces.Box(-9e9, 9e9, (4,), np.float32)
        return env

    assert evaluate(policy(), wider, episodes=1).count == 1


@pytest.mark.parametrize(
    ("seen", "acts", "said"),
    [
        (
            spaces.Box(-1.0, 1.0, (5,), np.float32),
            None,
            r"its observation space is Box\(.*\(4,\), float32\), the policy's is Box\(.*\(5,",
        ),
        (spaces.Discrete(4), None, r"its observation space is Box\(.*, the policy's is Discrete\(4\)\. "),
        (spaces.Dict({"x": SPACES["box"]}), None, r"the policy's is Dict\('x': Box"),
        (None, spaces.Discrete(4), r"its action space is Discrete\(3\), the policy's is Discrete\(4\)\. "),
        (None, spaces.Discrete(3, start=1), r"the policy's is Discrete\(3, start=1\)"),
        (spaces.Discrete(4), spaces.Discrete(4), r"observation space .* Discrete\(4\); its action space .* Discrete\(4\)\. "),
    ],
)
def test_an_env_that_does_not_fit_is_a_sentence(seen: Any, acts: Any, said: str) -> None:  # Any: spaces
    made = make_policy(ActorCriticSpec(), "auto", seen or SPACES["box"], acts or spaces.Discrete(ACTIONS))
    with pytest.raises(PlanError, match=r"^PlannedEnv does not fit the policy: .*" + said):
        evaluate(made, TOY)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"episodes": 0}, "episodes must be at least 1"),
        ({"episodes": 2.5}, "episodes must be a whole number"),
        ({"num_envs": 0}, "num_envs must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"deterministic": "no"}, "deterministic must be True or False"),
        ({"policy": "best.safetensors"}, "policy must be a policy, such as Policy.load"),
        ({"env": 3}, "env must be a gymnasium id or something that makes an env"),
    ],
)
def test_wrong_arguments_are_sentences(options: dict[str, Any], message: str) -> None:  # Any: what is wrong
    with pytest.raises(PlanError, match=message):
        loose.evaluate(**{"policy": policy(), "env": TOY, **options})
