"""Curricula: attributes of envs that follow schedules over env steps, in all workers, whatever happens to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.laws.world import ray_session
from tflow import PlanError, Stop
from tflow.algos import DDPPO, PPO, Algorithm
from tflow.commands.choice import chosen
from tflow.envs import EnvSpec
from tflow.errors import EnvError
from tflow.models import MLP
from tflow.rl.rollout.worker import RolloutWorker
from tflow.runtime.base import Runtime
from tflow.schedules import Linear
from tflow.types import Shard


class Walk(gymnasium.Env[Any, Any]):
    """Its observation says how long it is; episodes last so many steps."""

    def __init__(self) -> None:
        self.length, self.wind = 4, 0.0
        self.observation_space = spaces.Box(-1e6, 1e6, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def _seen(self) -> Any:  # Any: an array
        return np.array([self.length, self.wind], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # Any: as gymnasium has it
        super().reset(seed=seed)
        self.at = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:  # Any: as above
        self.at += 1
        return self._seen(), 1.0, self.at >= self.length, False, {}


def same(env: Any) -> Any:  # Any: a vector env
    return env


def small(env: object, **fields: Any) -> PPO:  # Any: fields of all kinds
    spec = EnvSpec(env, curriculum={"length": Linear(4, 104, 200), "wind": Linear(0, 1, 200)}, **fields)  # type: ignore[arg-type]  # a class
    return PPO(env=spec, num_workers=2, num_envs=2, fragment=10, epochs=1, minibatch=40, model=MLP((4,)))


def attributes(worker: RolloutWorker) -> list[tuple[int, float]]:
    found = []
    for envs in worker.all_envs:
        for env in envs.copies():
            base: Any = env.unwrapped  # type: ignore[attr-defined]  # Any: it is ours
            found.append((base.length, round(base.wind, 3)))
    return found


def all_attributes(run: Any) -> set[tuple[int, float]]:  # Any: a training run
    return {each for worker in run.run.ask(run.workers, attributes) for each in worker}


def follows(config: Algorithm, runtime: Runtime | None) -> None:
    """Each round sees the envs of the step at which it began."""
    with config.run(runtime=runtime) as run:
        begun = 0
        for _ in range(5):
            metrics = next(run)
            assert all_attributes(run) == {(round(4 + begun / 2), round(begun / 200, 3))}
            begun = metrics.env_steps
        assert begun > 100


@pytest.mark.parametrize("how", [{}, {"wrappers": (gymnasium.wrappers.NormalizeReward,)}, {"vector_wrappers": (same,)}])
def test_all_envs_follow_in_whole_numbers_where_they_have_whole_numbers(how: Any) -> None:  # Any: arguments
    follows(small(Walk, **how), None)


@pytest.mark.parametrize("sync_fraction", [0.6, 1.0])
def test_workers_that_sample_step_by_step_follow_too(sync_fraction: float) -> None:
    fields = {name: value for name, value in vars(small(Walk)).items() if name != "num_learners"}
    follows(DDPPO(**fields, sync_fraction=sync_fraction), None)


@pytest.mark.ray
def test_they_follow_in_processes_too() -> None:
    with ray_session() as session:
        follows(small(Walk), session)


def test_episodes_become_longer() -> None:
    config = replace(small(Walk), env=EnvSpec(Walk, curriculum={"length": Linear(4, 24, 2_000)}))
    lengths = config.run(stop=Stop(env_steps=2_400)).finish().episodes.lengths
    assert lengths[0] < 15
    assert lengths[-1] > 15


def test_a_run_that_is_resumed_goes_on_with_it(tmp_path: Path) -> None:
    whole = small(Walk).run(stop=Stop(env_steps=320)).finish()
    first = small(Walk).run(stop=Stop(env_steps=320))
    for _ in range(3):
        next(first)
    first.save(tmp_path / "saved")
    first.close()
    second = small(Walk).run(stop=Stop(env_steps=320), resume=tmp_path / "saved")
    next(second)
    assert all_attributes(second) == {(64, 0.6)}
    last = second.finish()
    assert (last.episodes.lengths, last.training.latest) == (whole.episodes.lengths, whole.training.latest)


def test_a_worker_that_is_restarted_has_the_latest() -> None:
    """All that it is sent are weights, which say how far training is."""
    run = small(Walk).run()
    for _ in range(4):
        next(run)
    (message,) = run.run.ask(run.workers.learner, lambda current: current.message(160))
    fresh = run.workers.spec(Shard("workers", 0, 2, 1, 7))
    fresh.set_weights(message)
    fresh.sample()
    assert set(attributes(fresh)) == {(84, 0.8)}
    fresh.close()
    run.close()


def test_evaluations_play_the_env_as_it_is_made() -> None:
    run = small(Walk).run(stop=Stop(env_steps=400), eval_every=100, eval_episodes=2)
    assert run.finish().evaluation.mean_length == 4


def test_a_copy_that_is_restarted_after_an_error_has_it_too() -> None:
    class Breaks(Walk):
        def step(self, action: Any) -> Any:  # Any: as in the base class
            if self.length > 20 and self.at == 3 and not hasattr(self, "broken"):
                raise OSError("broken")
            return super().step(action)

    with small(Breaks, on_error="restart").run() as run:
        while next(run).episodes.discarded < 3:
            continue
        ((length, _),) = all_attributes(run)
        assert length > 20


def test_a_file_and_the_command_line_say_it() -> None:
    text = "EnvSpec('CartPole-v1', vectorizer='loop', curriculum={'gravity': Linear(9.8, 20, 1_000)})"
    spec = chosen(("ppo", "--env", text)).algorithm.env
    assert isinstance(spec, EnvSpec)
    assert spec.curriculum == {"gravity": Linear(9.8, 20, 1_000)}


def test_what_cannot_be_set_is_said() -> None:
    with pytest.raises(PlanError, match=r"curriculum\['length'\] must be a schedule"):
        EnvSpec(Walk, curriculum={"length": 7})  # type: ignore[dict-item]  # it is the mistake
    wrong = EnvSpec("CartPole-v1", curriculum={"gravitation": Linear(1, 2, 10)})
    with pytest.raises(EnvError, match="has no attribute 'gravitation', which its curriculum sets"):
        PPO(env=wrong, num_workers=1, num_envs=2, fragment=8, minibatch=16).run(stop=Stop(updates=1)).finish()
    beside = EnvSpec("CartPole-v1", vectorizer="processes", curriculum={"gravity": Linear(1, 2, 10)})
    with pytest.raises(EnvError, match="where no curriculum reaches it"):
        PPO(env=beside, num_workers=1, num_envs=2, fragment=8, minibatch=16).run(stop=Stop(updates=1)).finish()
