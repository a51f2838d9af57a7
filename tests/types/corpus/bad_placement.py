"""Mistakes of placement: an operator is applied where it cannot run, or a parallel stream is taken for one on the driver."""

from __future__ import annotations

import world
from rl_good import LOSSES, policy_of
from world import T, learner

from tflow import (
    ApplyGradients, Async, ComputeAdvantages, ComputeGradients, ConcatRounds, create_actors, create_learner,
    create_replay_actors, create_rollout_workers, flow, from_actors, from_range, Gradients, Iter,
    LearnOnBatch, Metrics, par_from_range, ParallelRollouts, ParIter, Plan, plan, ReportMetrics, Rollout,
    Select, SendWeights, StoreToBuffer, Sync, TrainOneStep, TrainStats, Union, UpdateWeights,
)
from tflow.actors import AnyWorkers
from tflow.losses import A3CLoss, PPOLoss
from tflow.operators import MixInReplay

workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
many = create_rollout_workers(env="x", losses=LOSSES, policy_of=policy_of)


def double(number: int) -> int:
    return 2 * number


@flow
def trained(stream: Iter[Rollout], by: AnyWorkers) -> Iter[TrainStats]:
    return stream.for_each(TrainOneStep(by, loss=A3CLoss()))


@flow
def inside(shards: ParIter[Rollout]) -> ParIter[Gradients]:
    return shards.par_for_each(ComputeGradients())


@flow
def larger(stream: Iter[T]) -> Iter[list[T]]:
    return stream.batch(4)


# --------------------------------------------------------------------------- operators in the wrong place


@plan
def gradients_on_the_driver() -> Plan[Metrics]:
    grads = ParallelRollouts(workers).gather_async().for_each(ComputeGradients())  # ERR beside a worker PLUGIN placement
    return ReportMetrics(grads.for_each(ApplyGradients(workers)), workers)


@plan
def applied_in_the_actors() -> Plan[Metrics]:
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients())
    stats = grads.par_for_each(ApplyGradients(workers))  # ERR on the driver PLUGIN placement
    return ReportMetrics(stats.gather_async(), workers)


@plan
def trained_in_the_actors() -> Plan[Metrics]:
    stats = ParallelRollouts(workers).par_for_each(TrainOneStep(workers))  # ERR on the driver PLUGIN placement
    return ReportMetrics(stats.gather_sync(), workers)


@flow
def stored_in_the_actors(shards: ParIter[Rollout]) -> Iter[Rollout]:
    stored = shards.par_for_each(StoreToBuffer(create_replay_actors()))  # ERR on the driver PLUGIN placement
    return stored.gather_async()


@flow
def sent_from_the_actors(shards: ParIter[Rollout]) -> Iter[Rollout]:
    return shards.par_for_each(UpdateWeights(workers)).gather_async()  # ERR on the driver PLUGIN placement


@plan
def learner_on_the_driver() -> Plan[Metrics]:
    stats = ParallelRollouts(workers).gather_async().for_each(LearnOnBatch())  # ERR beside a learner PLUGIN placement
    return ReportMetrics(stats.for_each(SendWeights(workers)), workers)


@plan
def beside_the_wrong_actor() -> Plan[Metrics]:
    rollouts = ParallelRollouts(workers).gather_async()
    grads = rollouts.hand_off(create_learner(workers), ComputeGradients())  # ERR beside a worker PLUGIN placement
    return ReportMetrics(grads.for_each(ApplyGradients(workers)), workers)


@flow
def called_beside_the_wrong_actor(stream: Iter[Rollout, Sync]) -> Iter[TrainStats]:
    return stream.call(learner, LearnOnBatch())  # ERR beside another learner PLUGIN placement


@flow
def handed_to_the_driver(stream: Iter[Rollout]) -> Iter[TrainStats]:
    return stream.hand_off(create_learner(workers), TrainOneStep(workers))  # ERR on the driver PLUGIN placement


@flow
def tiny_gradients(stream: Iter[world.Rollout, Sync]) -> Iter[world.TrainStats]:
    grads = stream.for_each(world.ComputeGradients())  # ERR beside a worker PLUGIN placement
    return grads.for_each(world.ApplyGradients(world.workers))


@flow
def tiny_step_in_actors() -> Iter[world.TrainStats]:
    shards = from_actors(world.workers, world.Worker.sample)
    return shards.par_for_each(world.OnPolicyStep()).gather_sync()  # ERR on the driver PLUGIN placement


# --------------------------------------------------------------------------- methods of the other kind of stream


@flow
def for_each_in_parallel(shards: ParIter[world.Rollout]) -> Iter[int]:
    return shards.for_each(world.Length()).gather_sync()  # ERR gather first PLUGIN placement


@flow
def map_in_parallel() -> Iter[int]:
    return par_from_range(4).map(double).gather_sync()  # ERR gather first PLUGIN placement


@flow
def batch_in_parallel(shards: ParIter[int]) -> Iter[list[int]]:
    return shards.batch(4)  # ERR gather first PLUGIN placement


@flow
def par_map_on_the_driver(stream: Iter[int]) -> Iter[int]:
    return stream.par_map(double)  # ERR already on the driver PLUGIN placement


@flow
def gathers_again(shards: ParIter[int]) -> Iter[int]:
    return shards.gather_async().gather_async()  # ERR already gathered PLUGIN placement


@flow
def gathers_what_is_here() -> Iter[int]:
    return from_range(3).gather_sync()  # ERR already on the driver PLUGIN placement


@plan
def columns_in_parallel() -> Plan[Metrics]:
    by = create_rollout_workers(env="CartPole-v1", loss=PPOLoss())
    wider = ParallelRollouts(by).with_columns(ComputeAdvantages())  # ERR gather first PLUGIN placement
    return ReportMetrics(wider.gather_sync().for_each(TrainOneStep(by)), by)


@flow
def columns_on_the_driver(stream: Iter[Rollout]) -> Iter[Rollout]:
    return stream.par_with_columns(ComputeAdvantages())  # ERR already on the driver PLUGIN placement


# --------------------------------------------------------------------------- parallel streams given to something


@plan
def reported_in_parallel() -> Plan[Metrics]:
    return ReportMetrics(ParallelRollouts(workers), workers)  # ERR gather first PLUGIN placement


@flow
def united_in_parallel(shards: ParIter[int], stream: Iter[int]) -> Iter[int]:
    return Union(stream, shards)  # ERR gather first PLUGIN placement


@flow
def zipped_in_parallel(shards: ParIter[int], stream: Iter[int]) -> Iter[tuple[int, int]]:
    return stream.zip(shards)  # ERR gather first PLUGIN placement


@flow
def mixed_in_parallel(shards: ParIter[Rollout]) -> Iter[Rollout]:
    return MixInReplay(shards, slots=2, proportion=0.5)  # ERR gather first PLUGIN placement


@flow
def concatenated_in_parallel(shards: ParIter[list[Rollout]]) -> Iter[Rollout]:
    return ConcatRounds(shards)  # ERR gather first PLUGIN placement


@plan
def through_a_flow() -> Plan[Metrics]:
    stats = trained(ParallelRollouts(workers), workers)  # ERR the sub-flow is on the driver PLUGIN placement
    return ReportMetrics(stats, workers)


@plan
def through_a_flow_inside() -> Plan[Metrics]:
    rollouts = ParallelRollouts(workers).gather_sync()
    grads = inside(rollouts)  # ERR the sub-flow is in the actors PLUGIN placement
    return ReportMetrics(grads.gather_sync().for_each(ApplyGradients(workers)), workers)


@flow
def through_a_generic_flow(shards: ParIter[int]) -> Iter[list[int]]:
    return larger(shards)  # ERR the sub-flow is on the driver PLUGIN placement


@flow
def in_a_generic_flow(shards: ParIter[T, Async]) -> Iter[list[T]]:
    return shards.take(3).gather_async().batch(2)  # ERR gather first PLUGIN placement


# --------------------------------------------------------------------------- several policies, classes, paths


@plan
def selects_in_parallel() -> Plan[Metrics]:
    ppo = Select(ParallelRollouts(many), policy="PPO")  # ERR gather first PLUGIN placement
    return ReportMetrics(trained(ppo, many), many)


@plan
def gradients_of_one_policy() -> Plan[Metrics]:
    r1, r2 = ParallelRollouts(many).split()
    grads = Select(r1, policy="PPO").for_each(ComputeGradients())  # ERR beside a worker PLUGIN placement
    stats = trained(Select(r2, policy="DQN"), many)
    return ReportMetrics(Union(grads.for_each(ApplyGradients(many)), stats), many)


class Trainer:
    def __init__(self, shards: ParIter[Rollout]) -> None:
        self.shards = shards

    @plan
    def build(self) -> Plan[Metrics]:
        stats = self.shards.par_for_each(TrainOneStep(workers))  # ERR on the driver PLUGIN placement
        return ReportMetrics(stats.gather_async(), workers)

    @property
    def grads(self) -> Iter[Gradients]:
        return self.shards.gather_async().for_each(ComputeGradients())  # ERR beside a worker PLUGIN placement


def not_marked(shards: ParIter[Rollout]) -> None:
    """A test or a script: the operators are the same."""
    stream = shards.gather_sync().for_each(LearnOnBatch())  # ERR beside a learner PLUGIN placement
    print(list(stream.run()))


@flow
def on_one_path(shards: ParIter[Rollout], here: bool) -> Iter[Gradients]:
    if here:
        return shards.gather_async().for_each(ComputeGradients())  # ERR beside a worker PLUGIN placement
    return shards.par_for_each(ComputeGradients()).gather_async()


@flow
def when_it_fails(shards: ParIter[int], size: int) -> Iter[int]:
    try:
        kept = shards.gather_sync().take(size)
    except ValueError:
        kept = shards.take(1)  # ERR gather first PLUGIN placement
    return kept


@flow
def in_a_loop(shards: ParIter[int], sizes: list[int]) -> Iter[int]:
    for size in sizes:
        shards = shards.take(size)  # ERR gather first PLUGIN placement
    return shards.gather_sync()


@flow
def in_a_comprehension(pools: list[ParIter[int]]) -> Iter[int]:
    return Union(*[pool.map(double) for pool in pools])  # ERR gather first PLUGIN placement


@flow
def either_kind(stream: Iter[int] | ParIter[int]) -> Iter[int]:
    return stream.map(double)  # ERR it may be parallel PLUGIN placement


class Counter:
    def count(self) -> int:
        return 1


def beside_counters() -> Iter[world.Gradients]:
    counted = from_actors(create_actors(lambda shard: Counter(), num=2), Counter.count).par_map(lambda n: world.Rollout())
    return counted.par_for_each(world.ComputeGradients()).gather_async()  # ERR another class PLUGIN placement


def beside_nobody(shards: ParIter[world.Rollout]) -> Iter[world.Gradients]:
    return shards.repartition(4).par_for_each(world.ComputeGradients()).gather_async()  # ERR no actor PLUGIN placement


def beside_values() -> Iter[world.Gradients]:
    values = par_from_range(3).par_map(lambda n: world.Rollout())
    return values.par_for_each(world.ComputeGradients()).gather_async()  # ERR no actor PLUGIN placement
