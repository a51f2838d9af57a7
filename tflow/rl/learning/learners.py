"""Several learners that train one policy: each has a share of every batch, and all take the same steps.

A step is a round of ``par_all_reduce``: every learner computes the gradient on its share of a minibatch, and applies the mean of
all. Weights, optimisers and schedules begin equal and see the same gradients, so the replicas stay equal bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from typing_extensions import TypeVar

from tflow.combinators import check
from tflow.combinators.create import par_scatter
from tflow.combinators.stream import Iter
from tflow.errors import PlanError, TflowError
from tflow.live import Live
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch
from tflow.rl.data.moments import ByColumn, Moments
from tflow.rl.learning.agent import AnyLoss
from tflow.rl.learning.gradients import AverageGradients, Gradients
from tflow.rl.learning.losses import Loss, batch_of, is_on_policy
from tflow.rl.learning.training import (
    LearnOnBatch,
    SendWeights,
    TrainStats,
    check_origin,
    check_training,
    lag_of,
    moments_of,
    steps_of,
)
from tflow.rl.policy.network_spec import Memory
from tflow.rl.rollout.worker_spec import AnyWorkers, LearnerActor, Workers, create_learner, create_learners
from tflow.types import ActorOp, Async, Frozen, LiveOp, Signature, Stateless, Sync

if TYPE_CHECKING:
    from tflow.rl.learning.replica import Replica

Reads = TypeVar("Reads")
Requires = TypeVar("Requires", bound=Async)
COMPARED_EVERY = 100
"""Updates between two comparisons of the weights of all learners."""


@dataclass(frozen=True)
class BatchShare(Frozen):
    """The rows of a batch that one of several learners trains on, and how far the run is."""

    batch: Batch[str]
    rows: int
    """Rows of the whole batch."""
    minibatches: int
    """Minibatches per epoch, the same for all learners."""
    env_steps: int = 0
    stops_at: int | None = None
    moments: ByColumn = field(default_factory=dict)
    """Running statistics, for the next batch: the workers sample it with these, too."""


def divided(batch: Batch[str], num: int, *, pieces: bool) -> list[Batch[str]]:
    """A batch in ``num`` consecutive shares, as equal as may be; with ``pieces``, of whole pieces. If these are
    fewer than ``num``, the last shares are empty."""
    units = batch.ends + 1 if pieces else np.arange(1, len(batch) + 1)
    full = max(1, min(num, len(units)))
    cuts = [0]
    for k in range(1, full):  # the unit that ends nearest to an equal share, with at least one unit for each
        nearest = int(np.abs(units - len(batch) * k / full).argmin()) + 1
        cuts.append(min(max(nearest, cuts[-1] + 1), len(units) - (full - k)))
    edges = [0, *(int(units[cut - 1]) for cut in cuts[1:]), *[len(batch)] * (num - full + 1)]
    return [batch.slice(start, stop) for start, stop in pairwise(edges)]


class DivideBatch(LiveOp[Batch[Any], list[BatchShare], Async]):  # Any: what the loss reads
    """Divides each batch into one share per learner, as equal as may be.

    Args:
        workers: The workers whose policy is trained.
        num: Learners.
        loss: The loss of the learners.
        minibatch: Rows per gradient step, of all learners together; None takes the whole batch.
        pieces: Whole pieces stay together, for recurrent networks and losses that need consecutive steps.
    """

    def __init__(self, workers: AnyWorkers, num: int, loss: AnyLoss, *, minibatch: int | None, pieces: bool) -> None:
        self.workers = workers
        self.num = num
        self.loss = loss
        self.minibatch = minibatch
        self.pieces = pieces

    def signature(self, usual: Signature, /) -> Signature:
        """What the loss reads and requires."""
        return replace(usual, consumes=batch_of(self.loss), requires=Sync if is_on_policy(self.loss) else Async)

    def apply(self, live: Live, item: Batch[str], /) -> list[BatchShare]:
        check_origin("DivideBatch", live, self.workers, item.env_steps)
        lag_of(live, self.workers, item.policy, on_policy=is_on_policy(self.loss))  # raises for what is not fresh
        shares = divided(item, self.num, pieces=self.pieces)
        measured = {name: Moments.of(item[name]) for name in self.loss.measured} if len(item) else {}
        if measured:
            shares = [self.loss.share(each, measured) for each in shares]
        wanted = -(-len(item) // (self.minibatch or max(1, len(item))))  # none if the batch is empty
        units = [len(each.ends) if self.pieces else len(each) for each in shares if len(each)]
        minibatches = min([wanted, *units])  # no learner has some that are empty, unless its share is
        steps, moments = steps_of(live, self.workers), moments_of(live, self.workers, item.policy)
        return [BatchShare(each, len(item), minibatches, int(steps), steps.stops_at, moments) for each in shares]


@dataclass(frozen=True)
class Minibatch(Frozen):
    """Rows of a share, for one gradient step of one part."""

    share: Batch[str]
    rows: Array | None
    """Rows, or sequences. None: all of them, in order."""
    part: str


@dataclass(frozen=True)
class TakeMinibatches(ActorOp["Replica", BatchShare, list[Minibatch]]):
    """The minibatches of all epochs, each epoch in a new random order, and for each the parts that are trained, in turn.

    Args:
        epochs: Passes over each batch.
        pieces: Minibatches are made of whole pieces.
    """

    epochs: int = 1
    pieces: bool = False

    def apply(self, actor: Replica, item: BatchShare, /) -> list[Minibatch]:
        share = actor.begin(item, updates=self.epochs * item.minibatches, pieces=self.pieces and item.minibatches > 1)
        units = len(share) // (int(share.ends[0]) + 1) if "mask" in share else len(share)
        chosen: list[Array | None] = [None] * self.epochs
        if item.minibatches > 1:
            orders = (np.array_split(actor.rng.permutation(units), item.minibatches) for _ in range(self.epochs))
            chosen = [rows for order in orders for rows in order]
        return [Minibatch(share, rows, part) for rows in chosen for part in actor.parts]


class MinibatchGradients(ActorOp["Replica", Minibatch, Gradients]):
    """The gradient of the loss of a part on a minibatch."""

    def apply(self, actor: Replica, item: Minibatch, /) -> Gradients:
        return actor.share_of_gradient(item.share, item.rows, item.part)


@dataclass(frozen=True)
class TrainedTogether(Frozen):
    """What a learner reports when it has trained on its share of a batch."""

    stats: TrainStats
    digest: str
    """Hash of the weights, now and then; else empty."""


@dataclass(frozen=True)
class ApplyTogether(ActorOp["Replica", Gradients, list[TrainedTogether]]):
    """Takes one optimiser step with the mean gradient. Reports after the last step on a batch; one learner sends its weights.

    Args:
        compared_every: Updates between two comparisons of the weights of all learners.
    """

    compared_every: int = COMPARED_EVERY

    def apply(self, actor: Replica, item: Gradients, /) -> list[TrainedTogether]:
        outcome = actor.step_together(item)
        if outcome is None:
            return []
        before = actor.updates - outcome.updates
        compared = before == 0 or actor.updates // self.compared_every > before // self.compared_every
        weights = actor.weights if actor.is_first and outcome.updates else None
        stats = TrainStats(item.policy, outcome.rows, outcome.updates, outcome.skipped, 0, 0, outcome.stats, weights)
        stats = replace(stats, td_errors=actor.shared.priorities)
        return [TrainedTogether(stats, actor.digest() if compared else "")]


class OneOfEqual(Stateless[list[TrainedTogether], TrainStats]):
    """The report of all learners together. Raises if their weights differ."""

    def apply(self, item: list[TrainedTogether], /) -> TrainStats:
        others = [str(k) for k, each in enumerate(item) if each.digest != item[0].digest]
        if others:
            raise TflowError(
                f"The weights of learner {' and '.join(others)} differ from those of learner 0, though all take the same steps. "
                "Does the network keep statistics of its batches, as batch normalisation does? Take layer normalisation, or one "
                "learner."
            )
        all_stats = [each.stats for each in item]
        names = dict.fromkeys(name for each in all_stats for name in each.stats)
        stats = {name: float(np.mean([each.stats[name] for each in all_stats if name in each.stats])) for name in names}
        errors = [each.td_errors for each in all_stats if each.td_errors is not None]
        joined = (np.concatenate([ids for ids, _ in errors]), np.concatenate([each for _, each in errors])) if errors else None
        return replace(item[0].stats, stats=stats, td_errors=joined)


@overload
def learn_together(
    stream: Iter[Reads, Requires],
    workers: Workers[Reads, Requires],
    *,
    num: int,
    epochs: int = 1,
    minibatch: int | None = None,
    policy: str = "default",
) -> Iter[TrainStats]: ...
@overload
def learn_together(
    stream: Iter[Reads, Requires],
    workers: AnyWorkers,
    *,
    num: int,
    loss: Loss[Reads, Requires],
    epochs: int = 1,
    minibatch: int | None = None,
    policy: str = "default",
) -> Iter[TrainStats]: ...
def learn_together(
    stream: Iter[Any, Async],  # Any: what the loss reads
    workers: AnyWorkers,
    *,
    num: int,
    loss: AnyLoss | None = None,
    epochs: int = 1,
    minibatch: int | None = None,
    policy: str = "default",
) -> Iter[TrainStats]:
    """Train one policy on each batch with several learners, and send the new weights to all workers.

    Args:
        stream: Batches with the columns that the loss reads.
        workers: The workers whose policy is trained.
        num: Learners, each an actor of its own.
        loss: The loss of the agent, which types the stream where the type of the workers does not.
        epochs: Passes over each batch.
        minibatch: Rows per gradient step, of all learners together; None takes the whole batch.
        policy: The policy to train, if there are several.
    """
    check_training("learn_together", workers, epochs, minibatch)
    learners = create_learners(workers, num=num, policy=policy)
    agent = workers.spec.agents[policy]
    if loss is not None and loss != agent.loss and not workers.spec.stands_in:
        raise PlanError(f"learn_together: {workers.name} train {agent.loss!r}, but loss is {loss!r}. Describe the agent once.")
    own = loss or agent.loss
    if own.full_batch:
        raise PlanError(f"learn_together: {type(own).__name__} needs whole batches, which several learners divide. Take one.")
    check.instance("learn_together", "stream", stream, Iter, "a stream of batches")
    pieces = own.sequential or isinstance(agent.model, Memory)
    shares = par_scatter(stream.for_each(DivideBatch(workers, num, own, minibatch=minibatch, pieces=pieces)), learners)
    gradients = shares.par_for_each(TakeMinibatches(epochs, pieces)).par_flatten().par_for_each(MinibatchGradients())
    trained = gradients.par_all_reduce(AverageGradients()).par_for_each(ApplyTogether()).par_flatten()
    return trained.gather_rounds().for_each(OneOfEqual()).for_each(SendWeights(workers))


@overload
def learn_in_actors(
    stream: Iter[Reads, Requires],
    workers: Workers[Reads, Requires],
    *,
    num: int = 1,
    policy: str = "default",
    mailbox: int = 2,
    weights_every: int = 1,
) -> Iter[TrainStats]: ...
@overload
def learn_in_actors(
    stream: Iter[Reads, Requires],
    workers: AnyWorkers,
    *,
    loss: Loss[Reads, Requires],
    num: int = 1,
    policy: str = "default",
    mailbox: int = 2,
    weights_every: int = 1,
) -> Iter[TrainStats]: ...
def learn_in_actors(
    stream: Iter[Any, Async],  # Any: what the loss reads
    workers: AnyWorkers,
    *,
    loss: AnyLoss | None = None,
    num: int = 1,
    policy: str = "default",
    mailbox: int = 2,
    weights_every: int = 1,
) -> Iter[TrainStats]:
    """Train one policy on each batch while workers sample, in a learner of its own or in several.

    Args:
        stream: Batches with the columns that the loss reads.
        workers: The workers whose policy is trained.
        loss: The loss of the agent, which types the stream where the type of the workers does not.
        num: Learners, each an actor of its own.
        policy: The policy to train, if there are several.
        mailbox: Batches queued at the learner, at most; several learners take one at a time.
        weights_every: Updates between the weights that one learner sends; several send them after each batch.
    """
    if num > 1:
        return learn_together(stream, workers, num=num, loss=loss or workers.spec.agents[policy].loss, policy=policy)
    learner: LearnerActor[Any, Any] = create_learner(workers, policy=policy)  # Any: as above
    learned = stream.hand_off(learner, LearnOnBatch(weights_every=weights_every), mailbox=mailbox)
    return learned.for_each(SendWeights(workers, learner))
