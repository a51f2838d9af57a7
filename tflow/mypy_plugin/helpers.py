"""What functions of the file do with what they are given: ``batched(stream, 0)`` is refused where ``batched`` calls ``batch``.

Only what is sure to run is looked at, and only where the arguments decide; it is reported where they are given.
"""

from __future__ import annotations

from collections.abc import Iterator

from mypy import nodes
from mypy.nodes import CallExpr, Expression, FuncDef, MemberExpr, NameExpr, RefExpr, TypeInfo, Var
from mypy.types import Instance, Type, get_proper_type
from mypy.typevars import fill_typevars

from tflow import sentences
from tflow.mypy_plugin import bindings, policy, shapes, tree
from tflow.mypy_plugin.literal import CODE, Trial, worth_trying
from tflow.mypy_plugin.report import Checker, report
from tflow.mypy_plugin.trials import own_function

DEEPEST = 3
"""How many functions inside each other are looked at."""
Given = dict[Var, Expression]
Found = tuple[str, str]
"""The code and the sentence of a mistake."""


class Entered(tree.Scopes):
    """The scopes of a function, with what it is given. They are known to whoever calls it."""

    def __init__(self, fn: FuncDef, given: Given, outer: tree.Scopes) -> None:
        super().__init__(fn, *outer.scopes)
        own = tree.Definitions(fn)
        self.known = [own, *outer]
        for variable, expr in given.items():
            if own.set.get(variable) == [(None, -1)]:
                own.set[variable] = [(expr, -1)]


class Helpers:
    """The calls of such functions in one body."""

    def __init__(self, api: Checker, scopes: tree.Scopes) -> None:
        self.api, self.scopes = api, scopes

    def check(self, call: CallExpr) -> None:
        """Report what is refused because of what a function is given."""
        fn = helper(self.api, call.callee)
        if fn is None:
            return
        found = self.refused(fn, call, DEEPEST)
        if found is not None:
            code, sentence = found
            report(self.api, code, sentence, self.blamed(fn, call))

    def blamed(self, fn: FuncDef, call: CallExpr) -> Expression:
        """The argument without which nothing would be refused; a plain value rather than a stream."""
        needed = [
            expr
            for variable, expr in given_by(fn, call).items()
            if expr in call.args and self.refused(fn, call, DEEPEST, without=variable) is None
        ]
        plain = [expr for expr in needed if shapes.stream(self.type_of(expr)) is None]
        return next(iter(plain or needed), call)

    def refused(self, fn: FuncDef, call: CallExpr, depth: int, without: Var | None = None) -> Found | None:
        """What a call makes a function do that is refused, unless it is refused whatever is given."""
        inside = calls_with_parameters(self.api, fn) if depth else []
        given = given_by(fn, call) if inside else {}
        given = {variable: expr for variable, expr in given.items() if variable is not without}
        if not given:
            return None
        here = Helpers(self.api, Entered(fn, given, self.scopes))
        for each in inside:
            inner = helper(self.api, each.callee)
            found = here.refused(inner, each, depth - 1) if inner is not None else here.tried(each)
            if found is not None and (
                inner is not None or found != Helpers(self.api, tree.Scopes(fn, self.api.tree)).tried(each)
            ):
                return found
        return None

    def tried(self, call: CallExpr) -> Found | None:
        """What is wrong with a call."""
        trial = Trial(self.api, self.scopes)
        trial.type_of, trial.about = self.type_of, call
        wrong = policy.wrong_name(call, trial)
        if wrong is not None:
            return policy.CODE, sentences.policy(wrong[1], wrong[2], policy.public_name(call))
        if not worth_trying(call):
            return None
        sentence = trial.refused(call)
        return (CODE, sentence) if sentence and sentences.DRIVER_STREAM not in sentence else None

    def type_of(self, expr: Expression) -> Type | None:
        """As mypy has found it, or as it is declared: the body of another function may not have been looked at yet."""
        found: Type | None = self.api.lookup_type_or_none(expr)
        if found is None and isinstance(expr, NameExpr) and isinstance(expr.node, Var):
            own = next((fn.info for fn in self.scopes.scopes if isinstance(fn, FuncDef) and fn.info), None)
            return fill_typevars(own) if expr.node.is_self and own is not None else expr.node.type
        if found is None and isinstance(expr, MemberExpr):
            owner = get_proper_type(self.type_of(expr.expr))
            member = owner.type.get(expr.name) if isinstance(owner, Instance) else None
            return member.type if member is not None else None
        if found is None and isinstance(expr, CallExpr):
            return shapes.returned_by(self.type_of(expr.callee))
        return found


def helper(api: Checker, callee: Expression) -> FuncDef | None:
    """The function of this file that is called: of a class, what makes its objects."""
    made = callee.node if isinstance(callee, RefExpr) else None
    if isinstance(made, TypeInfo):
        symbol = made.names.get("__init__") if made.module_name == api.tree.fullname else None
        fn = symbol.node if symbol is not None and not symbol.plugin_generated else None
    else:
        fn = own_function(api, callee)
    if not isinstance(fn, FuncDef) or fn.is_generator or fn.is_coroutine or fn.is_overload:
        return None
    return fn


def given_by(fn: FuncDef, call: CallExpr) -> Given:
    """What the parameters of a function are in a call: arguments and defaults; nothing if that is not sure."""
    if any(kind.is_star() for kind in call.arg_kinds):
        return {}
    own = 1 if fn.info and not fn.is_static else 0
    parameters = [each for each in fn.arguments[own:] if not each.kind.is_star()]
    found: Given = {}
    for place, parameter in enumerate(parameters):
        by_place = -1 if parameter.kind.is_named() else place
        expr = tree.argument(call, parameter.variable.name, by_place) or parameter.initializer
        if expr is not None:
            found[parameter.variable] = expr
    return found


def calls_with_parameters(api: Checker, fn: FuncDef) -> list[CallExpr]:
    """The calls inside a function that are sure to run, and depend on its parameters."""
    if fn not in LOOKED_AT:
        if len(LOOKED_AT) > MOST:
            LOOKED_AT.clear()
        parameters = {argument.variable for argument in fn.arguments}
        LOOKED_AT[fn] = [
            each
            for each in sure_calls(fn)
            if any(
                isinstance(name, NameExpr) and name.node in parameters for argument in each.args for name in tree.walk(argument)
            )
        ]
    return LOOKED_AT[fn]


LOOKED_AT: dict[FuncDef, list[CallExpr]] = {}
MOST = 1_000


def sure_calls(fn: FuncDef) -> Iterator[CallExpr]:
    """The calls that are made whenever a function is called."""
    for statement in fn.body.body:
        if not isinstance(statement, nodes.WithStmt):  # it may expect that something is refused
            yield from (each for each in bindings.certain(statement) if isinstance(each, CallExpr))
        if any(isinstance(each, (nodes.ReturnStmt, nodes.RaiseStmt)) for each in tree.own(statement)):
            return
