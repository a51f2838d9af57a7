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
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from tflow.combinators import nodes
from tflow.combinators.actors import Actors, Resident
from tflow.errors import PlanError, RunClosed, ShardFailed, StartDied, TflowError
from tflow.runtime.cell import attempt_all
from tflow.runtime.host import NO_PIGGYBACK, Piggyback, Request
from tflow.runtime.shards import LivePool, LiveShard
from tflow.types import Shard, TimeBudget

if TYPE_CHECKING:
    from tflow.state.folders import ArrayFile, Written
    from tflow.state.values import Encoded

log = logging.getLogger("tflow")
GONE = "it was removed: its pool was scaled down"
MOST_STARTS = 3
"""How often the process of an actor may end before it could begin."""


class Owner(Protocol):
    """The issuer of a call."""

    def arrived(self, call: Call) -> None:
        """The call is finished."""


class Mailbox:
    """The calls of one run: those in flight, and those finished but not yet looked at."""

    def __init__(self) -> None:
        self.in_flight: dict[Call, None] = {}
        self.tickets: dict[Any, Call] = {}  # Any: whatever a runtime waits for
        """What a runtime waits for, if it has to wait for something outside."""
        self.finished: deque[Call] = deque()


class Call:
    """One call to an actor, and later its result."""

    __slots__ = (
        "actor_survived", "args", "box", "done", "error", "incarnation", "lost", "mailbox", "method", "number", "owner",
        "piggyback", "reply", "sent_at", "shard", "tag", "ticket", "timeout_s", "traced",
    )  # fmt: skip

    def __init__(self, shard: LiveShard, method: str, args: tuple[object, ...], mailbox: Mailbox, owner: Owner) -> None:
        self.shard = shard
        self.method = method
        self.args = args
        self.mailbox = mailbox
        self.owner = owner
        self.tag: object = None
        """For the owner's use."""
        self.number = 0
        """Of the calls of a run, from 1; 0 for questions from outside the plan."""
        self.traced = False
        """The actor shall say when it worked on it."""
        self.piggyback: Piggyback = NO_PIGGYBACK
        """State updates sent with the call."""
        self.incarnation = -1
        """The incarnation of the actor that it was sent to."""
        self.timeout_s: float | None = None
        self.sent_at = 0.0
        self.ticket: Any = None  # Any: as in the mailbox
        self.box: Any = None  # Any: where a runtime keeps the items
        """For the runtime's use: what it waits for, and where the items are."""
        self.reply: object = None
        self.error: TflowError | None = None
        """What user code raised."""
        self.lost = ""
        """How the actor died, if it did before it answered; whether it ran is unknown then."""
        self.actor_survived = False
        """The call is lost although its actor is alive: a value in transit is gone, so it could not run or could not answer."""
        self.done = False
        """The run that issued it has seen the reply, the error or the loss."""

    @property
    def by_ref(self) -> bool:
        """True if the driver will not look into the items of the answer."""
        return self.method == "pull" and isinstance(request := self.args[0], Request) and request.by_ref

    def finish(self, *, lost: str = "") -> None:
        """Put it where the run that issued it looks."""
        self.lost = lost
        self.mailbox.finished.append(self)


class HostLoad(NamedTuple):
    """A state for one actor."""

    handle: object
    run: int
    fuse: bool
    programs: Sequence[tuple[tuple[int, int], nodes.Node]]
    """What the run has in the actor, by the position of the gather and its link."""
    state: Encoded


class Runtime(ABC):
    """A session. Resources live until it is closed and are shared by all plans that name the same description."""

    limits_time = True
    """Actors work beside the driver, so one that takes too long can be noticed and ended."""
    has_processes = False
    """Actors can be stopped or lost without a word: a driver that waits long for one says so."""
    hung_after: float | None = None
    """An actor that takes so many times as long as its longest call counts as hung, also without ``timeout_s``; None: never."""

    def __init__(self) -> None:
        self.closed = False
        self.session_seed: int | None = None
        """That of the first run."""
        self.residents: dict[Resident[object], object] = {}
        self.pools: dict[Actors[object], LivePool] = {}
        self.dead: list[LiveShard] = []
        """Shards that wait for a restart."""
        self.runs = 0
        self.resizes = 0
        """How often a pool was made larger or smaller."""

    # ------------------------------------------------------------------- what a runtime must do

    @abstractmethod
    def spawn(self, pool: LivePool, shard: Shard) -> object:
        """Begin to make one actor and return a handle to it. May raise what its constructor raises."""

    @abstractmethod
    def submit(self, call: Call) -> None:
        """Queue a call at its actor. Never blocks."""

    @abstractmethod
    def wait(self, mailbox: Mailbox, *, timeout: float | None = None) -> None:
        """Return when the mailbox has a finished call, or after ``timeout`` seconds. ``timeout=0`` only looks."""

    @abstractmethod
    def cancel(self, calls: Collection[Call]) -> list[Call]:
        """Cancel calls. Returns those that will never run, in order of issue; the others may still run."""

    @abstractmethod
    def stop(self, handles: Sequence[object]) -> None:
        """End actors that are no longer needed, after calling the ``close`` of those that have one."""

    @abstractmethod
    def kill(self, handle: object) -> None:
        """End an actor whatever it is doing: its calls come back as lost."""

    @abstractmethod
    def forget(self, handle: object, run: int) -> None:
        """Drop what a run left in an actor."""

    @abstractmethod
    def now(self) -> float:
        """Seconds on the runtime's clock."""

    @abstractmethod
    def save_hosts(self, saves: Sequence[tuple[object, ArrayFile | None]], run: int) -> list[Encoded | Written | None]:
        """The states of actors, given by their handles, and of what a run has in them; None for one that has died. They have
        answered all calls that have reached them. If there is a file for one, its arrays are written there, if it can be, by the
        actor itself."""

    @abstractmethod
    def load_hosts(self, loads: Sequence[HostLoad]) -> None:
        """Give actors that are new the states of others."""

    def hold(self, value: object) -> object:
        """A value that will be sent to actors, perhaps more than once: as it is now, where that can be had."""
        return value

    def unheld(self, held: object) -> object:
        """The value again."""
        return held

    def settle(self, mailbox: Mailbox, *, timeout: float | None = None) -> bool:
        """Receive answers until no call of a run is on its way to an actor or back, or until ``timeout``; True if none is. Those
        in queues of this process stay there."""
        return True

    def pending(self, mailbox: Mailbox) -> list[Call]:
        """The calls of a run that its owners have not seen answered, in the order in which their answers will be seen."""
        return [*mailbox.finished, *(call for call in mailbox.in_flight if call not in mailbox.finished)]

    def resubmit(self, call: Call) -> None:
        """Queue a call that an earlier run had sent, as it was sent."""
        call.shard.in_flight[call] = None
        self.submit(call)

    def wait_until_started(self, handle: object) -> None:
        """Wait until an actor is made. Raises what its constructor raises."""
        return

    def up_since(self, handle: object) -> float:
        """When an actor started; infinity while it is starting."""
        return 0.0

    def most_items(self, per_call: int | TimeBudget) -> int | TimeBudget:
        """How many items the next call brings. One that costs nothing need not bring several."""
        return 1 if isinstance(per_call, TimeBudget) else per_call

    # ------------------------------------------------------------------- what all runtimes share: actors

    def pool(self, actors: Actors[object], seed: int, given: object = None, stops_at: int | None = None) -> LivePool:
        """The live actors of a description, made at the first call; ``seed`` is that of the description, ``given`` what the run
        gives them, ``stops_at`` the env steps after which it stops."""
        if self.closed:
            raise RunClosed(f"This {type(self).__name__} is closed; open a new one.")
        if actors not in self.pools:
            taken = {pool.name for pool in self.pools.values()}
            name = next(n for n in _numbered(actors.name) if n not in taken)
            self.pools[actors] = self._made(LivePool(actors, name, seed, given, stops_at))
        return self.pools[actors]

    def revive(
        self, actors: Actors[object], name: str, seed: int, given: object, lives: Sequence[tuple[int, int, bool]]
    ) -> LivePool:
        """The actors of a description as an earlier run had them: each with its index and incarnation, alive or dead."""
        taken = {pool.name for pool in self.pools.values()}
        if actors in self.pools or name in taken:
            raise PlanError(
                f"resume: {name} live in this session since an earlier run, so they cannot go on from a checkpoint. Open another "
                "session."
            )
        pool = self.pools[actors] = LivePool(actors, name, seed, given)
        try:
            for index, incarnation, alive in lives:
                handle = self._spawn(pool, index, incarnation) if alive else None
                pool.shards.append(LiveShard(pool, index, handle, incarnation))
            for shard in pool.shards:
                if shard.handle is not None:
                    self.try_again(shard)
        except BaseException:
            del self.pools[actors]
            self._stop(pool.shards)
            raise
        return pool

    def _made(self, pool: LivePool) -> LivePool:
        """All actors of a pool, or none."""
        try:
            for index in range(pool.actors.num):
                pool.shards.append(LiveShard(pool, index, self._spawn(pool, index, 0)))
            for shard in pool.shards:
                self.try_again(shard)
        except BaseException:
            self._stop(pool.shards)
            raise
        return pool

    def try_again(self, shard: LiveShard, then: Callable[[], object] = lambda: None) -> None:
        """Wait until an actor has started, then do something with it. If its process ends meanwhile, it is made again."""
        for left in reversed(range(MOST_STARTS)):
            try:
                self._wait_until_started(shard)
                then()
            except StartDied as died:
                if not left:
                    raise
                log.warning("%s It is made again.", died)
                shard.handle = self._spawn(shard.pool, shard.index, shard.incarnation)
            else:
                return

    def _spawn(self, pool: LivePool, index: int, incarnation: int) -> object:
        count, seed = max(pool.actors.num, index + 1), derive_seed(pool.seed, index, incarnation)
        shard = Shard(pool.name, index, count, incarnation, seed, self.session_seed or 0, stops_at=pool.stops_at)
        try:
            return self.spawn(pool, shard)
        except TflowError:
            raise
        except Exception as error:
            raise start_failed(f"{pool.name}[{index}]", error) from error

    def resident(self, resident: Resident[object], seed: int, given: object = None) -> object:
        """The object of a description in this process, made at the first call. It outlives the session."""
        if resident not in self.residents:
            shard = Shard(resident.name, 0, 1, 0, seed, self.session_seed or 0, given)
            try:
                self.residents[resident] = resident.make(shard)
            except TflowError:
                raise
            except Exception as error:
                raise start_failed(resident.name, error) from error
        return self.residents[resident]

    def resize(self, pool: LivePool, num: int) -> None:
        """Scale a pool up, with actors that have the newest state, or down: the last ones drain, then end."""
        added: list[LiveShard] = []
        state, versions = pool.newest_state()
        try:
            for index in range(len(pool.shards), num):
                incarnation = pool.next_incarnations.get(index, 0)
                added.append(LiveShard(pool, index, self._spawn(pool, index, incarnation), incarnation))
                added[-1].join(state, versions)
            for shard in added:
                self.try_again(shard)
        except BaseException:
            self._stop(added)
            raise
        removed = pool.shards[num:]
        pool.shards[num:] = added
        self.resizes += 1
        for shard in removed:
            shard.draining = True
            pool.next_incarnations[shard.index] = shard.incarnation + 1
            pool.draining.append(shard)
        attempt_all([partial(self.retire, shard) for shard in removed])

    def retire(self, shard: LiveShard) -> None:
        """End an actor that is draining, unless it has calls in flight."""
        if shard.in_flight or shard not in shard.pool.draining:
            return
        shard.pool.draining.remove(shard)
        if shard in self.dead:
            self.dead.remove(shard)
        handle, shard.handle = shard.handle, None
        waiting, shard.waiting = shard.waiting, deque()
        for call in waiting:
            call.finish(lost=GONE)
        if handle is not None:
            self.stop([handle])

    def _wait_until_started(self, shard: LiveShard) -> None:
        try:
            self.wait_until_started(shard.handle)
        except TflowError:
            raise
        except Exception as error:
            raise start_failed(shard.place, error) from error

    def _stop(self, shards: Iterable[LiveShard]) -> None:
        """End those that are alive, the youngest first."""
        self.stop([shard.handle for shard in reversed(list(shards)) if shard.handle is not None])

    # ------------------------------------------------------------------- what all runtimes share: calls, deaths, restarts

    def dispatch(self, call: Call) -> None:
        """Send a call with the pending state of its actor; if the actor is dead, the call waits for the restart."""
        shard = call.shard
        if shard.draining and shard not in shard.pool.draining:
            call.finish(lost=GONE)
        elif shard.restarts_exhausted:
            call.finish(lost=shard.death_reason)
        elif shard.handle is None:
            shard.waiting.append(call)
        else:
            call.piggyback = Piggyback(shard.take_state(), shard.versions, call.number if call.traced else 0)
            call.incarnation = shard.incarnation
            if call.timeout_s is not None or self.has_processes:
                call.sent_at = self.now()
            shard.in_flight[call] = None
            try:
                self.submit(call)
            except BaseException:
                shard.restore_state(call.piggyback.state)  # it never left, and neither did the state
                raise

    def answered(self, call: Call) -> None:
        """A run has seen that a call is finished."""
        shard = call.shard
        shard.in_flight.pop(call, None)
        if not call.lost:
            if call.incarnation == shard.incarnation:
                shard.deaths, now = 0, self.now()
                if self.has_processes:
                    shard.longest_call_s = max(shard.longest_call_s, now - max(call.sent_at, shard.last_answer_at))
                    shard.warned_at = 0.0
                shard.last_answer_at = now
        elif shard.handle is not None and shard.incarnation == call.incarnation and not call.actor_survived:
            self.found_dead(shard, call.lost)
        if shard.draining:
            try:
                self.retire(shard)
            except Exception as error:  # the run that sees it leave is not to blame
                log.warning("Shard %s left, and raised while it was closed: %r.", shard.place, error)

    def found_dead(self, shard: LiveShard, why: str) -> None:
        """An actor has died. It is restarted when a call waits for it."""
        shard.record_death(why, self.now())
        self.dead.append(shard)
        log.warning("Shard %s died: %s. Calls that it had not answered are lost.", shard.place, why)

    def restart_dead(self) -> None:
        """Restart dead actors that calls wait for and whose backoff is over."""
        for shard in [shard for shard in self.dead if shard.waiting and shard.restart_at <= self.now()]:
            self.restart(shard)

    def restart(self, shard: LiveShard) -> None:
        """Try to restart an actor, and send it what waits for it."""
        try:
            shard.handle = self._spawn(shard.pool, shard.index, shard.incarnation)
            if shard.pool.actors.restores:
                self._restore(shard)
        except ShardFailed as failure:
            shard.back_off(str(failure), self.now())
        if shard.handle is not None or shard.restarts_exhausted:
            self.dead.remove(shard)
            waiting, shard.waiting = shard.waiting, deque()
            for call in waiting:
                self.dispatch(call)

    def _restore(self, shard: LiveShard) -> None:
        """Give an actor that was restarted the state that it has in the latest checkpoint."""
        if not shard.can_be_restored:
            log.warning("Shard %s starts anew, without what it had: there is no checkpoint of this run yet.", shard.place)
            return
        try:
            self._wait_until_started(shard)
            self.load_hosts([HostLoad(shard.handle, 0, True, (), shard.pool.saved[shard.index]())])
        except TflowError as error:
            handle, shard.handle = shard.handle, None
            self.stop([handle])
            raise ShardFailed(f"its state could not be restored: {error}") from error
        log.warning("Shard %s is back, with its state in the latest checkpoint.", shard.place)

    def deadline(self, call: Call) -> float:
        """When the actor counts as hung if it has not answered; never, as long as the call waits for others or for a restart."""
        shard = call.shard
        if call.timeout_s is None or next(iter(shard.in_flight), None) is not call:
            return float("inf")
        return max(call.sent_at, shard.last_answer_at, self.up_since(shard.handle)) + call.timeout_s

    def next_restart_at(self) -> float:
        """When ``restart_dead`` will next have something to do."""
        return min((shard.restart_at for shard in self.dead if shard.waiting), default=float("inf"))

    # ------------------------------------------------------------------- what all runtimes share: the session

    def new_run(self) -> int:
        """A number that tells the runs of this session apart."""
        self.runs += 1
        return self.runs

    def close(self) -> None:
        """End all actors, the youngest first. Safe to repeat."""
        if not self.closed:
            self.closed = True
            self._stop(shard for pool in self.pools.values() for shard in pool.shards + pool.draining)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def start_failed(place: str, error: Exception) -> ShardFailed:
    """The error for an actor whose constructor raised."""
    return ShardFailed(f"Shard {place} could not be made: {type(error).__name__}: {error}")


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}#{number}" for number in count(2))


def derive_seed(*parts: object) -> int:
    """A seed that is a function of the parts, the same everywhere."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
