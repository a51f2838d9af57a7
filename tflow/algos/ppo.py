"""PPO: proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347).

Implements: the clipped objective; several epochs of minibatches per round; generalised advantages (arXiv 1506.02438),
standardised per minibatch; value clipping; entropy bonus; a penalty on the KL divergence with a fixed coefficient or a schedule
(the paper adapts it), and an end to the epochs when the policy has moved too far. Learning rate and clip may be schedules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tflow.algos.algorithm import SinglePolicy
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.rl.data.advantages import ComputeAdvantages
from tflow.rl.data.batch import Batch, Rollout, Sampled
from tflow.rl.data.batching import ConcatRounds
from tflow.rl.learning.losses import Loss, PPOLoss
from tflow.rl.learning.training import TrainOneStep, TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts
from tflow.rl.schedules import Schedule
from tflow.types import Sync


@dataclass(frozen=True, kw_only=True)
class PPO(SinglePolicy):
    """Proximal policy optimisation.

    Args:
        env: A gymnasium id, a function that makes an env, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray.
        num_envs: Envs per worker; all are stepped, and acted on, together.
        fragment: Steps of every env per rollout.
        device: Where learners compute: a torch device, or ``"auto"`` for a GPU if there is one.
        model: The network: ``"auto"`` looks at the observations, ``MLP((64, 64))`` and others describe it, a function makes
            your own.
        lr: The learning rate, or its schedule over env steps.
        gamma: How much the future counts: the discount per step.
        max_grad_norm: Longer gradients are cut to this length; None leaves them.
        epochs: How often a batch is gone through.
        minibatch: Rows per update.
        lam: Of generalised advantages: 0 trusts the values, 1 the returns.
        clip: How far the probability of an action may move per batch, as a share.
        value_clip: How far a value may move per batch; None lets it.
        value_coef: What the error of the values counts in the loss.
        entropy_coef: What the entropy of the policy counts: more of it explores longer.
        scale_values: That error counts in units of the variance of the returns, where it is more than 1: large rewards need no
            scaling.
        normalize: Standardise the advantages of each minibatch.
        kl_coef: How much diverging from the policy that acted is penalised.
        max_kl: A minibatch on which the policy has diverged further ends the training on its batch; None goes on.
    """

    num_envs: int = 32
    """Envs per worker; all are stepped, and acted on, together."""
    fragment: int = 64
    """Steps of every env per rollout."""
    lr: float | Schedule = 3e-3
    """The learning rate, or its schedule over env steps."""
    epochs: int = 4
    """How often a batch is gone through."""
    minibatch: int = 512
    """Rows per update."""
    lam: float = 0.95
    """Of generalised advantages: 0 trusts the values, 1 the returns."""
    clip: float | Schedule = 0.2
    """How far the probability of an action may move per batch, as a share."""
    value_clip: float | None = None
    """How far a value may move per batch; None lets it."""
    value_coef: float = 0.5
    """What the error of the values counts in the loss."""
    entropy_coef: float | Schedule = 0.0
    """What the entropy of the policy counts: more of it explores longer."""
    scale_values: bool = True
    """That error counts in units of the variance of the returns, where it is more than 1: large rewards need no scaling."""
    normalize: bool = True
    """Standardise the advantages of each minibatch."""
    kl_coef: float | Schedule = 0.0
    """How much diverging from the policy that acted is penalised."""
    max_kl: float | None = None
    """A minibatch on which the policy has diverged further ends the training on its batch; None goes on."""

    def loss(self) -> Loss[Batch[Sampled | Literal["advantages", "returns"]], Sync]:
        return PPOLoss(
            clip=self.clip,
            value_clip=self.value_clip,
            value_coef=self.value_coef,
            entropy_coef=self.entropy_coef,
            scale_values=self.scale_values,
            normalize=self.normalize,
            kl_coef=self.kl_coef,
            max_kl=self.max_kl,
        )

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        rollouts = ConcatRounds(ParallelRollouts(workers).gather_rounds())
        return ReportMetrics(ppo_plan(rollouts, workers, self), workers)


def ppo_plan(stream: Iter[Rollout, Sync], workers: AnyWorkers, config: PPO = PPO()) -> Iter[TrainStats]:
    """Advantages, then several epochs of minibatches on each batch."""
    ready = stream.with_columns(ComputeAdvantages(gamma=config.gamma, lam=config.lam))
    limits = {"epochs": config.epochs, "minibatch": config.minibatch}
    return ready.for_each(TrainOneStep(workers, loss=config.loss(), max_grad_norm=config.max_grad_norm, **limits))
