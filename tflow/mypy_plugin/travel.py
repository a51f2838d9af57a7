"""Rule ``tflow-travel``: what runs inside actors is sent there, with all that it refers to, and some things cannot be sent.

Functions that can be imported are sent by name, so what is global beside them stays where it is. Lambdas and functions inside
functions are sent with all that they use. Operators on the driver are copied for each run, which the same things prevent.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from mypy.nodes import CallExpr, Expression, FuncDef, MemberExpr, NameExpr, OverloadedFuncDef, RefExpr, StrExpr, TypeInfo
from mypy.types import CallableType, Overloaded, Type, get_proper_type

from tflow import domain, sentences
from tflow.mypy_plugin import shapes, tree
from tflow.mypy_plugin.frames import Frame
from tflow.mypy_plugin.holding import Holding, Stuck
from tflow.mypy_plugin.labels import Labels
from tflow.mypy_plugin.public import homes
from tflow.mypy_plugin.report import Checker, report

CODE = "tflow-travel"
PARALLEL = {"map", "filter", "tap", "flat_map", "for_each", "with_columns"}
METHODS: dict[str, dict[str, tuple[int, ...]]] = {
    shapes.PAR_ITER: {**{f"par_{name}": (0,) for name in PARALLEL}, "par_scan": (0, 1)},
    shapes.ITER: {"call": (1,), "hand_off": (1,)},
}
"""By kind of stream and method: which arguments are sent."""
FUNCTIONS = {
    "tflow.combinators.actors.create_actors": (0,),
    "tflow.combinators.actors.create_actor": (0,),
    "tflow.combinators.create.from_actors": (1,),
    "tflow.combinators.create.par_from_iterables": (0,),
    "tflow.combinators.create.par_from_items": (0,),
}
NAMED = {"op", "fn", "make", "pull", "initial", "items", "iterables"}
COPIED = {"for_each": 0, "with_columns": 0}
"""Methods of driver streams with an operator, which is copied for each run."""
INSIDE = {"tflow.types.ActorOp", "tflow.types.StatefulActorOp", shapes.PAR_ITER}
"""Bases of what can only run inside actors."""


def check(api: Checker, scopes: tree.Scopes, call: CallExpr) -> None:
    """Report what a call would send to actors and cannot, or copy and cannot."""
    frame = Frame(scopes)
    said: set[tuple[str, int, int]] = set()
    for sent in sent_by(api, call):
        for part in Holding(api, frame).of(sent, frame):
            if not part.name and is_read_now(call):
                continue
            where = Labels(api.lookup_type_or_none, scopes).call(call)
            say(api, said, part, sentences.travel(where, part.name or named(sent), part.kind))
    op = copied_by(api, call)
    if op is not None:
        for part in Holding(api, frame, copied=True).of(op, frame):
            name = shapes.name_of(api.lookup_type_or_none(op))
            say(api, said, part, sentences.copied(name, f"{part.name or named(op)} is {part.kind}"))


def is_read_now(call: CallExpr) -> bool:
    """True for what reads the items that it is given, and sends only those."""
    return isinstance(call.callee, RefExpr) and call.callee.fullname.startswith("tflow.combinators.create.par_")


def say(api: Checker, said: set[tuple[str, int, int]], part: Stuck, sentence: str) -> None:
    """Once for each place."""
    key = sentence, part.place.line, part.place.column
    if key not in said:
        said.add(key)
        report(api, CODE, sentence, part.place)


def named(sent: Expression) -> str:
    """What the argument itself is called."""
    return sent.name if isinstance(sent, (NameExpr, MemberExpr)) else "an argument"


# --------------------------------------------------------------------------- what is sent


def sent_by(api: Checker, call: CallExpr) -> Iterator[Expression]:
    """The arguments that go to actors."""
    callee = call.callee
    if isinstance(callee, MemberExpr):
        receiver = api.lookup_type_or_none(callee.expr)
        for kind, methods in METHODS.items():
            if callee.name in methods and shapes.as_base(receiver, kind) is not None:
                yield from picked(call, methods[callee.name], NAMED)
        if callee.name == "tapped" and shapes.stream(receiver) is not None:
            at = next(picked(call, (0,), {"at"}), None)
            if at is not None and is_inside(api, at):
                yield from picked(call, (1,), {"see"})
    if isinstance(callee, RefExpr):
        yield from picked(call, FUNCTIONS.get(callee.fullname, ()), NAMED)
        yield from described(api, call, callee)


def picked(call: CallExpr, places: tuple[int, ...], names: set[str]) -> Iterator[Expression]:
    """The arguments at some places, or of some names."""
    for place, (given, name, kind) in enumerate(zip(call.args, call.arg_names, call.arg_kinds, strict=True)):
        if places and (name in names or (name is None and kind.is_positional() and place in places)):
            yield given


@cache
def ships() -> dict[str, tuple[str, ...]]:
    """By function and class of libraries: the parameters whose arguments go to actors."""
    return {name: parameters for each in domain.domains() for name, parameters in each.ships.items()}


def described(api: Checker, call: CallExpr, callee: RefExpr) -> Iterator[Expression]:
    """What descriptions of actors are given."""
    bases = [base.fullname for base in callee.node.mro] if isinstance(callee.node, TypeInfo) else []
    parameters = next((ships()[name] for name in (callee.fullname, *bases) if name in ships()), ())
    t = api.lookup_type_or_none(callee) if parameters else None
    if t is None or (bases and callee.fullname not in ships() and shapes.made_by(t) is None):
        return
    by_place = shapes.parameters(t)
    for place, (given, name) in enumerate(zip(call.args, call.arg_names, strict=True)):
        if (name or (by_place[place] if place < len(by_place) else "")) in parameters:
            yield given


def is_inside(api: Checker, at: Expression) -> bool:
    """True for an operator that is certain to run inside actors: its class, or its name as plans are printed."""
    if isinstance(at, StrExpr):
        name = at.value.partition("(")[0]
        if name.startswith("par_"):
            return True
        found = domain_symbol(api, name)
    else:
        found = at.node if isinstance(at, RefExpr) else None
    if isinstance(found, TypeInfo):
        return any(base.fullname in INSIDE for base in found.mro)
    t = found.type if isinstance(found, (FuncDef, OverloadedFuncDef)) else None
    return all(shapes.as_base(result, shapes.PAR_ITER) is not None for result in results(t)) if t is not None else False


def domain_symbol(api: Checker, name: str) -> object:
    """What a public name of tflow stands for, if the module that is being checked knows it."""
    module = api.modules.get(homes().get(name, ""))
    symbol = module.names.get(name) if module is not None else None
    found = symbol.node if symbol is not None else None
    return getattr(found, "func", found)


def results(t: Type | None) -> list[Type]:
    found = get_proper_type(t) if t is not None else None
    if isinstance(found, Overloaded):
        return [item.ret_type for item in found.items]
    return [found.ret_type] if isinstance(found, CallableType) else []


# --------------------------------------------------------------------------- what is copied


def copied_by(api: Checker, call: CallExpr) -> Expression | None:
    """The operator that a driver stream applies."""
    callee = call.callee
    if not isinstance(callee, MemberExpr) or callee.name not in COPIED:
        return None
    if shapes.as_base(api.lookup_type_or_none(callee.expr), shapes.ITER) is None:
        return None
    return next(picked(call, (COPIED[callee.name],), {"op"}), None)
