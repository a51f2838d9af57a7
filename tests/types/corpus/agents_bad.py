"""Mistakes with agents that every checker rejects."""

from __future__ import annotations

from tflow import (
    Agent, ComputeAdvantages, create_replay_actors, create_rollout_workers, Metrics, ParallelReplay, ParallelRollouts, plan, Plan,
    ReportMetrics, Select, TrainOneStep,
)
from tflow.algos import SAC, sac_plan, TD3, td3_plan
from tflow.losses import DQNLoss, PPOLoss, SACLoss
from tflow.optimizers import Adam

on = create_rollout_workers(env="x", agent=Agent(PPOLoss()))
off = create_rollout_workers(env="x", agent=Agent(SACLoss()))
replay = create_replay_actors()


def what_the_loss_of_an_agent_reads() -> None:
    ParallelRollouts(on).gather_sync().for_each(TrainOneStep(on))  # ERR no advantages PLUGIN columns
    ParallelRollouts(on).par_with_columns(ComputeAdvantages()).gather_async().for_each(TrainOneStep(on))  # ERR on-policy PLUGIN sync
    ParallelRollouts(off).gather_sync().for_each(TrainOneStep(off))  # ERR rollouts are not replayed PLUGIN columns
    ParallelReplay(replay).gather_sync().for_each(TrainOneStep(on))  # ERR replayed rows have no advantages, and are not fresh PLUGIN columns sync


def descriptions() -> None:
    Agent(Adam())  # ERR an optimiser is no loss PLUGIN literal
    Agent(SACLoss(), optimizer={"critics": 1e-3})  # ERR a number is no optimiser PLUGIN literal
    create_rollout_workers(env="x", agent=SACLoss())  # ERR a loss is no agent PLUGIN literal
    create_rollout_workers(env="x", loss=Agent(SACLoss()))  # ERR an agent is no loss PLUGIN literal
    create_rollout_workers(env="x", agents={"a": Agent(SACLoss())})  # ERR policy_of is missing PLUGIN literal
    SAC(temperature="none")  # ERR a number, or auto PLUGIN literal


def flows() -> None:
    rollouts = ParallelRollouts(off).gather_sync()
    sac_plan(rollouts, off, TD3())  # ERR a configuration of TD3
    td3_plan(ParallelRollouts(off), off)  # ERR not gathered PLUGIN placement


@plan
def misspelt_agent() -> Plan[Metrics]:
    agents = {"left": Agent(DQNLoss()), "right": Agent(DQNLoss())}
    many = create_rollout_workers(env="x", agents=agents, policy_of=str.lower)
    chosen = Select(ParallelRollouts(many).gather_sync(), policy="rigth")  # PLUGIN policy
    return ReportMetrics(sac_plan(chosen, many), many)  # PLUGIN literal
