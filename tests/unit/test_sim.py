"""The simulator: what it copies, what it refuses, how it tells what happened."""

from __future__ import annotations

import numpy as np
import pytest

from tflow import (
    Actors,
    Live,
    LiveOp,
    Shard,
    create_actor,
    create_actors,
    from_actors,
    from_items,
    par_from_items,
    par_from_range,
)
from tflow.errors import OperatorError
from tflow.runtime.border import serialised_copy
from tflow.runtime.sim import NO_FAULTS, Faults, SimRuntime
from tflow.testing import simulate
from tflow.types import ActorOp, Frozen


class Keeper:
    """Keeps what it is given, as it is given."""

    def __init__(self, shard: Shard) -> None:
        self.kept: list[object] = []

    def keep(self, value: object) -> None:
        self.kept.append(value)

    def contents(self) -> list[object]:
        return self.kept


class Tell(LiveOp[list[int], list[int]]):
    def __init__(self, keepers: Actors[Keeper]) -> None:
        self.keepers = keepers

    def apply(self, live: Live, item: list[int], /) -> list[int]:
        live[self.keepers].send(Keeper.keep, item)
        return item


class Grow(ActorOp[Keeper, list[int], list[int]]):
    def apply(self, actor: Keeper, item: list[int], /) -> list[int]:
        item.append(0)
        actor.kept.append(item)
        return item


def test_what_crosses_a_border_is_a_copy() -> None:
    keepers = create_actors(Keeper, num=1)
    first = [1]
    with SimRuntime() as sim:
        run = from_items([first]).for_each(Tell(keepers)).run(runtime=sim)
        for item in run:
            item.append(99)
        assert run.ask(keepers, Keeper.contents) == [[[1]]]
    learner = create_actor(Keeper)
    with SimRuntime() as sim:
        run = from_items([[1], [2]]).call(learner, Grow()).run(runtime=sim)
        results = list(run)
        results[0].append(99)
        assert run.ask(learner, Keeper.contents) == [[[1, 0], [2, 0]]]
    assert first == [1, 99], "the driver keeps its own"


def test_what_a_function_closes_over_is_copied_with_it() -> None:
    seen: list[int] = []
    plan = par_from_range(3, shards=1).par_tap(seen.append).gather_sync()
    assert simulate(plan).items == [0, 1, 2]
    assert seen == [], "as in another process; the local runtime would share it"


def test_arrays_arrive_read_only() -> None:
    array = np.arange(3.0)
    arrived = serialised_copy(array)
    assert arrived is not array
    assert not arrived.flags.writeable
    assert isinstance(simulate(from_items([array]).call(create_actor(Keeper), AddsInPlace())).error, OperatorError)
    (shown,) = simulate(par_from_items([array], shards=1).gather_sync()).items
    assert not shown.flags.writeable


class AddsInPlace(ActorOp[Keeper, np.ndarray, float]):
    def apply(self, actor: Keeper, item: np.ndarray, /) -> float:
        item += 1
        return float(item.sum())


class Box(Frozen):
    def __init__(self, value: list[int]) -> None:
        self.value = value


def test_only_what_nobody_could_tell_apart_is_shared() -> None:
    for value in (1, "text", (1, (2.0, None)), frozenset({1}), Shard("a", 0, 1, 0, 0)):
        assert serialised_copy(value) is value
    for other in ([1], {"a": 1}, (1, [2]), Box([1])):
        assert serialised_copy(other) is not other
    counter: list[int] = []

    def closure() -> list[int]:
        return counter

    assert serialised_copy(closure)() is not counter


def test_a_fault_happens_no_more_often_than_it_may() -> None:
    history = simulate(par_from_range(40, shards=2).gather_async(), [1, 1, 1] * 60, Faults(dies_before=2, slow=3))
    assert history.happened("dies_before") <= 2
    assert history.happened("slow") <= 3
    assert repr(Faults(dies_before=2, slow_s=5.0)) == "Faults(dies_before=2, slow_s=5.0)"
    assert repr(NO_FAULTS) == "Faults()"


def test_user_code_that_raises_by_schedule_is_an_operator_error_that_names_the_shard() -> None:
    history = simulate(par_from_range(4).gather_async(), [0, 1], Faults(raises=1))
    assert isinstance(history.error, OperatorError)
    assert history.error.shard == "par_from_range[0]"
    assert "the schedule says so" in str(history.error)


def test_errors_lose_nothing_on_the_way() -> None:
    def fail(value: int) -> int:
        raise KeyError("missing")

    history = simulate(par_from_range(1, shards=1).par_map(fail).gather_sync())
    assert isinstance(history.error, OperatorError)
    assert isinstance(history.error.cause, KeyError)
    assert "raised KeyError: 'missing'" in history.script


def test_time_passes_with_every_call_and_gates_see_it() -> None:
    plan = par_from_range(10, shards=1).gather_sync().every(seconds=0.003)
    assert simulate(plan).items == [2, 5, 8]


def test_a_script_is_short_and_tells_who_did_what() -> None:
    plan = from_actors(create_actors(Keeper, num=1, name="keepers"), Keeper.contents).gather_sync().take(2)
    script = simulate(plan, [1], Faults(dies_before=1)).script
    assert [" ".join(line.split()) for line in script.splitlines()] == [
        "0.001s keepers[0] pull dies before it runs this",
        "0.101s time passes",
        "0.101s keepers[0] incarnation 1 starts",
        "0.102s keepers[0] incarnation 1 pull answers []",
        "0.103s keepers[0] incarnation 1 pull answers []",
    ]


class Opaque:
    pass


def test_a_script_shows_what_was_sent_on_one_line_each() -> None:
    changed = simulate(par_from_items([[1, 2], [3]], shards=1).gather_async().map(lambda values: values.pop()))
    assert "answers [1, 2]" in changed.script
    assert "answers [3]" in changed.script
    arrays = simulate(par_from_items([np.zeros((2, 2))], shards=1).gather_async())
    assert len(arrays.script.splitlines()) == len(arrays.trace)
    opaque = par_from_items([Opaque()], shards=1).gather_async()
    assert simulate(opaque).script == simulate(opaque).script


@pytest.mark.parametrize("seconds", [1.0, 3600.0, 1e9])
def test_an_hour_costs_no_more_events_than_a_second(seconds: float) -> None:
    plan = par_from_range(2, shards=1).gather_sync(timeout_s=seconds)
    history = simulate(plan, [1], Faults(hangs=1))
    assert history.items == [0, 1]
    assert len(history.trace) == 8
