"""Cells that bring items from actors to the driver, in rounds or as they come. Those whose shards are fed are in ``feed.py``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, count
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tflow.combinators import graph, nodes
from tflow.combinators.actors import Actors
from tflow.errors import CheckpointError, NoHealthyShards, TflowError
from tflow.runtime.answers import DONE, SKIP, WAITING, Answer, Blocked, Ready
from tflow.runtime.base import Call
from tflow.runtime.buffer import Buffer
from tflow.runtime.cell import Cell, Site
from tflow.runtime.driver import Driver
from tflow.runtime.host import EVERYTHING, Reply, Request
from tflow.runtime.program import counted, localised, marked
from tflow.runtime.shards import LiveShard
from tflow.runtime.stats import NOTHING_READ, Reading, Staleness
from tflow.runtime.unary import united
from tflow.types import TimeBudget

if TYPE_CHECKING:
    from tflow.runtime.checkpoint_names import CheckpointNames

MOST_GATED = 64
"""Items that a call with a time budget may bring at most, if a gate counts them."""


class ShardLink:
    """One shard of one gather."""

    def __init__(self, index: int, source: nodes.Node, shard: LiveShard, program: nodes.Node) -> None:
        self.index = index
        self.source = source
        """Where in the plan it begins: an actor may serve a gather in several ways."""
        self.shard = shard
        self.program = program
        self.told_incarnation = -1
        """The incarnation that the program was sent to."""
        self.answered_incarnation = -1
        """The incarnation that has answered, so that it certainly has the program."""
        self.calls: deque[Call] = deque()
        self.ended = False
        self.dead = False
        """The shard left the stream because its actor died."""
        self.readings: dict[int, Reading] = {}
        self.earlier: dict[int, Reading] = {}
        """Totals of the incarnations before this one."""

    @property
    def up_to_date(self) -> bool:
        """False while answers of an earlier incarnation are unread: the next one is told what they have read."""
        return not self.calls or self.calls[-1].incarnation in (-1, self.shard.incarnation)

    def handshake(self) -> tuple[nodes.Node | None, dict[int, int]]:
        """The program for a new incarnation, and how many values of each source earlier ones have read. Sent until the first
        answer, because a call may be lost without its actor."""
        if self.answered_incarnation == self.shard.incarnation:
            return None, {}
        if self.told_incarnation != self.shard.incarnation:
            self.told_incarnation = self.shard.incarnation
            self.earlier = {
                position: self.earlier.get(position, NOTHING_READ).then(self.readings.get(position, NOTHING_READ))
                for position in self.readings.keys() | self.earlier.keys()
            }
            self.readings = {}
        return self.program, {position: reading.seen for position, reading in self.earlier.items()}

    def state(self, names: CheckpointNames, site: Driver) -> dict[str, Any]:  # Any: of all kinds
        """What it remembers, as data."""
        return {
            "index": self.index,
            "source": site.positions[self.source],
            "shard": names.shard(self.shard),
            "told_incarnation": self.told_incarnation,
            "answered_incarnation": self.answered_incarnation,
            "calls": [names.call(call) for call in self.calls],
            "ended": self.ended,
            "dead": self.dead,
            "readings": self.readings,
            "earlier": self.earlier,
        }

    def load(self, state: dict[str, Any], names: CheckpointNames) -> None:  # Any: as above
        """Go on as the link whose state this was."""
        self.index = state["index"]
        self.told_incarnation, self.answered_incarnation = state["told_incarnation"], state["answered_incarnation"]
        self.calls = deque(names.calls[number] for number in state["calls"])
        for call in self.calls:
            call.tag = self
        self.ended, self.dead = state["ended"], state["dead"]
        self.readings, self.earlier = state["readings"], state["earlier"]


class LinkNumbers(NamedTuple):
    """Links of a gather in one of its attributes, by their indices."""

    indices: list[int]
    kind: str


def _numbered(value: object) -> object:
    """An attribute of a gather as data: links by their indices."""
    if isinstance(value, (list, deque, set)) and all(isinstance(member, ShardLink) for member in value):
        indices = [member.index for member in value if isinstance(member, ShardLink)]
        return LinkNumbers(sorted(indices) if isinstance(value, set) else indices, type(value).__name__)
    return value


def _linked(value: object, known: Mapping[int, ShardLink]) -> object:
    if not isinstance(value, LinkNumbers):
        return value
    links = [known[index] for index in value.indices]
    return {"list": list, "deque": deque, "set": set}[value.kind](links)


class Gather(Cell):
    """What all gathers share: issuing calls, buffering answers, and the ledger."""

    made_anew: ClassVar[frozenset[str]] = frozenset(
        {"on_death", "timeout_s", "position", "by_ref", "numbers", "resizes", "failure", "links", "buffer", "last_dead"}
    )
    site: Driver
    makes_items = True
    """False if the shards are fed by the driver."""

    @property
    def is_collective(self) -> bool:
        """True if all shards must have taken part in the same rounds."""
        return False

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        assert isinstance(site, Driver)
        assert isinstance(node, (nodes.Gathering, nodes.CallActor))
        self.on_death, self.timeout_s = node.on_death, node.timeout_s
        self.position = site.positions[node]
        self.by_ref = node in site.carriers
        self.buffer: Buffer = Buffer()
        self.failure: TflowError | None = None
        self.staleness: dict[str, Staleness] = {}
        self.links: list[ShardLink] = []
        self.last_dead: ShardLink | None = None
        self.numbers = count()
        self.ready: deque[ShardLink] = deque()
        """Links whose oldest call is finished, in the order of finishing."""
        super().__init__(node, ups, site)
        self.join()

    def join(self) -> None:
        """Update the links to the current shards: at the start, and whenever the pool was resized."""
        self.resizes = self.site.runtime.resizes
        known = {(link.source, link.shard): link for link in self.links}
        present: list[ShardLink] = []
        for source, shard, program in self.shards():
            link = known.get((source, shard)) or ShardLink(next(self.numbers), source, shard, program)
            present.append(link)
            if (source, shard) not in known:
                self.on_shard_joined(link)
        gone = [link for link in self.links if link not in present]
        for link in gone:
            link.ended = True
        self.links = present + gone

    def on_shard_joined(self, link: ShardLink) -> None:
        """Called when a shard takes part for the first time."""

    def shards(self) -> Iterator[tuple[nodes.Node, LiveShard, nodes.Node]]:
        """Where each shard begins, its actor, and what runs there."""
        node, live, positions = self.node, self.site.live, self.site.positions
        if node.host is not None and node.operator is not None:
            yield node, live(node.host).shards[0], marked(nodes.ForEach(nodes.Fed(), node.operator), node, positions)
            return
        up = node.inputs[0]
        places = graph.all_places(up, self.site.size)
        counts = counted(places)
        for index, (source, shard) in enumerate(places[up]):
            yield source, live(source.of).shards[shard], localised(up, index, positions, counts)

    def catch_up(self) -> None:
        """Between two items: raise the error of a shard, once everything else that arrived is delivered, and notice resizes."""
        self.raise_failure()
        if self.resizes != self.site.runtime.resizes:
            self.join()

    def issue(
        self, link: ShardLink, *, count: int | TimeBudget = EVERYTHING, feed: Ready | None = None, last: bool = False
    ) -> None:
        """Ask a shard for items."""
        key = (self.site.run, self.position, link.index)
        fed = () if feed is None else (feed,)
        program, resume = link.handshake()
        request = Request(key, program, resume, self.site.fuse, count, self.by_ref, fed, last)
        call = self.site.issue(link.shard, "pull", (request,), self, timeout_s=self.timeout_s)
        call.tag = link
        link.calls.append(call)

    def gate_refusal(self, link: ShardLink, count: int | TimeBudget = 1) -> str:
        """Why the gate of a shard refuses a call for so many items; empty if it admits the call, which is then counted."""
        if link.source.gate is None:
            return ""
        gate, shard = self.site.resident(link.source.gate), link.shard
        items = count.items if isinstance(count, TimeBudget) else count
        why = gate.closed(shard.index, shard.incarnation, items)
        if not why:
            gate.passed(shard.index, shard.incarnation, items)
        return why

    def arrived(self, call: Call) -> None:
        link = call.tag
        assert isinstance(link, ShardLink)
        if isinstance(call.reply, Reply):
            self.site.counters.received += len(call.reply.items) + call.reply.unused
            self.drop("ended", call.reply.unused)
            link.readings = call.reply.readings
            link.answered_incarnation = call.incarnation
        if link.calls and link.calls[0] is call:
            self.ready.append(link)

    def receive(self, link: ShardLink) -> None:
        """Move the oldest answer of a shard into the buffer."""
        call = link.calls.popleft()
        if link.calls and link.calls[0].done:
            self.ready.append(link)
        if call.lost:
            if not call.actor_survived:
                self.on_actor_lost(link)
            self.count_lost(call)
            return
        if call.error is not None:
            self.failure = self.failure or call.error
            return
        reply = call.reply
        assert isinstance(reply, Reply)
        link.ended = link.ended or reply.ended
        self.failure = self.failure or reply.error
        if self.makes_items:
            self.site.count(link.shard.pool.actors, reply.env_steps, reply.items)
        if not isinstance(self.node, nodes.CallActor):  # which counts what it is given
            self.seen += len(reply.items)
        self.buffer.add(reply, link)

    def on_actor_lost(self, link: ShardLink) -> None:
        """Apply ``on_death``: a call was lost with its actor."""
        policy, shard = self.on_death, link.shard
        if shard.draining:
            link.ended = True
        elif policy == "skip":
            link.ended = link.dead = True
            self.last_dead = link
            self.failure = self.failure or self.no_healthy_shards()
        elif (policy == "raise" and (self.is_collective or not shard.can_be_restored)) or shard.restarts_exhausted:
            self.failure = self.failure or shard.failure(f"died under {self.node.label}")

    def no_healthy_shards(self) -> NoHealthyShards | None:
        """The error if no shard is left, because all have died, or were removed after the others died."""
        if self.last_dead is None or not all(link.dead or link.shard.draining for link in self.links):
            return None
        return NoHealthyShards(f"{self.node.label}: all shards died. {self.last_dead.shard.failure('was the last')}")

    def end(self) -> Answer:
        """Answer that the stream is complete. If it ends because its actors died, raise."""
        self.failure = self.failure or self.no_healthy_shards()
        self.raise_failure()
        return DONE

    def count_lost(self, call: Call) -> None:
        """Count items that were fed to a dead actor as lost."""
        request = call.args[0]
        assert isinstance(request, Request)
        self.site.counters.received += len(request.feed)
        self.drop("lost", len(request.feed))

    def deliver(self) -> Ready:
        """Hand over the next item and note how old it is."""
        return self.delivered(*self.buffer.take())

    def delivered(self, ready: Ready, link: ShardLink) -> Ready:
        self.shown += 1
        self.site.counters.delivered += 1
        if self.makes_items and link.shard.pool.versions:
            for policy, lag in link.shard.pool.staleness(ready[1].versions).items():
                self.staleness[policy] = self.staleness.get(policy, Staleness()).add(lag)
        return ready

    def drop(self, reason: str, count: int = 1) -> None:
        if count:
            self.site.counters.dropped[reason] += count

    def wait(self, answer: Answer = WAITING) -> Answer:
        """Answer without an item while calls are in flight."""
        self.site.polled_while_waiting()
        return answer

    def raise_failure(self) -> None:
        """Raise what a shard raised."""
        if self.failure is not None:
            raise self.failure

    def state(self, names: CheckpointNames) -> dict[str, Any]:  # Any: as in the base class
        if self.failure is not None:
            raise CheckpointError(f"There is nothing to continue: the run is about to fail. {self.failure}")
        found = {name: _numbered(value) for name, value in super().state(names).items()}
        links = [link.state(names, self.site) for link in self.links]
        buffer = [(ready, link.index) for ready, link in self.buffer]
        last_dead = None if self.last_dead is None else self.last_dead.index
        return {
            **found,
            "links": links,
            "buffer": buffer,
            "last_dead": last_dead,
            "next": max(link["index"] for link in links) + 1,
        }

    def load(self, state: dict[str, Any], names: CheckpointNames) -> None:  # Any: as above
        sources = {position: node for node, position in self.site.positions.items()}
        fresh = {(self.site.positions[link.source], link.shard): link for link in self.links}
        self.links = []
        for saved in state.pop("links"):
            shard = names.shards[saved["shard"]]
            link = fresh.get((saved["source"], shard))
            if link is None:  # its shard has left, or is about to
                source = sources[saved["source"]]
                link = ShardLink(saved["index"], source, shard, self.program_of(source, shard))
            link.load(saved, names)
            self.links.append(link)
        known = {link.index: link for link in self.links}
        self.numbers = count(state.pop("next"))
        self.buffer = Buffer((ready, known[index]) for ready, index in state.pop("buffer"))
        dead = state.pop("last_dead")
        self.last_dead = None if dead is None else known[dead]
        super().load({name: _linked(value, known) for name, value in state.items()}, names)
        self.resizes = -1  # the pool may have been resized just before: look again

    def program_of(self, source: nodes.Node, shard: LiveShard) -> nodes.Node:
        """What runs in a shard that the pool is now too small for."""
        if self.node.host is not None:
            return self.node

        def size(actors: Actors[object]) -> int:
            return max(self.site.size(actors), shard.index + 1 if actors is shard.pool.actors else 0)

        up = self.node.inputs[0]
        places = graph.all_places(up, size)
        index = places[up].index((source, shard.index))  # type: ignore[arg-type]  # it is one of these
        return localised(up, index, self.site.positions, counted(places))

    def buffered(self) -> int:
        """Items that arrived and were not delivered."""
        answered = (call.reply for link in self.links for call in link.calls if call.done)
        return len(self.buffer) + sum(len(reply.items) for reply in answered if isinstance(reply, Reply))

    def queued(self) -> int:
        return self.buffered()

    def close(self) -> None:
        if not self.closed:
            closing = super().close
            for link, call in [(each, call) for each in self.links for call in each.calls if call.done]:
                if call.lost and not call.actor_survived:
                    self.on_actor_lost(link)
                if call.lost:
                    self.count_lost(call)
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
            for position, reading in chain(link.earlier.items(), link.readings.items()):
                if position == self.position:  # call and hand_off: the items are counted on this side
                    reading = reading._replace(seen=0, shown=0)
                if position >= 0:
                    yield position, reading

    def readings(self) -> Iterator[tuple[nodes.Node, Reading]]:
        yield self.node, Reading(self.seen, self.shown, self.busy_ns, self.queued())


class Rounds(Gather):
    """``gather_sync`` and ``gather_rounds``: a barrier per round."""

    made_anew: ClassVar[frozenset[str]] = Gather.made_anew | {"unanswered"}

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        self.asked: list[ShardLink] = []
        """The shards that take part in the current round."""
        self.unanswered: set[ShardLink] = set()
        """Those of them that have not answered yet."""
        self.admitted: set[ShardLink] = set()
        """Shards that the gate has admitted to the next round so far."""
        super().__init__(node, ups, site)

    def answers(self) -> Iterator[Answer]:
        while True:
            while self.buffer:
                yield self.deliver()
            self.catch_up()
            if not self.asked:
                while why := self.round_refusal():
                    yield Blocked(why)
                    self.catch_up()
                self.asked = [link for link in self.links if not link.ended]
                self.admitted.clear()
                for link in self.asked:
                    self.issue(link, count=1)
            if not self.asked:
                break
            while not self.complete():
                yield self.wait()
            yield from self.end_round()
        while True:
            yield self.end()

    def round_refusal(self) -> str:
        """Why no round can start yet: the gate of a shard is closed. Shards that were admitted keep their admission."""
        for link in self.links:
            if not link.ended and link not in self.admitted:
                if why := self.gate_refusal(link):
                    return why
                self.admitted.add(link)
        return ""

    def issue(
        self, link: ShardLink, *, count: int | TimeBudget = EVERYTHING, feed: Ready | None = None, last: bool = False
    ) -> None:
        self.unanswered.add(link)
        super().issue(link, count=count, feed=feed, last=last)

    def receive(self, link: ShardLink) -> None:
        self.unanswered.discard(link)
        super().receive(link)

    def complete(self) -> bool:
        """True if every shard has answered. A shard that was restarted is asked again, so that the round is complete. Only what
        has arrived is looked at: a round of many shards would take the square of their number otherwise."""
        again = self.makes_items and self.on_death == "restart"
        while self.ready:
            link = self.ready.popleft()
            if not link.calls[0].done:
                continue
            self.unanswered.discard(link)
            if again and link.calls[0].lost and not (link.shard.restarts_exhausted or link.shard.draining):
                link.calls.popleft()
                if self.gate_refusal(link):  # its new incarnation has nothing to give yet: the round goes on without it
                    self.asked.remove(link)
                else:
                    self.issue(link, count=1)
        return not self.unanswered

    def end_round(self) -> Iterator[Answer]:
        """Take in all answers, in shard order. A failed shard takes none of the others' items with it, except that a round as
        one list is whole or fails."""
        self.ready.clear()
        asked, self.asked = self.asked, []
        for link in asked:
            self.receive(link)
        self.on_round(asked)
        if isinstance(self.node, nodes.GatherSync) and self.node.rounds:
            if self.failure is not None:
                self.drop("failed", len(self.buffer))
                self.buffer.clear()
            if self.buffer:
                items = [self.deliver() for _ in range(len(self.buffer))]
                self.shown += 1 - len(items)
                yield [value for value, _ in items], united(items)

    def load(self, state: dict[str, Any], names: CheckpointNames) -> None:  # Any: as in the base class
        super().load(state, names)
        self.unanswered = {link for link in self.links if link.calls and not link.calls[0].done}

    def on_round(self, asked: list[ShardLink]) -> None:
        """Called when all shards that were asked in a round have answered, before its items are delivered."""


class Stream(Gather):
    """``gather_async``: items as they come. A call is replaced when the consumer asks again after its last item."""

    node: nodes.GatherAsync

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        self.finished: list[ShardLink] = []
        """Shards that have room for another call."""
        super().__init__(node, ups, site)

    def on_shard_joined(self, link: ShardLink) -> None:
        self.finished.append(link)

    def answers(self) -> Iterator[Answer]:
        buffer, deliver = self.buffer, self.deliver if self.node.max_staleness is None else self.deliver_unless_stale
        while True:
            while buffer:
                yield deliver()
            self.catch_up()
            why = self.ask_again()
            if self.ready:
                link = self.ready.popleft()
                if link not in self.finished:
                    self.finished.append(link)
                self.receive(link)
            elif any(link.calls for link in self.links):
                yield self.wait()
            elif why:
                yield Blocked(why)
            else:
                yield self.end()

    def ask_again(self) -> str:
        """Replace calls that are finished with. Those whose gate is closed stay open; why, is the answer."""
        closed, why = [], ""
        for link in self.finished:
            while len(link.calls) < self.node.in_flight and not link.ended and link.up_to_date:
                count = self.site.runtime.most_items(self.per_call(link))
                why = self.gate_refusal(link, count)
                if why:
                    closed.append(link)
                    break
                self.issue(link, count=count)
        self.finished = closed
        return why if closed else ""

    def per_call(self, link: ShardLink) -> int | TimeBudget:
        """How many items a call brings. Behind a gate all that it may bring count as asked for, so it may not bring many."""
        found = self.node.per_call
        many = isinstance(found, TimeBudget) and link.source.gate is not None
        return replace(found, items=min(found.items, MOST_GATED)) if many and isinstance(found, TimeBudget) else found

    def deliver_unless_stale(self) -> Answer:
        """Deliver the next item, or drop it if it exceeds ``max_staleness``."""
        ready, link = self.buffer.take()
        limit = self.node.max_staleness
        if limit is None or max(link.shard.pool.staleness(ready[1].versions).values(), default=0) <= limit:
            return self.delivered(ready, link)
        self.drop("stale")
        return SKIP
