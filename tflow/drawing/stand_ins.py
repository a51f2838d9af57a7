"""Arguments for functions that build plans, made from their annotations: to describe a plan has no effects, so it can be built
with anything that is of the right type.

A class that is best made in a way of its own has a class method ``stand_in(hint, name)``; so workers come with a loss that fits.
"""

from __future__ import annotations

import enum
import inspect
import sys
import typing
from collections import abc
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property, partial
from types import NoneType

from tflow.combinators import hints, nodes
from tflow.combinators.actors import Actor, Actors, Resident
from tflow.combinators.par import ParIter
from tflow.combinators.runnable import Described
from tflow.combinators.stream import Iter
from tflow.errors import PlanError
from tflow.types import Op, Signature, Sync

Hint = object
ADVICE = "draw a function without parameters that calls it"
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
    except (TypeError, ValueError):  # some builtins have none
        raise PlanError(f"{shown} does not say which arguments it takes. Name a function of yours that calls it.") from None
    needed = [each for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    needed = [each for each in needed if each.kind is not each.VAR_POSITIONAL or each.annotation is not each.empty]
    made = {each.name: argument(function, each, shown) for each in needed}
    given: list[object] = []
    for each in needed:
        if each.kind is each.VAR_POSITIONAL:  # of streams two, so that several can be seen to be several
            given += [made[each.name], argument(function, each, shown)] if isinstance(made[each.name], Described) else []
        elif each.kind is not each.KEYWORD_ONLY:
            given.append(made[each.name])
    try:
        return function(*given, **{each.name: made[each.name] for each in needed if each.kind is each.KEYWORD_ONLY})
    except (Exception, SystemExit) as error:  # whatever a function of the user's raises
        said = str(error) if isinstance(error, PlanError) else f"{type(error).__name__}: {error}".rstrip(".: ") + "."
        if not made:
            raise PlanError(f"{shown} cannot be built: {said}") from error
        raise PlanError(
            f"{shown} cannot be built with stand-ins for {', '.join(made)}: {said} If a stand-in is to blame, {ADVICE}."
        ) from error


def argument(function: Callable[..., object], parameter: inspect.Parameter, shown: str) -> object:
    """A stand-in for one parameter."""
    name, annotation = parameter.name, parameter.annotation
    if annotation is parameter.empty:
        raise PlanError(f"{shown} needs {name!r}, which has no annotation. Annotate it, or {ADVICE}.")
    known = namespace_of(function, name)
    try:
        hint = typing.get_type_hints(type("Holder", (), {"__annotations__": {name: annotation}}), known)[name]
    except Exception as error:  # an annotation can be any expression, and is evaluated here
        raise PlanError(
            f"{shown} needs {name!r}, whose annotation {annotation!r} cannot be evaluated ({type(error).__name__}: {error}). "
            f"Import what it names outside of TYPE_CHECKING, or {ADVICE}."
        ) from error
    try:
        return stand_in(hint, name)
    except NoStandIn:
        raise PlanError(
            f"{shown} needs {name!r}, and nothing can stand in for {hints.show(hint)}: only streams, workers, actors, "
            f"configurations, functions, operators and plain values can be made up. Give it a default, or {ADVICE}."
        ) from None


def namespace_of(function: Callable[..., object], name: str) -> dict[str, object]:
    """The names that the annotation of a parameter may use: those of the module where it was written."""
    if isinstance(function, partial):
        return namespace_of(function.func, name)
    if inspect.isclass(function):  # a field may be inherited from a dataclass of another module
        owner = next((kind for kind in function.__mro__ if name in inspect.get_annotations(kind)), None)
        return vars(sys.modules[owner.__module__]) if owner is not None else namespace_of(function.__init__, name)
    written = function if inspect.isroutine(function) else type(function).__call__
    found: dict[str, object] = getattr(inspect.unwrap(written), "__globals__", {})
    return found


def stand_in(hint: Hint, name: str) -> object:
    """Something of that type, which drawings call ``name``."""
    origin: object = typing.get_origin(hint) or hint
    args = typing.get_args(hint)
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
    if isinstance(origin, type):
        return instance(origin, hint, args, name)  # pyright: ignore[reportArgumentType]  # any class will do
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
        return ParIter(GivenShards(actors, function_named(name, element), shown_as=name, is_sync=args[1:2] in ((), (Sync,))))
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
        return call(cls, name) if is_dataclass(cls) else cls()
    except Exception:  # it needs arguments, or is abstract, or does not like to be made
        raise NoStandIn from None


def function_named(name: str, result: Hint) -> Callable[..., object]:
    """A function that says what it returns, and returns a stand-in for that: it may be one that builds a part of the plan."""

    def made_up(*given: object, **named: object) -> object:
        try:
            return stand_in(result, name)
        except NoStandIn:
            raise PlanError(f"{name} only stands for a function, and cannot be called for a {hints.show(result)}.") from None

    made_up.__name__ = made_up.__qualname__ = name
    made_up.__annotations__ = {} if result is hints.UNKNOWN else {"return": result}
    return made_up


def operator_named(name: str, kind: type, hint: Hint) -> object:
    """An operator of some kind that drawings call by the name of its parameter."""
    produced = hints.substitute(
        hints.base_arguments(kind, Op)[1], dict(zip(getattr(kind, "__parameters__", ()), typing.get_args(hint), strict=False))
    )
    methods = dict.fromkeys(getattr(kind, "__abstractmethods__", ()), function_named(name, hints.UNKNOWN))

    def signature(self: object, usual: Signature, /) -> Signature:
        return replace(usual, label=name, produces=produced)

    made = type(name, (kind,), {**methods, "signature": signature, "__init__": object.__init__})
    return made()
