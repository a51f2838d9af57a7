"""CrossQ: batch normalisation in place of target networks (Bhatt et al. 2024, arXiv 1902.05605).

Implements: SAC whose Q-functions see both observations of a transition in one batch, with batch renormalisation, and no target
networks; a delayed actor; Adam with a smaller first beta. What differs from the paper: the Q-functions are as wide as the actor
unless ``critic_model`` says otherwise; the paper takes ``MLP((2048, 2048), "relu")``, which is slow without a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tflow.algos.off_policy import off_policy_plan
from tflow.algos.sac import SAC
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.actor_q_losses import CrossQLoss
from tflow.rl.learning.losses import Loss, Replayed
from tflow.rl.learning.optimizers import Adam, Optimizer
from tflow.rl.learning.training import TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.policy.policy_spec import ActorQSpec
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts
from tflow.rl.schedules import Schedule
from tflow.types import Async


@dataclass(frozen=True, kw_only=True)
class CrossQ(SAC):
    """SAC with batch renormalisation, without target networks."""

    lr: float | Schedule = 1e-3
    """Learning rate, or a schedule over env steps; usually 3e-4 to 1e-3. Larger: faster, but less stable."""
    actor_every: int = 3
    """Updates of the Q-functions per update of actor and temperature; usually 3."""
    beta1: float = 0.5
    """Decay rate of the first moment of Adam; usually 0.5. Larger: smoother, slower to react."""

    def loss(self) -> Loss[Replayed, Async]:
        return CrossQLoss(
            temperature=self.temperature,
            target_entropy=self.target_entropy,
            subset=self.subset,
            mean_q=self.mean_q,
            actor_every=self.actor_every,
            spec=self.spec(),
        )

    def spec(self) -> ActorQSpec:
        return replace(super().spec(), batch_renorm=True)

    def optimizer(self) -> Mapping[str, Optimizer]:
        chosen = {part: each for part, each in super().optimizer().items() if isinstance(each, Adam)}
        return {part: replace(each, betas=(self.beta1, 0.999)) for part, each in chosen.items()}

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(crossq_plan(ParallelRollouts(workers).gather_sync(), workers, self), workers)


def crossq_plan(stream: Iter[Rollout], workers: AnyWorkers, config: CrossQ | None = None) -> Iter[TrainStats]:
    """Stores rollouts, and trains on replayed batches."""
    return off_policy_plan("crossq_plan", stream, workers, config, CrossQ())
