"""Right plans that a checker could take for wrong ones if it did not see which paths happen."""

from __future__ import annotations

from enum import auto, Enum, IntEnum, StrEnum
from typing import Literal

import pytest

from tflow import flow, from_range, Iter, PlanError, Union

ONE, OTHER = "one", "other"


class Way(Enum):
    DOUBLE = auto()
    TAKE = auto()


class Size(IntEnum):
    FEW = 1
    MANY = 9


class Kind(StrEnum):
    ONE = "one"
    OTHER = auto()


def double(number: int) -> int:
    return 2 * number


@flow
def found_or_else(stream: Iter[int], sizes: list[int]) -> Iter[int] | Iter[list[int]]:
    for size in sizes:
        if size > 3:
            found = stream.batch(size)
            break
    else:
        return stream.map(double)
    return found


@flow
def while_else(stream: Iter[int], size: int) -> Iter[list[int]]:
    while size > 0:
        if size % 7 == 0:
            batches = stream.batch(size)
            break
        size -= 1
    else:
        batches = stream.batch(1)
    return batches


@flow
def not_yet(stream: Iter[int], sizes: list[int]) -> Iter[int]:
    found: Iter[int] | None = None
    for size in sizes:
        if found is None:
            found = stream.take(size)
    if found is None:
        found = stream.map(double)
    return found


@flow
def with_a_flag(stream: Iter[int], fast: bool) -> Iter[int]:
    parts: list[Iter[int]] = []
    if fast:
        parts.append(stream.map(double))
    if not fast:
        parts.append(stream.shuffle(8))
    return Union(*parts)


@flow
def by_mode(stream: Iter[int], mode: Literal["few", "all", "double"]) -> Iter[int]:
    found: Iter[int] = from_range(0)
    if mode == "few":
        found = stream.take(3)
    if mode in ("all", "double"):
        found = stream.map(double) if mode == "double" else stream
    return found


@flow
def by_number(stream: Iter[int], size: int) -> Iter[int]:
    found: Iter[int] = from_range(1)
    if size > 3:
        found = stream.every(items=size)
    if size < 2:
        found = stream.map(abs)
    if 2 <= size:
        return found
    return found


@flow
def by_kind(stream: Iter[int], how: int | str) -> Iter[int]:
    found: Iter[int] = from_range(1)
    if isinstance(how, int):
        found = stream.every(items=how)
    if isinstance(how, str):
        found = stream.named(how)
    return found


@flow
def once_of_many(stream: Iter[int], rows: list[list[int]]) -> Iter[int]:
    found: Iter[int] | None = None
    for row in rows:
        for size in row:
            if size > 3:
                found = stream.take(size)
                break
        else:
            continue
        break
    return from_range(3) if found is None else found


@flow
def first_that_fits(stream: Iter[int], sizes: list[int]) -> Iter[list[int]]:
    return next(stream.batch(size) for size in sizes if size > 3)


@flow
def counted(stream: Iter[int]) -> Iter[int]:
    made = 0
    parts: list[Iter[int]] = []
    while made < 1:
        parts.append(stream.map(double))
        made += 1
    return Union(*parts)


@flow
def appended(stream: Iter[int], log: bool) -> Iter[int]:
    main, side = stream.split()
    parts = [main]
    parts.append(side.tap(print) if log else side.drain())
    return Union(*parts)


@flow
def by_closure(stream: Iter[int]) -> Iter[int]:
    left, right = stream.split()

    def thinned(given: Iter[int], by: int) -> Iter[int]:
        return given.every(items=by)

    return Union(thinned(left, 2), thinned(right, 3))


@flow
def over_branches(stream: Iter[int]) -> Iter[int]:
    return Union(*[branch.map(double) for branch in stream.split(3)])


@flow
def over_numbered_branches(stream: Iter[int]) -> Iter[int]:
    named = {}
    for number, branch in enumerate(stream.split(3)):
        named[number] = branch.map(double)
    return Union(*named.values())


class Pipeline:
    def __init__(self, rewards: Iter[int]) -> None:
        self.rewards = rewards

    def thinned(self) -> Iter[int]:
        self.rewards = self.rewards.map(double)
        return self.rewards.every(items=2)

    @property
    def fresh(self) -> Iter[int]:
        return from_range(3)

    def both(self) -> Iter[int]:
        return Union(self.fresh, self.fresh.map(double))


# --------------------------------------------------------------------------- None means not yet, whatever it would be


@flow
def split_if_asked(stream: Iter[int], log: bool) -> Iter[int]:
    pair = None
    if log:
        pair = stream.split()
    if pair is not None:
        return Union(*pair)
    return stream


@flow
def split_or_none(stream: Iter[int], log: bool) -> Iter[int]:
    pair = stream.split() if log else None
    if pair:
        return Union(*pair)
    return stream


@flow
def split_into_any_number(stream: Iter[int], number: int) -> Iter[int]:
    branches = None if number < 2 else stream.split(number)
    if branches is None:
        return stream
    return Union(*branches)


@flow
def a_number_if_asked(stream: Iter[int], given: str) -> Iter[int]:
    found: list[Iter[int]] = []
    size = None
    if given:
        size = len(given)
        found.append(stream.take(size))
    if size is None:
        found.append(stream)
    return Union(*found)


@flow
def a_method_if_asked(stream: Iter[int], short: bool) -> Iter[int]:
    take = stream.take if short else None
    return stream if take is None else take(3)


# --------------------------------------------------------------------------- constants that exclude each other


@flow
def by_member(stream: Iter[int], way: Way) -> Iter[int]:
    found: list[Iter[int]] = []
    if way is Way.DOUBLE:
        found.append(stream.map(double))
    if way is Way.TAKE:
        found.append(stream.take(2))
    return Union(*found)


@flow
def by_every_member(stream: Iter[int], way: Way) -> Iter[int]:
    left, right = stream.split()
    if way is Way.DOUBLE:
        stream = left.zip(right).map(sum)
    elif way is Way.TAKE:
        stream = Union(left, right)
    return stream


@flow
def by_size(stream: Iter[int], size: Size) -> Iter[int]:
    found: list[Iter[int]] = []
    if size == Size.FEW:
        found.append(stream.take(size))
    if size == 9:
        found.append(stream.batch(size).map(sum))
    return Union(*found)


@flow
def by_text(stream: Iter[int], kind: Kind) -> Iter[int]:
    found: list[Iter[int]] = []
    if kind in (Kind.ONE, "three"):
        found.append(stream.map(double))
    if kind == "other":
        found.append(stream.take(2))
    return Union(*found)


@flow
def by_name(stream: Iter[int], name: str) -> Iter[int]:
    found: list[Iter[int]] = []
    if name == ONE:
        found.append(stream.map(double))
    if name == OTHER:
        found.append(stream.take(2))
    return Union(*found)


@flow
def by_pattern(stream: Iter[int], way: Way, again: bool | None) -> Iter[int]:
    match way:
        case Way.DOUBLE | Way.TAKE if again:
            found = stream.map(double)
        case Way.DOUBLE | Way.TAKE:
            found = stream
    match again:
        case True:
            found = found.map(double)
        case False | None:
            found = found.take(2)
    return found


# --------------------------------------------------------------------------- taken out of a list, nobody knows how often


@flow
def until_it_is_empty(stream: Iter[int]) -> Iter[int]:
    rest = list(stream.split(3))
    found = rest.pop()
    while rest:
        found = Union(found, rest.pop())
    return found


@flow
def as_often_as_counted(stream: Iter[int]) -> Iter[int]:
    parts = list(stream.split(3))
    return Union(*[parts.pop().map(double) for _ in range(3)])


@flow
def deleted(stream: Iter[int]) -> Iter[int]:
    left, right = stream.split()
    parts = [left, right]
    first = parts[0]
    del parts[0]
    return Union(first, parts[0])


def refused_on_purpose(stream: Iter[int]) -> Iter[int]:
    doubled = stream.map(double)
    with pytest.raises(PlanError):
        Union(doubled, stream).validate()
    return Union(doubled, from_range(1))
