"""Envs of gymnax, Brax and EnvPool themselves (``make test-native``)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import NormalizeObservation
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.algos.test_resume import reports
from tests.laws.world import ray_session
from tests.rl.functional_envs import Counts, Limits, Named, OneByHand
from tests.rl.toy_envs import array, by_hand, collected
from tflow import Stop, evaluate
from tflow.algos import PPO
from tflow.errors import EnvError
from tflow.models import MLP
from tflow.rl.envs.env import Envs
from tflow.rl.envs.env_spec import EnvSpec
from tflow.rl.envs.functional import FunctionalEnvs
from tflow.rl.envs.vector_env import VectorEnvs
from tflow.state.values import decode, encode

pytestmark = pytest.mark.native
NEXT, SAME = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP
CARTPOLES = ("gymnax:CartPole-v1", "envpool:CartPole-v1")


# --------------------------------------------------------------------------- what they give


@pytest.mark.parametrize("mode", [SAME, NEXT])
@pytest.mark.parametrize("kind", [Counts, Named])
@settings(max_examples=8)  # each is compiled
@given(num=st.integers(1, 3), longest=st.integers(1, 4), limit=st.integers(1, 4), seed=st.integers(0, 2**32 - 1), data=st.data())
def test_a_copy_gives_what_calling_its_functions_gives(
    kind: type[Counts], mode: AutoresetMode, num: int, longest: int, limit: int, seed: int, data: st.DataObject
) -> None:
    params = Limits(longest, limit)
    actions = data.draw(st.lists(st.lists(st.integers(0, 2), min_size=7, max_size=7), min_size=num, max_size=num))
    envs = VectorEnvs(lambda _: FunctionalEnvs(kind(), num, params, mode), num, name="counts")
    seeds = [(seed + at) % 2**32 for at in range(num)]
    expected = [by_hand(OneByHand(kind(), params, mode), seeds[at], actions[at]) for at in range(num)]
    assert collected(envs, seed, actions) == expected
    assert collected(envs, seed, actions) == expected


@pytest.mark.parametrize(
    "spec",
    [
        EnvSpec("gymnax:CartPole-v1"),
        EnvSpec("envpool:CartPole-v1"),
        EnvSpec("envpool:CartPole-v1", kwargs={"num_threads": 2}),
        EnvSpec("CartPole-v1", vectorizer="envpool"),
    ],
    ids=lambda spec: f"{spec.name} {spec.kwargs}",
)
def test_cartpole_obeys_its_physics(spec: EnvSpec) -> None:
    """Every row is a transition of gymnasium's CartPole, to the last of its episode, or is said to be none. EnvPool calls an
    episode that ends by itself in the step of the time limit truncated alone."""
    pooled = "envpool" in (spec.vectorizer, spec.name.partition(":")[0])
    envs = replace(spec, max_episode_steps=30).make(4, seed=3)
    single: Any = gymnasium.make("CartPole-v1").unwrapped  # Any: its state is set from outside
    actions = np.random.default_rng(0).integers(0, 2, (150, 4))
    obs, ages = array(envs.reset(3)[0]), np.zeros(4, int)
    ends, cuts = 0, 0
    for chosen in actions:
        before = obs.copy()
        step = envs.step(chosen)
        obs, over = array(step.obs), step.terminated | step.truncated
        after = obs.copy()
        if step.final_obs is not None:
            after[over] = array(step.final_obs)
        for row in range(4):
            if step.valid is not None and not step.valid[row]:
                assert np.abs(obs[row]).max() <= 0.05, "it was reset"
                assert not over[row]
                continue
            ages[row] += 1
            single.reset()
            single.state = before[row].astype(np.float64)
            expected, _, ended, _, _ = single.step(chosen[row])
            np.testing.assert_allclose(after[row], expected, rtol=1e-4, atol=1e-5)
            cut = ages[row] == 30
            told = ended and not (cut and pooled)
            assert (step.rewards[row], step.terminated[row], step.truncated[row]) == (1, told, cut)
            ages[row] *= not over[row]
        ends, cuts = ends + int(step.terminated.sum()), cuts + int(step.truncated.sum())
    assert ends > 10
    assert cuts > 0
    envs.close()


@pytest.mark.parametrize("name", ["Pendulum-v1", "Breakout-MinAtar", "Catch-bsuite", "FourRooms-misc", "FrozenLake-misc"])
def test_envs_of_gymnax_run(name: str) -> None:
    envs = EnvSpec(f"gymnax:{name}").make(3)
    first = envs.reset(0)[0]
    stepped(envs, 20, 0)
    assert array(envs.reset(0)[0]).tolist() == array(first).tolist()


def test_arguments_and_params_of_gymnax() -> None:
    envs = EnvSpec("gymnax:Catch-bsuite", kwargs={"rows": 6, "max_steps_in_episode": 4}).make(2)
    assert envs.observation_space.shape == (6, 5)
    envs.reset(0)
    steps = [envs.step(np.zeros(2, np.int64)) for _ in range(4)]
    assert [step.truncated.tolist() for step in steps] == [[False] * 2] * 3 + [[True] * 2]
    with pytest.raises(EnvError, match=r"CartPole-v1: takes no speed. It takes max_steps_in_episode, gravity, .*"):
        EnvSpec("gymnax:CartPole-v1", kwargs={"speed": 3}).make(2)
    with pytest.raises(EnvError, match=r"is not an env that gymnax knows. Did you mean CartPole-v1"):
        EnvSpec("gymnax:CartPole-v0").make(2)


def test_envpool_gives_the_transitions_of_its_own_games() -> None:
    for game, kwargs in (("CartPole-v1", {}), ("Pong-v5", {"noop_max": 4})):
        spec = EnvSpec(f"envpool:{game}", kwargs={"num_threads": 1} | kwargs, max_episode_steps=6)
        envs = spec.make(2, seed=3)
        actions = [[0, 1, 0, 1, 0, 1, 0, 0, 1], [1, 0, 1, 0, 1, 0, 1, 0, 1]]
        found = collected(envs, 3, actions)
        assert found == collected(envs, 3, actions) == collected(spec.make(2), 3, actions)
        assert found != collected(envs, 4, actions)
        assert [row.truncated for row in found[0]] == [at % 6 == 5 for at in range(9)]
        envs.close()
    with pytest.raises(EnvError, match=r"is not an env that EnvPool knows. Did you mean .*Pong-v5.* EnvPool has its own ids"):
        EnvSpec("envpool:ALE/Pong-v5").make(1)
    with pytest.raises(EnvError, match=r"must step all 4 copies at once. Leave out batch_size"):
        EnvSpec("envpool:CartPole-v1", kwargs={"batch_size": 2}).make(4)


@pytest.mark.filterwarnings("ignore")  # Brax says that nobody looks after it any more
def test_brax_gives_what_its_functions_give() -> None:
    jax: Any = import_module("jax")  # Any: it is in the environment of these tests alone
    envs = EnvSpec("brax:inverted_pendulum", max_episode_steps=5).make(2)
    first = array(envs.reset(7)[0])
    steps = [envs.step(np.full((2, 1), 0.01, np.float32)) for _ in range(6)]
    assert not any(step.terminated.any() for step in steps)
    assert [bool(step.truncated.all()) for step in steps] == [False] * 4 + [True, False]
    env = import_module("brax.envs").get_environment("inverted_pendulum")
    state = jax.jit(env.reset)(jax.random.split(jax.random.PRNGKey(7), 3)[2])
    np.testing.assert_allclose(first[0], state.obs, rtol=1e-4, atol=1e-5)
    for _ in range(5):
        state = jax.jit(env.step)(state, np.full(1, 0.01, np.float32))
    np.testing.assert_allclose(array(steps[4].final_obs)[0], state.obs, rtol=1e-3, atol=1e-4)
    assert np.abs(array(steps[4].obs)).max() < 0.02, "a new episode"


# --------------------------------------------------------------------------- how they run


def stepped(envs: Envs, steps: int, seed: int) -> list[list[float]]:
    """What a few steps with random actions show."""
    envs.action_space.seed(seed)
    chosen = [np.stack([envs.action_space.sample() for _ in range(envs.num)]) for _ in range(steps)]
    return [array(envs.step(actions).obs).tolist() for actions in chosen]


def test_columns_are_views_of_what_jax_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    envs = EnvSpec("gymnax:CartPole-v1").make(64)
    assert isinstance(envs, VectorEnvs)
    inner: Any = envs._env  # Any: what it computes is looked at
    given: list[Any] = []  # Any: arrays of JAX
    advance = inner._advance

    def noted(*args: Any) -> Any:  # Any: as above
        given.append(advance(*args))
        return given[-1]

    monkeypatch.setattr(inner, "_advance", noted)
    envs.reset(0)
    step = envs.step(np.zeros(64, np.int64))
    _, obs, rewards, terminated, truncated, _ = given[0]
    assert len(given) == 1, "one call steps all copies"
    for column, computed in zip(
        (array(step.obs), step.rewards, step.terminated, step.truncated), (obs, rewards, terminated, truncated), strict=True
    ):
        assert column.ctypes.data == computed.unsafe_buffer_pointer()
        assert not column.flags.writeable


class Tallied(Counts):
    """Counts how often it is compiled: what is compiled is not called again."""

    compiled = 0

    def reset(self, key: Any, params: Limits) -> tuple[Any, Any]:  # Any: arrays of JAX, here and below
        obs, state = super().reset(key, params)
        return obs, {**state, "at": 0}  # of a weak type: the step could make it another one

    def step(self, key: Any, state: Any, action: Any, params: Limits) -> tuple[Any, ...]:  # Any: as above
        Tallied.compiled += 1
        return super().step(key, state, action, params)


def test_a_step_is_compiled_once() -> None:
    """A state that was reset, computed or loaded is the same to the compiler."""
    envs = EnvSpec(Tallied).make(2)
    envs.reset(0)
    stepped(envs, 5, 0)
    envs.load(decode(encode(envs.state()).copied()))
    stepped(envs, 5, 0)
    envs.reset(None)
    stepped(envs, 5, 0)
    assert Tallied.compiled == 1


@pytest.mark.parametrize("wrappers", [(), (NormalizeObservation,)])
def test_envs_of_gymnax_go_on_from_their_state(wrappers: tuple[Any, ...]) -> None:  # Any: as in EnvSpec
    spec = EnvSpec("gymnax:CartPole-v1", vector_wrappers=wrappers)
    envs, twin = spec.make(3), spec.make(3)
    envs.reset(5)
    stepped(envs, 40, seed=0)
    saved = decode(encode(envs.state()).copied())
    expected = stepped(envs, 40, seed=1)
    twin.load(saved)
    assert stepped(twin, 40, seed=1) == expected


def algorithm(env: str, num_workers: int = 1) -> PPO:
    return PPO(env=env, num_workers=num_workers, num_envs=4, fragment=8, epochs=1, minibatch=16, model=MLP((8,)))


def test_a_resumed_run_does_what_the_one_does_that_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chosen = algorithm("gymnax:CartPole-v1")
    with chosen.plan().run(seed=3) as run:
        expected = reports(run, 8)[4:]
    with chosen.plan().run(seed=3) as run:
        reports(run, 4)
        run.save(tmp_path / "saved")
        np.testing.assert_equal(reports(run, 4), expected)
    with chosen.plan().run(resume=tmp_path / "saved") as run:
        np.testing.assert_equal(reports(run, 4), expected)
    assert not caplog.text


def test_envpool_starts_anew_at_a_checkpoint_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chosen = algorithm("envpool:CartPole-v1")
    with chosen.plan().run(seed=3) as run:
        reports(run, 4)
        run.save(tmp_path / "saved")
        reports(run, 2)
    assert "envpool:CartPole-v1 has no state that can be saved: its episodes end at every checkpoint" in caplog.text


@pytest.mark.parametrize("env", CARTPOLES)
def test_the_same_seed_gives_the_same_run(env: str) -> None:
    def found(seed: int) -> list[dict[str, float]]:
        with algorithm(env).plan().run(seed=seed) as run:
            return reports(run, 3)

    first = found(1)
    np.testing.assert_equal(found(1), first)
    assert found(2) != first


@pytest.fixture
def ray() -> Iterator[Any]:  # Any: a runtime
    with ray_session() as session:
        yield session


@pytest.mark.filterwarnings("ignore:os.fork")  # Ray's processes run programs of their own at once
@pytest.mark.parametrize("env", CARTPOLES)
def test_workers_on_ray_do_what_they_do_here(env: str, ray: Any) -> None:  # Any: as above
    chosen = algorithm(env, num_workers=2)
    with chosen.plan().run(seed=3) as run:
        here = reports(run, 3)
    with chosen.plan().run(seed=3, runtime=ray) as run:
        np.testing.assert_equal(reports(run, 3), here)


@pytest.mark.parametrize("env", CARTPOLES)
def test_policies_are_evaluated_on_them(env: str) -> None:
    run = algorithm(env).run(stop=Stop(updates=2))
    run.finish()
    found = evaluate(run.policy(), env, episodes=5, seed=0)
    assert found.count == 5
    assert found == evaluate(run.policy(), env, episodes=5, seed=0)
    one = evaluate(run.policy(), env, episodes=1, seed=0)
    assert 8 <= one.lengths[0] <= 500


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    code = "import sys; from tflow.envs import EnvSpec; EnvSpec('CartPole-v1').make(2); EnvSpec('gymnax:CartPole-v1'); "
    code += "assert not {'jax', 'gymnax', 'brax', 'envpool'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
