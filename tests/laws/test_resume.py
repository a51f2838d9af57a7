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


@given(chosen=pieces, length=st.integers(0, 30), polls=st.integers(0, 60))
def test_a_run_that_is_stopped_at_any_poll_goes_on_as_if_it_had_not_been(
    chosen: list[int | InActors], length: int, polls: int
) -> None:
    whole = build(chosen, length).run()
    expected = list(whole)
    first = build(chosen, length).run()
    found: list[int] = []
    while polls and poll(first, found):
        polls -= 1
    if not first._closed:
        saved = first.snapshot()
        second = build(chosen, length).run(resume=saved)
        seen = list(found)
        assert seen + list(second) == expected
        assert second.ledger == whole.ledger
        assert [each.seen for each in second.stats().operators] == [each.seen for each in whole.stats().operators]
        found += list(first)  # saving is invisible
        assert first.ledger == whole.ledger
    assert found == expected


@given(chosen=pieces, length=st.integers(0, 30), polls=st.integers(0, 60), tape=tapes())
def test_under_any_schedule_the_continued_run_goes_on_with_the_same_schedule(
    chosen: list[int | InActors], length: int, polls: int, tape: list[int]
) -> None:
    expected = list(build(chosen, length).run(runtime=SimRuntime(tape)))
    session = SimRuntime(tape)
    found: list[int] = []
    run = build(chosen, length).run(runtime=session)
    while polls and poll(run, found):
        polls -= 1
    if not run._closed:
        found += list(build(chosen, length).run(resume=run.snapshot(), runtime=SimRuntime(session.tape)))
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
