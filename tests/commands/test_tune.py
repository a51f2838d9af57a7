"""``tflow tune``: what is tried, that it goes on, that failures are told, and that its result can be trained with."""

from __future__ import annotations

import csv
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import Typed
from tflow import PlanError, Stop
from tflow.algos import PPO, SAC
from tflow.algos.fields import fields_of
from tflow.algos.names import ALGORITHMS
from tflow.commands.choice import chosen
from tflow.models import MLP
from tflow.settings.run import RunSettings
from tflow.tuning.ray import trainable
from tflow.tuning.space import Between, OneOf, asked_space, possible, usual_range, usual_space
from tflow.tuning.study import StudySearch, suggested

QUICK = (
    "ppo", "--env", "CartPole-v1", "--num-workers", "1", "--num-envs", "2", "--fragment", "32", "--epochs", "1", "--model",
    "MLP((8,))", "--stop-steps", "256", "--eval-every", "128", "--eval-episodes", "2",
)  # fmt: skip


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "trials.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_usual_range_in_the_documentation_is_data(name: str) -> None:
    """Whatever says "usually A to B" of a number gives a range, and the default lies in it or at its end."""
    kind = ALGORITHMS[name]
    space = usual_space(kind)
    for field in fields_of(kind):
        if "usually" in field.meaning and " to " in field.meaning.partition("usually")[2].partition(";")[0].partition(".")[0]:
            found = usual_range(field.meaning)
            if found is not None:
                assert found[0] < found[1], field.name
    for field_name, each in space.items():
        assert isinstance(each, Between)
        assert each.low < each.high, field_name
    if hasattr(kind, "lr"):
        lr = space["lr"]
        assert isinstance(lr, Between)
        assert lr.log == (lr.high >= 10 * lr.low)
        assert 1e-6 < lr.low < lr.high < 1


def test_usual_ranges_of_ppo_and_sac() -> None:
    ppo = usual_space(PPO)
    assert ppo["lr"] == Between(1e-4, 3e-3, log=True)
    assert ppo["gamma"] == Between(0.95, 0.999)
    assert ppo["epochs"] == Between(3, 10, whole=True)
    assert not {"env", "num_workers", "normalize", "model"} & ppo.keys()
    assert "tau" in usual_space(SAC) or "lr" in usual_space(SAC)


@pytest.mark.parametrize("name", ["ppo", "dqn", "sac", "r2d2", "apex_ddpg"])
def test_what_is_drawn_from_usual_ranges_goes_together(name: str) -> None:
    """A minibatch is within its batch, n_step within its fragment, and nothing belongs to what is left off."""
    optuna: Any = import_module("optuna")  # Any: its types are not needed
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    algorithm = ALGORITHMS[name]()
    search = StudySearch(algorithm, RunSettings(), possible(usual_space(ALGORITHMS[name]), algorithm), Path("study"), 1)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(25):
        replace(algorithm, **suggested(study.ask(), search)).plan()


def test_fields_are_left_out_only_if_nothing_lets_them_in() -> None:
    assert "sde_every" in usual_space(SAC)
    assert {"sde_every"} == usual_space(SAC).keys() - possible(usual_space(SAC), SAC()).keys()
    assert "sde_every" in possible(usual_space(SAC), SAC(sde=True))


def test_what_one_says_oneself() -> None:
    found = asked_space("lr=1e-4..1e-2:log, epochs=3..10,clip=0.1|0.2|0.3,model=MLP((8,))|MLP((16, 16)),num-envs=2|4", PPO)
    assert found == {
        "lr": Between(1e-4, 1e-2, log=True),
        "epochs": Between(3, 10, whole=True),
        "clip": OneOf((0.1, 0.2, 0.3)),
        "model": OneOf((MLP((8,)), MLP((16, 16)))),
        "num_envs": OneOf((2, 4)),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lr", "'lr' is no range"),
        ("rate=1..2", "PPO has no field 'rate'"),
        ("lr=1e-2..1e-4", "the start must be below the end"),
        ("lr=0..1:log", "above 0 with :log"),
        ("lr=a..b", "needs two numbers"),
    ],
)
def test_what_is_no_range_is_said(text: str, said: str) -> None:
    with pytest.raises(PlanError) as error:
        asked_space(text, PPO)
    assert said in str(error.value)


def test_a_study_goes_on_and_its_best_settings_can_be_trained_with(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    search = ("--search", "lr=1e-4..1e-2:log,minibatch=16|4096,clip=0.1|0.2", "--out", "study")
    code, out, err = typed("tune", *QUICK, "--trials", "3", *search)
    assert (code, err) == (0, "")
    assert "Tried: lr=0.0001..0.01:log,minibatch=16|4096,clip=0.1|0.2" in out
    assert len(rows_of(tmp_path / "study")) == 3

    code, out, err = typed("tune", *QUICK, "--trials", "8", *search)
    assert code == 0
    rows = rows_of(tmp_path / "study")
    assert len(rows) == 8
    failed = [row for row in rows if row["state"] == "fail"]
    assert {row["minibatch"] for row in failed} == {"4096"}
    assert all(row["why"].startswith("PPO: minibatch is 4,096, but a batch has") for row in failed)
    assert "  failed: PPO: minibatch is 4,096" in out, "once"
    best = max((row for row in rows if row["state"] == "complete"), key=lambda row: float(row["value"]))
    found = chosen((), {}, tmp_path / "study" / "best.toml")
    assert isinstance(found.algorithm, PPO)
    assert found.algorithm.lr == pytest.approx(float(best["lr"]))
    assert found.algorithm.minibatch == 16
    assert found.run.stop_steps == 256
    assert typed("train", "--config", "study/best.toml", "--plain", "--out", "run")[0] == 0

    code, _, err = typed("tune", *QUICK, "--trials", "8", "--search", "lr=1e-4..1e-3", "--out", "study")
    assert code == 2
    assert "has a study of something else" in err


def test_hopeless_trials_are_pruned(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = [word if word != "256" else "640" for word in QUICK]
    code, out, _ = typed("tune", *words, "--trials", "14", "--search", "gamma=0.9..0.99", "--out", "study")
    assert code == 0
    states = [row["state"] for row in rows_of(tmp_path / "study")]
    assert states[:5] == ["complete"] * 5
    assert "pruned" in states
    assert f"{states.count('pruned')} pruned" in out


def test_a_study_that_goes_on_tries_what_one_without_a_pause_tries(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for trials, folder in (("3", "paused"), ("4", "paused"), ("6", "paused"), ("6", "whole")):
        assert typed("tune", *QUICK, "--trials", trials, "--search", "lr=1e-4..1e-2:log", "--out", folder)[0] == 0
    paused, whole = ([row["lr"] for row in rows_of(tmp_path / folder)] for folder in ("paused", "whole"))
    assert paused == whole
    assert len(set(whole)) == 6, "nothing is tried twice"


@pytest.mark.full
def test_several_at_once(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = typed("tune", *QUICK, "--trials", "5", "--jobs", "2", "--search", "lr=1e-4..1e-2:log", "--out", "study")
    assert (code, err) == (0, "")
    rows = rows_of(tmp_path / "study")
    assert len(rows) == 5
    assert len({row["lr"] for row in rows}) == 5, "nothing is tried twice"


def test_if_nothing_works_it_says_why(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = typed("tune", *QUICK, "--trials", "2", "--search", "minibatch=4096|8192", "--out", "study")
    assert code == 2
    assert "2 failed" in out
    assert "No trial was completed" in err


def test_a_trainable_reports_every_evaluation() -> None:
    """Ray Tune gives such a function its values, and ``ray.tune.report`` to tell; here a list is told."""
    told: list[dict[str, float]] = []
    small = PPO(num_workers=1, num_envs=2, fragment=16, epochs=1, minibatch=32, model=MLP((8,)))
    trial = trainable(small, stop=Stop(env_steps=256), eval_every=128, eval_episodes=2, report=told.append)
    trial({"lr": 0.5})
    assert [row["training_iteration"] for row in told] == [1, 2]
    assert all(row["evaluation/return"] > 0 for row in told)
    assert told[-1]["learner/lr"] == 0.5
    with pytest.raises(PlanError, match="PPO has no field rate"):
        trial({"rate": 1})
