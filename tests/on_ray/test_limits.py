"""Slow consumers and stragglers on a real Ray: what is bounded stays bounded, and nobody waits who need not."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.laws.world import ray_session
from tests.on_ray.mortals import (
    Learner,
    Mortal,
    Mortals,
    Told,
    in_order,
    mortals,
    order,
    ordered,
    pull,
    sampling,
    wait_until,
)
from tflow import ActorOp, Shard, Union, create_actor, create_actors, from_actors

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("bounded")]


# --------------------------------------------------------------------------- slow consumers


class Counted(Mortal):
    """Tells all the world how many items it has made."""

    def sample(self) -> Told:
        item = super().sample()
        order(self.folder, "count", self.shard.index, self.made)
        return item


@dataclass(frozen=True)
class Counts(Mortals):
    """Makes them."""

    def __call__(self, shard: Shard) -> Counted:
        return Counted(shard, self.folder, self.limit)


@dataclass(frozen=True)
class Dawdle(ActorOp[Learner, Told, tuple[int, float | None]]):
    """For each item, gives the sampler all the time that it wants, and answers how many items it has made by then."""

    folder: Path

    def apply(self, actor: Learner, item: Told, /) -> tuple[int, float | None]:
        time.sleep(0.1)
        return item.sequence, ordered(self.folder, "count", 0)


def test_a_slow_learner_throttles_sampling(tmp_path: Path) -> None:
    samples = from_actors(create_actors(Counts(tmp_path), num=1), Counted.sample).gather_async()
    plan = samples.hand_off(create_actor(Learner), Dawdle(tmp_path), mailbox=2).take(10)
    with ray_session() as session, plan.run(runtime=session) as run:
        for place, (sequence, made) in enumerate(run):
            assert sequence == place, "nothing is lost"
            assert made is not None
            assert made <= place + 2 + 1, "what it has shown, what is in its mailbox, and one under way"
            assert run.ledger.calls.in_flight <= 2 + 1
    assert run.ledger.items.dropped.keys() <= {"stop"}, "only what came after the tenth"
    assert run.ledger.balanced


@dataclass(frozen=True)
class AtGate(ActorOp[Learner, Told, Told]):
    """Finishes no item before the gate, a file, is there."""

    gate: Path

    def apply(self, actor: Learner, item: Told, /) -> Told:
        wait_until(self.gate.exists, "the gate opens")
        return item


def test_drop_oldest_counts_what_a_slow_learner_never_saw(tmp_path: Path) -> None:
    learner, gate = create_actor(Learner), tmp_path / "gate"

    def open_at_the_last(item: Told) -> None:
        if item.sequence == 29:
            gate.touch()

    plan = sampling(mortals(tmp_path, num=1, limit=30)).gather_async().tap(open_at_the_last)
    with ray_session() as session:
        run = plan.hand_off(learner, AtGate(gate), mailbox=2, on_full="drop_oldest").run(runtime=session)
        results = [item.sequence for item in run]
    assert results == [0, 28, 29], "the one that it was at, and the two newest"
    assert run.ledger.items.dropped == {"overflow": 27}
    assert run.ledger.balanced


def test_a_branch_that_lags_is_bounded_and_the_other_loses_nothing(tmp_path: Path) -> None:
    """The slow branch has its first item and gets no result before the fast one is as far ahead as it may be."""
    learner, gate = create_actor(Learner), tmp_path / "gate"
    fast, slow = sampling(mortals(tmp_path, num=1, limit=12)).gather_async().split(max_lag=3)
    seen: list[int] = []
    taken: list[int] = []
    leads: list[int] = []

    def see(item: Told) -> None:
        seen.append(item.sequence)
        leads.append(len(seen) - len(taken))
        if len(seen) == 4:
            gate.touch()

    slowly = slow.tap(lambda item: taken.append(item.sequence)).hand_off(learner, AtGate(gate), mailbox=1)
    plan = Union(fast.tap(see).map(lambda item: ("fast", item.sequence)), slowly.map(lambda item: ("slow", item.sequence)))
    with ray_session() as session, plan.run(runtime=session) as run:
        shown = list(run)
    for branch in ("fast", "slow"):
        assert [sequence for name, sequence in shown if name == branch] == list(range(12))
    assert seen == taken == list(range(12))
    assert max(leads) == 3
    assert run.ledger.balanced


# --------------------------------------------------------------------------- stragglers


class Straggler(Counted):
    """The shard 1 answers when the gate is open."""

    def sample(self) -> Told:
        if self.shard.index == 1:
            wait_until((self.folder / "gate").exists, "the gate opens")
        return super().sample()


class LastOfAll(Counted):
    """The shard 1 answers when the others have made as many items as it will have, and have had time to make more."""

    def sample(self) -> Told:
        if self.shard.index == 1:
            wait_until(lambda: min(self.count_of(0), self.count_of(2)) > self.made, "the others have answered")
            time.sleep(0.1)
            assert max(self.count_of(0), self.count_of(2)) == self.made + 1, "they did not wait"
        return super().sample()

    def count_of(self, shard: int) -> float:
        return ordered(self.folder, "count", shard) or 0


@dataclass(frozen=True)
class Stragglers:
    """Makes them."""

    folder: Path
    kind: type[Counted]

    def __call__(self, shard: Shard) -> Counted:
        return self.kind(shard, self.folder)


def test_a_straggler_slows_nobody_in_an_asynchronous_stream(tmp_path: Path) -> None:
    actors = create_actors(Stragglers(tmp_path, Straggler), num=3, name="env")
    with ray_session() as session, from_actors(actors, Counted.sample).gather_async().run(runtime=session) as run:
        counts = {0: 0, 1: 0, 2: 0}

        def ten_each(item: Told) -> bool:
            counts[item.shard] += 1
            return counts[0] >= 10 and counts[2] >= 10

        items = pull(run, ten_each)
        assert counts[1] == 0, "the others did all this while it worked on its first"
        (tmp_path / "gate").touch()
        items += pull(run, lambda item: item.shard == 1)
        assert in_order(items)
        assert run.ledger.calls.in_flight <= 3


def test_a_synchronous_stream_waits_for_a_straggler(tmp_path: Path) -> None:
    actors = create_actors(Stragglers(tmp_path, LastOfAll), num=3, name="env")
    with ray_session() as session, from_actors(actors, Counted.sample).gather_sync().take(9).run(runtime=session) as run:
        items = list(run)
    assert [(item.shard, item.sequence) for item in items] == [(shard, sequence) for sequence in range(3) for shard in range(3)]
    assert run.ledger.calls.issued == 9
