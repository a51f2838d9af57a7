"""How an expression that makes a stream is called: as the node that it makes is printed, such as ``for_each(ApplyGradients)``."""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import (
    CallExpr,
    Expression,
    FloatExpr,
    IndexExpr,
    IntExpr,
    LambdaExpr,
    MemberExpr,
    NameExpr,
    RefExpr,
    StrExpr,
    UnaryExpr,
    Var,
)
from mypy.types import Instance, Type, get_proper_type

from tflow.mypy_plugin import tree

FUNCTIONS = {"map", "filter", "tap", "flat_map", "scan"}
OPERATORS = {"for_each", "with_columns"}
NUMBERS = {"batch", "take", "shuffle", "repartition"}
PLAIN = {"gather_sync", "gather_rounds", "gather_async", "flatten", "drain", "zip"}
OVER_ACTORS = {"ParallelRollouts", "ParallelReplay", "ParallelEvaluations"}
USUAL = {
    "tflow.rl.rollout.worker_spec.create_rollout_workers": "workers",
    "tflow.rl.replay.replay_spec.create_replay_actors": "replay",
    "tflow.rl.rollout.worker_spec.create_learner": "learner",
    "tflow.combinators.actors.create_actor": "",
    "tflow.combinators.actors.create_actors": "",
}
"""What actors are called if nobody says otherwise; empty: as what makes them."""
COUNTED = {"from_range"}
SHOWN: dict[str, str] = dict.fromkeys(("from_items", "par_from_items", "par_from_range", "par_from_iterables"), "...")
TypeOf = Callable[[Expression], Type | None]


def source(expr: Expression) -> str:
    """An expression as it is written, in short."""
    match expr:
        case CallExpr():
            return f"{source(expr.callee)}({'...' if expr.args else ''})"
        case MemberExpr():
            return f"{source(expr.expr)}.{expr.name}"
        case NameExpr():
            return expr.name
        case IndexExpr():
            return f"{source(expr.base)}[{source(expr.index)}]"
        case IntExpr() | FloatExpr():
            return str(expr.value)
        case UnaryExpr():
            return f"{expr.op}{source(expr.expr)}"
        case StrExpr():
            return repr(expr.value)
        case LambdaExpr():
            return "<lambda>"
        case _:
            return "..."


class Labels:
    """Labels within one function or module: names are followed to where they are defined."""

    def __init__(self, type_of: TypeOf, scopes: tree.Scopes) -> None:
        self.type_of = type_of
        self.scopes = scopes

    def of(self, expr: Expression) -> str:
        """The label of the operator that makes a stream; a name that cannot be followed stands for itself."""
        if isinstance(expr, NameExpr) and isinstance(expr.node, Var):
            branch = self.scopes.branch(expr.node)
            if branch is not None:
                return f"branch {branch[1]}"
            made = self.scopes.definition(expr.node)
            return expr.name if made is None or isinstance(made, NameExpr) else self.of(made)
        if isinstance(expr, CallExpr):
            return self.call(expr)
        return source(expr)

    def call(self, call: CallExpr) -> str:
        """The label of a call: a method of a stream, a class of streams, or another function."""
        callee, first = call.callee, call.args[0] if call.args else None
        name = callee.name if isinstance(callee, (NameExpr, MemberExpr)) else source(callee)
        bare = name.removeprefix("par_")
        if first is not None and bare in FUNCTIONS:
            return f"{name}({self.function(first)})"
        if first is not None and bare in OPERATORS:
            return f"{name.replace('with_columns', 'for_each')}({self.class_of(first)})"
        if first is not None and bare in NUMBERS:
            return f"{name}({source(first)})"
        if bare in ("call", "hand_off") and len(call.args) > 1:
            return f"{name}({self.actors(call.args[0])}, {self.class_of(call.args[1])})"
        if bare == "split":
            return f"split({source(first) if first is not None and call.arg_names[0] in (None, 'n') else 2})"
        if bare == "every" and first is not None:
            return f"every({call.arg_names[0]}={source(first)})"
        if bare in PLAIN:
            return f"{name}()"
        if name in OVER_ACTORS and first is not None:
            return f"{name}({self.actors(first)})"
        if name == "Select":
            chosen = [arg.value for arg in call.args if isinstance(arg, StrExpr)]
            return f"Select({', '.join(chosen)})"
        if isinstance(callee, RefExpr) and callee.fullname.startswith("tflow."):
            return f"{name}({source(first) if first is not None and name in COUNTED else SHOWN.get(name, '')})"
        return name

    def actors(self, expr: Expression) -> str:
        """What actors are called: as they are told, or as usual."""
        made = self.scopes.definition(expr.node) if isinstance(expr, NameExpr) and isinstance(expr.node, Var) else expr
        by = made.callee.fullname if isinstance(made, CallExpr) and isinstance(made.callee, RefExpr) else ""
        if not isinstance(made, CallExpr) or by not in USUAL:
            return source(expr)
        told = [given for given, name in zip(made.args, made.arg_names, strict=True) if name == "name"]
        if told:
            return told[0].value if isinstance(told[0], StrExpr) else source(expr)
        return USUAL[by] or (self.function(made.args[0]) if made.args else source(expr))

    def function(self, expr: Expression) -> str:
        """A function as plans show it."""
        if isinstance(expr, CallExpr):
            return self.class_of(expr)
        return expr.name if isinstance(expr, (NameExpr, MemberExpr)) else source(expr)

    def class_of(self, expr: Expression) -> str:
        """The class of an operator."""
        found = get_proper_type(self.type_of(expr))
        if isinstance(found, Instance):
            return found.type.name
        return source(expr.callee) if isinstance(expr, CallExpr) else source(expr)
