"""Objects in the driver, gates before actors, replies to where an item came from, and how far a run has come."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.world import RUNTIMES, Sample, Sampler, over_runtimes, over_runtimes_and_ray, samplers, sampling
from tflow import Actors, Iter, Live, LiveOp, LocalRuntime, ParIter, PlanError, Shard, Union, from_actors, from_items
from tflow.actors import Resident, create_resident
from tflow.combinators import nodes
from tflow.errors import Deadlock, ShardFailed


class Tally:
    """Counts what it is shown."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.seen: list[int] = []


@dataclass(frozen=True)
class Note(LiveOp[Sample, int]):
    """Shows a sample to the tally, and how many it has seen."""

    tally: Resident[Tally]

    def apply(self, live: Live, item: Sample, /) -> int:
        seen = live.resident(self.tally).seen
        seen.append(item.sequence)
        return len(seen)


def seen(tally: Tally) -> list[int]:
    return tally.seen


@over_runtimes
def test_all_operators_that_name_it_share_it_and_it_outlives_the_run(runtime: str) -> None:
    tally = create_resident(Tally)
    streams = [sampling(samplers(1)).gather_sync().take(3).for_each(Note(tally)) for _ in range(2)]
    with RUNTIMES[runtime]() as session, Union(*streams).run(runtime=session) as run:
        assert sorted(run) == [1, 2, 3, 4, 5, 6]
    assert sorted(run.ask(tally, seen)[0]) == [0, 0, 1, 1, 2, 2]


def test_it_lives_as_long_as_its_session_and_has_a_seed_of_its_own() -> None:
    tally, twin = create_resident(Tally), create_resident(Tally)
    stream = sampling(samplers(1)).gather_sync().take(2)
    both = stream.for_each(Note(tally)).map(lambda count: Sample(0, count, 0)).for_each(Note(twin))
    with LocalRuntime() as session:
        assert list(both.run(runtime=session, seed=4)) == [1, 2]
        assert list(both.run(runtime=session, seed=5)) == [3, 4]
    with LocalRuntime() as session, both.run(runtime=session, seed=4) as run:
        assert next(run) == 1
        one, other = run.ask(tally, seed_of)[0], run.ask(twin, seed_of)[0]
        assert one[0] != other[0]
        assert one[1] == other[1] == 4


def seed_of(tally: Tally) -> tuple[int, int]:
    return tally.shard.seed, tally.shard.session_seed


def broken(shard: Shard) -> Tally:
    raise ValueError("no disk")


def test_sentences() -> None:
    stream = sampling(samplers(1)).gather_sync()
    with pytest.raises(ShardFailed, match="Shard broken could not be made: ValueError: no disk"):
        next(stream.for_each(Note(create_resident(broken))).run())
    with pytest.raises(PlanError, match="lives in the driver and has no shards"):
        from_actors(create_resident(Tally), seen)
    tally = create_resident(Tally)
    with sampling(samplers(1)).gather_sync().for_each(Note(tally)).run() as run:
        with pytest.raises(PlanError, match="is a single actor"):
            run.resize(tally, 3)
        with pytest.raises(PlanError, match="the plan does not name"):
            run.ask(create_resident(Tally), seen)
    with pytest.raises(Exception, match="asks for Tally\\[1\\], which it does not name"):
        next(sampling(samplers(1)).gather_sync().for_each(Sneaky()).run())


@dataclass(frozen=True)
class Sneaky(LiveOp[Sample, int]):
    def apply(self, live: Live, item: Sample, /) -> int:
        return len(live.resident(create_resident(Tally)).seen)


# --------------------------------------------------------------------------- gates


@dataclass
class Budget:
    """Lets each shard be asked as often as it was paid for."""

    paid: dict[int, int] = field(default_factory=dict)

    def closed(self, shard: int, incarnation: int, items: int, /) -> str:
        return "" if self.paid.get(shard, 0) >= items else f"shard {shard} is not paid"

    def passed(self, shard: int, incarnation: int, items: int, /) -> None:
        self.paid[shard] -= items


def no_budget(shard: Shard) -> Budget:
    return Budget()


@dataclass(frozen=True)
class Pay(LiveOp[int, int]):
    budget: Resident[Budget]

    def apply(self, live: Live, item: int, /) -> int:
        paid = live.resident(self.budget).paid
        paid[item] = paid.get(item, 0) + 1
        return item


def gated(actors: Actors[Sampler], budget: Resident[Budget]) -> ParIter[Sample]:
    return ParIter(nodes.FromActors(actors, Sampler.sample, limiter=budget))


@over_runtimes
@pytest.mark.parametrize("rounds", [True, False])
def test_nobody_is_asked_before_the_gate_opens(runtime: str, rounds: bool) -> None:
    budget = create_resident(no_budget)
    stream = gated(samplers(2), budget)
    gathered: Iter[Sample] = stream.gather_sync() if rounds else stream.gather_async()
    pay = from_items([0, 0, 1, 1, 0]).for_each(Pay(budget))
    with RUNTIMES[runtime]() as session, Union(pay, gathered).run(runtime=session) as run:
        found: list[Sample] = []
        with pytest.raises(Deadlock, match=r"shard \d is not paid"):
            found.extend(item for item in run if isinstance(item, Sample))
    per_shard = [sum(item.shard == shard for item in found) for shard in (0, 1)]
    assert per_shard == ([2, 2] if rounds else [3, 2])


@over_runtimes_and_ray
def test_a_gate_counts_items_and_not_calls(runtime: str) -> None:
    budget = create_resident(no_budget)
    stream = gated(samplers(1), budget).gather_async(per_call=2)
    pay = from_items([0] * 5).for_each(Pay(budget))
    with RUNTIMES[runtime]() as session, Union(pay, stream).run(runtime=session) as run:
        found: list[Sample] = []
        with pytest.raises(Deadlock, match="shard 0 is not paid"):
            found.extend(item for item in run if isinstance(item, Sample))
    assert len(found) == 4, "a fifth would have come with a sixth"


def test_what_a_gate_could_not_count_is_refused() -> None:
    stream = gated(samplers(1), create_resident(no_budget))
    with pytest.raises(PlanError, match=r"par_batch: .* limits how often it is asked\. Gather first, then use batch\."):
        stream.par_batch(2).gather_sync().validate()


@pytest.mark.parametrize("rounds", [True, False])
def test_a_shard_that_leaves_takes_its_closed_gate_along(rounds: bool) -> None:
    budget, actors = create_resident(no_budget), samplers(2)
    stream = gated(actors, budget)
    gathered: Iter[Sample] = stream.gather_sync() if rounds else stream.gather_async()
    pay = from_items([0, 0, 0]).for_each(Pay(budget))
    with LocalRuntime() as session, Union(pay, gathered).run(runtime=session) as run:
        assert next(run) == 0
        run.resize(actors, 1)
        found: list[Sample] = []
        with pytest.raises(Deadlock, match="shard 0 is not paid"):
            found.extend(item for item in run if isinstance(item, Sample))
    assert [item.sequence for item in found] == [0, 1, 2]


# --------------------------------------------------------------------------- replies


class Mailed(Sampler):
    """Remembers what was sent back."""

    def __init__(self, shard: Shard) -> None:
        super().__init__(shard, limit=4)
        self.mail: list[int] = []

    def receive(self, number: int) -> None:
        self.mail.append(number)


@dataclass(frozen=True)
class Answer(LiveOp[list[Sample], int]):
    def apply(self, live: Live, item: list[Sample], /) -> int:
        live.reply(Mailed.receive, item[0].sequence)
        return len(item)


def mail(actor: Mailed) -> list[int]:
    return actor.mail


@over_runtimes_and_ray
def test_a_reply_goes_to_everybody_that_the_item_comes_from(runtime: str) -> None:
    from tflow import create_actors

    actors = create_actors(Mailed, num=2)
    stream = from_actors(actors, Mailed.sample)
    with RUNTIMES[runtime]() as session, stream.gather_rounds().for_each(Answer()).run(runtime=session) as run:
        assert list(run) == [2, 2, 2, 2]
        assert run.ask(actors, mail) == [[0, 1, 2, 3], [0, 1, 2, 3]]


def test_a_reply_goes_to_nobody_else() -> None:
    from tflow import create_actors

    actors = create_actors(Mailed, num=3)
    with LocalRuntime() as session:
        flow = from_actors(actors, Mailed.sample).select_shards(1).gather_sync().batch(1).for_each(Answer())
        with flow.run(runtime=session) as run:
            list(run)
            assert run.ask(actors, mail) == [[], [0, 1, 2, 3], []]


# --------------------------------------------------------------------------- weighed batches


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 12), st.booleans())
def test_weighed_batches_hold_everything_in_order(weights: list[int], size: int, exact: bool) -> None:
    items = [[(number, part) for part in range(weight)] for number, weight in enumerate(weights)]
    cut = (lambda item, at: (item[:at], item[at:])) if exact else None
    groups = list(from_items(items).batch(size, weigh=len, cut=cut).run())
    flat = [part for group in groups for item in group for part in item]
    assert flat == [part for item in items for part in item]
    totals = [sum(map(len, group)) for group in groups]
    if exact:
        assert totals[:-1] == [size] * (len(totals) - 1)
        assert all(total <= size for total in totals)
    else:
        assert all(total >= size for total in totals[:-1])
        assert all(sum(map(len, group[:-1])) < size for group in groups)


def test_what_weighs_wrong_is_blamed_on_the_operator() -> None:
    with pytest.raises(Exception, match=r"batch\(3\) on the driver, item 0, raised TypeError"):
        list(from_items([3]).batch(3, weigh=len).run())  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(PlanError, match="cut= needs weigh="):
        from_items([[3]]).batch(3, cut=lambda item, at: (item[:at], item[at:]))
