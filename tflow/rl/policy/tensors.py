"""A batch as tensors on the device of a learner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from tflow.errors import TflowError
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch
from tflow.rl.policy.flat import tensor


class OnDemand(Mapping[str, Tensor]):
    """Arrays as tensors on a device, each when it is first asked for: a loss reads only some of the columns of replay."""

    def __init__(self, arrays: Mapping[str, Array], device: str | torch.device) -> None:
        self._arrays, self._device = arrays, device
        self._made: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = tensor(self._arrays[name]).to(self._device)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class NetInputs(NamedTuple):
    """What a network is asked about: observations, and of sequences what a recurrent one needs besides."""

    obs: Tensor | dict[str, Tensor]
    state: Tensor | None = None
    """The recurrent state before each sequence; None: that at the start of an episode."""
    resets: Tensor | None = None
    """Where episodes begin (sequences, length)."""
    burn_in: Tensor | None = None
    """What only warms up the state (sequences, length)."""
    rows: Tensor | None = None
    """The rows of its outputs that are wanted; None: all of them."""

    def wanted(self, outputs: Tensor) -> Tensor:
        """Those of the outputs (rows first) that are wanted."""
        return outputs if self.rows is None else outputs[self.rows]


class Tensors:
    """Columns as tensors. Rows are independent, unless ``length`` is set: then ``length`` consecutive rows are a sequence."""

    def __init__(self, columns: Mapping[str, Tensor], finals: Mapping[str, Tensor], ends: Array, length: int = 0) -> None:
        self.columns = columns
        self.finals = finals
        self.ends = ends
        self.length = length
        """Rows per sequence; 0 if there are no sequences."""

    @staticmethod
    def of(batch: Batch[str], device: str | torch.device = "cpu", *, length: int = 0) -> Tensors:
        """The columns of a batch as tensors on a device, each made when it is first read."""
        return Tensors(OnDemand(batch.columns, device), OnDemand(batch.finals, device), batch.ends, length)

    def __len__(self) -> int:
        return len(self.columns[next(iter(self.columns))])

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.columns:
            raise _missing(name, self.columns)
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def nested(self, name: str) -> Tensor | dict[str, Tensor]:
        """A column, or the dictionary of its members."""
        return _nested(self.columns, name)

    def final(self, name: str) -> Tensor | dict[str, Tensor]:
        """What follows the last row of each piece."""
        return _nested(self.finals, name)

    def extended(self, name: str) -> Tensor | dict[str, Tensor]:
        """A column of sequences, ``length + 1`` rows each: behind the last row that is no padding comes what follows it."""
        columns, finals = self.nested(name), self.final(name)
        if isinstance(columns, dict) and isinstance(finals, dict):
            return {member: self._extended(column, finals[member]) for member, column in columns.items()}
        assert isinstance(columns, Tensor)
        assert isinstance(finals, Tensor)
        return self._extended(columns, finals)

    def _extended(self, column: Tensor, final: Tensor) -> Tensor:
        rows = column.reshape(-1, self.length, *column.shape[1:])
        longer = torch.cat((rows, rows[:, :1]), 1)  # padding is an observation, too
        ends = self["mask"].reshape(-1, self.length).sum(1)
        longer[torch.arange(len(ends), device=ends.device), ends] = final
        return longer.flatten(0, 1)

    def bootstrapped(self) -> Tensor:
        """The row that each row of replayed sequences bootstraps from, in the columns of ``extended``."""
        rows = torch.arange(len(self), device=self["ahead"].device)
        return rows + rows // self.length + self["ahead"]

    def take(self, rows: Tensor) -> Tensors:
        """Some rows; of sequences, some sequences."""
        if self.length:
            picked, ends = {name: part[rows] for name, part in self.finals.items()}, self.ends[: len(rows)]
            rows = (rows[:, None] * self.length + torch.arange(self.length, device=rows.device)).reshape(-1)
        else:
            picked, ends = {}, self.ends[:0]
        columns = {name: column.index_select(0, rows) for name, column in self.columns.items()}
        return Tensors(columns, picked, ends, self.length)

    def mean(self, values: Tensor) -> Tensor:
        """The mean over all rows but padding and burn-in."""
        if "mask" not in self.columns:
            return values.mean()
        counts = self.columns["mask"] & ~self.columns["burn_in"]
        return (values * counts).sum() / counts.sum().clamp(min=1)

    def moments(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation over all rows but padding and burn-in."""
        if "mask" not in self.columns:
            std, mean = torch.std_mean(values, correction=0)  # one call: with small minibatches, calls take all the time
            return mean, std
        mean = self.mean(values)
        return mean, self.mean((values - mean).square()).sqrt()

    def standardized(self, values: Tensor, floor: float = 0.0) -> Tensor:
        """Values standardised to mean 0 and standard deviation 1, or less if theirs is below ``floor``."""
        mean, std = self.moments(values)
        return (values - mean) / (std.clamp(min=floor) + 1e-8)


def _nested(columns: Mapping[str, Tensor], name: str) -> Tensor | dict[str, Tensor]:
    if name in columns:
        return columns[name]
    prefix = f"{name}/"
    members = {key.removeprefix(prefix): columns[key] for key in columns if key.startswith(prefix)}
    if not members:
        raise _missing(name, columns)
    return members


ADDED_BY = {"advantages": "ComputeAdvantages()", "returns": "ComputeAdvantages()", "next_obs": "replay, or batch.with_next_obs()"}


def _missing(name: str, columns: Mapping[str, Tensor]) -> TflowError:
    hint = f" It is added by {ADDED_BY[name]}." if name in ADDED_BY else ""
    return TflowError(f"The loss reads the column {name!r}, but the batch has only {sorted(columns)}.{hint}")
