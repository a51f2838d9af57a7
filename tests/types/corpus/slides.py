"""The three plans on the paper's slides, step for step, with the same names and no more lines: arguments of ``create_*`` aside.

Checkers and the plugin accept them; ``tests/algos/test_slides.py`` counts their lines and runs them.
"""

from __future__ import annotations

from typing import Literal

from typing_extensions import assert_type

from tflow import (
    ApplyGradients, ComputeGradients, create_replay_actors, create_rollout_workers, Gradients, Iter, Metrics,
    ParallelReplay, ParallelRollouts, Plan, plan, ReportMetrics, Select, StoreToBuffer, TrainOneStep,
    TrainStats, Union, UpdatePriorities, UpdateWeights,
)
from tflow.algos import dqn_plan, ppo_plan
from tflow.exploration import ApexEpsilons
from tflow.losses import A3CLoss, DQNLoss, PPOLoss
from tflow.models import MLP
from tflow.rl.envs.samples import MultiCartPole

SMALL = MLP((16,))
LOSSES: dict[Literal["PPO", "DQN"], PPOLoss | DQNLoss] = {"PPO": PPOLoss(), "DQN": DQNLoss()}


def policy_of(agent: str) -> Literal["PPO", "DQN"]:
    return "PPO" if agent == "agent_0" else "DQN"


@plan
def a3c() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss(), num_envs=4, fragment=16, model=SMALL)
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    assert_type(grads, Iter[Gradients])
    apply_op = grads.for_each(ApplyGradients(workers))
    assert_type(apply_op, Iter[TrainStats])
    return ReportMetrics(apply_op, workers)


@plan
def apex() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=DQNLoss(), num_envs=4, exploration=ApexEpsilons(), model=SMALL)
    replay_buffer = create_replay_actors(num_actors=2, min_size=600)
    rollouts = ParallelRollouts(workers).gather_async()
    store_op = rollouts.for_each(StoreToBuffer(replay_buffer)).for_each(UpdateWeights(workers))
    replay_op = ParallelReplay(replay_buffer).gather_async().for_each(UpdatePriorities(workers)).for_each(TrainOneStep(workers))
    return ReportMetrics(Union(store_op, replay_op), workers)


@plan
def multi_agent() -> Plan[Metrics]:
    workers = create_rollout_workers(env=MultiCartPole, losses=LOSSES, policy_of=policy_of, num_envs=4, model=SMALL)
    r1, r2 = ParallelRollouts(workers).split()
    ppo_op = ppo_plan(Select(r1, policy="PPO"), workers)
    dqn_op = dqn_plan(Select(r2, policy="DQN"), workers)
    return ReportMetrics(Union(ppo_op, dqn_op), workers)
