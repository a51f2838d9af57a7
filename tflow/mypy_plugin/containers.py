"""What holds several streams, during the traversal of a function body: lists, tuples, dictionaries, named tuples, dataclasses."""

from __future__ import annotations

from collections.abc import Sequence

from mypy import nodes
from mypy.nodes import CallExpr, Expression, NameExpr, RefExpr, Var

from tflow.mypy_plugin import shapes
from tflow.mypy_plugin.constants import MISSING
from tflow.mypy_plugin.edges import Members, State, StreamEdge, Value
from tflow.mypy_plugin.functional import Functional

MOST_COPIES = 64
"""More members than that are not followed."""


class Containers(Functional):
    """What is put together, and taken out again."""

    def display(self, expr: nodes.TupleExpr | nodes.ListExpr, state: State) -> Members | None:
        """Streams in a list or a tuple."""
        found: list[Value | None] = []
        for item in expr.items:
            value = self.value(item.expr if isinstance(item, nodes.StarExpr) else item, state)
            if not isinstance(item, nodes.StarExpr):
                self.keep(value, item)
                found.append(value)
            elif isinstance(value, Members) and value.keys is None:
                found += value.members
            else:
                self.let_go(value)
                found.append(None)
        return Members(tuple(found)) if any(each is not None for each in found) else None

    def dictionary(self, expr: nodes.DictExpr, state: State) -> Members | None:
        found = [(key, self.value(value, state)) for key, value in expr.items]
        for (_, value), (_, item) in zip(found, expr.items, strict=True):
            self.keep(value, item)
        keys = [MISSING if key is None else state.facts.constant(key) for key, _ in found]
        members = tuple(value for _, value in found)
        if all(member is None for member in members):
            return None
        if any(key is MISSING for key in keys):
            self.consume(Members(members), "a list", expr, state)
            return None
        return Members(members, tuple(keys))

    def set_display(self, expr: nodes.SetExpr, state: State) -> None:
        """Streams in a set: they are somewhere else from now on."""
        for item in expr.items:
            self.consume(self.value(item, state), "a list", item, state)

    def index(self, expr: nodes.IndexExpr, state: State) -> Value | None:
        """A member of a list."""
        listed = self.value(expr.base, state)
        self.value(expr.index, state)
        if not isinstance(listed, Members):
            self.let_go(listed)
            return None
        at = state.facts.constant(expr.index)
        if listed.keys is not None and at in listed.keys:
            return listed.members[len(listed.keys) - 1 - listed.keys[::-1].index(at)]
        if listed.keys is None and isinstance(at, int) and -len(listed.members) <= at < len(listed.members):
            return listed.members[at]
        if listed.keys is None and isinstance(expr.index, nodes.SliceExpr) and expr.index.stride is None:
            begin, end = (
                None if each is None else state.facts.constant(each) for each in (expr.index.begin_index, expr.index.end_index)
            )
            if isinstance(begin, (int, type(None))) and isinstance(end, (int, type(None))):
                return Members(listed.members[begin:end])
        self.let_go(listed)
        return None

    # ------------------------------------------------------------------- methods

    def list_method(self, variable: Var, name: str, call: CallExpr, state: State) -> tuple[bool, Value | None]:
        """A method of a list whose members are known."""
        listed = state.held.get(variable)
        if not isinstance(listed, Members):
            return False, None
        given = [self.value(argument, state) for argument in call.args]
        if listed.keys is not None:
            return self.dictionary_method(variable, listed, name, call, state)
        if name == "append" and len(given) == 1:
            if isinstance(given[0], StreamEdge) and given[0].where is None and not given[0].parts:
                given[0].where, given[0].name = call.args[0], variable.name
                self.edges.append(given[0])  # it is to be taken out again
            state.held[variable] = Members((*listed.members, given[0]))
        elif name == "extend" and len(given) == 1 and isinstance(given[0], Members):
            state.held[variable] = Members((*listed.members, *given[0].members))
        elif name == "pop" and not given and listed.members and not self.repeats:
            state.held[variable] = Members(listed.members[:-1])
            return True, listed.members[-1]
        elif name in ("reverse", "copy", "index", "count"):
            return True, listed if name == "copy" else None
        else:
            for each in (listed, *given):
                self.let_go(each)
            state.held.pop(variable)
        return True, None

    def dictionary_method(
        self, variable: Var, listed: Members, name: str, call: CallExpr, state: State
    ) -> tuple[bool, Value | None]:
        keys = listed.keys or ()
        wanted = state.facts.constant(call.args[0]) if call.args else MISSING
        if name == "values":
            return True, Members(listed.members)
        if name == "items":
            return True, Members(tuple(Members((None, member)) for member in listed.members))
        if name in ("get", "pop") and wanted in keys:
            at = keys.index(wanted)
            if name == "pop":
                state.held[variable] = Members(listed.members[:at] + listed.members[at + 1 :], keys[:at] + keys[at + 1 :])
            return True, listed.members[at]
        if name not in ("keys", "copy"):
            self.let_go(listed)
            state.held.pop(variable)
        return True, listed if name == "copy" else None

    def same(self, call: CallExpr, state: State) -> tuple[bool, Value | None]:
        """``list(streams)``."""
        listed = self.value(call.args[0], state) if len(call.args) == 1 else None
        if not isinstance(listed, Members) or listed.keys is not None:
            self.let_go(listed)
            listed = None
        return len(call.args) == 1, listed

    def repeated(self, call: CallExpr, state: State) -> tuple[bool, Value | None]:
        """``itertools.repeat(stream, 2)``."""
        found = self.value(call.args[0], state)
        count = state.facts.constant(call.args[1]) if len(call.args) > 1 else MOST_COPIES
        if isinstance(found, StreamEdge) and isinstance(count, int):
            found.where = found.where or call.args[0]
            return True, Members((found,) * max(0, min(count, MOST_COPIES)))
        self.let_go(found)
        return len(call.args) == 1, None

    def dict_(self, call: CallExpr, state: State) -> tuple[bool, Value | None]:
        """``dict(zip(names, stream.split()))``."""
        pairs = call_of(call.args[0], "builtins.zip") if len(call.args) == 1 else None
        if pairs is None or pairs.arg_kinds != [nodes.ARG_POS, nodes.ARG_POS]:
            return False, None
        names, through = pairs.args
        keys, listed = self.constants(names, state), self.value(through, state)
        self.let_go(self.value(names, state))
        if isinstance(listed, Members) and listed.keys is None and keys:
            return True, Members(listed.members[: len(keys)], tuple(keys[: len(listed.members)]))
        self.let_go(listed)
        return True, None

    def constants(self, expr: Expression, state: State) -> list[object]:
        """The members of a display of constants, or the letters of a string; nothing if they are not known."""
        if isinstance(expr, NameExpr) and isinstance(expr.node, Var) and not self.labels.scopes.is_changed(expr.node):
            made = self.labels.scopes.definition(expr.node)
            return self.constants(made, state) if made is not None and not isinstance(made, NameExpr) else []
        if isinstance(expr, nodes.StrExpr):
            return list(expr.value)
        shown = expr.items if isinstance(expr, (nodes.ListExpr, nodes.TupleExpr)) else []
        found = [state.facts.constant(each) for each in shown]
        return [] if MISSING in found else found

    # ------------------------------------------------------------------- records

    def recorded(self, fields: Sequence[str], call: CallExpr, state: State) -> tuple[bool, Members | None]:
        """``Branches(*stream.split())``, a dataclass or a named tuple: True if it holds streams, and what it holds."""
        if not any(shapes.mentions_stream(self.type_of(argument)) for argument in call.args):
            return False, None
        found: dict[str, Value | None] = {}
        given: list[tuple[str | None, Value | None]] = []
        unknown = False
        for argument, name, kind in zip(call.args, call.arg_names, call.arg_kinds, strict=True):
            value = self.value(argument, state)
            if kind is nodes.ARG_STAR and isinstance(value, Members) and value.keys is None:
                given += [(None, each) for each in value.members]
                continue
            unknown = unknown or kind.is_star()
            self.keep(value, argument)
            given.append((name, value))
        for place, (name, value) in enumerate(given):
            found[name or (fields[place] if place < len(fields) else "")] = value
        if unknown or not found.keys() <= set(fields):
            for _, value in given:
                self.consume(value, self.labels.call(call), call, state)
            return True, None
        return True, Members(tuple(found.get(name) for name in fields), fields=tuple(fields))


def call_of(expr: Expression, function: str) -> CallExpr | None:
    """A call of a function of that name."""
    called = expr.callee if isinstance(expr, CallExpr) else None
    return expr if isinstance(expr, CallExpr) and isinstance(called, RefExpr) and called.fullname == function else None
