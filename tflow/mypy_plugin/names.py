"""What names mean during the traversal of a function body: streams get names, are consumed, and paths come together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from itertools import count
from typing import TypeVar

from mypy import nodes
from mypy.nodes import CallExpr, Context, Expression, MemberExpr, NameExpr, Node, Var
from mypy.types import AnyType, Type, TypeOfAny

from tflow.mypy_plugin import shapes, tree
from tflow.mypy_plugin.constants import MISSING
from tflow.mypy_plugin.edges import Attribute, Members, Method, Sources, State, StreamEdge, Use, Value
from tflow.mypy_plugin.facts import Facts
from tflow.mypy_plugin.labels import CallLabel, Labels
from tflow.mypy_plugin.outside import OutsideFunctions
from tflow.mypy_plugin.report import Checker

K = TypeVar("K")
V = TypeVar("V")


class Names:
    """``twice(edge, first, second)`` is called for each stream that is consumed twice.

    Strict: by any two operators. Otherwise: by two whose results come together again, so that both are in one plan.
    """

    def __init__(self, api: Checker, labels: Labels, *, strict: bool, twice: Callable[[StreamEdge, Use, Use], None]) -> None:
        self.api, self.labels, self.strict, self.twice = api, labels, strict, twice
        self.edges: list[StreamEdge] = []
        self.inputs: dict[int, Sources] = {}
        """What calls have consumed, by expression."""
        self.joins: dict[tuple[Var, frozenset[int]], StreamEdge] = {}
        self.named: dict[tuple[int, int, int], StreamEdge] = {}
        self.said: set[tuple[int, int, int]] = set()
        self.turn = 0
        """The turn of the innermost loop that is being traversed."""
        self.turns = count(1)

    def start(self) -> State:
        """What is known before anything has run."""
        return State(facts=Facts(outside=OutsideFunctions(self.api)))

    def type_of(self, expr: Expression) -> Type | None:
        """What mypy has found."""
        found: Type | None = self.api.lookup_type_or_none(expr)
        return found

    # ------------------------------------------------------------------- naming

    def set(self, target: Expression, made: Expression, value: Value | None, state: State, place: int | None = None) -> None:
        """Give a value a name, or put it where it cannot be followed."""
        if isinstance(target, (nodes.TupleExpr, nodes.ListExpr)):
            self.unpack(target, made, value, state)
        elif isinstance(target, nodes.StarExpr):
            self.let_go(value)
            self.set(target.expr, made, None, state)
        elif isinstance(target, NameExpr) and isinstance(target.node, Var):
            self.give_name(target, target.node, made, value, state, place)
        elif isinstance(target, nodes.IndexExpr) and isinstance(target.base, NameExpr) and isinstance(target.base.node, Var):
            self.put(target.base.node, target.index, value, state)
        elif isinstance(target, MemberExpr) and (record := self.record(target.expr, state)) and target.name in record.fields:
            self.exchange(target, record, value, state)
        else:
            self.let_go(value)
            if isinstance(target, MemberExpr):  # whoever has an attribute of that name: `type(self).shared = ...`
                state.attributes = {key: edge for key, edge in state.attributes.items() if key[1] != target.name}
            elif isinstance(target, nodes.IndexExpr) and isinstance(target.base, MemberExpr) and target.base.name == "__dict__":
                state.attributes = {key: edge for key, edge in state.attributes.items() if not key[1]}

    def give_name(
        self, target: NameExpr, variable: Var, made: Expression, value: Value | None, state: State, place: int | None
    ) -> None:
        """``name = value``."""
        state.held.pop(variable, None)
        state.attributes = {key: edge for key, edge in state.attributes.items() if key[0] is not variable}
        if isinstance(made, nodes.ListExpr) and not made.items:  # what it is a list of may be known later only
            value = Members(()) if any(map(shapes.mentions_stream, (self.type_of(target), variable.type))) else value
        if isinstance(value, (Members, Method)):
            state.names.pop(variable, None)
            state.facts.assign(target, None, is_object=True, is_true=shapes.is_true(self.type_of(made)))
            state.held[variable] = value
            return
        if isinstance(made, nodes.LambdaExpr):
            state.held[variable] = made
        if value is None and shapes.stream(self.type_of(target) or variable.type) is not None:
            value = self.fresh(made, place)
        elif value is None and self.is_split(made):
            value = StreamEdge(self.labels.of(made), several=True)
        t = self.type_of(made) if place is None else None
        is_object, is_true = value is not None or shapes.is_object(t), value is not None or shapes.is_true(t)
        state.facts.assign(target, made if place is None else None, is_object=is_object, is_true=is_true)
        if value is None:
            state.names.pop(variable, None)
            return
        if target.name == "_":  # how one says that something is not needed; the other branches of a split wait all the same
            if value.branch is None:
                value.mark(released=True)
            return
        if value.where is None and not value.parts:
            value = self.at(target, value)
        self.bind(variable, value, state)

    def unpack(self, target: nodes.TupleExpr | nodes.ListExpr, made: Expression, value: Value | None, state: State) -> None:
        """``a, b = stream.split()``."""
        starred = any(isinstance(item, nodes.StarExpr) for item in target.items)
        if isinstance(value, Members) and value.keys is None and not starred and len(value.members) == len(target.items):
            for item, member in zip(target.items, value.members, strict=True):
                if isinstance(member, StreamEdge) and member.where is None and isinstance(item, NameExpr):
                    state.made.pop(member, None)  # it has a name of its own from here on
                self.set(item, nodes.TempNode(AnyType(TypeOfAny.special_form)), member, state)
            return
        self.let_go(value)
        for index, item in enumerate(target.items):
            self.set(item, made, None, state, index)

    def put(self, variable: Var, index: Expression, value: Value | None, state: State) -> None:
        """``streams["left"] = stream``."""
        listed, at = state.held.get(variable), state.facts.constant(index)
        self.keep(value, index)
        if isinstance(listed, Members) and listed.keys is not None and at is not MISSING:
            kept = [(key, member) for key, member in zip(listed.keys, listed.members, strict=True) if key != at]
            keys, members = zip(*kept, (at, value), strict=True)
            state.held[variable] = Members(members, keys)
            return
        self.let_go(value)
        if isinstance(listed, Members):
            self.let_go(listed)
            state.held.pop(variable)

    @staticmethod
    def keep(value: Value | None, where: Context) -> None:
        """It is put where it can be taken out again, more than once."""
        if isinstance(value, StreamEdge) and value.where is None and not value.parts:
            value.where = where

    def record(self, expr: Expression, state: State) -> Members | None:
        """The record that a name stands for, such as a dataclass of streams."""
        held = state.held.get(expr.node) if isinstance(expr, NameExpr) and isinstance(expr.node, Var) else None
        return held if isinstance(held, Members) and held.fields else None

    def open_up(self, record: Members | None, state: State) -> None:
        """Something else than its fields is asked of a record: what that does with them is not known."""
        if record is not None:
            self.let_go(record)
            state.held = {name: held for name, held in state.held.items() if held is not record}

    def exchange(self, target: MemberExpr, record: Members, value: Value | None, state: State) -> None:
        """``record.stream = record.stream.map(f)``, under all names of the record."""
        self.keep(value, target)
        named = zip(record.fields, record.members, strict=True)
        other = replace(record, members=tuple(value if name == target.name else member for name, member in named))
        state.held.update({name: other for name, held in state.held.items() if held is record})

    def let_go(self, value: Value | None) -> None:
        """It goes where it cannot be followed."""
        if isinstance(value, StreamEdge):
            value.mark(released=True)
        elif isinstance(value, Method):
            value.edge.mark(released=True)
        elif value is not None:
            for edge in value.streams():
                edge.mark(released=True)

    def at(self, target: NameExpr, value: StreamEdge) -> StreamEdge:
        """The edge that is named here; in the second turn of a loop it is another stream, but the same edge to report."""
        value.where, value.name = target, target.name
        first = self.named.setdefault((target.line, target.column, 0), value)
        if first is not value:
            value.parts = (first,)
        return value

    def fresh(self, made: Expression, place: int | None) -> StreamEdge:
        """What comes out of an expression that is not followed: an item of a tuple, of a list, of a call."""
        branch = (made, place) if place is not None and isinstance(made, CallExpr) and self.is_split(made) else None
        label = f"branch {place}" if branch else self.labels.of(made)
        return StreamEdge(label, branch=branch, owed=isinstance(made, CallExpr), sources=self.inputs.get(id(made), frozenset()))

    def is_split(self, made: Expression) -> bool:
        """True for ``stream.split(...)``."""
        if not tree.is_split(made) or not isinstance(made, CallExpr) or not isinstance(made.callee, MemberExpr):
            return False  # strings and paths can be split, too
        return shapes.stream(self.type_of(made.callee.expr)) is not None

    def bind(self, variable: Var, edge: StreamEdge, state: State) -> None:
        """From here on, the name means this stream."""
        before = state.names.get(variable)
        if before is not None and before is not edge and not before.consumed and before.where is not None:
            aliases = [name for name, other in state.names.items() if other is before and name is not variable]
            before.overwritten = before.overwritten or (None if aliases else edge.where)
        state.names[variable] = edge
        if edge.branch is not None:
            state.made[edge] = None
        if edge not in self.edges:
            self.edges.append(edge)

    def release_names_in(self, node: Node, state: State) -> None:
        """What a closure uses is used when it is called, which nobody knows."""
        for name in tree.walk(node):
            if isinstance(name, NameExpr) and isinstance(name.node, Var) and name.node in state.names:
                state.names[name.node].mark(released=True)
            elif isinstance(name, NameExpr) and isinstance(name.node, Var):
                held = state.held.pop(name.node, None)
                if isinstance(held, nodes.LambdaExpr):
                    self.release_names_in(held, state)
                else:
                    self.let_go(held)

    # ------------------------------------------------------------------- where paths come together

    def meet(self, state: State, paths: list[State | None]) -> bool:
        """The state where paths come together. False if none arrives."""
        arriving = [path for path in paths if path is not None]
        if not arriving:
            return False
        names: dict[Var, StreamEdge] = {}
        for variable in {name: None for path in arriving for name in path.names}:
            meanings = list(dict.fromkeys(path.names[variable] for path in arriving if variable in path.names))
            names[variable] = meanings[0] if len(meanings) == 1 else self.joined(variable, meanings)
        used = {edge: use for path in reversed(arriving) for edge, use in path.used.items()}
        state.names, state.used = names, used
        state.held = shared([path.held for path in arriving])
        state.attributes = shared([path.attributes for path in arriving])
        state.facts = reduce(Facts.common, [path.facts for path in arriving])
        state.made = {edge: None for path in arriving for edge in path.made}
        state.certain = all(path.certain for path in arriving)
        return True

    def joined(self, variable: Var, meanings: list[StreamEdge]) -> StreamEdge:
        """What a name means that means different streams on different paths; the same each time these paths meet."""
        key = variable, frozenset(map(id, meanings))
        if key not in self.joins:
            self.joins[key] = StreamEdge(f'"{variable.name}"', parts=tuple(meanings), plan=all(edge.plan for edge in meanings))
        return self.joins[key]

    # ------------------------------------------------------------------- consuming

    def consume(self, value: Value | None, by: str | CallLabel, where: Context | None, state: State, copy: int = 0) -> None:
        """The stream becomes part of something else; so do all that are in a list."""
        if value is None or where is None:
            return
        if isinstance(value, Members):
            for number, member in enumerate(value.members):
                self.consume(member, by, where, state, number)
            return
        if isinstance(value, Method):
            self.let_go(value)
            return
        edge = value
        use = Use(by, where, copy, self.turn)
        first = state.used.get(edge)
        if self.strict and first is not None and not edge.plan and not edge.released:
            self.say_twice(edge, first, use)
        if edge.where is not None or edge.parts or edge.branch is not None:
            state.used.setdefault(edge, use)
        edge.mark()

    def together(self, mine: Sources, others: Sources) -> None:
        """Where streams come together, none may have consumed what another has consumed, except by a split of it."""
        if self.strict:
            return
        for edge, use in others:
            for other, first in mine:
                if other is edge and (first.place, first.turn) != (use.place, use.turn) and not edge.plan and not edge.released:
                    self.say_twice(edge, *sorted((first, use), key=lambda each: each.place))

    def say_twice(self, edge: StreamEdge, first: Use, second: Use) -> None:
        """Once for each place."""
        if second.place not in self.said:
            self.said.add(second.place)
            self.twice(edge, first, second)

    def run(self, edge: StreamEdge, state: State) -> None:
        """A stream is run by itself: what it was made of is free again."""
        edge.mark()
        state.made.pop(edge, None)
        for source, use in edge.sources:
            if state.used.get(source) is not None and state.used[source].place == use.place:
                del state.used[source]


def shared(paths: list[dict[K, V]]) -> dict[K, V]:
    """What is the same on all paths."""
    return {key: value for key, value in paths[0].items() if all(path.get(key) is value for path in paths)}


def attribute(expr: MemberExpr) -> Attribute | None:
    """``self.rewards``, as long as nobody else can have changed it."""
    return (expr.expr.node, expr.name) if isinstance(expr.expr, NameExpr) and expr.expr.node is not None else None
