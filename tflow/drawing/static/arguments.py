"""A call, with its arguments read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mypy import nodes as m
from mypy.types import AnyType, Type, get_proper_type

from tflow.drawing.static.draft import Draft, Input
from tflow.drawing.static.source import has_streams, signature
from tflow.drawing.static.values import UNKNOWN, Carried, Constant, Item, Several, Split, Value

if TYPE_CHECKING:
    from tflow.drawing.static.reader import Reader

Labelled = Callable[["Reader", m.Expression, Value], str]


@dataclass(frozen=True)
class Argument:
    """One argument as it is given."""

    expr: m.Expression
    value: Value
    name: str | None = None
    star: bool = False


@dataclass(frozen=True, eq=False)
class Call:
    """A call whose arguments have been read, each once."""

    reader: Reader
    expr: m.CallExpr
    name: str
    """The function, class or method, as it is written."""
    arguments: tuple[Argument, ...]

    @staticmethod
    def read(reader: Reader, expr: m.CallExpr, name: str) -> Call:
        """Read the arguments."""
        found = []
        for given, kind, keyword in zip(expr.args, expr.arg_kinds, expr.arg_names, strict=True):
            found.append(Argument(given, reader.value(given), keyword, kind.is_star()))
        return Call(reader, expr, name, tuple(found))

    @property
    def draft(self) -> Draft:
        return self.reader.draft

    @property
    def line(self) -> int:
        """Where the name of the method is: a chain of calls may have a line for each."""
        return self.expr.callee.end_line or self.expr.line

    @cached_property
    def type(self) -> Type | None:
        found = self.reader.program.type_of(self.expr)
        if not has_streams(found):
            return found
        return self.reader.module.by_itself(self.expr, self.reader.function) or found

    @cached_property
    def carried(self) -> Carried:
        return Carried.by(self.type)

    @property
    def makes_streams(self) -> bool:
        """True if what it returns is a stream, or has streams in it."""
        return has_streams(self.type)

    @property
    def is_any(self) -> bool:
        return self.type is None or isinstance(get_proper_type(self.type), AnyType)

    @property
    def nothing(self) -> Value:
        """For calls that make no stream."""
        return UNKNOWN

    # ------------------------------------------------------------------- arguments by position and name

    def argument(self, position: int, name: str) -> Argument | None:
        """An argument by its name, or by its position if nothing before it is starred."""
        for given in self.arguments:
            if given.name == name:
                return given
        plain = [given for given in self.arguments if given.name is None]
        if position < len(plain) and not any(given.star for given in plain[: position + 1]):
            return plain[position]
        return None

    def value(self, position: int, name: str) -> Value | None:
        """What an argument is worth; None if it is not given."""
        found = self.argument(position, name)
        return None if found is None else found.value

    def named(self, name: str) -> Value | None:
        """A keyword argument; None if it is not given."""
        return next((given.value for given in self.arguments if given.name == name), None)

    def constant(self, name: str) -> object:
        """The value of a keyword argument that is written as a constant."""
        found = self.named(name)
        return found.value if isinstance(found, Constant) else None

    def label(self, position: int, name: str, shown: Labelled) -> str:
        """How an argument is called in a drawing."""
        found = self.argument(position, name)
        return "..." if found is None else shown(self.reader, found.expr, found.value)

    # ------------------------------------------------------------------- streams among them

    def edges(self) -> list[Input]:
        """Everything that flows into the call through its arguments."""
        return [edge for given in self.arguments for edge in self._edges(given)]

    def _edges(self, given: Argument) -> list[Input]:
        known = isinstance(given.value, Several) or (isinstance(given.value, Split) and given.value.branches is not None)
        return self.draft.edges(given.value, "*" if given.star and not known else "")

    def positional(self) -> Iterator[Item]:
        """Values in order; those behind a star one by one where they are known."""
        for given in self.arguments:
            if given.name is not None:
                continue
            if not given.star:
                yield Item(given.value)
            elif isinstance(given.value, Several):
                yield from given.value.items
            elif isinstance(given.value, Split) and given.value.branches is not None:
                yield from (Item(self.draft.branch(given.value, index)) for index in range(given.value.branches))
            else:
                yield Item(given.value, "*")

    def wanted_types(self) -> list[str]:
        """The types of the parameters that take streams, as they are declared."""
        callee = signature(self.reader.program.type_of(self.expr.callee))
        if callee is None:
            return []
        return [str(Carried.by(kind)) for kind in callee.arg_types if has_streams(kind)]
