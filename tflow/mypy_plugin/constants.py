"""Constants that conditions compare names with: literals, and members of enums."""

from __future__ import annotations

from dataclasses import dataclass

from mypy import nodes
from mypy.nodes import Expression, MemberExpr, RefExpr, TypeInfo, Var
from mypy.types import Instance, get_proper_type

from tflow.mypy_plugin import shapes

BUILTIN: dict[str, object] = {"builtins.True": True, "builtins.False": False, "builtins.None": None}


class _Missing:
    """No constant."""


MISSING = _Missing()


@dataclass(frozen=True)
class NamedConstant:
    """Something that is told from others by its name: a member of an enum, a constant whose value is not known."""

    owner: str
    name: object


def literal(expr: Expression) -> object:
    """The value of what is written there; ``MISSING`` if that is no constant."""
    if isinstance(expr, (nodes.IntExpr, nodes.StrExpr, nodes.FloatExpr)):
        return expr.value
    if isinstance(expr, RefExpr) and expr.fullname in BUILTIN:
        return BUILTIN[expr.fullname]
    owner = expr.expr.node if isinstance(expr, MemberExpr) and isinstance(expr.expr, RefExpr) else None
    if isinstance(expr, MemberExpr) and isinstance(owner, TypeInfo) and owner.is_enum:
        return member(owner, expr.name)
    return MISSING


def member(info: TypeInfo, name: str) -> object:
    """A member of an enum: its value, where that can be compared with it. Two names of one value are one member."""
    found = info.names.get(name)
    if found is None or not isinstance(found.node, Var):
        return MISSING
    known = get_proper_type(found.node.type)
    value = known.last_known_value.value if isinstance(known, Instance) and known.last_known_value is not None else None
    if info.has_base("builtins.str"):
        value = shapes.member_value(info, name)
    compares = info.has_base("builtins.str") or info.has_base("builtins.int")
    return value if compares and value is not None else NamedConstant(info.fullname, name if value is None else value)


def truth_of(value: object) -> bool | None:
    """Whether a constant is true; None if that is not known."""
    return None if isinstance(value, NamedConstant) else bool(value)


class Outside:
    """What is the same on all paths through a function. This one knows nothing."""

    def named(self, expr: Expression) -> object:
        """A constant of a module or a class."""
        return MISSING

    def narrowed(self, expr: Expression) -> object:
        """The only value that is left, as far as types tell."""
        return MISSING
