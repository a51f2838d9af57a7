"""What is looked at when a function, or the top of a module, is finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from mypy.nodes import (
    AssignmentStmt,
    CallExpr,
    Decorator,
    ExpressionStmt,
    FuncDef,
    IndexExpr,
    MemberExpr,
    MypyFile,
    Node,
    RefExpr,
    ReturnStmt,
    WithStmt,
)
from mypy.types import CallableType

from tflow.mypy_plugin import (
    columns,
    ends,
    flow,
    helpers,
    inferred,
    linear,
    literal,
    placement,
    policy,
    recorded_streams,
    recorder,
    shapes,
    travel,
    tree,
    untyped,
    unused,
)
from tflow.mypy_plugin.calls import CallRules
from tflow.mypy_plugin.finish import Unit
from tflow.mypy_plugin.labels import Labels
from tflow.mypy_plugin.report import Checker, said_of, unchecked
from tflow.mypy_plugin.uses import Uses

EXPECTING = {*tree.RAISES, "suppress"}
MARKS = {"tflow.marks.plan", "tflow.marks.flow"}


def look(api: Checker, unit: Unit) -> None:
    """Apply the rules about whole bodies."""
    record = recorder.active()
    if record is not None:
        record.start(api.path, unit.fullname)
    if isinstance(unit, MypyFile):
        scopes = tree.Scopes(unit)
        uses = Uses(api, Labels(api.lookup_type_or_none, scopes), strict=False, twice=linear.reporter(api))
        careful(api, unit, lambda: uses.module(unit))
        calls(api, scopes, strict=True)  # a notebook shows what stands there by itself
        if record is not None:
            careful(api, unit, partial(recorded_streams.record, api, unit, scopes))
        return
    whole = tree.Scopes(unit, api.tree)
    for fn, marked in functions(api, unit, next(iter(whole))):
        scopes = whole if fn is unit else tree.Scopes(fn, unit, api.tree)
        strict = marked or shapes.mentions_stream(fn.type.ret_type if isinstance(fn.type, CallableType) else None)
        careful(api, fn, streams_of(api, fn, scopes, marked=marked, strict=strict))
        careful(api, fn, partial(ends.check, api, fn, scopes))
        calls(api, scopes, strict=strict)
        if record is not None:
            careful(api, fn, partial(recorded_streams.record, api, fn, scopes))


def functions(api: Checker, unit: FuncDef, known: tree.Definitions) -> Iterator[tuple[FuncDef, bool]]:
    """A function and those inside it; True for those that are marked."""
    symbol = (unit.info.names if unit.info else api.tree.names).get(unit.name)
    yield unit, symbol is not None and is_marked(symbol.node)
    inside = [node for each in known.others for node in tree.walk(each)]
    marked = {id(node.func) for node in inside if isinstance(node, Decorator) and is_marked(node)}
    for inner in inside:
        if isinstance(inner, FuncDef):
            yield inner, id(inner) in marked


def is_marked(node: Node | None) -> bool:
    """True for what is decorated with ``@plan`` or ``@flow``."""
    given = node.original_decorators if isinstance(node, Decorator) else []
    return any(isinstance(each, RefExpr) and each.fullname in MARKS for each in given)


def streams_of(api: Checker, fn: FuncDef, scopes: tree.Scopes, *, marked: bool, strict: bool) -> Callable[[], None]:
    """The rules about streams: strict where a plan, or a part of one, is built."""

    def check() -> None:
        uses = Uses(api, Labels(api.lookup_type_or_none, scopes), strict=strict, twice=linear.reporter(api))
        uses.function(fn)
        if not marked:
            untyped.vague(api, fn)
        if strict:
            unused.check(api, uses, parameters=marked and not tree.is_empty(fn))

    return check


def calls(api: Checker, scopes: tree.Scopes, *, strict: bool) -> None:
    """The rules about single expressions of the innermost scope; what is inside others comes first. ``strict``: what is not
    consumed is reported anyway."""
    trial = literal.Trial(api, scopes)
    typed = CallRules(api, scopes, trial)
    named = partial(policy.look, api, scopes)
    helped = helpers.Helpers(api, scopes).check
    rules: list[Callable[[CallExpr], object]] = [typed.check, named, trial.check, helped, partial(travel.check, api, scopes)]
    nodes = next(iter(scopes)).nodes
    expected = {id(each) for node in nodes if isinstance(node, WithStmt) and swallows(api, node) for each in tree.own(node.body)}
    for node in reversed(nodes):
        if isinstance(node, CallExpr):
            for rule in rules:
                if not expected or id(node) not in expected or rule == typed.check:
                    careful(api, node, rule, node)
        if isinstance(node, (CallExpr, ReturnStmt, AssignmentStmt)) and said_of(api, node):
            careful(api, node, partial(inferred.fits, api, scopes, node))
        elif isinstance(node, MemberExpr) and said_of(api, node):
            careful(api, node, partial(placement.missing_method, api, node))
            careful(api, node, partial(flow.wrong_self, api, typed.labels, node))
        elif isinstance(node, IndexExpr) and said_of(api, node):
            careful(api, node, partial(columns.indexed, api, node))
        elif isinstance(node, ExpressionStmt) and not strict and id(node.expr) not in expected:
            careful(api, node, partial(unused.forgotten, api, node))


def swallows(api: Checker, node: WithStmt) -> bool:
    """True for a block in which something is expected to be refused, such as ``with pytest.raises(PlanError):``."""
    return any(shapes.swallows(api.lookup_type_or_none(given)) or tree.expects(given, EXPECTING) for given in node.expr)


def careful(api: Checker, where: Node, rule: Callable[..., object], *about: Node) -> None:
    """Whatever goes wrong in a rule is said, and the others go on."""
    try:
        rule(*about)
    except Exception as error:  # whatever it is, the user's run goes on
        unchecked(api, where, error)
