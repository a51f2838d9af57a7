"""Live actors as the driver sees them: what waits for each, how often it was updated, and how many lives it has had.

A dead actor is replaced by the driver, never by itself: a fresh one is made with the next incarnation number, after a pause
that grows, and receives all state that was ever sent to it. What is issued to it meanwhile waits for its next life.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tflow.combinators.actors import Actors
from tflow.errors import ShardFailed
from tflow.runtime.border import is_frozen
from tflow.runtime.host import State

if TYPE_CHECKING:
    from tflow.runtime.base import Call

MOST_DEATHS = 5
"""So many in a row, without an answer between them, and the shard is given up."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0


class LiveShard:
    """One live actor, through all of its lives."""

    def __init__(self, pool: LivePool, index: int, handle: object, incarnation: int = 0) -> None:
        self.pool = pool
        self.index = index
        self.handle: object | None = handle
        """None between two lives."""
        self.leaving = False
        """The pool was made smaller: no more is asked of it, and it ends when it has answered what it was asked."""
        self.incarnation = incarnation
        """The life that calls issued now will meet."""
        self.deaths = 0
        """In a row, without an answer between them."""
        self.obituary = ""
        """How it died last."""
        self.back_at = 0.0
        """When to try to make it again."""
        self.heard_at = 0.0
        """When it last answered."""
        self.waiting: deque[Call] = deque()
        """Calls for its next life."""
        self.under_way: dict[Call, None] = {}
        """Calls that it has, oldest first."""
        self.state: State = {}
        """Waits for the next call, which takes it along. The latest per policy and method wins."""
        self.sent: State = {}
        """The latest of all state that was ever sent: what the next life starts with."""
        self.versions: Mapping[str, int] = {}
        """Per policy, the version that the actor has once it has taken the state in."""

    @property
    def place(self) -> str:
        return f"{self.pool.name}[{self.index}]"

    @property
    def given_up(self) -> bool:
        return self.deaths > MOST_DEATHS

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

    def give_back(self, state: State) -> None:
        """A call that took the state along will never run: it waits again, unless something newer has been sent since."""
        fresh = {key: update for key, update in state.items() if update[0] == self.sent[key][0]}
        self.state = {**fresh, **self.state}

    def bury(self, why: str, now: float) -> None:
        """It is dead: prepare its next life."""
        self.handle = None
        self.under_way.clear()
        self.incarnation += 1
        self.state = dict(self.sent)
        self.mourn(why, now)

    def mourn(self, why: str, now: float) -> None:
        """It died, or could not be made: pause before the next attempt, longer each time."""
        self.deaths += 1
        self.obituary = why
        self.back_at = now + min(FIRST_PAUSE_S * 2 ** (self.deaths - 1), LONGEST_PAUSE_S)

    def failure(self, what: str) -> ShardFailed:
        """The error for a call that this shard will not answer."""
        times = f" It died {self.deaths} times in a row and is given up." if self.given_up else ""
        return ShardFailed(f"Shard {self.place} {what}: {self.obituary}.{times}")


class LivePool:
    """The live actors of one description, and how often each of their policies was updated."""

    def __init__(self, actors: Actors[object], name: str, seed: int) -> None:
        self.actors = actors
        self.name = name
        self.seed = seed
        self.shards: list[LiveShard] = []
        self.leavers: list[LiveShard] = []
        self.lives: dict[int, int] = {}
        """How many lives the shards that have left had, by index."""
        self.versions: dict[str, int] = {}
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
