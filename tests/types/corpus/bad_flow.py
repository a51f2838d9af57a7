"""Mistakes of flow: an operator, or a sub-flow, does not accept what the stream before it yields. One per plan."""

from __future__ import annotations

import world
from rl_good import LOSSES, policy_of
from world import First, Length, OffPolicyStep, T, learner

from tflow import (
    ApplyGradients, ComputeGradients, ConcatRounds, create_evaluation_workers, create_replay_actors,
    create_rollout_workers, flow, from_actors, from_items, from_range, Gradients, Iter, Metrics,
    par_from_range, ParallelEvaluations, ParallelReplay, ParallelRollouts, ParIter, Plan, plan, ReportMetrics,
    Rollout, Select, SendWeights, Stateless, StoreToBuffer, Sync, TrainOneStep, TrainStats, Union,
    UpdateTargetNetwork,
)
from tflow.actors import AnyWorkers
from tflow.data import Episodes
from tflow.losses import A3CLoss, DQNLoss, PPOLoss
from tflow.operators import AverageGradients, MixInReplay

workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
dqn_workers = create_rollout_workers(env="CartPole-v1", loss=DQNLoss())
many = create_rollout_workers(env="x", losses=LOSSES, policy_of=policy_of)


@flow
def applied(grads: Iter[Gradients], to: AnyWorkers) -> Iter[TrainStats]:
    return grads.for_each(ApplyGradients(to))


@flow
def first_of(batches: Iter[list[T]]) -> Iter[T]:
    return batches.for_each(First[T]())


def of_one_policy(stream: Iter[Rollout]) -> Iter[TrainStats]:
    """Not marked: a helper like any other."""
    return stream.for_each(TrainOneStep(workers))


# --------------------------------------------------------------------------- operators


@plan
def forgets_gradients() -> Plan[Metrics]:
    rollouts = ParallelRollouts(workers).gather_async()
    stats = rollouts.for_each(ApplyGradients(workers))  # ERR a rollout is no gradient PLUGIN flow
    return ReportMetrics(stats, workers)


@plan
def forgets_to_average() -> Plan[Metrics]:
    rounds = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_rounds()
    return ReportMetrics(rounds.for_each(ApplyGradients(workers)), workers)  # ERR a list of gradients PLUGIN flow


@plan
def averages_one() -> Plan[Metrics]:
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_sync()
    mean = grads.for_each(AverageGradients())  # ERR not a list of gradients PLUGIN flow
    return ReportMetrics(mean.for_each(ApplyGradients(workers)), workers)


@plan
def forgets_to_concatenate() -> Plan[Metrics]:
    rounds = ParallelRollouts(workers).gather_rounds()
    return ReportMetrics(rounds.for_each(TrainOneStep(workers)), workers)  # ERR a list of rollouts PLUGIN flow


@plan
def trains_on_batched() -> Plan[Metrics]:
    stream = ParallelRollouts(workers).gather_async().batch(4)
    return ReportMetrics(stream.for_each(TrainOneStep(workers)), workers)  # ERR a list of rollouts PLUGIN flow


@plan
def renews_too_early() -> Plan[Metrics]:
    replayed = ParallelReplay(create_replay_actors()).gather_async()
    stats = replayed.for_each(UpdateTargetNetwork(dqn_workers, every=10))  # ERR before training PLUGIN flow
    return ReportMetrics(stats, dqn_workers)


@plan
def gradients_of_gradients() -> Plan[Metrics]:
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients())
    twice = grads.par_for_each(ComputeGradients())  # ERR a gradient is no rollout PLUGIN flow
    return ReportMetrics(twice.gather_async().for_each(ApplyGradients(workers)), workers)


@flow
def on_numbers(numbers: Iter[int]) -> Iter[world.TrainStats]:
    return numbers.for_each(OffPolicyStep())  # ERR an int is no rollout PLUGIN flow


@flow
def over_several_lines(shards: ParIter[Rollout]) -> Iter[TrainStats]:
    return (
        shards.gather_async()
        .filter(lambda rollout: len(rollout) > 3)
        .for_each(
            SendWeights(workers)  # ERR a rollout is no statistics PLUGIN flow
        )
    )


@flow
def at_the_learner(numbers: Iter[int]) -> Iter[world.TrainStats]:
    return numbers.hand_off(
        learner,
        world.LearnerStep(),  # ERR an int is no rollout PLUGIN flow
    )


@flow
def called_at_the_learner(numbers: Iter[str, Sync]) -> Iter[int]:
    return numbers.call(
        learner,
        Length(),  # ERR a str is no rollout PLUGIN flow
    )


# --------------------------------------------------------------------------- streams that are given to something


@plan
def through_a_flow() -> Plan[Metrics]:
    rollouts = ParallelRollouts(workers).gather_async()
    return ReportMetrics(applied(rollouts, workers), workers)  # ERR the sub-flow takes gradients PLUGIN flow


@plan
def through_a_flow_by_keyword() -> Plan[Metrics]:
    rounds = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_rounds()
    stats = applied(
        to=workers,
        grads=rounds,  # ERR the sub-flow takes single gradients PLUGIN flow
    )
    return ReportMetrics(stats, workers)


@plan
def through_a_helper() -> Plan[Metrics]:
    numbers = from_range(3)
    stats = of_one_policy(numbers)  # ERR an int is no rollout PLUGIN flow
    return ReportMetrics(stats, workers)


@flow
def through_a_generic_flow(numbers: Iter[int]) -> Iter[int]:
    return first_of(numbers)  # ERR numbers are not batches PLUGIN flow


@flow
def in_a_generic_flow(items: Iter[T]) -> Iter[T]:
    batches = items.batch(2).batch(3)
    return batches.for_each(First[T]())  # ERR lists of lists PLUGIN flow


@plan
def reports_numbers() -> Plan[Metrics]:
    return ReportMetrics(from_range(3), workers)  # ERR nothing that a report counts PLUGIN flow


@plan
def reports_gradients() -> Plan[Metrics]:
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    return ReportMetrics(
        grads,  # ERR they are not applied PLUGIN flow
        workers,
    )


@plan
def reports_evaluations() -> Plan[Metrics]:
    evaluations = ParallelEvaluations(create_evaluation_workers(workers)).gather_async()
    stats = ParallelRollouts(workers).gather_async().for_each(TrainOneStep(workers))
    both = Union(stats, evaluations.map(str))
    return ReportMetrics(both, workers)  # ERR words are no statistics PLUGIN flow


@plan
def concatenates_single_batches() -> Plan[Metrics]:
    rounds = ConcatRounds(ParallelRollouts(workers).gather_sync())  # ERR not a list per round PLUGIN flow
    return ReportMetrics(rounds.for_each(TrainOneStep(workers)), workers)


@flow
def mixes_nothing(numbers: list[int]) -> Iter[int]:
    return MixInReplay(numbers, slots=2, proportion=0.5)  # ERR a list is no stream


@flow
def zips_a_list(stream: Iter[int], names: list[str]) -> Iter[tuple[int, str]]:
    return stream.zip(names)  # ERR a list is no stream


# --------------------------------------------------------------------------- several policies, classes, paths


@plan
def several_policies() -> Plan[Metrics]:
    r1, r2 = ParallelRollouts(many).split()
    ppo = Select(r1, policy="PPO").for_each(StoreToBuffer(create_replay_actors()))
    stats = r2.for_each(TrainOneStep(many, loss=A3CLoss()))  # ERR experience of several policies PLUGIN flow
    return ReportMetrics(Union(ppo.drain(), stats), many)


@plan
def selects_twice() -> Plan[Metrics]:
    one = Select(ParallelRollouts(many).gather_sync(), policy="PPO")
    again = Select(one, policy="PPO")  # ERR it is of one policy already PLUGIN flow
    return ReportMetrics(again.for_each(TrainOneStep(many, loss=A3CLoss())), many)


class Trainer:
    @flow
    def trained(self, stream: Iter[Rollout]) -> Iter[TrainStats]:
        return stream.for_each(TrainOneStep(workers))

    @plan
    def build(self) -> Plan[Metrics]:
        grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
        return ReportMetrics(self.trained(grads), workers)  # ERR gradients are no rollouts PLUGIN flow

    @staticmethod
    @flow
    def counted(stream: Iter[str]) -> Iter[int]:
        return stream.for_each(Length())  # ERR a str is no rollout PLUGIN flow


@plan
def on_one_path(average: bool) -> Plan[Metrics]:
    shards = ParallelRollouts(workers).par_for_each(ComputeGradients())
    if average:
        stats: Iter[TrainStats] = shards.gather_rounds().for_each(AverageGradients()).for_each(ApplyGradients(workers))
    else:
        stats = shards.gather_rounds().for_each(ApplyGradients(workers))  # ERR a list of gradients PLUGIN flow
    return ReportMetrics(stats, workers)


@flow
def on_the_second_attempt(stream: Iter[int], size: int) -> Iter[int]:
    try:
        return stream.batch(size).for_each(First[int]())
    except ValueError:
        return stream.for_each(First[int]())  # ERR an int is no list PLUGIN flow


@flow
def in_a_loop(names: list[str]) -> Iter[int]:
    found: list[Iter[int]] = []
    for name in names:
        letters = from_items(name)
        found.append(letters.for_each(Length()))  # ERR a letter is no rollout PLUGIN flow
    return Union(*found)


@flow
def in_a_comprehension(stream: Iter[int]) -> Iter[int]:
    return Union(*[branch.for_each(First[int]()) for branch in stream.split(3)])  # ERR an int is no list PLUGIN flow


@flow
def in_actors() -> Iter[int]:
    return par_from_range(4).par_for_each(Length()).gather_sync()  # ERR an int is no rollout PLUGIN flow


@flow
def from_the_tiny_world() -> Iter[world.TrainStats]:
    batches = from_actors(world.workers, world.Worker.sample).gather_rounds()
    return batches.for_each(OffPolicyStep())  # ERR a list of rollouts PLUGIN flow


@flow
def of_a_union(left: Iter[Episodes], right: Iter[Rollout]) -> Iter[TrainStats]:
    return Union(left, right).for_each(TrainOneStep(workers))  # ERR episodes are no rollouts PLUGIN flow


@plan
def of_the_wrong_loss() -> Plan[Metrics]:
    stats = ParallelRollouts(workers).gather_sync().for_each(TrainOneStep(workers)).batch(2)
    pairs = stats.for_each(TrainOneStep(workers, loss=PPOLoss()))  # ERR statistics are no batch PLUGIN flow
    return ReportMetrics(pairs, workers)


class Prefix(Stateless[int, str]):
    def __init__(self, size: int, text: str) -> None:
        self.size, self.text = size, text

    def apply(self, item: int, /) -> str:
        return self.text


@flow
def another_mistake(stream: Iter[int], size: int | None) -> Iter[str]:
    if size is None:
        return stream.map(str)
    return stream.for_each(Prefix(size, 3))  # ERR the operator fits, its text does not


class Unreported:
    def plan(self, stream: Iter[TrainStats], log: bool) -> Plan[Metrics]:
        if log:
            return stream.tap(print)  # ERR nothing reports PLUGIN flow
        return ReportMetrics(stream, workers)
