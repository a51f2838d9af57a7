"""Seeds in parallel: real processes, each in its folder; one that fails, and Ctrl-C."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
from pathlib import Path

from tests.commands.conftest import Typed
from tests.commands.test_train import QUICK, SCRIPT, tflow
from tflow.commands.parallel import without_own

SEEDS = ("--seeds", "0..2", "--jobs", "2", "--stop-steps", "200", "--eval-every", "none", *QUICK)


def test_each_seed_has_its_folder_and_one_that_fails_stops_no_other(tmp_path: Path) -> None:
    """Seed 1 fails: there is a file where its folder should be."""
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "seed-1").write_text("in the way")
    done = tflow("train", "ppo", *SEEDS, "--out", "all", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "2 of 3 seeds have finished." in done.stdout
    assert "seed 1 failed: Cannot make the run folder" in done.stdout
    with (tmp_path / "all" / "seeds.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["seed"] for row in rows] == ["0", "2"]
    assert all(float(row["env steps"]) >= 200 and float(row["return"]) > 0 for row in rows)
    for seed in (0, 2):
        assert json.loads((tmp_path / "all" / f"seed-{seed}" / "run.json").read_text())["seed"] == seed
        assert "PPO on CartPole-v1" in (tmp_path / "all" / f"seed-{seed}.log").read_text()


def test_ctrl_c_saves_and_ends_them_all(tmp_path: Path) -> None:
    words = ("train", "ppo", "--seeds", "3,4", "--jobs", "2", "--stop-steps", "1_000_000_000", "--out", "all", *QUICK)
    with subprocess.Popen([str(SCRIPT), *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seen = ""
        for line in process.stdout:  # until both have written metrics
            seen += line
            if line.count("env steps") == 2:
                process.send_signal(signal.SIGINT)
                break
        seen += process.stdout.read()
        assert process.wait(120) == 130, seen
    for seed in (3, 4):
        found = json.loads((tmp_path / "all" / f"seed-{seed}" / "run.json").read_text())
        assert found["status"] == "interrupted"
        assert list((tmp_path / "all" / f"seed-{seed}" / "checkpoints").iterdir())
    assert "0 of 2 seeds have finished." in seen


def test_what_cannot_be_is_said(typed: Typed) -> None:
    for words, said in (
        (("--jobs", "2"), "--jobs runs several seeds at a time; say which, such as --seeds 0..4.\n"),
        (("--seeds", "0..1", "--jobs", "none"), "--jobs must be a whole number, at least 1; got 'none'.\n"),
    ):
        assert typed("train", "ppo", *words)[::2] == (2, said)
    assert without_own(["--seeds=1", "--out", "x", "ppo"]) == ["ppo"]
