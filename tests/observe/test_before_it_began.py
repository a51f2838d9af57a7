"""Runs that were made and not run: what is said of them."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import pytest

from tflow import Policy, RunFolder, Stop
from tflow.algos import PPO, PPODQN
from tflow.errors import CheckpointError, TflowError
from tflow.models import MLP

SMALL = PPO(num_workers=1, num_envs=2, fragment=16, epochs=1, minibatch=32, model=MLP((8,)))


def test_there_is_no_policy_before_anything_was_learned_unless_it_is_asked_for() -> None:
    with SMALL.run() as run:
        with pytest.raises(TflowError, match=r"this run has not begun\. Iterate over it, or call run\.finish\(\)"):
            run.policy()
        first = run.policy(untrained=True)
        next(run)
        assert run.policy().flat.get().tolist() != first.flat.get().tolist()
    with SMALL.run(start_from=first) as run:
        assert run.policy().flat.get().tolist() == first.flat.get().tolist(), "these were given"


def forget() -> None:
    SMALL.run(stop=Stop(env_steps=10))
    gc.collect()


def test_a_run_that_is_thrown_away_before_it_began_says_so(caplog: pytest.LogCaptureFixture) -> None:
    forget()
    assert "nothing was trained. Call .finish() on it" in caplog.text


def test_whoever_knows_what_he_does_is_not_warned(caplog: pytest.LogCaptureFixture) -> None:
    SMALL.run().close()
    with SMALL.run():
        pass
    SMALL.run().policy(untrained=True)
    SMALL.run(stop=Stop(env_steps=10)).finish()
    gc.collect()
    assert "nothing was trained" not in caplog.text


def test_a_folder_with_several_policies_names_their_files(tmp_path: Path) -> None:
    with PPODQN(num_workers=1, num_envs=2).run(stop=Stop(env_steps=64), callbacks=[RunFolder(tmp_path / "run")]) as run:
        run.finish()
    with pytest.raises(CheckpointError, match=r"has several policies\. Name the file of one: .*policy-DQN.*policy-PPO"):
        Policy.load(tmp_path / "run")
    assert Policy.load(tmp_path / "run" / "policy-PPO.safetensors").act is not None
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match=r"There is no file .*policy\.safetensors\.$"):
        Policy.load(tmp_path / "empty")
    (tmp_path / "run").rename(tmp_path / "empty" / "seed-0")
    with pytest.raises(CheckpointError, match=r"There is no file .*There are .*seed-0/policy-DQN\.safetensors"):
        Policy.load(tmp_path / "empty")


def test_a_run_says_how_far_it_is() -> None:
    run = PPO(env="CartPole-v1", num_workers=1, num_envs=2, fragment=32).run(stop=Stop(env_steps=128))
    assert repr(run) == "<TrainingRun: PPO on CartPole-v1, local, seed 0; not begun>"
    with run:
        next(run)
        assert re.fullmatch(r"<TrainingRun: .*; 6\d env steps(, mean return [\d.]+)?>", repr(run))
        run.finish()
    assert re.fullmatch(r"<TrainingRun: .*; 1\d\d env steps, mean return [\d.]+; ended by 128 env steps>", repr(run))
