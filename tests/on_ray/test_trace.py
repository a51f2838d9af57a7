"""Traces of processes: each call where and when it ran, deaths too."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.algos.test_algorithms import SMALL
from tests.laws.world import ray_session
from tests.observe.page_check import check_page
from tests.observe.trace_format import check_trace
from tests.on_ray.test_resume import process
from tflow import RunFolder, Stop
from tflow.observe.kept import read_run
from tflow.observe.page import page

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("bounded")]


def test_a_trace_and_a_report_of_processes_one_of_which_dies(tmp_path: Path) -> None:
    found = 0
    with ray_session() as session:
        keeper = RunFolder(tmp_path / "run", checkpoint_every=None)
        run = SMALL["IMPALA"].run(runtime=session, trace=tmp_path / "trace.json", callbacks=[keeper], stop=Stop(updates=20_000))
        for _ in run:
            found += 1
            if found == 20:
                os.kill(run.run.ask(run.workers, process)[0], signal.SIGKILL)
            if any(death.back_after is not None for death in run.run.deaths):
                break
        run.close()
        deaths = run.run.deaths
    events = check_trace((tmp_path / "trace.json").read_text())
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    calls = [event for event in events if event["ph"] == "X" and event["cat"] == "call"]
    sent = {event["args"]["call"]: event for event in events if event["ph"] == "X" and event["cat"] == "send"}
    assert {names[event["pid"], event["tid"]] for event in calls} >= {"workers[0]", "workers[1]", "learner[0]"}
    for event in calls:
        assert event["ts"] >= sent[event["args"]["call"]]["ts"], "on the clock of the driver"
    assert [death.actor for death in deaths] == ["workers[0]"]
    assert deaths[0].back_after is not None
    marks = [event["name"] for event in events if event["ph"] == "i"]
    assert marks == ["workers[0] died", "workers[0] restarted"]
    kept = read_run(tmp_path / "run")
    told = check_page(page([kept])).text
    assert "1 death, 1 restarted" in told
    assert "The driver waited" in told
    assert any(each["name"] == "runtime" and each["value"] == "ray" for each in kept.plan["run"])
