"""PPO: proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347).

Implements: the clipped surrogate objective; several epochs of minibatches per round; GAE (arXiv 1506.02438), standardised per
minibatch; value clipping; entropy bonus; a KL penalty with a fixed coefficient or a schedule (the paper adapts it), and early
stopping by KL divergence. Learning rate and clip range may be schedules. What differs: observations and rewards are normalised by
running statistics, as implementations do for continuous control, and advantages are divided by no less than ``advantage_floor``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tflow.algos.algorithm import SinglePolicy, agreed
from tflow.combinators import check
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.errors import PlanError
from tflow.rl.data.advantages import ComputeAdvantages
from tflow.rl.data.batch import Batch, Rollout, Sampled
from tflow.rl.data.batching import ConcatRounds
from tflow.rl.learning.learners import learn_together
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
        env: The environment: a gymnasium id, a function that makes an env, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray. More: faster sampling.
        num_envs: Envs per worker, stepped together as a vector env; usually 1 to 64. More: larger batches and faster sampling.
        fragment: Env steps per env and rollout; usually 32 to 2048. Longer: less bias from bootstrapping, fewer updates.
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
        epochs: Passes over each batch; usually 3 to 10. More: better use of samples, but the policy moves further from the one
            that sampled them.
        minibatch: Rows per gradient step; usually 64 to 4096. Larger: fewer and less noisy updates. None: the whole batch.
        lam: GAE lambda. 0 is one-step TD, 1 Monte Carlo; usually 0.9 to 0.99. Larger: less bias, more variance.
        clip: Clip range of the probability ratio (epsilon in the paper), or a schedule; usually 0.1 to 0.3. Larger: larger
            policy updates.
        value_clip: Clip range of the values, around those predicted at sampling time; usually 0.1 to 10, by the scale of
            returns. None: no clipping.
        value_coef: Weight of the value loss; usually 0.25 to 1. Larger: a shared network learns more for the critic, less for
            the actor.
        entropy_coef: Weight of the entropy bonus; usually 0 to 0.01. Larger: more exploration, slower convergence.
        scale_values: Normalise the value loss by the variance of the returns where that is above 1. Large rewards then need no
            scaling.
        normalize: Standardise advantages per minibatch, to mean 0 and standard deviation 1.
        advantage_floor: Least standard deviation to divide advantages by, in units of normalised returns; usually 0 to 0.3.
            When there is little left to learn, or nothing was found yet, advantages are noise, which must not drive the policy.
            Only with ``normalize_rewards``.
        kl_coef: Coefficient of a penalty on the KL divergence from the policy that sampled; 0 is off, usually at most 1.
            Larger: smaller policy updates.
        max_kl: Early stopping: a minibatch with a larger KL divergence ends the epochs on its batch; usually 0.01 to 0.05.
            None: off.
        num_learners: Learners, each an actor of its own, among which every batch is divided; 1 trains in the driver. More:
            faster, if a gradient step takes much longer than a call to an actor.
    """

    num_envs: int = 8
    """Envs per worker, stepped together as a vector env; usually 1 to 64. More: larger batches and faster sampling."""
    fragment: int = 256
    """Env steps per env and rollout; usually 32 to 2048. Longer: less bias from bootstrapping, fewer updates."""
    lr: float | Schedule = 1e-3
    """Learning rate, or a schedule over env steps; usually 1e-4 to 3e-3. Larger: faster, but less stable."""
    normalize_obs: bool = True
    """Normalise observations by their running mean and standard deviation over all workers; they are saved with the policy."""
    normalize_rewards: bool = True
    """Divide rewards by the running standard deviation of discounted returns. Reported returns stay as they are."""
    epochs: int = 10
    """Passes over each batch; usually 3 to 10. More: better use of samples, but the policy moves further from the one that
    sampled them."""
    minibatch: int | None = 512
    """Rows per gradient step; usually 64 to 4096. Larger: fewer and less noisy updates. None: the whole batch."""
    lam: float = 0.95
    """GAE lambda. 0 is one-step TD, 1 Monte Carlo; usually 0.9 to 0.99. Larger: less bias, more variance."""
    clip: float | Schedule = 0.2
    """Clip range of the probability ratio (epsilon in the paper), or a schedule; usually 0.1 to 0.3. Larger: larger policy
    updates."""
    value_clip: float | None = None
    """Clip range of the values, around those predicted at sampling time; usually 0.1 to 10, by the scale of returns. None: no
    clipping."""
    value_coef: float = 0.5
    """Weight of the value loss; usually 0.25 to 1. Larger: a shared network learns more for the critic, less for the actor."""
    entropy_coef: float | Schedule = 0.01
    """Weight of the entropy bonus; usually 0 to 0.01. Larger: more exploration, slower convergence."""
    scale_values: bool = True
    """Normalise the value loss by the variance of the returns where that is above 1. Large rewards then need no scaling."""
    normalize: bool = True
    """Standardise advantages per minibatch, to mean 0 and standard deviation 1."""
    advantage_floor: float = 0.1
    """Least standard deviation to divide advantages by, in units of normalised returns; usually 0 to 0.3. When there is little
    left to learn, or nothing was found yet, advantages are noise, which must not drive the policy. Only with
    ``normalize_rewards``."""
    kl_coef: float | Schedule = 0.0
    """Coefficient of a penalty on the KL divergence from the policy that sampled; 0 is off, usually at most 1. Larger: smaller
    policy updates."""
    max_kl: float | None = 0.03
    """Early stopping: a minibatch with a larger KL divergence ends the epochs on its batch; usually 0.01 to 0.05. None: off."""
    num_learners: int = 1
    """Learners, each an actor of its own, among which every batch is divided; 1 trains in the driver. More: faster, if a gradient
    step takes much longer than a call to an actor."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.integer("PPO", "epochs", self.epochs, least=1)
        check.integer("PPO", "num_learners", self.num_learners, least=1, most=check.MAX_ACTORS)
        self.check_minibatch(self.minibatch, PPO.minibatch)
        rows, said = self.rows_of_a_round()
        if rows < 2 and self.normalize:
            raise PlanError(f"PPO: advantages are standardised over a batch, but {said}. Sample more, or say normalize=False.")

    def loss(self) -> Loss[Batch[Sampled | Literal["advantages", "returns"]], Sync]:
        return PPOLoss(
            clip=self.clip,
            value_clip=self.value_clip,
            value_coef=self.value_coef,
            entropy_coef=self.entropy_coef,
            scale_values=self.scale_values,
            normalize=self.normalize,
            advantage_floor=self.advantage_floor if self.normalize_rewards else 0.0,
            kl_coef=self.kl_coef,
            max_kl=self.max_kl,
        )

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        rollouts = ConcatRounds(ParallelRollouts(workers).gather_rounds())
        return ReportMetrics(ppo_plan(rollouts, workers, self), workers)


def ppo_plan(stream: Iter[Rollout, Sync], workers: AnyWorkers, config: PPO | None = None) -> Iter[TrainStats]:
    """Advantages, then several epochs of minibatches on each batch."""
    loss, config = agreed("ppo_plan", workers, config, PPO()), config or PPO()
    ready = stream.with_columns(ComputeAdvantages(gamma=config.gamma, lam=config.lam))
    if config.num_learners > 1:
        return learn_together(
            ready, workers, num=config.num_learners, loss=loss, epochs=config.epochs, minibatch=config.minibatch
        )
    return ready.for_each(TrainOneStep(workers, loss=loss, epochs=config.epochs, minibatch=config.minibatch))
