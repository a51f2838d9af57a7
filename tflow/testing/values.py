"""Looking at values of any kind: comparing them, spoiling them, checking their types, and one that raises when touched."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin

from tflow.combinators import hints

PLAIN = (int, str, bytes, bool, complex, type(None), range)


def snapshot(value: Any, inside: tuple[int, ...] = ()) -> object:  # Any: of any kind, and looked at as such
    """What a value is made of, so that two can be compared with ``==`` whatever becomes of them later."""
    if type(value) in PLAIN:
        return value
    if id(value) in inside:
        return "itself"
    inside = (*inside, id(value))
    if isinstance(value, float):
        return "NaN" if value != value else value
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
        return value.__name__
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return type(value).__name__, str(value.dtype), snapshot(value.tolist(), inside)
    if isinstance(value, dict):
        entries = {key: snapshot(member, inside) for key, member in value.items()}
        return entries if type(value) is dict else (type(value).__name__, entries)
    if isinstance(value, (list, tuple)):
        members = [snapshot(member, inside) for member in value]
        if type(value) in (list, tuple):
            return members if isinstance(value, list) else tuple(members)
        return type(value).__name__, members
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(repr(snapshot(member, inside)) for member in value)
    if is_dataclass(value):
        return type(value).__name__, {field.name: snapshot(getattr(value, field.name), inside) for field in fields(value)}
    return type(value).__name__, _parts(value, inside)


def _parts(value: Any, inside: tuple[int, ...]) -> object:  # Any: an object of a class that we do not know
    """As pickle would take it apart."""
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # it cannot be taken apart: then it is what it holds
        return snapshot(vars(value), inside) if hasattr(value, "__dict__") else ""
    if isinstance(reduced, str):
        return reduced
    arguments, state, members, entries = (*reduced[1:5], None, None, None, None)[:4]
    return [snapshot(part, inside) for part in (arguments, state, list(members or ()), dict(entries or ())) if part]


def scramble(value: Any) -> None:  # Any: of any kind, and looked at as such
    """Change whatever can be changed in a value, as someone may who owns it by now."""
    if isinstance(value, (list, dict, set)):
        for member in list(value.values()) if isinstance(value, dict) else list(value):
            scramble(member)
        value.clear()
    elif isinstance(value, (tuple, frozenset)):
        for member in value:
            scramble(member)
    elif hasattr(value, "dtype") and hasattr(value, "copy_"):  # a tensor
        value.detach().copy_(value == 0)
    elif hasattr(value, "dtype") and hasattr(value, "flags"):
        if value.flags.writeable and value.dtype != object:
            value[...] = value == 0  # every element changes
    elif hasattr(value, "__dict__") and not isinstance(value, (type, types.FunctionType, types.ModuleType)):
        for name, member in list(vars(value).items()):
            scramble(member)
            if isinstance(member, (int, float, str)):
                _set(value, name, f"{member}?" if isinstance(member, str) else member + 1)


def _set(value: object, name: str, member: object) -> None:
    try:
        setattr(value, name, member)
    except AttributeError:
        return  # frozen: nobody can change it, so nobody does


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
    if typing.is_typeddict(wanted):
        return isinstance(value, dict)
    if not inspect.isclass(wanted) or getattr(wanted, "_is_protocol", False):
        return True
    if wanted in (float, complex) and isinstance(value, (int, float)):
        return not isinstance(value, bool)
    return isinstance(value, wanted) and _members_fit(value, args)


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


def _any_attribute(self: Poison, name: str) -> object:
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)  # Python itself looks for these
    self.touched.append(name)
    raise Poisoned(f"{name} of an item that must not be touched")


setattr(Poison, "__getattr__", _any_attribute)  # noqa: B010  # checkers would believe that it has every attribute
TOUCHES = (
    "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__floordiv__", "__mod__",
    "__pow__", "__neg__", "__abs__", "__lt__", "__le__", "__gt__", "__ge__", "__len__", "__iter__", "__getitem__", "__setitem__",
    "__contains__", "__call__", "__float__", "__int__", "__index__", "__bool__", "__str__", "__format__", "__round__",
    "__array__",
)  # fmt: skip
for _touch in TOUCHES:
    setattr(Poison, _touch, _raises(_touch))
