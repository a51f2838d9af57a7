"""What a runtime is: a session that makes actors, takes calls to them, and waits.

A runtime knows nothing of plans. The driver loop (``executor.py``) issues calls and makes one wait over all of its own; a runtime
runs the calls of each actor in the order of issue and puts each finished one into the mailbox of the run that issued it.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Protocol, Self

from tflow.combinators.actors import Actors
from tflow.errors import RunClosed, ShardFailed, TflowError
from tflow.runtime.cell import attempt_all
from tflow.runtime.host import State
from tflow.types import Shard


class Owner(Protocol):
    """Whoever issued a call."""

    def arrived(self, call: Call) -> None:
        """The call is finished."""


class Mailbox:
    """The calls of one run: those in flight, and those finished but not yet looked at."""

    def __init__(self) -> None:
        self.in_flight: dict[Call, None] = {}
        self.finished: deque[Call] = deque()


class Call:
    """One call to an actor, and later its result."""

    __slots__ = ("args", "done", "error", "mailbox", "method", "owner", "reply", "shard", "tag")

    def __init__(self, shard: LiveShard, method: str, args: tuple[object, ...], mailbox: Mailbox, owner: Owner) -> None:
        self.shard = shard
        self.method = method
        self.args = args
        self.mailbox = mailbox
        self.owner = owner
        self.tag: object = None
        """For the owner's use."""
        self.reply: object = None
        self.error: TflowError | None = None
        self.done = False
        """The run that issued it has seen the reply or the error."""


class LiveShard:
    """One live actor, as the driver sees it."""

    def __init__(self, pool: LivePool, index: int, handle: object) -> None:
        self.pool = pool
        self.index = index
        self.incarnation = 0
        self.handle = handle
        self.state: State = {}
        """Waits for the next call, which takes it along. The latest per policy and method wins."""
        self.held: Mapping[str, int] = {}
        """Per policy, the version that the actor has once it has taken the state in."""
        self.latest: dict[tuple[str, Callable[..., object]], int] = {}
        """The number of the last update for each policy and method."""

    @property
    def place(self) -> str:
        return f"{self.pool.name}[{self.index}]"

    def put_state(self, method: Callable[..., object], value: object, policy: str, version: int) -> None:
        """Replace what waits for this policy and method."""
        key = (policy, method)
        self.state.pop(key, None)  # so that the latest comes last
        self.latest[key] = self.latest.get(key, 0) + 1
        self.state[key] = (self.latest[key], value)
        self.held = {**self.held, policy: version}

    def take_state(self) -> State:
        state, self.state = self.state, {}
        return state

    def give_back(self, state: State) -> None:
        """A call that took the state along will never run: it waits again, unless something newer has been sent since."""
        fresh = {key: (number, value) for key, (number, value) in state.items() if number == self.latest[key]}
        self.state = {**fresh, **self.state}


class LivePool:
    """The live actors of one description, and how often each of their policies was updated."""

    def __init__(self, actors: Actors[object], name: str) -> None:
        self.actors = actors
        self.name = name
        self.shards: list[LiveShard] = []
        self.versions: dict[str, int] = {}

    def staleness(self, versions: Mapping[str, int]) -> dict[str, int]:
        """Updates since a call that was issued with these versions, per policy."""
        return {policy: latest - versions.get(policy, 0) for policy, latest in self.versions.items()}


class Runtime(ABC):
    """A session. Resources live until it is closed and are shared by all plans that name the same description."""

    def __init__(self) -> None:
        self.closed = False
        self.pools: dict[int, LivePool] = {}
        self.runs = 0
        self.cleanup = ExitStack()

    # ------------------------------------------------------------------- what a runtime must do

    @abstractmethod
    def spawn(self, make: Callable[[Shard], object], shard: Shard) -> object:
        """Make one actor and return a handle to it."""

    @abstractmethod
    def submit(self, call: Call) -> None:
        """Queue a call at its actor. Never blocks."""

    @abstractmethod
    def wait(self, mailbox: Mailbox, *, timeout: float | None = None) -> None:
        """Return when the mailbox has a finished call. ``timeout=0`` only looks."""

    @abstractmethod
    def cancel(self, calls: Collection[Call]) -> list[Call]:
        """Nobody wants these calls any more. Returns those that will never run, which need not be all, in order of issue."""

    @abstractmethod
    def stop(self, handle: object) -> None:
        """End an actor."""

    @abstractmethod
    def forget(self, handle: object, run: int) -> None:
        """Drop what a run left in an actor."""

    @abstractmethod
    def now(self) -> float:
        """Seconds on the runtime's clock."""

    # ------------------------------------------------------------------- what all runtimes share

    def pool(self, actors: Actors[object], seed: int) -> LivePool:
        """The live actors of a description, made at the first call; ``seed`` is that of the description."""
        if self.closed:
            raise RunClosed(f"This {type(self).__name__} is closed; open a new one.")
        if id(actors) not in self.pools:
            taken = {pool.name for pool in self.pools.values()}
            name = next(n for n in _numbered(actors.name) if n not in taken)
            self.pools[id(actors)] = self._made(LivePool(actors, name), seed)
        return self.pools[id(actors)]

    def _made(self, pool: LivePool, seed: int) -> LivePool:
        """All actors of a pool, or none."""
        try:
            for index in range(pool.actors.num):
                pool.shards.append(self._spawn(pool, index, derive(seed, index, 0)))
        except ShardFailed:
            attempt_all([partial(self.stop, shard.handle) for shard in reversed(pool.shards)])
            raise
        for shard in pool.shards:
            self.cleanup.callback(self.stop, shard.handle)
        return pool

    def _spawn(self, pool: LivePool, index: int, seed: int) -> LiveShard:
        shard = Shard(pool.name, index, pool.actors.num, 0, seed)
        try:
            handle = self.spawn(pool.actors.make, shard)
        except Exception as error:
            raise ShardFailed(f"Shard {pool.name}[{index}] could not be made: {type(error).__name__}: {error}") from error
        return LiveShard(pool, index, handle)

    def new_run(self) -> int:
        """A number that tells the runs of this session apart."""
        self.runs += 1
        return self.runs

    def close(self) -> None:
        """End all actors, the youngest first. Safe to repeat."""
        if not self.closed:
            self.closed = True
            self.cleanup.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _numbered(name: str) -> list[str]:
    return [name, *(f"{name}#{number}" for number in range(2, 10_000))]


def derive(*parts: object) -> int:
    """A seed that is a function of the parts, the same everywhere."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
