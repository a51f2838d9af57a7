"""Replay of sequences, for recurrent policies (R2D2, Kapturowski et al. 2019)."""

from __future__ import annotations

from typing import ClassVar, Literal, Never, cast

import numpy as np
from numpy.typing import ArrayLike

from tflow.errors import PlanError
from tflow.rl.data import estimators
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch
from tflow.rl.replay.buffer import PrioritizedBuffer
from tflow.rl.replay.sumtree import Floats, ReplayError

FINAL = "finals:"  # marks what is stored once per sequence


def sequence_priorities(errors: ArrayLike, batch: Batch[Literal["mask", "burn_in"]], *, eta: float = 0.9) -> Floats:
    """One priority per sequence: ``eta * max + (1 - eta) * mean`` of the absolute TD errors of its rows.

    ``errors`` has one number per row of a batch of sequences; padding and burn-in do not count.
    """
    absolute = np.abs(np.asarray(errors, dtype=np.float64))
    if absolute.shape != (len(batch),):
        raise ReplayError(f"sequence_priorities: give one error per row, {len(batch)}; got an array of shape {absolute.shape}.")
    counted = (batch["mask"] & ~batch["burn_in"]).reshape(len(batch.ends), -1)
    absolute = np.where(counted, absolute.reshape(counted.shape), 0.0)
    mean = absolute.sum(axis=1) / np.maximum(1, counted.sum(axis=1))
    return cast("Floats", eta * absolute.max(axis=1) + (1 - eta) * mean)


class SequenceBuffer(PrioritizedBuffer):
    """The latest ``capacity`` sequences of ``length`` rows, sampled by priority; with ``alpha=0``, with equal probability.

    Batches are cut into sequences as ``Batch.sequences`` says. Samples are batches of that kind: sequence by sequence, with the
    columns ``mask`` and ``burn_in``, and in ``finals`` the recurrent state at the start (``state``), the observation after
    the last row, and the ``ids`` for ``update_priorities``. ``weights`` has the weight of its sequence in each row. A batch may
    come with TD errors, as the column ``priorities``: they give the first priorities. All counters count sequences.

    With ``gamma``, rows become transitions over ``n_step`` steps, or fewer at the end of a sequence: rewards become n-step
    returns, ``discounts`` multiplies the bootstrap value, and ``ahead`` says how many rows further on it is; behind the last row
    is what follows it. ``next_masks`` are the action masks there.
    """

    links: ClassVar[bool] = False  # a sequence has the observation after its last row, and no next observations

    def __init__(
        self,
        capacity: int,
        *,
        length: int,
        burn_in: int = 0,
        stride: int | None = None,
        eta: float = 0.9,
        alpha: float = 0.9,
        beta: float = 0.6,
        seed: int = 0,
        incarnation: int = 0,
        n_step: int = 1,
        gamma: float | None = None,
        compiled: bool | None = None,
    ) -> None:
        super().__init__(
            capacity, alpha=alpha, beta=beta, seed=seed, incarnation=incarnation, n_step=n_step, gamma=gamma, compiled=compiled
        )
        if not 0 <= burn_in < length:
            raise PlanError(f"SequenceBuffer: burn_in must be from 0 to length - 1, got burn_in={burn_in}, length={length}.")
        if stride is not None and stride < 1:
            raise PlanError(f"SequenceBuffer: the stride must be at least 1, got {stride}.")
        self.length = length
        self.burn_in = burn_in
        self.stride = stride
        self.eta = self._fraction("eta", eta)

    def transitions(self, batch: Batch[Never]) -> dict[str, Array]:
        """The columns that are stored for a batch: one entry per sequence."""
        cut = cast("Batch[str]", batch).sequences(self.length, burn_in=self.burn_in, stride=self.stride).untyped()
        bootstrapped = {} if self.gamma is None else self._bootstrapped(cut, self.gamma)
        columns = {
            name: column.reshape(-1, self.length, *column.shape[1:])
            for name, column in (dict(cut.columns) | bootstrapped).items()
        }
        if "priorities" in columns:
            columns["priorities"] = sequence_priorities(cut.columns["priorities"], cut, eta=self.eta)
        return columns | {FINAL + name: final for name, final in cut.finals.items()}

    def _bootstrapped(self, cut: Batch[str], gamma: float) -> dict[str, Array]:
        """The columns of transitions over several steps, within each sequence."""
        mask, rows = cut["mask"], np.arange(len(cut))
        last = cut.ends - (~mask).reshape(-1, self.length).sum(axis=1)  # rows that are no padding
        ends = np.union1d(last, cut.ends)
        steps = estimators.n_step(cut["rewards"], cut["terminated"], ends, n=self.n_step, gamma=gamma)
        found = {
            "rewards": steps.returns,
            "discounts": np.where(mask, steps.discounts, np.float32(0)),
            "ahead": steps.last + 1 - rows,
        }
        if "masks" in cut.finals:
            following = np.concatenate([cut["masks"][1:], cut["masks"][:1]])
            following[last] = cut.finals["masks"]
            found["next_masks"] = following[steps.last]
        return found

    def sample(self, size: int, beta: float | None = None) -> Batch[str]:
        """``size`` sequences, one after the other."""
        drawn = dict(super().sample(size, beta).columns)
        finals = {name: drawn.pop(name) for name in ("ids", "indices")}
        finals |= {name.removeprefix(FINAL): drawn.pop(name) for name in list(drawn) if name.startswith(FINAL)}
        weights = np.repeat(drawn.pop("weights"), self.length)
        columns = {name: column.reshape(-1, *column.shape[2:]) for name, column in drawn.items()}
        ends = np.arange(1, size + 1) * self.length - 1
        return Batch(columns | {"weights": weights}, ends=ends, finals=finals, policy=self.policy)
