"""Expressions, during the traversal of a function body: which stream each of them is, and what it consumes on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mypy import nodes
from mypy.argmap import map_actuals_to_formals
from mypy.nodes import CallExpr, Expression, MemberExpr, NameExpr, RefExpr, Var
from mypy.types import AnyType, CallableType, Instance, Overloaded, Type, get_proper_type

from tflow.mypy_plugin import shapes, tree
from tflow.mypy_plugin.edges import Sources, State, StreamEdge, Use
from tflow.mypy_plugin.names import Names

RUNS = {"run", "validate"}
"""Methods that do not make a stream part of a plan: it can be used again."""
MILD = ["looks", "keeps", "consumes"]
"""With overloads, the mildest counts."""


class Values(Names):
    """``value`` is the stream that an expression is."""

    def value(self, expr: Expression | None, state: State) -> StreamEdge | None:
        """The stream that an expression is, if it is one. Whatever it consumes on the way is consumed."""
        rule = RULES.get(type(expr))
        if rule is not None:
            return rule(self, expr, state)
        for child in tree.children(expr) if expr is not None else ():
            if isinstance(child, Expression):
                self.value(child, state)
        return None

    def name(self, expr: NameExpr, state: State) -> StreamEdge | None:
        edge = state.names.get(expr.node) if isinstance(expr.node, Var) else None
        if edge is not None and (edge.several or self.type_of(expr) is None):  # without a type: mypy says it is never reached
            edge.mark(released=True)
            return None
        return edge

    def conditional(self, expr: nodes.ConditionalExpr, state: State) -> StreamEdge | None:
        self.value(expr.cond, state)
        return self.either(expr.if_expr, expr.else_expr, state)

    def operation(self, expr: nodes.OpExpr, state: State) -> StreamEdge | None:
        if expr.op in ("and", "or"):
            return self.either(expr.left, expr.right, state)
        self.value(expr.left, state)
        self.value(expr.right, state)
        return None

    def either(self, left: Expression, right: Expression, state: State) -> StreamEdge | None:
        """One of two, and it is not known which."""
        one, other = state.copy(), state.copy()
        values = [edge for edge in (self.value(left, one), self.value(right, other)) if edge is not None]
        self.meet(state, [one, other])
        if not values or (values[0] is values[-1] and len(values) == 2):
            return values[0] if values else None
        return StreamEdge(values[0].label, parts=tuple(values), plan=all(edge.plan for edge in values))

    def member(self, expr: MemberExpr, state: State) -> None:
        """A method that is not called here may be called elsewhere."""
        value, t = self.value(expr.expr, state), self.type_of(expr)
        if value is not None and (shapes.is_function(t) or shapes.as_base(t, shapes.WITH_COLUMNS)):
            value.mark(released=True)

    def walrus(self, expr: nodes.AssignmentExpr, state: State) -> StreamEdge | None:
        self.set(expr.target, expr.value, self.value(expr.value, state), state)
        return self.name(expr.target, state)

    def inner(self, expr: nodes.CastExpr | nodes.AssertTypeExpr, state: State) -> StreamEdge | None:
        return self.value(expr.expr, state)

    def display(self, expr: Expression, state: State) -> None:
        """Streams in a list or a tuple: they are somewhere else from now on."""
        for item in tree.children(expr):
            if isinstance(item, Expression):
                self.consume(self.value(item, state), "a list", item, state)

    def handed_out(self, expr: nodes.YieldExpr | nodes.AwaitExpr | nodes.YieldFromExpr, state: State) -> None:
        self.consume(self.value(expr.expr, state), "yield", expr, state)

    def lambda_(self, expr: nodes.LambdaExpr, state: State) -> None:
        self.release_names_in(expr, state)

    def comprehension(self, expr: nodes.GeneratorExpr | nodes.DictionaryComprehension, state: State) -> None:
        """Two turns, as for loops."""
        for sequence in expr.sequences:
            self.value(sequence, state)
        made = [expr.left_expr] if isinstance(expr, nodes.GeneratorExpr) else [expr.key, expr.value]
        for _ in range(2):
            for index in expr.indices:
                for name in tree.walk(index):
                    if isinstance(name, NameExpr) and isinstance(name.node, Var):
                        state.names.pop(name.node, None)
            for each in (*(condition for conditions in expr.condlists for condition in conditions), *made):
                self.consume(self.value(each, state), "a comprehension", each, state)

    def generated(self, expr: nodes.ListComprehension | nodes.SetComprehension, state: State) -> None:
        self.comprehension(expr.generator, state)

    # ------------------------------------------------------------------- calls

    def call(self, call: CallExpr, state: State) -> StreamEdge | None:
        """What a call makes of the streams that it is given."""
        if call.analyzed is not None:  # cast, assert_type and their like
            value = self.value(getattr(call.analyzed, "expr", None), state)
            if isinstance(call.analyzed, nodes.CastExpr) or value is None:
                return value
            if value.where is None and not value.parts:
                self.run(value, state)  # assert_type and reveal_type only look: what has no name is gone
            return None
        receiver, given = self.given(call, state)
        if receiver is not None and isinstance(call.callee, MemberExpr) and call.callee.name in RUNS:
            self.run(receiver, state)
            return None
        label = self.labels.call(call)
        sources: Sources = frozenset()
        if receiver is None and not stores(call.callee) and not shapes.mentions_stream(self.type_of(call)):
            for edge, _ in given:  # who returns no stream may have looked at it, run it or stored it
                self.run(edge, state)
                edge.mark(released=True)
            return None
        for edge, where in given:
            use = Use(label, where if isinstance(where, NameExpr) else call)
            mine = edge.sources | {(edge, use)}
            self.together(sources, mine)
            sources |= mine
            self.consume(edge, label, use.where, state)
        self.inputs[id(call)] = sources
        kind = shapes.stream(self.type_of(call))
        return StreamEdge(label, plan=kind.type.fullname == shapes.PLAN, sources=sources) if kind is not None else None

    def given(self, call: CallExpr, state: State) -> tuple[StreamEdge | None, list[tuple[StreamEdge, Expression]]]:
        """The stream whose method is called, and all streams that the call consumes."""
        found: list[tuple[StreamEdge, Expression]] = []
        receiver = None
        if isinstance(call.callee, MemberExpr):
            receiver = self.value(call.callee.expr, state)
            if receiver is not None:
                found.append((receiver, call.callee.expr))
        else:
            self.value(call.callee, state)
        values = [self.value(argument, state) for argument in call.args]
        if any(value is not None for value in values):
            for argument, value, how in zip(call.args, values, self.takes(call), strict=True):
                if value is not None and how == "keeps":
                    value.mark(released=True)
                elif value is not None and how == "consumes":
                    found.append((value, argument))
        return receiver, found

    def takes(self, call: CallExpr) -> list[str]:
        """For each argument: ``consumes``; ``looks``, if any object will do (``print``); ``keeps``, if nobody knows."""
        found = get_proper_type(self.type_of(call.callee))
        if isinstance(call.callee, RefExpr) and call.callee.fullname == "builtins.isinstance":
            return ["looks"] * len(call.args)
        if isinstance(found, (AnyType, type(None))):
            return ["keeps"] * len(call.args)
        how: list[str] = [""] * len(call.args)
        for item in found.items if isinstance(found, Overloaded) else [found]:
            if not isinstance(item, CallableType):
                continue
            declared = getattr(item.definition, "type", None)
            if isinstance(declared, CallableType) and declared.param_spec() is not None:
                return ["keeps"] * len(call.args)  # it passes its arguments on, such as ``pool.submit``
            formals = map_actuals_to_formals(
                call.arg_kinds, call.arg_names, item.arg_kinds, item.arg_names, lambda _: shapes.ANYTHING
            )
            for formal, actuals in zip(item.arg_types, formals, strict=True):
                for actual in actuals:
                    how[actual] = min(filter(None, (how[actual], _taken_as(formal))), key=MILD.index)
        return [each or "consumes" for each in how]


def stores(callee: Expression) -> bool:
    """True for what keeps a stream for later, and for what is ours, whatever comes of it."""
    if isinstance(callee, MemberExpr) and callee.name in ("append", "appendleft", "add", "insert", "put"):
        return True
    return isinstance(callee, RefExpr) and callee.fullname.startswith("tflow.")


def _taken_as(formal: Type) -> str:
    found = get_proper_type(formal)
    if isinstance(found, AnyType):
        return "keeps"
    return "looks" if isinstance(found, Instance) and found.type.fullname == "builtins.object" else "consumes"


Rule = Callable[[Values, Any, State], StreamEdge | None]  # Any: the kind of expression that it stands beside
RULES: dict[type[Expression] | type[None], Rule] = {
    NameExpr: Values.name,
    CallExpr: Values.call,
    MemberExpr: Values.member,
    nodes.ConditionalExpr: Values.conditional,
    nodes.OpExpr: Values.operation,
    nodes.AssignmentExpr: Values.walrus,
    nodes.CastExpr: Values.inner,
    nodes.AssertTypeExpr: Values.inner,
    nodes.TupleExpr: Values.display,
    nodes.ListExpr: Values.display,
    nodes.SetExpr: Values.display,
    nodes.DictExpr: Values.display,
    nodes.StarExpr: Values.display,
    nodes.LambdaExpr: Values.lambda_,
    nodes.ListComprehension: Values.generated,
    nodes.SetComprehension: Values.generated,
    nodes.GeneratorExpr: Values.comprehension,
    nodes.DictionaryComprehension: Values.comprehension,
    nodes.YieldExpr: Values.handed_out,
    nodes.YieldFromExpr: Values.handed_out,
    nodes.AwaitExpr: Values.handed_out,
}
