"""Experience replay in actors, and the operators around it.

Rows inserted and sampled are counted on the driver, where the plan is decided: a replay actor is never asked before it has
enough, so there is no polling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Literal, cast, get_args, overload

import numpy as np
from typing_extensions import TypeVar

from tflow import sentences
from tflow.combinators import check, nodes
from tflow.combinators.actors import ANYWHERE, Actors, Place, Resident
from tflow.combinators.par import ParIter
from tflow.combinators.stream import Iter
from tflow.errors import PlanError
from tflow.live import Live
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch, MultiBatch, Rollout, Sampled
from tflow.rl.learning.gradients import of_one_policy
from tflow.rl.learning.losses import Loss, Replayed, ReplayedColumns, SequenceColumns
from tflow.rl.learning.training import TrainStats, by_id, check_loss, check_training
from tflow.rl.replay.buffer import UniformBuffer
from tflow.rl.replay.replay import (
    MOST_SHARDS,
    Kind,
    KindOfRows,
    Limiter,
    MakeLimiter,
    MultiReplayActor,
    MultiSequenceReplayActor,
    ReplayActor,
    ReplaySpec,
    SequenceReplayActor,
)
from tflow.rl.rollout.worker import RolloutWorker
from tflow.rl.rollout.worker_spec import AnyWorkers
from tflow.rl.schedules import Schedule, check_absolute, schedule_of
from tflow.types import ActorOp, Async, LiveOp, Ref, RefOp, Sends

V = TypeVar("V")
U = TypeVar("U")
P = TypeVar("P", bound=str)
P_co = TypeVar("P_co", bound=str, covariant=True)
T = TypeVar("T", covariant=True)
C = TypeVar("C", bound=str, default=ReplayedColumns)
Names = TypeVar("Names", bound=str)
PULLS: Mapping[type, Callable[..., object]] = {
    ReplayActor: ReplayActor.sample,
    SequenceReplayActor: SequenceReplayActor.sequences,
    MultiReplayActor: MultiReplayActor.experience,
    MultiSequenceReplayActor: MultiSequenceReplayActor.sequences,
}
"""How actors are asked for a batch. What it yields is in the annotations of these methods."""
EPSILON = 1e-6
"""Added to priorities, so that rows with a TD error of 0 are still sampled."""


@dataclass(frozen=True, eq=False, repr=False)
class AnyReplay(Actors["ReplayActor"]):
    """Replay actors, and the driver's limiter of their sampling rate."""

    limiter: Resident[Limiter] = field(kw_only=True)

    def actor_class(self) -> type | None:
        return self.make.actor_class if isinstance(self.make, ReplaySpec) else ReplayActor

    @classmethod
    def stand_in(cls, hint: object, name: str) -> AnyReplay:
        """Replay actors for drawings of functions that need some."""
        arguments = get_args(hint)
        kind: Kind = "sequences" if arguments and arguments[-1] == SequenceColumns else "prioritized"
        policies = (get_args(arguments[0]) if arguments else ()) or ("default",)
        describe: Callable[..., AnyReplay] = create_replay_actors  # which kind it is, only the hint knows
        return describe(policies=policies if issubclass(cls, MultiReplayActors) else (), name=name, kind=kind)


class ReplayActors(AnyReplay, Generic[C]):
    """Replay of one policy."""


class MultiReplayActors(AnyReplay, Generic[P_co, C]):
    """Replay of several policies, by name."""

    @property
    def policies(self) -> tuple[str, ...]:
        """The names of the policies."""
        return self.make.policies if isinstance(self.make, ReplaySpec) else ()


@overload
def create_replay_actors(
    *,
    num_actors: int = ...,
    capacity: int = ...,
    batch: int = ...,
    kind: KindOfRows = ...,
    min_size: int = ...,
    update_ratio: float | Schedule | None = ...,
    alpha: float = ...,
    beta: float | Schedule = ...,
    n_step: int = ...,
    gamma: float = ...,
    length: int = ...,
    burn_in: int = ...,
    mailbox: int = ...,
    name: str = ...,
    place: Place = ...,
) -> ReplayActors: ...
@overload
def create_replay_actors(
    *,
    num_actors: int = ...,
    capacity: int = ...,
    batch: int = ...,
    kind: Literal["sequences"],
    min_size: int = ...,
    update_ratio: float | Schedule | None = ...,
    alpha: float = ...,
    beta: float | Schedule = ...,
    n_step: int = ...,
    gamma: float = ...,
    length: int = ...,
    burn_in: int = ...,
    mailbox: int = ...,
    name: str = ...,
    place: Place = ...,
) -> ReplayActors[SequenceColumns]: ...
@overload
def create_replay_actors(
    *,
    policies: Iterable[P],
    lockstep: bool = ...,
    num_actors: int = ...,
    capacity: int = ...,
    batch: int = ...,
    kind: KindOfRows = ...,
    min_size: int = ...,
    update_ratio: float | Schedule | None = ...,
    alpha: float = ...,
    beta: float | Schedule = ...,
    n_step: int = ...,
    gamma: float = ...,
    length: int = ...,
    burn_in: int = ...,
    mailbox: int = ...,
    name: str = ...,
    place: Place = ...,
) -> MultiReplayActors[P]: ...
@overload
def create_replay_actors(
    *,
    policies: Iterable[P],
    lockstep: bool = ...,
    num_actors: int = ...,
    capacity: int = ...,
    batch: int = ...,
    kind: Literal["sequences"],
    min_size: int = ...,
    update_ratio: float | Schedule | None = ...,
    alpha: float = ...,
    beta: float | Schedule = ...,
    n_step: int = ...,
    gamma: float = ...,
    length: int = ...,
    burn_in: int = ...,
    mailbox: int = ...,
    name: str = ...,
    place: Place = ...,
) -> MultiReplayActors[P, SequenceColumns]: ...
def create_replay_actors(
    *,
    policies: Iterable[str] = (),
    lockstep: bool = False,
    num_actors: int = 1,
    capacity: int = 100_000,
    batch: int = 32,
    kind: Kind = "prioritized",
    min_size: int = 1_000,
    update_ratio: float | Schedule | None = None,
    alpha: float = 0.6,
    beta: float | Schedule = 0.4,
    n_step: int = 1,
    gamma: float = 0.99,
    length: int = 80,
    burn_in: int = 40,
    mailbox: int = 8,
    name: str = "replay",
    place: Place = ANYWHERE,
) -> AnyReplay:
    """Describe replay actors.

    Args:
        policies: Names of several policies, each with a buffer of its own.
        lockstep: Sample the rows of all policies that belong to the same env step together.
        num_actors: Replay actors, among which ``capacity`` is divided.
        capacity: Rows stored in all actors; usually 1e4 to 1e6.
        batch: Rows, or sequences, per sample; usually 32 to 512.
        kind: Prioritized, uniform or reservoir sampling of rows, or sequences for recurrent policies (R2D2).
        min_size: Rows stored before sampling starts.
        update_ratio: Batches sampled per row stored, at most, or a schedule over rows stored; usually 1/64 to 1. Rows count
            from ``min_size`` on, so that nothing is owed when sampling starts. None: no limit.
        alpha: Priority exponent: 0 is uniform sampling, 1 in proportion to the priorities.
        beta: Exponent of the importance-sampling weights, or a schedule: 0 is no correction, 1 a full one.
        n_step: Rewards summed before bootstrapping.
        gamma: Discount factor of the n-step returns.
        length: Rows per sequence. ``batch`` then counts sequences; all else counts rows, as always. A sequence has room for
            ``length - burn_in`` new rows, also if its episode ended before.
        burn_in: First rows of a sequence, which only warm up the recurrent state.
        mailbox: Batches on their way to an actor, at most.
        name: Name of the actors, in errors and drawings.
        place: Where the actors run.

    Law: describing creates nothing; two equal descriptions are two sets of actors.
    """
    where = "create_replay_actors"
    check.integer(where, "num_actors", num_actors, least=1, most=MOST_SHARDS)
    check.integer(where, "capacity", capacity, least=num_actors)
    check.integer(where, "batch", batch, least=1)
    check.one_of(where, "kind", kind, ("uniform", "prioritized", "reservoir", "sequences"))
    check.integer(where, "min_size", min_size, least=0, most=capacity)
    check_absolute(where, "update_ratio", update_ratio)
    check_absolute(where, "beta", beta)
    if update_ratio is not None:
        check_ratio(where, "update_ratio", update_ratio)
    check.fraction(where, "alpha", alpha)
    check.fraction(where, "beta", schedule_of(beta, where=f"{where}: beta").at(0))
    check.integer(where, "n_step", n_step, least=1)
    check.fraction(where, "gamma", gamma)
    check.integer(where, "length", length, least=1)
    check.integer(where, "burn_in", burn_in, least=0, most=length - 1 if kind == "sequences" else None)
    per_actor = -(-capacity // num_actors)
    names = tuple(policies)
    check.boolean(where, "lockstep", lockstep)
    if lockstep and (not names or kind == "sequences"):
        raise PlanError(f"{where}: lockstep=True needs several policies; give policies=, and another kind than sequences.")
    spec = ReplaySpec(per_actor, batch, kind, alpha, beta, n_step, gamma, length, burn_in, names, lockstep)
    limiter = Resident(MakeLimiter(num_actors, min_size, update_ratio), 1, f"{name}.limiter")
    described: type[AnyReplay] = MultiReplayActors if names else ReplayActors
    return described(spec, num_actors, name, mailbox, place=place, restores=True, limiter=limiter)


def check_ratio(where: str, name: str, value: float | Schedule) -> None:
    """Check an update ratio: a number above zero, or a schedule, which may start with zero."""
    start = schedule_of(value, where=f"{where}: {name}").at(0)
    if isinstance(value, Schedule):
        check.at_least_zero(where, f"{name} after 0 rows", start)
    else:
        check.positive(where, name, value)


class StoreToBuffer(RefOp[V]):
    """Stores each item in one of the replay actors, in turn. Items pass unopened: on a cluster they go from worker to replay."""

    sends: ClassVar[Sends] = {"replay": "rows"}

    def __init__(self, replay: AnyReplay) -> None:
        check.instance("StoreToBuffer", "replay", replay, AnyReplay, "what create_replay_actors returns")
        self.replay = replay
        self.limiter = replay.limiter

    def forward(self, live: Live, item: Ref[V], /) -> None:
        limiter, handles = live.resident(self.limiter), live[self.replay]
        shard = limiter.next_shard(len(handles))
        limiter.store(shard, handles.incarnation(shard), item.rows)
        store = cast("Callable[[ReplayActor, V], object]", ReplayActor.insert)
        handles.send(store, item, shard=shard)


class ParallelReplay(ParIter[T, Async, ReplayActor]):
    """A parallel stream of replayed batches, one shard per replay actor. They are never fresh, however they are gathered.

    Law: no actor is asked before the limits of ``create_replay_actors`` allow it.
    """

    __slots__ = ()
    shape: ClassVar[str] = "ParallelReplay({replay})"

    @overload
    def __init__(self: ParallelReplay[Batch[Names]], replay: ReplayActors[Names]) -> None: ...
    @overload
    def __init__(self: ParallelReplay[MultiBatch[Names, P]], replay: MultiReplayActors[P, Names]) -> None: ...
    def __init__(self, replay: AnyReplay) -> None:
        check.instance("ParallelReplay", "replay", replay, AnyReplay, "what create_replay_actors returns")
        pull = PULLS[replay.actor_class() or ReplayActor]
        super().__init__(
            nodes.FromActors(replay, pull, limiter=replay.limiter, stored=True, shown_as=self.shown(replay=replay.name))
        )


class UpdatePriorities(LiveOp[Replayed, Replayed, Async]):
    """Computes the TD errors of replayed rows and sends them to their replay actors as new priorities.

    The TD targets are passed on in the batch (``td_targets``), so that training need not compute them again.
    ``SendPriorities`` after training is cheaper still.

    Args:
        workers: The workers whose learner computes the TD errors.
        loss: The loss of training, if it replaces that of the workers.
    """

    sends: ClassVar[Sends] = {"reply": "priorities"}

    def __init__(self, workers: AnyWorkers, *, loss: Loss[Replayed, Async] | None = None) -> None:
        check_training("UpdatePriorities", workers)
        check_loss("UpdatePriorities", workers, loss)
        self.learners = workers.learners
        self.loss = loss

    def apply(self, live: Live, item: Replayed, /) -> Replayed:
        if not len(item):
            return item
        batch = item.untyped()
        learner = live.resident(self.learners[item.policy]).learner
        td = learner.td_errors(batch, loss=self.loss)
        reply(live, item.policy, by_id(self.loss or learner.loss, batch, td.errors))
        return batch if td.targets is None else batch.with_columns({"td_targets": td.targets})


class SendPriorities(LiveOp[TrainStats, TrainStats, Async]):
    """Sends the TD errors of training to the replay actors that the rows came from, as new priorities."""

    sends: ClassVar[Sends] = {"reply": "priorities"}

    def apply(self, live: Live, item: TrainStats, /) -> TrainStats:
        reply(live, item.policy, item.td_errors)
        return item


def reply(live: Live, policy: str, td_errors: tuple[Array, Array] | None) -> None:
    """Send TD errors to the replay actor that the item came from, as priorities."""
    if td_errors is not None:
        ids, found = td_errors
        live.reply(ReplayActor.update_priorities, (policy, ids, found + EPSILON))


class ComputePriorities(ActorOp[RolloutWorker, Rollout, Batch[Sampled | Literal["priorities"]]]):
    """Adds initial priorities: n-step TD errors, computed by the workers (Ape-X).

    Args:
        n_step: Rewards summed before bootstrapping, as in the replay actors.
        gamma: Discount factor, as in the replay actors.
    """

    def __init__(self, *, n_step: int = 1, gamma: float = 0.99) -> None:
        check.integer("ComputePriorities", "n_step", n_step, least=1)
        check.fraction("ComputePriorities", "gamma", gamma)
        self.n_step = n_step
        self.gamma = gamma

    def apply(self, actor: RolloutWorker, item: Rollout, /) -> Batch[Sampled | Literal["priorities"]]:
        of_one_policy("ComputePriorities", item)
        if not len(item):  # all episodes were discarded
            return item.with_columns({"priorities": np.zeros(0, np.float32)})
        rows = UniformBuffer(1, n_step=self.n_step, gamma=self.gamma).transitions(item)
        found = actor.td_errors(Batch(rows, policy=item.policy))
        return item.with_columns({"priorities": found + np.float32(EPSILON)})


class MixInReplay(Iter[U, Async]):
    """Mixes replayed items into a stream: after each item, ``proportion`` earlier ones on average, out of the latest ``slots``.

    Law: the new items are all there, in order; the others are earlier ones, with their provenance; a function of the seed.
    """

    __slots__ = ()
    shape: ClassVar[str] = "MixInReplay()"

    def __init__(self, stream: Iter[U], *, slots: int, proportion: float, seed: int = 0) -> None:
        check.instance("MixInReplay", "stream", stream, Iter, sentences.DRIVER_STREAM)
        check.integer("MixInReplay", "slots", slots, least=1)
        check.at_least_zero("MixInReplay", "proportion", proportion)
        check.integer("MixInReplay", "seed", seed, least=0)
        super().__init__(nodes.MixIn(stream.node, slots, proportion, seed, shown_as=self.shape))
