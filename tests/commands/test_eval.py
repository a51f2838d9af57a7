"""``tflow eval``: run folders of algorithms and of plans, policy files, other envs, own models."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from tflow import (
    ApplyGradients,
    ComputeGradients,
    Metrics,
    ParallelRollouts,
    Plan,
    Policy,
    ReportMetrics,
    RunFolder,
    Stop,
    cli,
    create_rollout_workers,
    evaluate,
    train,
)
from tflow.algos import PPO
from tflow.commands.evaluate import evaluate_asked
from tflow.commands.targets import Asked
from tflow.data import Episodes
from tflow.envs import EnvSpec
from tflow.loading import find
from tflow.losses import A3CLoss
from tflow.models import MLP

OWN = """
import gymnasium
from torch import nn

class Net(nn.Linear):
    features = 5
    def __init__(self, space):
        super().__init__(4, 5)

def short():
    return gymnasium.make("CartPole-v1", max_episode_steps=7)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_eval", raising=False)
    (tmp_path / "own_eval.py").write_text(OWN)
    return tmp_path


def plan(env: Any = "CartPole-v1", model: Any = "auto") -> Plan[Metrics]:  # Any: an env or a model, as plans take them
    workers = create_rollout_workers(env=env, loss=A3CLoss(), num_workers=1, num_envs=2, fragment=16, model=model)
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    return ReportMetrics(grads.for_each(ApplyGradients(workers)), workers)


def trained(path: str, env: Any = "CartPole-v1", model: Any = "auto") -> Path:  # Any: as above
    train(plan(env, model), stop=Stop(updates=3), callbacks=[RunFolder(path)]).finish()
    assert not (Path(path) / "config.toml").exists()
    return Path(path)


def asked(path: Path, **options: Any) -> Episodes:  # Any: those of Asked
    (found,) = evaluate_asked(Asked(path, **options), episodes=3, seed=2).values()
    return found


# --------------------------------------------------------------------------- plans that no algorithm made


def test_the_folder_of_a_plan_says_its_env() -> None:
    limited = EnvSpec("CartPole-v1", max_episode_steps=6)
    folder = trained("plan", limited)
    assert asked(folder).lengths == (6, 6, 6)
    assert asked(folder) == asked(folder / "policy.safetensors") == evaluate(Policy.load(folder), limited, episodes=3, seed=2)
    assert asked(folder, env="CartPole-v1").lengths != (6, 6, 6)


def test_the_folder_of_a_plan_says_where_its_own_env_and_model_are(monkeypatch: pytest.MonkeyPatch) -> None:
    env, model = find("own_eval.py:short"), find("own_eval.py:Net")
    folder = trained("plan", env, model)
    assert asked(folder).lengths == (7, 7, 7)
    monkeypatch.delitem(sys.modules, "own_eval")
    (Path.cwd() / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert asked(Path("..") / folder).lengths == (7, 7, 7)


def test_the_folder_of_a_plan_has_copies_of_files_that_have_gone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = trained("plan", find("own_eval.py:short"), find("own_eval.py:Net"))
    monkeypatch.delitem(sys.modules, "own_eval")
    Path("own_eval.py").unlink()
    assert asked(folder).lengths == (7, 7, 7)
    assert "Its copy in the run folder is taken: plan/source/own_eval.py." in caplog.text


def test_what_cannot_be_written_is_named_again() -> None:
    folder = trained("plan", lambda: gymnasium.make("CartPole-v1"), lambda space: find("own_eval.py:Net")(space))  # type: ignore[operator]  # it is a class
    assert asked(folder, env="own_eval.py:short", model="own_eval.py:Net").lengths == (7, 7, 7)


# --------------------------------------------------------------------------- of algorithms


def algorithm(path: str, **options: Any) -> Path:  # Any: fields of PPO
    made = PPO(**{"num_workers": 1, "num_envs": 2, "fragment": 16, "model": MLP((8,)), **options})
    made.run(stop=Stop(updates=8), callbacks=[RunFolder(path)], eval_every=32, eval_episodes=2).finish()
    return Path(path)


def test_a_file_of_a_run_folder_and_another_env() -> None:
    folder = algorithm("run")
    for name, best in (("policy", False), ("best", True)):
        file = folder / f"{name}.safetensors"
        assert asked(folder, best=best) == asked(file) == evaluate(Policy.load(file), "CartPole-v1", episodes=3, seed=2)
        assert asked(file, env="own_eval.py:short").lengths == (7, 7, 7)
        assert asked(folder, best=best, env="EnvSpec('CartPole-v1', max_episode_steps=5)").lengths == (5, 5, 5)


def test_the_model_of_a_run_is_that_of_its_files() -> None:
    folder = algorithm("run", model=find("own_eval.py:Net"))
    policy = Policy.load(folder, model=find("own_eval.py:Net"))  # type: ignore[arg-type]  # it is a class
    assert asked(folder) == asked(folder / "policy.safetensors") == evaluate(policy, "CartPole-v1", episodes=3, seed=2)


def test_a_configuration_with_something_that_cannot_be_written() -> None:
    folder = algorithm("run", env=lambda: gymnasium.make("CartPole-v1"))
    assert asked(folder, env="own_eval.py:short").lengths == (7, 7, 7)


def test_a_lone_file_beside_the_configuration_of_another_program() -> None:
    Policy.load(algorithm("run")).save("alone/any-name")
    Path("alone/config.toml").write_text("[tool]\nname = 'x'\n")
    Path("alone/run.json").write_text("[]")
    assert asked(Path("alone/any-name"), env="own_eval.py:short").lengths == (7, 7, 7)


# --------------------------------------------------------------------------- as it is typed


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    def run(*words: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", ["tflow", "eval", *words])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        assert not left.value.code, err
        return out.splitlines()[1].split()

    return run


def test_actions_are_deterministic_unless_it_is_said_otherwise(typed: Callable[..., list[str]]) -> None:
    trained("plan")
    best = typed("plan", "--episodes", "4")
    assert best[0] == "4"
    assert typed("plan", "--episodes", "4", "--deterministic") == best
    sampled = typed("plan", "--episodes", "4", "--no-deterministic")
    wanted = evaluate(Policy.load("plan"), "CartPole-v1", episodes=4, deterministic=False)
    assert sampled[1] == f"{wanted.mean_return:.1f}"
    assert sampled != best


def test_options_reach_the_evaluation(typed: Callable[..., list[str]]) -> None:
    folder = trained("plan", "CartPole-v1", find("own_eval.py:Net"))
    (folder / "policy.safetensors").rename("lone.safetensors")
    words = ("lone.safetensors", "--env", "own_eval.py:short", "--model", "own_eval.py:Net")
    assert typed(*words, "--episodes", "2") == ["2", "7.0", "0.0", "7.0", "7.0", "7.0"]
