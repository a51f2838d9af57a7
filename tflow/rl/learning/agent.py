"""Agents: what a policy id stands for, described once. Workers carry them, sub-flows name the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Literal

import numpy as np
from typing_extensions import TypeVar

from tflow.combinators import check
from tflow.errors import PlanError
from tflow.rl.elsewhere import Configured
from tflow.rl.learning.losses import Loss, replays, replays_sequences
from tflow.rl.learning.optimizers import Adam, Optimizer
from tflow.rl.policy.exploration import ApexEpsilons, ApexNoise, EpsilonGreedy, Exploration, GaussianNoise, OUNoise, RandomFirst
from tflow.rl.policy.network_spec import Memory, ModelLike, normalization_of, normalized
from tflow.rl.policy.policy_spec import ActorCriticSpec
from tflow.types import Async

Reads = TypeVar("Reads", contravariant=True)
Requires = TypeVar("Requires", contravariant=True, bound=Async, default=Async)
Clip = float | None
NOISE = (EpsilonGreedy, ApexEpsilons, GaussianNoise, OUNoise, ApexNoise, RandomFirst)
"""Strategies that change actions, so that the log-probabilities of a stochastic policy would be wrong."""


@dataclass(frozen=True)
class Agent(Configured, Generic[Reads, Requires]):
    """Description of an agent: its loss, which decides the kind of policy, its network, how it is trained and how it explores."""

    loss: Loss[Reads, Requires]
    """The loss to minimise."""
    model: ModelLike = "auto"
    """The network: ``"auto"`` chooses by the observation space, ``MLP((64, 64))`` and the like describe one, a function builds
    your own."""
    optimizer: Optimizer | Mapping[str, Optimizer] = field(default_factory=Adam)
    """The optimiser, of all parts or a mapping by part."""
    max_grad_norm: Clip | Mapping[str, Clip] = None
    """Clip gradients to this norm, of each part or a mapping by part. None: no clipping."""
    exploration: Exploration | None = None
    """The exploration strategy; None samples from the policy alone."""
    normalize_obs: bool = False
    """Normalise observations by their running mean and standard deviation over all workers."""
    normalize_rewards: float | None = None
    """Divide rewards by the running standard deviation of discounted returns, with this discount factor. None: as they are."""
    sends: Literal["acting", "all"] = "acting"
    """Weights that workers are sent: of the parts that act, or of all, for those that compute TD errors or gradients."""

    def __post_init__(self) -> None:
        check_agent("Agent", self)

    @property
    def normalizes(self) -> bool:
        """True if it needs running statistics."""
        return self.normalize_obs or self.normalize_rewards is not None

    @property
    def network(self) -> ModelLike:
        """The model, with normalisation before it if it is asked for."""
        if not self.normalizes:
            return self.model
        return normalized(self.model, obs=self.normalize_obs, rewards=self.normalize_rewards is not None)

    def optimizer_of(self, part: str) -> Optimizer:
        """The optimiser of a part."""
        return self.optimizer[part] if isinstance(self.optimizer, Mapping) else self.optimizer

    def clip_of(self, part: str) -> Clip:
        """The largest gradient norm of a part."""
        return self.max_grad_norm.get(part) if isinstance(self.max_grad_norm, Mapping) else self.max_grad_norm


AnyAgent = Agent[Any, Any]  # Any: workers with several policies know the names of their agents, not the types of their losses
AnyLoss = Loss[Any, Any]  # Any: as above
USUAL_OPTIMIZER: Optimizer = Adam()


def agent_of(where: str, loss: AnyLoss, **options: Any) -> AnyAgent:  # Any: the other fields
    """An agent, whose errors begin with ``where``."""
    try:
        return Agent(loss, **options)
    except PlanError as error:
        raise PlanError(str(error).replace("Agent: ", f"{where}: ", 1)) from None


def check_agent(where: str, agent: AnyAgent) -> None:
    """Raise a ``PlanError`` that begins with ``where`` if an agent makes no sense."""
    loss, tried = agent.loss, agent.exploration
    check.instance(where, "the loss", loss, Loss, "a loss such as PPOLoss()")
    if type(loss).compute is Loss.compute and type(loss).losses is Loss.losses:
        raise PlanError(f"{where}: {type(loss).__name__} must define compute, or losses if it has several parts.")
    if not (agent.model == "auto" or callable(agent.model) or hasattr(agent.model, "build")):
        raise PlanError(
            f"{where}: model must be 'auto', a description such as MLP((64, 64)), or a function that builds your module; got "
            f"{agent.model!r}."
        )
    _check_memory(where, agent)
    critic_model = getattr(loss.policy(), "critic_model", None)
    if normalization_of(agent.model) is not None or (critic_model is not None and normalization_of(critic_model) is not None):
        raise PlanError(f"{where}: nobody would gather statistics for the model Normalized(...). Say normalize_obs=True instead.")
    if tried is not None and not hasattr(tried, "start"):
        raise PlanError(f"{where}: exploration must be an exploration strategy such as EpsilonGreedy(0.1); got {tried!r}.")
    if isinstance(tried, NOISE) and isinstance(loss.policy(), ActorCriticSpec):
        raise PlanError(
            f"{where}: {type(tried).__name__} is for off-policy learning. {type(loss).__name__} trains a stochastic policy, "
            "whose log-probabilities would be wrong. Leave out exploration=."
        )
    parts = tuple(loss.parts())
    for part, optimizer in agent.optimizer.items() if isinstance(agent.optimizer, Mapping) else [(parts[0], agent.optimizer)]:
        check.one_of(where, "each part in optimizer", part, parts)
        check.instance(where, "optimizer", optimizer, Optimizer, "an optimiser such as Adam(lr=3e-4)")
    missing = [part for part in parts if isinstance(agent.optimizer, Mapping) and part not in agent.optimizer]
    if missing:
        raise PlanError(
            f"{where}: optimizer has none for the part {' and '.join(missing)}. Give one for each of {', '.join(parts)}."
        )
    clips = agent.max_grad_norm
    for part, clip in clips.items() if isinstance(clips, Mapping) else [(parts[0], clips)]:
        check.one_of(where, "each part in max_grad_norm", part, parts)
        if clip is not None:
            check.positive(where, "max_grad_norm", clip)
    check.boolean(where, "normalize_obs", agent.normalize_obs)
    if agent.normalize_rewards is not None:
        if isinstance(agent.normalize_rewards, bool):
            raise PlanError(
                f"{where}: normalize_rewards is a discount factor such as 0.99, or None; got {agent.normalize_rewards}."
            )
        check.fraction(where, "normalize_rewards", agent.normalize_rewards)
    check.one_of(where, "sends", agent.sends, ("acting", "all"))


def _check_memory(where: str, agent: AnyAgent) -> None:
    loss, model = agent.loss, agent.model
    if isinstance(model, Memory) and replays(loss) and not replays_sequences(loss):
        raise PlanError(
            f"{where}: {type(loss).__name__} reads replayed rows, but a recurrent network is trained on sequences; got {model!r}."
            " Use R2D2Loss or RNNSACLoss, with create_replay_actors(kind='sequences')."
        )


def differences(one: AnyAgent, other: AnyAgent) -> list[str]:
    """Where two agents differ, in words: what the first has, then what the second has."""
    found = []
    for each in fields(one):
        mine, others = getattr(one, each.name), getattr(other, each.name)
        if not same(mine, others):
            found.append(f"{each.name}={_shortened(mine, others)} and {each.name}={_shortened(others, mine)}")
    return found


def same(one: object, other: object) -> bool:
    """True if two descriptions say the same. Without an equality of their own, their attributes decide."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)  # type: ignore[arg-type]  # of whatever they are
    if one == other:
        return True
    if type(one) is not type(other) or callable(one) or not hasattr(one, "__dict__"):
        return False
    if type(one).__eq__ is not object.__eq__ and not hasattr(one, "__dataclass_fields__"):
        return False
    mine, others = vars(one), vars(other)
    return mine.keys() == others.keys() and all(same(value, others[name]) for name, value in mine.items())


def _shortened(value: object, other: object) -> str:
    """A dataclass with just those fields in which it differs from another of its class."""
    if type(value) is not type(other) or not hasattr(value, "__dataclass_fields__"):
        return repr(value)
    names = [each.name for each in fields(value) if not same(getattr(value, each.name), getattr(other, each.name))]  # type: ignore[arg-type]  # see above
    said = ", ".join(f"{name}={_shortened(getattr(value, name), getattr(other, name))}" for name in names)
    return f"{type(value).__name__}({said})"
