"""DDPG: deep deterministic policy gradient (Lillicrap et al. 2016, arXiv 1509.02971).

Implements: a deterministic actor, one Q-function, target networks of both: TD3 without its three additions. What differs from the
paper: Gaussian exploration noise (``ou_noise=True`` correlates it in time, as in the paper), no weight decay, no batch norm.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflow.algos.off_policy import off_policy_plan
from tflow.algos.td3 import TD3
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.errors import PlanError
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.training import TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.policy.exploration import Exploration, OUNoise, RandomFirst
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts


@dataclass(frozen=True, kw_only=True)
class DDPG(TD3):
    """Deep deterministic policy gradient.

    Args:
        env: The environment: a gymnasium id, a function that makes an env, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray. More: faster sampling.
        num_envs: Envs per worker, stepped together as a vector env; usually 1 to 16. More: faster sampling, older policies.
        fragment: Env steps per env and rollout, at least ``n_step``; usually 1 to 64. Longer: less overhead, older policies.
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
        update_ratio: Updates per env step from then on, or a schedule; usually 1/64 to 20. Larger: fewer env steps, more
            compute, more overfitting.
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
        critics: Q-functions, computed in one pass; 1 in the paper. More: less overestimation, more compute.
        actor_every: Policy delay: updates of the Q-function per update of the actor; 1 in the paper.
        smoothing: Standard deviation of the noise on target actions; 0 in the paper, which has none.
        smoothing_clip: Largest absolute value of that noise; usually 0.5.
        critic_model: The network of the Q-functions; None takes ``model``.
        ou_noise: Ornstein-Uhlenbeck noise of size ``noise`` in place of Gaussian noise: correlated in time.
    """

    critics: int = 1
    """Q-functions, computed in one pass; 1 in the paper. More: less overestimation, more compute."""
    actor_every: int = 1
    """Policy delay: updates of the Q-function per update of the actor; 1 in the paper."""
    smoothing: float = 0.0
    """Standard deviation of the noise on target actions; 0 in the paper, which has none."""
    ou_noise: bool = False
    """Ornstein-Uhlenbeck noise of size ``noise`` in place of Gaussian noise: correlated in time."""

    def exploration(self) -> Exploration:
        if not self.ou_noise:
            return super().exploration()
        if not isinstance(self.noise, (int, float)):
            raise PlanError(f"DDPG: Ornstein-Uhlenbeck noise has no schedule; noise must be a number, got {self.noise!r}.")
        return RandomFirst(self.learning_starts, OUNoise(sigma=self.noise, dt=1.0))

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(ddpg_plan(ParallelRollouts(workers).gather_sync(), workers, self), workers)


def ddpg_plan(stream: Iter[Rollout], workers: AnyWorkers, config: DDPG | None = None) -> Iter[TrainStats]:
    """Stores rollouts, and trains on replayed batches."""
    return off_policy_plan("ddpg_plan", stream, workers, config, DDPG())
