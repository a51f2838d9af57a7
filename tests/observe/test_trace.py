"""Traces: in the format, true to what happened, bounded, readable after a kill, and nothing when nobody asked for one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algos.test_algorithms import SMALL
from tests.laws.world import samplers, sampling
from tests.observe.trace_format import Event, check_trace
from tflow import PlanError, Stop
from tflow.algos.training_run import TrainingRun
from tflow.observe.traces import EndsAfter, next_trace, read_trace, told
from tflow.runtime import trace as tracing
from tflow.runtime.host import Host
from tflow.runtime.local import LocalRuntime
from tflow.runtime.sim import Faults, SimRuntime
from tflow.runtime.trace import ActorClock
from tflow.testing import tapes

NAMES = ("PPO", "IMPALA", "DQN", "ApeX", "PPODQN")


def traced(name: str, path: Path | None, *, updates: int = 12) -> TrainingRun:
    run = SMALL[name].run(stop=Stop(updates=updates), eval_every=200, eval_episodes=1, seed=3, trace=path)
    run.finish()
    return run


def slices(events: list[Event], kind: str) -> list[Event]:
    return [event for event in events if event["ph"] == "X" and event["cat"] == kind]


def test_seconds_of_a_trace_count_from_the_first_report() -> None:
    run = SMALL["PPO"].run(callbacks=[EndsAfter(1000)])
    first = next(run)
    assert run.stop == Stop(seconds=first.speed.seconds + 1000)
    next(run)
    assert run.stop == Stop(seconds=first.speed.seconds + 1000)
    run.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_trace_is_in_the_format_and_has_every_call_where_it_ran(name: str, tmp_path: Path) -> None:
    run = traced(name, tmp_path / "trace.json")
    events = check_trace((tmp_path / "trace.json").read_text())
    driver = run.run._driver  # it alone knows how many calls were the plan's
    calls = next(driver.numbers) - 1
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    sent, ran = slices(events, "send"), slices(events, "call")
    assert {event["args"]["call"] for event in sent} == set(range(1, calls + 1))
    assert len(sent) == calls
    assert len({event["args"]["call"] for event in ran}) == len(ran)
    assert calls >= len(ran) >= calls - run.run.ledger.calls.abandoned - len(names), (
        "what is abandoned at the end need not have run"
    )
    to = {event["args"]["call"]: event["args"]["to"] for event in sent}
    assert all(names[event["pid"], event["tid"]] == to[event["args"]["call"]] for event in ran)
    labels = {node.label for node in driver.positions}
    shown = {event["name"] for event in slices(events, "operator")}
    assert any(label.startswith("ParallelRollouts") for label in shown & labels)
    assert any("Train" in label or "Learn" in label for label in shown & labels)


def test_on_the_local_runtime_actors_work_while_the_driver_waits(tmp_path: Path) -> None:
    traced("IMPALA", tmp_path / "trace.json")
    events = check_trace((tmp_path / "trace.json").read_text())
    waits = [(event["ts"], event["ts"] + event["dur"]) for event in slices(events, "driver") if event["name"] == "wait"]
    for event in slices(events, "call"):
        assert any(began <= event["ts"] and event["ts"] + event["dur"] <= ended + 0.002 for began, ended in waits)


def test_messages_are_told_from_calls_and_say_what_they_carry(tmp_path: Path) -> None:
    traced("ApeX", tmp_path / "trace.json")
    events = check_trace((tmp_path / "trace.json").read_text())
    assert {event["name"] for event in events if event["ph"] == "s"} == {"call", "message"}
    assert any("set_weights" in event["args"].get("carries", "") for event in slices(events, "send"))
    messages = [event["name"] for event in slices(events, "send") if not event["name"].startswith("send pull")]
    assert messages, "each by the method that it calls"


def test_tracing_changes_nothing_and_costs_nothing_when_off(tmp_path: Path) -> None:
    plain, with_trace = traced("DQN", None), traced("DQN", tmp_path / "trace.json")
    assert plain.policy().flat.get().tobytes() == with_trace.policy().flat.get().tobytes()
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]
    with LocalRuntime() as session:
        for trace, noted in ((None, False), (tmp_path / "again.json", True)):
            plan = sampling(samplers(2)).gather_sync()
            with plan.run(runtime=session, trace=trace) as run:
                [next(run) for _ in range(4)]
                hosts = [shard.handle for pool in session.pools.values() for shard in pool.shards]
                assert all(isinstance(host, Host) for host in hosts)
                assert any(getattr(host, "spans", None) is not None for host in hosts) == noted


def test_a_trace_that_nobody_began_writes_over_nothing(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text("mine")
    run = SMALL["PPO"].run(trace=tmp_path / "trace.json")
    run.close()
    assert (tmp_path / "trace.json").read_text() == "mine"


def test_a_trace_is_bounded_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tracing, "MOST_EVENTS", 60)
    run = traced("IMPALA", tmp_path / "trace.json", updates=20)
    assert run.outcome == "20 updates"
    assert 60 < len(check_trace((tmp_path / "trace.json").read_text())) < 120
    assert "ends here" in caplog.text


@given(tape=tapes())
def test_deaths_are_marked_and_a_trace_is_right_under_any_schedule(
    tmp_path_factory: pytest.TempPathFactory, tape: list[int]
) -> None:
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    with SimRuntime(tape, Faults(dies_before=1, dies_after=1)) as session:
        with sampling(samplers(2)).gather_async().take(12).run(runtime=session, trace=path) as run:
            assert len(list(run)) == 12
        deaths = run.deaths
    events = check_trace(path.read_text())
    marks = [event["name"] for event in events if event["ph"] == "i"]
    assert sorted(name for name in marks if name.endswith(" died")) == sorted(f"{death.actor} died" for death in deaths)
    assert sum(name.endswith("restarted") for name in marks) == sum(death.back_after is not None for death in deaths)


@given(
    behind=st.integers(-(10**12), 10**12),
    calls=st.lists(st.tuples(*[st.integers(0, 10**6)] * 4), min_size=1, max_size=20),
)
def test_no_call_runs_before_it_is_sent_or_after_its_answer(behind: int, calls: list[tuple[int, int, int, int]]) -> None:
    """Whatever the clock of an actor says, and however long calls travel."""
    clock, now, seen = ActorClock(), 0, []
    for pause, there, work, back in calls:
        sent = now + pause
        began, ended = sent + there - behind, sent + there + work - behind
        now = sent + there + work + back
        clock.see(sent, began, ended, now)
        seen.append((sent, began, ended, now))
    for sent, began, ended, arrived in seen:
        assert sent - 1 <= began + clock.behind
        assert ended + clock.behind <= arrived + 1


def test_a_clock_that_is_right_is_left_alone() -> None:
    clock = ActorClock()
    clock.see(10, 12, 20, 90)
    assert clock.behind == 0


@given(cut=st.floats(0, 1))
def test_a_trace_that_was_cut_anywhere_can_be_read(cut: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    events = [{"ph": "i", "name": f"a\n]{number}", "s": "g", "pid": 1, "tid": 1, "ts": number} for number in range(8)]
    text = "[\n" + ",\n".join(map(json.dumps, events)) + "\n]\n"
    path = tmp_path_factory.mktemp("cut") / "trace.json"
    path.write_text(text[: round(cut * len(text))])
    found, whole = read_trace(path)
    assert found == events[: len(found)]
    assert len(found) >= text[: round(cut * len(text))].count(",\n"), "all that was whole"
    assert whole == (len(path.read_text()) >= len(text) - 1)


def test_what_is_no_trace_is_a_sentence(tmp_path: Path) -> None:
    for text in ('{"a": 1}', "[1, 2]", "3"):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(PlanError, match="is no trace"):
            read_trace(tmp_path / "x.json")
    (tmp_path / "x.json").write_text("[\nnonsense, 3\n,4]")
    assert read_trace(tmp_path / "x.json") == ([], False)
    with pytest.raises(PlanError, match="Cannot read"):
        read_trace(tmp_path / "nothing.json")


def test_a_resumed_run_has_a_trace_of_its_own_and_each_track_is_told(tmp_path: Path) -> None:
    traced("PPO", next_trace(tmp_path))
    assert next_trace(tmp_path).name == "trace-2.json"
    first, *tracks = told(read_trace(tmp_path / "trace.json")[0])
    assert "events in" in first
    assert tracks[0].startswith("  driver: ")
    assert any("ParallelRollouts" in track for track in tracks)
    assert list(told([])) == ["Nothing was traced."]
