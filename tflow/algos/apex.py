"""Ape-X: distributed prioritized experience replay (Horgan et al. 2018, arXiv 1803.00933).

Implements: many workers, each env with an epsilon of its own; initial priorities computed by the workers; replay in several
actors; a learner in an actor of its own that trains while workers sample, with a bounded mailbox; its TD errors go back to the
replay actors as new priorities, its weights to the workers. Double, dueling, n-step Q-learning, as in the paper, or any other
option of DQN. DDPG, TD3 and SAC run on the same sub-flow: ``apex_ddpg``, ``apex_td3``, ``apex_sac``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from tflow.algos.algorithm import agreed
from tflow.algos.distributed import Distributed
from tflow.algos.dqn import DQN
from tflow.combinators.par import ParIter
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.combinators.union import Union
from tflow.errors import PlanError
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.learners import learn_in_actors
from tflow.rl.learning.training import TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.policy.exploration import ApexEpsilons, Exploration
from tflow.rl.replay.replay_spec import ComputePriorities, ParallelReplay, SendPriorities, StoreToBuffer
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts
from tflow.rl.schedules import Schedule


@dataclass(frozen=True, kw_only=True)
class ApeX(Distributed, DQN):
    """Distributed prioritized experience replay.

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
        update_ratio: Updates per env step once learning has started, or a schedule; usually 1/64 to 1. Larger: fewer env steps,
            more compute, more overfitting.
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
        mailbox: Batches queued at the learner, at most; usually 2 to 16. More: the learner waits less, priorities are staler.
        weights_every: Updates between broadcasts of weights to the workers; usually 1 to 400. Larger: less traffic, staler
            policies.
        max_staleness: Drop, and count, rollouts whose policy is more than this many broadcasts old. None: keep all.
        base_epsilon: Largest epsilon, in place of ``epsilon``; usually 0.4. Env i of N has ``base_epsilon ** (1 + spread * i /
            (N - 1))``.
        spread: Exponent of these epsilons (alpha in the paper); usually 7. Larger: more envs act almost greedily.
    """

    update_ratio: float | Schedule = 0.125
    """Updates per env step once learning has started, or a schedule; usually 1/64 to 1. Larger: fewer env steps, more compute,
    more overfitting."""
    dueling: bool = True
    """Dueling network: separate streams for the state value and the advantages of actions."""
    base_epsilon: float = 0.4
    """Largest epsilon, in place of ``epsilon``; usually 0.4. Env i of N has ``base_epsilon ** (1 + spread * i / (N - 1))``."""
    spread: float = 7.0
    """Exponent of these epsilons (alpha in the paper); usually 7. Larger: more envs act almost greedily."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon != DQN.epsilon:
            raise PlanError("ApeX: each env has an epsilon of its own; leave out epsilon=, set base_epsilon=.")

    def exploration(self) -> Exploration:
        return ApexEpsilons(self.base_epsilon, self.spread)

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(apex_plan(ParallelRollouts(workers), workers, self), workers)


def apex_plan(
    stream: ParIter[Rollout], workers: AnyWorkers, config: Distributed | None = None, *, policy: str = "default"
) -> Iter[TrainStats]:
    """Workers compute initial priorities, replay actors store rollouts, a learner trains on replayed batches meanwhile."""
    loss, config = agreed("apex_plan", workers, config, ApeX()), config or ApeX()
    buffer = config.replay()
    prioritized = stream.par_for_each(ComputePriorities(n_step=config.n_step, gamma=config.gamma))
    store = prioritized.gather_async(max_staleness=config.max_staleness).for_each(StoreToBuffer(buffer))
    replayed, num = ParallelReplay(buffer).gather_async(in_flight=2), config.num_learners
    options = {"mailbox": config.mailbox, "weights_every": config.weights_every}
    trained = learn_in_actors(replayed, workers, loss=loss, num=num, policy=policy, **options).for_each(SendPriorities())
    return Union(store.drain(), trained, weights=(1, inf))  # else a slow learner gets fewer updates than it is due
