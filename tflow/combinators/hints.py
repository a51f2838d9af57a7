"""Element types at run time: what each edge of a plan carries, as far as annotations tell.

This is for people (``print(plan)``) and for plan validation. It never guesses: what is not annotated is ``UNKNOWN`` and is
never an error. The static types of ``Iter`` and ``ParIter`` are the real check; this one repeats it for plans that no type
checker saw.
"""

from __future__ import annotations

import collections
import inspect
import typing
from collections import abc
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import TypeVar, get_args, get_origin, get_type_hints

import typing_extensions

from tflow import sentences
from tflow.types import UNKNOWN as UNKNOWN
from tflow.types import Columnar, Keyed

Hint = object
UNIONS = (typing.Union, UnionType)
CONTAINERS = {list, set, frozenset, collections.deque, abc.Iterable, abc.Iterator, abc.Generator, abc.Sequence, abc.Collection}
GUARDS = (typing.TypeGuard, typing_extensions.TypeGuard, typing_extensions.TypeIs)


def show(hint: Hint) -> str:
    """A type as users write it: ``list[int]``, ``Rollout``, ``int | str``."""
    if hint is UNKNOWN or isinstance(hint, TypeVar):
        return "?"
    columns = columns_of(hint)
    if columns is not None:
        return sentences.batch(columns)
    if hint is None or hint is type(None):
        return "None"
    if get_origin(hint) is typing.Annotated:
        return show(get_args(hint)[0])
    if isinstance(hint, typing.ForwardRef):
        return hint.__forward_arg__
    if isinstance(hint, str):
        return hint
    args = get_args(hint)
    origin = get_origin(hint)
    if is_kind(origin, Keyed):
        return _name(origin)
    if origin in UNIONS:
        return " | ".join(show(arg) for arg in args)
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, args))}]"
    if args:
        return f"{_name(origin)}[{', '.join(show(arg) for arg in args)}]"
    return _name(hint)


def is_kind(hint: Hint, kind: type) -> bool:
    """True for a class that derives from ``kind``."""
    return inspect.isclass(hint) and issubclass(hint, kind)


def _name(hint: Hint) -> str:
    return str(getattr(hint, "__name__", hint)).rsplit(".", 1)[-1]


def columns_of(hint: Hint) -> tuple[str, ...] | None:
    """The columns of a batch, if they are known."""
    args = get_args(hint)
    if not args or not is_kind(get_origin(hint), Columnar):
        return None
    parts = get_args(args[0]) if get_origin(args[0]) in UNIONS else args[:1]
    if not parts or any(get_origin(part) is not typing.Literal for part in parts):
        return None
    return tuple(name for part in parts for name in get_args(part))


def base_arguments(cls: type, base: type) -> tuple[Hint, ...]:
    """The type arguments with which ``cls`` derives from the generic ``base``."""
    if cls is base:
        return tuple(getattr(cls, "__parameters__", ()))
    for parent in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin = get_origin(parent) or parent
        if inspect.isclass(origin) and issubclass(origin, base):
            parameters = getattr(origin, "__parameters__", ())
            known: dict[object, Hint] = dict(zip(parameters, get_args(parent) or parameters, strict=False))
            return tuple(substitute(arg, known) for arg in base_arguments(origin, base))
    return ()


def substitute(hint: Hint, known: Mapping[object, Hint]) -> Hint:
    """Replace type variables by what is known of them."""
    if isinstance(hint, TypeVar):
        return known.get(hint, hint)
    args = get_args(hint)
    if not args or get_origin(hint) is typing.Literal:
        return hint
    new = tuple(substitute(arg, known) for arg in args)
    if new == args:
        return hint
    return generic(get_origin(hint), *new)


def generic(origin: object, *args: Hint) -> Hint:
    """``origin[args]``, or UNKNOWN where Python cannot say it."""
    if any(arg is UNKNOWN for arg in args) and origin not in (list, tuple):
        return UNKNOWN
    try:
        if origin in UNIONS:
            return typing.Union[args]  # noqa: UP007  # the members are only known now
        return origin[args if len(args) > 1 else args[0]]  # type: ignore[index]  # a generic class
    except TypeError:
        return UNKNOWN


def solve(pattern: Hint, actual: Hint, known: dict[object, Hint]) -> None:
    """Learn type variables of ``pattern`` by laying it over ``actual``, where the two have the same shape."""
    if isinstance(pattern, TypeVar):
        if actual is not UNKNOWN:
            known.setdefault(pattern, actual)
    elif get_origin(pattern) in UNIONS:
        rest = [arg for arg in get_args(actual) or (actual,) if arg not in get_args(pattern)]
        variables = [arg for arg in get_args(pattern) if isinstance(arg, TypeVar)]
        if len(variables) == 1 and rest and get_origin(actual) in (*UNIONS, None):
            solve(variables[0], generic(typing.Union, *rest), known)
    elif get_origin(pattern) is get_origin(actual) or {get_origin(pattern), get_origin(actual)} <= CONTAINERS:
        for inner, found in zip(get_args(pattern), get_args(actual), strict=False):
            solve(inner, found, known)


def accepts(wanted: Hint, given: Hint) -> bool:
    """False only when it is certain that ``given`` is not a ``wanted``."""
    if given is typing.Never:
        return True
    for hint in (wanted, given):
        if hint is UNKNOWN or hint is typing.Any or isinstance(hint, (TypeVar, str)):
            return True
        if get_origin(hint) is typing.Annotated:
            return accepts(*(get_args(each)[0] if get_origin(each) is typing.Annotated else each for each in (wanted, given)))
    if get_origin(given) in UNIONS:
        return all(accepts(wanted, arg) for arg in get_args(given))
    if get_origin(wanted) in UNIONS:
        return any(accepts(arg, given) for arg in get_args(wanted))
    want, have = get_origin(wanted) or wanted, get_origin(given) or given
    if not (inspect.isclass(want) and inspect.isclass(have)) or getattr(want, "_is_protocol", False):
        return True
    if want in (float, complex) and issubclass(have, (int, float)):
        return True
    try:
        return issubclass(have, want)
    except TypeError:
        return True


def result_of(fn: object, given: Hint = UNKNOWN) -> Hint:
    """What a function returns, by its annotation; if that is generic, when ``given`` is its first argument."""
    if inspect.isclass(fn):
        return fn
    try:
        annotated = get_type_hints(fn)
    except Exception:  # an annotation can be any expression, and is evaluated here
        return UNKNOWN
    result, known = annotated.pop("return", UNKNOWN), dict[object, Hint]()
    solve(next(iter(annotated.values()), UNKNOWN), given, known)
    return substitute(result, known)


def member(hint: Hint) -> Hint:
    """The element of an iterable type; only of those whose first argument is sure to be just that."""
    args = get_args(hint)
    if get_origin(hint) is tuple and args:
        return common(arg for arg in args if arg is not Ellipsis)
    return args[0] if args and get_origin(hint) in CONTAINERS else UNKNOWN


def of_values(values: object) -> Hint:
    """The common type of some values, from a look at the first few."""
    if isinstance(values, range):
        return int
    if not isinstance(values, (list, tuple)) or not values:
        return UNKNOWN
    kinds = dict.fromkeys(type(value) for value in values[:64])
    if any(kind.__module__ == "numpy" for kind in kinds):
        return UNKNOWN  # its scalars pass for numbers
    return generic(typing.Union, *kinds) if len(kinds) > 1 else next(iter(kinds))


def narrowed(fn: object, given: Hint) -> Hint:
    """What remains of ``given`` behind a predicate: a ``TypeGuard`` or ``TypeIs`` says so."""
    found = result_of(fn, given)
    return get_args(found)[0] if get_origin(found) in GUARDS else given


def common(inputs: Iterable[Hint]) -> Hint:
    """The union of several types."""
    shown = list(dict.fromkeys(hint for hint in inputs if hint is not typing.Never))
    if not shown:
        return typing.Never
    return shown[0] if len(shown) == 1 else generic(typing.Union, *shown)
