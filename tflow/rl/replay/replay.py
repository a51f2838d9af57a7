"""Replay actors, and the rate limiter on the driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, cast

import numpy as np

from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import AnyBatch, Batch, MultiBatch
from tflow.rl.learning.losses import Replayed, ReplayedColumns
from tflow.rl.replay.buffer import PrioritizedBuffer, ReservoirBuffer, UniformBuffer
from tflow.rl.replay.multi_buffer import LockstepBuffer, PerPolicyBuffer
from tflow.rl.replay.sequence_buffer import SequenceBuffer
from tflow.rl.replay.sumtree import ReplayError
from tflow.rl.schedules import Schedule, schedule_of
from tflow.types import Shard

Kind = Literal["uniform", "prioritized", "reservoir", "sequences"]
PriorityUpdate = tuple[str, Array, Array]
"""A policy, ids of its rows, and their priorities."""
MOST_SHARDS = 1024


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
        return MultiReplayActor(self, shard) if self.policies else ReplayActor(self, shard)

    def buffer(self, shard: Shard, number: int = 0) -> UniformBuffer:
        """Make the buffer of an actor, or one of several. Row ids encode the actor and its incarnation."""
        life = (shard.incarnation % 2048) * MOST_SHARDS + shard.index
        beta, seed = schedule_of(self.beta).at(0), (shard.seed + number) % 2**63
        if self.kind == "sequences":
            return SequenceBuffer(
                self.capacity, length=self.length, burn_in=self.burn_in, alpha=self.alpha, beta=beta, seed=seed, incarnation=life
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
        return cast("dict[str, object]", self.buffer.state())

    def load(self, state: dict[str, object]) -> None:
        """Restore a state."""
        self.buffer.load(cast("dict[str, Array]", state))


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
        return cast("dict[str, object]", (self.apart if self.together is None else self.together).state())

    def load(self, state: dict[str, object]) -> None:
        (self.apart if self.together is None else self.together).load(cast("dict[str, Array]", state))


@dataclass
class Limiter:
    """Rate limiter on the driver: counts rows inserted into and sampled from replay actors."""

    shards: int
    batch: int
    min_size: int
    samples_per_insert: float | None
    unit: int = 1
    """Rows per sampled unit: 1, or the new rows of a sequence."""
    rows: dict[tuple[int, int], int] = field(default_factory=dict)
    """Rows sent to each incarnation of each actor."""
    asked: dict[tuple[int, int], int] = field(default_factory=dict)
    turn: int = -1

    def next_shard(self, count: int) -> int:
        """The actor that stores the next item, round robin."""
        self.turn = (self.turn + 1) % count
        return self.turn

    def store(self, shard: int, incarnation: int, rows: int) -> None:
        """Count rows that are on their way to an actor."""
        life = shard, incarnation
        self.rows[life] = self.rows.get(life, 0) + rows

    def closed(self, shard: int, incarnation: int, items: int, /) -> str:
        life = shard, incarnation  # an actor that was restarted is empty
        stored, asked, more = self.rows.get(life, 0) // self.unit, self.asked.get(life, 0), items * self.batch
        what = "rows" if self.unit == 1 else "sequences"
        least = max(1, -(-self.min_size // self.shards))
        if stored < least:
            return f"replay actor {shard} has been sent {stored} of the {least} {what} with which sampling starts"
        if self.samples_per_insert is not None and asked + more > stored * self.samples_per_insert:
            most = f"{stored} {what} times samples_per_insert={self.samples_per_insert:g}"
            return f"replay actor {shard} has been asked for {asked} {what}, and {more} more would be above {most}"
        return ""

    def passed(self, shard: int, incarnation: int, items: int, /) -> None:
        life = shard, incarnation
        self.asked[life] = self.asked.get(life, 0) + items * self.batch


@dataclass(frozen=True)
class MakeLimiter:
    """Makes the limiter of replay actors."""

    shards: int
    batch: int
    min_size: int
    samples_per_insert: float | None
    unit: int = 1

    def __call__(self, shard: Shard) -> Limiter:
        return Limiter(self.shards, self.batch, self.min_size, self.samples_per_insert, self.unit)
