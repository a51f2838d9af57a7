"""Rule ``tflow-literal``: arguments that an operator would refuse when the plan is built.

What an operator refuses is written once, in the operator. So where the arguments of a call are literals, the call is tried:
describing a plan starts nothing. Streams, functions and operators that the call needs are replaced by ones that are always
accepted; what is not known and not needed is left out. The sentence is then the same by construction.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

from mypy.nodes import (
    ArgKind,
    CallExpr,
    DictExpr,
    Expression,
    FloatExpr,
    IntExpr,
    ListExpr,
    MemberExpr,
    NameExpr,
    RefExpr,
    SetExpr,
    StrExpr,
    TupleExpr,
    UnaryExpr,
    Var,
)
from mypy.types import CallableType, Instance, LiteralType, Overloaded, Type, get_proper_type

from tflow import sentences
from tflow.mypy_plugin import policy, shapes, tree
from tflow.mypy_plugin.labels import TypeOf, described, public
from tflow.mypy_plugin.report import Checker, report
from tflow.mypy_plugin.templates import actor_called, function_called, operator_called, stand_in_stream

CODE = "tflow-literal"
TRIED = described()
MOST_SHARDS = 1_000
ABOUT_FUNCTIONS = ("for_each", "map", "filter", "tap", "flat_map", "scan", "with_columns", "zip")
NOT_TRIED = {"run", "validate", *ABOUT_FUNCTIONS, *(f"par_{name}" for name in ABOUT_FUNCTIONS)}
"""Methods that start something, and those that other rules are about."""
NEED_ARGUMENTS = {"every", "select_shards", "Union", "ParUnion", *(name.rpartition(".")[2] for name in policy.named_by())}
CONSTANTS = {"builtins.True": True, "builtins.False": False, "builtins.None": None}


class Unknown(Exception):
    """The value of an expression cannot be known."""


NOTHING = object()
"""Stands for what could not be made."""


class Trial:
    """Tries calls within some scopes, the innermost first."""

    def __init__(self, api: Checker, scopes: tree.Scopes) -> None:
        self.api, self.scopes = api, scopes
        self.type_of: TypeOf = api.lookup_type_or_none
        self.made: dict[int, object] = {}

    def check(self, call: CallExpr) -> None:
        """Report what the call would raise."""
        from tflow.errors import PlanError

        if self.made.get(id(call), NOTHING) is not NOTHING or not worth_trying(call):
            return
        try:
            self.call(call)
        except PlanError as error:
            if sentences.DRIVER_STREAM not in str(error):  # the rule about places says that
                report(self.api, CODE, str(error), self.blamed(call, str(error)), instead_of=call)
        except Unknown:
            return

    def columns_read_by(self, expr: Expression) -> list[str] | None:
        """The columns that an operator such as ``StandardizeFields("advantages")`` reads, which its type does not tell."""
        try:
            return list(getattr(self.value(expr), "reads", ())) or None
        except Unknown:
            return None

    def blamed(self, call: CallExpr, sentence: str) -> Expression:
        """The argument that a sentence is about, if it names it."""
        names = shapes.parameters(self.type_of(call.callee))
        for place, (given, name) in enumerate(zip(call.args, call.arg_names, strict=True)):
            known = name or (names[place] if place < len(names) else "")
            if known and re.search(rf"\b{known}\b", sentence):
                return given
        return call

    def call(self, call: CallExpr) -> object:
        """What the call makes."""
        target = self.target(call)
        if any(kind in (ArgKind.ARG_STAR, ArgKind.ARG_STAR2) for kind in call.arg_kinds):
            raise Unknown
        called = call.callee.fullname if isinstance(call.callee, RefExpr) else "tflow.combinators."
        given: list[object] = []
        named: dict[str, object] = {}
        left_out: list[str] = []
        literal = False
        for expr, name in zip(call.args, call.arg_names, strict=True):
            try:
                value = self.value(expr)
                literal = True
            except Unknown:
                value = self.stand_in(self.type_of(expr), classes=called.startswith("tflow.combinators."))
                if value is inspect.Parameter.empty and name is not None:
                    left_out.append(name)
                    continue
                if value is inspect.Parameter.empty:
                    raise
            if name is None:
                given.append(value)
            else:
                named[name] = value
        if not literal and call.args:
            raise Unknown
        made = self.made[id(call)] = self.tried(target, given, named, left_out)
        return made

    def tried(self, target: Callable[..., object], given: list[object], named: dict[str, object], left_out: list[str]) -> object:
        from tflow.errors import PlanError

        try:
            made = target(*given, **named)
        except PlanError as error:
            if left_out and not persists(str(error), target, given, named, left_out):
                raise Unknown from None  # it is about something that was left out
            raise
        except Exception:
            raise Unknown from None  # mypy has its own words for it
        if left_out:
            raise Unknown
        return made

    def target(self, call: CallExpr) -> Callable[..., object]:
        """What is called, if describing with it starts nothing."""
        callee = call.callee
        found: object = None
        if isinstance(callee, MemberExpr) and not callee.fullname.startswith(TRIED):
            receiver = self.receiver(callee, call)
            found = getattr(receiver, callee.name, None)
            if found is None or callee.name in NOT_TRIED:
                raise Unknown
        elif isinstance(callee, RefExpr) and callee.fullname.startswith(TRIED):
            found = public(callee.fullname)
        else:
            raise Unknown
        if not callable(found):
            raise Unknown
        return found

    def receiver(self, callee: MemberExpr, call: CallExpr) -> object:
        """A stream on which a method can be tried."""
        kind = shapes.stream(self.type_of(callee.expr))
        if kind is None or kind.type.fullname == shapes.PLAN:
            raise Unknown
        if callee.name == "select_shards":  # there are as many as are asked for: which there are is not known here
            from tflow.combinators.create import par_from_items

            asked = [shard for shard in map(self.value, call.args) if isinstance(shard, int)]
            return par_from_items((), shards=min(max(asked, default=0) + 1, MOST_SHARDS))
        return stand_in_stream(kind.type.fullname)

    # ------------------------------------------------------------------- values

    def value(self, expr: Expression) -> object:
        """What an expression is, if it can be known."""
        match expr:
            case IntExpr() | FloatExpr() | StrExpr():
                return expr.value
            case UnaryExpr() if expr.op in ("-", "+"):
                number = self.value(expr.expr)
                if isinstance(number, (int, float)):
                    return -number if expr.op == "-" else number
                raise Unknown
            case ListExpr():
                return [self.value(item) for item in expr.items]
            case TupleExpr():
                return tuple(self.value(item) for item in expr.items)
            case SetExpr():
                return {self.value(item) for item in expr.items}
            case DictExpr():
                return {self.value(key) if key is not None else self.unknown(): self.value(item) for key, item in expr.items}
            case CallExpr():
                return self.object_made_by(expr)
            case NameExpr() | MemberExpr():
                return self.named(expr)
            case _:
                raise Unknown

    def unknown(self) -> object:
        raise Unknown

    def named(self, expr: NameExpr | MemberExpr) -> object:
        if expr.fullname in CONSTANTS:
            return CONSTANTS[expr.fullname]
        known = literal_value(self.type_of(expr))
        if known is not None:
            return known
        if isinstance(expr, NameExpr) and isinstance(expr.node, Var):
            made = self.scopes.definition(expr.node)
            if isinstance(made, CallExpr):
                return self.object_made_by(made)
        raise Unknown

    def object_made_by(self, call: CallExpr) -> object:
        """A description that is itself made of literals. A mistake in it is reported where it is made."""
        from tflow.errors import PlanError

        if id(call) not in self.made:
            self.made[id(call)] = NOTHING
            if not isinstance(call.callee, RefExpr) or not call.callee.fullname.startswith(TRIED[1:]):
                raise Unknown
            try:
                return self.call(call)
            except PlanError:
                raise Unknown from None
        if self.made[id(call)] is NOTHING:
            raise Unknown
        return self.made[id(call)]

    def stand_in(self, t: Type | None, *, classes: bool) -> object:
        """Something of that type which is always accepted; ``empty`` if there is nothing. Where ``classes`` are taken for
        functions, as by ``create_actors``, they are replaced too."""
        found = get_proper_type(t) if t is not None else None
        kind = shapes.stream(found)
        if kind is not None and kind.type.fullname != shapes.PLAN:
            return stand_in_stream(kind.type.fullname)
        if isinstance(found, (CallableType, Overloaded)) and (classes or not found.is_type_obj()):
            return function_called("anything")
        if shapes.as_base(found, shapes.OP):
            return operator_called("Anything")
        if shapes.as_base(found, "tflow.combinators.actors.Actor"):
            return actor_called("anything")
        return inspect.Parameter.empty


def persists(
    sentence: str, target: Callable[..., object], given: list[object], named: dict[str, object], left_out: list[str]
) -> bool:
    """True if an error does not depend on what was left out, as far as other values for it can tell."""
    from tflow.errors import PlanError

    usual = {name: parameter.default for name, parameter in inspect.signature(target).parameters.items()}
    numbers = {name: usual[name] for name in left_out if isinstance(usual.get(name), (int, float))}
    for factor in (1_000_000, 0.001) if numbers else ():
        others = {name: type(value)(max(value, 1) * factor) or 1 for name, value in numbers.items()}
        try:
            target(*given, **named, **others)
        except PlanError as error:
            if str(error) == sentence:
                continue
        return False
    return not any(re.search(rf"\b{name}\b", sentence) for name in left_out)


def worth_trying(call: CallExpr) -> bool:
    """False where nothing can be refused that is not a type error anyway: most methods are about functions and operators."""
    callee = call.callee
    if not call.args:
        return isinstance(callee, (NameExpr, MemberExpr)) and callee.name in NEED_ARGUMENTS
    if isinstance(callee, MemberExpr) and not callee.fullname.startswith(TRIED):
        return callee.name not in NOT_TRIED
    return isinstance(callee, RefExpr) and callee.fullname.startswith(TRIED)


def literal_value(t: Type | None) -> object:
    """The value of a constant, as far as its type tells."""
    found = get_proper_type(t) if t is not None else None
    if isinstance(found, Instance) and found.last_known_value is not None:
        found = found.last_known_value
    return found.value if isinstance(found, LiteralType) and not found.is_enum_literal() else None
