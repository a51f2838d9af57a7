"""Items that the driver does not look into, and calls that bring several."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.laws.world import RUNTIMES, Learn, over_runtimes, over_runtimes_and_ray, per_shard, results, samplers, sampling
from tflow import (
    ActorOp,
    Actors,
    Iter,
    Live,
    LiveOp,
    PlanError,
    Shard,
    TimeBudget,
    Union,
    create_actor,
    create_actors,
    from_actors,
    par_from_range,
)
from tflow.actors import Actor
from tflow.combinators import graph, nodes
from tflow.runtime.refs import carriers
from tflow.types import Ref, RefOp

LENGTH = 50_000


@dataclass(frozen=True)
class Rollout:
    """Large enough for the store of a cluster; says of itself what travels beside it."""

    observations: NDArray[np.float64]
    shard: int
    number: int

    @property
    def env_steps(self) -> int:
        return 10 + self.number

    @property
    def summary(self) -> str:
        return f"{self.shard}.{self.number}"


class Env:
    def __init__(self, shard: Shard) -> None:
        self.shard, self.made, self.weights = shard.index, 0, np.zeros(1)

    def sample(self) -> Rollout:
        if self.made == 4:
            raise StopIteration
        self.made += 1
        return Rollout(np.full(LENGTH, self.made - 1.0), self.shard, self.made - 1)

    def set_weights(self, weights: NDArray[np.float64]) -> None:
        self.weights = weights

    def report(self) -> tuple[float, bool]:
        return float(self.weights.sum()), bool(self.weights.flags.writeable)


class Replay:
    def __init__(self, shard: Shard) -> None:
        self.items: list[tuple[int, int, float, bool]] = []

    def add(self, item: Rollout) -> None:
        values = item.observations
        self.items.append((item.shard, item.number, float(values.mean()), bool(values.flags.writeable)))

    def contents(self) -> list[tuple[int, int, float, bool]]:
        return self.items


@dataclass(frozen=True)
class Store(RefOp[Rollout]):
    replay: Actor[Replay]

    def forward(self, live: Live, item: Ref[Rollout], /) -> None:
        (source,) = live.provenance.sources
        assert item.summary == f"{source.shard}.{source.sequence}"
        assert item.env_steps == 10 + source.sequence
        live[self.replay].send(Replay.add, item)


@dataclass(frozen=True)
class StoreOpened(LiveOp[Rollout, Rollout]):
    replay: Actor[Replay]

    def apply(self, live: Live, item: Rollout, /) -> Rollout:
        live[self.replay].send(Replay.add, item)
        return item


class Mean(ActorOp[Replay, Rollout, float]):
    def apply(self, actor: Replay, item: Rollout, /) -> float:
        return float(item.observations.mean())


class MeanOfAll(ActorOp[Replay, list[Rollout], list[float]]):
    def apply(self, actor: Replay, item: list[Rollout], /) -> list[float]:
        return [float(rollout.observations.mean()) for rollout in item]


@dataclass(frozen=True)
class Broadcast(RefOp[Rollout]):
    """Weights that an actor made go to other actors without a stop at the driver."""

    envs: Actors[Env]

    def forward(self, live: Live, item: Ref[Rollout], /) -> None:
        live[self.envs].advance()
        live[self.envs].update(Broadcast.take, item)

    @staticmethod
    def take(env: Env, item: Rollout) -> None:
        env.set_weights(item.observations)


def rollouts(num: int = 2) -> Iter[Rollout]:
    return from_actors(create_actors(Env, num=num), Env.sample).gather_sync()


@over_runtimes_and_ray
@pytest.mark.parametrize("operator", [Store, StoreOpened])
def test_items_reach_an_actor_whole_opened_or_not(runtime: str, operator: type[Store | StoreOpened]) -> None:
    replay = create_actor(Replay)
    stored = rollouts().for_each(operator(replay))
    with RUNTIMES[runtime]() as session, stored.drain().run(runtime=session) as run:
        assert list(run) == []
        assert run.stats().env_steps == 2 * (10 + 11 + 12 + 13)
        assert run.ledger.balanced
    with RUNTIMES[runtime]() as session, stored.map(lambda item: (item.shard, item.number)).run(runtime=session) as again:
        assert list(again) == [(shard, number) for number in range(4) for shard in (0, 1)], "and they can be looked into later"
        (contents,) = again.ask(replay, Replay.contents)
    assert [entry[:3] for entry in contents] == [(shard, number, number) for number in range(4) for shard in (0, 1)]
    if runtime == "ray":
        assert not any(writeable for *_, writeable in contents), "arrays are read-only on arrival"


@over_runtimes
def test_batches_and_rounds_of_items_reach_an_actor(runtime: str) -> None:
    learner = create_actor(Replay)
    one_by_one = results(rollouts().call(learner, Mean()), runtime)
    batches = results(rollouts().batch(2).call(learner, MeanOfAll()), runtime)
    gathered = from_actors(create_actors(Env, num=2), Env.sample).gather_rounds()
    rounds = results(gathered.call(learner, MeanOfAll()), runtime)
    assert one_by_one == [0, 0, 1, 1, 2, 2, 3, 3]
    assert batches == rounds == [[0, 0], [1, 1], [2, 2], [3, 3]]


@over_runtimes_and_ray
def test_both_branches_of_a_split_have_every_item(runtime: str) -> None:
    replay = create_actor(Replay)
    stored, trained = rollouts().split()
    flow = Union(stored.for_each(Store(replay)).drain(), trained.map(lambda item: float(item.observations.sum())))
    with RUNTIMES[runtime]() as session, flow.run(runtime=session) as run:
        assert list(run) == [number * LENGTH for number in range(4) for _ in (0, 1)]
        (contents,) = run.ask(replay, Replay.contents)
    assert [entry[:2] for entry in contents] == [(shard, number) for number in range(4) for shard in (0, 1)]


@over_runtimes_and_ray
def test_state_can_be_an_item_that_the_driver_never_opens(runtime: str) -> None:
    envs = create_actors(Env, num=2)
    flow = rollouts(1).for_each(Broadcast(envs)).drain()
    with RUNTIMES[runtime]() as session, flow.run(runtime=session) as run:
        assert list(run) == []
        found = run.ask(envs, Env.report)
    assert [total for total, _ in found] == [3.0 * LENGTH] * 2, "the last of four"
    if runtime == "ray":
        assert not any(writeable for _, writeable in found)


@dataclass(frozen=True)
class BroadcastAll(RefOp[list[Rollout]]):
    envs: Actors[Env]

    def forward(self, live: Live, item: Ref[list[Rollout]], /) -> None:
        assert item.env_steps in (20, 22, 24, 26), "of all members"
        live[self.envs].update(BroadcastAll.take, item)

    @staticmethod
    def take(env: Env, item: list[Rollout]) -> None:
        env.set_weights(item[0].observations + item[1].observations)


@over_runtimes
def test_state_can_be_a_list_of_such_items(runtime: str) -> None:
    envs = create_actors(Env, num=1)
    rounds = from_actors(create_actors(Env, num=2), Env.sample).gather_rounds().for_each(BroadcastAll(envs))
    with RUNTIMES[runtime]() as session, rounds.drain().run(runtime=session) as run:
        assert list(run) == []
        assert [total for total, _ in run.ask(envs, Env.report)] == [6.0 * LENGTH]


def opened_by_the_driver(stream: Iter[object]) -> bool:
    """True if some gather of the plan brings the items themselves."""
    order = graph.walk(stream.node)
    return not {node for node in order if isinstance(node, nodes.Gathering)} <= carriers(order)


def test_which_plans_let_the_driver_look_into_items() -> None:
    replay = create_actor(Replay)
    assert opened_by_the_driver(rollouts())
    assert opened_by_the_driver(rollouts().map(id))
    assert opened_by_the_driver(rollouts().for_each(StoreOpened(replay)))
    assert not opened_by_the_driver(rollouts().for_each(Store(replay)))
    assert not opened_by_the_driver(rollouts().take(3).batch(2).call(replay, MeanOfAll()))
    stored, trained = rollouts().split()
    assert not opened_by_the_driver(Union(stored.for_each(Store(replay)).drain(), trained.map(id)))
    several = from_actors(create_actors(Env), Env.sample).gather_async(per_call=2).for_each(Store(replay))
    assert opened_by_the_driver(several), "several per call are small"


# --------------------------------------------------------------------------- several items per call


@over_runtimes
@given(count=st.integers(0, 40), shards=st.integers(1, 3), in_flight=st.integers(1, 2), most=st.integers(1, 5))
def test_a_time_budget_changes_no_item_and_no_order(runtime: str, count: int, shards: int, in_flight: int, most: int) -> None:
    stream = par_from_range(count, shards=shards)
    found = results(stream.gather_async(in_flight=in_flight, per_call=TimeBudget(items=most)), runtime)
    assert sorted(found) == list(range(count))
    for first in results(stream.gather_rounds(), "local")[:1]:
        blocks = [[value for value in found if low <= value < high] for low, high in zip(first, [*first[1:], count], strict=True)]
        assert all(block == sorted(block) for block in blocks)


@over_runtimes
@given(in_flight=st.integers(1, 2), most=st.integers(1, 4))
def test_a_time_budget_bounds_the_lag_in_items(runtime: str, in_flight: int, most: int) -> None:
    """The declared bound: ``in_flight * items - 1`` items between an update and the first item made with it."""
    actors = samplers(1)
    stream = sampling(actors).gather_async(in_flight=in_flight, per_call=TimeBudget(items=most))
    found = results(stream.for_each(Learn(actors)).take(30), runtime)
    assert per_shard(found) == {0: list(range(30))}
    assert all(updates - sample.weights <= in_flight * most - 1 for updates, sample in enumerate(found))


@pytest.mark.ray
def test_a_time_budget_makes_fewer_calls() -> None:
    stream = sampling(samplers(1)).gather_async(per_call=TimeBudget(seconds=0.05, items=10)).take(100)
    with RUNTIMES["ray"]() as session, stream.run(runtime=session) as run:
        assert len(list(run)) == 100
    assert run.ledger.calls.issued <= 20, "an item takes microseconds, a call may take 50 ms"


@pytest.mark.ray
def test_a_time_budget_is_bounded_in_bytes_too() -> None:
    stream = from_actors(create_actors(Env, num=1), Env.sample).gather_async(per_call=TimeBudget(seconds=10, megabytes=0.5))
    with RUNTIMES["ray"]() as session, stream.run(runtime=session) as run:
        assert [item.number for item in run] == [0, 1, 2, 3]
    assert run.ledger.calls.issued == 3, "two rollouts of 0.38 MB, two more, and the end"


def test_a_wrong_budget_is_a_sentence() -> None:
    wrong = {
        TimeBudget(seconds=0): "per_call.seconds",
        TimeBudget(items=0): "per_call.items",
        TimeBudget(megabytes=-1): "megabytes",
    }
    for budget, name in wrong.items():
        with pytest.raises(PlanError, match=f"gather_async: .*{name}"):
            sampling(samplers(1)).gather_async(per_call=budget)


@dataclass(frozen=True)
class Pair:
    """As a batch of two policies: eight env steps, sixteen rows."""

    env_steps: int = 8

    def __len__(self) -> int:
        return 2 * self.env_steps


class PairMaker:
    def __init__(self, shard: Shard) -> None:
        pass

    def make(self) -> Pair:
        return Pair()


@dataclass(frozen=True)
class CountRows(RefOp[Pair]):
    """Tells an actor how many rows pass."""

    counter: Actors[RowCounter]

    def forward(self, live: Live, item: Ref[Pair], /) -> None:
        live[self.counter].send(RowCounter.add, (item.rows, item.env_steps))


class RowCounter:
    def __init__(self, shard: Shard) -> None:
        self.seen: list[tuple[int, int]] = []

    def add(self, counted: tuple[int, int]) -> None:
        self.seen.append(counted)

    def told(self) -> list[tuple[int, int]]:
        return self.seen


@over_runtimes_and_ray
def test_rows_are_the_same_wherever_the_item_is(runtime: str) -> None:
    counter = create_actors(RowCounter, num=1)
    stream = from_actors(create_actors(PairMaker, num=1), PairMaker.make).gather_async().for_each(CountRows(counter))
    with RUNTIMES[runtime]() as session, stream.run(runtime=session) as run:
        next(run)
        next(run)
        (told,) = run.ask(counter, RowCounter.told)
    assert set(told) == {(16, 8)}
