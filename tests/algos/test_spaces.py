"""Every algorithm trains on envs with any kind of observations and actions, or says in a sentence which it takes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.algos.test_algorithms import SMALL
from tflow import PlanError, Stop
from tflow.algos import SinglePolicy
from tflow.errors import TflowError
from tflow.models import LSTM, MLP

AnySpace = spaces.Space[Any]  # Any: of all kinds
VECTOR, PICTURE = spaces.Box(-1, 1, (3,)), spaces.Box(0, 255, (12, 12, 3), np.uint8)
OBSERVATIONS: dict[str, AnySpace] = {
    "one number": spaces.Box(-1, 1, ()),
    "float64": spaces.Box(-1, 1, (2, 2), np.float64),
    "whole numbers": spaces.Box(0, 9, (3,), np.int32),
    "picture": PICTURE,
    "picture, channels first": spaces.Box(0, 255, (3, 36, 36), np.uint8),
    "nested": spaces.Dict({"eye": PICTURE, "arm": spaces.Tuple((VECTOR, spaces.MultiBinary(2), spaces.Discrete(3, start=2)))}),
    "discrete from 3": spaces.Discrete(5, start=3),
    "several discrete ones": spaces.MultiDiscrete(np.array([[3, 4], [2, 2]]), start=np.array([[1, -1], [0, 2]])),
    "bits": spaces.MultiBinary((2, 3)),
}
DISCRETE, CONTINUOUS = spaces.Discrete(3), spaces.Box(-2, 2, (2,))
ACTIONS: dict[str, AnySpace] = {
    "discrete": DISCRETE,
    "discrete from -1": spaces.Discrete(3, start=-1),
    "only one": spaces.Discrete(1),
    "several discrete ones": spaces.MultiDiscrete(np.array([[3, 2], [2, 2]]), start=np.array([[1, -1], [0, 2]])),
    "bits": spaces.MultiBinary((2, 2)),
    "continuous": CONTINUOUS,
    "one number": spaces.Box(-1, 1, ()),
    "uneven bounds": spaces.Box(np.array([-1, 0, 5], np.float32), np.array([3, 0.5, 6], np.float32)),
    "unbounded": spaces.Box(-np.inf, np.inf, (2,)),
    "float64": spaces.Box(-1, 1, (2, 3), np.float64),
    "whole numbers": spaces.Box(0, 4, (2,), np.int32),
}
REFUSED = {
    "Q-learning needs a Discrete action space": {"PQN", "DQN", "SimpleQ", "Rainbow", "ApeX", "R2D2"},
    "An actor with Q-functions needs a Box or Discrete action space": {"SAC", "RNNSAC", "ApeXSAC", "TQC", "CrossQ"},
    "TQC and CrossQ need a Box action space": {"TQC", "CrossQ"},
    "A deterministic actor needs a Box action space": {"TD3", "DDPG", "ApeXTD3", "ApeXDDPG"},
    "Squashed actions need finite bounds": {"SAC", "RNNSAC", "ApeXSAC", "TQC", "CrossQ", "TD3", "DDPG", "ApeXTD3", "ApeXDDPG"},
}
"""Sentences, and who says them of an action space."""
ALGORITHMS = {name: each for name, each in SMALL.items() if isinstance(each, SinglePolicy) and name != "MAML"}
ALWAYS = {"PPO", "DQN", "R2D2", "SAC"}
"""One of each kind; the others in ``make test-full``."""
by_algorithm = pytest.mark.parametrize(
    "name", [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.full) for name in ALGORITHMS]
)


class Shapes(gymnasium.Env[Any, Any]):  # Any: of all kinds
    """Observations are drawn; episodes have 5 steps, every other is truncated."""

    def __init__(self, observations: AnySpace, actions: AnySpace, reward: float = 1.0) -> None:
        self.observation_space, self.action_space, self.paid = observations, actions, reward
        self.steps = self.episodes = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:  # Any: gymnasium's
        if seed is not None:
            self.observation_space.seed(seed)
        self.steps, self.episodes = 0, self.episodes + 1
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # Any: gymnasium's
        assert self.action_space.contains(np.asarray(action)), f"{action!r} of {self.action_space}"
        self.steps += 1
        over, cut = self.steps == 5, bool(self.episodes % 2)
        return self.observation_space.sample(), self.paid, over and not cut, over and cut, {}


def trains(name: str, observations: AnySpace, actions: AnySpace, **options: Any) -> None:  # Any: fields
    algorithm = replace(ALGORITHMS[name], env=partial(Shapes, observations, actions, options.pop("reward", 1.0)))
    algorithm = replace(algorithm, **{"model": "auto" if name not in ("R2D2", "RNNSAC") else LSTM(4)} | options)
    algorithm.check()
    with algorithm.run(stop=Stop(updates=3)) as run:
        last = run.finish()
        policy = run.policy()
    assert last.training.updates >= 3
    assert last.training.skipped == 0
    assert all(np.isfinite(each) for each in last.training.latest.values())
    assert np.isfinite(policy.flat.get()).all()
    several = [observations.sample() for _ in range(3)]
    assert all(actions.contains(np.asarray(policy.act(each, first=True))) for each in several)


@pytest.mark.parametrize("kind", OBSERVATIONS)
@by_algorithm
def test_it_trains_on_any_observations(name: str, kind: str) -> None:
    continuous = "Pendulum" in str(ALGORITHMS[name].env)
    trains(name, OBSERVATIONS[kind], CONTINUOUS if continuous else DISCRETE)


@pytest.mark.parametrize("kind", ACTIONS)
@by_algorithm
def test_it_trains_with_any_actions_or_says_which_it_takes(name: str, kind: str) -> None:
    refused = ""
    try:
        trains(name, VECTOR, ACTIONS[kind], model=LSTM(4, MLP((4,))) if name in ("R2D2", "RNNSAC") else MLP((4,)))
    except PlanError as error:
        refused = str(error)
    if refused:
        (sentence,) = [each for each in REFUSED if each in refused]
        assert name in REFUSED[sentence]
        assert "\n" not in refused


@pytest.mark.parametrize("name", ["PPO", "IMPALA"])
@pytest.mark.parametrize("kind", ["discrete from 3", "nested", "one number"])
def test_so_do_memories(name: str, kind: str) -> None:
    trains(name, OBSERVATIONS[kind], DISCRETE, model=LSTM(4))


@pytest.mark.parametrize("reward", [0.0, 1e6, -1e12])
@by_algorithm
def test_it_trains_with_any_rewards(name: str, reward: float) -> None:
    continuous = "Pendulum" in str(ALGORITHMS[name].env)
    trains(name, VECTOR, CONTINUOUS if continuous else DISCRETE, reward=reward)


@pytest.mark.parametrize(
    ("observations", "actions", "sentence"),
    [
        (spaces.Text(3), DISCRETE, "obs has the space Text.* Supported are Box"),
        (spaces.Sequence(VECTOR), DISCRETE, "obs has the space Sequence.* Supported are Box"),
        (spaces.Box(-1, 1, (0,)), DISCRETE, "obs has the empty space Box"),
        (VECTOR, spaces.Tuple((DISCRETE, CONTINUOUS)), "actions have the space Tuple.* Supported are Discrete"),
        (VECTOR, spaces.Box(-1, 1, (0,)), "actions have the empty space Box"),
    ],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize("name", ["PPO", "SAC"])
def test_what_nobody_learns_from_is_refused_before_anything_starts(
    name: str, observations: AnySpace, actions: AnySpace, sentence: str
) -> None:
    with pytest.raises(TflowError, match=f"^Shapes: {sentence}"):
        replace(ALGORITHMS[name], env=partial(Shapes, observations, actions)).check()
