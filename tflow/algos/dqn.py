"""DQN: deep Q-learning (Mnih et al. 2015) with the improvements that Rainbow put together (arXiv 1710.02298).

Implements, each an option: double Q-learning (arXiv 1509.06461), duelling networks (1511.06581), n-step targets, prioritised
replay (1511.05952), distributional values (categorical 1707.06887, quantile 1710.10044), noisy networks (1706.10295). The
target network is renewed as a whole every so many updates. Training keeps pace with sampling: ``samples_per_insert`` rows are
learned from per row that is stored.
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

MOST = 1_000
"""Turns of training per turn of storing: it has the right of way, until ``samples_per_insert`` makes it wait."""


@dataclass(frozen=True, kw_only=True)
class DQN(SinglePolicy):
    """Deep Q-learning.

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
    """

    with_memory: ClassVar[bool] = False
    num_workers: int = 1
    """Rollout workers, each a process of its own on Ray."""
    fragment: int = 16
    """Steps of every env per rollout; the last ``n_step - 1`` of them look less far ahead."""
    lr: float | Schedule = 1e-3
    """The learning rate, or its schedule over env steps."""
    max_grad_norm: float | None = 10.0
    """Longer gradients are cut to this length; None leaves them."""
    epsilon: float | Schedule = Linear(1.0, 0.02, steps=8_000)
    """How often a random action is tried; 0 for noisy networks."""
    batch: int = 64
    """Rows per update."""
    num_replay: int = 1
    """Replay actors, which hold ``capacity`` rows together."""
    capacity: int = 50_000
    """Rows that replay holds."""
    min_size: int = 1_000
    """Rows that are stored before training begins."""
    samples_per_insert: float = 16.0
    """Rows that are learned from, per row that is stored."""
    target_every: int = 50
    """Updates after which the target network is renewed."""
    double: bool = True
    """The policy chooses the next action, the target network values it."""
    duelling: bool = False
    """The value of a state and the advantages of its actions have outputs of their own."""
    n_step: int = 3
    """Rewards that are summed before the value of what follows is trusted."""
    prioritized: bool = True
    """Replay what the policy is most wrong about; False: all rows alike."""
    alpha: float = 0.6
    """How much priorities count: 0 not at all."""
    beta: float | Schedule = 0.4
    """How much the unequal chances of rows are corrected for: 1 in full."""
    kind: Literal["scalar", "categorical", "quantile"] = "scalar"
    """A number per action, or its distribution: over ``atoms`` values from ``v_min`` to ``v_max``, or by ``atoms`` quantiles."""
    atoms: int = 51
    """Of distributions."""
    v_min: float = -10.0
    """The least value of a categorical distribution."""
    v_max: float = 10.0
    """The largest value of a categorical distribution."""
    noisy: bool = False
    """Explore by noise in the network."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole(type(self).__name__, "n_step", self.n_step, least=1, most=self.fragment, hint="Make fragment= longer.")

    def loss(self) -> Loss[Replayed, Async]:
        spec = QSpec(
            duelling=self.duelling, kind=self.kind, atoms=self.atoms, v_min=self.v_min, v_max=self.v_max, noisy=self.noisy
        )
        return DQNLoss(double=self.double, target_every=self.target_every, spec=spec)

    def exploration(self) -> Exploration:
        return EpsilonGreedy(self.epsilon)

    def replay(self) -> ReplayActors:
        """Where rows are kept."""
        return create_replay_actors(
            num_actors=self.num_replay,
            capacity=self.capacity,
            batch=self.batch,
            kind="prioritized" if self.prioritized else "uniform",
            min_size=self.min_size,
            samples_per_insert=self.samples_per_insert,
            alpha=self.alpha,
            beta=self.beta,
            n_step=self.n_step,
            gamma=self.gamma,
        )

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(dqn_plan(ParallelRollouts(workers).gather_sync(), workers, self), workers)


def dqn_plan(stream: Iter[Rollout], workers: AnyWorkers, config: DQN = DQN()) -> Iter[TrainStats]:
    """Stores all that comes, and learns from what was stored."""
    buffer = config.replay()
    store = stream.for_each(StoreToBuffer(buffer))
    train = TrainOneStep(workers, loss=config.loss(), max_grad_norm=config.max_grad_norm)
    trained = ParallelReplay(buffer).gather_sync().for_each(train).for_each(SendPriorities())
    return Union(store.drain(), trained, weights=(1, MOST))
