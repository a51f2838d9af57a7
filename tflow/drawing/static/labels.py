"""How functions, operators, actors and numbers are called in a drawing: as ``print(plan)`` calls them, if that can be known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy import nodes as m
from mypy.types import Instance, Type, get_proper_type

from tflow.drawing.static.values import Callee, Constant, Described, Made, Value

if TYPE_CHECKING:
    from tflow.drawing.static.reader import Reader

OPERATORS = ("tflow.types.Op", "tflow.combinators.columns.AddColumns")
ACTORS = "tflow.combinators.actors.Actors"
USUAL = {
    "tflow.rl.rollout.worker_spec.create_rollout_workers": "workers",
    "tflow.rl.replay.replay_spec.create_replay_actors": "replay",
    "tflow.rl.rollout.worker_spec.create_learner": "learner",
}
"""What actors are called if nobody says otherwise."""


def derives(info: m.TypeInfo, *bases: str) -> bool:
    """True for a class and for those that derive from it."""
    return any(base.fullname in bases for base in info.mro)


def is_actors(given: Type | None) -> bool:
    """True for descriptions of actors."""
    proper = get_proper_type(given)
    return isinstance(proper, Instance) and derives(proper.type, ACTORS)


def function(reader: Reader, expr: m.Expression, value: Value) -> str:
    """The name that a function has, whatever it is called here."""
    if isinstance(value, (Callee, Made)):
        return value.name
    node = expr.node if isinstance(expr, m.RefExpr) else None
    if isinstance(node, m.TypeAlias):
        target = get_proper_type(node.target)
        return target.type.name if isinstance(target, Instance) else node.name
    if isinstance(node, (m.FuncDef, m.Decorator, m.OverloadedFuncDef, m.TypeInfo)):
        return node.name
    kind = get_proper_type(reader.program.type_of(expr))
    if isinstance(kind, Instance) and not kind.type.is_protocol and kind.type.fullname != "builtins.function":
        return kind.type.name  # an object that can be called
    if isinstance(expr, m.MemberExpr) and not isinstance(node, m.Var):
        return expr.name
    return reader.text(expr)


def operator(reader: Reader, expr: m.Expression, value: Value) -> str:
    """The class of an operator."""
    if isinstance(value, (Made, Callee)):
        return value.name
    kind = get_proper_type(reader.program.type_of(expr))
    if isinstance(kind, Instance) and derives(kind.type, *OPERATORS) and not kind.type.is_abstract:
        return kind.type.name if kind.type.fullname not in OPERATORS else reader.text(expr)
    return reader.text(expr)


def actor(reader: Reader, expr: m.Expression, value: Value) -> str:
    """The name of actors."""
    return value.name if isinstance(value, Described) else reader.text(expr)


def number(reader: Reader, expr: m.Expression, value: Value) -> str:
    """A number, or how it is written."""
    if isinstance(value, Constant) and value.value is not None:
        return f"{value.value:g}" if isinstance(value.value, float) else str(value.value)
    return reader.text(expr)


def made_actors(name: Value | None, make: str | None, usual: str) -> Described | None:
    """Actors by the name they are given, else by that of what makes them; None if the name cannot be known."""
    if name is not None and name != Constant(None):
        return Described(str(name.value)) if isinstance(name, Constant) else None
    if make is None:
        return Described(usual)
    return Described(make if make.isidentifier() else "actors")
