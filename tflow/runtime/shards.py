"""Live actors as the driver sees them: pending state, versions and incarnations.

The driver restarts a dead actor, after an exponential backoff, with the next incarnation number and the latest state that was
sent to it. Calls that are issued meanwhile wait for the next incarnation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tflow.combinators.actors import Actors
from tflow.errors import ShardFailed
from tflow.runtime.border import is_frozen
from tflow.runtime.host import State
from tflow.types import Shard

if TYPE_CHECKING:
    from tflow.runtime.base import Call
    from tflow.state.values import Encoded

MOST_DEATHS = 5
"""Consecutive deaths, without an answer between them, before the shard is given up."""
FIRST_PAUSE_S = 0.1
"""Initial backoff; it doubles with each death in a row."""
LONGEST_PAUSE_S = 10.0


class LiveShard:
    """One live actor, through all of its incarnations."""

    def __init__(self, pool: LivePool, index: int, handle: object, incarnation: int = 0) -> None:
        self.pool = pool
        self.index = index
        self.handle: object | None = handle
        """None while the actor is dead."""
        self.draining = False
        """The pool was scaled down: the shard gets no new calls, and ends when those in flight are answered."""
        self.incarnation = incarnation
        """The incarnation that calls issued now will reach."""
        self.deaths = 0
        """Consecutive deaths, without an answer between them."""
        self.death_reason = ""
        """Why it died last."""
        self.restart_at = 0.0
        """When to try the next restart."""
        self.last_answer_at = 0.0
        """When it last answered."""
        self.longest_call_s = 0.0
        """What its longest call so far took."""
        self.warned_at = 0.0
        """How long it had been waited for when that was last said."""
        self.waiting: deque[Call] = deque()
        """Calls for its next incarnation."""
        self.in_flight: dict[Call, None] = {}
        """Calls that it has, oldest first."""
        self.state: State = {}
        """Pending updates, piggybacked on the next call. The latest per policy and method wins."""
        self.sent: State = {}
        """The latest of all state that was ever sent: what the next incarnation starts with."""
        self.versions: Mapping[str, int] = {}
        """Per policy, the version that the actor has once it has applied the state."""

    @property
    def place(self) -> str:
        return f"{self.pool.name}[{self.index}]"

    @property
    def restarts_exhausted(self) -> bool:
        """True if the actor died too often in a row to be restarted again."""
        return self.deaths > MOST_DEATHS

    @property
    def can_be_restored(self) -> bool:
        """True if its next incarnation goes on from a checkpoint."""
        return self.index in self.pool.saved

    def join(self, state: State, versions: Mapping[str, int]) -> None:
        """Start with the state that the others have."""
        self.state, self.sent, self.versions = dict(state), dict(state), dict(versions)

    def put_state(self, method: Callable[..., object], value: object, policy: str, version: int) -> None:
        """Replace what waits for this policy and method."""
        key = (policy, method)
        number, _ = self.sent.pop(key, (0, None))
        self.state.pop(key, None)  # so that the latest comes last
        self.state[key] = self.sent[key] = (number + 1, value)
        self.versions = {**self.versions, policy: version}

    def take_state(self) -> State:
        state, self.state = self.state, {}
        return state

    def restore_state(self, state: State) -> None:
        """Make state pending again, because the call that carried it will never run, unless newer state has been sent since."""
        fresh = {key: update for key, update in state.items() if update[0] == self.sent[key][0]}
        self.state = {**fresh, **self.state}

    def record_death(self, why: str, now: float) -> None:
        """Mark the actor as dead and prepare its next incarnation."""
        self.handle = None
        self.in_flight.clear()
        self.incarnation += 1
        self.state = dict(self.sent)
        self.back_off(why, now)

    def back_off(self, why: str, now: float) -> None:
        """Schedule the next restart with exponential backoff, after a death or a failed start."""
        self.deaths += 1
        self.death_reason = why
        self.restart_at = now + min(FIRST_PAUSE_S * 2 ** (self.deaths - 1), LONGEST_PAUSE_S)

    def failure(self, what: str) -> ShardFailed:
        """The error for a call that this shard will not answer."""
        times = f" It died {self.deaths} times in a row and is given up." if self.restarts_exhausted else ""
        return ShardFailed(f"Shard {self.place} {what}: {self.death_reason.rstrip('.')}.{times}")


@dataclass(frozen=True)
class Giving:
    """Makes actors, and gives them something. It travels with what makes them, once for all."""

    make: Callable[[Shard], object]
    given: object

    def __call__(self, shard: Shard) -> object:
        return self.make(replace(shard, given=self.given))


class LivePool:
    """The live actors of one description, and how often each of their policies was updated."""

    def __init__(self, actors: Actors[object], name: str, seed: int, given: object = None, stops_at: int | None = None) -> None:
        self.actors = actors
        self.make: Callable[[Shard], object] = actors.make if given is None else Giving(actors.make, given)
        """What makes an actor."""
        self.name = name
        self.seed = seed
        self.stops_at = stops_at
        """Env steps after which the run that made them stops; None: not known."""
        self.shards: list[LiveShard] = []
        self.draining: list[LiveShard] = []
        self.next_incarnations: dict[int, int] = {}
        """The incarnation that a shard starts with when the pool grows again, by index."""
        self.versions: dict[str, int] = {}
        self.in_snapshot: set[int] = set()
        """Those whose state is in the latest snapshot."""
        self.saved: dict[int, Callable[[], Encoded]] = {}
        """By index: what reads the state of an actor that can be restored, from the latest checkpoint."""
        self.held: tuple[object, object] = (None, None)
        """The last value that was sent as state, and how the runtime holds it: it may be sent again, to other shards."""

    def hold(self, value: object, hold: Callable[[object], object]) -> object:
        """What the runtime made of a value when it was sent last, if it is the same and cannot have changed since."""
        if self.held[0] is not value or not is_frozen(value):
            self.held = value, hold(value)
        return self.held[1]

    def newest_state(self) -> tuple[State, dict[str, int]]:
        """The newest of all state that any shard was sent, for one that joins late; and which versions that makes."""
        state: State = {}
        versions: dict[str, int] = {}
        for shard in self.shards:
            for (policy, method), update in shard.sent.items():
                if shard.versions[policy] >= versions.get(policy, 0):
                    state[policy, method] = update
            versions |= {policy: max(version, versions.get(policy, 0)) for policy, version in shard.versions.items()}
        return state, versions

    def staleness(self, versions: Mapping[str, int]) -> dict[str, int]:
        """Updates since a call that was issued with these versions, per policy."""
        return {policy: latest - versions.get(policy, 0) for policy, latest in self.versions.items()}
