"""What an operator holds back, it shows when its input ends: on the driver, in actors, beside actors, with messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.world import RUNTIMES, items, over_runtimes, results, sizes
from tflow import (
    Actors,
    Iter,
    Live,
    Stateful,
    create_actor,
    create_actors,
    from_actors,
    from_items,
    from_range,
    par_from_items,
)
from tflow.errors import OperatorError
from tflow.testing import Faults, simulate
from tflow.types import StatefulActorOp, StatefulLiveOp

Sums = list[int]


@dataclass(frozen=True)
class NStep(Stateful[int, list[int], list[int]]):
    """The sum of each item and the ``n - 1`` after it, as soon as they are there; the last sums have fewer."""

    n: int

    def init(self) -> list[int]:
        return []

    def step(self, state: list[int], item: int, /) -> tuple[list[int], Sums]:
        held = [*state, item]
        return (held[1:], [sum(held)]) if len(held) == self.n else (held, [])

    def at_end(self, state: list[int], /) -> Iterable[Sums]:
        for start in range(len(state)):
            yield [sum(state[start:])]


def n_step_sums(values: list[int], n: int) -> list[int]:
    return [sum(values[start : start + n]) for start in range(len(values))]


class Adder:
    """An actor that knows what it has added."""

    def __init__(self, _: object) -> None:
        self.added = 0

    def add(self, value: int) -> None:
        self.added += value

    def total(self) -> int:
        return self.added


@dataclass(frozen=True)
class NStepBeside(StatefulActorOp[Adder, int, list[int], list[int]]):
    """The same, beside an actor that it tells."""

    n: int

    def init(self) -> list[int]:
        return []

    def step(self, actor: Adder, state: list[int], item: int, /) -> tuple[list[int], Sums]:
        held, shown = NStep(self.n).step(state, item)
        actor.add(sum(shown))
        return held, shown

    def at_end(self, actor: Adder, state: list[int], /) -> Iterable[Sums]:
        for shown in NStep(self.n).at_end(state):
            actor.add(sum(shown))
            yield shown


@dataclass(frozen=True)
class NStepSent(StatefulLiveOp[int, list[int], list[int]]):
    """The same, with a message for each sum."""

    n: int
    adders: Actors[Adder]

    def init(self) -> list[int]:
        return []

    def step(self, live: Live, state: list[int], item: int, /) -> tuple[list[int], Sums]:
        held, shown = NStep(self.n).step(state, item)
        for total in shown:
            live[self.adders].send(Adder.add, total)
        return held, shown

    def at_end(self, live: Live, state: list[int], /) -> Iterable[Sums]:
        for shown in NStep(self.n).at_end(state):
            live[self.adders].send(Adder.add, sum(shown))
            yield shown


@over_runtimes
@given(values=items, n=sizes, fuse=st.booleans())
def test_on_the_driver(runtime: str, values: list[int], n: int, fuse: bool) -> None:
    stream = from_items(values).map(lambda x: x + 1).for_each(NStep(n)).flatten().map(lambda x: -x)
    expected = [-total for total in n_step_sums([value + 1 for value in values], n)]
    assert results(stream, runtime, fuse=fuse) == expected


@over_runtimes
@given(values=items, n=sizes, m=sizes)
def test_what_one_shows_at_its_end_goes_through_the_next_that_holds_back(runtime: str, values: list[int], n: int, m: int) -> None:
    stream = from_items(values).for_each(NStep(n)).flatten().for_each(NStep(m)).flatten()
    assert results(stream, runtime) == n_step_sums(n_step_sums(values, n), m)


@over_runtimes
@given(values=items, n=sizes, shards=st.integers(1, 3), per_call=st.integers(1, 4), rounds=st.booleans())
def test_in_actors_each_shard_shows_what_is_left_when_it_ends(
    runtime: str, values: list[int], n: int, shards: int, per_call: int, rounds: bool
) -> None:
    worked = par_from_items(values, shards=shards).par_for_each(NStep(n)).par_flatten()
    shown = results(worked.gather_sync() if rounds else worked.gather_async(per_call=per_call), runtime)
    expected = [total for shard in range(shards) for total in n_step_sums(values[shard::shards], n)]
    assert sorted(shown) == sorted(expected)


@over_runtimes
@given(values=items, n=sizes, waits=st.booleans())
def test_beside_the_actor_that_a_stream_is_handed_to(runtime: str, values: list[int], n: int, waits: bool) -> None:
    adder = create_actor(Adder, name="adder")
    stream = from_items(values)
    handed = stream.call(adder, NStepBeside(n)) if waits else stream.hand_off(adder, NStepBeside(n), mailbox=3)
    assert results(handed.flatten(), runtime) == n_step_sums(values, n)


@given(values=items, n=sizes)
def test_messages_of_the_end_leave_before_its_items_move_on(values: list[int], n: int) -> None:
    adders = create_actors(Adder, num=1, name="adders", mailbox=1)
    told = 0
    with from_items(values).for_each(NStepSent(n, adders)).flatten().run() as run:
        for total in run:
            told += total
            assert run.ask(adders, Adder.total) in ([told], [sum(n_step_sums(values, n))])  # at the end all are sent at once
    assert told == sum(n_step_sums(values, n))


@given(values=items, n=sizes, taken=st.integers(0, 40))
def test_the_end_is_the_end_of_the_input_not_of_the_run(values: list[int], n: int, taken: int) -> None:
    first = from_items(values).take(taken).for_each(NStep(n)).flatten()
    assert list(first.run()) == n_step_sums(values[:taken], n)
    later = from_items(values).for_each(NStep(n)).flatten().take(taken)
    assert list(later.run()) == n_step_sums(values, n)[:taken]


@given(values=items, n=sizes, after=st.integers(0, 60))
def test_a_run_that_is_saved_at_its_end_goes_on_with_what_is_left(values: list[int], n: int, after: int) -> None:
    adders = create_actors(Adder, num=1, name="adders")

    def plan() -> Iter[tuple[Sums, Sums]]:
        worked = par_from_items(values, shards=1).par_for_each(NStep(n)).par_filter(bool)
        return from_items(values).for_each(NStep(n)).filter(bool).zip(worked.gather_sync())

    def sent() -> Iter[Sums]:
        return from_items(values).for_each(NStepSent(n, adders)).filter(bool)

    for make in (plan, sent):
        whole, first = list(make().run()), make().run()
        found: list[Any] = list(islice(first, after))  # Any: of one of the two plans
        if not first._closed:
            assert found + list(make().run(resume=first.snapshot())) == whole


@dataclass(frozen=True)
class Odd(Stateful[int, int, int]):
    """Shows the items, and at the end how many there were."""

    def init(self) -> int:
        return 0

    def step(self, state: int, item: int, /) -> tuple[int, int]:
        return state + 1, item

    def at_end(self, state: int, /) -> Iterable[int]:
        return [-state]


@over_runtimes
@given(values=items, shards=st.integers(1, 3), per_call=st.integers(1, 4), every=sizes)
def test_what_is_shown_at_the_end_comes_from_the_shard_and_has_the_provenance_of_the_last_item(
    runtime: str, values: list[int], shards: int, per_call: int, every: int
) -> None:
    """Also of shards that have read nothing, or rejected all of it; and fused chains say what others say."""
    said = []
    for fuse in (True, False):
        stream = par_from_items(values, shards=shards).par_filter(lambda x: x % every == 0).par_for_each(Odd())
        with RUNTIMES[runtime]() as session, stream.gather_async(per_call=per_call).run(runtime=session, fuse=fuse) as run:
            shown = [(item, [(source.shard, source.sequence) for source in run.provenance.sources]) for item in run]
        said.append(sorted(shown))
        assert all(len(sources) == 1 for _, sources in shown)
        for shard in range(shards):
            kept = [index for index, value in enumerate(values[shard::shards]) if value % every == 0]
            last = kept[-1] if kept else len(values[shard::shards])
            assert (-len(kept), [(shard, last)]) in shown
    assert said[0] == said[1]


def test_a_shard_that_dies_takes_what_it_holds_back_with_it() -> None:
    plan = par_from_items([1, 2, 3, 4], shards=1).par_for_each(NStep(2)).gather_async()
    history = simulate(plan, [0, 1], Faults(dies_after=1, calm=1))
    assert history.happened("dies_after") == 1
    assert history.items[-1] == [4]


def test_nothing_is_asked_of_an_input_that_never_ends() -> None:
    stream = from_actors(create_actors(lambda _: count(), num=2), next).par_for_each(NStep(2)).gather_sync().take(5)
    assert list(stream.run()) == [[], [], [1], [1], [3]]


class Broken(NStep):
    def at_end(self, state: list[int], /) -> Iterable[Sums]:
        raise ValueError("out of order")


class Forgotten(NStep):
    def at_end(self, state: list[int], /) -> Iterable[Sums]:
        return None  # type: ignore[return-value]  # what a test is about


class Endless(NStep):
    def at_end(self, state: list[int], /) -> Iterable[Sums]:
        return ([number] for number in count())


@pytest.mark.parametrize(("op", "says"), [(Broken(3), "out of order"), (Forgotten(3), "NoneType"), (Endless(3), "100,000 items")])
def test_an_error_at_the_end_names_the_operator_and_comes_after_all_items(op: NStep, says: str) -> None:
    shown: list[Sums] = []
    with pytest.raises(OperatorError, match=says) as caught:
        shown.extend(from_range(4).for_each(op).run())
    assert type(op).__name__ in str(caught.value)
    run = from_range(4).for_each(op).run()
    assert [next(run) for _ in range(4)] == [[], [], [3], [6]]
