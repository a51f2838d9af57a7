"""Argument checks. Each answers with what was given, what is allowed, and what to do."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tflow import sentences
from tflow.combinators.labels import label_of
from tflow.errors import PlanError
from tflow.types import ActorOp, AnyOp, LiveOp, Op, RefOp, Stateful, StatefulActorOp, StatefulLiveOp, Stateless, TimeBudget

X = TypeVar("X")
KINDS = (Stateless, Stateful, ActorOp, StatefulActorOp, LiveOp, StatefulLiveOp, RefOp)


MAX_ACTORS = 100_000
"""More than any cluster has; a typo should not fill the memory."""
MAX_BRANCHES = 1_000


def integer(where: str, name: str, value: int, *, least: int, most: int | None = None, hint: str = "") -> int:
    """An integer that is at least ``least`` and at most ``most``."""
    if whole(where, name, value) < least:
        raise PlanError(f"{where}: {name} must be at least {least}, got {value}.{f' {hint}' if hint else ''}")
    if most is not None and value > most:
        raise PlanError(f"{where}: {name} must be at most {most}, got {value}.{f' {hint}' if hint else ''}")
    return value


def whole(where: str, name: str, value: int) -> int:
    """An integer."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise PlanError(f"{where}: {name} must be a whole number, got {value!r}.")
    return value


def number(where: str, name: str, value: float) -> float:
    """A number; it may be infinite."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or value != value:
        raise PlanError(f"{where}: {name} must be a number, got {value!r}.")
    return value


def positive(where: str, name: str, value: float) -> float:
    """A finite number above zero."""
    if isinstance(value, numbers.Real) and not 0 < value < float("inf"):
        raise PlanError(f"{where}: {name} must be finite and above 0, got {value}.")
    return number(where, name, value)


def fraction(where: str, name: str, value: float) -> float:
    """A fraction: a number from 0 to 1."""
    at_least_zero(where, name, value)
    if value > 1:
        raise PlanError(f"{where}: {name} must be from 0 to 1, got {value}.")
    return value


def decay(where: str, name: str, value: float) -> float:
    """A decay rate: a number from 0 to below 1."""
    if at_least_zero(where, name, value) >= 1:
        raise PlanError(f"{where}: {name} must be from 0 to below 1, got {value}.")
    return value


def at_least_zero(where: str, name: str, value: float) -> float:
    """A finite number that is not negative."""
    if isinstance(value, numbers.Real) and not 0 <= value < float("inf"):
        raise PlanError(f"{where}: {name} must be finite and at least 0, got {value}.")
    return value if value == 0 and not isinstance(value, bool) else positive(where, name, value)


def function(where: str, value: object) -> None:
    """Something that can be called, and is not an operator."""
    if isinstance(value, Op):
        raise PlanError(sentences.operator_for_function(where, type(value).__name__))
    if not callable(value):
        raise PlanError(f"{where}: expected a function, got {value!r}.")


def called_with(where: str, fn: Callable[..., object], given: str) -> None:
    """A function that can be called with one argument, as far as its signature tells."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some builtins have none
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise PlanError(f"{where}: {label_of(fn)} is called with {given}: {error}.") from None


def operator(where: str, value: object) -> AnyOp:
    """An operator that can be run: a frozen value of one of the kinds."""
    name = value.__name__ if isinstance(value, type) else type(value).__name__
    if isinstance(value, type) and issubclass(value, Op):
        raise PlanError(sentences.class_of_operator(where, name))
    if not isinstance(value, Op):
        if hasattr(value, "compute") and not callable(value) and "for_each" in where:
            raise PlanError(sentences.columns_for_operator(where, name))
        if callable(value):
            raise PlanError(sentences.function_for_operator(where, label_of(value)))
        raise PlanError(f"{where}: expected an operator, a value of a class that derives from Op, got {value!r}.")
    if not isinstance(value, KINDS):
        kinds = ", ".join(kind.__name__ for kind in KINDS)
        raise PlanError(f"{where}: {name} derives from Op directly, which has no method to run. Derive from one of {kinds}.")
    parameters = getattr(value, "__dataclass_params__", None)
    if parameters is not None and not parameters.frozen:
        raise PlanError(f"{where}: {name} is a dataclass that can change; declare it @dataclass(frozen=True).")
    return value


def instance(where: str, name: str, value: X, kind: type | tuple[type, ...], wanted: str) -> X:
    """A value of the given class, described to the user as ``wanted``."""
    if not isinstance(value, kind):
        raise PlanError(sentences.wrong_argument(where, name, wanted, repr(value)))
    return value


def rerunnable(where: str, value: object) -> None:
    """An iterable that can be iterated over again, or a function that makes one: a plan can be run more than once."""
    if callable(value):
        return
    if not isinstance(value, Iterable):
        raise PlanError(f"{where}: expected an iterable or a function that makes one, got {value!r}.")
    if isinstance(value, Iterator):
        raise PlanError(
            f"{where}: got a live {type(value).__name__}, which can be read only once, but a plan can be run again. Pass a "
            f"list of its items, or a function that makes it to {'par_from_iterables' if 'par' in where else 'from_iterable'}()."
        )


ON_DEATH = ("restart", "skip", "raise")


def fault_policy(where: str, on_death: str, timeout_s: float | None) -> None:
    """What happens when an actor dies, and how long it may take to answer."""
    one_of(where, "on_death", on_death, ON_DEATH)
    if timeout_s is not None:
        positive(where, "timeout_s", timeout_s)


def per_call(where: str, value: int | TimeBudget) -> None:
    """How many items a call brings."""
    if isinstance(value, TimeBudget):
        positive(where, "per_call.seconds", value.seconds)
        integer(where, "per_call.items", value.items, least=1)
        positive(where, "per_call.megabytes", value.megabytes)
    else:
        integer(where, "per_call", value, least=1)


def one_of(where: str, name: str, value: X, allowed: tuple[X, ...]) -> X:
    """One of a few values."""
    if value not in allowed:
        choices = " or ".join(repr(choice) for choice in allowed)
        raise PlanError(f"{where}: {name} must be {choices}, got {value!r}.")
    return value


def boolean(where: str, name: str, value: bool) -> bool:
    """True or False, and nothing that is merely truthy or falsy."""
    return instance(where, name, value, bool, "True or False")
