"""RNNSAC: soft actor-critic with recurrent networks (as in RLlib; Heess et al. 2015, arXiv 1512.04455; SAC 1812.05905).

Implements: SAC with an actor and Q-functions that have a memory each, on replayed sequences with burn-in; the actor begins each
sequence with the state it had when it acted. What differs: workers have no Q-functions, so that the state of these before each
sequence is that of the start of an episode; all Q-functions share one memory, which sees observations alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflow.algos.off_policy import OffPolicySequences, off_policy_plan
from tflow.algos.soft_actor_critic import SoftActorCritic
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.losses import Loss, ReplayedSequences
from tflow.rl.learning.sequence_losses import RNNSACLoss
from tflow.rl.learning.training import TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.policy.network_spec import LSTM, MLP, ModelLike
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts
from tflow.rl.schedules import Schedule
from tflow.types import Async


@dataclass(frozen=True, kw_only=True)
class RNNSAC(SoftActorCritic, OffPolicySequences):
    """Soft actor-critic with a memory.

    Args:
        env: The environment: a gymnasium id, a function that makes an env, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray. More: faster sampling.
        num_envs: Envs per worker, stepped together as a vector env; usually 1 to 16. More: faster sampling, older policies.
        fragment: Env steps per env and rollout, which are cut into sequences; usually 2 to 5 times ``length``.
        device: Torch device of the learner; ``"auto"`` picks a GPU if there is one.
        model: The network: ``LSTM(...)``, ``GRU(...)`` or ``GTrXL(...)``; others have no memory.
        lr: Learning rate, or a schedule over env steps; usually 1e-4 to 1e-3. Larger: faster, but less stable.
        gamma: Discount factor; usually 0.95 to 0.999. Larger: a longer horizon, more variance.
        max_grad_norm: Clip the gradient of each part to this norm. None: no clipping.
        normalize_obs: Normalise observations by their running mean and standard deviation over all workers; they are saved with
            the policy.
        normalize_rewards: Divide rewards by the running standard deviation of discounted returns. Reported returns stay as they
            are.
        batch: Sequences per update; usually 16 to 128. Larger: less noisy gradients, more compute.
        num_replay: Replay actors, among which ``capacity`` is divided. More: higher throughput on Ray.
        capacity: Rows in the replay buffer; usually 1e4 to 1e6. Larger: more diverse, but more off-policy.
        learning_starts: Rows in the replay buffer before learning starts; usually 1e2 to 1e5. Larger: less overfitting to the
            first episodes.
        update_ratio: Updates, each of ``batch`` sequences, per env step from then on, or a schedule; usually 1/100 to 1/4.
            Larger: fewer env steps, more compute, more overfitting.
        n_step: Rewards summed before bootstrapping; usually 1 to 5. Larger: less bias from bootstrapping, more variance, more
            off-policy.
        prioritized: Prioritized experience replay: sample rows by their TD error. False: uniformly.
        alpha: Priority exponent: 0 is uniform sampling, 1 in proportion to the priorities; usually 0.5 to 0.7.
        beta: Exponent of the importance-sampling weights, or a schedule: 0 is no correction, 1 a full one; usually 0.4,
            annealed to 1.
        num_learners: Learners, each an actor of its own, among which every batch is divided; 1 trains in the driver. More:
            faster, if a gradient step takes much longer than a call to an actor.
        length: Rows per replayed sequence, at most ``fragment``; usually 20 to 120. Longer: longer dependencies, more compute.
            Fragments are cut into them: no row is wasted if ``fragment - burn_in`` is a multiple of ``length - burn_in``.
        burn_in: First rows of a sequence, which only warm up the recurrent state: no gradient reaches them; usually half of
            ``length``, or 0. Larger: states are closer to those of the current weights, fewer rows are learned from.
        eta: Priority of a sequence: ``eta`` times its largest TD error plus ``1 - eta`` times their mean; usually 0.9.
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

    fragment: int = 100
    """Env steps per env and rollout, which are cut into sequences; usually 2 to 5 times ``length``."""
    model: ModelLike = LSTM(64, MLP((64,), "relu"))
    """The network: ``LSTM(...)``, ``GRU(...)`` or ``GTrXL(...)``; others have no memory."""
    batch: int = 32
    """Sequences per update; usually 16 to 128. Larger: less noisy gradients, more compute."""
    capacity: int = 200_000
    """Rows in the replay buffer; usually 1e4 to 1e6. Larger: more diverse, but more off-policy."""
    learning_starts: int = 1_000
    """Rows in the replay buffer before learning starts; usually 1e2 to 1e5. Larger: less overfitting to the first episodes."""
    update_ratio: float | Schedule = 0.1
    """Updates, each of ``batch`` sequences, per env step from then on, or a schedule; usually 1/100 to 1/4. Larger: fewer env
    steps, more compute, more overfitting."""

    def loss(self) -> Loss[ReplayedSequences, Async]:
        return RNNSACLoss(eta=self.eta, **self.shared())

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(rnnsac_plan(ParallelRollouts(workers).gather_sync(), workers, self), workers)


def rnnsac_plan(stream: Iter[Rollout], workers: AnyWorkers, config: RNNSAC | None = None) -> Iter[TrainStats]:
    """Stores rollouts as sequences, and trains on replayed ones."""
    return off_policy_plan("rnnsac_plan", stream, workers, config, RNNSAC())
