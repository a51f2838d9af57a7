"""Ape-X: distributed prioritized experience replay (Horgan et al. 2018, arXiv 1803.00933).

Implements: many workers, each env with an epsilon of its own; initial priorities computed by the workers; replay in several
actors; a learner in an actor of its own that trains while workers sample, with a bounded mailbox; its TD errors go back to the
replay actors as new priorities, its weights to the workers. Double, dueling, n-step Q-learning, as in the paper, or any other
option of DQN. ``apex_control`` has DDPG, TD3 and SAC on the same sub-flow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from typing_extensions import TypeVar

from tflow.algos.algorithm import agreed
from tflow.algos.dqn import DQN
from tflow.combinators.par import ParIter
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.combinators.union import Union
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.agent import Agent
from tflow.rl.learning.losses import Loss
from tflow.rl.learning.training import LearnOnBatch, SendWeights, TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.policy.exploration import ApexEpsilons, Exploration
from tflow.rl.replay.replay_spec import ComputePriorities, ParallelReplay, SendPriorities, StoreToBuffer
from tflow.rl.rollout.worker_spec import AnyWorkers, ParallelRollouts, create_learner
from tflow.rl.schedules import Schedule
from tflow.types import Async

Reads = TypeVar("Reads")
Requires = TypeVar("Requires", bound=Async)


if TYPE_CHECKING:
    from tflow.algos.off_policy import OffPolicy as Added
else:
    Added = object  # a dataclass with bases brings their defaults along, which would replace those of the algorithm


@dataclass(frozen=True, kw_only=True)
class Distributed(Added):
    """What Ape-X adds to an off-policy algorithm. Derive from it and from the algorithm, in this order."""

    num_workers: int = 2
    """Rollout workers, each a process of its own on Ray. More: faster sampling."""
    num_envs: int = 8
    """Envs per worker, stepped together as a vector env; usually 1 to 64. More: larger batches and faster sampling."""
    fragment: int = 8
    """Env steps per env and rollout, at least ``n_step``; usually 1 to 64. The last ``n_step - 1`` of each have shorter n-step
    returns."""
    num_replay: int = 2
    """Replay actors, among which ``capacity`` is divided. More: higher throughput on Ray."""
    prioritized: bool = True
    """Prioritized experience replay: sample rows by their TD error. False: uniformly."""
    mailbox: int = 4
    """Batches queued at the learner, at most; usually 2 to 16. More: the learner waits less, priorities are staler."""
    weights_every: int = 4
    """Updates between broadcasts of weights to the workers; usually 1 to 400. Larger: less traffic, staler policies."""
    max_staleness: int | None = None
    """Drop, and count, rollouts whose policy is more than this many broadcasts old. None: keep all."""

    def agent_with(self, loss: Loss[Reads, Requires]) -> Agent[Reads, Requires]:
        return replace(super().agent_with(loss), sends="all")  # workers compute TD errors

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(apex_plan(ParallelRollouts(workers), workers, self), workers)


@dataclass(frozen=True, kw_only=True)
class ApeX(Distributed, DQN):
    """Distributed prioritized experience replay."""

    batch: int = 128
    """Rows per update; usually 32 to 512. Larger: less noisy gradients, more compute."""
    update_ratio: float | Schedule = 0.125
    """Updates per env step once learning has started, or a schedule; usually 1/64 to 1. Larger: fewer env steps, more compute,
    more overfitting."""
    dueling: bool = True
    """Dueling network: separate streams for the state value and the advantages of actions."""
    base_epsilon: float = 0.4
    """Largest epsilon, in place of ``epsilon``; usually 0.4. Env i of N has ``base_epsilon ** (1 + spread * i / (N - 1))``."""
    spread: float = 7.0
    """Exponent of these epsilons (alpha in the paper); usually 7. Larger: more envs act almost greedily."""

    def exploration(self) -> Exploration:
        return ApexEpsilons(self.base_epsilon, self.spread)


def apex_plan(
    stream: ParIter[Rollout], workers: AnyWorkers, config: Distributed | None = None, *, policy: str = "default"
) -> Iter[TrainStats]:
    """Workers compute initial priorities, replay actors store rollouts, a learner trains on replayed batches meanwhile."""
    _, config = agreed("apex_plan", workers, config, ApeX()), config or ApeX()
    buffer = config.replay()
    prioritized = stream.par_for_each(ComputePriorities(n_step=config.n_step, gamma=config.gamma))
    store = prioritized.gather_async(max_staleness=config.max_staleness).for_each(StoreToBuffer(buffer))
    learner = create_learner(workers, policy=policy)
    learn = LearnOnBatch(weights_every=config.weights_every)
    learned = ParallelReplay(buffer).gather_async(in_flight=2).hand_off(learner, learn, mailbox=config.mailbox)
    return Union(store.drain(), learned.for_each(SendPriorities()).for_each(SendWeights(workers, learner)))
