"""MAML: model-agnostic meta-learning for reinforcement learning (Finn et al. 2017, arXiv 1703.03400).

Implements: per task, plain policy-gradient steps on what was played, with a linear baseline fitted to the task; the outer
gradient through these steps, or without their derivatives (``first_order``); the outer objective is clipped as in PPO, and gone
over several times per round, where the paper uses TRPO. The env must have tasks: ``sample_task(rng)``, and ``reset`` that takes
``options={"task": ...}``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tflow.algos.algorithm import SinglePolicy
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.rl.data.batch import Batch
from tflow.rl.data.batching import ConcatRounds
from tflow.rl.learning.losses import Loss
from tflow.rl.learning.meta import Adapted, AdaptToTask, MAMLLoss
from tflow.rl.learning.training import TrainOneStep, TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.policy.policy_spec import ActorCriticSpec
from tflow.rl.rollout.worker_spec import AnyWorkers, EnvLike, ParallelRollouts
from tflow.rl.schedules import Schedule
from tflow.types import Sync


@dataclass(frozen=True, kw_only=True)
class MAML(SinglePolicy):
    """Model-agnostic meta-learning.

    Args:
        env: An env with tasks: a gymnasium id, a function that makes it, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray.
        num_envs: Envs per worker: episodes of a task that are played at a time.
        fragment: Steps of every env per rollout: as long as an episode, or longer.
        device: Where learners compute: a torch device, or ``"auto"`` for a GPU if there is one.
        model: The network: ``"auto"`` looks at the observations, ``MLP((64, 64))`` and others describe it, a function makes
            your own.
        lr: The learning rate of the outer loop, or its schedule over env steps.
        gamma: How much the future counts: the discount per step.
        max_grad_norm: Longer gradients are cut to this length; None leaves them.
        tasks: Tasks per worker and update.
        inner_lr: The learning rate of the inner loop.
        inner_steps: Gradient steps per task.
        first_order: Leave out the derivatives of the inner steps: cheaper, and less exact.
        epochs: Updates per round of tasks.
        clip: How far the probability of an action may move per round, as a share.
        entropy_coef: What the entropy of the adapted policy counts.
        lam: Of generalised advantages: 0 trusts the baseline, 1 the returns.
        log_std: Where the spread of continuous actions begins, as a logarithm.
    """

    with_memory: ClassVar[bool] = False
    env: EnvLike = "tflow/Navigation-v0"
    """An env with tasks: a gymnasium id, a function that makes it, or an ``EnvSpec``."""
    num_envs: int = 20
    """Envs per worker: episodes of a task that are played at a time."""
    fragment: int = 100
    """Steps of every env per rollout: as long as an episode, or longer."""
    tasks: int = 10
    """Tasks per worker and update."""
    lr: float | Schedule = 3e-3
    """The learning rate of the outer loop, or its schedule over env steps."""
    inner_lr: float = 0.1
    """The learning rate of the inner loop."""
    inner_steps: int = 1
    """Gradient steps per task."""
    first_order: bool = False
    """Leave out the derivatives of the inner steps: cheaper, and less exact."""
    epochs: int = 5
    """Updates per round of tasks."""
    clip: float = 0.2
    """How far the probability of an action may move per round, as a share."""
    entropy_coef: float = 0.0
    """What the entropy of the adapted policy counts."""
    lam: float = 1.0
    """Of generalised advantages: 0 trusts the baseline, 1 the returns."""
    log_std: float = -1.0
    """Where the spread of continuous actions begins, as a logarithm."""

    def loss(self) -> Loss[Adapted, Sync]:
        return MAMLLoss(
            inner_lr=self.inner_lr,
            inner_steps=self.inner_steps,
            first_order=self.first_order,
            clip=self.clip,
            entropy_coef=self.entropy_coef,
            gamma=self.gamma,
            lam=self.lam,
            spec=ActorCriticSpec(log_std=self.log_std, rescale=True),
        )

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        adapted = ParallelRollouts(workers).par_for_each(AdaptToTask())
        rounds = adapted.par_batch(self.tasks).par_map(Batch.concat).gather_rounds()
        return ReportMetrics(maml_plan(ConcatRounds(rounds), workers, self), workers)


def maml_plan(stream: Iter[Adapted, Sync], workers: AnyWorkers, config: MAML = MAML()) -> Iter[TrainStats]:
    """Several updates on the tasks of each batch: towards weights from which one step goes far."""
    return stream.for_each(TrainOneStep(workers, loss=config.loss(), epochs=config.epochs, max_grad_norm=config.max_grad_norm))
