"""What Ape-X adds to an off-policy algorithm: fields, and agents whose workers can compute TD errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from typing_extensions import TypeVar

from tflow.algos.td3 import TD3
from tflow.errors import PlanError
from tflow.rl.learning.agent import Agent
from tflow.rl.learning.losses import Loss
from tflow.rl.policy.exploration import ApexNoise, Exploration, RandomFirst
from tflow.rl.schedules import Schedule
from tflow.types import Async

Reads = TypeVar("Reads")
Requires = TypeVar("Requires", bound=Async)

if TYPE_CHECKING:
    from tflow.algos.off_policy import OffPolicy as Added

    AddedTD3 = TD3
else:
    AddedTD3 = object
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


@dataclass(frozen=True, kw_only=True)
class DistributedNoise(Distributed, AddedTD3):
    """The same for deterministic actors: each env has a noise of its own."""

    update_ratio: float | Schedule = 0.5
    """Updates per env step once learning has started, or a schedule; usually 0.1 to 1. Larger: fewer env steps, more compute,
    more overfitting."""
    base_noise: float = 0.4
    """Largest noise, in place of ``noise``; usually 0.3 to 0.5. Env i of N has ``base_noise ** (1 + spread * i / (N - 1))``."""
    spread: float = 3.0
    """Exponent of these; usually 1 to 7. Larger: more envs act almost without noise."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise != TD3.noise or getattr(self, "ou_noise", False):
            raise PlanError(
                f"{type(self).__name__}: each env has a noise of its own; in place of noise and ou_noise, set base_noise."
            )

    def exploration(self) -> Exploration:
        return RandomFirst(self.learning_starts, ApexNoise(self.base_noise, self.spread))
