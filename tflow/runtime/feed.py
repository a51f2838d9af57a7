"""Cells that feed actors and bring the results to the driver, in rounds or as they come.

``call`` and ``hand_off`` are the two kinds with a single shard: the first in rounds, the second as results come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from tflow.combinators import nodes
from tflow.runtime.answers import DONE, SKIP, WAITING, Answer, Ready
from tflow.runtime.cell import Cell, Site
from tflow.runtime.gather import Gather, Rounds, ShardLink, Stream


class FedRounds(Rounds):
    """Rounds over shards that the driver feeds: one item each, then wait for all. ``call`` is this with one shard."""

    makes_items = False
    over = flushed = False

    def answers(self) -> Iterator[Answer]:
        while True:
            while self.buffer:
                yield self.deliver()
            self.catch_up()
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
                yield self.end()


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
            self.catch_up()
            alive = [link for link in self.links if not link.ended]
            answer: Answer = self.take_one(alive) if alive and not self.over else DONE
            self.over = answer is DONE
            if self.ready:
                self.receive(self.ready.popleft())
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
                yield self.end()

    def take_one(self, alive: list[ShardLink]) -> Answer:
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
                self.site.counters.received += 1
                self.drop("overflow")
        if free and self.outbox:
            self.issue(min(free, key=lambda link: len(link.calls)), feed=self.outbox.popleft())
            return SKIP
        return WAITING if answer is DONE and self.outbox else answer

    def queued(self) -> int:
        return super().queued() + len(self.outbox)

    def close(self) -> None:
        if not self.closed:
            self.site.counters.received += len(self.outbox)
            self.drop("stop", len(self.outbox))
            self.outbox.clear()
            super().close()


def rounds(node: nodes.GatherSync, ups: tuple[Cell, ...], site: Site) -> Cell:
    """Rounds, over shards that are fed if there is a driver stream before them."""
    return (FedRounds if ups else Rounds)(node, ups, site)


def stream(node: nodes.GatherAsync, ups: tuple[Cell, ...], site: Site) -> Cell:
    """As results come, over shards that are fed if there is a driver stream before them."""
    return (FedStream if ups else Stream)(node, ups, site)
