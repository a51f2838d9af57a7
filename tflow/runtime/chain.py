"""Linear chains of per-item operators, fused into one generated loop.

A chain of five maps costs one generator step and five calls, like the loop one would write by hand. The loop is generated
as source, one line per operator: when an operator raises, the line number of the traceback says which one it was, so naming
the culprit costs nothing until then. The first item and one in 64 take the slow path that measures each operator; if operators
turn out to be slow, every item does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from time import perf_counter_ns
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, cast

from tflow.combinators import nodes
from tflow.combinators.signatures import signature_of
from tflow.combinators.travel import own_copy
from tflow.errors import OperatorError, PlanError, TflowError
from tflow.runtime.answers import DONE, SKIP, Answer
from tflow.runtime.cell import Cell, Site, close_iterator
from tflow.runtime.observer import WorkSpan
from tflow.runtime.stats import Reading
from tflow.types import NOWHERE, ActorOp, AnyOp, Provenance, Stateful, StatefulActorOp, Stateless

if TYPE_CHECKING:
    from tflow.runtime.checkpoint_names import CheckpointNames

OriginKind = Literal["nowhere", "stamp", "number"]
SAMPLE = 64
"""One item in so many is measured."""
SLOW_NS = 20_000
"""From here on measuring costs less than 1 %, so every item is measured."""
MOST_LEFT = 100_000
"""Items that an operator may show at the end of its input; one with more of them may never come to an end."""


class Step(NamedTuple):
    """One operator of a chain: a function and how its result is used."""

    node: nodes.Node
    kind: nodes.StepKind
    fn: Callable[..., object]
    initial: Callable[[], object] | None = None
    at_end: Callable[[object], Iterable[object]] | None = None
    """What is left in the state when the input has ended; None for operators that hold nothing back."""


def step_of(node: nodes.Node, site: Site) -> Step:
    """The step that runs a per-item operator at ``site``."""
    if node.operator is not None:
        return _operator_step(node, node.operator, site)
    fn = getattr(node, "fn", None)
    if node.step is None or not callable(fn):
        raise PlanError(f"{node.label}: a node that fuses needs a function in its field fn; {type(node).__name__} has {fn!r}.")
    initial = partial(copy.deepcopy, getattr(node, "initial", None)) if node.step == "scan" else None
    return Step(node, node.step, fn, initial)


def _operator_step(node: nodes.Node, op: AnyOp, site: Site) -> Step:
    if isinstance(op, (ActorOp, StatefulActorOp)):
        signature = signature_of(op)
        wanted = signature.actor
        if isinstance(wanted, type) and not isinstance(site.actor, wanted):
            raise PlanError(
                f'"{signature.label}" works beside a {wanted.__name__}, but shard {site.shard} is a {type(site.actor).__name__}.'
            )
    op = own_copy(op)
    match op:
        case Stateless():
            return Step(node, "map", op.apply)
        case Stateful():
            return Step(node, "step", op.step, op.init, op.at_end if node.shows_more else None)
        case ActorOp():
            return Step(node, "map", partial(op.apply, site.actor))
        case StatefulActorOp():
            at_end = partial(op.at_end, site.actor) if node.shows_more else None
            return Step(node, "step", partial(op.step, site.actor), op.init, at_end)
        case _:
            raise TypeError(op)


def first_state(site: Site, node: nodes.Node, init: Callable[[], object]) -> object:
    """The state before the first item."""
    try:
        return init()
    except Exception as error:
        raise site.blame(node, 0, error) from error


class SourceCell(Cell):
    """Where a stream begins: a Python iterator. It is read by the chain after it, in one loop with the chain's operators."""

    made_anew: ClassVar[frozenset[str]] = frozenset({"opened", "was_opened"})
    more = True
    origin: OriginKind = "nowhere"
    """What goes along with an item: that it is the driver's own, its provenance, or its number, of which its provenance is made
    when the call is answered."""
    took_ns = 0
    """How long the last measured item took to read."""
    opened: Iterator[object] | None = None
    was_opened = False
    """Of a cell that goes on for another: that one had begun to read."""

    @property
    def values(self) -> Iterator[object]:
        """What is read; opened at the first poll."""
        if self.opened is None:
            self.opened = self.open()
        return self.opened

    def open(self) -> Iterator[object]:
        """The iterator to read."""
        raise NotImplementedError

    def answers(self) -> Iterator[Answer]:
        raise NotImplementedError
        yield

    def state(self, names: CheckpointNames) -> dict[str, Any]:  # Any: as in the base class
        return {**super().state(names), "was_opened": self.was_opened or self.opened is not None}

    def load(self, state: dict[str, Any], names: CheckpointNames) -> None:  # Any: as above
        self.was_opened = state.pop("was_opened")
        super().load(state, names)

    def skip(self, count: int) -> None:
        """Go on behind the first ``count`` values, which were read before."""
        for _ in islice(self.values, count):
            continue

    def close(self) -> None:
        if not self.closed:
            super().close()
            try:
                close_iterator(self.opened)
            except Exception as error:
                raise self.site.blame(self.node, self.seen, error) from error

    def read(self, reader: Chain) -> Answer:
        """Read one item against the clock."""
        start = perf_counter_ns()
        value = next(self.values, _END)
        if value is _END:
            self.more = False
            return DONE
        self.took_ns = perf_counter_ns() - start
        self.busy_ns += self.took_ns * (reader.seen + 1 - reader.measured_at)
        if self.site.spans is not None:
            self.site.spans.append(WorkSpan(self.site.position(self.node), start, start + self.took_ns))
        return value, cast("Provenance", reader.seen) if self.origin == "number" else self.stamp()

    def stamp(self) -> Provenance:
        """Where the item in hand comes from."""
        return NOWHERE

    def readings(self) -> Iterator[tuple[nodes.Node, Reading]]:
        return iter(())


_END = object()


class Chain(Cell):
    """Several per-item operators in one cell; directly after a source, the reading is part of the same loop."""

    made_anew: ClassVar[frozenset[str]] = frozenset({"steps", "source"})

    def __init__(self, steps: list[Step], up: Cell, site: Site) -> None:
        self.steps = steps
        self.states = [first_state(site, step.node, step.initial) if step.initial else None for step in steps]
        self.rejected = [0] * len(steps)
        self.busy = [0] * len(steps)
        self.quick = 0
        """How many items go by before the next one that is measured; the first one is."""
        self.measured_at = 0
        self.source = up if isinstance(up, SourceCell) else None
        super().__init__(steps[-1].node if steps else up.node, (up,), site)

    def answers(self) -> Iterator[Answer]:
        loop = fused(
            tuple(step.kind for step in self.steps), self.source is not None, self.source.origin if self.source else "nowhere"
        )
        functions = (step.fn for step in self.steps)
        return loop(self, self.source or self.ups[0].stream, self.states, self.rejected, *functions)

    def load(self, state: dict[str, Any], names: CheckpointNames) -> None:  # Any: as in the base class
        super().load(state, names)
        if self.source is not None and self.source.was_opened and not self.source.closed:
            self.source.skip(self.seen)

    def measured(self, answer: Answer) -> Answer:
        """The slow path: the same steps, one at a time, each against the clock."""
        if type(answer) is not tuple:
            return answer
        self.seen += 1
        stands_for, self.measured_at = self.seen - self.measured_at, self.seen
        value, origin = answer
        keep = True
        spans = self.site.spans
        begin = start = perf_counter_ns()
        for index, (node, kind, fn, *_) in enumerate(self.steps):
            try:
                value, keep = self._apply(index, kind, fn, value)
            except Exception as error:
                raise self.site.blame(node, self.item(index), error) from error
            now = perf_counter_ns()
            self.busy[index] += (now - start) * stands_for
            if spans is not None:
                spans.append(WorkSpan(self.site.position(node), start, now))
            start = now
            if not keep:
                break
        took = start - begin + (self.source.took_ns if self.source else 0)
        self.quick = 0 if took >= SLOW_NS else SAMPLE - 1 - self.seen % SAMPLE
        return (value, origin) if keep else SKIP

    def _apply(self, index: int, kind: str, fn: Callable[..., object], value: object) -> tuple[object, bool]:
        if kind == "map":
            return fn(value), True
        if kind == "tap":
            fn(value)
            return value, True
        if kind == "scan":
            self.states[index] = fn(self.states[index], value)
            return self.states[index], True
        if kind == "step":
            result = fn(self.states[index], value)
            if not isinstance(result, tuple) or len(result) != 2:
                raise TypeError(f"step must return a pair, (state, item): got {result!r}")
            self.states[index], value = result
            return value, True
        if fn(value):
            return value, True
        self.rejected[index] += 1
        return value, False

    def blame(self, error: Exception) -> None:
        """Raise the error of the operator whose line failed; return if the failure came from upstream."""
        assert error.__traceback__ is not None
        index = error.__traceback__.tb_lineno - FIRST_LINE
        if 0 <= index < len(self.steps):
            step = self.steps[index]
            if step.kind == "step" and error.__traceback__.tb_next is None:  # raised by our line, not by the operator's method
                error = TypeError(f"step must return a pair, (state, item): {error}")
            raise self.site.blame(step.node, self.item(index), error) from error
        if self.source is not None and not isinstance(error, TflowError):
            raise self.site.blame(self.source.node, self.seen, error) from error
        if self.source is not None and not isinstance(error, OperatorError):  # ours, and a sentence, but it may name no place
            place = "on the driver" if self.site.shard is None else f"in shard {self.site.shard}"
            error.add_note(f"Raised by {self.source.node.label} {place}, item {self.seen}.")

    def item(self, index: int) -> int:
        """The number of the item that operator ``index`` has in hand, from 0."""
        return self.seen - sum(self.rejected[:index]) - 1

    def readings(self) -> Iterator[tuple[nodes.Node, Reading]]:
        seen = self.seen
        if self.source is not None:
            yield self.source.node, Reading(seen, seen, self.source.busy_ns, 0)
        for step, rejected, busy in zip(self.steps, self.rejected, self.busy, strict=True):
            if step.at_end is None:  # else the cell behind says how many it has shown
                yield step.node, Reading(seen, seen - rejected, busy, 0)
            seen -= rejected


class AtEnd(Cell):
    """What the last operator of a chain holds back comes after the last item."""

    made_anew: ClassVar[frozenset[str]] = frozenset({"chain"})

    def __init__(self, chain: Chain, site: Site) -> None:
        self.chain = chain
        self.origin: Provenance | None = None
        """Of the last item: what is left is stamped as if it had been shown with it."""
        self.left: list[object] | None = None
        """None until the input has ended."""
        super().__init__(chain.node, (chain,), site)

    def answers(self) -> Iterator[Answer]:
        while True:
            answer = self.chain.poll() if self.left is None else DONE
            if type(answer) is tuple:
                self.seen += 1
                self.origin = answer[1]
            elif answer is DONE and self.left is None:
                last = self.chain.steps[-1]
                assert last.at_end is not None
                self.left = rest_of(self.site, self.node, self.seen, partial(last.at_end, self.chain.states[-1]))
            if answer is DONE and self.left:
                self.origin = self.origin or self.site.stamp()
                answer = self.left.pop(0), self.origin
            self.shown += type(answer) is tuple
            yield answer

    def readings(self) -> Iterator[tuple[nodes.Node, Reading]]:
        yield self.node, Reading(self.seen, self.shown, self.chain.busy[-1], len(self.left or ()))


def rest_of(site: Site, node: nodes.Node, seen: int, at_end: Callable[[], Iterable[object]]) -> list[object]:
    """What an operator has left after its last item."""
    try:
        left = list(islice(at_end(), MOST_LEFT + 1))
        if len(left) > MOST_LEFT:
            raise ValueError(f"at_end gives more than {MOST_LEFT:,} items; what an operator holds back has a bound")
    except Exception as error:
        raise site.blame(node, max(0, seen - 1), error) from error
    return left


# Both heads have the same number of lines, so that an operator's line does not depend on which one stands before it.
FROM_STREAM = """\
def answers(cell, upstream, states, rejected{functions}):
    try:
        while True:
            for answer in islice(upstream, cell.quick):
                if type(answer) is not tuple: yield answer; continue
                value, origin = answer
                cell.seen += 1
"""
FROM_SOURCE = """\
def answers(cell, source, states, rejected{functions}):
    try:
        origin, values = NOWHERE, source.values
        while source.more:
            for value in islice(values, cell.quick):
                {stamp}
                cell.seen += 1
"""
STAMPS: dict[OriginKind, str] = {
    "nowhere": "# what the driver makes comes from nowhere",
    "stamp": "origin = source.stamp()",
    "number": "origin = cell.seen",
}
FIRST_LINE = FROM_STREAM.count("\n") + 1
LINES = {
    "map": "value = f{i}(value)",
    "tap": "f{i}(value)",
    "scan": "states[{i}] = value = f{i}(states[{i}], value)",
    "step": "states[{i}], value = f{i}(states[{i}], value)",
    "filter": "if not f{i}(value): rejected[{i}] += 1; yield SKIP; continue",
}
TAIL = """\
                yield value, origin
            yield cell.measured({next})
    except Exception as error:
        cell.blame(error)
        raise
    while True:
        yield DONE
"""
_compiled: dict[tuple[object, ...], Callable[..., Iterator[Answer]]] = {}


def fused(kinds: tuple[str, ...], reads: bool, origin: OriginKind) -> Callable[..., Iterator[Answer]]:
    """The generated loop for a chain of these kinds of steps: over a stream, or straight from a source that it ``reads``."""
    key = (kinds, reads, origin)
    if key not in _compiled:
        functions = "".join(f", f{i}" for i in range(len(kinds)))
        head = (FROM_SOURCE if reads else FROM_STREAM).format(functions=functions, stamp=STAMPS[origin])
        body = "".join(f"                {LINES[kind].format(i=i)}\n" for i, kind in enumerate(kinds))
        tail = TAIL.format(next="source.read(cell)" if reads else "next(upstream)")
        namespace: dict[str, object] = {"islice": islice, "SKIP": SKIP, "DONE": DONE, "NOWHERE": NOWHERE}
        exec(compile(head + body + tail, "<tflow chain>", "exec"), namespace)  # no text of a user is in it
        _compiled[key] = cast("FunctionType", namespace["answers"])
    return _compiled[key]
