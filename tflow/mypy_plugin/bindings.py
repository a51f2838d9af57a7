"""What a name holds where it is used, as far as the text of its scope tells: it is set once, or several times in a row, or it
runs through something that is written down."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from mypy import nodes
from mypy.nodes import CallExpr, Expression, FuncItem, LambdaExpr, MypyFile, NameExpr, Node, RefExpr, Var
from mypy.types import TupleType, get_proper_type

from tflow.mypy_plugin import tree
from tflow.mypy_plugin.report import Checker

Loop = nodes.ForStmt | nodes.GeneratorExpr | nodes.DictionaryComprehension
LEAVES = (nodes.BreakStmt, nodes.ContinueStmt, nodes.ReturnStmt, nodes.RaiseStmt)
SAME_ITEMS = {f"builtins.{name}" for name in ("list", "tuple", "sorted", "reversed", "set", "iter")}
HARMLESS = ("builtins.", "tflow.")
"""What is called with a list, a mapping or an object and does not change it; and what does."""
HARMFUL = {"builtins.setattr", "builtins.delattr", "builtins.vars"}


class Bindings:
    """The names of one scope."""

    def __init__(self, scope: MypyFile | FuncItem, known: tree.Definitions) -> None:
        self.scope, self.known = scope, known

    def setting(self, variable: Var, at: Expression, *, inside: bool) -> Expression | None:
        """What a variable is set to where it is used. ``inside``: it is used in this scope itself, not in one inside it, where
        it may run later."""
        entries = self.known.set.get(variable, [])
        if len(entries) == 1:
            return item(*entries[0])
        in_a_row = [each for each in self.in_a_row if each[0] is variable]
        if not inside or len(in_a_row) != len(entries) or id(at) in self.later:
            return None
        before = [made for _, made, end in in_a_row if end <= (at.line, at.column)]
        return before[-1] if before else None

    @cached_property
    def in_a_row(self) -> list[tuple[Var, Expression | None, tuple[int, int]]]:
        """What is set by the statements of the scope itself, which run one after the other; and where each ends."""
        body = self.scope.defs if isinstance(self.scope, MypyFile) else self.scope.body.body
        found: list[tuple[Var, Expression | None, tuple[int, int]]] = []
        for statement in body:
            if isinstance(statement, nodes.AssignmentStmt):
                end = statement.end_line or statement.line, statement.end_column or 0
                found += [(name, made, end) for target in statement.lvalues for name, made in pairs(target, statement.rvalue)]
            elif isinstance(statement, nodes.OperatorAssignmentStmt) and isinstance(statement.lvalue, NameExpr):
                end = statement.end_line or statement.line, statement.end_column or 0
                whole = nodes.OpExpr(statement.op, statement.lvalue, statement.rvalue)
                found += [(name, made, end) for name, made in pairs(statement.lvalue, whole)]
        return found

    @cached_property
    def later(self) -> set[int]:
        """What is inside a lambda, which runs when it is called."""
        functions = [node for node in self.known.nodes if isinstance(node, LambdaExpr)]
        return {id(each) for function in functions for each in tree.walk(function.body)}

    @cached_property
    def tested(self) -> set[Var]:
        """Variables that something depends on: what is guarded may never run."""
        found: list[Node] = []
        for node in self.known.nodes:
            match node:
                case nodes.IfStmt():
                    found += node.expr
                case nodes.WhileStmt() | nodes.AssertStmt():
                    found.append(node.expr)
                case nodes.ConditionalExpr():
                    found.append(node.cond)
                case nodes.MatchStmt():
                    found.append(node.subject)
                case nodes.OpExpr() if node.op in ("and", "or"):
                    found.append(node.left)
                case nodes.GeneratorExpr() | nodes.DictionaryComprehension():
                    found += [condition for conditions in node.condlists for condition in conditions]
                case _:
                    pass
        names = [name for node in found for name in tree.walk(node) if isinstance(name, NameExpr)]
        return {name.node for name in names if isinstance(name.node, Var)}

    @cached_property
    def given_away(self) -> set[Var]:
        """Variables whose value is changed, or is given to a function that may change it."""
        found = set(self.known.changed)
        for node in self.known.everything:
            if isinstance(node, CallExpr):
                by = node.callee.fullname if isinstance(node.callee, RefExpr) else ""
                whole = [each for each, kind in zip(node.args, node.arg_kinds, strict=True) if not kind.is_star()]
                given = [] if by.startswith(HARMLESS) and by not in HARMFUL else whole  # `*items` and `**options` hand on copies
                if isinstance(node.callee, nodes.MemberExpr) and node.callee.name in tree.CHANGES:
                    given.append(node.callee.expr)
                found |= {each.node for each in given if isinstance(each, NameExpr) and isinstance(each.node, Var)}
        return found

    # ------------------------------------------------------------------- loops

    @cached_property
    def loops(self) -> dict[Var, tuple[Loop, Expression, int]]:
        """By variable of a loop: the loop, what it runs through, and which part of each item the variable is; -1 is all."""
        found: dict[Var, tuple[Loop, Expression, int]] = {}
        for node in self.known.nodes:
            if isinstance(node, nodes.ForStmt):
                pairs_of = [(node.index, node.expr)]
            elif isinstance(node, (nodes.GeneratorExpr, nodes.DictionaryComprehension)):
                pairs_of = list(zip(node.indices, node.sequences, strict=True))
            else:
                continue
            for index, through in pairs_of:
                for place, target in enumerate(index.items) if isinstance(index, nodes.TupleExpr) else [(-1, index)]:
                    if isinstance(target, NameExpr) and isinstance(target.node, Var):
                        found[target.node] = (node, through, place)
        return found


def of(scope: MypyFile | FuncItem, known: tree.Definitions) -> Bindings:
    """The names of a scope, looked at once."""
    if not isinstance(known.more, Bindings):
        known.more = Bindings(scope, known)
    return known.more


def pairs(target: Expression, made: Expression) -> Iterator[tuple[Var, Expression | None]]:
    """The variables of an assignment, each with what it is set to."""
    if isinstance(target, NameExpr) and isinstance(target.node, Var):
        yield target.node, made
    elif isinstance(target, (nodes.TupleExpr, nodes.ListExpr)):
        for place, each in enumerate(target.items):
            if isinstance(each, NameExpr) and isinstance(each.node, Var):
                yield each.node, item(made, place)


def item(made: Expression | None, place: int) -> Expression | None:
    """One part of what is written down; all of it for a negative place."""
    if place < 0:
        return made
    if isinstance(made, (NameExpr, nodes.MemberExpr, nodes.IndexExpr)):
        return nodes.IndexExpr(made, nodes.IntExpr(place))
    shown = made.items if isinstance(made, (nodes.TupleExpr, nodes.ListExpr)) else []
    starred = any(isinstance(each, nodes.StarExpr) for each in shown)
    return shown[place] if place < len(shown) and not starred else None


def runs_each_turn(loop: Loop, call: Expression) -> bool:
    """True if a part of a loop is sure to run for every item."""
    if isinstance(loop, nodes.ForStmt):
        if any(isinstance(each, LEAVES) for each in tree.own(loop.body)):
            return False
        return any(call is each for statement in loop.body.body for each in certain(statement))
    if any(loop.condlists):
        return False
    parts = [loop.left_expr] if isinstance(loop, nodes.GeneratorExpr) else [loop.key, loop.value]
    return any(call is each for part in parts if part is not None for each in certain(part))


def certain(node: Node) -> Iterator[Node]:
    """What is sure to be evaluated when a statement or an expression is."""
    yield node
    match node:
        case nodes.ConditionalExpr():
            inside: list[Node] = [node.cond]
        case nodes.OpExpr() if node.op in ("and", "or"):
            inside = [node.left]
        case nodes.GeneratorExpr() | nodes.DictionaryComprehension():
            inside = [node.sequences[0]]
        case LambdaExpr() | nodes.IfStmt() | nodes.WhileStmt() | nodes.ForStmt() | nodes.TryStmt() | nodes.MatchStmt():
            inside = []
        case _:
            inside = [each for each in tree.children(node) if type(each) not in tree.ALONE]
    for each in inside:
        yield from certain(each)


def items_of(api: Checker, scopes: tree.Scopes, through: Expression, place: int) -> list[Expression]:
    """What a loop runs through, or a part of each item; nothing if it is not written down."""
    match through:
        case nodes.ListExpr() | nodes.TupleExpr() | nodes.SetExpr():
            found = [each if place < 0 else item(each, place) for each in through.items]
            return [each for each in found if each is not None] if all(found) else []
        case nodes.DictExpr() if place < 0:
            return _keys(through)
        case NameExpr() if isinstance(through.node, Var):
            made = scopes.definition(through.node)
            return items_of(api, scopes, made, place) if made is not None and not scopes.is_changed(through.node) else []
        case CallExpr():
            return _items_of_call(api, scopes, through, place)
        case _:
            return []


def _keys(shown: nodes.DictExpr) -> list[Expression]:
    keys = [key for key, _ in shown.items if key is not None]
    return keys if len(keys) == len(shown.items) else []


def _items_of_call(api: Checker, scopes: tree.Scopes, call: CallExpr, place: int) -> list[Expression]:
    by = call.callee.fullname if isinstance(call.callee, RefExpr) else ""
    if by in SAME_ITEMS and call.args:
        return items_of(api, scopes, call.args[0], place)
    if by == "builtins.enumerate" and place == 1:
        return items_of(api, scopes, call.args[0], -1)
    if by == "builtins.zip" and 0 <= place < len(call.args) and not any(kind.is_star() for kind in call.arg_kinds):
        lengths = [_length(api, scopes, each) for each, name in zip(call.args, call.arg_names, strict=True) if name is None]
        return [] if None in lengths else items_of(api, scopes, call.args[place], -1)[: min(each or 0 for each in lengths)]
    callee = call.callee
    if isinstance(callee, nodes.MemberExpr) and callee.name in ("items", "keys", "values") and not call.args:
        shown: Expression | None = callee.expr
        if isinstance(shown, NameExpr) and isinstance(shown.node, Var):
            shown = None if scopes.is_changed(shown.node) else scopes.definition(shown.node)
        if isinstance(shown, nodes.DictExpr) and _keys(shown):
            keys = callee.name == "keys" or (callee.name == "items" and place == 0)
            return _keys(shown) if keys else [value for _, value in shown.items] if callee.name == "values" or place == 1 else []
    return []


def _length(api: Checker, scopes: tree.Scopes, expr: Expression) -> int | None:
    found = get_proper_type(api.lookup_type_or_none(expr))
    if isinstance(found, TupleType):
        return len(found.items)
    return len(items_of(api, scopes, expr, -1)) or None


REBOUND: list[tuple[list[nodes.Statement], set[str]]] = []
"""The names that functions of a file set outside of themselves; only those of the file that was looked at last."""


def rebound(file: MypyFile) -> set[str]:
    """Names that are declared global or nonlocal somewhere in a file."""
    if not REBOUND or REBOUND[0][0] is not file.defs:
        inside = tree.definitions(file).everything
        names = {name for node in inside if isinstance(node, (nodes.GlobalDecl, nodes.NonlocalDecl)) for name in node.names}
        REBOUND[:] = [(file.defs, names)]
    return REBOUND[0][1]
