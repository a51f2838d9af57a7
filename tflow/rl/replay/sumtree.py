"""Sampling in proportion to priorities (Schaul et al., "Prioritized experience replay", 2016), for millions of items.

The tree is wide and low: the sums of rows of 16 items, the sums of 16 of those, and so on, until at most 4096 are left, whose
running total is kept. That suits numpy, which works level by level on whole batches, and it needs little memory beside the
priorities. With ``tflow[fast]`` the same steps run compiled; the results are the same, bit for bit.

Every sum is recomputed from the items below it, from left to right, never corrected by differences. So the tree is a function
of the priorities alone, however many updates it has seen, and errors of rounding cannot pile up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tflow.errors import PlanError, TflowError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FAN = 16
TOP = 4096
LARGEST = 1e290  # so that no sum of priorities overflows


class ReplayError(TflowError, ValueError):
    """A replay buffer was asked for what it does not have, or given what does not fit."""


def checked(priorities: object) -> tuple[Floats, float]:
    """The priorities as an array, and their maximum; or a sentence that names the first bad one."""
    array = np.asarray(priorities, dtype=np.float64)
    if array.ndim != 1:
        raise ReplayError(f"Priorities must be one number per row, got an array of shape {array.shape}.")
    if not array.size:
        return array, 0.0
    highest = float(np.maximum.reduce(array))
    if not (np.minimum.reduce(array) >= 0 and highest <= LARGEST):  # a NaN fails both
        position = int(np.argmin((array >= 0) & (array <= LARGEST)))
        raise ReplayError(
            f"Priorities must be from 0 to {LARGEST:g}, got {array[position]} at position {position}. Nothing was changed. "
            "If it is a TD error, look for what made it so: it has reached the loss too."
        )
    return array, highest


class SumTree:
    """Priorities of ``capacity`` items, all 0 at first.

    ``compiled`` chooses between numba (True) and numpy (False); by default numba is used if it is installed.
    """

    def __init__(self, capacity: int, *, compiled: bool | None = None) -> None:
        if capacity < 1:
            raise PlanError(f"A sum tree needs a capacity of at least 1, got {capacity}.")
        self.capacity = capacity
        sizes = [-(-capacity // FAN) * FAN]
        while sizes[-1] // FAN > TOP:
            sizes.append(-(-sizes[-1] // FAN**2) * FAN)
        self._starts: Ints = np.cumsum([0, *sizes], dtype=np.int64)  # where each level begins; the last is the top
        self._sums: Floats = np.zeros(self._starts[-1] + sizes[-1] // FAN)
        self._mins: Floats = np.full(len(self._sums) - sizes[0] + 1, np.inf)  # as the sums, without the items; the last is of all
        self._running: Floats = np.zeros(sizes[-1] // FAN + 1)  # of the top, with a 0 before it
        self._kernels = None if compiled is False else kernels()
        if compiled and self._kernels is None:
            raise PlanError("A compiled sum tree needs the package numba: pip install 'tflow[fast]'")

    @property
    def compiled(self) -> bool:
        """Whether the steps run compiled."""
        return self._kernels is not None

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return float(self._running[-1])

    @property
    def minimum(self) -> float:
        """The smallest priority that is not 0: that of an item which can be found. Infinite if there is none."""
        return float(self._mins[-1])

    def priorities(self, indices: Ints | slice) -> Floats:
        """The priorities of some items."""
        return self._sums[: self.capacity][indices]

    def set(self, indices: Ints, priorities: object) -> None:
        """Give items new priorities. If one is named twice, its last counts. On an error, nothing is changed."""
        values, _ = checked(priorities)
        indices = np.asarray(indices, dtype=np.int64)
        if indices.shape != values.shape:
            raise ReplayError(f"Give one priority per index: there are {indices.size} indices and {values.size} priorities.")
        if indices.size and not (np.minimum.reduce(indices) >= 0 and np.maximum.reduce(indices) < self.capacity):
            raise ReplayError(f"Indices must be from 0 to {self.capacity - 1}, got {indices.min()} to {indices.max()}.")
        self.put(indices, values)

    def put(self, indices: Ints, priorities: Floats) -> None:
        """As ``set``, for those who know that everything fits."""
        if self._kernels:
            self._kernels.put(indices, priorities, self._sums, self._mins, self._starts, self._running)
            return
        self._sums[indices] = priorities  # numpy writes in order, so the last of several stays
        starts = self._starts
        for level in range(len(starts) - 1):
            indices = indices >> FAN.bit_length() - 1
            if len(indices) > FAN:  # neighbours share rows, most of all on insertion
                indices = indices[np.concatenate(([True], indices[1:] != indices[:-1]))]
            rows = self._sums[starts[level] : starts[level + 1]].reshape(-1, FAN).take(indices, axis=0)
            self._sums[starts[level + 1] :][indices] = rows.cumsum(axis=1)[:, -1]  # unlike sum(), in a known order
            if level:
                rows = (
                    self._mins[starts[level] - starts[1] : starts[level + 1] - starts[1]].reshape(-1, FAN).take(indices, axis=0)
                )
            else:
                rows = np.where(rows > 0, rows, np.inf)
            self._mins[starts[level + 1] - starts[1] :][indices] = np.minimum.reduce(rows, axis=1)
        self._sums[starts[-1] :].cumsum(out=self._running[1:])
        self._mins[-1] = np.minimum.reduce(self._mins[starts[-1] - starts[1] : -1])

    def find(self, prefixes: Floats) -> Ints:
        """The items at which the sum of the priorities passes these values. Never one of priority 0, whatever the rounding."""
        if not self.total > 0:
            raise ReplayError("There is nothing to find: all priorities are 0.")
        if self._kernels:
            found = np.empty(len(prefixes), dtype=np.int64)
            self._kernels.find(prefixes, self._sums, self._starts, self._running, found)
            return found
        # A row is entered with a value below its sum, so that an item with a positive share of the sum is met.
        rest = np.minimum(prefixes, np.nextafter(self._running[-1], 0.0))
        node = self._running[1:].searchsorted(rest, side="right")
        rest -= self._running[node]
        each = np.arange(len(rest))
        for level in reversed(range(len(self._starts) - 1)):
            rows = self._sums[self._starts[level] : self._starts[level + 1]].reshape(-1, FAN)
            running = np.zeros((len(rest), FAN + 1))
            rows.take(node, axis=0).cumsum(axis=1, out=running[:, 1:])
            rest = np.minimum(rest, np.nextafter(running[:, -1], 0.0))
            place = (running[:, 1:] > rest[:, None]).argmax(axis=1)
            rest -= running[each, place]
            node = node * FAN + place
        return np.asarray(node, dtype=np.int64)

    def sample(self, count: int, rng: np.random.Generator) -> Ints:
        """Items in proportion to their priorities: one from each of ``count`` equal parts of the total, in this order."""
        return self.find((np.arange(count) + rng.random(count)) * (self.total / count))


# --------------------------------------------------------------------------- the same, compiled


def _put(indices: Ints, priorities: Floats, sums: Floats, mins: Floats, starts: Ints, running: Floats) -> None:
    for item in range(len(indices)):
        sums[indices[item]] = priorities[item]
    row = -1
    for item in range(len(indices)):
        node = indices[item] // FAN
        if node == row:
            continue
        row = node
        for level in range(len(starts) - 1):
            first = starts[level] + node * FAN
            total, least = 0.0, np.inf
            for place in range(first, first + FAN):
                total += sums[place]
                least = min(least, mins[place - starts[1]] if level else sums[place] if sums[place] > 0 else np.inf)
            sums[starts[level + 1] + node] = total
            mins[starts[level + 1] - starts[1] + node] = least
            node //= FAN
    total, least = 0.0, np.inf
    for place in range(len(running) - 1):
        total += sums[starts[-1] + place]
        least = min(least, mins[starts[-1] - starts[1] + place])
        running[place + 1] = total
    mins[-1] = least


def _find(prefixes: Floats, sums: Floats, starts: Ints, running: Floats, found: Ints) -> None:
    below = np.nextafter(running[-1], 0.0)
    rests = np.empty(len(prefixes))
    for item in range(len(prefixes)):
        rest = min(prefixes[item], below)
        node, width = 0, len(running) - 1
        while width > 1:  # a search without branches, which a processor would have to guess
            half = width // 2
            node += half if running[node + half] <= rest else 0
            width -= half
        rests[item] = rest - running[node]
        found[item] = node
    for level in range(len(starts) - 2, -1, -1):
        for item in range(len(prefixes)):
            rest, whole = rests[item], sums[starts[level + 1] + found[item]]
            if rest >= whole:
                rest = np.nextafter(whole, 0.0)
            place = starts[level] + found[item] * FAN
            before, total = 0.0, sums[place]
            while total <= rest:
                place += 1
                before = total
                total += sums[place]
            rests[item] = rest - before
            found[item] = place - starts[level]


class Kernels(NamedTuple):
    """The compiled steps."""

    put: Callable[[Ints, Floats, Floats, Floats, Ints, Floats], None]
    find: Callable[[Floats, Floats, Ints, Floats, Ints], None]


@cache
def kernels() -> Kernels | None:
    """The compiled steps, or None without numba. They are compiled when first called, and kept on disk if possible."""
    try:
        njit = import_module("numba").njit
    except ImportError:  # not there, or not made for this numpy
        return None
    try:
        return Kernels(njit(_put, cache=True), njit(_find, cache=True))
    except RuntimeError:  # no folder for the cache can be written to
        return Kernels(njit(_put), njit(_find))
