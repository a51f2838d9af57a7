"""What a runtime is: a session that makes actors, takes calls to them, and waits.

A runtime knows nothing of plans. The driver loop (``executor.py``) issues calls and makes one wait over all of its own; a runtime
runs the calls of each actor in the order of issue and puts each finished one into the mailbox of the run that issued it. When an
actor dies, every call that it has not answered comes back as lost.
"""

from __future__ import annotations

import hashlib
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from types import TracebackType
from typing import Protocol, Self

from tflow.combinators.actors import Actors
from tflow.errors import RunClosed, ShardFailed, TflowError
from tflow.runtime.cell import attempt_all
from tflow.runtime.host import NO_LUGGAGE, Luggage
from tflow.runtime.shards import LivePool, LiveShard
from tflow.types import Shard

log = logging.getLogger("tflow")


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

    __slots__ = (
        "args", "done", "error", "incarnation", "lost", "luggage", "mailbox", "method", "owner", "reply", "sent_at", "shard",
        "tag", "timeout_s",
    )  # fmt: skip

    def __init__(self, shard: LiveShard, method: str, args: tuple[object, ...], mailbox: Mailbox, owner: Owner) -> None:
        self.shard = shard
        self.method = method
        self.args = args
        self.mailbox = mailbox
        self.owner = owner
        self.tag: object = None
        """For the owner's use."""
        self.luggage: Luggage = NO_LUGGAGE
        """The state that rides along."""
        self.incarnation = -1
        """The life of the actor that it was sent to."""
        self.timeout_s: float | None = None
        self.sent_at = 0.0
        self.reply: object = None
        self.error: TflowError | None = None
        """What user code raised."""
        self.lost = ""
        """How the actor died, if it did before it answered; whether it ran is unknown then."""
        self.done = False
        """The run that issued it has seen the reply, the error or the loss."""

    def finish(self, *, lost: str = "") -> None:
        """Put it where the run that issued it looks."""
        self.lost = lost
        self.mailbox.finished.append(self)


class Runtime(ABC):
    """A session. Resources live until it is closed and are shared by all plans that name the same description."""

    limits_time = True
    """Actors work beside the driver, so one that takes too long can be noticed and ended."""

    def __init__(self) -> None:
        self.closed = False
        self.pools: dict[int, LivePool] = {}
        self.dead: list[LiveShard] = []
        """Between two lives."""
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
        """Return when the mailbox has a finished call, or after ``timeout`` seconds. ``timeout=0`` only looks."""

    @abstractmethod
    def cancel(self, calls: Collection[Call]) -> list[Call]:
        """Nobody wants these calls any more. Returns those that will never run, which need not be all, in order of issue."""

    @abstractmethod
    def stop(self, handle: object) -> None:
        """End an actor that has nothing to do."""

    @abstractmethod
    def kill(self, handle: object) -> None:
        """End an actor whatever it is doing: its calls come back as lost."""

    @abstractmethod
    def forget(self, handle: object, run: int) -> None:
        """Drop what a run left in an actor."""

    @abstractmethod
    def now(self) -> float:
        """Seconds on the runtime's clock."""

    def hold(self, value: object) -> object:
        """A value that will be sent to actors, perhaps more than once: as it is now, where that can be had."""
        return value

    # ------------------------------------------------------------------- what all runtimes share: actors

    def pool(self, actors: Actors[object], seed: int) -> LivePool:
        """The live actors of a description, made at the first call; ``seed`` is that of the description."""
        if self.closed:
            raise RunClosed(f"This {type(self).__name__} is closed; open a new one.")
        if id(actors) not in self.pools:
            taken = {pool.name for pool in self.pools.values()}
            name = next(n for n in _numbered(actors.name) if n not in taken)
            self.pools[id(actors)] = self._made(LivePool(actors, name, seed))
        return self.pools[id(actors)]

    def _made(self, pool: LivePool) -> LivePool:
        """All actors of a pool, or none."""
        try:
            for index in range(pool.actors.num):
                pool.shards.append(LiveShard(pool, index, self._spawn(pool, index, 0)))
        except ShardFailed:
            attempt_all([partial(self._stop, shard) for shard in reversed(pool.shards)])
            raise
        for shard in pool.shards:
            self.cleanup.callback(self._stop, shard)
        return pool

    def _spawn(self, pool: LivePool, index: int, incarnation: int) -> object:
        shard = Shard(pool.name, index, pool.actors.num, incarnation, derive(pool.seed, index, incarnation))
        try:
            return self.spawn(pool.actors.make, shard)
        except Exception as error:
            raise ShardFailed(f"Shard {pool.name}[{index}] could not be made: {type(error).__name__}: {error}") from error

    def _stop(self, shard: LiveShard) -> None:
        if shard.handle is not None:
            self.stop(shard.handle)

    # ------------------------------------------------------------------- what all runtimes share: calls, deaths, new lives

    def dispatch(self, call: Call) -> None:
        """Send a call, with the state that waits for its actor; between two lives of the actor, it waits."""
        shard = call.shard
        if shard.given_up:
            call.finish(lost=shard.obituary)
        elif shard.handle is None:
            shard.waiting.append(call)
        else:
            call.luggage = Luggage(shard.take_state(), shard.versions)
            call.incarnation = shard.incarnation
            if call.timeout_s is not None:
                call.sent_at = self.now()
            shard.under_way[call] = None
            self.submit(call)

    def answered(self, call: Call) -> None:
        """A run has seen that a call is finished."""
        shard = call.shard
        shard.under_way.pop(call, None)
        if not call.lost:
            shard.deaths = 0
            shard.heard_at = self.now()
        elif shard.handle is not None and shard.incarnation == call.incarnation:
            shard.bury(call.lost, self.now())
            self.dead.append(shard)
            log.warning("Shard %s died: %s. Calls that it had not answered are lost.", shard.place, call.lost)

    def revive(self) -> None:
        """Make the dead again that are wanted and whose pause is over."""
        for shard in [shard for shard in self.dead if shard.waiting and shard.back_at <= self.now()]:
            try:
                shard.handle = self._spawn(shard.pool, shard.index, shard.incarnation)
            except ShardFailed as failure:
                shard.mourn(str(failure), self.now())
            if shard.handle is not None or shard.given_up:
                self.dead.remove(shard)
                waiting, shard.waiting = shard.waiting, deque()
                for call in waiting:
                    self.dispatch(call)

    def next_revival(self) -> float:
        """When there will be something to do for ``revive``."""
        return min((shard.back_at for shard in self.dead if shard.waiting), default=float("inf"))

    # ------------------------------------------------------------------- what all runtimes share: the session

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


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}#{number}" for number in count(2))


def derive(*parts: object) -> int:
    """A seed that is a function of the parts, the same everywhere."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
