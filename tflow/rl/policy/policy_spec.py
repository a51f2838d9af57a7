"""Kinds of policies, described: a loss says which it needs, workers and learners build it from the spaces of their env."""

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
    """A kind of policy with its options."""

    @abstractmethod
    def build(self, model: ModelLike, observation_space: AnySpace, action_space: AnySpace, device: Device) -> Policy:
        """Make the policy with fresh weights, drawn from torch's current random numbers."""


def make_policy(
    spec: PolicySpec,
    model: ModelLike,
    observation_space: AnySpace,
    action_space: AnySpace,
    *,
    seed: int = 0,
    device: Device = "cpu",
) -> Policy:
    """A policy whose fresh weights are a function of the seed."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed % 2**63)
        return spec.build(model, observation_space, action_space, device)


@dataclass(frozen=True)
class ActorCriticSpec(PolicySpec):
    """A distribution over actions and a value of the state."""

    shared: bool | Literal["auto"] = "auto"
    """One encoder for both. By itself: for pictures, whose encoders cost most, but not for anything else."""
    squash: bool = False
    """Continuous actions through a tanh, within the bounds of their space; otherwise they are clipped."""
    rescale: bool = False
    """The policy works in [-1, 1], whatever the bounds of the actions are (squashed ones always do)."""
    log_std: float = 0.0
    """Where the spread of continuous actions begins."""

    def build(self, model: ModelLike, observation_space: AnySpace, action_space: AnySpace, device: Device) -> Policy:
        from tflow.rl.policy.policy import ActorCritic

        return ActorCritic(self, model, observation_space, action_space, device)


@dataclass(frozen=True)
class QSpec(PolicySpec):
    """A value of each action; acts greedily, unless it explores."""

    dueling: bool = False
    kind: Literal["scalar", "categorical", "quantile"] = "scalar"
    atoms: int = 51
    v_min: float = -10.0
    v_max: float = 10.0
    noisy: bool = False

    def __post_init__(self) -> None:
        check.one_of("QSpec", "kind", self.kind, ("scalar", "categorical", "quantile"))
        check.whole("QSpec", "atoms", self.atoms, least=2)
        if not self.v_min < self.v_max:
            raise PlanError(f"QSpec: v_min must be below v_max, got {self.v_min} and {self.v_max}.")

    def build(self, model: ModelLike, observation_space: AnySpace, action_space: AnySpace, device: Device) -> Policy:
        from tflow.rl.policy.policy import QPolicy

        return QPolicy(self, model, observation_space, action_space, device)


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
