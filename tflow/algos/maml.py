"""MAML: model-agnostic meta-learning for reinforcement learning (Finn et al. 2017, arXiv 1703.03400).

Implements: per task, policy gradient steps (the inner loop) with a linear baseline fitted to the task; the meta-gradient through
these steps, or its first-order approximation (``first_order``); as outer objective PPO's clipped surrogate with several epochs
per round, where the paper uses TRPO. The env must have tasks: ``sample_task(rng)``, and ``reset`` that takes
``options={"task": ...}``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tflow.algos.algorithm import SinglePolicy, agreed
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
        env: An env with tasks (``sample_task``): a gymnasium id, a function that makes an env, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray. More: faster sampling.
        num_envs: Envs per worker: episodes of one task sampled in parallel; usually 20 to 40. More: less noisy adaptation.
        fragment: Env steps per env and rollout; at least the length of an episode.
        device: Torch device of the learner; ``"auto"`` picks a GPU if there is one.
        model: The network: ``"auto"`` chooses by the observation space, ``MLP((64, 64))`` and the like describe one, a function
            builds your own.
        lr: Learning rate of the outer loop, or a schedule over env steps; usually 1e-4 to 3e-3. Larger: faster, but less
            stable.
        gamma: Discount factor; usually 0.95 to 0.999. Larger: a longer horizon, more variance.
        max_grad_norm: Clip gradients to this global norm; usually 0.5 to 40. Smaller: more stable, but slower. None: no
            clipping.
        normalize_obs: Normalise observations by their running mean and standard deviation over all workers; they are saved with
            the policy.
        normalize_rewards: Divide rewards by the running standard deviation of discounted returns. Reported returns stay as they
            are.
        tasks: Tasks per worker and meta-update: the meta-batch size; usually 10 to 40. More: less noisy meta-gradients.
        inner_lr: Learning rate of the inner loop; usually 0.01 to 0.5. Larger: faster adaptation, but less stable.
        inner_steps: Gradient steps of adaptation per task, each followed by another rollout; usually 1 to 5.
        first_order: First-order MAML: leave out the second derivatives. Cheaper, but the meta-gradient is biased.
        epochs: Meta-updates per batch of tasks; usually 1 to 10. More: better use of samples, but further from the policy that
            sampled them.
        clip: Clip range of the probability ratio in the outer objective, as in PPO; usually 0.1 to 0.3. Larger: larger updates.
        entropy_coef: Weight of the entropy bonus of the adapted policy; usually 0 to 0.01. Larger: more exploration, slower
            convergence.
        lam: GAE lambda. 0 is one-step TD, 1 Monte Carlo, with a linear baseline fitted per task; usually 0.95 to 1. Larger:
            less bias, more variance.
        log_std: Initial log standard deviation of continuous actions; usually -2 to 0. Larger: more exploration at first.
    """

    supports_recurrent: ClassVar[bool] = False
    env: EnvLike = "tflow/Navigation-v0"
    """An env with tasks (``sample_task``): a gymnasium id, a function that makes an env, or an ``EnvSpec``."""
    num_envs: int = 20
    """Envs per worker: episodes of one task sampled in parallel; usually 20 to 40. More: less noisy adaptation."""
    fragment: int = 100
    """Env steps per env and rollout; at least the length of an episode."""
    tasks: int = 10
    """Tasks per worker and meta-update: the meta-batch size; usually 10 to 40. More: less noisy meta-gradients."""
    lr: float | Schedule = 3e-3
    """Learning rate of the outer loop, or a schedule over env steps; usually 1e-4 to 3e-3. Larger: faster, but less stable."""
    inner_lr: float = 0.1
    """Learning rate of the inner loop; usually 0.01 to 0.5. Larger: faster adaptation, but less stable."""
    inner_steps: int = 1
    """Gradient steps of adaptation per task, each followed by another rollout; usually 1 to 5."""
    first_order: bool = False
    """First-order MAML: leave out the second derivatives. Cheaper, but the meta-gradient is biased."""
    epochs: int = 5
    """Meta-updates per batch of tasks; usually 1 to 10. More: better use of samples, but further from the policy that sampled
    them."""
    clip: float = 0.2
    """Clip range of the probability ratio in the outer objective, as in PPO; usually 0.1 to 0.3. Larger: larger updates."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus of the adapted policy; usually 0 to 0.01. Larger: more exploration, slower convergence."""
    lam: float = 1.0
    """GAE lambda. 0 is one-step TD, 1 Monte Carlo, with a linear baseline fitted per task; usually 0.95 to 1. Larger: less
    bias, more variance."""
    log_std: float = -1.0
    """Initial log standard deviation of continuous actions; usually -2 to 0. Larger: more exploration at first."""

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


def maml_plan(stream: Iter[Adapted, Sync], workers: AnyWorkers, config: MAML | None = None) -> Iter[TrainStats]:
    """Several meta-updates on each batch of tasks."""
    loss, config = agreed("maml_plan", workers, config, MAML()), config or MAML()
    return stream.for_each(TrainOneStep(workers, loss=loss, epochs=config.epochs))
