"""Plans without annotations: mypy does not look into them, so the plugin has to say that nothing of them was checked.

The settings below let the checkers pass over what is missing, as most projects do that are not strict.
"""
# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# pyrefly: ignore-errors[implicit-any-parameter]

from __future__ import annotations

from rl_good import LOSSES, policy_of
from world import OffPolicyStep, Report, Worker
from world import workers as tiny

from tflow import (
    ApplyGradients, ComputeGradients, create_rollout_workers, flow, from_actors, from_range, Iter, Metrics,
    ParallelRollouts, Plan, plan, ReportMetrics, Rollout, Select, TrainOneStep, Union,
)
from tflow.losses import A3CLoss

workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
many = create_rollout_workers(env="x", losses=LOSSES, policy_of=policy_of)


def double(number: int) -> int:
    return 2 * number


@plan
def a3c():  # PLUGIN untyped
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    return ReportMetrics(grads.for_each(ApplyGradients(workers)), workers)


@flow
def doubled(stream):  # PLUGIN untyped
    return stream.map(double)


@flow
def with_defaults(stream, size=2, *, seed=0):  # PLUGIN untyped
    return stream.batch(size).shuffle(4, seed=seed)


@flow
def any_number(*streams, **options):  # PLUGIN untyped
    return Union(*streams, **options)


@flow
def wrong_inside(stream):  # PLUGIN untyped
    """Nobody sees that the stream is consumed twice, and that batches of 0 are refused."""
    return Union(stream.batch(0), stream)


@plan
def over_several_lines(  # PLUGIN untyped
    name,
    count=2,
):
    stream = from_actors(tiny, Worker.sample).gather_async(in_flight=count).named(name)
    return Report(stream.for_each(OffPolicyStep()), tiny)


@plan
def with_local_annotations():  # PLUGIN untyped
    rollouts: Iter[Rollout] = ParallelRollouts(workers).gather_async()
    return ReportMetrics(rollouts, workers)


@plan
def several_policies():  # PLUGIN untyped
    r1, r2 = ParallelRollouts(many).split()
    stats = Select(r1, policy="PPO").for_each(TrainOneStep(many, loss=A3CLoss()))
    return ReportMetrics(Union(stats, r2.drain()), many)


class Trainer:
    @plan
    def build(self):  # PLUGIN untyped
        return ReportMetrics(self.trained(ParallelRollouts(workers).gather_async()), workers)

    @flow
    def trained(self, stream):  # PLUGIN untyped
        return stream.for_each(TrainOneStep(workers))

    @staticmethod
    @flow
    def short(stream):  # PLUGIN untyped
        return stream.take(3)

    @classmethod
    @flow
    def shorter(cls, stream):  # PLUGIN untyped
        return cls.short(stream).take(1)


def planner() -> object:
    @plan
    def build():  # PLUGIN untyped
        return ReportMetrics(ParallelRollouts(workers).gather_async(), workers)

    return build


if hasattr(workers, "spec"):

    @flow
    def on_one_path(stream):  # PLUGIN untyped
        return stream.map(double)


@plan
def uses_one() -> Plan[Metrics]:
    """It is typed, and what it calls is not: that is said there, and once."""
    stats = Trainer().trained(ParallelRollouts(workers).gather_async())
    return ReportMetrics(stats, workers)


def helper(stream):
    """Without a mark it is a function like any other."""
    return stream.map(double)


@flow
def uses_a_helper(stream: Iter[int]) -> Iter[int]:
    found: Iter[int] = helper(stream)
    return Union(found, from_range(3))
