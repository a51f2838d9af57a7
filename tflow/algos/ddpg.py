"""DDPG: deep deterministic policy gradient (Lillicrap et al. 2016, arXiv 1509.02971).

Implements: a deterministic actor, one Q-function, target networks of both: TD3 without its three additions. What differs from the
paper: Gaussian exploration noise (``ou_noise=True`` correlates it in time, as in the paper), no weight decay, no batch norm.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflow.algos.off_policy import off_policy_plan
from tflow.algos.td3 import TD3
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.training import TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.policy.exploration import Exploration, OUNoise, RandomFirst
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts


@dataclass(frozen=True, kw_only=True)
class DDPG(TD3):
    """Deep deterministic policy gradient."""

    critics: int = 1
    """Q-functions, computed in one pass; 1 in the paper. More: less overestimation, more compute."""
    actor_every: int = 1
    """Policy delay: updates of the Q-function per update of the actor; 1 in the paper."""
    smoothing: float = 0.0
    """Standard deviation of the noise on target actions; 0 in the paper, which has none."""
    ou_noise: bool = False
    """Ornstein-Uhlenbeck noise in place of Gaussian noise: correlated in time. Then ``noise`` is not used."""

    def exploration(self) -> Exploration:
        return RandomFirst(self.learning_starts, OUNoise(dt=1.0)) if self.ou_noise else super().exploration()

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(ddpg_plan(ParallelRollouts(workers).gather_sync(), workers, self), workers)


def ddpg_plan(stream: Iter[Rollout], workers: AnyWorkers, config: DDPG | None = None) -> Iter[TrainStats]:
    """Stores rollouts, and trains on replayed batches."""
    return off_policy_plan("ddpg_plan", stream, workers, config, DDPG())
