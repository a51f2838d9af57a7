"""Cells that feed actors and bring the results to the driver, in rounds or as they come.

``call`` and ``hand_off`` are the two kinds with a single shard: the first in rounds, the second as results come. A collective is
two of these cells: ``WholeRounds`` takes one item of every shard, and the next gather feeds the round to all of them. All have
answered, or are known to be dead, before a round goes back: no actor ever waits inside for another that does not come.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, cast

from tflow.combinators import nodes
from tflow.errors import ShardFailed, TflowError
from tflow.runtime.answers import DONE, SKIP, WAITING, Answer, Ready
from tflow.runtime.buffer import Buffer
from tflow.runtime.cell import Cell, Site
from tflow.runtime.gather import Gather, Rounds, ShardLink, Stream
from tflow.runtime.host import EVERYTHING
from tflow.runtime.refs import Remote, fetched
from tflow.runtime.shards import LiveShard
from tflow.runtime.unary import united

if TYPE_CHECKING:
    from tflow.runtime.checkpoint_names import CheckpointNames


class FedGather(Gather):
    """What gathers share whose shards are fed by the driver."""

    makes_items = False
    over = flushed = False

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        super().__init__(node, ups, site)
        if isinstance(self.source, nodes.AllGather):
            self.on_death = self.source.on_death

    @property
    def source(self) -> nodes.Node:
        """Where the shards are fed."""
        return self.links[0].source

    @property
    def feeds(self) -> str:
        """How an item is shared among the shards."""
        return self.source.feeds if isinstance(self.source, nodes.FedSource) else "one"

    @property
    def is_collective(self) -> bool:
        return self.feeds in ("all", "own")

    def portions(self, ready: Ready, free: list[ShardLink]) -> list[tuple[ShardLink, Ready | None]]:
        """Which of the shards that have room gets what of an item; one that will get no more gets None."""
        if self.feeds == "one":
            return [(min(free, key=lambda link: len(link.calls)), ready)]
        item, origin = ready
        if isinstance(whole := self.ups[0], WholeRounds):
            self.note_deaths()
            shares = repeat(item) if self.feeds == "all" else item
            portions = {
                link.shard: (share, origin) for link, share in zip(whole.gave, cast("Iterable[object]", shares), strict=False)
            }
            return [(link, portions.get(link.shard)) for link in free if not link.ended]
        members = fetched(item) if type(item) is Remote else item
        there = [link for link in self.links if not link.shard.draining]
        if not isinstance(members, list) or len(members) != len(there):
            given = f"a list of {len(members)}" if isinstance(members, list) else f"a {type(members).__name__}"
            raise TflowError(
                f"{self.source.label}: expected a list with one member for each of {len(there)} shards, got {given}."
            )
        left = [link for link in there if link not in free]
        self.site.counters.received += len(left)
        self.drop("ended", len(left))
        return [(link, (member, origin)) for link, member in zip(there, members, strict=True) if link in free]

    def feed(self, ready: Ready, free: list[ShardLink], *, count: int = EVERYTHING) -> list[ShardLink]:
        """Send an item on its way; the shards that were given something."""
        if isinstance(self.node, nodes.CallActor):
            self.seen += 1  # a gather counts what comes back
        portions = self.portions(ready, free)
        for link, portion in portions:
            self.issue(link, count=count, feed=portion, last=portion is None)
        return [link for link, _ in portions]

    def on_actor_lost(self, link: ShardLink) -> None:
        super().on_actor_lost(link)
        if isinstance(whole := self.ups[0], WholeRounds) and link.dead:
            whole.leave({link.shard})

    def catch_up(self) -> None:
        super().catch_up()
        self.note_deaths()

    def note_deaths(self) -> None:
        """A shard that died while it gave to a round is not called again, which would restart it."""
        if isinstance(whole := self.ups[0], WholeRounds):
            dead = {link.shard for link in whole.links if link.dead}
            for link in self.links:
                if link.shard in dead:
                    link.ended = link.dead = True


class FedRounds(FedGather, Rounds):
    """Rounds over shards that the driver feeds: one item each, then wait for all. ``call`` is this with one shard."""

    def answers(self) -> Iterator[Answer]:
        while True:
            while self.buffer:
                yield self.deliver()
            self.catch_up()
            waiting = [link for link in self.links if not link.ended and link not in self.asked]
            if waiting and not self.over:
                answer = self.ups[0].poll()
                fed = self.feed(answer, waiting) if type(answer) is tuple else []
                self.asked += fed
                self.over = answer is DONE
                if len(fed) < len(waiting) and not self.over:
                    yield SKIP if fed else answer
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


class FedStream(FedGather):
    """Items are handed to shards that have room, results come in the order of finishing. ``hand_off`` is this with one shard,
    where that is the order of the items."""

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
                self.note_deaths()
                for link in alive:
                    if not link.ended:
                        self.issue(link, last=True)
            else:
                self.ups[0].close()  # every shard has ended, perhaps before the stream that feeds them
                yield self.end()

    def take_one(self, alive: list[ShardLink]) -> Answer:
        """Take an item from upstream if there is room for it, and pass on what can be passed on."""
        free = [link for link in alive if len(link.calls) < (1 if self.dropping else self.room)]
        if self.feeds != "one" and len(free) < len(alive):
            free = []  # all shards take part
        answer: Answer = WAITING
        if free or self.dropping:
            answer = self.ups[0].poll()
            if type(answer) is tuple:
                self.outbox.append(answer)
                answer = SKIP
            if len(self.outbox) > self.room:
                self.outbox.popleft()
                self.seen += 1
                self.site.counters.received += 1
                self.drop("overflow")
        if free and self.outbox:
            self.feed(self.outbox.popleft(), free)
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


class WholeRounds(Rounds):
    """Rounds of one item of every shard: the first half of a collective."""

    @property
    def is_collective(self) -> bool:
        return True

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        self.gave: list[ShardLink] = []
        """The shards whose items are in the latest round."""
        super().__init__(node, ups, site)

    def leave(self, shards: set[LiveShard]) -> None:
        """These have died while they were given a round: they take part in no other."""
        for link in self.links:
            if link.shard in shards:
                link.ended = link.dead = True
        if self.ups and isinstance(self.ups[0], WholeRounds):
            self.ups[0].leave(shards)

    def on_round(self, asked: list[ShardLink]) -> None:
        self.gave = [link for _, link in self.buffer]
        missing = [link.shard.place for link in asked if link not in self.gave and not link.shard.draining]
        if self.gave and missing and self.on_death == "raise":
            self.failure = self.failure or ShardFailed(
                f"{self.node.label}: {' and '.join(missing)} had nothing to give, but {self.gave[0].shard.place} has an item. "
                'Every shard must give one item per round; to go on without those that end, write on_death="skip".'
            )


class WholeFedRounds(WholeRounds, FedRounds):
    """The same over shards that are fed. They are asked for one item at a time, and fed when all have run out."""

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        self.holding: list[ShardLink] = []
        """The shards that may have more items of what they were fed."""
        super().__init__(node, ups, site)

    def answers(self) -> Iterator[Answer]:
        while True:
            self.catch_up()
            alive = [link for link in self.links if not link.ended]
            holding = [link for link in alive if link in self.holding]
            if not self.asked and alive and not holding and not self.over:
                answer = self.ups[0].poll()
                self.over = answer is DONE
                if type(answer) is tuple:
                    self.asked = self.feed(answer, alive, count=1)
                elif not self.over:
                    yield answer
            elif not self.asked and alive:
                self.asked = holding or alive
                for link in self.asked:
                    self.issue(link, count=1, last=self.over)
            elif self.asked:
                while not self.complete():
                    yield self.wait()
                yield from self.end_round()
            else:
                self.ups[0].close()  # every shard has ended, perhaps before the stream that feeds them
                yield self.end()

    def on_round(self, asked: list[ShardLink]) -> None:
        super().on_round(asked)
        self.holding = list(self.gave)


class TogetherRounds(WholeRounds):
    """Rounds of up to so many items of every shard: ``par_batch_together``."""

    made_anew: ClassVar[frozenset[str]] = WholeRounds.made_anew | {"full", "lost"}
    node: nodes.GatherTogether

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        self.counts: dict[int, int] = {}
        """How many items of the round each shard has given, by its link."""
        self.full: set[ShardLink] = set()
        """The shards that have given all items of the round, or have no more."""
        self.lost: set[ShardLink] = set()
        """Those that have died in it."""
        super().__init__(node, ups, site)

    def answers(self) -> Iterator[Answer]:
        while True:
            self.catch_up()
            if not self.asked:
                self.asked = [link for link in self.links if not link.ended]
                self.counts = dict.fromkeys((link.index for link in self.asked), 0)
                self.full.clear()
                self.lost.clear()
                for link in self.asked:
                    self.ask(link)
            if not self.asked:
                break
            while self.goes_on():
                yield self.wait()
            self.asked = []
            if shares := self.shares():
                yield shares
        while True:
            yield self.end()

    def goes_on(self) -> bool:
        """Take in what has arrived, and ask for more; False when the round is over."""
        while self.ready:
            link, before = self.ready.popleft(), len(self.buffer)
            self.receive(link)
            self.counts[link.index] += len(self.buffer) - before
            self.note_progress(link)
            self.ask(link)
        return bool(self.unanswered)

    def note_progress(self, link: ShardLink) -> None:
        """Note whether a shard is through with the round."""
        if link.dead:
            self.lost.add(link)
            self.full.discard(link)
        elif link.ended or self.counts[link.index] >= self.node.size:
            self.full.add(link)

    def load(self, state: dict[str, Any], names: CheckpointNames) -> None:  # Any: as in the base class
        super().load(state, names)
        for link in self.asked:
            self.note_progress(link)

    def leave(self, shards: set[LiveShard]) -> None:
        super().leave(shards)
        for link in self.asked:
            self.note_progress(link)

    def ask(self, link: ShardLink) -> None:
        """Ask a shard for the next items of a round, unless it has given all of them, or enough others have."""
        missing = self.node.size - self.counts[link.index]
        if missing <= 0 or link.ended or self.failure is not None or self.has_enough():
            return
        most = self.site.runtime.most_items(self.node.per_call)
        budget = min(most, missing) if isinstance(most, int) else replace(most, items=min(most.items, missing))
        self.issue(link, count=budget)

    def has_enough(self) -> bool:
        """True if the wanted share of the shards that are there has given all items, or has no more."""
        return len(self.full) >= math.ceil(self.node.share * (len(self.asked) - len(self.lost)) - 1e-9)

    def shares(self) -> Ready | None:
        """The items of the round, a list for each shard that gave some. What the dead had given is lost with them."""
        given: dict[ShardLink, list[Ready]] = {}
        self.drop("failed" if self.failure is not None else "lost", self.forget_unless_whole())
        for _ in range(len(self.buffer)):
            ready, link = self.buffer.take()
            given.setdefault(link, []).append(self.delivered(ready, link))
        self.gave = sorted(given, key=lambda link: link.index)
        if not given:
            return None
        origins = [ready for link in self.gave for ready in given[link]]
        self.shown += 1 - len(origins)
        return [[value for value, _ in given[link]] for link in self.gave], united(origins)

    def forget_unless_whole(self) -> int:
        """Forget what cannot be shown: all of a round that failed, and what the dead gave. Returns how much that was."""
        before = len(self.buffer)
        kept = [] if self.failure is not None else [(ready, link) for ready, link in self.buffer if not link.dead]
        self.buffer = Buffer(kept)
        return before - len(kept)


def whole_rounds(node: nodes.GatherWhole, ups: tuple[Cell, ...], site: Site) -> Cell:
    """One item of every shard, over shards that are fed if there is a driver stream before them."""
    return (WholeFedRounds if ups else WholeRounds)(node, ups, site)


def rounds(node: nodes.GatherSync, ups: tuple[Cell, ...], site: Site) -> Cell:
    """Rounds, over shards that are fed if there is a driver stream before them."""
    return (FedRounds if ups else Rounds)(node, ups, site)


def stream(node: nodes.GatherAsync, ups: tuple[Cell, ...], site: Site) -> Cell:
    """As results come, over shards that are fed if there is a driver stream before them."""
    return (FedStream if ups else Stream)(node, ups, site)
