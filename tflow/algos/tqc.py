"""TQC: truncated quantile critics (Kuznetsov et al. 2020, arXiv 2005.04269).

Implements: SAC with Q-functions that predict quantiles of the return; the largest quantiles of all target networks together are
left out of the target, which controls overestimation. What differs from the paper: two Q-functions of the size of SAC's instead
of five larger ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tflow.algos.off_policy import off_policy_plan
from tflow.algos.sac import SAC
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.actor_q_losses import TQCLoss
from tflow.rl.learning.losses import Loss, Replayed
from tflow.rl.learning.training import TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.policy.policy_spec import ActorQSpec
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts
from tflow.types import Async


@dataclass(frozen=True, kw_only=True)
class TQC(SAC):
    """Truncated quantile critics."""

    quantiles: int = 25
    """Quantiles of the return that each Q-function predicts; usually 25. More: finer, but slower."""
    drop: int = 2
    """Largest quantiles per Q-function that are left out of the target; usually 0 to 5. Larger: less overestimation."""

    def loss(self) -> Loss[Replayed, Async]:
        return TQCLoss(
            temperature=self.temperature,
            target_entropy=self.target_entropy,
            tau=self.tau,
            actor_every=self.actor_every,
            drop=self.drop,
            spec=self.spec(),
        )

    def spec(self) -> ActorQSpec:
        return replace(super().spec(), quantiles=self.quantiles)

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(tqc_plan(ParallelRollouts(workers).gather_sync(), workers, self), workers)


def tqc_plan(stream: Iter[Rollout], workers: AnyWorkers, config: TQC | None = None) -> Iter[TrainStats]:
    """Stores rollouts, and trains on replayed batches."""
    return off_policy_plan("tqc_plan", stream, workers, config, TQC())
