"""Reads a function or a module, statement by statement, and draws what it would build. Nothing is executed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from mypy import nodes as m
from mypy.types import Instance, get_proper_type

from tflow.drawing.static import expressions, statements
from tflow.drawing.static.arguments import Call
from tflow.drawing.static.draft import Draft
from tflow.drawing.static.labels import is_actors
from tflow.drawing.static.source import Module, Program, has_streams, within
from tflow.drawing.static.values import (
    UNKNOWN,
    Bound,
    Callee,
    Carried,
    Choice,
    Constant,
    Item,
    Opaque,
    Several,
    Split,
    Stream,
    Value,
    joined,
    marked,
    streams_in,
)

Scope = dict[str, Value]
NAMED_VALUES = ("builtins.int", "builtins.float", "builtins.str")
DEEPEST = 12
"""How many functions are looked into, one inside the other."""


@dataclass
class World:
    """What all readers of one drawing share."""

    program: Program
    draft: Draft = field(default_factory=Draft)
    expand: bool = False
    globals: dict[str, Scope] = field(default_factory=dict)
    """The variables of the modules that were read."""
    entered: dict[str, Stream] = field(default_factory=dict)
    """Streams that come in from outside, by how they are written."""

    def variables(self, module: Module) -> Scope:
        """The variables of a module. While it is being read, those so far."""
        if module.name not in self.globals:
            reader = Reader(self, module)
            self.globals[module.name] = reader.scope
            with self.draft.elsewhere():
                statements.block(reader, module.tree.defs)
            self.globals[module.name] = reader.scope
        return self.globals[module.name]


@dataclass(frozen=True)
class Returned:
    """What a function gives back on one of its paths."""

    mark: str
    value: Value
    line: int
    how: str = "return"


@dataclass
class Reader:
    """Where the reading is: in which module, with which variables, under which conditions."""

    world: World
    module: Module
    scope: Scope = field(default_factory=dict)
    function: m.FuncItem | None = None
    """None between the functions of a module."""
    callers: tuple[str, ...] = ()
    """The functions that are being looked into."""
    alive: bool = True
    """False behind a return, a raise, a break or a continue."""
    conditions: list[str] = field(default_factory=list)
    returned: list[Returned] = field(default_factory=list)
    leaving: list[list[tuple[str, Scope, bool]]] = field(default_factory=list)
    """For each loop around, the condition and the variables where a turn ends early, and whether the loop ends with it."""

    @property
    def program(self) -> Program:
        return self.world.program

    @property
    def draft(self) -> Draft:
        return self.world.draft

    def text(self, node: m.Context) -> str:
        """How something is written."""
        return self.module.text(node)

    # ------------------------------------------------------------------- expressions

    def value(self, expr: m.Expression, *, whole: bool = True) -> Value:
        """What an expression is worth. One that is a stream is never lost: at least it is drawn as it is written. So is what has
        streams in it, unless only some of it is wanted."""
        found = expressions.KINDS.get(type(expr), expressions.anything)(self, expr)
        if self.program.is_stream(expr):
            if isinstance(found, Opaque):
                return Stream(found.node, Carried.by(self.program.type_of(expr)), found.mark)
            if not streams_in(found):
                return self.comes_in(expr) if isinstance(expr, m.RefExpr) else self.not_followed(expr)
        elif whole and isinstance(expr, m.RefExpr) and not streams_in(found) and self.program.has_streams(expr):
            empty = isinstance(found, Several) and not found.items  # then it is known to have none
            return found if empty else Opaque(self.comes_in(expr).node)
        return found

    def comes_in(self, expr: m.Expression, name: str | None = None) -> Stream:
        """A stream from outside: a parameter, an attribute, something of another module."""
        written = name or self.text(expr)
        if written not in self.world.entered:
            carried = Carried.by(self.program.type_of(expr))
            self.world.entered[written] = self.draft.add(f"{written}: {carried}", [], carried, kind="input", line=expr.line)
        return self.world.entered[written]

    def not_followed(self, expr: m.Expression) -> Stream:
        """An expression that is a stream, and nothing more is known of it."""
        return self.draft.add(f"? {self.text(expr)}", [], Carried.by(self.program.type_of(expr)), kind="unknown", line=expr.line)

    def from_elsewhere(self, expr: m.RefExpr) -> Value:
        """A function, or a variable of a module."""
        node = expr.node
        if isinstance(node, m.Decorator):
            return Callee(node.name, node.func)
        if isinstance(node, m.FuncDef):
            return Callee(node.name, node)
        if not isinstance(node, m.Var):
            return UNKNOWN
        if node.final_value is not None and isinstance(node.final_value, (int, float, str)):
            return Constant(node.final_value)
        module, _, name = node.fullname.rpartition(".")
        if module in self.program.modules:
            return self.world.variables(self.program.modules[module]).get(name, UNKNOWN)
        kind = get_proper_type(node.type)
        if has_streams(kind) or is_actors(kind) or (isinstance(kind, Instance) and kind.type.fullname in NAMED_VALUES):
            self.program.ask_for(module)
        return UNKNOWN

    def captured(self, node: m.Node) -> tuple[Value, ...]:
        """Streams of this function that another one inside it uses."""
        names = dict.fromkeys(part.name for part in within(node) if isinstance(part, m.NameExpr))
        return tuple(self.scope[name] for name in names if name in self.scope and streams_in(self.scope[name]))

    def one_of(self, value: Value, written: str, carried: Carried | None, line: int) -> Stream:
        """One stream out of a value that may be several."""
        match value:
            case Stream():
                return value
            case Opaque(node=node, mark=mark):
                return Stream(node, carried or self.draft.nodes[node].carried, mark)
            case Choice():
                return self.draft.chosen(value, carried)
            case Bound(owner=owner):
                return self.one_of(owner, written, carried, line)
            case Split():
                return Stream(value.node, value.carried, "*")
            case _:
                return self.draft.container(written, value, carried, line)

    # ------------------------------------------------------------------- several at once

    def each(self, value: Value, expr: m.Expression) -> Value:
        """What a loop over a value has in hand on every turn."""
        match value:
            case Split(node=node, carried=carried):
                return Stream(node, carried, "for each")
            case Opaque():
                return marked(value, "for each")
            case Several(items=items) if items:
                return self._each_of(items, expr)
            case Choice() | Bound():
                return marked(self.one_of(value, self.text(expr), None, expr.line), "for each")
            case _:
                return UNKNOWN

    def _each_of(self, items: tuple[Item, ...], expr: m.Expression) -> Value:
        values = [item.value for item in items]
        if len(values) == 1:
            return marked(values[0], "for each")
        rows = [value for value in values if isinstance(value, Several)]
        if len(rows) == len(values) and len({len(row.items) for row in rows}) == 1:
            columns = zip(*(row.items for row in rows), strict=True)
            return Several(tuple(Item(self._each_of(column, expr)) for column in columns))
        if not any(map(streams_in, values)):
            return UNKNOWN
        return self.draft.container(self.text(expr), Several(items), None, expr.line, "for each")

    def member(self, owner: Value, key: int | str | None, expr: m.Expression, base: m.Expression | None) -> Value:
        """``owner[key]``; without a key, one that is not known."""
        carried = Carried.by(self.program.type_of(expr))
        known = carried if carried.kind else None
        match owner:
            case Split(branches=count) if isinstance(key, int):
                place = key if key >= 0 or count is None else key + count
                return self.draft.branch(owner, place) if place >= 0 else Stream(owner.node, owner.carried, "*")
            case Split():
                return Stream(owner.node, owner.carried, f"[{self.text(expr.index)}]" if isinstance(expr, m.IndexExpr) else "*")
            case Several():
                found = _member(owner, key)
                if found is not None:
                    return marked(found.value, found.mark)
                return self.draft.container(self.text(base or expr), owner, known, expr.line) if streams_in(owner) else UNKNOWN
            case Opaque() if known is not None:
                return Stream(owner.node, known, owner.mark)
            case Choice():
                return expressions.chosen(self, owner, key, expr, base)
            case _:
                return owner if streams_in(owner) else UNKNOWN

    # ------------------------------------------------------------------- variables

    def bind(self, target: m.Expression, value: Value) -> None:
        """Assign a value to a name, an attribute, a member, or several of these."""
        match target:
            case m.NameExpr():
                self.scope[target.name] = value
            case m.MemberExpr():
                self.scope[self.text(target)] = value
            case m.TupleExpr() | m.ListExpr():
                statements.unpack(self, target.items, value, target)
            case m.StarExpr():
                self.bind(target.expr, value)
            case m.IndexExpr():
                self._bind_member(target, value)
            case _:
                pass

    def _bind_member(self, target: m.IndexExpr, value: Value) -> None:
        owner, key = self.value(target.base), self.value(target.index)
        if not streams_in(value) and not isinstance(owner, Several):
            return
        fixed = key.value if isinstance(key, Constant) and isinstance(key.value, (int, str)) else None
        kept = owner if isinstance(owner, Several) else Several(keyed=True)
        if fixed is not None and not kept.keyed and isinstance(fixed, int) and -len(kept.items) <= fixed < len(kept.items):
            items = list(kept.items)
            items[fixed] = Item(value)
            self.changed(target.base, Several(tuple(items)))
            return
        others = tuple(item for item in kept.items if fixed is None or item.key != fixed)
        self.changed(target.base, Several((*others, Item(value, "" if fixed is not None else "*", fixed)), kept.keyed))

    def changed(self, expr: m.Expression | None, value: Several) -> None:
        """A list or dictionary that is known under a name has other members now."""
        if isinstance(expr, m.NameExpr):
            self.scope[expr.name] = value
        elif isinstance(expr, m.MemberExpr):
            self.scope[self.text(expr)] = value

    # ------------------------------------------------------------------- functions

    def give_back(self, value: Value, line: int, how: str = "return") -> None:
        """A function returns something here, or yields it."""
        self.returned.append(Returned(", ".join(self.conditions), value, line, how))

    @contextmanager
    def under(self, condition: str) -> Iterator[None]:
        """What is returned meanwhile is returned only under a condition."""
        self.conditions.append(condition)
        count = len(self.conditions)
        try:
            yield
        finally:
            del self.conditions[count - 1 :]

    def looked_into(self, call: Call, callee: Callee, owner: Value, *, always: bool = False) -> Value | None:
        """What a function makes of its arguments, in a group of its own; None if it is not to be looked into, or cannot be."""
        definition = callee.definition
        if not (self.world.expand or always) or definition is None:
            return None
        name = callee.name if callee.module else definition.fullname
        module = callee.module or self.program.module_of(definition.fullname)
        if module is None or name in self.callers or len(self.callers) >= DEEPEST:
            return None
        if module not in self.program.modules:
            self.program.ask_for(module)
            return None
        if statements.is_stub(definition):
            return None
        inner = Reader(self.world, self.program.modules[module], dict(callee.scope), definition, (*self.callers, name))
        statements.give_arguments(inner, definition, call, owner)
        with self.draft.inside(callee.name):
            statements.block(inner, definition.body.body)
        return inner.result(definition.line)

    def result(self, line: int) -> Value:
        """What a function gives back, on whichever path."""
        if not self.returned:
            return UNKNOWN
        return joined([(each.mark, each.value) for each in self.returned], "if", line)


def _member(owner: Several, key: int | str | None) -> Item | None:
    """A member that is known by its key or position."""
    if key is None:
        return None
    by_key = [item for item in owner.items if item.key == key]
    if by_key:
        return by_key[-1]
    if owner.keyed or not isinstance(key, int) or any("*" in item.mark for item in owner.items):
        return None
    return owner.items[key] if -len(owner.items) <= key < len(owner.items) else None
