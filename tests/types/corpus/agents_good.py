"""Agents: every checker accepts these plans, and the loss of an agent types its stream as that of workers does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from typing_extensions import assert_type

from tflow import (
    Agent, Async, create_replay_actors, create_rollout_workers, Iter, Metrics, ParallelReplay, ParallelRollouts, Plan,
    ReportMetrics, Select, StoreToBuffer, Sync, TrainOneStep, TrainStats, Union, Workers,
)
from tflow.algos import DDPG, off_policy_plan, PPO, SAC, sac_plan, TD3, TQC
from tflow.data import Replayed
from tflow.exploration import EpsilonGreedy, GaussianNoise, RandomFirst
from tflow.losses import DQNLoss, HardUpdate, Part, PPOLoss, SACLoss, SoftUpdate, TD3Loss
from tflow.models import ActorQSpec, MLP
from tflow.optimizers import Adam, Muon
from tflow.rl.learning.agent import AnyAgent


def by_agent() -> Plan[Metrics]:
    agent = Agent(SACLoss(), MLP((64, 64)), {"critics": Adam(lr=1e-3), "actor": Muon(), "temperature": Adam()}, {"critics": 10.0})
    assert_type(agent, Agent[Replayed, Async])
    workers = create_rollout_workers(env="Pendulum-v1", agent=agent)
    assert_type(workers, Workers[Replayed, Async])
    replay = create_replay_actors(update_ratio=1.0)
    store = ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay))
    trained = ParallelReplay(replay).gather_sync().for_each(TrainOneStep(workers))
    assert_type(trained, Iter[TrainStats, Async])
    return ReportMetrics(Union(store.drain(), trained), workers)


def by_configuration(config: SAC) -> Plan[Metrics]:
    workers = config.workers(config.loss())
    return ReportMetrics(sac_plan(ParallelRollouts(workers).gather_async(), workers, config), workers)


def by_the_shared_flow() -> Plan[Metrics]:
    config = DDPG(ou_noise=True)
    workers = config.workers(config.loss())
    rollouts = ParallelRollouts(workers).gather_async()
    return ReportMetrics(off_policy_plan("mine", rollouts, workers, config, config), workers)


def several() -> Plan[Metrics]:
    agents: Mapping[Literal["a", "b"], AnyAgent] = {"a": SAC().agent(), "b": TD3().agent()}
    workers = create_rollout_workers(env="x", agents=agents, policy_of=lambda name: "a")
    one, two = ParallelRollouts(workers).gather_sync().split()
    trained = sac_plan(Select(one, policy="a"), workers, SAC())
    return ReportMetrics(Union(trained, Select(two, policy="b").drain()), workers)


parts: dict[str, Part] = {"critics": Part(target=SoftUpdate(0.01)), "actor": Part(every=2, target=HardUpdate(100))}
explorations = (RandomFirst(100, GaussianNoise(0.1)), RandomFirst(10, EpsilonGreedy(0.1)), RandomFirst())
losses = (SACLoss(spec=ActorQSpec(critics=5)), TD3Loss(), DQNLoss(), PPOLoss())
configurations = (SAC(critics=10, subset=2, update_ratio=20), TQC(drop=3), TD3(noise=0.2), PPO(normalize_obs=True))
