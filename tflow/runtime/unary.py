"""Cells with one input, and sources: everything that needs no actor and no second stream."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, ClassVar, cast

from tflow.combinators import nodes
from tflow.combinators.methods import bound
from tflow.errors import CheckpointError
from tflow.runtime.answers import DONE, SKIP, WAITING, Answer, Ready
from tflow.runtime.cell import Cell, Site, attempt_all, close_iterator
from tflow.runtime.chain import SourceCell
from tflow.types import NOWHERE, Provenance

if TYPE_CHECKING:
    from tflow.runtime.checkpoint_names import CheckpointNames

MOST_MEMBERS = 100_000
"""Of one item; an item with more of them may be endless."""


class ItemsCell(SourceCell):
    """Values or an iterable that the driver reads."""

    node: nodes.FromItems

    def open(self) -> Iterator[object]:
        items = self.node.items
        values = cast("Iterable[object]", items() if callable(items) else items)
        return _again_and_again(values) if self.node.repeat else iter(values)


def _again_and_again(values: Iterable[object]) -> Iterator[object]:
    """As ``itertools.cycle``, but without keeping a copy."""
    empty = False
    while not empty:
        empty = True
        for value in values:
            empty = False
            yield value


class PullCell(SourceCell):
    """The source of a shard: calls on its actor. Each item is stamped with where and with which weights it was made."""

    made_anew: ClassVar[frozenset[str]] = SourceCell.made_anew | {"origin"}
    node: nodes.Pulled

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        self.origin = "number" if site.numbers_items else "stamp"
        super().__init__(node, ups, site)

    def stamp(self) -> Provenance:
        return self.site.stamp()

    def open(self) -> Iterator[object]:
        pull = bound(self.node.pull, self.site.actor)
        if not self.node.opens:
            return _calls(pull)
        values = cast("Iterator[object]", pull())
        for _ in islice(values, self.site.resume.get(self.node.position, 0)):
            continue  # read by an earlier incarnation
        return values

    def skip(self, count: int) -> None:
        if self.node.opens:  # else the actor itself knows where it is
            super().skip(count)


def _calls(pull: Callable[..., object]) -> Iterator[object]:
    while True:
        try:
            value = pull()
        except StopIteration:
            return
        yield value


class Inbox(Cell):
    """The source of a shard that the driver feeds. Waits when it has run out and more may come."""

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        self.waiting: list[Ready] = []
        self.complete = False
        super().__init__(node, ups, site)

    def answers(self) -> Iterator[Answer]:
        while True:
            if self.waiting:
                self.seen += 1
                self.shown += 1
                yield self.waiting.pop(0)
            else:
                yield DONE if self.complete else WAITING


class Grouping(Cell):
    """A cell that keeps items back."""

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        self.held: list[Ready] = []
        super().__init__(node, ups, site)

    def queued(self) -> int:
        return len(self.held)


class BatchCell(Grouping):
    node: nodes.BatchItems
    weight = 0
    """Of what is held."""
    rest: Ready | None = None
    """What was cut off the last item, or that item itself before it is weighed."""
    rest_weight: int | None = None
    """How much of the last item is left; None before it is weighed."""

    def answers(self) -> Iterator[Answer]:
        held, size = self.held, self.node.size
        weighed = self.node.weigh is not None
        while self.rest is not None:
            yield self.add()
        for answer in self.ups[0].stream:
            if type(answer) is not tuple:
                yield self.release() if answer is DONE and held else answer
                continue
            self.seen += 1
            if weighed:
                self.rest = answer
                while self.rest is not None:
                    yield self.add()
            else:
                held.append(answer)
                yield self.release() if len(held) == size else SKIP

    def add(self) -> Answer:
        """Put the item in hand, or as much of it as there is room for, into the group."""
        assert self.rest is not None
        assert self.node.weigh is not None
        (item, origin), room = self.rest, self.node.size - self.weight
        tail: Ready | None = None
        try:
            weight = cast("int", self.node.weigh(item)) if self.rest_weight is None else self.rest_weight
            full = weight >= room
            if self.node.cut is not None and weight > room:
                item, left = cast("tuple[object, object]", self.node.cut(item, room))
                tail = left, origin
        except Exception as error:
            raise self.site.blame(self.node, self.seen - 1, error) from error
        self.held.append((item, origin))
        self.weight += weight
        # What is left of it is not weighed again: whatever the user's functions say, it gets lighter and comes to an end.
        self.rest, self.rest_weight = tail, None if tail is None else weight - room
        return self.release() if full else SKIP

    def release(self) -> Ready:
        self.shown += 1
        batch = [value for value, _ in self.held], united(self.held)
        self.held.clear()
        self.weight = 0
        return batch


def united(parts: list[Ready]) -> Provenance:
    """Where something made of all these items comes from."""
    return Provenance.unite(origin for _, origin in parts)


class MixInCell(Grouping):
    """Each new item, then some of those before it, drawn from the latest ``slots``."""

    node: nodes.MixIn
    latest: Ready | None = None
    """The new item; it can be drawn when the next one comes."""
    owed = 0
    """How many earlier items are still to follow it."""

    def __init__(self, node: nodes.MixIn, ups: tuple[Cell, ...], site: Site) -> None:
        self.random = random.Random(f"{node.seed} {site.seed}")
        super().__init__(node, ups, site)

    def answers(self) -> Iterator[Answer]:
        while True:
            while self.owed:
                self.owed -= 1
                self.shown += 1
                yield self.random.choice(self.held)
            if self.latest is not None:
                self.held.append(self.latest)
                self.latest = None
                if len(self.held) > self.node.slots:
                    self.held.pop(0)
            answer = self.ups[0].poll()
            if type(answer) is tuple:
                self.seen += 1
                self.shown += 1
                self.latest = answer
                sure, chance = divmod(self.node.proportion, 1)
                self.owed = int(sure) + (self.random.random() < chance) if self.held else 0
            yield answer


class ShuffleCell(Grouping):
    node: nodes.Shuffle

    def __init__(self, node: nodes.Shuffle, ups: tuple[Cell, ...], site: Site) -> None:
        self.random = random.Random(f"{node.seed} {site.seed}")
        super().__init__(node, ups, site)

    def answers(self) -> Iterator[Answer]:
        held, size = self.held, self.node.buffer
        for answer in self.ups[0].stream:
            if type(answer) is tuple:
                self.seen += 1
                held.append(answer)
                yield self.draw() if len(held) > size else SKIP
            elif answer is DONE and held:
                yield self.draw()
            else:
                yield answer

    def draw(self) -> Ready:
        self.shown += 1
        chosen = self.random.randrange(len(self.held))
        self.held[chosen], self.held[-1] = self.held[-1], self.held[chosen]
        return self.held.pop()


def _then_raise(members: list[object], error: Exception) -> Iterator[object]:
    yield from members
    raise error


class FlattenCell(Cell):
    """Members are read one by one, so an endless iterable is no trouble."""

    node: nodes.Flatten | nodes.FlatMap

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        self.members: Iterator[object] = iter(())
        self.origin = NOWHERE
        self.fruitless = False
        """True if an item was consumed that has shown no member yet."""
        super().__init__(node, ups, site)

    def answers(self) -> Iterator[Answer]:
        while True:
            members = self.members
            try:
                for member in members:
                    self.shown += 1
                    self.fruitless = False
                    yield member, self.origin
            except Exception as error:
                raise self.site.blame(self.node, self.seen - 1, error) from error
            if self.members is not members:
                continue  # a checkpoint has read ahead, and left what it read
            if self.fruitless:
                self.fruitless = False
                yield SKIP
            answer = self.ups[0].poll()
            if type(answer) is not tuple:
                yield answer
                continue
            self.seen += 1
            self.fruitless = True
            value, self.origin = answer
            try:
                self.members = iter(self.open(value))
            except Exception as error:
                raise self.site.blame(self.node, self.seen - 1, error) from error

    def state(self, names: CheckpointNames) -> dict[str, Any]:  # Any: as in the base class
        return {**super().state(names), "members": self.rest()}

    def load(self, state: dict[str, Any], names: CheckpointNames) -> None:  # Any: as above
        super().load({**state, "members": iter(state["members"])}, names)

    def rest(self) -> list[object]:
        """The members that are still to come, which are read now."""
        rest: list[object] = []
        try:
            rest += islice(self.members, MOST_MEMBERS)
        except Exception as error:  # it is raised when its turn comes
            self.members = _then_raise(rest, error)
            raise CheckpointError(f"{self.node.label} cannot be saved: its input raised {type(error).__name__}.") from error
        if len(rest) == MOST_MEMBERS:
            self.members = chain(rest, self.members)
            raise CheckpointError(f"{self.node.label} cannot be saved: one of its items has {MOST_MEMBERS:,} members or more.")
        self.members = iter(rest)
        return rest

    def close(self) -> None:
        if not self.closed:
            attempt_all([super().close, self.close_members])

    def close_members(self) -> None:
        try:
            close_iterator(self.members)
        except Exception as error:
            raise self.site.blame(self.node, self.seen - 1, error) from error

    def open(self, value: object) -> Iterable[object]:
        if isinstance(self.node, nodes.Flatten):
            return cast("Iterable[object]", value)
        start = perf_counter_ns()
        members = cast("Iterable[object]", self.node.fn(value))
        self.worked(start)
        return members


class TakeCell(Cell):
    made_anew: ClassVar[frozenset[str]] = frozenset({"failure"})
    node: nodes.Take
    failure: Exception | None = None
    """What closing the input raised: it comes after the last item."""

    def answers(self) -> Iterator[Answer]:
        poll, count = self.ups[0].poll, self.node.count - self.site.resume.get(self.node.position, 0)
        while self.shown < count:
            answer = poll()
            if type(answer) is tuple:
                self.seen += 1
                self.shown += 1
                if self.shown == count:
                    self.stop()
            yield answer
        self.stop()
        if self.failure is not None:
            raise self.failure
        while True:
            yield DONE

    def stop(self) -> None:
        try:
            self.close()
        except Exception as failure:
            self.failure = failure


class DrainCell(Cell):
    def answers(self) -> Iterator[Answer]:
        for answer in self.ups[0].stream:
            if type(answer) is tuple:
                self.seen += 1
                yield SKIP
            else:
                yield answer
