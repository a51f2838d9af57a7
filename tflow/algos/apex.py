"""Ape-X: distributed prioritised experience replay (Horgan et al. 2018, arXiv 1803.00933).

Implements: many workers, each env with an epsilon of its own; first priorities computed by the workers; replay in several actors;
a learner in an actor of its own that trains beside sampling, with a bounded mailbox; its errors go back to the replay actors as
new priorities, its weights to the workers. Double, duelling, n-step Q-learning, as in the paper, or any other option of DQN.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflow.algos.dqn import DQN
from tflow.combinators.par import ParIter
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.combinators.union import Union
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.training import LearnOnBatch, SendWeights, TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.policy.exploration import ApexEpsilons, Exploration
from tflow.rl.replay.replay_spec import ComputePriorities, ParallelReplay, SendPriorities, StoreToBuffer
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts, create_learner


@dataclass(frozen=True, kw_only=True)
class ApeX(DQN):
    """Distributed prioritised experience replay.

    Args:
        env: A gymnasium id, a function that makes an env, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray.
        num_envs: Envs per worker; all are stepped, and acted on, together.
        fragment: Steps of every env per rollout; the last ``n_step - 1`` of them look less far ahead.
        device: Where learners compute: a torch device, or ``"auto"`` for a GPU if there is one.
        model: The network: ``"auto"`` looks at the observations, ``MLP((64, 64))`` and others describe it, a function makes
            your own.
        lr: The learning rate, or its schedule over env steps.
        gamma: How much the future counts: the discount per step.
        max_grad_norm: Longer gradients are cut to this length; None leaves them.
        epsilon: How often a random action is tried; 0 for noisy networks.
        batch: Rows per update.
        num_replay: Replay actors, which hold ``capacity`` rows together.
        capacity: Rows that replay holds.
        min_size: Rows that are stored before training begins.
        samples_per_insert: Rows that are learned from, per row that is stored.
        target_every: Updates after which the target network is renewed.
        double: The policy chooses the next action, the target network values it.
        duelling: The value of a state and the advantages of its actions have outputs of their own.
        n_step: Rewards that are summed before the value of what follows is trusted.
        prioritized: Replay what the policy is most wrong about; False: all rows alike.
        alpha: How much priorities count: 0 not at all.
        beta: How much the unequal chances of rows are corrected for: 1 in full.
        kind: A number per action, or its distribution: over ``atoms`` values from ``v_min`` to ``v_max``, or by ``atoms``
            quantiles.
        atoms: Of distributions.
        v_min: The least value of a categorical distribution.
        v_max: The largest value of a categorical distribution.
        noisy: Explore by noise in the network.
        base_epsilon: The largest epsilon, in place of ``epsilon``: env i of N has ``base_epsilon ** (1 + spread * i / (N -
            1))``.
        spread: How different the epsilons of the envs are.
        mailbox: Batches that may be at the learner at a time.
        weights_every: Updates after which workers get new weights.
        max_staleness: Rollouts that are older than so many of these are dropped, and counted; None keeps all.
    """

    num_workers: int = 2
    """Rollout workers, each a process of its own on Ray."""
    fragment: int = 8
    """Steps of every env per rollout; the last ``n_step - 1`` of them look less far ahead."""
    batch: int = 128
    """Rows per update."""
    duelling: bool = True
    """The value of a state and the advantages of its actions have outputs of their own."""
    base_epsilon: float = 0.4
    """The largest epsilon, in place of ``epsilon``: env i of N has ``base_epsilon ** (1 + spread * i / (N - 1))``."""
    spread: float = 7.0
    """How different the epsilons of the envs are."""
    num_replay: int = 2
    """Replay actors, which hold ``capacity`` rows together."""
    mailbox: int = 4
    """Batches that may be at the learner at a time."""
    weights_every: int = 4
    """Updates after which workers get new weights."""
    max_staleness: int | None = None
    """Rollouts that are older than so many of these are dropped, and counted; None keeps all."""

    def exploration(self) -> Exploration:
        return ApexEpsilons(self.base_epsilon, self.spread)

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(apex_plan(ParallelRollouts(workers), workers, self), workers)


def apex_plan(
    stream: ParIter[Rollout], workers: AnyWorkers, config: ApeX = ApeX(), *, policy: str = "default"
) -> Iter[TrainStats]:
    """Workers rate and replay actors keep what comes; a learner beside them learns from what was kept."""
    buffer = config.replay()
    rated = stream.par_for_each(ComputePriorities(n_step=config.n_step, gamma=config.gamma))
    store = rated.gather_async(max_staleness=config.max_staleness).for_each(StoreToBuffer(buffer))
    learner = create_learner(workers, policy=policy, loss=config.loss())
    learn = LearnOnBatch(max_grad_norm=config.max_grad_norm, weights_every=config.weights_every)
    learned = ParallelReplay(buffer).gather_async(in_flight=2).hand_off(learner, learn, mailbox=config.mailbox)
    return Union(store.drain(), learned.for_each(SendPriorities()).for_each(SendWeights(workers, learner)))
