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


def bound(method: Callable[..., object], actor: object) -> Callable[..., object]:
    """The actor's own version of a method: a subclass may override it, and a protocol only declares it. Other functions are
    called with the actor."""
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
