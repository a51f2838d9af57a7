"""DD-PPO: decentralised distributed PPO (Wijmans et al. 2019, arXiv 1911.00357).

Implements: workers that sample and train in place, each on its own rollout; gradients averaged among the workers, minibatch by
minibatch, so that nobody has the data of others and there is no learner; preemption of stragglers: as soon as a share of the
workers has finished its rollout, those of the others are cut, and used as they are. What differs: advantages are standardised
over the rollouts of all workers, and rollouts count by their rows, so that short ones weigh less; a rollout may be cut after
any number of steps, in the original after a quarter of its length at the earliest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tflow.algos.algorithm import agreed
from tflow.algos.ppo import PPO
from tflow.combinators import check
from tflow.combinators.par import ParIter
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.errors import PlanError
from tflow.rl.data.advantages import ComputeAdvantages
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.in_place import PreemptedRollouts, learn_in_place
from tflow.rl.learning.training import TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.rollout.worker import RolloutWorker
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts
from tflow.types import Sync


@dataclass(frozen=True, kw_only=True)
class DDPPO(PPO):
    """Decentralised distributed PPO.

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
        num_learners: Always 1: every worker trains.
        sync_fraction: Preemption of stragglers: as soon as this share of the workers has finished its rollout, those of the
            others are cut, and used as they are. 1: wait for all.
        on_death: When a worker dies: ``"raise"`` ends the run with an error that names it, ``"skip"`` goes on with the others.
        timeout_s: Seconds within which a worker must answer, or it counts as dead. None: any time.
    """

    num_learners: int = 1
    """Always 1: every worker trains."""
    sync_fraction: float = 0.6
    """Preemption of stragglers: as soon as this share of the workers has finished its rollout, those of the others are cut, and
    used as they are. 1: wait for all."""
    on_death: Literal["raise", "skip"] = "raise"
    """When a worker dies: ``"raise"`` ends the run with an error that names it, ``"skip"`` goes on with the others."""
    timeout_s: float | None = None
    """Seconds within which a worker must answer, or it counts as dead. None: any time."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.fraction("DDPPO", "sync_fraction", check.positive("DDPPO", "sync_fraction", self.sync_fraction))
        if self.num_learners != 1:
            raise PlanError(
                f"DDPPO: every worker trains, so there are no learners to count; got num_learners={self.num_learners}."
            )
        if self.device not in ("auto", "cpu"):
            raise PlanError(f"DDPPO: workers train where they sample, on CPUs; got device={self.device!r}. PPO has a learner.")

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(ddppo_plan(self.rollouts(workers), workers, self), workers)

    def rollouts(self, workers: AnyWorkers) -> ParIter[Rollout, Sync, RolloutWorker]:
        """Rollouts in the workers; if not all are waited for, they are cut together."""
        if self.sync_fraction == 1:
            return ParallelRollouts(workers)
        return PreemptedRollouts(workers, share=self.sync_fraction, on_death=self.on_death, timeout_s=self.timeout_s)


def ddppo_plan(
    stream: ParIter[Rollout, Sync, RolloutWorker], workers: AnyWorkers, config: DDPPO | None = None
) -> Iter[TrainStats]:
    """Advantages, then several epochs of minibatches in each worker, with common gradients."""
    loss, how = agreed("ddppo_plan", workers, config, DDPPO()), config or DDPPO()
    ready = stream.par_with_columns(ComputeAdvantages(gamma=how.gamma, lam=how.lam))
    return learn_in_place(
        ready, workers, loss=loss, epochs=how.epochs, minibatch=how.minibatch, on_death=how.on_death, timeout_s=how.timeout_s
    )
