"""Answers that are there while nobody looks, and calls that never left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
import ray

from tests.laws.world import Sampler, ray_session, samplers, sampling
from tflow import PlanError
from tflow.runtime.base import Runtime
from tflow.runtime.ray import RayRuntime

pytestmark = pytest.mark.ray
LATER_S = 1000.0


def answered(session: Runtime, run: object) -> None:
    """Wait until all that was asked for is there."""
    tickets = list(getattr(run, "_driver").mailbox.tickets)  # noqa: B009  # private, so unknown to checkers
    ready, _ = ray.wait(tickets, num_returns=len(tickets), timeout=60)
    assert len(ready) == len(tickets)


def clock(offset: list[float]) -> Callable[[RayRuntime], float]:
    return lambda session: time.monotonic() + offset[0]


def test_a_slow_consumer_is_not_a_hung_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    offset = [0.0]
    monkeypatch.setattr(RayRuntime, "now", clock(offset))
    with ray_session() as session, sampling(samplers(2)).gather_async(timeout_s=60).take(8).run(runtime=session) as run:
        next(run)
        answered(session, run)
        offset[0] = LATER_S
        assert len(list(run)) == 7
    assert run.ledger.calls.lost == 0


def test_the_unread_answer_of_a_paused_run_is_nobody_elses_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    offset = [0.0]
    monkeypatch.setattr(RayRuntime, "now", clock(offset))
    stream = sampling(samplers(1)).gather_async(timeout_s=60, in_flight=2)
    with ray_session() as session, stream.run(runtime=session) as paused, stream.take(6).run(runtime=session) as other:
        next(paused)
        answered(session, paused)
        next(other)
        answered(session, other)  # else it would be late by the clock below
        offset[0] = LATER_S
        assert len(list(other)) == 5
        next(paused)
    assert other.ledger.calls.lost == paused.ledger.calls.lost == 0


def test_a_question_that_cannot_travel_leaves_nothing_behind() -> None:
    lock, actors = threading.Lock(), samplers(1)

    def ask(sampler: Sampler) -> bool:
        return lock.locked()

    with ray_session() as session, sampling(actors).gather_sync().take(3).run(runtime=session) as run:
        next(run)
        with pytest.raises(PlanError, match="cannot travel"):
            run.ask(actors, ask)
        assert len(list(run)) == 2
        assert run.ledger.balanced
        assert run.ledger.calls.in_flight == 0
