"""Linear chains of per-item operators, fused into one generated loop.

A chain of five maps costs one generator step and five calls, like the loop one would write by hand. The loop is generated
as source, one line per operator: when an operator raises, the line number of the traceback says which one it was, so naming
the culprit costs nothing until then. One item in 64 takes the slow path that measures each operator; if operators turn out
to be slow, every item does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from time import perf_counter_ns
from types import FunctionType
from typing import Literal, NamedTuple, cast

from tflow.combinators import nodes
from tflow.combinators.validate import actor_class_of
from tflow.errors import PlanError
from tflow.runtime.answers import SKIP, Answer
from tflow.runtime.cell import Cell, Site
from tflow.runtime.stats import Reading
from tflow.types import ActorOp, Op, Stateful, StatefulActorOp, Stateless

SAMPLE = 64
"""One item in so many is measured."""
SLOW_NS = 20_000
"""From here on measuring costs less than 1 %, so every item is measured."""


class Step(NamedTuple):
    """One operator of a chain: a function and how its result is used."""

    node: nodes.Node
    kind: Literal["map", "filter", "tap", "scan", "step"]
    fn: Callable[..., object]
    initial: Callable[[], object] | None = None


def step_of(node: nodes.Node, site: Site) -> Step | None:
    """The step that runs ``node`` at ``site``; None if it is not a per-item operator."""
    match node:
        case nodes.Map(fn=fn):
            return Step(node, "map", fn)
        case nodes.Filter(fn=fn):
            return Step(node, "filter", fn)
        case nodes.Tap(fn=fn):
            return Step(node, "tap", fn)
        case nodes.Scan(fn=fn, initial=initial):
            return Step(node, "scan", fn, partial(copy.deepcopy, initial))
        case nodes.ForEach(op=op):
            return _operator_step(node, op, site)
        case _:
            return None


def _operator_step(node: nodes.Node, op: Op[object, object, object], site: Site) -> Step | None:
    if isinstance(op, (ActorOp, StatefulActorOp)):
        wanted = actor_class_of(op)
        if wanted is not None and not isinstance(site.actor, wanted):
            raise PlanError(
                f'"{type(op).__name__}" works beside a {wanted.__name__}, but shard {site.shard} is a '
                f"{type(site.actor).__name__}."
            )
    match op:
        case Stateless():
            return Step(node, "map", op.apply)
        case Stateful():
            return Step(node, "step", op.step, op.init)
        case ActorOp():
            return Step(node, "map", partial(op.apply, site.actor))
        case StatefulActorOp():
            return Step(node, "step", partial(op.step, site.actor), op.init)
        case _:
            return None


class Chain(Cell):
    """Several per-item operators in one cell."""

    def __init__(self, steps: list[Step], up: Cell, site: Site) -> None:
        self.steps = steps
        self.states = [step.initial() if step.initial else None for step in steps]
        self.rejected = [0] * len(steps)
        self.busy = [0] * len(steps)
        self.quick = SAMPLE - 1
        """How many items go by unmeasured between two that are measured."""
        self.measured_at = 0
        super().__init__(steps[-1].node, (up,), site)

    def answers(self) -> Iterator[Answer]:
        return fused(tuple(step.kind for step in self.steps))(
            self, self.ups[0].stream, self.states, self.rejected, *(step.fn for step in self.steps)
        )

    def measured(self, answer: Answer) -> Answer:
        """The slow path: the same steps, one at a time, each against the clock."""
        if type(answer) is not tuple:
            return answer
        self.seen += 1
        stands_for, self.measured_at = self.seen - self.measured_at, self.seen
        value, origin = answer
        keep = True
        begin = start = perf_counter_ns()
        for index, (node, kind, fn, _) in enumerate(self.steps):
            try:
                value, keep = self._apply(index, kind, fn, value)
            except Exception as error:
                raise self.site.blame(node, self.item(index), error) from error
            now = perf_counter_ns()
            self.busy[index] += (now - start) * stands_for
            start = now
            if not keep:
                break
        self.quick = 0 if start - begin >= SLOW_NS else SAMPLE - 1
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
            self.states[index], value = cast("tuple[object, object]", fn(self.states[index], value))
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
            raise self.site.blame(self.steps[index].node, self.item(index), error) from error

    def item(self, index: int) -> int:
        """The number of the item that operator ``index`` has in hand, from 0."""
        return self.seen - sum(self.rejected[:index]) - 1

    def readings(self) -> Iterator[tuple[nodes.Node, Reading]]:
        seen = self.seen
        for step, rejected, busy in zip(self.steps, self.rejected, self.busy, strict=True):
            yield step.node, Reading(seen, seen - rejected, busy, 0)
            seen -= rejected


HEAD = """\
def answers(cell, upstream, states, rejected, {functions}):
    try:
        while True:
            for answer in islice(upstream, cell.quick):
                if type(answer) is not tuple:
                    yield answer
                    continue
                value, origin = answer
                cell.seen += 1
"""
FIRST_LINE = HEAD.count("\n") + 1
LINES = {
    "map": "value = f{i}(value)",
    "tap": "f{i}(value)",
    "scan": "states[{i}] = value = f{i}(states[{i}], value)",
    "step": "states[{i}], value = f{i}(states[{i}], value)",
    "filter": "if not f{i}(value): rejected[{i}] += 1; yield SKIP; continue",
}
TAIL = """\
            yield cell.measured(next(upstream))
    except Exception as error:
        cell.blame(error)
        raise
"""
_compiled: dict[tuple[str, ...], Callable[..., Iterator[Answer]]] = {}


def fused(kinds: tuple[str, ...]) -> Callable[..., Iterator[Answer]]:
    """The generated loop for a chain of these kinds of steps."""
    if kinds not in _compiled:
        lines = [LINES[kind].format(i=i) for i, kind in enumerate(kinds)] + ["yield value, origin"]
        functions = ", ".join(f"f{i}" for i in range(len(kinds)))
        body = "".join(f"                {line}\n" for line in lines)
        namespace: dict[str, object] = {"islice": islice, "SKIP": SKIP}
        source = HEAD.format(functions=functions) + body + TAIL  # no text of a user is in it
        exec(compile(source, "<tflow chain>", "exec"), namespace)
        _compiled[kinds] = cast("FunctionType", namespace["answers"])
    return _compiled[kinds]
