"""What a function that must return a plan returns instead, and what would make a plan of it. mypy itself reports it."""

from __future__ import annotations

from mypy.nodes import Expression, FuncDef, TypeInfo, Var
from mypy.subtypes import is_subtype
from mypy.types import CallableType, get_proper_type

from tflow import domain
from tflow.mypy_plugin import proposals, recorder, shapes, tree
from tflow.mypy_plugin.report import Checker

CODE = "return-value"


def propose(api: Checker, fn: FuncDef, scopes: tree.Scopes) -> None:
    """``ReportMetrics(stream, workers)`` around what is returned, if both fit."""
    returns = fn.type.ret_type if isinstance(fn.type, CallableType) else None
    if shapes.as_base(returns, shapes.PLAN) is None:
        return
    for expr in tree.returns(fn):
        found = api.lookup_type_or_none(expr)
        if shapes.as_base(found, shapes.ITER) is not None and shapes.as_base(found, shapes.PLAN) is None:
            recorder.propose(CODE, expr, lambda expr=expr: ended(api, fn, expr))  # type: ignore[misc]  # a default binds it


def ended(api: Checker, fn: FuncDef, expr: Expression) -> list[recorder.Proposal]:
    module, _, name = domain.first("ends").rpartition(".")
    home = api.modules.get(module)
    info = home.names[name].node if home is not None and name in home.names else None
    made = info.get_method("__init__") if isinstance(info, TypeInfo) else None
    signature = get_proper_type(made.type) if made is not None else None
    if not isinstance(signature, CallableType) or len(signature.arg_types) != 3:
        return []
    if not is_subtype(api.lookup_type_or_none(expr), signature.arg_types[1]):
        return []
    known = [argument.variable for argument in fn.arguments]
    known += [each.node for each in proposals.names_set_in(fn) if isinstance(each.node, Var)]
    fitting = [each.name for each in known if each.type is not None and is_subtype(each.type, signature.arg_types[2])]
    if not fitting:
        return []
    start, end = proposals.start_of(expr), proposals.end_of(expr)
    edits = (proposals.insert(start, f"{name}("), proposals.insert(end, f", {fitting[0]})"))
    return list(proposals.proposal(f"End with {name}", edits, proposals.importing(api, name)))
