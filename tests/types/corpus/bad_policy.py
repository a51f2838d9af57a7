"""Mistakes of policies: experience is asked for of a policy that the workers do not have.

Where the names are in the types, every checker knows; where they are keys of a mapping, only the plugin does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeVar

from rl_good import LOSSES, dqn_plan, policy_of, ppo_plan

from tflow import (
    Async, Batch, create_replay_actors, create_rollout_workers, flow, Iter, Metrics, ParallelReplay,
    ParallelRollouts, Plan, plan, ReportMetrics, Rollout, Select, StoreToBuffer, Sync, TrainOneStep,
    TrainStats, Union,
)
from tflow.actors import MultiReplayActors, MultiWorkers
from tflow.data import MultiBatch
from tflow.losses import A3CLoss, DQNLoss, PPOLoss

Both = Literal["PPO", "DQN"]
K = TypeVar("K", bound=str)
C = TypeVar("C", bound=Async)
MISSPELT: Final = "PPOO"
workers = create_rollout_workers(env="x", losses=LOSSES, policy_of=policy_of)
open_names = create_rollout_workers(env="x", losses={"PPO": PPOLoss(), "DQN": DQNLoss()}, policy_of=str.upper)


def pick(stream: Iter[MultiBatch[K, Both], C], policy: Both) -> Iter[Batch[K], C]:
    """Not marked: a helper like any other."""
    return Select(stream, policy=policy)


@flow
def trained(stream: Iter[Rollout]) -> Iter[TrainStats]:
    return stream.for_each(TrainOneStep(workers, loss=A3CLoss()))


# --------------------------------------------------------------------------- names in the types


@plan
def misspelt() -> Plan[Metrics]:
    r1, r2 = ParallelRollouts(workers).split()
    ppo_op = ppo_plan(Select(r1, policy="PPOO"), workers)  # ERR PPO PLUGIN policy
    dqn_op = dqn_plan(Select(r2, policy="DQN"), workers)
    return ReportMetrics(Union(ppo_op, dqn_op), workers)


@plan
def in_lower_case() -> Plan[Metrics]:
    rollouts = ParallelRollouts(workers).gather_sync()
    dqn_op = dqn_plan(
        Select(rollouts, policy="dqn"),  # ERR DQN PLUGIN policy
        workers,
    )
    return ReportMetrics(dqn_op, workers)


@plan
def of_nobody() -> Plan[Metrics]:
    chosen = Select(ParallelRollouts(workers).gather_async(), policy="random")  # ERR there are PPO and DQN PLUGIN policy
    return ReportMetrics(trained(chosen), workers)


@plan
def the_only_one() -> Plan[Metrics]:
    """With one policy the stream is not of several, so there is nothing to select."""
    one = create_rollout_workers(env="x", loss=A3CLoss())
    chosen = Select(ParallelRollouts(one).gather_sync(), policy="default")  # ERR of one policy PLUGIN flow
    return ReportMetrics(chosen.for_each(TrainOneStep(one)), one)


@plan
def by_a_constant() -> Plan[Metrics]:
    chosen = Select(ParallelRollouts(workers).gather_sync(), policy=MISSPELT)  # ERR PPO PLUGIN policy
    return ReportMetrics(trained(chosen), workers)


@plan
def of_given_workers(many: MultiWorkers[Literal["left", "right"]]) -> Plan[Metrics]:
    chosen = Select(ParallelRollouts(many).gather_async(), policy="middle")  # ERR left or right PLUGIN policy
    return ReportMetrics(trained(chosen), many)


@flow
def of_a_given_stream(stream: Iter[MultiBatch[K, Both]]) -> Iter[Batch[K]]:
    return Select(stream, policy="SAC")  # ERR PPO or DQN PLUGIN policy


@flow
def of_replay(replay: MultiReplayActors[Both]) -> Iter[TrainStats]:
    again = Select(ParallelReplay(replay).gather_async(), policy="DQM")  # ERR DQN PLUGIN policy
    return again.for_each(TrainOneStep(workers, loss=DQNLoss()))


@flow
def in_a_generic_flow(stream: Iter[MultiBatch[K, Both], C]) -> Iter[Batch[K], C]:
    return Select(stream, policy="A3C")  # ERR PPO or DQN PLUGIN policy


@flow
def through_a_helper(stream: Iter[MultiBatch[K, Both], Sync]) -> Iter[Batch[K]]:
    return pick(stream, "PPOO")  # ERR PPO PLUGIN policy


@plan
def empty_name() -> Plan[Metrics]:
    chosen = Select(ParallelRollouts(workers).gather_sync(), policy="")  # ERR PPO or DQN PLUGIN policy
    return ReportMetrics(trained(chosen), workers)


# --------------------------------------------------------------------------- names in a mapping


@plan
def misspelt_key() -> Plan[Metrics]:
    many = create_rollout_workers(env="x", losses={"PPO": PPOLoss(), "DQN": DQNLoss()}, policy_of=str.upper)
    chosen = Select(ParallelRollouts(many).gather_sync(), policy="PPOO")  # PLUGIN policy
    return ReportMetrics(trained(chosen), many)


@plan
def misspelt_key_of_a_branch() -> Plan[Metrics]:
    many = create_rollout_workers(env="x", losses={"PPO": PPOLoss(), "DQN": DQNLoss()}, policy_of=lambda agent: agent[:3])
    r1, r2 = ParallelRollouts(many).split()
    ppo_op = ppo_plan(Select(r1, policy="PPO"), many)
    dqn_op = dqn_plan(Select(r2, policy="DQNN"), many)  # PLUGIN policy
    return ReportMetrics(Union(ppo_op, dqn_op), many)


@plan
def misspelt_key_of_the_module() -> Plan[Metrics]:
    rollouts = ParallelRollouts(open_names).gather_async()
    chosen = Select(rollouts, policy="QDN")  # PLUGIN policy
    return ReportMetrics(trained(chosen), open_names)


@plan
def misspelt_on_the_way() -> Plan[Metrics]:
    rollouts = ParallelRollouts(open_names).gather_async().filter(lambda item: len(item) > 0).named("filtered")
    chosen = Select(rollouts, policy="ppo")  # PLUGIN policy
    return ReportMetrics(trained(chosen), open_names)


# --------------------------------------------------------------------------- classes and paths


class Trainer:
    def __init__(self, many: MultiWorkers[Both]) -> None:
        self.many = many

    @plan
    def build(self) -> Plan[Metrics]:
        chosen = Select(ParallelRollouts(self.many).gather_sync(), policy="PP0")  # ERR PPO PLUGIN policy
        return ReportMetrics(trained(chosen), self.many)

    @staticmethod
    @plan
    def of_the_module() -> Plan[Metrics]:
        chosen = Select(ParallelRollouts(workers).gather_sync(), policy="PPO ")  # ERR PPO PLUGIN policy
        return ReportMetrics(trained(chosen), workers)


@plan
def on_one_path(first: bool) -> Plan[Metrics]:
    rollouts = ParallelRollouts(workers).gather_sync()
    if first:
        chosen = Select(rollouts, policy="PPO")
    else:
        chosen = Select(rollouts, policy="DNQ")  # ERR DQN PLUGIN policy
    return ReportMetrics(trained(chosen), workers)


@flow
def by_ternary(stream: Iter[MultiBatch[K, Both]], first: bool) -> Iter[Batch[K]]:
    return Select(stream, policy="PPO") if first else Select(stream, policy="DDPG")  # ERR PPO or DQN PLUGIN policy


@plan
def in_a_loop() -> Plan[Metrics]:
    found: list[Iter[TrainStats]] = []
    for branch in ParallelRollouts(workers).split(3):
        found.append(trained(Select(branch, policy="PPOO")))  # ERR PPO PLUGIN policy
    return ReportMetrics(Union(*found), workers)


@plan
def in_a_comprehension() -> Plan[Metrics]:
    rollouts = ParallelRollouts(workers).gather_async()
    found = [trained(Select(branch, policy="none")) for branch in rollouts.split(2)]  # ERR PPO or DQN PLUGIN policy
    return ReportMetrics(Union(*found), workers)


def planner(many: MultiWorkers[Both]) -> Callable[[], Plan[Metrics]]:
    @plan
    def build() -> Plan[Metrics]:
        chosen = Select(ParallelRollouts(many).gather_sync(), policy="QDN")  # ERR DQN PLUGIN policy
        return ReportMetrics(trained(chosen), many)

    return build


@flow
def when_it_fails(stream: Iter[MultiBatch[K, Both]], rows: str) -> Iter[Batch[K]]:
    try:
        return Select(stream, policy="PPO").take(int(rows))
    except ValueError:
        return Select(stream, policy="P")  # ERR PPO PLUGIN policy


@plan
def stored_for_others() -> Plan[Metrics]:
    policies: tuple[Both, ...] = ("PPO", "DQN")
    replay = create_replay_actors(policies=policies)
    store = ParallelRollouts(workers).gather_async().for_each(StoreToBuffer(replay)).drain()
    again = Select(ParallelReplay(replay).gather_async(), policy="TD3")  # ERR PPO or DQN PLUGIN policy
    return ReportMetrics(Union(store, again.for_each(TrainOneStep(workers, loss=DQNLoss()))), workers)
