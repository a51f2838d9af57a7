"""What a search tries: the usual range of each field, as its documentation says it, and what the user says.

``usually 1e-4 to 3e-3`` in the documentation of a field is data: editors show it, ``tflow algos`` prints it, a search
takes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tflow.algos.algorithm import Algorithm
from tflow.algos.fields import fields_of
from tflow.errors import PlanError
from tflow.sentences import did_you_mean
from tflow.settings.values import read

NUMBER = r"[-+]?\d[\d_,]*(?:\.\d+)?(?:e[-+]?\d+)?(?:/\d+)?"
USUALLY = re.compile(rf"[Uu]sually ({NUMBER}) to ({NUMBER})")
WIDE = 10.0
"""A range whose end is so many times its start is searched by orders of magnitude."""
LEFT_OUT = ("num_workers", "num_learners", "capacity", "batch_learners")
"""Fields that cost time or memory rather than change what is learned."""


@dataclass(frozen=True)
class Between:
    """Numbers between two ends."""

    low: float
    high: float
    log: bool = False
    whole: bool = False


@dataclass(frozen=True)
class OneOf:
    """Some values."""

    values: tuple[object, ...]


Tried = Between | OneOf


def usual_range(meaning: str) -> tuple[float, float] | None:
    """The usual range in the documentation of a field.

    >>> usual_range("Discount factor; usually 0.95 to 0.999. Larger: a longer horizon.")
    (0.95, 0.999)
    """
    found = USUALLY.search(meaning)
    if found is None:
        return None
    low, high = (text.replace("_", "").replace(",", "").partition("/") for text in found.groups())
    return float(low[0]) / float(low[2] or 1), float(high[0]) / float(high[2] or 1)


def usual_space(kind: type) -> dict[str, Tried]:
    """The fields of an algorithm that have a usual range, and these ranges."""
    found: dict[str, Tried] = {}
    for field in fields_of(kind):
        usual, default = usual_range(field.meaning), field.default
        if usual is None or field.name in LEFT_OUT or isinstance(default, bool) or not isinstance(default, (int, float)):
            continue
        low, high = usual
        whole = isinstance(default, int) and low.is_integer() and high.is_integer()
        found[field.name] = Between(low, high, log=low > 0 and high / low >= WIDE, whole=whole)
    return found


def goes(algorithm: Algorithm, values: Mapping[str, Any]) -> bool:  # Any: values of fields
    """Whether a configuration takes these values."""
    try:
        replace(algorithm, **values).plan()
    except PlanError:
        return False
    return True


def ends(each: Tried) -> tuple[object, ...]:
    """The values at the ends of a range, or all of some."""
    if isinstance(each, OneOf):
        return each.values
    return (int(each.low), int(each.high)) if each.whole else (each.low, each.high)


def possible(space: Mapping[str, Tried], algorithm: Algorithm) -> dict[str, Tried]:
    """A usual space without fields that belong to what this configuration leaves off: it refuses all values but its own, whatever
    another field is."""
    others: list[dict[str, object]] = [{}, *({name: end} for name, each in space.items() for end in ends(each))]

    def changes(name: str, each: Tried) -> bool:
        values = [value for value in ends(each) if value != getattr(algorithm, name)]
        return any(goes(algorithm, {**other, name: value}) for other in others for value in values)

    return {name: each for name, each in space.items() if changes(name, each)}


def asked_space(text: str, kind: type) -> dict[str, Tried]:
    """What ``--search`` says: ``lr=1e-4..1e-2:log,clip=0.1|0.2|0.3``.

    >>> from tflow.algos import PPO
    >>> asked_space("lr=1e-4..1e-2:log,clip=0.1|0.2", PPO)
    {'lr': Between(low=0.0001, high=0.01, log=True, whole=False), 'clip': OneOf(values=(0.1, 0.2))}
    """
    defaults = {field.name: field.default for field in fields_of(kind)}
    found: dict[str, Tried] = {}
    for part in re.split(r",(?=\s*[\w-]+\s*=)", text):
        name, equals, value = part.strip().partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not value:
            raise PlanError(f"--search: {part.strip()!r} is no range. Write lr=1e-4..1e-2:log, epochs=3..10 or clip=0.1|0.2|0.3.")
        if name not in defaults:
            raise PlanError(f"--search: {kind.__name__} has no field {name!r}.{did_you_mean(name, defaults)}")
        found[name] = tried(name, value.strip(), defaults[name])
    return found


def tried(name: str, text: str, default: object) -> Tried:
    """The range or the choices of a field."""
    if ".." not in text:
        return OneOf(tuple(read(each.strip(), own=True) for each in text.split("|")))
    span, colon, scale = text.partition(":")
    try:
        low, high = (float(each) for each in span.split(".."))
    except ValueError:
        raise PlanError(f"--search: {name}={text!r} needs two numbers with .. between, such as 1e-4..1e-2.") from None
    if not low < high or (colon and scale != "log") or (colon and low <= 0):
        raise PlanError(
            f"--search: {name}={text!r}: the start must be below the end, and above 0 with :log, which alone may follow."
        )
    whole = isinstance(default, int) and not isinstance(default, bool) and low.is_integer() and high.is_integer()
    return Between(low, high, log=bool(colon), whole=whole)


def in_words(space: Mapping[str, Tried]) -> str:
    """What is searched, as one would write it."""
    parts = []
    for name, each in space.items():
        if isinstance(each, OneOf):
            parts.append(f"{name}={'|'.join(str(value) for value in each.values)}")
        else:
            parts.append(f"{name}={each.low:g}..{each.high:g}{':log' if each.log else ''}")
    return ",".join(parts)
