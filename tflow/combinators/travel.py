"""What runs inside actors is sent there, with all that it refers to. Some things cannot be sent, and a plan says so on every
runtime, before anything starts.

Functions that can be imported are sent by name; lambdas, functions inside functions and functions of a script are sent with what
they use.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from functools import partial
from types import FunctionType, GeneratorType, MethodType, ModuleType

from tflow import sentences
from tflow.combinators import nodes
from tflow.errors import PlanError

DEPTH = 2
"""How far fields of fields are followed."""


def check(node: nodes.Node) -> None:
    """Raise ``PlanError`` if a node would send something to actors that cannot be sent."""
    for sent in node.ships:
        for name, value in _parts(sent, DEPTH):
            kind = cannot_travel(value)
            if kind:
                raise PlanError(sentences.travel(node.what, name, kind))


def cannot_travel(value: object) -> str:
    """What it is that cannot be sent; empty if it can."""
    kind = type(value)
    said = getattr(kind, "cannot_travel", "")
    if isinstance(said, str) and said:
        return said
    if kind.__module__ in ("_thread", "threading") and kind.__name__ != "_local":
        return "a thread" if kind.__name__.endswith("Thread") else "a lock"
    if kind.__module__ == "socket":
        return "a socket"
    if isinstance(value, io.IOBase):
        return "" if isinstance(value, (io.BytesIO, io.StringIO)) else "an open file"
    if isinstance(value, GeneratorType):
        return "a generator"
    return "a live iterator" if isinstance(value, Iterator) and kind.__module__ in ("builtins", "_csv") else ""


def _parts(value: object, depth: int) -> Iterator[tuple[str, object]]:
    """What goes with a value, by name."""
    if isinstance(value, FunctionType):
        found = _used_by(value)
    elif isinstance(value, MethodType):
        found = [("self", value.__self__)]
    elif isinstance(value, partial):
        found = [("an argument", each) for each in (*value.args, *value.keywords.values(), value.func)]
    elif isinstance(value, (list, tuple, set, frozenset)):
        found = [("an item", each) for each in value] if len(value) <= 1_000 else []
    elif isinstance(value, dict):
        found = [(str(name), each) for name, each in value.items()] if len(value) <= 1_000 else []
    elif type(value).__module__ in ("builtins", "numpy", "torch"):
        return
    else:
        found = list(getattr(value, "__dict__", {}).items()) if _is_sent_by_fields(value) else []
    for name, part in found:
        yield name, part
        if depth and not cannot_travel(part) and not isinstance(part, (type, ModuleType)):
            yield from ((f"{name}.{inner}", each) for inner, each in _parts(part, depth - 1))


def _is_sent_by_fields(value: object) -> bool:
    """True unless its class says itself how it is sent."""
    kind = type(value)
    usual = kind.__reduce__ is object.__reduce__ and kind.__reduce_ex__ is object.__reduce_ex__
    return usual and getattr(kind, "__getstate__", None) is getattr(object, "__getstate__", None)


def _used_by(fn: FunctionType) -> list[tuple[str, object]]:
    """The variables from outside that a function is sent with."""
    if _can_be_imported(fn):
        return []
    found: list[tuple[str, object]] = []
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            found.append((name, cell.cell_contents))
        except ValueError:  # not yet set
            continue
    found += [(name, fn.__globals__[name]) for name in fn.__code__.co_names if name in fn.__globals__]
    return [(name, value) for name, value in found if not isinstance(value, (type, ModuleType)) and value is not fn]


def _can_be_imported(fn: FunctionType) -> bool:
    found: object = sys.modules.get(fn.__module__) if fn.__module__ != "__main__" else None
    for name in fn.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is fn
