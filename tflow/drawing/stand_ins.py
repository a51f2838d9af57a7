"""Arguments for functions that build plans, made from their annotations: to describe a plan has no effects, so it can be built
with anything that is of the right type.

A class that is best made in a way of its own has a class method ``stand_in(hint, name)``; so workers come with a loss that fits.
"""

from __future__ import annotations

import enum
import inspect
import typing
from collections import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import NoneType

from tflow.combinators import hints, nodes
from tflow.combinators.actors import Actor, Actors, Resident
from tflow.combinators.par import ParIter
from tflow.combinators.stream import Iter
from tflow.errors import PlanError
from tflow.types import Op, Sync

Hint = object
PLAIN: dict[object, object] = {int: 2, float: 0.5, bool: False, str: "", bytes: b"", NoneType: None}
MAPPINGS = {dict, abc.Mapping, abc.MutableMapping}
CONTAINERS = {list, tuple, abc.Sequence, abc.Iterable, abc.Collection, *MAPPINGS}


@dataclass(frozen=True, eq=False)
class Given(nodes.FromItems):
    """A driver stream that the function is given."""

    is_sync: bool

    @cached_property
    def sync(self) -> bool:
        return self.is_sync


@dataclass(frozen=True, eq=False)
class GivenShards(nodes.FromActors):
    """A parallel stream that the function is given."""

    is_sync: bool = True

    @cached_property
    def sync(self) -> bool:
        return self.is_sync


class NoStandIn(Exception):
    """Nothing of that type can be made."""


def call(function: Callable[..., object], shown: str) -> object:
    """What a function returns, given stand-ins for the parameters that have no default."""
    try:
        parameters = inspect.signature(function).parameters.values()
        annotated = typing.get_type_hints(function.__init__ if inspect.isclass(function) else function)  # type: ignore[misc]  # its signature
    except Exception as error:  # an annotation can be any expression, and is evaluated here
        raise PlanError(f"The annotations of {shown} cannot be read: {type(error).__name__}: {error}.") from error
    given: list[object] = []
    named: dict[str, object] = {}
    for each in parameters:
        if each.default is not each.empty or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            continue
        if each.kind is each.KEYWORD_ONLY:
            named[each.name] = argument(each.name, annotated, shown)
        else:
            given.append(argument(each.name, annotated, shown))
    try:
        return function(*given, **named)
    except Exception as error:  # whatever a function of the user's raises
        said = str(error) if isinstance(error, PlanError) else f"{type(error).__name__}: {error}"
        made = [each.name for each in parameters if each.default is each.empty]
        advice = (
            f" It was given stand-ins for {', '.join(made)}; if these are to blame, draw a function that calls it."
            if made
            else ""
        )
        raise PlanError(f"{shown} cannot be built: {said}{advice}") from error


def argument(name: str, annotated: dict[str, Hint], shown: str) -> object:
    """A stand-in for one parameter."""
    if name not in annotated:
        raise PlanError(
            f"{shown} needs {name!r}, which has no annotation. Annotate it, give it a default, or draw a function that calls it."
        )
    try:
        return stand_in(annotated[name], name)
    except NoStandIn:
        raise PlanError(
            f"{shown} needs {name!r}, and nothing can stand in for {hints.show(annotated[name])}: only streams, workers, actors, "
            "configurations, functions, operators and plain values can be made up. Give it a default, or draw a function that "
            "calls it."
        ) from None


def stand_in(hint: Hint, name: str) -> object:
    """Something of that type, which drawings call ``name``."""
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if isinstance(hint, typing.TypeVar):
        origin, args = typing.Union, (*hint.__constraints__, hint.__bound__)
    if origin is typing.Annotated:
        return stand_in(args[0], name)
    if origin is typing.Literal:
        return args[0]
    if origin in hints.UNIONS:
        return first_of([arg for arg in args if arg is not None], name)
    if origin in CONTAINERS:
        return container(origin, args, name)
    if origin is abc.Callable:
        return function_named(name, args[-1] if args else hints.UNKNOWN)
    if origin is type and args and inspect.isclass(args[0]):
        return args[0]
    if origin is str:
        return name
    if origin in PLAIN:
        return PLAIN[origin]
    if inspect.isclass(origin):
        return instance(origin, hint, args, name)
    raise NoStandIn


def container(origin: object, args: tuple[Hint, ...], name: str) -> object:
    """Two of what it holds, so that plans over several streams can be seen to have several."""
    if origin in MAPPINGS:
        return {stand_in(args[0], name): stand_in(args[1], name)} if args else {}
    members = args if origin is tuple and args[1:] != (Ellipsis,) else args[:1] * 2
    made = [stand_in(member, f"{name}[{index}]") for index, member in enumerate(members)]
    return tuple(made) if origin is tuple else made


def first_of(choices: list[Hint], name: str) -> object:
    """The first that can be made; None only if there is nothing else."""
    for choice in sorted(choices, key=lambda each: each is NoneType):
        try:
            return stand_in(choice, name)
        except NoStandIn:
            continue
    raise NoStandIn


def instance(cls: type, hint: Hint, args: tuple[Hint, ...], name: str) -> object:
    """Something of a class."""
    if hasattr(cls, "stand_in"):
        return cls.stand_in(hint, name)
    element = args[0] if args else hints.UNKNOWN
    if cls is ParIter:
        actors = Actors(function_named(name, object), 2, name)
        return ParIter(GivenShards(actors, function_named(name, element), shown_as=name, is_sync=args[1:] in ((), (Sync,))))
    if issubclass(cls, Iter):
        return Iter(Given(function_named(name, hints.generic(list, element)), repeat=False, shown_as=name, is_sync=Sync in args))
    if issubclass(cls, Actors):
        num = 1 if issubclass(cls, (Actor, Resident)) else 2
        return cls(function_named(name, element), num, name)
    if issubclass(cls, Op):
        return operator_named(name, cls, hint)
    if issubclass(cls, enum.Enum):
        return next(iter(cls))
    try:
        return cls()
    except Exception:  # it needs arguments, or is abstract, or does not like to be made
        raise NoStandIn from None


def function_named(name: str, result: Hint) -> Callable[..., object]:
    """A function that says what it returns, and does nothing."""

    def made_up(*given: object, **named: object) -> object:
        raise NotImplementedError(f"{name} only stands for a function, in a drawing.")

    made_up.__name__ = made_up.__qualname__ = name
    made_up.__annotations__ = {} if result is hints.UNKNOWN else {"return": result}
    return made_up


def operator_named(name: str, kind: type, hint: Hint) -> object:
    """An operator of some kind that drawings call by the name of its parameter."""
    produced = hints.substitute(
        hints.base_arguments(kind, Op)[1], dict(zip(getattr(kind, "__parameters__", ()), typing.get_args(hint), strict=False))
    )
    methods = dict.fromkeys(getattr(kind, "__abstractmethods__", ()), function_named(name, hints.UNKNOWN))
    made = type(name, (kind,), {**methods, "shown_as": name, "yields": lambda self, given: produced, "__init__": object.__init__})
    return made()
