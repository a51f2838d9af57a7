"""Rule ``tflow-columns``: a batch must have the columns that are read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mypy.nodes import DictExpr, IndexExpr, StrExpr, TypeInfo
from mypy.plugin import MethodContext
from mypy.types import Instance, LiteralType, Type, UnionType, get_proper_type
from mypy.types_utils import remove_optional

from tflow import domain, sentences
from tflow.mypy_plugin import proposals, shapes
from tflow.mypy_plugin.report import Checker, report
from tflow.mypy_plugin.shown_types import shown
from tflow.mypy_plugin.site import CallSite

CODE = "tflow-columns"


def broken(site: CallSite) -> bool:
    """Report columns that are read and not there."""
    return lacks(site, shapes.columns(site.element), shapes.columns(site.wanted), site.element)


def lacks(site: CallSite, have: Sequence[str] | None, reads: Sequence[str] | None, given: Type) -> bool:
    """Report what is in ``reads`` and not in ``have``, if both are known."""
    missing = [name for name in reads or () if name not in (have or ())]
    if have is None or not missing:
        return False
    adds = adder(site.api, missing)
    method = "par_with_columns" if site.method.startswith("par_") else "with_columns"
    fixes = partial(proposals.inserted, site, method, adds, domain.proposed_modules()) if adds else None
    site.report(CODE, sentences.columns(site.operator, missing, site.upstream, shown(given), adds), fixes)
    return True


def indexed(api: Checker, expr: IndexExpr) -> None:
    """``batch["advantage"]``: a column that is not there."""
    have, name = shapes.columns(api.lookup_type_or_none(expr.base)), shapes.literals(api.lookup_type_or_none(expr.index))
    if isinstance(expr.index, StrExpr):
        name = [expr.index.value]
    if have and name and name[0] not in have:
        report(api, CODE, sentences.no_column(name[0], have), expr.index, instead_of=expr)


def widened(ctx: MethodContext) -> Type | None:
    """What ``batch.with_columns({"advantages": ..., "returns": ...})`` is, if nobody wants it to have any columns at all."""
    shown = ctx.args[0][0] if ctx.args and ctx.args[0] else None
    given, have = get_proper_type(ctx.default_return_type), shapes.columns(ctx.type)
    keys = [key.value for key, _ in shown.items if isinstance(key, StrExpr)] if isinstance(shown, DictExpr) else []
    if not isinstance(given, Instance) or not isinstance(shown, DictExpr) or have is None or len(keys) < len(shown.items):
        return None
    api: Checker = ctx.api
    context = api.expr_checker.type_context[-1]
    wanted = shapes.as_base(remove_optional(context) if context is not None else None, shapes.BATCH)
    if not shapes.as_base(given, shapes.BATCH) or (wanted is not None and shapes.literals(wanted.args[0]) is None):
        return None
    string = api.named_generic_type("builtins.str", [])
    known = [LiteralType(name, string) for name in dict.fromkeys([*have, *keys])]
    return given.copy_modified(args=[UnionType.make_union(known), *given.args[1:]])


def adder(api: Checker, missing: Sequence[str]) -> str:
    """An operator that adds these columns."""
    for module in (api.tree.fullname, *domain.proposed_modules()):
        tree = api.modules.get(module)
        for symbol in tree.names.values() if tree is not None else ():
            node = symbol.node
            if isinstance(node, TypeInfo) and node.module_name == module and not node.type_vars:
                adds = shapes.as_base(Instance(node, []), shapes.ADD_COLUMNS)
                if adds is not None and set(missing) <= set(shapes.literals(adds.args[1]) or ()):
                    return node.name
    return ""
