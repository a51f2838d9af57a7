"""How functions and arguments are called in errors and drawings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


F = TypeVar("F", bound=Callable[..., object])


def label_of(fn: Callable[..., object]) -> str:
    """A short name for a function, for errors and drawings."""
    return str(getattr(fn, "__qualname__", type(fn).__name__)).replace("<locals>.", "").rsplit(".", 1)[-1]


def one_line(shown: object) -> str:
    """A value that may be shown on several lines, such as an array or a space with arrays, for a sentence."""
    return " ".join(line.strip() for line in str(shown).splitlines())


def shaped(shape: str) -> Callable[[F], F]:
    """Say how a function that makes streams is shown, with its arguments by name."""

    def mark(fn: F) -> F:
        vars(fn)["shape"] = shape
        return fn

    return mark


def only_given(value: DataclassInstance) -> str:
    """A dataclass as it was written: what has its usual value is left out."""
    usual = {each.name: each.default_factory() if callable(each.default_factory) else each.default for each in fields(value)}
    given = {name: getattr(value, name) for name in usual if getattr(value, name) != usual[name]}
    return f"{type(value).__name__}({', '.join(f'{name}={shown!r}' for name, shown in given.items())})"


class Shown(dict[str, str]):
    """The fields of a node as a drawing shows them, for ``str.format_map``."""

    def __init__(self, node: object) -> None:
        self.node = node

    def __missing__(self, name: str) -> str:
        value = getattr(self.node, name, f"{{{name}}}")
        if isinstance(value, float):
            return f"{value:g}"
        if isinstance(value, tuple):
            return ":".join(f"{item:g}" if isinstance(item, (int, float)) else str(item) for item in value)
        return label_of(value) if callable(value) else str(value)
