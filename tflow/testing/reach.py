"""What can be reached from a value: which parts of an item something keeps, and how much it holds."""

from __future__ import annotations

import gc
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

import numpy as np

ATOMS = (int, float, complex, str, bytes, bool, type(None), type, types.ModuleType, types.CodeType, types.BuiltinFunctionType)
OPAQUE = (*ATOMS, Enum, np.generic, np.dtype, range, slice, types.FrameType, types.TracebackType)
"""What is not entered: it has no parts, or they are not its own."""
Parts = Iterable[tuple[str, object]]


def walk(
    roots: Iterable[tuple[str, object]], enters: Callable[[object], bool] = lambda value: True
) -> Iterator[tuple[str, Any]]:  # Any: of any kind
    """Everything that can be reached, each object once, with the way to it."""
    seen: set[int] = set()
    waiting = deque(roots)
    kept_alive: list[object] = []  # what is made on the way must not give its id to another
    while waiting:
        path, value = waiting.popleft()
        if isinstance(value, OPAQUE) or id(value) in seen:
            continue
        seen.add(id(value))
        kept_alive.append(value)
        yield path, value
        if enters(value):
            waiting.extend(parts(path, value))


def parts(path: str, value: Any) -> Parts:  # Any: of any kind
    """The direct parts of a value."""
    if isinstance(value, Mapping):
        yield from ((f"{path}[{key!r}]", each) for key, member in list(value.items()) for each in (key, member))
    elif isinstance(value, (list, tuple, deque)):
        yield from ((f"{path}[{index}]", member) for index, member in enumerate(value))
    elif isinstance(value, (set, frozenset)):
        yield from ((f"a member of {path}", member) for member in value)
    elif isinstance(value, np.ndarray):
        if value.dtype == object:
            yield from ((f"a member of {path}", member) for member in value.flat)
    elif is_tensor(value):
        yield from ((f"the graph of {path}", node) for node in (value.grad_fn,) if node is not None)
    elif hasattr(value, "next_functions"):  # a node of a graph of torch
        yield from ((path, node) for node, _ in value.next_functions if node is not None)
        yield from ((path, leaf) for leaf in (getattr(value, "variable", None),) if leaf is not None)
    elif isinstance(value, types.FunctionType):
        yield from ((f"what {path} closes over", cell) for cell in value.__closure__ or ())
        yield from ((f"the defaults of {path}", each) for each in (value.__defaults__, value.__kwdefaults__) if each)
        yield from ((f"{path}.{name}", each) for name, each in vars(value).items() if name != "__wrapped__")
        return
    elif not (hasattr(value, "__dict__") or slots_of(value)):
        yield from ((f"something in {path}", each) for each in gc.get_referents(value))
        return
    yield from ((f"{path}.{name}", each) for name, each in getattr(value, "__dict__", {}).items())
    yield from ((f"{path}.{name}", getattr(value, name)) for name in slots_of(value) if hasattr(value, name))


def slots_of(value: object) -> list[str]:
    found: list[str] = []
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        found += [slots] if isinstance(slots, str) else [name for name in slots if isinstance(name, str)]
    return [name for name in found if name not in ("__dict__", "__weakref__")]


def is_tensor(value: Any) -> bool:  # Any: of any kind
    """True for what torch calls a tensor; the kit imports no torch."""
    return hasattr(value, "untyped_storage") and hasattr(value, "grad_fn")


def changeable(value: Any) -> int | None:  # Any: of any kind
    """What tells apart memory that can be written to: the same for all views of it. None if the value cannot change."""
    if isinstance(value, np.ndarray):
        owner = value
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        return (
            int(owner.__array_interface__["data"][0]) if value.size and (value.flags.writeable or owner.flags.writeable) else None
        )
    if is_tensor(value):
        return int(value.untyped_storage().data_ptr()) or id(value)
    if isinstance(value, (tuple, frozenset, types.FunctionType, types.MethodType, types.MappingProxyType, types.CellType)):
        return None
    frozen = is_dataclass(value) and getattr(value, "__dataclass_params__").frozen  # noqa: B009  # private, so unknown to checkers
    marked = any(kind.__name__ == "Frozen" and kind.__module__ == "tflow.types" for kind in type(value).__mro__)
    return None if frozen or marked else id(value)


def kept(roots: Iterable[tuple[str, object]], items: Iterable[object], known: frozenset[int] = frozenset()) -> str:
    """The way to a part of an item that can be changed, from the roots; empty if none is reached."""
    own = {key for item in items for _, part in walk([("", item)]) if (key := changeable(part)) is not None} - known
    return next((path for path, value in walk(roots) if changeable(value) in own), "") if own else ""


def memory_in(roots: Iterable[tuple[str, object]]) -> frozenset[int]:
    """All that can be changed and is reached."""
    return frozenset(key for _, value in walk(roots) if (key := changeable(value)) is not None)


def amount(roots: Iterable[tuple[str, object]]) -> int:
    """How much is reached: objects, members of containers, elements of arrays; a queue that has a bound is as large as that."""
    total = 0
    for _, value in walk(roots, enters=lambda value: not has_bound(value)):
        total += 1
        if has_bound(value):
            total += value.maxlen
        elif isinstance(value, np.ndarray):
            total += value.size
        elif is_tensor(value):
            total += int(value.numel())
        elif isinstance(value, (Mapping, list, tuple, set, frozenset, deque)):
            total += len(value)
        elif callable(info := getattr(value, "cache_info", None)):  # of functools.lru_cache
            total += int(getattr(info(), "currsize", 0))
    return total


def has_bound(value: object) -> bool:
    return isinstance(value, deque) and value.maxlen is not None


def change_arrays(root: object) -> Callable[[], None]:
    """Change all arrays and tensors in place that can be reached and written to, as training does; returns how to undo it."""
    undo: list[tuple[Any, Any]] = []  # Any: an array or a tensor, and its copy
    for _, value in walk([("", root)]):
        if is_tensor(value):
            if value.is_floating_point():
                undo.append((value.detach(), value.detach().clone()))
                value.detach().add_(1)
        elif isinstance(value, np.ndarray) and value.flags.writeable and value.dtype.kind in "fiu":
            undo.append((value, value.copy()))
            value += 1

    def restore() -> None:
        for changed, before in undo:
            changed[...] = before

    return restore
