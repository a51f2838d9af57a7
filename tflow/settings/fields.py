"""Configurations from user input: names are looked up, values are checked against the types of fields."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from tflow import loading
from tflow.algos.algorithm import Algorithm
from tflow.algos.fields import fields_of
from tflow.algos.names import ALGORITHMS
from tflow.errors import PlanError
from tflow.rl.elsewhere import called_here
from tflow.rl.envs.env_spec import EnvSpec
from tflow.rl.schedules import NAMED, Schedule
from tflow.sentences import did_you_mean
from tflow.settings.values import MODELS, SCHEDULES, UNWRITABLE, read

C = TypeVar("C")
ALONE = object()
"""The value of a flag without one."""


class Wanted(NamedTuple):
    """One of the kinds of values that a field takes."""

    fits: Callable[[object], bool]
    phrase: str
    described: tuple[type, ...] = ()
    """The descriptions that it may be, if there are some."""
    named: tuple[str, ...] = ()
    """Others that are written by name."""

    @property
    def listed(self) -> list[str]:
        """All of which one can be chosen; empty if there is no choice."""
        found = [*self.named, *(f"{each.__name__}(...)" for each in self.described if each.__name__.lower() not in NAMED)]
        return found if len(found) > 1 else []


def _is_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, numbers.Real) and not math.isnan(value)


def _is_whole(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, numbers.Integral)


KINDS: dict[str, Wanted] = {
    "bool": Wanted(lambda value: isinstance(value, bool), "true or false"),
    "int": Wanted(_is_whole, "a whole number"),
    "float": Wanted(_is_number, "a number"),
    "str": Wanted(lambda value: isinstance(value, str), "a text"),
    "None": Wanted(lambda value: value is None, "none"),
    "Schedule": Wanted(
        lambda value: isinstance(value, Schedule) and not isinstance(value, type),
        "a schedule such as Linear(1e-3, 0, 100_000)",
        SCHEDULES,
        tuple(f"{name}:{'VALUE' if count == 1 else 'START:END'}" for name, (_, count) in NAMED.items()),
    ),
    "EnvLike": Wanted(
        lambda value: isinstance(value, (str, EnvSpec)) or callable(value),
        "a gymnasium id, EnvSpec(...), or FILE.py:NAME of what makes an env",
        (EnvSpec,),
    ),
    "ModelLike": Wanted(
        lambda value: value == "auto" or callable(value) or hasattr(value, "build"),
        "auto, a description such as MLP((64, 64)), or FILE.py:NAME of what makes a module",
        MODELS,
    ),
    "StartText": Wanted(
        lambda value: (
            (isinstance(value, str) and bool(value))
            or (isinstance(value, dict) and all(isinstance(part, str) for pair in value.items() for part in pair))
        ),
        "a policy file, a run folder, or {'NAME': 'FILE', ...}",
    ),
    "Callable": Wanted(callable, "FILE.py:NAME of a function"),
}


OWN = (KINDS["EnvLike"], KINDS["ModelLike"], KINDS["Callable"])
"""Types that may be something of the user's own, which is imported."""


def wanted(annotation: str) -> list[Wanted]:
    """What an annotation allows. Names that are not known here allow anything: the configuration itself will say.

    >>> [each.phrase for each in wanted("float | Schedule")]
    ['a number', 'a schedule such as Linear(1e-3, 0, 100_000)']
    """
    tree = ast.parse(annotation, mode="eval").body
    parts: list[ast.expr] = []
    while isinstance(tree, ast.BinOp):
        parts.append(tree.right)
        tree = tree.left
    found: list[Wanted] = []
    for part in reversed([*parts, tree]):
        name = ast.unparse(part.value if isinstance(part, ast.Subscript) else part).rpartition(".")[2]
        nested = [kind for kind in ALGORITHMS.values() if kind.__name__ == name]
        if name == "Literal" and isinstance(part, ast.Subscript):
            choices = ast.literal_eval(part.slice)
            found += [_exactly(choice) for choice in (choices if isinstance(choices, tuple) else (choices,))]
        elif nested:
            found.append(_instance_of(nested[0]))
        else:
            found.append(KINDS.get(name, Wanted(lambda value: True, name)))
    return found


def _exactly(choice: object) -> Wanted:
    return Wanted(lambda value: type(value) is type(choice) and value == choice, str(choice))


def _instance_of(kind: type) -> Wanted:
    return Wanted(lambda value: isinstance(value, kind), f"{kind.__name__}(...)")


def affirmed(kind: type, given: Mapping[str, object]) -> dict[str, object]:
    """The same, with ``no_NAME`` as NAME = False if NAME is a field, inside configurations inside, too."""
    fields = {each.name: each.default for each in dataclasses.fields(kind)}
    found: dict[str, object] = {}
    for name, value in given.items():
        denied = value is ALONE and name.startswith("no_") and name[3:] in fields
        inner = fields.get(name)
        if isinstance(value, Mapping) and isinstance(inner, Algorithm):
            found[name] = affirmed(type(inner), value)
        else:
            found[name[3:] if denied else name] = False if denied else value
    return found


def configured(
    kind: type[C], given: Mapping[str, object], *, called: str = "", others: Iterable[str] = (), listing: str = ""
) -> C:
    """Make a configuration from given fields, with defaults for the others.

    Args:
        kind: The configuration class.
        given: Values by field.
        called: Its name in errors.
        others: Other names that could have been meant.
        listing: How to see all fields, for errors.
    """
    called = called or kind.__name__
    declared = {each.name: each for each in dataclasses.fields(kind)}  # type: ignore[arg-type]  # configurations are dataclasses
    found: dict[str, object] = {}
    for name, value in given.items():
        if name not in declared:
            raise PlanError(f"{called} has no field {name!r}.{called_here(name, [*declared, *others])}{listing}")
        default = declared[name].default
        if isinstance(default, Algorithm) and isinstance(value, Mapping):
            whole = {each.name: getattr(default, each.name) for each in dataclasses.fields(default)}
            found[name] = configured(type(default), {**whole, **value})
        else:
            found[name] = _value(called, name, _text(declared[name].type), value)
    missing = [each.name for each in declared.values() if each.name not in found and _is_required(each)]
    if missing:
        raise PlanError(f"{called} needs a value for {' and '.join(missing)}: --{missing[0].replace('_', '-')} VALUE.")
    return kind(**found)


def _is_required(field: dataclasses.Field[object]) -> bool:
    return field.init and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _text(annotation: object) -> str:
    """An annotation as it is written, whether its module keeps annotations as texts or not."""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _value(where: str, name: str, annotation: str, given: object) -> object:
    kinds = wanted(annotation)
    if given is ALONE or given == "":
        if given is ALONE and annotation == "bool":
            return True
        raise PlanError(f"{where}: {name} needs a value: --{name.replace('_', '-')} VALUE.")
    if isinstance(given, str) and given.startswith(UNWRITABLE):
        raise PlanError(
            f"{where}: {name} was {given.removeprefix(UNWRITABLE)}, which cannot be written to a file. Give it again."
        )
    own = any(kind in OWN for kind in kinds)
    described = [each for kind in kinds for each in kind.described]
    tried: tuple[object, ...] = (read(given, own=own, of=described),) if isinstance(given, str) else (given,)
    if isinstance(given, str) and not loading.is_file(given):
        tried += (given,)
    for value in tried:
        if any(kind.fits(value) for kind in kinds):
            return value
        if isinstance(value, float) and value.is_integer() and any(kind.fits(int(value)) for kind in kinds):
            return int(value)  # 1e6 is how one writes a million
    phrases = [kind.phrase for kind in kinds]
    allowed = phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} or {phrases[-1]}"
    raise PlanError(f"{where}: {name} must be {allowed}; got {given!r}.{_choice(str(given), kinds)}")


def _choice(given: str, kinds: Iterable[Wanted]) -> str:
    """What there is to choose from, where a text was given that is none of it."""
    listed = [each for kind in kinds for each in kind.listed]
    if not listed or not given[:1].isalpha():
        return ""
    word, known = re.split(r"\W", given)[0], [re.split(r"\W", each)[0] for each in listed]
    return f"{'' if word in known else did_you_mean(word, known)} There are {', '.join(listed)}."


def described(config: object) -> list[tuple[str, object, str]]:
    """The fields of a configuration: name, value and documentation."""
    return [(each.name, getattr(config, each.name), each.plain_text) for each in fields_of(type(config))]
