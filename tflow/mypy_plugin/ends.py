"""What a function that must return a plan returns instead, and what would make a plan of it."""

from __future__ import annotations

from functools import partial

from mypy.nodes import Expression, FuncDef, TypeInfo, Var
from mypy.subtypes import is_subtype
from mypy.types import CallableType, get_proper_type

from tflow import domain, sentences
from tflow.mypy_plugin import flow, proposals, recorder, shapes, tree
from tflow.mypy_plugin.labels import Labels
from tflow.mypy_plugin.report import Checker, of_kind, report, said_of, withdraw
from tflow.mypy_plugin.shown_types import shown


def check(api: Checker, fn: FuncDef, scopes: tree.Scopes) -> None:
    """Report a stream that is returned; ``ReportMetrics(stream, workers)`` around it is proposed if both fit."""
    returns = fn.type.ret_type if isinstance(fn.type, CallableType) else None
    if shapes.as_base(returns, shapes.PLAN) is None or not said_of(api, fn):
        return
    for expr in tree.returns(fn):
        said = [each for each in said_of(api, expr) if of_kind(each, {"return-value"})]
        found = api.lookup_type_or_none(expr)
        if said and shapes.stream(found) is not None and shapes.as_base(found, shapes.PLAN) is None:
            withdraw(api, said)
            ending = domain.first("ends").rpartition(".")[2]
            sentence = sentences.no_end(fn.name, Labels(api.lookup_type_or_none, scopes).of(expr), shown(found), ending)
            report(api, flow.CODE, sentence, expr, fixes=partial(ended, api, fn, expr))


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
