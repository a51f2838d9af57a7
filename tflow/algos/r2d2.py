"""R2D2: recurrent experience replay in distributed reinforcement learning (Kapturowski et al. 2019, ICLR; value rescaling: arXiv
1805.11593).

Implements: replay of overlapping sequences with the recurrent state at their start; burn-in; n-step double Q-learning with value
rescaling; priorities of sequences by the largest and the mean TD error. What differs: one learner draws on workers in turn (the
paper's is asynchronous, as Ape-X here), the network sees no earlier actions and rewards, first priorities are the highest so far,
the exponents of priorities are those of DQN (in the paper ``alpha=0.9, beta=0.6``), and the first sequence of a fragment has the
stored state without burn-in, so that no row is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflow.algos.off_policy import OffPolicySequences, off_policy_plan
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.losses import Loss, ReplayedSequences
from tflow.rl.learning.sequence_losses import R2D2Loss
from tflow.rl.learning.training import TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.policy.exploration import EpsilonGreedy, Exploration
from tflow.rl.policy.network_spec import LSTM, MLP, ModelLike
from tflow.rl.policy.policy_spec import QSpec
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts
from tflow.rl.schedules import Linear, Schedule
from tflow.types import Async


@dataclass(frozen=True, kw_only=True)
class R2D2(OffPolicySequences):
    """Recurrent Q-learning from replayed sequences.

    Args:
        env: The environment: a gymnasium id, a function that makes an env, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray. More: faster sampling.
        num_envs: Envs per worker, stepped together as a vector env; usually 1 to 64. More: larger batches and faster sampling.
        fragment: Env steps per env and rollout, which are cut into sequences; usually 2 to 5 times ``length``.
        device: Torch device of the learner; ``"auto"`` picks a GPU if there is one.
        model: The network: ``LSTM(...)``, ``GRU(...)`` or ``GTrXL(...)``; others have no memory.
        lr: Learning rate, or a schedule over env steps; usually 1e-4 to 1e-3. Larger: faster, but less stable.
        gamma: Discount factor; usually 0.95 to 0.999. Larger: a longer horizon, more variance.
        max_grad_norm: Clip gradients to this global norm; usually 1 to 40. Smaller: more stable, but slower. None: no clipping.
        normalize_obs: Normalise observations by their running mean and standard deviation over all workers; they are saved with
            the policy.
        normalize_rewards: Divide rewards by the running standard deviation of discounted returns. Reported returns stay as they
            are.
        batch: Sequences per update; usually 16 to 128. Larger: less noisy gradients, more compute.
        num_replay: Replay actors, among which ``capacity`` is divided. More: higher throughput on Ray.
        capacity: Rows in the replay buffer; usually 1e4 to 1e6. Larger: more diverse, but more off-policy.
        learning_starts: Rows in the replay buffer before learning starts; usually 1e3 to 1e5. Larger: less overfitting to the
            first episodes.
        update_ratio: Updates, each of ``batch`` sequences, per env step from then on, or a schedule; usually 1/100 to 1/4.
            Larger: fewer env steps, more compute, more overfitting.
        n_step: Rewards summed before bootstrapping; usually 1 to 5. Larger: less bias from bootstrapping, more variance, more
            off-policy. The last rows of a sequence have shorter n-step returns.
        prioritized: Prioritized experience replay: sample sequences by their TD errors. False: uniformly.
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
        epsilon: Epsilon-greedy: the probability of a random action, or a schedule; usually annealed from 1 to 0.01..0.1.
        target_every: Updates between copies of the weights to the target network; usually 50 to 2,500. Larger: more stable, but
            slower.
        double: Double Q-learning: the policy chooses the next action, the target network evaluates it. Less overestimation.
        dueling: Dueling network: separate streams for the state value and the advantages of actions.
        rescale: Epsilon of the value rescaling h(x) = sign(x) (sqrt(abs(x) + 1) - 1) + epsilon x, in place of clipped or
            normalised rewards; usually 1e-3. None: no rescaling.
    """

    fragment: int = 100
    """Env steps per env and rollout, which are cut into sequences; usually 2 to 5 times ``length``."""
    model: ModelLike = LSTM(64, MLP((64,), "relu"))
    """The network: ``LSTM(...)``, ``GRU(...)`` or ``GTrXL(...)``; others have no memory."""
    lr: float | Schedule = 5e-4
    """Learning rate, or a schedule over env steps; usually 1e-4 to 1e-3. Larger: faster, but less stable."""
    max_grad_norm: float | None = 10.0
    """Clip gradients to this global norm; usually 1 to 40. Smaller: more stable, but slower. None: no clipping."""
    normalize_obs: bool = True
    """Normalise observations by their running mean and standard deviation over all workers; they are saved with the policy."""
    capacity: int = 200_000
    """Rows in the replay buffer; usually 1e4 to 1e6. Larger: more diverse, but more off-policy."""
    learning_starts: int = 2_000
    """Rows in the replay buffer before learning starts; usually 1e3 to 1e5. Larger: less overfitting to the first episodes."""
    update_ratio: float | Schedule = 0.05
    """Updates, each of ``batch`` sequences, per env step from then on, or a schedule; usually 1/100 to 1/4. Larger: fewer env
    steps, more compute, more overfitting."""
    n_step: int = 3
    """Rewards summed before bootstrapping; usually 1 to 5. Larger: less bias from bootstrapping, more variance, more
    off-policy. The last rows of a sequence have shorter n-step returns."""
    prioritized: bool = True
    """Prioritized experience replay: sample sequences by their TD errors. False: uniformly."""
    epsilon: float | Schedule = Linear(1.0, 0.02, steps=20_000)
    """Epsilon-greedy: the probability of a random action, or a schedule; usually annealed from 1 to 0.01..0.1."""
    target_every: int = 200
    """Updates between copies of the weights to the target network; usually 50 to 2,500. Larger: more stable, but slower."""
    double: bool = True
    """Double Q-learning: the policy chooses the next action, the target network evaluates it. Less overestimation."""
    dueling: bool = True
    """Dueling network: separate streams for the state value and the advantages of actions."""
    rescale: float | None = 1e-3
    """Epsilon of the value rescaling h(x) = sign(x) (sqrt(abs(x) + 1) - 1) + epsilon x, in place of clipped or normalised
    rewards; usually 1e-3. None: no rescaling."""

    def loss(self) -> Loss[ReplayedSequences, Async]:
        spec = QSpec(dueling=self.dueling)
        return R2D2Loss(double=self.double, target_every=self.target_every, rescale=self.rescale, eta=self.eta, spec=spec)

    def exploration(self) -> Exploration:
        return EpsilonGreedy(self.epsilon)

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(r2d2_plan(ParallelRollouts(workers).gather_sync(), workers, self), workers)


def r2d2_plan(stream: Iter[Rollout], workers: AnyWorkers, config: R2D2 | None = None) -> Iter[TrainStats]:
    """Stores rollouts as sequences, and trains on replayed ones."""
    return off_policy_plan("r2d2_plan", stream, workers, config, R2D2())
