"""A2C: advantage actor-critic, synchronous (Mnih et al. 2016, arXiv 1602.01783, without the asynchrony).

Implements: one update per round on the rollouts of all workers together; n-step returns up to the end of the fragment, or
GAE (``lam`` below 1); entropy bonus; gradient clipping.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflow.algos.algorithm import SinglePolicy, agreed
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.rl.data.batch import Rollout
from tflow.rl.data.batching import ConcatRounds
from tflow.rl.learning.losses import A3CLoss, Loss
from tflow.rl.learning.training import TrainOneStep, TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts
from tflow.rl.schedules import Schedule
from tflow.types import Sync


@dataclass(frozen=True, kw_only=True)
class A2C(SinglePolicy):
    """Advantage actor-critic, synchronous.

    Args:
        env: The environment: a gymnasium id, a function that makes an env, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray. More: faster sampling.
        num_envs: Envs per worker, stepped together as a vector env; usually 1 to 64. More: larger batches and faster sampling.
        fragment: Env steps per env and update: the n of n-step returns; usually 5 to 20. Longer: less bias, more variance.
        device: Torch device of the learner; ``"auto"`` picks a GPU if there is one.
        model: The network: ``"auto"`` chooses by the observation space, ``MLP((64, 64))`` and the like describe one, a function
            builds your own.
        lr: Learning rate, or a schedule over env steps; usually 1e-4 to 3e-3. Larger: faster, but less stable.
        gamma: Discount factor; usually 0.95 to 0.999. Larger: a longer horizon, more variance.
        max_grad_norm: Clip gradients to this global norm; usually 0.5 to 40. Smaller: more stable, but slower. None: no
            clipping.
        normalize_obs: Normalise observations by their running mean and standard deviation over all workers; they are saved with
            the policy.
        normalize_rewards: Divide rewards by the running standard deviation of discounted returns. Reported returns stay as they
            are.
        lam: GAE lambda. 0 is one-step TD, 1 the n-step return of the paper; usually 0.9 to 1. Larger: less bias, more variance.
        value_coef: Weight of the value loss; usually 0.25 to 1. Larger: a shared network learns more for the critic, less for
            the actor.
        entropy_coef: Weight of the entropy bonus; usually 0 to 0.01. Larger: more exploration, slower convergence.
    """

    fragment: int = 10
    """Env steps per env and update: the n of n-step returns; usually 5 to 20. Longer: less bias, more variance."""
    lr: float | Schedule = 7e-4
    """Learning rate, or a schedule over env steps; usually 1e-4 to 3e-3. Larger: faster, but less stable."""
    normalize_obs: bool = True
    """Normalise observations by their running mean and standard deviation over all workers; they are saved with the policy."""
    normalize_rewards: bool = True
    """Divide rewards by the running standard deviation of discounted returns. Reported returns stay as they are."""
    lam: float = 1.0
    """GAE lambda. 0 is one-step TD, 1 the n-step return of the paper; usually 0.9 to 1. Larger: less bias, more variance."""
    value_coef: float = 0.5
    """Weight of the value loss; usually 0.25 to 1. Larger: a shared network learns more for the critic, less for the actor."""
    entropy_coef: float | Schedule = 0.01
    """Weight of the entropy bonus; usually 0 to 0.01. Larger: more exploration, slower convergence."""

    def loss(self) -> Loss[Rollout, Sync]:
        return A3CLoss(gamma=self.gamma, lam=self.lam, value_coef=self.value_coef, entropy_coef=self.entropy_coef)

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        rollouts = ConcatRounds(ParallelRollouts(workers).gather_rounds())
        return ReportMetrics(a2c_plan(rollouts, workers, self), workers)


def a2c_plan(stream: Iter[Rollout, Sync], workers: AnyWorkers, config: A2C | None = None) -> Iter[TrainStats]:
    """One update per batch."""
    return stream.for_each(TrainOneStep(workers, loss=agreed("a2c_plan", workers, config, A2C())))
