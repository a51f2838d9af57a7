"""What crosses the border of a process: values that cannot change may be shared, all others are copied on the way.

Ray does this by its nature, the simulator does it so that aliasing bugs show before Ray is involved.
"""

from __future__ import annotations

import io
import pickle
import sys
from dataclasses import fields, is_dataclass
from enum import Enum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Generic, TypeVar, cast

import cloudpickle

from tflow.types import Frozen

X = TypeVar("X")
ATOMS = (bool, range, type(None), type, Enum)
PLAIN = (int, float, complex, str, bytes)
SIMPLE = {*PLAIN, bool, type(None)}


def is_frozen(value: object) -> bool:
    """True if the value certainly cannot change: numbers, text, functions, read-only arrays, and frozen things made of these."""
    return _is_frozen(value, (*ATOMS, FunctionType, Frozen))


def _is_frozen(value: object, atoms: tuple[type, ...]) -> bool:
    if isinstance(value, atoms):
        return True
    if isinstance(value, BuiltinFunctionType):
        return isinstance(value.__self__, (ModuleType, type))  # else it is a method of something, such as a list
    if isinstance(value, PLAIN):
        return not getattr(value, "__dict__", None)
    if isinstance(value, (tuple, frozenset)):
        return all(_is_frozen(member, atoms) for member in value) and not getattr(value, "__dict__", None)
    if is_dataclass(value) and getattr(value, "__dataclass_params__").frozen:  # noqa: B009  # private, so unknown to checkers
        names = [field.name for field in fields(value)]
        frozen = all(_is_frozen(getattr(value, name, None), atoms) for name in names)
        return frozen and set(getattr(value, "__dict__", ())) <= set(names)
    read_only = getattr(getattr(value, "flags", None), "writeable", True) is False
    base = getattr(value, "base", None)  # an array may be a view of one that can be written to
    return read_only and (not hasattr(base, "flags") or _is_frozen(base, atoms))


def serialised_copy(value: X) -> X:
    """The value as it arrives in another process: a copy, unless nobody could tell. Arrays arrive read-only."""
    return value if type(value) in SIMPLE or _is_frozen(value, ATOMS) else Parcel(value, in_process=True).open()


class InProcessPickler(cloudpickle.Pickler):  # type: ignore[misc]  # a class that has no types
    """Sends what a script defines by name, too: within one process it can be found, and then shares the script's globals, as what
    a module defines does."""

    def reducer_override(self, obj: Any) -> Any:  # Any: as in the base class
        if isinstance(obj, (FunctionType, type)) and obj.__module__ == "__main__" and _in_script(obj.__qualname__) is obj:
            return _in_script, (obj.__qualname__,)
        return super().reducer_override(obj)


def _in_script(name: str) -> object:
    found: object = sys.modules["__main__"]
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


class Parcel(Generic[X]):
    """A value packed for a journey; each time it is opened, another copy comes out. ``in_process`` says that it stays in this
    process."""

    def __init__(self, value: X, *, in_process: bool = False) -> None:
        buffers: list[pickle.PickleBuffer] = []
        file, kind = io.BytesIO(), InProcessPickler if in_process else cloudpickle.Pickler
        kind(file, protocol=5, buffer_callback=buffers.append).dump(value)
        self.packed = file.getvalue()
        self.buffers = [bytes(buffer.raw()) for buffer in buffers]

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.packed) + sum(map(len, self.buffers))

    def open(self) -> X:
        return cast("X", pickle.loads(self.packed, buffers=self.buffers))  # noqa: S301  # our own bytes, made above
