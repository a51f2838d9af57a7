"""Pools that become larger and smaller while a run goes on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.world import RUNTIMES, Learn, Sample, Sampler, over_runtimes, over_runtimes_and_ray, samplers, sampling
from tflow import LocalRuntime, ParUnion, PlanError, create_actor, create_actors, from_actors, from_items
from tflow.errors import NoHealthyShards, RunClosed
from tflow.runtime.base import Runtime
from tflow.runtime.shards import LivePool, LiveShard
from tflow.runtime.sim import Faults, SimRuntime
from tflow.testing import fault_profiles, tapes
from tflow.types import Source

sizes_over_time = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 4)), max_size=4)
"""After so many items, so many actors."""


def resized(
    start: int, changes: list[tuple[int, int]], session: Runtime, *, in_flight: int, count: int
) -> tuple[list[tuple[Sample, Source]], int]:
    """Items of samplers, whose pool is resized on the way, and where they come from; and how many calls were lost."""
    actors, found, due = samplers(start), [], list(changes)
    with sampling(actors).gather_async(in_flight=in_flight).take(count).run(runtime=session) as run:
        for sample in run:
            assert run.ledger.balanced, run.ledger
            (source,) = run.provenance.sources
            found.append((sample, source))
            if due and len(found) >= due[0][0]:
                run.resize(actors, due.pop(0)[1])
    assert run.ledger.balanced
    assert run.ledger.calls.in_flight == 0
    return found, run.ledger.calls.lost


def check_sources(found: list[tuple[Sample, Source]]) -> None:
    """Every item once, and those of each life of an actor in order, without a gap that is not a loss."""
    sources = [source for _, source in found]
    assert len(set(sources)) == len(sources)
    lives: dict[tuple[int, int], list[int]] = {}
    for source in sources:
        lives.setdefault((source.shard, source.incarnation), []).append(source.sequence)
    assert all(numbers == sorted(numbers) for numbers in lives.values())


@over_runtimes_and_ray
@given(start=st.integers(1, 3), changes=sizes_over_time, in_flight=st.integers(1, 2))
def test_nothing_is_lost_when_a_pool_changes(runtime: str, start: int, changes: list[tuple[int, int]], in_flight: int) -> None:
    with RUNTIMES[runtime]() as session:
        found, lost = resized(start, changes, session, in_flight=in_flight, count=30)
    assert lost == 0
    assert len(found) == 30
    check_sources(found)
    for shard in {sample.shard for sample, _ in found}:
        lives: dict[int, list[int]] = {}
        for sample, source in found:
            if sample.shard == shard:
                lives.setdefault(source.incarnation, []).append(sample.sequence)
        assert all(numbers == list(range(len(numbers))) for numbers in lives.values()), "no gap: what was asked for arrives"


@given(
    start=st.integers(1, 3), changes=sizes_over_time, tape=tapes(), faults=fault_profiles(["dies_before", "dies_after", "slow"])
)
def test_a_pool_may_change_while_actors_die(start: int, changes: list[tuple[int, int]], tape: list[int], faults: Faults) -> None:
    with SimRuntime(tape, faults) as session:
        found, _ = resized(start, changes, session, in_flight=2, count=30)
    assert len(found) == 30
    check_sources(found)


@given(tape=tapes(), faults=fault_profiles(["dies_before", "dies_after"], most=3), smaller=st.integers(1, 2))
def test_a_stream_whose_shards_all_died_or_left_never_ends_quietly(tape: list[int], faults: Faults, smaller: int) -> None:
    actors = samplers(3)
    with SimRuntime(tape, faults) as session, sampling(actors).gather_async(on_death="skip").run(runtime=session) as run:
        found = []
        try:
            for sample in run:
                found.append(sample)
                if len(found) == 1:
                    run.resize(actors, smaller)
                if len(found) == 40:
                    return
        except NoHealthyShards:
            return
    raise AssertionError(f"it ended after {len(found)} items, though samplers never do")


def test_each_policy_of_an_added_shard_is_the_newest() -> None:
    pool = LivePool(samplers(2), "samplers", 0)
    pool.shards = [LiveShard(pool, index, None) for index in (0, 1)]
    for shard, versions in zip(pool.shards, ({"a": 5, "b": 1}, {"a": 1, "b": 4}), strict=True):
        for policy, version in versions.items():
            shard.put_state(Sampler.set_weights, version, policy, version)
    state, versions = pool.newest_state()
    assert {policy: value for (policy, _), (_, value) in state.items()} == versions == {"a": 5, "b": 4}


class Stubborn(Sampler):
    def close(self) -> None:
        raise OSError("still in use")


def test_a_removed_shard_that_cannot_be_closed_takes_nothing_with_it() -> None:
    actors = create_actors(Stubborn, num=3)
    session = LocalRuntime()
    with from_actors(actors, Stubborn.sample).gather_async().take(9).run(runtime=session) as run:
        next(run)
        run.resize(actors, 1)
        assert len(list(run)) == 8
        assert run.ledger.balanced
        assert session.pools[actors].draining == []
    with pytest.raises(OSError, match="still in use"):
        session.close()


@over_runtimes
def test_rounds_have_as_many_items_as_there_are_actors(runtime: str) -> None:
    actors = samplers(2)
    with RUNTIMES[runtime]() as session, sampling(actors).gather_rounds().take(5).run(runtime=session) as run:
        shards = []
        for number, found in enumerate(run):
            shards.append([sample.shard for sample in found])
            if number in (0, 2):
                run.resize(actors, 4 if number == 0 else 1)
    assert shards == [[0, 1], [0, 1, 2, 3], [0, 1, 2, 3], [0], [0]]


@over_runtimes_and_ray
def test_added_shards_have_the_newest_weights(runtime: str) -> None:
    actors = samplers(1)
    with RUNTIMES[runtime]() as session, sampling(actors).gather_sync().for_each(Learn(actors)).run(runtime=session) as run:
        seen = [next(run).weights for _ in range(4)]
        run.resize(actors, 2)
        next_round = [next(run), next(run)]
    assert seen == [0, 1, 2, 3]
    assert [(sample.shard, sample.weights) for sample in next_round] == [(0, 4), (1, 4)]


def test_a_shard_that_is_added_again_is_a_new_incarnation() -> None:
    actors = samplers(2)
    with LocalRuntime() as session, sampling(actors).gather_sync().run(runtime=session) as run:
        lives = []
        for round_of, then in [(2, 1), (1, 2), (2, 2)]:
            for _ in range(round_of):
                next(run)
                lives += [(source.shard, source.incarnation) for source in run.provenance.sources]
            run.resize(actors, then)
    assert lives == [(0, 0), (1, 0), (0, 0), (0, 0), (1, 1)]


def test_only_the_resized_part_of_a_union_changes() -> None:
    left, right = samplers(1), samplers(1)
    stream = ParUnion(sampling(left).par_map(lambda s: ("left", s.shard)), sampling(right).par_map(lambda s: ("right", s.shard)))
    with LocalRuntime() as session, stream.gather_rounds().run(runtime=session) as run:
        assert next(run) == [("left", 0), ("right", 0)]
        run.resize(left, 2)
        assert next(run) == [("left", 0), ("left", 1), ("right", 0)]
        run.resize(left, 1)
        assert next(run) == [("left", 0), ("right", 0)]


class Closing(Sampler):
    """Says when it is closed."""

    closed: list[int] = []

    def close(self) -> None:
        self.closed.append(self.shard)


def test_removed_shards_are_closed_once_and_all_others_with_the_session() -> None:
    Closing.closed.clear()
    actors = create_actors(Closing, num=3)
    with LocalRuntime() as session, from_actors(actors, Closing.sample).gather_async().take(9).run(runtime=session) as run:
        next(run)
        run.resize(actors, 1)
        list(run)
        assert sorted(Closing.closed) == [1, 2]
    assert sorted(Closing.closed) == [0, 1, 2]


def test_a_constructor_that_fails_leaves_the_pool_as_it_was() -> None:
    def make(shard: object) -> Sampler:
        if getattr(shard, "index", 0) == 2:
            raise OSError("no more ports")
        return Sampler(shard)  # type: ignore[arg-type]  # a Shard

    actors = create_actors(make, num=1)
    with LocalRuntime() as session, from_actors(actors, Sampler.sample).gather_sync().run(runtime=session) as run:
        next(run)
        with pytest.raises(Exception, match=r"\[2\] could not be made: OSError: no more ports"):
            run.resize(actors, 3)
        assert [next(run).shard for _ in range(3)] == [0, 0, 0]


def test_what_cannot_be_resized_is_a_sentence() -> None:
    actors, other, single = samplers(1), samplers(1), create_actor(lambda shard: Sampler(shard))
    run = sampling(actors).gather_sync().run()
    for wrong, why in [(0, "at least 1"), (1.5, "whole number"), (True, "whole number")]:
        with pytest.raises(PlanError, match=f"resize: num must be a.*{why}|resize: num must be {why}"):
            run.resize(actors, wrong)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(PlanError, match="resize: the plan does not name the actors"):
        run.resize(other, 2)
    run.close()
    with pytest.raises(RunClosed):
        run.resize(actors, 2)
    with from_items([1]).run() as plain, pytest.raises(PlanError, match="does not name"):
        plain.resize(single, 2)
