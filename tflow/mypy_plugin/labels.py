"""How an expression that makes a stream is called: as the node that it makes is printed, such as ``for_each(ApplyGradients)``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module

from mypy.nodes import (
    CallExpr,
    ConditionalExpr,
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

from tflow import domain
from tflow.mypy_plugin import shapes, templates, tree
from tflow.mypy_plugin.public import homes

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


@cache
def described() -> tuple[str, ...]:
    """Where descriptions are made. What is elsewhere (runtimes, algorithms, tests) may start something, or import much."""
    packages = [package for each in domain.domains() for package in (each.package, *each.also)]
    return ("tflow.combinators.", *(f"{package}." for package in packages), "tflow.types.")


@cache
def public(fullname: str) -> object:
    """What a public name of tflow stands for; None if it has none, or if it is not a description."""
    module, _, name = fullname.rpartition(".")
    known = homes().get(name) == module and fullname.startswith(described())
    if not known or any(name in each.heavy for each in domain.domains()):
        return None
    return getattr(import_module(module), name, None)


@cache
def parameters(fullname: str) -> Mapping[str, inspect.Parameter]:
    """The parameters of a public function; none if it is not one."""
    found = public(fullname)
    return inspect.signature(found).parameters if inspect.isfunction(found) else {}


class CallLabel:
    """The label of a call, worked out when it is read: most are not."""

    __slots__ = ("call", "labels")

    def __init__(self, labels: Labels, call: CallExpr) -> None:
        self.labels, self.call = labels, call

    def __str__(self) -> str:
        return self.labels.call(self.call)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallLabel) and self.call is other.call

    def __hash__(self) -> int:
        return id(self.call)


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
        if isinstance(expr, ConditionalExpr):
            return " or ".join(dict.fromkeys((self.of(expr.if_expr), self.of(expr.else_expr))))
        if isinstance(expr, CallExpr):
            return self.call(expr)
        return source(expr)

    def call(self, call: CallExpr) -> str:
        """The label of a call: a method of a stream, a function or class of tflow, or another function."""
        callee = call.callee
        name = callee.name if isinstance(callee, (NameExpr, MemberExpr)) else source(callee)
        if isinstance(callee, RefExpr) and callee.fullname.startswith("tflow."):
            shape: str = getattr(public(callee.fullname), "shape", "") or f"{name}()"
            return self.filled(shape, self.arguments(call, shapes.parameters(self.type_of(callee)), None))
        stream = shapes.stream(self.type_of(callee.expr)) if isinstance(callee, MemberExpr) else None
        kinds = (shapes.ITER, shapes.PAR_ITER) if stream is None else (stream.type.fullname,)
        for kind in kinds if isinstance(callee, MemberExpr) else ():  # where types are not known, the name says which it is
            given = list(self.arguments(call, *templates.parameters_of(kind, name)))
            found = templates.template(kind, name, tuple(dict.fromkeys(each for each, _ in given)))
            if found is not None:
                return self.filled(found.text, given, found.gaps)
        if isinstance(callee, MemberExpr) and stream is not None and name == "named" and call.args:
            return f"{self.of(callee.expr)} '{self.shown(call.args[0], None)}'"
        return name

    def arguments(self, call: CallExpr, by_place: Sequence[str], rest: str | None) -> Iterator[tuple[str, Expression]]:
        """The arguments of a call with the names of their parameters."""
        for place, (given, name) in enumerate(zip(call.args, call.arg_names, strict=True)):
            known = name or (by_place[place] if place < len(by_place) else rest)
            if known is not None and not (isinstance(given, NameExpr) and given.fullname == "builtins.None"):  # not given
                yield known, given

    def filled(self, text: str, given: Iterable[tuple[str, Expression]], gaps: Mapping[str, str] | None = None) -> str:
        """A label with its gaps filled."""
        shown: dict[str, list[str]] = {}
        for name, expr in given:
            if f"{{{name}}}" in text:
                shown.setdefault(name, []).append(self.shown(expr, gaps[name] if gaps is not None else None))
        for name, parts in shown.items():
            text = text.replace(f"{{{name}}}", ", ".join(parts))
        return re.sub(r"\{\w+\}", "...", text)

    def shown(self, expr: Expression, kind: str | None) -> str:
        """An argument as a plan shows it."""
        if kind == "function":
            return self.function(expr)
        if kind == "operator":
            return self.class_of(expr)
        if kind == "actors" or (kind is None and shapes.as_base(self.type_of(expr), shapes.ACTORS) is not None):
            return self.actors(expr)
        if kind is None and shapes.is_function(self.type_of(expr)):
            return self.function(expr)
        return expr.value if isinstance(expr, StrExpr) else source(expr)

    def actors(self, expr: Expression) -> str:
        """What actors are called: as they are told, or as usual."""
        made = self.scopes.definition(expr.node) if isinstance(expr, NameExpr) and isinstance(expr.node, Var) else expr
        by = made.callee.fullname if isinstance(made, CallExpr) and isinstance(made.callee, RefExpr) else ""
        if not isinstance(made, CallExpr) or not by.startswith("tflow."):
            return source(expr)
        told = [given for given, name in zip(made.args, made.arg_names, strict=True) if name == "name"]
        if told:
            return told[0].value if isinstance(told[0], StrExpr) else source(expr)
        parameter = parameters(by).get("name")
        if parameter is None:
            return source(expr)
        if isinstance(parameter.default, str):
            return parameter.default
        return self.function(made.args[0]) if made.args else source(expr)  # they are called as what makes them

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
