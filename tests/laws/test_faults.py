"""What holds when actors die, hang, lag or refuse to start, under schedules that hypothesis chooses."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.test_gather import Total, ledger_actor
from tests.laws.test_runs import Deal, Store
from tests.laws.world import Learn, Sample, Sampler, per_shard, samplers, sampling, shard_counts
from tflow import (
    Actors,
    Iter,
    Live,
    LiveOp,
    LocalRuntime,
    Shard,
    Union,
    create_actors,
    from_actors,
    from_range,
    par_from_items,
    par_from_range,
)
from tflow.combinators import nodes
from tflow.errors import Deadlock, NoHealthyShards, OperatorError, ShardFailed
from tflow.laws import EQUIVALENCE, SURVIVAL
from tflow.runtime.base import Mailbox
from tflow.runtime.shards import MOST_DEATHS
from tflow.testing import Faults, History, SimRuntime, SimSchedule, fault_profiles, plans, schedules, simulate, tapes
from tflow.types import StatefulLiveOp

deaths = fault_profiles(("dies_before", "dies_after", "refuses", "slow"))
anything = fault_profiles(("dies_before", "dies_after", "refuses", "slow", "raises", "hangs"), most=2)


# --------------------------------------------------------------------------- restart


@given(shards=shard_counts, count=st.integers(0, 12), schedule=schedules(deaths))
def test_a_synchronous_plan_over_values_shows_the_same_whatever_dies(shards: int, count: int, schedule: SimSchedule) -> None:
    stream = par_from_range(count, shards=shards).par_map(lambda x: 2 * x).par_filter(lambda x: x % 3 > 0)
    for plan in (stream.gather_sync(), stream.gather_rounds()):
        EQUIVALENCE.check(simulate(plan, *schedule).items, list(plan.run()))


@given(in_flight=st.integers(1, 3), per_call=st.integers(1, 3), count=st.integers(0, 12), schedule=schedules(deaths))
def test_values_are_neither_lost_nor_repeated_by_a_death(
    in_flight: int, per_call: int, count: int, schedule: SimSchedule
) -> None:
    plan = par_from_range(count, shards=2).gather_async(in_flight=in_flight, per_call=per_call)
    history = simulate(plan, *schedule)
    assert sorted(history.items) == list(range(count))
    assert history.unbalanced() == []


@given(num=shard_counts, in_flight=st.integers(1, 2), schedule=schedules(deaths))
def test_items_of_actors_arrive_once_in_order_per_incarnation(num: int, in_flight: int, schedule: SimSchedule) -> None:
    history = simulate(sampling(samplers(num)).gather_async(in_flight=in_flight).take(15), *schedule)
    history.check()
    assert len(history.items) == 15
    lives = {(source.shard, source.incarnation) for source in history.shown()}
    started = {(moment.place, moment.incarnation) for moment in history.trace if moment.what == "starts"}
    assert {(f"make[{shard}]", life) for shard, life in lives if life} <= started
    lost = history.ledgers[-1].calls.lost
    assert lost <= in_flight * (history.happened("dies_before") + history.happened("dies_after"))


class Seeded:
    """Tells which incarnation it is."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard

    def tell(self) -> Shard:
        return self.shard


def test_a_new_life_has_a_new_number_and_a_new_seed() -> None:
    plan = from_actors(create_actors(Seeded, num=1), Seeded.tell).gather_sync().take(3)
    told = simulate(plan, [0, 1], Faults(dies_before=1)).items
    assert [shard.incarnation for shard in told] == [0, 1, 1]
    assert told[0].seed != told[1].seed == told[2].seed
    assert {(shard.actors, shard.index, shard.count) for shard in told} == {("Seeded", 0, 1)}


def test_a_new_life_starts_with_the_latest_weights() -> None:
    actors = samplers(1)
    plan = sampling(actors).gather_async().for_each(Learn(actors)).take(5)
    history = simulate(plan, [0, 0, 0, 1], Faults(dies_before=1))
    assert history.happened("dies_before") == 1
    assert [sample.weights for sample in history.items] == [0, 1, 2, 3, 4]
    assert [sample.sequence for sample in history.items] == [0, 1, 2, 0, 1], "its own memory is gone"


def test_what_was_counted_before_a_death_stays_counted() -> None:
    plan = sampling(samplers(1)).par_map(lambda sample: sample).gather_async().take(6)
    history = simulate(plan, [0, 0, 1], Faults(dies_before=1))
    assert history.happened("dies_before") == 1
    assert history.stats["par_map"].seen == 6
    assert history.ledgers[-1].calls.lost == 1


@given(schedule=schedules(fault_profiles(("dies_before", "dies_after", "refuses"), most=8), max_size=100))
def test_attempts_are_bounded_and_pauses_grow(schedule: SimSchedule) -> None:
    history = simulate(par_from_range(3, shards=1).gather_sync(), *schedule)
    ends = [moment for moment in history.trace if moment.what.startswith(("dies", "refuses"))]
    in_a_row = longest = 0
    for moment in history.trace:
        in_a_row = 0 if moment.what == "answers" else in_a_row + (moment in ends)
        longest = max(longest, in_a_row)
    if history.error is None:
        assert longest <= MOST_DEATHS
    else:
        assert isinstance(history.error, ShardFailed)
        assert longest == MOST_DEATHS + 1
        assert f"died {MOST_DEATHS + 1} times in a row and is given up" in str(history.error)


def test_the_pause_before_a_new_life_doubles() -> None:
    history = simulate(par_from_range(1, shards=1).gather_sync(), [1, 1, 1, 1], Faults(dies_before=1, refuses=3))
    at = [moment.at for moment in history.trace if moment.what.startswith(("dies", "refuses", "starts"))]
    pauses = [round(after - before, 3) for before, after in pairwise(at)]
    assert pauses == [0.1, 0.2, 0.4, 0.8]


# --------------------------------------------------------------------------- skip and raise


def gathered(num: int, how: str, on_death: nodes.OnDeath) -> Iter[Sample]:
    """Three samples of each actor."""
    stream = sampling(samplers(num, [3] * num))
    if how == "sync":
        return stream.gather_sync(on_death=on_death)
    return stream.gather_async(on_death=on_death)


mortal = schedules(fault_profiles(("dies_before", "dies_after"), most=2))


@pytest.mark.parametrize("how", ["sync", "async"])
@given(num=st.integers(2, 4), schedule=mortal)
def test_skip_goes_on_with_the_others_until_none_is_left(how: str, num: int, schedule: SimSchedule) -> None:
    history = simulate(gathered(num, how, "skip"), *schedule)
    struck = {moment.place for moment in history.trace if moment.what.startswith("dies")}
    well = {shard: [0, 1, 2] for shard in range(num) if f"make[{shard}]" not in struck}
    SURVIVAL.check(per_shard(history.items), well)
    assert history.happened("starts") == 0, "nobody is restarted"
    if len(struck) == num:
        assert isinstance(history.error, NoHealthyShards)
        assert "all shards died" in str(history.error)
    else:
        assert history.error is None
    history.check()


@pytest.mark.parametrize("how", ["sync", "async"])
@given(num=st.integers(2, 4), schedule=mortal)
def test_raise_ends_with_the_name_of_the_shard_after_what_had_arrived(how: str, num: int, schedule: SimSchedule) -> None:
    history = simulate(gathered(num, how, "raise"), *schedule)
    struck = [moment.place for moment in history.trace if moment.what.startswith("dies")]
    assert history.happened("starts") == 0, "nobody is restarted"
    if struck:
        assert isinstance(history.error, ShardFailed)
        assert str(history.error).startswith(tuple(f"Shard {place} died under gather_{how}()" for place in struck))
    else:
        assert history.complete
    history.check()


@pytest.mark.parametrize("how", ["sync", "async"])
def test_when_the_last_shard_has_left_the_run_does_not_end_quietly(how: str) -> None:
    history = simulate(gathered(1, how, "skip"), [1], Faults(dies_before=1))
    assert history.items == []
    assert isinstance(history.error, NoHealthyShards)
    assert f"gather_{how}(): all shards died. Shard make[0] was the last: it died before it answered." in str(history.error)


def test_rounds_without_a_shard_that_left_go_on() -> None:
    plan = sampling(samplers(3, [2, 2, 2])).gather_rounds(on_death="skip")
    history = simulate(plan, [1, 1], Faults(dies_before=1))
    assert [[sample.shard for sample in each] for each in history.items] == [[0, 2], [0, 2]]


@given(schedule=schedules(fault_profiles(("dies_before", "dies_after"), most=1)))
def test_an_item_that_was_at_a_dead_actor_is_not_tried_again(schedule: SimSchedule) -> None:
    """Whether it was processed is unknown, so it is counted as lost, and the next one goes to a fresh actor."""
    for flow in ("call", "hand_off"):
        stream: Iter[int] = from_range(6)
        plan = (
            stream.call(ledger_actor(), Total(), on_death="restart")
            if flow == "call"
            else stream.hand_off(ledger_actor(), Total(), on_death="restart")
        )
        history = simulate(plan, *schedule)
        lost = history.ledgers[-1].calls.lost
        died = history.happened("dies_before") + history.happened("dies_after")
        assert history.complete
        assert died <= lost <= 2 * died, "what waited in its mailbox goes with it"
        if history.faults != Faults() and flow == "call":
            assert len(history.items) >= 6 - lost


@pytest.mark.parametrize("flow", ["call", "hand_off"])
def test_a_learner_that_dies_ends_the_run_unless_it_is_said_otherwise(flow: str) -> None:
    stream = from_range(6)
    plan = stream.call(ledger_actor(), Total()) if flow == "call" else stream.hand_off(ledger_actor(), Total())
    history = simulate(plan, [1], Faults(dies_after=1))
    assert history.items == []
    assert isinstance(history.error, ShardFailed)


# --------------------------------------------------------------------------- time


@given(num=shard_counts, tape=tapes())
def test_an_actor_that_hangs_is_ended_and_made_again(num: int, tape: list[int]) -> None:
    plan = par_from_range(8, shards=num).gather_async(timeout_s=3600)
    history = simulate(plan, tape, Faults(hangs=2))
    assert sorted(history.items) == list(range(8))
    hung = history.happened("hangs")
    assert history.happened("is ended") == hung
    assert history.trace[-1].at >= 3600 * (hung > 0)
    assert history.unbalanced() == []


def test_without_a_time_limit_a_hung_actor_is_a_deadlock_with_advice() -> None:
    history = simulate(par_from_range(4).gather_async(), [0, 1], Faults(hangs=1))
    assert isinstance(history.error, Deadlock)
    assert "will never answer. Give the gather timeout_s=" in str(history.error)
    assert sorted(history.items) == [2, 3], "what the other shard had is delivered first"


@given(tape=tapes(), limit=st.sampled_from([30.0, 90.0]))
def test_a_slow_actor_is_waited_for_up_to_the_limit(tape: list[int], limit: float) -> None:
    history = simulate(par_from_range(6, shards=2).gather_sync(timeout_s=limit), tape, Faults(slow=1, slow_s=60.0))
    assert history.items == list(par_from_range(6, shards=2).gather_sync().run())
    assert history.happened("is ended") == (history.happened("slow") if limit < 60 else 0)


def test_the_clock_of_a_call_starts_when_the_actor_is_free() -> None:
    """Two calls of 60 s each, behind one another, with a limit of 90 s."""
    plan = par_from_range(2, shards=1).gather_async(in_flight=2, timeout_s=90)
    history = simulate(plan, [1, 0, 1], Faults(slow=2, slow_s=60.0))
    assert history.happened("slow") == 2
    assert history.happened("is ended") == 0
    assert history.trace[-1].at > 120


def test_the_local_runtime_has_no_time_limits() -> None:
    """Its actors do not work side by side: a call that waits for another is not late."""
    ticks = iter(range(1000))

    class Slow(LocalRuntime):
        def now(self) -> float:
            return 100.0 * next(ticks)

    with Slow() as session:
        run = par_from_range(4).gather_sync(timeout_s=1.0).run(runtime=session)
        assert list(run) == [0, 2, 1, 3]
        assert run.ledger.calls.lost == 0


def test_a_death_is_not_hidden_because_enough_items_came_without_it() -> None:
    plan = sampling(samplers(2)).gather_async(on_death="raise").take(1)
    history = simulate(plan, [0, 0, 1, 1], Faults(dies_before=1))
    assert history.happened("dies_before") == 1
    assert len(history.items) == 1
    assert isinstance(history.error, ShardFailed)


def test_an_error_is_not_hidden_because_enough_items_came_without_it() -> None:
    history = simulate(sampling(samplers(2)).gather_async().take(1), [0, 0, 1, 1], Faults(raises=1))
    assert len(history.items) == 1
    assert isinstance(history.error, OperatorError)


def test_an_error_that_arrived_with_the_last_item_is_not_hidden() -> None:
    def check(sample: Sample) -> Sample:
        if sample.shard == 1:
            raise ValueError("bad sample")
        return sample

    history = simulate(sampling(samplers(2)).par_map(check).gather_async().take(1), [0, 1])
    assert [sample.shard for sample in history.items] == [0]
    assert isinstance(history.error, OperatorError)


def test_a_pause_is_not_held_against_the_next_life() -> None:
    plan = par_from_range(2, shards=1).gather_sync(timeout_s=0.5)
    history = simulate(plan, [1, 1, 1, 1], Faults(dies_before=1, refuses=3))
    assert history.items == [0, 1]
    assert history.happened("is ended") == 0


@given(tape=tapes())
def test_time_passes_even_if_a_driver_stream_is_always_ready(tape: list[int]) -> None:
    busy = from_range(3, repeat=True).drain()
    plan = Union(busy, par_from_range(2, shards=1).gather_async()).take(2)
    assert simulate(plan, tape, Faults(dies_before=1, slow=1)).items == [0, 1]


def test_time_limits_do_not_make_a_busy_driver_wait() -> None:
    waits: list[float | None] = []

    class Watched(SimRuntime):
        def wait(self, mailbox: Mailbox, *, timeout: float | None = None) -> None:
            waits.append(timeout)
            super().wait(mailbox, timeout=timeout)

    busy = Union(from_range(300), par_from_range(2, shards=1).gather_async(timeout_s=5), mode="async")
    with Watched() as sim:
        assert len(list(busy.run(runtime=sim))) == 302
    assert 0 in waits, "while the driver has something to do it only looks"
    assert all(timeout is not None for timeout in waits), "and when it waits, not longer than the limit"


def test_a_gate_of_seconds_opens_without_any_actor() -> None:
    assert simulate(from_range(3, repeat=True).every(seconds=0.01).take(1)).complete


@given(tape=tapes(), in_flight=st.integers(1, 3))
def test_an_actor_that_hangs_is_ended_once(tape: list[int], in_flight: int) -> None:
    plan = par_from_range(4, shards=1).gather_async(in_flight=in_flight, timeout_s=1)
    history = simulate(plan, tape, Faults(hangs=1))
    assert history.happened("is ended") == history.happened("hangs")
    assert sorted(history.items) == [0, 1, 2, 3]


@dataclass(frozen=True)
class Note(LiveOp[Sample, Sample]):
    """Sends something to the actors that an item comes from."""

    actors: Actors[Sampler]

    def apply(self, live: Live, item: Sample, /) -> Sample:
        live[self.actors].send(Sampler.set_weights, 1)
        return item


@given(tape=tapes())
def test_a_call_is_not_late_while_a_message_is_before_it(tape: list[int]) -> None:
    actors = samplers(1)
    plan = sampling(actors).gather_async(timeout_s=30).for_each(Note(actors)).take(4)
    history = simulate(plan, tape, Faults(slow=1, slow_s=20.0))
    assert history.happened("is ended") == 0
    messages = simulate(plan, [0, 1], Faults(slow=1))
    assert messages.trace[1].call == "tell"
    assert messages.happened("slow") == 1
    assert messages.happened("is ended") == 0, "the message may take a minute, and the call starts after it"


def test_a_message_that_hangs_ends_with_the_limit_of_its_actors() -> None:
    actors = create_actors(Sampler, num=1, timeout_s=5.0)
    plan = sampling(actors).gather_async(timeout_s=30).for_each(Note(actors)).take(3)
    history = simulate(plan, [0, 1], Faults(hangs=1))
    assert history.trace[1].call == "tell"
    assert history.happened("is ended") == 1
    assert len(history.items) == 3


# --------------------------------------------------------------------------- operators over several incarnations


@given(schedule=schedules(deaths), count=st.integers(0, 6))
def test_par_take_counts_over_all_incarnations(schedule: SimSchedule, count: int) -> None:
    plan = par_from_range(10, shards=1).par_take(count).gather_async(per_call=2)
    assert simulate(plan, *schedule).items == list(range(count))


@given(schedule=schedules(fault_profiles(("dies_before", "dies_after"))))
def test_items_that_a_dead_actor_was_fed_are_dropped_and_counted(schedule: SimSchedule) -> None:
    for plan in (
        par_from_range(6, shards=2).repartition(2).gather_async(),
        from_range(6).hand_off(ledger_actor(), Total(), on_death="restart"),
    ):
        history = simulate(plan, *schedule)
        assert history.error is None
        assert len(history.items) + history.ledgers[-1].items.dropped.get("lost", 0) == 6
        assert history.lost() == []


class Weigh(StatefulLiveOp[Sample, Sample, list[int]]):
    """Sends its state once, and goes on changing it: against the rules, but what was sent was sent."""

    def __init__(self, actors: Actors[Sampler]) -> None:
        self.actors = actors

    def init(self) -> list[int]:
        return [0]

    def step(self, live: Live, state: list[int], item: Sample, /) -> tuple[list[int], Sample]:
        state[0] += 1
        if state[0] == 1:
            live[self.actors].update(set_anything, state)
        return state, item


def set_anything(sampler: Sampler, weights: list[int]) -> None:
    sampler.weights = weights[0]


def test_state_is_what_it_was_when_it_was_sent() -> None:
    actors = samplers(1)
    plan = sampling(actors).gather_async().for_each(Weigh(actors)).take(6)
    history = simulate(plan, [0, 0, 0, 1], Faults(dies_before=1))
    assert history.happened("dies_before") == 1
    assert [sample.weights for sample in history.items] == [0, 1, 1, 1, 1, 1]


def test_user_code_that_raises_has_taken_its_weights_in_before() -> None:
    actors = samplers(1)
    learning = sampling(actors).gather_async().for_each(Learn(actors))
    with SimRuntime([0, 1], Faults(raises=1)) as sim:
        with pytest.raises(OperatorError):
            list(learning.run(runtime=sim))
        (sample,) = sampling(actors).gather_async().take(1).run(runtime=sim)
    assert sample.weights == 1


@given(tape=tapes())
def test_a_call_behind_one_that_raised_is_an_ordinary_call(tape: list[int]) -> None:
    history = simulate(par_from_range(8).gather_async(in_flight=2), tape, Faults(raises=1))
    assert "KeyError" not in history.script


# --------------------------------------------------------------------------- messages, questions, sessions


@given(schedule=schedules(fault_profiles(("dies_before", "dies_after", "refuses"))), copies=st.integers(1, 3))
def test_messages_to_a_dead_actor_are_counted_and_later_ones_arrive(schedule: SimSchedule, copies: int) -> None:
    stores = create_actors(Store, num=1)
    history = simulate(from_range(5).for_each(Deal(stores, copies)), *schedule)
    assert history.items == list(range(5))
    assert history.complete
    calls = history.ledgers[-1].calls
    assert calls.issued == 5 * copies == calls.answered + calls.lost


def test_messages_to_an_actor_that_is_given_up_end_the_run() -> None:
    stores = create_actors(Store, num=1, name="stores")
    history = simulate(from_range(9).for_each(Deal(stores)), [1] * 20, Faults(dies_before=1, refuses=9))
    assert isinstance(history.error, ShardFailed)
    assert "stores[0] takes no more messages" in str(history.error)


def test_a_question_to_a_dead_actor_is_answered_by_its_next_life() -> None:
    actors = samplers(1)
    with SimRuntime([0, 1], Faults(dies_before=1)) as sim, sampling(actors).gather_async().run(runtime=sim) as run:
        next(run)
        next(run)
        assert run.ask(actors, Sampler.samples_made) == [1]
        assert run.ledger.calls.lost == 1


def test_two_runs_share_the_new_life_of_an_actor() -> None:
    actors = samplers(1)
    stream = sampling(actors).gather_async()
    with SimRuntime([0, 0, 1], Faults(dies_before=1)) as sim, stream.run(runtime=sim) as one, stream.run(runtime=sim) as two:
        found = [next(one), next(two), next(one), next(two)]
        lives = [moment for moment in sim.trace if moment.what == "starts"]
        assert one.ledger.balanced
        assert two.ledger.balanced
    assert len(lives) == 1
    assert len(found) == 4


def test_a_run_that_is_closed_during_a_pause_leaves_nothing_behind() -> None:
    actors = samplers(2)
    stream = Union(sampling(actors).gather_async(), from_range(3))
    with SimRuntime([0, 1], Faults(dies_before=1)) as sim:
        with stream.run(runtime=sim) as run:
            for _ in range(4):
                next(run)
        assert run.ledger.balanced
        assert run.ledger.calls.in_flight == 0
        assert all(not shard.waiting for pool in sim.pools.values() for shard in pool.shards)
        assert len(list(sampling(actors).gather_sync().take(4).run(runtime=sim))) == 4, "the session goes on"


# --------------------------------------------------------------------------- any plan, any fault


def ends_well(history: History[object]) -> None:
    assert history.unbalanced() == []
    last = history.ledgers[-1]
    assert last.calls.in_flight == last.items.buffered == 0
    if history.error is not None:
        faults = history.faults
        allowed: list[type[Exception]] = []
        if faults.raises:
            allowed.append(OperatorError)
        if faults.hangs:
            allowed.append(Deadlock)
        if faults.dies_before or faults.dies_after:
            allowed += [ShardFailed, NoHealthyShards]
        assert isinstance(history.error, tuple(allowed)), history.error


@given(plan=plans(), schedule=schedules(anything))
def test_any_plan_under_any_fault_ends_with_a_balanced_ledger(plan: Iter[int], schedule: SimSchedule) -> None:
    ends_well(simulate(plan, *schedule))


@given(plan=plans(), schedule=schedules(anything))
def test_one_tape_one_trace(plan: Iter[int], schedule: SimSchedule) -> None:
    """Byte for byte; and the choices that were read are a tape that gives the same run."""
    first, second = simulate(plan, *schedule), simulate(plan, *schedule)
    assert str(first) == str(second)
    assert first.items == second.items
    again = simulate(plan, first.tape, schedule.faults)
    assert again.script == first.script


@given(plan=plans())
def test_the_empty_tape_is_the_local_runtime(plan: Iter[int]) -> None:
    with LocalRuntime() as session:
        local = list(plan.run(runtime=session))
    assert simulate(plan).items == local


def test_a_plan_says_how_it_takes_a_death() -> None:
    stream = par_from_items(range(4), shards=2)
    assert "on_death" not in str(stream.gather_async())
    assert "on_death=skip" in str(stream.gather_async(on_death="skip"))
    assert "timeout_s=5" in str(stream.gather_sync(timeout_s=5.0))
    assert "on_death=restart" in str(from_range(2).call(ledger_actor(), Total(), on_death="restart"))
    assert stream.gather_async(on_death="skip").fingerprint != stream.gather_async(on_death="raise").fingerprint
