"""Ape-X TD3: TD3 (arXiv 1802.09477) with distributed prioritized replay (arXiv 1803.00933).

Implements: TD3 on the sub-flow of Ape-X; see ``apex_ddpg``.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflow.algos.apex import apex_plan
from tflow.algos.distributed import DistributedNoise
from tflow.algos.td3 import TD3
from tflow.combinators.runnable import Plan
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.rollout.worker_spec import ParallelRollouts


@dataclass(frozen=True, kw_only=True)
class ApeXTD3(DistributedNoise, TD3):
    """Ape-X with TD3.

    Args:
        env: The environment: a gymnasium id, a function that makes an env, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray. More: faster sampling.
        num_envs: Envs per worker, stepped together as a vector env; usually 1 to 64. More: larger batches and faster sampling.
        fragment: Env steps per env and rollout, at least ``n_step``; usually 1 to 64. The last ``n_step - 1`` of each have
            shorter n-step returns.
        device: Torch device of the learner; ``"auto"`` picks a GPU if there is one.
        model: The network: ``"auto"`` chooses by the observation space, ``MLP((64, 64))`` and the like describe one, a function
            builds your own.
        lr: Learning rate, or a schedule over env steps; usually 1e-4 to 1e-3. Larger: faster, but less stable.
        gamma: Discount factor; usually 0.95 to 0.999. Larger: a longer horizon, more variance.
        max_grad_norm: Clip the gradient of each part to this norm. None: no clipping.
        normalize_obs: Normalise observations by their running mean and standard deviation over all workers; they are saved with
            the policy.
        normalize_rewards: Divide rewards by the running standard deviation of discounted returns. Reported returns stay as they
            are.
        batch: Rows per update; usually 32 to 512. Larger: less noisy gradients, more compute.
        num_replay: Replay actors, among which ``capacity`` is divided. More: higher throughput on Ray.
        capacity: Rows in the replay buffer; usually 1e4 to 1e6. Larger: more diverse, but more off-policy.
        learning_starts: Env steps with random actions before learning starts; usually 1e3 to 25e3. Larger: less overfitting to
            the first ones.
        update_ratio: Updates per env step once learning has started, or a schedule; usually 0.1 to 1. Larger: fewer env steps,
            more compute, more overfitting.
        n_step: Rewards summed before bootstrapping; usually 1 to 5. Larger: less bias from bootstrapping, more variance, more
            off-policy.
        prioritized: Prioritized experience replay: sample rows by their TD error. False: uniformly.
        alpha: Priority exponent: 0 is uniform sampling, 1 in proportion to the priorities; usually 0.5 to 0.7.
        beta: Exponent of the importance-sampling weights, or a schedule: 0 is no correction, 1 a full one; usually 0.4,
            annealed to 1.
        num_learners: Learners, each an actor of its own, among which every batch is divided; 1 trains in the driver. More:
            faster, if a gradient step takes much longer than a call to an actor.
        critic_lr: Learning rate of the Q-functions; None takes ``lr``.
        tau: Polyak coefficient of the target networks; usually 0.001 to 0.02. Larger: faster, but less stable.
        noise: Standard deviation of the exploration noise, for actions in [-1, 1], or a schedule; usually 0.1 to 0.3. Larger:
            more exploration.
        critics: Q-functions, computed in one pass; usually 2. More: less overestimation, more compute.
        actor_every: Policy delay: updates of the Q-functions per update of the actor; usually 2.
        smoothing: Standard deviation of the noise on target actions, for actions in [-1, 1]; usually 0.2. Larger: smoother
            Q-functions.
        smoothing_clip: Largest absolute value of that noise; usually 0.5.
        critic_model: The network of the Q-functions; None takes ``model``.
        mailbox: Batches queued at the learner, at most; usually 2 to 16. More: the learner waits less, priorities are staler.
        weights_every: Updates between broadcasts of weights to the workers; usually 1 to 400. Larger: less traffic, staler
            policies.
        max_staleness: Drop, and count, rollouts whose policy is more than this many broadcasts old. None: keep all.
        base_noise: Largest noise, in place of ``noise``; usually 0.3 to 0.5. Env i of N has ``base_noise ** (1 + spread * i /
            (N - 1))``.
        spread: Exponent of these; usually 1 to 7. Larger: more envs act almost without noise.
    """

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(apex_plan(ParallelRollouts(workers), workers, self), workers)
