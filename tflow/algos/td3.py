"""TD3: twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv 1802.09477).

Implements: a deterministic actor with Gaussian exploration noise, twin Q-functions whose smallest target counts, delayed updates
of the actor and of all target networks, smoothing of the target actions. What differs from the paper: larger batches, and fewer
random actions at first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tflow.algos.off_policy import OffPolicy, by_part, off_policy_plan
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.actor_q_losses import TD3Loss
from tflow.rl.learning.losses import Loss, Replayed
from tflow.rl.learning.optimizers import Optimizer
from tflow.rl.learning.training import TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.policy.exploration import Exploration, GaussianNoise, RandomFirst
from tflow.rl.policy.network_spec import ModelLike
from tflow.rl.policy.policy_spec import ActorQSpec
from tflow.rl.rollout.worker_spec import AnyWorkers, EnvLike, ParallelRollouts
from tflow.rl.schedules import Schedule
from tflow.types import Async


@dataclass(frozen=True, kw_only=True)
class TD3(OffPolicy):
    """Twin delayed deep deterministic policy gradient.

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
        critics: Q-functions, computed in one pass; usually 2. More: less overestimation, more compute.
        actor_every: Policy delay: updates of the Q-functions per update of the actor; usually 2.
        smoothing: Standard deviation of the noise on target actions, for actions in [-1, 1]; usually 0.2. Larger: smoother
            Q-functions.
        smoothing_clip: Largest absolute value of that noise; usually 0.5.
        critic_model: The network of the Q-functions; None takes ``model``.
    """

    env: EnvLike = "Pendulum-v1"
    """The environment: a gymnasium id, a function that makes an env, or an ``EnvSpec``."""
    num_envs: int = 1
    """Envs per worker, stepped together as a vector env; usually 1 to 16. More: faster sampling, older policies."""
    fragment: int = 1
    """Env steps per env and rollout, at least ``n_step``; usually 1 to 64. Longer: less overhead, older policies."""
    lr: float | Schedule = 1e-3
    """Learning rate, or a schedule over env steps; usually 1e-4 to 1e-3. Larger: faster, but less stable."""
    critic_lr: float | Schedule | None = None
    """Learning rate of the Q-functions; None takes ``lr``."""
    max_grad_norm: float | None = None
    """Clip the gradient of each part to this norm. None: no clipping."""
    learning_starts: int = 1_000
    """Env steps with random actions before learning starts; usually 1e3 to 25e3. Larger: less overfitting to the first ones."""
    tau: float = 0.005
    """Polyak coefficient of the target networks; usually 0.001 to 0.02. Larger: faster, but less stable."""
    noise: float | Schedule = 0.1
    """Standard deviation of the exploration noise, for actions in [-1, 1], or a schedule; usually 0.1 to 0.3. Larger: more
    exploration."""
    critics: int = 2
    """Q-functions, computed in one pass; usually 2. More: less overestimation, more compute."""
    actor_every: int = 2
    """Policy delay: updates of the Q-functions per update of the actor; usually 2."""
    smoothing: float = 0.2
    """Standard deviation of the noise on target actions, for actions in [-1, 1]; usually 0.2. Larger: smoother Q-functions."""
    smoothing_clip: float = 0.5
    """Largest absolute value of that noise; usually 0.5."""
    critic_model: ModelLike | None = None
    """The network of the Q-functions; None takes ``model``."""

    def loss(self) -> Loss[Replayed, Async]:
        return TD3Loss(
            tau=self.tau,
            actor_every=self.actor_every,
            smoothing=self.smoothing,
            smoothing_clip=self.smoothing_clip,
            spec=self.spec(),
        )

    def spec(self) -> ActorQSpec:
        """The options of the policy."""
        return ActorQSpec(deterministic=True, critics=self.critics, critic_model=self.critic_model)

    def optimizer(self) -> Mapping[str, Optimizer]:
        return by_part(self.loss().parts(), self.lr, self.critic_lr)

    def exploration(self) -> Exploration:
        return RandomFirst(self.learning_starts, GaussianNoise(self.noise))

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(td3_plan(ParallelRollouts(workers).gather_sync(), workers, self), workers)


def td3_plan(stream: Iter[Rollout], workers: AnyWorkers, config: TD3 | None = None) -> Iter[TrainStats]:
    """Stores rollouts, and trains on replayed batches."""
    return off_policy_plan("td3_plan", stream, workers, config, TD3())
