"""Types of arguments, asked for before mypy looks at them.

Hooks that change a signature come before the arguments are checked, so they have to ask. Asking for the type of a call runs the
hooks inside it, which ask again: with calls inside calls, that would double at each level. So answers are kept until mypy is done
with the outermost call.
"""

from __future__ import annotations

from mypy.nodes import Context, Expression, Node
from mypy.types import Type

from tflow.mypy_plugin import tree
from tflow.mypy_plugin.report import Checker


class Asked:
    """The answers for one outermost call."""

    def __init__(self) -> None:
        self.outermost: Context | None = None
        self.answers: dict[int, tuple[Expression, Type]] = {}
        self.refused: dict[int, bool] = {}
        """By call: whether its arguments are refused. mypy asks once for each overload."""

    def within(self, call: Context) -> None:
        """A hook is called for ``call``."""
        outer = self.outermost
        if outer is None or outer is call or not isinstance(outer, Node) or not any(node is call for node in tree.walk(outer)):
            self.outermost = call
            self.answers.clear()
            self.refused.clear()

    def done(self, call: Context) -> None:
        """mypy has checked ``call``."""
        if call is self.outermost:
            self.outermost = None
            self.answers.clear()
            self.refused.clear()

    def type_of(self, api: Checker, expr: Expression) -> Type:
        """The type of an argument, without regard to what it is used for."""
        if id(expr) not in self.answers:
            found: Type = api.get_expression_type(expr)
            self.answers[id(expr)] = expr, found
        return self.answers[id(expr)][1]


ASKED = Asked()
"""mypy checks one expression at a time."""
