"""Replay actors: experience that is stored in processes of its own and learned from again.

How much has been stored and sampled is counted on the driver, where the plan is decided: a replay actor is never asked before it
has enough, and asking is not tried again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
from tflow.rl.learning.losses import Loss, Replayed, ReplayedColumns
from tflow.rl.learning.training import TrainStats, by_id, check_training
from tflow.rl.replay.buffer import UniformBuffer
from tflow.rl.replay.replay import MOST_SHARDS, Kind, Limiter, MakeLimiter, MultiReplayActor, ReplayActor, ReplaySpec
from tflow.rl.rollout.worker import RolloutWorker
from tflow.rl.rollout.worker_spec import AnyWorkers
from tflow.rl.schedules import Schedule, schedule_of
from tflow.types import ActorOp, Async, LiveOp, Ref, RefOp, Sends

V = TypeVar("V")
U = TypeVar("U")
P = TypeVar("P", bound=str)
P_co = TypeVar("P_co", bound=str, covariant=True)
T = TypeVar("T", covariant=True)
SMALLEST = 1e-6
"""Added to priorities: what is known perfectly is still seen now and then."""


@dataclass(frozen=True, eq=False, repr=False)
class AnyReplay(Actors["ReplayActor"]):
    """Replay actors, and the driver's count of what is in them."""

    limiter: Resident[Limiter] = field(kw_only=True)

    @classmethod
    def stand_in(cls, hint: object, name: str) -> AnyReplay:
        """Replay actors for drawings of functions that need some."""
        if not issubclass(cls, MultiReplayActors):
            return create_replay_actors(name=name)
        policies = get_args(get_args(hint)[0]) if get_args(hint) else ()
        return create_replay_actors(policies=policies or ("default",), name=name)


class ReplayActors(AnyReplay):
    """Replay of one policy."""


class MultiReplayActors(AnyReplay, Generic[P_co]):
    """Replay of several policies, by name."""


@overload
def create_replay_actors(
    *,
    num_actors: int = ...,
    capacity: int = ...,
    batch: int = ...,
    kind: Kind = ...,
    min_size: int = ...,
    samples_per_insert: float | None = ...,
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
    policies: Iterable[P],
    lockstep: bool = ...,
    num_actors: int = ...,
    capacity: int = ...,
    batch: int = ...,
    kind: Kind = ...,
    min_size: int = ...,
    samples_per_insert: float | None = ...,
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
def create_replay_actors(
    *,
    policies: Iterable[str] = (),
    lockstep: bool = False,
    num_actors: int = 1,
    capacity: int = 100_000,
    batch: int = 32,
    kind: Kind = "prioritized",
    min_size: int = 1_000,
    samples_per_insert: float | None = None,
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
    """Describe ``num_actors`` replay actors that hold ``capacity`` rows together and give out ``batch`` rows at a time.

    Nothing is sampled before ``min_size`` rows were stored, nor more than ``samples_per_insert`` rows per row stored. Rows become
    transitions over ``n_step`` steps, discounted by ``gamma``. ``kind="sequences"`` stores sequences of ``length`` rows, of which
    the first ``burn_in`` only warm up a memory; then capacities and batches count sequences.

    With ``policies``, experience of several policies is stored, each in a buffer of its own; with ``lockstep``, what happened in
    the same step of an env is sampled together.

    Law: describing creates nothing; two equal descriptions are two sets of actors.
    """
    where = "create_replay_actors"
    check.whole(where, "num_actors", num_actors, least=1, most=MOST_SHARDS)
    check.whole(where, "capacity", capacity, least=num_actors)
    check.whole(where, "batch", batch, least=1)
    check.one_of(where, "kind", kind, ("uniform", "prioritized", "reservoir", "sequences"))
    check.whole(where, "min_size", min_size, least=0, most=capacity)
    if samples_per_insert is not None:
        check.positive(where, "samples_per_insert", samples_per_insert)
    check.share(where, "alpha", alpha)
    check.share(where, "beta", schedule_of(beta, where=f"{where}: beta").at(0))
    check.whole(where, "n_step", n_step, least=1)
    check.share(where, "gamma", gamma)
    check.whole(where, "length", length, least=1)
    check.whole(where, "burn_in", burn_in, least=0, most=length - 1 if kind == "sequences" else None)
    per_actor = -(-capacity // num_actors)
    names = tuple(policies)
    check.yes_or_no(where, "lockstep", lockstep)
    if lockstep and (not names or kind == "sequences"):
        raise PlanError(
            f"{where}: lockstep=True is about rows of several policies; give policies=, and another kind than sequences."
        )
    spec = ReplaySpec(per_actor, batch, kind, alpha, beta, n_step, gamma, length, burn_in, names, lockstep)
    unit = length - burn_in if kind == "sequences" else 1
    limiter = Resident(MakeLimiter(num_actors, batch, min_size, samples_per_insert, unit), 1, f"{name}.limiter")
    described = MultiReplayActors if names else ReplayActors
    return described(spec, num_actors, name, mailbox, place=place, limiter=limiter)


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


class ParallelReplay(ParIter[T]):
    """A parallel stream of earlier experience, one shard per replay actor.

    Law: no actor is asked before the limits of ``create_replay_actors`` allow it.
    """

    __slots__ = ()

    @overload
    def __init__(self: ParallelReplay[Replayed], replay: ReplayActors) -> None: ...
    @overload
    def __init__(self: ParallelReplay[MultiBatch[ReplayedColumns, P]], replay: MultiReplayActors[P]) -> None: ...
    def __init__(self, replay: AnyReplay) -> None:
        check.instance("ParallelReplay", "replay", replay, AnyReplay, "what create_replay_actors returns")
        pull = MultiReplayActor.experience if isinstance(replay, MultiReplayActors) else ReplayActor.sample
        super().__init__(nodes.FromActors(replay, pull, gate=replay.limiter, title="ParallelReplay"))


class UpdatePriorities(LiveOp[Replayed, Replayed, Async]):
    """Computes how wrong the learner is about each row, and tells the replay actors that the rows came from.

    What it compares with (``goals``) is handed on in the batch, so that training need not compute it again. ``SendPriorities``
    after training is cheaper still. If training has a ``loss`` of its own, give it here too.
    """

    sends: ClassVar[Sends] = {"reply": "priorities"}

    def __init__(self, workers: AnyWorkers, *, loss: Loss[Replayed, Async] | None = None) -> None:
        check_training("UpdatePriorities", workers)
        if loss is not None:
            check.instance("UpdatePriorities", "loss", loss, Loss, "a loss such as DQNLoss()")
        self.learners = workers.learners
        self.loss = loss

    def apply(self, live: Live, item: Replayed, /) -> Replayed:
        if not len(item):
            return item
        batch = item.untyped()
        judged = live.resident(self.learners[item.policy]).errors(batch, loss=self.loss)
        reply(live, item.policy, by_id(batch, judged.errors))
        return batch if judged.goals is None else batch.with_columns({"goals": judged.goals})


class SendPriorities(LiveOp[TrainStats, TrainStats, Async]):
    """Tells the replay actors that rows came from how wrong the policy was about each when it was trained on them."""

    sends: ClassVar[Sends] = {"reply": "priorities"}

    def apply(self, live: Live, item: TrainStats, /) -> TrainStats:
        reply(live, item.policy, item.errors)
        return item


def reply(live: Live, policy: str, errors: tuple[Array, Array] | None) -> None:
    """Send errors to where the item in hand came from, as priorities."""
    if errors is not None:
        ids, found = errors
        live.reply(ReplayActor.update_priorities, (policy, ids, found + SMALLEST))


class ComputePriorities(ActorOp[RolloutWorker, Rollout, Batch[Sampled | Literal["priorities"]]]):
    """Adds how wrong the worker's own policy is about each row, over ``n_step`` steps: the first priorities of rows that are
    stored, computed beside the envs (Ape-X). Give it what the replay actors have."""

    def __init__(self, *, n_step: int = 1, gamma: float = 0.99) -> None:
        check.whole("ComputePriorities", "n_step", n_step, least=1)
        check.share("ComputePriorities", "gamma", gamma)
        self.n_step = n_step
        self.gamma = gamma

    def apply(self, actor: RolloutWorker, item: Rollout, /) -> Batch[Sampled | Literal["priorities"]]:
        of_one_policy("ComputePriorities", item)
        if not len(item):  # all of it was lost
            return item.with_columns({"priorities": np.zeros(0, np.float32)})
        rows = UniformBuffer(1, n_step=self.n_step, gamma=self.gamma).transitions(item)
        found = actor.errors(Batch(rows, policy=item.policy))
        return item.with_columns({"priorities": found + np.float32(SMALLEST)})


class MixInReplay(Iter[U, Async]):
    """After each item, ``proportion`` earlier ones on average, out of the latest ``slots``.

    Law: the new items are all there, in order; the others are earlier ones, with their provenance; a function of the seed.
    """

    __slots__ = ()

    def __init__(self, stream: Iter[U], *, slots: int, proportion: float, seed: int = 0) -> None:
        check.instance("MixInReplay", "stream", stream, Iter, sentences.DRIVER_STREAM)
        check.whole("MixInReplay", "slots", slots, least=1)
        check.at_least_zero("MixInReplay", "proportion", proportion)
        check.whole("MixInReplay", "seed", seed, least=0)
        super().__init__(nodes.MixIn(stream.node, slots, proportion, seed))
