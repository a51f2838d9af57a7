"""Policies with an actor and Q-functions: what SAC, TD3 and their relatives train. Workers are sent the actor alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from tflow.combinators.labels import one_line
from tflow.errors import PlanError
from tflow.rl.data.arrays import Array, Obs
from tflow.rl.policy.ensemble import EnsembleMLP
from tflow.rl.policy.flat import tensor
from tflow.rl.policy.heads import LOG_STD_RANGE, Categorical, Deterministic, Head, SquashedGaussian, check_bounds, head_for
from tflow.rl.policy.network import (
    AnyEncoder,
    Flat,
    Maybe,
    MLPEncoder,
    NormalizedEncoder,
    RecurrentEncoder,
    TensorObs,
    encode,
    scaled,
    state_size_of,
)
from tflow.rl.policy.network_spec import (
    MLP,
    DictEncoder,
    Encoder,
    Memory,
    ModelLike,
    Normalized,
    build_encoder,
    is_compound,
    is_image,
    normalization_of,
)
from tflow.rl.policy.policy import Acted, Policy
from tflow.rl.policy.policy_spec import ActorQSpec
from tflow.rl.policy.tensors import NetInputs

if TYPE_CHECKING:
    from tflow.rl.policy.network_spec import AnySpace

USUAL = MLP((256, 256), "relu")
"""The network that ``model="auto"`` means for vectors, and the layers behind any other encoder of the Q-functions."""


class ActorNet(nn.Module):
    """An encoder, and the inputs of the head. With ``batch_renorm``, the dense layers are renormalised.

    With ``sde`` the standard deviation is that of the features times a matrix of Gaussian noise, whose scales are learned.
    """

    def __init__(self, encoder: AnyEncoder, layers: MLP | None, outputs: int, *, sde_actions: int = 0) -> None:
        super().__init__()
        self.encoder, self.state_size = encoder, state_size_of(encoder)
        self.layers = None if layers is None else EnsembleMLP(1, encoder.features, layers, outputs, batch_renorm=True)
        size = encoder.features
        self.out = scaled(nn.Linear(size, outputs - sde_actions), 0.01) if layers is None else None
        self.sde = nn.Parameter(torch.full((size, sde_actions), -2.0)) if sde_actions else None

    def forward(self, steps: NetInputs, *, train: bool = False) -> tuple[Tensor, Maybe]:
        """The inputs of the head, and the next state if it is recurrent."""
        encoded, after = encode(self.encoder, *steps[:4])
        features = steps.wanted(encoded)
        return self.inputs(features) if self.layers is None else self.layers(features, train=train)[0], after

    def inputs(self, features: Tensor) -> Tensor:
        """The inputs of the head, given the features."""
        assert self.out is not None
        inputs: Tensor = self.out(features)
        return inputs if self.sde is None else torch.cat((inputs, self.sde_log_std(features)), -1)

    def sde_log_std(self, features: Tensor) -> Tensor:
        """The log standard deviation of state-dependent noise."""
        assert self.sde is not None
        scales = self.sde.clamp(*LOG_STD_RANGE)
        return 0.5 * (features.square() @ (2 * scales).exp() + 1e-6).log()


class Critics(nn.Module):
    """Q-functions: (members, rows, outputs) of observations and actions, or of observations alone if actions are discrete.

    Recurrent ones remember observations. Workers do not have them, so their state is zero before each sequence.
    """

    def __init__(
        self, encoder: AnyEncoder, layers: MLP, members: int, actions: int, outputs: int, *, dropout: float, batch_renorm: bool
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.layers = EnsembleMLP(
            members, encoder.features + actions, layers, outputs, dropout=dropout, batch_renorm=batch_renorm
        )

    def forward(
        self, steps: NetInputs, actions: Tensor | None, *, train: bool = False, generator: torch.Generator | None = None
    ) -> Tensor:
        features = steps.wanted(encode(self.encoder, *steps[:4])[0])
        joint = features if actions is None else torch.cat((features, actions), -1)
        values: Tensor = self.layers(joint, train=train, generator=generator)
        return values


class ActorQNet(nn.Module):
    """The parts of the policy: actor, critics and temperature."""

    def __init__(self, actor: ActorNet, critics: Critics, temperature: float | None) -> None:
        super().__init__()
        self.actor, self.critics = actor, critics
        self.log_temperature = None if temperature is None else nn.Parameter(torch.tensor([math.log(temperature)]))


class ActorQ(Policy):
    """An actor and Q-functions."""

    def __init__(
        self, spec: ActorQSpec, model: ModelLike, observation_space: AnySpace, action_space: AnySpace, device: str
    ) -> None:
        super().__init__(spec, model, observation_space, action_space, device)
        self._noise: Array | None = None
        self._noise_age = 0

    def snapshot(self) -> dict[str, Any]:  # Any: as in the base class
        return {**super().snapshot(), "noise": self._noise, "noise_age": self._noise_age}

    def restore(self, state: Mapping[str, Any]) -> None:  # Any: as above
        super().restore(state)
        self._noise, self._noise_age = state["noise"], state["noise_age"]

    @property
    def net(self) -> ActorQNet:
        """The network."""
        return cast("ActorQNet", self.module)

    @property
    def options(self) -> ActorQSpec:
        """The options of the policy."""
        return cast("ActorQSpec", self.spec)

    @property
    def parts(self) -> Mapping[str, Sequence[str]]:
        found = {"actor": ("actor",), "critics": ("critics",)}
        return found if self.options.temperature is None else {**found, "temperature": ("log_temperature",)}

    @property
    def acting(self) -> Sequence[str]:
        return ("actor",)

    @property
    def state_size(self) -> int:
        return self.net.actor.state_size

    @property
    def discrete(self) -> bool:
        """True if the actions are discrete: then the Q-functions give one value per action."""
        return isinstance(self.head, Categorical)

    def make_head(self, action_space: AnySpace) -> Head:
        if self.options.deterministic:
            if not isinstance(action_space, spaces.Box):
                raise PlanError(f"A deterministic actor needs a Box action space, got {one_line(action_space)}. Use DQN or SAC.")
            return Deterministic(action_space)
        if isinstance(action_space, spaces.Box):
            check_bounds(action_space)
        if not isinstance(action_space, (spaces.Box, spaces.Discrete)):
            raise PlanError(
                f"An actor with Q-functions needs a Box or Discrete action space, got {one_line(action_space)}. Use PPO."
            )
        if isinstance(action_space, spaces.Discrete) and (self.options.quantiles > 1 or self.options.batch_renorm):
            raise PlanError(f"TQC and CrossQ need a Box action space, got {one_line(action_space)}. SAC takes discrete actions.")
        return head_for(action_space, squash=isinstance(action_space, spaces.Box))

    def make_net(self) -> ActorQNet:
        spec = self.options
        if spec.sde and not isinstance(self.head, SquashedGaussian):
            raise PlanError(f"State-dependent exploration (sde) needs a Box action space, got {one_line(self.action_space)}.")
        discrete, size = isinstance(self.head, Categorical), self.head.form.size
        encoder, layers = encoder_of(self.model, self.observation_space, self.action_space, whole=not spec.batch_renorm)
        if isinstance(encoder, RecurrentEncoder) and (spec.sde or spec.batch_renorm):
            what = "state-dependent exploration (sde)" if spec.sde else "batch renormalisation"
            raise PlanError(f"A recurrent actor cannot have {what}; got the model {self.model!r}. Leave one of them out.")
        actor = ActorNet(encoder, layers if spec.batch_renorm else None, self.head.inputs, sde_actions=size if spec.sde else 0)
        critic_model = self.model if spec.critic_model is None else spec.critic_model
        how = normalization_of(self.model)
        if how is not None and spec.critic_model is not None:
            critic_model = replace(how, encoder=spec.critic_model)
        encoder, layers = encoder_of(critic_model, self.observation_space, self.action_space, whole=False)
        if spec.layer_norm:
            layers = MLP(layers.hidden, layers.activation, layer_norm=True)
        outputs = self.head.inputs if discrete else spec.quantiles
        critics = Critics(
            encoder, layers, spec.critics, 0 if discrete else size, outputs, dropout=spec.dropout, batch_renorm=spec.batch_renorm
        )
        return ActorQNet(actor, critics, spec.temperature)

    # ------------------------------------------------------------------- acting

    def plain_modules(self) -> tuple[nn.Module, ...]:
        actor = self.net.actor
        if (
            type(actor) is not ActorNet
            or not isinstance(actor.encoder, (MLPEncoder, NormalizedEncoder))
            or actor.out is None
            or actor.sde is not None
        ):
            return ()
        return actor.encoder, actor.out

    def rows(
        self, obs: Obs, rng: np.random.Generator, *, state: Array, masks: Array | None = None, explore: bool = True
    ) -> Acted:
        if explore and self.options.sde:
            actions, logp = self._explored(obs, rng)
            return Acted(actions, logp, np.zeros(len(actions), np.float32), state)
        small = self.small_net(obs)
        inputs, state = self._computed(obs, state) if small is None else (small(obs)[0], state)
        if explore:
            actions, logp = self.head.sample_numpy(inputs, rng, masks)
        else:
            given = torch.from_numpy(inputs) if masks is None else self.head.masked(torch.from_numpy(inputs), tensor(masks))
            actions = self.head.mode(given).numpy()
            logp = np.zeros(len(actions), np.float32)
        return Acted(actions, logp, np.zeros(len(actions), np.float32), state)

    @torch.inference_mode()
    def _computed(self, obs: Obs, state: Array) -> tuple[Array, Array]:
        """The inputs of the head, and the recurrent state."""
        inputs, after = self.net.actor(NetInputs(self.inputs_of(obs), self.state_of(state)))
        return inputs.cpu().numpy(), state if after is None else after.cpu().numpy()

    @torch.inference_mode()
    def _explored(self, obs: Obs, rng: np.random.Generator) -> tuple[Array, Array]:
        """Actions with state-dependent noise: a matrix per row, drawn now and then, times the features."""
        actor, size = self.net.actor, self.head.form.size
        encoded = actor.encoder(self.inputs_of(obs))
        features, inputs = encoded.cpu().numpy(), actor.inputs(encoded)
        assert actor.sde is not None
        if self._noise is None or len(self._noise) != len(features) or self._noise_age >= self.options.sde_every:
            scales = actor.sde.clamp(*LOG_STD_RANGE).exp().cpu().numpy()
            self._noise = rng.standard_normal((len(features), *scales.shape), dtype=np.float32) * scales
            self._noise_age = 0
        self._noise_age += 1
        mean, log_std = inputs[:, :size], inputs[:, size:]
        values = mean + torch.from_numpy(np.einsum("rf,rfa->ra", features, self._noise)).to(mean.device)
        logp = self.head.logp(torch.cat((mean, log_std), -1), values.tanh())
        return values.tanh().cpu().numpy(), logp.cpu().numpy()

    def values(self, obs: Obs, state: Array) -> Array:
        """Zeros: workers have no Q-functions, and no loss for replayed rows reads values of rollouts."""
        return np.zeros(len(state), np.float32)

    @torch.inference_mode()
    def scores(self, obs: Obs) -> Array:
        inputs, _ = self.net.actor(NetInputs(self.inputs_of(obs)))
        return np.asarray((inputs if self.discrete else self.head.mode(inputs)).cpu().numpy())

    # ------------------------------------------------------------------- for losses

    @property
    def temperature(self) -> Tensor:
        """The temperature, with its gradient."""
        if self.net.log_temperature is None:
            raise PlanError("This policy has no temperature: ActorQSpec(temperature=...) gives it one.")
        return self.net.log_temperature.exp()

    def act_on(self, obs: TensorObs | NetInputs, *, train: bool = False) -> Tensor:
        """The inputs of the head for observations, with gradients."""
        inputs: Tensor = self.net.actor(_steps(obs), train=train)[0]
        return inputs

    def q_values(self, obs: TensorObs | NetInputs, actions: Tensor | None = None, *, train: bool = False) -> Tensor:
        """What the Q-functions predict: (members, rows), with a last axis for actions if they are discrete, for quantiles if
        there are several."""
        steps = _steps(obs)._replace(state=None)  # which is that of the actor
        found: Tensor = self.net.critics(steps, actions, train=train, generator=self.generator)
        return found if self.discrete or self.options.quantiles > 1 else found.squeeze(-1)


def _steps(obs: TensorObs | NetInputs) -> NetInputs:
    return obs if isinstance(obs, NetInputs) else NetInputs(obs)


def encoder_of(model: ModelLike, space: AnySpace, action_space: AnySpace, *, whole: bool) -> tuple[AnyEncoder, MLP]:
    """The encoder of an observation, and the dense layers behind it. With ``whole``, those of an MLP belong to the encoder; the
    Q-functions, which also see the action, have them behind it instead."""
    if isinstance(model, Memory):
        return build_encoder(model, space, action_space), MLP((model.size,), "relu")
    if isinstance(model, Normalized):
        inner, layers = encoder_of(model.encoder, space, action_space, whole=whole)
        return model.around(cast("Encoder", inner), space), layers  # a memory stands around it
    if model == "auto" and not is_image(space):
        model = DictEncoder(joint=MLP((256,), "relu")) if is_compound(space) else USUAL
    if isinstance(model, MLP) and not is_compound(space):
        return (model.build(space) if whole else Flat(space)), model
    if isinstance(model, MLP) and not whole:
        return DictEncoder(joint=MLP(())).build(space), model
    return build_encoder(model, space, action_space), USUAL
