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
from tflow.runtime.cell import Cell, Site, runs
from tflow.runtime.cells import united
from tflow.runtime.driver import Driver
from tflow.runtime.host import Reply, Request
from tflow.runtime.program import Fed, localised, marked
from tflow.runtime.stats import Reading, Staleness

EVERYTHING = 2**62
"""A fed shard answers with all that its input gives."""


class Link:
    """One shard of one gather."""

    def __init__(self, index: int, shard: LiveShard, program: nodes.Node) -> None:
        self.index = index
        self.shard = shard
        self.program: nodes.Node | None = program
        self.calls: deque[Call] = deque()
        self.ended = False
        self.readings: dict[int, Reading] = {}


class Gather(Cell):
    """What all gathers share: issuing calls, taking answers in, and the books."""

    site: Driver
    makes_items = True
    """False if the shards are fed by the driver."""

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        assert isinstance(site, Driver)
        self.position = site.positions[node]
        self.buffer: deque[tuple[Ready, Link]] = deque()
        self.failure: TflowError | None = None
        self.staleness: dict[str, Staleness] = {}
        self.links = [Link(index, shard, program) for index, (shard, program) in enumerate(self.shards(node, site))]
        self.ready: deque[Link] = deque()
        """Links whose oldest call is finished, in the order of finishing."""
        super().__init__(node, ups, site)

    def shards(self, node: nodes.Node, site: Driver) -> Iterator[tuple[LiveShard, nodes.Node]]:
        """The live shards and what each runs."""
        if isinstance(node, nodes.CallActor):
            program = nodes.ForEach(Fed(), node.op)
            yield site.live(node.actor).shards[0], marked(program, node, site.positions)
            return
        up = node.inputs[0]
        for index, (actors, shard) in enumerate(graph.shards(up)):
            yield site.live(actors).shards[shard], localised(up, index, site.positions)

    def issue(self, link: Link, *, count: int = EVERYTHING, feed: Ready | None = None, last: bool = False) -> None:
        """Ask a shard for items."""
        key = (self.site.run, self.position, link.index)
        fed = () if feed is None else (feed,)
        request = Request(key, link.program, self.site.fuse, count, fed, last, link.shard.held)
        link.program = None
        call = self.site.issue(link.shard, "pull", (request,), self)
        call.tag = link
        link.calls.append(call)

    def arrived(self, call: Call) -> None:
        link = call.tag
        assert isinstance(link, Link)
        if isinstance(call.reply, Reply):
            self.site.books.received += len(call.reply.items) + call.reply.unused
            self.drop("ended", call.reply.unused)
            link.readings = call.reply.readings
        if link.calls and link.calls[0] is call:
            self.ready.append(link)

    def take_in(self, link: Link) -> None:
        """Move the oldest answer of a shard into the buffer."""
        call = link.calls.popleft()
        if link.calls and link.calls[0].done:
            self.ready.append(link)
        if call.error is not None:
            self.failure = self.failure or call.error
            return
        reply = call.reply
        assert isinstance(reply, Reply)
        link.ended = link.ended or reply.ended
        self.failure = self.failure or reply.error
        self.site.env_steps += reply.env_steps
        if self.makes_items:
            self.seen += len(reply.items)
        self.buffer.extend((ready, link) for ready in zip(reply.items, reply.origins, strict=True))

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

    def wait(self, answer: Answer = WAITING) -> Answer:
        """Answer without an item while calls are in flight."""
        self.site.asked_in_vain()
        return answer

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
            closing = super().close
            for call in [call for link in self.links for call in link.calls if call.done]:
                self.failure = self.failure or call.error or (call.reply.error if isinstance(call.reply, Reply) else None)
            self.site.abandon([call for link in self.links for call in link.calls if not call.done])
            self.drop("stop", self.buffered())
            self.buffer.clear()
            for link in self.links:
                link.calls.clear()
            closing()

    def remote_readings(self) -> Iterator[tuple[int, Reading]]:
        """What the shards said of their operators, by position in the plan."""
        for link in self.links:
            for position, reading in link.readings.items():
                if position == self.position:  # call and hand_off: the items are counted on this side
                    reading = reading._replace(seen=0, shown=0)
                if position >= 0:
                    yield position, reading

    def readings(self) -> Iterator[tuple[nodes.Node, Reading]]:
        yield self.node, Reading(self.seen, self.shown, self.busy_ns, self.queued())


class Rounds(Gather):
    """``gather_sync`` and ``gather_rounds``: a barrier per round."""

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        self.asked: list[Link] = []
        """The shards that take part in the round under way."""
        super().__init__(node, ups, site)

    def answers(self) -> Iterator[Answer]:
        while True:
            while self.buffer:
                yield self.deliver()
            self.raise_failure()
            if not self.asked:
                self.asked = [link for link in self.links if not link.ended]
                for link in self.asked:
                    self.issue(link, count=1)
            if not self.asked:
                break
            while not self.complete():
                yield self.wait()
            yield from self.end_round()
        while True:
            yield DONE

    def complete(self) -> bool:
        return all(link.calls[0].done for link in self.asked)

    def end_round(self) -> Iterator[Answer]:
        """Take in all answers, in shard order. A failed shard takes none of the others' items with it, except that a round as
        one list is whole or fails."""
        self.ready.clear()
        while self.asked:
            self.take_in(self.asked.pop(0))
        if isinstance(self.node, nodes.GatherSync) and self.node.rounds:
            if self.failure is not None:
                self.drop("failed", len(self.buffer))
                self.buffer.clear()
            if self.buffer:
                items = [self.deliver() for _ in range(len(self.buffer))]
                self.shown += 1 - len(items)
                yield [value for value, _ in items], united(items)


class FedRounds(Rounds):
    """Rounds over shards that the driver feeds: one item each, then wait for all. ``call`` is this with one shard."""

    makes_items = False
    over = flushed = False

    def answers(self) -> Iterator[Answer]:
        while True:
            while self.buffer:
                yield self.deliver()
            self.raise_failure()
            waiting = [link for link in self.links if not link.ended and link not in self.asked]
            if waiting and not self.over:
                answer = self.ups[0].poll()
                if type(answer) is tuple:
                    self.seen += 1
                    self.issue(waiting[0], feed=answer)
                    self.asked.append(waiting.pop(0))
                    answer = SKIP
                self.over = answer is DONE
                if waiting and not self.over:
                    yield answer
            elif self.asked:
                while not self.complete():
                    yield self.wait()
                yield from self.end_round()
            elif waiting and not self.flushed:
                self.flushed = True
                self.asked = waiting
                for link in waiting:
                    self.issue(link, last=True)
            else:
                self.ups[0].close()  # every shard has ended, perhaps before the stream that feeds them
                yield DONE


class Stream(Gather):
    """``gather_async``: items as they come. A call is replaced when the consumer asks again after its last item."""

    node: nodes.GatherAsync

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        super().__init__(node, ups, site)
        self.finished = list(self.links)
        """Shards that have room for another call."""

    def answers(self) -> Iterator[Answer]:
        while True:
            while self.buffer:
                yield self.deliver_if_fresh()
            self.raise_failure()
            for link in self.finished:
                while len(link.calls) < self.node.in_flight and not link.ended:
                    self.issue(link, count=self.node.per_call)
            self.finished.clear()
            if self.ready:
                self.finished.append(self.ready.popleft())
                self.take_in(self.finished[0])
            elif any(link.calls for link in self.links):
                yield self.wait()
            else:
                yield DONE

    def deliver_if_fresh(self) -> Answer:
        (_, origin), link = self.buffer[0]
        limit = self.node.max_staleness
        if limit is None or max(link.shard.pool.staleness(origin.versions).values(), default=0) <= limit:
            return self.deliver()
        self.buffer.popleft()
        self.drop("stale")
        return SKIP


class FedStream(Gather):
    """Items are handed to shards that have room, results come in the order of finishing. ``hand_off`` is this with one shard,
    where that is the order of the items."""

    makes_items = False
    over = flushed = False

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        self.outbox: deque[Ready] = deque()
        """Only with ``drop_oldest``: items that wait for the actor."""
        self.room = node.mailbox if isinstance(node, nodes.HandOff) else 1
        self.dropping = isinstance(node, nodes.HandOff) and node.on_full == "drop_oldest"
        if isinstance(node, nodes.GatherAsync):
            self.room = node.in_flight
        super().__init__(node, ups, site)

    def answers(self) -> Iterator[Answer]:
        while True:
            while self.buffer:
                yield self.deliver()
            self.raise_failure()
            alive = [link for link in self.links if not link.ended]
            answer: Answer = self.take_one(alive) if alive and not self.over else DONE
            self.over = answer is DONE
            if self.ready:
                self.take_in(self.ready.popleft())
            elif answer is SKIP:
                yield self.wait(SKIP)
            elif any(link.calls for link in self.links):
                yield self.wait()
            elif not self.over:
                yield answer
            elif alive and not self.flushed:
                self.flushed = True
                for link in alive:
                    self.issue(link, last=True)
            else:
                self.ups[0].close()  # every shard has ended, perhaps before the stream that feeds them
                yield DONE

    def take_one(self, alive: list[Link]) -> Answer:
        """Take an item from upstream if there is room for it, and pass on what can be passed on."""
        free = [link for link in alive if len(link.calls) < (1 if self.dropping else self.room)]
        answer: Answer = WAITING
        if free or self.dropping:
            answer = self.ups[0].poll()
            if type(answer) is tuple:
                self.seen += 1
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
