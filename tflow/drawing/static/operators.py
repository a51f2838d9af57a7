"""What each operator of a stream adds to a drawing: the same nodes, with the same labels, as it adds to a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from string import Formatter
from typing import TYPE_CHECKING

from mypy import nodes as m
from mypy.types import Instance, TupleType, Type, get_proper_type

from tflow.drawing.model import Where
from tflow.drawing.static import labels
from tflow.drawing.static.values import Carried, Constant, Opaque, Split, Stream, Value, streams_in

if TYPE_CHECKING:
    from tflow.drawing.static.arguments import Call

Drawn = Callable[["Call", Stream], Value]

SHAPES = {
    "map": "map({fn})",
    "filter": "filter({fn})",
    "tap": "tap({fn})",
    "flat_map": "flat_map({fn})",
    "scan": "scan({fn})",
    "for_each": "for_each({op})",
    "with_columns": "for_each({op})",
    "batch": "batch({size})",
    "flatten": "flatten()",
    "take": "take({count})",
    "shuffle": "shuffle({buffer})",
    "zip": "zip()",
    "drain": "drain()",
    "call": "call({actor}, {op})",
    "hand_off": "hand_off({actor}, {op})",
    "gather_sync": "gather_sync()",
    "gather_rounds": "gather_rounds()",
    "gather_async": "gather_async()",
}
"""Labels by method; what is in braces are its first arguments, in order. ``par_map`` is ``map`` inside actors, and so on."""
FIELDS = {
    "fn": labels.function,
    "op": labels.operator,
    "actor": labels.actor,
    "size": labels.number,
    "count": labels.number,
    "buffer": labels.number,
}
TITLED = ("Select(", "ConcatBatches(", "ConcatRounds(")
"""Labels that say which class made the node, and stay when the node is named."""
INSIDE = ("map", "filter", "tap", "flat_map", "scan", "for_each", "with_columns", "batch", "flatten", "take", "shuffle", "zip")
"""Those that exist inside actors too."""


def shaped(shape: str, prefix: str = "") -> Drawn:
    """A method that adds one node."""
    fields = [field for _, field, _, _ in Formatter().parse(shape) if field]

    def draw(call: Call, stream: Stream) -> Value:
        shown = {field: call.label(index, field, FIELDS[field]) for index, field in enumerate(fields)}
        carried = call.carried.but(kind=call.carried.kind or kind_after(call.name, stream.carried))
        where: Where | None = "learner" if "{actor}" in shape else None
        inputs = [*call.draft.edges(stream), *call.edges()]
        return call.draft.add(prefix + shape.format(**shown), inputs, carried, where=where, line=call.line)

    return draw


def kind_after(method: str, before: Carried) -> str:
    """The kind of stream that a method makes, for calls that mypy has no type for."""
    if method.startswith(("gather_", "split")):
        return "Iter"
    return "ParIter" if method.startswith("par_") else before.kind


def every(call: Call, stream: Stream) -> Value:
    """``every(items=10)``: the unit is part of its name."""
    given = [(arg.name, labels.number(call.reader, arg.expr, arg.value)) for arg in call.arguments if arg.name]
    label = f"every({', '.join(f'{unit}={amount}' for unit, amount in given)})"
    return call.draft.add(label, call.draft.edges(stream), call.carried, line=call.line)


def select_shards(call: Call, stream: Stream) -> Value:
    chosen = ", ".join(labels.number(call.reader, arg.expr, arg.value) for arg in call.arguments)
    return call.draft.add(f"select_shards({chosen})", call.draft.edges(stream), call.carried, line=call.line)


def repartition(call: Call, stream: Stream) -> Value:
    """The driver gathers items, and deals them out."""
    shards = call.label(0, "shards", labels.number)
    driver = Carried("Iter", stream.carried.element, "Async")
    gathered = call.draft.add("gather_async()", call.draft.edges(stream), driver, line=call.line)
    carried = call.carried if call.carried.kind else Carried("ParIter", stream.carried.element, "Async")
    return call.draft.add(f"repartition({shards})", call.draft.edges(gathered), carried, line=call.line)


def named(call: Call, stream: Stream) -> Value:
    """The node before, with a name; the one without is not in the plan."""
    before = call.draft.nodes[stream.node]
    name = call.label(0, "name", labels.number)
    if before.kind != "operator":  # what stands for several nodes, or comes from outside, cannot be copied
        return stream
    label = before.label.split(" '")[0]
    label = label if label.startswith(TITLED) else f"{label} '{name}'"
    made = call.draft.add(label, before.inputs, stream.carried, where=before.where, line=before.line)
    before.wanted = False
    return replace(made, mark=stream.mark)


def split(call: Call, stream: Stream) -> Value:
    """The branches; a parallel stream is gathered first."""
    draft, inside = call.draft, stream.carried.kind == "ParIter"
    count = call.value(0, "n")
    branches, branch = branch_type(call.type)
    if isinstance(count, Constant) and isinstance(count.value, int):
        branches = count.value
    elif count is None:
        branches = branches or 2
    if not branch.kind:
        branch = Carried("Iter", stream.carried.element, stream.carried.gathered)
    inputs = draft.edges(stream)
    if inside:
        gathered = Carried("Iter", stream.carried.element, stream.carried.gathered)
        inputs = draft.edges(draft.add("gather_sync()", inputs, gathered, line=call.line))
    shown = call.label(0, "n", labels.number) if count is not None else str(branches)
    made = draft.add(f"split({shown})", inputs, branch, line=call.line)
    return Split(made.node, branches, branch)


def branch_type(given: Type | None) -> tuple[int | None, Carried]:
    """How many branches a tuple type has, and what they are."""
    proper = get_proper_type(given)
    if isinstance(proper, TupleType) and proper.items:
        return len(proper.items), Carried.by(proper.items[0])
    if isinstance(proper, Instance) and proper.args:
        return None, Carried.by(proper.args[0])
    return None, Carried()


METHODS: dict[str, Drawn] = {
    **{name: shaped(shape) for name, shape in SHAPES.items()},
    **{f"par_{name}": shaped(SHAPES[name], "par_") for name in INSIDE},
    "every": every,
    "select_shards": select_shards,
    "repartition": repartition,
    "named": named,
    "split": split,
}
LOOKING = {"run", "validate", "fingerprint", "deterministic", "node"}
"""What streams have besides: these make no stream."""
TELLING = {name for name in METHODS if name.startswith(("par_", "gather_"))} | {"for_each", "with_columns", "hand_off"}
"""Methods that only streams have: what has no type but is asked for one of these is a stream."""


def unlisted(call: Call, stream: Stream) -> Value:
    """A method that some class derived from a stream has."""
    inputs = [*call.draft.edges(stream), *call.edges()]
    if not call.makes_streams:
        return stream if call.is_any else call.nothing
    made = call.draft.add(f"{call.name}(...)", inputs, call.carried, kind="flow", line=call.line)
    return made if call.carried.kind else Opaque(made.node)


def method(call: Call, stream: Stream) -> Value:
    """What a call of a method of a stream adds."""
    if call.name in METHODS:
        return METHODS[call.name](call, stream)
    return call.nothing if call.name in LOOKING else unlisted(call, stream)


def receiver(call: Call, value: Value, expr: m.Expression | None) -> Stream | None:
    """The one stream whose method is called."""
    if isinstance(value, Stream):
        return value
    carried = Carried.by(call.reader.program.type_of(expr)) if expr is not None else None
    known = carried if carried is not None and carried.kind else None
    if isinstance(value, Opaque):
        return Stream(value.node, known or call.draft.nodes[value.node].carried, value.mark)
    if not streams_in(value):
        return None
    return call.reader.one_of(value, call.reader.text(expr) if expr is not None else "...", known, call.line)
