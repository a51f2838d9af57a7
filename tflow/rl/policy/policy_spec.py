"""Descriptions of policies: a loss says which it needs, workers and learners build it for the spaces of their env."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tflow.combinators import check
from tflow.errors import PlanError

if TYPE_CHECKING:
    from tflow.rl.policy.network_spec import AnySpace, ModelLike
    from tflow.rl.policy.policy import Policy

Device = str
"""A torch device, or "auto": a GPU if there is one."""


@dataclass(frozen=True)
class PolicySpec(ABC):
    """Description of a policy."""

    @abstractmethod
    def build(self, model: ModelLike, observation_space: AnySpace, action_space: AnySpace, device: Device) -> Policy:
        """Make the policy, with fresh weights from torch's current random state."""


def make_policy(
    spec: PolicySpec,
    model: ModelLike,
    observation_space: AnySpace,
    action_space: AnySpace,
    *,
    seed: int = 0,
    device: Device = "cpu",
) -> Policy:
    """Make a policy with initial weights by the seed."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed % 2**63)
        return spec.build(model, observation_space, action_space, device)


@dataclass(frozen=True)
class ActorCriticSpec(PolicySpec):
    """An actor-critic: an action distribution and a state value."""

    shared: bool | Literal["auto"] = "auto"
    """Share one encoder between actor and critic. ``"auto"`` does so for images, whose encoders are expensive."""
    squash: bool = False
    """Squash continuous actions into their bounds by tanh; otherwise they are clipped."""
    rescale: bool = False
    """Rescale continuous actions from [-1, 1] to the bounds of the space; squashed ones always are."""
    log_std: float = 0.0
    """Initial log standard deviation of continuous actions; usually -2 to 0. Larger: more exploration at first."""

    def build(self, model: ModelLike, observation_space: AnySpace, action_space: AnySpace, device: Device) -> Policy:
        from tflow.rl.policy.policy import ActorCritic

        return ActorCritic(self, model, observation_space, action_space, device)


@dataclass(frozen=True)
class CuriousSpec(ActorCriticSpec):
    """An actor-critic with what intrinsic rewards need: random network distillation, and values of the intrinsic returns."""

    width: int = 128
    """Units per hidden layer of these networks; usually 64 to 512."""
    features: int = 64
    """Outputs of the random network, which are predicted; usually 32 to 512."""

    def __post_init__(self) -> None:
        check.integer("CuriousSpec", "width", self.width, least=1)
        check.integer("CuriousSpec", "features", self.features, least=1)

    def build(self, model: ModelLike, observation_space: AnySpace, action_space: AnySpace, device: Device) -> Policy:
        from tflow.rl.policy.curious import CuriousActorCritic

        return CuriousActorCritic(self, model, observation_space, action_space, device)


@dataclass(frozen=True)
class QSpec(PolicySpec):
    """A Q-network, which acts greedily unless it explores."""

    dueling: bool = False
    """Dueling network: separate streams for the state value and the advantages of actions."""
    kind: Literal["scalar", "categorical", "quantile"] = "scalar"
    """Q-values (scalar), or distributions: C51 (categorical), QR-DQN (quantile)."""
    atoms: int = 51
    """Atoms of the distribution; usually 51 to 200."""
    v_min: float = -10.0
    """Smallest return in the support of a categorical distribution."""
    v_max: float = 10.0
    """Largest return in the support of a categorical distribution."""
    noisy: bool = False
    """Noisy layers after the encoder."""
    layer_norm: bool = False
    """Layer normalisation before each activation of the encoder."""

    def __post_init__(self) -> None:
        check.one_of("QSpec", "kind", self.kind, ("scalar", "categorical", "quantile"))
        check.integer("QSpec", "atoms", self.atoms, least=2)
        if not self.v_min < self.v_max:
            raise PlanError(f"QSpec: v_min must be below v_max, got {self.v_min} and {self.v_max}.")

    def build(self, model: ModelLike, observation_space: AnySpace, action_space: AnySpace, device: Device) -> Policy:
        from tflow.rl.policy.policy import QPolicy

        return QPolicy(self, model, observation_space, action_space, device)


@dataclass(frozen=True)
class ActorQSpec(PolicySpec):
    """An actor and Q-functions of observations and actions, as in SAC and TD3. For discrete actions they give all Q-values."""

    deterministic: bool = False
    """Deterministic actor, as in DDPG and TD3; otherwise a squashed Gaussian, or a categorical one for discrete actions."""
    critics: int = 2
    """Q-functions, computed together; usually 1 to 10."""
    quantiles: int = 1
    """Quantiles of the return that each Q-function predicts, as in TQC; 1 is the mean, usually 25 otherwise."""
    temperature: float | None = None
    """Initial temperature, which is then learned (SAC). None: it has none."""
    critic_model: ModelLike | None = None
    """The network of the Q-functions; None takes that of the actor."""
    dropout: float = 0.0
    """Dropout probability in the Q-functions, as in DroQ; usually 0 to 0.1."""
    layer_norm: bool = False
    """Layer normalisation in the Q-functions, as in DroQ."""
    batch_renorm: bool = False
    """Batch renormalisation in actor and Q-functions, as in CrossQ."""
    sde: bool = False
    """State-dependent exploration: noise that is a function of the features, and stays the same for ``sde_every`` steps."""
    sde_every: int = 64
    """Steps between draws of the noise of state-dependent exploration; usually 4 to 64. Larger: smoother actions."""

    def __post_init__(self) -> None:
        check.integer("ActorQSpec", "critics", self.critics, least=1)
        check.integer("ActorQSpec", "quantiles", self.quantiles, least=1)
        check.integer("ActorQSpec", "sde_every", self.sde_every, least=1)
        if self.temperature is not None:
            check.positive("ActorQSpec", "temperature", self.temperature)
        if not 0 <= self.dropout < 1:
            raise PlanError(f"ActorQSpec: dropout is a probability below 1, got {self.dropout}.")
        if self.sde and (self.deterministic or self.batch_renorm):
            raise PlanError(
                "ActorQSpec: sde=True needs a stochastic actor without batch renormalisation; CrossQ and TD3 have none."
            )
        if not self.sde and self.sde_every != ActorQSpec.sde_every:
            raise PlanError("ActorQSpec: sde_every= is for state-dependent exploration; say sde=True, too, or leave it out.")

    def build(self, model: ModelLike, observation_space: AnySpace, action_space: AnySpace, device: Device) -> Policy:
        from tflow.rl.policy.actor_q import ActorQ

        return ActorQ(self, model, observation_space, action_space, device)


def chosen_device(device: Device) -> str:
    """The device that "auto" means here."""
    import torch

    if device != "auto":
        try:
            torch.empty(0, device=device)
        except Exception as error:  # what it is depends on the device and on how torch was built
            reason = str(error).partition("\n")[0].rstrip(".")
            raise PlanError(
                f"device {device!r} cannot be used here: {reason}. Say 'cpu', or 'auto' for whatever there is."
            ) from None
        return device
    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
