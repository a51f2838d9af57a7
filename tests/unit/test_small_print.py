"""What a run promises in half a sentence. Each was changed by hand once, and no test noticed; ``tests/quality/MUTANTS.md``
lists the changes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.laws.world import Sample, Sampler, samplers, sampling
from tflow import (
    ActorOp,
    Actors,
    Iter,
    Live,
    LiveOp,
    LocalRuntime,
    ParIter,
    Shard,
    Union,
    create_actor,
    create_actors,
    from_actors,
    from_items,
    from_iterable,
    from_range,
    par_from_items,
    par_from_range,
)
from tflow.actors import Resident, create_resident
from tflow.combinators import nodes
from tflow.errors import Deadlock, OperatorError
from tflow.runtime.base import Call
from tflow.runtime.border import is_frozen
from tflow.runtime.host import bytes_in
from tflow.runtime.shards import LivePool, LiveShard
from tflow.testing import Faults, History, SimRuntime, simulate, verify
from tflow.types import StatefulLiveOp

# --------------------------------------------------------------------------- branches of a split


@pytest.mark.parametrize("spoils_first", [True, False])
def test_branches_share_nothing_however_deep_it_is(spoils_first: bool) -> None:
    def spoil(item: dict[str, list[list[int]]]) -> int:
        item["rows"][0].append(9)
        return 0

    one, other = from_items([{"rows": [[1]]}]).split(2)
    spoiled, looked = one.map(spoil), other.map(lambda item: item["rows"][0][-1])
    both = Union(looked, spoiled) if spoils_first else Union(spoiled, looked)  # the second is not blocked, and takes the item
    assert list(both.run()) == ([0, 1] if spoils_first else [1, 0])


def test_a_branch_that_leaves_keeps_no_items() -> None:
    early, late = from_range(12).split(2, max_lag=4)
    with Union(early.take(2), late, weights=(1, 3)).run() as run:
        assert sorted(run) == sorted([0, 1, *range(12)])
        assert sum(each.queued for each in run.stats().operators) == 0


# --------------------------------------------------------------------------- state that is sent to actors


class Listener:
    """Shows the weights that it has, and changes its own."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard.index
        self.weights: list[int] = []

    def listen(self) -> list[int]:
        self.weights.append(-1)
        return list(self.weights)

    def set_weights(self, weights: list[int]) -> None:
        self.weights = weights


@dataclass(frozen=True)
class TrainInPlace(LiveOp[list[int], list[int]]):
    """One list of weights, which grows with each item and is sent to all."""

    listeners: Actors[Listener]
    weights: list[int] = field(default_factory=list)

    def apply(self, live: Live, item: list[int], /) -> list[int]:
        self.weights.append(len(self.weights))
        live[self.listeners].advance()
        live[self.listeners].update(Listener.set_weights, self.weights)
        return item


class Store(LocalRuntime):
    """Keeps what is sent as it is when it is sent, as the object store of a cluster does."""

    def hold(self, value: object) -> object:
        return copy.deepcopy(value)


def test_weights_that_are_changed_in_place_are_sent_again() -> None:
    listeners = create_actors(Listener, num=1)
    plan = from_actors(listeners, Listener.listen).gather_sync().for_each(TrainInPlace(listeners)).take(4)
    with Store() as session:
        assert list(plan.run(runtime=session)) == [[-1], [0, -1], [0, 1, -1], [0, 1, 2, -1]]


def test_actors_of_the_simulator_do_not_share_the_weights_that_they_were_sent() -> None:
    listeners = create_actors(Listener, num=2)
    plan = from_actors(listeners, Listener.listen).gather_sync().for_each(TrainInPlace(listeners)).take(4)
    assert simulate(plan).items == [[-1], [-1], [0, 1, -1], [0, 1, -1]]


class Unreachable(LocalRuntime):
    """Cannot submit the calls with these numbers."""

    def __init__(self, *failing: int) -> None:
        super().__init__()
        self.failing, self.submitted = failing, 0

    def submit(self, call: Call) -> None:
        self.submitted += 1
        if self.submitted in self.failing:
            raise ConnectionError("nobody is there")
        super().submit(call)


def test_state_is_not_lost_with_the_call_that_could_not_be_submitted() -> None:
    listeners = create_actors(Listener, num=1)
    stream = from_actors(listeners, Listener.listen).gather_sync()
    with Unreachable(2) as session:
        with pytest.raises(ConnectionError):
            list(stream.for_each(TrainInPlace(listeners)).run(runtime=session))
        assert next(stream.run(runtime=session)) == [0, -1]


# --------------------------------------------------------------------------- messages


class Slow:
    def __init__(self, shard: Shard) -> None:
        self.told = 0

    def tell(self, number: int) -> None:
        self.told += 1


@dataclass(frozen=True)
class TellMuch(LiveOp[int, int]):
    slow: Actors[Slow]

    def apply(self, live: Live, item: int, /) -> int:
        for number in range(4):
            live[self.slow].send(Slow.tell, number)
        return item


def test_an_item_moves_on_when_all_of_its_messages_have_left() -> None:
    slow = create_actors(Slow, num=1, mailbox=1)
    with SimRuntime() as sim, from_range(5).for_each(TellMuch(slow)).run(runtime=sim) as run:
        for number, item in enumerate(run):
            assert item == number
            assert sum(each.queued for each in run.stats().operators) == 0
            assert run.ledger.calls.issued == 4 * (number + 1)


@dataclass(frozen=True)
class WhereFrom(LiveOp[Sample, tuple[int, tuple[int, ...]]]):
    actors: Actors[Sampler]

    def apply(self, live: Live, item: Sample, /) -> tuple[int, tuple[int, ...]]:
        found = live.shards(self.actors)
        live[self.actors].update(Sampler.set_weights, 1, shards=found)
        return item.shard, found


def test_an_item_of_a_shard_that_has_left_comes_from_no_shard_that_could_be_told() -> None:
    actors = samplers(3)
    with sampling(actors).gather_sync().for_each(WhereFrom(actors)).take(3).run() as run:
        assert next(run) == (0, (0,))
        run.resize(actors, 1)
        assert list(run) == [(1, ()), (2, ())]


# --------------------------------------------------------------------------- staleness


@dataclass(frozen=True)
class UpdateOne(LiveOp[Sample, int]):
    """Two policies: one is sent with every item, the other is updated and never sent."""

    actors: Actors[Sampler]

    def apply(self, live: Live, item: Sample, /) -> int:
        live[self.actors].advance("sent")
        live[self.actors].update(Sampler.set_weights, 1, policy="sent")
        live[self.actors].advance("kept")
        return item.sequence


def test_max_staleness_is_that_of_the_oldest_policy() -> None:
    actors = samplers(1, [6])
    with sampling(actors).gather_async(max_staleness=2).for_each(UpdateOne(actors)).run() as run:
        assert list(run) == [0, 1, 2]
        assert run.ledger.items.dropped == {"stale": 3}


# --------------------------------------------------------------------------- deaths


def test_deaths_are_forgiven_when_the_actor_answers_again() -> None:
    often = Faults(dies_before=8)
    answers_between = [1, 0, 0] * 40  # dies, comes back, answers
    history = simulate(sampling(samplers(1)).gather_async().take(20), answers_between, often)
    assert history.happened("dies_before") == 8
    assert len(history.items) == 20
    assert history.error is None


@dataclass
class OnlyTheFirst:
    """Admits nobody who was restarted, and notes who was admitted."""

    admitted: list[tuple[int, int]] = field(default_factory=list)

    def closed(self, shard: int, incarnation: int, items: int, /) -> str:
        return "it has lost everything" if incarnation else ""

    def passed(self, shard: int, incarnation: int, items: int, /) -> None:
        self.admitted.append((shard, incarnation))


def only_the_first(shard: Shard) -> OnlyTheFirst:
    return OnlyTheFirst()


def test_the_gate_of_a_shard_is_asked_again_in_its_new_life() -> None:
    gate: Resident[OnlyTheFirst] = create_resident(only_the_first)
    stream: ParIter[Sample] = ParIter(nodes.FromActors(samplers(2), Sampler.sample, limiter=gate))
    plan = stream.gather_sync().take(3)
    for tape in ([0, 1], [1], [0, 0, 0, 1], [0, 0, 1]):
        with SimRuntime(tape, Faults(dies_before=1)) as sim, plan.run(runtime=sim) as run:
            with suppress(Deadlock):  # of the round after that
                list(run)
            lives = {source.incarnation for moment in sim.trace for source in moment.made}
        assert lives <= {0}, tape


# --------------------------------------------------------------------------- who is next


def test_items_are_dealt_to_the_shard_that_has_the_fewest() -> None:
    plan = par_from_items([0, 1, 2, 3], shards=1).repartition(2).par_map(lambda x: x).gather_async(in_flight=2)
    history = simulate(plan, [0, 0, 1])  # two items have come before the first of them is worked on
    worked = {moment.items: moment.place for moment in history.trace if not moment.place.startswith("par_from_items")}
    assert worked[1,] != worked[2,]


# --------------------------------------------------------------------------- numbers of items in errors


def third(x: int) -> bool:
    if x == 6:
        raise ValueError(x)
    return x % 3 == 0


def fails_at(bad: int) -> Callable[[int], int]:
    def fn(x: int) -> int:
        if x == bad:
            raise ValueError(x)
        return x

    return fn


@dataclass(frozen=True)
class Fails(LiveOp[int, int]):
    slow: Actors[Slow]
    bad: int

    def apply(self, live: Live, item: int, /) -> int:
        return fails_at(self.bad)(item)


COUNTED: dict[str, tuple[Callable[[Iter[int]], Iter[object]], int]] = {
    "map": (lambda s: s.map(fails_at(70)), 70),
    "the second item": (lambda s: s.map(fails_at(1)), 1),
    "filter": (lambda s: s.filter(lambda x: bool(fails_at(70)(x)) or True), 70),
    "behind a filter": (lambda s: s.filter(lambda x: x % 3 == 0).map(fails_at(72)), 24),
    "a filter behind a filter": (lambda s: s.filter(lambda x: x > 1).filter(lambda x: x % 3 == 0 and x != fails_at(9)(x)), 7),
    "behind two filters": (lambda s: s.filter(lambda x: x % 2 == 0).filter(lambda x: x % 3 == 0).map(fails_at(72)), 12),
    "flat_map": (lambda s: s.flat_map(lambda x: [fails_at(5)(x)]), 5),
    "a member of flat_map": (lambda s: s.flat_map(lambda x: map(fails_at(5), [x])), 5),
    "weigh": (lambda s: s.batch(4, weigh=fails_at(5)), 5),
    "a live operator": (lambda s: s.for_each(Fails(create_actors(Slow, num=1), 5)), 5),
}


@pytest.mark.parametrize("where", COUNTED)
@pytest.mark.parametrize("fuse", [True, False])
def test_an_error_names_the_item_that_its_operator_had_in_hand(where: str, fuse: bool) -> None:
    make, number = COUNTED[where]
    with pytest.raises(OperatorError) as caught:
        list(make(from_range(100)).run(fuse=fuse))
    assert caught.value.item == number


# --------------------------------------------------------------------------- replies


class Correspondent:
    """Tells who it is, and what it was told."""

    def __init__(self, shard: Shard) -> None:
        self.name, self.told = (shard.actors, shard.index), list[object]()

    def write(self) -> tuple[tuple[str, int], list[object]]:
        return self.name, list(self.told)

    def receive(self, name: tuple[str, int]) -> None:
        self.told.append(name)


class Answers(LiveOp[tuple[tuple[str, int], list[object]], list[bool]]):
    def apply(self, live: Live, item: tuple[tuple[str, int], list[object]], /) -> list[bool]:
        live.reply(Correspondent.receive, item[0])
        return [name == item[0] for name in item[1]]


def test_a_reply_goes_to_the_actor_that_the_item_comes_from_and_to_no_other_of_that_number() -> None:
    pools = [create_actors(Correspondent, num=2, name=name) for name in ("pens", "friends")]
    streams = [from_actors(pool, Correspondent.write).gather_sync() for pool in pools]
    seen = list(Union(*streams).for_each(Answers()).take(16).run())
    assert any(seen)
    assert all(map(all, seen))


# --------------------------------------------------------------------------- messages and feeds, the rest


class Promotes(LiveOp[Sample, int]):
    """Counts an update of one of two policies for each item, and sends it."""

    def __init__(self, actors: Actors[Sampler]) -> None:
        self.actors = actors

    def apply(self, live: Live, item: Sample, /) -> int:
        version = live[self.actors].advance("second")
        live[self.actors].update(Sampler.set_weights, version, policy="second")
        return live.provenance.versions.get("second", 0)


def test_an_item_has_the_version_of_the_policy_that_was_sent() -> None:
    actors = samplers(1)
    assert list(sampling(actors).gather_sync().for_each(Promotes(actors)).take(4).run()) == [0, 1, 2, 3]


class Hoards(StatefulLiveOp[int, int, list[int]]):
    """Shows its items when there are no more."""

    def init(self) -> list[int]:
        return []

    def step(self, live: Live, state: list[int], item: int, /) -> tuple[list[int], int]:
        return [*state, item], -item

    def at_end(self, live: Live, state: list[int], /) -> list[int]:
        return state


def test_what_a_live_operator_has_left_comes_in_its_order() -> None:
    assert list(from_range(3).for_each(Hoards()).run()) == [0, -1, -2, 0, 1, 2]


def test_state_that_is_pending_again_comes_before_what_was_sent_later() -> None:
    shard = LiveShard(LivePool(samplers(1), "samplers", 0), 0, None)
    shard.put_state(Sampler.set_weights, 1, "first", 1)
    carried = shard.take_state()
    shard.put_state(Sampler.set_weights, 2, "second", 1)
    shard.restore_state(carried)
    assert [policy for policy, _ in shard.state] == ["first", "second"]


def test_state_that_was_sent_without_counting_an_update_is_the_newest_too() -> None:
    pool = LivePool(samplers(1), "samplers", 0)
    pool.shards.append(LiveShard(pool, 0, None))
    pool.shards[0].put_state(Sampler.set_weights, 5, "default", 0)
    assert pool.newest_state() == ({("default", Sampler.set_weights): (1, 5)}, {"default": 0})


def test_a_method_of_what_can_change_is_not_frozen() -> None:
    assert is_frozen(len)
    assert not is_frozen([1].append)


class Clerk:
    def __init__(self, shard: Shard) -> None:
        self.served = 0


class Serve(ActorOp[Clerk, int, int]):
    def apply(self, actor: Clerk, item: int, /) -> int:
        return item


def served(count: int) -> Iter[int]:
    return from_range(count).hand_off(create_actor(Clerk), Serve(), mailbox=1, on_full="drop_oldest")


def test_the_oldest_is_dropped_and_the_newest_arrives() -> None:
    def newest_arrives(history: History[int]) -> None:
        assert history.items[-1] == 4

    verify(lambda: served(5), newest_arrives)


def test_what_waits_for_an_actor_when_a_run_stops_is_counted() -> None:
    def adds_up(history: History[int]) -> None:
        assert history.unbalanced() == []

    verify(lambda: served(5).take(1), adds_up)


def test_the_second_life_of_a_shard_reads_on_where_the_first_ended_and_so_does_the_third() -> None:
    def each_once(history: History[int]) -> None:
        assert sorted(history.items) == [0, 1, 2, 3]

    verify(lambda: par_from_range(4, shards=1).gather_async(), each_once, faults=Faults(dies_before=2))


def test_batches_that_are_made_together_are_as_large_as_they_say_whatever_a_call_brings() -> None:
    plan = par_from_range(12, shards=2).par_batch_together(3, per_call=2).gather_rounds()
    assert list(plan.run()) == [[[0, 1, 2], [6, 7, 8]], [[3, 4, 5], [9, 10, 11]]]


def test_what_is_mixed_in_is_of_the_latest_slots() -> None:
    newest, ages = -1, set[int]()
    mixed: Iter[int] = Iter(nodes.MixIn(from_range(40).node, 2, 1.0, 3))
    for item in mixed.run():
        if item == newest + 1:
            newest = item
        else:
            ages.add(newest - item)
    assert newest == 39
    assert ages == {1, 2}


def test_an_item_without_members_takes_a_turn_too() -> None:
    read = list[int]()
    fruitless = from_range(100).tap(read.append).flat_map(lambda _: list[int]())
    with Union(fruitless, from_range(3)).run() as run:
        assert next(run) == 0
        assert len(read) <= 2


def test_take_closes_its_input_with_the_last_item() -> None:
    closed = list[bool]()

    def numbers() -> Iterator[int]:
        try:
            yield from range(9)
        finally:
            closed.append(True)

    with from_iterable(numbers).take(2).run() as run:
        assert [next(run), next(run)] == [0, 1]
        assert closed


class Diary:
    """Writes down what it is told, beside the weights that it has then."""

    def __init__(self, shard: Shard) -> None:
        self.weights, self.lines = 0, list[tuple[int, int]]()

    def read(self) -> list[tuple[int, int]]:
        return list(self.lines)

    def set_weights(self, weights: int) -> None:
        self.weights = weights

    def write(self, number: int) -> None:
        self.lines.append((number, self.weights))


class Dictates(StatefulLiveOp[list[tuple[int, int]], list[tuple[int, int]], int]):
    def __init__(self, diaries: Actors[Diary]) -> None:
        self.diaries = diaries

    def init(self) -> int:
        return 0

    def step(self, live: Live, state: int, item: list[tuple[int, int]], /) -> tuple[int, list[tuple[int, int]]]:
        live[self.diaries].send(Diary.write, state + 1)
        live[self.diaries].update(Diary.set_weights, state + 1)
        return state + 1, item


def test_state_is_applied_before_an_event_of_the_same_item() -> None:
    diaries = create_actors(Diary, num=1)
    items = list(from_actors(diaries, Diary.read).gather_sync().for_each(Dictates(diaries)).take(4).run())
    assert items[-1] == [(1, 1), (2, 2), (3, 3)]


@dataclass(frozen=True)
class Walk:
    env_steps: int = 5


def walk(diary: Diary) -> Walk:
    return Walk()


class PassesOn(ActorOp[Clerk, Walk, Walk]):
    def apply(self, actor: Clerk, item: Walk, /) -> Walk:
        return item


def test_env_steps_count_where_they_are_made_and_not_again_where_they_pass() -> None:
    walks = from_actors(create_actors(Diary, num=1), walk).gather_sync()
    assert len(list(walks.call(create_actor(Clerk), PassesOn()).take(4).every(steps=10).run())) == 2


def test_arrays_in_a_dictionary_fill_a_call() -> None:
    assert bytes_in({"obs": [np.zeros(100)]}) == 800
