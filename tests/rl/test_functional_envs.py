"""Functional envs: the adapter gives what calling their functions by hand gives. Here numpy stands in for JAX;
``test_native_envs.py`` is the same with JAX."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import ClipReward
from gymnasium.wrappers.vector import NormalizeObservation
from hypothesis import given
from hypothesis import strategies as st

from tests.algos.test_resume import reports
from tests.rl.functional_envs import ACTIONS, Counts, Limits, Named, OneByHand
from tests.rl.numpy_jax import numpy_jax
from tests.rl.toy_envs import array, by_hand, collected
from tflow import Stop, evaluate
from tflow.algos import PPO
from tflow.errors import EnvError, MissingExtra, PlanError
from tflow.models import MLP
from tflow.rl.envs.env import Envs
from tflow.rl.envs.env_spec import EnvSpec
from tflow.rl.envs.functional import FunctionalEnvs, space_of
from tflow.rl.envs.spaces import Mismatch
from tflow.rl.envs.vector_env import VectorEnvs
from tflow.state.values import decode, encode

NEXT, SAME = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP


@pytest.fixture(autouse=True, scope="module")
def _numpy() -> Iterator[None]:
    """Envs that need JAX get numpy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "jax", numpy_jax())
        yield


def adapted(env: Counts, num: int, params: Limits, mode: AutoresetMode = SAME) -> VectorEnvs:
    return VectorEnvs(lambda _: FunctionalEnvs(env, num, params, mode), num, name="counts")


@pytest.mark.parametrize("mode", [SAME, NEXT])
@pytest.mark.parametrize("kind", [Counts, Named])
@given(num=st.integers(1, 3), longest=st.integers(1, 4), limit=st.integers(1, 4), seed=st.integers(0, 2**32 - 1), data=st.data())
def test_a_copy_gives_what_calling_its_functions_gives(
    kind: type[Counts], mode: AutoresetMode, num: int, longest: int, limit: int, seed: int, data: st.DataObject
) -> None:
    params, count = Limits(longest, limit), data.draw(st.integers(1, 9))
    actions = data.draw(st.lists(st.lists(st.integers(0, 2), min_size=count, max_size=count), min_size=num, max_size=num))
    envs = adapted(kind(), num, params, mode)
    seeds = [(seed + at) % 2**32 for at in range(num)]
    expected = [by_hand(OneByHand(kind(), params, mode), seeds[at], actions[at]) for at in range(num)]
    assert collected(envs, seed, actions) == expected
    assert collected(envs, seed, actions) == expected  # a second reset starts anew


def stepped(envs: Envs, steps: int, seed: int) -> list[list[float]]:
    """What a few steps with random actions show."""
    rng = np.random.default_rng(seed)
    return [array(envs.step(rng.integers(0, ACTIONS, envs.num)).obs).tolist() for _ in range(steps)]


def test_a_copy_does_not_depend_on_the_others() -> None:
    few, many = adapted(Counts(), 2, Limits()), adapted(Counts(), 3, Limits())
    few.reset(8)
    many.reset(7)
    for _ in range(9):
        ours, theirs = few.step(np.zeros(2, np.int64)), many.step(np.asarray([2, 0, 0]))
        assert array(ours.obs).tolist() == array(theirs.obs)[1:].tolist()


def test_without_a_seed_envs_are_random_and_with_one_they_are_not() -> None:
    envs = EnvSpec(Counts, kwargs={"longest": 1000}).make(8)
    firsts = [array(envs.reset(seed)[0]).tolist() for seed in (None, None, 3, 3, 4)]
    assert firsts[0] != firsts[1]
    assert firsts[2] == firsts[3] != firsts[4]


@pytest.mark.parametrize("wrappers", [(), (NormalizeObservation,)])
def test_envs_go_on_from_their_state(wrappers: tuple[Any, ...]) -> None:  # Any: as in EnvSpec
    spec = EnvSpec(Counts, vector_wrappers=wrappers)
    envs, twin = spec.make(3), spec.make(3)
    envs.reset(5)
    stepped(envs, 7, seed=0)
    saved = decode(encode(envs.state()).copied())
    expected = stepped(envs, 9, seed=1)
    assert expected != stepped(envs, 9, seed=1)
    twin.load(saved)
    assert stepped(twin, 9, seed=1) == expected


ALGORITHM = PPO(env=Counts, num_workers=1, num_envs=3, fragment=5, epochs=1, minibatch=15, model=MLP((8,)))


def test_a_resumed_run_does_what_the_one_does_that_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ALGORITHM.plan().run(seed=3) as run:
        expected = reports(run, 8)[4:]
    with ALGORITHM.plan().run(seed=3) as run:
        reports(run, 4)
        run.save(tmp_path / "saved")
        np.testing.assert_equal(reports(run, 4), expected)
    with ALGORITHM.plan().run(resume=tmp_path / "saved") as run:
        np.testing.assert_equal(reports(run, 4), expected)
    assert not caplog.text


def test_policies_are_evaluated_on_them() -> None:
    run = ALGORITHM.run(stop=Stop(updates=1))
    run.finish()
    policy = run.policy()
    found = evaluate(policy, EnvSpec(Counts, kwargs={"longest": 2}), episodes=20, seed=0)
    assert set(found.lengths) == {1, 2}
    assert found == evaluate(policy, EnvSpec(Counts, kwargs={"longest": 2}), episodes=20, seed=0)


# --------------------------------------------------------------------------- descriptions


def test_arguments_go_to_the_class_and_to_its_params() -> None:
    spec = EnvSpec(Counts, kwargs={"scale": 5, "longest": 100}, max_episode_steps=2)
    envs = spec.make(4)
    obs, _ = envs.reset(1)
    lengths = array(obs)[:, 0].astype(int)
    assert lengths.max() > 4
    first, second = envs.step(np.zeros(4, np.int64)), envs.step(np.zeros(4, np.int64))
    assert not first.truncated.any()
    assert second.truncated.all()
    assert (first.rewards >= 50 * lengths).all()
    one = spec.make(1)
    assert isinstance(one, VectorEnvs), "there is no single env"
    assert array(one.reset(1)[0]).tolist() == array(obs)[:1].tolist()


class Old:
    """As gymnax had it before 1.0."""

    default_params = Limits()

    def __init__(self, scale: int = 1) -> None:
        self.counts = Counts(scale)

    def observation_space(self, params: Limits) -> Any:  # Any: a space of gymnax's
        return SimpleNamespace(low=-1e6, high=1e6, shape=(4,), dtype=np.float32)

    def action_space(self, params: Limits) -> Any:  # Any: as above
        return SimpleNamespace(n=ACTIONS, shape=(), dtype=np.int32)

    def reset_env(self, key: Any, params: Limits) -> Any:  # Any: arrays
        obs, state = self.counts.reset(key, params)
        return obs.astype("int32"), state

    def step_env(self, key: Any, state: Any, action: Any, params: Limits) -> Any:  # Any: arrays
        obs, state, reward, over, _, infos = self.counts.step(key, state, action, params)
        return obs.astype("int32"), state, reward, over, infos

    def reset(self) -> None:
        raise NotImplementedError("these reset by themselves, and are not called")

    step = reset


class Gymnax(Old):
    """As gymnax has it: what resets by itself is made of what does not, and observations may have other types than spaces say."""

    def is_truncated(self, state: Any, params: Limits) -> Any:  # Any: arrays
        return state["at"] >= params.max_steps_in_episode


class Brax:
    """As Brax has it: all that an env gives is in its state."""

    observation_size, action_size = 2, 1

    def __init__(self, ends: float = 3) -> None:
        self.ends = ends

    def reset(self, key: Any) -> Any:  # Any: arrays, here and below
        zero = np.float32(0)
        return State(np.asarray([key[1] % 5, 0], np.float32), zero, zero)

    def step(self, state: Any, action: Any) -> Any:  # Any: arrays
        obs = state.obs + np.asarray([0, 1], np.float32)
        return State(obs, action[0] * 2, np.float32(obs[1] >= self.ends))


class State(NamedTuple):
    obs: Any  # Any: arrays, as are the others
    reward: Any  # Any: as above
    done: Any  # Any: as above


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    gymnax: Any = ModuleType("gymnax")  # Any: its attributes are given here
    gymnax.registered_envs = ["Counts-v0"]
    gymnax.make = lambda name, **kwargs: (Gymnax(**kwargs), Limits())
    brax: Any = ModuleType("brax.envs")  # Any: as above
    brax._envs = {"counts": Brax}
    brax.get_environment = lambda name, **kwargs: Brax(**kwargs)
    monkeypatch.setitem(sys.modules, "gymnax", gymnax)
    monkeypatch.setitem(sys.modules, "brax", ModuleType("brax"))
    monkeypatch.setitem(sys.modules, "brax.envs", brax)


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("env", ["gymnax:Counts-v0", Gymnax])
def test_envs_of_gymnax_are_those_of_its_functions(env: str | type[Any]) -> None:  # Any: as in EnvSpec
    envs = EnvSpec(env, kwargs={"scale": 3, "longest": 2}).make(2)
    actions = [[0, 1, 2, 0, 1, 2, 0], [2, 2, 1, 0, 0, 1, 1]]
    assert collected(envs, 4, actions) == [by_hand(OneByHand(Counts(3), Limits(2), SAME), 4 + at, actions[at]) for at in range(2)]
    assert envs.action_space == spaces.Discrete(ACTIONS)
    assert envs.observation_space == spaces.Box(-1e6, 1e6, (4,), np.float32)


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("env", ["brax:counts", Brax])
def test_envs_of_brax_are_terminated_by_themselves_and_truncated_by_a_limit(env: str | type[Any]) -> None:  # Any: as above
    ends = EnvSpec(env, kwargs={"ends": 2}).make(2)
    ends.reset(0)
    steps = [ends.step(np.full((2, 1), 0.5, np.float32)) for _ in range(4)]
    assert [step.terminated.tolist() for step in steps] == [[False] * 2, [True] * 2] * 2
    assert [step.rewards.tolist() for step in steps] == [[1, 1]] * 4
    assert array(steps[1].final_obs)[:, 1].tolist() == [2, 2]
    assert array(steps[1].obs)[:, 1].tolist() == [0, 0]
    limited = EnvSpec(env, max_episode_steps=2).make(2)
    limited.reset(0)
    cut = [limited.step(np.zeros((2, 1), np.float32)) for _ in range(2)][1]
    assert cut.truncated.all()
    assert not cut.terminated.any()


def test_spaces_of_gymnax_are_those_of_gymnasium() -> None:
    box = SimpleNamespace(low=np.asarray([0, -1]), high=3, shape=(2,), dtype=np.float32)
    nested = SimpleNamespace(spaces={"a": box, "b": SimpleNamespace(spaces=[SimpleNamespace(n=4), spaces.Discrete(2)])})
    expected = {
        "a": spaces.Box(np.asarray([0, -1], np.float32), 3, (2,)),
        "b": spaces.Tuple((spaces.Discrete(4), spaces.Discrete(2))),
    }
    assert space_of("obs", nested) == spaces.Dict(expected)
    with pytest.raises(
        Mismatch, match=r"obs/a has the space 3\. Supported are Box, Discrete, Dict and Tuple, of gymnax or gymnasium"
    ):
        space_of("obs", SimpleNamespace(spaces={"a": 3}))


class Five(Counts):
    def step(self, key: Any, state: Any, action: Any, params: Limits) -> Any:  # Any: arrays
        return super().step(key, state, action, params)[:5]


class Restarts(Counts):
    def step(self, key: Any, state: Any, action: Any, params: Limits) -> Any:  # Any: arrays
        return *super().step(key, state, action, params)[:5], {"final_observation": 0}


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (EnvSpec(Five), r"Five: step must return \(obs, state, reward, terminated, truncated, infos\), but returned 5 values"),
        (EnvSpec(Restarts), "Restarts: step starts the next episode by itself. Give the last observation"),
        (EnvSpec(Old), "Old: cannot tell time limits from other ends. Envs of gymnax can since 1.0: pip install 'tflow.jax.'"),
        (EnvSpec(Counts, kwargs={"speed": 3}), "Counts: takes no speed. It takes scale, longest, max_steps_in_episode"),
        (EnvSpec("gymnax:Count-v0"), "gymnax:Count-v0: is not an env that gymnax knows. Did you mean Counts-v0"),
        (EnvSpec("brax:ant"), "brax:ant: is not an env that brax knows. Register it with brax, or give its class"),
        (
            EnvSpec(lambda: Counts()),
            "not a gymnasium.Env. Give EnvSpec its class itself, so that JAX compiles all copies together",
        ),
    ],
)
def test_a_functional_env_that_cannot_be_run_is_a_sentence(spec: EnvSpec, sentence: str) -> None:
    with pytest.raises(EnvError, match=sentence):
        stepped(started(spec), 2, 0)


def started(spec: EnvSpec) -> Envs:
    envs = spec.make(2)
    envs.reset(0)
    return envs


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            partial(EnvSpec, "gymnax:CartPole-v1", vectorizer="loop"),
            "gymnax:CartPole-v1 runs as one vector env; leave out vectorizer",
        ),
        (partial(EnvSpec, "gymnax:CartPole-v1", vectorizer="envpool"), "gymnax:CartPole-v1 runs as one vector env; leave out"),
        (partial(EnvSpec, "envpool:CartPole-v1", vectorizer="native"), "envpool:CartPole-v1 runs as one vector env; leave out"),
        (partial(EnvSpec, "envpool:CartPole-v1", wrappers=[ClipReward]), "this is one vector env. Use vector_wrappers"),
        (partial(EnvSpec, Counts, wrappers=[ClipReward]), "this is one vector env. Use vector_wrappers"),
        (partial(EnvSpec, "gymnax:CartPole-v1", on_error="restart"), "needs single envs in a loop"),
        (partial(EnvSpec, Counts, vectorizer="loop"), "Counts makes vector envs; leave out vectorizer='loop'"),
        (lambda: EnvSpec("gymnax:CartPole-v1").make_single(), "gymnax:CartPole-v1 runs as a vector env, whose copies cannot"),
    ],
)
def test_a_contradiction_is_refused_before_anything_is_made(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(PlanError, match=f"^EnvSpec.*{sentence}"):
        make()


@pytest.mark.parametrize(
    ("env", "missing", "sentence"),
    [
        ("gymnax:CartPole-v1", "gymnax", r"Envs of gymnax need the package gymnax: pip install 'tflow\[jax\]'"),
        ("brax:ant", "brax", r"Envs of Brax need the package brax: pip install 'tflow\[brax\]'"),
        ("envpool:Pong-v5", "envpool", r"EnvPool environments need the package envpool: pip install 'tflow\[envpool\]'"),
        (Counts, "jax", r"Functional envs need the package jax: pip install 'tflow\[jax\]'"),
    ],
)
def test_a_missing_package_is_a_sentence(
    env: str | type[Any],  # Any: as above
    missing: str,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtra, match=sentence):
        EnvSpec(env).make(2)


def test_what_is_known_of_an_env_is_known_whatever_steps_it() -> None:
    assert EnvSpec("gymnax:CartPole-v1").solved_at() == EnvSpec("envpool:CartPole-v1").solved_at() == 475
    assert EnvSpec("gymnax:CartPole-v1").name == "gymnax:CartPole-v1"
