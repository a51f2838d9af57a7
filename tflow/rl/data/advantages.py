"""Generalised advantage estimation as an operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tflow.combinators import check
from tflow.combinators.columns import AddColumns
from tflow.rl.data import estimators
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch


@dataclass(frozen=True)
class ComputeAdvantages(AddColumns[Literal["rewards", "values", "terminated"], Literal["advantages", "returns"]]):
    """Adds advantages (GAE) and returns. Episodes that were truncated or cut off bootstrap from the value of their final
    observation; terminated ones do not."""

    gamma: float = 0.99
    """Discount factor; usually 0.95 to 0.999. Larger: a longer horizon, more variance."""
    lam: float = 0.95
    """GAE lambda. 0 is one-step TD, 1 Monte Carlo; usually 0.9 to 0.99. Larger: less bias, more variance."""

    def __post_init__(self) -> None:
        check.fraction("ComputeAdvantages", "gamma", self.gamma)
        check.fraction("ComputeAdvantages", "lam", self.lam)

    def compute(
        self, batch: Batch[Literal["rewards", "values", "terminated"]], /
    ) -> Mapping[Literal["advantages", "returns"], Array]:
        if "values" not in batch.finals:
            raise ValueError(
                "ComputeAdvantages: the values of the final observations are not in the batch. Rows picked with take() or "
                "minibatches() have no successors: compute advantages before that."
            )
        advantages, returns = estimators.gae(
            batch["rewards"],
            batch["values"],
            batch.finals["values"],
            batch["terminated"],
            batch.ends,
            gamma=self.gamma,
            lam=self.lam,
        )
        return {"advantages": advantages, "returns": returns}
