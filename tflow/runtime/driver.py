"""The driver as a place where cells run: it issues calls, keeps the books, and knows the live actors."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import cast

from tflow.combinators import graph, nodes
from tflow.combinators.actors import Actors
from tflow.combinators.validate import actors_in
from tflow.errors import RunClosed, TflowError
from tflow.runtime.base import Call, LivePool, LiveShard, Mailbox, Owner, Runtime, derive
from tflow.runtime.cell import Site, attempt_all
from tflow.runtime.host import State
from tflow.runtime.ledger import Books

PATIENCE = 64
"""So many polls in vain, without a wait between them, make the driver look: a stream that is always ready starves no actor."""


class Driver(Site):
    """The driver side of one run."""

    def __init__(self, sink: nodes.Node, runtime: Runtime, *, seed: int, fuse: bool) -> None:
        super().__init__(shard=None, seed="driver")
        self.runtime = runtime
        self.run = runtime.new_run()
        self.run_seed = seed
        self.fuse = fuse
        self.positions = {node: index for index, node in enumerate(graph.walk(sink))}
        named = dict.fromkeys(id(actors) for actors in actors_in(sink))
        self.seats = {actors: seat for seat, actors in enumerate(named)}
        """The place of each description in the plan; seeds depend on it, not on who is made first."""
        self.mailbox = Mailbox()
        self.books = Books()
        self.pools: list[LivePool] = []
        self.patience = PATIENCE
        self.news = False
        """A call has arrived since the driver last rested: cells that answered before that may answer otherwise now."""
        self.failure: TflowError | None = None
        """What a message to an actor raised."""
        self.events: dict[LiveShard, int] = {}
        """Events of this run that are on their way to each shard."""

    def now(self) -> float:
        return self.runtime.now()

    def live(self, actors: Actors[object]) -> LivePool:
        """The live actors of a description that the plan names."""
        pool = self.runtime.pool(actors, derive(self.run_seed, self.seats[id(actors)]))
        if pool not in self.pools:
            self.pools.append(pool)
        return pool

    def issue(self, shard: LiveShard, method: str, args: tuple[object, ...], owner: Owner) -> Call:
        """Call an actor. The state that waits for it rides along."""
        if self.runtime.closed:
            raise RunClosed(f"The {type(self.runtime).__name__} of this run is closed, and its actors with it.")
        return self.submit(shard, method, args, owner)

    def submit(self, shard: LiveShard, method: str, args: tuple[object, ...], owner: Owner) -> Call:
        call = Call(shard, method, (shard.take_state(), *args), self.mailbox, owner)
        self.books.issued += 1
        self.mailbox.in_flight[call] = None
        self.runtime.submit(call)
        return call

    def collect(self, *, timeout: float | None = None) -> None:
        """Wait until a call is finished, then tell the owners of all that are."""
        self.patience = PATIENCE
        self.runtime.wait(self.mailbox, timeout=timeout)
        finished = self.mailbox.finished
        while finished:
            call = finished.popleft()
            if call in self.mailbox.in_flight:
                del self.mailbox.in_flight[call]
                self.books.answered += 1
                call.done = self.news = True
                call.owner.arrived(call)

    def asked_in_vain(self) -> None:
        """A cell that waits for a call was polled again, because other streams are busy: sometimes look what has finished."""
        self.patience -= 1
        if self.patience <= 0 and self.mailbox.in_flight:
            self.collect(timeout=0)

    def abandon(self, calls: Iterable[Call]) -> None:
        """Nobody wants the answers of these calls. State that would have ridden with one that never runs waits again."""
        unwanted = {call for call in calls if call in self.mailbox.in_flight}
        for call in unwanted:
            del self.mailbox.in_flight[call]
        self.books.abandoned += len(unwanted)
        for call in reversed(self.runtime.cancel(unwanted)):  # the latest first: it wins
            call.shard.give_back(cast("State", call.args[0]))

    def forget(self) -> None:
        """The run is over: leave nothing of it in the session."""
        self.abandon(self.mailbox.in_flight)
        if not self.runtime.closed:
            shards = [shard for pool in self.pools for shard in pool.shards]
            attempt_all([partial(self.runtime.forget, shard.handle, self.run) for shard in shards])
