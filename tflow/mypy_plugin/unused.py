"""Rule ``tflow-unused``: every stream of a plan leads somewhere."""

from __future__ import annotations

from mypy.nodes import CallExpr, Expression, ExpressionStmt, MemberExpr, NameExpr, RefExpr
from mypy.types import Instance, get_proper_type

from tflow import sentences
from tflow.mypy_plugin import shapes
from tflow.mypy_plugin.edges import StreamEdge
from tflow.mypy_plugin.linear import label_of_split
from tflow.mypy_plugin.report import Checker, report
from tflow.mypy_plugin.uses import Uses

CODE = "tflow-unused"


def check(api: Checker, uses: Uses, *, parameters: bool) -> None:
    """Report what a body makes and does not consume; of its parameters only if it is marked."""
    unnamed: dict[int, list[tuple[CallExpr, int]]] = {}
    for edge in uses.edges:
        if edge.branch is not None and edge.dropped is not None and edge.consumed and not edge.released and edge.owed:
            split, index = edge.branch
            report(api, CODE, sentences.branch_dropped(label_of_split(split), index, edge.dropped.line), edge.where or split)
        elif edge.branch is not None and edge.where is None and not edge.consumed and not edge.parts:
            unnamed.setdefault(id(edge.branch[0]), []).append(edge.branch)
        if edge.consumed or edge.released or not edge.owed or edge.where is None or edge.parts:
            continue
        if edge.name.startswith("_") and edge.branch is None:
            continue
        if edge.parameter and not parameters:
            continue
        report(api, CODE, sentence_for(edge), edge.overwritten or edge.where)
    for branches in unnamed.values():
        split = branches[0][0]
        if all(split is not expression for expression, _ in uses.discarded):
            report(api, CODE, sentences.branch_unused(label_of_split(split), [index for _, index in branches]), split)
    for expression, label in uses.discarded:
        report(
            api,
            CODE,
            f"What {label} makes is discarded, so this part of the plan never runs. Consume it, or leave it out.",
            expression,
        )


def sentence_for(edge: StreamEdge) -> str:
    """What is wrong with a stream that nobody consumes."""
    if edge.overwritten is not None:
        return f'The stream "{edge.name}" ({edge.label}) is replaced before anybody consumes it, so it never runs. Leave it out.'
    if edge.parameter:
        return f'The stream "{edge.name}" is given and never consumed, so nothing before it runs. Consume it (drain() will do).'
    if edge.branch is not None:
        split, index = edge.branch
        return sentences.branch_unused(label_of_split(split), [index])
    if edge.several:
        return f'The branches "{edge.name}" of {edge.label} are never consumed, so nothing before them runs. Consume them all.'
    if not isinstance(edge.where, NameExpr):
        return f'{edge.label} in "{edge.name}" is never consumed, so it never runs. Consume it, or leave it out.'
    return f'The stream "{edge.name}" ({edge.label}) is never consumed, so it never runs. Consume it, or leave it out.'


def forgotten(api: Checker, node: ExpressionStmt) -> None:
    """Report a plan, or a run of one, that is made for nothing in a function that returns none."""
    found = get_proper_type(api.lookup_type_or_none(node.expr))
    if not isinstance(node.expr, CallExpr) or not isinstance(found, Instance) or not is_ours(api, node.expr.callee):
        return
    runs = isinstance(node.expr.callee, MemberExpr) and node.expr.callee.name == "run"
    if runs and found.type.get("finish") is not None:
        report(api, CODE, sentences.FORGOTTEN_RUN, node.expr)
    elif shapes.as_base(found, shapes.PLAN) is not None:
        report(api, CODE, sentences.FORGOTTEN_PLAN, node.expr)


def is_ours(api: Checker, callee: Expression) -> bool:
    """True for functions, classes and methods of tflow: what the user's own do besides is not known."""
    if isinstance(callee, RefExpr) and callee.fullname.startswith("tflow."):
        return True
    if not isinstance(callee, MemberExpr):
        return False
    owner = get_proper_type(api.lookup_type_or_none(callee.expr))
    found = owner.type.get_containing_type_info(callee.name) if isinstance(owner, Instance) else None
    return found is not None and found.fullname.startswith("tflow.")
