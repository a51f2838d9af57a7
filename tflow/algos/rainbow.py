"""Rainbow: DQN with all its extensions (Hessel et al. 2017, arXiv 1710.02298).

Implements: double Q-learning, dueling networks, prioritized replay, n-step returns, distributional Q-learning (C51) and noisy
networks together: a named configuration of DQN. What differs: rewards are normalised, so the support of the distribution is in
units of normalised returns; the priority of a row is its absolute TD error between expected values, not the loss, which is the KL
divergence between distributions; only what follows the encoder is noisy, usually one layer, instead of all dense layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tflow.algos.dqn import DQN, dqn_plan
from tflow.combinators.runnable import Plan
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.rollout.worker_spec import ParallelRollouts
from tflow.rl.schedules import Linear, Schedule


@dataclass(frozen=True, kw_only=True)
class Rainbow(DQN):
    """Deep Q-learning with all extensions.

    Args:
        env: The environment: a gymnasium id, a function that makes an env, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray. More: faster sampling.
        num_envs: Envs per worker, stepped together as a vector env; usually 1 to 64. More: larger batches and faster sampling.
        fragment: Env steps per env and rollout, at least ``n_step``; usually 1 to 64. The last ``n_step - 1`` of each have
            shorter n-step returns.
        device: Torch device of the learner; ``"auto"`` picks a GPU if there is one.
        model: The network: ``"auto"`` chooses by the observation space, ``MLP((64, 64))`` and the like describe one, a function
            builds your own.
        lr: Learning rate, or a schedule over env steps; usually 1e-5 to 1e-3. Larger: faster, but less stable.
        gamma: Discount factor; usually 0.95 to 0.999. Larger: a longer horizon, more variance.
        max_grad_norm: Clip gradients to this global norm; usually 1 to 40. Smaller: more stable, but slower. None: no clipping.
        normalize_obs: Normalise observations by their running mean and standard deviation over all workers; they are saved with
            the policy.
        normalize_rewards: Divide rewards by the running standard deviation of discounted returns. Reported returns stay as they
            are.
        batch: Rows per update; usually 32 to 512. Larger: less noisy gradients, more compute.
        num_replay: Replay actors, among which ``capacity`` is divided. More: higher throughput on Ray.
        capacity: Rows in the replay buffer; usually 1e4 to 1e6. Larger: more diverse, but more off-policy.
        learning_starts: Rows in the replay buffer before learning starts; usually 1e3 to 1e5. Larger: less overfitting to the
            first episodes.
        update_ratio: Updates per env step from then on, or a schedule; usually 1/64 to 1. Larger: fewer env steps, more
            compute, more overfitting.
        n_step: Rewards summed before bootstrapping; usually 1 to 5. Larger: less bias from bootstrapping, more variance, more
            off-policy.
        prioritized: Prioritized experience replay: sample rows by their TD error. False: uniformly.
        alpha: Priority exponent: 0 is uniform sampling, 1 in proportion to the priorities; usually 0.5 to 0.7.
        beta: Exponent of the importance-sampling weights, or a schedule: 0 is no correction, 1 a full one; usually 0.4,
            annealed to 1.
        num_learners: Learners, each an actor of its own, among which every batch is divided; 1 trains in the driver. More:
            faster, if a gradient step takes much longer than a call to an actor.
        epsilon: Epsilon-greedy: the probability of a random action, or a schedule. Noisy layers explore without it.
        target_every: Updates between copies of the weights to the target network; usually 50 to 10,000. Larger: more stable,
            but slower.
        double: Double Q-learning: the policy chooses the next action, the target network evaluates it. Less overestimation.
        dueling: Dueling network: separate streams for the state value and the advantages of actions.
        kind: Output per action: a Q-value (``"scalar"``), or a distribution, as in C51 (``"categorical"``) or QR-DQN
            (``"quantile"``).
        atoms: Atoms of the distribution: its support (categorical) or its quantiles; usually 51 to 200. More: finer, but
            slower.
        v_min: Smallest return in the support of a categorical distribution, of normalised rewards if ``normalize_rewards``;
            smaller ones are clipped to it.
        v_max: Largest return in the support of a categorical distribution, of normalised rewards if ``normalize_rewards``;
            larger ones are clipped to it.
        noisy: Noisy networks: explore by learned noise on the weights behind the encoder.
    """

    alpha: float = 0.5
    """Priority exponent: 0 is uniform sampling, 1 in proportion to the priorities; usually 0.5 to 0.7."""
    beta: float | Schedule = Linear(0.4, 1.0, steps=500_000)
    """Exponent of the importance-sampling weights, or a schedule: 0 is no correction, 1 a full one; usually 0.4, annealed
    to 1."""
    epsilon: float | Schedule = 0.0
    """Epsilon-greedy: the probability of a random action, or a schedule. Noisy layers explore without it."""
    dueling: bool = True
    """Dueling network: separate streams for the state value and the advantages of actions."""
    kind: Literal["scalar", "categorical", "quantile"] = "categorical"
    """Output per action: a Q-value (``"scalar"``), or a distribution, as in C51 (``"categorical"``) or QR-DQN
    (``"quantile"``)."""
    noisy: bool = True
    """Noisy networks: explore by learned noise on the weights behind the encoder."""

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(dqn_plan(ParallelRollouts(workers).gather_sync(), workers, self), workers)
