"""Looking at values of any kind: comparing them, spoiling them, checking their types, and one that raises when touched."""

from __future__ import annotations

import copy
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin

from tflow.combinators import hints


def snapshot(value: Any) -> object:  # Any: of any kind, and looked at as such
    """A copy that can be compared with ``==``: arrays as lists with their type, NaN equal to itself."""
    if isinstance(value, float):
        return "NaN" if value != value else value
    if isinstance(value, dict):
        return {key: snapshot(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        members = [snapshot(member) for member in value]
        return members if isinstance(value, list) else tuple(members)
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return str(value.dtype), snapshot(value.tolist())
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, {field.name: snapshot(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "__dict__") and not any("__eq__" in vars(kind) for kind in type(value).__mro__[:-1]):
        return type(value).__name__, snapshot(vars(value))
    return copy.deepcopy(value)


def scramble(value: object) -> None:
    """Change whatever can be changed in a value, as someone may who owns it by now."""
    if isinstance(value, (list, dict, set)):
        members = list(value.values()) if isinstance(value, dict) else list(value)
        for member in members:
            scramble(member)
        value.clear()
    elif isinstance(value, (tuple, frozenset)):
        for member in value:
            scramble(member)
    elif hasattr(value, "flags") and hasattr(value, "dtype"):
        _spoil(value)
    elif hasattr(value, "__dict__") and not isinstance(value, (type, types.FunctionType)):
        for member in list(vars(value).values()):
            scramble(member)


def _spoil(array: Any) -> None:  # Any: an array, without importing numpy
    if array.flags.writeable and array.dtype != object:
        array[...] = array == 0  # every element changes


def fits(value: object, hint: hints.Hint) -> bool:
    """False if the value certainly does not have the type. Members of containers are looked at too."""
    if hint is hints.UNKNOWN or hint is typing.Any or isinstance(hint, (typing.TypeVar, str)):
        return True
    if hint is None or hint is type(None):
        return value is None
    origin, args = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        return fits(value, args[0])
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, arg) for arg in args)
    if origin is typing.Literal:
        return any(value == arg and type(value) is type(arg) for arg in args)
    wanted = origin or hint
    if not inspect.isclass(wanted) or getattr(wanted, "_is_protocol", False):
        return True
    if wanted in (float, complex) and isinstance(value, (int, float)):
        return not isinstance(value, bool)
    if wanted is int and isinstance(value, bool):
        return True
    if not isinstance(value, wanted):
        return False
    return _members_fit(value, args)


def _members_fit(value: object, args: tuple[hints.Hint, ...]) -> bool:
    if isinstance(value, tuple) and args and args[-1] is not Ellipsis:
        return len(value) == len(args) and all(map(fits, value, args))
    if isinstance(value, Mapping) and len(args) == 2:
        return all(fits(key, args[0]) and fits(member, args[1]) for key, member in value.items())
    if isinstance(value, (Sequence, set, frozenset)) and args and not isinstance(value, (str, bytes)):
        members: Iterable[object] = value
        return all(fits(member, args[0]) for member in members)
    return True


class Poisoned(Exception):
    """Raised by whatever is done with a ``Poison``."""


class Poison:
    """An item that raises when anything is done with it, and remembers what was."""

    def __init__(self) -> None:
        object.__setattr__(self, "touched", [])

    touched: list[str]


def _raises(name: str) -> Callable[..., object]:
    def method(self: Poison, *args: object, **more: object) -> object:
        self.touched.append(name)
        raise Poisoned(f"{name} of an item that must not be touched")

    return method


def __getattr_of_poison(self: Poison, name: str) -> object:
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)  # Python itself looks for these
    self.touched.append(name)
    raise Poisoned(f"{name} of an item that must not be touched")


setattr(Poison, "__getattr__", __getattr_of_poison)  # noqa: B010  # checkers would believe that it has every attribute
TOUCHES = (
    "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__floordiv__", "__mod__",
    "__pow__", "__neg__", "__abs__", "__lt__", "__le__", "__gt__", "__ge__", "__len__", "__iter__", "__getitem__", "__setitem__",
    "__contains__", "__call__", "__float__", "__int__", "__index__", "__bool__", "__str__", "__format__", "__round__",
)  # fmt: skip
for _touch in TOUCHES:
    setattr(Poison, _touch, _raises(_touch))
