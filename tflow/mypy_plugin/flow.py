"""Rule ``tflow-flow``: an operator must accept what the stream before it yields."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from mypy.nodes import CallExpr, Expression, MemberExpr, TypeInfo
from mypy.subtypes import is_subtype
from mypy.types import Instance, Type, UninhabitedType, get_proper_type

from tflow import domain, sentences
from tflow.mypy_plugin import proposals, shapes
from tflow.mypy_plugin.labels import Labels
from tflow.mypy_plugin.recorder import Proposal
from tflow.mypy_plugin.report import Checker, report
from tflow.mypy_plugin.shown_types import shown
from tflow.mypy_plugin.site import CallSite

CODE = "tflow-flow"


def broken(site: CallSite) -> bool:
    """Report elements of the wrong type."""
    if is_subtype(site.element, site.wanted):
        return False
    forgotten = bridge(site)
    sentence = sentences.flow(site.operator, shown(site.wanted), site.upstream, shown(site.element), forgotten)
    modules = (home_of(site), *domain.proposed_modules())
    site.report(CODE, sentence, partial(proposals.bridged, site, forgotten, modules) if forgotten else None)
    return True


def never_ends(api: Checker, labels: Labels, call: CallExpr, element: Type) -> None:
    """Report ``take`` of a stream that is drained. (What mypy could not infer is ``Never``, too.)"""
    nothing = get_proper_type(element)
    if isinstance(nothing, UninhabitedType) and not nothing.ambiguous:
        report(api, CODE, sentences.never_ends(labels.call(call)), call)


def bridge(site: CallSite) -> str:
    """What turns the one type into the other."""
    given, wanted = get_proper_type(site.element), get_proper_type(site.wanted)
    if isinstance(given, Instance) and given.type.fullname == "builtins.list" and is_subtype(given.args[0], wanted):
        flat = "par_flatten()" if site.method.startswith("par_") else "flatten()"
        return domain.first("concat") if shapes.as_base(given.args[0], shapes.BATCH) else flat
    if isinstance(wanted, Instance) and wanted.type.fullname == "builtins.list" and is_subtype(given, wanted.args[0]):
        return "gather_rounds()" if site.upstream == "gather_sync()" else "batch(...)"
    if shapes.as_base(given, shapes.MULTI_BATCH) and shapes.as_base(wanted, shapes.BATCH):
        return domain.first("select")
    for candidate in operators(site.api, home_of(site)):
        op = shapes.as_base(Instance(candidate, []), shapes.OP)
        if (
            op is not None
            and is_subtype(given, op.args[0])
            and is_subtype(op.args[1], wanted)
            and not is_subtype(op.args[1], given)
        ):
            method = "par_for_each" if shapes.name_of(op.args[2]) == "OnActor" else "for_each"
            return f"{method}({candidate.name}(...))"
    return ""


def home_of(site: CallSite) -> str:
    """The module of the operator."""
    found = get_proper_type(site.api.lookup_type_or_none(site.where))
    return found.type.module_name if isinstance(found, Instance) else ""


def operators(api: Checker, home: str) -> Iterator[TypeInfo]:
    """Operators that could be meant: those with a name, and no type variables."""
    for module in dict.fromkeys((home, *domain.proposed_modules())):
        tree = api.modules.get(module)
        for symbol in tree.names.values() if tree is not None else ():
            node = symbol.node
            if isinstance(node, TypeInfo) and node.module_name == module and node.has_base(shapes.OP) and not node.type_vars:
                yield node


def not_an_operator(method: str, given: Type, source: str) -> str:
    """What is wrong with something that is given to ``for_each`` and is not an operator; empty if it is one."""
    found = get_proper_type(given)
    made = shapes.made_by(found)
    if made is not None and shapes.as_base(made, shapes.OP):
        return sentences.class_of_operator(method, shapes.name_of(made))
    if shapes.as_base(found, shapes.ADD_COLUMNS) and "for_each" in method:
        return sentences.columns_for_operator(method, shapes.name_of(found))
    if shapes.is_function(found):
        return sentences.function_for_operator(method, source)
    return ""


def as_operator(method: MemberExpr, given: Expression, found: Type) -> Iterator[Proposal]:
    """What could be done about it."""
    made = get_proper_type(shapes.made_by(found))
    if isinstance(made, Instance) and shapes.as_base(made, shapes.OP) and proposals.needs_nothing(made.type):
        yield from proposals.proposal(f"Use {made.type.name}()", (proposals.after(given, "()"),))
    elif shapes.as_base(found, shapes.ADD_COLUMNS):
        yield from proposals.other_method(method, method.name.replace("for_each", "with_columns"))
    elif shapes.is_function(found):
        yield from proposals.other_method(method, method.name.replace("for_each", "map"))


NEEDS = {"flatten": "iterable items", "with_columns": "Batch"}
"""Methods that not every stream has."""


def wrong_self(api: Checker, labels: Labels, member: MemberExpr) -> None:
    """Report ``flatten`` on a stream of things without members, and ``with_columns`` on one of things without columns."""
    bare = member.name.removeprefix("par_")
    found = shapes.stream(api.lookup_type_or_none(member.expr)) if bare in NEEDS else None
    element = get_proper_type(found.args[0]) if found is not None else None
    if not isinstance(element, Instance) or element.type.fallback_to_any:
        return
    if not (element.type.has_readable_member("__iter__") if bare == "flatten" else shapes.as_base(element, shapes.BATCH)):
        report(api, CODE, sentences.flow(member.name, NEEDS[bare], labels.of(member.expr), shown(element)), member)


def not_a_function(method: str, given: Type) -> str:
    """What is wrong with something that is given to ``map`` and is an operator; empty if it is not."""
    return sentences.operator_for_function(method, shapes.name_of(given)) if shapes.as_base(given, shapes.OP) else ""
