"""Laws of what passes between actors: all-gather, all-reduce, scatter."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tflow
from tests.laws.world import (
    RUNTIMES,
    Sample,
    Sampler,
    over_runtimes,
    proves,
    results,
    samplers,
    sampling,
    shard_counts,
)
from tflow import (
    ActorOp,
    Actors,
    Iter,
    ParUnion,
    Shard,
    Stateless,
    TimeBudget,
    create_actors,
    from_items,
    from_range,
    par_from_items,
    par_from_iterables,
    par_from_range,
    par_scatter,
)
from tflow.actors import create_resident
from tflow.combinators import nodes
from tflow.errors import NoHealthyShards, PlanError, ShardFailed, TflowError
from tflow.laws import CONSERVATION, EQUIVALENCE, ISOLATION
from tflow.testing import Faults, SimSchedule, fault_profiles, schedules, simulate

loose: Any = tflow  # Any: what checkers would reject, said at run time

even = shard_counts.flatmap(
    lambda num: st.integers(0, 5).flatmap(
        lambda length: st.lists(st.lists(st.integers(), min_size=length, max_size=length), min_size=num, max_size=num)
    )
)
"""Shards with as many items each."""
uneven = st.lists(st.lists(st.integers(), max_size=5), min_size=2, max_size=4).filter(lambda parts: len({*map(len, parts)}) > 1)
mortal = schedules(fault_profiles(("dies_before", "dies_after"), most=2))


class Sum(Stateless[list[int], int]):
    """Adds the items of a round."""

    def apply(self, item: list[int], /) -> int:
        return sum(item)


class Cell:
    """An actor that holds a number."""

    def __init__(self, shard: Shard) -> None:
        self.index = shard.index
        self.value = 0

    def read(self) -> int:
        return self.value

    def state(self) -> int:
        return self.value

    def load(self, state: int) -> None:
        self.value = state


class Difference(ActorOp[Cell, int, int]):
    """How far the number of an actor is from a goal: what gradients are to a learner."""

    def apply(self, actor: Cell, item: int, /) -> int:
        return item - actor.value


class Move(ActorOp[Cell, int, int]):
    """Changes the number of an actor, and shows it."""

    def apply(self, actor: Cell, item: int, /) -> int:
        actor.value += item
        return actor.value


@proves(EQUIVALENCE, "ParIter.par_all_gather")
@over_runtimes
@given(shards=even)
def test_every_shard_sees_the_rounds_that_the_driver_would_see(runtime: str, shards: list[list[int]]) -> None:
    stream = par_from_iterables(shards)
    rounds = results(stream.gather_rounds(), runtime)
    seen = [[each] * len(shards) for each in rounds]
    assert results(stream.par_all_gather().gather_rounds(), runtime) == seen
    assert sorted(results(stream.par_all_gather().gather_async(), runtime)) == sorted(chain.from_iterable(seen))


@proves(EQUIVALENCE, "ParIter.par_all_reduce")
@over_runtimes
@given(shards=even)
def test_all_reduce_combines_a_round_and_gives_it_back(runtime: str, shards: list[list[int]]) -> None:
    stream = par_from_iterables(shards)
    expected = results(stream.gather_rounds().map(sum), runtime)
    assert results(stream.par_all_reduce(Sum()).gather_rounds(), runtime) == [[total] * len(shards) for total in expected]
    twice = stream.par_all_reduce(Sum()).par_map(lambda total: -total).par_all_reduce(Sum())
    assert results(twice.select_shards(0).gather_sync(), runtime) == [-total * len(shards) for total in expected]


@proves(EQUIVALENCE, "par_scatter")
@over_runtimes
@given(lists=even.filter(lambda shards: len(shards[0]) > 0))
def test_lists_that_were_scattered_are_gathered_again(runtime: str, lists: list[list[int]]) -> None:
    actors = create_actors(Cell, num=len(lists[0]))
    assert results(par_scatter(from_items(lists), actors).gather_rounds(), runtime) == lists


@proves(ISOLATION, "par_scatter")
@over_runtimes
def test_two_runs_over_the_same_actors_scatter_apart(runtime: str) -> None:
    stream = par_scatter(from_items([[1, 2], [3, 4]]), create_actors(Cell, num=2)).par_scan(lambda total, x: total + x, 0)
    with RUNTIMES[runtime]() as session:
        for _ in range(2):
            with stream.gather_rounds().run(runtime=session) as run:
                assert list(run) == [[1, 2], [4, 6]]


def replicas(goals: list[list[int]], steps: int, num: int) -> tuple[Actors[Cell], Iter[list[int]]]:
    """Replicas that go towards goals of their own in common steps: what data-parallel training does."""
    actors = create_actors(Cell, num=num)
    repeated = par_scatter(from_items(goals), actors).par_flat_map(lambda goal: [goal] * steps)
    return actors, repeated.par_for_each(Difference()).par_all_reduce(Sum()).par_for_each(Move()).gather_rounds()


@over_runtimes
@given(steps=st.integers(1, 3), num=shard_counts, data=st.data())
def test_each_step_of_replicas_sees_the_one_before(runtime: str, steps: int, num: int, data: st.DataObject) -> None:
    goals = data.draw(st.lists(st.lists(st.integers(-9, 9), min_size=num, max_size=num), min_size=1, max_size=3))
    actors, plan = replicas(goals, steps, num)
    value, expected = 0, []
    for goal in goals:
        for _ in range(steps):
            value += sum(each - value for each in goal)
            expected.append([value] * num)
    with RUNTIMES[runtime]() as session, plan.run(runtime=session) as run:
        assert list(run) == expected
        assert run.ask(actors, Cell.read) == [value] * num
    assert run.ledger.balanced, run.ledger


@over_runtimes
@given(shards=uneven)
def test_a_shard_that_ends_before_the_others_is_named(runtime: str, shards: list[list[int]]) -> None:
    plan = par_from_iterables(shards).par_all_gather().gather_rounds()
    shortest, first = min(map(len, shards)), min(range(len(shards)), key=lambda shard: len(shards[shard]))
    with RUNTIMES[runtime]() as session, plan.run(runtime=session) as run:
        seen = [next(run) for _ in range(shortest)]
        with pytest.raises(ShardFailed, match=rf"par_from_iterables\[{first}\].* had nothing to give"):
            next(run)
    assert seen == [[[shard[k] for shard in shards]] * len(shards) for k in range(shortest)]
    assert run.ledger.balanced, run.ledger


@over_runtimes
@given(shards=uneven)
def test_with_skip_the_others_go_on_without_a_shard_that_has_ended(runtime: str, shards: list[list[int]]) -> None:
    plan = par_from_iterables(shards).par_all_gather(on_death="skip").gather_rounds()
    rounds = [[shard[k] for shard in shards if k < len(shard)] for k in range(max(map(len, shards)))]
    assert results(plan, runtime) == [[each] * len(each) for each in rounds]


@over_runtimes
def test_what_a_shard_holds_back_is_flushed_when_it_leaves(runtime: str) -> None:
    uneven = par_from_iterables([[1, 2, 3], [4]]).par_all_gather(on_death="skip")
    assert results(uneven.par_batch(2).select_shards(1).gather_sync(), runtime) == [[[1, 4]]]


ragged = st.lists(st.lists(st.integers(), max_size=7), min_size=1, max_size=4)


@proves(EQUIVALENCE, "ParIter.par_batch_together")
@over_runtimes
@given(shards=ragged, size=st.integers(1, 4))
def test_batching_together_is_batching_if_all_are_waited_for(runtime: str, shards: list[list[int]], size: int) -> None:
    stream = par_from_iterables(shards)
    for shard in range(len(shards)):
        alone, together = stream.par_batch(size), stream.par_batch_together(size)
        assert results(together.select_shards(shard).gather_sync(), runtime) == results(
            alone.select_shards(shard).gather_sync(), runtime
        )


@proves(CONSERVATION, "ParIter.par_batch_together")
@over_runtimes
@given(shards=ragged, size=st.integers(1, 4), share=st.sampled_from([0.1, 0.5, 0.6, 1.0]), many=st.booleans())
def test_what_is_cut_is_not_lost(runtime: str, shards: list[list[int]], size: int, share: float, many: bool) -> None:
    budget: int | TimeBudget = TimeBudget(seconds=1.0, items=3) if many else 1
    stream = par_from_iterables(shards).par_batch_together(size, share=share, per_call=budget).par_flatten()
    for shard, expected in enumerate(shards):
        assert results(stream.select_shards(shard).gather_sync(), runtime) == expected


@given(num=st.integers(2, 5), size=st.integers(1, 4), share=st.sampled_from([0.3, 0.6, 1.0]), schedule=schedules())
def test_enough_shards_have_all_of_a_round_and_the_others_something(
    num: int, size: int, share: float, schedule: SimSchedule
) -> None:
    plan = sampling(samplers(num, [3 * size] * num)).par_batch_together(size, share=share).gather_rounds()
    history = simulate(plan, *schedule)
    assert history.complete
    assert history.unbalanced() == []
    ended = False
    for lists in history.items:
        assert all(0 < len(each) <= size for each in lists)
        assert [[sample.shard for sample in each] for each in lists] == [[each[0].shard] * len(each) for each in lists]
        ended = ended or any(sample.sequence == 3 * size - 1 for each in lists for sample in each)
        if not ended:  # one that has ended counts as having given all
            assert sum(len(each) == size for each in lists) >= share * num


def test_a_shard_that_is_slow_is_cut_and_all_that_it_has_is_used() -> None:
    plan = sampling(samplers(3, [8] * 3)).par_batch_together(4, share=0.6).par_map(len).gather_rounds()
    lengths = {tuple(rounds) for tape in range(40) for rounds in simulate(plan, [tape % 3, tape % 2] * 20).items}
    assert (4, 4, 4) in lengths
    assert any(min(each) < 4 for each in lengths), "some schedule cuts"
    local = results(plan, "local")
    assert local == [[4, 4, 4]] * 2, "in turn, nobody is behind"


@given(schedule=mortal)
def test_the_share_that_ends_a_round_is_of_the_shards_that_live(schedule: SimSchedule) -> None:
    plan = sampling(samplers(3, [6] * 3)).par_batch_together(2, share=0.6, on_death="skip").gather_rounds()
    history = simulate(plan, *schedule)
    assert history.unbalanced() == []
    for lists in history.items:
        if any(sample.sequence == 5 for each in lists for sample in each):
            break  # one that has ended counts as having given all
        assert sum(len(each) == 2 for each in lists) >= 0.6 * len(lists)


def batched_together(num: int, how: str, on_death: nodes.Missing) -> Iter[list[list[Sample]]]:
    batched = sampling(samplers(num, [4] * num)).par_batch_together(2, share=0.6, on_death=on_death)
    return batched.par_all_gather(on_death=on_death).gather_sync()


@given(num=st.integers(2, 4), schedule=mortal)
def test_a_death_in_a_chain_of_collectives_is_named_and_nobody_is_restarted(num: int, schedule: SimSchedule) -> None:
    history = simulate(batched_together(num, "sync", "raise"), *schedule)
    struck = [moment.place for moment in history.trace if moment.what.startswith("dies")]
    assert history.happened("starts") == 0
    if struck:
        assert isinstance(history.error, ShardFailed)
        assert str(history.error).startswith(tuple(f"Shard {place} died under" for place in struck))
    assert history.unbalanced() == []


@given(num=st.integers(2, 4), schedule=mortal)
def test_in_a_chain_of_collectives_the_others_go_on_without_the_dead(num: int, schedule: SimSchedule) -> None:
    history = simulate(batched_together(num, "sync", "skip"), *schedule)
    struck = {moment.place for moment in history.trace if moment.what.startswith("dies")}
    well = [shard for shard in range(num) if f"make[{shard}]" not in struck]
    assert history.happened("starts") == 0, "nobody is restarted"
    assert (history.error is None) == bool(well)
    for shard in well:
        of_it = {sample for item in history.items for each in item for sample in each if sample.shard == shard}
        assert sorted(sample.sequence for sample in of_it) == [0, 1, 2, 3]
    assert history.unbalanced() == []


def collective(num: int, how: str, on_death: nodes.Missing) -> Iter[list[Sample]]:
    stream = sampling(samplers(num, [3] * num)).par_all_gather(on_death=on_death)
    return stream.gather_sync() if how == "sync" else stream.gather_async()


@pytest.mark.parametrize("how", ["sync", "async"])
@given(num=st.integers(2, 4), schedule=mortal)
def test_a_death_at_any_moment_ends_the_run_with_the_name_of_the_shard(how: str, num: int, schedule: SimSchedule) -> None:
    history = simulate(collective(num, how, "raise"), *schedule)
    struck = [moment.place for moment in history.trace if moment.what.startswith("dies")]
    assert history.happened("starts") == 0, "nobody is restarted"
    if struck:
        assert isinstance(history.error, ShardFailed)
        assert str(history.error).startswith(tuple(f"Shard {place} died under" for place in struck))
    else:
        assert history.complete
    assert history.unbalanced() == []


@pytest.mark.parametrize("how", ["sync", "async"])
@given(num=st.integers(2, 4), schedule=mortal)
def test_with_skip_the_others_go_on_without_the_dead(how: str, num: int, schedule: SimSchedule) -> None:
    history = simulate(collective(num, how, "skip"), *schedule)
    struck = {moment.place for moment in history.trace if moment.what.startswith("dies")}
    well = [shard for shard in range(num) if f"make[{shard}]" not in struck]
    assert history.happened("starts") == 0, "nobody is restarted"
    if not well:
        assert isinstance(history.error, NoHealthyShards)
    else:
        assert history.error is None
        for shard in well:
            of_it = {sample for item in history.items for sample in item if sample.shard == shard}
            assert sorted(sample.sequence for sample in of_it) == [0, 1, 2]
    assert history.unbalanced() == []


def test_one_that_hangs_is_named_after_its_time() -> None:
    plan = sampling(samplers(2)).par_all_gather(timeout_s=5).gather_rounds()
    history = simulate(plan, [0, 1], Faults(hangs=1))
    assert isinstance(history.error, ShardFailed)
    assert "make[" in str(history.error)


@dataclass(frozen=True)
class DieAt(ActorOp[Sampler, list[Sample], int]):
    """Ends the process of one shard in a round."""

    shard: int
    round: int

    def apply(self, actor: Sampler, item: list[Sample], /) -> int:
        if actor.shard == self.shard and item[0].sequence == self.round:
            os._exit(1)
        return len(item)


@pytest.mark.ray
def test_replicas_in_processes_stay_equal() -> None:
    actors, plan = replicas([[1, 2], [3, 4]], steps=2, num=2)
    with RUNTIMES["ray"]() as session, plan.run(runtime=session) as run:
        assert list(run) == [[3, 3], [0, 0], [7, 7], [0, 0]]
        assert run.ask(actors, Cell.read) == [0, 0]


@pytest.mark.ray
def test_a_process_that_dies_in_a_round_ends_the_run_or_leaves_the_group() -> None:
    with RUNTIMES["ray"]() as session:
        with sampling(samplers(3)).par_all_reduce(DieAt(1, 2)).gather_rounds().run(runtime=session) as run:
            assert [next(run), next(run)] == [[3] * 3] * 2
            with pytest.raises(ShardFailed, match=r"Shard make(#\d)?\[1\] died under"):
                next(run)
        with sampling(samplers(3)).par_all_reduce(DieAt(1, 2), on_death="skip").gather_rounds().run(runtime=session) as run:
            assert [next(run) for _ in range(5)] == [[3] * 3] * 2 + [[3] * 2] + [[2] * 2] * 2


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda s: s.par_all_gather(on_death="restart"), "on_death must be 'raise' or 'skip'"),
        (lambda s: s.par_all_gather(timeout_s=0), "timeout_s"),
        (lambda s: s.repartition(2).par_all_gather(), r"after repartition\(\) an item goes to whichever shard is free"),
        (lambda s: ParUnion(s, par_from_range(2)).par_all_gather(), "actors of several descriptions"),
        (lambda s: s.par_all_gather().gather_sync(on_death="skip"), r"Write par_all_gather\(on_death='skip'\)"),
        (lambda s: s.par_all_gather().gather_async(per_call=2), r"after par_all_gather\(\) each call carries one item"),
        (lambda s: ParUnion(s.par_all_gather(), s), r"after par_all_gather\(\) is fed by the driver"),
        (lambda s: s.par_all_gather().par_zip(s.par_all_gather()), "both streams are fed"),
        (lambda s: s.par_batch_together(0), "size must be at least 1"),
        (lambda s: s.par_batch_together(2, share=0), "share must be finite and above 0"),
        (lambda s: s.par_batch_together(2, share=1.5), "share must be from 0 to 1"),
        (lambda s: s.par_batch_together(2, on_death="restart"), "on_death must be 'raise' or 'skip'"),
        (lambda s: s.par_all_gather().par_batch_together(2), r"Use par_batch\(\)"),
        (lambda s: s.par_batch_together(2).gather_sync(on_death="skip"), r"Write par_batch_together\(on_death='skip'\)"),
        (lambda s: par_scatter(s, create_actors(Cell)), "par_scatter: stream must be"),
        (lambda s: loose.par_scatter(from_range(3).batch(2), Cell), "par_scatter: actors must be"),
        (lambda s: par_scatter(from_range(3).batch(2), create_resident(Cell)), "lives in the driver and has no shards"),
    ],
)
def test_what_cannot_work_is_refused_when_the_plan_is_built(make: object, said: str) -> None:
    assert callable(make)
    with pytest.raises(PlanError, match=said):
        make(par_from_items([1, 2, 3]))


def test_a_list_of_another_length_is_a_sentence() -> None:
    plan = par_scatter(from_items([[1, 2], [3]]), create_actors(Cell, num=2)).gather_rounds()
    with plan.run() as run:
        assert next(run) == [1, 2]
        with pytest.raises(TflowError, match=r"par_scatter\(Cell\): expected a list .* 2 shards, got a list of 1"):
            next(run)
