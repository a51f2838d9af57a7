"""What each kind of expression is worth."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mypy import nodes as m

from tflow.drawing.model import shorter
from tflow.drawing.static import calls, operators
from tflow.drawing.static.source import is_object, parts
from tflow.drawing.static.values import (
    UNKNOWN,
    Bound,
    Callee,
    Carried,
    Choice,
    Constant,
    Described,
    Item,
    Opaque,
    Several,
    Split,
    Stream,
    Value,
    joined,
    streams_in,
)

if TYPE_CHECKING:
    from tflow.drawing.static.reader import Reader

Read = Callable[["Reader", Any], Value]  # Any: the kind of expression that it is listed for
SINGLETONS = {"builtins.True": True, "builtins.False": False, "builtins.None": None}
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {  # Any: whole or other numbers
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "/": operator.truediv,
    "%": operator.mod, "**": operator.pow,
}  # fmt: skip
LARGEST = 1e15
"""No operator takes larger numbers, and nobody waits for them."""


def constant(reader: Reader, expr: m.IntExpr | m.FloatExpr | m.StrExpr) -> Value:
    return Constant(expr.value)


def name(reader: Reader, expr: m.NameExpr) -> Value:
    """A variable of this function, of one around it, or of a module; or a function."""
    if expr.fullname in SINGLETONS:
        return Constant(SINGLETONS[expr.fullname])
    if expr.name in reader.scope:
        return reader.scope[expr.name]
    return reader.from_elsewhere(expr)


def member(reader: Reader, expr: m.MemberExpr) -> Value:
    """An attribute: of a module, of an object with streams in its fields, or a method that may be called."""
    written = reader.text(expr)
    if written in reader.scope:
        return reader.scope[written]
    if isinstance(expr.expr, m.RefExpr) and isinstance(expr.expr.node, m.MypyFile):
        return reader.from_elsewhere(expr)
    owner = reader.value(expr.expr, whole=not is_object(reader.program.type_of(expr.expr)))
    match owner:
        case Opaque(node=node, mark=mark) if reader.program.is_stream(expr):
            return Stream(node, Carried.by(reader.program.type_of(expr)), mark)
        case Opaque() if reader.program.has_streams(expr):
            return owner
        case Several(items=items):
            found = next((item for item in items if item.key == expr.name), None)
            return Bound(owner, expr.name) if found is None else found.value
        case Described(name=actors) if expr.name == "name":
            return Constant(actors)
        case _ if streams_in(owner):
            return Bound(owner, expr.name)
        case _ if expr.name in operators.TELLING and reader.program.is_any(expr.expr):
            return Bound(reader.comes_in(expr.expr), expr.name)
        case _:
            return UNKNOWN


def index(reader: Reader, expr: m.IndexExpr) -> Value:
    """``streams[0]``, ``streams["a"]``."""
    owner = reader.value(expr.base)
    key = reader.value(expr.index) if not isinstance(expr.index, m.SliceExpr) else UNKNOWN
    if not streams_in(owner):
        return UNKNOWN
    if isinstance(expr.index, m.SliceExpr):
        return sliced(reader, owner, expr)
    known = key.value if isinstance(key, Constant) and isinstance(key.value, (int, str)) else None
    return reader.member(owner, known, expr, expr.base)


def sliced(reader: Reader, owner: Value, expr: m.IndexExpr) -> Value:
    """Some of several, as far as the bounds are known; else all of them."""
    bounds = expr.index
    if isinstance(owner, Split) and owner.branches is not None:
        owner = Several(tuple(Item(reader.draft.branch(owner, n)) for n in range(owner.branches)))
    if not isinstance(owner, Several) or not isinstance(bounds, m.SliceExpr):
        return owner
    found = [None if each is None else reader.value(each) for each in (bounds.begin_index, bounds.end_index, bounds.stride)]
    numbers = [each.value if isinstance(each, Constant) and isinstance(each.value, int) else None for each in found]
    unknown = any(each is not None and number is None for each, number in zip(found, numbers, strict=True))
    return owner if unknown or numbers[2] == 0 else replace(owner, items=owner.items[slice(*numbers)])


def display(reader: Reader, expr: m.TupleExpr | m.ListExpr | m.SetExpr) -> Value:
    """``(a, b)``, ``[a, *rest]``."""
    items: list[Item] = []
    for each in expr.items:
        if not isinstance(each, m.StarExpr):
            items.append(Item(reader.value(each)))
            continue
        value = reader.value(each.expr)
        items.extend(value.items if isinstance(value, Several) else [Item(value, "*")])
    return Several(tuple(items))


def dictionary(reader: Reader, expr: m.DictExpr) -> Value:
    items: list[Item] = []
    for key, value in expr.items:
        found = reader.value(value)
        if key is None:  # **others
            items.extend(found.items if isinstance(found, Several) else [Item(found, "*")])
            continue
        known = reader.value(key)
        fixed = known.value if isinstance(known, Constant) and isinstance(known.value, (str, int)) else None
        items.append(Item(found, "", fixed))
    return Several(tuple(items), keyed=True)


def conditional(reader: Reader, expr: m.ConditionalExpr) -> Value:
    """``a if condition else b``: both are drawn."""
    reader.value(expr.cond)
    either = [(f"if {shorter(reader.text(expr.cond), 32)}", reader.value(expr.if_expr)), ("else", reader.value(expr.else_expr))]
    return joined(either, "if", expr.line)


def operation(reader: Reader, expr: m.OpExpr) -> Value:
    """``a or b`` is one of both; lists are added; numbers are computed."""
    left, right = reader.value(expr.left), reader.value(expr.right)
    if expr.op in ("or", "and"):
        return joined([("", left), (expr.op, right)], expr.op, expr.line)
    if isinstance(left, Several) and isinstance(right, Several) and expr.op == "+":
        return replace(left, items=(*left.items, *right.items))
    if streams_in(left) or streams_in(right):
        return anything(reader, expr, [left, right])
    return computed(expr.op, left, right)


def computed(op: str, left: Value, right: Value) -> Value:
    """The result of arithmetic on constants."""
    values = [each.value for each in (left, right) if isinstance(each, Constant)]
    if len(values) < 2 or op not in ARITHMETIC or not all(type(value) in (int, float) for value in values):
        return UNKNOWN
    if any(abs(float(value or 0)) > LARGEST for value in values) or (op == "**" and abs(float(values[1] or 0)) > 64):
        return UNKNOWN
    try:
        return Constant(ARITHMETIC[op](*values))
    except (ArithmeticError, ValueError, TypeError):
        return UNKNOWN


def sign(reader: Reader, expr: m.UnaryExpr) -> Value:
    value = reader.value(expr.expr)
    if expr.op == "-" and isinstance(value, Constant) and type(value.value) in (int, float):
        return Constant(-(value.value or 0))  # type: ignore[operator]  # a number, as the line above says
    return UNKNOWN


def walrus(reader: Reader, expr: m.AssignmentExpr) -> Value:
    value = reader.value(expr.value)
    reader.bind(expr.target, value)
    return value


def inner(reader: Reader, expr: m.AwaitExpr | m.CastExpr | m.AssertTypeExpr | m.StarExpr) -> Value:
    return reader.value(expr.expr)


def given_out(reader: Reader, expr: m.YieldExpr | m.YieldFromExpr) -> Value:
    """What a generator yields leaves the function, as what is returned does."""
    given: m.Expression | None = expr.expr
    value = reader.value(given) if given is not None else UNKNOWN
    if streams_in(value):
        reader.give_back(value, expr.line, "yield")
    return UNKNOWN


def anonymous(reader: Reader, expr: m.LambdaExpr) -> Value:
    return Callee("<lambda>", expr, reader.scope, reader.captured(expr), reader.module.name)


def comprehension(reader: Reader, expr: m.ListComprehension | m.SetComprehension) -> Value:
    return generator(reader, expr.generator)


def generator(reader: Reader, expr: m.GeneratorExpr) -> Value:
    """``[stream.map(fn) for stream in streams]``: what is made for each is drawn once."""
    with comprehending(reader, expr):
        value = reader.value(expr.left_expr)
    return Several((Item(value, "*"),))


def mapping(reader: Reader, expr: m.DictionaryComprehension) -> Value:
    with comprehending(reader, expr):
        if expr.key is not None:
            reader.value(expr.key)
        value = reader.value(expr.value)
    return Several((Item(value, "*"),), keyed=True)


@contextmanager
def comprehending(reader: Reader, expr: m.GeneratorExpr | m.DictionaryComprehension) -> Iterator[None]:
    """Inside, the variables of a comprehension are bound. What it goes over first is read outside."""
    first = reader.value(expr.sequences[0])
    before = dict(reader.scope)
    turns = (f"{reader.text(i)} in {shorter(reader.text(s), 28)}" for i, s in zip(expr.indices, expr.sequences, strict=True))
    with reader.draft.inside(f"for each {', '.join(turns)}"):
        for place, (target, sequence, tests) in enumerate(zip(expr.indices, expr.sequences, expr.condlists, strict=True)):
            reader.bind(target, reader.each(reader.value(sequence) if place else first, sequence))
            for test in tests:
                reader.value(test)
        yield
    reader.scope = before


def anything(reader: Reader, expr: m.Expression, values: Sequence[Value] | None = None) -> Value:
    """An expression of another kind. If streams go in and something with streams comes out, that is a node of its own."""
    if values is None:
        values = [reader.value(part) for part in parts(expr) if isinstance(part, m.Expression)]
    if not reader.program.has_streams(expr) or not any(map(streams_in, values)):
        return UNKNOWN
    edges = [edge for value in values for edge in reader.draft.edges(value)]
    carried = Carried.by(reader.program.type_of(expr))
    made = reader.draft.add(f"? {reader.text(expr)}", edges, carried, kind="unknown", line=expr.line)
    return made if carried.kind else Opaque(made.node)


def chosen(reader: Reader, choice: Choice, key: int | str | None, expr: m.Expression, base: m.Expression | None) -> Value:
    """A member of one of several things."""
    found = [(mark, reader.member(value, key, expr, base)) for mark, value in choice.alternatives]
    return joined(found, choice.label, choice.line)


KINDS: dict[type[m.Expression], Read] = {
    m.IntExpr: constant,
    m.FloatExpr: constant,
    m.StrExpr: constant,
    m.NameExpr: name,
    m.MemberExpr: member,
    m.CallExpr: calls.call,
    m.IndexExpr: index,
    m.TupleExpr: display,
    m.ListExpr: display,
    m.SetExpr: display,
    m.DictExpr: dictionary,
    m.ConditionalExpr: conditional,
    m.OpExpr: operation,
    m.UnaryExpr: sign,
    m.AssignmentExpr: walrus,
    m.AwaitExpr: inner,
    m.CastExpr: inner,
    m.AssertTypeExpr: inner,
    m.StarExpr: inner,
    m.YieldExpr: given_out,
    m.YieldFromExpr: given_out,
    m.LambdaExpr: anonymous,
    m.ListComprehension: comprehension,
    m.SetComprehension: comprehension,
    m.GeneratorExpr: generator,
    m.DictionaryComprehension: mapping,
}
