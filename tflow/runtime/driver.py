"""The driver as a place where cells run: it issues calls, keeps the books, and knows the live actors."""

from __future__ import annotations

from collections.abc import Iterable

from tflow.combinators import nodes
from tflow.combinators.actors import Actors
from tflow.runtime.base import Call, LivePool, LiveShard, Mailbox, Owner, Runtime
from tflow.runtime.cell import Site
from tflow.runtime.ledger import Books


class Driver(Site):
    """The driver side of one run."""

    def __init__(self, order: list[nodes.Node], runtime: Runtime, *, seed: int, fuse: bool) -> None:
        super().__init__(shard=None, seed="driver")
        self.runtime = runtime
        self.run = runtime.new_run()
        self.run_seed = seed
        self.fuse = fuse
        self.positions = {node: index for index, node in enumerate(order)}
        self.mailbox = Mailbox()
        self.books = Books()
        self.pools: list[LivePool] = []
        self.events: dict[LiveShard, int] = {}
        """Events of this run that are on their way to each shard."""

    def now(self) -> float:
        return self.runtime.now()

    def live(self, actors: Actors[object]) -> LivePool:
        """The live actors of a description."""
        pool = self.runtime.pool(actors, self.run_seed)
        if pool not in self.pools:
            self.pools.append(pool)
        return pool

    def issue(self, shard: LiveShard, method: str, args: tuple[object, ...], owner: Owner) -> Call:
        """Call an actor. The state that waits for it rides along."""
        call = Call(shard, method, (shard.take_state(), *args), self.mailbox, owner)
        self.books.issued += 1
        self.mailbox.in_flight[call] = None
        self.runtime.submit(call)
        return call

    def collect(self, *, timeout: float | None = None) -> None:
        """Wait until a call is finished, then tell the owners of all that are."""
        self.runtime.wait(self.mailbox, timeout=timeout)
        finished = self.mailbox.finished
        while finished:
            call = finished.popleft()
            if call in self.mailbox.in_flight:
                del self.mailbox.in_flight[call]
                self.books.answered += 1
                call.owner.arrived(call)

    def abandon(self, calls: Iterable[Call]) -> None:
        """Nobody wants the answers of these calls."""
        for call in calls:
            if self.mailbox.in_flight.pop(call, call) is None:
                self.books.abandoned += 1

    def forget(self) -> None:
        """The run is over: leave nothing of it in the session."""
        self.abandon(list(self.mailbox.in_flight))
        self.runtime.abandon(self.mailbox)
        if not self.runtime.closed:
            for pool in self.pools:
                for shard in pool.shards:
                    self.runtime.forget(shard.handle, self.run)
