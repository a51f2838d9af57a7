"""DQN: deep Q-learning (Mnih et al. 2015) with the extensions of Rainbow (arXiv 1710.02298).

Implements, each an option: double Q-learning (arXiv 1509.06461), dueling networks (1511.06581), n-step returns, prioritized
replay (1511.05952), distributional Q-learning (C51 1707.06887, QR-DQN 1710.10044), noisy networks (1706.10295). The target
network is a copy of the weights, updated every ``target_every`` updates. The update ratio is exact: ``update_ratio`` updates per
env step after the first ``learning_starts``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from tflow.algos.algorithm import SinglePolicy
from tflow.combinators import check
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.combinators.union import Union
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.losses import DQNLoss, Loss, Replayed
from tflow.rl.learning.training import TrainOneStep, TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.policy.exploration import EpsilonGreedy, Exploration
from tflow.rl.policy.policy_spec import QSpec
from tflow.rl.replay.replay_spec import ParallelReplay, ReplayActors, SendPriorities, StoreToBuffer, create_replay_actors
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts
from tflow.rl.schedules import Linear, Schedule
from tflow.types import Async

TRAINING_WEIGHT = 1_000_000_000
"""Turns of training per turn of storing: training goes first, until ``update_ratio`` makes it wait."""


@dataclass(frozen=True, kw_only=True)
class DQN(SinglePolicy):
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
        epsilon: Epsilon-greedy: the probability of a random action, or a schedule; usually annealed from 1 to 0.01..0.1. Use 0
            with ``noisy``.
        batch: Rows per update; usually 32 to 512. Larger: less noisy gradients, more compute.
        num_replay: Replay actors, among which ``capacity`` is divided. More: higher throughput on Ray.
        capacity: Rows in the replay buffer; usually 1e4 to 1e6. Larger: more diverse, but more off-policy.
        learning_starts: Rows in the replay buffer before learning starts; usually 1e3 to 1e5. Larger: less overfitting to the
            first episodes.
        update_ratio: Updates per env step, or a schedule; usually 1/64 to 1. Larger: fewer env steps, more compute, more
            overfitting.
        target_every: Updates between copies of the weights to the target network; usually 50 to 10,000. Larger: more stable,
            but slower.
        double: Double Q-learning: the policy chooses the next action, the target network evaluates it. Less overestimation.
        dueling: Dueling network: separate streams for the state value and the advantages of actions.
        n_step: Rewards summed before bootstrapping; usually 1 to 5. Larger: less bias from bootstrapping, more variance, more
            off-policy.
        prioritized: Prioritized experience replay: sample rows by their TD error. False: uniformly.
        alpha: Priority exponent: 0 is uniform sampling, 1 in proportion to the priorities; usually 0.5 to 0.7.
        beta: Exponent of the importance-sampling weights, or a schedule: 0 is no correction, 1 a full one; usually 0.4,
            annealed to 1.
        kind: Output per action: a Q-value (``"scalar"``), or a distribution, as in C51 (``"categorical"``) or QR-DQN
            (``"quantile"``).
        atoms: Atoms of the distribution: its support (categorical) or its quantiles; usually 51 to 200. More: finer, but
            slower.
        v_min: Smallest return in the support of a categorical distribution; smaller ones are clipped to it.
        v_max: Largest return in the support of a categorical distribution; larger ones are clipped to it.
        noisy: Noisy networks: explore by learned noise on the weights behind the encoder. Set ``epsilon=0`` with it.
    """

    supports_recurrent: ClassVar[bool] = False
    num_workers: int = 1
    """Rollout workers, each a process of its own on Ray. More: faster sampling."""
    fragment: int = 16
    """Env steps per env and rollout, at least ``n_step``; usually 1 to 64. The last ``n_step - 1`` of each have shorter n-step
    returns."""
    lr: float | Schedule = 1e-3
    """Learning rate, or a schedule over env steps; usually 1e-5 to 1e-3. Larger: faster, but less stable."""
    max_grad_norm: float | None = 10.0
    """Clip gradients to this global norm; usually 1 to 40. Smaller: more stable, but slower. None: no clipping."""
    epsilon: float | Schedule = Linear(1.0, 0.02, steps=8_000)
    """Epsilon-greedy: the probability of a random action, or a schedule; usually annealed from 1 to 0.01..0.1. Use 0 with
    ``noisy``."""
    batch: int = 64
    """Rows per update; usually 32 to 512. Larger: less noisy gradients, more compute."""
    num_replay: int = 1
    """Replay actors, among which ``capacity`` is divided. More: higher throughput on Ray."""
    capacity: int = 50_000
    """Rows in the replay buffer; usually 1e4 to 1e6. Larger: more diverse, but more off-policy."""
    learning_starts: int = 1_000
    """Rows in the replay buffer before learning starts; usually 1e3 to 1e5. Larger: less overfitting to the first episodes."""
    update_ratio: float | Schedule = 0.25
    """Updates per env step, or a schedule; usually 1/64 to 1. Larger: fewer env steps, more compute, more overfitting."""
    target_every: int = 50
    """Updates between copies of the weights to the target network; usually 50 to 10,000. Larger: more stable, but slower."""
    double: bool = True
    """Double Q-learning: the policy chooses the next action, the target network evaluates it. Less overestimation."""
    dueling: bool = False
    """Dueling network: separate streams for the state value and the advantages of actions."""
    n_step: int = 3
    """Rewards summed before bootstrapping; usually 1 to 5. Larger: less bias from bootstrapping, more variance, more
    off-policy."""
    prioritized: bool = True
    """Prioritized experience replay: sample rows by their TD error. False: uniformly."""
    alpha: float = 0.6
    """Priority exponent: 0 is uniform sampling, 1 in proportion to the priorities; usually 0.5 to 0.7."""
    beta: float | Schedule = 0.4
    """Exponent of the importance-sampling weights, or a schedule: 0 is no correction, 1 a full one; usually 0.4, annealed
    to 1."""
    kind: Literal["scalar", "categorical", "quantile"] = "scalar"
    """Output per action: a Q-value (``"scalar"``), or a distribution, as in C51 (``"categorical"``) or QR-DQN
    (``"quantile"``)."""
    atoms: int = 51
    """Atoms of the distribution: its support (categorical) or its quantiles; usually 51 to 200. More: finer, but slower."""
    v_min: float = -10.0
    """Smallest return in the support of a categorical distribution; smaller ones are clipped to it."""
    v_max: float = 10.0
    """Largest return in the support of a categorical distribution; larger ones are clipped to it."""
    noisy: bool = False
    """Noisy networks: explore by learned noise on the weights behind the encoder. Set ``epsilon=0`` with it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.integer(type(self).__name__, "n_step", self.n_step, least=1, most=self.fragment, hint="Make fragment= longer.")

    def loss(self) -> Loss[Replayed, Async]:
        spec = QSpec(dueling=self.dueling, kind=self.kind, atoms=self.atoms, v_min=self.v_min, v_max=self.v_max, noisy=self.noisy)
        return DQNLoss(double=self.double, target_every=self.target_every, spec=spec)

    def exploration(self) -> Exploration:
        return EpsilonGreedy(self.epsilon)

    def replay(self) -> ReplayActors:
        """The replay actors."""
        return create_replay_actors(
            num_actors=self.num_replay,
            capacity=self.capacity,
            batch=self.batch,
            kind="prioritized" if self.prioritized else "uniform",
            min_size=self.learning_starts,
            update_ratio=self.update_ratio,
            alpha=self.alpha,
            beta=self.beta,
            n_step=self.n_step,
            gamma=self.gamma,
        )

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(dqn_plan(ParallelRollouts(workers).gather_sync(), workers, self), workers)


def dqn_plan(stream: Iter[Rollout], workers: AnyWorkers, config: DQN = DQN()) -> Iter[TrainStats]:
    """Stores rollouts, and trains on replayed batches."""
    buffer = config.replay()
    store = stream.for_each(StoreToBuffer(buffer))
    train = TrainOneStep(workers, loss=config.loss(), max_grad_norm=config.max_grad_norm)
    trained = ParallelReplay(buffer).gather_sync().for_each(train).for_each(SendPriorities())
    return Union(store.drain(), trained, weights=(1, TRAINING_WEIGHT))
