"""A learner: a policy, its loss, and the optimiser and target of each part. It lives in the driver or in an actor of its own.

What needs no learner, gradients and TD errors of given weights, are functions, so that workers can compute them too.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from tflow.errors import PlanError, TflowError
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import AnyBatch, Batch
from tflow.rl.data.moments import ByColumn
from tflow.rl.learning.agent import Agent, AnyAgent, AnyLoss
from tflow.rl.learning.losses import LossValue, replays
from tflow.rl.learning.optimizers import Optimizer
from tflow.rl.learning.parts import HardUpdate, Part, SoftUpdate
from tflow.rl.policy.flat import PartWeights
from tflow.rl.policy.memory import keep_freed_memory
from tflow.rl.policy.policy import Policy
from tflow.rl.policy.tensors import Tensors
from tflow.rl.policy.threads import fitting, threads
from tflow.rl.policy.weights import WHOLE
from tflow.rl.schedules import schedule_of

COUNTS = ("updates", "rounds", "trained", "env_steps", "stops_at", "skipped_in_a_row", "target_updated_elsewhere")
"""What a learner counts and notes, by the names of its attributes."""
MAX_SKIPPED = 10
"""After this many non-finite gradients in a row, training stops."""


class NonFiniteGradient(TflowError):
    """Too many gradients in a row were NaN or infinite. The parts that they were for have not changed."""


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


def checked(loss: AnyLoss, value: object, part: str = WHOLE) -> LossValue:
    """The value of a loss, which may be a user's: a scalar that can be minimised."""
    where = f"{type(loss).__name__}.compute" if part == WHOLE else f"{type(loss).__name__}, part {part!r}"
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


def tensors_of(policy: Policy, batch: Batch[str], *, pieces: bool = False) -> Tensors:
    """A batch for the loss: as sequences, if the policy is recurrent or whole pieces must stay together."""
    if "mask" not in batch:
        if not policy.recurrent and not pieces:
            return Tensors.of(batch, policy.device)
        longest = int((batch.ends - batch.starts).max()) + 1
        batch = batch.sequences(min(policy.sequence_length, longest) if policy.recurrent else longest)
    return Tensors.of(batch, policy.device, length=int(batch.ends[0]) + 1)


def with_scaled_rewards(policy: Policy, loss: AnyLoss, batch: Batch[str]) -> Batch[str]:
    """Replayed rewards, divided by the current standard deviation of returns. Workers do so for rollouts."""
    if policy.rewards is None or not replays(loss):
        return batch
    return batch.with_columns({"rewards": batch["rewards"] * np.float32(policy.reward_scale)})


def part_of(policy: Policy, loss: AnyLoss, name: str) -> PartWeights:
    """The weights of a part that a loss trains."""
    if name == WHOLE:
        return policy.flat.whole
    if name not in policy.flat.parts:
        known = ", ".join(policy.flat.parts)
        raise PlanError(f"{type(loss).__name__} trains the part {name!r}, but {type(policy).__name__} has the parts {known}.")
    return policy.flat.parts[name]


def gradients_of(
    policy: Policy, loss: AnyLoss, batch: AnyBatch, *, target: Policy | None = None, steps: int = 0
) -> tuple[Array, dict[str, float]]:
    """The flat gradient of the losses of all parts on a whole batch, and the stats of the losses."""
    tensors = tensors_of(policy, loss.prepare(with_scaled_rewards(policy, loss, batch.untyped())))
    reported: dict[str, torch.Tensor] = {}
    for name, evaluate in loss.losses(policy, tensors, target=target, steps=steps).items():
        value = checked(loss, evaluate(), name)
        part_of(policy, loss, name).gradients_of(value.total)
        reported |= {loss_name(name): value.total, **value.stats}
    stats = {name: float(stat.detach()) for name, stat in reported.items()}
    return np.array(policy.flat.gradient.cpu().numpy(), copy=True), stats


def td_errors_of(policy: Policy, loss: AnyLoss, batch: AnyBatch, *, target: Policy | None) -> TDErrors:
    """TD errors of a batch: those of the first part whose loss gives some."""
    tensors = tensors_of(policy, loss.prepare(batch.untyped()))
    with torch.no_grad():
        for evaluate in loss.losses(policy, tensors, target=target, steps=0).values():
            value = evaluate()
            if value.td_errors is not None:
                targets = None if value.td_targets is None else value.td_targets.cpu().numpy()
                return TDErrors(value.td_errors.cpu().numpy(), targets)
    raise TflowError(f"{type(loss).__name__} gives no TD errors (LossValue.td_errors), so there are no priorities to update.")


ALIKE = 0.05
"""Returns with a smaller standard deviation, as a share of their size, leave nothing to explain: a policy that never fails."""


def batch_stats(batch: Batch[str]) -> dict[str, float]:
    """How well the values that were predicted at sampling time explain the returns, how large these are, and how far continuous
    actions spread."""
    found = {}
    if "returns" in batch and "values" in batch:
        returns = batch["returns"]
        variance, scale = float(returns.var()), float(np.abs(returns).mean())
        if variance > (ALIKE * scale) ** 2:
            found["explained_variance"] = 1 - float((returns - batch["values"]).var()) / variance
        found["value_scale"] = scale
    if "actions" in batch and batch["actions"].dtype.kind == "f":
        found["action_std"] = float(batch["actions"].std(axis=0).mean())
    return found


def loss_name(part: str) -> str:
    """What the loss of a part is called in metrics."""
    return "loss" if part == WHOLE else f"{part}_loss"


class TrainedPart:
    """A part in training: its weights, its optimiser, and the weights of its target network."""

    def __init__(self, rule: Part, weights: PartWeights, optimizer: Optimizer, max_norm: float | None) -> None:
        self.rule = rule
        self.weights = weights
        self.description = optimizer
        self.optimizer = optimizer.build_for(weights)
        self.max_norm = max_norm
        self.norms = self.steps = 0.0
        """Sum of the norms of gradients, before clipping, and how many there were, since the last report."""
        self.lr = 0.0
        self.target: PartWeights | None = None
        self.target_updated_at = 0
        """The update after which the target network was last updated."""

    def step(self, steps: int) -> bool:
        """One optimiser step with the gradient in the flat memory; False if it is not finite."""
        gradient = self.weights.gradient
        norm = float(torch.linalg.vector_norm(gradient))
        if not math.isfinite(norm):
            return False
        self.norms, self.steps = self.norms + norm, self.steps + 1
        if self.max_norm is not None and norm > self.max_norm:
            gradient.mul_(self.max_norm / norm)
        self.lr = schedule_of(self.description.lr).at(steps)
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * group.get("lr_scale", 1.0)
        self.optimizer.step()
        return True

    def report(self, name: str) -> dict[str, float]:
        """The learning rate, and the mean norm of the gradients since the last report."""
        if not self.steps:
            return {}
        mean, self.norms, self.steps = self.norms / self.steps, 0.0, 0.0
        prefix = "" if name == WHOLE else f"{name}_"
        return {f"{prefix}lr": self.lr, f"{prefix}grad_norm": mean}

    def state(self) -> dict[str, Any]:  # Any: as optimisers have it
        """The state of its optimiser, and what it has counted."""
        counts = {name: getattr(self, name) for name in ("norms", "steps", "lr", "target_updated_at")}
        return {**counts, "optimizer": copy.deepcopy(self.optimizer.state_dict())}  # it shares memory with the optimiser

    def load(self, state: Mapping[str, Any]) -> None:  # Any: as above
        """Restore a state."""
        self.norms, self.steps, self.lr = state["norms"], state["steps"], state["lr"]
        self.target_updated_at = state["target_updated_at"]
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))

    def follow(self, updates: int, every: int, tau: float) -> bool:
        """Update the target network if at least ``every`` updates were made since the last time; True if so."""
        if self.target is None or updates - self.target_updated_at < every:
            return False
        self.target_updated_at = updates
        with torch.no_grad():
            self.target.follow(self.weights, tau)
        return True


class Learner:
    """Trains one policy.

    Args:
        policy: The policy, which is trained in place.
        loss: The loss.
        optimizer: Description of the optimiser, of all parts or by part.
        max_grad_norm: Clip gradients to this norm, of each part or by part; None does not clip.
        sends: Weights that workers are sent: of the parts that act, or of all.
        seed: Seed of minibatches, and of what losses draw.
        threads: Threads to compute with; None chooses by the size of the network.
    """

    def __init__(
        self,
        policy: Policy,
        loss: AnyLoss,
        optimizer: Optimizer | Mapping[str, Optimizer],
        *,
        max_grad_norm: float | Mapping[str, float | None] | None = None,
        sends: Literal["acting", "all"] = "acting",
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        agent: AnyAgent = Agent(loss, optimizer=optimizer, max_grad_norm=max_grad_norm, sends=sends)
        keep_freed_memory()
        self.policy = policy
        self.threads = fitting(policy.flat.trainable, threads)
        self.loss = loss
        self.sends_all = sends == "all"
        self.parts = {
            name: TrainedPart(rule, part_of(policy, loss, name), agent.optimizer_of(name), agent.clip_of(name))
            for name, rule in loss.parts().items()
        }
        self.target = self._make_target() if loss.has_target else None
        policy.generator.manual_seed(seed)
        if self.target is not None:
            self.target.generator.manual_seed(seed + 1)  # the noise of the two is independent
        self.rng = np.random.default_rng(seed)
        self.updates = 0
        self.rounds = 0
        """Updates, and those that were skipped."""
        self.trained = 0
        """Rows trained on."""
        self.env_steps: int | None = None
        """Env steps of the run, for schedules; None if not known, then the rows trained on stand in."""
        self.stops_at: int | None = None
        """Env steps after which the run stops, for schedules; None if that is not known."""
        self.skipped_in_a_row = 0
        self.target_updated_elsewhere = False
        """``UpdateTargetNetwork`` updates the target network, so the learner does not."""
        self._weights: tuple[int, Array] | None = None
        self._moments: ByColumn = {}
        self.prior = policy.moments()
        """Running statistics that the policy began with, after a warm start."""

    def _make_target(self) -> Policy:
        """A copy of the policy. A part without a target rule shares its memory with the policy."""
        target = self.policy.copy()
        for name in self.policy.flat.parts:
            trained = self.parts.get(WHOLE) or self.parts.get(name)
            if trained is None or trained.rule.target is None:
                target.flat.parts[name].share(self.policy.flat.parts[name])
        for name, trained in self.parts.items():
            if trained.rule.target is not None:
                trained.target = target.flat.whole if name == WHOLE else target.flat.parts[name]
        return target

    # ------------------------------------------------------------------- weights

    @property
    def weights(self) -> Array:
        """The weights that workers are sent, in one read-only array; the same one until the next update."""
        if self._weights is None or self._weights[0] != self.rounds:
            self._weights = self.rounds, self.policy.flat.get(acting=not self.sends_all)
        return self._weights[1]

    def set_weights(self, weights: Array) -> None:
        """Replace the weights of the policy and of the target network."""
        self.policy.flat.set(weights)
        self._weights = None
        if self.target is not None:
            self.target.flat.set(weights)

    @property
    def target_updated_at(self) -> int:
        """The update after which a target network was last updated."""
        return max(part.target_updated_at for part in self.parts.values())

    def update_target(self, *, every: int = 1, tau: float = 1.0) -> bool:
        """Update the target networks if at least ``every`` updates were made since the last time; True if so.

        Args:
            every: Updates between target network updates.
            tau: Polyak coefficient: 1 copies the weights, less moves towards them.
        """
        followed = [part.follow(self.updates, every, tau) for part in self.parts.values()]
        return any(followed)

    def _follow(self) -> None:
        """Update target networks by the rules of their parts."""
        if self.target is None or self.target_updated_elsewhere:
            return
        for part in self.parts.values():
            match part.rule.target:
                case HardUpdate(every) if every is not None:
                    part.follow(self.updates, every, 1.0)
                case SoftUpdate(tau, every):
                    part.follow(self.updates, every, tau)

    def load_moments(self, moments: ByColumn) -> None:
        """Take over running statistics of observations and returns, for the next batch."""
        if moments is self._moments:
            return
        self._moments = moments
        if self.prior:
            moments = {name: self.prior[name].merged(each) if name in self.prior else each for name, each in moments.items()}
        self.policy.load_moments(moments)
        self._weights = None
        if self.target is not None:
            self.target.load_moments(moments)

    # ------------------------------------------------------------------- gradients

    def gradients(self, batch: AnyBatch, *, loss: AnyLoss | None = None, steps: int = 0) -> tuple[Array, dict[str, float]]:
        """The flat gradient of the loss on a whole batch, and the stats of the loss."""
        return gradients_of(self.policy, loss or self.loss, batch, target=self.target, steps=steps)

    def apply(self, gradient: Array, *, steps: int = 0) -> bool:
        """Take one optimiser step with a given gradient; False if it was skipped."""
        self.policy.flat.gradient.copy_(torch.from_numpy(np.array(gradient, copy=True)))
        finite = [part.step(steps) for part in self.parts.values() if self._due(part)]
        made = self._count(all(finite))
        self._follow()
        return made

    def _due(self, part: TrainedPart) -> bool:
        """True if a part is trained in the next update."""
        return (self.rounds + 1) % part.rule.every == 0

    def _count(self, made: bool) -> bool:
        """Count an update, or one that was skipped; raise if there are too many of these in a row."""
        self.rounds += 1
        if made:
            self.updates += 1
            self.skipped_in_a_row = 0
            return True
        self.skipped_in_a_row += 1
        if self.skipped_in_a_row >= MAX_SKIPPED:
            raise NonFiniteGradient(
                f"{MAX_SKIPPED} gradients in a row were not finite. They were left out. Look for "
                "rewards or observations that are very large, lower the learning rate, or clip gradients (max_grad_norm=)."
            )
        return False

    # ------------------------------------------------------------------- training

    def train(
        self,
        batch: AnyBatch,
        *,
        loss: AnyLoss | None = None,
        epochs: int = 1,
        minibatch: int | None = None,
        steps: int = 0,
        until: Callable[[], bool] = lambda: False,
    ) -> UpdateResult:
        """Train on a batch.

        Args:
            batch: The batch.
            loss: Replaces the learner's own; with the same parts.
            epochs: Passes over the batch, each in a new random order.
            minibatch: Rows per gradient step; None takes the whole batch.
            steps: Env steps so far, for schedules.
            until: No more updates on this batch as soon as this is true.
        """
        if not len(batch):
            return UpdateResult()
        with threads(self.threads):
            return self._train(batch, loss or self.loss, epochs, minibatch, steps, until)

    def _train(
        self, batch: AnyBatch, loss: AnyLoss, epochs: int, minibatch: int | None, steps: int, until: Callable[[], bool]
    ) -> UpdateResult:
        pieces = loss.sequential and minibatch is not None and minibatch < len(batch)
        prepared = loss.prepare(with_scaled_rewards(self.policy, loss, batch.untyped()))
        tensors = tensors_of(self.policy, prepared, pieces=pieces)
        units = len(tensors) // max(tensors.length, 1)
        rows_each = max(1.0, len(batch) / units)  # padding is no row
        size = units if minibatch is None else max(1, int(minibatch / rows_each))
        report = LossReport()
        made = skipped = 0
        stopped = set[str]()  # parts whose losses ask for no more updates
        for part in self._minibatches(tensors, units, size, epochs):
            found = self._update(loss, part, steps, report, stopped)
            if found is None:
                break
            made, skipped = made + found, skipped + (not found)
            if until():
                break
        rows = len(batch) if made + skipped else 0
        self.trained += rows
        once = report.td_errors is not None and epochs == 1 and size >= units
        td_errors = report.td_errors.detach().cpu().numpy() if once and report.td_errors is not None else None
        return UpdateResult(rows, made, skipped, {**report.means(), **batch_stats(prepared), **self.optimizer_stats()}, td_errors)

    def optimizer_stats(self) -> dict[str, float]:
        """Learning rate and norm of the gradients of each part since the last call."""
        return {key: value for name, part in self.parts.items() for key, value in part.report(name).items()}

    def _update(self, loss: AnyLoss, batch: Tensors, steps: int, report: LossReport, stopped: set[str]) -> bool | None:
        """One update: a step of every part that is due, each with the parts before it updated. False if a gradient was not
        finite. Parts that are to be left alone until the next batch join those that have stopped; None if these are all."""
        finite, evaluations = True, loss.losses(self.policy, batch, target=self.target, steps=steps)
        if evaluations.keys() != self.parts.keys():
            given, wanted = ", ".join(evaluations), ", ".join(self.parts)
            raise TflowError(f"{type(loss).__name__}: parts() has {wanted}, but losses() gives {given}. They must be the same.")
        for name, evaluate in evaluations.items():
            part = self.parts[name]
            if name in stopped or not self._due(part):
                continue
            value = checked(loss, evaluate(), name)
            report.add(name, value)
            if value.early_stop >= 1:
                stopped.add(name)
                continue
            part.weights.gradients_of(value.total)
            finite = part.step(steps) and finite
        if len(stopped) == len(self.parts):
            return None
        made = self._count(finite)
        self._follow()
        return made

    def _minibatches(self, tensors: Tensors, units: int, size: int, epochs: int) -> Iterator[Tensors]:
        """The minibatches of all epochs, each epoch in a new random order."""
        for _ in range(epochs):
            if size >= units:
                yield tensors
                continue
            order = torch.from_numpy(self.rng.permutation(units)).to(self.policy.device)
            for start in range(0, units, size):
                yield tensors.take(order[start : start + size])

    def td_errors(self, batch: AnyBatch, *, loss: AnyLoss | None = None) -> TDErrors:
        """TD errors of a batch, without training on it."""
        chosen = loss or self.loss
        return td_errors_of(self.policy, chosen, with_scaled_rewards(self.policy, chosen, batch.untyped()), target=self.target)

    # ------------------------------------------------------------------- state

    def state(self) -> dict[str, object]:
        """The state, for a checkpoint."""
        return {
            "policy": self.policy.snapshot(),
            "target": None if self.target is None else self.target.snapshot(),
            "parts": {name: part.state() for name, part in self.parts.items()},
            "rng": copy.deepcopy(self.rng),
            "prior": self.prior,
            **{name: getattr(self, name) for name in COUNTS},
        }

    def load(self, state: Mapping[str, Any]) -> None:  # Any: what state() gave
        """Restore a state."""
        self.policy.restore(state["policy"])
        if self.target is not None:
            self.target.restore(state["target"])
        for name, part in self.parts.items():
            part.load(state["parts"][name])
        self.rng = copy.deepcopy(state["rng"])
        self.prior = state["prior"]
        for name in COUNTS:
            setattr(self, name, state[name])
        self._weights, self._moments = None, {}


class LossReport:
    """Collects the stats of a loss over minibatches, and the TD errors of the last one."""

    def __init__(self) -> None:
        self.stats: dict[str, list[torch.Tensor]] = {}
        self.td_errors: torch.Tensor | None = None

    def add(self, part: str, value: LossValue) -> None:
        """Add the value of the loss of a part."""
        for name, stat in ((loss_name(part), value.total), *value.stats.items()):
            self.stats.setdefault(name, []).append(stat.detach())
        if value.td_errors is not None:
            self.td_errors = value.td_errors

    def means(self) -> dict[str, float]:
        """The mean of each stat."""
        if not self.stats:
            return {}
        numbers = iter(torch.stack([stat for each in self.stats.values() for stat in each]).tolist())  # one transfer
        return {name: sum(next(numbers) for _ in each) / len(each) for name, each in self.stats.items()}
