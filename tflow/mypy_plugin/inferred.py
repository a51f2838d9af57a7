"""Lists whose type nobody has written: mypy takes it from their first members, and then objects that a list of these is none of
what they derive from. Taken back where every member fits."""

from __future__ import annotations

from collections.abc import Iterator

from mypy.argmap import map_actuals_to_formals
from mypy.nodes import AssignmentStmt, CallExpr, Expression, FuncItem, NameExpr, Node, ReturnStmt, Var
from mypy.subtypes import is_subtype
from mypy.types import CallableType, Instance, Type, get_proper_type

from tflow.mypy_plugin import shapes, tree
from tflow.mypy_plugin.report import Checker, of_kind, said_of, withdraw

ABOUT = {"return-value", "arg-type", "assignment"}


def fits(api: Checker, scopes: tree.Scopes, node: Node) -> None:
    """Take back what mypy says of such a list, where it is returned, given or put somewhere."""
    for given, wanted in places(api, scopes, node):
        if not isinstance(given, NameExpr) or not isinstance(given.node, Var) or not given.node.is_inferred:
            continue
        said = [each for each in said_of(api, given) if of_kind(each, ABOUT)]
        if said and members_fit(api.lookup_type_or_none(given), wanted):
            withdraw(api, said)


def places(api: Checker, scopes: tree.Scopes, node: Node) -> Iterator[tuple[Expression, Type]]:
    """What a statement or a call hands on, and the type that it must have there."""
    around = scopes.scopes[0]
    if isinstance(node, ReturnStmt) and node.expr is not None:
        if isinstance(around, FuncItem) and isinstance(around.type, CallableType):
            yield node.expr, around.type.ret_type
    elif isinstance(node, AssignmentStmt):
        for target in node.lvalues:
            t = node.type or api.lookup_type_or_none(target)
            if t is not None:
                yield node.rvalue, t
    elif isinstance(node, CallExpr):
        t = get_proper_type(api.lookup_type_or_none(node.callee))
        if isinstance(t, CallableType):
            formals = map_actuals_to_formals(node.arg_kinds, node.arg_names, t.arg_kinds, t.arg_names, lambda _: shapes.ANYTHING)
            yield from ((node.args[actual], t.arg_types[at]) for at, actuals in enumerate(formals) for actual in actuals)


def members_fit(given: Type | None, wanted: Type) -> bool:
    """True for a list of what derives from the members of another."""
    wants = get_proper_type(wanted)
    found = shapes.as_base(given, wants.type.fullname) if isinstance(wants, Instance) else None
    if found is None or not isinstance(wants, Instance) or not shapes.mentions_stream(wants):
        return False
    return all(map(is_subtype, found.args, wants.args))
