"""Rare schedules that uniform tapes do not reach: ``explore`` finds them with its usual effort, and makes them small."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tflow import Iter, from_actors
from tflow.testing import History, Item, explore, fault_profiles
from tflow.testing.sources import Maker, makers

Check = Callable[[History[Item]], None]


def two_shards() -> Iter[Item]:
    return from_actors(makers(2), Maker.make).gather_async().take(16)


def far_ahead(history: History[Item]) -> None:
    lead = 0
    for item in history.items:
        lead += 1 if item.source == 0 else -1
        assert lead < 5, "shard 0 is five ahead of shard 1"


def long_run(history: History[Item]) -> None:
    sources = "".join(str(item.source) for item in history.items)
    assert "111111" not in sources, "six answers of shard 1 in a row"


def late_death(history: History[Item]) -> None:
    assert all(not moment.what.startswith("dies") for moment in history.trace[12:]), "a death after twelve events"


@pytest.mark.parametrize(("check", "departures"), [(far_ahead, 7), (long_run, 6), (late_death, 5)])
def test_a_needle_is_found(check: Check, departures: int) -> None:
    faults = fault_profiles(["dies_before", "dies_after"]) if check is late_death else None
    found = explore(two_shards, check, faults=faults)
    assert found is not None
    assert sum(choice > 0 for choice in found.tape) <= departures
