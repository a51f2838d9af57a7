"""A2C: advantage actor-critic, synchronous (Mnih et al. 2016, arXiv 1602.01783, without the asynchrony).

Implements: one update per round on the rollouts of all workers together; n-step returns up to the end of the fragment, or
generalised advantages (``lam`` below 1); entropy bonus; gradient clipping.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflow.algos.algorithm import SinglePolicy
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
        env: A gymnasium id, a function that makes an env, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray.
        num_envs: Envs per worker; all are stepped, and acted on, together.
        fragment: Steps of every env per update.
        device: Where learners compute: a torch device, or ``"auto"`` for a GPU if there is one.
        model: The network: ``"auto"`` looks at the observations, ``MLP((64, 64))`` and others describe it, a function makes
            your own.
        lr: The learning rate, or its schedule over env steps.
        gamma: How much the future counts: the discount per step.
        max_grad_norm: Longer gradients are cut to this length; None leaves them.
        lam: 1: returns up to the end of the fragment; less: generalised advantages, less noisy and more biased.
        value_coef: What the error of the values counts in the loss.
        entropy_coef: What the entropy of the policy counts: more of it explores longer.
    """

    fragment: int = 10
    """Steps of every env per update."""
    lr: float | Schedule = 2e-3
    """The learning rate, or its schedule over env steps."""
    lam: float = 1.0
    """1: returns up to the end of the fragment; less: generalised advantages, less noisy and more biased."""
    value_coef: float = 0.5
    """What the error of the values counts in the loss."""
    entropy_coef: float | Schedule = 0.01
    """What the entropy of the policy counts: more of it explores longer."""

    def loss(self) -> Loss[Rollout, Sync]:
        return A3CLoss(gamma=self.gamma, lam=self.lam, value_coef=self.value_coef, entropy_coef=self.entropy_coef)

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        rollouts = ConcatRounds(ParallelRollouts(workers).gather_rounds())
        return ReportMetrics(a2c_plan(rollouts, workers, self), workers)


def a2c_plan(stream: Iter[Rollout, Sync], workers: AnyWorkers, config: A2C = A2C()) -> Iter[TrainStats]:
    """One update per batch."""
    return stream.for_each(TrainOneStep(workers, loss=config.loss(), max_grad_norm=config.max_grad_norm))
