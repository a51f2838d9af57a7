"""What is looked at when a function, or the top of a module, is finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mypy.nodes import CallExpr, Decorator, FuncDef, MemberExpr, MypyFile, Node, RefExpr
from mypy.types import CallableType

from tflow.mypy_plugin import flow, linear, literal, placement, shapes, travel, tree, unused
from tflow.mypy_plugin.edges import State
from tflow.mypy_plugin.finish import Unit
from tflow.mypy_plugin.labels import Labels
from tflow.mypy_plugin.report import Checker, unchecked
from tflow.mypy_plugin.uses import Uses

MARKS = {"tflow.marks.plan", "tflow.marks.flow"}


def look(api: Checker, unit: Unit) -> None:
    """Apply the rules about whole bodies."""
    if isinstance(unit, MypyFile):
        uses = Uses(api, Labels(api.lookup_type_or_none, [unit]), strict=False, twice=linear.reporter(api))
        careful(api, unit, lambda: uses.statements(unit.defs, State()))
        calls(api, unit, unit, {})
        return
    for fn, marked in functions(api, unit):
        careful(api, fn, streams_of(api, fn, marked=marked))
        calls(api, fn, fn.body, unit)


def functions(api: Checker, unit: FuncDef) -> Iterator[tuple[FuncDef, bool]]:
    """A function and those inside it; True for those that are marked."""
    symbol = (unit.info.names if unit.info else api.tree.names).get(unit.name)
    yield unit, symbol is not None and is_marked(symbol.node)
    marked = {id(node.func) for node in tree.walk(unit.body) if isinstance(node, Decorator) and is_marked(node)}
    for inner in tree.functions_in(unit.body):
        yield inner, id(inner) in marked


def is_marked(node: Node | None) -> bool:
    """True for what is decorated with ``@plan`` or ``@flow``."""
    given = node.original_decorators if isinstance(node, Decorator) else []
    return any(isinstance(each, RefExpr) and each.fullname in MARKS for each in given)


def streams_of(api: Checker, fn: FuncDef, *, marked: bool) -> Callable[[], None]:
    """The rules about streams: strict where a plan, or a part of one, is built."""
    returns = fn.type.ret_type if isinstance(fn.type, CallableType) else None
    strict = marked or shapes.mentions_stream(returns)

    def check() -> None:
        uses = Uses(api, Labels(api.lookup_type_or_none, [fn, api.tree]), strict=strict, twice=linear.reporter(api))
        uses.function(fn)
        if strict:
            unused.check(api, uses, parameters=marked and not tree.is_empty(fn))

    return check


def calls(api: Checker, unit: Unit, body: Node, outer: object) -> None:
    """The rules about single calls."""
    scopes = [scope for scope in (unit, outer, api.tree) if isinstance(scope, (FuncDef, MypyFile))]
    trial = literal.Trial(api, scopes)
    labels = Labels(api.lookup_type_or_none, scopes)
    for node in tree.own(body):
        if isinstance(node, MemberExpr):
            careful(api, node, lambda member=node: placement.missing_method(api, member))  # type: ignore[misc]  # bound at once
            careful(api, node, lambda member=node: flow.wrong_self(api, labels, member))  # type: ignore[misc]  # bound at once
        elif isinstance(node, CallExpr):
            careful(api, node, lambda call=node: trial.check(call))  # type: ignore[misc]  # bound at once
            careful(api, node, lambda call=node: travel.check(api, call, scopes))  # type: ignore[misc]  # bound at once


def careful(api: Checker, where: Node, rule: Callable[[], object]) -> None:
    """Whatever goes wrong in a rule is said, and the others go on."""
    try:
        rule()
    except Exception as error:  # whatever it is, the user's run goes on
        unchecked(api, where, error)
