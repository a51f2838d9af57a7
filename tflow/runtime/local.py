"""The in-process runtime: calls queue and run one at a time, oldest first, inside the wait, in the driver's thread.

So tracebacks are ordinary, pdb works, and the same seed gives the same run, bit for bit. It is one legal schedule of many:
it says nothing about how stale data would be on a cluster.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tflow.errors import Deadlock, OperatorError, TflowError
from tflow.runtime.base import Call, HostLoad, Mailbox, Runtime
from tflow.runtime.cell import attempt_all
from tflow.runtime.host import Host
from tflow.runtime.shards import LivePool, LiveShard
from tflow.types import Shard

if TYPE_CHECKING:
    from tflow.state.folders import ArrayFile, Written
    from tflow.state.values import Encoded


class LocalRuntime(Runtime):
    """Runs everything in this process. ``plan.run()`` uses one of its own when none is given.

    >>> from tflow import LocalRuntime, par_from_range
    >>> with LocalRuntime() as runtime:
    ...     list(par_from_range(4).gather_sync().run(runtime=runtime))
    [0, 2, 1, 3]
    """

    limits_time = False

    def __init__(self) -> None:
        super().__init__()
        self.queue: deque[Call] = deque()
        self.busy: set[LiveShard] = set()
        """Actors that a call is running in: one that starts a run of its own there waits inside another's wait."""

    def spawn(self, pool: LivePool, shard: Shard) -> Host:
        return Host(pool.make, shard)

    def submit(self, call: Call) -> None:
        self.queue.append(call)

    def wait(self, mailbox: Mailbox, *, timeout: float | None = None) -> None:
        while not mailbox.finished:
            call = next((call for call in self.queue if call.shard not in self.busy), None)
            if call is not None:
                self.queue.remove(call)
                self.execute(call)
            elif timeout != 0:
                places = ", ".join(sorted({call.shard.place for call in self.queue}))
                raise Deadlock(f"A run that an operator started inside an actor waits for that actor itself: {places}.")
            if timeout == 0:
                return

    def execute(self, call: Call) -> None:
        """Run one call and report it to the run that issued it."""
        try:
            self.attempt(call)
        finally:
            call.finish()

    def attempt(self, call: Call) -> None:
        """Run one call and note its reply or its error."""
        self.busy.add(call.shard)
        try:
            call.reply = self.perform(call)
        except TflowError as error:
            call.error = error
        except BaseException as error:
            call.error = OperatorError(call.method, item=0, cause=error, shard=call.shard.place)
            if not isinstance(error, Exception):
                raise  # Ctrl-C ends the run that waits, which need not be the one that issued the call
        finally:
            self.busy.discard(call.shard)

    def perform(self, call: Call) -> object:
        """Do inside the actor what the call asks for."""
        assert isinstance(call.shard.handle, Host)
        return call.shard.handle.do(call.method, call.piggyback, call.args)

    def cancel(self, calls: Collection[Call]) -> list[Call]:
        cancelled = [call for call in self.queue if call in calls]
        self.queue = deque(call for call in self.queue if call not in calls)
        return cancelled

    def stop(self, handles: Sequence[object]) -> None:
        attempt_all([handle.close for handle in handles if isinstance(handle, Host)])

    def kill(self, handle: object) -> None:
        lost = [call for call in self.queue if call.shard.handle is handle]
        self.queue = deque(call for call in self.queue if call not in lost)
        for call in lost:
            call.finish(lost="it was ended because it took too long")

    def forget(self, handle: object, run: int) -> None:
        assert isinstance(handle, Host)
        handle.forget(run)

    def save_hosts(self, saves: Sequence[tuple[object, ArrayFile | None]], run: int) -> list[Encoded | Written | None]:
        return [handle.save(run, file) for handle, file in saves if isinstance(handle, Host)]

    def load_hosts(self, loads: Sequence[HostLoad]) -> None:
        for handle, run, fuse, programs, state in loads:
            assert isinstance(handle, Host)
            handle.load(run, fuse, programs, state)

    def pending(self, mailbox: Mailbox) -> list[Call]:
        queued = [call for call in self.queue if call.mailbox is mailbox]
        others = [call for call in super().pending(mailbox) if call not in queued]
        return others + queued

    def now(self) -> float:
        return time.monotonic()
