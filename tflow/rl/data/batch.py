"""Batches: named columns of equal length, with the names in the type.

Rows are in time order within *pieces*, consecutive steps of one episode in one env. ``ends`` has the last row of each piece; it
ends because its episode did, or because the fragment was cut there. ``finals`` has one row per piece: ``finals["obs"]`` is the
observation after the last row, which belongs to no row. So the successor of a row is the next one, or the final one of its piece.
That is all that estimators, n-step returns, sequences and replay need to know, and it survives concatenation.

``Batch[K]`` is contravariant in its column names: a batch with more columns can be used wherever fewer are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, Never, Self, TypeAlias, cast

import numpy as np
from typing_extensions import TypeVar

from tflow.rl.data import arrays
from tflow.rl.data.arrays import Array, Obs, sealed
from tflow.types import Columnar, Frozen, Keyed, merged

K = TypeVar("K", bound=str)
Episodic = TypeVar("Episodic", bound="Batch[Literal['terminated', 'truncated', 't']]")
K2 = TypeVar("K2", bound=str)
Kc = TypeVar("Kc", bound=str, contravariant=True)
P = TypeVar("P", bound=str)
Parts = tuple[Mapping[str, Array], Array, Mapping[str, Array], int, str, object]
NOTHING: Mapping[str, Array] = MappingProxyType({})

Sampled = Literal["obs", "actions", "rewards", "terminated", "truncated", "t", "logp", "values"]
"""The columns of a rollout: ``t`` is the step within the episode, ``logp`` the log-probability under the policy that acted,
``values`` its value estimates (``finals`` has those of the final observations)."""
SLOT = "slot"
"""The name in ``finals`` of the env, or the agent in one, that a piece is from: its number over all workers."""


class Batch(Frozen, Columnar[Kc]):
    """Columns of equal length. Nothing changes a batch; methods return new ones that share memory where they can.

    >>> import numpy as np
    >>> from tflow import Batch
    >>> batch: Batch[Literal["rewards"]] = Batch({"rewards": np.arange(3.0)})
    >>> float(batch["rewards"].sum()), len(batch)
    (3.0, 3)
    """

    __slots__ = ("columns", "ends", "env_steps", "finals", "policy", "summary")
    columns: Mapping[str, Array]
    ends: Array
    finals: Mapping[str, Array]
    env_steps: int
    """Newly sampled env steps; 0 for replayed rows and selections."""
    policy: str
    """The policy that sampled it."""
    summary: object
    """Statistics of the episodes that ended meanwhile."""

    def __init__(
        self,
        columns: Mapping[str, Array],
        *,
        ends: Array | None = None,
        finals: Mapping[str, Array] = NOTHING,
        env_steps: int = 0,
        policy: str = "default",
        summary: object = None,
    ) -> None:
        lengths = {name: len(column) for name, column in columns.items()}
        rows = next(iter(lengths.values()), 0)
        if any(length != rows for length in lengths.values()):
            raise ValueError(f"Batch: all columns must have the same length, got {lengths}.")
        if ends is None:
            ends = np.array([rows - 1] if rows else [], dtype=np.int64)
        elif len(ends) != 0 if rows == 0 else len(ends) == 0 or ends[-1] != rows - 1 or ends[0] < 0 or np.any(np.diff(ends) <= 0):
            raise ValueError(f"Batch: ends must increase and stop at the last row, {rows - 1}; got {ends}.")
        wrong = {name: len(final) for name, final in finals.items() if len(final) != len(ends)}
        if wrong:
            raise ValueError(f"Batch: finals must have one row per piece, {len(ends)} here; got {wrong}.")
        self._fill(columns, np.asarray(ends, dtype=np.int64), finals, env_steps, policy, summary)

    def _fill(
        self,
        columns: Mapping[str, Array],
        ends: Array,
        finals: Mapping[str, Array],
        env_steps: int,
        policy: str,
        summary: object,
    ) -> Self:
        self.columns = MappingProxyType({name: sealed(column) for name, column in columns.items()})
        self.ends = sealed(ends)
        self.finals = MappingProxyType({name: sealed(final) for name, final in finals.items()}) if finals else NOTHING
        self.env_steps = env_steps
        self.policy = policy
        self.summary = summary
        return self

    def _like(
        self, columns: Mapping[str, Array], ends: Array, finals: Mapping[str, Array], env_steps: int, summary: object
    ) -> Self:
        """A batch of the same policy, whose parts are known to fit."""
        return type(self).__new__(type(self))._fill(columns, ends, finals, env_steps, self.policy, summary)

    def __reduce__(self) -> tuple[object, ...]:
        parts = (dict(self.columns), self.ends, dict(self.finals), self.env_steps, self.policy, self.summary)
        return _restored, (type(self), *parts)

    def state(self) -> tuple[object, ...]:
        """What it is made of, for checkpoints."""
        return dict(self.columns), self.ends, dict(self.finals), self.env_steps, self.policy, self.summary

    @classmethod
    def from_state(cls, state: tuple[Any, ...]) -> Self:  # Any: what state() gave
        """A batch made of these."""
        return cls.__new__(cls)._fill(*state)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: Kc) -> Array:
        """A column. For observations of dict and tuple spaces, see ``nested``."""
        try:
            return self.columns[name]
        except KeyError:
            members = arrays.nested(self.columns, name)
            hint = f" It has members: read nested({name!r})[...] with one of {sorted(members)}." if members else ""
            raise KeyError(f"The batch has no column {str(name)!r}, only {sorted(self.columns)}.{hint}") from None

    def __contains__(self, name: str) -> bool:
        return name in self.columns or any(column.startswith(f"{name}/") for column in self.columns)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {column.dtype}{list(column.shape[1:]) or ''}" for name, column in self.columns.items())
        return f"Batch({len(self)} rows in {len(self.ends)} pieces: {shown})"

    def nested(self, name: Kc) -> Obs:
        """A column, or the dictionary of its members."""
        return arrays.nested(self.columns, name) or self[name] if name not in self.columns else self.columns[name]

    def untyped(self) -> Batch[str]:
        """The same batch, for code that reads columns whose names no checker knows."""
        return cast("Batch[str]", self)

    @property
    def starts(self) -> Array:
        """The first row of each piece."""
        return np.concatenate([[0], self.ends[:-1] + 1]).astype(np.int64) if len(self.ends) else self.ends

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return sum(part.nbytes for parts in (self.columns, self.finals) for part in parts.values())

    # ------------------------------------------------------------------- rows

    def with_columns(self: Batch[K], new: Mapping[K2, Array]) -> Batch[K | K2]:
        """The batch with more columns, or others in their place."""
        rows = {name: len(column) for name, column in new.items() if len(column) != len(self)}
        if rows:
            raise ValueError(f"with_columns: the batch has {len(self)} rows, the new columns have {rows}.")
        widened = self._like(
            {**self.columns, **cast("Mapping[str, Array]", new)}, self.ends, self.finals, self.env_steps, self.summary
        )
        return cast("Batch[K | K2]", widened)

    def slice(self, start: int, stop: int) -> Self:
        """The rows from ``start`` up to ``stop``. A piece that is cut ends there, and its successor is known.

        Law: the slices of a partition, concatenated, are the batch; their env steps sum up.
        """
        rows = len(self)
        start, stop = max(0, min(start, rows)), max(0, min(stop, rows))
        if not rows:
            return self
        if stop <= start:
            nothing = {name: final[:0] for name, final in self.finals.items()}
            return self._like({name: column[:0] for name, column in self.columns.items()}, self.ends[:0], nothing, 0, None)
        first, last = np.searchsorted(self.ends, [start, stop - 1])
        ends, finals = self.ends[first : last + 1] - start, {n: f[first : last + 1] for n, f in self.finals.items()}
        if self.ends[last] != stop - 1:  # cut within a piece: what follows is the next row
            ends = np.append(ends[:-1], stop - 1 - start)
            following = {name: self.columns[name][stop : stop + 1] for name in finals if name in self.columns}
            following |= {SLOT: finals[SLOT][-1:]} if SLOT in finals else {}
            finals = {name: np.concatenate([finals[name][:-1], row]) for name, row in following.items()}
        share = self.env_steps * stop // rows - self.env_steps * start // rows
        columns = {name: column[start:stop] for name, column in self.columns.items()}
        return self._like(columns, ends, finals, share, self.summary if start == 0 else None)

    def take(self, rows: Array) -> Self:
        """Some rows in any order, each a piece of its own: they have no successors any more."""
        columns = {name: column.take(rows, axis=0) for name, column in self.columns.items()}
        return self._like(columns, np.arange(len(rows), dtype=np.int64), NOTHING, 0, None)

    def minibatches(self, size: int, rng: np.random.Generator) -> Iterator[Self]:
        """All rows once, in random order, in batches of ``size``; a shorter last one is kept.

        Law: a permutation of the rows, a function of the random numbers.
        """
        order = rng.permutation(len(self))
        for start in range(0, len(order), size):
            yield self.take(order[start : start + size])

    def shuffle(self, rng: np.random.Generator) -> Self:
        """All rows once, in random order."""
        return self.take(rng.permutation(len(self)))

    @staticmethod
    def concat(batches: Sequence[Batch[K]]) -> Batch[K]:
        """Batches one after the other: pieces stay pieces, env steps sum up, summaries are merged.

        Law: associative; the empty batch is neutral; as concatenating each column.
        """
        if not batches:
            raise ValueError("Batch.concat: give at least one batch.")
        full = [batch for batch in batches if len(batch)] or [batches[0]]
        names = full[0].columns.keys()
        for batch in full:
            if batch.columns.keys() != names:
                odd = sorted(batch.columns.keys() ^ names)
                raise ValueError(f"Batch.concat: all batches must have the same columns; {odd} are in some of them only.")
            if batch.policy != full[0].policy:
                raise ValueError(f"Batch.concat: got batches of the policies {full[0].policy!r} and {batch.policy!r}.")
        steps, summary = sum(batch.env_steps for batch in batches), merged(batch.summary for batch in batches)
        if len(full) == 1:
            return full[0]._like(full[0].columns, full[0].ends, full[0].finals, steps, summary)
        offsets = np.cumsum([0] + [len(batch) for batch in full[:-1]])
        shared = [name for name in full[0].finals if all(name in batch.finals for batch in full)]
        return full[0]._like(
            {name: np.concatenate([batch.columns[name] for batch in full]) for name in names},
            np.concatenate([batch.ends + offset for batch, offset in zip(full, offsets, strict=True)]),
            {name: np.concatenate([batch.finals[name] for batch in full]) for name in shared},
            steps,
            summary,
        )

    # ------------------------------------------------------------------- pieces

    def pieces(self) -> list[Self]:
        """One batch per piece."""
        return [self.slice(start, end + 1) for start, end in zip(self.starts, self.ends, strict=True)]

    def episodes(self: Episodic) -> list[Episodic]:
        """One batch per episode that lies in the batch from its first step to its last."""
        whole = (self["t"][self.starts] == 0) & (self["terminated"] | self["truncated"])[self.ends]
        return [piece for piece, complete in zip(self.pieces(), whole, strict=True) if complete]

    def successors(self, name: str) -> dict[str, Array]:
        """The successor of each row: the next row of its piece, or the final one."""
        columns = arrays.flat(name, arrays.nested(self.columns, name))
        missing = [column for column in columns if column not in self.finals]
        if missing or not columns:
            raise ValueError(
                f"successors: what follows the last row of each piece is not known for {missing or [name]}. Rows picked "
                "with take() or minibatches() have no successors: ask before that."
            )
        found = {}
        for column, values in columns.items():
            found[column] = np.concatenate([values[1:], values[:1]])
            found[column][self.ends] = self.finals[column]
        return found

    def with_next_obs(self: Batch[K]) -> Batch[K | Literal["next_obs"]]:
        """Add the next observation of each row, and its action mask if there are masks, so that rows are transitions that stand
        alone."""
        names = ("obs", "masks") if "masks" in self.columns and "masks" in self.finals else ("obs",)
        columns = {f"next_{name}": column for each in names for name, column in self.successors(each).items()}
        return cast("Batch[K | Literal['next_obs']]", self.with_columns(columns))

    def sequences(
        self: Batch[K], length: int, *, burn_in: int = 0, stride: int | None = None
    ) -> Batch[K | Literal["mask", "burn_in"]]:
        """Windows of ``length`` rows of each piece, rows window by window. A shorter last one is padded with zeros; observations,
        which networks read, with its first one.

        ``mask`` is false for padding, ``burn_in`` true for the first ``burn_in`` rows of a window that is not the first of its
        piece. Windows begin ``stride`` rows apart (default: so that only burn-in overlaps). The recurrent state of a window's
        first row, the column ``state``, becomes one row per window in ``finals``; so does what follows its last row.

        Law: with the default stride, the rows that are neither padding nor burn-in are the rows of the batch, in order.
        """
        step = length - burn_in if stride is None else stride
        if not (0 <= burn_in < length and step > 0):
            raise ValueError(f"sequences: burn_in must be below length and stride above 0, got {length}, {burn_in}, {stride}.")
        sizes = self.ends - self.starts + 1
        counts = 1 + np.maximum(0, -(-(sizes - length) // step))  # windows per piece
        piece = np.repeat(np.arange(len(sizes)), counts)
        nth = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts)
        first = self.starts[piece] + nth * step
        rows = first[:, None] + np.arange(length)
        mask = rows <= self.ends[piece][:, None]
        flat = np.where(mask, rows, first[:, None]).ravel()
        kept = mask.ravel()
        columns: dict[str, Array] = {}
        for name, column in self.columns.items():
            if name != "state":
                columns[name] = column[flat]
                if name.partition("/")[0] not in ("obs", "next_obs"):
                    columns[name][~kept] = 0
        columns["mask"] = kept
        columns["burn_in"] = ((np.arange(length) < burn_in) & (nth > 0)[:, None] & mask).ravel()
        last = np.minimum(first + length - 1, self.ends[piece])
        finals = {"state": self.columns["state"][first]} if "state" in self.columns else {}
        for name in self.finals:
            if name in self.columns and name != "state":
                finals[name] = self.successors(name)[name][last]
        ends = np.arange(1, len(piece) + 1, dtype=np.int64) * length - 1
        return cast("Batch[K | Literal['mask', 'burn_in']]", self._like(columns, ends, finals, self.env_steps, self.summary))


Rollout: TypeAlias = Batch[Sampled]
"""What rollouts yield."""
AnyBatch: TypeAlias = Batch[Never]
"""A batch, whatever its columns."""


def _restored(kind: type[Batch[str]], *parts: *Parts) -> Batch[str]:
    return kind.__new__(kind)._fill(*parts)


class MultiBatch(Frozen, Keyed[Kc, P]):
    """One batch per policy, sampled together from a multi-agent env."""

    __slots__ = ("batches", "env_steps", "summary")

    def __init__(self, batches: Mapping[P, Batch[Kc]], *, env_steps: int = 0, summary: object = None) -> None:
        self.batches: Mapping[P, Batch[Kc]] = MappingProxyType(dict(batches))
        self.env_steps = env_steps
        self.summary = summary

    def __getitem__(self, policy: P) -> Batch[Kc]:
        if policy not in self.batches:
            raise KeyError(f"There is no policy {policy!r}, only {sorted(self.batches)}.")
        return self.batches[policy]

    def state(self) -> tuple[object, ...]:
        """What it is made of, for checkpoints."""
        return dict(self.batches), self.env_steps, self.summary

    @classmethod
    def from_state(cls, state: tuple[Any, ...]) -> Self:  # Any: what state() gave
        """A batch of several policies made of these."""
        batches, env_steps, summary = state
        return cls(batches, env_steps=env_steps, summary=summary)

    def __len__(self) -> int:
        return sum(map(len, self.batches.values()))

    def __reduce__(self) -> tuple[object, ...]:
        return _restored_multi, (dict(self.batches), self.env_steps, self.summary)

    def __repr__(self) -> str:
        return f"MultiBatch({', '.join(f'{policy}: {len(batch)} rows' for policy, batch in self.batches.items())})"


def _restored_multi(batches: dict[str, Batch[str]], env_steps: int, summary: object) -> MultiBatch[str, str]:
    return MultiBatch(batches, env_steps=env_steps, summary=summary)
