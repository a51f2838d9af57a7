"""One of several learners that train a policy together: each has a share of every batch, and all take the same steps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch
from tflow.rl.data.moments import ByColumn
from tflow.rl.learning.gradients import Gradients
from tflow.rl.learning.learner import Learner, UpdateResult, batch_stats, checked, loss_name, tensors_of, with_scaled_rewards
from tflow.rl.learning.losses import LossValue
from tflow.rl.learning.training import by_id
from tflow.rl.policy.tensors import Tensors
from tflow.rl.policy.threads import threads
from tflow.rl.schedules import EnvSteps

if TYPE_CHECKING:
    from tflow.rl.learning.learners import BatchShare

NOTHING = np.zeros(0, np.float32)
"""The gradient of a part that is not trained in an update."""


@dataclass
class SharedBatch:
    """The batch in training: how far it is."""

    rows: int = 0
    """Rows of the whole batch, of which this learner has a share."""
    updates_left: int = 0
    moments: ByColumn = field(default_factory=dict)
    """Running statistics for the next batch."""
    stopped: list[str] = field(default_factory=list)
    """Parts whose losses asked for no more updates on the batch."""
    finite: bool = True
    """All gradients of the update so far were finite."""
    computed: list[str] = field(default_factory=list)
    """Parts whose losses were computed in the update so far."""
    first: Mapping[str, Any] = field(default_factory=dict)  # Any: arrays and random numbers
    """What the policy remembered before these, if there are several parts."""
    made: int = 0
    skipped: int = 0
    stats: dict[str, list[float]] = field(default_factory=dict)
    """Stats of the loss, of each update."""
    described: dict[str, float] = field(default_factory=dict)
    """Stats of the share."""
    priorities: tuple[Array, Array] | None = None
    """Ids of replayed rows, or sequences, and the TD error of each."""


class Replica(Learner):
    """A learner whose gradients are averaged with those of others. With the same initial weights and the same gradients, their
    weights, optimisers and target networks stay equal bit for bit."""

    is_first = True
    """Of all learners, the one whose weights are sent."""

    def __init__(self, *args: Any, **options: Any) -> None:  # Any: those of a learner
        super().__init__(*args, **options)
        self.shared = SharedBatch()
        self._evaluations: Mapping[str, Callable[[], LossValue]] = {}
        """The losses of the parts on the minibatch in training, which may share what they compute."""
        self._tensors: tuple[Batch[str], Tensors] | None = None
        """The share in training."""

    @property
    def steps(self) -> int:
        """The env steps so far, for schedules."""
        return EnvSteps(self.env_steps or 0, self.stops_at)

    def begin(self, share: BatchShare, *, updates: int, pieces: bool) -> Batch[str]:
        """Begin to train on a share of a batch; returns it with what the loss adds to it.

        Args:
            share: The rows of this learner.
            updates: Updates that are made with the batch.
            pieces: Minibatches are made of whole pieces, so the rows become sequences.
        """
        self.env_steps, self.stops_at = share.env_steps, share.stops_at
        prepared = share.batch  # which may be empty, where workers train in place
        if len(prepared):
            prepared = self.loss.prepare(with_scaled_rewards(self.policy, self.loss, prepared))
        self.shared = SharedBatch(share.rows, updates, share.moments, described=batch_stats(prepared))
        if len(prepared) and (self.policy.recurrent or pieces) and "mask" not in prepared:
            longest = int((prepared.ends - prepared.starts).max()) + 1
            prepared = prepared.sequences(min(self.policy.sequence_length, longest) if self.policy.recurrent else longest)
        return prepared

    def share_of_gradient(self, batch: Batch[str], rows: Array | None, part: str) -> Gradients:
        """The gradient of a part on a minibatch of the share; an empty one if the part is not trained in this update.

        Args:
            batch: The share, as ``begin`` returned it.
            rows: Rows, or sequences, of the minibatch; None takes all.
            part: The part.
        """
        if part in self.shared.stopped or not self._due(self.parts[part]):
            return Gradients(NOTHING, 0, policy=batch.policy, part=part)
        if not len(batch) or (rows is not None and not len(rows)):  # others have some
            return Gradients(np.zeros(self.parts[part].weights.gradient.numel(), np.float32), 0, policy=batch.policy, part=part)
        with threads(self.threads):
            tensors = self._minibatch(batch, rows)
            value = checked(self.loss, self._evaluation(tensors, part), part)
            weights = self.parts[part].weights
            weights.gradients_of(value.total)
            if value.td_errors is not None and rows is None:
                self.shared.priorities = by_id(self.loss, batch, value.td_errors.detach().cpu().numpy())
        named = {loss_name(part): value.total, **value.stats}
        return Gradients(
            np.array(weights.gradient.cpu().numpy(), copy=True),
            int((tensors["mask"] & ~tensors["burn_in"]).sum()) if "mask" in tensors else len(tensors),
            policy=batch.policy,
            stats={name: float(stat.detach()) for name, stat in named.items()},
            part=part,
            early_stop=value.early_stop,
        )

    def _minibatch(self, batch: Batch[str], rows: Array | None) -> Tensors:
        if self._tensors is None or self._tensors[0] is not batch:
            self._tensors = batch, tensors_of(self.policy, batch, pieces="mask" in batch)
        tensors = self._tensors[1]
        return tensors if rows is None else tensors.take(torch.from_numpy(rows).to(self.policy.device))

    def _evaluation(self, tensors: Tensors, part: str) -> LossValue:
        """The loss of a part, which may share what it computes with those before it in the update."""
        shared = self.shared
        if not shared.computed:
            shared.first = self.policy.snapshot() if len(self.parts) > 1 else {}
            self._evaluations = self.loss.losses(self.policy, tensors, target=self.target, steps=self.steps)
        elif not self._evaluations:
            self._compute_again(tensors)
        shared.computed.append(part)
        return self._evaluations[part]()

    def _compute_again(self, tensors: Tensors) -> None:
        """Compute the losses of the update so far as they were, each with the weights that it had: the learner was restored
        between two parts, and the next one may need what they share."""
        now, stepped = self.policy.snapshot(), {name: self.parts[name].weights.parameter for name in self.shared.computed}
        after = {name: parameter.detach().clone() for name, parameter in stepped.items()}
        self.policy.restore(self.shared.first)
        self._evaluations = self.loss.losses(self.policy, tensors, target=self.target, steps=self.steps)
        for name, parameter in stepped.items():
            self._evaluations[name]()
            parameter.data.copy_(after[name])
        self.policy.restore(now)

    def step_together(self, gradient: Gradients) -> UpdateResult | None:
        """One optimiser step of a part with the mean gradient of all learners; after the last one on a batch, the result."""
        shared, trained = self.shared, self.parts[gradient.part]
        if gradient.early_stop >= 1:
            shared.stopped.append(gradient.part)
        for name, stat in gradient.stats.items():
            shared.stats.setdefault(name, []).append(stat)
        if gradient.rows and gradient.part not in shared.stopped:
            trained.weights.gradient.copy_(torch.from_numpy(np.array(gradient.values, copy=True)))
            shared.finite = trained.step(self.steps) and shared.finite
        if gradient.part != next(reversed(self.parts)):
            return None
        if len(shared.stopped) < len(self.parts):
            made = self._count(shared.finite)
            shared.made, shared.skipped = shared.made + made, shared.skipped + (not made)
            self._follow()
        shared.finite, shared.computed, shared.first, self._evaluations = True, [], {}, {}
        shared.updates_left -= 1
        return None if shared.updates_left else self._result()

    def _result(self) -> UpdateResult:
        shared, self._tensors = self.shared, None
        rows = shared.rows if shared.made + shared.skipped else 0
        self.trained += rows
        if shared.moments:
            self.load_moments(shared.moments)
        means = {name: float(np.mean(each)) for name, each in shared.stats.items()}
        stats = {**means, **shared.described, **self.optimizer_stats()}
        return UpdateResult(rows, shared.made, shared.skipped, stats)

    def digest(self) -> str:
        """A hash of all weights, also of those that are not sent, to compare learners by."""
        return hashlib.blake2b(self.policy.flat.get(acting=False).tobytes(), digest_size=16).hexdigest()

    def state(self) -> dict[str, object]:
        return {**super().state(), "shared": self.shared}

    def load(self, state: Mapping[str, Any]) -> None:  # Any: what state() gave
        super().load(state)
        self.shared, self._evaluations, self._tensors = state["shared"], {}, None
