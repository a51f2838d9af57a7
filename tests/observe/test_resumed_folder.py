"""Run folders of runs that were killed, and go on: no row is lost or doubled, the best policy stays, and nothing bars the way."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from tflow import Metrics, Policy, RunFolder, Stop
from tflow.algos import PPO, ApeXSAC, Callback, SinglePolicy, TrainingRun
from tflow.commands.runs import Interrupted, saved_on_signals
from tflow.envs import EnvSpec
from tflow.models import MLP
from tflow.observe.loggers import HowFar, cut
from tflow.observe.recordings import next_recording, recordings_in
from tflow.state.folders import checkpoints_in, read_manifest

SMALL = PPO(num_envs=2, fragment=16, epochs=1, minibatch=32, model=MLP((8,)))

ASYNC = ApeXSAC(
    num_envs=2, fragment=8, model=MLP((8,)), batch=8, learning_starts=50, capacity=200, update_ratio=0.25, num_replay=2, n_step=1,
    env=EnvSpec("Pendulum-v1", max_episode_steps=20),
)  # fmt: skip


def steps_of(folder: Path) -> list[tuple[str, str]]:
    """Env steps and the evaluation of each row; those of both files, which are the same."""
    with (folder / "metrics.csv").open(newline="") as file:
        rows = [(row["env_steps"], row["evaluation/weights_at"]) for row in csv.DictReader(file)]
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert rows == [(str(each["env_steps"]), str(each.get("evaluation/weights_at", ""))) for each in lines]
    return rows


class KilledAt(Callback):
    """Copies the folder as a kill would leave it, after so many reports."""

    def __init__(self, folder: Path, report: int, copy: Path) -> None:
        self.folder, self.report, self.copy, self.seen = folder, report, copy, 0

    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        self.seen += 1
        if self.seen == self.report:
            shutil.copytree(self.folder, self.copy)


@pytest.mark.parametrize(("algorithm", "report"), [*((SMALL, n) for n in range(3, 9)), *((ASYNC, n) for n in range(20, 60, 4))])
def test_rows_after_the_checkpoint_are_written_again_and_once(algorithm: SinglePolicy, report: int, tmp_path: Path) -> None:
    """Also those of evaluations, which come without env steps; and the weights are those of the run that was not killed."""

    def run(folder: str, *others: Callback, resume: Path | None = None) -> TrainingRun:
        keeper = RunFolder(tmp_path / folder, log_every_s=0, checkpoint_every="60")
        stop = Stop(env_steps=400)
        found = algorithm.run(stop=stop, callbacks=[keeper, *others], eval_every=60, eval_episodes=1, seed=3, resume=resume)
        found.finish()
        return found

    run("whole", KilledAt(tmp_path / "whole", report, tmp_path / "killed"))
    run("killed", resume=tmp_path / "killed")
    assert steps_of(tmp_path / "killed") == steps_of(tmp_path / "whole")
    for name in ("policy", "best"):
        mine, others = (Policy.load(tmp_path / folder / f"{name}.safetensors") for folder in ("killed", "whole"))
        np.testing.assert_array_equal(mine.flat.get(), others.flat.get())


def test_rows_that_were_cut_off_are_left_out(tmp_path: Path) -> None:
    table, lines = tmp_path / "metrics.csv", tmp_path / "metrics.jsonl"
    table.write_bytes(b"env_steps,updates,return\n10,1,2.5\n20,2,\xff\n30,3,1,7\nx,4,1\n,,\n400,4,2\n4")
    lines.write_bytes(b'{"env_steps": 10, "updates": 1}\n{"env_steps": 20, "upd\xff}\n[1]\n{"env_steps": "x"}\n{"env_steps": 4')
    cut(table, lines, HowFar(100, 10, 0))
    assert [row.split(",")[0] for row in table.read_text().splitlines()] == ["env_steps", "10", "20", ""]
    assert lines.read_text() == '{"env_steps": 10, "updates": 1}\n'


def test_the_best_policy_that_came_after_the_checkpoint_stays_the_best(tmp_path: Path) -> None:
    def run(updates: int, resume: Path | None = None) -> None:
        keeper = RunFolder(tmp_path / "run", checkpoint_every="100000")
        SMALL.run(stop=Stop(updates=updates), callbacks=[keeper], eval_every=32, eval_episodes=1, resume=resume).finish()

    run(4)
    status, best = tmp_path / "run" / "run.json", (tmp_path / "run" / "best.safetensors").read_bytes()
    found = json.loads(status.read_text())
    status.write_text(json.dumps({**found, "status": "killed", "best_chosen_by": 1e6}))
    run(8, resume=tmp_path / "run")
    assert (tmp_path / "run" / "best.safetensors").read_bytes() == best
    assert json.loads(status.read_text())["best_chosen_by"] == 1e6


class Interrupts(Callback):
    """Ends the run before its first report."""

    def started(self, run: TrainingRun) -> None:
        run.interrupt(KeyboardInterrupt())


def test_a_checkpoint_that_a_recording_begins_at_is_not_written_over(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    SMALL.run(stop=Stop(updates=3), callbacks=[RunFolder(folder)], record=next_recording(folder)).finish()
    (first,) = checkpoints_in(folder / "checkpoints")
    saved_at = read_manifest(first)["saved_at"]
    for _ in range(2):
        run = SMALL.run(callbacks=[RunFolder(folder), Interrupts()], record=next_recording(folder), resume=folder)
        with pytest.raises(KeyboardInterrupt):
            run.finish()
        assert run.metrics is not None, "it knows how far it was"
    names = [each.name for each in checkpoints_in(folder / "checkpoints")]
    assert names == [first.name, f"{first.name}-2", f"{first.name}-3"]
    assert read_manifest(first)["saved_at"] == saved_at
    assert [each.checkpoint for each in recordings_in(folder)] == [None, *(folder / "checkpoints" / name for name in names[:2])]


def test_a_second_signal_while_a_run_ends_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(*_: object) -> None:
        raise KeyboardInterrupt

    run = SMALL.run(callbacks=[RunFolder(tmp_path / "run", save_every_s=1e9)])
    next(run)
    monkeypatch.setattr(RunFolder, "_save", save)
    run.interrupt(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt) as ended:
        run.finish()
    assert not getattr(ended.value, "__notes__", ())
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "interrupted"


class Dies:
    """Is ended by a signal where Python can raise nothing."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        sum(range(10))  # the handler runs here


def test_a_second_signal_where_nothing_can_be_raised_ends_the_run_soon(capfd: pytest.CaptureFixture[str]) -> None:
    run = SMALL.run()
    with pytest.raises(Interrupted, match="SIGTERM"), saved_on_signals(run):  # and not the clock that ends it
        os.kill(os.getpid(), signal.SIGTERM)
        Dies()
        signal.pause()
    run.close()
    assert capfd.readouterr().err == "SIGTERM: the run is saved, then it ends. Once more ends it at once.\n"
