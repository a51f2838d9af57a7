"""Mistakes with algorithms and their sub-flows."""

from __future__ import annotations

from typing import Literal

from tflow import (
    create_replay_actors, create_rollout_workers, Metrics, ParallelReplay, ParallelRollouts, Plan, plan,
    ReportMetrics, Rollout, Select, SendWeights, Stop, Union,
)
from tflow.algos import ApeX, apex_plan, DQN, dqn_plan, impala_plan, MAML, maml_plan, PPO, ppo_plan
from tflow.losses import DQNLoss, PPOLoss
from tflow.rl.envs.samples import MultiCartPole

Names = Literal["first", "second"]
LOSSES: dict[Names, PPOLoss | DQNLoss] = {"first": PPOLoss(), "second": DQNLoss()}
workers = create_rollout_workers(env="CartPole-v1", loss=PPOLoss())


def policy_of(agent: str) -> Names:
    return "first" if agent == "agent_0" else "second"


@plan
def on_policy_on_an_async_stream() -> Plan[Metrics]:
    rollouts = ParallelRollouts(workers).gather_async()
    return ReportMetrics(ppo_plan(rollouts, workers), workers)  # ERR not synchronous PLUGIN sync


@plan
def on_policy_on_replay() -> Plan[Metrics]:
    replay = ParallelReplay(create_replay_actors()).gather_async()
    return ReportMetrics(ppo_plan(replay, workers), workers)  # ERR replayed rows PLUGIN columns sync


@plan
def a_parallel_stream_for_a_driver_flow() -> Plan[Metrics]:
    return ReportMetrics(impala_plan(ParallelRollouts(workers), workers), workers)  # ERR not gathered PLUGIN placement


@plan
def a_gathered_stream_for_a_flow_in_actors() -> Plan[Metrics]:
    return ReportMetrics(apex_plan(ParallelRollouts(workers).gather_async(), workers), workers)  # ERR gathered PLUGIN placement


@plan
def rollouts_that_adapted_to_nothing() -> Plan[Metrics]:
    return ReportMetrics(maml_plan(ParallelRollouts(workers).gather_sync(), workers), workers)  # ERR no tasks PLUGIN columns


@plan
def two_policies_at_once() -> Plan[Metrics]:
    several = create_rollout_workers(env=MultiCartPole, losses=LOSSES, policy_of=policy_of)
    return ReportMetrics(dqn_plan(ParallelRollouts(several).gather_sync(), several), several)  # ERR not selected PLUGIN flow


@plan
def a_policy_that_is_not_there() -> Plan[Metrics]:
    several = create_rollout_workers(env=MultiCartPole, losses=LOSSES, policy_of=policy_of)
    one, two = ParallelRollouts(several).split()
    trained = dqn_plan(Select(one, policy="third"), several)  # ERR no such policy PLUGIN policy
    return ReportMetrics(Union(trained, dqn_plan(Select(two, policy="second"), several)), several)


@plan
def one_stream_twice() -> Plan[Metrics]:
    rollouts = ParallelRollouts(workers).gather_sync()
    first = ppo_plan(rollouts, workers)
    second = dqn_plan(rollouts, workers)  # PLUGIN linear literal
    return ReportMetrics(Union(first, second), workers)


@plan
def a_config_of_another_algorithm() -> Plan[Metrics]:
    rollouts = ParallelRollouts(workers).gather_sync()
    return ReportMetrics(ppo_plan(rollouts, workers, DQN()), workers)  # ERR a configuration of DQN


def looks_at_rollouts(batch: Rollout) -> None:
    print(len(batch))


PPO(clp=0.1)  # ERR no such field PLUGIN literal
PPO(clip="wide")  # ERR not a number PLUGIN literal
PPO("CartPole-v1")  # ERR fields have names PLUGIN literal
ApeX().plan().tapped(SendWeights, looks_at_rollouts)  # ERR it yields statistics
MAML().run(stop=475)  # ERR not a Stop PLUGIN literal
Stop(returns=475)  # ERR no such field PLUGIN literal
