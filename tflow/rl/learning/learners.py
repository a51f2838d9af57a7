"""Several learners that train one policy: each has a share of every batch, and all take the same steps.

A step is a round of ``par_all_reduce``: every learner computes the gradient on its share of a minibatch, and applies the mean of
all. Weights, optimisers and schedules begin equal and see the same gradients, so the replicas stay equal bit for bit.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tflow.combinators import check
from tflow.combinators.create import par_scatter
from tflow.combinators.stream import Iter
from tflow.errors import TflowError
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch
from tflow.rl.learning.gradients import AverageGradients, Gradients
from tflow.rl.learning.training import SendWeights, TrainStats
from tflow.rl.rollout.worker_spec import AnyWorkers, create_learners
from tflow.rl.schedules import EnvSteps
from tflow.types import ActorOp, Async, Frozen, Stateless

if TYPE_CHECKING:
    from tflow.rl.learning.learner import Learner


@dataclass(frozen=True)
class BatchShare(Frozen):
    """The rows of a batch that one of several learners trains on."""

    batch: Batch[str]
    rows: int
    """Rows of the whole batch."""
    minibatches: int
    """Minibatches per epoch, the same for all learners."""


@dataclass(frozen=True)
class DivideBatch(Stateless[Batch[Any], list[BatchShare]]):  # Any: whatever the loss reads
    """Divides each batch into one share per learner, whose rows differ by one at most.

    Args:
        num: Learners.
        minibatch: Rows per gradient step, of all learners together; None takes the whole batch.
    """

    num: int
    minibatch: int | None = None

    def apply(self, item: Batch[str], /) -> list[BatchShare]:
        rows = len(item)
        if rows < self.num:
            raise TflowError(f"DivideBatch: a batch of {rows} rows cannot be divided among {self.num} learners. Sample more.")
        edges = [rows * each // self.num for each in range(self.num + 1)]
        wanted = -(-rows // self.minibatch) if self.minibatch is not None else 1
        minibatches = min(wanted, rows // self.num)  # none is empty
        return [BatchShare(item.slice(edges[k], edges[k + 1]), rows, minibatches) for k in range(self.num)]


@dataclass(frozen=True)
class Minibatch(Frozen):
    """Rows of a share, for one gradient step."""

    batch: Batch[str]
    rows: Array | None
    """None: all of them, in order."""


@dataclass(frozen=True)
class TakeMinibatches(ActorOp["Learner", BatchShare, list[Minibatch]]):
    """The minibatches of all epochs, each epoch in a new random order.

    Args:
        epochs: Passes over each batch.
    """

    epochs: int = 1

    def apply(self, actor: Learner, item: BatchShare, /) -> list[Minibatch]:
        prepared = actor.prepared(item.batch)
        actor.begin(item.rows, updates=self.epochs * item.minibatches)
        if item.minibatches == 1:
            return [Minibatch(prepared, None)] * self.epochs
        orders = [np.array_split(actor.rng.permutation(len(prepared)), item.minibatches) for _ in range(self.epochs)]
        return [Minibatch(prepared, rows) for order in orders for rows in order]


class MinibatchGradients(ActorOp["Learner", Minibatch, Gradients]):
    """The gradient of the loss on a minibatch."""

    def apply(self, actor: Learner, item: Minibatch, /) -> Gradients:
        rows = item.batch if item.rows is None else item.batch.take(item.rows)
        return actor.share_of_gradient(rows, steps=steps_of(actor))


@dataclass(frozen=True)
class TrainedTogether(Frozen):
    """What a learner reports when it has trained on its share of a batch."""

    stats: TrainStats
    digest: str
    """Hash of the weights."""


class ApplyTogether(ActorOp["Learner", Gradients, list[TrainedTogether]]):
    """Takes one optimiser step with the mean gradient. Reports after the last step on a batch; one learner sends the weights."""

    def apply(self, actor: Learner, item: Gradients, /) -> list[TrainedTogether]:
        outcome = actor.step_together(item, steps=steps_of(actor))
        if outcome is None:
            return []
        stats = TrainStats(item.policy, outcome.rows, outcome.updates, outcome.skipped, stats=outcome.stats)
        if actor.is_first:
            stats = replace(stats, weights=actor.weights)
        return [TrainedTogether(stats, hashlib.blake2b(actor.weights.tobytes(), digest_size=16).hexdigest())]


class OneOfEqual(Stateless[list[TrainedTogether], TrainStats]):
    """The report of all learners, which must have the same weights."""

    def apply(self, item: list[TrainedTogether], /) -> TrainStats:
        others = [str(k) for k, each in enumerate(item) if each.digest != item[0].digest]
        if others:
            raise TflowError(
                f"The learners have come apart: the weights of learner {' and '.join(others)} differ from those of learner 0. "
                "Does the loss draw random numbers, or depend on what only one of them has seen?"
            )
        return next(each.stats for each in item if each.stats.weights is not None)


def steps_of(learner: Learner) -> int:
    """The env steps so far, for schedules; the rows trained on stand in if they are not known."""
    return learner.trained if learner.env_steps is None else EnvSteps(learner.env_steps, learner.stops_at)


def learn_together(
    stream: Iter[Batch[Any], Async],  # Any: whatever the loss of the workers' agent reads
    workers: AnyWorkers,
    *,
    num: int,
    epochs: int = 1,
    minibatch: int | None = None,
    policy: str = "default",
) -> Iter[TrainStats]:
    """Train one policy on each batch with several learners, and send the new weights to all workers.

    Args:
        stream: Batches with the columns that the loss reads.
        workers: The workers whose policy is trained.
        num: Learners, each an actor of its own.
        epochs: Passes over each batch.
        minibatch: Rows per gradient step, of all learners together; None takes the whole batch.
        policy: The policy to train, if there are several.
    """
    check.integer("learn_together", "epochs", epochs, least=1)
    if minibatch is not None:
        check.integer("learn_together", "minibatch", minibatch, least=1)
    learners = create_learners(workers, num=num, policy=policy)
    shares = par_scatter(stream.for_each(DivideBatch(num, minibatch)), learners)
    gradients = shares.par_for_each(TakeMinibatches(epochs)).par_flatten().par_for_each(MinibatchGradients())
    trained = gradients.par_all_reduce(AverageGradients()).par_for_each(ApplyTogether()).par_flatten()
    return trained.gather_rounds().for_each(OneOfEqual()).for_each(SendWeights(workers, learners))
