"""IMPALA: importance-weighted actor-learner architecture (Espeholt et al. 2018, arXiv 1802.01561).

Implements: V-trace; a learner in an actor of its own that trains beside sampling, fed through a bounded mailbox by reference:
rollouts go from worker to learner; earlier rollouts mixed in; entropy bonus; how stale rollouts are is measured, and bounded if
``max_staleness`` says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflow.algos.algorithm import SinglePolicy
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.losses import IMPALALoss, Loss
from tflow.rl.learning.training import LearnOnBatch, SendWeights, TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.replay.replay_spec import MixInReplay
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts, create_learner
from tflow.rl.schedules import Schedule
from tflow.types import Async


@dataclass(frozen=True, kw_only=True)
class IMPALA(SinglePolicy):
    """Importance-weighted actor-learner architecture.

    Args:
        env: A gymnasium id, a function that makes an env, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray.
        num_envs: Envs per worker; all are stepped, and acted on, together.
        fragment: Steps of every env per rollout; each rollout is one update.
        device: Where learners compute: a torch device, or ``"auto"`` for a GPU if there is one.
        model: The network: ``"auto"`` looks at the observations, ``MLP((64, 64))`` and others describe it, a function makes
            your own.
        lr: The learning rate, or its schedule over env steps.
        gamma: How much the future counts: the discount per step.
        max_grad_norm: Longer gradients are cut to this length; None leaves them.
        lam: How far V-trace looks ahead: 1 to the end of the fragment.
        clip_rho: Where ratios of probabilities are cut in the targets of the values.
        clip_pg_rho: Where ratios of probabilities are cut in the policy gradient.
        value_coef: What the error of the values counts in the loss.
        entropy_coef: What the entropy of the policy counts: more of it explores longer.
        replay_proportion: Earlier rollouts that are learned from again, per new one.
        replay_slots: How many of the latest rollouts are kept for that.
        mailbox: Rollouts that may be at the learner at a time.
        max_staleness: Rollouts that are older than so many updates are dropped, and counted; None keeps all.
    """

    num_envs: int = 16
    """Envs per worker; all are stepped, and acted on, together."""
    fragment: int = 20
    """Steps of every env per rollout; each rollout is one update."""
    lr: float | Schedule = 2e-3
    """The learning rate, or its schedule over env steps."""
    lam: float = 1.0
    """How far V-trace looks ahead: 1 to the end of the fragment."""
    clip_rho: float = 1.0
    """Where ratios of probabilities are cut in the targets of the values."""
    clip_pg_rho: float = 1.0
    """Where ratios of probabilities are cut in the policy gradient."""
    value_coef: float = 0.5
    """What the error of the values counts in the loss."""
    entropy_coef: float | Schedule = 0.01
    """What the entropy of the policy counts: more of it explores longer."""
    replay_proportion: float = 0.0
    """Earlier rollouts that are learned from again, per new one."""
    replay_slots: int = 16
    """How many of the latest rollouts are kept for that."""
    mailbox: int = 2
    """Rollouts that may be at the learner at a time."""
    max_staleness: int | None = None
    """Rollouts that are older than so many updates are dropped, and counted; None keeps all."""

    def loss(self) -> Loss[Rollout, Async]:
        return IMPALALoss(
            gamma=self.gamma,
            lam=self.lam,
            clip_rho=self.clip_rho,
            clip_pg_rho=self.clip_pg_rho,
            value_coef=self.value_coef,
            entropy_coef=self.entropy_coef,
        )

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        rollouts = ParallelRollouts(workers).gather_async(max_staleness=self.max_staleness)
        return ReportMetrics(impala_plan(rollouts, workers, self), workers)


def impala_plan(
    stream: Iter[Rollout], workers: AnyWorkers, config: IMPALA = IMPALA(), *, policy: str = "default"
) -> Iter[TrainStats]:
    """Rollouts, new and earlier, go to a learner that trains beside sampling."""
    mixed = MixInReplay(stream, slots=config.replay_slots, proportion=config.replay_proportion)
    learner = create_learner(workers, policy=policy, loss=config.loss())
    learned = mixed.hand_off(learner, LearnOnBatch(max_grad_norm=config.max_grad_norm), mailbox=config.mailbox)
    return learned.for_each(SendWeights(workers, learner))
