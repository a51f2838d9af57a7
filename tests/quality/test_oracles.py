"""Plans with mistakes between learner, workers and replay: each oracle finds its own, and nothing in the right plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from tflow import Actors, Iter, Live, LiveOp, Shard, create_actor, create_actors, from_actors
from tflow.testing import Faults, Refuted, oracles, verify
from tflow.testing.oracles import AnyCheck
from tflow.types import StatefulLiveOp


class Sample(NamedTuple):
    shard: int
    version: int


class Worker:
    """Samples with the latest weights, which are the number of the update that made them, and keeps a log."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard.index
        self.weights = 0
        self.log: list[int] = []

    def sample(self) -> Sample:
        return Sample(self.shard, self.weights)

    def set_weights(self, weights: int) -> None:
        self.weights = weights

    def write(self, line: int) -> None:
        self.log.append(line)


@dataclass(frozen=True)
class Learn(LiveOp[Sample, int]):
    """An update per item; shows its number."""

    workers: Actors[Worker]
    mistake: str = ""

    def apply(self, live: Live, item: Sample, /) -> int:
        update = live[self.workers].advance()
        if self.mistake == "sends the next" and item.shard == 1:
            live[self.workers].update(Worker.set_weights, update + 1)
        elif self.mistake == "by event" and update > 1:
            live[self.workers].send(Worker.set_weights, update, shard=item.shard)
        else:
            live[self.workers].update(Worker.set_weights, update)
        return item.version + 1 if self.mistake == "counts by the weights of the item" else update


@dataclass(frozen=True)
class WriteLog(StatefulLiveOp[Sample, int, tuple[int, int]]):
    """Tells worker 0 the number of every item."""

    workers: Actors[Worker]
    resends: bool = False

    def init(self) -> tuple[int, int]:
        return 0, 0

    def step(self, live: Live, state: tuple[int, int], item: Sample, /) -> tuple[tuple[int, int], int]:
        number, incarnation = state
        now = live[self.workers].incarnation(0)
        if self.resends and now != incarnation:
            live[self.workers].send(Worker.write, number, shard=0)
        live[self.workers].send(Worker.write, number + 1, shard=0)
        return (number + 1, now), number + 1


class Replay:
    """Holds the last three rows; shows the oldest."""

    def __init__(self, shard: Shard) -> None:
        self.rows: list[int] = []

    def sample(self) -> int:
        return self.rows[0] if self.rows else -1

    def insert(self, row: int) -> None:
        self.rows = [*self.rows, row][-3:]

    def prioritise(self, row: int) -> None:
        """What the real one does with a row that is gone does not matter here."""


@dataclass(frozen=True)
class Prioritise(StatefulLiveOp[int, int, int]):
    """For every row that is shown: its priority, then a new row."""

    replay: Actors[Replay]

    def init(self) -> int:
        return 0

    def step(self, live: Live, state: int, item: int, /) -> tuple[int, int]:
        if item >= 0:
            live[self.replay].send(Replay.prioritise, item)
        live[self.replay].send(Replay.insert, state)
        return state + 1, item


def learning(mistake: str, num: int = 2) -> Callable[[], Iter[int]]:
    def plan() -> Iter[int]:
        workers = create_actors(Worker, num=num)
        return from_actors(workers, Worker.sample).gather_async().for_each(Learn(workers, mistake)).take(4)

    return plan


def logging(*, resends: bool) -> Callable[[], Iter[int]]:
    def plan() -> Iter[int]:
        workers = create_actors(Worker, num=2)
        return from_actors(workers, Worker.sample).gather_async().for_each(WriteLog(workers, resends)).take(3)

    return plan


def replaying(in_flight: int) -> Callable[[], Iter[int]]:
    def plan() -> Iter[int]:
        replay = create_actor(Replay)
        return from_actors(replay, Replay.sample).gather_async(in_flight=in_flight).for_each(Prioritise(replay)).take(7)

    return plan


Plan = Callable[[], Iter[Any]]  # Any: of any items

SENT = oracles.trained_before_sent(Worker.set_weights, trained=int)
OVERTAKEN = oracles.never_overtaken(Worker.set_weights)
TWICE = oracles.counted_once(lambda update: update)
EFFECTS = oracles.effects_once(Worker.write, effect=int)
EVICTED = oracles.priorities_of_present_rows(
    Replay.insert, Replay.prioritise, capacity=3, inserted=lambda row: [row], updated=lambda row: [row]
)
DEATH = Faults(dies_after=1)
CASES: dict[str, tuple[AnyCheck, Plan, Plan, Faults, str]] = {
    "sent before it was trained": (SENT, learning(""), learning("sends the next"), DEATH, "got the weights of update"),
    "overtaken": (
        OVERTAKEN,
        learning("", 1),
        learning("by event", 1),
        DEATH,
        "got the weights of update 1, after those of update 2",
    ),
    "counted twice": (TWICE, learning(""), learning("counts by the weights of the item"), Faults(), r"more than once: \[1\]"),
    "repeated": (EFFECTS, logging(resends=False), logging(resends=True), DEATH, "Worker.write 1 happens in .* and had happened"),
    "evicted": (EVICTED, replaying(1), replaying(4), Faults(), "does not hold"),
}


@pytest.mark.parametrize("name", CASES)
def test_an_oracle_finds_its_mistake_and_no_other(name: str) -> None:
    check, right, wrong, faults, told = CASES[name]
    assert verify(right, check, events=5, faults=faults).runs >= 1
    with pytest.raises(Refuted, match=told):
        verify(wrong, check, events=8, faults=faults)


def test_a_message_of_a_slow_call_is_one_message() -> None:
    assert verify(logging(resends=False), EFFECTS, events=4, faults=Faults(slow=1)).runs > 5
