"""A cell is a node at work: a generator of answers with its state kept beside it.

Polling a cell is one ``next`` on its generator. One poll consumes at most one upstream item. All state lives in attributes,
none in the generator: restarted between two polls, it resumes where it was. So state can be counted, shown and saved.

The same cells run on the driver and inside actors; a ``Site`` is the place they run in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, ClassVar

from tflow.combinators import nodes
from tflow.errors import OperatorError, ShardFailed
from tflow.runtime.answers import Answer
from tflow.runtime.observer import WorkSpan
from tflow.runtime.stats import Reading
from tflow.types import NOWHERE, Provenance

if TYPE_CHECKING:
    from tflow.runtime.checkpoint_names import CheckpointNames

MADE_ANEW = frozenset({"node", "ups", "site", "stream", "poll"})
"""Attributes of all cells that are no state: building and starting makes them."""


class Site:
    """Where cells run: the driver, or one actor."""

    def __init__(self, *, shard: str | None, seed: str) -> None:
        self.shard = shard
        """How errors call this place; None is the driver."""
        self.seed = seed
        """Added to the seed of random operators, so that every shard draws its own numbers."""
        self.cells: list[Cell] = []
        self.actor: object = None
        self.resume: Mapping[int, int] = {}
        """Values that earlier incarnations of an actor have read, by position of the source."""
        self.carriers: Collection[nodes.Node] = ()
        """Streams that may carry items which stay where they were made."""
        self.numbers_items = False
        """What is read here is answered with by the same call, through one chain: its number says where it comes from."""
        self.env_steps = 0
        """Counted where items enter the driver."""
        self.spans: list[WorkSpan] | None = None
        """When operators have worked, where that is measured; None if nobody wants to know."""

    def stamp(self) -> Provenance:
        """Where the next item that begins here comes from; those of the driver come from nowhere."""
        return NOWHERE

    def position(self, node: nodes.Node) -> int:
        """The position of a node in the plan."""
        return node.position

    def now(self) -> float:
        """The runtime's clock, in seconds."""
        raise NotImplementedError

    def lose(self, loss: ShardFailed, count: int) -> None:
        """Items were delivered as refs, and are lost with the node that had them."""
        raise loss

    def blame(self, node: nodes.Node, item: int, error: Exception) -> OperatorError:
        """The error to raise when user code raised ``error``."""
        return OperatorError(node.label, item=item, cause=error, shard=self.shard)


class Cell:
    """A node at work."""

    made_anew: ClassVar[frozenset[str]] = frozenset()
    """Attributes that are no state, because building the cell makes them again."""

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        self.node = node
        self.ups = ups
        self.site = site
        self.seen = 0
        self.shown = 0
        self.busy_ns = 0
        self.closed = False
        site.cells.append(self)
        self.start()

    def start(self) -> None:
        """Make the generator. Idempotent, if it is done for all cells of a site, in their order."""
        self.stream: Iterator[Answer] = self.answers()
        self.poll: Callable[[], Answer] = self.stream.__next__

    def answers(self) -> Iterator[Answer]:
        """One answer per poll, for ever: after ``DONE`` comes ``DONE``."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop: the consumer asks for no more items. Closes the inputs as well."""
        if not self.closed:
            self.closed = True
            attempt_all([up.close for up in self.ups])

    def state(self, names: CheckpointNames) -> dict[str, Any]:  # Any: whatever the attributes hold
        """All that the cell remembers, as data: its attributes, but for those that are made anew."""
        return {name: value for name, value in vars(self).items() if name not in MADE_ANEW and name not in self.made_anew}

    def load(self, state: dict[str, Any], names: CheckpointNames) -> None:  # Any: as above
        """Go on as the cell whose state this was; ``start`` follows."""
        vars(self).update(state)

    def worked(self, start: int) -> None:
        """User code has worked since then, on the clock of ``perf_counter_ns``."""
        now = perf_counter_ns()
        self.busy_ns += now - start
        if self.site.spans is not None:
            self.site.spans.append(WorkSpan(self.site.position(self.node), start, now))

    def queued(self) -> int:
        """How many items the cell holds back."""
        return 0

    def readings(self) -> Iterator[tuple[nodes.Node, Reading]]:
        """Counts of the node, or of each node if the cell runs several."""
        yield self.node, Reading(self.seen, self.shown, self.busy_ns, self.queued())


def attempt_all(actions: Iterable[Callable[[], object]]) -> None:
    """Do all of it, even if some of it fails; then raise the first failure."""
    failures: list[Exception] = []
    for action in actions:
        try:
            action()
        except Exception as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


def close_iterator(iterator: object) -> None:
    """Let a user's generator run its ``finally``, unless it is what is running right now."""
    close = getattr(iterator, "close", None)
    if callable(close) and not getattr(iterator, "gi_running", False):
        close()
