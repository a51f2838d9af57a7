"""What runs inside actors is sent there, with all that it refers to. Some things cannot be sent, and a plan says so on every
runtime, before anything starts.

Functions that can be imported are sent by name; lambdas, functions inside functions and functions of a script are sent with what
they use.
"""

from __future__ import annotations

import copy
import inspect
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType

import cloudpickle

from tflow import sentences
from tflow.combinators import nodes
from tflow.combinators.actors import Resident
from tflow.combinators.signatures import actors_named_by
from tflow.errors import PlanError
from tflow.types import AnyOp

DEPTH = 2
"""How far fields of fields are looked at."""
MAX_DEPTH = 20
"""How far they are followed once something cannot be packed; objects may contain themselves."""


def check(node: nodes.Node) -> None:
    """Raise ``PlanError`` if a node would send something to actors that cannot be sent, as far as a look at it tells."""
    for sent in node.ships:
        for name, value in _parts(sent, DEPTH):
            kind = cannot_travel(value)
            if kind:
                raise PlanError(sentences.travel(node.what, name, kind))


def pack(order: Sequence[nodes.Node]) -> None:
    """Raise ``PlanError`` if a plan sends something that cannot be sent, or has an operator of which a run cannot have a copy.

    Everything is really packed, once, and what is packed is thrown away.
    """
    sent = {id(value): (node, value) for node in reversed(order) for value in _sent_by(node) if not _goes_by_name(value)}
    if not _packs([value for _, value in sent.values()]):
        for node, value in reversed(sent.values()):
            _pack_one(node, value)
    for op in {id(node.operator): node.operator for node in order if node.where == "driver"}.values():
        if op is not None:
            own_copy(op)


def own_copy(op: AnyOp) -> AnyOp:
    """An operator for one run and one shard: what it changes in itself against the rules reaches no other."""
    try:
        return copy.deepcopy(op, {id(actors): actors for actors in actors_named_by(op)})
    except Exception as error:
        found = ((name, cannot_travel(value)) for name, value in _parts(op, DEPTH))
        why = next((f"{name} is {kind}" for name, kind in found if kind and kind not in sentences.COPIED), str(error))
        raise PlanError(sentences.copied(type(op).__name__, why)) from error


def cannot_travel(value: object) -> str:
    """What it is that cannot be sent; empty if it can."""
    said = getattr(type(value), "cannot_travel", "")
    if isinstance(said, str) and said:
        return said
    for base in type(value).__mro__:
        name = f"{base.__module__}.{base.__qualname__}"
        if name in sentences.CANNOT_TRAVEL:
            return sentences.CANNOT_TRAVEL[name]
        own = base.__module__.partition(".")[0] not in sys.stdlib_module_names
        if name in sentences.CAN_TRAVEL or (own and any(method in vars(base) for method in sentences.OWN_WAY)):
            return ""  # it says itself how it is sent
    if isinstance(value, io.IOBase):
        return "an open file"
    return "a live iterator" if isinstance(value, Iterator) and type(value).__module__ == "builtins" else ""


# --------------------------------------------------------------------------- packing


def _sent_by(node: nodes.Node) -> Iterator[object]:
    """What a node sends, and what makes the actors that it names."""
    yield from node.ships
    yield from (actors.make for actors in node.actors if not isinstance(actors, Resident))


def _goes_by_name(value: object) -> bool:
    return isinstance(value, FunctionType) and _can_be_imported(value)


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, packed: bytes) -> int:
        return len(packed)


def _packs(value: object) -> bool:
    """True for what can be packed. Arrays are not copied for it."""
    try:
        cloudpickle.CloudPickler(_Nowhere(), protocol=5, buffer_callback=lambda _: None).dump(value)
    except Exception:  # whatever a class of the user's raises
        return False
    return True


def _pack_one(node: nodes.Node, value: object) -> None:
    """Raise ``PlanError`` if a value cannot be packed, with the smallest part of it that cannot."""
    if _packs(value):
        return
    name, culprit, depth = "", value, 0
    while not cannot_travel(culprit) and depth < MAX_DEPTH:
        inner = next(((each, part) for each, part in _direct(culprit) if cannot_travel(part) or not _packs(part)), None)
        if inner is None:
            break
        name, culprit, depth = sentences.part(name, inner[0]), inner[1], depth + 1
    kind = cannot_travel(culprit) or f"of the class {type(culprit).__qualname__}"
    raise PlanError(sentences.travel(node.what, name or getattr(value, "__name__", type(value).__name__), kind))


# --------------------------------------------------------------------------- looking


def _parts(value: object, depth: int) -> Iterator[tuple[str, object]]:
    """What goes with a value, by name."""
    for name, part in _direct(value):
        yield name, part
        if depth and not cannot_travel(part):
            yield from ((sentences.part(name, inner), each) for inner, each in _parts(part, depth - 1))


def _direct(value: object) -> list[tuple[str, object]]:
    """What a value is made of."""
    found: Iterable[tuple[str, object]] = ()
    if isinstance(value, FunctionType):
        found = _used_by(value)
    elif isinstance(value, (MethodType, BuiltinMethodType)):
        found = [("self", value.__self__)]
    elif isinstance(value, partial):
        found = [("an argument", each) for each in (*value.args, *value.keywords.values(), value.func)]
    elif isinstance(value, (list, tuple, set, frozenset)):
        found = [(sentences.ITEM, each) for each in value] if len(value) <= 1_000 else []
    elif isinstance(value, dict):
        found = [(sentences.ITEM, each) for each in value.values()] if len(value) <= 1_000 else []
    elif (
        not isinstance(value, type) and type(value).__module__ not in ("builtins", "numpy", "torch") and _is_sent_by_fields(value)
    ):
        found = [*getattr(value, "__dict__", {}).items(), (type(value).__name__, type(value))]
    elif isinstance(value, type):
        found = vars(value).items()
    return [(name, part) for name, part in found if not _is_named(part)]


def _is_named(value: object) -> bool:
    """True for modules and classes that are sent by name; classes inside functions are sent with what they have."""
    return isinstance(value, ModuleType) or (isinstance(value, type) and "<locals>" not in value.__qualname__)


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
    defaults = inspect.signature(fn).parameters.values() if fn.__defaults__ or fn.__kwdefaults__ else ()
    found += [(each.name, each.default) for each in defaults if each.default is not each.empty]
    found += [(name, fn.__globals__[name]) for name in fn.__code__.co_names if name in fn.__globals__]
    return [(name, value) for name, value in found if value is not fn]


def _can_be_imported(fn: FunctionType) -> bool:
    found: object = sys.modules.get(fn.__module__) if fn.__module__ != "__main__" else None
    for name in fn.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is fn
