"""Rule ``tflow-placement``: an operator must run where it can, on the driver or inside an actor."""

from __future__ import annotations

from functools import partial

from mypy.nodes import Context, Expression, MemberExpr
from mypy.subtypes import is_subtype
from mypy.types import Instance, ProperType, Type, UnionType, get_proper_type

from tflow import sentences
from tflow.mypy_plugin import proposals, shapes
from tflow.mypy_plugin.labels import Labels
from tflow.mypy_plugin.recorder import Fixes
from tflow.mypy_plugin.report import Checker, report
from tflow.mypy_plugin.site import CallSite

CODE = "tflow-placement"


def broken(site: CallSite) -> bool:
    """Report operators that require another place than they are given."""
    beside, actor = site.beside, site.actor
    fixes: Fixes | None = None
    if beside is not None and actor is not None:
        if is_subtype(actor, beside):
            return False
        given, wanted = shapes.name_of(actor), shapes.name_of(beside)
        nobody = given == "object"
        sentence = (
            sentences.no_actor(site.operator, wanted)
            if nobody
            else sentences.other_actor(site.operator, wanted, site.method, given)
        )
    elif beside is not None:
        sentence = sentences.beside_actor(site.operator, site.method)
        fixes = partial(proposals.inside_actors, site)
    elif actor is not None and shapes.as_base(site.required, shapes.ASYNC) is not None:
        sentence = sentences.on_driver(site.operator, site.method)
        fixes = partial(proposals.on_driver, site)
    else:
        return False
    site.report(CODE, sentence, fixes)
    return True


def other_kind(
    api: Checker, labels: Labels, where: str, name: str, given: Expression, t: Type, *, driver: bool, call: Context | None = None
) -> bool:
    """Report a parallel stream where one on the driver is needed, or the other way round."""
    if shapes.as_base(t, shapes.PAR_ITER if driver else shapes.ITER) is None:
        return False
    wanted = sentences.DRIVER_STREAM if driver else sentences.PARALLEL_STREAM
    report(
        api,
        CODE,
        sentences.wrong_argument(where, name, wanted, f"<{shapes.name_of(t)} {labels.of(given)}>"),
        given,
        instead_of=call,
    )
    return True


def missing_method(api: Checker, member: MemberExpr) -> None:
    """Report a method of the other kind of stream."""
    receiver = get_proper_type(api.lookup_type_or_none(member.expr))
    for each in receiver.items if isinstance(receiver, UnionType) else [receiver]:
        missing_method_of(api, member, get_proper_type(each))


def missing_method_of(api: Checker, member: MemberExpr, receiver: ProperType | None) -> None:
    found = shapes.stream(receiver)
    if not isinstance(receiver, Instance) or found is None or receiver.type.has_readable_member(member.name):
        return
    where: Context = member
    if found.type.fullname == shapes.PAR_ITER:
        known = _has(api, shapes.ITER, member.name)
        if known:
            inside = _has(api, shapes.PAR_ITER, f"par_{member.name}")
            fixes = partial(proposals.of_parallel, member, inside=inside)
            report(api, CODE, sentences.no_driver_method(member.name, inside=inside, known=True), where, fixes=fixes)
    elif found.type.fullname == shapes.ITER and _has(api, shapes.PAR_ITER, member.name):
        fixes = partial(proposals.of_driver, api, member, known=_has(api, shapes.ITER, member.name.removeprefix("par_")))
        report(api, CODE, sentences.no_parallel_method(member.name), where, fixes=fixes)


def _has(api: Checker, class_name: str, method: str) -> bool:
    module, name = class_name.rsplit(".", 1)
    tree = api.modules.get(module)
    symbol = tree.names.get(name) if tree is not None else None
    return symbol is not None and symbol.node.has_readable_member(method)
