"""Looking at values of any kind: comparing them, checking their types, and making ones that raise when they are touched."""

from __future__ import annotations

import contextlib
import copy
import inspect
import math
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from typing import Any, get_args, get_origin

import numpy as np

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
        closed = [cell for cell in getattr(value, "__closure__", None) or () if _is_set(cell)]
        return (value.__name__, [snapshot(cell.cell_contents, inside) for cell in closed]) if closed else value.__name__
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
    if isinstance(value, Enum):
        return value.name
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # it cannot be taken apart: then it is what it holds
        return snapshot(vars(value), inside) if hasattr(value, "__dict__") else ""
    if isinstance(reduced, str):
        return reduced
    arguments, state, members, entries = (*reduced[1:5], None, None, None, None)[:4]
    return [snapshot(part, inside) for part in (arguments, state, list(members or ()), dict(entries or ())) if part]


def _is_set(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is cell.cell_contents
    except ValueError:
        return False


def close(one: Any, other: Any, tolerance: float) -> bool:  # Any: of any kind, and looked at as such
    """True if two values are equal up to rounding; arrays, lists of numbers and scalars of numpy count by their values."""
    one, other = (each.tolist() if hasattr(each, "tolist") and hasattr(each, "dtype") else each for each in (one, other))
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return one == other or math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance) or (one != one and other != other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(close(one[key], other[key], tolerance) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(close(a, b, tolerance) for a, b in zip(one, other, strict=True))
    if is_dataclass(one) and type(one) is type(other):
        return all(close(getattr(one, field.name), getattr(other, field.name), tolerance) for field in fields(one))
    return bool(snapshot(one) == snapshot(other))


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
        return isinstance(value, dict) and _keys_fit(value, wanted)
    if not inspect.isclass(wanted) or getattr(wanted, "_is_protocol", False):
        return True
    if wanted in (float, complex) and isinstance(value, (int, float)):
        return not isinstance(value, bool)
    if not isinstance(value, wanted):
        return False
    columns = hints.columns_of(hint)
    if columns is not None:
        return all(name in value for name in columns)  # type: ignore[operator]  # what has columns can be asked for one
    return _members_fit(value, args) and _fields_fit(value, hint)


def unquoted(hint: hints.Hint, kind: type) -> hints.Hint:
    """The type, with what is quoted in it looked up where the class was written; as it is if that cannot be found there."""

    def said() -> None: ...

    said.__annotations__ = {"return": hint}
    for each in kind.__mro__:
        here = vars(sys.modules[each.__module__])
        with contextlib.suppress(Exception):  # an annotation can be any expression, and is evaluated here
            return typing.get_type_hints(said, here, dict(vars(each)), include_extras=True)["return"]
    return hint


def _keys_fit(value: dict[Any, object], wanted: Any) -> bool:  # Any: a TypedDict, which has no type of its own
    said = _hints_of(wanted)
    return wanted.__required_keys__ <= value.keys() <= said.keys() and all(fits(each, said[key]) for key, each in value.items())


def _fields_fit(value: object, hint: hints.Hint) -> bool:
    """Fields of data classes and named tuples; of generic ones only those whose type has no variable."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        names: Iterable[str] = getattr(value, "_fields")  # noqa: B009  # a named tuple: no class of its own
    elif is_dataclass(value):
        names = [field.name for field in fields(value)]
    else:
        return True
    said = _hints_of(type(value))
    return all(fits(getattr(value, name), said[name]) for name in names if name in said and hasattr(value, name))


def _hints_of(kind: type) -> dict[str, hints.Hint]:
    try:
        return typing.get_type_hints(kind)
    except Exception:  # an annotation can be any expression, and is evaluated here
        return {}


def _members_fit(value: object, args: tuple[hints.Hint, ...]) -> bool:
    if isinstance(value, np.ndarray):
        kinds = [kind for arg in args[1:] for kind in get_args(arg) if get_origin(arg) is np.dtype and inspect.isclass(kind)]
        return all(issubclass(value.dtype.type, kind) for kind in kinds)
    if isinstance(value, tuple) and args and args[-1] is not Ellipsis:
        return len(value) == len(args) and all(map(fits, value, args))
    if isinstance(value, Mapping) and len(args) == 2:
        return all(fits(key, args[0]) and fits(member, args[1]) for key, member in value.items())
    if isinstance(value, (Sequence, set, frozenset)) and args and not isinstance(value, (str, bytes)):
        members: Iterable[object] = value
        return all(fits(member, args[0]) for member in members)
    return True


class Poisoned(
    KeyError, IndexError, ValueError, ArithmeticError, AssertionError, NotImplementedError, EOFError, BufferError, RecursionError,
):  # fmt: skip
    """Raised by whatever is done with a ``Poison``: it is of many kinds, so that whoever catches one of them catches it.

    Of errors in arithmetic only the general one: who catches a division by zero has made the division.
    """


class PoisonedIO(TimeoutError, ConnectionResetError, BrokenPipeError, FileNotFoundError, PermissionError, InterruptedError):
    """The same for those who expect trouble with files and networks."""


POISONS: tuple[type[Exception], ...] = (Poisoned, PoisonedIO)
# Neither TypeError nor AttributeError: to find out by these what a value can do is good Python.


class Poison:
    """A value that raises when anything is done with it, and remembers what was."""

    touched: list[str]
    kind: type[Exception]

    def __init__(self, kind: type[Exception] = Poisoned, touched: list[str] | None = None) -> None:
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "touched", [] if touched is None else touched)

    def __deepcopy__(self, memo: object) -> Poison:
        return self


def touch(poison: Poison) -> object:
    """What happens when a column is read."""
    return _raises("__getitem__")(poison)


def _raises(name: str) -> Callable[..., object]:
    def method(self: Poison, *args: object, **more: object) -> object:
        self.touched.append(name)
        raise self.kind(f"{name} of an item that must not be touched")

    return method


def _any_attribute(self: Poison, name: str) -> object:
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)  # Python itself looks for these
    return _raises(name)(self)


setattr(Poison, "__getattr__", _any_attribute)  # noqa: B010  # checkers would believe that it has every attribute
TOUCHES = (
    "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__floordiv__", "__mod__",
    "__pow__", "__neg__", "__abs__", "__lt__", "__le__", "__gt__", "__ge__", "__len__", "__iter__", "__getitem__", "__setitem__",
    "__contains__", "__call__", "__float__", "__int__", "__index__", "__bool__", "__str__", "__format__", "__round__",
    "__array__",
)  # fmt: skip
for _touch in TOUCHES:
    setattr(Poison, _touch, _raises(_touch))


def poisoned(item: Any) -> Iterator[tuple[list[str], Any]]:  # Any: of any kind, and looked at as such
    """Items like this one that raise: as a whole, or in one part. Each with the list of what was touched."""
    for kind in POISONS:
        whole = Poison(kind)
        yield whole.touched, whole
        for replace in _places(item):
            part = Poison(kind)
            yield part.touched, replace(part)


def _places(item: Any) -> list[Callable[[Poison], Any]]:  # Any: as above
    """Ways to put something in the place of a part of an item; of lists and the like, the first and the last."""
    if type(item) in (list, tuple):
        return [partial(_with_member, item, index) for index in sorted({0, len(item) - 1}) if item]
    if isinstance(item, tuple) and hasattr(item, "_replace"):
        return [partial(_with_member, item, index) for index in range(len(item))]
    if type(item) is dict:
        return [partial(_with_key, item, key) for key in list(item)[:4]]
    if is_dataclass(item) and not isinstance(item, type):
        return [partial(_with_field, item, field.name) for field in fields(item)[:6]]
    is_batch = isinstance(getattr(item, "columns", None), Mapping)
    return [partial(_batch_that_raises, item)] if is_batch else []


def _with_member(item: Any, index: int, poison: Poison) -> Any:  # Any: a list or a tuple, perhaps a named one
    members = [*item[:index], poison, *item[index + 1 :]]
    return item._make(members) if hasattr(item, "_make") else type(item)(members)


def _with_key(item: dict[Any, Any], key: Any, poison: Poison) -> dict[Any, Any]:  # Any: whatever is in it
    return {**item, key: poison}


def _with_field(item: Any, name: str, poison: Poison) -> Any:  # Any: of a data class
    changed = copy.copy(item)
    object.__setattr__(changed, name, poison)
    return changed


def _batch_that_raises(item: Any, poison: Poison) -> Any:  # Any: a batch
    """A batch whose columns cannot be read."""
    methods = {"__slots__": (), "__getitem__": lambda self, name: touch(poison)}
    raising: Any = type(type(item).__name__, (type(item),), methods)  # Any: a class of batches
    return raising.from_state(item.state())
