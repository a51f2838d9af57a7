"""Operators that train: apply gradients, train on a batch, broadcast weights, update target networks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

from typing_extensions import TypeVar

from tflow import sentences
from tflow.combinators import check
from tflow.combinators.actors import Actor, Resident
from tflow.errors import PlanError, TflowError
from tflow.live import Handles, Live
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch, MultiBatch
from tflow.rl.data.episodes import Episodes
from tflow.rl.data.moments import ByColumn
from tflow.rl.learning.agent import AnyLoss
from tflow.rl.learning.gradients import Gradients
from tflow.rl.learning.losses import Loss, batch_of, is_on_policy
from tflow.rl.learning.parts import HardUpdate
from tflow.rl.policy.weights import Weights
from tflow.rl.rollout.evaluation import Evaluators
from tflow.rl.rollout.worker import RolloutWorker
from tflow.rl.rollout.worker_spec import AnyWorkers, CurrentPolicy, LearnerActor, Workers
from tflow.rl.schedules import EnvSteps
from tflow.types import ActorOp, Async, Frozen, LiveOp, Ref, RefOp, Sends, Signature, Sync

if TYPE_CHECKING:
    from tflow.rl.learning.learner import Learner

Reads = TypeVar("Reads", contravariant=True)
Requires = TypeVar("Requires", contravariant=True, bound=Async, default=Async)
V = TypeVar("V")


class Stale(TflowError):
    """On-policy training got rollouts that were sampled with older weights."""


@dataclass(frozen=True)
class TrainStats(Frozen):
    """The result of one training step."""

    policy: str = "default"
    rows: int = 0
    """Rows trained on."""
    updates: int = 0
    skipped: int = 0
    """Updates skipped because the gradient was not finite."""
    version: int = 0
    """Version of the weights: how often they were sent to workers."""
    lag: int = 0
    """Policy lag: updates between sampling the rows and training on them."""
    stats: Mapping[str, float] = field(default_factory=dict)
    """Stats of the loss, averaged over the minibatches."""
    weights: Array | None = None
    """The new weights, if they come from a learner elsewhere."""
    td_errors: tuple[Array, Array] | None = None
    """The ids of replayed rows, or sequences, and the TD error of each, for ``SendPriorities``."""


def publish(live: Live, workers: AnyWorkers, policy: str, weights: Array, shards: Iterable[int] | None = None) -> int:
    """Send new weights to all workers, or to some shards, under a new version, which is returned."""
    handles = live[workers]
    version = handles.advance(policy)
    message = Weights(policy, weights, live.progress.env_steps(workers), live.progress.stops_at())
    handles.update(RolloutWorker.set_weights, message, shards=shards, policy=policy)
    return version


def steps_of(live: Live, workers: AnyWorkers, updates: int = 0) -> EnvSteps:
    """The env steps of these workers so far, for schedules; where nobody samples, as with a dataset, the updates."""
    return EnvSteps(live.progress.env_steps(workers) or updates, live.progress.stops_at())


def moments_of(live: Live, workers: AnyWorkers, policy: str) -> ByColumn:
    """The running statistics of a policy that have reached the driver; none if its agent does not normalise."""
    if not workers.spec.agents[policy].normalizes:
        return {}
    summary = live.progress.summary(workers)
    return summary.moments.get(policy, {}) if isinstance(summary, Episodes) else {}


def normalize(live: Live, workers: AnyWorkers, policy: str, learner: Learner) -> None:
    """Let the learner normalise by what all workers have seen so far: from the next batch on, which is sampled with it too."""
    moments = moments_of(live, workers, policy)
    if moments:
        learner.load_moments(moments)


def check_origin(where: str, live: Live, workers: AnyWorkers, env_steps: int) -> None:
    """Raise if the batch was sampled by other workers than those whose policy is trained."""
    if env_steps and live.provenance.sources and not live.comes_from(workers):
        others = sorted({source.actors for source in live.provenance.sources})
        trained = sentences.called_beside(workers.name, others)
        raise TflowError(
            f"{where}: these rollouts were sampled by {' and '.join(others)}, but {trained} would be trained with "
            "them. Name the same workers in both places."
        )


def lag_of(live: Live, workers: AnyWorkers, policy: str, *, on_policy: bool = False) -> int:
    """Policy lag: the updates since the item was sampled; 0 if it does not come from these workers. On-policy training takes
    nothing that is older than its round; the other items of a round may have been trained on before, each once."""
    shards, sources = live.shards(workers), live.provenance.sources
    if not shards:
        return 0
    lag = live[workers].version(policy) - live.provenance.versions.get(policy, 0)
    calls = {(source.incarnation, source.sequence) for source in sources}  # which begin anew where an actor was restarted
    of_one_round = len(sources) == len(shards) and len(calls) == 1 and next(iter(calls))[0] == 0
    others = max(len(live[workers]), workers.num) - (len(shards) if of_one_round else 1)  # a pool may shrink meanwhile
    if on_policy and lag > others:
        raise Stale(
            f"These rollouts were sampled {lag} updates ago, but the loss is on-policy. Each round must be sampled with the "
            "current weights: gather with gather_sync() or gather_rounds(), train on each item once, and let no other step train "
            "the same policy between a split() and this one."
        )
    return lag


class TrainOneStep(LiveOp[Reads, TrainStats, Requires]):
    """Trains the learner on a batch and sends the new weights to all workers.

    An update whose gradient is not finite is skipped, and counted.

    Args:
        workers: The workers whose policy is trained.
        loss: Replaces the loss of the workers' agent; it must train the same kind of policy, and the same parts. With several
            policies, it types the stream.
        epochs: Passes over each batch.
        minibatch: Rows per gradient step; None takes the whole batch.
    """

    sends: ClassVar[Sends] = {"workers": "weights"}

    @overload
    def __init__(
        self,
        workers: Workers[Reads, Requires],
        *,
        epochs: int = 1,
        minibatch: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        workers: AnyWorkers,
        *,
        loss: Loss[Reads, Requires],
        epochs: int = 1,
        minibatch: int | None = None,
    ) -> None: ...
    def __init__(
        self,
        workers: AnyWorkers,
        *,
        loss: AnyLoss | None = None,
        epochs: int = 1,
        minibatch: int | None = None,
    ) -> None:
        check_training("TrainOneStep", workers, epochs, minibatch)
        check_loss("TrainOneStep", workers, loss)
        for each in workers.spec.losses.values() if loss is None else (loss,):
            if each.full_batch and minibatch is not None:
                raise PlanError(f"TrainOneStep: {type(each).__name__} needs whole batches; leave out minibatch=.")
        self.workers = workers
        self.learners: Mapping[str, Resident[CurrentPolicy]] = workers.learners
        self.loss = loss
        self.epochs = epochs
        self.minibatch = minibatch

    def signature(self, usual: Signature, /) -> Signature:
        """What the loss reads and requires."""
        losses = list(self.workers.spec.losses.values()) if self.loss is None else [self.loss]
        reads = batch_of(losses[0]) if len(losses) == 1 else Batch
        return replace(usual, consumes=reads, requires=Sync if any(map(is_on_policy, losses)) else Async)

    def apply(self, live: Live, item: Any, /) -> TrainStats:  # Any: a batch with the columns that the loss reads
        if isinstance(item, list):
            raise TflowError("TrainOneStep: this is a list of batches, one per worker. Put them together: ConcatRounds(stream).")
        if isinstance(item, MultiBatch):
            raise TflowError("TrainOneStep: these are batches of several policies. Take one: Select(stream, policy=...).")
        batch: Batch[str] = item
        if not len(batch):
            return TrainStats(batch.policy)
        check_origin("TrainOneStep", live, self.workers, batch.env_steps)
        learner = live.resident(self.learners[batch.policy]).learner
        loss = self.loss or learner.loss
        lag = lag_of(live, self.workers, batch.policy, on_policy=is_on_policy(loss))
        outcome = learner.train(
            batch,
            loss=loss,
            epochs=self.epochs,
            minibatch=self.minibatch,
            steps=steps_of(live, self.workers, learner.updates),
            until=live.progress.is_over,
        )
        version = live[self.workers].version(batch.policy)
        normalize(live, self.workers, batch.policy, learner)
        if outcome.updates:
            version = publish(live, self.workers, batch.policy, learner.weights)
        stats = TrainStats(batch.policy, outcome.rows, outcome.updates, outcome.skipped, version, lag, outcome.stats)
        return replace(stats, td_errors=by_id(loss, batch, outcome.td_errors))


def by_id(loss: AnyLoss, batch: Batch[str], errors: Array | None) -> tuple[Array, Array] | None:
    """Ids of replayed rows, or sequences, with the priority of each. None if the rows do not come from replay, or there are no
    TD errors."""
    ids = batch.finals.get("ids", batch.columns.get("ids"))
    return None if errors is None or ids is None else (ids, loss.priorities(batch, errors))


def check_training(where: str, workers: object, epochs: int = 1, minibatch: int | None = None) -> None:
    """Check the arguments that several operators have."""
    check.instance(where, "workers", workers, AnyWorkers, "what create_rollout_workers returns")
    check.integer(where, "epochs", epochs, least=1)
    if minibatch is not None:
        check.integer(where, "minibatch", minibatch, least=1)


def check_loss(where: str, workers: AnyWorkers, loss: AnyLoss | None) -> None:
    """Raise unless a loss that replaces that of the agents trains a policy of the workers as it is."""
    if loss is None:
        return
    check.instance(where, "loss", loss, Loss, "a loss such as PPOLoss()")
    if workers.spec.stands_in:
        return
    own = workers.spec.losses.values()
    if all(each.policy() != loss.policy() or each.parts() != loss.parts() for each in own):
        described = " and ".join(f"{type(each).__name__} of {each.policy()!r} with the parts {each.parts()!r}" for each in own)
        raise PlanError(
            f"{where}: {type(loss).__name__} trains {loss.policy()!r} with the parts {dict(loss.parts())!r}, but {workers.name} "
            f"have {described}. Describe the agent once: give the workers this loss."
        )


class ApplyGradients(LiveOp[Gradients, TrainStats, Async]):
    """Takes one optimiser step with a gradient, and sends the new weights.

    Args:
        workers: The workers whose policy is trained.
        to: Which workers get the new weights: the ``"source"`` of the gradient, or ``"all"``.
    """

    sends: ClassVar[Sends] = {"workers": "weights"}

    def __init__(self, workers: AnyWorkers, *, to: Literal["source", "all"] = "source") -> None:
        check_training("ApplyGradients", workers)
        check.one_of("ApplyGradients", "to", to, ("source", "all"))
        self.workers = workers
        self.learners = workers.learners
        self.to = to

    def apply(self, live: Live, item: Gradients, /) -> TrainStats:
        check_origin("ApplyGradients", live, self.workers, item.env_steps)
        learner = live.resident(self.learners[item.policy]).learner
        lag = lag_of(live, self.workers, item.policy)
        if not item.rows:
            return TrainStats(item.policy)
        made = learner.apply(item.values, steps=steps_of(live, self.workers, learner.updates))
        normalize(live, self.workers, item.policy, learner)
        learner.trained += item.rows
        version = live[self.workers].version(item.policy)
        if made:
            shards = live.shards(self.workers) if self.to == "source" else None
            version = publish(live, self.workers, item.policy, learner.weights, shards)
        return TrainStats(
            item.policy, item.rows, int(made), int(not made), version, lag, {**item.stats, **learner.optimizer_stats()}
        )


class UpdateWeights(RefOp[V]):
    """Sends the learner's weights to workers that do not have them yet. Items pass unopened.

    Args:
        workers: The workers whose learner has the weights.
        *others: Evaluation workers, which get them too.
        to: Which workers get them: the ``"source"`` of the item, or ``"all"``.
    """

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
        progress = self.progress(live)
        for policy, resident in self.learners.items():
            current = live.resident(resident)
            message = partial(current.message, progress, live.progress.stops_at())
            version = live[self.workers].version(policy)
            self.send(live[self.workers], policy, message, sources)
            for other in self.others:
                handles = live[other]
                while handles.version(policy) < version:
                    handles.advance(policy)
                self.send(handles, policy, message, range(len(handles)))
        for due in self.dues:
            live.resident(due).steps = progress

    def progress(self, live: Live) -> int:
        """How far training is: env steps, or updates where nobody samples. A learner elsewhere counts what it has sent."""
        trained = {name: live.resident(each) for name, each in self.learners.items()}
        handles = live[self.workers]
        updates = [each.learner.updates if each.trained_here else handles.version(name) for name, each in trained.items()]
        return live.progress.env_steps(self.workers) or max(updates)

    @staticmethod
    def send(handles: Handles[RolloutWorker], policy: str, message: Callable[[], Weights], shards: Iterable[int]) -> None:
        behind = handles.behind(policy)
        wanted = [shard for shard in shards if shard in behind]
        if wanted:
            handles.update(RolloutWorker.set_weights, message(), shards=wanted, policy=policy)


class UpdateTargetNetwork(LiveOp[TrainStats, TrainStats, Async]):
    """Updates the target network. Without it, the learner does so itself, as often as the loss says.

    Args:
        workers: The workers whose learner has the target network.
        every: Updates between target network updates.
        tau: Polyak coefficient: 1 copies the weights; less, usually 0.001 to 0.01, moves towards them.
    """

    def __init__(self, workers: AnyWorkers, *, every: int = 1, tau: float = 1.0) -> None:
        check_training("UpdateTargetNetwork", workers)
        check.integer("UpdateTargetNetwork", "every", every, least=1)
        check.fraction("UpdateTargetNetwork", "tau", tau)
        if not any(loss.has_target for loss in workers.spec.losses.values()):
            names = ", ".join(type(loss).__name__ for loss in workers.spec.losses.values())
            raise PlanError(f"UpdateTargetNetwork: {names} has no target network. Leave it out.")
        self.learners = workers.learners
        self.every = every
        self.tau = tau

    def apply(self, live: Live, item: TrainStats, /) -> TrainStats:
        learner = live.resident(self.learners[item.policy]).learner
        learner.target_updated_elsewhere = True
        learner.update_target(every=self.every, tau=self.tau)
        return item


@dataclass(frozen=True)
class LearnOnBatch(ActorOp["Learner", Batch[Any], TrainStats]):  # Any: what the loss of the learner reads
    """Trains a learner in an actor of its own, for ``call`` and ``hand_off``. Its weights come back with the statistics."""

    epochs: int = 1
    """Passes over each batch."""
    minibatch: int | None = None
    """Rows per gradient step; None takes the whole batch."""
    weights_every: int = 1
    """Updates between the weights that come back. Larger: less traffic, staler policies."""

    def __post_init__(self) -> None:
        check.integer("LearnOnBatch", "epochs", self.epochs, least=1)
        check.integer("LearnOnBatch", "weights_every", self.weights_every, least=1)
        if self.minibatch is not None:
            check.integer("LearnOnBatch", "minibatch", self.minibatch, least=1)

    def signature(self, usual: Signature, /) -> Signature:
        """What the loss of its learner reads and requires."""
        if not isinstance(usual.host, LearnerActor) or usual.host.spec.workers.stands_in:
            return usual
        loss = usual.host.spec.agent.loss
        return replace(usual, consumes=batch_of(loss), needs_sync=is_on_policy(loss))

    def apply(self, actor: Learner, item: Batch[str], /) -> TrainStats:
        if any(part.rule.target == HardUpdate(None) for part in actor.parts.values()):
            raise TflowError(
                "LearnOnBatch: the loss has a target network, which nobody would update. Say how often: "
                f"{type(actor.loss).__name__}(target_every=...)."
            )
        outcome = actor.train(
            item,
            epochs=self.epochs,
            minibatch=self.minibatch,
            steps=actor.trained if actor.env_steps is None else EnvSteps(actor.env_steps, actor.stops_at),
        )
        due = actor.updates // self.weights_every > (actor.updates - outcome.updates) // self.weights_every
        weights = actor.weights if due else None
        stats = TrainStats(item.policy, outcome.rows, outcome.updates, outcome.skipped, 0, 0, outcome.stats, weights)
        return replace(stats, td_errors=by_id(actor.loss, item, outcome.td_errors))


def set_progress(learner: Learner, progress: tuple[int, int | None, ByColumn]) -> None:
    """Tell a learner in an actor the env steps so far, those after which the run stops, and the running statistics."""
    learner.env_steps, learner.stops_at, moments = progress
    if moments:
        learner.load_moments(moments)


class SendWeights(LiveOp[TrainStats, TrainStats, Async]):
    """Sends the weights that come back from a learner in an actor to all workers, and the env steps so far to the learner, for
    its schedules."""

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
            moments = moments_of(live, self.workers, item.policy)
            progress = live.progress.env_steps(self.workers), live.progress.stops_at(), moments
            live[self.learner].update(set_progress, progress)
        lag, version = lag_of(live, self.workers, item.policy), live[self.workers].version(item.policy)
        if item.weights is not None:
            live.resident(self.learners[item.policy]).receive(item.weights)
            version = publish(live, self.workers, item.policy, item.weights)
        return replace(item, version=version, lag=lag, weights=None)
