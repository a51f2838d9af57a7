"""Mistakes of completeness: a stream, or a branch of a split, that nobody consumes. No checker sees this without the plugin.

The mark is where the stream gets its name, on a discarded expression itself, or where a stream is overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import world
from rl_good import LOSSES, dqn_plan, policy_of, ppo_plan
from world import T

from tflow import (
    ApplyGradients, ComputeGradients, create_evaluation_workers, create_replay_actors, create_rollout_workers,
    flow, from_range, Iter, Metrics, ParallelEvaluations, ParallelReplay, ParallelRollouts, ParIter, Plan,
    plan, ReportMetrics, Rollout, Select, Stop, StoreToBuffer, TrainOneStep, TrainStats, Union, UpdateTargetNetwork,
    UpdateWeights,
)
from tflow.algos import PPO
from tflow.losses import A3CLoss, DQNLoss

workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
off = create_rollout_workers(env="CartPole-v1", loss=DQNLoss())
many = create_rollout_workers(env="x", losses=LOSSES, policy_of=policy_of)


def double(number: int) -> int:
    return 2 * number


def looked_at(stream: object) -> object:
    """Not marked, and not for streams: it consumes nothing."""
    return stream


# --------------------------------------------------------------------------- never consumed


@plan
def forgets_to_store() -> Plan[Metrics]:
    replay = create_replay_actors()
    store = ParallelRollouts(off).gather_async().for_each(StoreToBuffer(replay))  # PLUGIN unused
    train = ParallelReplay(replay).gather_async().for_each(TrainOneStep(off))
    return ReportMetrics(train, off)


@plan
def forgets_to_evaluate() -> Plan[Metrics]:
    evaluators = create_evaluation_workers(workers)
    stats = ParallelRollouts(workers).gather_async().for_each(TrainOneStep(workers))
    evaluations = ParallelEvaluations(evaluators).gather_async()  # PLUGIN unused
    return ReportMetrics(stats.for_each(UpdateWeights(workers, evaluators)), workers)


@plan
def reports_the_wrong_one() -> Plan[Metrics]:
    stats = ParallelReplay(create_replay_actors()).gather_async().for_each(TrainOneStep(off))
    left, right = stats.split()
    renewed = left.for_each(UpdateTargetNetwork(off, every=100))  # PLUGIN unused
    return ReportMetrics(right, off)


@flow
def never_gathered(stream: Iter[int], shards: ParIter[int]) -> Iter[int]:
    more = shards.par_map(double)  # PLUGIN unused
    return stream


@flow
def annotated(stream: Iter[int]) -> Iter[int]:
    spare: Iter[int] = from_range(3)  # PLUGIN unused
    return stream


@flow
def only_looked_at(stream: Iter[int]) -> Iter[int]:
    spare = from_range(3)  # PLUGIN unused
    print(spare, f"{spare}", spare is None)
    return stream


@flow
def only_run(stream: Iter[int]) -> Iter[int]:
    spare = from_range(3)
    kept = spare.take(2)  # PLUGIN unused
    print(list(spare.run()))
    return stream


@flow
def through_a_helper(stream: Iter[int]) -> Iter[int]:
    spare = from_range(3)  # PLUGIN unused
    print(looked_at(spare))
    return stream


# --------------------------------------------------------------------------- branches


@plan
def a_branch_too_many() -> Plan[Metrics]:
    r1, r2 = ParallelRollouts(workers).split()  # PLUGIN unused
    return ReportMetrics(r1.for_each(TrainOneStep(workers)), workers)


@flow
def two_of_three(stream: Iter[int]) -> Iter[int]:
    a, b, c = stream.split(3)  # PLUGIN unused
    return Union(a, c)


@flow
def over_several_lines(stream: Iter[int]) -> Iter[int]:
    (
        first,
        second,  # PLUGIN unused
        third,
    ) = stream.split(3, max_lag=2)
    return Union(first, third)


@flow
def the_rest(stream: Iter[int]) -> Iter[int]:
    first, *rest = stream.split(4)  # PLUGIN unused
    return first


@flow
def all_of_them(stream: Iter[int]) -> Iter[int]:
    branches = stream.split()  # PLUGIN unused
    return from_range(3)


# --------------------------------------------------------------------------- discarded


@plan
def discards_the_training() -> Plan[Metrics]:
    rollouts = ParallelRollouts(workers).gather_async()
    left, right = rollouts.split()
    left.for_each(TrainOneStep(workers))  # PLUGIN unused
    return ReportMetrics(right, workers)


@flow
def discards_a_chain(shards: ParIter[int], stream: Iter[int]) -> Iter[int]:
    shards.par_map(double).gather_async().drain()  # PLUGIN unused
    return stream


@flow
def discards_a_union(left: Iter[int], right: Iter[int]) -> Iter[int]:
    Union(left, right)  # PLUGIN unused
    return from_range(3)


@flow
def discards_a_split(stream: Iter[int]) -> Iter[int]:
    stream.split()  # PLUGIN unused
    return from_range(3)


@plan
def discards_a_report() -> Plan[Metrics]:
    first = ParallelRollouts(workers).gather_async().for_each(TrainOneStep(workers))
    second = ParallelRollouts(off).gather_async().for_each(UpdateWeights(off))
    ReportMetrics(first, workers)  # PLUGIN unused
    return ReportMetrics(second, off)


def helper(stream: Iter[int]) -> Iter[int]:
    """Not marked, but its annotation says that it returns a stream."""
    from_range(3).map(double)  # PLUGIN unused
    return stream


@flow
def thinks_that_it_changes(stream: Iter[int]) -> Iter[int]:
    numbers = from_range(3)
    numbers.map(double)  # PLUGIN unused
    return stream


# --------------------------------------------------------------------------- overwritten


@flow
def overwritten(stream: Iter[int]) -> Iter[int]:
    found = stream.map(double)
    found = from_range(3)  # PLUGIN unused
    return found


@flow
def parameter_overwritten(stream: Iter[int]) -> Iter[int]:
    stream = from_range(3)  # PLUGIN unused
    return stream


@flow
def overwritten_in_a_loop(sizes: list[int]) -> Iter[int]:
    found: list[Iter[int]] = []
    for size in sizes:
        part = from_range(size)
        part = from_range(size + 1)  # PLUGIN unused
        found.append(part)
    return Union(*found)


@flow
def overwritten_by_none(stream: Iter[int]) -> Iter[int]:
    spare: Iter[int] | None = from_range(3)
    spare = None  # PLUGIN unused
    return stream if spare is None else Union(stream, spare)


# --------------------------------------------------------------------------- parameters


@flow
def ignores_one(stream: Iter[int], spare: Iter[int]) -> Iter[int]:  # PLUGIN unused
    return stream.map(double)


@plan
def ignores_shards(shards: ParIter[Rollout]) -> Plan[Metrics]:  # PLUGIN unused
    stats = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    return ReportMetrics(stats.for_each(ApplyGradients(workers)), workers)


@flow
def generic(stream: Iter[T], spare: Iter[T]) -> Iter[list[T]]:  # PLUGIN unused
    return stream.batch(2)


@flow
def generic_branch(stream: Iter[T]) -> Iter[T]:
    left, right = stream.split()  # PLUGIN unused
    return left


# --------------------------------------------------------------------------- several policies, classes, paths


@plan
def of_one_policy_only() -> Plan[Metrics]:
    r1, r2 = ParallelRollouts(many).split()  # PLUGIN unused
    return ReportMetrics(ppo_plan(Select(r1, policy="PPO"), many), many)


@plan
def of_a_policy_not_trained() -> Plan[Metrics]:
    r1, r2 = ParallelRollouts(many).split()
    ppo_op = ppo_plan(Select(r1, policy="PPO"), many)  # PLUGIN unused
    dqn_op = dqn_plan(Select(r2, policy="DQN"), many)
    return ReportMetrics(dqn_op, many)


class Trainer:
    @plan
    def build(self) -> Plan[Metrics]:
        rollouts = ParallelRollouts(workers).gather_async()
        spare = self.trained(ParallelRollouts(workers).gather_sync())  # PLUGIN unused
        return ReportMetrics(self.trained(rollouts), workers)

    @flow
    def trained(self, stream: Iter[Rollout]) -> Iter[TrainStats]:
        return stream.for_each(TrainOneStep(workers))

    @staticmethod
    @flow
    def first(stream: Iter[int], second: Iter[int]) -> Iter[int]:  # PLUGIN unused
        return stream

    @property
    def numbers(self) -> Iter[int]:
        left, right = from_range(3).split()  # PLUGIN unused
        return right


def planner() -> Callable[[], Plan[Metrics]]:
    @plan
    def build() -> Plan[Metrics]:
        spare = ParallelRollouts(off).gather_async()  # PLUGIN unused
        return ReportMetrics(ParallelRollouts(workers).gather_async().for_each(TrainOneStep(workers)), workers)

    return build


@flow
def on_one_path(stream: Iter[int], more: bool) -> Iter[int]:
    if more:
        spare = from_range(3)  # PLUGIN unused
        return stream.map(double)
    return stream


@flow
def in_a_loop(stream: Iter[int], sizes: list[int]) -> Iter[int]:
    for size in sizes:
        stream.take(size)  # PLUGIN unused
        break
    return from_range(3)


@flow
def in_a_try(stream: Iter[int], size: int) -> Iter[int]:
    try:
        spare = from_range(size)  # PLUGIN unused
    except ValueError:
        return stream
    return stream.map(double)


@flow
def in_a_context(stream: Iter[int]) -> Iter[int]:
    with suppress(ValueError):
        from_range(3).named("spare")  # PLUGIN unused
    return stream


@flow
def tiny(shards: ParIter[world.Rollout]) -> Iter[world.TrainStats]:
    left, right = shards.par_for_each(world.ComputeGradients()).split()  # PLUGIN unused
    return left.for_each(world.ApplyGradients(world.workers))


@flow
def only_with_a_log(stream: Iter[int], log: bool) -> Iter[int]:
    first, second = stream.split()  # PLUGIN unused
    if log:
        return Union(first, second.drain())
    return first


@flow
def on_one_side(stream: Iter[int], both: bool) -> Iter[int]:
    left, right = stream.split()  # PLUGIN unused
    return Union(left, right) if both else left


@flow
def if_it_fails(stream: Iter[int], text: str) -> Iter[int]:
    left, right = stream.split()  # PLUGIN unused
    try:
        size = int(text)
    except ValueError:
        return left
    return Union(left, right.every(items=size))


@flow
def by_index(stream: Iter[int]) -> Iter[int]:
    return stream.split()[0].map(double)  # PLUGIN unused


@flow
def of_several(stream: Iter[int]) -> Iter[int]:
    branches = stream.split(3)  # PLUGIN unused
    return Union(branches[0], branches[2])


@flow
def popped(stream: Iter[int]) -> Iter[int]:
    branches = list(stream.split(3))  # PLUGIN unused
    return Union(branches.pop(), branches.pop())


@flow
def in_a_closure(stream: Iter[int]) -> Iter[int]:
    left, right = stream.split()  # PLUGIN unused

    def never_called() -> Iter[int]:
        return right.map(double)

    return left


@flow
def in_a_list(stream: Iter[int]) -> Iter[int]:
    left, right = stream.split()
    sides: list[Iter[int]] = []
    sides.append(right.map(double).drain())  # PLUGIN unused
    return left


@flow
def in_a_comprehension(stream: Iter[int]) -> Iter[int]:
    left, *others = stream.split(3)
    [each.map(double).drain() for each in others]  # PLUGIN unused
    return left


@flow
def in_a_condition(stream: Iter[int], logs: bool) -> Iter[int]:
    left, right = stream.split()
    logs and right.tap(print).drain()  # PLUGIN unused
    return left


def a_plan_for_nothing() -> None:
    PPO(num_envs=2).plan()  # PLUGIN unused


def a_run_for_nothing() -> None:
    PPO(num_envs=2).run(stop=Stop(env_steps=100))  # PLUGIN unused
