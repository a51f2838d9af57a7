"""Arguments that are refused, where what they are has to be worked out: configurations, constants, conditions, loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from tflow import (
    Agent, create_rollout_workers, flow, from_items, from_range, Iter, Metrics, par_from_range, ParallelRollouts,
    Plan, plan, Stop, TimeBudget, TrainOneStep, TrainStats, Union,
)
from tflow.actors import AnyWorkers
from tflow.algos import A2C, ApeX, DQN, PPO, SAC
from tflow.envs import EnvSpec
from tflow.losses import A3CLoss
from tflow.models import MLP

NONE: Final[int] = -3
ROWS = 2
STOP = Stop(mean_return=1.0, episodes=0)  # PLUGIN literal
BASE = PPO(num_workers=1)


@dataclass(frozen=True, kw_only=True)
class Mine(PPO):
    bonus: float = 0.1


def numbers() -> Iterator[int]:
    yield from range(3)


# --------------------------------------------------------------------------- configurations


@plan
def too_large_a_discount() -> Plan[Metrics]:
    return PPO(gamma=1.5).plan()  # PLUGIN literal


@plan
def refused_by_its_loss() -> Plan[Metrics]:
    config = PPO(clip=-0.2)  # PLUGIN literal
    return config.plan()


@plan
def two_fields_together() -> Plan[Metrics]:
    return DQN(capacity=10, batch=64).plan()  # PLUGIN literal


@plan
def not_for_this_one() -> Plan[Metrics]:
    return ApeX(epsilon=0.1).plan()  # PLUGIN literal


@plan
def replaced() -> Plan[Metrics]:
    return replace(BASE, num_envs=0).plan()  # PLUGIN literal


@plan
def derived() -> Plan[Metrics]:
    return Mine(gamma=1.01).plan()  # PLUGIN literal


@plan
def several_at_once() -> Plan[Metrics]:
    critics, subset = 2, 3
    return SAC(critics=critics, subset=subset).plan()  # PLUGIN literal


def evaluated_never() -> Metrics:
    return A2C().run(stop=Stop(updates=1), eval_every=0).finish()  # PLUGIN literal


@plan
def looks_at_nothing() -> Plan[Metrics]:
    return PPO(num_workers=1).plan().tapped("TrainTwoSteps", print)  # PLUGIN literal


# --------------------------------------------------------------------------- values that are worked out


@flow
def by_constant(stream: Iter[int]) -> Iter[int]:
    return stream.take(NONE)  # PLUGIN literal


@flow
def by_name(stream: Iter[int]) -> Iter[list[int]]:
    size = 0
    return stream.batch(size)  # PLUGIN literal


@flow
def computed(stream: Iter[int]) -> Iter[list[int]]:
    return stream.batch(ROWS * 2 - 4)  # PLUGIN literal


@flow
def set_again(stream: Iter[int]) -> Iter[list[int]]:
    size = 4
    size = size - 4
    return stream.batch(size)  # PLUGIN literal


@flow
def either_way(stream: Iter[int], small: bool) -> Iter[list[int]]:
    size = 0 if small else -1
    return stream.batch(size)  # PLUGIN literal


@flow
def one_of_a_loop() -> Iter[list[int]]:
    return Union(*[from_range(4).batch(size) for size in (1, 0)])  # PLUGIN literal


@flow
def weights_of_a_split(stream: Iter[int]) -> Iter[int]:
    return Union(*stream.split(3), weights=(1, 2))  # PLUGIN literal


# --------------------------------------------------------------------------- what can be read only once


@flow
def a_generator() -> Iter[int]:
    return from_items(n * n for n in range(4))  # PLUGIN literal


@flow
def without_end() -> Iter[int]:
    return from_items(count()).take(3)  # PLUGIN literal


@flow
def from_a_function() -> Iter[int]:
    return from_items(numbers())  # PLUGIN literal


# --------------------------------------------------------------------------- descriptions


@flow
def no_time() -> Iter[int]:
    return par_from_range(4).gather_async(per_call=TimeBudget(seconds=0))  # PLUGIN literal


@flow
def shard_that_is_not_there() -> Iter[int]:
    return par_from_range(4, shards=2).select_shards(2).gather_sync()  # PLUGIN literal


@flow
def unknown_workers(workers: AnyWorkers) -> Iter[TrainStats]:
    step = TrainOneStep(workers, loss=A3CLoss(), epochs=0)  # PLUGIN literal
    other = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
    return ParallelRollouts(other).gather_sync().for_each(step)


@flow
def of_an_env() -> Iter[object]:
    env = EnvSpec("CartPole-v1", max_episode_steps=0)  # PLUGIN literal
    agent = Agent(A3CLoss(), model=MLP((0,)))  # PLUGIN literal
    return ParallelRollouts(create_rollout_workers(env=env, agent=agent)).gather_sync()
