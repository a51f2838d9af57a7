"""What lives where an actor lives: the user's object, and the chains of the runs that use it.

Chains are kept by (run, node), so two plans over the same actors never meet each other's operators or state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from time import perf_counter_ns
from typing import TYPE_CHECKING, NamedTuple, cast

from tflow.combinators import graph, nodes
from tflow.combinators.methods import bound
from tflow.errors import OperatorError, TflowError
from tflow.runtime.answers import DONE, SKIP, Answer, Ready
from tflow.runtime.build import build
from tflow.runtime.cell import Cell, Site, attempt_all
from tflow.runtime.checkpoint_names import CheckpointNames
from tflow.runtime.observer import WorkSpan
from tflow.runtime.stats import Reading
from tflow.runtime.unary import Inbox
from tflow.types import CallOrigins, Provenance, Shard, Source, TimeBudget, steps_of

if TYPE_CHECKING:
    from tflow.state.folders import ArrayFile, Written
    from tflow.state.values import Encoded

ChainKey = tuple[int, int, int]
"""A run, the position of the gather in its plan, and which of its shards this is: one actor may serve several."""
EVERYTHING = 2**62
"""A fed shard answers with all that its input gives."""


class Polls(int):
    """How often to ask for an item, whatever comes: what a run that is repeated did."""


State = dict[tuple[str, Callable[..., object]], tuple[int, object]]
"""Arguments of methods to call before anything else, by policy and method; each with the number of the update."""


class Piggyback(NamedTuple):
    """State updates that are piggybacked on every call."""

    state: State
    versions: Mapping[str, int]
    """Per policy, the version of the weights that the actor has once it has applied the state."""
    traced: int = 0
    """The number of the call if the actor shall say when it worked on it."""


NO_PIGGYBACK = Piggyback({}, {})


class Request(NamedTuple):
    """One call for items."""

    key: ChainKey
    program: nodes.Node | None
    """Sent with the first call to each incarnation only."""
    resume: Mapping[int, int]
    """Values that earlier incarnations have read, by position of the source: they are skipped."""
    fuse: bool
    most: int | TimeBudget | Polls
    """How many items to answer with; a fed shard answers with all that its input gives."""
    by_ref: bool
    """The driver does not look into the items: they may stay where they are made."""
    feed: tuple[Ready, ...]
    last: bool
    """No more input will come: give out what is held back."""


class Reply(NamedTuple):
    """The answer to one call. What was done before an error is kept."""

    items: list[object]
    origins: Sequence[Provenance]
    """Where each item comes from."""
    unused: int
    """Input that a shard was fed and will never use, because it has ended."""
    ended: bool
    error: TflowError | None
    env_steps: int
    readings: dict[int, Reading]
    """Totals so far, by position in the plan."""
    spans: tuple[WorkSpan, ...] = ()
    """When the actor has worked since its last answer, if the run is traced."""
    polls: int = 0
    """How often it was asked for an item; some polls show none."""


NOTHING = Reply([], [], 0, False, None, 0, {})


class ActorSite(Site):
    """An actor as a place where cells run, for one chain."""

    def __init__(self, host: Host, resume: Mapping[int, int], *, numbers_items: bool) -> None:
        super().__init__(shard=host.place, seed=str(host.shard.index))
        self.host = host
        self.actor = host.actor
        self.numbers_items = numbers_items
        self.resume = resume
        self.versions: Mapping[str, int] = {}
        self.spans = host.spans

    def stamp(self) -> Provenance:
        shard = self.host.shard
        source = Source(shard.actors, shard.index, shard.incarnation, self.host.made)
        self.host.made += 1
        return Provenance(frozenset((source,)), self.versions)


class Host:
    """One actor with its chains."""

    is_alone = False
    """The actor has a process of its own."""

    def __init__(self, make: Callable[[Shard], object], shard: Shard) -> None:
        self.shard = shard
        self.actor = make(shard)
        self.made = 0
        """How many items have come from it."""
        self.chains: dict[ChainKey, tuple[Cell, ActorSite]] = {}
        self.methods: dict[Callable[..., object], Callable[..., object]] = {}
        """The actor's own version of each method that was asked for."""
        self.spans: list[WorkSpan] | None = None
        """When it has worked, not yet told; None if nobody wants to know."""

    @property
    def place(self) -> str:
        return f"{self.shard.actors}[{self.shard.index}]"

    def do(self, method: str, piggyback: Piggyback, args: tuple[object, ...]) -> Reply:
        """Run one call. If the run is traced, the answer tells when it ran, and what was not told before."""
        run: Callable[..., Reply] = getattr(self, method)
        if not piggyback.traced:
            if self.spans:  # of a trace that is over, or of another run
                self.spans.clear()
            return run(piggyback, *args)
        if self.spans is None:
            self.spans = []
            for _, site in self.chains.values():
                site.spans = self.spans
        began = perf_counter_ns()
        try:
            reply = run(piggyback, *args)
        finally:
            self.spans.append(WorkSpan(method, began, perf_counter_ns(), piggyback.traced))
        told = tuple(self.spans)
        self.spans.clear()
        return reply._replace(spans=told)

    def pull(self, piggyback: Piggyback, request: Request) -> Reply:
        """Apply the state updates, then answer with items."""
        self.take(piggyback.state)
        if request.program is not None and request.key not in self.chains:
            self.chains[request.key] = self._built(request.program, request.resume, fuse=request.fuse)
        cell, site = self.chains[request.key]
        site.versions = piggyback.versions
        inboxes = [inbox for inbox in site.cells if isinstance(inbox, Inbox)]
        for inbox in inboxes:
            inbox.waiting.extend(request.feed)
            inbox.complete = request.last
        return self._answer(cell, site, request, inboxes)

    def _built(self, program: nodes.Node, resume: Mapping[int, int], *, fuse: bool) -> tuple[Cell, ActorSite]:
        """The cells of a program."""
        is_chain = fuse and all(
            (node.step is not None and not node.shows_more) or type(node) is nodes.Pulled for node in graph.walk(program)
        )
        site = ActorSite(self, resume, numbers_items=is_chain)
        return build(program, site, fuse=fuse), site

    def _answer(self, cell: Cell, site: ActorSite, request: Request, inboxes: list[Inbox]) -> Reply:
        items: list[object] = []
        origins: list[Provenance] = []
        ended, error, unused, polls = False, None, 0, 0
        is_full, before, seen = fills(request.most), self.made, cell.seen
        try:
            for answer in polled(cell, request.most):
                polls += 1
                if type(answer) is tuple:
                    items.append(answer[0])
                    origins.append(answer[1])
                elif answer is not SKIP:
                    ended = answer is DONE
                    break
                elif not items:
                    continue
                if is_full(answer):
                    break
        except TflowError as failure:
            error, polls = failure, polls + 1
        finally:
            if site.numbers_items:
                self.made += cell.seen - seen
        for inbox in inboxes if ended else ():
            unused += len(inbox.waiting)
            inbox.waiting.clear()
        readings = {node.position: reading for each in site.cells for node, reading in each.readings()}
        found = self._numbered(cast("list[int]", origins), before - seen, site.versions) if site.numbers_items else origins
        return Reply(items, found, unused, ended, error, 0 if inboxes else steps_of(items), readings, polls=polls)

    def _numbered(self, numbers: list[int], ahead: int, versions: Mapping[str, int]) -> CallOrigins:
        """Where items come from, given their numbers in the chain, which the numbers in the actor are ``ahead`` of."""
        if numbers and numbers[-1] - numbers[0] == len(numbers) - 1:
            found: Sequence[int] = range(numbers[0] + ahead, numbers[-1] + ahead + 1)
        else:
            found = [number + ahead for number in numbers]
        return CallOrigins(self.shard.actors, self.shard.index, self.shard.incarnation, versions, found)

    def arrive(self, piggyback: Piggyback) -> Reply:
        """Apply the state updates, and nothing else."""
        self.take(piggyback.state)
        return NOTHING

    def tell(self, piggyback: Piggyback, method: Callable[..., object], value: object) -> Reply:
        """Handle an event: call a method for its effect."""
        self.take(piggyback.state)
        self._call(method, value)
        return NOTHING

    def ask(self, piggyback: Piggyback, method: Callable[..., object]) -> Reply:
        """A question from outside the plan."""
        self.take(piggyback.state)
        return NOTHING._replace(items=[self._call(method)])

    def take(self, state: State) -> None:
        for (_, method), (_, value) in state.items():
            self._call(method, value)

    def _call(self, method: Callable[..., object], *args: object) -> object:
        own = self.methods.get(method) or bound(method, self.actor)
        if not isinstance(own, partial):  # a method of its class: there are only so many
            self.methods[method] = own
        began = perf_counter_ns()
        try:
            return own(*args)
        except Exception as error:
            raise OperatorError(name_of(method), item=0, cause=error, shard=self.place) from error
        finally:
            if self.spans is not None:
                self.spans.append(WorkSpan(name_of(method), began, perf_counter_ns()))

    def save(self, run: int, file: ArrayFile | None = None) -> Encoded | Written:
        """The state of the actor and of the chains that a run has in it; its arrays go into a file, if one is named that can be
        written from here."""
        from tflow.state.folders import Written, write_arrays
        from tflow.state.values import Encoded, StateEncoder, random_numbers, state_of

        encoder, names = StateEncoder(), CheckpointNames()
        chains = [
            {
                "position": position,
                "link": link,
                "resume": encoder.tree(dict(site.resume)),
                "cells": [encoder.part(f"{cell.node.label} in {self.place}", cell.state(names)) for cell in site.cells],
            }
            for (owner, position, link), (_, site) in self.chains.items()
            if owner == run
        ]
        actor = encoder.part(self.place, state_of(self.actor))
        dice = encoder.tree(random_numbers() if self.is_alone else None)
        tree = {"made": self.made, "chains": chains, "actor": actor, "random": dice}
        if file is None or not file.path.parent.is_dir():
            return Encoded(tree, encoder.arrays)
        return Written(tree, file.path.name, write_arrays(file, encoder.arrays))

    def load(self, run: int, fuse: bool, programs: Sequence[tuple[tuple[int, int], nodes.Node]], encoded: Encoded) -> None:
        """Go on as the host whose state this was."""
        from tflow.state.values import decode, load_into, load_random_numbers

        state = decode(encoded)
        self.forget(run)  # if it is given to it once more
        found, names = dict(programs), CheckpointNames()
        for chain in state["chains"]:
            key = (chain["position"], chain["link"])
            _, site = self.chains[run, *key] = self._built(found[key], chain["resume"], fuse=fuse)
            for cell, saved in zip(site.cells, chain["cells"], strict=True):
                cell.load(saved, names)
            for cell in site.cells:
                cell.start()
        load_into(self.actor, state["actor"])  # after the sources, whose generators may have used the actor
        self.made = state["made"]
        if self.is_alone and state["random"] is not None:
            load_random_numbers(state["random"])

    def forget(self, run: int) -> None:
        """A run is over: drop its chains."""
        attempt_all([self.chains.pop(key)[0].close for key in list(self.chains) if key[0] == run])

    def close(self) -> None:
        """Close the actor if it knows how to."""
        close = getattr(self.actor, "close", None)
        if callable(close):
            close()


def name_of(method: Callable[..., object]) -> str:
    """What traces and errors call a method."""
    return str(getattr(method, "__qualname__", repr(method)))


def polled(cell: Cell, most: int | TimeBudget | Polls) -> Iterator[Answer]:
    """The answers of a cell, as far as a call may read them."""
    if most == 0:
        return iter(())
    return islice(cell.stream, most) if isinstance(most, Polls) else cell.stream


def fills(most: int | TimeBudget | Polls) -> Callable[[Answer], bool]:
    """What says, after each answer of a cell from the first item on, whether that of the call is full."""
    bounds = most if isinstance(most, TimeBudget) else TimeBudget(0.0, EVERYTHING if type(most) is Polls else most, 0.0)
    clock = time.perf_counter
    until, bytes_left, items_left = clock() + bounds.seconds, bounds.megabytes * 2**20, bounds.items

    def is_full(answer: Answer) -> bool:
        nonlocal bytes_left, items_left
        if type(answer) is tuple:
            items_left -= 1
            bytes_left -= 16 if type(answer[0]) in NUMBERS else bytes_in(answer[0])
        return items_left <= 0 or bytes_left <= 0 or clock() >= until

    def is_enough(answer: Answer) -> bool:
        nonlocal items_left
        items_left -= type(answer) is tuple
        return items_left <= 0

    return is_full if isinstance(most, TimeBudget) else is_enough


NUMBERS = {int, float, bool, type(None)}


def bytes_in(value: object) -> int:
    """Roughly how much memory a value takes: arrays are what counts."""
    if type(value) in NUMBERS:
        return 16
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    if isinstance(value, (str, bytes, bytearray)):
        return len(value)
    if isinstance(value, dict):
        return sum(map(bytes_in, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return sum(map(bytes_in, value))
    return 16 + sum(map(bytes_in, getattr(value, "__dict__", {}).values()))
