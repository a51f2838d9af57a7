"""Acting with small dense networks, computed by numpy: calling torch costs more than what such a network computes.

Which networks and how many rows is a matter of their description and shape alone, never of timing, so that a policy acts the same
on every runtime and after every restart. Losses and large batches go through torch, whose sums may differ in the last bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple, cast

import numpy as np
from torch import Tensor, nn

from tflow.rl.data.arrays import Array, Obs
from tflow.rl.policy.network import Flat, Layers, MLPEncoder, NormalizedEncoder, RunningStatistics, Tanh

MOST_PRODUCTS = 2**18
"""Multiplications of a layer. With more, matrix products of numpy take threads of their own, and torch costs little."""
ACTIVATIONS: dict[type[nn.Module], Callable[[Array], object]] = {
    Tanh: lambda features: np.tanh(features, out=features),
    nn.ReLU: lambda features: np.maximum(features, np.float32(0), out=features),
}


class Dense(NamedTuple):
    """One layer, over the memory of the module's weights."""

    weights: Array
    """(inputs, outputs)"""
    bias: Array
    activation: Callable[[Array], object] | None


class Normal(NamedTuple):
    """Normalisation by running statistics, over their memory."""

    mean: Array
    scale: Array
    clip: np.float32


class SmallNet:
    """Dense layers, some of which follow all others: the heads. Observations may be normalised before."""

    def __init__(self, normal: Normal | None, body: list[Dense], heads: list[Dense], features: int, memory: list[Tensor]) -> None:
        self.normal, self.body, self.heads, self.features = normal, body, heads, features
        self.memory, self.addresses = memory, [each.data_ptr() for each in memory]
        self.most_rows = MOST_PRODUCTS // max(layer.weights.size for layer in (*body, *heads))

    @classmethod
    def of(cls, encoder: nn.Module, *heads: nn.Module) -> SmallNet | None:
        """The same as these modules; None if they are of another kind."""
        memory: list[Tensor] = [*islice(encoder.parameters(), 1)]
        normal, plain = None, cast("object", encoder)
        if type(encoder) is NormalizedEncoder and encoder.names == ("",):
            statistics = encoder.statistics[0]
            assert isinstance(statistics, RunningStatistics)
            if statistics.mean.device.type == "cpu":
                mean, scale = (each.numpy().reshape(-1) for each in (statistics.mean, statistics.scale))
                normal, plain = Normal(mean, scale, np.float32(encoder.clip)), encoder.encoder
                memory.append(statistics.mean)
        if type(plain) is not MLPEncoder or type(plain.flat) is not Flat or plain.flat.discrete:
            return None
        body, ends = dense_layers(plain.layers), [dense_layers(head) for head in heads]
        if not body or any(not end or len(end) > 1 or end[0].activation is not None for end in ends):
            return None
        return cls(normal, body, [end[0] for end in ends if end], plain.flat.features, memory)

    @property
    def is_current(self) -> bool:
        """True if all is still in the memory that it reads; weights move together, and so do statistics."""
        return [each.data_ptr() for each in self.memory] == self.addresses

    def fits(self, obs: Obs) -> bool:
        """True if it computes observations of this shape and type."""
        return isinstance(obs, np.ndarray) and obs.dtype.kind == "f" and len(obs) <= self.most_rows

    def __call__(self, obs: Obs) -> list[Array]:
        """The output of each head."""
        assert isinstance(obs, np.ndarray)
        features = obs.reshape(len(obs), self.features).astype(np.float32, copy=False)
        if self.normal is not None:
            features = (features - self.normal.mean) * self.normal.scale
            np.maximum(features, -self.normal.clip, out=features)
            np.minimum(features, self.normal.clip, out=features)
        for layer in self.body:
            features = np.matmul(features, layer.weights)
            features += layer.bias
            if layer.activation is not None:
                layer.activation(features)
        return [np.matmul(features, head.weights) + head.bias for head in self.heads]


def dense_layers(module: nn.Module) -> list[Dense] | None:
    """Dense layers with activations that numpy has; None if there is anything else."""
    found: list[Dense] = []
    for each in parts_of(module):
        activation = ACTIVATIONS.get(type(each))
        if (
            type(each) is nn.Linear
            and all(part.device.type == "cpu" for part in each.parameters())
            and "bias" in each.state_dict()
        ):
            found.append(Dense(each.weight.detach().numpy().T, each.bias.detach().numpy(), None))
        elif activation is not None and found and found[-1].activation is None:
            found[-1] = found[-1]._replace(activation=activation)
        else:
            return None
    return found


def parts_of(module: nn.Module) -> Iterable[nn.Module]:
    """The members of a sequence, or the module itself."""
    return list(module) if isinstance(module, nn.Sequential) and type(module) in (Layers, nn.Sequential) else [module]
