"""Gradients as items of a stream: computed by the workers, averaged, applied by the learner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tflow.errors import TflowError
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import MultiBatch, Rollout
from tflow.rl.policy.weights import WHOLE
from tflow.types import ActorOp, Async, Frozen, Stateless, merged

if TYPE_CHECKING:
    from tflow.rl.learning.losses import Loss
    from tflow.rl.rollout.worker import RolloutWorker


@dataclass(frozen=True)
class Gradients(Frozen):
    """The flat gradient of a loss."""

    values: Array
    rows: int
    env_steps: int = 0
    policy: str = "default"
    stats: Mapping[str, float] = field(default_factory=dict)
    summary: object = None
    part: str = WHOLE
    """The part of the weights whose gradient it is; all of them by default."""
    early_stop: float = 0.0
    """From 1 on, the loss asks for no more updates of the part on the batch that the rows are from."""

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes)


def of_one_policy(where: str, item: object) -> None:
    """Raise for a ``MultiBatch``, in plans that no type checker has seen."""
    if isinstance(item, MultiBatch):
        raise TflowError(f"{where}: got a batch of several policies, but it takes one. Select(stream, policy=...) picks it.")


class ComputeGradients(ActorOp["RolloutWorker", Rollout, Gradients]):
    """Computes the gradient of the loss inside the worker, with the weights that sampled the rollout.

    Args:
        loss: Replaces the loss of the workers.
    """

    def __init__(self, *, loss: Loss[Rollout, Async] | None = None) -> None:
        self.loss = loss

    def apply(self, actor: RolloutWorker, item: Rollout, /) -> Gradients:
        of_one_policy("ComputeGradients", item)
        return actor.gradients(item, loss=self.loss)


class AverageGradients(Stateless[list[Gradients], Gradients]):
    """Averages gradients, weighted by their rows: the gradient of the loss on all their rows together."""

    def apply(self, item: list[Gradients], /) -> Gradients:
        policies = {each.policy for each in item}
        if len(policies) != 1:
            raise ValueError(f"AverageGradients: expected gradients of one policy, got {sorted(policies) or 'none at all'}.")
        rows = sum(each.rows for each in item)
        counted = [each for each in item if each.rows] or item
        shares = [each.rows / rows if rows else 0.0 for each in counted]
        values = np.zeros_like(counted[0].values)
        for each, share in zip(counted, shares, strict=True):
            values += each.values * np.asarray(share, values.dtype)
        names = [name for name in counted[0].stats if all(name in each.stats for each in counted)]
        return Gradients(
            values,
            rows=rows,
            env_steps=sum(each.env_steps for each in item),
            policy=item[0].policy,
            stats={name: sum(share * each.stats[name] for each, share in zip(counted, shares, strict=True)) for name in names},
            summary=merged(each.summary for each in item),
            part=item[0].part,
            early_stop=sum(share * each.early_stop for each, share in zip(counted, shares, strict=True)),
        )
