"""A learner: a policy, its loss and its optimiser. It lives in the driver, in an actor of its own, or inside a worker."""

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
MAX_SKIPPED = 10
"""After this many non-finite gradients in a row, training stops."""


class NonFiniteGradient(TflowError):
    """Too many gradients in a row were NaN or infinite. The weights are those of the last good update."""


@dataclass(frozen=True)
class UpdateResult:
    """The result of training on a batch."""

    rows: int = 0
    updates: int = 0
    skipped: int = 0
    """Updates skipped because the gradient was not finite."""
    stats: Mapping[str, float] = field(default_factory=dict)
    td_errors: Array | None = None
    """Absolute TD error of each row; only if the loss gives them and each row was used once."""


def checked(loss: AnyLoss, value: object) -> LossValue:
    """The value of a loss, which may be a user's: a scalar that can be minimised."""
    where = f"{type(loss).__name__}.compute"
    if not isinstance(value, LossValue):
        raise TflowError(f"{where} must return a LossValue(total, stats), got {type(value).__name__}.")
    if not is_scalar(value.total) or not value.total.requires_grad:
        wanted = "total must be a scalar with a gradient, such as batch.mean(...) of the policy's outputs"
        raise TflowError(f"{where}: {wanted}; got {value.total!r}.")
    wrong = [name for name, stat in value.stats.items() if not is_scalar(stat)]
    if wrong:
        raise TflowError(f"{where}: stats must be scalar tensors; {' and '.join(wrong)} are not.")
    return value


def is_scalar(value: object) -> bool:
    """True for a scalar tensor."""
    return isinstance(value, torch.Tensor) and value.dim() == 0


class TDErrors(NamedTuple):
    """TD errors of a batch."""

    errors: Array
    """Absolute TD error of each row."""
    targets: Array | None
    """TD target of each row, if the loss gives them."""


class Learner:
    """Trains one policy.

    Args:
        policy: The policy, which is trained in place.
        loss: The objective.
        optimizer: Description of the optimiser.
        seed: Seed of minibatches and of noisy layers.
        threads: Threads to compute with; None chooses by the size of the network.
    """

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
        """Rows trained on."""
        self.env_steps: int | None = None
        """Env steps of the run, for schedules; None if not known, then the rows trained on stand in."""
        self.skipped_in_a_row = 0
        self.target_updated_at = 0
        """The update after which the target network was last updated."""
        self.target_updated_elsewhere = False
        """``UpdateTargetNetwork`` updates the target network, so the learner does not."""
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
        """The weights as a message to workers; the same object until the next update, so that it is serialised once."""
        if self._message is None or self._message[0] != self.updates:
            self._message = self.updates, Weights(policy, self.weights, env_steps)
        return self._message[1]

    def get_weights(self) -> Array:
        """As ``weights``, for ``run.ask(workers.learner, Learner.get_weights)``."""
        return self.weights

    def set_weights(self, weights: Array) -> None:
        """Replace the weights of the policy and of the target network."""
        self.policy.flat.set(weights)
        self._weights = self._message = None
        if self.target is not None:
            self.target.flat.set(weights)

    def update_target(self, *, every: int = 1, tau: float = 1.0) -> bool:
        """Update the target network if at least ``every`` updates were made since the last time; True if so.

        Args:
            every: Updates between target network updates.
            tau: Polyak coefficient: 1 copies the weights, less moves towards them.
        """
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
        """The flat gradient of the loss on a whole batch, and the stats of the loss."""
        chosen = loss or self.loss
        tensors = self._tensors(chosen.prepare(batch.untyped()))
        value = checked(chosen, chosen.compute(self.policy, tensors, target=self.target, steps=steps))
        gradient = self.policy.flat.gradients_of(value.total)
        reported = {"loss": value.total, **value.stats}
        stats = {name: float(stat.detach()) for name, stat in reported.items()}
        return np.array(gradient.cpu().numpy(), copy=True), stats

    def apply(self, gradient: Array, *, max_norm: float | None = None, steps: int = 0) -> bool:
        """Take one optimiser step with a given gradient; False if it was skipped."""
        self.policy.flat.gradient.copy_(torch.from_numpy(np.array(gradient, copy=True)))
        made = self._step(max_norm, steps)
        self._update_target_if_due(self.loss)
        return made

    def _step(self, max_norm: float | None, steps: int) -> bool:
        """One optimiser step with the gradient in the policy's flat memory, unless it is not finite."""
        gradient = self.policy.flat.gradient
        norm = float(torch.linalg.vector_norm(gradient))
        if not math.isfinite(norm):
            self.skipped_in_a_row += 1
            if self.skipped_in_a_row >= MAX_SKIPPED:
                raise NonFiniteGradient(
                    f"{MAX_SKIPPED} gradients in a row were not finite. The weights are those of the last good update. Look for "
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
        """Train on a batch.

        Args:
            batch: The batch.
            loss: Replaces the learner's own.
            epochs: Passes over the batch, each in a new random order.
            minibatch: Rows per gradient step; None takes the whole batch.
            max_norm: Clip gradients to this global norm; None does not clip.
            steps: Env steps so far, for schedules.
        """
        if not len(batch):
            return UpdateResult()
        with threads(self.threads):
            return self._train(batch, loss or self.loss, epochs, minibatch, max_norm, steps)

    def _train(
        self, batch: AnyBatch, chosen: AnyLoss, epochs: int, minibatch: int | None, max_norm: float | None, steps: int
    ) -> UpdateResult:
        pieces = chosen.sequential and minibatch is not None and minibatch < len(batch)
        tensors = self._tensors(chosen.prepare(batch.untyped()), pieces=pieces)
        units = len(tensors) // max(tensors.length, 1)
        rows_each = max(1.0, len(batch) / units)  # padding is no row
        size = units if minibatch is None else max(1, int(minibatch / rows_each))
        reported: dict[str, list[torch.Tensor]] = {}
        td_errors: torch.Tensor | None = None
        made = skipped = evaluated = 0
        for part in self._minibatches(tensors, units, size, epochs):
            value = checked(chosen, chosen.compute(self.policy, part, target=self.target, steps=steps))
            evaluated += 1
            for name, stat in (("loss", value.total), *value.stats.items()):
                reported.setdefault(name, []).append(stat.detach())
            if value.early_stop:
                break
            self.policy.flat.gradients_of(value.total)
            if self._step(max_norm, steps):
                made += 1
            else:
                skipped += 1
            td_errors = value.td_errors
        rows = len(batch) if made + skipped else 0
        self.trained += rows
        self._update_target_if_due(chosen)
        stats = {name: float(torch.stack(each).sum()) / evaluated for name, each in reported.items()}
        once = td_errors is not None and epochs == 1 and size >= units
        found = td_errors.detach().cpu().numpy() if once and td_errors is not None else None
        return UpdateResult(rows, made, skipped, stats, found)

    def _minibatches(self, tensors: Tensors, units: int, size: int, epochs: int) -> Iterator[Tensors]:
        """The minibatches of all epochs, each epoch in a new random order."""
        for _ in range(epochs):
            if size >= units:
                yield tensors
                continue
            order = torch.from_numpy(self.rng.permutation(units)).to(self.policy.device)
            for start in range(0, units, size):
                yield tensors.take(order[start : start + size])

    def td_errors(self, batch: AnyBatch, *, loss: AnyLoss | None = None, use_target: bool = True) -> TDErrors:
        """TD errors of a batch, without training on it; without ``use_target``, the policy bootstraps from itself."""
        chosen = loss or self.loss
        tensors = self._tensors(chosen.prepare(batch.untyped()))
        with torch.no_grad():
            value = chosen.compute(self.policy, tensors, target=self.target if use_target else self.policy, steps=0)
        if value.td_errors is None:
            raise TflowError(
                f"{type(chosen).__name__} gives no TD errors (LossValue.td_errors), so there are no priorities to update."
            )
        targets = None if value.td_targets is None else value.td_targets.cpu().numpy()
        return TDErrors(value.td_errors.cpu().numpy(), targets)

    def _tensors(self, batch: Batch[str], *, pieces: bool = False) -> Tensors:
        """A batch for the loss: as sequences, if the policy is recurrent or whole pieces must stay together."""
        if not self.policy.recurrent and not pieces:
            return Tensors.of(batch, self.policy.device)
        if "mask" not in batch:
            longest = int((batch.ends - batch.starts).max()) + 1
            batch = batch.sequences(min(self.policy.sequence_length, longest) if self.policy.recurrent else longest)
        return Tensors.of(batch, self.policy.device, length=int(batch.ends[0]) + 1)

    # ------------------------------------------------------------------- state

    def state(self) -> dict[str, object]:
        """The state, for a checkpoint."""
        return {
            "weights": self.policy.flat.get(),
            "target": None if self.target is None else self.target.flat.get(),
            "optimizer": copy.deepcopy(self.optimizer.state_dict()),  # it shares memory with the optimiser
            "rng": self.rng.bit_generator.state,
            "counts": [self.updates, self.trained, self.skipped_in_a_row, self.target_updated_at],
        }

    def load(self, state: Mapping[str, Any]) -> None:  # Any: what state() gave
        """Restore a state."""
        self.policy.flat.set(state["weights"])
        if self.target is not None:
            self.target.flat.set(state["target"])
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        self.rng.bit_generator.state = state["rng"]
        self.updates, self.trained, self.skipped_in_a_row, self.target_updated_at = state["counts"]
        self._weights = self._message = None
