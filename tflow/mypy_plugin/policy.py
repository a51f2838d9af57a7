"""Rule ``tflow-policy``: the policies are those that the workers were made with.

The names are part of the types of workers and batches. Where they are not annotated, they are read from the keys of ``losses=``
or ``agents=``: the stream is followed back to where its workers are made.
"""

from __future__ import annotations

import inspect
from functools import cache, partial

from mypy import nodes
from mypy.nodes import CallExpr, Decorator, Expression, FuncDef, LambdaExpr, MemberExpr, NameExpr, RefExpr, Var
from mypy.types import Instance, get_proper_type

from tflow import domain, sentences
from tflow.mypy_plugin import proposals, shapes, tree
from tflow.mypy_plugin.known import Known, Unknown, member_of
from tflow.mypy_plugin.labels import public
from tflow.mypy_plugin.report import Checker, report

CODE = "tflow-policy"


@cache
def picks() -> dict[str, str]:
    """By class that picks one part of several: its argument that names the part."""
    return {name: argument for each in domain.domains() for name, argument in each.picks.items()}


@cache
def named_by() -> dict[str, tuple[str, ...]]:
    """By function that makes what has several parts: its arguments whose members are their names."""
    return {name: argument for each in domain.domains() for name, argument in each.names.items()}


@cache
def maps() -> dict[str, str]:
    """By function that makes what has several parts: its argument that maps something to one of them."""
    return {name: argument for each in domain.domains() for name, argument in each.maps.items()}


@cache
def stores() -> dict[str, str]:
    """By operator that puts parts into actors: its argument that names the actors, which must know all of them."""
    return {name: argument for each in domain.domains() for name, argument in each.stores.items()}


def called(api: Checker, callee: Expression) -> str:
    """The qualified name of what is called; of a method, that of the class which defines it."""
    if isinstance(callee, RefExpr) and callee.fullname:
        return callee.fullname
    owner = get_proper_type(api.lookup_type_or_none(callee.expr)) if isinstance(callee, MemberExpr) else None
    found = owner.type.get(callee.name) if isinstance(owner, Instance) and isinstance(callee, MemberExpr) else None
    return found.node.fullname if found is not None and found.node is not None else ""


# --------------------------------------------------------------------------- what is picked


def check(api: Checker, scopes: tree.Scopes, call: CallExpr) -> None:
    """``Select(stream, policy=...)``, and all else that names a part: it must be there."""
    by, found = called(api, call.callee), wrong_name(call, Known(api, scopes))
    if found is not None:
        name, wrong, names = found
        fixes = partial(proposals.instead, api, name, wrong, sentences.near(wrong, names))
        report(api, CODE, sentences.policy(wrong, names, public_name(call)), name, instead_of=call, fixes=fixes)
    elif by in picks() and tree.argument(call, picks()[by]) is None:
        names, wanted = names_for(call, Known(api, scopes)), usual(by)
        if names and isinstance(wanted, str) and wanted not in names:
            report(api, CODE, sentences.policy(wanted, names, public_name(call)), call, instead_of=call)


def look(api: Checker, scopes: tree.Scopes, call: CallExpr) -> None:
    """What maps to parts, and what stores them."""
    by = called(api, call.callee)
    if by in maps():
        mapped(api, scopes, call, by)
    if by in picks():
        check(api, scopes, call)
    if isinstance(call.callee, MemberExpr) and call.callee.name == "for_each" and call.args:
        stored(api, Known(api, scopes), call.callee.expr, call.args[0])


def wrong_name(call: CallExpr, known: Known) -> tuple[Expression, str, list[str]] | None:
    """The argument that names a part which is not there, its name, and those that there are."""
    by = called(known.api, call.callee)
    name = tree.argument(call, picks()[by]) if by in picks() else None
    if name is None:
        return None
    names = names_for(call, known)
    wanted = known.possible(name, call) or shapes.literals(known.type_of(name)) or []
    wrong = [each for each in wanted if isinstance(each, str) and names and each not in names]
    return (name, wrong[0], names) if wrong else None


def names_for(call: CallExpr, known: Known) -> list[str]:
    """The parts of which a call picks one: those of the stream, or of the actors, that it is given."""
    stream = tree.argument(call, "stream", 0)
    if stream is not None and (typed := names_in_type(stream, known)) is not None:
        return typed or names_of(stream, known)
    return next((names for each in actors(call, known) if (names := parts_of(each, known))), [])


def public_name(call: CallExpr) -> str:
    """What is called, without its module."""
    return call.callee.name if isinstance(call.callee, (NameExpr, MemberExpr)) else "this"


@cache
def usual(fullname: str) -> object:
    """The part that is picked if none is named."""
    found = public(fullname)
    parameter = inspect.signature(found).parameters.get(picks()[fullname]) if inspect.isfunction(found) else None
    return parameter.default if parameter is not None else None


def actors(call: CallExpr, known: Known) -> list[Expression]:
    """What a call has to do with that has parts: its arguments, or what it is a method of."""
    given = [*call.args, *([call.callee.expr] if isinstance(call.callee, MemberExpr) else [])]
    return [each for each in given if shapes.as_base(known.type_of(each), shapes.ACTORS) is not None]


def parts_of(expr: Expression, known: Known) -> list[str]:
    """The parts of actors: as their type says, or as they are made."""
    t = get_proper_type(known.type_of(expr))
    if not isinstance(t, Instance):
        return []
    lone = [name for each in t.type.mro if (name := domain.lone().get(each.fullname))]
    return lone or next((found for each in t.args if (found := shapes.literals(each))), []) or names_of(expr, known)


# --------------------------------------------------------------------------- what maps, and what stores


def mapped(api: Checker, scopes: tree.Scopes, call: CallExpr, by: str) -> None:
    """``policy_of=``: all that it returns must be there."""
    given = tree.argument(call, maps()[by])
    known = Known(api, scopes)
    names = names_of(call, known)
    wrong = [each for each in returned(given, known) if each not in names] if given is not None and names else []
    if wrong and given is not None:
        fixes = partial(proposals.instead, api, function_of(given), wrong[0], sentences.near(wrong[0], names))
        report(api, CODE, sentences.mapped(maps()[by], wrong[0], names), given, instead_of=call, fixes=fixes)


def function_of(expr: Expression) -> LambdaExpr | FuncDef | None:
    """A function that is named, or written there; None if it cannot be seen."""
    node = expr.node if isinstance(expr, RefExpr) else expr
    fn = node.func if isinstance(node, Decorator) and not node.decorators else node
    return fn if isinstance(fn, (LambdaExpr, FuncDef)) and not (isinstance(fn, FuncDef) and fn.info) else None


def returned(expr: Expression, known: Known) -> list[str]:
    """The strings that a function returns; none if it may return others."""
    fn = function_of(expr)
    if fn is None:
        return []
    values = [each.expr for each in tree.own(fn.body) if isinstance(each, nodes.ReturnStmt)]
    scope = Known(known.api, tree.Scopes(fn, *known.scopes.scopes))
    found = [strings(each, scope) for each in values]
    return [each for several in found for each in several] if all(found) else []


def strings(expr: Expression | None, known: Known) -> list[str]:
    """The strings that an expression may be; none if it may be others."""
    match expr:
        case nodes.ConditionalExpr():
            either = [strings(expr.if_expr, known), strings(expr.else_expr, known)]
            return [each for several in either for each in several] if all(either) else []
        case nodes.IndexExpr():
            return values_in(expr.base, known)
        case CallExpr() if isinstance(expr.callee, MemberExpr) and expr.callee.name == "get" and len(expr.args) == 2:
            inside, otherwise = values_in(expr.callee.expr, known), strings(expr.args[1], known)
            return [*inside, *otherwise] if inside and otherwise else []
        case MemberExpr() if (member := member_of(expr)) is not None:
            return [member]
        case None:
            return []
        case _:
            try:
                value = known.value(expr)
            except Unknown:
                return []
            return [value] if isinstance(value, str) else []


def values_in(expr: Expression, known: Known) -> list[str]:
    """The strings that are the values of a mapping; none if it may have others."""
    try:
        value = known.value(expr)
    except Unknown:
        return []
    found = list(value.values()) if isinstance(value, dict) else []
    return [each for each in found if isinstance(each, str)] if all(isinstance(each, str) for each in found) else []


def stored(api: Checker, known: Known, stream: Expression, op: Expression) -> None:
    """``stream.for_each(StoreToBuffer(replay))``: whatever the stream brings must have a place there."""
    by = called(api, op.callee) if isinstance(op, CallExpr) else ""
    into = tree.argument(op, stores()[by], 0) if isinstance(op, CallExpr) and by in stores() else None
    if into is None:
        return
    found = shapes.as_base(api.lookup_type_or_none(stream), shapes.ITER)
    batch = shapes.as_base(found.args[0], shapes.MULTI_BATCH) if found is not None else None
    if batch is None:
        return
    brought = names_of(stream, known) or shapes.literals(batch.args[1]) or []
    places = names_of(into, known)
    lost = [each for each in brought if each not in places] if places else []
    if lost:
        report(api, CODE, sentences.not_stored(public_name(op), lost[0], places), into)  # type: ignore[arg-type]  # a call


# --------------------------------------------------------------------------- names


def names_of(expr: Expression, known: Known) -> list[str]:
    """The policies of the workers that a stream, or what it was made of, comes from; none if they cannot be known."""
    if isinstance(expr, NameExpr) and isinstance(expr.node, Var):
        branch = known.scopes.branch(expr.node)
        made = branch[0] if branch else known.setting(expr, expr.node) or known.source(expr.node)
        return names_in_type(made, known) or names_of(made, known) if made is not None else []
    if isinstance(expr, MemberExpr) and isinstance(expr.expr, NameExpr):
        found = known.attribute_setting(expr, expr.expr)
        return names_of(found[1], known.within(found[0])) if found is not None else []
    if not isinstance(expr, CallExpr):
        return []
    if isinstance(expr.callee, MemberExpr) and not expr.callee.fullname.startswith("tflow."):
        return names_of(expr.callee.expr, known)
    by = expr.callee.fullname if isinstance(expr.callee, RefExpr) else ""
    if by in named_by():
        places = enumerate(named_by()[by])
        given = [each for place, name in places if (each := tree.argument(expr, name, place)) is not None]
        return names_in(given[0], known) if given else []
    return names_of(expr.args[0], known) if by.startswith("tflow.") and expr.args else []


def names_in_type(stream: Expression, known: Known) -> list[str] | None:
    """The policies that the type of a stream names; None if it has no batches of several policies."""
    found = shapes.as_base(known.type_of(stream), shapes.ITER)
    batch = shapes.as_base(found.args[0], shapes.MULTI_BATCH) if found is not None else None
    return None if batch is None else shapes.literals(batch.args[1]) or []


def names_in(expr: Expression, known: Known) -> list[str]:
    """The strings that a display has as keys or items; a variable is followed to where it is set, unless it is changed."""
    if isinstance(expr, NameExpr) and isinstance(expr.node, Var):
        made = known.setting(expr, expr.node)
        return names_in(made, known) if made is not None and not known.is_given_away(expr.node) else []
    if isinstance(expr, nodes.OpExpr) and expr.op == "|":
        both = [names_in(expr.left, known), names_in(expr.right, known)]
        return [name for names in both for name in names] if all(both) else []
    if isinstance(expr, CallExpr) and isinstance(expr.callee, RefExpr) and expr.callee.fullname == "builtins.dict":
        return [name for name in expr.arg_names if name] if expr.args and all(expr.arg_names) else []
    if isinstance(expr, nodes.DictExpr):
        parts = [names_in(item, known) if key is None else strings(key, known) for key, item in expr.items]
    elif isinstance(expr, (nodes.ListExpr, nodes.TupleExpr, nodes.SetExpr)):
        parts = [names_in(item.expr, known) if isinstance(item, nodes.StarExpr) else strings(item, known) for item in expr.items]
    else:
        return []
    return list(dict.fromkeys(name for names in parts for name in names)) if all(parts) else []
