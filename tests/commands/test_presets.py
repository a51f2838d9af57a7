"""Presets: data that fits its algorithms, taken by ``tflow train`` where nothing else is said, and told."""

from __future__ import annotations

import dataclasses
import shlex
import tomllib
from pathlib import Path

import pytest

from benchmarks import curves
from tests.commands.conftest import Typed
from tflow import PlanError
from tflow.algos import DQN, PPO
from tflow.algos.names import ALGORITHMS
from tflow.commands.choice import chosen
from tflow.commands.presets import flags
from tflow.presets import HERE, MEASURED, Preset, preset, preset_for, presets
from tflow.schedules import Linear


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


QUICK = ("--stop-steps", "10", "--plain", "--out", "run")


@pytest.mark.parametrize("each", presets(), ids=lambda each: f"{each.algo}-{each.env}")
def test_every_preset_is_a_configuration_that_differs_from_the_defaults(each: Preset) -> None:
    made, usual = each.algorithm(), ALGORITHMS[each.algo]()
    assert made.env == each.env
    for name in each.fields:
        assert getattr(made, name) != getattr(usual, name), f"{name} is the default"


def test_every_file_belongs_to_an_algorithm() -> None:
    assert {path.stem for path in HERE.glob("*.toml")} - {MEASURED.stem} == {each.algo for each in presets()}
    assert {"CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1", "LunarLander-v3"} <= {each.env for each in presets()}


def test_what_was_measured_is_what_the_cells_say() -> None:
    assert tomllib.loads(MEASURED.read_text()) == tomllib.loads(curves.measured()), "run python -m benchmarks.curves"


def test_a_preset_fills_in_what_was_not_said() -> None:
    assert chosen(["ppo"]).algorithm == preset("ppo", "CartPole-v1")
    assert chosen(["ppo", "--preset", "none"]).algorithm == PPO()
    found = chosen(["ppo", "--lr", "0.5", "--env", "CartPole-v1"]).algorithm
    expected = preset("ppo", "CartPole-v1")
    assert isinstance(expected, PPO)
    assert isinstance(expected.lr, Linear)
    assert found == dataclasses.replace(expected, lr=0.5)
    assert chosen(["dqn", "--preset", "LunarLander-v3"]).algorithm == dataclasses.replace(
        preset("dqn", "LunarLander-v3"), env=DQN().env
    )
    assert chosen(["dqn", "--env", "Taxi-v3"]).algorithm == DQN(env="Taxi-v3")


def test_a_module_before_the_id_does_not_matter() -> None:
    assert preset_for("ppo", "benchmarks.pixels:MinAtar/Breakout-v1") is preset_for("ppo", "MinAtar/Breakout-v1") is not None
    assert preset_for("ppo", PPO) is None


def test_a_preset_is_told_unless_it_changes_nothing(typed: Typed) -> None:
    code, out, _ = typed("train", "ppo", *QUICK)
    assert code == 0
    assert "With the preset for CartPole-v1 (--preset none for the defaults).\n" in out
    for number, words in enumerate((("--preset", "none"), ("--env", "Acrobot-v1"))):
        code, out, _ = typed("train", "ppo", *QUICK[:-1], f"other-{number}", *words)
        assert code == 0
        assert "preset" not in out
    code, out, _ = typed("train", "--config", "run/config.toml", *QUICK[2:-1], "again")
    assert code == 0
    assert "preset" not in out, "the file has all fields"
    assert chosen([], file=Path("run/config.toml")).algorithm == preset("ppo", "CartPole-v1")


def test_presets_are_listed(typed: Typed) -> None:
    code, out, _ = typed("presets", "dqn")
    assert code == 0
    assert '--model "MLP((256, 256))"' in out
    assert "--no-normalize-obs" in out
    assert "sac" not in out
    assert all(each.env in typed("presets")[1] for each in presets())


@pytest.mark.parametrize("each", presets(), ids=lambda each: f"{each.algo}-{each.env}")
def test_what_is_listed_can_be_typed(each: Preset) -> None:
    typed = chosen([each.algo, "--env", each.env, *shlex.split(flags(each))], {"preset": "none"})
    assert typed.algorithm == chosen([each.algo, "--env", each.env], {"preset": each.env}).algorithm


@pytest.mark.parametrize(
    ("algo", "env", "message"),
    [
        ("ppo", "Cartpole-v1", "There is no preset of ppo for 'Cartpole-v1'. Did you mean CartPole-v1?"),
        ("maml", "CartPole-v1", "There are no presets for 'maml'. There are some for "),
    ],
)
def test_a_preset_that_is_not_there(algo: str, env: str, message: str, typed: Typed) -> None:
    with pytest.raises(PlanError, match=message.replace("?", r"\?")):
        preset(algo, env)
    code, _, err = typed("train", algo, "--preset", env)
    assert code == 2
    assert message in err


@pytest.mark.parametrize(
    ("words", "every"),
    [
        (("ppo",), 25_000),
        (("ppo", "--stop-steps", "1_000_000"), 50_000),
        (("ppo", "--stop-steps", "10"), 5_000),
        (("ppo", "--eval-every", "7"), 7),
        (("ppo", "--eval-every", "none"), None),
        (("maml",), None),
    ],
)
def test_evaluations_are_on_by_default(words: tuple[str, ...], every: int | None) -> None:
    choice = chosen(words)
    assert choice.eval_every == every
    assert choice.run.eval_episodes == 20
