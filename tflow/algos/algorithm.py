"""What algorithms have in common: the fields of their configurations, and how they are run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import TypeVar

from tflow.algos.training import Stop, TrainingRun, train
from tflow.combinators import check
from tflow.combinators.runnable import Plan
from tflow.rl.exploration import Exploration
from tflow.rl.losses import Loss
from tflow.rl.metrics import Metrics
from tflow.rl.models import ModelLike
from tflow.rl.optimizers import Adam, Optimizer
from tflow.rl.schedules import Schedule
from tflow.rl.workers import EnvLike, Workers, create_rollout_workers
from tflow.types import Async

if TYPE_CHECKING:
    from collections.abc import Callable

    from tflow.runtime.base import Runtime

Reads = TypeVar("Reads")
Requires = TypeVar("Requires", bound=Async)


@dataclass(frozen=True, kw_only=True)
class Algorithm(ABC):
    """The configuration of an algorithm. Derive from one to change its loss, its optimiser or its plan."""

    env: EnvLike = "CartPole-v1"
    """A gymnasium id, a function that makes an env, or an ``EnvSpec``."""
    num_workers: int = 2
    """Rollout workers, each a process of its own on Ray."""
    num_envs: int = 8
    """Envs per worker; all are stepped, and acted on, together."""
    fragment: int = 128
    """Steps of every env per rollout."""
    model: ModelLike = "auto"
    """The network: ``"auto"`` looks at the observations, ``MLP((64, 64))`` and others describe it, a function makes your own."""
    lr: float | Schedule = 3e-4
    """The learning rate, or its schedule over env steps."""
    gamma: float = 0.99
    """How much the future counts: the discount per step."""
    max_grad_norm: float | None = 0.5
    """Longer gradients are cut to this length; None leaves them."""
    device: str = "auto"
    """Where the learner computes: a torch device, or ``"auto"`` for a GPU if there is one."""

    def __post_init__(self) -> None:
        where = type(self).__name__
        for name in ("num_workers", "num_envs", "fragment"):
            check.whole(where, name, getattr(self, name), least=1)
        check.share(where, "gamma", self.gamma)
        if self.max_grad_norm is not None:
            check.positive(where, "max_grad_norm", self.max_grad_norm)

    @abstractmethod
    def plan(self) -> Plan[Metrics]:
        """The algorithm as a plan: print it, draw it, run it on any runtime."""

    def optimizer(self) -> Optimizer:
        """How weights follow gradients."""
        return Adam(lr=self.lr)

    def workers(self, loss: Loss[Reads, Requires], exploration: Exploration | None = None) -> Workers[Reads, Requires]:
        """The rollout workers that this configuration describes."""
        return create_rollout_workers(
            env=self.env,
            loss=loss,
            num_workers=self.num_workers,
            num_envs=self.num_envs,
            fragment=self.fragment,
            model=self.model,
            exploration=exploration,
            optimizer=self.optimizer(),
            device=self.device,
        )

    def run(
        self, *, stop: Stop | Callable[[Metrics], bool] | None = None, runtime: Runtime | None = None, seed: int = 0
    ) -> TrainingRun:
        """Train: iterate over the metrics, then take the policy.

        Without ``runtime`` everything happens in this process; without ``stop`` it goes on until you let go of it.
        """
        return train(self.plan(), stop=stop, runtime=runtime, seed=seed)
