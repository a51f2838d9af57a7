"""Rule ``tflow-policy``: the policies are those that the workers were made with.

The names are part of the types of workers and batches. Where they are not annotated, they are read from the keys of ``losses=``
or ``agents=``: the stream is followed back to where its workers are made.
"""

from __future__ import annotations

from functools import cache

from mypy.nodes import CallExpr, DictExpr, Expression, ListExpr, MemberExpr, NameExpr, RefExpr, SetExpr, StrExpr, TupleExpr, Var

from tflow import domain, sentences
from tflow.mypy_plugin import shapes, tree
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


def check(api: Checker, scopes: tree.Scopes, call: CallExpr, argument: str) -> None:
    """``Select(stream, policy=...)``: the part that ``argument`` names must be there."""
    given = dict(zip((name or "stream" for name in call.arg_names), call.args, strict=True))
    if "stream" not in given or argument not in given:
        return
    found = shapes.as_base(api.lookup_type_or_none(given["stream"]), shapes.ITER)
    batch = shapes.as_base(found.args[0], shapes.MULTI_BATCH) if found is not None else None
    if batch is None:
        return
    known = shapes.literals(batch.args[1]) or names_of(given["stream"], scopes)
    wanted = shapes.literals(api.lookup_type_or_none(given[argument]))
    wrong = [name for name in wanted or () if known and name not in known]
    if wrong:
        report(api, CODE, sentences.policy(wrong[0], known), given[argument], instead_of=call)


def names_of(expr: Expression, scopes: tree.Scopes) -> list[str]:
    """The policies of the workers that a stream, or what it was made of, comes from; none if they cannot be known."""
    if isinstance(expr, NameExpr) and isinstance(expr.node, Var):
        branch = scopes.branch(expr.node)
        made = branch[0] if branch else scopes.definition(expr.node)
        return names_of(made, scopes) if made is not None else []
    if not isinstance(expr, CallExpr):
        return []
    if isinstance(expr.callee, MemberExpr) and not expr.callee.fullname.startswith("tflow."):
        return names_of(expr.callee.expr, scopes)
    by = expr.callee.fullname if isinstance(expr.callee, RefExpr) else ""
    if by in named_by():
        given = [each for each, name in zip(expr.args, expr.arg_names, strict=True) if name in named_by()[by]]
        return names_in(given[0], scopes) if given else []
    return names_of(expr.args[0], scopes) if by.startswith("tflow.") and expr.args else []


def names_in(expr: Expression, scopes: tree.Scopes) -> list[str]:
    """The strings that a display has as keys or items; a variable is followed to where it is set, unless it is changed."""
    if isinstance(expr, NameExpr) and isinstance(expr.node, Var):
        made = scopes.definition(expr.node)
        return names_in(made, scopes) if made is not None and not scopes.is_changed(expr.node) else []
    if isinstance(expr, DictExpr):
        shown: list[Expression | None] = [key for key, _ in expr.items]
    elif isinstance(expr, (ListExpr, TupleExpr, SetExpr)):
        shown = list(expr.items)
    else:
        return []
    names = [key.value for key in shown if isinstance(key, StrExpr)]
    return names if len(names) == len(shown) else []
