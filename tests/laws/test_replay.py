"""A run that was recorded is repeated in one process: the same items, in the same order, whatever the cluster did."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.test_restore import handed, kill
from tests.laws.test_resume import DIED, pieces
from tflow import Iter, Shard, Union, create_actors, from_actors, from_range, par_from_range
from tflow.combinators import graph
from tflow.errors import CheckpointError, RunClosed, ShardFailed
from tflow.runtime.recording import Differs, ReplayRuntime
from tflow.testing import Faults, SimRuntime, fault_profiles, tapes
from tflow.testing.strategies import InActors, build


@given(chosen=pieces, length=st.integers(0, 30), tape=tapes(), faults=fault_profiles(), asks=st.integers(0, 5))
def test_whatever_the_schedule_a_recorded_run_is_repeated(
    chosen: list[int | InActors], length: int, tape: list[int], faults: Faults, asks: int
) -> None:
    found: list[int] = []
    again: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording.txt"
        with (
            SimRuntime(tape, faults) as session,
            suppress(*DIED),
            build(chosen, length).run(runtime=session, record=path) as run,
        ):
            if not asks and faults == Faults():  # before the first poll
                for actors in set(graph.actors_in(run.plan.node)):
                    run.ask(actors, id)
            for item in run:
                found.append(item)
                if asks == len(found) and faults == Faults():  # a question from outside: answers arrive meanwhile
                    for pool in list(session.pools.values()):
                        run.ask(pool.actors, id)
        with ReplayRuntime(path) as replay, suppress(*DIED):
            again += build(chosen, length).run(runtime=replay)
    assert again == found


@given(
    chosen=pieces,
    length=st.integers(0, 30),
    tape=tapes(),
    faults=fault_profiles(),
    saves=st.sets(st.integers(0, 12), max_size=3),
    at_poll=st.booleans(),
)
def test_a_recorded_run_that_is_saved_meanwhile_is_repeated(
    chosen: list[int | InActors], length: int, tape: list[int], faults: Faults, saves: set[int], at_poll: bool
) -> None:
    found: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording.txt"
        with (
            SimRuntime(tape, faults) as session,
            suppress(*DIED),
            build(chosen, length).run(runtime=session, record=path) as run,
        ):
            save = partial(run.save, Path(folder) / "saved")
            if 0 in saves:  # before the first poll
                run.at_next_poll(partial(once, save))
            for item in run:
                found.append(item)
                if len(found) in saves:
                    run.at_next_poll(partial(once, save)) if at_poll else once(save)
        with ReplayRuntime(path) as replay, suppress(*DIED):
            assert list(build(chosen, length).run(runtime=replay)) == found
            assert not replay.events


def once(save: Callable[[], None]) -> None:
    with suppress(CheckpointError):  # the run is about to fail
        save()


@given(chosen=pieces, length=st.integers(0, 30), tape=tapes(), faults=fault_profiles(), first=st.integers(0, 12))
def test_a_run_that_was_resumed_is_recorded_and_repeated_from_its_checkpoint(
    chosen: list[int | InActors], length: int, tape: list[int], faults: Faults, first: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, saved = Path(folder) / "recording.txt", Path(folder) / "saved"
        with SimRuntime(tape, faults) as session, build(chosen, length).run(runtime=session) as run:
            try:
                for _ in zip(range(first), run, strict=False):
                    pass
                run.save(saved)
            except (*DIED, CheckpointError, RunClosed):
                return
        found: list[int] = []
        run = build(chosen, length).run(runtime=SimRuntime(tape, faults), record=path, resume=saved)
        try:
            found += run
        except DIED as failure:
            if "could not be made" in str(failure):  # an actor refuses to start: there is nothing to repeat
                return
        if path.exists():
            again: list[int] = []
            with ReplayRuntime(path) as replay, suppress(*DIED):
                again += build(chosen, length).run(runtime=replay, resume=saved)
            assert again == found
            with pytest.raises(Differs, match="was resumed from the checkpoint saved: this one must do so, too"):
                build(chosen, length).run(runtime=ReplayRuntime(path))


def test_an_actor_that_was_restored_from_a_checkpoint_is_restored_again(tmp_path: Path) -> None:
    path, found = tmp_path / "recording.txt", []
    with SimRuntime() as session, handed(restores=True).run(runtime=session, record=path) as run:
        for item in run:
            found.append(item)
            if len(found) in (5, 9):
                run.save(tmp_path / "saved")
            if len(found) == 8:
                kill(session, "sum")
    assert found[8:] != list(range(9, 9 + len(found[8:]))), "something was lost"
    with ReplayRuntime(path) as replay:
        assert list(handed(restores=True).run(runtime=replay)) == found


class Mortal:
    """Dies when it is asked from outside."""

    def __init__(self, shard: Shard) -> None:
        self.life, self.n = shard.incarnation, 0

    def next(self) -> tuple[int, int]:
        self.n += 1
        return self.life, self.n


def test_an_actor_that_is_found_dead_by_a_question_is_found_dead_again(tmp_path: Path) -> None:
    mortals = create_actors(Mortal, num=2, name="mortals")
    plan = from_actors(mortals, Mortal.next).gather_sync().take(20)
    path, found = tmp_path / "recording.txt", []
    with SimRuntime() as session, plan.run(runtime=session, record=path) as run:
        for item in run:
            found.append(item)
            if len(found) == 6:
                kill(session, "mortals")
                with pytest.raises(ShardFailed):
                    run.ask(mortals, id)
    assert {life for life, _ in found} == {0, 1}
    assert any(line.startswith("d mortals 1") for line in path.read_text().splitlines())
    with ReplayRuntime(path) as replay:
        assert list(plan.run(runtime=replay)) == found


def test_a_run_that_shares_its_session_with_others_is_repeated_alone(tmp_path: Path) -> None:
    """The session numbers actors of one name, those of all runs."""

    def pair() -> Iter[tuple[int, int]]:
        first, second = (from_actors(create_actors(Mortal, num=2, name="mortals"), Mortal.next) for _ in range(2))
        return Union(first.gather_sync(), second.gather_sync()).take(20)

    path, found, plan = tmp_path / "recording.txt", [], pair()
    with SimRuntime() as session:
        list(pair().run(runtime=session))
        with plan.run(runtime=session, record=path) as run:
            for item in run:
                found.append(item)
                if len(found) == 6:
                    kill(session, "mortals#4")
    assert {life for life, _ in found} == {0, 1}
    with ReplayRuntime(path) as replay:
        assert list(plan.run(runtime=replay)) == found


def test_a_recording_that_was_cut_off_is_repeated_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "recording.txt"
    plan = par_from_range(8).gather_async()
    with plan.run(record=path) as run:
        expected = list(run)
    whole = path.read_text()
    for length in range(whole.index("\n") + 1, len(whole)):
        path.write_text(whole[:length])
        assert list(plan.run(runtime=ReplayRuntime(path))) == expected


def test_another_plan_or_seed_is_refused_and_the_first_difference_is_named(tmp_path: Path) -> None:
    path = tmp_path / "recording.txt"
    plan = par_from_range(8).gather_async()
    with plan.run(record=path) as run:
        list(run)
    with pytest.raises(Differs, match="The recording is of another plan"):
        from_range(3).run(runtime=ReplayRuntime(path))
    lines = path.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("c "))
    path.write_text("\n".join([*lines[:at], "c 99", *lines[at + 1 :], ""]))
    with pytest.raises(Differs, match="there is no call 99"):
        list(plan.run(runtime=ReplayRuntime(path)))
    path.write_text("\n".join([*lines[:at], "n 1.0", *lines[at:], ""]))
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
