"""Which stream is consumed where: a function body is traversed as it would run, along all of its paths at once.

Every stream that gets a name is an *edge*. Names are only names: ``x = r`` gives the edge a second one. Where paths meet and a
name means different edges, it means a new one, made of these. Loops are traversed twice, so that what is consumed in every
turn shows up as consumed twice. What cannot be followed (streams in attributes, in closures, in values without a type) is
ignored: no rule complains about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mypy import nodes
from mypy.nodes import CallExpr, Expression, FuncDef, FuncItem, NameExpr, Statement, Var
from mypy.types import UninhabitedType, get_proper_type

from tflow.mypy_plugin import shapes, tree
from tflow.mypy_plugin.edges import State, StreamEdge, Use
from tflow.mypy_plugin.labels import Labels
from tflow.mypy_plugin.report import Checker
from tflow.mypy_plugin.values import Values


class Uses(Values):
    """Goes through one body."""

    def __init__(self, api: Checker, labels: Labels, *, strict: bool, twice: Callable[[StreamEdge, Use, Use], None]) -> None:
        super().__init__(api, labels, strict=strict, twice=twice)
        self.discarded: list[tuple[Expression, str]] = []
        self.jumps: list[tuple[list[State], list[State]]] = []
        """Where ``continue`` and ``break`` leave the loops that are being traversed."""

    def function(self, fn: FuncItem) -> None:
        """A function, with the streams that it is given."""
        state = State()
        own = 1 if isinstance(fn, FuncDef) and fn.info and not fn.is_static else 0
        for argument in fn.arguments[own:]:
            variable = argument.variable
            if not argument.kind.is_star() and shapes.stream(variable.type) is not None:
                self.bind(variable, StreamEdge(f'"{variable.name}"', argument, variable.name, parameter=True), state)
        self.block(fn.body, state)

    def block(self, body: nodes.Block | None, state: State) -> bool:
        """False if control never comes out at the end."""
        return body is None or self.statements(body.body, state)

    def statements(self, body: Iterable[Statement], state: State) -> bool:
        """False if control never comes out at the end."""
        return all(self.statement(each, state) for each in body)

    def statement(self, node: Statement, state: State) -> bool:
        """False if control does not go on behind it."""
        rule = RULES.get(type(node))
        if rule is not None:
            return rule(self, node, state) is not False
        for child in tree.children(node):
            if isinstance(child, Expression):
                self.value(child, state)
        return True

    # ------------------------------------------------------------------- one after the other

    def assignment(self, node: nodes.AssignmentStmt, state: State) -> None:
        made = node.rvalue
        if isinstance(made, nodes.TempNode):
            return  # only a declaration
        if isinstance(made, nodes.TupleExpr) and all(_unpacks(target, made) for target in node.lvalues):
            values = [self.value(item, state) for item in made.items]  # all of them first: `a, b = b, a`
            for target in node.lvalues:
                assert isinstance(target, (nodes.TupleExpr, nodes.ListExpr))
                for each in zip(target.items, made.items, values, strict=True):
                    self.set(*each, state)
            return
        value = self.value(made, state)
        for target in node.lvalues:
            self.set(target, made, value, state)

    def expression(self, node: nodes.ExpressionStmt, state: State) -> bool:
        value = self.value(node.expr, state)
        if isinstance(node.expr, CallExpr) and value is not None and value.where is None and not value.parts:
            self.discarded.append((node.expr, value.label))
        elif self.is_split(node.expr) and isinstance(node.expr, CallExpr):
            self.discarded.append((node.expr, self.labels.call(node.expr)))
        return not isinstance(get_proper_type(self.type_of(node.expr)), UninhabitedType)  # such as sys.exit()

    def returned(self, node: nodes.ReturnStmt, state: State) -> bool:
        self.consume(self.value(node.expr, state), "return", node.expr, state)
        return False

    def raised(self, node: nodes.RaiseStmt, state: State) -> bool:
        return False

    def jump(self, node: nodes.BreakStmt | nodes.ContinueStmt, state: State) -> bool:
        if self.jumps:
            self.jumps[-1][isinstance(node, nodes.BreakStmt)].append(state.copy())
        return False

    def with_(self, node: nodes.WithStmt, state: State) -> bool:
        for given, target in zip(node.expr, node.target, strict=True):
            value = self.value(given, state)
            if target is not None:
                self.set(target, given, value, state)
        before = state.copy()
        through = self.block(node.body, state)
        if not any(shapes.swallows(self.type_of(given)) for given in node.expr):
            return through
        return self.meet(state, [before, state.copy() if through else None])  # the body may end anywhere

    def delete(self, node: nodes.DelStmt, state: State) -> None:
        for name in tree.walk(node.expr):
            if isinstance(name, NameExpr) and isinstance(name.node, Var) and name.node in state.names:
                state.names.pop(name.node).mark(released=True)

    def definition(self, node: Statement, state: State) -> None:
        self.release_names_in(node, state)

    # ------------------------------------------------------------------- one or the other

    def path(self, body: nodes.Block, state: State) -> State | None:
        """The state after a path that begins here; None if it does not come back."""
        own = state.copy()
        return own if self.block(body, own) else None

    def if_(self, node: nodes.IfStmt, state: State) -> bool:
        for condition in node.expr:
            self.value(condition, state)
        return self.meet(state, [self.path(body, state) for body in (*node.body, node.else_body or nodes.Block([]))])

    def match(self, node: nodes.MatchStmt, state: State) -> bool:
        subject = self.value(node.subject, state)
        for name in [each for pattern in node.patterns for each in tree.walk(pattern)]:
            if isinstance(name, NameExpr) and isinstance(name.node, Var) and subject is not None:
                state.names[name.node] = subject
        return self.meet(state, [state.copy(), *(self.path(body, state) for body in node.bodies)])

    def try_(self, node: nodes.TryStmt, state: State) -> bool:
        """A handler begins as if nothing of the body had been done: it may have failed at once."""
        before, body = state.copy(), state.copy()
        arrives = self.block(node.body, body) and self.block(node.else_body, body)
        ends: list[State | None] = [body if arrives else None, *(self.path(handler, before) for handler in node.handlers)]
        if not arrives and node.finally_body is not None:
            self.block(node.finally_body, body)  # also after a return
        through = self.meet(state, ends)
        return self.block(node.finally_body, state) and through

    def loop(self, node: nodes.ForStmt | nodes.WhileStmt, state: State) -> None:
        value = self.value(node.expr, state) if isinstance(node, nodes.ForStmt) else None
        if value is not None:
            self.run(value, state)  # to go through a plan is to run it
        after: list[State | None] = [state.copy()]
        turn: State | None = state.copy()
        for _ in range(2):
            if turn is None:
                break
            if isinstance(node, nodes.ForStmt):
                self.set(node.index, node.index, None, turn)
            else:
                self.value(node.expr, turn)
            self.jumps.append(([], []))
            through = self.block(node.body, turn)
            again, out = self.jumps.pop()
            ends: list[State | None] = [*again, turn if through else None]
            turn = State()
            if not self.meet(turn, ends):
                turn = None
            after += [*out, turn.copy() if turn is not None else None]
        self.meet(state, after)
        self.block(node.else_body, state)


def _unpacks(target: Expression, made: nodes.TupleExpr) -> bool:
    """True if a target takes the items one by one."""
    if not isinstance(target, (nodes.TupleExpr, nodes.ListExpr)) or len(target.items) != len(made.items):
        return False
    return not any(isinstance(item, nodes.StarExpr) for item in (*target.items, *made.items))


Rule = Callable[[Uses, Any, State], bool | None]  # Any: the kind of statement that it stands beside
RULES: dict[type[Statement], Rule] = {
    nodes.AssignmentStmt: Uses.assignment,
    nodes.ExpressionStmt: Uses.expression,
    nodes.ReturnStmt: Uses.returned,
    nodes.RaiseStmt: Uses.raised,
    nodes.BreakStmt: Uses.jump,
    nodes.ContinueStmt: Uses.jump,
    nodes.Block: Uses.block,
    nodes.IfStmt: Uses.if_,
    nodes.ForStmt: Uses.loop,
    nodes.WhileStmt: Uses.loop,
    nodes.MatchStmt: Uses.match,
    nodes.WithStmt: Uses.with_,
    nodes.TryStmt: Uses.try_,
    nodes.DelStmt: Uses.delete,
    FuncDef: Uses.definition,
    nodes.Decorator: Uses.definition,
    nodes.OverloadedFuncDef: Uses.definition,
    nodes.ClassDef: Uses.definition,
}
