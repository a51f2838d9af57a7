"""Arguments that are refused behind a function of the file, a ``partial``, a field or a few assignments. No checker sees this
without the plugin, nor where it is reported: where the value is given.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import partial
from typing import Any

from rl_good import LOSSES, policy_of

from tflow import Iter, ParallelRollouts, Select, Union, create_rollout_workers, from_range, par_from_range
from tflow.algos import PPO
from tflow.data import MultiBatch


many = create_rollout_workers(env="x", losses=LOSSES, policy_of=policy_of)


@dataclass(frozen=True)
class Sizes:
    first: int = 2
    second: int = 3


class Size(enum.IntEnum):
    NONE = 0
    SMALL = 2


def batched(stream: Iter[int], size: int = 0) -> Iter[list[int]]:
    return stream.map(abs).batch(size)


def batched_again(stream: Iter[int], size: int) -> Iter[list[int]]:
    return batched(stream, size)


def batched_by(sizes: Sizes) -> Iter[list[int]]:
    return from_range(3).batch(sizes.first)


def configured(gamma: float) -> PPO:
    lr = 1e-3
    return PPO(gamma=gamma, lr=lr)


def picked(name: str, stream: Iter[MultiBatch[Any, Any]]) -> object:  # Any: of whatever policies
    return Select(stream, policy=name)


class Stages:
    def __init__(self, count: int) -> None:
        self.source = from_range(9).take(count)

    def batched(self, size: int) -> Iter[list[int]]:
        return self.source.batch(size)


# --------------------------------------------------------------------------- through functions


def an_argument(stream: Iter[int]) -> Iter[list[int]]:
    return batched(stream, 0)  # PLUGIN literal


def a_default(stream: Iter[int]) -> Iter[list[int]]:
    return batched(stream)  # PLUGIN literal


def a_name(stream: Iter[int]) -> Iter[list[int]]:
    none = 1 - 1
    return batched(stream, size=none)  # PLUGIN literal


def through_two(stream: Iter[int]) -> Iter[list[int]]:
    return batched_again(stream, -1)  # PLUGIN literal


def a_field() -> Iter[list[int]]:
    return batched_by(Sizes(second=2, first=0))  # PLUGIN literal


def a_configuration() -> PPO:
    return configured(1.5)  # PLUGIN literal


def a_constructor(stream: Iter[int]) -> Iter[int]:
    return Union(Stages(-1).source, stream.take(1))  # PLUGIN literal


def a_method(stages: Stages) -> Iter[list[int]]:
    return stages.batched(size=0)  # PLUGIN literal


def a_policy() -> object:
    return picked("nobody", ParallelRollouts(many).gather_sync())  # PLUGIN policy


# --------------------------------------------------------------------------- values


def a_partial() -> PPO:
    make = partial(PPO, gamma=1.5)  # PLUGIN literal
    return make(num_workers=2)


def of_a_name() -> Iter[list[int]]:
    sizes = (0, 1)
    none, _one = sizes
    return from_range(3).batch(none)  # PLUGIN literal


def counted_down() -> Iter[list[int]]:
    size = 3
    size -= 3
    return from_range(3).batch(size)  # PLUGIN literal


def spread_options() -> Iter[int]:
    options: dict[str, Any] = {"in_flight": 0}  # Any: of several kinds
    return par_from_range(3).gather_async(**options)  # PLUGIN literal


def a_number_with_a_name() -> Iter[list[int]]:
    return from_range(3).batch(Size.NONE)  # PLUGIN literal
