"""Syntax trees of mypy: their children, in the order in which they are evaluated, and questions about names.

mypy's own visitors are compiled and cannot be derived from, and ``__match_args__`` is wrong for some nodes, so the children are
listed here.
"""

from __future__ import annotations

from collections.abc import Iterator

from mypy import nodes
from mypy.nodes import Expression, FuncDef, FuncItem, LambdaExpr, MypyFile, NameExpr, Node, Var

CHILDREN: dict[type[Node], tuple[str, ...]] = {
    nodes.MypyFile: ("defs",),
    nodes.Block: ("body",),
    nodes.ExpressionStmt: ("expr",),
    nodes.AssignmentStmt: ("rvalue", "lvalues"),
    nodes.OperatorAssignmentStmt: ("rvalue", "lvalue"),
    nodes.WhileStmt: ("expr", "body", "else_body"),
    nodes.ForStmt: ("expr", "index", "body", "else_body"),
    nodes.ReturnStmt: ("expr",),
    nodes.AssertStmt: ("expr", "msg"),
    nodes.DelStmt: ("expr",),
    nodes.IfStmt: ("expr", "body", "else_body"),
    nodes.RaiseStmt: ("expr", "from_expr"),
    nodes.TryStmt: ("body", "types", "handlers", "else_body", "finally_body"),
    nodes.WithStmt: ("expr", "target", "body"),
    nodes.MatchStmt: ("subject", "guards", "bodies"),
    nodes.FuncDef: ("body",),
    nodes.LambdaExpr: ("body",),
    nodes.Decorator: ("func",),
    nodes.OverloadedFuncDef: ("items", "impl"),
    nodes.ClassDef: ("defs",),
    nodes.CallExpr: ("callee", "args"),
    nodes.MemberExpr: ("expr",),
    nodes.IndexExpr: ("base", "index"),
    nodes.SliceExpr: ("begin_index", "end_index", "stride"),
    nodes.OpExpr: ("left", "right"),
    nodes.ComparisonExpr: ("operands",),
    nodes.UnaryExpr: ("expr",),
    nodes.ConditionalExpr: ("cond", "if_expr", "else_expr"),
    nodes.TupleExpr: ("items",),
    nodes.ListExpr: ("items",),
    nodes.SetExpr: ("items",),
    nodes.DictExpr: ("items",),
    nodes.StarExpr: ("expr",),
    nodes.ListComprehension: ("generator",),
    nodes.SetComprehension: ("generator",),
    nodes.GeneratorExpr: ("sequences", "condlists", "left_expr"),
    nodes.DictionaryComprehension: ("sequences", "condlists", "key", "value"),
    nodes.AssignmentExpr: ("value", "target"),
    nodes.AwaitExpr: ("expr",),
    nodes.YieldExpr: ("expr",),
    nodes.YieldFromExpr: ("expr",),
    nodes.CastExpr: ("expr",),
    nodes.AssertTypeExpr: ("expr",),
}


def children(node: Node) -> Iterator[Node]:
    """What a node consists of."""
    for name in CHILDREN.get(type(node), ()):
        yield from _nodes_in(getattr(node, name))


def _nodes_in(value: object) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _nodes_in(item)


def walk(node: Node) -> Iterator[Node]:
    """A node and all that it consists of."""
    yield node
    for child in children(node):
        yield from walk(child)


def own(node: Node) -> Iterator[Node]:
    """As ``walk``, but functions and classes inside are left out: they have a life of their own. Lambdas are not."""
    yield node
    for child in children(node):
        if not isinstance(child, (nodes.FuncDef, nodes.Decorator, nodes.OverloadedFuncDef, nodes.ClassDef)):
            yield from own(child)


def functions_in(node: Node) -> Iterator[FuncDef]:
    """All functions defined inside a node, the outer ones first."""
    return (each for each in walk(node) if isinstance(each, FuncDef))


def captured(fn: FuncItem) -> list[NameExpr]:
    """The variables from outside that a function uses, each where it is used first."""
    inside = {id(name.node) for name in _assigned(fn)}
    inside |= {id(argument.variable) for each in _functions(fn) for argument in each.arguments}
    found: dict[int, NameExpr] = {}
    for name in walk(fn.body):
        if isinstance(name, NameExpr) and isinstance(name.node, Var) and id(name.node) not in inside:
            found.setdefault(id(name.node), name)
    return list(found.values())


def _functions(fn: FuncItem) -> Iterator[FuncItem]:
    yield fn
    for each in walk(fn.body):
        if isinstance(each, (FuncDef, LambdaExpr)):
            yield each


def _assigned(fn: FuncItem) -> Iterator[NameExpr]:
    for node in walk(fn.body):
        targets: list[Node] = []
        if isinstance(node, nodes.AssignmentStmt):
            targets = list(node.lvalues)
        elif isinstance(node, nodes.ForStmt):
            targets = [node.index]
        elif isinstance(node, nodes.WithStmt):
            targets = [target for target in node.target if target is not None]
        elif isinstance(node, (nodes.GeneratorExpr, nodes.DictionaryComprehension)):
            targets = list(node.indices)
        elif isinstance(node, nodes.AssignmentExpr):
            targets = [node.target]
        for target in targets:
            for name in walk(target):
                if isinstance(name, NameExpr):
                    yield name


def definition(variable: Var, scope: MypyFile | FuncItem | None) -> Expression | None:
    """What a variable is set to, if that happens exactly once in ``scope``."""
    if scope is None:
        return None
    found: list[Expression] = []
    body: Node = scope if isinstance(scope, MypyFile) else scope.body
    for node in own(body):
        if isinstance(node, nodes.AssignmentStmt):
            for lvalue in node.lvalues:
                if isinstance(lvalue, NameExpr) and lvalue.node is variable:
                    found.append(node.rvalue)
                elif any(isinstance(name, NameExpr) and name.node is variable for name in walk(lvalue)):
                    found += [node.rvalue, node.rvalue]  # one of several: not a definition of its own
        elif isinstance(node, nodes.AssignmentExpr) and node.target.node is variable:
            found.append(node.value)
        elif isinstance(node, (nodes.ForStmt, nodes.OperatorAssignmentStmt, nodes.WithStmt)):
            set_here = [node.index] if isinstance(node, nodes.ForStmt) else []
            set_here += [node.lvalue] if isinstance(node, nodes.OperatorAssignmentStmt) else []
            set_here += [each for each in node.target if each] if isinstance(node, nodes.WithStmt) else []
            for target in set_here:
                if any(isinstance(name, NameExpr) and name.node is variable for name in walk(target)):
                    return None
    return found[0] if len(found) == 1 else None


def unpacked(variable: Var, scope: MypyFile | FuncItem) -> tuple[nodes.CallExpr, int] | None:
    """The call ``x.split(...)`` whose result is unpacked into a variable, and at which place; only if it is set once."""
    found: list[tuple[nodes.CallExpr, int] | None] = []
    body: Node = scope if isinstance(scope, MypyFile) else scope.body
    for node in own(body):
        for lvalue in node.lvalues if isinstance(node, nodes.AssignmentStmt) else ():
            if isinstance(lvalue, NameExpr) and lvalue.node is variable:
                found.append(None)
            for place, name in enumerate(lvalue.items) if isinstance(lvalue, (nodes.TupleExpr, nodes.ListExpr)) else ():
                if isinstance(name, NameExpr) and name.node is variable:
                    found.append((node.rvalue, place) if is_split(node.rvalue) else None)  # type: ignore[arg-type]  # a call
    return found[0] if len(found) == 1 else None


def is_split(expr: Expression) -> bool:
    """True for ``x.split(...)``."""
    return isinstance(expr, nodes.CallExpr) and isinstance(expr.callee, nodes.MemberExpr) and expr.callee.name == "split"


def is_empty(fn: FuncDef) -> bool:
    """True for a body that is still to be written, or written elsewhere: a docstring, ``...``, ``pass``, or an exception."""
    return all(
        isinstance(each, (nodes.PassStmt, nodes.RaiseStmt))
        or (isinstance(each, nodes.ExpressionStmt) and isinstance(each.expr, (nodes.StrExpr, nodes.EllipsisExpr)))
        for each in fn.body.body
    )
