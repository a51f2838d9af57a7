"""A run that was recorded is repeated in one process: the same items, in the same order, whatever the cluster did."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.test_resume import pieces
from tflow import from_range, par_from_range
from tflow.errors import CheckpointError, ShardFailed
from tflow.runtime.recording import Differs, ReplayRuntime
from tflow.testing import Faults, SimRuntime, fault_profiles, tapes
from tflow.testing.strategies import build


@given(chosen=pieces, length=st.integers(0, 30), tape=tapes(), faults=fault_profiles(), asks=st.integers(0, 5))
def test_whatever_the_schedule_a_recorded_run_is_repeated(
    chosen: list[int], length: int, tape: list[int], faults: Faults, asks: int
) -> None:
    found: list[int] = []
    again: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording.txt"
        with (
            SimRuntime(tape, faults) as session,
            suppress(ShardFailed),
            build(chosen, length).run(runtime=session, record=path) as run,
        ):
            for item in run:
                found.append(item)
                if asks == len(found) and faults == Faults():  # a question from outside: answers arrive meanwhile
                    for pool in list(session.pools.values()):
                        run.ask(pool.actors, id)
        with ReplayRuntime(path) as replay, suppress(ShardFailed):
            again += build(chosen, length).run(runtime=replay)
    assert again == found


def test_another_plan_or_seed_is_refused_and_the_first_difference_is_named(tmp_path: Path) -> None:
    path = tmp_path / "recording.txt"
    plan = par_from_range(8).gather_async()
    with plan.run(record=path) as run:
        list(run)
    with pytest.raises(Differs, match="The recording is of another plan"):
        from_range(3).run(runtime=ReplayRuntime(path))
    lines = path.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("c "))
    path.write_text("\n".join([*lines[:at], "c 99", *lines[at + 1 :]]))
    with pytest.raises(Differs, match="there is no call 99"):
        list(plan.run(runtime=ReplayRuntime(path)))
    path.write_text("\n".join([*lines[:at], "n 1.0", *lines[at:]]))
    with pytest.raises(Differs, match=r"it waits for answers, and the recording has 'n 1.0'"):
        list(plan.run(runtime=ReplayRuntime(path)))
    with pytest.raises(CheckpointError, match="is no recording of a run"):
        ReplayRuntime(tmp_path / "nowhere")


def test_hashes_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "recording.txt"
    plan = par_from_range(8).gather_async()
    with plan.run(record=path) as run:
        next(run)
        run.compare(1, "abc")
        list(run)
    for digest in ("abc", "xyz"):
        with ReplayRuntime(path) as session, plan.run(runtime=session) as run:
            next(run)
            if digest == "abc":
                run.compare(1, digest)
                assert session.compared == 1
            else:
                with pytest.raises(Differs, match="differs from the recorded one at 1: the hash is xyz, and was 1 abc"):
                    run.compare(1, digest)
