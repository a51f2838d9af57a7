"""Methods of actors, named by way of a class: ``Worker.sample`` means what the actor itself has under that name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial


def owner_of(method: Callable[..., object]) -> type | None:
    """The class in whose body a plain function was defined, if it can be found by name."""
    owner, _, name = getattr(method, "__qualname__", "").rpartition(".")
    if not owner or hasattr(method, "__self__"):  # a bound method already knows whom it belongs to
        return None
    found: object = sys.modules.get(getattr(method, "__module__", None) or "builtins")
    for part in owner.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and vars(found).get(name) is method else None


class Named:
    """A method on its way to another process: what counts is its name, not the function that had it here."""

    def __init__(self, name: str, qualname: str) -> None:
        self.__name__ = name
        self.__qualname__ = qualname

    def __call__(self, actor: object, *args: object) -> object:
        return getattr(actor, self.__name__)(*args)


def portable(method: Callable[..., object]) -> Callable[..., object]:
    """The name of a method of a class, any other function as it is. A function that is packed by value arrives as a copy, in
    which the class that it belongs to would not be recognised."""
    return method if owner_of(method) is None else Named(method.__name__, method.__qualname__)


def bound(method: Callable[..., object], actor: object) -> Callable[..., object]:
    """The actor's own version of a method: a subclass may override it, and a protocol only declares it. Other functions are
    called with the actor."""
    if isinstance(method, Named):
        named: Callable[..., object] = getattr(actor, method.__name__)
        return named
    name = getattr(method, "__name__", "")
    inherited = any(vars(kind).get(name) is method for kind in type(actor).__mro__)
    if inherited or getattr(owner_of(method), "_is_protocol", False):
        own: Callable[..., object] = getattr(actor, name)
        return own
    return partial(method, actor)


def is_foreign(method: Callable[..., object], actor_class: type) -> bool:
    """True if it is certain that this is a method of some other class."""
    owner = owner_of(method)
    return owner is not None and not getattr(owner, "_is_protocol", False) and not issubclass(actor_class, owner)
