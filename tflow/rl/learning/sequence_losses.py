"""Losses for replayed sequences, which train recurrent networks off-policy: R2D2, RNNSAC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tflow.combinators import check
from tflow.errors import PlanError
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch
from tflow.rl.learning.actor_q_losses import SoftActorCriticLoss
from tflow.rl.learning.losses import QLearningLoss, ReplayedSequences

if TYPE_CHECKING:
    from torch import Tensor

    from tflow.rl.policy.policy import QPolicy
    from tflow.rl.policy.tensors import Tensors


@dataclass(frozen=True)
class R2D2Loss(QLearningLoss[ReplayedSequences]):
    """Recurrent Q-learning from replayed sequences (Kapturowski et al. 2019): n-step double Q-learning with value rescaling."""

    sequential: ClassVar[bool] = True
    rescale: float | None = 1e-3
    """Epsilon of the value rescaling h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x; usually 1e-3. None: no rescaling."""
    eta: float = 0.9
    """Priority of a sequence: ``eta`` times its largest TD error plus ``1 - eta`` times their mean."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.fraction("R2D2Loss", "eta", self.eta)
        if self.rescale is not None:
            check.positive("R2D2Loss", "rescale", self.rescale)
            if self.spec.kind != "scalar":
                raise PlanError(f"R2D2Loss: distributions are not rescaled; with kind={self.spec.kind!r}, say rescale=None.")

    def priorities(self, batch: Batch[str], errors: Array, /) -> Array:
        from tflow.rl.replay.sequence_buffer import sequence_priorities

        return sequence_priorities(errors, batch, eta=self.eta)

    def backed_up(self, policy: QPolicy, batch: Tensors, next_outputs: Tensor, best: Tensor) -> Tensor:
        from tflow.rl.learning import q_learning

        if self.rescale is None:
            return super().backed_up(policy, batch, next_outputs, best)
        values = q_learning.unrescaled(q_learning.chosen(next_outputs, best), self.rescale)
        return q_learning.rescaled(batch["rewards"] + batch["discounts"] * values, self.rescale)


@dataclass(frozen=True)
class RNNSACLoss(SoftActorCriticLoss[ReplayedSequences]):
    """Soft actor-critic with recurrent actor and Q-functions, from replayed sequences."""

    sequential: ClassVar[bool] = True
    eta: float = 0.9
    """Priority of a sequence: ``eta`` times its largest TD error plus ``1 - eta`` times their mean."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.fraction("RNNSACLoss", "eta", self.eta)

    def priorities(self, batch: Batch[str], errors: Array, /) -> Array:
        from tflow.rl.replay.sequence_buffer import sequence_priorities

        return sequence_priorities(errors, batch, eta=self.eta)
