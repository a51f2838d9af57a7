"""Cells of the proof that algorithms learn: what is written, that it is made once, and what the table says of it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import adapting, curves, learn
from benchmarks.learn import Cell
from benchmarks.pixels import Network
from tflow.algos import PPO

WORDS = "ppo --num-envs 2 --fragment 32 --model MLP((8,))"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cells = {"easy": Cell(WORDS, 1.0, 60, 50), "hard": Cell(WORDS, 1e9, 0.001, 50)}
    for module in (learn, curves):
        monkeypatch.setattr(module, "CELLS", cells)
        monkeypatch.setattr(module, "CURVES", tmp_path)
    monkeypatch.setattr(learn, "EPISODES", 2)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["learn", *words])
    learn.main()


def test_a_cell_is_made_once_and_counted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in ("0", "1"):
        run(monkeypatch, "easy", "--seed", seed)
    run(monkeypatch, "hard")
    assert "NOT reached: hard-local-0.csv" in capsys.readouterr().out
    before = (folder / "easy-local-0.csv").read_text()
    assert before.splitlines()[0] == "seconds,env_steps,updates,return,evaluation,reached"
    assert before.splitlines()[-1].endswith(",1")
    run(monkeypatch, "easy", "--seed", "0")
    assert capsys.readouterr().out == "easy-local-0.csv is there already\n"
    assert (folder / "easy-local-0.csv").read_text() == before
    easy, hard = curves.learned_table().splitlines()[2:]
    assert f"| `tflow train {WORDS}` | local | 1 | 2 of 2 |" in easy
    assert "| 0 of 1 | - | - |" in hard


def test_curves_are_drawn_for_what_is_there(folder: Path, tmp_path: Path) -> None:
    header = "seconds,env_steps,updates,return,evaluation,reached\n"
    for runtime, seed, last in (("local", 0, 9), ("local", 1, 5), ("ray", 0, 7)):
        rows = f"1.0,100,1,1.0,2.0,0\n2.0,200,2,2.0,{last},1\n"
        (folder / f"easy-{runtime}-{seed}.csv").write_text(header + rows)
    picture = tmp_path / "curves.svg"
    curves.draw(picture)
    drawn = picture.read_text()
    assert all(f">{text}<" in drawn for text in ("easy", "local, 2 seeds", "ray, 1 seeds"))
    assert ">hard<" not in drawn
    curves.draw(tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == drawn, "so that it changes only when results do"


def test_meta_learning_is_compared_with_a_policy_of_the_same_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapting, "TASKS", 2)
    env = adapting.AnyGoal(num_envs=2, horizon=5)
    env.reset(seed=0)
    assert env.task is not None
    goals = {tuple(goal) for goal in env.task}
    for step in range(1, 11):
        env.step(np.zeros((2, 2), np.float32))
        goals |= {tuple(goal) for goal in env.task}
        assert len(goals) == 2 + 2 * (step // 5), "every episode has another goal, and only that"
    run = adapting.Pretraining(num_workers=1, num_envs=2, fragment=8).run()
    next(run)
    weights = run.policy().flat.get()
    before, after = adapting.judged(weights, seed=0)
    assert before < after < 0, "even one step from nearly nothing helps"
    assert adapting.judged(weights, seed=0) == (before, after), "on the same goals"


def test_a_game_of_pictures_is_one_that_the_network_sees() -> None:
    PPO(env="benchmarks.pixels:MinAtar/Breakout-v1", model=Network).check()
