"""RND: PPO with intrinsic rewards by random network distillation (Burda et al. 2018, arXiv 1810.12894).

Implements: the error of a predictor of a random network as intrinsic reward, on observations that are normalised and clipped;
intrinsic rewards divided by the running standard deviation of their returns; two streams of returns, each with a discount factor
and values of its own; intrinsic returns that do not end with an episode; a share of the rows for the predictor, which learns from
all epochs, also where ``max_kl`` ends those of the policy. What differs: the networks for intrinsic rewards are dense and share
nothing with the policy, also where observations are images, and statistics begin with the first batch instead of random steps
before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tflow.algos.algorithm import agreed
from tflow.algos.ppo import PPO
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.errors import PlanError
from tflow.rl.data.batch import Batch, Rollout, Sampled
from tflow.rl.data.batching import ConcatRounds
from tflow.rl.learning.intrinsic import ComputeIntrinsicRewards, RNDLoss, TwoStreams
from tflow.rl.learning.losses import Loss
from tflow.rl.learning.training import TrainOneStep, TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.policy.policy_spec import CuriousSpec
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts
from tflow.types import Sync


@dataclass(frozen=True, kw_only=True)
class RND(PPO):
    """PPO with random network distillation.

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
            are. As long as all rewards were 0 there is nothing to divide by, so the first one would be huge.
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
        num_learners: Always 1.
        intrinsic_coef: Weight of intrinsic advantages; usually 0.5 to 2. Larger: more exploration. 0: none.
        extrinsic_coef: Weight of extrinsic advantages; usually 1 to 5.
        intrinsic_gamma: Discount factor of intrinsic returns, which do not end with an episode; usually 0.99.
        keep: Share of the rows that the predictor learns from; usually 0.25 to 1. Smaller: novelty wears off more slowly.
        width: Units per hidden layer of the networks for intrinsic rewards; usually 64 to 512.
        features: Outputs of the random network, which are predicted; usually 32 to 512.
    """

    normalize_rewards: bool = False
    """Divide rewards by the running standard deviation of discounted returns. Reported returns stay as they are. As long as all
    rewards were 0 there is nothing to divide by, so the first one would be huge."""
    num_learners: int = 1
    """Always 1."""
    intrinsic_coef: float = 1.0
    """Weight of intrinsic advantages; usually 0.5 to 2. Larger: more exploration. 0: none."""
    extrinsic_coef: float = 2.0
    """Weight of extrinsic advantages; usually 1 to 5."""
    intrinsic_gamma: float = 0.99
    """Discount factor of intrinsic returns, which do not end with an episode; usually 0.99."""
    keep: float = 1.0
    """Share of the rows that the predictor learns from; usually 0.25 to 1. Smaller: novelty wears off more slowly."""
    width: int = 128
    """Units per hidden layer of the networks for intrinsic rewards; usually 64 to 512."""
    features: int = 64
    """Outputs of the random network, which are predicted; usually 32 to 512."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_learners != 1:
            raise PlanError(f"RND: intrinsic rewards are computed beside the learner, so there is one; got {self.num_learners}.")

    def loss(self) -> Loss[Batch[Sampled | Literal["advantages", "returns"]], Sync]:
        options = {**vars(super().loss()), "spec": CuriousSpec(width=self.width, features=self.features)}
        return RNDLoss(**options)

    def streams(self) -> TwoStreams:
        """How the two streams of returns are computed and weighed."""
        return TwoStreams(
            gamma=self.gamma,
            intrinsic_gamma=self.intrinsic_gamma,
            lam=self.lam,
            extrinsic_coef=self.extrinsic_coef,
            intrinsic_coef=self.intrinsic_coef,
            keep=self.keep,
        )

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        rollouts = ConcatRounds(ParallelRollouts(workers).gather_rounds())
        return ReportMetrics(rnd_plan(rollouts, workers, self), workers)


def rnd_plan(stream: Iter[Rollout, Sync], workers: AnyWorkers, config: RND | None = None) -> Iter[TrainStats]:
    """Intrinsic rewards and advantages of both streams, then several epochs of minibatches on each batch."""
    loss, config = agreed("rnd_plan", workers, config, RND()), config or RND()
    ready = stream.for_each(ComputeIntrinsicRewards(workers, config.streams()))
    return ready.for_each(TrainOneStep(workers, loss=loss, epochs=config.epochs, minibatch=config.minibatch))
