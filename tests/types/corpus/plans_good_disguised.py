"""Right plans whose streams are in records, and go through functions that others call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import ClassVar, NamedTuple

from tflow import Iter, Union, from_range


@dataclass
class Branches:
    train: Iter[int]
    log: Iter[int]
    name: str = "branches"


class Pair(NamedTuple):
    left: Iter[int]
    right: Iter[int]


def shifted(stream: Iter[int], by: int) -> Iter[int]:
    return stream.map(lambda number: number + by)


def length(stream: Iter[int]) -> int:
    return len(list(stream.run()))


def merged(branches: Branches) -> Iter[int]:
    return Union(branches.train, branches.log)


# --------------------------------------------------------------------------- functions that are called by others


def each_branch_is_mapped() -> Iter[int]:
    return Union(*map(lambda branch: branch.map(abs), from_range(3).split(3)))


def one_of_a_map(functions: list[Callable[[int], int]]) -> Iter[int]:
    numbers = from_range(3)
    return next(map(numbers.map, functions))


def runs_that_are_mapped() -> list[int]:
    numbers = from_range(3)
    return list(map(lambda count: length(numbers.take(count)), [1, 2]))


def one_after_the_other(functions: list[Callable[[int], int]], stream: Iter[int]) -> Iter[int]:
    return reduce(lambda so_far, function: so_far.map(function), functions, stream)


def branches_are_reduced() -> Iter[int]:
    first, *others = from_range(3).split(3)
    return reduce(lambda one, other: Union(one, other), others, Union(first))


def partials_of_branches() -> Iter[list[int]]:
    left, right = from_range(3).split()
    pairs, triples = partial(left.batch, 2), partial(right.batch, 3)
    return Union(pairs(), triples())


def a_partial_that_is_called_once() -> Iter[int]:
    later = partial(shifted, from_range(3))
    return later(3)


def a_partial_that_runs() -> int:
    count = partial(length, from_range(3))
    return count() + count()


# --------------------------------------------------------------------------- loops that make no plan of what they make


def run_one_by_one() -> None:
    numbers = from_range(3)
    plans = [numbers.take(count) for count in (1, 2)]
    for each in plans:
        print(list(each.run()))


several = from_range(3)
for count in (1, 2):
    print(list(several.take(count).run()))
lengths = [length(several.take(count)) for count in (1, 2)]

# --------------------------------------------------------------------------- records


def both_fields() -> Iter[int]:
    both = Branches(*from_range(3).split(), name="both")
    both.train = both.train.map(abs)
    print(both.name)
    return Union(both.train, both.log)


def handed_on() -> Iter[int]:
    both = Branches(*from_range(3).split())
    return merged(both)


def handed_out() -> Branches:
    return Branches(*from_range(3).split())


def listed() -> list[Branches]:
    return [Branches(*from_range(count).split()) for count in (2, 3)]


def unpacked() -> Iter[int]:
    left, right = Pair(*from_range(3).split())
    return Union(left, right)


def spread() -> Iter[int]:
    pair = Pair(*from_range(3).split())
    return Union(*pair)


def by_place() -> Iter[int]:
    pair = Pair(*from_range(3).split())
    return Union(pair[0], pair[1].map(abs))


def exchanged() -> Iter[int]:
    pair = Pair(from_range(3), from_range(4))
    pair = pair._replace(left=pair.left.map(abs))
    return Union(pair.left, pair.right)


def one_or_the_other(condition: bool) -> Iter[int]:
    pair = Pair(*from_range(3).split()) if condition else Pair(from_range(2), from_range(3))
    return Union(pair.left, pair.right)


def used_inside() -> Iter[int]:
    both = Branches(*from_range(3).split())

    def inner() -> Iter[int]:
        return Union(both.train, both.log)

    return inner()


def by_key() -> Iter[int]:
    both = dict(zip(("train", "log"), from_range(3).split()))
    return Union(both["train"], both["log"])


def all_keys(names: list[str]) -> Iter[int]:
    both = dict(zip(names, from_range(3).split()))
    return Union(*both.values())


class Holder:
    def __init__(self) -> None:
        self.branches = Branches(*from_range(3).split())

    def both(self) -> Iter[int]:
        return Union(self.branches.train, self.branches.log)


@dataclass
class Shown:
    train: Iter[int]
    log: Iter[int]
    verbose: bool = False

    def merged(self) -> Iter[int]:
        return Union(self.train, self.log.tap(print) if self.verbose else self.log.drain())

    @property
    def both(self) -> Iter[int]:
        return Union(self.train, self.log)


def a_method_of_a_record() -> Iter[int]:
    shown = Shown(*from_range(3).split(), verbose=True)
    return shown.merged()


def a_property_of_a_record() -> Iter[int]:
    shown = Shown(*from_range(3).split())
    return shown.both


class Shared:
    rewards: ClassVar[Iter[int]] = from_range(3)

    def set_on_the_class(self) -> Iter[int]:
        left = self.rewards.map(abs)
        type(self).rewards = from_range(4)
        return Union(left, self.rewards)

    def set_behind_its_back(self, stream: Iter[int]) -> Iter[int]:
        left = self.rewards.map(abs)
        self.__dict__["rewards"] = stream
        return Union(left, self.rewards)
