"""Laws of scheduling, verified: small plans under *all* schedules and all placements of a fault, not only under some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.laws.test_combinators import Echo, learner
from tflow import Iter, Union, from_actors, from_range, par_from_range
from tflow.laws import (
    BALANCE,
    BOUNDEDNESS,
    COMPLETENESS,
    CONSERVATION,
    FRESHNESS,
    LAZINESS,
    NO_STARVATION,
    ORDER,
    PROVENANCE,
    SURVIVAL,
    Law,
)
from tflow.runtime.sim import NO_FAULTS
from tflow.testing import Faults, History, Item, verify
from tflow.testing.sources import Announce, Maker, makers

Plan = Callable[[], Iter[Any]]  # Any: of any items
Check = Callable[[History[Any]], object]  # Any: as above


@dataclass(frozen=True)
class Case:
    """A law, a small plan, and to which bound the law is verified for it."""

    law: Law[...]
    plan: Plan
    check: Check
    schedules: int
    """How many there are."""
    events: int
    """Of the longest run."""
    faults: Faults

    @property
    def bound(self) -> str:
        """For the page of the law."""
        struck = "" if self.faults == NO_FAULTS else f" under `{self.faults}` or less"
        return f"`{self.plan.__name__}`: all {self.schedules:,} schedules, of up to {self.events} events{struck}"


VERIFIED: dict[str, Case] = {}


def holds(law: Law[...], plan: Plan, *, schedules: int, events: int, faults: Faults = NO_FAULTS) -> Callable[[Check], Check]:
    """A check that a law holds for a plan under all schedules."""

    def register(check: Check) -> Check:
        VERIFIED[f"{law.name}: {plan.__name__}"] = Case(law, plan, check, schedules, events, faults)
        return check

    return register


# --------------------------------------------------------------------------- plans


def async_of_two() -> Iter[Item]:
    return from_actors(makers(2, [3, 2]), Maker.make).gather_async()


def async_two_per_call() -> Iter[Item]:
    return from_actors(makers(2, [3, 2]), Maker.make).gather_async(in_flight=2, per_call=2)


def rounds_of_three() -> Iter[Item]:
    return from_actors(makers(3, [2, 2, 1]), Maker.make).gather_sync()


def workers_and_a_learner() -> Iter[Item]:
    return from_actors(makers(2, [2, 2]), Maker.make).gather_async().hand_off(learner(), Echo(), mailbox=2)


def announced() -> Iter[Item]:
    actors = makers(2)
    return from_actors(actors, Maker.make).gather_async().for_each(Announce(actors)).take(4)


def endless_of_two() -> Iter[Item]:
    return from_actors(makers(2), Maker.make).gather_async().take(5)


def values_of_two() -> Iter[int]:
    return par_from_range(4).gather_async()


def branches() -> Iter[tuple[int, int]]:
    left, right = par_from_range(4).gather_async().split(2, max_lag=2)
    return Union(left.map(lambda x: (0, x)), right.map(lambda x: (1, x)), mode="async")


def ready_inputs_beside_workers() -> Iter[int]:
    left, right = from_range(5).map(lambda x: 0), from_range(5).map(lambda x: 1)
    return Union(left, par_from_range(4).gather_async().map(lambda x: 2), right, mode="async")


def batches_of_two() -> Iter[list[Item]]:
    return from_actors(makers(2, [2, 2]), Maker.make).gather_async().batch(2)


ALL = [(0, 0), (0, 1), (1, 0), (1, 1)]
DEATH = Faults(dies_after=1)


# --------------------------------------------------------------------------- laws


@holds(ORDER, async_of_two, schedules=307, events=7)
@holds(ORDER, async_two_per_call, schedules=518, events=6)
@holds(ORDER, rounds_of_three, schedules=2_304, events=8)
@holds(ORDER, workers_and_a_learner, schedules=56_458, events=11)
def keeps_order(history: History[Item]) -> None:
    ORDER.check(item[:2] for item in history.items)


@holds(CONSERVATION, workers_and_a_learner, schedules=56_458, events=11)
def conserves(history: History[Item]) -> None:
    CONSERVATION.check(ALL, [item[:2] for item in history.items])


@holds(SURVIVAL, values_of_two, schedules=2_536, events=7, faults=Faults(dies_before=1))
def survives(history: History[int]) -> None:
    assert history.error is None
    SURVIVAL.check({0: sorted(history.items)}, {0: [0, 1, 2, 3]})


@holds(FRESHNESS, announced, schedules=1_302, events=6, faults=DEATH)
def is_fresh(history: History[Item]) -> None:
    handled: dict[int, int] = {}
    seen = []
    for updates, item in enumerate(history.items, 1):
        seen.append((handled.get(item.source, 0), item.version))
        handled[item.source] = updates
    FRESHNESS.check(seen)


@holds(LAZINESS, endless_of_two, schedules=208, events=6)
def is_lazy(history: History[Item]) -> None:
    LAZINESS.check(0, history.ledgers[-1].calls.issued, 5 + 1)


@holds(BOUNDEDNESS, endless_of_two, schedules=208, events=6)
def is_bounded(history: History[Item]) -> None:
    BOUNDEDNESS.check([ledger.calls.in_flight + ledger.items.buffered for ledger in history.ledgers], 2)


@holds(BALANCE, values_of_two, schedules=2_536, events=7, faults=DEATH)
def balances(history: History[int]) -> None:
    for ledger in history.ledgers:
        BALANCE.check(ledger)


@holds(COMPLETENESS, branches, schedules=136, events=6)
def completes(history: History[tuple[int, int]]) -> None:
    seen = [[value for branch, value in history.items if branch == index] for index in range(2)]
    COMPLETENESS.check(seen[0], seen)
    assert sorted(seen[0]) == [0, 1, 2, 3]


@holds(NO_STARVATION, ready_inputs_beside_workers, schedules=136, events=6)
def starves_nobody(history: History[int]) -> None:
    """Those that are always ready take turns, whenever the workers answer."""
    NO_STARVATION.check([source for source in history.items if source != 2], 2)


@holds(PROVENANCE, batches_of_two, schedules=136, events=6)
def has_true_sources(history: History[list[Item]]) -> None:
    for batch, origin in zip(history.items, history.origins, strict=True):
        PROVENANCE.check([(s.shard, s.sequence) for s in origin.sources], [(item.source, item.number) for item in batch])


@pytest.mark.parametrize("name", VERIFIED)
def test_a_law_holds_under_all_schedules(name: str) -> None:
    case = VERIFIED[name]
    told = verify(case.plan, case.check, events=case.events, faults=case.faults)
    assert told.exhausted
    assert (told.schedules, told.longest) == (case.schedules, case.events), "say so in the table, and run docs/generate.py"
