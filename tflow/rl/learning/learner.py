"""A learner: a policy, its loss and its optimiser. It lives in the driver, in an actor of its own, or beside a worker."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from tflow.errors import TflowError
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import AnyBatch, Batch
from tflow.rl.learning.losses import Loss, LossValue
from tflow.rl.learning.optimizers import Optimizer
from tflow.rl.policy.policy import Policy
from tflow.rl.policy.tensors import Tensors
from tflow.rl.policy.threads import fitting, threads
from tflow.rl.policy.weights import Weights
from tflow.rl.schedules import schedule_of

AnyLoss = Loss[Any, Any]  # Any: what it reads and requires is checked where the plan is written
MOST_SKIPPED = 10
"""So many updates in a row that are not finite, and training is given up."""


class NonFiniteGradient(TflowError):
    """Gradients were not finite too often in a row. The weights are those of the last good update."""


@dataclass(frozen=True)
class UpdateResult:
    """What some updates amounted to."""

    rows: int = 0
    updates: int = 0
    skipped: int = 0
    """Updates that were not made, because the gradient was not finite."""
    stats: Mapping[str, float] = field(default_factory=dict)
    errors: Array | None = None
    """How wrong each row was, in the order of the batch; only if the loss says so and each row was used once."""


def checked(loss: AnyLoss, value: object) -> LossValue:
    """What a loss, which may be a user's, came to: something that can be made small."""
    where = f"{type(loss).__name__}.compute"
    if not isinstance(value, LossValue):
        raise TflowError(f"{where} must return a LossValue(total, stats), got {type(value).__name__}.")
    if not is_number(value.total) or not value.total.requires_grad:
        wanted = "total must be one number with a gradient, such as batch.mean(...) of what the policy says"
        raise TflowError(f"{where}: {wanted}; got {value.total!r}.")
    wrong = [name for name, stat in value.stats.items() if not is_number(stat)]
    if wrong:
        raise TflowError(f"{where}: stats must be single numbers, as tensors; {' and '.join(wrong)} are not.")
    return value


def is_number(value: object) -> bool:
    """True for a tensor without dimensions."""
    return isinstance(value, torch.Tensor) and value.dim() == 0


class TDErrors(NamedTuple):
    """What a policy was wrong about."""

    errors: Array
    """One number per row."""
    goals: Array | None
    """What the loss compared it with."""


class Learner:
    """Trains one policy."""

    def __init__(self, policy: Policy, loss: AnyLoss, optimizer: Optimizer, *, seed: int = 0, threads: int | None = None) -> None:
        self.policy = policy
        self.threads = fitting(policy.flat.trainable, threads)
        self.loss = loss
        self.description = optimizer
        self.optimizer = optimizer.build([policy.flat.parameter])
        self.target = policy.copy() if loss.has_target else None
        policy.generator.manual_seed(seed)
        if self.target is not None:
            self.target.generator.manual_seed(seed + 1)  # the noise of the two is independent
        self.rng = np.random.default_rng(seed)
        self.updates = 0
        self.trained = 0
        """Rows that went into updates."""
        self.env_steps: int | None = None
        """How many env steps the run has made, if somebody says so: schedules go by it. Else they go by rows."""
        self.skipped_in_a_row = 0
        self.target_updated_at = 0
        """The update after which the target network was last renewed."""
        self.target_updated_elsewhere = False
        """``UpdateTargetNetwork`` sees to that, and the loss does not."""
        self._weights: tuple[int, Array] | None = None
        self._message: tuple[int, Weights] | None = None

    # ------------------------------------------------------------------- weights

    @property
    def weights(self) -> Array:
        """All weights in one read-only array; the same one until the next update."""
        if self._weights is None or self._weights[0] != self.updates:
            self._weights = self.updates, self.policy.flat.get()
        return self._weights[1]

    def message(self, policy: str, env_steps: int) -> Weights:
        """What workers are sent; the same until the next update, so that it is packed once."""
        if self._message is None or self._message[0] != self.updates:
            self._message = self.updates, Weights(policy, self.weights, env_steps)
        return self._message[1]

    def get_weights(self) -> Array:
        """As ``weights``, for ``run.ask(workers.learner, Learner.get_weights)``."""
        return self.weights

    def set_weights(self, weights: Array) -> None:
        """Go on from other weights."""
        self.policy.flat.set(weights)
        self._weights = self._message = None
        if self.target is not None:
            self.target.flat.set(weights)

    def update_target(self, *, every: int = 1, tau: float = 1.0) -> bool:
        """Move the target network towards the policy, if so many updates were made since it last was."""
        if self.target is None or self.updates - self.target_updated_at < every:
            return False
        self.target_updated_at = self.updates
        with torch.no_grad():
            self.target.flat.values.lerp_(self.policy.flat.values, tau)
        return True

    def _update_target_if_due(self, loss: AnyLoss) -> None:
        every = None if self.target_updated_elsewhere else loss.target_update_every()
        if every is not None:
            self.update_target(every=every)

    # ------------------------------------------------------------------- gradients

    def gradients(self, batch: AnyBatch, *, loss: AnyLoss | None = None, steps: int = 0) -> tuple[Array, dict[str, float]]:
        """The flat gradient of the loss on a whole batch, and what the loss reports."""
        chosen = loss or self.loss
        tensors = self._tensors(chosen.prepare(batch.untyped()))
        value = checked(chosen, chosen.compute(self.policy, tensors, target=self.target, steps=steps))
        gradient = self.policy.flat.gradients_of(value.total)
        reported = {"loss": value.total, **value.stats}
        stats = {name: float(stat.detach()) for name, stat in reported.items()}
        return np.array(gradient.cpu().numpy(), copy=True), stats

    def apply(self, gradient: Array, *, max_norm: float | None = None, steps: int = 0) -> bool:
        """Make one update with a gradient from elsewhere; False if it was skipped."""
        self.policy.flat.gradient.copy_(torch.from_numpy(np.array(gradient, copy=True)))
        made = self._step(max_norm, steps)
        self._update_target_if_due(self.loss)
        return made

    def _step(self, max_norm: float | None, steps: int) -> bool:
        """One update with the gradient in the policy's memory, unless it is not finite."""
        gradient = self.policy.flat.gradient
        norm = float(torch.linalg.vector_norm(gradient))
        if not math.isfinite(norm):
            self.skipped_in_a_row += 1
            if self.skipped_in_a_row >= MOST_SKIPPED:
                raise NonFiniteGradient(
                    f"{MOST_SKIPPED} gradients in a row were not finite. The weights are those of the last good update. Look for "
                    "rewards or observations that are very large, lower the learning rate, or clip gradients (max_grad_norm=)."
                )
            return False
        if max_norm is not None and norm > max_norm:
            gradient.mul_(max_norm / norm)
        for group in self.optimizer.param_groups:
            group["lr"] = schedule_of(self.description.lr).at(steps)
        self.optimizer.step()
        self.skipped_in_a_row = 0
        self.updates += 1
        return True

    # ------------------------------------------------------------------- training

    def train(
        self,
        batch: AnyBatch,
        *,
        loss: AnyLoss | None = None,
        epochs: int = 1,
        minibatch: int | None = None,
        max_norm: float | None = None,
        steps: int = 0,
    ) -> UpdateResult:
        """Go over a batch ``epochs`` times in minibatches of that many rows (None: all at once), in a new order each time."""
        if not len(batch):
            return UpdateResult()
        with threads(self.threads):
            return self._train(batch, loss or self.loss, epochs, minibatch, max_norm, steps)

    def _train(
        self, batch: AnyBatch, chosen: AnyLoss, epochs: int, minibatch: int | None, max_norm: float | None, steps: int
    ) -> UpdateResult:
        pieces = chosen.in_order and minibatch is not None and minibatch < len(batch)
        tensors = self._tensors(chosen.prepare(batch.untyped()), pieces=pieces)
        units = len(tensors) // max(tensors.length, 1)
        rows_each = max(1.0, len(batch) / units)  # padding is no row
        size = units if minibatch is None else max(1, int(minibatch / rows_each))
        reported: dict[str, list[torch.Tensor]] = {}
        errors: torch.Tensor | None = None
        made = skipped = looked = 0
        for part in self._minibatches(tensors, units, size, epochs):
            value = checked(chosen, chosen.compute(self.policy, part, target=self.target, steps=steps))
            looked += 1
            for name, stat in (("loss", value.total), *value.stats.items()):
                reported.setdefault(name, []).append(stat.detach())
            if value.enough:
                break
            self.policy.flat.gradients_of(value.total)
            if self._step(max_norm, steps):
                made += 1
            else:
                skipped += 1
            errors = value.errors
        rows = len(batch) if made + skipped else 0
        self.trained += rows
        self._update_target_if_due(chosen)
        stats = {name: float(torch.stack(each).sum()) / looked for name, each in reported.items()}
        whole = errors is not None and epochs == 1 and size >= units
        found = errors.detach().cpu().numpy() if whole and errors is not None else None
        return UpdateResult(rows, made, skipped, stats, found)

    def _minibatches(self, tensors: Tensors, units: int, size: int, epochs: int) -> Iterator[Tensors]:
        """Those of all epochs, each epoch in a new order."""
        for _ in range(epochs):
            if size >= units:
                yield tensors
                continue
            order = torch.from_numpy(self.rng.permutation(units)).to(self.policy.device)
            for start in range(0, units, size):
                yield tensors.take(order[start : start + size])

    def errors(self, batch: AnyBatch, *, loss: AnyLoss | None = None, own_target: bool = False) -> TDErrors:
        """How wrong the policy is about each row, without learning from it; ``own_target`` compares it with itself."""
        chosen = loss or self.loss
        tensors = self._tensors(chosen.prepare(batch.untyped()))
        with torch.no_grad():
            value = chosen.compute(self.policy, tensors, target=self.policy if own_target else self.target, steps=0)
        if value.errors is None:
            raise TflowError(f"{type(chosen).__name__} does not say how wrong each row is, so there are no priorities to update.")
        return TDErrors(value.errors.cpu().numpy(), None if value.goals is None else value.goals.cpu().numpy())

    def _tensors(self, batch: Batch[str], *, pieces: bool = False) -> Tensors:
        """A batch for the loss: as sequences, if there is a memory or whole pieces must stay together."""
        if not self.policy.recurrent and not pieces:
            return Tensors.of(batch, self.policy.device)
        if "mask" not in batch:
            longest = int((batch.ends - batch.starts).max()) + 1
            batch = batch.sequences(min(self.policy.sequence_length, longest) if self.policy.recurrent else longest)
        return Tensors.of(batch, self.policy.device, length=int(batch.ends[0]) + 1)

    # ------------------------------------------------------------------- state

    def state(self) -> dict[str, object]:
        """All that changes, for a checkpoint."""
        return {
            "weights": self.policy.flat.get(),
            "target": None if self.target is None else self.target.flat.get(),
            "optimizer": copy.deepcopy(self.optimizer.state_dict()),  # it shares memory with the optimiser
            "rng": self.rng.bit_generator.state,
            "counts": [self.updates, self.trained, self.skipped_in_a_row, self.target_updated_at],
        }

    def load(self, state: Mapping[str, Any]) -> None:  # Any: what state() gave
        """Go on from a state."""
        self.policy.flat.set(state["weights"])
        if self.target is not None:
            self.target.flat.set(state["target"])
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        self.rng.bit_generator.state = state["rng"]
        self.updates, self.trained, self.skipped_in_a_row, self.target_updated_at = state["counts"]
        self._weights = self._message = None
