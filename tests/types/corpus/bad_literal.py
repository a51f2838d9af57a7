"""Arguments, written in the plan, that the operator refuses when it is made. No checker sees this without the plugin."""

from __future__ import annotations

from typing import Final, TypeVar

import world
from rl_good import LOSSES, policy_of, ppo_plan
from world import Worker, learner

from tflow import (
    ApplyGradients, Async, Batch, ComputeAdvantages, ComputeGradients, ConcatBatches, create_actors,
    create_evaluation_workers, create_replay_actors, create_rollout_workers, flow, from_actors, from_range,
    Iter, Metrics, par_from_items, par_from_range, ParallelReplay, ParallelRollouts, ParIter, Plan, plan,
    ReportMetrics, Rollout, Select, Sync, TrainOneStep, TrainStats, Union, UpdateTargetNetwork,
)
from tflow.exploration import EpsilonGreedy
from tflow.losses import A3CLoss, DQNLoss, PPOLoss
from tflow.operators import aggregate, MixInReplay
from tflow.optimizers import Adam
from tflow.schedules import Linear

T = TypeVar("T")
K = TypeVar("K", bound=str)
NOTHING: Final = 0
workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
off = create_rollout_workers(env="CartPole-v1", loss=DQNLoss())


# --------------------------------------------------------------------------- sizes and counts


@flow
def empty_batches(stream: Iter[int]) -> Iter[list[int]]:
    return stream.batch(0)  # PLUGIN literal


@flow
def empty_batches_by_keyword(shards: ParIter[int]) -> Iter[list[int]]:
    return shards.par_batch(size=0).gather_sync()  # PLUGIN literal


@flow
def less_than_none(stream: Iter[int]) -> Iter[int]:
    return stream.take(-1)  # PLUGIN literal


@flow
def no_buffer(stream: Iter[int]) -> Iter[int]:
    return stream.shuffle(0, seed=1)  # PLUGIN literal


@flow
def negative_seed(stream: Iter[int]) -> Iter[int]:
    return stream.shuffle(
        8,
        seed=-1,  # PLUGIN literal
    )


@flow
def no_branches(stream: Iter[int]) -> tuple[Iter[int], ...]:
    return stream.split(0)  # PLUGIN literal


@flow
def no_lag(stream: Iter[int]) -> Iter[int]:
    left, right = stream.split(max_lag=0)  # PLUGIN literal
    return Union(left, right)


@flow
def never(stream: Iter[int]) -> Iter[int]:
    return stream.every(items=0)  # PLUGIN literal


@flow
def at_once(stream: Iter[int]) -> Iter[int]:
    return stream.every(seconds=0.0)  # PLUGIN literal


@flow
def negative_range() -> Iter[int]:
    return from_range(-3)  # PLUGIN literal


@flow
def no_shards() -> Iter[int]:
    return par_from_range(4, shards=0).gather_sync()  # PLUGIN literal


@flow
def by_a_constant(stream: Iter[int]) -> Iter[list[int]]:
    return stream.batch(NOTHING)  # PLUGIN literal


# --------------------------------------------------------------------------- gathers and actors


@plan
def nothing_in_flight() -> Plan[Metrics]:
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async(in_flight=0)  # PLUGIN literal
    return ReportMetrics(grads.for_each(ApplyGradients(workers)), workers)


@plan
def negative_in_flight() -> Plan[Metrics]:
    rollouts = ParallelRollouts(workers).gather_async(
        per_call=2,
        in_flight=-1,  # PLUGIN literal
    )
    return ReportMetrics(rollouts, workers)


@flow
def nothing_per_call(shards: ParIter[Rollout]) -> Iter[Rollout]:
    return shards.gather_async(per_call=0)  # PLUGIN literal


@flow
def no_time(shards: ParIter[Rollout]) -> Iter[Rollout, Sync]:
    return shards.gather_sync(timeout_s=0)  # PLUGIN literal


@flow
def no_mailbox(stream: Iter[world.Rollout]) -> Iter[world.TrainStats]:
    return stream.hand_off(learner, world.LearnerStep(), mailbox=0)  # PLUGIN literal


@flow
def nobody() -> Iter[world.Rollout]:
    pool = create_actors(Worker, num=0)  # PLUGIN literal
    return from_actors(pool, Worker.sample).gather_async()


@flow
def dealt_to_nobody(shards: ParIter[int]) -> Iter[int]:
    return shards.repartition(0).gather_async()  # PLUGIN literal


@flow
def the_same_twice(shards: ParIter[int]) -> Iter[int]:
    return shards.select_shards(1, 1).gather_sync()  # PLUGIN literal


# --------------------------------------------------------------------------- unions


@flow
def one_weight_for_two(left: Iter[int], right: Iter[int]) -> Iter[int]:
    return Union(left, right, weights=[1])  # PLUGIN literal


@flow
def three_weights_for_two(left: Iter[int], right: Iter[int]) -> Iter[int]:
    return Union(left, right, weights=(1, 2, 3))  # PLUGIN literal


@flow
def no_share(left: Iter[int], right: Iter[int]) -> Iter[int]:
    return Union(left, right, weights=[1, 0])  # PLUGIN literal


@flow
def weights_without_turns(left: Iter[int], right: Iter[int]) -> Iter[int]:
    return Union(left, right, weights=[1, 2], mode="async")  # PLUGIN literal


# --------------------------------------------------------------------------- reinforcement learning


@plan
def no_workers() -> Plan[Metrics]:
    nobody = create_rollout_workers(env="CartPole-v1", loss=A3CLoss(), num_workers=0)  # PLUGIN literal
    return ReportMetrics(ParallelRollouts(nobody).gather_async().for_each(TrainOneStep(nobody)), nobody)


@plan
def no_rows() -> Plan[Metrics]:
    short = create_rollout_workers(
        env="CartPole-v1",
        loss=A3CLoss(),
        fragment=0,  # PLUGIN literal
    )
    return ReportMetrics(ParallelRollouts(short).gather_async(), short)


@plan
def too_patient() -> Plan[Metrics]:
    on = create_rollout_workers(env="CartPole-v1", loss=PPOLoss())
    wider = ParallelRollouts(on).gather_sync().with_columns(ComputeAdvantages(gamma=1.5))  # PLUGIN literal
    return ReportMetrics(wider.for_each(TrainOneStep(on)), on)


@plan
def negative_lambda() -> Plan[Metrics]:
    on = create_rollout_workers(env="CartPole-v1", loss=PPOLoss())
    wider = ParallelRollouts(on).par_with_columns(ComputeAdvantages(0.9, -0.1)).gather_sync()  # PLUGIN literal
    return ReportMetrics(wider.for_each(TrainOneStep(on)), on)


@plan
def no_epochs() -> Plan[Metrics]:
    stats = ParallelRollouts(workers).gather_async().for_each(TrainOneStep(workers, epochs=0))  # PLUGIN literal
    return ReportMetrics(stats, workers)


@plan
def norm_of_zero() -> Plan[Metrics]:
    clipped = create_rollout_workers(env="CartPole-v1", loss=A3CLoss(), max_grad_norm=0.0)  # PLUGIN literal
    grads = ParallelRollouts(clipped).par_for_each(ComputeGradients()).gather_async()
    return ReportMetrics(grads.for_each(ApplyGradients(clipped)), clipped)


@plan
def past_the_policy() -> Plan[Metrics]:
    stats = ParallelReplay(create_replay_actors()).gather_async().for_each(TrainOneStep(off))
    return ReportMetrics(stats.for_each(UpdateTargetNetwork(off, tau=2.0)), off)  # PLUGIN literal


@flow
def empty_replay() -> Iter[TrainStats]:
    replay = create_replay_actors(capacity=100, batch=0, min_size=10)  # PLUGIN literal
    return ParallelReplay(replay).gather_async().for_each(TrainOneStep(off))


@flow
def larger_than_it_is() -> Iter[TrainStats]:
    replay = create_replay_actors(capacity=100, min_size=1000)  # PLUGIN literal
    return ParallelReplay(replay).gather_async().for_each(TrainOneStep(off))


@flow
def mixes_less_than_none(stream: Iter[Rollout]) -> Iter[Rollout]:
    return MixInReplay(stream, slots=2, proportion=-0.5)  # PLUGIN literal


@flow
def aggregates_nothing(shards: ParIter[Rollout]) -> Iter[Rollout]:
    return aggregate(shards, aggregators=0, batches=2).gather_async()  # PLUGIN literal


@plan
def learns_nothing() -> Plan[Metrics]:
    still = create_rollout_workers(env="CartPole-v1", loss=A3CLoss(), optimizer=Adam(lr=0.0))  # PLUGIN literal
    return ReportMetrics(ParallelRollouts(still).gather_async().for_each(TrainOneStep(still)), still)


@plan
def explores_in_no_time() -> Plan[Metrics]:
    bold = create_rollout_workers(
        env="CartPole-v1",
        loss=DQNLoss(),
        exploration=EpsilonGreedy(Linear(1.0, 0.1, steps=0)),  # PLUGIN literal
    )
    return ReportMetrics(ParallelRollouts(bold).gather_async(), bold)


@flow
def evaluates_nothing() -> Iter[int]:
    evaluators = create_evaluation_workers(workers, episodes=0)  # PLUGIN literal
    return from_range(evaluators.num)


# --------------------------------------------------------------------------- functions, several policies, classes, paths


def helper(stream: Iter[int]) -> Iter[list[int]]:
    """Not marked: the operators are the same."""
    return stream.batch(-2)  # PLUGIN literal


@flow
def generic(stream: Iter[T]) -> Iter[list[T]]:
    return stream.batch(0)  # PLUGIN literal


@flow
def over_columns(stream: Iter[Batch[K], Async]) -> Iter[Batch[K]]:
    return ConcatBatches(stream, rows=0)  # PLUGIN literal


@plan
def several_policies() -> Plan[Metrics]:
    many = create_rollout_workers(env="x", losses=LOSSES, policy_of=policy_of, num_envs=0)  # PLUGIN literal
    return ReportMetrics(ppo_plan(Select(ParallelRollouts(many).gather_sync(), policy="PPO"), many), many)


class Trainer:
    @flow
    def built(self, stream: Iter[int]) -> Iter[list[int]]:
        return stream.batch(0)  # PLUGIN literal

    @staticmethod
    @flow
    def dealt() -> Iter[str]:
        return par_from_items("abc", shards=-1).gather_sync()  # PLUGIN literal


@flow
def on_one_path(stream: Iter[int], small: bool) -> Iter[list[int]]:
    return stream.batch(0) if small else stream.batch(8)  # PLUGIN literal


@flow
def in_a_loop(stream: Iter[int], times: int) -> Iter[int]:
    for _ in range(times):
        stream = stream.every(steps=0)  # PLUGIN literal
    return stream


@flow
def when_it_fails(stream: Iter[int], size: int) -> Iter[list[int]]:
    try:
        return stream.batch(size)
    except ValueError:
        return stream.batch(0)  # PLUGIN literal


def not_marked() -> None:
    print(list(from_range(3).split(0)))  # PLUGIN literal


def exploration_by_policy() -> object:
    losses = {"PPO": PPOLoss(), "DQN": DQNLoss()}
    return create_rollout_workers(env="x", losses=losses, policy_of=policy_of, exploration={"PPO": EpsilonGreedy(0.1)})  # ERR PLUGIN literal
