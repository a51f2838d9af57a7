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
from tflow.rl.batch import Rollout
from tflow.rl.exploration import ApexEpsilons, Exploration
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.replay import ComputePriorities, ParallelReplay, SendPriorities, StoreToBuffer
from tflow.rl.training import LearnOnBatch, SendWeights, TrainStats
from tflow.rl.workers import AnyWorkers, ParallelRollouts, create_learner


@dataclass(frozen=True, kw_only=True)
class ApeX(DQN):
    """Distributed prioritised experience replay."""

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
