"""Cells of the proof that algorithms learn: what is written, that it is made once, and what the table says of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import curves, learn
from benchmarks.learn import Cell

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
