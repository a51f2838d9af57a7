"""Cells that bring items from actors to the driver, in rounds or as they come, from actors that make items or are fed them.

``call`` and ``hand_off`` are the fed kind with a single shard: the first in rounds, the second as results come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from tflow.combinators import graph, nodes
from tflow.errors import TflowError
from tflow.runtime.answers import DONE, SKIP, WAITING, Answer, Ready
from tflow.runtime.base import Call, LiveShard
from tflow.runtime.build import localised, marked
from tflow.runtime.cell import Cell, Site, runs
from tflow.runtime.cells import united
from tflow.runtime.driver import Driver
from tflow.runtime.host import Reply, Request
from tflow.runtime.stats import Reading, Staleness
from tflow.types import Provenance, Source

EVERYTHING = 2**62
"""A fed shard answers with all that its input gives."""


class Link:
    """One shard of one gather."""

    def __init__(self, shard: LiveShard, program: nodes.Node) -> None:
        self.shard = shard
        self.program: nodes.Node | None = program
        self.calls: deque[Call] = deque()
        self.ended = False
        self.sequence = 0
        self.fed: list[Provenance] = []
        """Where the input comes from that went into the next items."""
        self.readings: dict[int, Reading] = {}


class Gather(Cell):
    """What all gathers share: issuing calls, taking answers in, and the books."""

    site: Driver
    makes_items = True
    """False if the shards are fed by the driver."""

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        assert isinstance(site, Driver)
        self.key = (site.run, site.positions[node])
        self.buffer: deque[tuple[Ready, Link]] = deque()
        self.failure: TflowError | None = None
        self.staleness: dict[str, Staleness] = {}
        self.links = [Link(shard, program) for shard, program in self.shards(node, site)]
        self.ready: deque[Link] = deque()
        """Links whose oldest call is finished, in the order of finishing."""
        super().__init__(node, ups, site)

    def shards(self, node: nodes.Node, site: Driver) -> Iterator[tuple[LiveShard, nodes.Node]]:
        """The live shards and what each runs."""
        if isinstance(node, nodes.CallActor):
            program = nodes.ForEach(nodes.Fed(), node.op)
            yield site.live(node.actor).shards[0], marked(program, node, site.positions)
            return
        up = node.inputs[0]
        for index, (actors, shard) in enumerate(graph.shards(up)):
            yield site.live(actors).shards[shard], localised(up, index, site.positions)

    def issue(self, link: Link, *, count: int = EVERYTHING, feed: Ready | None = None, last: bool = False) -> None:
        """Ask a shard for items."""
        if feed is not None:
            self.seen += 1
            link.fed.append(feed[1])
        values = () if feed is None else (feed[0],)
        request = Request(self.key, link.program, self.site.fuse, count, values, last)
        link.program = None
        call = self.site.issue(link.shard, "pull", (request,), self)
        call.tag = link
        link.calls.append(call)

    def arrived(self, call: Call) -> None:
        if isinstance(call.reply, Reply):
            self.site.books.received += len(call.reply.items)
            self.site.env_steps += call.reply.env_steps
        link = call.tag
        if isinstance(link, Link) and link.calls and link.calls[0] is call:
            self.ready.append(link)

    def take_in(self, link: Link) -> None:
        """Move the oldest answer of a shard into the buffer."""
        call = link.calls.popleft()
        if link.calls and link.calls[0].done:
            self.ready.append(link)
        if call.error is not None:
            self.failure = call.error
            return
        reply = call.reply
        assert isinstance(reply, Reply)
        link.ended = link.ended or reply.ended
        link.readings = reply.readings
        self.failure = self.failure or reply.error
        if reply.items:
            self.buffer.extend(((item, self.origin(link, call)), link) for item in reply.items)
            link.fed.clear()

    def origin(self, link: Link, call: Call) -> Provenance:
        """Where the next item of a shard comes from: the shard, or what it was fed."""
        if link.fed:
            return Provenance.unite(link.fed)
        shard = link.shard
        source = Source(shard.pool.name, shard.index, shard.incarnation, link.sequence)
        link.sequence += 1
        return Provenance(frozenset((source,)), call.versions)

    def deliver(self) -> Ready:
        """Hand over the next item and note how old it is."""
        ready, link = self.buffer.popleft()
        self.shown += 1
        self.site.books.delivered += 1
        if self.makes_items and link.shard.pool.versions:
            for policy, lag in link.shard.pool.staleness(ready[1].versions).items():
                self.staleness[policy] = self.staleness.get(policy, Staleness()).add(lag)
        return ready

    def drop(self, reason: str, count: int = 1) -> None:
        if count:
            self.site.books.dropped[reason] += count

    def raise_failure(self) -> None:
        """Raise what a shard raised, after everything else that arrived was delivered."""
        if self.failure is not None:
            raise self.failure

    def buffered(self) -> int:
        """Items that arrived and were not delivered."""
        answered = (call.reply for link in self.links for call in link.calls if call.done)
        return len(self.buffer) + sum(len(reply.items) for reply in answered if isinstance(reply, Reply))

    def queued(self) -> int:
        return self.buffered()

    def close(self) -> None:
        if not self.closed:
            super().close()
            self.site.abandon([call for link in self.links for call in link.calls if not call.done])
            self.drop("stop", self.buffered())
            self.buffer.clear()
            for link in self.links:
                link.calls.clear()

    def remote_readings(self) -> Iterator[tuple[int, Reading]]:
        """What the shards said of their operators, by position in the plan."""
        for link in self.links:
            for position, reading in link.readings.items():
                if position == self.key[1]:  # call and hand_off: the items are counted on this side
                    reading = reading._replace(seen=0, shown=0)
                if position >= 0:
                    yield position, reading

    def readings(self) -> Iterator[tuple[nodes.Node, Reading]]:
        seen = self.shown + self.queued() if self.makes_items else self.seen
        yield self.node, Reading(seen, self.shown, self.busy_ns, self.queued())


class Rounds(Gather):
    """``gather_sync`` and ``gather_rounds``: a barrier per round."""

    def answers(self) -> Iterator[Answer]:
        while alive := [link for link in self.links if not link.ended]:
            for link in alive:
                self.issue(link, count=1)
            while not all(link.calls[0].done for link in alive):
                yield WAITING
            yield from self.round(alive)
        while True:
            yield DONE

    def round(self, links: list[Link]) -> Iterator[Answer]:
        """Deliver one round in shard order; a failed shard takes none of the others' items with it."""
        self.ready.clear()
        for link in links:
            self.take_in(link)
        if isinstance(self.node, nodes.GatherSync) and self.node.rounds:
            if self.failure is not None:
                self.drop("failed", len(self.buffer))
                self.buffer.clear()
            if self.buffer:
                items = [self.deliver() for _ in range(len(self.buffer))]
                self.shown += 1 - len(items)
                yield [value for value, _ in items], united(items)
        while self.buffer:
            yield self.deliver()
        self.raise_failure()


class FedRounds(Rounds):
    """Rounds over shards that the driver feeds: one item each, then wait for all. ``call`` is this with one shard."""

    makes_items = False

    def answers(self) -> Iterator[Answer]:
        over = False
        while not over:
            fed: list[Link] = []
            while len(fed) < len(self.links):
                answer = self.ups[0].poll()
                if answer is DONE:
                    over = True
                    break
                if type(answer) is not tuple:
                    yield answer
                    continue
                fed.append(self.links[len(fed)])
                self.issue(fed[-1], feed=answer)
                if len(fed) < len(self.links):
                    yield SKIP
            yield from self.finish(fed)
        for link in self.links:
            self.issue(link, last=True)
        yield from self.finish(self.links)
        while True:
            yield DONE

    def finish(self, links: list[Link]) -> Iterator[Answer]:
        while not all(link.calls[0].done for link in links):
            yield WAITING
        yield from self.round(links)


class Stream(Gather):
    """``gather_async``: items as they come. A call is replaced when the consumer asks again after its last item."""

    node: nodes.GatherAsync

    def answers(self) -> Iterator[Answer]:
        finished = list(self.links)
        while True:
            for link in finished:
                while len(link.calls) < self.node.in_flight and not link.ended:
                    self.issue(link, count=self.node.per_call)
            while not self.ready:
                if not any(link.calls for link in self.links):
                    break
                yield WAITING
            else:
                finished = [self.ready.popleft()]
                self.take_in(finished[0])
                yield from self.fresh_enough()
                self.raise_failure()
                continue
            break
        while True:
            yield DONE

    def fresh_enough(self) -> Iterator[Answer]:
        limit = self.node.max_staleness
        while self.buffer:
            (_, origin), link = self.buffer[0]
            if limit is not None and max(link.shard.pool.staleness(origin.versions).values(), default=0) > limit:
                self.buffer.popleft()
                self.drop("stale")
                yield SKIP
            else:
                yield self.deliver()


class FedStream(Gather):
    """Items are handed to shards that have room, results come in the order of finishing. ``hand_off`` is this with one shard,
    where that is the order of the items."""

    makes_items = False

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        self.outbox: deque[Ready] = deque()
        """Only with ``drop_oldest``: items that wait for the actor."""
        self.room = node.mailbox if isinstance(node, nodes.HandOff) else 1
        self.dropping = isinstance(node, nodes.HandOff) and node.on_full == "drop_oldest"
        if isinstance(node, nodes.GatherAsync):
            self.room = node.in_flight
        super().__init__(node, ups, site)

    def answers(self) -> Iterator[Answer]:
        over = flushed = False
        while True:
            answer: Answer = DONE if over else self.take_one()
            over = answer is DONE
            if self.ready:
                self.take_in(self.ready.popleft())
                while self.buffer:
                    yield self.deliver()
                self.raise_failure()
            elif answer is SKIP:
                yield SKIP
            elif any(link.calls for link in self.links):
                yield WAITING
            elif over and flushed:
                break
            elif over:
                flushed = True
                for link in self.links:
                    self.issue(link, last=True)
            else:
                yield answer
        while True:
            yield DONE

    def take_one(self) -> Answer:
        """Take an item from upstream if there is room for it, and pass on what can be passed on."""
        free = [link for link in self.links if len(link.calls) < (1 if self.dropping else self.room)]
        answer: Answer = WAITING
        if free or self.dropping:
            answer = self.ups[0].poll()
            if type(answer) is tuple:
                self.outbox.append(answer)
                answer = SKIP
            if len(self.outbox) > self.room:
                self.outbox.popleft()
                self.site.books.received += 1
                self.drop("overflow")
        if free and self.outbox:
            self.issue(min(free, key=lambda link: len(link.calls)), feed=self.outbox.popleft())
            return SKIP
        return WAITING if answer is DONE and self.outbox else answer

    def queued(self) -> int:
        return super().queued() + len(self.outbox)

    def close(self) -> None:
        if not self.closed:
            self.site.books.received += len(self.outbox)
            self.drop("stop", len(self.outbox))
            self.outbox.clear()
            super().close()


@runs(nodes.GatherSync)
def rounds(node: nodes.GatherSync, ups: tuple[Cell, ...], site: Site) -> Cell:
    """Rounds, over shards that are fed if there is a driver stream before them."""
    return (FedRounds if ups else Rounds)(node, ups, site)


@runs(nodes.GatherAsync)
def stream(node: nodes.GatherAsync, ups: tuple[Cell, ...], site: Site) -> Cell:
    """As results come, over shards that are fed if there is a driver stream before them."""
    return (FedStream if ups else Stream)(node, ups, site)


runs(nodes.CallActor)(FedRounds)
runs(nodes.HandOff)(FedStream)
