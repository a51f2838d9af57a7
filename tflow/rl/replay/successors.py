"""Next observations that are stored once: that of a row is the observation of a later row, or the final one of its piece.

A row points at where its next observation is. What it points at was stored after it, so a ring overwrites it after it too. The
arrays have twice the capacity: rows are in the first half, slot by slot, final observations in the second. The system hands out
memory only where something is written, so what costs is the final observations that there are, not those that there could be.

A piece that was cut goes on with the first row of a later piece, which is recognised by its content: then that row takes the
place of the final observation. So fragments of one step need no final observations either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tflow.errors import CheckpointError
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch
from tflow.rl.replay.sumtree import Ints, ReplayError

# Measured with "python -m benchmarks.replay once": an insertion takes about 60 microseconds more, whatever the size. For CartPole
# (16 bytes) that is 4.8 times as long, to save 17 % of the memory; for Atari with fragments of 16 steps 1.2 times, to save half.
# Sampling 64 rows takes 1.07 times as long for CartPole, and 0.8 times from 1024 bytes on: fewer pages are touched.
ONCE_FROM = 1024
"""Bytes of an observation from which on its successor is stored once."""


class Links(NamedTuple):
    """Where the next observations of a batch are, in place of columns of them."""

    last: Ints
    """For each row, the row whose successor is its next observation."""
    ends: Ints
    """The last row of each piece."""
    finals: Mapping[str, Array]
    """What follows it, by the names of the columns that have successors."""
    cut: NDArray[np.bool_]
    """Pieces that may go on in a later batch."""


def worth_it(rows: Batch[str]) -> bool:
    """Whether to store the next observations of such rows once: they are known, and large."""
    names = [name for name in rows.columns if name.partition("/")[0] == "obs"]
    if "next_obs" in rows or not names or any(name not in rows.finals or rows.columns[name].dtype.hasobject for name in names):
        return False
    return sum(rows.columns[name][:1].nbytes for name in names) >= ONCE_FROM


def links_of(rows: Batch[str], last: Ints) -> Links | None:
    """The links of a batch, whether it has next observations as columns or not; None if it does not know them."""
    names = [name for name in rows.columns if name.partition("/")[0] == "obs"]
    if "next_obs" in rows:  # nobody says which rows follow each other, so that each has a final observation
        known = [name for name in [*names, "masks"] if f"next_{name}" in rows.columns]
        each = np.arange(len(rows))
        return Links(each, each, {name: rows.columns[f"next_{name}"][last] for name in known}, np.zeros(len(rows), np.bool_))
    if any(name not in rows.finals for name in names):
        return None
    over = np.zeros(len(rows.ends), np.bool_)
    for reason in ("terminated", "truncated"):
        if reason in rows.columns:
            over |= rows.columns[reason][rows.ends].astype(np.bool_)
    finals = {}
    for name in [*names, *(["masks"] if "masks" in rows.finals and "masks" in rows.columns else [])]:
        column, final = rows.columns[name], rows.finals[name]
        if (final.dtype, final.shape[1:]) != (column.dtype, column.shape[1:]):  # as where columns are made of them
            final = np.empty((len(final), *column.shape[1:]), column.dtype)
            final[:] = rows.finals[name]
        finals[name] = final
    return Links(last, rows.ends, finals, ~over)


def claimed(rows: int, like: Array) -> Array:
    """Memory for so many rows like these, which the system hands out as they arrive."""
    try:
        return np.zeros((rows, *like.shape[1:]), like.dtype)
    except MemoryError:
        size = rows * like[:1].nbytes / 2**30
        raise ReplayError(
            f"The replay buffer needs {size:.1f} GiB for rows of {like.dtype} with shape {like.shape[1:]}, which are not there. "
            "Make it smaller: capacity=."
        ) from None


class Successors:
    """Observations of ``capacity`` rows, and where the next one of each is.

    Args:
        capacity: Rows of the ring.
        steps: Rows that share a final observation, at most: the steps of an n-step transition.
        like: Columns to make room for.
    """

    def __init__(self, capacity: int, steps: int, like: Mapping[str, Array]) -> None:
        self.capacity = capacity
        self.steps = steps
        self.columns = {name: claimed(2 * capacity, column) for name, column in like.items()}
        """Observations: of rows, by slot, then final ones."""
        self.places: Ints = np.zeros(capacity, dtype=np.int64)
        """For each slot, where the next observation of its row is."""
        self._bytes = [c.view(np.uint8).reshape(2 * capacity, -1) for c in self.columns.values() if c.nbytes]
        dice = np.random.default_rng(0)
        self._factors = [dice.integers(2**63, size=-(-part.shape[1] // 8) + 7, dtype=np.uint64) * 2 + 1 for part in self._bytes]
        self._owners: Ints = np.zeros(capacity, dtype=np.int64)  # of each final observation: the slot of the last row before it
        self._unused: list[int] = []  # places that were given back; the last is the next to be used
        self._claimed = 0
        self._open: dict[int, list[int]] = {}  # final observations of pieces that may go on, by key
        self._keys: dict[int, int] = {}  # and their keys

    @property
    def finals(self) -> int:
        """How many final observations there are."""
        return self._claimed - len(self._unused)

    def insert(self, before: int, count: int, links: Links) -> None:
        """Link ``count`` rows that have just been written, after ``before`` others, and forget those that were there."""
        capacity = self.capacity
        left_out = max(0, count - capacity)
        slots = (before + np.arange(left_out, count)) % capacity
        self._forget(slots)
        first = int(np.searchsorted(links.ends, left_out))  # the first piece of which something is kept
        ends = links.ends[first:]
        finals = self._claim(len(ends))
        for name, column in self.columns.items():
            column[finals] = links.finals[name][first:]
        self._owners[finals - capacity] = (before + ends) % capacity
        last = links.last[left_out:]
        piece = np.searchsorted(ends, last)
        self.places[slots] = np.where(last == ends[piece], finals[piece], (before + last + 1) % capacity)
        starts = np.concatenate([links.ends[first - 1 : first] + 1 if first else [0], ends[:-1] + 1])
        # The first of these rows may be left out; but then everything was forgotten, so that it is compared with nothing.
        self._join((before + starts) % capacity, finals, links.cut[first:])

    def _join(self, heads: Ints, finals: Ints, cut: NDArray[np.bool_]) -> None:
        """Let the first rows of pieces take the places of final observations with the same content."""
        nothing = [0] * len(heads)
        keys = self._keys_of(heads) if self._open or cut[:-1].any() else nothing  # else there is nothing to find
        final_keys = self._keys_of(finals) if cut.any() else nothing
        joined: list[tuple[int, int]] = []
        rows = zip(heads.tolist(), finals.tolist(), keys, final_keys, cut.tolist(), strict=True)
        for head, final, key, final_key, goes_on in rows:
            if key in self._open:
                for place in [each for each in self._open[key] if self._equal(each, head)]:
                    self._close(place)
                    joined.append((place, head))
            if goes_on:
                self._open.setdefault(final_key, []).append(final)
                self._keys[final] = final_key
        if joined:
            places, heads = np.array(joined).T
            slots = (self._owners[places - self.capacity, None] - np.arange(self.steps)) % self.capacity
            hits = self.places[slots] == places[:, None]  # others of these rows have no part in it, or are gone
            self.places[slots[hits]] = np.repeat(heads, hits.sum(axis=1))
            self._unused += places.tolist()

    def _keys_of(self, places: Ints) -> list[int]:
        """Numbers that are equal for equal content, and hardly ever for other content."""
        keys = np.zeros(len(places), np.uint64)
        for part, factors in zip(self._bytes, self._factors, strict=True):
            rows = part[places]
            whole = rows.shape[1] // 8
            keys += rows[:, : whole * 8].view(np.uint64) @ factors[:whole]
            if rows.shape[1] % 8:
                keys += rows[:, whole * 8 :].astype(np.uint64) @ factors[whole : whole + rows.shape[1] % 8]
        return keys.tolist()

    def _equal(self, place: int, other: int) -> bool:
        return all(part[place].tobytes() == part[other].tobytes() for part in self._bytes)

    def _claim(self, count: int) -> Ints:
        """Places for final observations: those that were used before first, so that little memory is touched."""
        again = min(count, len(self._unused))
        places = [self._unused.pop() for _ in range(again)]
        fresh = range(self.capacity + self._claimed, self.capacity + self._claimed + count - again)
        self._claimed += len(fresh)
        return np.array([*places, *fresh], dtype=np.int64)

    def _forget(self, slots: Ints) -> None:
        """Give back the final observations of rows that are overwritten."""
        places = self.places[slots]
        ends = np.flatnonzero(places >= self.capacity)
        places = places[ends]
        gone = places[self._owners[places - self.capacity] == slots[ends]].tolist()  # earlier rows may share it with its owner
        for place in gone:
            if place in self._keys:
                self._close(place)
        self._unused += gone

    def _close(self, place: int) -> None:
        key = self._keys.pop(place)
        self._open[key].remove(place)
        if not self._open[key]:
            del self._open[key]

    # ------------------------------------------------------------------- state

    def state(self, inserted: int) -> dict[str, Array]:
        """The places of all rows, and the final observations, the oldest first: where they are in memory is nobody's business."""
        places = self.places[: min(inserted, self.capacity)].copy()
        used = np.unique(places[places >= self.capacity])
        ages = (inserted - 1 - self._owners[used - self.capacity]) % self.capacity
        order = used[np.argsort(-ages)]
        number = np.zeros(self.capacity, np.int64)
        number[order - self.capacity] = np.arange(len(order))
        finals = places >= self.capacity
        places[finals] = self.capacity + number[places[finals] - self.capacity]
        goes_on = np.array([place in self._keys for place in order.tolist()], dtype=np.bool_)
        return {"places": places, "open": goes_on, **{f"finals/{name}": c[order] for name, c in self.columns.items()}}

    def load(self, inserted: int, state: Mapping[str, Array]) -> None:
        """Restore a state into successors that are new. The columns of rows are restored by who has them."""
        places, goes_on = state["places"], state["open"]
        rows, finals = min(inserted, self.capacity), len(goes_on)
        lengths = {name: len(state[f"finals/{name}"]) for name in self.columns}
        if len(places) != rows or any(length != finals for length in lengths.values()):
            raise CheckpointError(
                f"The state has {rows} rows and {finals} final observations, but {len(places)} places and {lengths}: "
                "it is damaged."
            )
        if rows and not (places.min() >= 0 and places.max() < self.capacity + finals):
            raise CheckpointError(f"The state has places beyond its {finals} final observations: it is damaged.")
        self.places[:rows] = places
        for name, column in self.columns.items():
            column[self.capacity : self.capacity + finals] = state[f"finals/{name}"]
        slots = (inserted - rows + np.arange(rows)) % self.capacity
        slots = slots[self.places[slots] >= self.capacity]
        self._owners[self.places[slots] - self.capacity] = slots  # numpy writes in order, so the last of several stays
        self._claimed = finals
        open_ones = self.capacity + np.flatnonzero(goes_on)
        for place, key in zip(open_ones.tolist(), self._keys_of(open_ones), strict=True):
            self._open.setdefault(key, []).append(place)
            self._keys[place] = key
