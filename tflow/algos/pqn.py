"""PQN: parallelised Q-network (Gallici et al. 2024, arXiv 2407.04811).

Implements: Q-learning on rollouts of many envs, without replay and without a target network; lambda returns (Peng's Q(lambda),
with the largest Q-values as values); layer normalisation; epsilon-greedy exploration; several epochs of minibatches per round.
What differs: Adam instead of rectified Adam, and observations and rewards are normalised by running statistics.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflow.algos.algorithm import SinglePolicy, agreed
from tflow.combinators import check
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.rl.data.advantages import ComputeAdvantages
from tflow.rl.data.batch import Rollout
from tflow.rl.data.batching import ConcatRounds
from tflow.rl.learning.losses import Loss, PQNLoss, PQNReads
from tflow.rl.learning.training import TrainOneStep, TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.policy.exploration import EpsilonGreedy, Exploration
from tflow.rl.policy.policy_spec import QSpec
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts
from tflow.rl.schedules import Linear, Schedule
from tflow.types import Sync


@dataclass(frozen=True, kw_only=True)
class PQN(SinglePolicy):
    """Parallelised Q-network: Q-learning without replay.

    Args:
        env: The environment: a gymnasium id, a function that makes an env, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray. More: faster sampling.
        num_envs: Envs per worker, stepped together as a vector env; usually 1 to 64. More: larger batches and faster sampling.
        fragment: Env steps per env and rollout; usually 32 to 128. Longer: less bias from bootstrapping, fewer updates.
        device: Torch device of the learner; ``"auto"`` picks a GPU if there is one.
        model: The network: ``"auto"`` chooses by the observation space, ``MLP((64, 64))`` and the like describe one, a function
            builds your own.
        lr: Learning rate, or a schedule over env steps; usually 1e-4 to 1e-3. Larger: faster, but less stable.
        gamma: Discount factor; usually 0.95 to 0.999. Larger: a longer horizon, more variance.
        max_grad_norm: Clip gradients to this global norm; usually 1 to 40. Smaller: more stable, but slower. None: no clipping.
        normalize_obs: Normalise observations by their running mean and standard deviation over all workers; they are saved with
            the policy.
        normalize_rewards: Divide rewards by the running standard deviation of discounted returns. Reported returns stay as they
            are.
        epochs: Passes over each batch; usually 1 to 4. More: better use of samples, but less stable.
        minibatch: Rows per gradient step; usually 64 to 4096. Larger: fewer and less noisy updates. None: the whole batch.
        lam: Lambda of the returns. 0 is one-step TD, 1 Monte Carlo; usually 0.5 to 0.95. Larger: less bias, more variance, more
            off-policy.
        epsilon: Epsilon-greedy: the probability of a random action, or a schedule; usually annealed from 1 to 0.01..0.1.
        dueling: Dueling network: separate streams for the state value and the advantages of actions.
        layer_norm: Layer normalisation before each activation of the encoder: what replaces the target network.
    """

    fragment: int = 32
    """Env steps per env and rollout; usually 32 to 128. Longer: less bias from bootstrapping, fewer updates."""
    lr: float | Schedule = 5e-4
    """Learning rate, or a schedule over env steps; usually 1e-4 to 1e-3. Larger: faster, but less stable."""
    max_grad_norm: float | None = 10.0
    """Clip gradients to this global norm; usually 1 to 40. Smaller: more stable, but slower. None: no clipping."""
    normalize_obs: bool = True
    """Normalise observations by their running mean and standard deviation over all workers; they are saved with the policy."""
    normalize_rewards: bool = True
    """Divide rewards by the running standard deviation of discounted returns. Reported returns stay as they are."""
    epochs: int = 4
    """Passes over each batch; usually 1 to 4. More: better use of samples, but less stable."""
    minibatch: int | None = 128
    """Rows per gradient step; usually 64 to 4096. Larger: fewer and less noisy updates. None: the whole batch."""
    lam: float = 0.65
    """Lambda of the returns. 0 is one-step TD, 1 Monte Carlo; usually 0.5 to 0.95. Larger: less bias, more variance, more
    off-policy."""
    epsilon: float | Schedule = Linear(1.0, 0.02, steps=50_000)
    """Epsilon-greedy: the probability of a random action, or a schedule; usually annealed from 1 to 0.01..0.1."""
    dueling: bool = False
    """Dueling network: separate streams for the state value and the advantages of actions."""
    layer_norm: bool = True
    """Layer normalisation before each activation of the encoder: what replaces the target network."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.integer("PQN", "epochs", self.epochs, least=1)
        self.check_minibatch(self.minibatch, PQN.minibatch)

    def loss(self) -> Loss[PQNReads, Sync]:
        return PQNLoss(spec=QSpec(dueling=self.dueling, layer_norm=self.layer_norm))

    def exploration(self) -> Exploration:
        return EpsilonGreedy(self.epsilon)

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        rollouts = ConcatRounds(ParallelRollouts(workers).gather_rounds())
        return ReportMetrics(pqn_plan(rollouts, workers, self), workers)


def pqn_plan(stream: Iter[Rollout, Sync], workers: AnyWorkers, config: PQN | None = None) -> Iter[TrainStats]:
    """Lambda returns, then several epochs of minibatches on each batch."""
    loss, config = agreed("pqn_plan", workers, config, PQN()), config or PQN()
    ready = stream.with_columns(ComputeAdvantages(gamma=config.gamma, lam=config.lam))
    return ready.for_each(TrainOneStep(workers, loss=loss, epochs=config.epochs, minibatch=config.minibatch))
