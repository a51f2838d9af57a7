"""When two schedules have come to the same: a digest of all that decides how a simulated run goes on, and of what it has shown.

An actor is deterministic and alone, so its state is a function of the calls that it has run: their digest stands for it. What the
driver remembers is in its cells, as for checkpoints. Virtual time counts in milliseconds, busy time not at all.

What is left out is what does not matter: in which order calls of *different* operators of the driver were finished, and in which
order the answers of one round came. So calls that do not meet commute, whether they are served one by one or together.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Collection, Iterable
from itertools import count
from types import CodeType, FunctionType
from typing import Any, cast

from tflow.errors import CheckpointError
from tflow.runtime.base import Call
from tflow.runtime.cell import Cell
from tflow.runtime.checkpoint_names import CheckpointNames
from tflow.runtime.driver import Driver
from tflow.runtime.gather import Rounds
from tflow.runtime.host import Request, State
from tflow.runtime.shards import LiveShard
from tflow.runtime.sim import SimHost, SimRuntime
from tflow.runtime.stats import Reading
from tflow.state.values import state_of
from tflow.testing.history import ShownSoFar

BUSY = frozenset({"busy_ns", "busy", "took_ns", "quick", "measured_at"})
"""What cells know of real time."""
UNTOLD = frozenset({"now", "began", "waited_ns", "starting_s"})
NO_DIGEST = (CheckpointError, pickle.PicklingError, TypeError, ValueError, AttributeError, RecursionError)
"""What cannot be told in bytes is told apart from everything: such a state is never taken for another."""

UNTELLABLE = count()


class PlainPickler(pickle.Pickler):
    """Writes equal values as equal bytes, whoever shares them, and functions by their code and what they refer to."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.fast = True  # without a memo, which would tell shared values from equal ones

    def reducer_override(self, value: Any) -> Any:  # Any: whatever there is to write, and what pickle expects for it
        if value is as_data or isinstance(value, CodeType):
            return NotImplemented
        if isinstance(value, Reading):
            return as_data, (value.seen, value.shown, value.queued)
        if isinstance(value, FunctionType):
            inside = tuple(cell.cell_contents for cell in value.__closure__ or ())
            return as_data, (value.__module__, value.__qualname__, value.__code__.co_firstlineno, inside, value.__defaults__)
        if isinstance(value, type):
            return as_data, (value.__module__, value.__qualname__)
        if isinstance(value, (set, frozenset)):
            return as_data, tuple(sorted(map(plain, value)))
        if type(value).__module__ == "torch" and hasattr(value, "detach"):
            return as_data, (value.detach().cpu().numpy(),)
        return NotImplemented


def as_data(*parts: object) -> object:
    """What stands for something in a digest; nobody reads it back."""
    return parts


def plain(value: object) -> bytes:
    file = io.BytesIO()
    PlainPickler(file).dump(value)
    return file.getvalue()


def digest(*parts: object) -> bytes:
    return hashlib.blake2b(plain(parts), digest_size=16).digest()


class Tokens(CheckpointNames):
    """Names that mean the same in every run: calls by what they are, shards by their places."""

    def __init__(self, told: dict[Call, bytes]) -> None:
        super().__init__()
        self.told = told

    def shard(self, shard: LiveShard) -> Any:  # Any: not a number, and nobody calculates with it
        return shard.place

    def call(self, call: Call) -> Any:  # Any: as above
        token = self.told.get(call)
        if token is None:  # it waits for a restart
            token = self.told[call] = content_of(call)
        return token, call.done, call.lost

    def method(self, method: Callable[..., object]) -> str:
        return name_of(method)


def name_of(method: Callable[..., object]) -> str:
    return f"{getattr(method, '__module__', '')}:{getattr(method, '__qualname__', repr(method))}"


def content_of(call: Call) -> bytes:
    """A call, as its actor gets it."""
    args = call.args
    if args and isinstance(request := args[0], Request):
        args = (request._replace(key=(0, *request.key[1:]), program=None),)
    return digest(call.shard.place, call.method, args, updates(call.piggyback.state), dict(call.piggyback.versions))


def updates(state: State) -> list[tuple[str, str, int, object]]:
    return [(policy, name_of(method), number, value) for (policy, method), (number, value) in state.items()]


def milliseconds(seconds: float) -> float:
    return seconds if seconds == float("inf") else round(seconds * 1000)


class RunState:
    """What a simulated run has done, as far as it matters for what it will do."""

    def __init__(self, sim: SimRuntime, driver: Driver, shown: ShownSoFar, looked_at: Collection[str]) -> None:
        self.sim = sim
        self.driver = driver
        self.shown = shown
        self.looked_at = looked_at
        """What else the check looks at: ``ledgers``, ``trace``."""
        self.told: dict[Call, bytes] = {}
        """What is known of each call: its content, and once it ran, the past of its actor with it."""
        self.pasts: dict[tuple[str, int], bytes] = {}
        """What every incarnation of every actor has done."""
        self.names = Tokens(self.told)

    def ran(self, call: Call, outcome: str) -> None:
        """An actor is about to run a call, or to die of it."""
        who = call.shard.place, call.shard.incarnation
        try:
            content = self.told.get(call) or content_of(call)
        except NO_DIGEST:
            content = next(UNTELLABLE).to_bytes(8, "big")
        self.told[call] = self.pasts[who] = digest(self.pasts.get(who, b""), content, outcome)

    def submitted(self, call: Call) -> None:
        """A call has left for its actor."""
        try:
            self.told[call] = content_of(call)
        except NO_DIGEST:
            self.told[call] = next(UNTELLABLE).to_bytes(8, "big")

    def digest(self, mailbox: object) -> bytes | None:
        """All of it, in a few bytes; None if it cannot be told."""
        driver, sim = self.driver, self.sim
        if driver.failure is not None or mailbox is not driver.mailbox:
            return None
        try:
            return digest(
                self.pasts,
                [self.cell(cell) for cell in driver.cells],
                {name: value for name, value in driver.state().items() if name not in UNTOLD},
                self.finished(),
                [self.shard(shard) for pool in sim.pools.values() for shard in (*pool.shards, *pool.draining)],
                [(pool.name, pool.versions) for pool in sim.pools.values()],
                [state_of(resident) for resident in sim.residents.values()],
                [(self.names.call(call), milliseconds(sim.deadline(call))) for call in driver.timed],
                (sim.left, sim.calm_left, milliseconds(sim.clock)),
                (self.shown.items, self.shown.origins),
                self.seen_besides(),
            )
        except NO_DIGEST:
            return None

    def cell(self, cell: Cell) -> dict[str, object]:
        """What a cell remembers."""
        unimportant = {*BUSY, "ready"} if isinstance(cell, Rounds) else BUSY
        return {name: value for name, value in cell.state(self.names).items() if name not in unimportant}

    def finished(self) -> object:
        """The calls that are finished and that the driver has not looked at: in order, but only within one operator."""
        calls = list(self.driver.mailbox.finished)
        if any(call.error or call.lost for call in calls):
            return [self.names.call(call) for call in calls]
        return [
            sorted(tokens) if isinstance(cell, Rounds) else tokens
            for cell in self.driver.cells
            if (tokens := [self.names.call(call) for call in calls if cast("object", call.owner) is cell])
        ]

    def shard(self, shard: LiveShard) -> object:
        """An actor as the driver sees it, and what waits for it."""
        host = shard.handle if isinstance(shard.handle, SimHost) else None
        stuck = host and host.stuck and (self.names.call(host.stuck), milliseconds(host.answers_at))
        return (
            shard.place,
            shard.incarnation,
            None if host else (shard.deaths, shard.death_reason, milliseconds(shard.restart_at)),
            shard.deaths,
            shard.draining,
            stuck,
            self.tokens(shard.in_flight),
            self.tokens(shard.waiting),
            updates(shard.state),
            updates(shard.sent),
            dict(shard.versions),
            self.driver.events.get(shard, 0),
        )

    def tokens(self, calls: Iterable[Call]) -> list[object]:
        return [self.names.call(call) for call in calls]

    def seen_besides(self) -> object:
        found: list[object] = []
        if "ledgers" in self.looked_at:
            found.append([str(ledger) for ledger in self.shown.ledgers])
        if "trace" in self.looked_at:
            trace = self.sim.trace
            found.append([(m.who, m.what, m.call, tuple(map(repr, m.items)), milliseconds(m.at)) for m in trace])
            found.append(self.shown.after)
        return found
