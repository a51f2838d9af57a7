"""Right plans whose helpers are given what they would refuse elsewhere: they look at it first, or something else decides."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tflow import Iter, PlanError, from_range, par_from_range
from tflow.algos import PPO


@dataclass
class Settings:
    size: int = 0


class Defaults:
    size: int = 0


class Size(enum.IntEnum):
    NONE = 0
    SMALL = 2


def at_least_one(stream: Iter[int], size: int) -> Iter[list[int]]:
    if size < 1:
        size = 1
    return stream.batch(size)


def only_if(stream: Iter[int], size: int) -> Iter[int]:
    if not size:
        return stream
    return stream.batch(size).flatten()


def only_if_wanted(stream: Iter[int], size: int, wanted: bool) -> Iter[int]:
    if not wanted:
        return stream
    return stream.batch(size).flatten()


def limited(stream: Iter[int], size: int) -> Iter[list[int]]:
    size = max(size, 1)
    return stream.batch(size)


def or_four(stream: Iter[int], size: int) -> Iter[list[int]]:
    return stream.batch(size or 4)


def one_or_the_other(stream: Iter[int], size: int) -> Iter[int]:
    return stream.batch(size).flatten() if size else stream


def refused(size: int) -> str:
    try:
        from_range(3).batch(size)
    except PlanError as error:
        return str(error)
    return ""


def refused_again(size: int) -> None:
    with pytest.raises(PlanError):
        from_range(3).batch(size)


def later(size: int) -> object:
    return lambda: from_range(3).batch(size)


def sized(settings: Settings) -> Iter[list[int]]:
    return from_range(3).batch(settings.size)


def all_of_them() -> list[Iter[int]]:
    stream = from_range(3)
    at_least_one(from_range(3), 0).validate()
    limited(from_range(3), 0).validate()
    or_four(from_range(3), 0).validate()
    print(refused(0), later(0))
    refused_again(0)
    branches = stream.split(3)
    return [only_if(branches[0], 0), only_if_wanted(branches[1], 0, False), one_or_the_other(branches[2], 0)]


def set_afterwards() -> Iter[list[int]]:
    settings = Settings()
    settings.size = 4
    return from_range(3).batch(settings.size)


def changed_elsewhere() -> Iter[list[int]]:
    settings = Settings()
    change(settings)
    return sized(settings)


def change(settings: Settings) -> None:
    settings.size += 3


def overridden() -> PPO:
    make = partial(PPO, gamma=1.5)
    return make(gamma=0.5)


def counted_up() -> Iter[list[int]]:
    size = 0
    size += 3
    return from_range(3).batch(size)


def exchanged() -> Iter[list[int]]:
    sizes = [0, 1]
    sizes[0] = 2
    first, _second = sizes
    return from_range(3).batch(first)


def updated() -> Iter[int]:
    options: dict[str, Any] = {"in_flight": 0}  # Any: of several kinds
    options.update(in_flight=2)
    return par_from_range(3).gather_async(**options)


def a_number_with_a_name() -> Iter[list[int]]:
    return from_range(3).batch(Size.SMALL)


def set_by_name() -> Iter[list[int]]:
    settings = Settings()
    setattr(settings, "size", 4)  # noqa: B010  # as a loop over arguments does
    return from_range(3).batch(settings.size)


def set_through_its_dictionary() -> Iter[list[int]]:
    settings = Settings()
    settings.__dict__["size"] = 4
    return from_range(3).batch(settings.size)


def set_on_the_class() -> Iter[list[int]]:
    Defaults.size = 4
    return from_range(3).batch(Defaults.size)
