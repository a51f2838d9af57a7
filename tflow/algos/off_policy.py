"""What off-policy algorithms share: replay, its limits, and the sub-flow that stores rollouts and trains on replayed batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Protocol, TypeVar

from tflow.algos.algorithm import SinglePolicy, Trains, agreed
from tflow.combinators import check
from tflow.combinators.stream import Iter
from tflow.combinators.union import Union
from tflow.errors import PlanError
from tflow.rl.data.batch import Batch, Rollout
from tflow.rl.learning.learners import learn_together
from tflow.rl.learning.losses import Loss, SequenceColumns
from tflow.rl.learning.optimizers import Adam, Optimizer
from tflow.rl.learning.training import TrainOneStep, TrainStats
from tflow.rl.replay.replay_spec import ParallelReplay, ReplayActors, SendPriorities, StoreToBuffer, create_replay_actors
from tflow.rl.rollout.worker_spec import AnyWorkers
from tflow.rl.schedules import Schedule, check_absolute
from tflow.types import Async

C = TypeVar("C", bound=str)


@dataclass(frozen=True, kw_only=True)
class Replaying(SinglePolicy):
    """Base class of algorithms that learn from replay: of rows (``OffPolicy``) or of sequences (``OffPolicySequences``)."""

    num_workers: int = 1
    """Rollout workers, each a process of its own on Ray. More: faster sampling."""
    batch: int = 256
    """Rows per update; usually 32 to 512. Larger: less noisy gradients, more compute."""
    num_replay: int = 1
    """Replay actors, among which ``capacity`` is divided. More: higher throughput on Ray."""
    capacity: int = 1_000_000
    """Rows in the replay buffer; usually 1e4 to 1e6. Larger: more diverse, but more off-policy."""
    learning_starts: int = 100
    """Rows in the replay buffer before learning starts; usually 1e2 to 1e5. Larger: less overfitting to the first episodes."""
    update_ratio: float | Schedule = 1.0
    """Updates per env step from then on, or a schedule; usually 1/64 to 20. Larger: fewer env steps, more compute, more
    overfitting."""
    n_step: int = 1
    """Rewards summed before bootstrapping; usually 1 to 5. Larger: less bias from bootstrapping, more variance, more
    off-policy."""
    prioritized: bool = False
    """Prioritized experience replay: sample rows by their TD error. False: uniformly."""
    alpha: float = 0.6
    """Priority exponent: 0 is uniform sampling, 1 in proportion to the priorities; usually 0.5 to 0.7."""
    beta: float | Schedule = 0.4
    """Exponent of the importance-sampling weights, or a schedule: 0 is no correction, 1 a full one; usually 0.4, annealed
    to 1."""

    num_learners: int = 1
    """Learners, each an actor of its own, among which every batch is divided; 1 trains in the driver. More: faster, if a gradient
    step takes much longer than a call to an actor."""

    divides: ClassVar[bool] = True
    """Whether several learners can divide its batches."""

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        check.integer(name, "num_learners", self.num_learners, least=1, most=check.MAX_ACTORS)
        if self.num_learners > 1 and not self.divides:
            raise PlanError(f"{name}: its normalisation needs whole batches, so it has one learner; got {self.num_learners}.")
        check.integer(name, "batch", self.batch, least=1)
        check.integer(name, "capacity", self.capacity, least=1)
        check.integer(name, "learning_starts", self.learning_starts, least=0, most=self.capacity, hint="Make capacity= larger.")
        check_absolute(name, "update_ratio", self.update_ratio)
        check_absolute(name, "beta", self.beta)
        if not isinstance(self.update_ratio, Schedule):
            check.positive(name, "update_ratio", self.update_ratio)
        check.integer(name, "n_step", self.n_step, least=1, most=self.fragment, hint="Make fragment= longer.")


@dataclass(frozen=True, kw_only=True)
class OffPolicy(Replaying):
    """Base class of algorithms that learn from replayed rows."""

    supports_recurrent: ClassVar[bool] = False

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


@dataclass(frozen=True, kw_only=True)
class OffPolicySequences(Replaying):
    """Base class of algorithms that learn from replayed sequences, so that their networks may be recurrent."""

    batch: int = 32
    """Sequences per update; usually 16 to 128. Larger: less noisy gradients, more compute."""
    length: int = 40
    """Rows per replayed sequence, at most ``fragment``; usually 20 to 120. Longer: longer dependencies, more compute. Fragments
    are cut into them: no row is wasted if ``fragment - burn_in`` is a multiple of ``length - burn_in``."""
    burn_in: int = 20
    """First rows of a sequence, which only warm up the recurrent state: no gradient reaches them; usually half of ``length``, or
    0. Larger: states are closer to those of the current weights, fewer rows are learned from."""
    eta: float = 0.9
    """Priority of a sequence: ``eta`` times its largest TD error plus ``1 - eta`` times their mean; usually 0.9."""

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        check.integer(name, "length", self.length, least=1, most=self.fragment, hint="Make fragment= longer.")
        check.integer(name, "burn_in", self.burn_in, least=0, most=self.length - 1, hint="Make length= longer.")
        check.fraction(name, "eta", self.eta)

    def replay(self) -> ReplayActors[SequenceColumns]:
        """The replay actors."""
        return create_replay_actors(
            num_actors=self.num_replay,
            capacity=self.capacity,
            batch=self.batch,
            kind="sequences",
            min_size=self.learning_starts,
            update_ratio=self.update_ratio,
            alpha=self.alpha if self.prioritized else 0.0,
            beta=self.beta,
            n_step=self.n_step,
            gamma=self.gamma,
            length=self.length,
            burn_in=self.burn_in,
        )


def by_part(parts: Iterable[str], lr: float | Schedule, critic_lr: float | Schedule | None) -> dict[str, Optimizer]:
    """Adam for each part, with a learning rate of its own for the Q-functions if there is one."""
    return {part: Adam(lr=critic_lr if part == "critics" and critic_lr is not None else lr, eps=1e-8) for part in parts}


class Replays(Trains[Loss[Batch[C], Async]], Protocol[C]):
    """A configuration with replay, and a loss for what it replays."""

    def replay(self) -> ReplayActors[C]:
        """The replay actors."""
        ...

    @property
    def num_learners(self) -> int:
        """Learners, each an actor of its own; 1 trains in the driver."""
        ...


def off_policy_plan(
    where: str, stream: Iter[Rollout], workers: AnyWorkers, config: Replays[C] | None, usual: Replays[C]
) -> Iter[TrainStats]:
    """Stores rollouts, and trains on replayed batches: the sub-flow of DQN, SAC, TD3 and their relatives, R2D2 too.

    Args:
        where: The name of the sub-flow, for errors.
        stream: The rollouts.
        workers: The workers, which carry the agent.
        config: The configuration; None takes the agent of the workers, and replay as usual.
        usual: The usual configuration of the algorithm.
    """
    loss, buffer = agreed(where, workers, config, usual), (config or usual).replay()
    store = stream.for_each(StoreToBuffer(buffer))
    replayed, num = ParallelReplay(buffer).gather_sync(), (config or usual).num_learners
    if num > 1:
        trained = learn_together(replayed, workers, num=num, loss=loss)
    else:
        trained = replayed.for_each(TrainOneStep(workers, loss=loss))
    return Union(
        store.drain(), trained.for_each(SendPriorities()), weights=(1, inf)
    )  # training goes first, until update_ratio= makes it wait
