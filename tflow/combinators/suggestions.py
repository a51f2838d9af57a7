"""What to propose when a plan does not fit: an operator that is missing in between."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TypeVar, get_args, get_origin

from tflow import domain
from tflow.combinators import hints, nodes
from tflow.combinators.columns import AddColumns
from tflow.types import AnyOp, Columnar, Keyed, Op


def bridge(node: nodes.Node, op: AnyOp, wanted: hints.Hint, given: hints.Hint) -> str:
    """What turns what is given into what is wanted."""
    if get_origin(given) is list and hints.accepts(wanted, get_args(given)[0]):
        flat = "par_flatten()" if node.parallel else "flatten()"
        return domain.first("concat") if hints.columns_of(get_args(given)[0]) else flat
    if get_origin(wanted) is list and hints.accepts(get_args(wanted)[0], given):
        return "gather_rounds()" if node.inputs[0].label == "gather_sync()" else "batch(...)"
    if hints.is_kind(get_origin(given), Keyed) and hints.is_kind(get_origin(wanted) or wanted, Columnar):
        return domain.first("select")
    for kind in _classes_in((type(op).__module__, *domain.proposed_modules()), Op):
        signature = hints.base_arguments(kind, Op)
        if len(signature) == 3 and not any(isinstance(each, TypeVar) for each in signature[:2]):
            consumes, produces, requires = signature
            if hints.accepts(consumes, given) and hints.accepts(wanted, produces) and not hints.accepts(given, produces):
                inside = getattr(get_origin(requires) or requires, "__name__", "") == "OnActor"
                return f"{'par_for_each' if inside else 'for_each'}({kind.__name__}(...))"
    return ""


def adder(missing: Sequence[str]) -> str:
    """An operator that adds these columns."""
    for name in domain.proposed_modules():
        import_module(name)
    for kind in _subclasses(AddColumns):
        adds = hints.base_arguments(kind, AddColumns)[1:2]
        if adds and set(missing) <= set(get_args(adds[0])):
            return kind.__name__
    return ""


def _subclasses(kind: type) -> Iterator[type]:
    below: list[type] = type.__subclasses__(kind)
    for each in below:
        yield each
        yield from _subclasses(each)


def _classes_in(modules: Sequence[str], base: type) -> Iterator[type]:
    for name in dict.fromkeys(modules):
        found = vars(sys.modules[name]) if name in sys.modules else {}
        for each in found.values():
            if inspect.isclass(each) and issubclass(each, base) and each.__module__ == name:
                yield each
