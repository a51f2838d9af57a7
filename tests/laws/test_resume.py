"""The law of resumption: a run that is stopped anywhere and continued yields what it would have yielded."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from tflow.errors import CheckpointError, NoHealthyShards, ShardFailed
from tflow.runtime.answers import DONE, SKIP, Answer
from tflow.runtime.executor import Run
from tflow.testing import Faults, SimRuntime, fault_profiles, tapes
from tflow.testing.strategies import InActors, build
from tflow.testing.strategies import pieces as any_pieces

T = TypeVar("T")
pieces = any_pieces()
DIED = (ShardFailed, NoHealthyShards)
"""How plans end whose actors die."""


def poll(run: Run[T], found: list[T]) -> bool:
    """One poll of the sink, and what the driver does about its answer; False at the end."""
    answer: Answer = run._started().poll()
    if type(answer) is tuple:
        found.append(answer[0])  # type: ignore[arg-type]  # what the plan yields
    elif answer is not SKIP:
        run._rest(answer)
    return answer is not DONE


def drained(run: Run[T], found: list[T]) -> str:
    """All that a run yields, and how it fails: some plans give shards of a collective different numbers of items."""
    try:
        found += run
    except DIED as error:
        return str(error)
    return ""


@given(chosen=pieces, length=st.integers(0, 30), polls=st.integers(0, 60))
def test_a_run_that_is_stopped_at_any_poll_goes_on_as_if_it_had_not_been(
    chosen: list[int | InActors], length: int, polls: int
) -> None:
    whole = build(chosen, length).run()
    expected: list[int] = []
    failure = drained(whole, expected)
    first = build(chosen, length).run()
    found: list[int] = []
    try:
        while polls and poll(first, found):
            polls -= 1
        saved = None if first._closed else first.snapshot()
    except (*DIED, CheckpointError):  # it failed, as the whole one, or is about to
        assert failure
        return
    if saved is not None:
        second, seen = build(chosen, length).run(resume=saved), list(found)
        assert drained(second, seen) == failure
        assert seen == expected
        assert second.ledger == whole.ledger
        assert [each.seen for each in second.stats().operators] == [each.seen for each in whole.stats().operators]
        assert drained(first, found) == failure, "saving is invisible"
        assert first.ledger == whole.ledger
    assert found == expected


@given(chosen=pieces, length=st.integers(0, 30), polls=st.integers(0, 60), tape=tapes())
def test_under_any_schedule_the_continued_run_goes_on_with_the_same_schedule(
    chosen: list[int | InActors], length: int, polls: int, tape: list[int]
) -> None:
    expected: list[int] = []
    failure = drained(build(chosen, length).run(runtime=SimRuntime(tape)), expected)
    session = SimRuntime(tape)
    found: list[int] = []
    run = build(chosen, length).run(runtime=session)
    try:
        while polls and poll(run, found):
            polls -= 1
        saved = None if run._closed else run.snapshot()
    except (*DIED, CheckpointError):
        assert failure
        return
    if saved is not None:
        assert drained(build(chosen, length).run(resume=saved, runtime=SimRuntime(session.tape)), found) == failure
    assert found == expected


@given(chosen=pieces, length=st.integers(0, 30), polls=st.integers(0, 60), tape=tapes(), faults=fault_profiles())
def test_with_faults_the_books_of_the_continued_run_balance(
    chosen: list[int | InActors], length: int, polls: int, tape: list[int], faults: Faults
) -> None:
    """Actors that die start anew, and some plans end with them; but nothing is lost unseen, and nothing is counted twice."""
    session = SimRuntime(tape, faults)
    found: list[int] = []
    run = build(chosen, length).run(runtime=session)
    try:
        while polls and poll(run, found):
            polls -= 1
        if run._closed:
            return
        saved, before = run.snapshot(), run.ledger
    except (*DIED, CheckpointError):  # it had failed, or was about to
        return
    second = build(chosen, length).run(resume=saved, runtime=SimRuntime(session.tape, Faults(dies_after=1)))
    second._started()
    assert second.ledger == before
    with suppress(*DIED):
        found += list(second)
    assert second.ledger.balanced
    assert second.ledger.calls.in_flight == second.ledger.items.buffered == 0
