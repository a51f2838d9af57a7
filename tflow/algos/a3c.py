"""A3C: asynchronous advantage actor-critic (Mnih et al. 2016, arXiv 1602.01783).

Implements: gradients computed by each worker with the weights that made its rollout, applied by the learner as they arrive, new
weights for that worker alone; n-step returns up to the end of the fragment; entropy bonus. ``lam`` below 1 turns the n-step
returns into generalised advantages. The paper's workers share memory without locks; here updates are applied one at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflow.algos.algorithm import SinglePolicy
from tflow.combinators.par import ParIter
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.gradients import ComputeGradients
from tflow.rl.learning.losses import A3CLoss, Loss
from tflow.rl.learning.training import ApplyGradients, TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts
from tflow.rl.schedules import Schedule
from tflow.types import Async


@dataclass(frozen=True, kw_only=True)
class A3C(SinglePolicy):
    """Asynchronous advantage actor-critic.

    Args:
        env: A gymnasium id, a function that makes an env, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray.
        num_envs: Envs per worker; all are stepped, and acted on, together.
        fragment: Steps of every env per gradient.
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
    """Steps of every env per gradient."""
    lr: float | Schedule = 2e-3
    """The learning rate, or its schedule over env steps."""
    lam: float = 1.0
    """1: returns up to the end of the fragment; less: generalised advantages, less noisy and more biased."""
    value_coef: float = 0.5
    """What the error of the values counts in the loss."""
    entropy_coef: float | Schedule = 0.01
    """What the entropy of the policy counts: more of it explores longer."""

    def loss(self) -> Loss[Rollout, Async]:
        return A3CLoss(gamma=self.gamma, lam=self.lam, value_coef=self.value_coef, entropy_coef=self.entropy_coef)

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(a3c_plan(ParallelRollouts(workers), workers, self), workers)


def a3c_plan(stream: ParIter[Rollout], workers: AnyWorkers, config: A3C = A3C()) -> Iter[TrainStats]:
    """Gradients from wherever the rollouts are, applied as they arrive."""
    grads = stream.par_for_each(ComputeGradients(loss=config.loss())).gather_async()
    return grads.for_each(ApplyGradients(workers, max_grad_norm=config.max_grad_norm))
