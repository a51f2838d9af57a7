"""TD targets and losses of Q-learning: scalar, categorical (C51, arXiv 1707.06887) and quantile (QR-DQN, arXiv 1710.10044)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from tflow.rl.policy.policy import QPolicy
from tflow.rl.policy.tensors import Tensors


class Errors(NamedTuple):
    """Loss and TD error of each row."""

    loss: Tensor
    td: Tensor
    """TD error of the expected value, for priorities."""


def td_targets(policy: QPolicy, batch: Tensors, next_outputs: Tensor, best: Tensor) -> Tensor:
    """TD targets of the actions taken: a number per row, or a distribution over atoms or quantiles.

    Args:
        policy: The policy that is trained.
        batch: The transitions.
        next_outputs: Outputs of the target network for the next observations.
        best: The greedy actions there.
    """
    next_values = chosen(next_outputs, best)
    rewards, discounts = batch["rewards"], batch["discounts"]
    if policy.options.kind == "scalar":
        return rewards + discounts * next_values
    if policy.options.kind == "quantile":
        return rewards[:, None] + discounts[:, None] * next_values
    return projected(next_values.softmax(dim=-1), rewards, discounts, v_min=policy.options.v_min, v_max=policy.options.v_max)


def errors(policy: QPolicy, batch: Tensors, targets: Tensor, *, huber: float | None) -> tuple[Errors, Tensor]:
    """Losses and TD errors of the actions taken, and their Q-values."""
    outputs = policy.outputs(batch, "obs")
    actions = batch["actions"].long()
    taken = chosen(outputs, actions)
    if policy.options.kind == "scalar":
        td = taken - targets
        return Errors(regression_loss(td, huber), td.detach()), taken.detach()
    with torch.no_grad():
        value = chosen(policy.net.q_values(outputs), actions)
    if policy.options.kind == "categorical":
        support = torch.linspace(policy.options.v_min, policy.options.v_max, targets.shape[-1], device=targets.device)
        loss, expected = -(targets * taken.log_softmax(dim=-1)).sum(dim=-1), (targets * support).sum(dim=-1)
    else:
        loss, expected = quantile_loss(taken, targets, huber=huber), targets.mean(dim=-1)
    return Errors(loss, value - expected), value


def rescaled(values: Tensor, eps: float) -> Tensor:
    """Value rescaling h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x (Pohlen et al. 2018): large returns become small targets."""
    return values.sign() * ((values.abs() + 1).sqrt() - 1) + eps * values


def unrescaled(values: Tensor, eps: float) -> Tensor:
    """The inverse of ``rescaled``. With s = sqrt(|x| + 1), what is solved is eps s^2 + s = |h(x)| + 1 + eps, for a numerator that
    does not cancel."""
    known = values.abs() + 1 + eps
    root = 2 * known / (1 + (1 + 4 * eps * known).sqrt())
    return values.sign() * (root.square() - 1)


def chosen(outputs: Tensor, actions: Tensor) -> Tensor:
    """The outputs of one action per row."""
    if outputs.dim() == 2:
        return outputs.gather(1, actions.unsqueeze(1)).squeeze(1)
    return outputs[torch.arange(len(actions), device=actions.device), actions]


def regression_loss(error: Tensor, huber: float | None) -> Tensor:
    """Half the squared error, or the Huber loss."""
    if huber is None:
        return 0.5 * error.square()
    return functional.huber_loss(error, torch.zeros_like(error), reduction="none", delta=huber)


def projected(probabilities: Tensor, rewards: Tensor, discounts: Tensor, *, v_min: float, v_max: float) -> Tensor:
    """The distributional Bellman update, projected onto the support: the mass of each shifted atom goes to its two neighbours."""
    atoms = probabilities.shape[-1]
    support = torch.linspace(v_min, v_max, atoms, device=probabilities.device)
    shifted = (rewards[:, None] + discounts[:, None] * support).clamp(v_min, v_max)
    position = ((shifted - v_min) / (v_max - v_min) * (atoms - 1)).clamp(0, atoms - 1)
    lower = position.floor().clamp(max=atoms - 2)
    upper_weight = position - lower
    found = torch.zeros_like(probabilities)
    found.scatter_add_(1, lower.long(), probabilities * (1 - upper_weight))
    found.scatter_add_(1, lower.long() + 1, probabilities * upper_weight)
    return found


def quantile_loss(quantiles: Tensor, targets: Tensor, *, huber: float | None) -> Tensor:
    """Quantile Huber loss between predicted quantiles and target samples; without a threshold the plain quantile loss, as squared
    errors would be about expectiles."""
    count = quantiles.shape[-1]
    levels = (torch.arange(count, device=quantiles.device) + 0.5) / count
    error = targets[:, None, :] - quantiles[:, :, None]
    weight = (levels[None, :, None] - (error.detach() < 0).float()).abs()
    size = error.abs() if huber is None else regression_loss(error, huber) / huber
    return (weight * size).mean(dim=2).sum(dim=1)
