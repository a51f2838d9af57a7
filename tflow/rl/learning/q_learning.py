"""How wrong a value of each action is: plain, categorical (C51, arXiv 1707.06887) and quantile (arXiv 1710.10044)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from tflow.rl.policy.policy import QPolicy
from tflow.rl.policy.tensors import Tensors


class Errors(NamedTuple):
    """One number per row."""

    loss: Tensor
    td: Tensor
    """The error of the mean: what priorities are made of."""


def goals(policy: QPolicy, batch: Tensors, following: Tensor, best: Tensor) -> Tensor:
    """What the network should have said of the actions taken: a number, or a distribution over atoms or quantiles.

    ``following`` is what the target network says of the next state, ``best`` the action to take there."""
    then = following[torch.arange(len(best), device=best.device), best]
    rewards, discounts = batch["rewards"], batch["discounts"]
    if policy.options.kind == "scalar":
        return rewards + discounts * then
    if policy.options.kind == "quantile":
        return rewards[:, None] + discounts[:, None] * then
    return projected(then.softmax(dim=-1), rewards, discounts, v_min=policy.options.v_min, v_max=policy.options.v_max)


def errors(policy: QPolicy, batch: Tensors, goal: Tensor, *, huber: float | None) -> tuple[Errors, Tensor]:
    """The errors of the actions taken, and their values."""
    outputs = policy.outputs(batch, "obs")
    rows = torch.arange(len(outputs), device=outputs.device)
    taken = outputs[rows, batch["actions"].long()]
    if policy.options.kind == "scalar":
        td = taken - goal
        return Errors(distance(td, huber), td.detach()), taken.detach()
    with torch.no_grad():
        value = policy.net.q_values(outputs)[rows, batch["actions"].long()]
    if policy.options.kind == "categorical":
        support = torch.linspace(policy.options.v_min, policy.options.v_max, goal.shape[-1], device=goal.device)
        loss, expected = -(goal * taken.log_softmax(dim=-1)).sum(dim=-1), (goal * support).sum(dim=-1)
    else:
        loss, expected = quantile_loss(taken, goal, huber=huber), goal.mean(dim=-1)
    return Errors(loss, value - expected), value


def distance(error: Tensor, huber: float | None) -> Tensor:
    """Half the square, or Huber's distance."""
    if huber is None:
        return 0.5 * error.square()
    return functional.huber_loss(error, torch.zeros_like(error), reduction="none", delta=huber)


def projected(probabilities: Tensor, rewards: Tensor, discounts: Tensor, *, v_min: float, v_max: float) -> Tensor:
    """The distribution of reward plus discounted value, on the same atoms: each atom's share goes to its two neighbours."""
    atoms = probabilities.shape[-1]
    support = torch.linspace(v_min, v_max, atoms, device=probabilities.device)
    moved = (rewards[:, None] + discounts[:, None] * support).clamp(v_min, v_max)
    place = ((moved - v_min) / (v_max - v_min) * (atoms - 1)).clamp(0, atoms - 1)
    lower = place.floor().clamp(max=atoms - 2)
    upper_share = place - lower
    found = torch.zeros_like(probabilities)
    found.scatter_add_(1, lower.long(), probabilities * (1 - upper_share))
    found.scatter_add_(1, lower.long() + 1, probabilities * upper_share)
    return found


def quantile_loss(quantiles: Tensor, goals: Tensor, *, huber: float | None) -> Tensor:
    """Quantile regression: each quantile is pulled by the goals above it with its own weight."""
    count = quantiles.shape[-1]
    levels = (torch.arange(count, device=quantiles.device) + 0.5) / count
    error = goals[:, None, :] - quantiles[:, :, None]
    weight = (levels[None, :, None] - (error.detach() < 0).float()).abs()
    scale = 1.0 if huber is None else huber
    return (weight * distance(error, huber) / scale).mean(dim=2).sum(dim=1)
