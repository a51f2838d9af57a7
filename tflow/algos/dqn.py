"""DQN: deep Q-learning (Mnih et al. 2015) with the extensions of Rainbow (arXiv 1710.02298).

Implements, each an option: double Q-learning (arXiv 1509.06461), dueling networks (1511.06581), n-step returns, prioritized
replay (1511.05952), distributional Q-learning (C51 1707.06887, QR-DQN 1710.10044), noisy networks (1706.10295). The target
network is a copy of the weights, updated every ``target_every`` updates. ``update_ratio`` updates are made per env step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tflow.algos.off_policy import OffPolicy, off_policy_plan
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.losses import DQNLoss, Loss, Replayed
from tflow.rl.learning.training import TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.policy.exploration import EpsilonGreedy, Exploration
from tflow.rl.policy.policy_spec import QSpec
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts
from tflow.rl.schedules import Linear, Schedule
from tflow.types import Async


@dataclass(frozen=True, kw_only=True)
class DQN(OffPolicy):
    """Deep Q-learning.

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
        epsilon: Epsilon-greedy: the probability of a random action, or a schedule; usually annealed from 1 to 0.01..0.1. Use 0
            with ``noisy``.
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
        noisy: Noisy networks: explore by learned noise on the weights behind the encoder. Set ``epsilon=0`` with it.
    """

    fragment: int = 16
    """Env steps per env and rollout, at least ``n_step``; usually 1 to 64. The last ``n_step - 1`` of each have shorter n-step
    returns."""
    lr: float | Schedule = 2.5e-4
    """Learning rate, or a schedule over env steps; usually 1e-5 to 1e-3. Larger: faster, but less stable."""
    max_grad_norm: float | None = 10.0
    """Clip gradients to this global norm; usually 1 to 40. Smaller: more stable, but slower. None: no clipping."""
    normalize_obs: bool = True
    """Normalise observations by their running mean and standard deviation over all workers; they are saved with the policy."""
    normalize_rewards: bool = True
    """Divide rewards by the running standard deviation of discounted returns. Reported returns stay as they are."""
    batch: int = 128
    """Rows per update; usually 32 to 512. Larger: less noisy gradients, more compute."""
    capacity: int = 500_000
    """Rows in the replay buffer; usually 1e4 to 1e6. Larger: more diverse, but more off-policy."""
    learning_starts: int = 1_000
    """Rows in the replay buffer before learning starts; usually 1e3 to 1e5. Larger: less overfitting to the first episodes."""
    update_ratio: float | Schedule = 0.25
    """Updates per env step from then on, or a schedule; usually 1/64 to 1. Larger: fewer env steps, more compute, more
    overfitting."""
    n_step: int = 3
    """Rewards summed before bootstrapping; usually 1 to 5. Larger: less bias from bootstrapping, more variance, more
    off-policy."""
    prioritized: bool = True
    """Prioritized experience replay: sample rows by their TD error. False: uniformly."""
    epsilon: float | Schedule = Linear(1.0, 0.02, steps=8_000)
    """Epsilon-greedy: the probability of a random action, or a schedule; usually annealed from 1 to 0.01..0.1. Use 0 with
    ``noisy``."""
    target_every: int = 200
    """Updates between copies of the weights to the target network; usually 50 to 10,000. Larger: more stable, but slower."""
    double: bool = True
    """Double Q-learning: the policy chooses the next action, the target network evaluates it. Less overestimation."""
    dueling: bool = False
    """Dueling network: separate streams for the state value and the advantages of actions."""
    kind: Literal["scalar", "categorical", "quantile"] = "scalar"
    """Output per action: a Q-value (``"scalar"``), or a distribution, as in C51 (``"categorical"``) or QR-DQN
    (``"quantile"``)."""
    atoms: int = 51
    """Atoms of the distribution: its support (categorical) or its quantiles; usually 51 to 200. More: finer, but slower."""
    v_min: float = -10.0
    """Smallest return in the support of a categorical distribution, of normalised rewards if ``normalize_rewards``; smaller ones
    are clipped to it."""
    v_max: float = 10.0
    """Largest return in the support of a categorical distribution, of normalised rewards if ``normalize_rewards``; larger ones
    are clipped to it."""
    noisy: bool = False
    """Noisy networks: explore by learned noise on the weights behind the encoder. Set ``epsilon=0`` with it."""

    def loss(self) -> Loss[Replayed, Async]:
        spec = QSpec(dueling=self.dueling, kind=self.kind, atoms=self.atoms, v_min=self.v_min, v_max=self.v_max, noisy=self.noisy)
        return DQNLoss(double=self.double, target_every=self.target_every, spec=spec)

    def exploration(self) -> Exploration:
        return EpsilonGreedy(self.epsilon)

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(dqn_plan(ParallelRollouts(workers).gather_sync(), workers, self), workers)


def dqn_plan(stream: Iter[Rollout], workers: AnyWorkers, config: DQN | None = None) -> Iter[TrainStats]:
    """Stores rollouts, and trains on replayed batches."""
    return off_policy_plan("dqn_plan", stream, workers, config, DQN())
