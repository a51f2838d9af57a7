"""Replay buffers in memory: uniform, prioritized and reservoir.

A buffer has a fixed capacity. Its first batch says which columns it has; later ones must have the same. Memory is claimed at
once, but the system hands it out only as rows arrive. Rows come and go by the batch, in numpy, never one by one. What is sampled
is a copy that nobody can change. The same seed and the same calls give the same samples, also across ``state`` and ``load``.
Large observations are stored once, though they are sampled as ``obs`` and as ``next_obs`` (``successors.py``).

Law: inserting the parts of a batch one after the other is inserting the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Never, cast

import numpy as np
from numpy.typing import ArrayLike

from tflow.errors import CheckpointError, PlanError
from tflow.rl.data import estimators
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch
from tflow.rl.replay.successors import Links, Successors, claimed, links_of, worth_it
from tflow.rl.replay.sumtree import Ints, ReplayError, SumTree, checked

State = dict[str, Array | int | float]
NEXT = frozenset({"next_obs", "next_masks"})
OF_THE_LAST = NEXT | {"terminated", "truncated"}
"""Columns that transitions over several steps have of the last one."""
NO_LINKS: Mapping[str, Links] = MappingProxyType({})


class UniformBuffer:
    """The latest ``capacity`` rows, sampled with equal probability and with replacement.

    A batch without next observations gets them on insertion if it knows what follows its pieces. With ``gamma``, rows become
    transitions over ``n_step`` steps: rewards become n-step returns, ``discounts`` multiplies the bootstrap value of the next
    observation, and ``next_obs``, ``terminated`` and ``truncated`` are those of the last of the steps.
    """

    links: ClassVar[bool] = True
    """Whether next observations may be stored once: rows are overwritten in the order in which they came."""

    def __init__(
        self, capacity: int, *, seed: int = 0, incarnation: int = 0, n_step: int = 1, gamma: float | None = None
    ) -> None:
        kind = type(self).__name__
        if capacity < 1:
            raise PlanError(f"{kind}: the capacity must be at least 1, got {capacity}.")
        if n_step < 1 or (n_step > 1 and gamma is None):
            raise PlanError(f"{kind}: n_step must be at least 1, and above 1 it needs gamma; got n_step={n_step}, gamma={gamma}.")
        if not 0 <= incarnation < 2**22:
            raise PlanError(f"{kind}: the incarnation must be from 0 to {2**22 - 1}, got {incarnation}.")
        self.capacity = capacity
        self.incarnation = incarnation
        """Changes when the buffer is rebuilt, so that priorities for an earlier one are recognised."""
        self.n_step = n_step
        self.gamma = gamma
        self.policy = "default"
        """Whose rows it holds: that of the first batch."""
        self.inserted = 0
        """Rows inserted so far."""
        self.sampled = 0
        """Rows sampled so far."""
        self._rng = np.random.Generator(np.random.PCG64(seed))
        self._columns: dict[str, Array] = {}
        self._successors: dict[str, Successors] = {}  # what is stored once, by what is before the names of its columns
        self._rows: Batch[str] = Batch({})  # the same columns, read-only

    def __len__(self) -> int:
        return min(self.inserted, self.capacity)

    @property
    def nbytes(self) -> int:
        """Bytes that its rows take, with what is stored beside them."""
        places = sum(each.places.itemsize * (len(self) + each.finals) for each in self._successors.values())
        finals = sum(column[: each.finals].nbytes for each in self._successors.values() for column in each.columns.values())
        return sum(column[: len(self)].nbytes for column in self._columns.values()) + places + finals

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} of {self.capacity} rows, {self.inserted} inserted, {self.sampled} sampled)"

    # ------------------------------------------------------------------- in

    def insert(self, batch: Batch[Never]) -> None:
        """Insert all rows, in place of the oldest."""
        if not len(batch):
            return
        if self.inserted and batch.policy != self.policy:
            raise ReplayError(
                f"{type(self).__name__} holds rows of the policy {self.policy!r}, got some of {batch.policy!r}. "
                "Use a PerPolicyBuffer."
            )
        columns, links = self.parts(batch)
        self.policy = batch.policy
        self.store(columns, links)

    def parts(self, batch: Batch[Never], prefix: str = "") -> tuple[dict[str, Array], dict[str, Links]]:
        """The columns that are stored for a batch, and the links in place of those that are not.

        Args:
            batch: The rows.
            prefix: What to put before all names.
        """
        rows, links = cast("Batch[str]", batch), None
        if not (prefix in self._successors if self._columns else self.links and worth_it(rows)):
            columns = self.transitions(batch)
        else:
            columns, last = self._n_step(dict(rows.columns), rows)
            links = links_of(rows, last)
            columns = {name: c for name, c in columns.items() if links is None or name.partition("/")[0] not in NEXT}
        if prefix:
            columns = {prefix + name: column for name, column in columns.items()}
        return columns, {} if links is None else {prefix: links}

    def transitions(self, batch: Batch[Never]) -> dict[str, Array]:
        """The columns that are sampled of a batch."""
        rows = cast("Batch[str]", batch)
        columns = dict(rows.columns)
        if "next_obs" not in rows and any(name.partition("/")[0] == "obs" for name in rows.finals):
            columns |= {f"next_{name}": column for name, column in rows.successors("obs").items()}
            if "masks" in rows.finals:
                columns["next_masks"] = rows.successors("masks")["masks"]
        return self._n_step(columns, rows)[0]

    def _n_step(self, columns: dict[str, Array], rows: Batch[str]) -> tuple[dict[str, Array], Ints]:
        """The columns of transitions over several steps, and the last row of each."""
        if self.gamma is None:
            return columns, np.arange(len(rows))
        steps = estimators.n_step(rows["rewards"], rows["terminated"], rows.ends, n=self.n_step, gamma=self.gamma)
        for name in columns:
            if name.partition("/")[0] in OF_THE_LAST:
                columns[name] = columns[name][steps.last]
        return columns | {"rewards": steps.returns, "discounts": steps.discounts}, steps.last

    def store(self, columns: Mapping[str, Array], links: Mapping[str, Links] = NO_LINKS) -> None:
        """Store columns as they are, and link them."""
        self._lay_out(columns, links)
        count = len(next(iter(columns.values())))
        kept = min(count, self.capacity)
        first = (self.inserted + count - kept) % self.capacity
        head = min(kept, self.capacity - first)  # the others go to the front
        for name, column in columns.items():
            self._columns[name][first : first + head] = column[count - kept : count - kept + head]
            self._columns[name][: kept - head] = column[count - kept + head :]
        for prefix, link in links.items():
            self._successors[prefix].insert(self.inserted, count, link)
        self.inserted += count

    def _lay_out(self, columns: Mapping[str, Array], links: Mapping[str, Links]) -> None:
        """Claim memory when the first batch arrives; see to it that the others look like it."""
        if not self._columns:
            likes = {prefix: {name: columns[prefix + name] for name in link.finals} for prefix, link in links.items()}
            self._claim(columns, {prefix: Successors(self.capacity, self.n_step, like) for prefix, like in likes.items()})
            return
        kind = type(self).__name__
        given, held = columns, self._columns
        if links or self._successors:
            given = dict(columns) | _named({prefix: link.finals for prefix, link in links.items()})
            held = self._columns | _named({prefix: each.columns for prefix, each in self._successors.items()})
        if given.keys() != held.keys():
            missing, unknown = sorted(held.keys() - given.keys()), sorted(given.keys() - held.keys())
            raise ReplayError(
                f"{kind}: all batches need the columns of the first. Missing: {missing}; not in the first: {unknown}."
            )
        for name, column in given.items():
            mine = held[name]
            if (column.dtype, column.shape[1:]) != (mine.dtype, mine.shape[1:]):
                raise ReplayError(
                    f"{kind}: rows of the column {name!r} are {mine.dtype} of shape {mine.shape[1:]}, as in the first batch; "
                    f"got {column.dtype} of shape {column.shape[1:]}."
                )

    def _claim(self, columns: Mapping[str, Array], successors: dict[str, Successors]) -> None:
        """Claim memory for columns like these, but for what is stored once."""
        self._successors = successors
        once = {prefix + name: column for prefix, each in successors.items() for name, column in each.columns.items()}
        self._columns = {
            name: once[name][: self.capacity] if name in once else claimed(self.capacity, column)
            for name, column in columns.items()
        }
        self._rows = Batch(self._columns, policy=self.policy)

    # ------------------------------------------------------------------- out

    def sample(self, size: int) -> Batch[str]:
        """Sample rows; each is a piece of its own."""
        self._check(size)
        self.sampled += size
        return self._picked(self._rng.integers(len(self), size=size), {})

    def _picked(self, slots: Ints, more: dict[str, Array]) -> Batch[str]:
        columns = {name: column.take(slots, axis=0) for name, column in self._columns.items()} | more
        for prefix, successors in self._successors.items():
            places = successors.places.take(slots)
            columns |= {f"{prefix}next_{name}": c.take(places, axis=0) for name, c in successors.columns.items()}
        for column in columns.values():
            column.setflags(write=False)  # cheaper than the read-only views that a batch makes of what can be written
        return self._rows._like(columns, np.arange(len(slots)), {}, 0, None)

    def _check(self, size: int) -> None:
        if size < 1:
            raise ReplayError(f"{type(self).__name__}: sample at least 1 row, not {size}.")
        if not self.inserted:
            raise ReplayError(f"{type(self).__name__} is empty: insert rows before sampling.")

    # ------------------------------------------------------------------- state

    def state(self, *, copies: bool = True) -> State:
        """The state for a checkpoint, as arrays and numbers. The incarnation is not part of it.

        Args:
            copies: Copy the columns; False gives its own memory, for those who write it at once.
        """
        views = {f"columns/{name}": column[: len(self)] for name, column in self._columns.items()}
        columns = {name: view.copy() for name, view in views.items()} if copies else views
        for prefix, successors in self._successors.items():
            for name, part in successors.state(self.inserted).items():
                group, _, member = name.partition("/")
                columns[f"{group}/{prefix}{member}"] = part
        return self._numbers() | columns

    def _numbers(self) -> State:
        words = self._rng.bit_generator.state
        numbers = [words["state"]["state"], words["state"]["inc"]]
        halves = [half for number in numbers for half in (number >> 64, number % 2**64)]
        rng = np.array([*halves, words["has_uint32"], words["uinteger"]], dtype=np.uint64)
        policy = np.frombuffer(self.policy.encode(), dtype=np.uint8)
        return {"capacity": self.capacity, "inserted": self.inserted, "sampled": self.sampled, "rng": rng, "policy": policy}

    def load(self, state: Mapping[str, Array | int | float]) -> None:
        """Restore a state. On an error, nothing is changed."""
        groups: dict[str, dict[str, Array]] = {"columns": {}, "places": {}, "open": {}, "finals": {}}
        numbers = {}
        for name, value in state.items():
            group, marked, member = name.partition("/")
            if marked and group in groups:
                groups[group][member] = np.asarray(value)
            else:
                numbers[name] = value
        columns, places = groups["columns"], groups["places"]
        if numbers.keys() != self._numbers().keys() or numbers["capacity"] != self.capacity or (places and not self.links):
            raise CheckpointError(
                f"The state does not belong to a {type(self).__name__} of capacity {self.capacity}: it has {sorted(numbers)} and "
                f"capacity {numbers.get('capacity')}. Load it into a buffer that is made as the saved one was."
            )
        rows = min(int(numbers["inserted"]), self.capacity)
        per_row = columns | {name: np.asarray(numbers[name]) for name in numbers if name == "priorities"}
        wrong = {name: len(column) for name, column in per_row.items() if len(column) != rows}
        if wrong:
            raise CheckpointError(f"The state has {rows} rows, but its columns have {wrong}: it is damaged.")
        if places.keys() != groups["open"].keys() or not groups["finals"].keys() <= columns.keys():
            raise CheckpointError(
                f"The state has final observations for {sorted(groups['finals'])}, and lacks parts: it is damaged."
            )
        successors = {}
        for prefix in places:
            finals = {name.removeprefix(prefix): c for name, c in groups["finals"].items() if name.startswith(prefix)}
            found = {"places": places[prefix], "open": groups["open"][prefix], **{f"finals/{n}": c for n, c in finals.items()}}
            successors[prefix] = Successors(self.capacity, self.n_step, {name: columns[prefix + name] for name in finals})
            successors[prefix].load(int(numbers["inserted"]), found)
        self._load(numbers)
        self._columns, self._rows, self._successors = {}, Batch({}), {}
        if columns:
            self._claim(columns, successors)
        for name, column in columns.items():
            self._columns[name][:rows] = column

    def _load(self, state: Mapping[str, Array | int | float]) -> None:
        self.inserted, self.sampled = int(state["inserted"]), int(state["sampled"])
        self.policy = np.asarray(state["policy"], dtype=np.uint8).tobytes().decode()
        words = [int(word) for word in np.asarray(state["rng"])]
        self._rng.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": (words[0] << 64) + words[1], "inc": (words[2] << 64) + words[3]},
            "has_uint32": words[4],
            "uinteger": words[5],
        }


def _named(columns: Mapping[str, Mapping[str, Array]]) -> dict[str, Array]:
    """Columns of successors, by the names with which they are sampled."""
    return {f"{prefix}next_{name}": column for prefix, each in columns.items() for name, column in each.items()}


class PrioritizedBuffer(UniformBuffer):
    """The latest ``capacity`` rows, sampled in proportion to ``priority ** alpha``.

    Samples have three more columns. ``weights`` are the importance-sampling weights ``(N * P) ** -beta``, divided by the largest
    of the batch: by that of the buffer, a single row with a TD error of almost 0 would make all weights tiny. ``indices`` says
    where a row is stored. ``ids`` says which row it is, and goes back to ``update_priorities``. A new row has the highest
    priority seen so far, or what the column ``priorities`` of its batch says. Rows of a batch are in the order in which they are
    stored, more or less: shuffle before splitting it.
    """

    def __init__(
        self,
        capacity: int,
        *,
        alpha: float = 0.6,
        beta: float = 0.4,
        seed: int = 0,
        incarnation: int = 0,
        n_step: int = 1,
        gamma: float | None = None,
        compiled: bool | None = None,
    ) -> None:
        super().__init__(capacity, seed=seed, incarnation=incarnation, n_step=n_step, gamma=gamma)
        self.alpha = self._fraction("alpha", alpha)
        self.beta = self._fraction("beta", beta)
        self.stale = 0
        """Priority updates that came too late: for rows that were overwritten, or of an earlier incarnation."""
        self._tree = SumTree(capacity, compiled=compiled)
        self._highest = 1.0

    def _fraction(self, name: str, value: float) -> float:
        if not 0 <= value <= 1:
            raise PlanError(f"{type(self).__name__}: {name} must be from 0 to 1, got {value}.")
        return float(value)

    def store(self, columns: Mapping[str, Array], links: Mapping[str, Links] = NO_LINKS) -> None:
        count = len(next(iter(columns.values())))
        others = {name: column for name, column in columns.items() if name != "priorities"}
        priorities, highest = checked(columns.get("priorities", np.full(count, self._highest)))
        super().store(others, links)
        self._highest = max(self._highest, highest)
        slots = np.arange(max(0, self.inserted - self.capacity, self.inserted - count), self.inserted) % self.capacity
        self._tree.put(slots, priorities[count - len(slots) :] ** self.alpha)

    def sample(self, size: int, beta: float | None = None) -> Batch[str]:
        """Sample rows by priority, stratified: one from each of ``size`` equal parts of the sum."""
        self._check(size)
        beta = self.beta if beta is None else self._fraction("beta", beta)
        slots = self._tree.sample(size, self._rng)
        self.sampled += size
        priorities = self._tree.priorities(slots)
        weights = (np.minimum.reduce(priorities) / priorities) ** beta
        ids = self._newest - (self._newest - slots) % self.capacity
        return self._picked(slots, {"weights": weights.astype(np.float32), "indices": slots, "ids": ids})

    @property
    def _newest(self) -> int:
        """The id of the row that came last. Ids count rows; modulo the capacity, they are slots. Incarnations share none."""
        return self.incarnation * (2**40 // self.capacity * self.capacity) + self.inserted - 1

    def update_priorities(self, ids: ArrayLike, priorities: ArrayLike) -> None:
        """Update the priorities of sampled rows. Updates for rows that were overwritten are ignored, and counted in ``stale``."""
        values, highest = checked(priorities)
        rows: Ints = np.asarray(ids, dtype=np.int64)
        if rows.shape != values.shape:
            raise ReplayError(f"Give one priority per id: there are {rows.size} ids and {values.size} priorities.")
        ages = self._newest - rows
        if rows.size and np.maximum.reduce(ages.view(np.uint64)) >= len(self):  # as unsigned numbers, negative ones are large
            fresh = (ages >= 0) & (ages < len(self))
            self.stale += int(np.count_nonzero(~fresh))
            rows, values = rows[fresh], values[fresh]
            highest = float(values.max(initial=0.0))
        self._highest = max(self._highest, highest)
        self._tree.put(rows % self.capacity, values**self.alpha)

    def _numbers(self) -> State:
        priorities = self._tree.priorities(slice(len(self))).copy()
        return super()._numbers() | {"priorities": priorities, "highest": self._highest, "stale": self.stale}

    def _load(self, state: Mapping[str, Array | int | float]) -> None:
        super()._load(state)
        self._highest, self.stale = float(state["highest"]), int(state["stale"])
        priorities = np.zeros(self.capacity)
        priorities[: len(self)] = state["priorities"]
        self._tree.put(np.arange(self.capacity), priorities)


class ReservoirBuffer(UniformBuffer):
    """Reservoir sampling: a uniform sample of ``capacity`` rows of all that were ever inserted (Vitter's algorithm R)."""

    links: ClassVar[bool] = False  # a row may go before the one that it follows

    def store(self, columns: Mapping[str, Array], links: Mapping[str, Links] = NO_LINKS) -> None:
        self._lay_out(columns, links)
        count = len(next(iter(columns.values())))
        numbers = np.arange(self.inserted, self.inserted + count)
        slots = numbers.copy()
        late = numbers >= self.capacity
        slots[late] = self._rng.integers(numbers[late] + 1)  # row k takes the place of one of 0 to k, if that is kept at all
        kept = np.flatnonzero(slots < self.capacity)[::-1]
        slots, last = np.unique(slots[kept], return_index=True)  # of several rows for one place, the last stays
        for name, column in columns.items():
            self._columns[name][slots] = column[kept[last]]
        self.inserted += count
