"""Records one fragment: ``slots`` trajectories of up to ``steps`` rows each, written step by step.

Rows are laid out slot by slot, so that the finished batch needs no copy. A row that is no transition (an env that merely reset
itself, an agent without a turn, a discarded episode) is left out at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import SLOT, Batch

Following = Mapping[str, Array]
"""What follows the last row of each piece: the observation, and the state of a recurrent policy."""
ALL = slice(None)
At = int | Array
"""A step: of all slots the same, or one per slot."""


class Recorder:
    """Records one fragment."""

    def __init__(self, slots: int, steps: int) -> None:
        self.slots = slots
        self.steps = steps
        self.columns: dict[str, Array] = {}
        self.valid = np.ones((slots, steps), dtype=bool)
        self.whole = True
        """No row has been left out."""
        self.closed = np.zeros((slots, steps), dtype=bool)
        """Last rows of pieces."""
        self.finals: list[tuple[Array, Following]] = []
        """Where pieces end, as indices into the grid, and what follows there."""

    def write(self, values: Mapping[str, Array], step: int, rows: slice = ALL) -> None:
        """One row per slot, or for each of some slots in a row, for some columns."""
        for name, value in values.items():
            self.column(name, value)[rows, step] = value

    def write_some(self, values: Mapping[str, Array], rows: Array, steps: Array) -> None:
        """Values for some slots, each at a step of its own."""
        for name, value in values.items():
            self.column(name, value)[rows, steps] = value

    def column(self, name: str, like: Array) -> Array:
        """A column, allocated when it is first written to."""
        found = self.columns.get(name)
        if found is None:
            found = self.columns[name] = np.zeros((self.slots, self.steps, *like.shape[1:]), dtype=like.dtype)
        return found

    def leave_out(self, rows: Array, steps: At | slice) -> None:
        """Leave out rows that are no transitions."""
        self.valid[rows, steps] = False
        self.whole = False

    def cut(self, steps: int) -> None:
        """Make it a recorder of fewer steps: the others were not taken."""
        if steps == self.steps:
            return
        self.columns = {name: np.ascontiguousarray(column[:, :steps]) for name, column in self.columns.items()}
        self.valid, self.closed = self.valid[:, :steps].copy(), self.closed[:, :steps].copy()
        self.finals = [(where // self.steps * steps + where % self.steps, following) for where, following in self.finals]
        self.steps = steps

    def end(self, rows: Array, steps: At, following: Following) -> None:
        """End pieces; ``following`` has one row for each of ``rows``."""
        if len(rows):
            self.closed[rows, steps] = True
            self.finals.append((rows * self.steps + steps, following))

    def finish(
        self, *, env_steps: int, policy: str, summary: object, values: Callable[[Following], Array], worker: int
    ) -> Batch[str]:
        """Make the batch. ``values`` computes the values of the final observations, and of all rows if they were not recorded;
        ``worker`` is the number of the worker."""
        if not self.valid.any():
            return Batch({}, env_steps=env_steps, policy=policy, summary=summary)
        valid, closed = self.valid.reshape(-1), self.closed.reshape(-1)  # only rows that count are ever closed
        if self.whole:
            ends = np.flatnonzero(closed)
            places = ends
            columns = {name: column.reshape(-1, *column.shape[2:]) for name, column in self.columns.items()}
        else:
            places = np.flatnonzero(closed)
            ends = np.cumsum(valid)[places] - 1
            columns = {name: column.reshape(-1, *column.shape[2:])[valid] for name, column in self.columns.items()}
        if "values" not in columns:
            columns["values"] = values({**columns, "state": np.zeros((len(columns["t"]), 0), np.float32)})
        finals = self._finals(places)
        if len(ends):
            finals["values"] = values(finals)
        finals[SLOT] = worker * self.slots + places // self.steps
        finals = {name: final for name, final in finals.items() if name != "state"}
        return Batch(columns, ends=ends, finals=finals, env_steps=env_steps, policy=policy, summary=summary)

    def _finals(self, places: Array) -> dict[str, Array]:
        """What follows each piece, in the order of the pieces."""
        if not self.finals:
            return {}
        written = np.concatenate([where for where, _ in self.finals])
        order = np.argsort(written, kind="stable")
        kept = order[np.isin(written[order], places)]
        names = self.finals[0][1]
        return {name: np.concatenate([following[name] for _, following in self.finals])[kept] for name in names}
