"""Descriptions of encoders: the networks that turn observations into features.

They are frozen values, so they stand in plans and travel to actors; ``build`` makes the torch module where it is needed. A policy
takes ``model="auto"``, one of the descriptions below, or your own function (or module class) that is called with the observation
space and returns a module:

    class Mine(nn.Module):
        def __init__(self, observation_space):
            super().__init__()
            self.features = 32
            self.layer = nn.Linear(observation_space.shape[0], 32)

        def forward(self, obs):               # (rows, ...), in the dtype of the space; a dict for Dict and Tuple spaces
            return self.layer(obs).relu()     # (rows, features)

One with a parameter ``action_space`` is given the action space, too, by itself as well as inside ``LSTM`` or ``DictEncoder``:

    def make(observation_space, action_space):
        return Mine(observation_space) if isinstance(action_space, Discrete) else Other(observation_space)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from tflow.combinators import check
from tflow.combinators.labels import one_line
from tflow.errors import PlanError
from tflow.rl.elsewhere import Configured

if TYPE_CHECKING:
    from gymnasium import Space
    from torch import Tensor, nn

    from tflow.rl.policy.network import RecurrentEncoder

    AnySpace: TypeAlias = Space[Any]  # Any: what a space holds is known only at run time

Activation = Literal["tanh", "relu", "elu", "gelu", "silu", "leaky_relu"]
ACTIVATIONS: tuple[Activation, ...] = ("tanh", "relu", "elu", "gelu", "silu", "leaky_relu")


class Encoder(Protocol):
    """A torch module that maps observations, a tensor or a dictionary of them, rows first, to (rows, features)."""

    @property
    def features(self) -> int:
        """Size of the feature vector."""
        ...

    def __call__(self, obs: Tensor | dict[str, Tensor], /) -> Tensor:
        """Compute the features of observations, one row each."""
        ...


@runtime_checkable
class Model(Protocol):
    """A description of an encoder."""

    def build(self, observation_space: AnySpace, /) -> Encoder | RecurrentEncoder:
        """Make the module, with fresh weights from torch's current random state."""
        ...


class ForSpaces(Protocol):
    """A function, or a module class, that asks for the action space, too."""

    def __call__(self, observation_space: AnySpace, /, *, action_space: AnySpace) -> nn.Module:
        """Make the module, with fresh weights from torch's current random state."""
        ...


ModelLike: TypeAlias = 'Literal["auto"] | Model | Callable[[AnySpace], nn.Module] | ForSpaces'
"""What ``model=`` accepts."""


@dataclass(frozen=True)
class MLP(Configured):
    """Dense layers over the flattened observation. Discrete parts are one-hot encoded, bytes are scaled to [0, 1].

    The parts of a Dict or Tuple space are concatenated; images among them go through a CNN before.
    """

    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the hidden layers; usually one to three of 64 to 512. Larger: more capacity, slower."""
    activation: Activation = "tanh"
    """Activation function after each layer."""
    layer_norm: bool = False
    """Layer normalisation before each activation."""

    def __post_init__(self) -> None:
        _sizes("MLP", "hidden", self.hidden)
        check.one_of("MLP", "activation", self.activation, ACTIVATIONS)
        check.boolean("MLP", "layer_norm", self.layer_norm)

    def build(self, observation_space: AnySpace, /) -> Encoder:
        from tflow.rl.policy.network import MLPEncoder

        if is_compound(observation_space):
            return DictEncoder(joint=self).build(observation_space)
        return MLPEncoder(observation_space, self)


@dataclass(frozen=True)
class NatureCNN(Configured):
    """Three convolutions and a dense layer: the network of DQN in Nature (Mnih et al., 2015). Images of 36 by 36 or more."""

    features: int = 512
    """Size of the feature vector; usually 128 to 512. Larger: more capacity, slower."""

    def __post_init__(self) -> None:
        check.integer("NatureCNN", "features", self.features, least=1)

    def build(self, observation_space: AnySpace, /) -> Encoder:
        return _convolutional(self, "NatureCNN", observation_space, ((32, 8, 4), (64, 4, 2), (64, 3, 1)), self.features)


@dataclass(frozen=True)
class SmallCNN(Configured):
    """Two convolutions and a dense layer: the first network of DQN (Mnih et al., 2013). Images of 20 by 20 or more."""

    features: int = 256
    """Size of the feature vector; usually 128 to 512. Larger: more capacity, slower."""

    def __post_init__(self) -> None:
        check.integer("SmallCNN", "features", self.features, least=1)

    def build(self, observation_space: AnySpace, /) -> Encoder:
        return _convolutional(self, "SmallCNN", observation_space, ((16, 8, 4), (32, 4, 2)), self.features)


@dataclass(frozen=True)
class ImpalaCNN(Configured):
    """The residual network of IMPALA (Espeholt et al., 2018). Images of any size."""

    channels: tuple[int, ...] = (16, 32, 32)
    """Channels of each residual stage. More: more capacity, slower."""
    features: int = 256
    """Size of the feature vector; usually 128 to 512. Larger: more capacity, slower."""

    def __post_init__(self) -> None:
        _sizes("ImpalaCNN", "channels", self.channels)
        check.integer("ImpalaCNN", "features", self.features, least=1)

    def build(self, observation_space: AnySpace, /) -> Encoder:
        from tflow.rl.policy.network import ImpalaEncoder

        if is_compound(observation_space):
            return _with_images(self, self.features, observation_space)
        return ImpalaEncoder(observation_space, self.channels, self.features)


@dataclass(frozen=True)
class DictEncoder(Configured):
    """For Dict and Tuple spaces: an encoder for each part, then dense layers over the concatenated features.

    Nested parts are called "arm/position", those of a tuple "0", "1".
    """

    encoders: Mapping[str, ModelLike] = field(default_factory=dict)
    """A model for each part by name. For other parts, images get the ``"auto"`` CNN, the rest is flattened."""
    joint: MLP = field(default_factory=MLP)
    """Dense layers over the concatenated features."""

    def __post_init__(self) -> None:
        for model in self.encoders.values():
            if isinstance(model, Memory):
                name = type(model).__name__
                raise PlanError(
                    f"DictEncoder: {_a(name)} cannot encode a single part. Put it behind all of them: "
                    f"{name}(encoder=DictEncoder(...))."
                )

    def build(self, observation_space: AnySpace, /, action_space: AnySpace | None = None) -> Encoder:
        from tflow.rl.policy.network import CombinedEncoder, Flat

        if not is_compound(observation_space):
            raise PlanError(
                f"DictEncoder: needs a Dict or Tuple observation space, got {one_line(observation_space)}. Use MLP() or a CNN."
            )
        parts = parts_of(observation_space)
        unknown = [name for name in self.encoders if name not in parts]
        if unknown:
            raise PlanError(f"DictEncoder: there is no part {unknown[0]!r} in the observation space; it has {', '.join(parts)}.")
        encoders: dict[str, Encoder] = {}
        for name, space in parts.items():
            if name in self.encoders or is_image(space):
                encoders[name] = _feed_forward("DictEncoder", self.encoders.get(name, "auto"), space, action_space)
            else:
                encoders[name] = Flat(space)
        return CombinedEncoder(encoders, self.joint)


@dataclass(frozen=True)
class LSTM(Configured):
    """A recurrent network behind any encoder. Its state starts at zero in every episode."""

    size: int = 128
    """Size of the hidden state; usually 64 to 512. Larger: more memory, slower."""
    encoder: ModelLike = "auto"
    """The model before it."""
    length: int = 32
    """Steps per training sequence (truncated backpropagation through time); usually 16 to 128. Longer: longer dependencies,
    more compute."""

    def __post_init__(self) -> None:
        check.integer("LSTM", "size", self.size, least=1)
        check.integer("LSTM", "length", self.length, least=1)

    def build(self, observation_space: AnySpace, /, action_space: AnySpace | None = None) -> RecurrentEncoder:
        from tflow.rl.policy.network import Recurrent, RecurrentEncoder

        encoder = _feed_forward("LSTM", self.encoder, observation_space, action_space)
        return RecurrentEncoder(encoder, Recurrent(encoder.features, self.size))


@dataclass(frozen=True)
class GRU:
    """A recurrent network behind any encoder, with fewer weights than an LSTM. Its state starts at zero in every episode."""

    size: int = 128
    """Size of the hidden state; usually 64 to 512. Larger: more memory, slower."""
    encoder: ModelLike = "auto"
    """The model before it."""
    length: int = 32
    """Steps per training sequence (truncated backpropagation through time); usually 16 to 128. Longer: longer dependencies,
    more compute."""

    def __post_init__(self) -> None:
        check.integer("GRU", "size", self.size, least=1)
        check.integer("GRU", "length", self.length, least=1)

    def build(self, observation_space: AnySpace, /, action_space: AnySpace | None = None) -> RecurrentEncoder:
        from tflow.rl.policy.network import GatedRecurrent, RecurrentEncoder

        encoder = _feed_forward("GRU", self.encoder, observation_space, action_space)
        return RecurrentEncoder(encoder, GatedRecurrent(encoder.features, self.size))


@dataclass(frozen=True)
class GTrXL:
    """A gated transformer behind any encoder (arXiv 1910.06764): each step attends to the latest steps of its episode.

    Its recurrent state, which each row of a rollout carries, is the window of what its layers have seen: ``(layers * size + 1) *
    window`` numbers.
    """

    size: int = 64
    """Size of its features, a multiple of ``heads``; usually 64 to 256. Larger: more capacity, slower."""
    encoder: ModelLike = "auto"
    """The model before it."""
    length: int = 32
    """Steps per training sequence; usually 16 to 128. Longer: longer dependencies, more compute."""
    layers: int = 1
    """Layers; usually 1 to 4. Each lets it look ``window`` steps further back, at the cost of a larger state."""
    heads: int = 4
    """Attention heads; usually 1 to 8."""
    window: int = 32
    """Steps that each layer sees back; usually 16 to 128. Larger: longer memory, slower, a larger state."""

    def __post_init__(self) -> None:
        for name in ("size", "length", "layers", "heads", "window"):
            check.integer("GTrXL", name, getattr(self, name), least=1)
        if self.size % self.heads:
            raise PlanError(f"GTrXL: size must be a multiple of heads, got size={self.size} and heads={self.heads}.")

    def build(self, observation_space: AnySpace, /, action_space: AnySpace | None = None) -> RecurrentEncoder:
        from tflow.rl.policy.gtrxl import GatedTransformer
        from tflow.rl.policy.network import RecurrentEncoder

        encoder = _feed_forward("GTrXL", self.encoder, observation_space, action_space)
        memory = GatedTransformer(encoder.features, self.size, layers=self.layers, heads=self.heads, window=self.window)
        return RecurrentEncoder(encoder, memory)


Memory: TypeAlias = LSTM | GRU | GTrXL
"""Models with a recurrent state."""


@dataclass(frozen=True)
class Normalized:
    """Normalises observations by running statistics, before any encoder: to mean 0 and standard deviation 1, clipped.

    Images and discrete parts stay as they are. The statistics are part of the weights: learners merge them over all workers, and
    send and save them. An agent with ``normalize_obs`` has its model wrapped in this.
    """

    encoder: ModelLike = "auto"
    """The model behind it."""
    clip: float = 10.0
    """Normalised values are clipped to this absolute value; usually 5 to 10."""
    obs: bool = True
    """Normalise observations."""
    rewards: bool = False
    """Keep the standard deviation of returns, too, by which rewards are divided."""

    def __post_init__(self) -> None:
        check.positive("Normalized", "clip", self.clip)

    def build(self, observation_space: AnySpace, /, action_space: AnySpace | None = None) -> Encoder:
        encoder = _feed_forward("Normalized", self.encoder, observation_space, action_space)
        return self.around(encoder, observation_space)

    def around(self, encoder: Encoder, observation_space: AnySpace) -> Encoder:
        """An encoder with normalisation before it."""
        from tflow.rl.policy.network import NormalizedEncoder, normalizable

        parts = normalizable(observation_space) if self.obs else {}
        return NormalizedEncoder(encoder, parts, self.clip) if parts else encoder


def normalized(model: ModelLike, *, obs: bool, rewards: bool) -> ModelLike:
    """A model that normalises first. Recurrent ones do so before their encoder."""
    if isinstance(model, Memory):
        return replace(model, encoder=normalized(model.encoder, obs=obs, rewards=rewards))
    return Normalized(model, obs=obs, rewards=rewards)


def normalization_of(model: ModelLike) -> Normalized | None:
    """How a model normalises; None if it does not."""
    if isinstance(model, Memory):
        return normalization_of(model.encoder)
    return model if isinstance(model, Normalized) else None


def _a(name: str) -> str:
    return f"an {name}" if name[0] in "AEFHILMNORSX" else f"a {name}"


OURS = (MLP, NatureCNN, SmallCNN, ImpalaCNN, DictEncoder, LSTM, GRU, GTrXL, Normalized)


def automatic(observation_space: AnySpace) -> Model:
    """What ``model="auto"`` means: a CNN for images, DictEncoder for Dict and Tuple spaces, an MLP for anything else."""
    if is_compound(observation_space):
        return DictEncoder()
    if not is_image(observation_space):
        return MLP()
    return NatureCNN() if min(image_size(observation_space)) >= 36 else ImpalaCNN()


def build_encoder(
    model: ModelLike, observation_space: AnySpace, action_space: AnySpace | None = None
) -> Encoder | RecurrentEncoder:
    """Make the encoder of a model. Your own are tried on zeros first.

    Args:
        model: What ``model=`` accepts.
        observation_space: The space of what it encodes.
        action_space: For models that ask for it.
    """
    if model == "auto":
        return automatic(observation_space).build(observation_space)
    if isinstance(model, type) or not isinstance(model, Model):
        return plugged_in(model, observation_space, action_space)
    from tflow.rl.policy.network import RecurrentEncoder

    made: Encoder | RecurrentEncoder = model.build(observation_space, **asked_for(model.build, action_space))
    return made if isinstance(model, OURS) or isinstance(made, RecurrentEncoder) else tried_out(made, observation_space)


def _feed_forward(where: str, model: ModelLike, space: AnySpace, action_space: AnySpace | None = None) -> Encoder:
    from tflow.rl.policy.network import RecurrentEncoder

    encoder = build_encoder(model, space, action_space)
    if isinstance(encoder, RecurrentEncoder):
        name = type(model).__name__ if isinstance(model, Memory) else "recurrent model"
        raise PlanError(f"{where}: {_a(name)} cannot stand inside another model; put it outermost: LSTM(encoder=...).")
    return encoder


def _with_images(model: Model, features: int, space: AnySpace) -> Encoder:
    """Images through the CNN, then all parts through a dense layer of the same width."""
    images = {name: model for name, part in parts_of(space).items() if is_image(part)}
    if not images:
        raise PlanError(
            f"{type(model).__name__}: no part of the observation space is an image (uint8, 3 axes): {one_line(space)}. Use MLP()."
        )
    return DictEncoder(images, MLP((features,), "relu")).build(space)


def _convolutional(model: Model, name: str, space: AnySpace, layers: tuple[tuple[int, int, int], ...], features: int) -> Encoder:
    from tflow.rl.policy.network import ConvEncoder

    return _with_images(model, features, space) if is_compound(space) else ConvEncoder(name, space, layers, features)


# --------------------------------------------------------------------------- spaces


def is_compound(space: AnySpace) -> bool:
    """True for Dict and Tuple spaces."""
    from gymnasium import spaces

    return isinstance(space, (spaces.Dict, spaces.Tuple))


def parts_of(space: AnySpace) -> dict[str, AnySpace]:
    """The parts of a Dict or Tuple space by their flat names; any other space is one part without a name."""
    from tflow.rl.envs.spaces import ObsLayout

    return {leaf.name: leaf.space for leaf in ObsLayout(space).leaves}


def is_image(space: AnySpace) -> bool:
    """True for uint8 with three axes, channels (or stacked frames) first or last."""
    from gymnasium import spaces

    return isinstance(space, spaces.Box) and str(space.dtype) == "uint8" and len(space.shape) == 3


def channels_last(shape: tuple[int, ...]) -> bool:
    """True if the last axis, being the shorter one, has the channels."""
    return len(shape) == 3 and shape[-1] < shape[0]


def image_size(space: AnySpace) -> tuple[int, int]:
    """Height and width."""
    assert space.shape is not None
    height, width = space.shape[:2] if channels_last(space.shape) else space.shape[-2:]
    return height, width


# --------------------------------------------------------------------------- your own


ACTION_SPACE = "action_space"
"""The parameter by which a model asks for the action space."""


def asked_for(make: Callable[..., object], action_space: AnySpace | None) -> dict[str, Any]:  # Any: arguments
    """The action space as an argument, if a function or class has a parameter for it."""
    try:
        known = inspect.signature(make).parameters
    except (TypeError, ValueError):  # of C code, for instance
        return {}
    wanted = known.get(ACTION_SPACE)
    if wanted is None or wanted.kind not in (wanted.POSITIONAL_OR_KEYWORD, wanted.KEYWORD_ONLY):
        return {}
    if action_space is None and wanted.default is wanted.empty:
        raise PlanError(f"model: {_called(make)} asks for the action space, which is not known here; give it action_space=.")
    return {ACTION_SPACE: action_space}


def _called(make: object) -> str:
    return getattr(make, "__qualname__", None) or repr(make)


def _check_arguments(make: Callable[..., object], given: Mapping[str, object]) -> None:
    """Raise if a function or class needs more than the spaces."""
    try:
        signature = inspect.signature(make)
    except (TypeError, ValueError):  # as above
        return
    try:
        signature.bind(None, **given)
    except TypeError as error:
        raise PlanError(
            f"model: {_called(make)}{signature} cannot be called with the observation space: {error}. It is called with that, "
            f"and with the action space if it has a parameter {ACTION_SPACE}; functools.partial can give it the rest."
        ) from None


def plugged_in(make: object, space: AnySpace, action_space: AnySpace | None = None) -> Encoder:
    """Make a user's own encoder, from a function or a module class."""
    from torch import nn

    if isinstance(make, type) and issubclass(make, OURS):
        raise PlanError(f"model: got the class {make.__name__}; pass a value of it, {make.__name__}(...).")
    if isinstance(make, nn.Module):
        raise PlanError(
            f"model: got the module {type(make).__name__} itself. Pass a function of the observation space that makes it: "
            "workers and learners each need their own."
        )
    if not callable(make):
        raise PlanError(
            'model: expected "auto", a model such as MLP(), or a function of the observation space that returns a module, '
            f"got {make!r}."
        )
    given = asked_for(make, action_space)
    _check_arguments(make, given)
    return tried_out(make(space, **given), space)


def tried_out(module: object, space: AnySpace) -> Encoder:
    """A user's own encoder, after a trial on one and on two observations of zeros."""
    from torch import nn

    if not isinstance(module, nn.Module):
        raise PlanError(f"model: expected a torch module for {one_line(space)}, got {module!r}.")
    features = getattr(module, "features", None)
    if isinstance(features, bool) or not isinstance(features, int) or features < 1:
        raise PlanError(
            f"model: {type(module).__name__} must have an attribute features, the size of its feature vector; "
            f" it has {'none' if features is None else repr(features)}. Set self.features in __init__."
        )
    training = module.training
    module.eval()  # layers such as batch norm must not learn from zeros
    for rows in (1, 2):  # a lost row axis shows with one row, a fixed number of rows with two
        _try_out(module, features, space, rows)
    module.train(training)
    return module  # type: ignore[return-value]  # pyright: ignore[reportReturnType]  # the attribute was found above


def _try_out(module: nn.Module, features: int, space: AnySpace, rows: int) -> None:
    import torch

    name, given = type(module).__name__, "one observation" if rows == 1 else f"{rows} observations"
    try:
        with torch.no_grad():
            made = module(zero_observations(space, rows))
    except Exception as error:
        raise PlanError(
            f"model: {name} fails on {given} of zeros from {one_line(space)}: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, torch.Tensor) or made.shape != (rows, features):
        got = f"a tensor of shape {tuple(made.shape)}" if isinstance(made, torch.Tensor) else f"a {type(made).__name__}"
        raise PlanError(
            f"model: {name} must turn {given} into a tensor of shape {(rows, features)}, rows by features; it made {got}."
        )


def zero_observations(space: AnySpace, rows: int) -> Tensor | dict[str, Tensor]:
    """Observations of zeros, or of the first value of a discrete space."""
    import numpy as np
    import torch

    made = {
        name: torch.from_numpy(np.full((rows, *(part.shape or ())), getattr(part, "start", 0), part.dtype))
        for name, part in parts_of(space).items()
    }
    return made if is_compound(space) else made[""]


def _sizes(where: str, name: str, sizes: object) -> None:
    if not isinstance(sizes, tuple):
        raise PlanError(f"{where}: {name} must be a tuple of whole numbers such as (64, 64), got {sizes!r}.")
    for size in sizes:
        check.integer(where, f"each of {name}", size, least=1)
