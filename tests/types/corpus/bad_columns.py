"""Mistakes of columns: a batch lacks a column that an operator, a loss or a sub-flow reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar

import numpy as np
from rl_good import LOSSES, policy_of

from tflow import (
    AddColumns, Async, Batch, ComputeAdvantages, ConcatBatches, ConcatRounds, create_learner, create_replay_actors,
    create_rollout_workers, flow, Iter, LearnOnBatch, Metrics, ParallelReplay, ParallelRollouts, ParIter, Plan, plan,
    ReportMetrics, Rollout, Select, StandardizeFields, Stateless, StoreToBuffer, Sync, TrainOneStep,
    TrainStats, Union, UpdatePriorities,
)
from tflow.actors import AnyWorkers
from tflow.data import Replayed
from tflow.losses import A3CLoss, DQNLoss, PPOLoss

K = TypeVar("K", bound=str)
C = TypeVar("C", bound=Async)
on = create_rollout_workers(env="CartPole-v1", loss=PPOLoss())
off = create_rollout_workers(env="CartPole-v1", loss=DQNLoss())
many = create_rollout_workers(env="x", losses=LOSSES, policy_of=policy_of)
Wider = Batch[Literal["obs", "actions", "logp", "values", "advantages", "returns"]]


class ClipRewards(AddColumns[Literal["rewards"], Literal["clipped"]]):
    def compute(self, batch: Batch[Literal["rewards"]], /) -> Mapping[Literal["clipped"], np.ndarray]:
        return {"clipped": np.clip(batch["rewards"], -1, 1)}


class Squash(AddColumns[Literal["clipped"], Literal["squashed"]]):
    def compute(self, batch: Batch[Literal["clipped"]], /) -> Mapping[Literal["squashed"], np.ndarray]:
        return {"squashed": np.tanh(batch["clipped"])}


class MeanAdvantage(Stateless[Batch[Literal["advantages"]], float]):
    def apply(self, item: Batch[Literal["advantages"]], /) -> float:
        return float(item["advantages"].mean())


@flow
def learned(stream: Iter[Wider, Sync], by: AnyWorkers) -> Iter[TrainStats]:
    return stream.for_each(TrainOneStep(by, loss=PPOLoss()))


@flow
def with_rewards(stream: Iter[Batch[Literal["rewards", "ids"]]]) -> Iter[float]:
    return stream.map(lambda batch: float(batch["rewards"].mean()))


@flow
def larger(stream: Iter[Batch[K], C]) -> Iter[Batch[K], C]:
    return ConcatBatches(stream, rows=100)


def helper(stream: Iter[Batch[Literal["advantages"]]]) -> Iter[float]:
    """Not marked: a helper like any other."""
    return stream.for_each(MeanAdvantage())


# --------------------------------------------------------------------------- training


@plan
def forgets_advantages() -> Plan[Metrics]:
    rollouts = ParallelRollouts(on).gather_sync()
    return ReportMetrics(rollouts.for_each(TrainOneStep(on)), on)  # ERR no advantages PLUGIN columns


@plan
def forgets_advantages_of_rounds() -> Plan[Metrics]:
    rounds = ConcatRounds(ParallelRollouts(on).gather_rounds())
    stats = rounds.for_each(
        TrainOneStep(on, epochs=4, minibatch=128),  # ERR no advantages PLUGIN columns
    )
    return ReportMetrics(stats, on)


@plan
def adds_another_column() -> Plan[Metrics]:
    clipped = ParallelRollouts(on).par_with_columns(ClipRewards()).gather_sync()
    return ReportMetrics(clipped.for_each(TrainOneStep(on)), on)  # ERR no advantages PLUGIN columns


@plan
def loss_of_another_kind() -> Plan[Metrics]:
    by = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
    stats = ParallelRollouts(by).gather_sync().for_each(TrainOneStep(by, loss=PPOLoss()))  # ERR no advantages PLUGIN columns
    return ReportMetrics(stats, by)


@plan
def learns_without_replay() -> Plan[Metrics]:
    stats = ParallelRollouts(off).gather_async().for_each(TrainOneStep(off))  # ERR no next_obs PLUGIN columns
    return ReportMetrics(stats, off)


@plan
def judges_without_replay() -> Plan[Metrics]:
    replay = create_replay_actors()
    rollouts = ParallelRollouts(off).gather_async().for_each(StoreToBuffer(replay))
    judged = rollouts.for_each(UpdatePriorities(off))  # ERR no next_obs PLUGIN columns
    return ReportMetrics(judged.for_each(TrainOneStep(off)), off)


@plan
def advantages_of_replay() -> Plan[Metrics]:
    replayed = ParallelReplay(create_replay_actors()).gather_async()
    wider = replayed.with_columns(ComputeAdvantages())  # ERR replay has no values PLUGIN columns
    return ReportMetrics(wider.for_each(TrainOneStep(off)), off)


# --------------------------------------------------------------------------- operators on columns


@flow
def standardizes_nothing(stream: Iter[Rollout, Sync]) -> Iter[Rollout]:
    return stream.with_columns(StandardizeFields("advantages"))  # ERR no advantages PLUGIN columns


@flow
def standardizes_one_of_two(stream: Iter[Rollout]) -> Iter[Rollout]:
    return stream.with_columns(StandardizeFields("rewards", "returns"))  # ERR no returns PLUGIN columns


@flow
def standardizes_inside(shards: ParIter[Rollout]) -> Iter[Rollout]:
    return shards.par_with_columns(StandardizeFields("advantages")).gather_sync()  # ERR no advantages PLUGIN columns


@flow
def misspells(stream: Iter[Rollout]) -> Iter[Rollout]:
    return stream.with_columns(StandardizeFields("reward"))  # ERR rewards PLUGIN columns


@flow
def in_the_wrong_order(shards: ParIter[Rollout]) -> Iter[Batch[Literal["clipped"]]]:
    first = shards.par_with_columns(Squash())  # ERR clipped comes later PLUGIN columns
    return first.par_with_columns(ClipRewards()).gather_async()


@flow
def own_operator(stream: Iter[Rollout]) -> Iter[float]:
    return stream.for_each(MeanAdvantage())  # ERR no advantages PLUGIN columns


@flow
def own_operator_inside(shards: ParIter[Rollout]) -> Iter[float]:
    return shards.par_for_each(MeanAdvantage()).gather_async()  # ERR no advantages PLUGIN columns


@flow
def few_columns(stream: Iter[Batch[Literal["rewards", "values"]]]) -> Iter[Batch[Literal["advantages"]]]:
    return stream.with_columns(ComputeAdvantages())  # ERR no terminated PLUGIN columns


# --------------------------------------------------------------------------- through functions


@plan
def through_a_flow() -> Plan[Metrics]:
    rollouts = ParallelRollouts(on).gather_sync()
    return ReportMetrics(learned(rollouts, on), on)  # ERR the sub-flow reads advantages PLUGIN columns


@flow
def through_a_flow_of_replay(stream: Iter[Rollout]) -> Iter[float]:
    return with_rewards(stream)  # ERR the sub-flow reads ids PLUGIN columns


@flow
def through_a_helper(stream: Iter[Rollout]) -> Iter[float]:
    return helper(stream)  # ERR the helper reads advantages PLUGIN columns


@plan
def through_a_generic_flow() -> Plan[Metrics]:
    rollouts = larger(ParallelRollouts(on).gather_sync())
    return ReportMetrics(rollouts.for_each(TrainOneStep(on)), on)  # ERR no advantages PLUGIN columns


@flow
def in_a_generic_flow(stream: Iter[Batch[K], C]) -> Iter[float, C]:
    return stream.for_each(MeanAdvantage())  # ERR nobody knows what it has PLUGIN flow


# --------------------------------------------------------------------------- several policies, classes, paths


@plan
def of_one_policy() -> Plan[Metrics]:
    r1, r2 = ParallelRollouts(many).split()
    first = Select(r1, policy="PPO").for_each(TrainOneStep(many, loss=PPOLoss()))  # ERR no advantages PLUGIN columns
    return ReportMetrics(Union(first, Select(r2, policy="DQN").drain()), many)


@plan
def of_the_other_policy() -> Plan[Metrics]:
    r1, r2 = ParallelRollouts(many).split()
    first = learned(Select(r1, policy="PPO").with_columns(ComputeAdvantages()), many)
    second = Select(r2, policy="DQN").for_each(TrainOneStep(many, loss=DQNLoss()))  # ERR no next_obs PLUGIN columns
    return ReportMetrics(Union(first, second), many)


class Trainer:
    loss = PPOLoss()

    @flow
    def prepared(self, stream: Iter[Rollout, Sync]) -> Iter[Batch[Literal["clipped"]], Sync]:
        return stream.with_columns(ClipRewards())

    @plan
    def build(self) -> Plan[Metrics]:
        clipped = self.prepared(ParallelRollouts(on).gather_sync())
        return ReportMetrics(clipped.for_each(TrainOneStep(on, loss=self.loss)), on)  # ERR all is lost PLUGIN columns

    @classmethod
    @flow
    def squashed(cls, stream: Iter[Rollout]) -> Iter[Batch[Literal["squashed"]]]:
        return stream.with_columns(Squash())  # ERR nothing is clipped PLUGIN columns


@plan
def on_one_path(advantages: bool) -> Plan[Metrics]:
    rollouts = ParallelRollouts(on).gather_sync()
    if advantages:
        stats = rollouts.with_columns(ComputeAdvantages()).for_each(TrainOneStep(on))
    else:
        stats = rollouts.for_each(TrainOneStep(on))  # ERR no advantages PLUGIN columns
    return ReportMetrics(stats, on)


@flow
def in_a_loop(stream: Iter[Rollout], fields: list[Literal["rewards", "returns"]]) -> Iter[Rollout]:
    for field in fields:
        stream = stream.with_columns(StandardizeFields(field))  # ERR no returns PLUGIN columns
    return stream


@flow
def when_it_fails(stream: Iter[Replayed], rows: int) -> Iter[float]:
    try:
        return ConcatBatches(stream, rows=rows).map(lambda batch: float(batch["weights"].mean()))
    except ValueError:
        return stream.for_each(MeanAdvantage())  # ERR replay has no advantages PLUGIN columns


@flow
def in_a_comprehension(stream: Iter[Rollout]) -> Iter[float]:
    return Union(*[branch.for_each(MeanAdvantage()) for branch in stream.split(2)])  # ERR no advantages PLUGIN columns


def not_marked() -> None:
    """A test or a script: the operators are the same."""
    stream = ParallelRollouts(on).gather_sync().with_columns(StandardizeFields("returns"))  # ERR no returns PLUGIN columns
    print(list(stream.take(1).run()))


learns = create_learner(on)


def learns_without_advantages() -> Iter[TrainStats]:
    rollouts = ParallelRollouts(on).gather_sync()
    return rollouts.call(learns, LearnOnBatch())  # PLUGIN columns


def misspelt(batch: Rollout) -> float:
    return float(batch["reward"].sum())  # ERR no such column PLUGIN columns


def misspelt_new_column(batch: Rollout) -> float:
    wider = batch.with_columns({"advantage": batch["rewards"]})
    return float(wider["advantages"].sum())  # PLUGIN columns


@plan
def too_few_new_columns() -> Plan[Metrics]:
    rollouts = ParallelRollouts(on).gather_sync().map(lambda batch: batch.with_columns({"advantages": batch["rewards"]}))
    return ReportMetrics(rollouts.for_each(TrainOneStep(on)), on)  # PLUGIN columns
