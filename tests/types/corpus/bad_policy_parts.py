"""Policies that are not there, named to learners, sub-flows, functions and replay."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from rl_good import LOSSES, policy_of

from tflow import (
    create_learner, create_replay_actors, create_rollout_workers, flow, Iter, LearnOnBatch, Metrics, ParallelReplay,
    ParallelRollouts, Plan, plan, ReportMetrics, Rollout, Select, SendWeights, StoreToBuffer, TrainStats, Union, Workers,
)
from tflow.actors import MultiWorkers
from tflow.algos import ApeX, apex_plan, create_multi_workers, IMPALA, impala_plan
from tflow.losses import DQNLoss, IMPALALoss, PPOLoss

BASE = {"fox": PPOLoss()}
POLICIES = {"agent_0": "fox", "agent_1": "chicken"}


class Who(StrEnum):
    FOX = "fox"
    HEN = "hen"
    DOG = "dog"


def by_number(agent: str) -> str:
    return "fox" if agent == "agent_0" else "hen"


def to_the_dog(agent: str) -> Who:
    return Who.DOG if agent == "agent_0" else Who.HEN


# --------------------------------------------------------------------------- learners and sub-flows


@flow
def learner_of_nobody() -> Iter[TrainStats]:
    workers = create_rollout_workers(
        env="x", losses={"fox": IMPALALoss(), "hen": IMPALALoss()}, policy_of=by_number
    )
    learner = create_learner(workers, policy="HEN")  # PLUGIN policy
    rollouts = Select(ParallelRollouts(workers).gather_async(), policy="hen")
    return rollouts.hand_off(learner, LearnOnBatch()).for_each(SendWeights(workers, learner))


@flow
def which_of_them(workers: MultiWorkers[Literal["fox", "hen"]]) -> Iter[TrainStats]:
    learner = create_learner(workers)  # PLUGIN policy
    rollouts = Select(ParallelRollouts(workers).gather_async(), policy="hen")
    return rollouts.hand_off(learner, LearnOnBatch()).for_each(SendWeights(workers, learner))


@plan
def only_one() -> Plan[Metrics]:
    config = ApeX(num_workers=1)
    workers = config.workers(config.loss())
    stats = apex_plan(ParallelRollouts(workers), workers, config, policy="apex")  # PLUGIN policy
    return ReportMetrics(stats, workers)


@plan
def left_to_the_default() -> Plan[Metrics]:
    config = IMPALA()
    workers = create_multi_workers({"fox": config, "hen": config}, env="x", policy_of=by_number)
    rollouts = Select(ParallelRollouts(workers).gather_async(), policy="fox")
    return ReportMetrics(impala_plan(rollouts, workers, config), workers)  # PLUGIN policy


def trained() -> object:
    config = ApeX(num_workers=1)
    workers = config.workers(config.loss())
    run = ReportMetrics(apex_plan(ParallelRollouts(workers), workers, config), workers).run()
    return workers.policy(run, "apex")  # PLUGIN policy


# --------------------------------------------------------------------------- functions


NOT_THERE = create_rollout_workers(
    env="x",
    losses={"fox": PPOLoss(), "hen": PPOLoss()},
    policy_of=lambda agent: "fox" if agent == "agent_0" else "hens",  # PLUGIN policy
)
BY_A_MAPPING = create_rollout_workers(
    env="x",
    losses={"fox": PPOLoss(), "hen": PPOLoss()},
    policy_of=lambda agent: POLICIES[agent],  # PLUGIN policy
)
BY_MEMBERS = create_rollout_workers(
    env="x",
    losses={Who.FOX: PPOLoss(), Who.HEN: PPOLoss()},
    policy_of=to_the_dog,  # PLUGIN policy
)


# --------------------------------------------------------------------------- names that are worked out


@flow
def merged() -> Iter[object]:
    workers = create_rollout_workers(env="x", losses={**BASE, "hen": PPOLoss()}, policy_of=by_number)
    return Select(ParallelRollouts(workers).gather_sync(), policy="Hen")  # PLUGIN policy


@flow
def in_a_loop() -> Iter[object]:
    workers = create_rollout_workers(env="x", losses={"fox": PPOLoss(), "hen": PPOLoss()}, policy_of=by_number)
    branches = ParallelRollouts(workers).gather_sync().split(2)
    return Union(*[Select(branch, policy=name) for branch, name in zip(branches, ("fox", "hound"))])  # PLUGIN policy


class Setup:
    def __init__(self) -> None:
        self.workers = create_rollout_workers(
            env="x", losses={"fox": PPOLoss(), "hen": PPOLoss()}, policy_of=by_number
        )

    def fox(self) -> Iter[object]:
        rollouts = ParallelRollouts(self.workers).gather_sync()
        return Select(rollouts, policy="vox")  # PLUGIN policy


# --------------------------------------------------------------------------- replay


@flow
def nowhere_to_store() -> Iter[object]:
    workers = create_rollout_workers(env="x", losses={"fox": DQNLoss(), "hen": DQNLoss()}, policy_of=by_number)
    replay = create_replay_actors(policies=("fox", "heN"))
    stored = ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay))  # PLUGIN policy
    return Union(stored.drain(), Select(ParallelReplay(replay).gather_sync(), policy="fox"))


# --------------------------------------------------------------------------- right


ANNOTATED = create_rollout_workers(env="x", losses=LOSSES, policy_of=policy_of)


@flow
def right(workers: Workers[Rollout]) -> Iter[object]:
    learner = create_learner(workers, policy="default")
    return ParallelRollouts(workers).gather_async().hand_off(learner, LearnOnBatch())
