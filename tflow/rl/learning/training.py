"""Operators that train: apply gradients, make a step of training, spread weights, renew target networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

from typing_extensions import TypeVar

from tflow.combinators import check
from tflow.combinators.actors import Actor, Resident
from tflow.combinators.hints import base_arguments
from tflow.errors import PlanError, TflowError
from tflow.live import Handles, Live
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch, MultiBatch
from tflow.rl.learning.gradients import Gradients
from tflow.rl.learning.losses import Loss
from tflow.rl.policy.weights import Weights
from tflow.rl.replay.sequence_buffer import sequence_priorities
from tflow.rl.rollout.evaluation import Evaluators
from tflow.rl.rollout.worker import RolloutWorker
from tflow.rl.rollout.worker_spec import AnyLoss, AnyWorkers, Workers
from tflow.types import ActorOp, Async, Frozen, LiveOp, Ref, RefOp, Sends, Sync

if TYPE_CHECKING:
    from tflow.rl.learning.learner import Learner

Reads = TypeVar("Reads", contravariant=True)
Requires = TypeVar("Requires", contravariant=True, bound=Async, default=Async)
V = TypeVar("V")


class Stale(TflowError):
    """On-policy training got rollouts that were made with older weights."""


@dataclass(frozen=True)
class TrainStats(Frozen):
    """What one step of training did."""

    policy: str = "default"
    rows: int = 0
    """Rows it learned from."""
    updates: int = 0
    skipped: int = 0
    """Updates that were not made, because the gradient was not finite."""
    version: int = 0
    """How often the weights have been updated, as workers count it."""
    lag: int = 0
    """How many updates had been made since the rows were sampled."""
    stats: Mapping[str, float] = field(default_factory=dict)
    """What the loss reports, averaged over the minibatches."""
    weights: Array | None = None
    """The new weights, if they come from a learner elsewhere."""
    errors: tuple[Array, Array] | None = None
    """The ids of replayed rows and how wrong the policy was about each, for ``SendPriorities``."""


def publish(live: Live, workers: AnyWorkers, policy: str, weights: Array, shards: Iterable[int] | None = None) -> int:
    """Count one update of the weights and send them: to all workers, or to some. Returns the new version."""
    handles = live[workers]
    version = handles.advance(policy)
    steps = live.progress.env_steps(workers)
    handles.update(RolloutWorker.set_weights, Weights(policy, weights, steps), shards=shards, policy=policy)
    return version


def check_origin(where: str, live: Live, workers: AnyWorkers, env_steps: int) -> None:
    """What was newly sampled must come from the workers whose policy is trained with it."""
    if env_steps and live.provenance.sources and not live.comes_from(workers):
        others = " and ".join(sorted({source.actors for source in live.provenance.sources}))
        raise TflowError(
            f"{where}: these rollouts were sampled by {others}, but {workers.name} would be trained with them. Name the same "
            "workers in both places."
        )


def lag_of(live: Live, workers: AnyWorkers, policy: str, *, on_policy: bool = False) -> int:
    """The updates since the item in hand was made; 0 if it does not come from these workers. On-policy training takes nothing
    that is older than its round: the others of a round may have been trained on before, each once."""
    shards, sources = live.shards(workers), live.provenance.sources
    if not shards:
        return 0
    lag = live[workers].version(policy) - live.provenance.versions.get(policy, 0)
    of_one_round = len(sources) == len(shards) and len({source.sequence for source in sources}) == 1
    others = max(len(live[workers]), workers.num) - (len(shards) if of_one_round else 1)  # a pool may shrink meanwhile
    if on_policy and lag > others:
        raise Stale(
            f"These rollouts were made {lag} updates ago, but the loss is on-policy. Each round must be sampled with the current "
            "weights: gather with gather_sync() or gather_rounds(), train on each item once, and let no other step train the "
            "same policy between a split() and this one."
        )
    return lag


class TrainOneStep(LiveOp[Reads, TrainStats, Requires]):
    """Trains the learner on a batch, ``epochs`` times in minibatches of ``minibatch`` rows; sends the new weights to all workers.

    An update whose gradient is not finite is not made, and counted. ``loss`` replaces that of the workers: with several policies,
    it says what the stream must bring.
    """

    sends: ClassVar[Sends] = {"workers": "weights"}

    @overload
    def __init__(
        self,
        workers: Workers[Reads, Requires],
        *,
        epochs: int = 1,
        minibatch: int | None = None,
        max_grad_norm: float | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        workers: AnyWorkers,
        *,
        loss: Loss[Reads, Requires],
        epochs: int = 1,
        minibatch: int | None = None,
        max_grad_norm: float | None = None,
    ) -> None: ...
    def __init__(
        self,
        workers: AnyWorkers,
        *,
        loss: AnyLoss | None = None,
        epochs: int = 1,
        minibatch: int | None = None,
        max_grad_norm: float | None = None,
    ) -> None:
        check_training("TrainOneStep", workers, epochs, minibatch, max_grad_norm)
        if loss is not None:
            check.instance("TrainOneStep", "loss", loss, Loss, "a loss such as PPOLoss()")
        for each in workers.spec.losses.values() if loss is None else (loss,):
            if each.undivided and minibatch is not None:
                raise PlanError(f"TrainOneStep: {type(each).__name__} looks at each batch as a whole; leave out minibatch=.")
        self.workers = workers
        self.learners: Mapping[str, Resident[Learner]] = workers.learners
        self.loss = loss
        self.epochs = epochs
        self.minibatch = minibatch
        self.max_grad_norm = max_grad_norm

    @property
    def requires(self) -> type[Async]:
        """For plans that no type checker has seen."""
        losses = self.workers.spec.losses.values() if self.loss is None else (self.loss,)
        return Sync if any(map(is_on_policy, losses)) else Async

    @property
    def consumes(self) -> object:
        """For plans that no type checker has seen: the batch that the loss reads."""
        losses = list(self.workers.spec.losses.values()) if self.loss is None else [self.loss]
        return base_arguments(type(losses[0]), Loss)[0] if len(losses) == 1 else Batch

    def apply(self, live: Live, item: Any, /) -> TrainStats:  # Any: a batch with the columns that the loss reads
        if isinstance(item, list):
            raise TflowError("TrainOneStep: this is a list of batches, one per worker. Put them together: ConcatRounds(stream).")
        if isinstance(item, MultiBatch):
            raise TflowError("TrainOneStep: these are batches of several policies. Take one: Select(stream, policy=...).")
        batch: Batch[str] = item
        if not len(batch):
            return TrainStats(batch.policy)
        check_origin("TrainOneStep", live, self.workers, batch.env_steps)
        learner = live.resident(self.learners[batch.policy])
        loss = self.loss or learner.loss
        lag = lag_of(live, self.workers, batch.policy, on_policy=is_on_policy(loss))
        outcome = learner.train(
            batch,
            loss=loss,
            epochs=self.epochs,
            minibatch=self.minibatch,
            max_norm=self.max_grad_norm,
            steps=live.progress.env_steps(self.workers),
        )
        version = live[self.workers].version(batch.policy)
        if outcome.updates:
            version = publish(live, self.workers, batch.policy, learner.weights)
        stats = TrainStats(batch.policy, outcome.rows, outcome.updates, outcome.skipped, version, lag, outcome.stats)
        return replace(stats, errors=by_id(batch, outcome.errors))


def by_id(batch: Batch[str], errors: Array | None) -> tuple[Array, Array] | None:
    """What priorities are made of: ids of replayed rows, or sequences, and how wrong the policy was about each. None if the rows
    do not come from replay, or were not used once each."""
    if errors is None or not ("ids" in batch or "ids" in batch.finals):
        return None
    if "ids" in batch.finals:
        return batch.finals["ids"], sequence_priorities(errors, batch)
    return batch["ids"], errors


def check_training(
    where: str, workers: object, epochs: int = 1, minibatch: int | None = None, max_grad_norm: float | None = None
) -> None:
    """Arguments that several operators have."""
    check.instance(where, "workers", workers, AnyWorkers, "what create_rollout_workers returns")
    check.whole(where, "epochs", epochs, least=1)
    if minibatch is not None:
        check.whole(where, "minibatch", minibatch, least=1)
    if max_grad_norm is not None:
        check.positive(where, "max_grad_norm", max_grad_norm)


def is_on_policy(loss: AnyLoss) -> bool:
    """True if a loss says in its type that it requires a synchronous stream."""
    return base_arguments(type(loss), Loss)[1:2] == (Sync,)


class ApplyGradients(LiveOp[Gradients, TrainStats, Async]):
    """Makes one update with a gradient, and sends the new weights to the worker that it came from, or to all."""

    sends: ClassVar[Sends] = {"workers": "weights"}

    def __init__(
        self, workers: AnyWorkers, *, to: Literal["source", "all"] = "source", max_grad_norm: float | None = None
    ) -> None:
        check_training("ApplyGradients", workers, max_grad_norm=max_grad_norm)
        check.one_of("ApplyGradients", "to", to, ("source", "all"))
        self.workers = workers
        self.learners = workers.learners
        self.to = to
        self.max_grad_norm = max_grad_norm

    def apply(self, live: Live, item: Gradients, /) -> TrainStats:
        check_origin("ApplyGradients", live, self.workers, item.env_steps)
        learner = live.resident(self.learners[item.policy])
        lag = lag_of(live, self.workers, item.policy)
        steps = live.progress.env_steps(self.workers)
        if not item.rows:
            return TrainStats(item.policy)
        made = learner.apply(item.values, max_norm=self.max_grad_norm, steps=steps)
        learner.trained += item.rows
        version = live[self.workers].version(item.policy)
        if made:
            shards = live.shards(self.workers) if self.to == "source" else None
            version = publish(live, self.workers, item.policy, learner.weights, shards)
        return TrainStats(item.policy, item.rows, int(made), int(not made), version, lag, item.stats)


class UpdateWeights(RefOp[V]):
    """Sends the learner's weights to the worker that an item came from, or to all, unless they have them already. Items pass
    unopened. Evaluation workers are sent them too."""

    sends: ClassVar[Sends] = {"workers": "weights", "others": "weights"}

    def __init__(self, workers: AnyWorkers, *others: Evaluators, to: Literal["source", "all"] = "source") -> None:
        check_training("UpdateWeights", workers)
        for other in others:
            check.instance("UpdateWeights", "others", other, Evaluators, "what create_evaluation_workers returns")
        check.one_of("UpdateWeights", "to", to, ("source", "all"))
        self.workers = workers
        self.others = others
        self.dues = tuple(other.due for other in others if other.due is not None)
        self.learners = workers.learners
        self.to = to

    def forward(self, live: Live, item: Ref[V], /) -> None:
        sources = live.shards(self.workers) if self.to == "source" else range(len(live[self.workers]))
        for policy, resident in self.learners.items():
            learner = live.resident(resident)
            version = live[self.workers].version(policy)
            message = learner.message(policy, live.progress.env_steps(self.workers))
            self.send(live[self.workers], policy, message, sources)
            for other in self.others:
                handles = live[other]
                while handles.version(policy) < version:
                    handles.advance(policy)
                self.send(handles, policy, message, range(len(handles)))
        for due in self.dues:
            live.resident(due).steps = live.progress.env_steps(self.workers)

    @staticmethod
    def send(handles: Handles[RolloutWorker], policy: str, message: Weights, shards: Iterable[int]) -> None:
        behind = handles.behind(policy)
        wanted = [shard for shard in shards if shard in behind]
        if wanted:
            handles.update(RolloutWorker.set_weights, message, shards=wanted, policy=policy)


class UpdateTargetNetwork(LiveOp[TrainStats, TrainStats, Async]):
    """Moves the target network to the policy (``tau=1``), or a little towards it, once per ``every`` updates. Without it, the
    learner does so by itself, as often as the loss says."""

    def __init__(self, workers: AnyWorkers, *, every: int = 1, tau: float = 1.0) -> None:
        check_training("UpdateTargetNetwork", workers)
        check.whole("UpdateTargetNetwork", "every", every, least=1)
        check.share("UpdateTargetNetwork", "tau", tau)
        if not any(loss.has_target for loss in workers.spec.losses.values()):
            names = ", ".join(type(loss).__name__ for loss in workers.spec.losses.values())
            raise PlanError(f"UpdateTargetNetwork: {names} has no target network. Leave it out.")
        self.learners = workers.learners
        self.every = every
        self.tau = tau

    def apply(self, live: Live, item: TrainStats, /) -> TrainStats:
        learner = live.resident(self.learners[item.policy])
        learner.renewed_elsewhere = True
        learner.renew_target(every=self.every, tau=self.tau)
        return item


@dataclass(frozen=True)
class LearnOnBatch(ActorOp["Learner", Batch[Any], TrainStats]):  # Any: what the loss of the learner reads
    """For ``call`` and ``hand_off``: trains a learner in an actor of its own. Its weights come back with the statistics."""

    asks_its_actor: ClassVar[bool] = True
    """What it consumes and requires is what the loss of its learner does; validation looks there."""

    epochs: int = 1
    minibatch: int | None = None
    max_grad_norm: float | None = None
    weights_every: int = 1
    """The weights come back once per so many updates."""

    def __post_init__(self) -> None:
        check.whole("LearnOnBatch", "epochs", self.epochs, least=1)
        check.whole("LearnOnBatch", "weights_every", self.weights_every, least=1)
        if self.minibatch is not None:
            check.whole("LearnOnBatch", "minibatch", self.minibatch, least=1)
        if self.max_grad_norm is not None:
            check.positive("LearnOnBatch", "max_grad_norm", self.max_grad_norm)

    def apply(self, actor: Learner, item: Batch[str], /) -> TrainStats:
        if actor.target is not None and actor.loss.renews_every() is None:
            raise TflowError(
                "LearnOnBatch: the loss compares with a target network, which nobody would renew. Say how often: "
                f"{type(actor.loss).__name__}(target_every=...)."
            )
        outcome = actor.train(
            item,
            epochs=self.epochs,
            minibatch=self.minibatch,
            max_norm=self.max_grad_norm,
            steps=actor.trained if actor.env_steps is None else actor.env_steps,
        )
        due = actor.updates // self.weights_every > (actor.updates - outcome.updates) // self.weights_every
        weights = actor.weights if due else None
        stats = TrainStats(item.policy, outcome.rows, outcome.updates, outcome.skipped, 0, 0, outcome.stats, weights)
        return replace(stats, errors=by_id(item, outcome.errors))


def told_env_steps(learner: Learner, steps: int) -> None:
    """A message to a learner elsewhere."""
    learner.env_steps = steps


class SendWeights(LiveOp[TrainStats, TrainStats, Async]):
    """Sends the weights that a learner elsewhere came back with to all workers, and tells the learner how many env steps they
    have made, which its schedules go by."""

    sends: ClassVar[Sends] = {"workers": "weights", "learner": "env steps"}

    def __init__(self, workers: AnyWorkers, learner: Actor[Learner] | None = None) -> None:
        check_training("SendWeights", workers)
        if learner is not None:
            check.instance("SendWeights", "learner", learner, Actor, "what create_learner returns")
        self.workers = workers
        self.learner = learner
        self.learners = workers.learners

    def apply(self, live: Live, item: TrainStats, /) -> TrainStats:
        if self.learner is not None:
            live[self.learner].update(told_env_steps, live.progress.env_steps(self.workers))
        lag, version = lag_of(live, self.workers, item.policy), live[self.workers].version(item.policy)
        if item.weights is not None:
            live.resident(self.learners[item.policy]).set_weights(item.weights)
            version = publish(live, self.workers, item.policy, item.weights)
        return replace(item, version=version, lag=lag, weights=None)
