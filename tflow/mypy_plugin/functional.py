"""Functions of functions, during the traversal of a function body: ``map``, ``reduce``, ``partial``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from mypy import nodes
from mypy.nodes import CallExpr, Expression, FuncDef, FuncItem, LambdaExpr, MemberExpr, NameExpr, RefExpr, Var
from mypy.types import Instance, get_proper_type

from tflow.mypy_plugin import shapes
from tflow.mypy_plugin.edges import Members, Method, State, StreamEdge, Use, Value
from tflow.mypy_plugin.labels import source
from tflow.mypy_plugin.names import Names


class Functional(Names):
    """What calls of functions make, which are not written where they are called."""

    local: set[FuncDef]
    """Functions that are defined inside this body."""
    repeats = 0
    """How many loops are being traversed, where nobody knows how often something is taken out of a list."""

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """What is traversed meanwhile belongs to one turn of a loop."""
        outer, self.turn, self.repeats = self.turn, next(self.turns), self.repeats + 1
        yield
        self.turn, self.repeats = outer, self.repeats - 1

    def value(self, expr: Expression | None, state: State) -> Value | None:
        """What an expression is (``values.py``)."""
        raise NotImplementedError

    def entered(self, fn: FuncItem, given: Sequence[tuple[str | None, Value | None]], state: State) -> Value | None:
        """What a function of this body makes of some arguments (``uses.py``)."""
        raise NotImplementedError

    def method_called(self, method: Method, call: CallExpr, state: State) -> StreamEdge:
        """What a method of a stream that has a name of its own makes."""
        label = f"{method.name}(...)"
        self.consume(method.edge, label, call, state)
        return StreamEdge(label, sources=method.edge.sources | {(method.edge, Use(label, call, turn=self.turn))})

    def followed(self, call: CallExpr, state: State) -> FuncItem | Method | None:
        """The function that a function of functions is given, if it is followed: one of this body, or a method of a stream."""
        if len(call.args) < 2 or any(kind is not nodes.ARG_POS for kind in call.arg_kinds):
            return None
        expr = call.args[0]
        if isinstance(expr, LambdaExpr):
            return expr
        if isinstance(expr, MemberExpr):
            found = self.value(expr, state) if shapes.stream(self.type_of(expr.expr)) is not None else None
            return found if isinstance(found, Method) else None
        if not isinstance(expr, NameExpr):
            return None
        if isinstance(expr.node, FuncDef) and expr.node in self.local:
            return expr.node
        held = state.held.get(expr.node) if isinstance(expr.node, Var) else None
        return held if isinstance(held, (LambdaExpr, Method)) else None

    def applied(self, function: FuncItem | Method, call: CallExpr, given: Sequence[Value | None], state: State) -> Value | None:
        """What a function of functions makes of some items."""
        if not isinstance(function, Method):
            return self.entered(function, [(None, each) for each in given], state)
        for each in given:
            self.let_go(each)
        return self.method_called(function, call, state)

    def items(self, expr: Expression, state: State) -> list[Value | None]:
        """What is gone through: as many as are known, else two of which nothing is known."""
        listed = self.value(expr, state)
        if isinstance(listed, Members) and listed.keys is None:
            return list(listed.members)
        self.let_go(listed)
        shown = expr.items if isinstance(expr, (nodes.ListExpr, nodes.TupleExpr)) else []
        return [None] * (2 if not shown or any(isinstance(each, nodes.StarExpr) for each in shown) else min(len(shown), 2))

    def mapped(self, function: FuncItem | Method, call: CallExpr, state: State, most: int | None = None) -> Members | None:
        """``map(stream.batch, sizes)``; of which ``most`` are asked for."""
        columns = [self.items(each, state)[:most] for each in call.args[1:]]
        made: list[Value | None] = []
        for given in zip(*columns, strict=False):
            with self.in_turn():
                made.append(self.applied(function, call, given, state))
        return Members(tuple(made)) if any(each is not None for each in made) else None

    def reduced(self, function: FuncItem | Method, call: CallExpr, state: State) -> Value | None:
        """``reduce(lambda merged, stream: Union(merged, stream), streams)``."""
        items = self.items(call.args[1], state)
        value = self.value(call.args[2], state) if len(call.args) > 2 else items.pop(0) if items else None
        for each in items:
            with self.in_turn():
                value = self.applied(function, call, [value, each], state)
        return value

    def higher_order(self, call: CallExpr, state: State) -> tuple[bool, Value | None]:
        """``map`` and ``reduce``, if what they call is followed."""
        function = self.followed(call, state)
        if function is None:
            return False, None
        called = call.callee.fullname if isinstance(call.callee, RefExpr) else ""
        return True, HIGHER_ORDER[called](self, function, call, state)

    def partial(self, call: CallExpr, state: State) -> tuple[bool, Value | None]:
        """``functools.partial``: with a stream it is like a method of that stream, which consumes it when it is called."""
        found = [self.value(each, state) for each in call.args]
        if isinstance(found[0], Method):
            for each in found[1:]:
                self.let_go(each)
            return True, found[0]
        made = get_proper_type(self.type_of(call))
        streams = [each for each in found if isinstance(each, StreamEdge)]
        makes = isinstance(made, Instance) and bool(made.args) and shapes.stream(made.args[0]) is not None
        if makes and len(streams) == 1 and not any(isinstance(each, (Members, Method)) for each in found):
            streams[0].where = streams[0].where or call
            return True, Method(streams[0], source(call.args[0]))
        for each, where in zip(found, call.args, strict=True):
            self.consume(each, "partial", where, state)
        return True, None


HIGHER_ORDER: dict[str, Callable[[Functional, FuncItem | Method, CallExpr, State], Value | None]] = {
    "builtins.map": Functional.mapped,
    "functools.reduce": Functional.reduced,
}
