"""Replay actors, and the rate limiter on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import floor
from typing import Literal, cast

import numpy as np

from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import AnyBatch, Batch, MultiBatch
from tflow.rl.learning.losses import Replayed, ReplayedColumns, ReplayedSequences, SequenceColumns
from tflow.rl.replay.buffer import PrioritizedBuffer, ReservoirBuffer, UniformBuffer
from tflow.rl.replay.multi_buffer import LockstepBuffer, PerPolicyBuffer
from tflow.rl.replay.sequence_buffer import SequenceBuffer
from tflow.rl.replay.sumtree import ReplayError
from tflow.rl.schedules import Constant, Schedule, schedule_of
from tflow.types import Shard

KindOfRows = Literal["uniform", "prioritized", "reservoir"]
Kind = Literal[KindOfRows, "sequences"]
PriorityUpdate = tuple[str, Array, Array]
"""A policy, ids of its rows, and their priorities."""
MOST_SHARDS = 1024
COUNTED = ("rows", "asked", "turn", "stored", "count", "earned", "saved")
"""What a limiter counts, by the names of its attributes."""
ONE = 2**60
"""A batch, in the unit in which the values of schedules are added up."""
TOLERANCE = Fraction(1, 10**6)
"""Of a batch: far above what the values of a schedule can lose by rounding in 1e9 rows, far below what a row earns."""


@dataclass(frozen=True)
class ReplaySpec:
    """Description of a replay actor. Called with a shard, it makes one."""

    capacity: int
    batch: int
    kind: Kind
    alpha: float
    beta: float | Schedule
    n_step: int
    gamma: float
    length: int
    burn_in: int
    policies: tuple[str, ...] = ()
    lockstep: bool = False

    def __call__(self, shard: Shard) -> ReplayActor:
        return self.actor_class(self, shard)

    @property
    def actor_class(self) -> type[ReplayActor]:
        """The class of the actors."""
        if self.kind == "sequences":
            return MultiSequenceReplayActor if self.policies else SequenceReplayActor
        return MultiReplayActor if self.policies else ReplayActor

    def buffer(self, shard: Shard, number: int = 0) -> UniformBuffer:
        """Make the buffer of an actor, or one of several. Row ids encode the actor and its incarnation."""
        life = (shard.incarnation % 2048) * MOST_SHARDS + shard.index
        beta, seed = schedule_of(self.beta).at(0), (shard.seed + number) % 2**63
        if self.kind == "sequences":
            return SequenceBuffer(
                max(1, self.capacity // (self.length - self.burn_in)),  # the new rows of each
                length=self.length,
                burn_in=self.burn_in,
                alpha=self.alpha,
                beta=beta,
                seed=seed,
                incarnation=life,
                n_step=self.n_step,
                gamma=self.gamma,
            )
        if self.kind == "prioritized":
            return PrioritizedBuffer(
                self.capacity, alpha=self.alpha, beta=beta, seed=seed, incarnation=life, n_step=self.n_step, gamma=self.gamma
            )
        kind = UniformBuffer if self.kind == "uniform" else ReservoirBuffer
        return kind(self.capacity, seed=seed, incarnation=life, n_step=self.n_step, gamma=self.gamma)

    def sampled(self, buffer: UniformBuffer, actors: int) -> Batch[str]:
        """Sample a batch; without priorities, all weights are 1. The schedule of beta goes by the rows of all actors, estimated
        by those of this one times the number of actors."""
        if isinstance(buffer, PrioritizedBuffer):
            return buffer.sample(self.batch, schedule_of(self.beta).at(buffer.inserted * actors))
        return self.with_weights(buffer.sample(self.batch))

    def with_weights(self, batch: Batch[str]) -> Batch[str]:
        if "weights" in batch:
            return batch
        return batch.with_columns({"weights": np.ones(len(batch), np.float32), "ids": np.full(len(batch), -1, np.int64)})


class ReplayActor:
    """A buffer in an actor."""

    def __init__(self, spec: ReplaySpec, shard: Shard) -> None:
        self.spec = spec
        self.actors = shard.count
        self.buffer = spec.buffer(shard)

    def insert(self, item: AnyBatch) -> None:
        """Insert all rows."""
        if isinstance(item, MultiBatch):
            raise ReplayError(
                "StoreToBuffer: got a batch of several policies. Take one, Select(stream, policy=...), or name "
                "all of them: create_replay_actors(policies=...)."
            )
        self.buffer.insert(item)

    def sample(self) -> Replayed:
        """Sample a batch; empty if there are no rows, because the actor was restarted."""
        return self.spec.sampled(self.buffer, self.actors) if len(self.buffer) else Batch({})

    def update_priorities(self, update: PriorityUpdate) -> None:
        """Update the priorities of sampled rows. Those of another actor or an earlier incarnation are ignored."""
        _, ids, priorities = update
        if isinstance(self.buffer, PrioritizedBuffer):
            self.buffer.update_priorities(ids, priorities)

    def state(self) -> dict[str, object]:
        """The state, for a checkpoint."""
        return cast("dict[str, object]", self.buffer.state(copies=False))

    def load(self, state: dict[str, object]) -> None:
        """Restore a state."""
        self.buffer.load(cast("dict[str, Array]", state))


class SequenceReplayActor(ReplayActor):
    """A buffer of sequences in an actor."""

    def sequences(self) -> ReplayedSequences:
        """Sample a batch of sequences."""
        return self.sample().untyped()


class MultiReplayActor(ReplayActor):
    """Buffers for several policies in one actor: each by itself, or the rows of a step together."""

    def __init__(self, spec: ReplaySpec, shard: Shard) -> None:
        self.spec = spec
        self.actors = shard.count
        self.together = LockstepBuffer(spec.buffer(shard)) if spec.lockstep else None
        self.apart = PerPolicyBuffer({policy: spec.buffer(shard, number) for number, policy in enumerate(spec.policies)})

    def insert(self, item: object) -> None:
        if not isinstance(item, MultiBatch):
            raise ReplayError("StoreToBuffer: these replay actors store batches of several policies; got a batch of one.")
        wanted = {policy: batch for policy, batch in item.batches.items() if policy in self.spec.policies}
        (self.apart if self.together is None else self.together).insert(wanted)

    def experience(self) -> MultiBatch[ReplayedColumns, str]:
        """Sample a batch of each policy that has rows."""
        if self.together is not None:
            drawn = self.together.sample(self.spec.batch) if len(self.together) else {}
            return MultiBatch({policy: self.spec.with_weights(batch) for policy, batch in drawn.items()})
        filled = {policy: buffer for policy, buffer in self.apart.buffers.items() if len(buffer)}
        return MultiBatch({policy: self.spec.sampled(buffer, self.actors) for policy, buffer in filled.items()})

    def update_priorities(self, update: PriorityUpdate) -> None:
        policy, ids, priorities = update
        buffer = self.apart[policy] if self.together is None else self.together.rows
        if isinstance(buffer, PrioritizedBuffer):
            buffer.update_priorities(ids, priorities)

    def state(self) -> dict[str, object]:
        return cast("dict[str, object]", (self.apart if self.together is None else self.together).state(copies=False))

    def load(self, state: dict[str, object]) -> None:
        (self.apart if self.together is None else self.together).load(cast("dict[str, Array]", state))


class MultiSequenceReplayActor(MultiReplayActor):
    """Buffers of sequences for several policies in one actor."""

    def sequences(self) -> MultiBatch[SequenceColumns, str]:
        """Sample a batch of sequences of each policy that has rows."""
        return MultiBatch({policy: batch.untyped() for policy, batch in self.experience().batches.items()})


@dataclass
class Limiter:
    """Rate limiter on the driver: counts rows that are sent to replay actors, and batches that they are asked for.

    Every row after the first ``min_size`` earns ``update_ratio`` batches. All actors get the same share of what is earned, since
    rows go to them in turn.

    Law: after k such rows, the actors together may have been asked for floor(sum of the ratio over these k rows) batches; where
    each round asks all of them, for less than one per actor fewer.
    """

    shards: int
    min_size: int
    update_ratio: float | Schedule | None
    rows: dict[tuple[int, int], int] = field(default_factory=dict)
    """Rows sent to each incarnation of each actor."""
    asked: dict[int, int] = field(default_factory=dict)
    """Batches that each actor was asked for."""
    turn: int = -1

    def __post_init__(self) -> None:
        self.stored = 0  # rows, in all actors
        self.saved: dict[int, int] = {}  # rows that each actor had in the latest checkpoint, with which it comes back
        self.count = self.shards  # actors, after a resize
        exact = self.update_ratio is None or isinstance(schedule_of(self.update_ratio), Constant)
        self.tolerance = Fraction(0) if exact else TOLERANCE
        # Actors start apart, so that the floors of their shares add up to the floor of the whole (Hermite's identity).
        self.earned = {shard: Fraction(self.shards - 1 - shard, self.shards) for shard in range(self.shards)}

    def state(self) -> dict[str, object]:
        """What it has counted."""
        self.saved = {shard: rows for (shard, _), rows in self.rows.items()}  # in order: the latest incarnation stays
        return {name: getattr(self, name) for name in COUNTED}

    def load(self, state: Mapping[str, object]) -> None:
        """Restore a state."""
        for name in COUNTED:
            setattr(self, name, state[name])

    @property
    def least(self) -> int:
        """Rows with which the sampling of an actor starts."""
        return max(1, -(-self.min_size // self.shards))

    def next_shard(self, count: int) -> int:
        """The actor that stores the next item, round robin."""
        self.count = count
        self.turn = (self.turn + 1) % count
        return self.turn

    def store(self, shard: int, incarnation: int, rows: int) -> None:
        """Count rows that are on their way to an actor."""
        life = shard, incarnation
        before = self._rows_of(shard, incarnation)
        self.rows[life] = before + rows
        first, self.stored = self.stored, self.stored + rows
        share = self._worth(range(max(first, self.min_size), self.stored)) / self.count
        for each in range(self.count):
            self.earned[each] = self.earned.get(each, Fraction(0)) + share
        late = shard >= self.shards or any(other[0] == shard and other != life for other in self.rows)
        if late and before < self.least <= before + rows:  # restarted or added: it owes nothing for the time when it was filled
            self.earned[shard] = Fraction(self.asked.get(shard, 0))

    def _worth(self, rows: range) -> Fraction:
        """The batches that these rows earn."""
        if self.update_ratio is None or not rows:
            return Fraction(0)
        ratio = schedule_of(self.update_ratio)
        if isinstance(ratio, Constant):
            return len(rows) * exactly(ratio.value)
        # Whole numbers add up without rounding, in whatever parts the rows come.
        return Fraction(sum(max(0, round(ratio.at(row) * ONE)) for row in rows), ONE)

    def closed(self, shard: int, incarnation: int, items: int, /) -> str:
        stored = self._rows_of(shard, incarnation)
        if stored < self.least:
            return f"replay actor {shard} has been sent {stored} of the {self.least} rows with which sampling starts"
        asked, most = self.asked.get(shard, 0), floor(self.earned.get(shard, Fraction(0)) + self.tolerance)
        if self.update_ratio is not None and asked + items > most:
            since = f"{max(0, self.stored - self.min_size)} rows after the first {self.min_size}"
            return (
                f"replay actor {shard} has been asked for {asked} batches, and {items} more would be above the {most} that "
                f"update_ratio={self.update_ratio} allows it for {since}"
            )
        return ""

    def _rows_of(self, shard: int, incarnation: int) -> int:
        """Rows that an actor was sent; one that was restarted has those of the latest checkpoint, or none."""
        found = self.rows.get((shard, incarnation))
        return found if found is not None else self.saved.get(shard, 0) if incarnation else 0

    def passed(self, shard: int, incarnation: int, items: int, /) -> None:
        self.asked[shard] = self.asked.get(shard, 0) + items


@lru_cache(maxsize=256)
def exactly(ratio: float) -> Fraction:
    """The simplest fraction that is this number as a float: 3/10 for 0.3, so that ten rows earn three batches, not almost three.

    >>> exactly(0.3), exactly(1 / 3), exactly(20)
    (Fraction(3, 10), Fraction(1, 3), Fraction(20, 1))
    """
    exact = Fraction(ratio)
    tries = (exact.limit_denominator(10**digits) for digits in range(1, 18))
    return next((simple for simple in tries if float(simple) == ratio), exact)


@dataclass(frozen=True)
class MakeLimiter:
    """Makes the limiter of replay actors."""

    shards: int
    min_size: int
    update_ratio: float | Schedule | None

    def __call__(self, shard: Shard) -> Limiter:
        return Limiter(self.shards, self.min_size, self.update_ratio)
