"""An operator at work, called by hand: every kind of operator, one item at a time, in a process that is put back afterwards."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tflow.combinators.travel import own_copy
from tflow.testing.spy import Message, SpyRef, spy
from tflow.testing.values import snapshot
from tflow.testing.world import Surroundings, contained, global_seed
from tflow.types import ActorOp, AnyOp, LiveOp, RefOp, Shard, Stateful, StatefulActorOp, StatefulLiveOp, shows_at_end

Item = Any  # Any: whatever the operator under test consumes
Make = Callable[[Shard], object]
LIVE = (LiveOp, StatefulLiveOp)
BESIDE = (ActorOp, StatefulActorOp)
STATEFUL = (Stateful, StatefulActorOp, StatefulLiveOp)


class Candidate(NamedTuple):
    """An operator and what it needs."""

    op: AnyOp
    actor: Make | None
    surroundings: Surroundings

    @staticmethod
    def of(op: AnyOp, actor: Make | None) -> Candidate:
        return Candidate(op, actor, Surroundings(op, *([] if actor is None else [actor])))


class Bench:
    """An operator at work."""

    def __init__(self, candidate: Candidate, op: AnyOp | None = None) -> None:
        self.candidate = candidate
        self.op: Any = own_copy(candidate.op) if op is None else op  # Any: of one of the kinds, which differ in their methods
        with global_seed(0):  # networks are made with the global generators, and these must begin equal
            self.live: Any = spy(self.op) if isinstance(self.op, LIVE) else None  # Any: stands for a Live
            self.actor = None if candidate.actor is None else candidate.actor(Shard("actor", 0, 1, 0, 0))
        self.state: object = self.op.init() if isinstance(self.op, STATEFUL) else None
        self.number = 0
        self.ref: SpyRef | None = None

    @property
    def messages(self) -> list[Message]:
        """What was sent for the last item."""
        return [] if self.live is None else self.live.messages

    @property
    def roots(self) -> list[tuple[str, object]]:
        """Where the operator can keep something."""
        return [("the operator", self.op), ("its state", self.state), *self.candidate.surroundings.roots()]

    def result(self, item: Item) -> object:
        """Process one item."""
        kind = self.candidate.op
        beside: list[object] = [self.actor] if isinstance(kind, BESIDE) else []
        if self.live is not None:
            self.live.receive(item, self.number)
            beside = [self.live]
        self.number += 1
        if isinstance(kind, RefOp):
            self.ref = SpyRef(item)
            self.op.forward(self.live, self.ref)
            return item
        if isinstance(kind, STATEFUL):
            stepped: object = self.op.step(*beside, self.state, item)
            if not isinstance(stepped, tuple) or len(stepped) != 2:
                raise TypeError(f"step must return a pair, (state, item): got {stepped!r}")
            self.state, shown = stepped
            return shown
        return self.op.apply(*beside, item)

    def rest(self) -> list[object]:
        """What is left when the input has ended."""
        beside = [self.live or self.actor] if isinstance(self.candidate.op, (StatefulActorOp, StatefulLiveOp)) else []
        if self.live is not None:
            self.live.messages = []
        return list(self.op.at_end(*beside, self.state)) if shows_at_end(self.candidate.op) else []

    def step(self, item: Item) -> object:
        """Process one item and return what the result, and what was sent, is made of."""
        return self.looked(self.result(item))

    def end(self) -> list[object]:
        """End the input, and return what is left, and was sent, as ``step`` does."""
        left = self.rest()
        if not self.messages:
            return [snapshot(item) for item in left]
        return [self.looked(left)]

    def looked(self, result: object) -> object:
        looked = snapshot(result)
        return (looked, [message.told for message in self.messages]) if self.messages else looked

    def renew(self) -> None:
        """Go on in another process, from what a checkpoint holds."""
        self.candidate.surroundings.restore()
        self.op = own_copy(self.candidate.op)
        self.state = saved_state(self.op, self.state)


@contextmanager
def bench(candidate: Candidate, op: AnyOp | None = None, *, clean: bool = True) -> Iterator[Bench]:
    """An operator at work in a process that is put back afterwards; ``clean`` says that its globals are as at the beginning."""
    with contained():
        if clean:
            candidate.surroundings.restore()
        yield Bench(candidate, op)


def results(candidate: Candidate, items: list[Item], op: AnyOp | None = None) -> list[object]:
    """What the operator gives for each of the items, and when they have ended."""
    with bench(candidate, op) as at_work:
        return [*(at_work.step(item) for item in items), *at_work.end()]


def fresh(items: list[Item]) -> list[Item]:
    """Copies, each by itself: two items may be the same object."""
    return [copy.deepcopy(item) for item in items]


def raw_copy(candidate: Candidate) -> AnyOp:
    """A copy field by field, whatever the operator says of how it is copied; what has a name in its module is still the same."""
    op = candidate.op
    blank, named = object.__new__(type(op)), candidate.surroundings.named()
    for name, value in getattr(op, "__dict__", {}).items():
        try:
            object.__setattr__(blank, name, copy.deepcopy(value, dict(named)))
        except Exception:  # a lock, say: then it is shared
            object.__setattr__(blank, name, value)
    return blank if hasattr(op, "__dict__") else op


def saved_state(op: AnyOp, state: object) -> object:
    """The state of an operator after a stay on disk."""
    from tflow.state.values import Encoded, StateEncoder, decode

    encoder = StateEncoder()
    tree = encoder.part(type(op).__name__, state)
    return decode(Encoded(json.loads(json.dumps(tree)), encoder.arrays))
