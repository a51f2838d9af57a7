"""Cells of the proof that algorithms learn: what is written, that it is made once, and what the table says of it."""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

from benchmarks import adapting, curves, learn
from benchmarks.learn import Cell, Task
from benchmarks.pixels import Network
from tflow.algos import PPO

EASY = Task("CartPole-v1", 20.0, episodes=2)
ALGO = "ppo --num-envs 2 --fragment 32 --model MLP((8,)) --preset none"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cells = {"one": Cell(ALGO, EASY, 4_000, 500, 1_000, seeds=2), "other": Cell(ALGO, Task("Acrobot-v1", -500), 4_000, seeds=1)}
    for module in (learn, curves):
        monkeypatch.setattr(module, "CELLS", cells)
        monkeypatch.setattr(module, "CURVES", tmp_path)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["learn", *words])
    learn.main()


def test_a_cell_runs_to_its_budget_and_is_made_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "one", "--seed", "1")
    before = (folder / "one-local-1.csv").read_text()
    header, *rows = before.splitlines()
    assert header == "seconds,env_steps,updates,return,evaluation"
    assert len(rows) == learn.EVALUATIONS
    assert 4_000 <= int(rows[-1].split(",")[1]) < 4_200
    capsys.readouterr()
    run(monkeypatch, "one", "--seed", "1")
    assert capsys.readouterr().out == "one, seed 1: it is there already\n"
    assert (folder / "one-local-1.csv").read_text() == before


def test_all_cells_get_one_seed_before_the_next_and_go_on_after_a_failure(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, ...]] = []

    def made(command: tuple[str, ...], *, check: bool) -> CompletedProcess[str]:
        asked.append(command[3:])
        return CompletedProcess(command, returncode=int(command[3] == "maml"))

    monkeypatch.setattr("subprocess.run", made)
    (folder / "one-local-0.csv").write_text("there")
    run(monkeypatch, "--all", "--runtime", "local")
    assert [(name, int(seed)) for name, _, seed, *_ in asked] == [
        ("other", 0),
        ("maml", 0),
        ("one", 1),
        ("maml", 1),
        ("maml", 2),
    ]
    assert capsys.readouterr().out.endswith("Failed: maml 0 local, maml 1 local, maml 2 local\n")


def test_the_table_tells_the_end_and_the_worst_after_the_first_success(folder: Path) -> None:
    header = "seconds,env_steps,updates,return,evaluation\n"
    (folder / "one-local-0.csv").write_text(header + "1,1000,1,1,450\n2,1500,2,2,90\n3,3950,3,2,400\n4,4000,3,2,500\n")
    (folder / "one-local-1.csv").write_text(header + "1,1000,1,1,30\n2,4000,2,2,40\n")
    (row,) = curves.learned_table().splitlines()[2:]
    assert "| 4,000 | 500, 40 | 245 [40..450] | 404 | 90 | 500 at 1,000 | 3 ± 1 |" in row


def test_the_interquartile_mean_leaves_out_the_extremes() -> None:
    assert curves.summary([1e9, 3.0, 2.0, 4.0, -1e9]).startswith("3 [")
    assert curves.summary([7.0, 7.0, 7.0]) == "7 [7..7]"
    assert curves.summary([7.0]) == "7"


def test_curves_are_drawn_for_what_is_there(folder: Path, tmp_path: Path) -> None:
    header = "seconds,env_steps,updates,return,evaluation\n"
    for runtime, seed, last in (("local", 0, 9), ("local", 1, 5), ("ray", 0, 7)):
        rows = f"1.0,100,1,1.0,2.0\n2.0,200,2,2.0,{last}\n"
        (folder / f"one-{runtime}-{seed}.csv").write_text(header + rows)
    picture = tmp_path / "curves.svg"
    curves.draw(picture)
    drawn = picture.read_text()
    assert all(f">{text}<" in drawn for text in ("one", "local, 2 seeds", "ray, 1 seeds"))
    assert ">other<" not in drawn
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
