"""Operators that add columns: advantages and returns."""

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
    """Adds generalised advantage estimates and the returns that they amount to. An episode that was truncated or cut off goes
    on in the value of its final observation; one that terminated does not."""

    gamma: float = 0.99
    lam: float = 0.95

    def __post_init__(self) -> None:
        check.share("ComputeAdvantages", "gamma", self.gamma)
        check.share("ComputeAdvantages", "lam", self.lam)

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
