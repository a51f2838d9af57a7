"""The networks of policies, on top of an encoder of ``tflow.rl.policy.network``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from tflow.combinators import check
from tflow.errors import PlanError
from tflow.rl.policy.network import AnyEncoder, Maybe, TensorObs, encode, scaled, state_size_of


class ActorCriticNet(nn.Module):
    """Actor and critic: the inputs of a head, and the state value. They share an encoder unless ``value_encoder`` is given.

    The last ``free_outputs`` of the ``outputs`` are state-independent parameters, initially ``free_init``; see ``Head.free``.
    """

    def __init__(
        self,
        encoder: AnyEncoder,
        outputs: int,
        *,
        value_encoder: AnyEncoder | None = None,
        free_outputs: int = 0,
        free_init: float = 0.0,
    ) -> None:
        super().__init__()
        self.encoder, self.value_encoder = encoder, value_encoder
        self.action = scaled(nn.Linear(encoder.features, outputs - free_outputs), 0.01)  # the initial policy is nearly uniform
        self.value = scaled(nn.Linear((encoder if value_encoder is None else value_encoder).features, 1), 1.0)
        self.free = nn.Parameter(torch.full((free_outputs,), float(free_init))) if free_outputs else None
        self._actor_state = state_size_of(encoder)
        self.state_size = self._actor_state + (state_size_of(value_encoder) if value_encoder is not None else 0)
        self.separate_critic = value_encoder is not None and self.state_size == 0
        """Actor and critic share nothing, so that the values of many rows can be computed together, later."""

    def act(self, obs: TensorObs) -> Tensor:
        """The inputs of the head alone, if it is not recurrent."""
        return self._inputs(encode(self.encoder, obs, None, None)[0])

    def critic(self, obs: TensorObs) -> Tensor:
        """The values alone, with a separate critic."""
        return self._values(encode(self.value_encoder or self.encoder, obs, None, None)[0])

    def _inputs(self, features: Tensor) -> Tensor:
        inputs: Tensor = self.action(features)
        return inputs if self.free is None else torch.cat((inputs, self.free.expand(inputs.shape[0], -1)), 1)

    def _values(self, features: Tensor) -> Tensor:
        values: Tensor = self.value(features)
        return values.squeeze(1)

    def forward(
        self, obs: TensorObs, state: Maybe = None, resets: Maybe = None, burn_in: Maybe = None
    ) -> tuple[Tensor, Tensor, Maybe]:
        """Inputs of the head (rows, outputs), values (rows,) and the next state (rows, state_size) if it is recurrent."""
        if self.value_encoder is None:
            features, after = encode(self.encoder, obs, state, resets, burn_in)
            critic_features = features
        else:
            actors, critics = (None, None) if state is None else (state[:, : self._actor_state], state[:, self._actor_state :])
            features, actors = encode(self.encoder, obs, actors, resets, burn_in)
            critic_features, critics = encode(self.value_encoder, obs, critics, resets, burn_in)
            states = [state for state in (actors, critics) if state is not None]
            after = torch.cat(states, 1) if states else None
        return self._inputs(features), self._values(critic_features), after


class NoisyLinear(nn.Module):
    """A dense layer with factorised Gaussian noise of learned scale on its weights (Fortunato et al., 2018).

    The noise changes only in ``reset_noise``; in evaluation mode there is none. It is not part of the saved weights.
    """

    noise_in: Tensor
    noise_out: Tensor

    def __init__(self, inputs: int, outputs: int, sigma: float = 0.5) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), sigma * bound))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), sigma * bound))
        self.register_buffer("noise_in", torch.zeros(inputs), persistent=False)
        self.register_buffer("noise_out", torch.zeros(outputs), persistent=False)
        self.reset_noise()

    def reset_noise(self, generator: Generator | None = None) -> None:
        """Draw new noise, without disturbing gradients that are still to be computed with the old one."""
        device = self.weight.device
        with torch.inference_mode(False):  # even if we are called while acting, the noise is for training too
            sizes = (len(self.noise_in), len(self.noise_out))
            drawn = [torch.randn(size, generator=generator, device=generator.device if generator else device) for size in sizes]
            self.noise_in, self.noise_out = ((noise.sign() * noise.abs().sqrt()).to(device) for noise in drawn)

    def forward(self, features: Tensor) -> Tensor:
        mean = nn.functional.linear(features, self.weight, self.bias)
        if not self.training:
            return mean
        # The noise matrix, the outer product of noise_out and noise_in, is never materialised.
        return mean + self.noise_out * nn.functional.linear(features * self.noise_in, self.weight_sigma, self.bias_sigma)


class QNet(nn.Module):
    """Q-values of all actions, or their distributions: ``atoms`` logits on a support from ``v_min`` to ``v_max`` (C51), or
    ``atoms`` quantiles (QR-DQN). ``q_values`` turns the output of ``forward`` into Q-values.

    ``dueling`` adds a stream for the state value to that of the advantages, which are centred. ``hidden`` adds dense layers to
    each stream. ``noisy`` makes all layers after the encoder noisy.
    """

    support: Tensor
    """Categorical: the value of each atom. Quantile: the fraction that each atom stands for."""

    def __init__(
        self,
        encoder: AnyEncoder,
        actions: int,
        *,
        dueling: bool = False,
        kind: Literal["scalar", "categorical", "quantile"] = "scalar",
        atoms: int = 1,
        v_min: float = -10.0,
        v_max: float = 10.0,
        noisy: bool = False,
        hidden: Sequence[int] = (),
    ) -> None:
        super().__init__()
        check.one_of("QNet", "kind", kind, ("scalar", "categorical", "quantile"))
        check.integer("QNet", "atoms", atoms, least=2 if kind == "categorical" else 1)
        if kind == "categorical" and not v_min < v_max:
            raise PlanError(f"QNet: v_min must be below v_max, got {v_min} and {v_max}.")
        self.kind, self.actions, self.atoms = kind, actions, 1 if kind == "scalar" else atoms
        self.encoder, self.state_size = encoder, state_size_of(encoder)
        self.advantage = _branch(encoder.features, hidden, actions * self.atoms, noisy)
        self.value = _branch(encoder.features, hidden, self.atoms, noisy) if dueling else None
        midpoints = (torch.arange(self.atoms) + 0.5) / self.atoms
        support = torch.linspace(v_min, v_max, self.atoms) if kind == "categorical" else midpoints
        self.register_buffer("support", support, persistent=False)

    def forward(self, obs: TensorObs, state: Maybe = None, resets: Maybe = None, burn_in: Maybe = None) -> tuple[Tensor, Maybe]:
        """Outputs (rows, actions), or (rows, actions, atoms) if distributional, and the next state if it is recurrent."""
        features, after = encode(self.encoder, obs, state, resets, burn_in)
        outputs: Tensor = self.advantage(features).unflatten(1, (self.actions, self.atoms))
        if self.value is not None:
            outputs = outputs - outputs.mean(1, keepdim=True) + self.value(features).unsqueeze(1)
        return (outputs.squeeze(2) if self.kind == "scalar" else outputs), after

    def q_values(self, outputs: Tensor) -> Tensor:
        """The expected value of each action, (rows, actions)."""
        if self.kind == "categorical":
            return outputs.softmax(-1) @ self.support
        return outputs if self.kind == "scalar" else outputs.mean(-1)

    def reset_noise(self, generator: Generator | None = None) -> None:
        """Draw new noise for all noisy layers."""
        for module in self.modules():
            if isinstance(module, NoisyLinear):
                module.reset_noise(generator)


def _branch(inputs: int, hidden: Sequence[int], outputs: int, noisy: bool) -> nn.Sequential:
    *inner, last = pairwise((inputs, *hidden, outputs))
    layers: list[nn.Module] = []
    for size, following in inner:
        layers += [NoisyLinear(size, following) if noisy else scaled(nn.Linear(size, following)), nn.ReLU()]
    return nn.Sequential(*layers, NoisyLinear(*last) if noisy else scaled(nn.Linear(*last), 1.0))
