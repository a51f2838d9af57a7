"""Mistakes of linearity and completeness in disguise: functions that are called by others, loops at the top of a module, named
tuples, dataclasses and dictionaries of streams.

The mark is on the second use, or where the stream that is not consumed gets its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import NamedTuple

from world import LearnerStep, Rollout

from tflow import (
    ComputeAdvantages, ConcatRounds, create_actor, create_rollout_workers, from_range, Iter, ParallelRollouts, Shard, TrainOneStep,
    TrainStats, Union,
)
from tflow.losses import PPOLoss

workers = create_rollout_workers(env="CartPole-v1", loss=PPOLoss())


class Counter:
    def __init__(self, shard: Shard) -> None: ...


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


# --------------------------------------------------------------------------- functions that are called by others


def a_method_that_is_mapped(sizes: list[int]) -> Iter[list[int]]:
    numbers = from_range(3)
    return Union(*map(numbers.batch, sizes))  # PLUGIN linear


def a_lambda_that_is_mapped(sizes: list[int]) -> Iter[list[int]]:
    numbers = from_range(3)
    return Union(*map(lambda size: numbers.batch(size), sizes))  # PLUGIN linear


def a_function_that_is_mapped(sizes: list[int]) -> Iter[list[int]]:
    numbers = from_range(3)

    def batches(size: int) -> Iter[list[int]]:
        return numbers.batch(size)  # PLUGIN linear

    return Union(*list(map(batches, sizes)))


def partial_of_a_function() -> Iter[int]:
    shift = partial(shifted, from_range(3))
    return Union(shift(1), shift(2))  # PLUGIN linear


def reduced(sizes: list[int], first: Iter[list[int]]) -> Iter[list[int]]:
    numbers = from_range(3)
    return reduce(lambda merged, size: Union(merged, numbers.batch(size)), sizes, first)  # PLUGIN linear


# --------------------------------------------------------------------------- at the top of a module

listed = from_range(3)
Union(*[listed.take(count) for count in (1, 2)])  # PLUGIN linear

looped = from_range(3)
parts: list[Iter[int]] = []
for number in (1, 2):
    parts.append(looped.take(number))  # PLUGIN linear
Union(*parts)


def main(counts: list[int]) -> None:
    numbers = from_range(3)
    merged = Union(*[numbers.take(count) for count in counts])  # PLUGIN linear
    print(list(merged.run()))


# --------------------------------------------------------------------------- records


def the_same_in_both_fields() -> Iter[int]:
    numbers = from_range(3)
    pair = Pair(numbers, numbers)
    return Union(pair.left, pair.right)  # PLUGIN linear


def a_field_twice() -> Iter[int]:
    both = Branches(from_range(3), from_range(4))
    both.train = both.train.map(abs)
    return Union(both.train, both.log, both.train)  # PLUGIN linear


def a_key_twice() -> Iter[int]:
    named = {"train": from_range(3)}
    named["train"] = named["train"].map(abs)
    return Union(named["train"], named["train"])  # PLUGIN linear


def a_field_of_a_dataclass_is_left() -> Iter[int]:
    both = Branches(*from_range(3).split())  # PLUGIN unused
    return both.train


def a_field_of_a_named_tuple_is_left() -> Iter[int]:
    left, right = from_range(3).split()  # PLUGIN unused
    pair = Pair(right=right, left=left)
    return pair.left.map(abs)


def a_key_is_left() -> Iter[int]:
    names = ("train", "log")
    both = dict(zip(names, from_range(3).split()))  # PLUGIN unused
    return both["train"]


def the_first_only() -> Iter[int]:
    return next(iter(from_range(3).split()))  # PLUGIN unused


def not_needed() -> Iter[int]:
    left, _ = from_range(3).split()  # PLUGIN unused
    return left


def also_not_needed() -> Iter[int]:
    left, _log = from_range(3).split()  # PLUGIN unused
    return left


def each_function(functions: list[Callable[[int], int]]) -> Iter[int]:
    numbers = from_range(3)
    return Union(*[numbers.map(function) for function in functions])  # PLUGIN linear


# --------------------------------------------------------------------------- one of two streams


def without_columns_on_one_path(advantages: bool) -> Iter[TrainStats]:
    rounds = ConcatRounds(ParallelRollouts(workers).gather_rounds())
    ready = rounds.with_columns(ComputeAdvantages()) if advantages else rounds
    return ready.for_each(TrainOneStep(workers))  # ERR PLUGIN columns


def without_a_barrier_on_one_path(fast: bool) -> Iter[TrainStats]:
    rollouts = ParallelRollouts(workers).par_with_columns(ComputeAdvantages())
    gathered = rollouts.gather_async() if fast else rollouts.gather_sync()
    return gathered.for_each(TrainOneStep(workers))  # ERR PLUGIN sync


def beside_an_actor_that_is_made_there(stream: Iter[Rollout]) -> object:
    return stream.call(create_actor(Counter), LearnerStep())  # ERR PLUGIN placement
