"""Base classes of algorithms: the fields of their configurations, their workers, and ``run``."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NoReturn, Protocol, cast

from typing_extensions import TypeVar

from tflow.algos.evaluation import reporting
from tflow.algos.training_run import Callback, Stop, TrainingRun, train
from tflow.combinators import check
from tflow.combinators.runnable import Plan
from tflow.errors import EnvError, MissingExtra, PlanError, TflowError
from tflow.rl.elsewhere import Configured, no_method
from tflow.rl.learning.agent import Agent, AnyAgent, AnyLoss, differences
from tflow.rl.learning.losses import Loss
from tflow.rl.learning.optimizers import Adam, Optimizer
from tflow.rl.metrics import Metrics
from tflow.rl.policy.exploration import Exploration
from tflow.rl.policy.network_spec import Memory, ModelLike
from tflow.rl.rollout.worker_spec import (
    AnyWorkers,
    EnvLike,
    LearnerSpec,
    MultiWorkers,
    Workers,
    check_device,
    create_rollout_workers,
)
from tflow.rl.schedules import Schedule
from tflow.types import Async, Shard

if TYPE_CHECKING:
    from tflow.rl.rollout.starting import StartFrom
    from tflow.runtime.base import Runtime

Reads = TypeVar("Reads")
Requires = TypeVar("Requires", bound=Async)
P = TypeVar("P", bound=str)
L = TypeVar("L")
L_co = TypeVar("L_co", covariant=True)


@dataclass(frozen=True, kw_only=True)
class Algorithm(Configured, ABC):
    """Base class of algorithms: the configuration and the plan."""

    if not TYPE_CHECKING:  # checkers know which methods there are

        def __getattr__(self, name: str) -> NoReturn:
            """What other libraries call otherwise."""
            raise AttributeError(no_method(type(self), name), name=name, obj=self)

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

    def rows_of_a_round(self) -> tuple[int, str]:
        """How many rows the rollouts of all workers have together, and a sentence about it."""
        rows = self.num_workers * self.num_envs * self.fragment
        factors = f"{self.num_workers} x {self.num_envs} x {self.fragment}"
        return rows, f"a batch has {factors} = {rows:,} rows (workers x envs x fragment)"

    def check_minibatch(self, minibatch: int | None, usual: int | None) -> None:
        """Raise for a minibatch of more rows than a round has, unless it is the usual one."""
        if minibatch is None:
            return
        name, (rows, said) = type(self).__name__, self.rows_of_a_round()
        check.integer(name, "minibatch", minibatch, least=1)
        if minibatch > rows and minibatch != usual:
            raise PlanError(f"{name}: minibatch is {minibatch:,}, but {said}. Make it smaller, or None for the whole batch.")

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
            for policy in spec.agents:
                LearnerSpec(spec, policy)(Shard("check", 0, 1, 0, 0))
        except (EnvError, MissingExtra):
            raise
        except Exception as error:
            said = error if isinstance(error, TflowError) else f"{type(error).__name__}: {error}"
            raise PlanError(f"{type(self).__name__} on {spec.env.name}: {said}") from error

    def run(
        self,
        stop: Stop | Callable[[Metrics], bool] | None = None,
        *,
        callbacks: Sequence[Callback] = (),
        eval_every: int | None = None,
        eval_episodes: int = 20,
        runtime: Runtime | None = None,
        seed: int = 0,
        start_from: StartFrom | None = None,
        resume: str | os.PathLike[str] | None = None,
        record: str | os.PathLike[str] | None = None,
        trace: str | os.PathLike[str] | None = None,
    ) -> TrainingRun:
        """Train: iterate over the metrics, then take the policy.

        Args:
            stop: When to stop: a ``Stop``, or a function of metrics. None trains until the run is closed.
            callbacks: Observers: ``ShowProgress()`` on the terminal, ``RunFolder("runs/mine")`` saves metrics and policies.
            eval_every: Env steps between evaluations, which run alongside training; updates where nobody samples. None does not
                evaluate.
            eval_episodes: Episodes per evaluation.
            runtime: Where actors run, such as ``RayRuntime()``; None runs everything in this process.
            seed: Random seed of the run.
            start_from: Start with the weights of a saved policy: a policy file, a run folder (its latest policy) or a ``Policy``;
                for several policies a run folder with several, or a mapping by policy. Optimisers and counters start fresh.
            resume: Go on exactly from a checkpoint of the same configuration: what ``run.save(path)`` wrote, or a run folder.
            record: A file for what a cluster decides, so that ``ReplayRuntime(file)`` can repeat the run.
            trace: A file for a trace of driver, actors, calls and messages, in the trace event format of Chrome and Perfetto.
        """
        return train(
            self.plan(),
            stop=stop,
            callbacks=callbacks,
            eval_every=eval_every,
            eval_episodes=eval_episodes,
            runtime=runtime,
            seed=seed,
            start_from=start_from,
            resume=resume,
            record=record,
            trace=trace,
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

    normalize_obs: bool = False
    """Normalise observations by their running mean and standard deviation over all workers; they are saved with the policy."""
    normalize_rewards: bool = False
    """Divide rewards by the running standard deviation of discounted returns. Reported returns stay as they are."""

    supports_recurrent: ClassVar[bool] = True
    """Whether it trains recurrent networks (``LSTM``, ``GRU``, ``GTrXL``)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.model, Memory) and not self.supports_recurrent:
            raise PlanError(
                f"{type(self).__name__}: it does not train recurrent networks; got {self.model!r}. PPO and its relatives do, and "
                "R2D2 and RNNSAC, which replay sequences."
            )
        check.fraction(type(self).__name__, "gamma", self.gamma)
        if self.max_grad_norm is not None:
            check.positive(type(self).__name__, "max_grad_norm", self.max_grad_norm)

    @abstractmethod
    def loss(self) -> AnyLoss:
        """The loss to minimise."""

    def optimizer(self) -> Optimizer | Mapping[str, Optimizer]:
        """The optimiser, of all parts of the weights or by part."""
        return Adam(lr=self.lr)

    def exploration(self) -> Exploration | None:
        """The exploration strategy; None samples from the policy alone."""
        return None

    def agent(self) -> AnyAgent:
        """The agent that it trains."""
        return self.agent_with(self.loss())

    def agent_with(self, loss: Loss[Reads, Requires]) -> Agent[Reads, Requires]:
        """The agent with a loss, which is part of its type."""
        return Agent(
            loss,
            model=self.model,
            optimizer=self.optimizer(),
            max_grad_norm=self.max_grad_norm,
            exploration=self.exploration(),
            normalize_obs=self.normalize_obs,
            normalize_rewards=self.gamma if self.normalize_rewards else None,
        )

    def workers(self, loss: Loss[Reads, Requires]) -> Workers[Reads, Requires]:
        """The rollout workers of this configuration. The loss is part of their type."""
        return create_rollout_workers(
            env=self.env,
            agent=self.agent_with(loss),
            num_workers=self.num_workers,
            num_envs=self.num_envs,
            fragment=self.fragment,
            device=self.device,
        )


class Trains(Protocol[L_co]):
    """A configuration with a loss of this type."""

    def loss(self) -> L_co:
        """The loss to minimise."""
        ...

    def agent(self) -> AnyAgent:
        """The agent that it trains."""
        ...


def agreed(where: str, workers: AnyWorkers, config: Trains[L] | None, usual: Trains[L]) -> L:
    """The loss of the agent that a sub-flow and its workers agree on.

    Args:
        where: The name of the sub-flow, for errors.
        workers: The workers, which carry the agents.
        config: The configuration that the sub-flow was given: the workers must have its agent. None takes the agent that they
            have, if its loss is of the usual kind.
        usual: A configuration with the usual kind of loss.
    """
    check.instance(where, "workers", workers, AnyWorkers, "what create_rollout_workers returns")
    agents = workers.spec.agents
    if workers.spec.stands_in:
        return (config or usual).loss()
    if config is None:
        kind = type(usual.loss())
        found = [agent.loss for agent in agents.values() if isinstance(agent.loss, kind)]
        if not found:
            have = " and ".join(type(agent.loss).__name__ for agent in agents.values())
            raise PlanError(f"{where}: {workers.name} train {have}, but it needs {kind.__name__}. Make them with that loss.")
        return cast("L", found[0])
    wanted = config.agent()
    apart = [(name, differences(wanted, agent)) for name, agent in agents.items()]
    if all(said for _, said in apart):
        name, said = min(apart, key=lambda each: len(each[1]))
        of = "" if name == "default" else f" of {name!r}"
        raise PlanError(
            f"{where}: the configuration and the agent{of} of {workers.name} contradict each other: {'; '.join(said)}. Make the "
            "workers from the configuration, such as config.workers(config.loss()), or leave it out."
        )
    return cast("L", wanted.loss)


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
        algorithms: The agent of each policy is that of its algorithm.
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
    agents: dict[P, AnyAgent] = {name: each.agent() for name, each in algorithms.items()}
    return create_rollout_workers(
        env=env,
        agents=agents,
        policy_of=policy_of,
        num_workers=num_workers,
        num_envs=num_envs,
        fragment=fragment,
        device=device,
    )
