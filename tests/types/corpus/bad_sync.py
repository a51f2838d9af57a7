"""Mistakes of synchrony: on-policy training on a stream whose items may be older than the last update."""

from __future__ import annotations

from typing import TypeVar

import world
from rl_good import LOSSES, policy_of
from world import OnPolicyStep, Worker

from tflow import (
    Async, Batch, ComputeAdvantages, ConcatBatches, ConcatRounds, create_learner, create_replay_actors, create_rollout_workers, flow, from_actors,
    Iter, LearnOnBatch, Metrics, ParallelReplay, ParallelRollouts, ParIter, ParUnion, Plan, plan, ReportMetrics, Rollout, Select,
    StandardizeFields, Stateless, Sync, TrainOneStep, TrainStats, Union,
)
from tflow.actors import AnyWorkers, MultiWorkers
from tflow.losses import A3CLoss, DQNLoss, PPOLoss, Replayed
from tflow.operators import aggregate, MixInReplay

T = TypeVar("T")
K = TypeVar("K", bound=str)
workers = create_rollout_workers(env="CartPole-v1", loss=PPOLoss())
many = create_rollout_workers(env="x", losses=LOSSES, policy_of=policy_of)


def sampled() -> ParIter[world.Rollout]:
    return from_actors(world.workers, Worker.sample)


@flow
def ppo(stream: Iter[Rollout, Sync], by: AnyWorkers) -> Iter[TrainStats]:
    return stream.with_columns(ComputeAdvantages()).for_each(TrainOneStep(by, loss=PPOLoss()))


@flow
def fresh(stream: Iter[T, Sync]) -> Iter[T, Sync]:
    return stream.filter(lambda item: item is not None)


def helper(stream: Iter[world.Rollout, Sync]) -> Iter[world.TrainStats]:
    """Not marked: a helper like any other."""
    return stream.for_each(OnPolicyStep())


def mixed(stream: Iter[T]) -> Iter[T]:
    """A helper that forgets the barrier: it asks for any stream and gives one that promises nothing."""
    return stream.named("mixed")


# --------------------------------------------------------------------------- gathered without a barrier


@plan
def gathered_async() -> Plan[Metrics]:
    wider = ParallelRollouts(workers).par_with_columns(ComputeAdvantages()).gather_async()
    return ReportMetrics(wider.for_each(TrainOneStep(workers)), workers)  # ERR on-policy PLUGIN sync


@plan
def gathered_async_in_one_chain() -> Plan[Metrics]:
    rollouts = ParallelRollouts(workers).gather_async(in_flight=2).with_columns(ComputeAdvantages())
    standard = rollouts.with_columns(StandardizeFields("advantages"))
    stats = standard.for_each(TrainOneStep(workers, epochs=4))  # ERR on-policy PLUGIN sync
    return ReportMetrics(stats, workers)


@plan
def with_a_loss_of_its_own() -> Plan[Metrics]:
    by = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
    wider = ParallelRollouts(by).gather_async().with_columns(ComputeAdvantages())
    return ReportMetrics(wider.for_each(TrainOneStep(by, loss=PPOLoss())), by)  # ERR on-policy PLUGIN sync


@flow
def tiny() -> Iter[world.TrainStats]:
    return sampled().gather_async().for_each(OnPolicyStep())  # ERR on-policy PLUGIN sync


@flow
def over_several_lines() -> Iter[world.TrainStats]:
    return (
        sampled()
        .gather_async(in_flight=2)
        .tap(print)
        .for_each(
            OnPolicyStep(),  # ERR on-policy PLUGIN sync
        )
    )


@flow
def annotated_without_barrier(stream: Iter[world.Rollout]) -> Iter[world.TrainStats]:
    return stream.for_each(OnPolicyStep())  # ERR on-policy PLUGIN sync


# --------------------------------------------------------------------------- a barrier that is lost on the way


@flow
def shuffled(stream: Iter[world.Rollout, Sync]) -> Iter[world.TrainStats]:
    return stream.shuffle(4).for_each(OnPolicyStep())  # ERR items wait in the buffer PLUGIN sync


@flow
def united(left: Iter[world.Rollout, Sync], right: Iter[world.Rollout, Sync]) -> Iter[world.TrainStats]:
    return Union(left, right).for_each(OnPolicyStep())  # ERR a union is asynchronous PLUGIN sync


@flow
def drifted(stream: Iter[world.Rollout, Sync]) -> Iter[world.TrainStats | world.Rollout]:
    left, right = stream.split(max_lag=2)
    return Union(left.for_each(OnPolicyStep()), right)  # ERR branches may drift PLUGIN sync


@flow
def shuffled_inside(shards: ParIter[world.Rollout]) -> Iter[world.TrainStats]:
    return shards.par_shuffle(4).gather_sync().for_each(OnPolicyStep())  # ERR items wait in actors PLUGIN sync


@flow
def flattened_inside(shards: ParIter[world.Rollout]) -> Iter[world.TrainStats]:
    stream = shards.par_flat_map(lambda rollout: [rollout, rollout]).gather_sync()
    return stream.for_each(OnPolicyStep())  # ERR items wait in actors PLUGIN sync


@flow
def repartitioned(shards: ParIter[world.Rollout]) -> Iter[world.TrainStats]:
    return shards.repartition(2).gather_sync().for_each(OnPolicyStep())  # ERR pulled ahead of time PLUGIN sync


@flow
def side_by_side(shards: ParIter[world.Rollout]) -> Iter[world.TrainStats]:
    both = ParUnion(shards, sampled().par_shuffle(3)).gather_sync()
    return both.for_each(OnPolicyStep())  # ERR one of them holds items back PLUGIN sync


@plan
def aggregated() -> Plan[Metrics]:
    batches = aggregate(ParallelRollouts(workers), aggregators=2, batches=4).gather_sync()
    return ReportMetrics(ppo(batches, workers), workers)  # ERR aggregation pulls ahead PLUGIN sync


@plan
def cut_exactly() -> Plan[Metrics]:
    wider = ParallelRollouts(workers).gather_sync().with_columns(ComputeAdvantages())
    batches = ConcatBatches(wider, rows=512, exact=True)
    return ReportMetrics(batches.for_each(TrainOneStep(workers)), workers)  # ERR rows are cut off PLUGIN sync


@plan
def mixed_with_replay() -> Plan[Metrics]:
    rollouts = ParallelRollouts(workers).par_with_columns(ComputeAdvantages())
    again = MixInReplay(ConcatRounds(rollouts.gather_rounds()), slots=4, proportion=1.0)
    return ReportMetrics(again.for_each(TrainOneStep(workers)), workers)  # ERR earlier items PLUGIN sync


# --------------------------------------------------------------------------- through functions


@plan
def through_a_flow() -> Plan[Metrics]:
    rollouts = ParallelRollouts(workers).gather_async()
    stats = ppo(
        rollouts,  # ERR the sub-flow is on-policy PLUGIN sync
        workers,
    )
    return ReportMetrics(stats, workers)


@flow
def through_a_helper(stream: Iter[world.Rollout]) -> Iter[world.TrainStats]:
    return helper(stream)  # ERR the helper is on-policy PLUGIN sync


@flow
def through_a_helper_that_forgets(stream: Iter[world.Rollout, Sync]) -> Iter[world.TrainStats]:
    return mixed(stream).for_each(OnPolicyStep())  # ERR the barrier is forgotten PLUGIN sync


@flow
def through_a_generic_flow(shards: ParIter[world.Rollout]) -> Iter[world.Rollout]:
    return fresh(shards.gather_async())  # ERR the sub-flow needs a barrier PLUGIN sync


@flow
def in_a_generic_flow(stream: Iter[T]) -> Iter[T, Async]:
    return fresh(stream)  # ERR the sub-flow needs a barrier PLUGIN sync


@flow
def in_a_flow_over_columns(stream: Iter[Batch[K], Sync], by: AnyWorkers) -> Iter[Batch[K]]:
    return fresh(MixInReplay(stream, slots=len(by.name), proportion=0.5))  # ERR earlier items PLUGIN sync


# --------------------------------------------------------------------------- several policies, classes, paths


@plan
def of_several_policies() -> Plan[Metrics]:
    r1, r2 = ParallelRollouts(many).gather_async().split()
    first = ppo(Select(r1, policy="PPO"), many)  # ERR the sub-flow is on-policy PLUGIN sync
    return ReportMetrics(Union(first, r2.drain()), many)


@plan
def of_policies_that_drift(by: MultiWorkers[str]) -> Plan[Metrics]:
    r1, r2 = ParallelRollouts(by).split(max_lag=3)
    first = Select(r1, policy="PPO").with_columns(ComputeAdvantages())
    stats = first.for_each(TrainOneStep(by, loss=PPOLoss()))  # ERR branches may drift PLUGIN sync
    return ReportMetrics(Union(stats, r2.drain()), by)


class Trainer:
    def __init__(self, by: AnyWorkers) -> None:
        self.by = by

    @flow
    def trained(self, stream: Iter[Rollout, Sync]) -> Iter[TrainStats]:
        return ppo(stream, self.by)

    @plan
    def build(self) -> Plan[Metrics]:
        rollouts = ParallelRollouts(workers).gather_async()
        return ReportMetrics(self.trained(rollouts), self.by)  # ERR the method is on-policy PLUGIN sync


@flow
def on_one_path(shards: ParIter[world.Rollout], quick: bool) -> Iter[world.TrainStats]:
    if quick:
        return shards.gather_async().for_each(OnPolicyStep())  # ERR on-policy PLUGIN sync
    return shards.gather_sync().for_each(OnPolicyStep())


@flow
def chosen_gather(shards: ParIter[world.Rollout], quick: bool) -> Iter[world.TrainStats]:
    stream = shards.gather_async() if quick else shards.gather_sync()
    return stream.for_each(OnPolicyStep())  # ERR it may be asynchronous PLUGIN sync


@flow
def in_a_loop(pools: list[ParIter[world.Rollout]]) -> Iter[world.TrainStats]:
    found: list[Iter[world.TrainStats]] = []
    for pool in pools:
        found.append(pool.gather_async().for_each(OnPolicyStep()))  # ERR on-policy PLUGIN sync
    return Union(*found)


@flow
def when_it_fails(shards: ParIter[world.Rollout], seconds: float) -> Iter[world.TrainStats]:
    try:
        return shards.gather_sync(timeout_s=seconds).for_each(OnPolicyStep())
    except ValueError:
        return shards.gather_async().for_each(OnPolicyStep())  # ERR on-policy PLUGIN sync


def not_marked() -> None:
    """A test or a script: the operators are the same."""
    by = create_rollout_workers(env="x", losses={"A": PPOLoss(), "B": DQNLoss()}, policy_of=str.upper)
    stream = Select(ParallelRollouts(by).gather_async(), policy="A")
    print(ppo(stream, by))  # ERR the sub-flow is on-policy PLUGIN sync


@flow
def under_the_same_name(stream: Iter[world.Rollout]) -> Iter[world.TrainStats]:
    stream = stream.filter(lambda rollout: rollout is not None)
    return stream.for_each(world.OnPolicyStep())  # ERR declared without a barrier PLUGIN sync


class Fresh(Stateless[Replayed, int, Sync]):
    """An operator of one's own that needs fresh items."""

    def apply(self, item: Replayed, /) -> int:
        return len(item)


replay = create_replay_actors(capacity=10_000, batch=10)


def stored_and_gathered() -> Iter[int]:
    return ParallelReplay(replay).gather_sync().for_each(Fresh())  # ERR replay is never fresh PLUGIN sync


def stored_and_gathered_by_rounds() -> Iter[int]:
    return ConcatRounds(ParallelReplay(replay).gather_rounds()).for_each(Fresh())  # ERR replay is never fresh PLUGIN sync


learner = create_learner(workers)


def handed_off() -> Iter[TrainStats]:
    rollouts = ParallelRollouts(workers).gather_sync().with_columns(ComputeAdvantages())
    return rollouts.hand_off(learner, LearnOnBatch())  # PLUGIN sync


def called_asynchronously() -> Iter[TrainStats]:
    rollouts = ParallelRollouts(workers).gather_async().with_columns(ComputeAdvantages())
    return rollouts.call(learner, LearnOnBatch())  # PLUGIN sync


class Clipped:
    def clip(self, stream: Iter[Rollout]) -> Iter[Rollout]:
        return stream.take(3)

    def plan(self) -> Plan[Metrics]:
        rollouts = self.clip(ParallelRollouts(workers).gather_sync()).with_columns(ComputeAdvantages())
        return ReportMetrics(rollouts.for_each(TrainOneStep(workers)), workers)  # ERR the method promises no barrier PLUGIN sync
