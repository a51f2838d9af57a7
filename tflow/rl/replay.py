"""Replay actors: experience that is stored in processes of its own and learned from again.

How much has been stored and sampled is counted on the driver, where the plan is decided: a replay actor is never asked before it
has enough, and asking is not tried again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, cast

from typing_extensions import TypeVar

from tflow.combinators import check, nodes
from tflow.combinators.actors import ANYWHERE, Actors, Place, Resident
from tflow.combinators.par import ParIter
from tflow.combinators.stream import Iter
from tflow.live import Live
from tflow.rl.arrays import Array
from tflow.rl.batch import Batch, MultiBatch
from tflow.rl.losses import Replayed
from tflow.rl.schedules import Schedule, schedule_of
from tflow.rl.training import check_training
from tflow.rl.workers import AnyWorkers
from tflow.types import Async, LiveOp, Ref, RefOp, Shard

V = TypeVar("V")
U = TypeVar("U")
MOST_SHARDS = 1024


@dataclass(frozen=True)
class ReplaySpec:
    """What a replay actor is made of. It makes one when it is called with a shard."""

    capacity: int
    batch: int
    kind: Literal["uniform", "prioritized", "reservoir", "sequences"]
    alpha: float
    beta: float | Schedule
    n_step: int
    gamma: float
    length: int
    burn_in: int

    def __call__(self, shard: Shard) -> ReplayActor:
        return ReplayActor(self, shard)


class ReplayActor:
    """A buffer in an actor. Rows of a sample have ids that say which life of which actor they belong to."""

    def __init__(self, spec: ReplaySpec, shard: Shard) -> None:
        import numpy as np

        from tflow.rl.buffers import PrioritizedBuffer, ReservoirBuffer, UniformBuffer
        from tflow.rl.buffers_sequence import SequenceBuffer

        self.spec = spec
        life = shard.incarnation % 2048 * MOST_SHARDS + shard.index
        self.ones = np.ones(spec.batch, np.float32)
        self.none = np.full(spec.batch, -1, np.int64)
        beta, seed = schedule_of(spec.beta).at(0), shard.seed % 2**63
        self.buffer: UniformBuffer
        if spec.kind == "sequences":
            self.buffer = SequenceBuffer(
                spec.capacity, length=spec.length, burn_in=spec.burn_in, alpha=spec.alpha, beta=beta, seed=seed, incarnation=life
            )
        elif spec.kind == "prioritized":
            self.buffer = PrioritizedBuffer(
                spec.capacity, alpha=spec.alpha, beta=beta, seed=seed, incarnation=life, n_step=spec.n_step, gamma=spec.gamma
            )
        else:
            kind = UniformBuffer if spec.kind == "uniform" else ReservoirBuffer
            self.buffer = kind(spec.capacity, seed=seed, incarnation=life, n_step=spec.n_step, gamma=spec.gamma)

    def insert(self, item: Batch[str] | MultiBatch[str, str]) -> None:
        """Store all rows."""
        for batch in item.batches.values() if isinstance(item, MultiBatch) else (item,):
            self.buffer.insert(batch)

    def sample(self) -> Replayed:
        """A batch of earlier rows; an empty one if nothing is left, because the actor has been made again."""
        from tflow.rl.buffers import PrioritizedBuffer

        if not len(self.buffer):
            return Batch({})
        if isinstance(self.buffer, PrioritizedBuffer):
            return self.buffer.sample(self.spec.batch, schedule_of(self.spec.beta).at(self.buffer.inserted))
        sampled = self.buffer.sample(self.spec.batch)
        return sampled.with_columns({"weights": self.ones, "ids": self.none})

    def update_priorities(self, news: tuple[Array, Array]) -> None:
        """New priorities for rows of earlier samples. What belongs to another actor or an earlier life is ignored."""
        from tflow.rl.buffers import PrioritizedBuffer

        if isinstance(self.buffer, PrioritizedBuffer):
            self.buffer.update_priorities(*news)

    def state(self) -> dict[str, object]:
        """Everything that ``load`` needs to go on exactly from here."""
        return cast("dict[str, object]", self.buffer.state())

    def load(self, state: dict[str, object]) -> None:
        """Become what another actor was at its ``state()``."""
        self.buffer.load(cast("dict[str, Array]", state))


@dataclass
class Limiter:
    """Counts on the driver what goes into replay actors and what is asked of them."""

    shards: int
    batch: int
    min_size: int
    samples_per_insert: float | None
    stored: dict[int, int] = field(default_factory=dict)
    asked: dict[int, int] = field(default_factory=dict)
    lives: dict[int, int] = field(default_factory=dict)
    turn: int = -1

    def next_shard(self, count: int) -> int:
        """Whose turn it is to store something."""
        self.turn = (self.turn + 1) % count
        return self.turn

    def closed(self, shard: int, incarnation: int, /) -> str:
        if self.lives.setdefault(shard, incarnation) != incarnation:  # made again, and empty
            self.lives[shard] = incarnation
            self.stored[shard] = self.asked[shard] = 0
        stored, asked = self.stored.get(shard, 0), self.asked.get(shard, 0)
        least = max(1, -(-self.min_size // self.shards))
        if stored < least:
            return f"replay actor {shard} has been sent {stored} of the {least} rows with which learning starts"
        if self.samples_per_insert is not None and asked + self.batch > stored * self.samples_per_insert:
            most = f"{stored} rows times samples_per_insert={self.samples_per_insert:g}"
            return f"replay actor {shard} has been asked for {asked} rows, and {self.batch} more would be above {most}"
        return ""

    def passed(self, shard: int, /) -> None:
        self.asked[shard] = self.asked.get(shard, 0) + self.batch


@dataclass(frozen=True)
class MakeLimiter:
    """Makes the limiter of replay actors."""

    shards: int
    batch: int
    min_size: int
    samples_per_insert: float | None

    def __call__(self, shard: Shard) -> Limiter:
        return Limiter(self.shards, self.batch, self.min_size, self.samples_per_insert)


@dataclass(frozen=True, eq=False)
class ReplayActors(Actors[ReplayActor]):
    """Replay actors, and the driver's count of what is in them."""

    limiter: Resident[Limiter] = field(kw_only=True)

    def actor_class(self) -> type | None:
        return ReplayActor


def create_replay_actors(
    *,
    num_actors: int = 1,
    capacity: int = 100_000,
    batch: int = 32,
    kind: Literal["uniform", "prioritized", "reservoir", "sequences"] = "prioritized",
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
) -> ReplayActors:
    """Describe ``num_actors`` replay actors that hold ``capacity`` rows together and give out ``batch`` rows at a time.

    Nothing is sampled before ``min_size`` rows were stored, nor more than ``samples_per_insert`` rows per row stored. Rows become
    transitions over ``n_step`` steps, discounted by ``gamma``. ``kind="sequences"`` stores sequences of ``length`` rows, of which
    the first ``burn_in`` only warm up a memory; then capacities and batches count sequences.

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
    spec = ReplaySpec(per_actor, batch, kind, alpha, beta, n_step, gamma, length, burn_in)
    limiter = Resident(MakeLimiter(num_actors, batch, min_size, samples_per_insert), 1, f"{name}.limiter")
    return ReplayActors(spec, num_actors, name, mailbox, place=place, limiter=limiter)


class StoreToBuffer(RefOp[V]):
    """Stores each item in one of the replay actors, in turn. Items pass unopened: on a cluster they go from worker to replay."""

    def __init__(self, replay: ReplayActors) -> None:
        check.instance("StoreToBuffer", "replay", replay, ReplayActors, "what create_replay_actors returns")
        self.replay = replay
        self.limiter = replay.limiter

    def forward(self, live: Live, item: Ref[V], /) -> None:
        limiter, handles = live.resident(self.limiter), live[self.replay]
        shard = limiter.next_shard(len(handles))
        limiter.stored[shard] = limiter.stored.get(shard, 0) + item.env_steps
        store = cast("Callable[[ReplayActor, V], object]", ReplayActor.insert)
        handles.send(store, item, shard=shard)


class ParallelReplay(ParIter[Replayed]):
    """A parallel stream of earlier experience, one shard per replay actor.

    Law: no actor is asked before the limits of ``create_replay_actors`` allow it.
    """

    __slots__ = ()

    def __init__(self, replay: ReplayActors) -> None:
        check.instance("ParallelReplay", "replay", replay, ReplayActors, "what create_replay_actors returns")
        super().__init__(nodes.FromActors(replay, ReplayActor.sample, gate=replay.limiter, title="ParallelReplay"))


class UpdatePriorities(LiveOp[Replayed, Replayed, Async]):
    """Computes how wrong the learner is about each row, and tells the replay actors that the rows came from."""

    def __init__(self, workers: AnyWorkers) -> None:
        check_training("UpdatePriorities", workers)
        self.learners = workers.learners

    def apply(self, live: Live, item: Replayed, /) -> Replayed:
        if len(item):
            errors = live.resident(self.learners[item.policy]).errors(cast("Batch[str]", item))
            live.reply(ReplayActor.update_priorities, (item["ids"], errors + 1e-6))
        return item


class MixInReplay(Iter[U, Async]):
    """After each item, ``proportion`` earlier ones on average, out of the latest ``slots``.

    Law: the new items are all there, in order; the others are earlier ones, with their provenance; a function of the seed.
    """

    __slots__ = ()

    def __init__(self, stream: Iter[U], *, slots: int, proportion: float, seed: int = 0) -> None:
        check.instance("MixInReplay", "stream", stream, Iter, "a driver stream (gather a parallel one first)")
        check.whole("MixInReplay", "slots", slots, least=1)
        check.at_least_zero("MixInReplay", "proportion", proportion)
        check.whole("MixInReplay", "seed", seed, least=0)
        super().__init__(nodes.MixIn(stream.node, slots, proportion, seed))
