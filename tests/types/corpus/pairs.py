"""Mistakes that are found twice, in the editor and when a plan is built or validated: with the same sentence.

Each function makes one mistake. It returns a stream or a plan, unless it cannot even be built.
"""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass
from typing import Literal

from world import ApplyGradients as Apply
from world import ComputeGradients as Compute
from world import Learner, Length, OffPolicyStep, OnPolicyStep, Worker, learner
from world import workers as actors

from tflow import (
    ApplyGradients, ComputeAdvantages, ComputeGradients, ConcatRounds, create_actor, create_learner,
    create_replay_actors, create_rollout_workers, from_actors, from_items, from_range, Iter, LearnOnBatch,
    par_from_items, ParallelReplay, ParallelRollouts, ReportMetrics, Select, StandardizeFields, Stateless, StoreToBuffer,
    TrainOneStep, Union, UpdatePriorities, UpdateTargetNetwork,
)
from tflow.losses import A3CLoss, DQNLoss, PPOLoss, R2D2Loss

a3c = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
ppo = create_rollout_workers(env="CartPole-v1", loss=PPOLoss(), name="learners")
dqn = create_rollout_workers(env="CartPole-v1", loss=DQNLoss())
r2d2 = create_rollout_workers(env="CartPole-v1", loss=R2D2Loss())


def policy_of(agent: str) -> Literal["PPO", "DQN"]:
    return "PPO"


LOSSES: dict[Literal["PPO", "DQN"], PPOLoss | DQNLoss] = {"PPO": PPOLoss(), "DQN": DQNLoss()}
teacher = create_actor(Learner)
many = create_rollout_workers(env="x", losses=LOSSES, policy_of=policy_of)


# --------------------------------------------------------------------------- flow


def no_gradients() -> Iter[object]:
    return ParallelRollouts(a3c).gather_async().for_each(ApplyGradients(a3c))  # ERR PLUGIN flow


def no_gradients_of_mine() -> Iter[object]:
    return from_actors(actors, Worker.sample).gather_async().for_each(Apply(actors))  # ERR PLUGIN flow


def rounds_are_lists() -> Iter[object]:
    return from_actors(actors, Worker.sample).gather_rounds().for_each(OffPolicyStep())  # ERR PLUGIN flow


def rounds_of_batches() -> Iter[object]:
    wider = ParallelRollouts(ppo).par_with_columns(ComputeAdvantages())
    return wider.gather_rounds().for_each(TrainOneStep(ppo))  # ERR PLUGIN flow


def lists_inside() -> Iter[object]:
    return from_actors(actors, Worker.sample).par_batch(2).par_for_each(Compute()).gather_sync()  # ERR PLUGIN flow


def numbers() -> Iter[object]:
    return from_range(3).for_each(Length())  # ERR PLUGIN flow


def a_class() -> Iter[object]:
    return from_actors(actors, Worker.sample).gather_sync().for_each(Length)  # ERR PLUGIN flow


def a_function() -> Iter[object]:
    return from_range(3).for_each(abs)  # ERR PLUGIN flow


def an_operator() -> Iter[object]:
    return from_actors(actors, Worker.sample).gather_sync().map(Length())  # ERR PLUGIN flow


def adds_columns() -> Iter[object]:
    return ParallelRollouts(ppo).gather_sync().for_each(ComputeAdvantages())  # ERR PLUGIN flow


def takes_of_nothing() -> Iter[object]:
    return from_range(3).drain().take(2)  # PLUGIN flow


# --------------------------------------------------------------------------- placement


def beside_a_worker() -> Iter[object]:
    return ParallelRollouts(a3c).gather_async().for_each(ComputeGradients())  # ERR PLUGIN placement


def on_the_driver() -> Iter[object]:
    return ParallelRollouts(dqn).par_for_each(StoreToBuffer(create_replay_actors())).gather_async()  # ERR PLUGIN placement


def on_the_driver_alone() -> Iter[object]:
    return from_actors(actors, Worker.sample).gather_sync().hand_off(learner, OnPolicyStep())  # ERR PLUGIN placement


def beside_another_actor() -> Iter[object]:
    return from_actors(actors, Worker.sample).gather_sync().call(learner, Compute())  # ERR PLUGIN placement


def beside_another_worker() -> Iter[object]:
    return ParallelRollouts(a3c).gather_async().hand_off(create_learner(a3c), ComputeGradients())  # ERR PLUGIN placement


def not_gathered() -> Iter[object]:
    return par_from_items([1]).map(abs)  # ERR PLUGIN placement


def not_gathered_and_no_twin() -> Iter[object]:
    return par_from_items([1]).drain()  # ERR PLUGIN placement


def gathered_twice() -> Iter[object]:
    return from_range(3).gather_sync()  # ERR PLUGIN placement


def union_of_shards() -> Iter[object]:
    return Union(from_range(3), par_from_items([1]))  # ERR PLUGIN placement


def zipped_with_shards() -> Iter[object]:
    return from_range(3).zip(par_from_items([1]))  # ERR PLUGIN placement


def report_of_shards() -> object:
    return ReportMetrics(ParallelRollouts(a3c), a3c)  # ERR PLUGIN placement


# --------------------------------------------------------------------------- sync


def asynchronous() -> Iter[object]:
    return ParallelRollouts(ppo).par_with_columns(ComputeAdvantages()).gather_async().for_each(TrainOneStep(ppo))  # ERR PLUGIN sync


def shuffled() -> Iter[object]:
    return from_actors(actors, Worker.sample).gather_sync().shuffle(4).tap(print).for_each(OnPolicyStep())  # ERR PLUGIN sync


def shuffled_inside() -> Iter[object]:
    stream = from_actors(actors, Worker.sample).par_shuffle(4)
    return stream.gather_sync().for_each(OnPolicyStep())  # ERR PLUGIN sync


def united() -> Iter[object]:
    left, right = from_actors(actors, Worker.sample).split()
    return Union(left, right).for_each(OnPolicyStep())  # ERR PLUGIN sync


# --------------------------------------------------------------------------- columns


def no_advantages() -> Iter[object]:
    return ParallelRollouts(ppo).gather_sync().for_each(TrainOneStep(ppo))  # ERR PLUGIN columns


def no_advantages_in_a_round() -> Iter[object]:
    return ConcatRounds(ParallelRollouts(ppo).gather_rounds()).for_each(TrainOneStep(ppo))  # ERR PLUGIN columns


def nothing_to_standardise() -> Iter[object]:
    return ParallelRollouts(ppo).gather_sync().with_columns(StandardizeFields("advantages"))  # ERR PLUGIN columns


def not_replayed() -> Iter[object]:
    return ParallelRollouts(dqn).gather_async().for_each(UpdatePriorities(dqn))  # ERR PLUGIN columns


def rows_for_a_loss_of_sequences() -> Iter[object]:
    return ParallelReplay(create_replay_actors()).gather_sync().for_each(TrainOneStep(r2d2))  # ERR PLUGIN columns


def sequences_for_a_loss_of_rows() -> Iter[object]:
    sequences = ParallelReplay(create_replay_actors(kind="sequences")).gather_sync()
    return sequences.for_each(TrainOneStep(dqn))  # ERR PLUGIN columns


def of_one_policy() -> Iter[object]:
    chosen = Select(ParallelRollouts(many).gather_async(), policy="DQN")
    return chosen.for_each(TrainOneStep(many, loss=DQNLoss()))  # ERR PLUGIN columns


# --------------------------------------------------------------------------- policy


def no_such_policy() -> Iter[object]:
    return Select(ParallelRollouts(many).gather_sync(), policy="PPOO")  # ERR PLUGIN policy


def nothing_like_it() -> Iter[object]:
    return Select(ParallelRollouts(many).gather_sync(), policy="first")  # ERR PLUGIN policy


# --------------------------------------------------------------------------- linear, unused


def consumed_twice() -> Iter[object]:
    rollouts = ParallelRollouts(a3c).gather_async()
    return Union(rollouts.filter(bool), rollouts.tap(print))  # PLUGIN linear


def shards_consumed_twice() -> Iter[object]:
    shards = par_from_items([1])
    return Union(shards.gather_sync(), shards.gather_async())  # PLUGIN linear


def branch_consumed_twice() -> Iter[object]:
    left, right = from_range(3).split()
    return Union(left, right, left)  # PLUGIN linear


def branch_left_over() -> Iter[object]:
    left, middle, right = from_range(3).split(3)  # PLUGIN unused
    return Union(left, right)


# --------------------------------------------------------------------------- literal


def batches_of_nothing() -> Iter[object]:
    return from_range(3).batch(0)  # PLUGIN literal


def calls_owed() -> Iter[object]:
    return par_from_items([1]).gather_async(in_flight=-1)  # PLUGIN literal


def too_few_weights() -> Iter[object]:
    return Union(from_range(3), from_range(4), weights=[1])  # PLUGIN literal


def too_few_weights_for_a_list() -> Iter[object]:
    parts = [from_range(3).filter(bool), from_range(4).filter(bool)]
    return Union(*parts, weights=[1])  # PLUGIN literal


def over_other_actors() -> Iter[object]:
    some, others = par_from_items([1]), par_from_items([2])
    return some.par_zip(others).gather_sync()  # PLUGIN literal


def asked_for_more() -> Iter[object]:
    return ParallelReplay(create_replay_actors()).par_filter(bool).gather_async()  # PLUGIN literal


def nobody_works() -> Iter[object]:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss(), num_workers=0)  # PLUGIN literal
    return ParallelRollouts(workers).gather_sync()


def no_target_network() -> Iter[object]:
    stats = ParallelRollouts(a3c).gather_async().for_each(TrainOneStep(a3c))
    return stats.for_each(UpdateTargetNetwork(a3c))  # PLUGIN literal


def learns_never() -> Iter[object]:
    return ParallelRollouts(a3c).gather_async().hand_off(create_learner(a3c), LearnOnBatch(), mailbox=0)  # PLUGIN literal


def advantages_out_of_bounds() -> Iter[object]:
    return ParallelRollouts(ppo).par_with_columns(ComputeAdvantages(gamma=1.5)).gather_sync()  # PLUGIN literal


# --------------------------------------------------------------------------- travel


def takes_a_lock_along() -> Iter[object]:
    lock = threading.Lock()
    return par_from_items([1]).par_map(lambda x: (lock, x)).gather_sync()  # PLUGIN travel


@dataclass(frozen=True)
class Keeps(Stateless[int, int]):
    lines: object

    def apply(self, item: int, /) -> int:
        return item


def takes_a_generator_along() -> Iter[object]:
    lines = (str(number) for number in range(3))
    return par_from_items([1]).par_for_each(Keeps(lines)).gather_sync()  # PLUGIN travel


def learns_from_a_live_iterator() -> Iter[object]:
    each = iter([1, 2])
    return from_items([1]).hand_off(teacher, Keeps(each))  # PLUGIN travel


class Guards(Stateless[int, int]):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def apply(self, item: int, /) -> int:
        return item


def makes_a_lock_itself() -> Iter[object]:
    return par_from_items([1]).par_for_each(Guards()).gather_sync()  # PLUGIN travel


def cannot_be_copied() -> Iter[object]:
    return from_items([1]).for_each(Guards())  # PLUGIN travel


def asks_a_database() -> Iter[object]:
    db = sqlite3.connect(":memory:")
    return par_from_items([1]).par_map(lambda x: db.execute("select ?", (x,))).gather_sync()  # PLUGIN travel
