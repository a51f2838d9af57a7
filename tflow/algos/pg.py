"""PG: policy gradient, or REINFORCE (Williams 1992; Sutton et al. 1999; as RLlib has it, arXiv 1712.09381).

Implements: one update per round on the rollouts of all workers together; returns to go as weights of the log-probabilities,
standardised over the batch; entropy bonus. What differs: episodes that a rollout cuts off are completed by a critic, which is
trained beside the policy and used for nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflow.algos.algorithm import SinglePolicy, agreed
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.rl.data.batch import Rollout
from tflow.rl.data.batching import ConcatRounds
from tflow.rl.learning.losses import Loss, PGLoss
from tflow.rl.learning.training import TrainOneStep, TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts
from tflow.rl.schedules import Schedule
from tflow.types import Sync


@dataclass(frozen=True, kw_only=True)
class PG(SinglePolicy):
    """Policy gradient (REINFORCE).

    Args:
        env: The environment: a gymnasium id, a function that makes an env, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray. More: faster sampling.
        num_envs: Envs per worker, stepped together as a vector env; usually 1 to 64. More: larger batches and faster sampling.
        fragment: Env steps per env and update; usually 32 to 512. Longer: fewer and less noisy updates.
        device: Torch device of the learner; ``"auto"`` picks a GPU if there is one.
        model: The network: ``"auto"`` chooses by the observation space, ``MLP((64, 64))`` and the like describe one, a function
            builds your own.
        lr: Learning rate, or a schedule over env steps; usually 3e-4 to 1e-2. Larger: faster, but less stable.
        gamma: Discount factor; usually 0.95 to 0.999. Larger: a longer horizon, more variance.
        max_grad_norm: Clip gradients to this global norm; usually 0.5 to 40. Smaller: more stable, but slower. None: no
            clipping.
        normalize_obs: Normalise observations by their running mean and standard deviation over all workers; they are saved with
            the policy.
        normalize_rewards: Divide rewards by the running standard deviation of discounted returns. Reported returns stay as they
            are.
        normalize: Standardise returns over the batch, to mean 0 and standard deviation 1.
        value_coef: Weight of the value loss, of a critic that only completes returns; usually 0.25 to 1.
        entropy_coef: Weight of the entropy bonus; usually 0 to 0.01. Larger: more exploration, slower convergence.
    """

    fragment: int = 64
    """Env steps per env and update; usually 32 to 512. Longer: fewer and less noisy updates."""
    lr: float | Schedule = 2e-3
    """Learning rate, or a schedule over env steps; usually 3e-4 to 1e-2. Larger: faster, but less stable."""
    normalize_obs: bool = True
    """Normalise observations by their running mean and standard deviation over all workers; they are saved with the policy."""
    normalize_rewards: bool = True
    """Divide rewards by the running standard deviation of discounted returns. Reported returns stay as they are."""
    normalize: bool = True
    """Standardise returns over the batch, to mean 0 and standard deviation 1."""
    value_coef: float = 0.5
    """Weight of the value loss, of a critic that only completes returns; usually 0.25 to 1."""
    entropy_coef: float | Schedule = 0.01
    """Weight of the entropy bonus; usually 0 to 0.01. Larger: more exploration, slower convergence."""

    def loss(self) -> Loss[Rollout, Sync]:
        return PGLoss(gamma=self.gamma, value_coef=self.value_coef, entropy_coef=self.entropy_coef, normalize=self.normalize)

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        rollouts = ConcatRounds(ParallelRollouts(workers).gather_rounds())
        return ReportMetrics(pg_plan(rollouts, workers, self), workers)


def pg_plan(stream: Iter[Rollout, Sync], workers: AnyWorkers, config: PG | None = None) -> Iter[TrainStats]:
    """One update per batch."""
    return stream.for_each(TrainOneStep(workers, loss=agreed("pg_plan", workers, config, PG())))
