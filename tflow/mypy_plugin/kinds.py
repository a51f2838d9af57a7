"""By type: what cannot be sent to an actor, nor copied."""

from __future__ import annotations

import sys

from mypy.nodes import CallExpr, Expression, FuncDef, OverloadedFuncDef, RefExpr, TypeAlias, TypeInfo, Var
from mypy.types import AnyType, CallableType, Instance, Overloaded, ProperType, TupleType, Type, UnionType, get_proper_type

from tflow.sentences import CAN_TRAVEL, CANNOT_TRAVEL, OWN_WAY

LIVE = ("typing", "builtins", "collections", "_csv")
"""Where iterators come from that others may be reading; one of the user's own may well be sent."""
CONTAINERS = {
    "builtins.list",
    "builtins.tuple",
    "builtins.set",
    "builtins.frozenset",
    "builtins.dict",
    "collections.deque",
    "collections.OrderedDict",
    "typing.Sequence",
    "typing.MutableSequence",
    "typing.Mapping",
    "typing.MutableMapping",
}
KNOWN = {"builtins", "typing", "tflow", "torch", "numpy", "threading", "_thread", "io", "_io", "logging", "gymnasium", "abc"}
"""Libraries whose objects are not looked into."""
STUCK = frozenset(CANNOT_TRAVEL)


def kind_of(t: Type | None) -> str:
    """What it is that cannot be sent; empty if it can, or if that is not certain."""
    found = get_proper_type(t) if t is not None else None
    if isinstance(found, UnionType):
        kinds = [kind_of(item) for item in found.items]
        return kinds[0] if all(kinds) else ""
    if not isinstance(found, Instance):
        return ""
    names = [base.fullname for base in found.type.mro]
    if STUCK.isdisjoint(names) or not CAN_TRAVEL.isdisjoint(names) or says_itself(found.type):
        return ""
    kind = next(CANNOT_TRAVEL[name] for name in CANNOT_TRAVEL if name in names)
    return "" if kind == "a live iterator" and library(found.type) not in LIVE else kind


def kind_inside(t: Type | None, depth: int = 4) -> str:
    """What it is of which a container is full; empty if it can be sent. Types may contain themselves, hence ``depth``."""
    found = get_proper_type(t) if t is not None and depth else None
    items: list[Type] = []
    if isinstance(found, TupleType):
        items = list(found.items)
    elif isinstance(found, Instance) and found.type.fullname in CONTAINERS and found.args:
        items = [found.args[-1]]
    return next((kind for item in items if (kind := kind_of(item) or kind_inside(item, depth - 1))), "")


def library(info: TypeInfo) -> str:
    """The package that a class is in."""
    return info.module_name.split(".")[0]


def says_itself(info: TypeInfo) -> bool:
    """True for a class that says how its objects are sent. In the standard library, those that cannot be sent do that too."""
    for base in info.mro[:-1]:
        says = any(method in base.names for method in OWN_WAY)
        if says and base.fullname not in CANNOT_TRAVEL and library(base) not in sys.stdlib_module_names:
            return True
    return False


def made_of(node: object) -> ProperType | None:
    """What a call of a function or a class gives, where mypy has not looked: inside functions without annotations."""
    if isinstance(node, TypeAlias):
        return get_proper_type(node.target)
    if isinstance(node, TypeInfo):
        return Instance(node, [AnyType(1) for _ in node.type_vars])
    found = get_proper_type(node.type) if isinstance(node, (FuncDef, OverloadedFuncDef, Var)) and node.type is not None else None
    if isinstance(found, Overloaded):
        results = [get_proper_type(item.ret_type) for item in found.items]
        return results[0] if len({kind_of(each) for each in results}) == 1 else None
    return get_proper_type(found.ret_type) if isinstance(found, CallableType) else None


def guessed(expr: Expression) -> ProperType | None:
    """The type of a call that mypy has not looked at."""
    if isinstance(expr, CallExpr) and isinstance(expr.callee, RefExpr):
        return made_of(expr.callee.node)
    return None
