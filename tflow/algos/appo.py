"""APPO: asynchronous proximal policy optimisation (RLlib; IMPACT, Luo et al. 2019, arXiv 1912.00167).

Implements: IMPALA's architecture with PPO's clipped surrogate objective around a target policy; V-trace from the policy that
sampled to the target, or GAE; an optional penalty on the KL divergence from the target (RLlib adapts its coefficient; here it is
a number or a schedule); replay of recent rollouts; several learners. What differs: the target policy is a copy of the weights
every ``target_every`` updates.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflow.algos.algorithm import agreed
from tflow.algos.impala import IMPALA
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.learners import learn_in_actors
from tflow.rl.learning.losses import APPOLoss, Loss
from tflow.rl.learning.training import TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.replay.replay_spec import MixInReplay
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts
from tflow.rl.schedules import Schedule
from tflow.types import Async


@dataclass(frozen=True, kw_only=True)
class APPO(IMPALA):
    """Asynchronous proximal policy optimisation.

    Args:
        env: The environment: a gymnasium id, a function that makes an env, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray. More: faster sampling.
        num_envs: Envs per worker, stepped together as a vector env; usually 1 to 64. More: larger batches and faster sampling.
        fragment: Env steps per env and rollout, which is one update; usually 20 to 100. Longer: less bias from bootstrapping,
            fewer updates.
        device: Torch device of the learner; ``"auto"`` picks a GPU if there is one.
        model: The network: ``"auto"`` chooses by the observation space, ``MLP((64, 64))`` and the like describe one, a function
            builds your own.
        lr: Learning rate, or a schedule over env steps; usually 1e-4 to 2e-3. Larger: faster, but less stable.
        gamma: Discount factor; usually 0.95 to 0.999. Larger: a longer horizon, more variance.
        max_grad_norm: Clip gradients to this global norm; usually 0.5 to 40. Smaller: more stable, but slower. None: no
            clipping.
        normalize_obs: Normalise observations by their running mean and standard deviation over all workers; they are saved with
            the policy.
        normalize_rewards: Divide rewards by the running standard deviation of discounted returns. Reported returns stay as they
            are.
        lam: Lambda of V-trace: 0 is one-step TD, 1 as in the paper; usually 0.9 to 1. Larger: less bias, more variance.
        clip_rho: Clip of the importance weights in the value targets (rho-bar); usually 1. Larger: less bias, more variance.
        clip_pg_rho: Clip of the importance weights in the policy gradient; usually 1. Larger: less bias, more variance.
        value_coef: Weight of the value loss; usually 0.25 to 1. Larger: a shared network learns more for the critic, less for
            the actor.
        entropy_coef: Weight of the entropy bonus; usually 0 to 0.01. Larger: more exploration, slower convergence.
        replay_proportion: Replayed rollouts per new one; 0 is no replay, usually at most 2. Larger: better use of samples, but
            more off-policy.
        replay_slots: Latest rollouts kept for replay; usually 16 to 256. More: more diverse, but more off-policy.
        mailbox: Rollouts queued at the learner, at most; usually 1 to 16. More: the learner waits less, rollouts are staler.
        max_staleness: Drop, and count, rollouts whose policy is more than this many updates old. None: keep all.
        num_learners: Learners, each an actor of its own, among which every rollout is divided by its envs. More: faster, if a
            gradient step takes much longer than a call to an actor.
        clip: Clip range of the probability ratio, or a schedule; usually 0.1 to 0.4. Larger: larger policy updates.
        vtrace: Advantages and value targets by V-trace. False: by GAE, from the values predicted at sampling time.
        kl_coef: Coefficient of the penalty on the KL divergence from the target policy, or a schedule; 0 is off.
        target_every: Updates between copies of the weights to the target policy; usually 2 to 32. Larger: more stable, but
            slower.
    """

    replay_proportion: float = 1.0
    """Replayed rollouts per new one; 0 is no replay, usually at most 2. Larger: better use of samples, but more off-policy."""
    clip: float | Schedule = 0.2
    """Clip range of the probability ratio, or a schedule; usually 0.1 to 0.4. Larger: larger policy updates."""
    vtrace: bool = True
    """Advantages and value targets by V-trace. False: by GAE, from the values predicted at sampling time."""
    kl_coef: float | Schedule = 0.0
    """Coefficient of the penalty on the KL divergence from the target policy, or a schedule; 0 is off."""
    target_every: int = 8
    """Updates between copies of the weights to the target policy; usually 2 to 32. Larger: more stable, but slower."""

    def loss(self) -> Loss[Rollout, Async]:
        return APPOLoss(
            gamma=self.gamma,
            lam=self.lam,
            clip_rho=self.clip_rho,
            clip_pg_rho=self.clip_pg_rho,
            value_coef=self.value_coef,
            entropy_coef=self.entropy_coef,
            clip=self.clip,
            vtrace=self.vtrace,
            kl_coef=self.kl_coef,
            target_every=self.target_every,
        )

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        rollouts = ParallelRollouts(workers).gather_async(max_staleness=self.max_staleness)
        return ReportMetrics(appo_plan(rollouts, workers, self), workers)


def appo_plan(
    stream: Iter[Rollout], workers: AnyWorkers, config: APPO | None = None, *, policy: str = "default"
) -> Iter[TrainStats]:
    """New and replayed rollouts go to a learner that trains while workers sample."""
    loss, config = agreed("appo_plan", workers, config, APPO()), config or APPO()
    mixed = MixInReplay(stream, slots=config.replay_slots, proportion=config.replay_proportion)
    return learn_in_actors(mixed, workers, loss=loss, num=config.num_learners, policy=policy, mailbox=config.mailbox)
