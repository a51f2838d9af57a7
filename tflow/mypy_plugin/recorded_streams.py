"""Records the streams of a body: each expression that is one, with its type, its place and what it is made of."""

from __future__ import annotations

from mypy.nodes import (
    AssignmentStmt,
    CallExpr,
    Expression,
    FuncDef,
    LambdaExpr,
    ListExpr,
    MemberExpr,
    MypyFile,
    NameExpr,
    Node,
    TupleExpr,
    Var,
)
from mypy.types import CallableType, Instance, TupleType, Type, get_proper_type

from tflow.mypy_plugin import shapes, tree
from tflow.mypy_plugin.labels import Labels
from tflow.mypy_plugin.recorder import FunctionRecord, StreamRecord, Unit, active
from tflow.mypy_plugin.report import Checker
from tflow.mypy_plugin.shown_types import shown


class Streams:
    """Walks through a body and records its streams; names stand for what they were set to last, in the order of the text."""

    def __init__(self, api: Checker, scopes: tree.Scopes, into: Unit) -> None:
        self.api, self.into = api, into
        self.labels = Labels(api.lookup_type_or_none, scopes)
        self.named: dict[Var, int] = {}

    def body(self, node: Node) -> None:
        """All that is inside, except functions and classes."""
        for child in tree.children(node):
            if type(child) not in tree.ALONE and not isinstance(child, LambdaExpr):
                self.visit(child)

    def visit(self, node: Node) -> int | None:
        """The number of the stream that an expression is; None for everything else."""
        if isinstance(node, AssignmentStmt):
            self.assigned(node)
        elif isinstance(node, CallExpr):
            return self.called(node)
        elif isinstance(node, NameExpr):
            return self.name(node, hinted=False)
        else:
            self.body(node)
        return None

    def assigned(self, node: AssignmentStmt) -> None:
        made = self.name(node.rvalue, hinted=True) if isinstance(node.rvalue, NameExpr) else self.visit(node.rvalue)
        for target in node.lvalues:
            several = target.items if isinstance(target, (TupleExpr, ListExpr)) else [target]
            for each in several:
                if isinstance(each, NameExpr) and isinstance(each.node, Var):
                    if made is not None:
                        self.named[each.node] = made
                    self.name(each, hinted=False)

    def called(self, call: CallExpr) -> int | None:
        callee, inputs = call.callee, list[int | None]()
        start = (call.line, call.column)
        if isinstance(callee, MemberExpr):
            before = callee.expr
            inputs.append(self.name(before, hinted=True) if isinstance(before, NameExpr) else self.visit(before))
            if inputs[0] is not None and before.end_line is not None and before.end_column is not None:
                start = (before.end_line, before.end_column)
        else:
            self.visit(callee)
        inputs += [self.visit(each) for each in call.args]
        found = tuple(each for each in inputs if each is not None)
        return self.add(call, start, self.labels.of(call), self.maker(callee), found, hinted=True)

    def name(self, node: NameExpr, *, hinted: bool) -> int | None:
        before = self.named.get(node.node) if isinstance(node.node, Var) else None
        inputs = (before,) if before is not None else ()
        return self.add(node, (node.line, node.column), node.name, "", inputs, hinted=hinted)

    def add(
        self, node: Expression, start: tuple[int, int], label: str, maker: str, inputs: tuple[int, ...], *, hinted: bool
    ) -> int | None:
        stream, number = streams_in(self.api.lookup_type_or_none(node))
        if stream is None or node.end_line is None or node.end_column is None:
            return None
        element = shown(stream.args[0])
        times = f"{number} x " if number > 1 else ""
        record = StreamRecord(
            id=len(self.into.streams),
            line=start[0],
            column=start[1],
            end_line=node.end_line,
            end_column=node.end_column,
            type=f"{times}{stream.type.name}[{element}]",
            element=element,
            where=place_of(stream),
            columns=tuple(shapes.columns(stream.args[0]) or ()),
            label=label,
            maker=maker,
            inputs=inputs,
            hinted=hinted,
        )
        self.into.streams.append(record)
        return record.id

    def maker(self, callee: Expression) -> str:
        """What is called, by its full name."""
        if isinstance(callee, MemberExpr):
            owner = get_proper_type(self.api.lookup_type_or_none(callee.expr))
            stream = shapes.stream(owner)
            if stream is not None:
                return f"{stream.type.fullname}.{callee.name}"
        return getattr(callee, "fullname", "") or ""


def streams_in(t: Type | None) -> tuple[Instance | None, int]:
    """A stream, or the first of several that are made together, and how many there are."""
    proper = get_proper_type(t) if t is not None else None
    if isinstance(proper, TupleType) and proper.items:
        found = [shapes.stream(each) for each in proper.items]
        return (found[0], len(found)) if all(found) else (None, 0)
    return shapes.stream(proper), 1


def place_of(stream: Instance) -> str:
    """Where a stream is, and whether it is behind a barrier."""
    kind = stream.type.fullname
    if kind == shapes.PLAN or len(stream.args) < 2:
        return ""
    if kind == shapes.PAR_ITER:
        actors = get_proper_type(stream.args[2]) if len(stream.args) > 2 else None
        known = isinstance(actors, Instance) and actors.type.fullname != "builtins.object"
        return f"actors: {shapes.name_of(actors)}" if known else "actors"
    sync = shapes.as_base(stream.args[1], shapes.SYNC) is not None
    return f"driver · {'sync' if sync else 'async'}"


def record(api: Checker, fn: FuncDef | MypyFile, scopes: tree.Scopes) -> None:
    """Record the streams of a body, and the function itself if it makes a plan or a part of one."""
    into = active()
    if into is None:
        return
    Streams(api, scopes, into.unit).body(fn if isinstance(fn, MypyFile) else fn.body)
    returns = fn.type.ret_type if isinstance(fn, FuncDef) and isinstance(fn.type, CallableType) else None
    made = shapes.stream(returns)
    if isinstance(fn, FuncDef) and made is not None and len(scopes.scopes) < 3:
        name = f"{fn.info.name}.{fn.name}" if fn.info else fn.name
        into.unit.functions.append(FunctionRecord(name, fn.line, fn.column, made.type.fullname == shapes.PLAN))
