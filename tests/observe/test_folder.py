"""Run folders: what is in them, that it is there at every moment, and that it can be used."""

from __future__ import annotations

import csv
import json
import resource
import shutil
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tflow import (
    ApplyGradients,
    ComputeGradients,
    Metrics,
    ParallelRollouts,
    PlanError,
    Policy,
    ReportMetrics,
    RunFolder,
    Stop,
    Workers,
    create_rollout_workers,
    train,
)
from tflow.algos import PPO, PPODQN, Callback, TrainingRun
from tflow.commands.choice import chosen
from tflow.errors import CheckpointError, ShardFailed
from tflow.losses import A3CLoss
from tflow.models import MLP, ActorCriticSpec
from tflow.observe import loggers
from tflow.observe.folder import OTHER_EPISODES, fresh_folder
from tflow.rl.rollout.evaluate import evaluate
from tflow.settings.fields import configured
from tflow.settings.files import read_file
from tflow.settings.run import RunSettings
from tflow.state import folders
from tflow.state.folders import checkpoints_in, read_manifest

SMALL = PPO(num_workers=1, num_envs=2, fragment=16, epochs=1, minibatch=32, model=MLP((8,)))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def status_of(folder: Path) -> dict[str, Any]:  # Any: JSON
    found: dict[str, Any] = json.loads((folder / "run.json").read_text())  # Any: JSON
    return found


def test_everything_is_there_and_can_be_used(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "mine"
    run = SMALL.run(stop=Stop(updates=8), callbacks=[RunFolder(folder, log_every_s=0)], eval_every=64, eval_episodes=2, seed=3)
    seen = list(run)

    assert configured(PPO, read_file(folder / "config.toml")[0]) == SMALL
    assert (folder / "plan.txt").read_text().startswith(f"{run.run.plan}\nmessages\n")
    drawn = ET.fromstring((folder / "plan.svg").read_text())
    words = " ".join("".join(each.itertext()) for each in drawn.iter())
    assert "PPO on CartPole-v1" in words
    assert "ParallelEvaluations" in words

    rows = rows_of(folder / "metrics.csv")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) == len(lines) == len(seen)
    for row, line, metrics in zip(rows, lines, seen, strict=True):
        found = metrics.flat()
        del found["seconds"], row["seconds"]  # by the clock of the folder
        assert float(row["env_steps"]) == line["env_steps"] == metrics.env_steps
        for name, value in found.items():
            assert float(row[name]) == pytest.approx(value, rel=1e-9, nan_ok=True)
            assert line[name] == pytest.approx(value) if np.isfinite(value) else line[name] is None
        assert all(row[name] == "" for name in row.keys() - found.keys()), "what was not known then"

    status = status_of(folder)
    assert (status["status"], status["outcome"], status["seed"]) == ("finished", "8 updates", 3)
    assert status["metrics"]["updates"] == 8
    assert status["fingerprint"] == run.run.plan.fingerprint
    assert np.array_equal(Policy.load(folder / "policy.safetensors").flat.get(), run.policy().flat.get())
    assert Policy.load(folder / "best.safetensors").act([0.0, 0.1, 0.0, -0.1]) in (0, 1)


def test_tensorboard_can_read_its_part(tmp_path: Path) -> None:
    accumulators: Any = import_module("tensorboard.backend.event_processing.event_accumulator")  # Any: it has no types
    run = SMALL.run(stop=Stop(updates=4), callbacks=[RunFolder(tmp_path / "run", log_every_s=0)])
    seen = list(run)
    events = accumulators.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("updates")]
    assert found == [(metrics.env_steps, metrics.training.updates) for metrics in seen]


def test_tensorboard_goes_on_in_a_new_file_when_one_is_full_or_gone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The limit of a file's size is that of a full disk; no thread may print what our sentence says."""
    accumulators: Any = import_module("tensorboard.backend.event_processing.event_accumulator")  # Any: it has no types
    log = loggers.TensorBoardLog(tmp_path / "tensorboard", after=0)
    log.write({"env_steps": 1.0, "return": 1.0})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            for _ in range(10):
                log.write({"env_steps": 2.0, "return": 2.0})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    log.write({"env_steps": 3.0, "return": 3.0})
    events = accumulators.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert {event.step for event in events.Scalars("return")} == {1, 2, 3}
    shutil.rmtree(tmp_path / "tensorboard")
    log.write({"env_steps": 4.0, "return": 4.0})
    log.finish({})
    events = accumulators.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("return")] == [4]
    assert "Traceback" not in capfd.readouterr().err


def test_without_tensorboard_the_rest_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    SMALL.run(stop=Stop(updates=1), callbacks=[RunFolder(tmp_path / "run")]).finish()
    assert not (tmp_path / "run" / "tensorboard").exists()
    assert len(rows_of(tmp_path / "run" / "metrics.csv")) == 1


class Interrupts(Callback):
    """Ctrl-C, or a mistake, after some reports."""

    def __init__(self, error: BaseException, after: int) -> None:
        self.error, self.after = error, after

    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        if metrics.training.updates == self.after:
            raise self.error


@pytest.mark.parametrize(
    ("error", "status", "outcome"),
    [(KeyboardInterrupt(), "interrupted", "interrupted"), (ValueError("mine"), "failed", "ValueError: mine")],
)
def test_whatever_ends_it_what_was_learned_is_kept(tmp_path: Path, error: BaseException, status: str, outcome: str) -> None:
    run = SMALL.run(callbacks=[RunFolder(tmp_path / "run", log_every_s=1e9), Interrupts(error, after=5)])
    with pytest.raises(type(error)):
        run.finish()
    found = status_of(tmp_path / "run")
    assert (found["status"], found["outcome"], found["metrics"]["updates"]) == (status, outcome, 5)
    assert [row["updates"] for row in rows_of(tmp_path / "run" / "metrics.csv")] == ["1", "5"], "the first and the last"
    assert np.array_equal(Policy.load(tmp_path / "run" / "policy.safetensors").flat.get(), run.policy().flat.get())


class Looks(Callback):
    """Reads the folder in the middle of the run: what a run that is killed leaves behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept: list[bool] = []

    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        saved = Policy.load(self.folder / "policy.safetensors")
        self.kept.append(np.array_equal(saved.flat.get(), run.policy().flat.get()))
        assert status_of(self.folder)["status"] == "running"
        assert status_of(self.folder)["metrics"]["updates"] == metrics.training.updates


def test_what_was_learned_is_saved_meanwhile(tmp_path: Path) -> None:
    looks = Looks(tmp_path / "run")
    SMALL.run(stop=Stop(updates=3), callbacks=[RunFolder(tmp_path / "run", save_every_s=1e-9), looks]).finish()
    assert looks.kept == [True] * 3


class Judge(Callback):
    """Tells a folder of evaluations that are as good as a list says, and reads the first weight of what it keeps as the best."""

    def __init__(self, folder: RunFolder, returns: list[float]) -> None:
        self.folder, self.returns = folder, returns
        self.kept: list[float] = []

    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        for number, value in enumerate(self.returns, 1):
            evaluation = replace(metrics.evaluation, count=1, returns=(value,), lengths=(1,))
            self.folder.reported(run, replace(metrics, evaluation=evaluation, evaluations=number))
            self.kept.append(Policy.load(self.folder.path / "best.safetensors").flat.get()[0])


def test_the_best_is_kept_when_it_is_better(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = RunFolder(tmp_path / "run")
    judge = Judge(keeper, [3.0, 1.0, 5.0, 4.0, 6.0, 7.0])

    def evaluated(run: TrainingRun) -> dict[str, Policy]:
        """A policy whose weights are its return; the last one was lost with its evaluator."""
        value = judge.returns[len(judge.kept)]
        if value == 7.0:
            raise ShardFailed("dead")
        policy = run.policy()
        policy.flat.set(np.full_like(policy.flat.get(), value))
        return {"default": policy}

    monkeypatch.setattr(TrainingRun, "evaluated_policies", evaluated)
    SMALL.run(stop=Stop(updates=1), callbacks=[keeper, judge]).finish()
    assert judge.kept == [3.0, 3.0, 5.0, 5.0, 6.0, 6.0]
    assert status_of(tmp_path / "run")["best_chosen_by"] == 6.0


def test_the_best_is_reported_on_other_episodes_than_those_it_was_chosen_by(tmp_path: Path) -> None:
    keeper = RunFolder(tmp_path / "run")
    SMALL.run(stop=Stop(env_steps=600), callbacks=[keeper], eval_every=100, eval_episodes=3).finish()
    best = Policy.load(tmp_path / "run" / "best.safetensors")
    again = evaluate(best, "CartPole-v1", episodes=3, seed=OTHER_EPISODES)
    assert keeper.best_confirmed == again.mean_return != keeper.best
    status = status_of(tmp_path / "run")
    assert (status["best_chosen_by"], status["best_evaluation"]) == (keeper.best, again.mean_return)
    said = f"chosen by an evaluation of {keeper.best:.1f}; on other episodes: {again.mean_return:.1f}."
    assert keeper.best_in_words.endswith(said)


def test_a_policy_of_ones_own_kind_is_saved(tmp_path: Path) -> None:
    workers = odd_workers()
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    run = train(
        ReportMetrics(grads.for_each(ApplyGradients(workers)), workers),
        stop=Stop(updates=1),
        callbacks=[RunFolder(tmp_path / "run")],
    )
    run.finish()
    with pytest.raises(CheckpointError, match="a policy of your own class, Odd, and files hold no code"):
        Policy.load(tmp_path / "run")
    assert np.array_equal(Policy.load(tmp_path / "run", spec=Odd()).flat.get(), run.policy().flat.get())


class Odd(ActorCriticSpec):
    """A kind of policy that files know nothing of."""


def odd_workers() -> Workers[Any, Any]:  # Any: whatever its loss reads
    return create_rollout_workers(env="CartPole-v1", loss=OddLoss(), num_workers=1)


class OddLoss(A3CLoss):
    def policy(self) -> ActorCriticSpec:
        return Odd()


def test_a_save_that_fails_is_heard_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def full(policy: Policy, path: Path) -> None:
        raise OSError("no space left")

    run = SMALL.run(callbacks=[RunFolder(tmp_path / "run", save_every_s=1e9)])
    next(run)
    monkeypatch.setattr(Policy, "save", full)
    with pytest.raises(KeyboardInterrupt), run:
        raise KeyboardInterrupt
    assert "At the end, the policy could not be written" in caplog.text
    assert "no space left" in caplog.text
    assert status_of(tmp_path / "run")["status"] == "interrupted"


def test_a_folder_is_for_one_run(tmp_path: Path) -> None:
    keeper = RunFolder(tmp_path / "run")
    SMALL.run(stop=Stop(updates=2), callbacks=[keeper]).finish()
    before = (tmp_path / "run" / "run.json").read_text()
    with pytest.raises(PlanError, match="already"):
        SMALL.run(callbacks=[keeper]).finish()
    assert (tmp_path / "run" / "run.json").read_text() == before


def test_a_folder_made_from_python_can_be_run_again(tmp_path: Path) -> None:
    stop = Stop(mean_return=9.5, env_steps=500, seconds=60)
    SMALL.run(stop=stop, callbacks=[RunFolder(tmp_path / "run")], eval_every=100, seed=4).finish()
    choice = chosen([], file=tmp_path / "run" / "config.toml")
    assert choice.algorithm == SMALL
    assert choice.run == RunSettings(algo="ppo", seed=4, stop_return=9.5, stop_steps=500, stop_time=60, eval_every=100)
    assert Policy.load(tmp_path / "run").act([0.0] * 4) in (0, 1)


def test_several_policies_have_a_file_each(tmp_path: Path) -> None:
    config = PPODQN(num_envs=2, num_workers=1, ppo_batch=64)
    config.run(stop=Stop(env_steps=200), callbacks=[RunFolder(tmp_path / "run")]).finish()
    assert sorted(path.name for path in (tmp_path / "run").glob("*.safetensors")) == [
        "policy-DQN.safetensors",
        "policy-PPO.safetensors",
    ]
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text())["ppo"]["epochs"] == 10


def test_a_plan_of_ones_own_has_a_folder_too(tmp_path: Path) -> None:
    train(SMALL.plan(), stop=Stop(updates=1), callbacks=[RunFolder(tmp_path / "run")]).finish()
    assert (tmp_path / "run" / "policy.safetensors").exists()
    assert not (tmp_path / "run" / "config.toml").exists(), "there is no configuration"


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PlanError, match=r"Cannot make the run folder .*: Not a directory"):
        SMALL.run(callbacks=[RunFolder(tmp_path / "file" / "run")]).finish()


def test_folders_are_numbered(tmp_path: Path) -> None:
    assert [fresh_folder(tmp_path / "runs", "ppo").name for _ in range(3)] == ["ppo-1", "ppo-2", "ppo-3"]


@pytest.mark.parametrize("make", [loggers.CsvLog, loggers.JsonLog])
def test_numbers_that_come_later_have_their_place(tmp_path: Path, make: Callable[[Path], loggers.Logger]) -> None:
    log = make(tmp_path / "log")
    log.write({"a": 1.0, 'b,"c': float("nan")})
    log.write({"a": 2.0, "d": 0.1})
    log.write({"d": 1e300})
    log.finish({})
    if isinstance(log, loggers.CsvLog):
        assert rows_of(tmp_path / "log") == [
            {"a": "1", 'b,"c': "nan", "d": ""},
            {"a": "2", 'b,"c': "", "d": "0.1"},
            {"a": "", 'b,"c': "", "d": "1e+300"},
        ]
    else:
        found = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
        assert found == [{"a": 1.0, 'b,"c': None}, {"a": 2.0, "d": 0.1}, {"d": 1e300}]


class At(Callback):
    """Does something at one of the reports."""

    def __init__(self, report: int, act: Callable[[], object]) -> None:
        self.left, self.act = report, act

    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        self.left -= 1
        if self.left == 0:
            self.act()


def test_a_folder_that_is_removed_is_made_again_and_training_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keeper = RunFolder(tmp_path / "run", save_every_s=1e-9, log_every_s=0, checkpoint_every="64")
    SMALL.run(stop=Stop(updates=12), callbacks=[At(6, lambda: shutil.rmtree(tmp_path / "run")), keeper]).finish()
    assert status_of(tmp_path / "run")["status"] == "finished"
    assert rows_of(tmp_path / "run" / "metrics.csv")[-1]["updates"] == "12"
    assert (tmp_path / "run" / "config.toml").exists()
    assert Policy.load(tmp_path / "run").act([0.0] * 4) in (0, 1)
    assert checkpoints_in(tmp_path / "run" / "checkpoints")
    assert keeper.unwritten == {}
    assert caplog.text.count("was removed, or a part of it, while the run goes on") == 1


@pytest.mark.parametrize("removed", ["all", "config.toml"])
@pytest.mark.parametrize("log_every_s", [0.0, 1e9])
def test_a_folder_that_is_removed_shortly_before_the_end_can_be_resumed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, log_every_s: float, removed: str
) -> None:
    folder = tmp_path / "run"

    def remove() -> None:
        if removed == "all":
            shutil.rmtree(folder)
        else:
            (folder / removed).unlink()

    keeper = RunFolder(folder, log_every_s=log_every_s)
    SMALL.run(stop=Stop(updates=8), callbacks=[At(6, remove), keeper]).finish()
    assert chosen([], file=folder / "config.toml").algorithm == SMALL
    assert (folder / "plan.svg").exists()
    assert status_of(folder)["status"] == "finished"
    assert checkpoints_in(folder / "checkpoints")
    assert caplog.text.count("was removed, or a part of it, while the run goes on") == 1


def test_a_full_disk_is_said_once_and_what_waits_is_written_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    def fill() -> None:
        for owner, name in ((loggers.CsvLog, "write"), (Policy, "save"), (folders, "_write")):
            monkeypatch.setattr(owner, name, full)

    keeper = RunFolder(tmp_path / "run", save_every_s=1e-9, log_every_s=0, checkpoint_every="32")
    run = SMALL.run(stop=Stop(updates=12), callbacks=[keeper, At(4, fill), At(8, monkeypatch.undo)])
    run.finish()
    assert [row["updates"] for row in rows_of(tmp_path / "run" / "metrics.csv")] == [str(n) for n in range(1, 13)]
    assert status_of(tmp_path / "run")["status"] == "finished"
    warned = [record.message for record in caplog.records if "Could not write" in record.message]
    assert len(warned) == 3, "of a table, the policy and the checkpoint, once each"
    assert all("No space left on device" in each for each in warned)
    assert keeper.unwritten == {}


def test_the_latest_checkpoints_and_the_best_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = RunFolder(tmp_path / "run", checkpoint_every="32", keep=2)
    assert keeper.checkpoints is not None
    worth = iter([3.0, 9.0, 1.0, 2.0, 4.0, 5.0, 6.0, 1.0, 1.0, 1.0])
    real = TrainingRun.save

    def save(run: TrainingRun, path: Path, facts: dict[str, object]) -> None:
        real(run, path, {**facts, "evaluation": next(worth)})

    monkeypatch.setattr(TrainingRun, "save", save)
    SMALL.run(stop=Stop(updates=8), callbacks=[keeper]).finish()
    found = checkpoints_in(tmp_path / "run" / "checkpoints")
    assert len(found) == 3
    assert max(read_manifest(each)["evaluation"] for each in found) == 9.0


def test_a_run_that_is_resumed_from_its_folder_goes_on_in_it(tmp_path: Path) -> None:
    def run(folder: str, updates: int, resume: Path | None = None) -> TrainingRun:
        keeper = RunFolder(tmp_path / folder, log_every_s=0, checkpoint_every="64")
        started = SMALL.run(stop=Stop(updates=updates), callbacks=[keeper], eval_every=64, eval_episodes=2, seed=3, resume=resume)
        started.finish()
        return started

    whole = run("whole", 16)
    run("parts", 7)
    second = run("parts", 16, resume=tmp_path / "parts")
    np.testing.assert_array_equal(second.policy().flat.get(), whole.policy().flat.get())
    for name in ("metrics.csv", "metrics.jsonl"):
        assert len((tmp_path / "parts" / name).read_text().splitlines()) == len(
            (tmp_path / "whole" / name).read_text().splitlines()
        )
    assert status_of(tmp_path / "parts")["best_chosen_by"] == status_of(tmp_path / "whole")["best_chosen_by"]
    with pytest.raises(PlanError, match="already"):  # from elsewhere it is another run
        SMALL.run(callbacks=[RunFolder(tmp_path / "whole")], eval_every=64, eval_episodes=2, resume=tmp_path / "parts").finish()


class Repeats(Callback):
    """Tells a folder of the metrics of a checkpoint again, as a run does that goes on from one that was written in mid-report."""

    def __init__(self, folder: RunFolder, metrics: Metrics) -> None:
        self.folder, self.metrics = folder, metrics

    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        self.folder.reported(run, self.metrics)


def test_the_row_of_a_checkpoint_is_written_once(tmp_path: Path) -> None:
    keeper = RunFolder(tmp_path / "run", log_every_s=0)
    last = SMALL.run(stop=Stop(updates=4), callbacks=[keeper]).finish()
    SMALL.run(stop=Stop(updates=8), callbacks=[Repeats(keeper, last), keeper], resume=tmp_path / "run").finish()
    assert [row["updates"] for row in rows_of(tmp_path / "run" / "metrics.csv")] == [str(number) for number in range(1, 9)]
