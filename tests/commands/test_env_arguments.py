"""Arguments and wrappers of an env on the command line: they reach it, stand in the folder, and are there when it goes on."""

from __future__ import annotations

import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from tests.commands.conftest import Typed
from tests.commands.test_train import OWN, QUICK, tflow_here
from tflow.algos import PPO
from tflow.commands.choice import chosen
from tflow.envs import EnvSpec
from tflow.errors import EnvError, PlanError
from tflow.settings.values import WithArguments, read, shown, wrapper_named

LIMIT = "gymnasium.wrappers.common:TimeLimit(max_episode_steps=9)"


def test_they_reach_the_env_and_are_there_again(tmp_path: Path) -> None:
    (tmp_path / "own_env_args.py").write_text(OWN)
    env = ("--env", "own_env_args.py:Corridor", "--env-arg", "length=6", "--wrapper", LIMIT)
    first = tflow_here("train", "ppo", *env, "--stop-steps", "100", "--out", "run", *QUICK, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    written = tomllib.loads((tmp_path / "run" / "config.toml").read_text())["env"]
    assert written.startswith("EnvSpec('")
    assert written.endswith(f"kwargs={{'length': 6}}, wrappers=('{LIMIT}',))")
    for words in (("train", "--resume", "run", "--stop-steps", "200"), ("eval", "run", "--episodes", "3"), ("graph", "run")):
        done = tflow_here(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    played = tflow_here("eval", "run", "--episodes", "3", "--no-deterministic", cwd=tmp_path).stdout.split()
    assert float(played[-1]) <= 9, "the wrapper ends episodes, in evaluation too"


def test_a_spec_is_written_and_read_whatever_is_in_it() -> None:
    specs = (
        EnvSpec("CartPole-v1", {"render_mode": None}),
        EnvSpec("CartPole-v1", wrappers=[wrapper_named(LIMIT), gymnasium.wrappers.FlattenObservation], max_episode_steps=7),
        EnvSpec("CartPole-v1", vector_wrappers=[gymnasium.wrappers.vector.NormalizeObservation], vectorizer="loop"),
        EnvSpec(CartPoleEnv, {"sutton_barto_reward": True}, on_error="restart"),
    )
    for spec in specs:
        text = shown(spec)
        assert text is not None
        assert read(text, own=True) == spec
    assert shown(EnvSpec("CartPole-v1", wrappers=[partial(gymnasium.wrappers.TimeLimit, max_episode_steps=3)])) is None
    assert wrapper_named(LIMIT) == WithArguments(gymnasium.wrappers.TimeLimit, {"max_episode_steps": 9})


def test_they_are_added_to_what_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("env = \"EnvSpec('CartPole-v1', kwargs={'a': 1})\"\n[run]\nalgo = 'ppo'\n")
    choice = chosen([], {"env_arg": ["b=2.5", "c=none", "d=word", "a=3"], "wrapper": [LIMIT]}, file)
    assert choice.algorithm.env == EnvSpec(
        "CartPole-v1", {"a": 3, "b": 2.5, "c": None, "d": "word"}, wrappers=[wrapper_named(LIMIT)]
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--env-arg", "size"), "--env-arg is written NAME=VALUE, such as --env-arg size=7; got 'size'."),
        (("--env-arg", "size=7"), "CartPole-v1: make raised TypeError: "),
        (("--wrapper", "gymnasium.wrappers:Nope"), "gymnasium.wrappers has no 'Nope'. In it: "),
        (("--wrapper", "nowhere.py:Own"), "There is no file 'nowhere.py'."),
        (
            ("--wrapper", "gymnasium.wrappers:TimeLimit(9)"),
            "'gymnasium.wrappers:TimeLimit(9)': write the arguments of a ",
        ),
        (
            ("--wrapper", "gymnasium.wrappers:TimeLimit(9"),
            "'gymnasium.wrappers:TimeLimit(9': write the arguments of a ",
        ),
        (
            ("--wrapper", "tflow:__version__"),
            "'tflow:__version__' is no wrapper: write module:Class, or FILE.py:NAME of a class ",
        ),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(typed: Typed, words: tuple[str, ...], said: str) -> None:
    code, _, error = typed("train", "ppo", *words)
    assert error.startswith(said)
    assert (code, error.count("\n")) == (2, 1)


class Sized(gymnasium.Env[object, object]):
    def __init__(self, size: int) -> None:
        raise AssertionError("it was not given")


def test_an_env_that_needs_an_argument_says_how_to_give_it() -> None:
    with pytest.raises(
        EnvError, match=r"missing 1 required .*'size'\. Arguments are given by EnvSpec\(\.\.\., kwargs=\{\.\.\.\}\), or --env"
    ):
        PPO(env=Sized).check()


class SeveralAgents:
    """What PettingZoo's envs have in common."""

    possible_agents = ("a", "b")


@pytest.mark.parametrize("env", [SeveralAgents, "pettingzoo.mpe.simple_spread_v3"])
def test_an_env_for_several_agents_names_the_way(env: type | str) -> None:
    made = EnvSpec(env)
    with pytest.raises((EnvError, PlanError), match=r"create_multi_workers\(\{'shared': PPO\(\)\}"):
        made.make(1)


class OldGym(gymnasium.Env[Any, Any]):  # Any: numbers
    """An env as the old gym had them."""

    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def reset(self) -> int:  # type: ignore[override]  # that is what is wrong
        return 0


class OldPair(OldGym):
    """Its observation can be taken for a pair."""

    def reset(self, **_: object) -> tuple[float, float]:  # type: ignore[override]  # as above
        return 0.0, 1.0


class OldStep(OldGym):
    """Its steps have four parts."""

    def reset(self, **_: object) -> tuple[int, dict[str, object]]:  # type: ignore[override]  # as above
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, dict[str, object]]:  # type: ignore[override]  # as above
        return 0, 0.0, False, {}


@pytest.mark.parametrize("env", [OldGym, OldPair, OldStep])
def test_an_env_of_the_old_gym_is_told_what_to_change(env: type[OldGym]) -> None:
    made = EnvSpec(env).make(1)
    with pytest.raises(EnvError, match=r"So are envs of the old gym\. Those of gymnasium have reset"):  # either may
        made.reset(3)
        made.step(np.zeros(1, np.int64))
