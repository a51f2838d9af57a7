"""SAC: soft actor-critic (Haarnoja et al. 2018, arXiv 1812.05905), and its relatives.

Implements: twin soft Q-functions with target networks, a squashed Gaussian actor, a temperature that is learned for a target
entropy. For Discrete action spaces the actor is categorical and expectations are exact (arXiv 1910.07207). What differs from the
paper: the temperature's loss uses its logarithm, as most implementations do; Q-functions are trained before the actor.

Options make it REDQ (arXiv 2101.05982): ``SAC(critics=10, subset=2, mean_q=True, update_ratio=20, actor_every=20)``, or DroQ
(arXiv 2110.02034): ``SAC(dropout=0.01, layer_norm=True, mean_q=True, update_ratio=20, actor_every=20)``.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflow.algos.off_policy import OffPolicy, off_policy_plan
from tflow.algos.soft_actor_critic import SoftActorCritic
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.actor_q_losses import SACLoss
from tflow.rl.learning.losses import Loss, Replayed
from tflow.rl.learning.training import TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts
from tflow.types import Async


@dataclass(frozen=True, kw_only=True)
class SAC(SoftActorCritic, OffPolicy):
    """Soft actor-critic.

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
        learning_starts: Rows in the replay buffer before learning starts; usually 1e2 to 1e5. Larger: less overfitting to the
            first episodes.
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
        temperature: Weight of the entropy; ``"auto"`` learns it. Usually 0.01 to 1. Larger: more exploration.
        initial_temperature: Temperature that learning begins with; usually 0.1 to 1. Larger: more exploration at first.
        target_entropy: Entropy that the temperature is learned for. ``"auto"``: minus the number of action components; for
            discrete actions half of the largest entropy. Larger: more exploration.
        critics: Q-functions, computed in one pass; usually 2, in REDQ 10. More: less overestimation, more compute.
        subset: Target networks, drawn at random for each update, whose smallest value is the target; in REDQ 2. None: all.
        mean_q: The actor maximises the mean of the Q-functions, as in REDQ and DroQ; otherwise the smallest.
        actor_every: Updates of the Q-functions per update of actor and temperature; usually 1, in REDQ and DroQ
            ``update_ratio``.
        critic_model: The network of the Q-functions; None takes ``model``.
        dropout: Dropout probability in the Q-functions; in DroQ 0.01. Larger: less overfitting, slower learning.
        layer_norm: Layer normalisation in the Q-functions, as in DroQ.
        sde: State-dependent exploration (gSDE, arXiv 2005.05719): smooth noise for real robots.
        sde_every: Steps between draws of that noise; usually 4 to 64. Larger: smoother actions.
    """

    def loss(self) -> Loss[Replayed, Async]:
        return SACLoss(**self.shared())

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(sac_plan(ParallelRollouts(workers).gather_sync(), workers, self), workers)


def sac_plan(stream: Iter[Rollout], workers: AnyWorkers, config: SAC | None = None) -> Iter[TrainStats]:
    """Stores rollouts, and trains on replayed batches."""
    return off_policy_plan("sac_plan", stream, workers, config, SAC())
