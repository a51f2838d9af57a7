"""SAC with a part of its own: a model of the dynamics, whose prediction error is a reward for exploration (arXiv 1705.05363).

The weights of an agent have parts: here ``dynamics``, beside SAC's critics, actor and temperature. Each has its own loss,
optimiser and update period, and the gradient of a loss reaches its part only. Workers are sent the actor alone, as in SAC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from gymnasium.spaces import Space, flatdim
from torch import Tensor, nn
from typing_extensions import override

from tflow import Async, Policy, Stop, Tensors
from tflow.algos import SAC
from tflow.losses import Loss, LossValue, Part, Replayed, SACLoss
from tflow.models import MLP, ActorQSpec
from tflow.optimizers import Adam, Optimizer
from tflow.rl.learning.actor_q_losses import Losses
from tflow.rl.policy.actor_q import ActorQ, ActorQNet
from tflow.rl.policy.network_spec import ModelLike

AnySpace = Space[Any]  # Any: what a space holds is known only at run time


class Curious(ActorQ):
    """An actor and Q-functions, and a model of the dynamics."""

    @override
    def make_net(self) -> ActorQNet:
        net, size = super().make_net(), flatdim(self.observation_space)
        net.add_module("dynamics", nn.Sequential(nn.Linear(size + self.head.form.size, 64), nn.ReLU(), nn.Linear(64, size)))
        return net

    @property
    @override
    def parts(self) -> Mapping[str, Sequence[str]]:
        return {**super().parts, "dynamics": ["dynamics"]}  # of the children of the network

    def surprise(self, batch: Tensors) -> Tensor:
        """The squared error of the predicted change of the observation, per row."""
        change = self.net.get_submodule("dynamics")(torch.cat((batch["obs"], batch["actions"]), -1))
        error: Tensor = batch["obs"] + change - batch["next_obs"]
        return error.square().mean(-1)


@dataclass(frozen=True)
class CuriousSpec(ActorQSpec):
    """Describes such a policy, with the options of SAC's."""

    @override
    def build(self, model: ModelLike, observation_space: AnySpace, action_space: AnySpace, device: str) -> Policy:
        return Curious(self, model, observation_space, action_space, device)


@dataclass(frozen=True)
class CuriousLoss(SACLoss):
    """SAC's losses, with a bonus in the TD targets, and that of the dynamics."""

    bonus_coef: float = 1.0

    @override
    def parts(self) -> Mapping[str, Part]:
        return {**super().parts(), "dynamics": Part(every=2)}

    @override
    def losses(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> Losses:
        assert isinstance(policy, Curious)
        found = super().losses(policy, batch, target=target, steps=steps)
        return {**found, "dynamics": lambda: LossValue(batch.mean(policy.surprise(batch)), {})}

    @override
    def td_targets(self, policy: ActorQ, target: ActorQ, batch: Tensors) -> Tensor:
        assert isinstance(policy, Curious)
        with torch.no_grad():
            return super().td_targets(policy, target, batch) + self.bonus_coef * policy.surprise(batch)


@dataclass(frozen=True, kw_only=True)
class CuriousSAC(SAC):
    """SAC with two fields more."""

    bonus_coef: float = 1.0
    dynamics_lr: float = 1e-3

    @override
    def spec(self) -> ActorQSpec:
        return CuriousSpec(**vars(super().spec()))

    @override
    def loss(self) -> Loss[Replayed, Async]:
        return CuriousLoss(**vars(super().loss()), bonus_coef=self.bonus_coef)

    @override
    def optimizer(self) -> Mapping[str, Optimizer]:
        return {**super().optimizer(), "dynamics": Adam(lr=self.dynamics_lr)}


def main(env_steps: int = 600) -> list[dict[str, float]]:
    """Train on Pendulum, and return the losses of all parts: the first ones, and the last."""
    config = CuriousSAC(model=MLP((64, 64), "relu"), batch=64)
    print(config.plan(), end="\n\n")
    latest = [metrics.training.latest for metrics in config.run(stop=Stop(env_steps=env_steps))]
    found = [{part: stats[f"{part}_loss"] for part in config.loss().parts()} for stats in latest if "dynamics_loss" in stats]
    for part, first in found[0].items():
        print(f"loss of {part:11} {first:8.3f} at first, {found[-1][part]:8.3f} in the end")
    return [found[0], found[-1]]


if __name__ == "__main__":
    main()
