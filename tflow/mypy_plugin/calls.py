"""Calls in a finished body: each place where a stream meets an operator, or a function that takes streams, is looked at by the
rules about types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from mypy.argmap import map_actuals_to_formals
from mypy.erasetype import erase_typevars
from mypy.nodes import CallExpr, Decorator, Expression, MemberExpr, RefExpr, SymbolNode, TypeInfo
from mypy.types import AnyType, CallableType, Instance, Overloaded, Type, get_proper_type

from tflow import sentences
from tflow.mypy_plugin import columns, flow, literal, placement, proposals, shapes, sync, tree
from tflow.mypy_plugin.labels import Labels, source
from tflow.mypy_plugin.report import ABOUT_TYPES, Checker, of_kind, report, said_of, withdraw
from tflow.mypy_plugin.site import CallSite

OF_CALLS = {"call-overload", "misc", "arg-type", "type-var"}
"""What mypy says of a call as a whole when it cannot say which argument is wrong."""


class CallRules:
    """The calls of one body."""

    def __init__(self, api: Checker, scopes: tree.Scopes, trial: literal.Trial) -> None:
        self.api, self.trial = api, trial
        self.type_of: Callable[[Expression], Type | None] = api.lookup_type_or_none
        self.labels = Labels(self.type_of, scopes)
        self.own: set[tuple[int, int, str]] = set()
        """What mypy says of the argument in question by itself."""

    def check(self, call: CallExpr) -> None:
        """Say in better words what mypy does not like about the streams of a call."""
        callee = call.callee
        if isinstance(callee, MemberExpr) and callee.name in FEEDS and len(call.args) > 1:
            self.fed(call, callee)
        if isinstance(callee, MemberExpr) and callee.name == "take":
            taken = shapes.as_base(self.type_of(callee.expr), shapes.ITER)
            if taken is not None:
                flow.never_ends(self.api, self.labels, call, taken.args[0])
        if not said_of(self.api, call):
            return
        if isinstance(callee, MemberExpr):
            receivers = shapes.streams(self.type_of(callee.expr))
            rule = METHODS.get(callee.name)
            if rule is not None and receivers and call.args:
                for receiver in receivers:  # one of several, if a condition decides
                    rule(self, call, callee, receiver)
                return
        declared = self.declared(callee)
        if declared is not None:
            self.given_streams(call, source(callee) if not isinstance(callee, MemberExpr) else callee.name, declared)

    def declared(self, callee: Expression) -> list[CallableType] | None:
        """The signatures of what is called, if it takes streams."""
        node = callee.node if isinstance(callee, RefExpr) else None
        if node is None and isinstance(callee, MemberExpr):
            owner = get_proper_type(self.type_of(callee.expr))
            found = owner.type.get(callee.name) if isinstance(owner, Instance) else None
            node = found.node if found is not None else None
        return signatures_with_streams(node)

    # ------------------------------------------------------------------- methods

    def applied(self, call: CallExpr, callee: MemberExpr, receiver: Instance) -> None:
        """``stream.for_each(op)``, ``par_for_each``, ``call`` and ``hand_off``."""
        given, actor = tree.argument(call, "op", PLACES[callee.name]), None
        found = self.alone(given, call) if given is not None else None
        if given is None or found is None or isinstance(get_proper_type(found), AnyType):
            return
        op = shapes.as_base(shapes.without_never(found), shapes.OP)
        if op is None:
            sentence = flow.not_an_operator(callee.name, found, source(given))
            if sentence:
                fixes = partial(flow.as_operator, callee, given, found)
                report(self.api, flow.CODE, sentence, given, keep=self.own, fixes=fixes)
            return
        if callee.name == "par_for_each":
            actor = receiver.args[2]
        elif callee.name != "for_each":
            owner = shapes.as_base(self.alone(call.args[0], call) or self.type_of(call.args[0]), shapes.ACTORS)
            actor = owner.args[0] if owner is not None else shapes.ANYTHING
        name = shapes.name_of(found)
        site = self.site(given, callee.expr, receiver, name, callee.name, op.args[0], op.args[2], actor)
        broken(replace(site, call=call if callee.name in FEEDS else None))

    def fed(self, call: CallExpr, callee: MemberExpr) -> None:
        """``stream.call(actor, op)`` with an operator that reads whatever its actor reads, which the type of the actor says."""
        receiver, given = shapes.as_base(self.type_of(callee.expr), shapes.ITER), tree.argument(call, "op", PLACES[callee.name])
        actor = shapes.as_base(self.type_of(call.args[0]), shapes.FED_ACTOR)
        op = shapes.as_base(self.type_of(given), shapes.OP) if given is not None else None
        read = shapes.as_base(op.args[0], shapes.BATCH) if op is not None else None
        if receiver is None or actor is None or given is None or read is None:
            return
        if not isinstance(get_proper_type(read.args[0]), AnyType):
            return  # it says itself what it reads
        name = shapes.name_of(self.type_of(given))
        site = self.site(given, callee.expr, receiver, name, callee.name, actor.args[1], actor.args[2], None)
        if not columns.broken(site) and not isinstance(get_proper_type(actor.args[1]), AnyType):
            flow.broken(site)
        if not sync.broken(site) and callee.name == "hand_off" and shapes.as_base(actor.args[2], shapes.SYNC) is not None:
            site.report(sync.CODE, sentences.sync(name, self.labels.call(call)))

    def widened(self, call: CallExpr, callee: MemberExpr, receiver: Instance) -> None:
        """``stream.with_columns(op)``."""
        given = call.args[0]
        found = self.alone(given, call)
        op = shapes.as_base(shapes.without_never(found), shapes.ADD_COLUMNS) if found is not None else None
        if op is None:
            return
        actor = receiver.args[2] if callee.name.startswith("par_") else None
        site = self.site(given, callee.expr, receiver, shapes.name_of(found), callee.name, shapes.ANYTHING, op.args[2], actor)
        have, reads = shapes.columns(receiver.args[0]), shapes.literals(op.args[0]) or self.trial.columns_read_by(given)
        wrong = columns.lacks(site, have, reads, receiver.args[0])
        if not placed(site) and not wrong and have is not None and reads is not None:
            # mypy lets the place of the result decide which columns are added, and then they are others.
            withdraw(self.api, [each for each in said_of(self.api, given) if of_kind(each, {"arg-type"})])

    def mapped(self, call: CallExpr, callee: MemberExpr, receiver: Instance) -> None:
        """``stream.map(fn)`` and ``par_map``: operators are not functions."""
        found = self.alone(call.args[0], call)
        sentence = flow.not_a_function(callee.name, found) if found is not None else ""
        if sentence:
            fixes = partial(proposals.other_method, callee, callee.name.replace("map", "for_each"))
            report(self.api, flow.CODE, sentence, call.args[0], keep=self.own, fixes=fixes)

    def zipped(self, call: CallExpr, callee: MemberExpr, receiver: Instance) -> None:
        """``stream.zip(other)``: on the driver, or both inside the same actors."""
        driver = callee.name == "zip"
        found = self.type_of(call.args[0])
        if found is not None:
            placement.other_kind(self.api, self.labels, callee.name, "other", call.args[0], found, driver=driver)

    # ------------------------------------------------------------------- functions

    def given_streams(self, call: CallExpr, name: str, declared: list[CallableType]) -> None:
        """A function or a class that takes streams: ``ReportMetrics(stream, workers)``, a sub-flow."""
        signature = next((each for each in declared if fits(call, each)), declared[0])
        formals = map_actuals_to_formals(
            call.arg_kinds, call.arg_names, signature.arg_kinds, signature.arg_names, lambda _: shapes.ANYTHING
        )
        for formal, parameter, actuals in zip(signature.arg_types, signature.arg_names, formals, strict=True):
            wanted = shapes.as_base(formal, shapes.ITER) or shapes.as_base(formal, shapes.PAR_ITER)
            for actual in actuals if wanted is not None else ():
                if not call.arg_kinds[actual].is_star():
                    self.given_stream(call, name, parameter, call.args[actual], wanted)

    def given_stream(
        self, call: CallExpr, function: str, parameter: str | None, given: Expression, wanted: Instance | None
    ) -> None:
        """One of its streams."""
        found, bare = self.alone(given, call), erase_typevars(wanted) if wanted is not None else None
        if found is None or not isinstance(bare, Instance):
            return
        driver = bare.type.fullname == shapes.ITER
        called = "every input" if function in ("Union", "ParUnion") or parameter is None else parameter
        if placement.other_kind(self.api, self.labels, function, called, given, found, driver=driver, call=call):
            return
        have = shapes.as_base(found, bare.type.fullname)
        if have is not None:
            required = bare.args[1] if driver else shapes.ANYTHING
            broken(self.site(given, given, have, function, function, bare.args[0], required, None))

    # ------------------------------------------------------------------- both

    def alone(self, expr: Expression, call: CallExpr) -> Type | None:
        """The type of an argument by itself. Where mypy is not content, it has tried to make it fit its place. None if it has
        nothing to say about how it fits: there is no mistake, or a mistake inside, which is another one."""
        said = said_of(self.api, expr)
        begin = call.line, call.column
        of_call = [each for each in said_of(self.api, call) if (each.line, each.column) == begin and of_kind(each, OF_CALLS)]
        if any(of_kind(each, ABOUT_TYPES) for each in said) or not (said or of_call):
            return None
        with self.api.msg.filter_errors(save_filtered_errors=True) as inside:
            found: Type = self.api.get_expression_type(expr)
        self.own = {(each.line, each.column, each.message) for each in inside.filtered_errors()}
        fresh = [each for each in said if (each.line, each.column, each.message) not in self.own]
        return found if fresh or of_call else None

    def site(
        self,
        where: Expression,
        before: Expression,
        stream: Instance,
        operator: str,
        method: str,
        wanted: Type,
        required: Type,
        actor: Type | None,
    ) -> CallSite:
        """Where a stream meets an operator."""
        element, *offered = stream.args
        sync = any(
            shapes.as_base(each, shapes.SYNC) is not None or isinstance(get_proper_type(each), AnyType) for each in offered
        )
        element = shapes.without_never(element)
        return CallSite(self.api, self.labels, operator, method, before, where, element, wanted, required, sync, self.own, actor)


def broken(site: CallSite) -> None:
    """Ask the rules about elements, then those about places."""
    if not columns.broken(site):
        flow.broken(site)
    placed(site)


def placed(site: CallSite) -> bool:
    """Ask the rules about places."""
    return placement.broken(site) or sync.broken(site)


FEEDS = {"call", "hand_off"}
PLACES = {"for_each": 0, "par_for_each": 0, "call": 1, "hand_off": 1}
METHODS: dict[str, Callable[[CallRules, CallExpr, MemberExpr, Instance], None]] = {
    **dict.fromkeys(PLACES, CallRules.applied),
    **dict.fromkeys(("with_columns", "par_with_columns"), CallRules.widened),
    **dict.fromkeys(("map", "par_map"), CallRules.mapped),
    **dict.fromkeys(("zip", "par_zip"), CallRules.zipped),
}


def fits(call: CallExpr, signature: CallableType) -> bool:
    """True if a signature has a place for every argument, and an argument for every place that needs one."""
    formals = map_actuals_to_formals(
        call.arg_kinds, call.arg_names, signature.arg_kinds, signature.arg_names, lambda _: shapes.ANYTHING
    )
    placed = {actual for actuals in formals for actual in actuals}
    needed = all(actuals for actuals, kind in zip(formals, signature.arg_kinds, strict=True) if kind.is_required())
    return needed and len(placed) == len(call.args)


TAKING: dict[int, tuple[object, list[CallableType] | None]] = {}
"""By definition: its type, and its signatures if one of them has a stream. Most functions have none."""


def signatures_with_streams(node: SymbolNode | None) -> list[CallableType] | None:
    """The signatures of a function, a method or a class, if one of them has a stream; without ``self``."""
    made = isinstance(node, TypeInfo)
    if isinstance(node, TypeInfo):
        found = node.get("__init__") if not node.fullname.startswith("builtins.") else None
        node = found.node if found is not None else None
    fn = node.func if isinstance(node, Decorator) else node
    declared = getattr(fn, "type", None)
    if declared is None:
        return None
    known = TAKING.get(id(fn))
    if known is None or known[0] is not declared:
        known = TAKING[id(fn)] = declared, _with_streams(declared, method=made or bool(getattr(fn, "info", None)))
    return known[1]


def _with_streams(declared: Type, *, method: bool) -> list[CallableType] | None:
    kind = get_proper_type(declared)
    items = kind.items if isinstance(kind, Overloaded) else [kind] if isinstance(kind, CallableType) else []
    if method:
        items = [_without_self(each) for each in items]
    return items if any(shapes.stream(each) is not None for item in items for each in item.arg_types) else None


def _without_self(signature: CallableType) -> CallableType:
    if not signature.arg_types or signature.arg_names[0] not in ("self", "cls"):
        return signature
    return signature.copy_modified(
        arg_types=signature.arg_types[1:], arg_kinds=signature.arg_kinds[1:], arg_names=signature.arg_names[1:]
    )
