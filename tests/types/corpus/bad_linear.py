"""Mistakes of linearity: a stream is consumed twice. No checker sees this without the plugin.

The mark is on the second use. Each stream is an edge of one plan; to feed two consumers, it has to be split.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import repeat

import world
from rl_good import LOSSES, dqn_plan, policy_of, ppo_plan
from world import T

from tflow import (
    ApplyGradients, ComputeGradients, create_replay_actors, create_rollout_workers, flow, from_range, Iter,
    Metrics, ParallelReplay, ParallelRollouts, ParIter, Plan, plan, ReportMetrics, Rollout, Select,
    StoreToBuffer, TrainOneStep, TrainStats, Union, UpdatePriorities,
)
from tflow.losses import A3CLoss, DQNLoss

workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
off = create_rollout_workers(env="CartPole-v1", loss=DQNLoss())
many = create_rollout_workers(env="x", losses=LOSSES, policy_of=policy_of)


def double(number: int) -> int:
    return 2 * number


@flow
def doubled(stream: Iter[int]) -> Iter[int]:
    return stream.map(double)


def helper(stream: Iter[T], size: int) -> Iter[list[T]]:
    """Not marked: it consumes what it is given all the same."""
    return stream.batch(size)


# --------------------------------------------------------------------------- one after the other


@plan
def feeds_two() -> Plan[Metrics]:
    rollouts = ParallelRollouts(off).gather_async()
    replay = create_replay_actors()
    store = rollouts.for_each(StoreToBuffer(replay))
    kept = rollouts.filter(lambda batch: len(batch) > 3)  # PLUGIN linear
    train = ParallelReplay(replay).gather_async().for_each(TrainOneStep(off))
    return ReportMetrics(Union(store, kept, train), off)


@plan
def gathers_twice() -> Plan[Metrics]:
    shards = ParallelRollouts(workers).par_for_each(ComputeGradients())
    left = shards.gather_async().for_each(ApplyGradients(workers))
    right = shards.gather_sync().for_each(ApplyGradients(workers, to="all"))  # PLUGIN linear
    return ReportMetrics(Union(left, right), workers)


@plan
def replays_twice() -> Plan[Metrics]:
    replayed = ParallelReplay(create_replay_actors()).gather_async()
    judged = replayed.for_each(UpdatePriorities(off)).drain()
    stats = replayed.for_each(TrainOneStep(off))  # PLUGIN linear
    return ReportMetrics(Union(judged, stats), off)


@flow
def with_itself(stream: Iter[int]) -> Iter[int]:
    return Union(stream, stream)  # PLUGIN linear


@flow
def zipped_with_itself(stream: Iter[int]) -> Iter[tuple[int, int]]:
    return stream.zip(stream.map(double))  # PLUGIN linear


@flow
def over_several_lines(stream: Iter[int]) -> Iter[int]:
    return Union(
        stream.map(double),
        from_range(3),
        stream.take(2),  # PLUGIN linear
    )


@flow
def split_and_used(stream: Iter[int]) -> Iter[int]:
    left, right = stream.split()
    return Union(left, right, stream)  # PLUGIN linear


@flow
def a_branch_twice(stream: Iter[int]) -> Iter[int]:
    left, right = stream.split()
    return Union(left, right.map(double), right)  # PLUGIN linear


@flow
def under_another_name(stream: Iter[int]) -> Iter[int]:
    other = stream
    return Union(other, stream)  # PLUGIN linear


@flow
def two_names(stream: Iter[int]) -> Iter[int]:
    first = stream
    second = stream
    return Union(first.map(double), second)  # PLUGIN linear


@flow
def named_in_passing(shards: ParIter[int]) -> Iter[int]:
    return Union((numbers := shards.gather_async()).map(double), numbers)  # PLUGIN linear


@flow
def returned_and_used(stream: Iter[int]) -> tuple[Iter[int], Iter[int]]:
    return stream.map(double), stream  # PLUGIN linear


@flow
def kept_and_used(stream: Iter[int], found: list[Iter[int]]) -> Iter[int]:
    found.append(stream)
    return stream.map(double)  # PLUGIN linear


@flow
def in_two_places(stream: Iter[int]) -> dict[str, Iter[int]]:
    return {"left": stream, "right": stream}  # PLUGIN linear


# --------------------------------------------------------------------------- through functions


@flow
def through_a_flow(stream: Iter[int]) -> Iter[int]:
    return Union(doubled(stream), doubled(stream))  # PLUGIN linear


@flow
def through_a_helper(stream: Iter[int]) -> Iter[list[int]]:
    pairs = helper(stream, 2)
    triples = helper(size=3, stream=stream)  # PLUGIN linear
    return Union(pairs, triples)


@flow
def generic(stream: Iter[T]) -> Iter[T | list[T]]:
    pairs = stream.batch(2)
    return Union(pairs, stream)  # PLUGIN linear


def not_marked(stream: Iter[int]) -> Iter[int]:
    """Its annotation says that it returns a stream, so it builds a part of a plan."""
    few = stream.take(2)
    return Union(few, stream.map(double))  # PLUGIN linear


def a_script() -> None:
    """Separate plans over one stream are fine here; two uses that meet in one plan are not."""
    stream = from_range(3)
    print(list(stream.map(double).run()))
    both = Union(stream.map(double), stream)  # PLUGIN linear
    print(list(both.run()))


def another_script() -> None:
    stream = from_range(3)
    few = stream.take(2)
    all_of_them = stream.map(double)  # PLUGIN linear
    print(list(few.zip(all_of_them).run()))


def planner() -> Callable[[], Plan[Metrics]]:
    @plan
    def build() -> Plan[Metrics]:
        rollouts = ParallelRollouts(workers).gather_async()
        stats = rollouts.for_each(TrainOneStep(workers))
        return ReportMetrics(Union(stats, rollouts), workers)  # PLUGIN linear

    return build


# --------------------------------------------------------------------------- several policies, classes


@plan
def of_both_policies() -> Plan[Metrics]:
    rollouts = ParallelRollouts(many).gather_sync()
    ppo_op = ppo_plan(Select(rollouts, policy="PPO"), many)
    dqn_op = dqn_plan(Select(rollouts, policy="DQN"), many)  # PLUGIN linear
    return ReportMetrics(Union(ppo_op, dqn_op), many)


@plan
def of_one_branch() -> Plan[Metrics]:
    r1, r2 = ParallelRollouts(many).split()
    ppo_op = ppo_plan(Select(r1, policy="PPO"), many)
    dqn_op = dqn_plan(Select(r1, policy="DQN"), many)  # PLUGIN linear
    return ReportMetrics(Union(ppo_op, dqn_op, r2.drain()), many)


class Trainer:
    @plan
    def build(self) -> Plan[Metrics]:
        rollouts = ParallelRollouts(workers).gather_async()
        stats = self.trained(rollouts)
        return ReportMetrics(Union(stats, self.trained(rollouts)), workers)  # PLUGIN linear

    @flow
    def trained(self, stream: Iter[Rollout]) -> Iter[TrainStats]:
        return stream.for_each(TrainOneStep(workers))

    @classmethod
    @flow
    def pairs(cls, stream: Iter[T]) -> Iter[tuple[T, T]]:
        return stream.zip(stream)  # PLUGIN linear

    @property
    def numbers(self) -> Iter[int]:
        stream = from_range(3)
        return Union(stream, stream.map(double))  # PLUGIN linear


# --------------------------------------------------------------------------- paths


@flow
def before_a_branch(stream: Iter[int], more: bool) -> Iter[int]:
    found: Iter[int] = stream.map(double)
    if more:
        found = Union(found, stream)  # PLUGIN linear
    return found


@flow
def after_a_branch(stream: Iter[int], more: bool) -> Iter[int]:
    found: list[Iter[int]] = []
    if more:
        found.append(stream.map(double))
    found.append(stream)
    return Union(*found)  # PLUGIN linear


@flow
def in_a_loop(stream: Iter[int], sizes: list[int]) -> Iter[int]:
    found: list[Iter[int]] = []
    for size in sizes:
        found.append(stream.take(size))  # PLUGIN linear
    return Union(*found)


@flow
def in_a_while_loop(stream: Iter[int], size: int) -> Iter[int]:
    found = from_range(1).shuffle(2)
    while size > 0:
        found = Union(found, stream)  # PLUGIN linear
        size -= 1
    return found


@flow
def in_a_comprehension(stream: Iter[int], sizes: list[int]) -> Iter[int]:
    return Union(*[stream.take(size) for size in sizes])  # PLUGIN linear


@flow
def in_a_generator(shards: ParIter[int]) -> Iter[int]:
    return Union(*(shards.gather_async(in_flight=calls) for calls in (1, 2)))  # PLUGIN linear


@flow
def in_a_dict(stream: Iter[int]) -> dict[str, Iter[int]]:
    return {name: stream.map(double).named(name) for name in ("left", "right")}  # PLUGIN linear


@flow
def after_a_loop(stream: Iter[int], sizes: list[int]) -> Iter[int]:
    found: list[Iter[int]] = []
    for size in sizes:
        if size > 0:
            found.append(stream.take(size))
            break
    return Union(*found, stream)  # PLUGIN linear


@flow
def after_a_try(stream: Iter[int], size: int) -> Iter[int | list[int]]:
    try:
        batches = stream.batch(size)
    except ValueError:
        batches = from_range(3).batch(1)
    return Union(batches, stream)  # PLUGIN linear


@flow
def in_the_end(stream: Iter[int], found: list[Iter[int]]) -> Iter[int]:
    try:
        return stream.map(double)
    finally:
        found.append(stream)  # PLUGIN linear


@flow
def in_a_context(stream: Iter[int]) -> Iter[int]:
    found = from_range(2).shuffle(2)
    with suppress(ValueError):
        found = stream.take(3)
    return Union(found, stream)  # PLUGIN linear


@flow
def in_a_match(stream: Iter[int], kind: str) -> Iter[int]:
    found: Iter[int]
    match kind:
        case "few":
            found = stream.take(1)
        case "double":
            found = stream.map(double)
        case _:
            return stream
    return Union(found, stream)  # PLUGIN linear


@flow
def by_ternary(left: Iter[int], right: Iter[int], first: bool) -> Iter[int]:
    chosen = left if first else right
    return Union(chosen, chosen)  # PLUGIN linear


@flow
def with_a_star(stream: Iter[int]) -> Iter[int]:
    return Union(*[stream, stream])  # PLUGIN linear


@flow
def tiny(shards: ParIter[world.Rollout]) -> Iter[world.TrainStats]:
    stats = shards.gather_sync().for_each(world.OnPolicyStep())
    again = shards.par_for_each(world.ComputeGradients()).gather_async()  # PLUGIN linear
    return Union(stats, again.for_each(world.ApplyGradients(world.workers)))


class Pipeline:
    def __init__(self, rewards: Iter[int]) -> None:
        self.rewards = rewards

    def build(self) -> Iter[int]:
        clipped = self.rewards.map(double)
        return Union(clipped, self.rewards)  # PLUGIN linear


class Shared:
    rewards = from_range(3)


def of_a_class() -> Iter[int]:
    return Union(Shared.rewards, Shared.rewards.map(double))  # PLUGIN linear


@flow
def by_a_method_with_a_name(stream: Iter[int]) -> Iter[int]:
    apply = stream.map
    return Union(apply(double), apply(abs))  # PLUGIN linear


@flow
def by_a_partial(stream: Iter[int]) -> Iter[int]:
    thin = partial(stream.every)
    return Union(thin(items=2), thin(items=3))  # PLUGIN linear


@flow
def by_a_closure(stream: Iter[int]) -> Iter[int]:
    def few(count: int) -> Iter[int]:
        return stream.take(count)  # PLUGIN linear

    return Union(few(1), few(2))


@flow
def by_a_lambda(stream: Iter[int]) -> Iter[int]:
    few: Callable[[int], Iter[int]] = lambda count: stream.take(count)  # noqa: E731  # PLUGIN linear
    return Union(few(1), few(2))


@flow
def closure_and_name(stream: Iter[int]) -> Iter[int]:
    def few() -> Iter[int]:
        return stream.take(1)

    low = few()
    return Union(low, stream)  # PLUGIN linear


def list_times_two() -> Iter[int]:
    numbers = from_range(2)
    return Union(*[numbers] * 2)  # PLUGIN linear


def list_and_slice() -> Iter[int]:
    parts = [from_range(1), from_range(2)]
    return Union(*(parts + parts[:1]))  # PLUGIN linear


def repeated() -> Iter[int]:
    return Union(*repeat(from_range(2), 3))  # PLUGIN linear


def extended() -> Iter[int]:
    parts: list[Iter[int]] = [from_range(1)]
    parts.extend(parts)
    return Union(*parts)  # PLUGIN linear


def twice_out_of_a_list() -> Iter[int]:
    streams = [from_range(1), from_range(2)]
    left = streams[0].map(double)
    right = streams[0].map(abs)  # PLUGIN linear
    return Union(left, right, streams[1])


def twice_out_of_a_dict() -> Iter[int]:
    streams = {"train": from_range(1)}
    return Union(streams["train"].map(double), streams["train"])  # PLUGIN linear


@flow
def branches_twice(stream: Iter[int]) -> Iter[int]:
    branches = stream.split()
    left = Union(*branches)
    return Union(left, *branches)  # PLUGIN linear


@dataclass
class Parts:
    train: Iter[int]
    test: Iter[int]


def into_two_fields() -> Iter[int]:
    numbers = from_range(2)
    parts = Parts(train=numbers, test=numbers)
    return Union(parts.train, parts.test)  # PLUGIN linear


@flow
def when_it_is_positive(stream: Iter[int], size: int) -> Iter[int]:
    found: Iter[int] = from_range(1)
    if size > 0:
        found = stream.take(size)
    if size > 2:
        return Union(found, stream)  # PLUGIN linear
    return found


SHARED = from_range(4)


def of_the_module() -> Iter[int]:
    return Union(SHARED.map(double), SHARED.take(2))  # PLUGIN linear


@cache
def remembered() -> Iter[int]:
    return from_range(4)


def made_once() -> Iter[int]:
    first = remembered().map(double)
    return Union(first, remembered())  # PLUGIN linear


class Shares:
    def __init__(self, numbers: Iter[int]) -> None:
        self.numbers = numbers

    @property
    def source(self) -> Iter[int]:
        return self.numbers

    @cached_property
    def kept(self) -> Iter[int]:
        return from_range(3)

    def logged(self) -> Iter[int]:
        """Consumes what the class was given."""
        return self.numbers.tap(print)

    def doubled(self) -> Iter[int]:
        return self.numbers.map(double)

    def by_two_methods(self) -> Iter[int]:
        return Union(self.logged(), self.doubled())  # PLUGIN linear

    def by_a_property(self) -> Iter[int]:
        left = self.source.take(1)
        return Union(left, self.source)  # PLUGIN linear

    def by_a_cached_property(self) -> Iter[int]:
        left = self.kept.take(1)
        return Union(left, self.kept)  # PLUGIN linear


class Longer(Shares):
    def inherited(self) -> Iter[int]:
        return Union(self.logged(), self.numbers.take(1))  # PLUGIN linear


def called_twice(stream: Iter[int]) -> Iter[int]:
    def doubled() -> Iter[int]:
        return stream.map(double)  # PLUGIN linear

    return Union(doubled(), doubled())
