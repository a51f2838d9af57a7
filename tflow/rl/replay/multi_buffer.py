"""Replay for multi-agent envs: a buffer per policy, or the rows of all policies side by side."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, Never

import numpy as np
from typing_extensions import TypeVar

from tflow.errors import CheckpointError, PlanError
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch
from tflow.rl.replay.buffer import State, UniformBuffer
from tflow.rl.replay.sequence_buffer import SequenceBuffer
from tflow.rl.replay.sumtree import ReplayError

Buffer = TypeVar("Buffer", bound=UniformBuffer, default=UniformBuffer)


class PerPolicyBuffer(Generic[Buffer]):
    """A buffer for each policy, independent of the others: ``buffer["cat"]`` is one, for its priorities for example.

    >>> import numpy as np
    >>> buffer = PerPolicyBuffer({"cat": UniformBuffer(10), "mouse": UniformBuffer(5)})
    >>> buffer.insert({"cat": Batch({"rewards": np.ones(3)})})
    >>> buffer.sample(2)
    {'cat': Batch(2 rows in 2 pieces: rewards float64)}
    """

    def __init__(self, buffers: Mapping[str, Buffer]) -> None:
        if not buffers or any(":" in policy for policy in buffers):
            raise PlanError(f"PerPolicyBuffer: give a buffer per policy, with names without colons; got {sorted(buffers)}.")
        if len({id(buffer) for buffer in buffers.values()}) < len(buffers):
            raise PlanError("PerPolicyBuffer: two policies have the same buffer. Make one for each.")
        self.buffers: Mapping[str, Buffer] = MappingProxyType(dict(buffers))

    def __getitem__(self, policy: str) -> Buffer:
        if policy not in self.buffers:
            raise ReplayError(f"PerPolicyBuffer has buffers for {sorted(self.buffers)}, not for {policy!r}.")
        return self.buffers[policy]

    def __len__(self) -> int:
        return sum(map(len, self.buffers.values()))

    @property
    def inserted(self) -> int:
        """Rows inserted so far."""
        return sum(buffer.inserted for buffer in self.buffers.values())

    @property
    def sampled(self) -> int:
        """Rows sampled so far."""
        return sum(buffer.sampled for buffer in self.buffers.values())

    def insert(self, batches: Mapping[str, Batch[Never]]) -> None:
        """Store the rows of each policy in its buffer. Policies may be missing."""
        for buffer, batch in [(self[policy], batch) for policy, batch in batches.items()]:
            buffer.insert(batch)

    def sample(self, size: int) -> dict[str, Batch[str]]:
        """``size`` rows of each policy that has any."""
        filled = {policy: buffer for policy, buffer in self.buffers.items() if len(buffer)}
        if not filled:
            raise ReplayError("PerPolicyBuffer is empty: insert rows before sampling.")
        return {policy: buffer.sample(size) for policy, buffer in filled.items()}

    def state(self, *, copies: bool = True) -> State:
        """The states of all buffers, each name with its policy before it."""
        states = {policy: buffer.state(copies=copies) for policy, buffer in self.buffers.items()}
        return {f"{policy}:{name}": part for policy, state in states.items() for name, part in state.items()}

    def load(self, state: Mapping[str, Array | int | float]) -> None:
        """Restore a state."""
        found = {name.partition(":")[0] for name in state}
        if found != set(self.buffers):
            raise CheckpointError(
                f"The state is of the policies {sorted(found)}, but the buffers are for {sorted(self.buffers)}."
            )
        for policy, buffer in self.buffers.items():
            mine = f"{policy}:"
            buffer.load({name.removeprefix(mine): part for name, part in state.items() if name.startswith(mine)})


class LockstepBuffer(Generic[Buffer]):
    """Rows of all policies, side by side in one buffer: what is sampled together happened in the same step of the env.

    Every batch must have all policies, one row of each per step. The samples of all policies have the same ``weights`` and
    ``ids`` if the buffer has priorities; new ones go to ``rows.update_priorities``, one per step.
    """

    def __init__(self, rows: Buffer) -> None:
        if isinstance(rows, SequenceBuffer):
            raise PlanError("LockstepBuffer: sequences of several policies cannot be sampled together. Give a buffer of rows.")
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def insert(self, batches: Mapping[str, Batch[Never]]) -> None:
        """Store the rows of all policies. All must have the same number of them, of the same steps."""
        lengths = {policy: len(batch) for policy, batch in batches.items()}
        steps = [batch.columns["t"] for batch in batches.values() if "t" in batch.columns]
        if len(set(lengths.values())) > 1 or any(not np.array_equal(steps[0], other) for other in steps):
            raise ReplayError(
                f"LockstepBuffer: policies must have rows of the same steps, got {lengths} rows. If agents come and go, or share "
                "a policy, use a PerPolicyBuffer."
            )
        marked = [policy for policy in batches if ":" in policy]
        if marked:
            raise ReplayError(f"LockstepBuffer: names of policies must be without colons, got {marked}.")
        if not any(lengths.values()):
            return
        parts = [self.rows.parts(batch, f"{policy}:") for policy, batch in batches.items()]
        columns = {name: column for some, _ in parts for name, column in some.items()}
        self.rows.store(columns, {prefix: link for _, links in parts for prefix, link in links.items()})

    def sample(self, size: int) -> dict[str, Batch[str]]:
        """``size`` steps: a batch per policy, in which the same row is the same step."""
        drawn = self.rows.sample(size)
        shared = {name: column for name, column in drawn.columns.items() if ":" not in name}
        found: dict[str, dict[str, Array]] = {}
        for full_name, column in drawn.columns.items():
            policy, marked, name = full_name.partition(":")
            if marked:
                found.setdefault(policy, dict(shared))[name] = column
        return {policy: Batch(columns, ends=drawn.ends, policy=policy) for policy, columns in found.items()}

    def state(self, *, copies: bool = True) -> State:
        """The state of its buffer."""
        return self.rows.state(copies=copies)

    def load(self, state: Mapping[str, Array | int | float]) -> None:
        """Restore a state."""
        self.rows.load(state)
