"""Calls of everything: operators, library, containers, classes, and functions of the user, which are boxes or looked into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from mypy import nodes as m
from mypy.types import AnyType, Instance, get_proper_type

from tflow.drawing.shown import stream_base
from tflow.drawing.static import labels, operators
from tflow.drawing.static.arguments import Call
from tflow.drawing.static.draft import Input
from tflow.drawing.static.library import LIBRARY, of_class
from tflow.drawing.static.source import has_streams, is_object, signature
from tflow.drawing.static.values import (
    UNKNOWN,
    Bound,
    Callee,
    Constant,
    Item,
    Made,
    Opaque,
    Several,
    Split,
    Value,
    streams_in,
)

if TYPE_CHECKING:
    from tflow.drawing.static.reader import Reader

ONLY_LOOKING = ("builtins.", "typing.", "typing_extensions.", "logging.", "rich.", "warnings.", "pprint.", "inspect.")
"""Functions of these print, compare or measure what they are given; they take no stream away."""


def call(reader: Reader, expr: m.CallExpr) -> Value:
    """What a call is worth."""
    if isinstance(expr.analyzed, (m.CastExpr, m.AssertTypeExpr, m.RevealExpr)) and expr.analyzed.expr is not None:
        return reader.value(expr.analyzed.expr)
    callee = plain(expr.callee)
    node = callee.node if isinstance(callee, m.RefExpr) else None
    if isinstance(node, m.TypeAlias):
        target = get_proper_type(node.target)
        node = target.type if isinstance(target, Instance) else node
    fullname = node.fullname if node is not None and not isinstance(node, m.Var) else ""
    if fullname in LIBRARY:
        return LIBRARY[fullname](Call.read(reader, expr, node.name if node is not None else "?"))
    name = callee.name if isinstance(callee, (m.NameExpr, m.MemberExpr)) else reader.text(callee)
    if fullname in BUILTINS:
        return BUILTINS[fullname](Call.read(reader, expr, name))
    if isinstance(node, m.TypeInfo):
        return instance(Call.read(reader, expr, node.name), node)
    owner = reader.value(callee)
    made = Call.read(reader, expr, name)
    if isinstance(owner, Bound):
        return bound(made, owner, callee)
    return function(made, owner, callee)


def plain(callee: m.Expression) -> m.Expression:
    """``First[int]`` is ``First``."""
    while isinstance(callee, m.IndexExpr) and isinstance(callee.base, m.RefExpr) and isinstance(callee.base.node, m.TypeInfo):
        callee = callee.base
    return callee


def bound(made: Call, owner: Bound, callee: m.Expression) -> Value:
    """A method of a stream, or of something that holds streams."""
    made = replace(made, name=owner.name)
    expr = callee.expr if isinstance(callee, m.MemberExpr) else None
    if isinstance(owner.owner, Several) and owner.name in CONTAINERS:
        return CONTAINERS[owner.name](made, owner.owner, expr)
    if isinstance(owner.owner, (Several, Split)):
        return function(made, owner, callee)
    if isinstance(owner.owner, Opaque) and owner.name not in operators.METHODS:
        own_class = expr is not None and is_object(made.reader.program.type_of(expr))
        return function(made, owner, callee) if own_class else inside(made, owner.owner)
    stream = operators.receiver(made, owner.owner, expr)
    return function(made, owner, callee) if stream is None else operators.method(made, stream)


def inside(made: Call, owner: Opaque) -> Value:
    """A method of something with streams in it, such as ``streams.values()``."""
    edges = made.edges()
    if edges:
        return box(made, [*made.draft.edges(owner), *edges])
    return owner if made.makes_streams or made.is_any else UNKNOWN


# --------------------------------------------------------------------------- classes


def instance(made: Call, info: m.TypeInfo) -> Value:
    """An object: an operator, actors, a stream of a class of the user, or something with streams in its fields."""
    captured = tuple(given.value for given in made.arguments if streams_in(given.value))
    if stream_base(made.type) is not None:
        return box(made, made.edges())
    if labels.derives(info, labels.ACTORS):
        return of_class(made)
    if not captured:
        return Made(info.name)
    if labels.derives(info, *labels.OPERATORS):
        return Callee(info.name, captured=captured)
    formal = signature(made.reader.program.type_of(made.expr.callee))
    names = [] if formal is None else list(formal.arg_names)
    items = []
    for index, given in enumerate(made.arguments):
        key = given.name or (names[index] if index < len(names) and not given.star else None)
        items.append(Item(given.value, "*" if given.star else "", key))
    return Several(tuple(items), keyed=True)


# --------------------------------------------------------------------------- functions


def function(made: Call, value: Value, callee: m.Expression) -> Value:
    """A function of the user, or of some library."""
    known = value if isinstance(value, Callee) else method_of(made.reader, callee)
    edges = made.edges()
    makes_actors = labels.is_actors(made.type)
    if known is not None and (edges or known.captured or made.makes_streams or makes_actors):
        owner = value.owner if isinstance(value, Bound) else UNKNOWN
        found = made.reader.looked_into(made, known, owner, always=makes_actors and not edges)
        if found is not None:
            return found
    edges += made.draft.edges(value)
    if made.makes_streams or (edges and not only_looks(made, callee)):
        return box(made, edges)
    return UNKNOWN


def method_of(reader: Reader, callee: m.Expression) -> Callee | None:
    """A method of an object of the user, by the class of the object."""
    if not isinstance(callee, m.MemberExpr):
        return None
    owner = get_proper_type(reader.program.type_of(callee.expr))
    entry = owner.type.get(callee.name) if isinstance(owner, Instance) else None
    node = entry.node if entry is not None else None
    node = node.func if isinstance(node, m.Decorator) else node
    return Callee(callee.name, node) if isinstance(node, m.FuncDef) else None


def box(made: Call, edges: list[Input]) -> Value:
    """A function or class that is not looked into: its name, and the types of what it takes."""
    wanted = made.wanted_types()
    shown = ", ".join(wanted) if wanted else ("..." if made.expr.args else "")
    node = made.draft.add(f"{made.name}({shown})", edges, made.carried, kind="flow", line=made.line)
    return node if made.carried.kind else Opaque(node.node)


def only_looks(made: Call, callee: m.Expression) -> bool:
    """True if a function takes no stream away: it is known for that, or says that it takes any object."""
    fullname = callee.fullname if isinstance(callee, m.RefExpr) else ""
    if fullname.startswith(ONLY_LOOKING):
        return True
    formal = signature(made.reader.program.type_of(callee))
    if formal is None:
        return False
    module = formal.definition.fullname if formal.definition is not None else ""
    wants = any(has_streams(kind) or isinstance(get_proper_type(kind), AnyType) for kind in formal.arg_types)
    return module.startswith(ONLY_LOOKING) or not wants


# --------------------------------------------------------------------------- what Python has


def first(made: Call) -> Value:
    """``list(streams)`` and its like: the same streams."""
    return made.arguments[0].value if made.arguments else Several()


def zipped(made: Call) -> Value:
    """One tuple per turn."""
    given = [each for each in made.arguments if each.name is None]
    return Several((Item(Several(tuple(Item(made.reader.each(each.value, each.expr)) for each in given)), "*"),))


def enumerated(made: Call) -> Value:
    if not made.arguments:
        return UNKNOWN
    each = made.reader.each(made.arguments[0].value, made.arguments[0].expr)
    return Several((Item(Several((Item(UNKNOWN), Item(each))), "*"),))


def dictionary(made: Call) -> Value:
    """``dict(a=x, b=y)``, or a copy."""
    copied = [given.value for given in made.arguments if given.name is None]
    items = copied[0].items if copied and isinstance(copied[0], Several) else ()
    named = tuple(Item(given.value, "", given.name) for given in made.arguments if given.name is not None)
    if copied and not isinstance(copied[0], Several):
        return copied[0]
    return Several((*items, *named), keyed=True)


BUILTINS: dict[str, Callable[[Call], Value]] = {
    **{f"builtins.{name}": first for name in ("list", "tuple", "set", "frozenset", "reversed", "sorted", "iter")},
    "builtins.zip": zipped,
    "builtins.enumerate": enumerated,
    "builtins.dict": dictionary,
}


def appended(made: Call, owner: Several, expr: m.Expression | None) -> Value:
    """``streams.append(stream)``: the last argument is what is added."""
    if made.arguments:
        added = Item(made.arguments[-1].value)
        made.reader.changed(expr, replace(owner, items=(*owner.items, added)))
    return UNKNOWN


def extended(made: Call, owner: Several, expr: m.Expression | None) -> Value:
    """``streams.extend(others)`` and ``streams.update(others)``."""
    added = []
    for given in made.arguments:
        if given.name is not None:
            added.append(Item(given.value, "", given.name))
        elif isinstance(given.value, Several):
            added.extend(given.value.items)
        elif streams_in(given.value):
            added.append(Item(given.value, "*"))
    made.reader.changed(expr, replace(owner, items=(*owner.items, *added)))
    return UNKNOWN


def looked_up(made: Call, owner: Several, expr: m.Expression | None) -> Value:
    """``streams.get(key)``, ``pop`` and ``setdefault``."""
    key = made.value(0, "key")
    index: str | int | None = key.value if isinstance(key, Constant) and isinstance(key.value, (str, int)) else None
    if made.name == "pop" and key is None:
        index = len(owner.items) - 1
    default = made.value(1, "default")
    if index is None or (owner.keyed and all(item.key != index for item in owner.items)):
        if default is not None and made.name == "setdefault" and isinstance(index, (str, int)):
            made.reader.changed(expr, replace(owner, items=(*owner.items, Item(default, "", index))))
            return default
        return made.reader.member(owner, None, made.expr, expr) if streams_in(owner) else default or UNKNOWN
    return made.reader.member(owner, index, made.expr, expr)


def members(made: Call, owner: Several, expr: m.Expression | None) -> Value:
    """``streams.values()`` and ``copy``."""
    return replace(owner, keyed=made.name == "copy" and owner.keyed)


def pairs(made: Call, owner: Several, expr: m.Expression | None) -> Value:
    """``streams.items()``: keys beside values."""
    items = []
    for item in owner.items:
        key = Constant(item.key) if item.key is not None else UNKNOWN
        items.append(Item(Several((Item(key), Item(item.value))), item.mark))
    return Several(tuple(items))


def nothing(made: Call, owner: Several, expr: m.Expression | None) -> Value:
    return UNKNOWN


CONTAINERS: dict[str, Callable[[Call, Several, m.Expression | None], Value]] = {
    **dict.fromkeys(("append", "add", "insert", "appendleft"), appended),
    **dict.fromkeys(("extend", "update"), extended),
    **dict.fromkeys(("get", "pop", "setdefault"), looked_up),
    **dict.fromkeys(("values", "copy"), members),
    **dict.fromkeys(("keys", "index", "count", "sort", "reverse", "clear", "remove"), nothing),
    "items": pairs,
}
"""Methods of lists, sets and dictionaries."""
