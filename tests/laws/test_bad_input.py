"""Whatever a user does wrong: nothing hangs, nothing is lost silently, and the answer is one of our errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar, cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.laws.world import RUNTIMES, over_runtimes, over_runtimes_and_ray, samplers, sampling
from tflow import (
    Iter,
    LocalRuntime,
    ParIter,
    PlanError,
    Union,
    create_actor,
    create_actors,
    from_actors,
    from_items,
    from_iterable,
    from_range,
    par_from_items,
    par_from_iterables,
    par_from_range,
)
from tflow.combinators import nodes
from tflow.errors import OperatorError
from tflow.runtime.answers import DONE, WAITING
from tflow.runtime.base import Mailbox
from tflow.runtime.cell import Site
from tflow.runtime.driver import Driver
from tflow.runtime.host import Host
from tflow.testing import SimRuntime, tapes
from tflow.testing.strategies import PARALLEL, SEQUENTIAL, build

T = TypeVar("T")
pieces = st.lists(st.integers(0, len(SEQUENTIAL) + len(PARALLEL) - 1), max_size=4)


class Bomb:
    """A function that counts its calls and raises at one of them."""

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.calls = 0

    def __call__(self, value: int) -> int:
        self.calls += 1
        if self.calls - 1 == self.at:
            raise ValueError("boom")
        return value


@over_runtimes
@given(chosen=pieces, length=st.integers(0, 40), at=st.integers(0, 60))
def test_an_exception_anywhere_ends_the_run_with_its_name_and_loses_nothing_before(
    runtime: str, chosen: list[int], length: int, at: int
) -> None:
    with RUNTIMES[runtime]() as session:
        healthy = list(build(chosen, length, Bomb(None)).run(runtime=session))
    bomb = Bomb(at)
    found: list[int] = []
    caught: OperatorError | None = None
    with RUNTIMES[runtime]() as session:
        run = build(chosen, length, bomb).run(runtime=session)
        try:
            for item in run:
                found.append(item)
                assert run.ledger.balanced
        except OperatorError as error:
            caught = error
    if caught is None:
        assert bomb.calls <= at, "an exception must not be swallowed"
        assert found == healthy
    else:
        assert isinstance(caught.__cause__, ValueError)
        if caught.shard is None:  # after a shard's error the items of healthy shards are still delivered
            assert found == healthy[: len(found)], "what was shown before the error is what a healthy run shows"
    assert run.ledger.balanced
    assert run.ledger.calls.in_flight == 0


@over_runtimes_and_ray
@given(chosen=pieces, length=st.integers(0, 40), stop=st.integers(0, 20))
def test_stopping_anywhere_leaves_clean_books(runtime: str, chosen: list[int], length: int, stop: int) -> None:
    with RUNTIMES[runtime]() as session, build(chosen, length, Bomb(None)).run(runtime=session) as run:
        for taken, _ in enumerate(run):
            if taken == stop:
                break
    assert run.ledger.balanced
    assert run.ledger.calls.in_flight == run.ledger.items.buffered == 0


@over_runtimes
@given(chosen=pieces, count_=st.integers(0, 30))
def test_endless_sources_give_as_much_as_is_asked_for(runtime: str, chosen: list[int], count_: int) -> None:
    stream: Iter[int] = from_iterable(count)
    for piece in chosen:
        if piece not in (2, 3, 6, 9, 17):  # those may end it or run dry
            stream = (*SEQUENTIAL, *PARALLEL)[piece](stream, Bomb(None))
    with RUNTIMES[runtime]() as session:
        assert len(list(stream.take(count_).run(runtime=session))) == count_


@over_runtimes
@given(chosen=pieces, length=st.integers(0, 40))
def test_a_deterministic_plan_yields_one_sequence_on_every_runtime(runtime: str, chosen: list[int], length: int) -> None:
    stream = build(chosen, length, Bomb(None))
    assume(stream.deterministic)
    with RUNTIMES[runtime]() as session:
        assert list(stream.run(runtime=session)) == list(stream.run())


class Forgetful(LocalRuntime):
    """Starts every generator again whenever the driver waits: whatever is not in an attribute is gone."""

    driver: Driver | None = None

    def wait(self, mailbox: Mailbox, *, timeout: float | None = None) -> None:
        self.start_again()
        super().wait(mailbox, timeout=timeout)

    def start_again(self) -> None:
        sites: list[Site] = [self.driver] if self.driver else []
        for pool in self.pools.values():
            for shard in pool.shards:
                assert isinstance(shard.handle, Host)
                sites += [site for _, site in shard.handle.chains.values()]
        for site in sites:
            for cell in site.cells:
                cell.start()


def polled_afresh(stream: Iter[T]) -> list[T]:
    """What a plan yields if all generators are started again before every poll."""
    found: list[T] = []
    with Forgetful() as session, stream.run(runtime=session) as run:
        sink, session.driver = run._started(), run._driver
        while True:
            session.start_again()
            answer = sink.poll()
            if answer is DONE:
                return found
            if type(answer) is tuple:
                found.append(cast("T", answer[0]))
            elif answer is WAITING:
                run._driver.collect()


@given(chosen=pieces, length=st.integers(0, 40))
def test_all_state_is_in_attributes_so_cells_can_be_started_again_at_any_poll(chosen: list[int], length: int) -> None:
    assert polled_afresh(build(chosen, length, Bomb(None))) == list(build(chosen, length, Bomb(None)).run())


@given(size=st.integers(1, 7), weights=st.lists(st.integers(0, 9), max_size=20), cuts=st.booleans())
def test_groups_by_weight_are_the_same_when_started_again(size: int, weights: list[int], cuts: bool) -> None:
    def groups() -> Iter[list[list[int]]]:
        items = from_items([[index] * weight for index, weight in enumerate(weights)])
        return items.batch(size, weigh=len, cut=(lambda item, at: (item[:at], item[at:])) if cuts else None)

    expected = list(groups().run())
    assert polled_afresh(groups()) == expected
    whole = [group for group in expected[:-1] if cuts]
    assert all(sum(map(len, group)) == size for group in whole)


@given(size=st.integers(1, 5), length=st.integers(0, 20), shards=st.integers(1, 3))
def test_groups_inside_actors_are_the_same_when_started_again(size: int, length: int, shards: int) -> None:
    stream = par_from_range(length, shards=shards).par_batch(size).par_map(len).gather_sync()
    assert polled_afresh(stream) == list(stream.run())


@given(slots=st.integers(1, 4), proportion=st.sampled_from([0.0, 0.5, 1.0, 2.5]), length=st.integers(0, 15))
def test_items_that_are_mixed_in_are_the_same_when_started_again(slots: int, proportion: float, length: int) -> None:
    stream: Iter[int] = Iter(nodes.MixIn(from_range(length).node, slots, proportion, 3))
    assert polled_afresh(stream) == list(stream.run())


@given(chosen=pieces, length=st.integers(0, 12), tape=tapes())
def test_after_the_end_comes_the_end_again(chosen: list[int], length: int, tape: list[int]) -> None:
    with SimRuntime(tape) as session, build(chosen, length).run(runtime=session) as run:
        sink, driver = run._started(), run._driver
        while (answer := sink.poll()) is not DONE:
            if answer is WAITING:
                driver.collect()
        assert [sink.poll(), sink.poll()] == [DONE, DONE]


JUNK = st.sampled_from(
    [None, -1, 0, 1, 2.5, "x", b"", [], [1], {}, object(), float("nan"), True, len, int, 10**30, iter(()), ...]
)


def targets() -> dict[str, Callable[..., object]]:
    """Every public method and function that builds plans."""
    actors = samplers(2)
    receivers = [from_items([1, 2]), sampling(actors)]
    found: dict[str, Callable[..., object]] = {}
    for receiver in receivers:
        for name, member in inspect.getmembers(receiver, callable):
            if not name.startswith("_") and name not in ("run", "validate"):
                found[f"{type(receiver).__name__}.{name}"] = member
    functions = (from_items, from_range, from_iterable, from_actors, par_from_items, par_from_range, par_from_iterables)
    return found | {f.__name__: f for f in (*functions, create_actors, create_actor)} | {"Union": cast("Any", Union)}


@pytest.mark.parametrize("name", sorted(targets()))
@given(data=st.data())
def test_junk_is_refused_with_a_sentence_or_makes_a_plan(name: str, data: st.DataObject) -> None:
    target = targets()[name]
    args: list[object] = []
    keywords: dict[str, object] = {}
    for parameter in inspect.signature(target).parameters.values():
        value = data.draw(JUNK, label=parameter.name)
        if parameter.kind is parameter.VAR_POSITIONAL or parameter.kind is parameter.POSITIONAL_ONLY:
            args.append(value)
        elif parameter.kind is not parameter.VAR_KEYWORD and (parameter.default is parameter.empty or data.draw(st.booleans())):
            keywords[parameter.name] = value
    try:
        made = target(*args, **keywords)
    except PlanError as error:
        made = error
    if isinstance(made, PlanError):
        assert str(made).endswith(".")
    if isinstance(made, (Iter, ParIter)):
        assert str(made)
        assert made.fingerprint
