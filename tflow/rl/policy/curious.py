"""An actor-critic with what intrinsic rewards need: random network distillation, and values of the intrinsic returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch
from tflow.rl.data.moments import Moments
from tflow.rl.envs.spaces import ObsLayout
from tflow.rl.policy.flat import tensor
from tflow.rl.policy.network import Flat, RunningStatistics, scaled
from tflow.rl.policy.policy import ActorCritic
from tflow.rl.policy.policy_network import ActorCriticNet
from tflow.rl.policy.policy_spec import CuriousSpec

CLIP = 5.0
"""Of normalised observations."""
NOVELTY = "novelty"
"""The part of the weights that is not needed to act."""
ACTOR_CRITIC = "actor_critic"
"""The other part."""


class FrozenNet(nn.Module):
    """A network that is not trained: its weights are buffers, which are sent and saved with those of the others."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        for module in net.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                delattr(module, name)
                module.register_buffer(name, parameter.detach())
        self.net = net

    def forward(self, rows: Tensor) -> Tensor:
        found: Tensor = self.net(rows)
        return found


class Novelty(nn.Module):
    """Random network distillation (arXiv 1810.12894): a predictor is trained to give what a random network gives, and errs where
    it has not been. Beside it, the values of the returns of intrinsic rewards."""

    def __init__(self, inputs: int, width: int, features: int) -> None:
        super().__init__()
        self.seen = RunningStatistics("novelty/obs", (inputs,))
        self.returns = RunningStatistics("novelty/returns", (1,))
        self.target = FrozenNet(dense((inputs, width, width, features)))
        self.predictor = dense((inputs, width, width, width, features))
        self.critic = dense((inputs, width, width, 1))

    def errors(self, rows: Tensor) -> Tensor:
        """How far the predictor is from the target, of each row."""
        with torch.no_grad():
            wanted = self.target(rows)
        errors: Tensor = (self.predictor(rows) - wanted).square().mean(1)
        return errors

    def values(self, rows: Tensor) -> Tensor:
        """The values of intrinsic returns."""
        values: Tensor = self.critic(rows)
        return values.squeeze(1)

    def normalized(self, rows: Array) -> Array:
        """Observations as vectors, normalised by what was seen so far, and clipped."""
        mean, scale = self.seen.mean.cpu().numpy(), self.seen.scale.cpu().numpy()
        return np.asarray(np.clip((rows - mean) * scale, -CLIP, CLIP), np.float32)

    def observe(self, rows: Array) -> None:
        """Count observations for the statistics that normalise them."""
        merge(self.seen, rows)

    def count_returns(self, returns: Array) -> float:
        """Count intrinsic returns; what intrinsic rewards are multiplied with."""
        merge(self.returns, returns[:, None])
        return float(self.returns.scale)


def merge(statistics: RunningStatistics, rows: Array) -> None:
    """Add rows to running statistics."""
    before, now = statistics.moments(), Moments.of(rows)
    statistics.load(now if before is None else before.merged(now))


def dense(sizes: Sequence[int]) -> nn.Sequential:
    """Dense layers with an activation between each two."""
    layers: list[nn.Module] = []
    for size, following in pairwise(sizes):
        layers += [scaled(nn.Linear(size, following)), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def vectors(layout: ObsLayout, columns: Mapping[str, Array], name: str) -> Array:
    """A column of observations as vectors: parts one after the other, discrete ones one-hot, as neighbours need not be alike."""
    parts = [(Flat(leaf.space), columns[f"{name}/{leaf.name}" if leaf.name else name]) for leaf in layout.leaves]
    return np.concatenate([np.asarray(flat(tensor(part)).numpy()) for flat, part in parts], axis=1)


class CuriousNet(ActorCriticNet):
    """Actor and critic, and beside them what says how new an observation is."""

    novelty: Novelty


class CuriousActorCritic(ActorCritic):
    """An actor-critic that is trained with intrinsic rewards, too. Workers need only what acts."""

    def make_net(self) -> CuriousNet:
        net, spec = super().make_net(), cast("CuriousSpec", self.spec)
        inputs = sum(Flat(leaf.space).features for leaf in self.layout.leaves)
        net.add_module(NOVELTY, Novelty(inputs, spec.width, spec.features))
        return cast("CuriousNet", net)

    @property
    def novelty(self) -> Novelty:
        """What says how new an observation is."""
        return cast("CuriousNet", self.module).novelty

    @property
    def parts(self) -> Mapping[str, Sequence[str]]:
        names = [name for name, _ in (*self.module.named_children(), *self.module.named_parameters(recurse=False))]
        return {ACTOR_CRITIC: [name for name in names if name != NOVELTY], NOVELTY: [NOVELTY]}

    @property
    def acting(self) -> Sequence[str]:
        return (ACTOR_CRITIC,)

    @torch.inference_mode()
    def judged(self, reached: Array, left: Array, last: Array) -> tuple[Array, Array, Array]:
        """The errors of the predictor, the intrinsic values of other vectors, and those of the last ones."""
        given = [tensor(rows).to(self.device) for rows in (reached, left, last)]
        found = self.novelty.errors(given[0]), self.novelty.values(given[1]), self.novelty.values(given[2])
        errors, values, final_values = (np.asarray(each.cpu().numpy()) for each in found)
        return errors, values, final_values

    def vectors_of(self, batch: Batch[str], name: str = "obs") -> Array:
        """A column of observations as vectors."""
        return vectors(self.layout, batch.columns, name)
