"""The plans of the paper's slides and their relatives: every checker accepts them, and infers these types."""

from __future__ import annotations

from typing import Literal

from typing_extensions import assert_type

from tflow import (
    ApplyGradients, Async, Batch, ComputeAdvantages, ComputeGradients, ConcatBatches, ConcatRounds,
    create_evaluation_workers, create_learner, create_replay_actors, create_rollout_workers, Gradients, Iter,
    LearnOnBatch, Metrics, ParallelEvaluations, ParallelReplay, ParallelRollouts, Plan, ReportMetrics,
    Rollout, Select, SendWeights, StandardizeFields, StoreToBuffer, Sync, TrainOneStep, TrainStats, Union,
    UpdatePriorities, UpdateTargetNetwork, UpdateWeights,
)
from tflow.actors import AnyWorkers, create_learners, ReplayActors
from tflow.algos import learn_together
from tflow.data import Episodes, MultiBatch, Replayed, ReplayedSequences, SequenceColumns
from tflow.exploration import EpsilonGreedy
from tflow.losses import A3CLoss, DQNLoss, PPOLoss, R2D2Loss, RNNSACLoss
from tflow.operators import aggregate, AverageGradients, MixInReplay
from tflow.schedules import Linear


def a3c() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    apply_op = grads.for_each(ApplyGradients(workers))
    assert_type(grads, Iter[Gradients, Async])
    assert_type(apply_op, Iter[TrainStats, Async])
    return ReportMetrics(apply_op, workers)


def a2c() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_rounds().for_each(AverageGradients())
    assert_type(grads, Iter[Gradients, Sync])
    return ReportMetrics(grads.for_each(ApplyGradients(workers, to="all")), workers)


def ppo() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=PPOLoss())
    rounds = ConcatRounds(ParallelRollouts(workers).par_with_columns(ComputeAdvantages()).gather_rounds())
    standard = rounds.with_columns(StandardizeFields("advantages"))
    return ReportMetrics(standard.for_each(TrainOneStep(workers, epochs=4, minibatch=128)), workers)


def apex() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=DQNLoss(), exploration=EpsilonGreedy(Linear(1.0, 0.1, steps=1000)))
    replay_buffer = create_replay_actors()
    rollouts = ParallelRollouts(workers).gather_async()
    store_op = rollouts.for_each(StoreToBuffer(replay_buffer)).for_each(UpdateWeights(workers))
    replay_op = ParallelReplay(replay_buffer).gather_async().for_each(UpdatePriorities(workers)).for_each(TrainOneStep(workers))
    assert_type(store_op, Iter[Rollout, Async])
    assert_type(replay_op, Iter[TrainStats, Async])
    return ReportMetrics(Union(store_op, replay_op.for_each(UpdateTargetNetwork(workers, every=100))), workers)


def beside_sampling() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
    batches = ConcatBatches(aggregate(ParallelRollouts(workers), aggregators=2, batches=4).gather_async(), rows=512, exact=True)
    stats = MixInReplay(batches, slots=4, proportion=0.5).hand_off(create_learner(workers), LearnOnBatch())
    assert_type(stats, Iter[TrainStats, Async])
    return ReportMetrics(stats.for_each(SendWeights(workers)), workers)


def evaluated() -> Iter[Episodes]:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
    return ParallelEvaluations(create_evaluation_workers(workers, episodes=5)).gather_sync()


def ppo_plan(stream: Iter[Rollout, Sync], workers: AnyWorkers) -> Iter[TrainStats]:
    return stream.with_columns(ComputeAdvantages()).for_each(TrainOneStep(workers, loss=PPOLoss()))


def dqn_plan(stream: Iter[Rollout], workers: AnyWorkers) -> Iter[TrainStats]:
    buffer = create_replay_actors()
    train = ParallelReplay(buffer).gather_async()
    assert_type(train, Iter[Replayed, Async])
    return Union(stream.for_each(StoreToBuffer(buffer)).drain(), train.for_each(TrainOneStep(workers, loss=DQNLoss())))


def r2d2_plan(stream: Iter[Rollout], workers: AnyWorkers) -> Iter[TrainStats]:
    buffer = create_replay_actors(kind="sequences", length=20, burn_in=10)
    assert_type(buffer, ReplayActors[SequenceColumns])
    train = ParallelReplay(buffer).gather_async()
    assert_type(train, Iter[ReplayedSequences, Async])
    return Union(stream.for_each(StoreToBuffer(buffer)).drain(), train.for_each(TrainOneStep(workers, loss=R2D2Loss())))


def sequences_of_several(workers: AnyWorkers) -> Iter[TrainStats]:
    names: list[Literal["a", "b"]] = ["a", "b"]
    replayed = ParallelReplay(create_replay_actors(policies=names, kind="sequences")).gather_sync()
    assert_type(replayed, Iter[MultiBatch[SequenceColumns, Literal["a", "b"]], Async])
    return Select(replayed, policy="a").for_each(TrainOneStep(workers, loss=RNNSACLoss()))


LOSSES: dict[Literal["PPO", "DQN"], PPOLoss | DQNLoss] = {"PPO": PPOLoss(), "DQN": DQNLoss()}


def policy_of(agent: str) -> Literal["PPO", "DQN"]:
    return "PPO" if agent == "first" else "DQN"


def several() -> Plan[Metrics]:
    workers = create_rollout_workers(env="pettingzoo.sisl.pursuit_v4", losses=LOSSES, policy_of=policy_of)
    r1, r2 = ParallelRollouts(workers).split()
    ppo_op = ppo_plan(Select(r1, policy="PPO"), workers)
    dqn_op = dqn_plan(Select(r2, policy="DQN"), workers)
    return ReportMetrics(Union(ppo_op, dqn_op), workers)


def columns(batch: Batch[Literal["rewards", "values"]]) -> float:
    wider = batch.with_columns({"advantages": batch["rewards"] - batch["values"]})
    return float(wider["advantages"].sum() + wider["rewards"].sum())


def new_columns(batch: Rollout) -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=PPOLoss())
    wider = batch.with_columns({"advantages": batch["rewards"], "rewards": batch["values"]})
    print(columns(wider))
    summed = ParallelRollouts(workers).gather_sync().map(
        lambda each: each.with_columns({"advantages": each["rewards"], "returns": each["rewards"]})
    )
    return ReportMetrics(summed.for_each(TrainOneStep(workers)), workers)


def any_columns(batch: Rollout) -> Batch[str]:
    return batch.with_columns({"bonus": batch["rewards"]})


def fewer_columns_are_asked_for(batch: Rollout) -> float:
    return columns(batch)


def several_learners() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=PPOLoss())
    rounds = ConcatRounds(ParallelRollouts(workers).par_with_columns(ComputeAdvantages()).gather_rounds())
    trained = learn_together(rounds, workers, num=2, epochs=4, minibatch=64)
    assert_type(trained, Iter[TrainStats, Async])
    return ReportMetrics(trained, workers)


def learners_of_one_policy(workers: AnyWorkers) -> int:
    return create_learners(workers, num=4, devices=("cuda:0", "cuda:1")).num


def averaged_between_workers() -> Iter[list[Gradients], Sync]:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
    averaged = ParallelRollouts(workers).par_for_each(ComputeGradients()).par_all_reduce(AverageGradients())
    return averaged.gather_rounds()
