"""Algorithms as parts of plans: every checker accepts these, and infers these types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from typing_extensions import assert_type, override

from tflow import (
    Async, Batch, ConcatBatches, ConcatRounds, create_evaluation_workers, create_rollout_workers, flow, Iter,
    Metrics, ParallelEvaluations, ParallelRollouts, Plan, plan, Policy, ReportMetrics, Rollout, Select, Stop,
    Sync, train, TrainOneStep, TrainStats, Union, UpdateWeights,
)
from tflow.algos import (
    A2C, a2c_plan, a3c_plan, ApeX, apex_plan, DQN, dqn_plan, IMPALA, impala_plan, MAML, PPO, ppo_plan,
)
from tflow.data import Episodes
from tflow.losses import Loss, PPOLoss
from tflow.rl.learning.agent import AnyAgent
from tflow.rl.learning.losses import PPOReads
from tflow.rl.envs.samples import MultiCartPole


@plan
def ppo() -> Plan[Metrics]:
    config = PPO(env="CartPole-v1", clip=0.1, epochs=4)
    workers = config.workers(config.loss())
    rollouts = ConcatRounds(ParallelRollouts(workers).gather_rounds())
    return ReportMetrics(ppo_plan(rollouts, workers, config), workers)


@plan
def from_fragments() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=PPOLoss())
    return ReportMetrics(ppo_plan(ParallelRollouts(workers).gather_sync(), workers), workers)


@plan
def in_actors() -> Plan[Metrics]:
    config = ApeX()
    workers = config.workers(config.loss())
    stats = apex_plan(ParallelRollouts(workers), workers)
    assert_type(stats, Iter[TrainStats])
    return ReportMetrics(stats, workers)


@plan
def evaluated() -> Plan[Metrics]:
    config = IMPALA()
    workers = config.workers(config.loss())
    evaluators = create_evaluation_workers(workers, every=1_000)
    stats = impala_plan(ParallelRollouts(workers).gather_async(), workers, config)
    trained = stats.for_each(UpdateWeights(workers, evaluators))
    episodes = ParallelEvaluations(evaluators).gather_async()
    assert_type(episodes, Iter[Episodes, Async])
    return ReportMetrics(Union(trained, episodes), workers)


Names = Literal["first", "second"]
FIRST, SECOND = PPO(lr=1e-3), DQN(n_step=1)
AGENTS: dict[Names, AnyAgent] = {"first": FIRST.agent(), "second": SECOND.agent()}


def policy_of(agent: str) -> Names:
    return "first" if agent == "agent_0" else "second"


@plan
def several() -> Plan[Metrics]:
    workers = create_rollout_workers(env=MultiCartPole, agents=AGENTS, policy_of=policy_of)
    one, two = ParallelRollouts(workers).split()
    batches = ConcatBatches(Select(one, policy="first"), rows=1_000)
    trained = Union(ppo_plan(batches, workers, FIRST), dqn_plan(Select(two, policy="second"), workers, SECOND))
    assert_type(trained, Union[TrainStats])
    return ReportMetrics(trained, workers)


@flow
def shaped(stream: Iter[Rollout, Sync]) -> Iter[Rollout, Sync]:
    return stream.map(halved)


def halved(batch: Rollout) -> Rollout:
    return batch.with_columns({"rewards": batch["rewards"] / 2})


@plan
def with_ones_own_step() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=PPOLoss())
    return ReportMetrics(ppo_plan(shaped(ParallelRollouts(workers).gather_sync()), workers), workers)


@dataclass(frozen=True, kw_only=True)
class Careful(PPO):
    """PPO with another loss."""

    patience: float = 0.01
    """How far the policy may move."""

    @override
    def loss(self) -> Loss[PPOReads, Sync]:
        return PPOLoss(max_kl=self.patience)


def look(stats: TrainStats) -> None:
    print(stats.rows)


def runs() -> Policy:
    run = Careful(env="CartPole-v1", patience=0.02).run(stop=Stop(mean_return=475))
    for metrics in run:
        assert_type(metrics, Metrics)
    assert_type(train(A2C().plan().tapped(TrainOneStep, look)).finish(), Metrics)
    assert_type(MAML().plan(), Plan[Metrics])
    return run.policy()


def wider(batch: Batch[Literal["obs", "rewards"]]) -> int:
    return len(batch)


def callbacks(made: Plan[Metrics]) -> Plan[Metrics]:
    return made.tapped("ParallelRollouts", wider).tapped(TrainOneStep, look)


@plan
def gradients() -> Plan[Metrics]:
    config = A2C()
    workers = config.workers(config.loss())
    one, two = ParallelRollouts(workers).gather_sync().split()
    return ReportMetrics(Union(a2c_plan(one, workers), two.drain()), workers)


@plan
def asynchronous() -> Plan[Metrics]:
    workers = A2C().workers(A2C().loss())
    return ReportMetrics(a3c_plan(ParallelRollouts(workers), workers), workers)
