"""What is known of the source: the type of every expression, its text, and what it consists of.

mypy's own visitors are compiled and cannot be derived from, and what its nodes say of their parts is not always right. So the
parts of each kind of node are listed here.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from mypy import nodes as m
from mypy.checker import TypeChecker
from mypy.checker_state import checker_state
from mypy.types import AnyType, CallableType, Instance, Overloaded, TupleType, Type, UnionType, get_proper_type

from tflow.drawing.model import shorter
from tflow.drawing.shown import stream_base

PARTS: dict[type[m.Node], tuple[str, ...]] = {
    m.StarExpr: ("expr",),
    m.MemberExpr: ("expr",),
    m.CallExpr: ("callee", "args"),
    m.YieldFromExpr: ("expr",),
    m.YieldExpr: ("expr",),
    m.IndexExpr: ("base", "index"),
    m.UnaryExpr: ("expr",),
    m.AssignmentExpr: ("target", "value"),
    m.OpExpr: ("left", "right"),
    m.ComparisonExpr: ("operands",),
    m.SliceExpr: ("begin_index", "end_index", "stride"),
    m.CastExpr: ("expr",),
    m.AssertTypeExpr: ("expr",),
    m.RevealExpr: ("expr",),
    m.ListExpr: ("items",),
    m.TupleExpr: ("items",),
    m.SetExpr: ("items",),
    m.DictExpr: ("items",),
    m.GeneratorExpr: ("sequences", "indices", "condlists", "left_expr"),
    m.ListComprehension: ("generator",),
    m.SetComprehension: ("generator",),
    m.DictionaryComprehension: ("sequences", "indices", "condlists", "key", "value"),
    m.ConditionalExpr: ("cond", "if_expr", "else_expr"),
    m.AwaitExpr: ("expr",),
    m.LambdaExpr: ("body",),
    m.Block: ("body",),
    m.ExpressionStmt: ("expr",),
    m.AssignmentStmt: ("lvalues", "rvalue"),
    m.OperatorAssignmentStmt: ("lvalue", "rvalue"),
    m.WhileStmt: ("expr", "body", "else_body"),
    m.ForStmt: ("index", "expr", "body", "else_body"),
    m.ReturnStmt: ("expr",),
    m.AssertStmt: ("expr", "msg"),
    m.DelStmt: ("expr",),
    m.IfStmt: ("expr", "body", "else_body"),
    m.RaiseStmt: ("expr", "from_expr"),
    m.TryStmt: ("body", "handlers", "else_body", "finally_body"),
    m.WithStmt: ("expr", "target", "body"),
    m.MatchStmt: ("subject", "guards", "bodies"),
    m.FuncDef: ("body",),
    m.Decorator: ("func",),
    m.OverloadedFuncDef: ("items",),
    m.ClassDef: ("defs",),
}
"""The parts of a node that may have streams in them. Everything else is a leaf."""


def parts(node: m.Node) -> Iterator[m.Node]:
    """What a node directly consists of."""
    for name in PARTS.get(type(node), ()):
        yield from _flat(getattr(node, name))


def _flat(found: object) -> Iterator[m.Node]:
    if isinstance(found, m.Node):
        yield found
    elif isinstance(found, (list, tuple)):
        for each in found:
            yield from _flat(each)


def within(node: m.Node) -> Iterator[m.Node]:
    """A node and everything in it."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(list(parts(node))))


@dataclass
class Module:
    """The text of a module, and what was read of it."""

    name: str
    tree: m.MypyFile
    path: Path
    source: str
    new_checker: Callable[[], TypeChecker]
    """For questions about single expressions."""
    asked: dict[m.Expression, Type | None] = field(default_factory=dict)

    @cached_property
    def lines(self) -> list[str]:
        return self.source.split("\n")

    def text(self, node: m.Context) -> str:
        """How something is written."""
        first, last = node.line - 1, (node.end_line or node.line) - 1
        if not 0 <= first <= last < len(self.lines):
            return "..."
        rows = self.lines[first : last + 1]
        if node.end_column is not None and node.end_column >= 0:
            rows[-1] = rows[-1].encode()[: node.end_column].decode(errors="replace")  # columns count bytes
        rows[0] = rows[0].encode()[node.column :].decode(errors="replace")
        return shorter(" ".join(row.split(" #")[0].strip() for row in rows))

    def by_itself(self, expr: m.Expression, function: m.FuncItem | None) -> Type | None:
        """The type that an expression has wherever it stands; None if mypy finds fault with it.

        In its place it may be another: as an argument, ``stream.map(fn)`` is said to yield whatever the parameter accepts.
        """
        if expr not in self.asked:
            try:
                self.asked[expr] = self._checked(expr, function)
            except (Exception, SystemExit):  # whatever mypy trips over here, the type in its place is known
                self.asked[expr] = None
        return self.asked[expr]

    def _checked(self, expr: m.Expression, function: m.FuncItem | None) -> Type | None:
        checker, silence = self.new_checker(), io.StringIO()
        with ExitStack() as around:  # as mypy does it around a function, and nothing is said
            around.enter_context(redirect_stdout(silence))
            around.enter_context(redirect_stderr(silence))
            around.enter_context(checker_state.set(checker))
            checker.errors.set_file(checker.path, checker.tree.fullname, checker.options, checker.tscope)
            around.enter_context(checker.tscope.module_scope(checker.tree.fullname))
            around.enter_context(checker.enter_partial_types())
            around.enter_context(checker.binder.top_frame_context())
            if function is not None:
                if function.info:
                    around.enter_context(checker.scope.push_class(function.info))
                around.enter_context(checker.scope.push_function(function))
            watcher = around.enter_context(checker.msg.filter_errors())
            found = checker.expr_checker.accept(expr)
        return None if watcher.has_new_errors() else found


@dataclass
class Program:
    """What mypy found out: the modules whose text was looked at, and the types of all expressions in them."""

    modules: Mapping[str, Module]
    types: Mapping[m.Expression, Type]
    paths: Mapping[str, str]
    """Where the other modules are that can be looked into."""
    wanted: set[str] = field(default_factory=set)
    """Modules that should have been looked into."""

    def type_of(self, expr: m.Expression) -> Type | None:
        return self.types.get(expr)

    def is_stream(self, expr: m.Expression) -> bool:
        return stream_base(self.type_of(expr)) is not None

    def has_streams(self, expr: m.Expression) -> bool:
        return has_streams(self.type_of(expr))

    def is_any(self, expr: m.Expression) -> bool:
        found = self.type_of(expr)
        return found is None or isinstance(get_proper_type(found), AnyType)

    def module_of(self, fullname: str) -> str | None:
        """The module of the user in which something is defined."""
        while fullname:
            fullname = fullname.rpartition(".")[0]
            if fullname in self.modules or fullname in self.paths:
                return fullname
        return None

    def ask_for(self, module: str) -> None:
        """Look into a module next time, if it is one of the user's."""
        if module in self.paths and module not in self.modules:
            self.wanted.add(module)


def has_streams(given: Type | None, depth: int = 4, fields: bool = True) -> bool:
    """True for a stream and for what holds streams: tuples, lists, dictionaries, and objects with streams in their fields."""
    proper = get_proper_type(given)
    if depth == 0 or proper is None:
        return False
    if stream_base(proper) is not None:
        return True
    if isinstance(proper, (TupleType, UnionType)):
        return any(has_streams(each, depth - 1, fields) for each in proper.items)
    if not isinstance(proper, Instance) or proper.type.fullname.startswith("tflow."):
        return False
    if any(has_streams(each, depth - 1, fields) for each in proper.args):
        return True
    kinds = (entry.node.type for entry in proper.type.names.values() if isinstance(entry.node, m.Var))
    return fields and is_object(proper) and any(has_streams(kind, depth - 1, False) for kind in kinds)


def is_object(given: Type | None) -> bool:
    """True for objects of classes of the user: their fields are looked at one by one."""
    proper = get_proper_type(given)
    if not isinstance(proper, Instance) or stream_base(proper) is not None:
        return False
    return proper.type.module_name.split(".")[0] not in ("builtins", "typing", "typing_extensions", "collections", "types")


def signature(given: Type | None) -> CallableType | None:
    """The function type of something that is called; of an overloaded one, the first."""
    proper = get_proper_type(given)
    if isinstance(proper, Overloaded):
        return proper.items[0]
    return proper if isinstance(proper, CallableType) else None
