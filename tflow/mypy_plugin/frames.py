"""Following values through a module: what names stand for where functions are called with known arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mypy.nodes import (
    ARG_STAR,
    ARG_STAR2,
    Argument,
    Block,
    CallExpr,
    ComparisonExpr,
    Decorator,
    Expression,
    FuncDef,
    FuncItem,
    IfStmt,
    LambdaExpr,
    NameExpr,
    Node,
    Statement,
    StrExpr,
    TryStmt,
    TypeInfo,
    UnaryExpr,
    Var,
    WithStmt,
)
from mypy.types import Instance, NoneType, Type, UnionType, get_proper_type

from tflow.mypy_plugin import tree
from tflow.mypy_plugin.kinds import guessed
from tflow.mypy_plugin.report import Checker


@dataclass(frozen=True, eq=False)
class Frame:
    """A function that is being called, or the module; ``outer`` is where it was defined."""

    scopes: tree.Scopes
    outer: Frame | None = None
    given: Mapping[Var, Value] = field(default_factory=dict)
    """Parameters whose arguments are known."""
    optional: Mapping[Var, Expression] = field(default_factory=dict)
    """Parameters that were not given, and their defaults."""

    def argument(self, variable: Var) -> Value | None:
        """What a parameter stands for."""
        if variable in self.given:
            return self.given[variable]
        if variable in self.optional:
            return Value(self.optional[variable], self.outer or self)
        return self.outer.argument(variable) if self.outer is not None else None

    def definition(self, variable: Var) -> Value | None:
        """What a variable is set to, if that happens only once."""
        found = self.scopes.definition(variable)
        if found is not None:
            return Value(found, self)
        return self.outer.definition(variable) if self.outer is not None else None


@dataclass(frozen=True, eq=False)
class Value:
    """An expression, or a function or class that is defined somewhere, with what its names stand for."""

    node: Node
    frame: Frame


Arguments = Sequence[tuple[str | None, Value]]
"""By position where there is no name."""


def arguments(call: CallExpr, frame: Frame) -> Arguments | None:
    """What a call is given; None if that is not certain."""
    if any(kind in (ARG_STAR, ARG_STAR2) for kind in call.arg_kinds):
        return None
    return [(name, Value(given, frame)) for given, name in zip(call.args, call.arg_names, strict=True)]


def bound(parameters: Sequence[Argument], given: Arguments) -> dict[Var, Value]:
    """Arguments by parameter."""
    by_place = [each.variable for each in parameters if each.kind.is_positional()]
    by_name = {each.variable.name: each.variable for each in parameters if each.kind not in (ARG_STAR, ARG_STAR2)}
    places = iter(by_place)
    found: dict[Var, Value] = {}
    for name, value in given:
        variable = next(places, None) if name is None else by_name.get(name)
        if variable is not None:
            found[variable] = value
    return found


def entered(fn: FuncItem, given: Arguments | None, outer: Frame, bound_to: bool = False) -> Frame:
    """The frame of a call; ``bound_to`` an object, the first parameter is not given."""
    parameters = fn.arguments[1:] if bound_to else fn.arguments
    known = bound(parameters, given) if given is not None else {}
    defaults = {
        each.variable: each.initializer
        for each in parameters
        if given is not None and each.initializer is not None and each.variable not in known
    }
    return Frame(tree.Scopes(fn), outer, known, defaults)


class Reader:
    """Questions about expressions of the module that is being checked."""

    def __init__(self, api: Checker) -> None:
        self.api = api

    def type_of(self, expr: Node) -> Type | None:
        found: Type | None = self.api.lookup_type_or_none(expr) if isinstance(expr, Expression) else None
        known = get_proper_type(found) if found is not None else None
        return found if isinstance(known, (Instance, UnionType)) or not isinstance(expr, Expression) else guessed(expr) or found

    def is_here(self, fn: FuncItem | TypeInfo) -> bool:
        """True for what is in the module that is being checked. mypy may know others from its cache, without their bodies."""
        if isinstance(fn, TypeInfo):
            return bool(fn.module_name == self.api.tree.fullname)
        if isinstance(fn, FuncDef) and fn.info:
            return self.is_here(fn.info)
        return isinstance(fn, LambdaExpr) or fn.fullname == fn.name or fn.fullname == f"{self.api.tree.fullname}.{fn.name}"

    def resolved(self, node: Node, frame: Frame, depth: int = 6) -> tuple[FuncItem, Frame] | None:
        """The function of this module that an expression stands for."""
        if depth == 0:
            return None
        if isinstance(node, (FuncDef, LambdaExpr)):
            return (node, frame) if self.is_here(node) else None
        if isinstance(node, NameExpr):
            if isinstance(node.node, FuncDef):
                return (node.node, frame) if self.is_here(node.node) else None
            if isinstance(node.node, Decorator) and is_wrapped(node.node):
                return node.node.func, frame
            value = (frame.argument(node.node) or frame.definition(node.node)) if isinstance(node.node, Var) else None
            return self.resolved(value.node, value.frame, depth - 1) if value is not None else None
        if isinstance(node, CallExpr):
            results = self.results(node, frame, depth - 1)
            return self.resolved(results[0].node, results[0].frame, depth - 1) if len(results) == 1 else None
        return None

    def results(self, call: CallExpr, frame: Frame, depth: int = 6) -> list[Value]:
        """What a call of a function of this module may return."""
        called = self.resolved(call.callee, frame, depth)
        given = arguments(call, frame)
        return returned(*called, given) if called is not None and given is not None else []

    def is_true(self, condition: Expression, frame: Frame) -> bool | None:
        """Whether a condition holds, as far as arguments tell."""
        if isinstance(condition, UnaryExpr) and condition.op == "not":
            found = self.is_true(condition.expr, frame)
            return None if found is None else not found
        if isinstance(condition, ComparisonExpr) and condition.operators in (["is"], ["is not"]):
            left, right = condition.operands
            missing = self.is_none(left, frame) if is_name(right, "None") else None
            return missing if missing is None or condition.operators == ["is"] else not missing
        if isinstance(condition, NameExpr):
            if condition.fullname in ("builtins.True", "builtins.False"):
                return condition.name == "True"
            value = frame.argument(condition.node) if isinstance(condition.node, Var) else None
            return self.is_truthy(value) if value is not None else None
        return None

    def is_truthy(self, value: Value) -> bool | None:
        node = value.node
        if is_name(node, "True") or is_name(node, "False"):
            return isinstance(node, NameExpr) and node.name == "True"
        if isinstance(node, StrExpr):
            return bool(node.value)
        missing = self.is_none(node, value.frame)
        if missing is not False:
            return None if missing is None else False
        t = get_proper_type(self.type_of(node))
        numbers = {"builtins.int", "builtins.bool", "builtins.float"}
        plain = isinstance(t, Instance) and t.type.fullname == "builtins.str"  # a name that was given is hardly empty
        sized = not isinstance(t, Instance) or t.type.fullname in numbers or any(map(t.type.get, ("__len__", "__bool__")))
        return True if plain or not sized else None

    def is_none(self, node: Node, frame: Frame) -> bool | None:
        """Whether a value is None; None if that is not certain."""
        if is_name(node, "None"):
            return True
        value = frame.argument(node.node) if isinstance(node, NameExpr) and isinstance(node.node, Var) else None
        if value is not None:
            return self.is_none(value.node, value.frame)
        t = get_proper_type(self.type_of(node))
        if isinstance(t, NoneType):
            return True
        return False if isinstance(t, Instance) and t.type.fullname != "builtins.object" else None


def returned(fn: FuncItem, outer: Frame, given: Arguments | None) -> list[Value]:
    """What a function returns when it is called."""
    frame = entered(fn, given, outer)
    if isinstance(fn, FuncDef) and (fn.is_generator or fn.is_coroutine):
        return []
    return [Value(each, frame) for each in tree.returns(fn)]


def is_name(node: Node, name: str) -> bool:
    """True for ``None``, ``True`` and ``False``."""
    return isinstance(node, NameExpr) and node.fullname == f"builtins.{name}"


def is_wrapped(node: Decorator) -> bool:
    """True for a function that is decorated with ``functools.wraps`` only: it is still itself."""
    wraps = [each.callee for each in node.original_decorators if isinstance(each, CallExpr)]
    names = [getattr(each, "fullname", "") for each in wraps]
    return bool(names) and len(names) == len(node.original_decorators) and all(each == "functools.wraps" for each in names)


def statements(reader: Reader, block: Block, frame: Frame) -> Iterator[Statement]:
    """What is done, in order; branches and loops that are not certain come whole."""
    for statement in block.body:
        inner = (
            statement if isinstance(statement, Block) else statement.body if isinstance(statement, (WithStmt, TryStmt)) else None
        )
        if isinstance(statement, IfStmt):
            yield from chosen(reader, statement, frame)
        elif inner is not None:
            yield from statements(reader, inner, frame)
        else:
            yield statement


def chosen(reader: Reader, statement: IfStmt, frame: Frame) -> Iterator[Statement]:
    """The branch that is taken."""
    for condition, body in zip(statement.expr, statement.body, strict=True):
        holds = reader.is_true(condition, frame)
        if holds is None:
            yield statement
            return
        if holds:
            yield from statements(reader, body, frame)
            return
    if statement.else_body is not None:
        yield from statements(reader, statement.else_body, frame)
