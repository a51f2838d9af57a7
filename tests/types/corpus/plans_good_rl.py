"""Right plans of reinforcement learning: the paper's, their relatives, and ways to write them that are not straight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

import numpy as np
from rl_good import LOSSES, policy_of
from typing_extensions import assert_type

from tflow import (
    AddColumns, ApplyGradients, Async, Batch, ComputeAdvantages, ComputeGradients, ConcatBatches,
    ConcatRounds, create_evaluation_workers, create_learner, create_replay_actors, create_rollout_workers,
    flow, Gradients, Iter, LearnOnBatch, Metrics, ParallelEvaluations, ParallelReplay, ParallelRollouts,
    ParIter, Plan, plan, ReportMetrics, Rollout, Select, SendWeights, StandardizeFields, StoreToBuffer, Sync,
    TrainOneStep, TrainStats, Union, UpdatePriorities, UpdateTargetNetwork, UpdateWeights, Workers,
)
from tflow.actors import AnyWorkers, MultiWorkers
from tflow.data import Episodes, MultiBatch, Replayed
from tflow.exploration import ApexEpsilons, EpsilonGreedy
from tflow.losses import A3CLoss, DQNLoss, PPOLoss
from tflow.operators import aggregate, AverageGradients, MixInReplay
from tflow.optimizers import Adam
from tflow.schedules import Linear

GAMMA: Final = 0.97
ROWS: Final = 512
Both = Literal["PPO", "DQN"]
Sampled = Literal["obs", "actions", "rewards", "terminated", "truncated", "t", "logp", "values"]
K = TypeVar("K", bound=str)
C = TypeVar("C", bound=Async)
POLICIES: tuple[Both, ...] = ("PPO", "DQN")


class ClipRewards(AddColumns[Literal["rewards"], Literal["clipped"]]):
    def compute(self, batch: Batch[Literal["rewards"]], /) -> Mapping[Literal["clipped"], np.ndarray]:
        return {"clipped": np.clip(batch["rewards"], -1, 1)}


# --------------------------------------------------------------------------- one policy


@plan
def a3c() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    apply_op = grads.for_each(ApplyGradients(workers))
    assert_type(apply_op, Iter[TrainStats, Async])
    return ReportMetrics(apply_op, workers)


@plan
def a2c(num_workers: int = 4) -> Plan[Metrics]:
    loss = A3CLoss(gamma=GAMMA)
    workers = create_rollout_workers(env="CartPole-v1", loss=loss, max_grad_norm=0.5, num_workers=num_workers)
    rounds = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_rounds()
    grads = rounds.for_each(AverageGradients())
    assert_type(grads, Iter[Gradients, Sync])
    return ReportMetrics(grads.for_each(ApplyGradients(workers, to="all")), workers)


@plan
def ppo() -> Plan[Metrics]:
    loss = PPOLoss(clip=Linear(0.2, 0.1, steps=1000))
    workers = create_rollout_workers(env="CartPole-v1", loss=loss, optimizer=Adam(lr=1e-3))
    fragments = ParallelRollouts(workers).par_with_columns(ComputeAdvantages(gamma=GAMMA, lam=0.9))
    rounds = ConcatRounds(fragments.gather_rounds())
    standard = rounds.with_columns(StandardizeFields("advantages"))
    return ReportMetrics(standard.for_each(TrainOneStep(workers, epochs=4, minibatch=128)), workers)


@plan
def ppo_on_the_driver(standardize: bool) -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=PPOLoss())
    batches = ConcatBatches(ParallelRollouts(workers).gather_sync(), rows=ROWS)
    wider = batches.with_columns(ClipRewards()).with_columns(ComputeAdvantages())
    if standardize:
        wider = wider.with_columns(StandardizeFields("advantages", "returns"))
    return ReportMetrics(wider.for_each(TrainOneStep(workers)), workers)


@plan
def dqn() -> Plan[Metrics]:
    exploration = EpsilonGreedy(Linear(1.0, 0.1, steps=1000))
    workers = create_rollout_workers(env="CartPole-v1", loss=DQNLoss(), exploration=exploration)
    replay = create_replay_actors(capacity=50_000, batch=32, min_size=200, n_step=3, gamma=GAMMA, update_ratio=0.25)
    rollouts = ParallelRollouts(workers).gather_sync()
    store_op = rollouts.for_each(StoreToBuffer(replay)).for_each(UpdateWeights(workers))
    replay_op = ParallelReplay(replay).gather_sync().for_each(UpdatePriorities(workers)).for_each(TrainOneStep(workers))
    renewed = replay_op.for_each(UpdateTargetNetwork(workers, every=100, tau=0.5))
    return ReportMetrics(Union(store_op, renewed, weights=[1, 1]), workers)


@plan
def apex(num_replay: int) -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=DQNLoss(), num_workers=8, exploration=ApexEpsilons())
    replay = create_replay_actors(num_actors=num_replay)
    rollouts = ParallelRollouts(workers).gather_async(in_flight=2)
    store_op = rollouts.for_each(StoreToBuffer(replay)).for_each(UpdateWeights(workers))
    replayed = ParallelReplay(replay).gather_async(in_flight=4)
    assert_type(replayed, Iter[Replayed, Async])
    train_op = replayed.for_each(UpdatePriorities(workers)).for_each(TrainOneStep(workers))
    return ReportMetrics(Union(store_op, train_op.for_each(UpdateTargetNetwork(workers)), mode="async"), workers)


@plan
def impala(aggregators: int) -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss(), fragment=64)
    learner = create_learner(workers)
    rollouts = ParallelRollouts(workers)
    larger = aggregate(rollouts, aggregators=aggregators, batches=4) if aggregators else rollouts
    batches = larger.gather_async()
    mixed = MixInReplay(ConcatBatches(batches, rows=ROWS, exact=True), slots=4, proportion=0.5)
    stats = mixed.hand_off(learner, LearnOnBatch(epochs=2), mailbox=4, on_full="drop_oldest")
    return ReportMetrics(stats.for_each(SendWeights(workers)), workers)


@plan
def waits_for_its_learner() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=PPOLoss())
    batches = ParallelRollouts(workers).gather_sync().with_columns(ComputeAdvantages())
    return ReportMetrics(batches.call(create_learner(workers), LearnOnBatch()).for_each(SendWeights(workers)), workers)


@flow
def with_evaluation() -> Iter[TrainStats | Episodes]:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
    evaluators = create_evaluation_workers(workers, episodes=3)
    stats = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async().for_each(ApplyGradients(workers))
    refreshed = stats.for_each(UpdateWeights(workers, evaluators, to="all"))
    return Union(refreshed.every(items=5), ParallelEvaluations(evaluators).gather_async())


@plan
def some_of_the_workers(count: int) -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss(), num_workers=4)
    chosen = ParallelRollouts(workers).select_shards(*range(count))
    return ReportMetrics(chosen.gather_async().for_each(TrainOneStep(workers)), workers)


# --------------------------------------------------------------------------- sub-flows


@flow
def ppo_flow(stream: Iter[Rollout, Sync], workers: AnyWorkers) -> Iter[TrainStats]:
    return stream.with_columns(ComputeAdvantages()).for_each(TrainOneStep(workers, loss=PPOLoss()))


@flow
def dqn_flow(stream: Iter[Rollout], workers: AnyWorkers) -> Iter[TrainStats]:
    replay = create_replay_actors()
    train = ParallelReplay(replay).gather_async().for_each(TrainOneStep(workers, loss=DQNLoss()))
    return Union(stream.for_each(StoreToBuffer(replay)).drain(), train)


@flow
def larger(stream: Iter[Batch[K], C], rows: int) -> Iter[Batch[K], C]:
    return ConcatBatches(stream, rows=rows)


@flow
def chosen(stream: Iter[Rollout, Sync], workers: AnyWorkers, algorithm: Both) -> Iter[TrainStats]:
    build = ppo_flow if algorithm == "PPO" else dqn_flow
    return build(stream, workers)


@plan
def generic_parts(workers: Workers[Rollout]) -> Plan[Metrics]:
    batches = larger(ParallelRollouts(workers).gather_sync(), ROWS)
    assert_type(batches, Iter[Rollout, Sync])
    return ReportMetrics(larger(batches, 2 * ROWS).for_each(TrainOneStep(workers)), workers)


@plan
def reports_rollouts(workers: Workers[Rollout]) -> Plan[Metrics]:
    """Nothing is trained: the report counts what is sampled."""
    return ReportMetrics(ParallelRollouts(workers).gather_async().tap(print), workers)


@dataclass(frozen=True)
class Recipe:
    """A plan as a value with options."""

    env: str = "CartPole-v1"
    gamma: float = 0.99
    replay: bool = False

    @plan
    def build(self) -> Plan[Metrics]:
        workers = create_rollout_workers(env=self.env, loss=A3CLoss(gamma=self.gamma))
        rollouts = ParallelRollouts(workers).gather_async()
        stats = self.mixed(rollouts).for_each(TrainOneStep(workers))
        return ReportMetrics(stats, workers)

    @flow
    def mixed(self, rollouts: Iter[Rollout]) -> Iter[Rollout]:
        return MixInReplay(rollouts, slots=8, proportion=1.0) if self.replay else rollouts


# --------------------------------------------------------------------------- several policies


@plan
def multi_agent() -> Plan[Metrics]:
    workers = create_rollout_workers(env="pettingzoo.sisl.pursuit_v4", losses=LOSSES, policy_of=policy_of)
    r1, r2 = ParallelRollouts(workers).split()
    ppo_op = ppo_flow(Select(r1, policy="PPO"), workers)
    dqn_op = dqn_flow(Select(r2, policy="DQN"), workers)
    return ReportMetrics(Union(ppo_op, dqn_op), workers)


@plan
def multi_agent_in_a_loop(workers: MultiWorkers[Both]) -> Plan[Metrics]:
    rollouts = ParallelRollouts(workers).gather_sync()
    found: list[Iter[TrainStats]] = []
    for policy, branch in zip(POLICIES, rollouts.split(len(POLICIES)), strict=True):
        found.append(chosen(Select(branch, policy=policy), workers, policy))
    return ReportMetrics(Union(*found), workers)


@plan
def multi_agent_in_a_dict(workers: MultiWorkers[Both]) -> Plan[Metrics]:
    r1, r2, seen = ParallelRollouts(workers).split(3)
    assert_type(seen, Iter[MultiBatch[Sampled, Both], Sync])
    streams = {"PPO": ppo_flow(Select(r1, policy="PPO"), workers), "DQN": dqn_flow(Select(r2, policy="DQN"), workers)}
    return ReportMetrics(Union(*streams.values(), seen.tap(print).drain()), workers)


@plan
def names_without_types(name: str) -> Plan[Metrics]:
    """The names of the policies are text, and any of them may be asked for."""
    workers = create_rollout_workers(
        env="x", losses={"PPO": PPOLoss(), "DQN": DQNLoss()}, policy_of=lambda agent: agent.upper()
    )
    r1, r2 = ParallelRollouts(workers).split()
    first = ppo_flow(Select(r1, policy="PPO"), workers)
    return ReportMetrics(Union(first, dqn_flow(Select(r2, policy=name), workers)), workers)


@plan
def replay_of_both(workers: MultiWorkers[Both]) -> Plan[Metrics]:
    replay = create_replay_actors(policies=POLICIES, lockstep=True)
    store = ParallelRollouts(workers).gather_async().for_each(StoreToBuffer(replay))
    again = Select(ParallelReplay(replay).gather_async(), policy="DQN")
    return ReportMetrics(Union(store.drain(), again.for_each(TrainOneStep(workers, loss=DQNLoss()))), workers)


@flow
def shared_shards(shards: ParIter[MultiBatch[K, Both]]) -> tuple[Iter[Batch[K]], Iter[Batch[K]]]:
    left, right = shards.split()
    return Select(left, policy="PPO"), Select(right, policy="DQN")


# --------------------------------------------------------------------------- workers that several functions name

WORKERS = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())


def rollouts() -> ParIter[Rollout]:
    return ParallelRollouts(WORKERS)


def gradients() -> Iter[Gradients]:
    return rollouts().par_for_each(ComputeGradients()).gather_async()


def of_a_module() -> Plan[Metrics]:
    return ReportMetrics(gradients().for_each(ApplyGradients(WORKERS)), WORKERS)


class Trainer:
    def __init__(self) -> None:
        self.workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())

    @property
    def rollouts(self) -> ParIter[Rollout]:
        return ParallelRollouts(self.workers)

    def gradients(self) -> Iter[Gradients]:
        return self.rollouts.par_for_each(ComputeGradients()).gather_async()

    def plan(self) -> Plan[Metrics]:
        return ReportMetrics(self.gradients().for_each(ApplyGradients(self.workers)), self.workers)
