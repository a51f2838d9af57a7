"""Our own combinators under the kit that users point at theirs: every law that the kit can check of a combinator, over schedules
and faults that hypothesis chooses."""

from __future__ import annotations

from tests.laws.world import PROVEN, operators
from tflow import ActorOp, Iter, ParIter, Shard, Union, create_actor
from tflow.actors import Actor
from tflow.laws import (
    BALANCE,
    BOUNDEDNESS,
    COMPLETENESS,
    CONSERVATION,
    FAIRNESS,
    FRESHNESS,
    ISOLATION,
    LAZINESS,
    NO_EFFECTS,
    NO_STARVATION,
    ORDER,
    SURVIVAL,
    Law,
    laws_of,
)
from tflow.testing import Item, check_combinator

MERGED: list[Law[...]] = [CONSERVATION, ORDER, BOUNDEDNESS, LAZINESS, ISOLATION, BALANCE, NO_EFFECTS]
GATHERED: list[Law[...]] = [CONSERVATION, ORDER, LAZINESS, BOUNDEDNESS, FRESHNESS, SURVIVAL, BALANCE, ISOLATION, NO_EFFECTS]


class Echo(ActorOp[object, Item, Item]):
    def apply(self, actor: object, item: Item, /) -> Item:
        return item


def room(shard: Shard) -> object:
    return shard


def proven(tests: type, *names: str) -> type:
    """Say that these tests prove laws of these operators."""
    for operator in names:
        for law in laws_of(operators()[operator]):
            if hasattr(tests, f"test_{law.name}"):
                PROVEN[operator, law.name].add(tests.__name__)
    return tests


def learner() -> Actor[object]:
    return create_actor(room)


def gather_sync(stream: ParIter[Item]) -> Iter[Item]:
    return stream.gather_sync()


TestRoundRobin = check_combinator(
    lambda a, b, c: Union(a, b, c, mode="round_robin"), inputs=3, laws=[*MERGED, FAIRNESS, NO_STARVATION]
)
TestWeighted = check_combinator(
    lambda a, b: Union(a, b, weights=(3, 1)), inputs=2, weights=(3, 1), laws=[CONSERVATION, ORDER, FAIRNESS, BALANCE]
)
TestAsyncUnion = check_combinator(lambda a, b: Union(a, b, mode="async"), inputs=2, laws=[*MERGED, NO_STARVATION])
TestSplit = check_combinator(lambda s: s.split(3), laws=[COMPLETENESS])
TestLooseSplit = check_combinator(lambda s: s.split(2, max_lag=2), laws=[COMPLETENESS])
TestGatherSync = check_combinator(gather_sync, parallel=True, bound=1, laws=[CONSERVATION, ORDER, SURVIVAL, BALANCE, ISOLATION])
TestGatherAsync = proven(
    check_combinator(lambda s: s.gather_async(), parallel=True, bound=1, laws=GATHERED), "ParIter.gather_async", "create_actors"
)
TestGatherRounds = proven(
    check_combinator(lambda s: s.gather_rounds().flatten(), parallel=True, laws=[CONSERVATION, SURVIVAL, BALANCE]),
    "ParIter.gather_rounds",
)
TestTwoInFlight = check_combinator(lambda s: s.gather_async(in_flight=2), parallel=True, bound=2, in_flight=2, laws=GATHERED)
TestCall = check_combinator(lambda s: s.call(learner(), Echo()), laws=MERGED)
TestHandOff = check_combinator(lambda s: s.hand_off(learner(), Echo(), mailbox=2), bound=2, laws=MERGED)
TestRepartition = check_combinator(
    lambda s: s.repartition(2).gather_async(), parallel=True, bound=4, laws=[CONSERVATION, BALANCE, ISOLATION]
)
TestShuffle = check_combinator(lambda s: s.shuffle(3), bound=3, laws=[CONSERVATION, BOUNDEDNESS, LAZINESS, ISOLATION])
TestBatch = check_combinator(lambda s: s.batch(3).flatten(), bound=2, laws=MERGED)
