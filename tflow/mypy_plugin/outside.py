"""Constants of modules and classes, which conditions inside functions compare names with."""

from __future__ import annotations

from mypy import nodes
from mypy.nodes import Expression, NameExpr, RefExpr, Var
from mypy.types import LiteralType, get_proper_type

from tflow.mypy_plugin import effects
from tflow.mypy_plugin.constants import MISSING, NamedConstant, Outside, literal, member
from tflow.mypy_plugin.labels import TypeOf
from tflow.mypy_plugin.report import Checker


class OutsideFunctions(Outside):
    """As a module, and mypy, see it."""

    def __init__(self, api: Checker) -> None:
        self.api = api
        self.type_of: TypeOf = api.lookup_type_or_none

    def named(self, expr: Expression) -> object:
        """A constant of a module or a class. One whose value is not known is another than all others."""
        variable = expr.node if isinstance(expr, RefExpr) else None
        if not isinstance(expr, RefExpr) or not isinstance(variable, Var) or expr.kind == nodes.LDEF:
            return MISSING
        if variable.is_final and variable.final_value is not None:
            return variable.final_value
        if isinstance(expr, NameExpr) and variable.fullname == f"{self.api.tree.fullname}.{variable.name}":
            if not effects.is_set_once(self.api.tree, variable):
                return MISSING
            value = self.set_to(variable)
            if value is not MISSING:
                return value
        return NamedConstant(variable.fullname, "") if variable.name.isupper() else MISSING

    def set_to(self, variable: Var) -> object:
        """What a variable of this module is set to: ``A``, or one of ``A, B = "a", "b"``."""
        made, place = effects.of_file(self.api.tree).set[variable][0]
        if place >= 0 and isinstance(made, (nodes.TupleExpr, nodes.ListExpr)) and place < len(made.items):
            return literal(made.items[place])
        return literal(made) if made is not None and place < 0 else MISSING

    def narrowed(self, expr: Expression) -> object:
        """The only value that is left, as mypy has found."""
        found = get_proper_type(self.type_of(expr))
        if not isinstance(found, LiteralType):
            return MISSING
        return member(found.fallback.type, str(found.value)) if found.is_enum_literal() else found.value
