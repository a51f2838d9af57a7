"""Mistakes in plans of reinforcement learning that every checker rejects."""

from __future__ import annotations

from typing import Literal

from rl_good import LOSSES, policy_of, ppo_plan

from tflow import (
    ApplyGradients, Batch, ComputeAdvantages, ComputeGradients, create_learner, create_replay_actors,
    create_rollout_workers, from_items, Iter, LearnOnBatch, Metrics, ParallelReplay, ParallelRollouts, Plan,
    ReportMetrics, Rollout, Select, StandardizeFields, StoreToBuffer, TrainOneStep, TrainStats,
    UpdatePriorities,
)
from tflow.exploration import EpsilonGreedy
from tflow.losses import A3CLoss, DQNLoss, PPOLoss

one = create_rollout_workers(env="x", loss=PPOLoss())
many = create_rollout_workers(env="x", losses=LOSSES, policy_of=policy_of)
off = create_rollout_workers(env="x", loss=DQNLoss())
replay = create_replay_actors()


def on_policy() -> None:
    wider = ParallelRollouts(one).par_with_columns(ComputeAdvantages())
    wider.gather_async().for_each(TrainOneStep(one))  # ERR the loss is on-policy PLUGIN sync
    ppo_plan(Select(ParallelRollouts(many).gather_async(), policy="PPO"), many)  # ERR the sub-flow is on-policy PLUGIN sync


def missing_columns() -> None:
    stream = ParallelRollouts(one).gather_sync()
    stream.for_each(TrainOneStep(one))  # ERR no advantages PLUGIN columns
    stream.with_columns(StandardizeFields("advantages"))  # ERR nothing to standardise PLUGIN columns
    stream.for_each(UpdatePriorities(off))  # ERR not replayed PLUGIN columns
    stream.for_each(TrainOneStep(off))  # ERR not replayed PLUGIN columns


def several_policies() -> None:
    r1, r2 = ParallelRollouts(many).split()
    Select(r1, policy="PPOO")  # ERR no such policy PLUGIN policy
    r2.for_each(TrainOneStep(one))  # ERR of several policies PLUGIN flow
    Select(ParallelRollouts(one).gather_sync(), policy="PPO")  # ERR only one policy PLUGIN flow
    TrainOneStep(many)  # ERR whose loss?
    create_rollout_workers(env="x", losses=LOSSES)  # ERR whose agents?


def placement() -> None:
    stream = ParallelRollouts(one)
    stream.gather_sync().for_each(ComputeGradients())  # ERR beside a worker PLUGIN placement
    stream.gather_sync().for_each(ComputeAdvantages())  # ERR with_columns PLUGIN flow
    stream.par_for_each(ApplyGradients(one))  # ERR on the driver PLUGIN flow placement
    stream.par_for_each(StoreToBuffer(replay))  # ERR on the driver PLUGIN placement
    stream.gather_async().for_each(LearnOnBatch())  # ERR beside a learner PLUGIN placement
    stream.gather_async().hand_off(create_learner(one), ComputeGradients())  # ERR beside a worker PLUGIN placement


def arguments() -> None:
    ParallelRollouts(replay)  # ERR replay actors PLUGIN literal
    ParallelReplay(one)  # ERR workers PLUGIN literal
    StoreToBuffer(one)  # ERR workers PLUGIN literal
    create_rollout_workers(env="x")  # ERR no loss PLUGIN literal
    create_rollout_workers(env="x", loss=A3CLoss)  # ERR a class
    create_rollout_workers(env="x", loss=A3CLoss(), exploration=0.1)  # ERR a number PLUGIN literal
    EpsilonGreedy("0.1")  # ERR text PLUGIN literal
    ApplyGradients(one, to="everybody")  # ERR source or all PLUGIN literal
    create_replay_actors(kind="fifo")  # ERR no such kind PLUGIN literal


def columns(batch: Batch[Literal["rewards"]], rollout: Rollout) -> None:
    batch["values"]  # ERR no such column PLUGIN columns
    needs_values(batch)  # ERR fewer columns
    rollout["advantages"]  # ERR nobody has computed them PLUGIN columns
    ComputeAdvantages().compute(batch)  # ERR no values


def needs_values(batch: Batch[Literal["values"]]) -> None:
    return


def the_end(stream: Iter[TrainStats]) -> Plan[Metrics]:
    ReportMetrics(ParallelRollouts(one), one)  # ERR not gathered PLUGIN unused placement
    ReportMetrics(stream, replay)  # ERR replay actors PLUGIN unused literal
    return ReportMetrics(from_items([TrainStats()]), one)


def no_end(stream: Iter[TrainStats]) -> Plan[Metrics]:
    return stream  # ERR not a plan
