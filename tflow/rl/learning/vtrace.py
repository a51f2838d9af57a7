"""V-trace on a batch of tensors: what an actor-critic learns from rows that an older policy made."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tflow.errors import TflowError
from tflow.rl.data import estimators
from tflow.rl.data.arrays import Array
from tflow.rl.policy.policy import ActorCritic, Evaluated
from tflow.rl.policy.tensors import Tensors


class Corrected(NamedTuple):
    """One number per row; padding has zeros."""

    values: Tensor
    """What the values should be."""
    advantages: Tensor
    rhos: Tensor
    """The clipped ratios of probabilities: 1 if the policy has not moved, or only towards the actions taken."""


def corrected(policy: ActorCritic, batch: Tensors, found: Evaluated, *, gamma: float, lam: float, **clips: float) -> Corrected:
    """V-trace targets and advantages, given what the policy says now of the rows."""
    if not len(batch.ends) or not batch.finals:
        raise TflowError(
            "V-trace follows rows through time, but these were picked one by one. Train on rollouts as they come, without "
            "take() or shuffle()."
        )
    kept = batch["mask"].cpu().numpy() if "mask" in batch else np.ones(len(batch), dtype=bool)

    def rows(column: Tensor) -> Array:
        found: Array = column.detach().cpu().numpy()
        return np.asarray(found[kept])

    trace = estimators.vtrace(
        rows(batch["logp"]),
        rows(found.logp),
        rows(batch["rewards"]),
        rows(found.values),
        final_values(policy, batch),
        rows(batch["terminated"]).astype(bool),
        np.cumsum(kept)[batch.ends] - 1,
        gamma=gamma,
        lam=lam,
        **clips,
    )

    def padded(column: Array) -> Tensor:
        whole = np.zeros(len(kept), np.float32)
        whole[kept] = column
        return torch.from_numpy(whole).to(found.values.device)

    return Corrected(padded(trace.targets), padded(trace.advantages), padded(trace.rhos))


def final_values(policy: ActorCritic, batch: Tensors) -> Array:
    """What the policy expects now of the observation after each piece; one with a memory is taken at its word of then."""
    if policy.recurrent:
        return np.asarray(batch.finals["values"].cpu().numpy())
    with torch.inference_mode():
        _, values, _ = policy.net(batch.final("obs"))
    return np.asarray(values.cpu().numpy())
