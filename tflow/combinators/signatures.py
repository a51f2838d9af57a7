"""What operators say of themselves: their class, then the operator itself (``Op.signature``)."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import TypeVar, get_args

from tflow.combinators import hints
from tflow.combinators.actors import Actors
from tflow.errors import PlanError
from tflow.types import ActorOp, AnyOp, Async, LiveOp, OnActor, Op, Signature, StatefulActorOp, StatefulLiveOp


def signature_of(op: AnyOp, given: hints.Hint = hints.UNKNOWN, host: Actors[object] | None = None) -> Signature:
    """The signature of an operator behind a stream of ``given``, run by ``host`` if that is one actor."""
    consumes, produces, requires = type_arguments(op)
    if isinstance(requires, TypeVar):  # the class says nothing of it, but its kind does
        requires = OnActor if isinstance(op, (ActorOp, StatefulActorOp)) else hints.UNKNOWN
        requires = Async if isinstance(op, (LiveOp, StatefulLiveOp)) else requires
    known: dict[object, hints.Hint] = {}
    hints.solve(consumes, given, known)
    produces = hints.substitute(produces, known)
    usual = Signature(
        type(op).__name__, consumes, produces, requires, None, actor_of(op), tuple(actors_named_by(op)), given=given, host=host
    )
    try:
        found: object = op.signature(usual)
    except Exception as error:
        raise PlanError(f"{type(op).__name__}.signature raised {type(error).__name__}: {error}.") from error
    if not isinstance(found, Signature):
        raise PlanError(
            f"{type(op).__name__}.signature must return a Signature, such as replace(usual, label=...); got {found!r}."
        )
    return found


def type_arguments(op: AnyOp) -> tuple[hints.Hint, hints.Hint, hints.Hint]:
    """What an operator consumes, produces and requires, read from the class it derives from."""
    given = getattr(op, "__orig_class__", None)
    known: dict[object, hints.Hint] = dict(zip(getattr(type(op), "__parameters__", ()), get_args(given), strict=False))
    found = tuple(hints.substitute(each, known) for each in hints.base_arguments(type(op), Op))
    return (found[0], found[1], found[2]) if len(found) == 3 else (hints.UNKNOWN, hints.UNKNOWN, hints.UNKNOWN)


def actor_of(op: AnyOp) -> type | str | None:
    """The class of actor that an actor operator asks for; its name, if the class is imported later."""
    for base in (ActorOp, StatefulActorOp):
        for wanted in hints.base_arguments(type(op), base)[:1] if isinstance(op, base) else ():
            if isinstance(wanted, typing.ForwardRef):
                return wanted.__forward_arg__
            if inspect.isclass(wanted) and not getattr(wanted, "_is_protocol", wanted is typing.Any):
                return wanted
    return None


def actors_named_by(value: object) -> Iterator[Actors[object]]:
    """The actors that an operator names in its fields, also inside tuples, lists, dicts and dataclasses."""
    return actors_within(_fields_of(value))


def _fields_of(value: object) -> list[object]:
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if isinstance(name, str)]
    return [*getattr(value, "__dict__", {}).values(), *(getattr(value, name) for name in slots if hasattr(value, name))]


def actors_within(value: object) -> Iterator[Actors[object]]:
    """The actors in a value: itself, or inside tuples, lists, dicts and dataclasses."""
    if isinstance(value, Actors):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from actors_within(item)
    elif isinstance(value, dict):
        yield from actors_within(list(value.values()))
    elif is_dataclass(value) and not isinstance(value, type):
        yield from actors_within(_fields_of(value))
