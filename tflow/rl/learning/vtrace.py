"""V-trace targets for a batch of tensors (IMPALA, arXiv 1802.01561)."""

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


class VTraceTargets(NamedTuple):
    """One number per row; zero for padding."""

    values: Tensor
    """Targets of the value function."""
    advantages: Tensor
    rhos: Tensor
    """Clipped importance weights: 1 on-policy."""


def vtrace_targets(
    policy: ActorCritic, batch: Tensors, found: Evaluated, *, gamma: float, lam: float, **clips: float
) -> VTraceTargets:
    """V-trace targets and advantages, given the current policy's evaluation of the batch."""
    if not len(batch.ends) or not batch.finals:
        raise TflowError(
            "V-trace needs consecutive steps, but these rows were picked one by one. Train on rollouts as they come, without "
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

    return VTraceTargets(padded(trace.targets), padded(trace.advantages), padded(trace.rhos))


def final_values(policy: ActorCritic, batch: Tensors) -> Array:
    """Bootstrap values of the observation after each piece: by the current policy, or, if it is recurrent, as predicted at
    sampling time."""
    if policy.recurrent:
        return np.asarray(batch.finals["values"].cpu().numpy())
    with torch.inference_mode():
        _, values, _ = policy.net(batch.final("obs"))
    return np.asarray(values.cpu().numpy())
