"""Laws of whole runs: isolation, provenance, the ledger, failure, determinism, messages to actors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.world import (
    RUNTIMES,
    Learn,
    Sample,
    Sampler,
    items,
    over_repeatable_runtimes,
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
    Actors,
    Iter,
    Live,
    LiveOp,
    Shard,
    Stateful,
    Stateless,
    Union,
    create_actor,
    create_actors,
    from_actors,
    from_items,
    from_range,
    par_from_items,
)
from tflow.actors import Resident, create_resident
from tflow.errors import OperatorError
from tflow.laws import BALANCE, ISOLATION, NO_EFFECTS, ORDER, PROVENANCE, SURVIVAL
from tflow.types import NOWHERE, Provenance, Source, StatefulLiveOp


@dataclass(frozen=True)
class LookAt(LiveOp[Sample, Sample]):
    """Reaches an object in the driver."""

    resident: Resident[Sampler]

    def apply(self, live: Live, item: Sample, /) -> Sample:
        live.resident(self.resident).sample()
        return item


class Count(Stateful[Sample, int, int]):
    def init(self) -> int:
        return 0

    def step(self, state: int, item: Sample, /) -> tuple[int, int]:
        return state + 1, state + 1


# --------------------------------------------------------------------------- isolation


@proves(ISOLATION, "from_actors", "ParIter.par_for_each")
@over_runtimes_and_ray
@given(num=shard_counts, turns=st.lists(st.booleans(), max_size=12))
def test_two_plans_over_the_same_actors_never_meet(runtime: str, num: int, turns: list[bool]) -> None:
    """Each sees only its own operators and state; every sample goes to exactly one of them."""
    actors = samplers(num)
    plain = sampling(actors).gather_async()
    counted = sampling(actors).par_for_each(Count()).par_map(str).gather_async()
    samples: list[Sample] = []
    counts: dict[int, list[str]] = {}
    with RUNTIMES[runtime]() as session, plain.run(runtime=session) as one, counted.run(runtime=session) as two:
        for first in turns:
            if first:
                samples.append(next(one))
            else:
                count = next(two)
                (source,) = two.provenance.sources
                counts.setdefault(source.shard, []).append(count)
    assert all(isinstance(sample, Sample) for sample in samples)
    for sequence in per_shard(samples).values():
        assert sequence == sorted(set(sequence))
    for each in counts.values():
        assert each == [str(n) for n in range(1, len(each) + 1)]


@over_runtimes
@given(values=items, shards=shard_counts)
def test_values_are_read_again_by_every_run_of_a_session(runtime: str, values: list[int], shards: int) -> None:
    stream = par_from_items(values, shards=shards).gather_sync()
    with RUNTIMES[runtime]() as session:
        assert list(stream.run(runtime=session)) == values
        assert list(stream.run(runtime=session)) == values


@over_runtimes_and_ray
def test_actors_live_as_long_as_their_session(runtime: str) -> None:
    actors = samplers(1)
    stream = sampling(actors).gather_sync().take(2)
    with RUNTIMES[runtime]() as session:
        assert [s.sequence for s in stream.run(runtime=session)] == [0, 1]
        assert [s.sequence for s in stream.run(runtime=session)] == [2, 3], "the same actors"
    assert [s.sequence for s in stream.run()] == [0, 1], "a session of its own"


@over_runtimes
def test_equal_descriptions_are_two_sets_of_actors(runtime: str) -> None:
    twins = [samplers(1), samplers(1)]
    found = results(Union(*(sampling(actors).gather_sync().take(2) for actors in twins)), runtime)
    assert [sample.sequence for sample in found] == [0, 0, 1, 1]


@proves(NO_EFFECTS, "create_actors", "create_actor", "create_resident")
def test_describing_a_plan_starts_nothing() -> None:
    happened: list[object] = []

    def make(shard: Shard) -> Sampler:
        happened.append(shard.actors)
        return Sampler(shard)

    workers, learner = create_actors(make, num=2), create_actor(make)
    looked = from_actors(workers, Sampler.sample).gather_async().tap(happened.append).for_each(LookAt(create_resident(make)))
    plan = looked.call(learner, Count()).take(3)
    plan.validate()
    assert str(plan)
    assert plan.fingerprint
    NO_EFFECTS.check(happened)
    assert list(plan.run())
    assert happened, "it would have been noticed"


class Base:
    def __init__(self, shard: Shard) -> None:
        self.level = 0

    def read(self) -> int:
        return self.level

    def raise_to(self, level: int) -> None:
        self.level = level


class Derived(Base):
    def read(self) -> int:
        return 100 + self.level

    def raise_to(self, level: int) -> None:
        self.level = -level


class Reads(Protocol):
    def read(self) -> int: ...


@dataclass(frozen=True)
class Raise(LiveOp[int, int]):
    actors: Actors[Base]

    def apply(self, live: Live, item: int, /) -> int:
        live[self.actors].update(Base.raise_to, 7)
        return item


@over_runtimes_and_ray
def test_methods_named_by_a_base_class_or_a_protocol_are_those_of_the_actor(runtime: str) -> None:
    actors = create_actors(Derived, num=1)
    assert results(from_actors(actors, Base.read).gather_sync().for_each(Raise(actors)).take(2), runtime) == [100, 93]
    assert results(from_actors(actors, Reads.read).gather_sync().take(1), runtime) == [100]
    assert results(from_actors(actors, lambda actor: Base.read(actor)).gather_sync().take(1), runtime) == [0]


class Careless(Stateless[int, int]):
    """Changes itself, against the rules."""

    def __init__(self) -> None:
        self.total = 0

    def apply(self, item: int, /) -> int:
        self.total += item
        return self.total


@proves(ISOLATION, "Iter.for_each")
@over_runtimes
def test_an_operator_that_changes_itself_reaches_no_other_run_or_shard(runtime: str) -> None:
    stream = from_range(4).for_each(Careless())
    assert results(stream, runtime) == results(stream, runtime) == [0, 1, 3, 6]
    shards = par_from_items([1, 1, 1, 1], shards=2).par_for_each(Careless()).gather_sync()
    assert results(shards, runtime) == [1, 1, 2, 2]


# --------------------------------------------------------------------------- provenance


@proves(PROVENANCE, "from_actors", "Iter.batch")
@over_runtimes_and_ray
@given(num=shard_counts, size=sizes, limit=st.integers(1, 5))
def test_provenance_follows_items_through_every_operator(runtime: str, num: int, size: int, limit: int) -> None:
    actors = samplers(num, [limit] * num)
    stream = sampling(actors).gather_async().map(tuple).filter(lambda x: True).tap(lambda x: None).batch(size)
    with RUNTIMES[runtime]() as session, stream.run(runtime=session) as run:
        for batch in run:
            expected = {(shard, sequence) for shard, sequence, _ in batch}
            assert {(source.shard, source.sequence) for source in run.provenance.sources} == expected
            assert {source.actors for source in run.provenance.sources} == {"make"}


@proves(PROVENANCE, "Iter.zip")
@over_runtimes
@given(num=shard_counts)
def test_combining_items_unites_their_sources(runtime: str, num: int) -> None:
    rounds = sampling(samplers(num)).gather_rounds()
    zipped = sampling(samplers(num)).gather_sync().zip(rounds).map(lambda pair: pair)
    with RUNTIMES[runtime]() as session, zipped.run(runtime=session) as run:
        left, right = next(run)
        names = {source.actors for source in run.provenance.sources}
        assert len(run.provenance.sources) == 1 + num
        assert names == {"make", "make#2"}
        assert (left.shard, [sample.shard for sample in right]) == (0, list(range(num)))


@over_runtimes
@given(num=shard_counts, updates=st.integers(1, 4))
def test_items_carry_the_weight_version_of_their_call(runtime: str, num: int, updates: int) -> None:
    actors = samplers(num)
    stream = sampling(actors).gather_sync().for_each(Learn(actors))
    with RUNTIMES[runtime]() as session, stream.run(runtime=session) as run:
        for _ in range(updates * num):
            sample = next(run)
            assert run.provenance.versions.get("default", 0) == sample.weights


def test_uniting_takes_the_oldest_version_and_every_source() -> None:
    a, b = Source("w", 0, 0, 1), Source("w", 1, 0, 1)
    parts = [Provenance(frozenset([a]), {"x": 3, "y": 1}), Provenance(frozenset([b]), {"x": 2}), NOWHERE]
    assert Provenance.unite(parts) == Provenance(frozenset([a, b]), {"x": 2, "y": 0}), "never updated is version 0"


@over_runtimes_and_ray
def test_results_of_another_actor_keep_the_provenance_of_their_input(runtime: str) -> None:
    stream = sampling(samplers(2, [3, 3])).repartition(3).par_batch(2).gather_async()
    with RUNTIMES[runtime]() as session, stream.run(runtime=session) as run:
        for batch in run:
            assert {(s.shard, s.sequence) for s in run.provenance.sources} == {(s.shard, s.sequence) for s in batch}


# --------------------------------------------------------------------------- the ledger


@proves(BALANCE, "ParIter.gather_async")
@over_runtimes_and_ray
@given(
    limits=st.lists(st.integers(0, 6), min_size=1, max_size=3),
    in_flight=st.integers(1, 3),
    per_call=st.integers(1, 3),
    stop=st.integers(0, 12),
)
def test_the_ledger_balances_after_every_poll_and_after_an_early_stop(
    runtime: str, limits: list[int], in_flight: int, per_call: int, stop: int
) -> None:
    stream = sampling(samplers(len(limits), limits)).gather_async(in_flight=in_flight, per_call=per_call)
    with RUNTIMES[runtime]() as session, stream.run(runtime=session) as run:
        assert run.ledger.balanced
        taken = 0
        for _ in run:
            taken += 1
            assert run.ledger.balanced
            assert run.ledger.items.delivered == taken
            if taken == stop:
                break
    assert run.ledger.balanced
    assert run.ledger.calls.in_flight == run.ledger.items.buffered == 0
    assert run.ledger.calls.issued == run.ledger.calls.answered + run.ledger.calls.abandoned
    assert run.ledger.items.delivered == taken


# --------------------------------------------------------------------------- failure

Stage = Callable[[Iter[int]], Iter[object]]


def fail_at(where: int) -> Callable[[int], int]:
    def check(value: int) -> int:
        if value == where:
            raise ValueError(f"value {where}")
        return value

    return check


STAGES: dict[str, Callable[[Iter[int], Callable[[int], int]], Iter[object]]] = {
    "map": lambda s, f: s.map(f),
    "filter": lambda s, f: s.filter(lambda x: f(x) == x),
    "tap": lambda s, f: s.tap(f),
    "flat_map": lambda s, f: s.flat_map(lambda x: [f(x)]),
    "scan": lambda s, f: s.scan(lambda _, x: f(x), 0),
}


@over_runtimes
@pytest.mark.parametrize("stage", STAGES)
@given(length=st.integers(1, 100), data=st.data())
def test_an_exception_names_operator_and_item_and_loses_nothing_before_it(
    runtime: str, stage: str, length: int, data: st.DataObject
) -> None:
    where = data.draw(st.integers(0, length - 1))
    stream = STAGES[stage](from_range(length).map(lambda x: x).named("before"), fail_at(where)).map(lambda x: x)
    found = []
    with RUNTIMES[runtime]() as session, pytest.raises(OperatorError) as caught:
        for item in stream.run(runtime=session):
            found.append(item)
    assert found == list(range(where))
    assert caught.value.operator.startswith(stage)
    assert (caught.value.item, caught.value.shard) == (where, None)
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.__cause__.__traceback__ is not None


@proves(SURVIVAL, "ParIter.gather_async")
@proves(BALANCE, "ParIter.gather_sync")
@over_runtimes
@given(num=st.integers(2, 4), bad=st.integers(0, 3), where=st.integers(0, 4), per_call=st.integers(1, 3))
def test_a_failing_shard_takes_nothing_of_the_others_with_it(runtime: str, num: int, bad: int, where: int, per_call: int) -> None:
    bad %= num

    def check(sample: Sample) -> Sample:
        if (sample.shard, sample.sequence) == (bad, where):
            raise ValueError("bad sample")
        return sample

    stream = sampling(samplers(num)).par_map(check)
    for gathered in (stream.gather_sync(), stream.gather_async(per_call=per_call)):
        found: list[Sample] = []
        with RUNTIMES[runtime]() as session:
            run = gathered.run(runtime=session)
            with pytest.raises(OperatorError, match=rf"par_map\(check\) in shard make\[{bad}\], item {where}, raised") as caught:
                for sample in run:
                    found.append(sample)
            assert caught.value.shard == f"make[{bad}]"
            assert per_shard(found).get(bad, []) == list(range(where)), "what the shard had done before is delivered"
            assert run.ledger.balanced
    assert per_shard(found) == {s: list(range(len(q))) for s, q in per_shard(found).items()}


@proves(SURVIVAL, "ParIter.gather_sync")
@proves(ORDER, "ParIter.gather_sync")
@over_runtimes_and_ray
def test_in_a_round_the_healthy_shards_are_delivered_first(runtime: str) -> None:
    def check(sample: Sample) -> Sample:
        if sample.shard == 0 and sample.sequence == 1:
            raise ValueError("bad sample")
        return sample

    found = []
    with RUNTIMES[runtime]() as session, pytest.raises(OperatorError):
        for sample in sampling(samplers(3)).par_map(check).gather_sync().run(runtime=session):
            found.append((sample.shard, sample.sequence))
    assert found == [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1)]


@over_runtimes
def test_a_failure_is_not_hidden_because_enough_items_came_without_it(runtime: str) -> None:
    def check(sample: Sample) -> Sample:
        if sample.shard == 0:
            raise ValueError("bad sample")
        return sample

    found = []
    with RUNTIMES[runtime]() as session, pytest.raises(OperatorError, match="bad sample"):
        for sample in sampling(samplers(3)).par_map(check).gather_sync().take(2).run(runtime=session):
            found.append(sample.shard)
    assert found == [1, 2]


# --------------------------------------------------------------------------- messages


class Store:
    """An actor that keeps what it is sent, and answers slowly: one at a time."""

    def __init__(self, shard: Shard) -> None:
        self.kept: list[int] = []

    def insert(self, value: int) -> None:
        if value < 0:
            raise ValueError("negative")
        self.kept.append(value)

    def contents(self) -> list[int]:
        return self.kept


@dataclass(frozen=True)
class Deal(StatefulLiveOp[int, int, int]):
    """Sends each item ``copies`` times to the stores in turn."""

    stores: Actors[Store]
    copies: int = 1

    def init(self) -> int:
        return 0

    def step(self, live: Live, state: int, item: int, /) -> tuple[int, int]:
        for _ in range(self.copies):
            live[self.stores].send(Store.insert, item, shard=state % len(live[self.stores]))
        return state + 1, item


@over_runtimes_and_ray
@given(values=st.lists(st.integers(0, 99), max_size=20), num=shard_counts, mailbox=st.integers(1, 3), copies=st.integers(1, 5))
def test_events_arrive_once_in_order_within_the_mailbox(
    runtime: str, values: list[int], num: int, mailbox: int, copies: int
) -> None:
    stores = create_actors(Store, num=num, mailbox=mailbox)
    with RUNTIMES[runtime]() as session:
        run = from_items(values).for_each(Deal(stores, copies)).run(runtime=session)
        for _ in run:
            assert run.ledger.calls.in_flight <= num * mailbox
            assert run.ledger.balanced
        kept = run.ask(stores, Store.contents) if values else [[]] * num
    dealt = [values[shard::num] for shard in range(num)]
    assert kept == [[value for value in each for _ in range(copies)] for each in dealt], "none is lost at the end"


@over_runtimes_and_ray
def test_a_failing_event_stops_the_run_with_its_actor_named(runtime: str) -> None:
    stores = create_actors(Store, num=1, name="stores")
    with (
        RUNTIMES[runtime]() as session,
        pytest.raises(OperatorError, match=r"Store\.insert in shard stores\[0\].*ValueError: negative"),
    ):
        list(from_items([1, -1]).for_each(Deal(stores)).run(runtime=session))


@dataclass(frozen=True)
class Nosy(LiveOp[int, int]):
    """Asks for actors that it does not name."""

    other: Callable[[], Actors[Store]]

    def apply(self, live: Live, item: int, /) -> int:
        return len(live[self.other()])


@over_runtimes
def test_a_live_operator_reaches_only_the_actors_it_names(runtime: str) -> None:
    stores = create_actors(Store, num=1)
    with pytest.raises(OperatorError, match="does not name"):
        results(from_range(1).for_each(Nosy(lambda: stores)), runtime)


@over_runtimes_and_ray
@given(num=st.integers(2, 4))
def test_state_is_merged_and_sent_with_the_next_call(runtime: str, num: int) -> None:
    """Fifty updates while a shard is not called reach it as one, the latest; they cost no call of their own."""
    actors = samplers(num)
    learn = sampling(actors).select_shards(0).gather_sync().for_each(Learn(actors)).take(50)
    with RUNTIMES[runtime]() as session:
        run = learn.run(runtime=session)
        list(run)
        assert run.ledger.calls.issued == 50
        assert run.ask(actors, lambda sampler: sampler.weights) == [50] * num


@over_runtimes_and_ray
@given(num=shard_counts, in_flight=st.integers(1, 3), per_call=st.integers(1, 2), items_=st.integers(1, 12))
def test_the_last_state_that_was_sent_arrives_even_if_the_run_ends(
    runtime: str, num: int, in_flight: int, per_call: int, items_: int
) -> None:
    actors = samplers(num)
    stream = sampling(actors).gather_async(in_flight=in_flight, per_call=per_call).for_each(Learn(actors, sender_only=True))
    with RUNTIMES[runtime]() as session:
        run = stream.take(items_).run(runtime=session)
        last = {sample.shard: update for update, sample in enumerate(run, 1)}
        assert run.ask(actors, lambda sampler: sampler.weights) == [last.get(shard, 0) for shard in range(num)]


# --------------------------------------------------------------------------- determinism


@over_repeatable_runtimes
@given(values=items, seed=st.integers(0, 3))
def test_same_seed_same_plan_same_output(runtime: str, values: list[int], seed: int) -> None:
    def flow() -> Iter[object]:
        actors = create_actors(lambda shard: iter([shard.seed, shard.index]), num=2)
        sampled = from_actors(actors, next).gather_async(in_flight=2)
        stored = par_from_items(values).par_shuffle(3, seed=seed).gather_async()
        return Union(sampled, stored.shuffle(4, seed=seed))

    stream = flow()
    assert results(stream, runtime, seed=seed) == results(stream, runtime, seed=seed)
    assert results(flow(), runtime, seed=seed) == results(stream, runtime, seed=seed), "built again"


@over_runtimes
def test_shards_get_different_seeds_that_depend_on_the_run(runtime: str) -> None:
    def seeds(seed: int) -> list[int]:
        actors = create_actors(lambda shard: iter([shard.seed]), num=3)
        return results(from_actors(actors, next).gather_sync(), runtime, seed=seed)

    assert len(set(seeds(0) + seeds(1))) == 6
    assert seeds(0) == seeds(0)


def test_a_sampler_stops_at_its_limit() -> None:
    assert [s.sequence for s in results(sampling(samplers(1, [2])).gather_sync(), "local")] == [0, 1]
    assert Sampler(Shard("x", 0, 1, 0, 0)).samples_made() == 0
