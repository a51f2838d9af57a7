"""The torch modules that ``network_spec`` describes; ``policy_network`` puts policies on top.

Rows come first everywhere. Weights start orthogonal, scaled by the square root of 2 in hidden layers, and biases at zero, as is
usual for PPO. All are drawn from torch's current random state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from tflow.combinators.labels import one_line
from tflow.errors import PlanError
from tflow.rl.data.moments import Moments
from tflow.rl.policy.network_spec import MLP, Activation, Encoder, channels_last, image_size, is_image, parts_of

AnySpace = spaces.Space[Any]  # Any: what a space holds is known only at run time
TensorObs = Tensor | dict[str, Tensor]
Maybe = Tensor | None
AnyEncoder: TypeAlias = "Encoder | RecurrentEncoder"
ROOT_2 = math.sqrt(2)


class NumpyTanh(torch.autograd.Function):
    """tanh by numpy, whose kernel takes a seventh of the time of torch's (``make bench-where``)."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:  # Any: as torch declares it
        shown = torch.from_numpy(np.tanh(inputs[0].numpy()))
        ctx.save_for_backward(shown)
        return shown

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Tensor:  # Any: as torch declares it
        (shown,) = ctx.saved_tensors
        gradient: Tensor = torch.ops.aten.tanh_backward(gradients[0], shown)  # has a gradient itself
        return gradient


class Tanh(nn.Tanh):
    """tanh, by numpy where it can be: not while a policy is exported, nor under transforms such as ``torch.vmap``."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # as torch calls it
        plain = type(input) is Tensor and input.is_cpu and input.dtype is torch.float32
        traced = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]  # torch has no types for it
        if not plain or traced or torch._C._are_functorch_transforms_active():
            return torch.tanh(input)
        return cast("Tensor", NumpyTanh.apply(input))  # type: ignore[no-untyped-call]  # torch has no types for it


ACTIVATIONS: dict[Activation, type[nn.Module]]
ACTIVATIONS = {"tanh": Tanh, "relu": nn.ReLU, "elu": nn.ELU, "gelu": nn.GELU, "silu": nn.SiLU, "leaky_relu": nn.LeakyReLU}


def scaled(layer: nn.Linear | nn.Conv2d, gain: float = ROOT_2) -> nn.Module:
    """The layer, with orthogonal weights of this gain and zero biases."""
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


class Layers(nn.Sequential):
    """A Sequential without torch's overhead per module call, which takes much of the time of small networks."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # as torch calls it
        features = input
        for layer in self._modules.values():
            features = layer.forward(features)
        return features


def dense(inputs: int, layers: MLP) -> tuple[Layers, int]:
    """Dense layers, each followed by its activation, and the size of their output."""
    modules: list[nn.Module] = []
    for size, following in pairwise((inputs, *layers.hidden)):
        norm = [nn.LayerNorm(following)] if layers.layer_norm else []
        modules += [scaled(nn.Linear(size, following)), *norm, ACTIVATIONS[layers.activation]()]
    return Layers(*modules), (inputs, *layers.hidden)[-1]


def _floats(obs: Tensor) -> Tensor:
    return obs.to(torch.float32).mul_(1 / 255) if obs.dtype == torch.uint8 else obs.to(torch.float32)  # `obs / 255` is slow


# --------------------------------------------------------------------------- encoders


class Flat(nn.Module):
    """Flattens an observation into a float32 vector: discrete parts one-hot, bytes scaled to [0, 1]."""

    first: Tensor

    def __init__(self, space: AnySpace) -> None:
        super().__init__()
        self.discrete = isinstance(space, (spaces.Discrete, spaces.MultiDiscrete))
        if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
            sizes = np.ravel(space.n if isinstance(space, spaces.Discrete) else space.nvec)
            first = np.cumsum(sizes) - sizes - np.ravel(space.start)  # where each part begins in the vector that they share
            self.register_buffer("first", torch.as_tensor(first, dtype=torch.int64), persistent=False)
            self.features = int(sizes.sum())
        elif isinstance(space, (spaces.Box, spaces.MultiBinary)):
            self.features = math.prod(space.shape)
        else:
            raise PlanError(f"model: no model fits the observation space {one_line(space)}; turn it into a Box with a wrapper.")

    def forward(self, obs: Tensor) -> Tensor:
        if not self.discrete:
            return _floats(obs).reshape(obs.shape[0], self.features)  # len(obs) would be a constant in an exported policy
        hot = torch.zeros(obs.shape[0], self.features, device=obs.device)
        return hot.scatter_(1, obs.reshape(obs.shape[0], -1).long() + self.first, 1.0)


class MLPEncoder(nn.Module):
    """Dense layers over the flat observation."""

    def __init__(self, space: AnySpace, layers: MLP) -> None:
        super().__init__()
        self.flat = Flat(space)
        self.layers, self.features = dense(self.flat.features, layers)

    def forward(self, obs: Tensor) -> Tensor:
        return self.layers.forward(self.flat.forward(obs))


class ImageEncoder(nn.Module):
    """Convolutions, then one dense layer. Derived classes say which."""

    def __init__(self, name: str, space: AnySpace, features: int) -> None:
        super().__init__()
        if not isinstance(space, spaces.Box) or len(space.shape) not in (2, 3):
            raise PlanError(f"{name}: needs images, a Box with 2 or 3 axes, got {one_line(space)}. Use MLP().")
        self.features, self.size, self.last = features, image_size(space), channels_last(space.shape)
        self.channels = 1 if len(space.shape) == 2 else space.shape[-1] if self.last else space.shape[0]

    def finish(self, layers: Sequence[nn.Module]) -> None:
        """Add the convolutions, and a dense layer over their flattened output."""
        convolutions = nn.Sequential(*layers, nn.Flatten())
        with torch.no_grad():
            width = convolutions(torch.zeros(1, self.channels, *self.size)).shape[1]
        self.layers = nn.Sequential(convolutions, scaled(nn.Linear(width, self.features)), nn.ReLU())

    def forward(self, obs: Tensor) -> Tensor:
        images = obs.unsqueeze(1) if obs.dim() == 3 else obs.permute(0, 3, 1, 2) if self.last else obs
        together = images.contiguous(memory_format=torch.channels_last)  # this memory format saves a quarter of the time
        features: Tensor = self.layers(_floats(together))
        return features


class ConvEncoder(ImageEncoder):
    """Convolutions (channels, kernel, stride) with ReLU."""

    def __init__(self, name: str, space: AnySpace, layers: Sequence[tuple[int, int, int]], features: int) -> None:
        super().__init__(name, space, features)
        least = 1
        for _, kernel, stride in reversed(layers):
            least = (least - 1) * stride + kernel
        if min(self.size) < least:
            given = " by ".join(map(str, self.size))
            raise PlanError(f"{name}: needs images of at least {least} by {least}, got {given}. Use ImpalaCNN() or MLP().")
        modules: list[nn.Module] = []
        for before, (after, kernel, stride) in zip((self.channels, *(layer[0] for layer in layers)), layers, strict=False):
            modules += [scaled(nn.Conv2d(before, after, kernel, stride)), nn.ReLU()]
        self.finish(modules)


class Residual(nn.Module):
    """A residual block of two convolutions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        first, second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        # With a small second convolution it starts near the identity; else features would grow from block to block.
        self.layers = nn.Sequential(nn.ReLU(), scaled(first), nn.ReLU(), scaled(second, 0.2))

    def forward(self, images: Tensor) -> Tensor:
        changed: Tensor = images + self.layers(images)
        return changed


class ImpalaEncoder(ImageEncoder):
    """Per stage: a convolution, max pooling that halves the image, two residual blocks."""

    def __init__(self, space: AnySpace, channels: Sequence[int], features: int) -> None:
        super().__init__("ImpalaCNN", space, features)
        modules: list[nn.Module] = []
        for before, after in pairwise((self.channels, *channels)):
            modules += [scaled(nn.Conv2d(before, after, 3, padding=1)), nn.MaxPool2d(3, stride=2, padding=1)]
            modules += [Residual(after), Residual(after)]
        self.finish([*modules, nn.ReLU()])


class CombinedEncoder(nn.Module):
    """An encoder per part of a Dict observation, then dense layers over the concatenated features."""

    def __init__(self, encoders: Mapping[str, Encoder], joint: MLP) -> None:
        super().__init__()
        self.names = tuple(encoders)  # a ModuleDict would forbid some names
        self.encoders = nn.ModuleList(encoder for encoder in encoders.values() if isinstance(encoder, nn.Module))
        self.joint, self.features = dense(sum(encoder.features for encoder in encoders.values()), joint)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        parts = [encoder(obs[name]) for name, encoder in zip(self.names, self.encoders, strict=True)]
        features: Tensor = self.joint(torch.cat(parts, 1))
        return features


LEAST_VARIANCE = 1e-8
"""Added to what is divided by."""


class RunningStatistics(nn.Module):
    """Mean and standard deviation of a column, set from the moments that workers have gathered."""

    mean: Tensor
    scale: Tensor
    count: Tensor

    def __init__(self, column: str, shape: Sequence[int]) -> None:
        super().__init__()
        self.column = column
        self.register_buffer("mean", torch.zeros(tuple(shape)))
        self.register_buffer("scale", torch.ones(tuple(shape)))
        self.register_buffer("count", torch.zeros(1))

    def load(self, moments: Moments) -> None:
        """Take over moments. ``scale`` is 1 over the standard deviation."""
        with torch.no_grad():
            self.mean.copy_(torch.from_numpy(np.array(moments.mean)))
            self.scale.copy_(torch.as_tensor(1 / np.sqrt(moments.variance + LEAST_VARIANCE)))
            self.count.fill_(moments.count)

    def moments(self) -> Moments | None:
        """The moments that it was set from, up to rounding; None if there were none."""
        count, mean, scale = int(self.count), *(each.cpu().numpy().astype(np.float64) for each in (self.mean, self.scale))
        return Moments(count, mean, count * np.maximum(1 / scale**2 - LEAST_VARIANCE, 0.0)) if count else None


def normalizable(space: AnySpace) -> dict[str, spaces.Box]:
    """The parts of an observation that are normalised: vectors, not images or discrete parts."""
    return {name: part for name, part in parts_of(space).items() if isinstance(part, spaces.Box) and not is_image(part)}


class NormalizedEncoder(nn.Module):
    """Normalises observations by running statistics, then encodes them."""

    def __init__(self, encoder: Encoder, parts: Mapping[str, spaces.Box], clip: float) -> None:
        super().__init__()
        self.encoder, self.features, self.clip = encoder, encoder.features, clip
        self.names = tuple(parts)
        columns = [f"obs/{name}" if name else "obs" for name in parts]
        shapes = [part.shape for part in parts.values()]
        self.statistics = nn.ModuleList(RunningStatistics(*each) for each in zip(columns, shapes, strict=True))

    def forward(self, obs: TensorObs) -> Tensor:
        if isinstance(obs, dict):
            named = zip(self.names, self.statistics, strict=True)
            return self.encoder({**obs, **{name: self.normal(obs[name], each) for name, each in named}})
        return self.encoder(self.normal(obs, self.statistics[0]))

    def normal(self, values: Tensor, statistics: nn.Module) -> Tensor:
        """Values with mean 0 and standard deviation 1."""
        assert isinstance(statistics, RunningStatistics)
        return ((values.to(torch.float32) - statistics.mean) * statistics.scale).clamp(-self.clip, self.clip)


# --------------------------------------------------------------------------- recurrent


class Recurrent(nn.Module):
    """An LSTM over sequences in which episodes may start anywhere.

    The state is one tensor (rows, 2 * size): hidden state, then cell state. So it can be a column of a batch.
    """

    def __init__(self, features: int, size: int) -> None:
        super().__init__()
        self.features, self.state_size = size, 2 * size
        self.lstm = nn.LSTM(features, size, batch_first=True)
        initialize(self.lstm)

    def forward(self, features: Tensor, state: Maybe = None, resets: Maybe = None) -> tuple[Tensor, Tensor]:
        """(sequences, length, features) and the state before them: (sequences, length, size) and the state after them.

        ``resets`` (sequences, length) is True at the first step of an episode: the state is zeroed there.
        """
        sequences, length, _ = features.shape
        if state is None:
            state = features.new_zeros(sequences, self.state_size)
        if resets is None:
            return self._run(features, state)
        # Runs of steps in which no episode starts go through the cells at once.
        begins = resets.any(0)
        begins[0] = True
        starts = [*begins.nonzero().flatten().tolist(), length]
        shown = []
        for start, stop in pairwise(starts):
            made, state = self._run(features[:, start:stop], state.masked_fill(resets[:, start, None], 0))
            shown.append(made)
        return (shown[0] if len(shown) == 1 else torch.cat(shown, 1)), state

    def _run(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        if features.shape[1] == 1:  # one step: a cell has less to set up
            hidden, cell = torch.lstm_cell(features[:, 0], state.chunk(2, 1), *self.lstm.all_weights[0])
            return hidden.unsqueeze(1), torch.cat((hidden, cell), 1)
        hidden, cell = (part.unsqueeze(0).contiguous() for part in state.chunk(2, 1))
        shown, (hidden, cell) = self.lstm(features, (hidden, cell))
        return shown, torch.cat((hidden[0], cell[0]), 1)


class GatedRecurrent(Recurrent):
    """A GRU over sequences. The state is its hidden state (rows, size)."""

    def __init__(self, features: int, size: int) -> None:
        nn.Module.__init__(self)
        self.features = self.state_size = size
        self.gru = nn.GRU(features, size, batch_first=True)
        initialize(self.gru)

    def _run(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        if features.shape[1] == 1:
            hidden = torch.gru_cell(features[:, 0], state, *self.gru.all_weights[0])
            return hidden.unsqueeze(1), hidden
        shown, hidden = self.gru(features, state.unsqueeze(0).contiguous())
        return shown, hidden[0]


def initialize(cells: nn.RNNBase) -> None:
    """Orthogonal weights and zero biases."""
    for name, parameter in cells.named_parameters():
        nn.init.zeros_(parameter) if "bias" in name else nn.init.orthogonal_(parameter)


class Memory(Protocol):
    """What stands behind the encoder in a recurrent network: a module with a state."""

    @property
    def features(self) -> int:
        """Size of its output."""
        ...

    @property
    def state_size(self) -> int:
        """Size of its state. A state of zeros is that at the start of an episode."""
        ...

    def __call__(self, features: Tensor, state: Maybe, resets: Maybe, /) -> tuple[Tensor, Tensor]:
        """(sequences, length, features), and the state before: (sequences, length, size), and the state after."""
        ...


class RecurrentEncoder(nn.Module):
    """An encoder followed by a memory."""

    def __init__(self, encoder: Encoder, memory: Memory) -> None:
        super().__init__()
        self.encoder, self.memory = encoder, memory
        self.features, self.state_size = memory.features, memory.state_size

    def forward(self, obs: TensorObs, state: Maybe = None, resets: Maybe = None, burn_in: Maybe = None) -> tuple[Tensor, Tensor]:
        """Features of all rows, and the state after them.

        With ``resets`` (sequences, length) the rows are whole sequences, one after the other. With ``resets`` (rows,), or none,
        each row is one step of its own. ``burn_in`` (sequences, length) is True for the first steps of some sequences, which only
        warm up the state: no gradient reaches them.
        """
        features = self.encoder(obs)
        if resets is not None and resets.dim() == 1:
            resets = resets.unsqueeze(1)
        sequences, length = (features.shape[0], 1) if resets is None else resets.shape
        steps = features.reshape(sequences, length, -1)
        warm = 0 if burn_in is None else int(burn_in.any(0).sum())
        if burn_in is None or resets is None or not 0 < warm < length:
            shown, after = self.memory(steps, state, resets)
            return shown.flatten(0, 1), after
        first, between = self.memory(steps[:, :warm], state, resets[:, :warm])
        between = torch.where(burn_in[:, :warm].any(1, keepdim=True), between.detach(), between)
        rest, after = self.memory(steps[:, warm:], between, resets[:, warm:])
        return torch.cat((first, rest), 1).flatten(0, 1), after


def encode(encoder: AnyEncoder, obs: TensorObs, state: Maybe, resets: Maybe, burn_in: Maybe = None) -> tuple[Tensor, Maybe]:
    """Features and the next state, which is None unless the encoder is recurrent."""
    if isinstance(encoder, RecurrentEncoder):
        features, after = encoder(obs, state, resets, burn_in)
        return features, after
    return encoder(obs), None


def with_layer_norm(encoder: AnyEncoder) -> AnyEncoder:
    """An encoder, with layer normalisation before each activation that follows a dense layer or a convolution in a sequence of
    layers."""
    for sequence in [each for each in nn.ModuleList([cast("nn.Module", encoder)]).modules() if isinstance(each, nn.Sequential)]:
        layers = list(sequence)
        normalised: list[nn.Module] = []
        for layer, following in zip(layers, [*layers[1:], None], strict=True):
            normalised.append(layer)
            if isinstance(following, tuple(ACTIVATIONS.values())):
                if isinstance(layer, nn.Linear):
                    normalised.append(nn.LayerNorm(layer.out_features))
                elif isinstance(layer, nn.Conv2d):
                    normalised.append(nn.GroupNorm(1, layer.out_channels))
        sequence._modules.clear()  # a Sequential has no other way to insert several
        sequence.extend(normalised)
    return encoder


def state_size_of(encoder: AnyEncoder) -> int:
    """Size of the recurrent state; 0 if it is not recurrent."""
    return encoder.state_size if isinstance(encoder, RecurrentEncoder) else 0


def sees_images(encoder: AnyEncoder) -> bool:
    """True if most of its work is convolutions."""
    while isinstance(encoder, (RecurrentEncoder, NormalizedEncoder)):
        encoder = encoder.encoder
    return isinstance(encoder, ImageEncoder)
