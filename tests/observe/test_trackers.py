"""Loggers beside the files: of services, of packages, of one's own; what they are told, and what happens when they fail."""

from __future__ import annotations

import json
import logging
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import pytest

from tflow import Metrics, PlanError, RunFolder, Stop
from tflow.algos import PPO, PPODQN, Callback, TrainingRun
from tflow.models import MLP
from tflow.observe.loggers import RunFacts

SMALL = PPO(num_workers=1, num_envs=2, fragment=16, epochs=1, minibatch=32, model=MLP((8,)))


def logged(folder: Path) -> list[float]:
    """The env steps of the rows in the files of a run."""
    return [json.loads(line)["env_steps"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def sent_to_wandb(file: Path) -> list[Any]:  # Any: its records
    """The records of an offline run, in the format of LevelDB's logs: blocks of 32 KiB of chunks, which have a header of 7 bytes
    and a kind: whole, first, middle or last."""
    record = import_module("wandb.proto.wandb_internal_pb2").Record
    data, at, found, parts = file.read_bytes(), 7, [], b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        parts += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            found.append(record.FromString(parts))
            parts = b""
    return found


def test_weights_and_biases_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    SMALL.run(stop=Stop(env_steps=64), callbacks=[RunFolder(tmp_path / "run", loggers=["wandb"], log_every_s=0)]).finish()
    again = RunFolder(tmp_path / "run", loggers=["wandb"], log_every_s=0)
    SMALL.run(stop=Stop(env_steps=128), callbacks=[again], resume=tmp_path / "run").finish()
    assert again.unwritten == {}
    import_module("wandb").teardown()
    files = sorted((tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb"), key=lambda file: file.stat().st_mtime)
    sent = [each for file in files for each in sent_to_wandb(file)]
    runs = [each.run for each in sent if each.HasField("run")]
    assert {run.run_id for run in runs} == {(tmp_path / "run" / "wandb.id").read_text().strip()}, "it goes on with the same run"
    config = {each.key: json.loads(each.value_json) for run in runs for each in run.config.update}
    assert (config["num_envs"], config["run.stop_steps"], config["model"]) == (
        2,
        128,
        "MLP(hidden=(8,), activation='tanh', layer_norm=False)",
    )
    rows = [
        {item.key or ".".join(item.nested_key): item.value_json for item in each.history.item}
        for each in sent
        if each.HasField("history")
    ]
    assert [float(row["env_steps"]) for row in rows] == logged(tmp_path / "run")
    assert all("learner/loss" in row for row in rows)
    summary = {item.key: item.value_json for each in sent if each.HasField("summary") for item in each.summary.update}
    assert json.loads(summary["outcome"]) == "128 env steps"
    metrics = [each.metric for each in sent if each.HasField("metric")]
    assert any(each.glob_name == "*" and each.step_metric == "env_steps" for each in metrics)


def test_mlflow_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    SMALL.run(stop=Stop(env_steps=64), callbacks=[RunFolder("run", loggers=["mlflow"], log_every_s=0)]).finish()
    again = RunFolder("run", loggers=["mlflow"], log_every_s=0)
    SMALL.run(stop=Stop(env_steps=128), callbacks=[again], resume="run").finish()
    assert again.unwritten == {}
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as store:
        run = (tmp_path / "run" / "mlflow.id").read_text().strip()
        assert store.execute("select run_uuid, name, status from runs").fetchall() == [(run, "run", "FINISHED")]
        params = dict(store.execute("select key, value from params"))
        assert (params["num_envs"], params["run.stop_steps"]) == ("2", "64")
        assert store.execute("select step, value from metrics where key = 'env_steps' order by step").fetchall() == [
            (steps, steps) for steps in logged(tmp_path / "run")
        ]
        assert dict(store.execute("select key, value from tags"))["outcome"] == "128 env steps"


def test_inner_configurations_are_told_with_dots(tmp_path: Path) -> None:
    seen: list[RunFacts] = []

    class Sees:
        def __init__(self, facts: RunFacts) -> None:
            seen.append(facts)

        def write(self, row: Mapping[str, float]) -> None: ...
        def finish(self, summary: Mapping[str, object]) -> None: ...

    config = PPODQN(num_workers=1, num_envs=2, fragment=16)
    config.run(stop=Stop(env_steps=32), callbacks=[RunFolder(tmp_path / "run", loggers=[Sees])]).finish()
    assert seen[0].config["ppo.epochs"] == config.ppo.epochs
    assert "ppo" not in seen[0].config


class Fails:
    """Fails for a while."""

    rows: list[float]

    def __init__(self, facts: RunFacts) -> None:
        self.rows, self.calls = [], 0
        made.append(self)

    def write(self, row: Mapping[str, float]) -> None:
        self.calls += 1
        if 2 < self.calls < 6:
            raise RuntimeError("the network is down")
        self.rows.append(row["updates"])

    def finish(self, summary: Mapping[str, object]) -> None:
        raise RuntimeError("the network is down again")


made: list[Fails] = []


def test_one_that_raises_is_told_once_and_catches_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keeper = RunFolder(tmp_path / "run", loggers=[Fails], log_every_s=0)
    run = SMALL.run(stop=Stop(updates=8), callbacks=[keeper])
    run.finish()
    assert made[-1].rows == list(range(1, 9)), "what it had missed came later"
    told = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert [each for each in told if "Could not write the metrics (Fails)" in each and "the network is down." in each] == told[:1]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "finished"


class Stops(Callback):
    """Ctrl-C."""

    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        raise KeyboardInterrupt


def test_the_end_is_told_however_it_came(tmp_path: Path) -> None:
    told: list[Mapping[str, object]] = []

    class Hears:
        def __init__(self, facts: RunFacts) -> None: ...
        def write(self, row: Mapping[str, float]) -> None: ...
        def finish(self, summary: Mapping[str, object]) -> None:
            told.append(summary)

    with pytest.raises(KeyboardInterrupt):
        SMALL.run(callbacks=[RunFolder(tmp_path / "run", loggers=[Hears]), Stops()]).finish()
    assert (told[0]["status"], told[0]["outcome"], told[0]["updates"]) == ("interrupted", "interrupted", 1)


def test_a_run_that_cannot_begin_leaves_nothing_behind(tmp_path: Path) -> None:
    told: list[object] = []

    class Begins:
        def __init__(self, facts: RunFacts) -> None:
            facts.kept_id("begins", lambda: "1")

        def write(self, row: Mapping[str, float]) -> None: ...
        def finish(self, summary: Mapping[str, object]) -> None:
            told.append(summary["status"])

    def keyless(facts: RunFacts) -> Any:  # Any: it makes none
        raise RuntimeError("no API key")

    folder = tmp_path / "run"
    with pytest.raises(PlanError, match="'keyless' cannot begin: RuntimeError: no API key"):
        SMALL.run(callbacks=[RunFolder(folder, loggers=[Begins, keyless])]).finish()
    assert not folder.exists()
    assert told == ["failed"], "it does not wait for a run that never began"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(PlanError, match="no API key"):
        SMALL.run(callbacks=[RunFolder(folder, loggers=[keyless])]).finish()
    assert [each.name for each in folder.iterdir()] == ["mine.txt"]
    SMALL.run(stop=Stop(updates=1), callbacks=[RunFolder(folder)]).finish()


class Offered:
    """A logger of another package."""

    seen: list[str] = []

    def __init__(self, facts: RunFacts) -> None:
        self.seen.append(facts.name)

    def write(self, row: Mapping[str, float]) -> None: ...
    def finish(self, summary: Mapping[str, object]) -> None: ...


def test_packages_offer_loggers_as_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "offers-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: offers\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        f"[tflow.loggers]\noffered = {Offered.__module__}:Offered\nbroken = no_such_module:Logger\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "offered" in {each.name for each in metadata.entry_points(group="tflow.loggers")}
    monkeypatch.setitem(sys.modules, Offered.__module__, sys.modules[__name__])
    SMALL.run(stop=Stop(updates=1), callbacks=[RunFolder(tmp_path / "run", loggers=["offered"])]).finish()
    assert Offered.seen == ["run"]
    with pytest.raises(PlanError, match=r"'broken' cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"):
        RunFolder(tmp_path / "other", loggers=["broken"])


def test_what_is_no_logger_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"There is no logger 'wandbb'. Did you mean wandb\?"):
        RunFolder(tmp_path / "run", loggers=["wandbb"])
    with pytest.raises(PlanError, match="put 'wandb' into"):
        RunFolder(tmp_path / "run", loggers="wandb")
    with pytest.raises(PlanError, match="what makes one from RunFacts; got 7"):
        RunFolder(tmp_path / "run", loggers=[7])  # type: ignore[list-item]  # it is the mistake

    def broken(facts: RunFacts) -> Any:  # Any: it makes none
        raise OSError("no such host")

    with pytest.raises(PlanError, match="'broken' cannot begin: OSError: no such host"):
        SMALL.run(callbacks=[RunFolder(tmp_path / "run", loggers=[broken])]).finish()
    with pytest.raises(PlanError, match=r"needs the methods write\(row\) and finish\(summary\)"):
        SMALL.run(callbacks=[RunFolder(tmp_path / "run2", loggers=[lambda facts: 7])]).finish()  # type: ignore[list-item,return-value]  # it is the mistake
