"""Syntax trees of mypy: their children, in the order in which they are evaluated, and questions about names.

mypy's own visitors are compiled and cannot be derived from, and ``__match_args__`` is wrong for some nodes, so the children are
listed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from mypy import nodes, patterns
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
    nodes.MatchStmt: ("subject", "patterns", "guards", "bodies"),
    patterns.AsPattern: ("pattern", "name"),
    patterns.OrPattern: ("patterns",),
    patterns.ClassPattern: ("class_ref", "positionals", "keyword_values"),
    patterns.SequencePattern: ("patterns",),
    patterns.MappingPattern: ("keys", "values", "rest"),
    patterns.StarredPattern: ("capture",),
    patterns.ValuePattern: ("expr",),
    nodes.Argument: ("initializer",),
    nodes.FuncDef: ("arguments", "body"),
    nodes.LambdaExpr: ("arguments", "body"),
    nodes.Decorator: ("decorators", "func"),
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


ALONE = {nodes.FuncDef, nodes.Decorator, nodes.OverloadedFuncDef, nodes.ClassDef}


def children(node: Node) -> list[Node]:
    """What a node consists of."""
    return parts(node, [])


def parts(node: Node, found: list[Node]) -> list[Node]:
    """As ``children``, added to a list. This is done for every node of a file, several times."""
    for name in CHILDREN.get(type(node), ()):
        value = getattr(node, name)
        if type(value) is list:
            for each in value:
                if isinstance(each, Node):
                    found.append(each)
                elif each:
                    found += _nodes_in(each)
        elif value is not None:
            found.append(value)
    return found


def _nodes_in(values: Iterable[object]) -> Iterator[Node]:
    for value in values:
        if isinstance(value, Node):
            yield value
        elif value is not None:
            assert isinstance(value, (list, tuple))
            yield from _nodes_in(value)


def walk(node: Node) -> list[Node]:
    """A node and all that it consists of, before what follows it."""
    found: list[Node] = []
    waiting = [node]
    while waiting:
        each = waiting.pop()
        found.append(each)
        if type(each) in CHILDREN:
            waiting += parts(each, [])[::-1]
    return found


def own(node: Node, others: list[Node] | None = None) -> list[Node]:
    """As ``walk``, but functions and classes inside are left out, or added to ``others``: they have a life of their own. Lambdas
    are not."""
    found: list[Node] = []
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if type(each) in ALONE and each is not node:
            if others is not None:
                others.append(each)
            continue
        found.append(each)
        if type(each) in CHILDREN:
            waiting += parts(each, [])[::-1]
    return found


def returns(fn: FuncItem) -> list[Expression]:
    """What a function may return; lambdas inside return something of their own."""
    inside = own(fn.body)
    others = {id(node) for each in inside if isinstance(each, LambdaExpr) for node in own(each.body)}
    found = [node.expr for node in inside if isinstance(node, nodes.ReturnStmt) and id(node) not in others]
    return [expr for expr in found if expr is not None]


def captured(fn: FuncItem) -> list[NameExpr]:
    """The variables from outside that a function uses, each where it is used first."""
    inside = {id(name.node) for name in _assigned(fn)}
    inside |= {id(argument.variable) for each in _functions(fn) for argument in each.arguments}
    found: dict[int, NameExpr] = {}
    for name in walk(fn.body):
        if isinstance(name, NameExpr) and isinstance(name.node, Var) and id(name.node) not in inside:
            found.setdefault(id(name.node), name)
    return list(found.values())


def used_from_outside(fn: FuncItem) -> list[NameExpr]:
    """As ``captured``, with the functions and classes of other functions."""
    inside = {id(node.info) if isinstance(node, nodes.ClassDef) else id(node) for node in (fn, *walk(fn.body))}
    found = {id(name.node): name for name in captured(fn)}
    for name in walk(fn.body):
        if not isinstance(name, NameExpr) or name.kind != nodes.LDEF or id(name.node) in inside:
            continue
        if isinstance(name.node, (FuncDef, nodes.Decorator, nodes.TypeInfo)):
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
        elif isinstance(node, nodes.MatchStmt):
            targets = list(node.patterns)
        for target in targets:
            yield from _bound(target)


def _bound(target: Node) -> Iterator[NameExpr]:
    """The names that get a value; one whose attribute or item gets one is only used."""
    if isinstance(target, NameExpr):
        yield target
    elif not isinstance(target, (nodes.MemberExpr, nodes.IndexExpr)):
        for child in children(target):
            yield from _bound(child)


CHANGES = {"update", "setdefault", "pop", "popitem", "clear", "append", "extend", "insert", "remove", "add", "discard"}


class Definitions:
    """What variables are set to in one scope, where that happens exactly once."""

    def __init__(self, scope: MypyFile | FuncItem) -> None:
        self.set: dict[Var, list[tuple[Expression | None, int]]] = {}
        """How often each is set, and to what; with its place if it is one of several."""
        self.others: list[Node] = []
        """The functions and classes inside."""
        self.nodes = own(scope if isinstance(scope, MypyFile) else scope.body, self.others)
        self.changed: set[Var] = set()
        """Variables whose value is changed in place."""
        self.more: object = None
        """What ``bindings.py`` finds out besides, once."""
        for argument in () if isinstance(scope, MypyFile) else scope.arguments:
            self.set[argument.variable] = [(None, -1)]
        for node in self.nodes:
            if isinstance(node, nodes.AssignmentStmt):
                for lvalue in node.lvalues:
                    self.add(lvalue, node.rvalue)
            elif isinstance(node, nodes.AssignmentExpr):
                self.add(node.target, node.value)
            elif isinstance(node, nodes.DelStmt) and isinstance(node.expr, nodes.IndexExpr):
                self.change(node.expr.base)
            elif isinstance(node, nodes.CallExpr) and isinstance(node.callee, nodes.MemberExpr) and node.callee.name in CHANGES:
                self.change(node.callee.expr)
            else:
                for target in targets(node):
                    self.add(target, None)

    @cached_property
    def everything(self) -> list[Node]:
        """All nodes, also those of the functions and classes inside."""
        return [*self.nodes, *(node for each in self.others for node in walk(each))]

    def change(self, expr: Expression) -> None:
        while isinstance(expr, (nodes.MemberExpr, nodes.IndexExpr)):  # a part of it is changed
            expr = expr.expr if isinstance(expr, nodes.MemberExpr) else expr.base
        if isinstance(expr, NameExpr) and isinstance(expr.node, Var):
            self.changed.add(expr.node)

    def add(self, target: Expression | None, made: Expression | None, place: int = -1) -> None:
        if isinstance(target, NameExpr) and isinstance(target.node, Var):
            self.set.setdefault(target.node, []).append((made, place))
        elif isinstance(target, (nodes.TupleExpr, nodes.ListExpr)):
            for index, item in enumerate(target.items):
                self.add(item, made, index)
        elif isinstance(target, nodes.StarExpr):
            self.add(target.expr, None)
        elif isinstance(target, nodes.IndexExpr):
            self.change(target.base)
        elif isinstance(target, nodes.MemberExpr):
            self.change(target.expr)

    def of(self, variable: Var) -> Expression | None:
        """What a variable is set to."""
        found = self.set.get(variable, ())
        return found[0][0] if len(found) == 1 and found[0][1] < 0 else None

    def branch(self, variable: Var) -> tuple[nodes.CallExpr, int] | None:
        """The call ``x.split(...)`` whose result is unpacked into a variable, and at which place."""
        found = self.set.get(variable, ())
        made, place = found[0] if len(found) == 1 else (None, -1)
        return (made, place) if place >= 0 and isinstance(made, nodes.CallExpr) and is_split(made) else None


LAST: list[tuple[object, Definitions]] = []
"""The definitions of a module, for which all of its functions ask; only of the one that was looked at last."""


def definitions(scope: MypyFile | FuncItem) -> Definitions:
    """What variables are set to in a scope."""
    if not isinstance(scope, MypyFile):
        return Definitions(scope)
    if not LAST or LAST[0][0] is not scope.defs or not is_current(scope, LAST[0][1]):
        LAST[:] = [(scope.defs, Definitions(scope))]
    return LAST[0][1]


def is_current(scope: MypyFile, known: Definitions) -> bool:
    """False if mypy has analysed a module anew since then, as its daemon does: its variables are others."""
    found = ((scope.names.get(variable.name), variable) for variable in known.set)
    return not known.set or any(symbol is not None and symbol.node is variable for symbol, variable in found)


def targets(node: Node) -> list[Expression | None]:
    """What a statement or a pattern sets to something that is not written down."""
    match node:
        case nodes.ForStmt():
            return [node.index]
        case nodes.OperatorAssignmentStmt():
            return [node.lvalue]
        case nodes.WithStmt():
            return list(node.target)
        case nodes.TryStmt():
            return list(node.vars)
        case patterns.AsPattern():
            return [node.name]
        case patterns.StarredPattern():
            return [node.capture]
        case patterns.MappingPattern():
            return [node.rest]
        case _:
            return []


class Scopes:
    """The scopes around a piece of code, the innermost first."""

    def __init__(self, *scopes: MypyFile | FuncItem | None) -> None:
        self.scopes = [scope for scope in scopes if scope is not None]
        self.known: list[Definitions] = []

    def __iter__(self) -> Iterator[Definitions]:
        yield from self.known
        for scope in self.scopes[len(self.known) :]:  # most questions are answered by the first
            self.known.append(definitions(scope))
            yield self.known[-1]

    def definition(self, variable: Var) -> Expression | None:
        """What a variable is set to, if that happens only once."""
        return next((found for each in self if (found := each.of(variable)) is not None), None)

    def is_changed(self, variable: Var) -> bool:
        """True if the value of a variable is changed in place somewhere."""
        return any(variable in each.changed for each in self)

    def branch(self, variable: Var) -> tuple[nodes.CallExpr, int] | None:
        """The split that a variable is a branch of, and which."""
        return next((found for each in self if (found := each.branch(variable)) is not None), None)


def argument(call: nodes.CallExpr, name: str, place: int = -1) -> Expression | None:
    """An argument by its name, or by its place."""
    if name in call.arg_names:
        return call.args[call.arg_names.index(name)]
    return call.args[place] if 0 <= place < len(call.args) and call.arg_names[place] is None else None


def is_split(expr: Expression) -> bool:
    """True for ``x.split(...)``."""
    return isinstance(expr, nodes.CallExpr) and isinstance(expr.callee, nodes.MemberExpr) and expr.callee.name == "split"


RAISES = {"raises", "assertRaises", "assertRaisesRegex"}


def expects(given: Expression, by: set[str] = RAISES) -> bool:
    """True for ``pytest.raises(...)`` and the like, also where the types of a library are not followed."""
    callee = given.callee if isinstance(given, nodes.CallExpr) else None
    return isinstance(callee, (NameExpr, nodes.MemberExpr)) and callee.name in by


def is_empty(fn: FuncDef) -> bool:
    """True for a body that is still to be written, or written elsewhere: a docstring, ``...``, ``pass``, or an exception."""
    return all(
        isinstance(each, (nodes.PassStmt, nodes.RaiseStmt))
        or (isinstance(each, nodes.ExpressionStmt) and isinstance(each.expr, (nodes.StrExpr, nodes.EllipsisExpr)))
        for each in fn.body.body
    )
