"""Base classes of algorithms: the fields of their configurations, their workers, and ``run``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import TypeVar

from tflow.algos.evaluation import reporting
from tflow.algos.training_run import Callback, Stop, TrainingRun, train
from tflow.combinators import check
from tflow.combinators.runnable import Plan
from tflow.errors import EnvError, MissingExtra, PlanError, TflowError
from tflow.rl.learning.losses import Loss
from tflow.rl.learning.optimizers import Adam, Optimizer
from tflow.rl.metrics import Metrics
from tflow.rl.policy.exploration import Exploration
from tflow.rl.policy.network_spec import LSTM, ModelLike
from tflow.rl.rollout.worker_spec import AnyLoss, EnvLike, MultiWorkers, Workers, check_device, create_rollout_workers
from tflow.rl.schedules import Schedule
from tflow.types import Async, Shard

if TYPE_CHECKING:
    from tflow.runtime.base import Runtime

Reads = TypeVar("Reads")
Requires = TypeVar("Requires", bound=Async)
P = TypeVar("P", bound=str)


@dataclass(frozen=True, kw_only=True)
class Algorithm(ABC):
    """Base class of algorithms: the configuration and the plan."""

    env: EnvLike = "CartPole-v1"
    """The environment: a gymnasium id, a function that makes an env, or an ``EnvSpec``."""
    num_workers: int = 2
    """Rollout workers, each a process of its own on Ray. More: faster sampling."""
    num_envs: int = 8
    """Envs per worker, stepped together as a vector env; usually 1 to 64. More: larger batches and faster sampling."""
    fragment: int = 128
    """Env steps per env and rollout. Longer: less bias from bootstrapping, more variance, fewer updates."""
    device: str = "auto"
    """Torch device of the learner; ``"auto"`` picks a GPU if there is one."""

    def __post_init__(self) -> None:
        for name in ("num_workers", "num_envs", "fragment"):
            check.integer(type(self).__name__, name, getattr(self, name), least=1)
        check_device(type(self).__name__, self.device)

    @abstractmethod
    def plan(self) -> Plan[Metrics]:
        """The algorithm as a plan, to print, draw or run on any runtime."""

    def check(self) -> None:
        """Raise if env and algorithm do not fit. It builds the networks and takes one step in one env. ``run`` would find out
        when it starts."""
        spec = reporting(self.plan()).workers.spec
        try:
            worker = replace(spec, num_envs=1, fragment=1)(Shard("check", 0, 1, 0, 0))
            worker.sample()
            worker.close()
            _ = [spec.network_of(policy) for policy in spec.losses]
        except (EnvError, MissingExtra):
            raise
        except Exception as error:
            said = error if isinstance(error, TflowError) else f"{type(error).__name__}: {error}"
            raise PlanError(f"{type(self).__name__} on {spec.env.name}: {said}") from error

    def run(
        self,
        *,
        stop: Stop | Callable[[Metrics], bool] | None = None,
        callbacks: Sequence[Callback] = (),
        eval_every: int | None = None,
        eval_episodes: int = 10,
        runtime: Runtime | None = None,
        seed: int = 0,
    ) -> TrainingRun:
        """Train: iterate over the metrics, then take the policy.

        Args:
            stop: When to stop: a ``Stop``, or a function of metrics. None trains until the run is closed.
            callbacks: Observers: ``ShowProgress()`` on the terminal, ``RunFolder("runs/mine")`` saves metrics and policies.
            eval_every: Env steps between evaluations, which run alongside training. None does not evaluate.
            eval_episodes: Episodes per evaluation.
            runtime: Where actors run, such as ``RayRuntime()``; None runs everything in this process.
            seed: Random seed of the run.
        """
        return train(
            self.plan(),
            stop=stop,
            callbacks=callbacks,
            eval_every=eval_every,
            eval_episodes=eval_episodes,
            runtime=runtime,
            seed=seed,
            algorithm=self,
        )


@dataclass(frozen=True, kw_only=True)
class SinglePolicy(Algorithm):
    """Base class of algorithms for one policy. Derive from one to change its loss, its optimiser or its plan."""

    model: ModelLike = "auto"
    """The network: ``"auto"`` chooses by the observation space, ``MLP((64, 64))`` and the like describe one, a function builds
    your own."""
    lr: float | Schedule = 3e-4
    """Learning rate, or a schedule over env steps; usually 1e-5 to 1e-2. Larger: faster, but less stable."""
    gamma: float = 0.99
    """Discount factor; usually 0.95 to 0.999. Larger: a longer horizon, more variance."""
    max_grad_norm: float | None = 0.5
    """Clip gradients to this global norm; usually 0.5 to 40. Smaller: more stable, but slower. None: no clipping."""

    supports_recurrent: ClassVar[bool] = True
    """Whether it trains recurrent networks (``LSTM``)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.model, LSTM) and not self.supports_recurrent:
            raise PlanError(
                f"{type(self).__name__}: it does not train recurrent networks; got {self.model!r}. PPO, A2C, A3C and IMPALA do."
            )
        check.fraction(type(self).__name__, "gamma", self.gamma)
        if self.max_grad_norm is not None:
            check.positive(type(self).__name__, "max_grad_norm", self.max_grad_norm)

    @abstractmethod
    def loss(self) -> AnyLoss:
        """The loss to minimise."""

    def optimizer(self) -> Optimizer:
        """The optimiser."""
        return Adam(lr=self.lr)

    def exploration(self) -> Exploration | None:
        """The exploration strategy; None samples from the policy alone."""
        return None

    def workers(self, loss: Loss[Reads, Requires]) -> Workers[Reads, Requires]:
        """The rollout workers of this configuration. The loss is part of their type."""
        return create_rollout_workers(
            env=self.env,
            loss=loss,
            num_workers=self.num_workers,
            num_envs=self.num_envs,
            fragment=self.fragment,
            model=self.model,
            exploration=self.exploration(),
            optimizer=self.optimizer(),
            device=self.device,
        )


def create_multi_workers(
    algorithms: Mapping[P, SinglePolicy],
    *,
    env: EnvLike,
    policy_of: Callable[[str], P],
    num_workers: int = 2,
    num_envs: int = 8,
    fragment: int = 128,
    device: str = "auto",
) -> MultiWorkers[P]:
    """Describe rollout workers for a multi-agent env.

    Args:
        algorithms: The loss, model, optimiser and exploration of each policy are those of its algorithm.
        env: The environment: a PettingZoo id, a function that makes an env, or an ``EnvSpec``.
        policy_of: Maps the name of an agent to its policy.
        num_workers: Rollout workers, each a process of its own on Ray.
        num_envs: Envs per worker, stepped together.
        fragment: Env steps per env and rollout.
        device: Torch device of the learners; ``"auto"`` picks a GPU if there is one.

    Law: describing creates nothing; two equal descriptions are two sets of workers.
    """
    check.instance("create_multi_workers", "algorithms", algorithms, Mapping, "one configuration such as PPO() per policy")
    for each in algorithms.values():
        check.instance("create_multi_workers", "each algorithm", each, SinglePolicy, "a configuration such as PPO()")
    losses: dict[P, AnyLoss] = {name: each.loss() for name, each in algorithms.items()}
    models: dict[P, ModelLike] = {name: each.model for name, each in algorithms.items()}
    optimizers: dict[P, Optimizer] = {name: each.optimizer() for name, each in algorithms.items()}
    given = {name: each.exploration() for name, each in algorithms.items()}
    exploration: dict[P, Exploration] = {name: each for name, each in given.items() if each is not None}
    return create_rollout_workers(
        env=env,
        losses=losses,
        policy_of=policy_of,
        num_workers=num_workers,
        num_envs=num_envs,
        fragment=fragment,
        model=models,
        exploration=exploration,
        optimizer=optimizers,
        device=device,
    )
