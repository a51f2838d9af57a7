"""Training where rollouts are sampled: workers average their gradients among themselves, and only statistics leave them.

The shares of a batch are the rollouts of the workers, of any length. The workers first tell each other how long theirs are, and
what must be known of the whole batch: how many minibatches there are, running statistics, the mean and variance of advantages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from typing_extensions import TypeVar

from tflow.combinators import check, nodes
from tflow.combinators.par import ParIter
from tflow.combinators.stream import Iter
from tflow.errors import PlanError, TflowError
from tflow.live import Live
from tflow.rl.data.batch import Batch, Rollout
from tflow.rl.data.episodes import Episodes
from tflow.rl.data.moments import ByColumn, Moments, merged_moments
from tflow.rl.learning.agent import AnyLoss
from tflow.rl.learning.gradients import AverageGradients, Gradients
from tflow.rl.learning.learners import (
    ApplyTogether,
    BatchShare,
    Minibatch,
    MinibatchGradients,
    OneOfEqual,
    TakeMinibatches,
    TrainedTogether,
)
from tflow.rl.learning.losses import Loss, batch_of, is_on_policy
from tflow.rl.learning.training import TrainStats, check_training
from tflow.rl.policy.network_spec import Memory
from tflow.rl.rollout.in_place import StepTaken
from tflow.rl.rollout.worker import RolloutWorker, SingleWorker
from tflow.rl.rollout.worker_spec import AnyWorkers, MultiWorkers
from tflow.types import ActorOp, Async, Frozen, LiveOp, Sends, Signature, Stateless, Sync, TimeBudget

Reads = TypeVar("Reads")
Requires = TypeVar("Requires", bound=Async)
STEP_BUDGET = TimeBudget(seconds=0.02, items=64)
"""Of a worker that is asked for steps: it looks up that often, and is cut then."""


class FinishRollout(ActorOp["RolloutWorker", list[StepTaken], Rollout]):
    """The rollout of the steps that a worker has taken."""

    def apply(self, actor: RolloutWorker, item: list[StepTaken], /) -> Rollout:
        assert isinstance(actor, SingleWorker)
        return actor.finish_rollout()


class PreemptedRollouts(ParIter[Rollout, Sync, RolloutWorker]):
    """A parallel stream of rollouts in rounds of all workers. As soon as a share of the workers has finished its rollout, those
    of the others are cut, and yielded as far as they are.

    Args:
        workers: The workers.
        share: The share of workers that are waited for.
        on_death: When a worker dies: ``"raise"`` ends the run with an error that names it, ``"skip"`` goes on with the others.
        timeout_s: Seconds within which a worker must answer; None: any time.

    Law: with ``share=1`` the same rollouts as ``ParallelRollouts``. All rows that were sampled are in one of them.
    """

    __slots__ = ()
    shape: ClassVar[str] = "PreemptedRollouts({workers})"

    def __init__(
        self, workers: AnyWorkers, *, share: float, on_death: nodes.Missing = "raise", timeout_s: float | None = None
    ) -> None:
        check_single("PreemptedRollouts", workers)
        shown = self.shown(workers=workers.name)
        steps: ParIter[StepTaken, Sync, RolloutWorker] = ParIter(
            nodes.FromActors(workers, SingleWorker.take_step, shown_as=shown)
        )
        rounds = steps.par_batch_together(
            workers.spec.fragment, share=share, per_call=STEP_BUDGET, on_death=on_death, timeout_s=timeout_s
        )
        super().__init__(rounds.par_for_each(FinishRollout()).node)


def check_single(where: str, workers: AnyWorkers) -> None:
    """Raise for workers with several policies."""
    check_training(where, workers)
    if isinstance(workers, MultiWorkers):
        raise PlanError(f"{where}: {workers.name} have several policies. Training in place is for workers with one.")


@dataclass(frozen=True)
class ShareSize(Frozen):
    """What a worker tells the others of its rollout."""

    shard: int
    rows: int
    steps: int
    """Env steps of this worker so far."""
    cut: bool
    """It is shorter than it was to be."""
    measured: ByColumn
    """Moments of the columns that the loss asks for."""
    env_steps: int
    summary: object


@dataclass(frozen=True)
class WholeBatch(Frozen):
    """What all workers know of the batch that they train on together."""

    first: int
    """The worker that reports the weights."""
    rows: int
    steps: Mapping[int, int]
    """Env steps so far of each worker that is there."""
    cut: int
    """Rollouts that were cut."""
    measured: ByColumn
    running: Mapping[str, ByColumn]
    """Running statistics of this batch, by policy."""


class HoldRollout(ActorOp["RolloutWorker", Any, ShareSize]):  # Any: what the loss reads
    """Keeps a rollout in the worker, and tells its size.

    Args:
        loss: The loss that it is for.
    """

    def __init__(self, loss: AnyLoss) -> None:
        self.loss = loss

    def signature(self, usual: Signature, /) -> Signature:
        """What the loss reads and requires."""
        return replace(usual, consumes=batch_of(self.loss), needs_sync=is_on_policy(self.loss))

    def apply(self, actor: RolloutWorker, item: Batch[str], /) -> ShareSize:
        actor.trained.held = item
        measured = {name: Moments.of(item[name]) for name in self.loss.measured} if len(item) else {}
        return ShareSize(actor.shard.index, len(item), actor.steps, actor.trained.was_cut, measured, item.env_steps, item.summary)


class AgreeOnBatch(Stateless[list[ShareSize], WholeBatch]):
    """What the rollouts of all workers are together. All workers compute it, in the same order."""

    def apply(self, item: list[ShareSize], /) -> WholeBatch:
        measured: Mapping[str, ByColumn] = {}
        running: Mapping[str, ByColumn] = {}
        for each in item:
            if each.measured:
                measured = merged_moments(measured, {"": each.measured})
            if isinstance(each.summary, Episodes):
                running = merged_moments(running, each.summary.moments)
        return WholeBatch(
            first=min(each.shard for each in item),
            rows=sum(each.rows for each in item),
            steps={each.shard: each.steps for each in item},
            cut=sum(each.cut for each in item),
            measured=measured.get("", {}),
            running=running,
        )


@dataclass(frozen=True)
class TakeShare(ActorOp["RolloutWorker", WholeBatch, list[Minibatch]]):
    """The minibatches of a worker's share: as many as every other worker makes of its own, though some may be empty.

    Args:
        policy: The policy that is trained.
        epochs: Passes over each batch.
        minibatch: Rows per gradient step, of all workers together; None takes the whole batch.
        pieces: Minibatches are made of whole pieces.
    """

    policy: str
    epochs: int
    minibatch: int | None
    pieces: bool

    def apply(self, actor: RolloutWorker, item: WholeBatch, /) -> list[Minibatch]:
        replica, own = actor.replica(self.policy), actor.trained
        batch, own.held = own.held, None
        if batch is None:
            raise TflowError(f"{actor.shard.actors}[{actor.shard.index}] was asked to train, but has no rollout.")
        if not item.rows:  # all episodes were discarded
            return []
        own.steps.update(item.steps)
        own.moments = merged_moments({"": own.moments}, {"": item.running.get(self.policy, {})})[""]
        replica.is_first = actor.shard.index == item.first
        share = replica.loss.share(batch.untyped(), item.measured) if len(batch) else batch.untyped()
        minibatches = -(-item.rows // self.minibatch) if self.minibatch is not None else 1
        taken = BatchShare(share, item.rows, minibatches, sum(own.steps.values()), actor.stops_at, own.moments)
        found = TakeMinibatches(self.epochs, self.pieces).apply(replica, taken)
        replica.shared.described["preempted"] = float(item.cut)
        return found


class GradientsInPlace(ActorOp["RolloutWorker", Minibatch, Gradients]):
    """The gradient of the loss of a part on a minibatch of the worker's own rollout."""

    def apply(self, actor: RolloutWorker, item: Minibatch, /) -> Gradients:
        return MinibatchGradients().apply(actor.replica(item.share.policy), item)


class ApplyInPlace(ActorOp["RolloutWorker", Gradients, list[TrainedTogether]]):
    """Takes one optimiser step with the mean gradient. Reports after the last step on a batch; one worker adds its weights, with
    which the driver evaluates and saves."""

    def apply(self, actor: RolloutWorker, item: Gradients, /) -> list[TrainedTogether]:
        return ApplyTogether().apply(actor.replica(item.policy), item)


class KeepWeights(LiveOp[TrainStats, TrainStats, Async]):
    """Keeps the weights that come from a worker, for evaluation and saving, and tells all workers how far the run is.

    Args:
        workers: The workers that train in place.
    """

    sends: ClassVar[Sends] = {"workers": "progress"}

    def __init__(self, workers: AnyWorkers) -> None:
        self.workers = workers
        self.learners = workers.learners

    def apply(self, live: Live, item: TrainStats, /) -> TrainStats:
        handles = live[self.workers]
        version = handles.version(item.policy)
        if item.weights is not None:
            live.resident(self.learners[item.policy]).receive(item.weights)
            version = handles.advance(item.policy)
        progress = live.progress.env_steps(self.workers), live.progress.stops_at()
        handles.update(RolloutWorker.set_progress, progress, policy=item.policy)
        return replace(item, version=version, weights=None)


def learn_in_place(
    stream: ParIter[Reads, Requires, RolloutWorker],
    workers: AnyWorkers,
    *,
    loss: Loss[Reads, Requires],
    epochs: int = 1,
    minibatch: int | None = None,
    on_death: nodes.Missing = "raise",
    timeout_s: float | None = None,
) -> Iter[TrainStats]:
    """Train in the workers that sampled: each computes gradients on its own rollout, and all apply the mean of them.

    Args:
        stream: Rollouts in the workers, with the columns that the loss reads.
        workers: The workers, whose policies stay equal bit for bit.
        loss: The loss of the workers.
        epochs: Passes over each batch.
        minibatch: Rows per gradient step, of all workers together; None takes the whole batch.
        on_death: When a worker dies: ``"raise"`` ends the run with an error that names it, ``"skip"`` goes on with the others.
        timeout_s: Seconds within which a worker must answer; None: any time.
    """
    check_single("learn_in_place", workers)
    check_training("learn_in_place", workers, epochs, minibatch)
    check.instance("learn_in_place", "stream", stream, ParIter, "a parallel stream of rollouts")
    ((policy, agent),) = workers.spec.agents.items()
    if loss.full_batch and not workers.spec.stands_in:
        raise PlanError(f"learn_in_place: {type(loss).__name__} needs whole batches, which several workers divide.")
    take = TakeShare(policy, epochs, minibatch, pieces=loss.sequential or isinstance(agent.model, Memory))
    alive: Any = {"on_death": on_death, "timeout_s": timeout_s}  # Any: keyword arguments
    shares = stream.par_for_each(HoldRollout(loss)).par_all_reduce(AgreeOnBatch(), **alive).par_for_each(take)
    gradients = shares.par_flatten().par_for_each(GradientsInPlace())
    trained = gradients.par_all_reduce(AverageGradients(), **alive).par_for_each(ApplyInPlace()).par_flatten()
    return trained.gather_rounds(timeout_s=timeout_s).for_each(OneOfEqual()).for_each(KeepWeights(workers))
