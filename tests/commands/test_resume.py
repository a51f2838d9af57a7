"""``tflow train --resume``: a run that was stopped, interrupted or killed goes on, in real processes."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.commands.conftest import Typed
from tests.commands.test_train import OWN, QUICK, SCRIPT, tflow_here
from tflow import Policy, RunFolder
from tflow.algos import TrainingRun
from tflow.observe.status import read_status
from tflow.settings.files import read_file
from tflow.state import folders
from tflow.state.folders import checkpoints_in

TRAIN = ("train", "ppo", *QUICK, "--eval-every", "500", "--eval-episodes", "2", "--plain")


def weights(folder: Path) -> bytes:
    return np.asarray(Policy.load(folder / "policy.safetensors").flat.get()).tobytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_run_that_was_ended_goes_on_as_if_it_had_not_been(
    tmp_path: Path, number: signal.Signals, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [str(SCRIPT), *TRAIN, "--out", "run", "--save-every", "200"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as started:
        try:
            assert started.stdout is not None
            next(line for line in started.stdout if "env steps" in line)
            started.send_signal(number)
            started.communicate(timeout=60)
        finally:
            started.kill()
    assert started.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    run = tmp_path / "run"
    assert read_status(run)["status"] == ("killed" if number == signal.SIGKILL else "interrupted")
    reached = int(checkpoints_in(run / "checkpoints")[-1].name)
    until = str(reached + 500)
    monkeypatch.chdir(tmp_path)
    code, _, err = typed("train", "--resume", "run", "--stop-steps", until, "--plain")
    assert (code, err) == (0, "")
    assert typed(*TRAIN, "--out", "whole", "--stop-steps", until)[0] == 0
    assert weights(run) == weights(tmp_path / "whole")
    assert json.loads((run / "run.json").read_text())["status"] == "finished"
    with (run / "metrics.csv").open() as file:
        steps = [int(row["env_steps"]) for row in csv.DictReader(file)]
    assert steps == sorted(steps), "rows of what was lost are gone"


def test_a_finished_run_goes_on_with_a_new_end_and_says_so_without_one(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert typed(*TRAIN, "--out", "run", "--stop-steps", "300")[0] == 0
    code, _, err = typed("train", "--resume", "run")
    assert code == 2
    assert err == "--resume: the run in run has finished: 300 env steps. Say how far it goes on, such as --stop-steps 1000000.\n"
    code, out, _ = typed("train", "--resume", "run", "--stop-steps", "600", "--plain")
    assert code == 0
    assert "Reached 600 env steps" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--resume", "nowhere"), "--resume: nowhere does not exist."),
        (("--resume", "empty"), "--resume: empty has no config.toml, so tflow train has not written it."),
        (("--resume", "run", "--seed", "3"), "--resume takes the settings of its run; leave out --seed."),
        (("--resume", "run", "--stop-steps", "900", "--lr", "0.1"), "is of another plan"),
        (("ppo", "--save-every", "soon"), "save_every must be a time such as 30s, 5m or 2h, or a number of env steps"),
        (
            ("--resume", "bare", "--stop-steps", "900"),
            "There is no checkpoint in bare: it ended before one was written. tflow train --config bare/config.toml starts again",
        ),
        (("--resume", "run", "--stop-steps", "10"), "env steps already, and --stop-steps 10 is not beyond that."),
    ],
)
def test_sentences(tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    typed(*TRAIN, "--out", "run", "--stop-steps", "100")
    typed(*TRAIN, "--out", "bare", "--stop-steps", "100", "--save-every", "none")
    code, _, err = typed("train", *words)
    assert code == 2
    assert said in err


def test_a_run_without_a_checkpoint_does_not_offer_to_go_on(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(folders, "_write", full)
    code, out, _ = typed(*TRAIN, "--out", "run", "--stop-steps", "100")
    assert code == 0
    assert "tflow eval run" in out
    assert "--resume" not in out


def test_a_run_that_still_runs_is_not_resumed(tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert typed(*TRAIN, "--out", "run", "--stop-steps", "300")[0] == 0
    status = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps({**status, "status": "running"}))  # this very process
    code, _, err = typed("train", "--resume", "run", "--stop-steps", "600")
    assert (code, err) == (2, f"--resume: the run in run is still running, as process {os.getpid()}. End it first.\n")
    for until, other in (
        ("600", {"process_began": "1"}),
        ("900", {"host": "elsewhere"}),
    ):  # another process with that number, another machine
        (tmp_path / "run" / "run.json").write_text(json.dumps({**status, "status": "running", **other}))
        assert read_status(tmp_path / "run")["status"] == ("killed" if "process_began" in other else "running")
        assert typed("train", "--resume", "run", "--stop-steps", until, "--plain")[0] == 0


def test_interrupted_before_the_first_report(tmp_path: Path) -> None:
    command = [str(SCRIPT), "train", "ppo", "--num-envs", "64", "--fragment", "4000", "--out", "run", "--plain"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as started:
        try:
            assert started.stdout is not None
            next(line for line in started.stdout if "CartPole" in line)
            started.send_signal(signal.SIGTERM)
            out, _ = started.communicate(timeout=120)
        finally:
            started.kill()
    assert started.returncode == 143
    assert "Interrupted before the first report: nothing has been learned yet." in out
    assert (tmp_path / "run" / "policy.safetensors").exists()
    assert checkpoints_in(tmp_path / "run" / "checkpoints")


def test_settings_and_the_best_policy_outlive_a_resume(tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    typed(*TRAIN, "--out", "first", "--stop-steps", "300")
    typed(*TRAIN, "--out", "run", "--stop-steps", "1_300", "--save-every", "200", "--from", "first")
    before, best = read_file(tmp_path / "run" / "config.toml")[1], json.loads((tmp_path / "run" / "run.json").read_text())
    assert (before["save_every"], before["start_from"]) == ("200", str(tmp_path / "first"))
    assert typed("train", "--resume", "run", "--stop-steps", "1_400", "--plain")[0] == 0
    after, later = read_file(tmp_path / "run" / "config.toml")[1], json.loads((tmp_path / "run" / "run.json").read_text())
    assert {**before, "stop_steps": 0} == {**after, "stop_steps": 0}
    assert later["best_chosen_by"] >= best["best_chosen_by"]
    assert later["best_evaluation"] is not None


def test_a_folder_that_is_taken_keeps_its_recording(tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    typed(*TRAIN, "--out", "run", "--stop-steps", "300", "--record")
    before = (tmp_path / "run" / "recording.txt").read_bytes()
    code, _, err = typed(*TRAIN, "--out", "run", "--stop-steps", "300", "--record")
    assert (code, err) == (2, "There is a run in 'run' already. Choose another folder, or remove that one.\n")
    assert (tmp_path / "run" / "recording.txt").read_bytes() == before
    assert "hashes of the weights agree" in typed("replay", "run")[1]


def test_a_resumed_run_is_recorded_from_its_checkpoint_and_repeated(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saves = ("--save-every", "100")
    assert typed(*TRAIN, "--out", "run", "--stop-steps", "300", "--record", *saves)[0] == 0
    for until in ("600", "900"):
        assert typed("train", "--resume", "run", "--stop-steps", until, "--plain", *saves)[0] == 0
    names = sorted(path.name for path in (tmp_path / "run").glob("recording*"))
    assert names == ["recording-2.txt", "recording-3.txt", "recording.txt"]
    code, out, err = typed("replay", "run")
    assert (code, err) == (0, "")
    assert out.count("the same answers in the same order") == 3, "their checkpoints were kept"
    assert typed("replay", "run", "--until", "700")[1].count("Repeated") == 1


@pytest.mark.parametrize("content", [b"", b'{"plan": "cut o', b"\xff\xfe\n", b"[1]\n"])
def test_a_recording_of_a_run_that_was_killed_at_its_start_bars_no_way(
    content: bytes, tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saves = ("--save-every", "50")
    assert typed(*TRAIN, *saves, "--record", "--out", "run", "--stop-steps", "100")[0] == 0
    (tmp_path / "run" / "recording-2.txt").write_bytes(content)
    assert typed("train", "--resume", "run", *saves, "--plain", "--stop-steps", "200")[0] == 0
    names = sorted(path.name for path in (tmp_path / "run").glob("recording*"))
    assert names == ["recording-2.txt", *([] if not content else ["recording-3.txt"]), "recording.txt"]
    code, _, err = typed("replay", "run")
    assert code == (2 if content else 0)
    assert "Traceback" not in err
    assert ("is no recording of a run" in err) == bool(content)


def test_an_interrupted_run_that_was_resumed_from_the_start_is_repeated(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is saved before its first poll."""
    monkeypatch.chdir(tmp_path)
    assert typed(*TRAIN, "--record", "--out", "run", "--stop-steps", "100")[0] == 0
    started = RunFolder.started

    def interrupted(folder: RunFolder, run: TrainingRun) -> None:
        started(folder, run)
        run.interrupt(KeyboardInterrupt())

    monkeypatch.setattr(RunFolder, "started", interrupted)
    code, out, _ = typed("train", "--resume", "run", "--plain", "--stop-steps", "200")
    assert code == 130
    assert "before the first report" not in out, "there was one before"
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert typed("train", "--resume", "run", "--plain", "--stop-steps", "300")[0] == 0
    code, out, err = typed("replay", "run")
    assert (code, err) == (0, "")
    assert out.count("the same answers in the same order") == 3


def test_a_recorded_run_with_a_time_limit_and_a_start_is_repeated(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    typed(*TRAIN, "--out", "first", "--stop-steps", "200")
    assert typed(*TRAIN, "--out", "run", "--stop-time", "600", "--stop-steps", "500", "--from", "first", "--record")[0] == 0
    assert "hashes of the weights agree" in typed("replay", "run")[1]


def test_another_plan_is_run_in_the_recorded_order(tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert typed(*TRAIN, "--preset", "none", "--out", "run", "--stop-steps", "500", "--record")[0] == 0
    (tmp_path / "changed.py").write_text(
        "from tflow.algos import PPO\nfrom tflow.models import MLP\n\n"
        "slower = PPO(num_envs=2, fragment=32, epochs=1, model=MLP((8,)), lr=1e-9)\n"
        "longer = PPO(num_envs=2, fragment=32, epochs=1, model=MLP((8,)), num_workers=3)\n"
    )
    code, out, err = typed("replay", "run", "--plan", "changed.py:slower")
    assert (code, err) == (0, "")
    assert "env steps with changed.py:slower, mean return" in out
    code, out, err = typed("replay", "run", "--plan", "changed.py:longer")
    assert (code, err) == (0, "")
    assert "Then its way parts: The run differs from the recorded one at event" in out
    code, _, err = typed("replay", "run", "--plan", "changed.py:PPO.nothing")
    assert (code, "has no" in err) == (2, True)


def test_a_run_with_schedules_relative_to_its_stop_is_repeated(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert typed(*TRAIN, "--lr", "Linear(1e-2, 0)", "--out", "run", "--stop-steps", "300", "--record")[0] == 0
    assert "hashes of the weights agree" in typed("replay", "run")[1]


def test_a_file_that_has_gone_is_taken_from_the_run_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    own = tmp_path / "gone_by_now.py"
    own.write_text(OWN)
    words = ("train", "gone_by_now.py:Mine", "--env", "gone_by_now.py:Corridor", *QUICK, "--out", "run", "--plain")
    assert tflow_here(*words, "--stop-steps", "100", cwd=tmp_path).returncode == 0
    own.unlink()
    for again in (
        ("eval", "run", "--episodes", "2"),
        ("export", "run", "-o", "policy.pt2"),
        ("graph", "run"),
        ("train", "--resume", "run", "--stop-steps", "300", "--plain"),
        ("train", "--resume", "run", "--stop-steps", "500", "--plain"),  # of a run of the copy
        ("train", "--config", "run/config.toml", "--stop-steps", "100", "--out", "other", "--plain"),
    ):
        caplog.clear()
        done = tflow_here(*again, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        if "500" not in again and "other" not in again:
            assert caplog.text.count(f"{own} is gone. Its copy in the run folder is taken: ") == 1
    assert (tmp_path / "run" / "source" / "gone_by_now.py").read_text() == OWN
    assert (tmp_path / "other" / "source" / "gone_by_now.py").read_text() == OWN
    (tmp_path / "run" / "source" / "gone_by_now.py").unlink()
    assert tflow_here("eval", "run", cwd=tmp_path).stderr.startswith("There is no file ")
