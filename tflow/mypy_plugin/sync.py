"""Rule ``tflow-sync``: what is on-policy needs a synchronous stream."""

from __future__ import annotations

from functools import partial

from mypy.nodes import CallExpr, ConditionalExpr, Expression, MemberExpr, NameExpr, RefExpr, Var
from mypy.types import Type

from tflow import sentences
from tflow.mypy_plugin import proposals, shapes
from tflow.mypy_plugin.labels import Labels
from tflow.mypy_plugin.site import CallSite

CODE = "tflow-sync"


def broken(site: CallSite) -> bool:
    """Report on-policy operators behind a stream without a barrier."""
    if site.sync or site.actor is not None or shapes.as_base(site.required, shapes.SYNC) is None:
        return False
    culprit = culprit_of(site.before, site.labels)
    if isinstance(culprit, NameExpr):
        site.report(CODE, sentences.sync_declared(site.operator, culprit.name))
    elif is_foreign(culprit, site.labels):
        site.report(CODE, sentences.sync_returned(site.operator, site.labels.of(culprit)))
    else:
        said = sentences.stored if is_source(culprit, site.labels) else sentences.sync
        site.report(CODE, said(site.operator, site.labels.of(culprit)), partial(proposals.gathered_in_step, culprit))
    return True


def is_foreign(made: Expression, labels: Labels) -> bool:
    """True for a function or a method of the user's that is given a driver stream: what it returns is what it is declared to."""
    if not isinstance(made, CallExpr) or not isinstance(made.callee, (NameExpr, MemberExpr)):
        return False
    if made.callee.fullname.startswith("tflow."):
        return False
    if isinstance(made.callee, MemberExpr) and shapes.stream(labels.type_of(made.callee.expr)) is not None:
        return False  # a method of streams
    return any(shapes.as_base(labels.type_of(given), shapes.ITER) is not None for given in made.args)


def is_source(made: Expression, labels: Labels) -> bool:
    """True for a stream of ours that is made of no other."""
    if not isinstance(made, CallExpr) or not isinstance(made.callee, RefExpr) or not made.callee.fullname.startswith("tflow."):
        return False
    inputs = [*made.args, *([made.callee.expr] if isinstance(made.callee, MemberExpr) else [])]
    return all(shapes.stream(labels.type_of(given)) is None for given in inputs)


def culprit_of(stream: Expression, labels: Labels) -> Expression:
    """The first operator that made a stream asynchronous; a name, if it was declared so."""
    if isinstance(stream, NameExpr) and isinstance(stream.node, Var):
        branch = labels.scopes.branch(stream.node)
        made = branch[0] if branch else labels.scopes.definition(stream.node)
        return stream if made is None else culprit_of(made, labels)
    if isinstance(stream, ConditionalExpr):
        guilty = [each for each in (stream.if_expr, stream.else_expr) if asynchronous(labels.type_of(each))]
        return culprit_of(guilty[0], labels) if guilty else stream
    if not isinstance(stream, CallExpr):
        return stream
    inputs = list(stream.args)
    if isinstance(stream.callee, MemberExpr):
        inputs.insert(0, stream.callee.expr)
    elif not isinstance(stream.callee, RefExpr) or not stream.callee.fullname.startswith("tflow."):
        return stream  # a function of the user's: what it does inside is its own affair
    for given in inputs:
        if asynchronous(labels.type_of(given)):
            return culprit_of(given, labels)
    return stream


def asynchronous(t: Type | None) -> bool:
    """True for a stream without a barrier, and for a parallel one that cannot have one."""
    found = shapes.as_base(t, shapes.ITER) or shapes.as_base(t, shapes.PAR_ITER)
    return found is not None and shapes.as_base(found.args[1], shapes.SYNC) is None
