"""Laws of the borders between actors and the driver: gathers, call, hand_off, repartition."""

from __future__ import annotations

from collections import Counter
from itertools import chain, zip_longest
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.world import (
    RUNTIMES,
    Learn,
    Sample,
    items,
    over_runtimes,
    over_runtimes_and_ray,
    per_shard,
    proves,
    results,
    samplers,
    sampling,
    shard_counts,
    sizes,
)
from tflow import (
    ActorOp,
    LocalRuntime,
    ParUnion,
    Shard,
    Stateful,
    TimeBudget,
    create_actor,
    from_items,
    from_iterable,
    from_range,
    par_from_items,
    par_from_iterables,
    par_from_range,
)
from tflow.actors import Actor
from tflow.laws import BOUNDEDNESS, CONSERVATION, EQUIVALENCE, FRESHNESS, LAZINESS, ORDER

parts = st.lists(st.lists(st.integers(), max_size=8), min_size=1, max_size=4)
T = TypeVar("T")


@proves(EQUIVALENCE, "ParIter.gather_sync", "ParIter.gather_rounds", "par_from_iterables")
@over_runtimes
@given(shards=parts)
def test_gather_sync_is_a_zip_of_the_shards(runtime: str, shards: list[list[int]]) -> None:
    rounds = [[x for x in each if x is not None] for each in zip_longest(*shards)]
    stream = par_from_iterables(shards)
    assert results(stream.gather_rounds(), runtime) == rounds
    assert results(stream.gather_sync(), runtime) == list(chain.from_iterable(rounds))


@proves(CONSERVATION, "ParIter.gather_async")
@proves(ORDER, "ParIter.gather_async")
@over_runtimes_and_ray
@given(limits=st.lists(st.integers(0, 8), min_size=1, max_size=4), in_flight=st.integers(1, 3), per_call=st.integers(1, 4))
def test_gather_async_has_the_multiset_of_gather_sync_in_shard_order(
    runtime: str, limits: list[int], in_flight: int, per_call: int
) -> None:
    actors = samplers(len(limits), limits)
    found = results(sampling(actors).gather_async(in_flight=in_flight, per_call=per_call), runtime)
    assert per_shard(found) == {shard: list(range(limit)) for shard, limit in enumerate(limits) if limit}


@proves(FRESHNESS, "ParIter.gather_sync")
@over_runtimes_and_ray
@given(num=shard_counts, rounds=st.integers(1, 5))
def test_every_call_of_a_round_sees_all_updates_made_before(runtime: str, num: int, rounds: int) -> None:
    actors = samplers(num)
    found = results(sampling(actors).gather_sync().for_each(Learn(actors)).take(num * rounds), runtime)
    assert [sample.weights for sample in found] == [num * (index // num) for index in range(num * rounds)]


@proves(FRESHNESS, "ParIter.gather_async")
@over_runtimes_and_ray
@given(num=shard_counts, in_flight=st.integers(1, 3), per_call=st.integers(1, 3), sender_only=st.booleans())
def test_freshness_per_shard(runtime: str, num: int, in_flight: int, per_call: int, sender_only: bool) -> None:
    """What was sent to a shard until its call was finished with reaches the call that replaces it."""
    actors = samplers(num)
    stream = sampling(actors).gather_async(in_flight=in_flight, per_call=per_call)
    found = results(stream.for_each(Learn(actors, sender_only)).take(40), runtime)
    handled: dict[int, list[int]] = {}
    for count, sample in enumerate(found, 1):
        call, last = divmod(sample.sequence + 1, per_call)
        if last == 0:
            handled.setdefault(sample.shard, []).append(count)
        replaced = (sample.sequence // per_call) - in_flight
        if replaced >= 0:
            assert sample.weights >= handled[sample.shard][replaced], (call, sample)


@over_runtimes
@given(num=st.integers(2, 4), bound=st.integers(0, 3), in_flight=st.integers(1, 3))
def test_max_staleness_drops_and_counts(runtime: str, num: int, bound: int, in_flight: int) -> None:
    actors = samplers(num)
    stream = sampling(actors).gather_async(in_flight=in_flight, max_staleness=bound).for_each(Learn(actors)).take(30)
    with RUNTIMES[runtime]() as session, stream.run(runtime=session) as run:
        for updates, sample in enumerate(run):
            assert updates - sample.weights <= bound
        staleness = run.stats()["gather_async()"].staleness["default"]
    assert staleness.worst <= bound
    assert staleness.items == 29, "all but the first, which came before any update"
    assert run.ledger.items.dropped.get("stale", 0) > 0 or num * in_flight - 1 <= bound
    assert run.ledger.balanced


@proves(LAZINESS, "Iter.take", "ParIter.gather_async")
@over_runtimes
@given(num=shard_counts, in_flight=st.integers(1, 3), per_call=st.integers(1, 3), count=st.integers(0, 10))
def test_take_issues_no_more_than_it_must(runtime: str, num: int, in_flight: int, per_call: int, count: int) -> None:
    actors = samplers(num)
    stream = sampling(actors).gather_async(in_flight=in_flight, per_call=per_call).take(count)
    with RUNTIMES[runtime]() as session, stream.run(runtime=session) as run:
        assert run.ledger.calls.issued == 0, "nothing is issued before the first pull"
        assert len(list(run)) == count
    most = -(-count // per_call) + num * in_flight - 1 if count else 0
    assert run.ledger.calls.issued <= most


class Total(ActorOp[list[int], int, int]):
    """Keeps all items in its actor and answers with their sum."""

    def apply(self, actor: list[int], item: int, /) -> int:
        actor.append(item)
        return sum(actor)


class Position(Stateful[T, tuple[int, T], int]):
    def init(self) -> int:
        return 0

    def step(self, state: int, item: T, /) -> tuple[int, tuple[int, T]]:
        return state + 1, (state, item)


def keep(shard: Shard) -> list[int]:
    return []


def ledger_actor() -> Actor[list[int]]:
    return create_actor(keep)


@proves(EQUIVALENCE, "Iter.call")
@proves(CONSERVATION, "Iter.hand_off")
@proves(ORDER, "Iter.hand_off")
@over_runtimes
@given(values=items, mailbox=sizes)
def test_call_and_hand_off_are_for_each_elsewhere(runtime: str, values: list[int], mailbox: int) -> None:
    totals = [sum(values[: index + 1]) for index in range(len(values))]
    stream = from_items(values)
    assert results(stream.call(ledger_actor(), Total()), runtime) == totals
    assert results(stream.hand_off(ledger_actor(), Total(), mailbox=mailbox), runtime) == totals
    assert results(stream.hand_off(ledger_actor(), Position[int](), mailbox=mailbox), runtime) == list(enumerate(values))


@proves(BOUNDEDNESS, "Iter.call", "Iter.hand_off")
@over_runtimes
@given(values=items, mailbox=st.integers(1, 3))
def test_hand_off_never_exceeds_its_mailbox_and_call_pulls_nothing_meanwhile(
    runtime: str, values: list[int], mailbox: int
) -> None:
    pulled: list[int] = []
    source = from_items(values).tap(pulled.append)
    for stream, bound in (
        (source.hand_off(ledger_actor(), Total(), mailbox=mailbox), mailbox),
        (source.call(ledger_actor(), Total()), 1),
    ):
        pulled.clear()
        with RUNTIMES[runtime]() as session, stream.run(runtime=session) as run:
            for shown, _ in enumerate(run):
                assert run.ledger.calls.in_flight <= bound
                assert len(pulled) - shown <= bound + 1


@over_runtimes
@given(values=items, mailbox=st.integers(1, 3))
def test_drop_oldest_counts_what_it_drops_and_keeps_order(runtime: str, values: list[int], mailbox: int) -> None:
    stream = from_items(list(enumerate(values))).hand_off(
        ledger_actor(), Position[tuple[int, int]](), mailbox=mailbox, on_full="drop_oldest"
    )
    with RUNTIMES[runtime]() as session, stream.run(runtime=session) as run:
        kept = [item for _, item in run]
    places = [place for place, _ in kept]
    assert places == sorted(set(places))
    assert len(kept) + run.ledger.items.dropped.get("overflow", 0) == len(values)
    assert run.ledger.balanced


@proves(CONSERVATION, "ParIter.repartition")
@over_runtimes
@given(values=items, shards=shard_counts, fresh=shard_counts)
def test_repartition_keeps_the_multiset(runtime: str, values: list[int], shards: int, fresh: int) -> None:
    stream = par_from_items(values, shards=shards).repartition(fresh).par_map(lambda x: x + 1)
    expected = Counter(x + 1 for x in values)
    assert Counter(results(stream.gather_async(), runtime)) == expected
    assert Counter(results(stream.gather_sync(), runtime)) == expected
    assert Counter(results(stream.par_batch(3).par_flatten().gather_async(), runtime)) == expected


@proves(EQUIVALENCE, "ParUnion")
@over_runtimes
@given(shards=parts, more=parts)
def test_par_union_puts_shards_side_by_side(runtime: str, shards: list[list[int]], more: list[list[int]]) -> None:
    both = ParUnion(par_from_iterables(shards), par_from_iterables(more)).par_map(lambda x: x)
    assert results(both.gather_rounds(), runtime) == results(par_from_iterables(shards + more).gather_rounds(), runtime)


@proves(LAZINESS, "ParIter.select_shards")
@over_runtimes
@given(num=shard_counts, data=st.data())
def test_select_shards_calls_no_other_actor(runtime: str, num: int, data: st.DataObject) -> None:
    actors = samplers(num)
    chosen = data.draw(st.lists(st.integers(0, num - 1), min_size=1, unique=True))
    stream = sampling(actors).select_shards(*chosen).gather_sync().take(len(chosen))
    with RUNTIMES[runtime]() as session, stream.run(runtime=session) as run:
        assert [sample.shard for sample in run] == chosen
        made = run.ask(actors, lambda sampler: sampler.samples_made())
    assert made == [int(shard in chosen) for shard in range(num)]


@proves(EQUIVALENCE, "par_from_range", "from_range")
@over_runtimes
@given(count=st.integers(0, 20), shards=shard_counts)
def test_par_from_range_is_range_in_blocks(runtime: str, count: int, shards: int) -> None:
    stream = par_from_range(count, shards=shards)
    blocks = [results(stream.select_shards(shard).gather_sync(), runtime) for shard in range(shards)]
    assert list(chain.from_iterable(blocks)) == results(from_range(count), runtime)
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 1


@proves(EQUIVALENCE, "ParIter.par_zip")
@over_runtimes
@given(limit=st.integers(0, 6))
def test_par_zip_pairs_items_of_one_shard(runtime: str, limit: int) -> None:
    actors = samplers(2, [limit, limit])
    pairs = results(sampling(actors).par_zip(sampling(actors)).gather_sync(), runtime)
    assert all(a.shard == b.shard and b.sequence == a.sequence + 1 for a, b in pairs)
    assert len(pairs) == 2 * (limit // 2)


@proves(EQUIVALENCE, "from_items", "par_from_items", "from_iterable")
@over_runtimes
def test_repeat_starts_again_and_an_empty_source_ends(runtime: str) -> None:
    assert results(from_items([1, 2], repeat=True).take(5), runtime) == [1, 2, 1, 2, 1]
    assert results(par_from_items([1, 2], shards=2, repeat=True).gather_sync().take(5), runtime) == [1, 2, 1, 2, 1]
    assert results(from_items([], repeat=True), runtime) == []
    assert results(from_iterable(lambda: iter("ab")), runtime) == ["a", "b"]
    assert results(par_from_items([], repeat=True).gather_async(), runtime) == []


@over_runtimes
def test_one_sample_type(runtime: str) -> None:
    actors = samplers(1)
    assert results(sampling(actors).gather_sync().take(1), runtime) == [Sample(0, 0, 0)]


class Budgeting(LocalRuntime):
    """Brings what a time budget allows, as runtimes with processes do."""

    def most_items(self, per_call: int | TimeBudget) -> int | TimeBudget:
        return per_call


def test_a_time_budget_is_over_even_if_all_that_follows_is_filtered_out(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(100_000))
    monkeypatch.setattr("tflow.runtime.host.time.perf_counter", lambda: next(ticks) / 1000)
    read: list[int] = []
    stream = par_from_items(range(10_000), shards=1).par_tap(read.append).par_filter(lambda x: x == 3)
    with Budgeting() as session, stream.gather_async(per_call=TimeBudget(seconds=0.02)).run(runtime=session) as run:
        assert next(run) == 3
    assert len(read) < 100
