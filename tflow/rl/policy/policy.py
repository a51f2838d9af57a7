"""Policies: a network with flat weights, and a head that turns its outputs into actions.

A rollout worker calls ``rows`` with the observations of all its envs at once; a learner calls ``evaluate`` or ``outputs`` with
gradients; a user calls ``act`` with observations as the env gives them, one or several.
"""

from __future__ import annotations

import math
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from tflow.combinators.labels import one_line
from tflow.errors import PlanError
from tflow.rl.data.arrays import Array, Obs
from tflow.rl.data.moments import ByColumn, Moments
from tflow.rl.envs.spaces import ObsLayout, zero_based
from tflow.rl.policy.flat import FlatWeights, tensor
from tflow.rl.policy.heads import Categorical, Head, head_for
from tflow.rl.policy.network import MLPEncoder, NormalizedEncoder, RunningStatistics, sees_images, with_layer_norm
from tflow.rl.policy.network_spec import Memory, ModelLike, build_encoder, normalization_of
from tflow.rl.policy.observations import action_masks, another_size, first_rows, observations
from tflow.rl.policy.policy_network import ActorCriticNet, QNet
from tflow.rl.policy.policy_spec import ActorCriticSpec, PolicySpec, QSpec, make_policy
from tflow.rl.policy.small import SmallNet
from tflow.rl.policy.tensors import NetInputs, Tensors

if TYPE_CHECKING:
    from tflow.rl.policy.network import RecurrentEncoder
    from tflow.rl.policy.network_spec import AnySpace, Encoder


class Acted(NamedTuple):
    """Actions of a policy, one row per observation."""

    actions: Array
    """As batches hold them; ``head.to_env`` turns them into what the env takes."""
    logp: Array
    values: Array | None
    """None with a separate critic, whose values are computed for many rows at once: ``Policy.values``."""
    state: Array


class Evaluated(NamedTuple):
    """An actor-critic's evaluation of the actions of a batch, with gradients."""

    inputs: Tensor
    logp: Tensor
    values: Tensor
    entropy: Tensor


class Policy(ABC):
    """A network, its head, and its flat weights."""

    def __init__(
        self, spec: PolicySpec, model: ModelLike, observation_space: AnySpace, action_space: AnySpace, device: str
    ) -> None:
        self.spec = spec
        self.model: ModelLike = model
        self.observation_space = observation_space
        self.action_space = action_space
        self.device = torch.device(device)
        self.layout = ObsLayout(observation_space)
        self.head = self.make_head(zero_based(action_space))
        self.own_head = self.make_head(action_space)
        """For ``act``: workers number discrete actions from 0, the env itself may not."""
        self.module = self.make_net().to(self.device)
        normalization = normalization_of(model)
        keeps_returns = normalization is not None and normalization.rewards
        self.rewards = RunningStatistics("returns", (1,)).to(self.device) if keeps_returns else None
        """Statistics of returns, if rewards are normalised."""
        if self.rewards is not None:
            self.module.add_module("rewards", self.rewards)
        self.statistics = [each for each in self.module.modules() if isinstance(each, RunningStatistics)]
        """Running statistics of observations and returns."""
        self.flat = FlatWeights(self.module, self.parts, self.acting)
        self.acting_only = False
        """True if only the weights that it acts with are known; those of its other parts are fresh."""
        self.sequence_length = model.length if isinstance(model, Memory) else 1
        """Steps per training sequence of a recurrent policy."""
        self._small: SmallNet | None = None
        self._modules = self.plain_modules()
        """What numpy computes instead of torch, if it can."""
        self._state: Array | None = None
        self._rng = np.random.default_rng(0)
        self.generator = torch.Generator(self.device).manual_seed(0)
        """Random state of what losses draw: noisy layers, actions, dropout."""

    @abstractmethod
    def make_head(self, action_space: AnySpace) -> Head:
        """Make the head: outputs to actions."""

    @abstractmethod
    def make_net(self) -> nn.Module:
        """Make the network, with fresh weights."""

    def make_encoder(self) -> Encoder | RecurrentEncoder:
        """An encoder of its model for its spaces, with fresh weights: a building block for ``make_net``."""
        return build_encoder(self.model, self.observation_space, self.action_space)

    @property
    def parts(self) -> Mapping[str, Sequence[str]]:
        """The parts of the weights: for each the children of the network that belong to it; empty if all are one part."""
        return {}

    @property
    def acting(self) -> Sequence[str]:
        """The parts that it needs to act; empty if all are."""
        return ()

    @property
    def state_size(self) -> int:
        """Size of the recurrent state; 0 if it is not recurrent."""
        return 0

    def plain_modules(self) -> tuple[nn.Module, ...]:
        """The encoder that it acts with, and the layers behind it, if that is all there is to acting; empty otherwise."""
        return ()

    def small_net(self, obs: Obs) -> SmallNet | None:
        """What computes its outputs for these observations without torch, if they are few and its network is small and plain."""
        if not self._modules:
            return None
        if self._small is None or not self._small.is_current:
            self._small = SmallNet.of(*self._modules)
            if self._small is None:
                self._modules = ()
                return None
        return self._small if self._small.fits(obs) else None

    def __getstate__(self) -> dict[str, Any]:  # Any: attributes; a copy has memory of its own
        return {**vars(self), "_small": None}

    def __repr__(self) -> str:
        what = f"{self.observation_space} -> {self.action_space}"
        return f"{type(self).__name__}({what}, {self.flat.trainable:,} weights on {self.device})"

    def load_moments(self, moments: ByColumn) -> None:
        """Take over running statistics of observations and returns."""
        for each in self.statistics:
            if each.column in moments:
                each.load(moments[each.column])

    def moments(self) -> dict[str, Moments]:
        """The running statistics that it has."""
        return {each.column: found for each in self.statistics if (found := each.moments()) is not None}

    @property
    def reward_scale(self) -> float:
        """What rewards are multiplied with: 1 over the standard deviation of returns, if they are normalised."""
        return 1.0 if self.rewards is None else float(self.rewards.scale)

    def copy(self) -> Self:
        """A copy with weights of its own."""
        twin = make_policy(self.spec, self.model, self.observation_space, self.action_space, device=str(self.device))
        twin.flat.set(self.flat.get())
        twin.acting_only = self.acting_only
        return cast("Self", twin)

    # ------------------------------------------------------------------- acting

    @property
    def recurrent(self) -> bool:
        """True if it has a recurrent state."""
        return self.state_size > 0

    def initial_state(self, rows: int) -> Array:
        """The recurrent state at the start of an episode."""
        return np.zeros((rows, self.state_size), dtype=np.float32)

    @abstractmethod
    def rows(
        self, obs: Obs, rng: np.random.Generator, *, state: Array, masks: Array | None = None, explore: bool = True
    ) -> Acted:
        """Act on a batch of observations, without gradients."""

    @abstractmethod
    def values(self, obs: Obs, state: Array) -> Array:
        """The value of each observation."""

    def final_values(self, obs: Obs, state: Array, masks: Array | None) -> Array:
        """The value of each final observation of a rollout. Action masks matter to those whose values are maxima over actions."""
        return self.values(obs, state)

    @abstractmethod
    def scores(self, obs: Obs) -> Array:
        """Logits, mean actions or Q-values, to compare two sets of weights by."""

    def act(
        self, obs: object, *, deterministic: bool = True, masks: object = None, first: bool | Array = False
    ) -> Any:  # Any: what an action is depends on the env
        """Act on one observation of the env, or on a batch of them, as its shape says.

        Args:
            obs: The observation, as the env gives it; or several, as a list or as a vector env gives them, with one more axis.
            deterministic: Take the most likely action; False samples it. A Q-network always takes the best, but noisy layers
                then have noise.
            masks: True for each allowed action, if the env has action masks; for a batch, a row each.
            first: The first observation of an episode: resets the state of a recurrent policy; for a batch, True for all rows, or
                an array with a bool for each.

        Returns:
            The action, as the env takes it; for a batch, an array with a row each.
        """
        given = observations(self.layout, obs)
        state = self._state_before(given.rows, first)
        allowed = None if masks is None else action_masks(self.action_space, masks, given)
        acted = self.rows(given.obs, self._rng, state=state, masks=allowed, explore=not deterministic)
        self._state = acted.state
        actions = self.own_head.to_env(acted.actions)
        return actions[0] if given.single else actions

    def _state_before(self, rows: int, first: bool | Array) -> Array:
        """The recurrent state of each row, the initial one where an episode begins."""
        fresh, begins = self.initial_state(rows), first_rows(first, rows)
        if self._state is None or not self.recurrent or begins.all():
            return fresh
        if len(self._state) != rows:
            warnings.warn(another_size(len(self._state), rows), stacklevel=3)
            return fresh
        return np.where(begins[:, None], fresh, self._state)

    def snapshot(self) -> dict[str, Any]:  # Any: arrays and random numbers
        """All that it remembers, for a checkpoint: weights, the noise in them, random numbers."""
        others = {name: part.clone() for name, part in self._others().items()}
        return {"weights": self.flat.get(), "others": others, "generator": self.generator.get_state()}

    def restore(self, state: Mapping[str, Any]) -> None:  # Any: as above
        """Take a snapshot over."""
        self.flat.set(state["weights"])
        with torch.no_grad():
            for name, buffer in self._others().items():
                buffer.copy_(state["others"][name])
        self.generator.set_state(state["generator"])

    def _others(self) -> dict[str, Tensor]:
        """What is neither a weight nor sent with the weights: the current noise of noisy layers, counters."""
        lasting = self.module.state_dict().keys()
        return {name: part for name, part in self.module.named_buffers() if name not in lasting or not part.is_floating_point()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a safetensors file, which ``Policy.load`` reads."""
        from tflow.rl.policy.saving import save_policy

        save_policy(self, path)

    @staticmethod
    def load(
        path: str | os.PathLike[str],
        *,
        spec: PolicySpec | None = None,
        model: ModelLike | None = None,
        device: str = "cpu",
    ) -> Policy:
        """Read a policy that was saved, or the latest one of a run folder.

        Args:
            path: The file, or the run folder.
            spec: The description of the policy, if its class is your own: files hold no code.
            model: The model, if it is your own module, for the same reason.
            device: The torch device of the policy.
        """
        from tflow.rl.policy.saving import load_policy

        return load_policy(path, spec=spec, model=model, device=device)

    def inputs_of(self, obs: Obs) -> Tensor | dict[str, Tensor]:
        """Observations as tensors on the policy's device."""
        if isinstance(obs, dict):
            return {name: tensor(part).to(self.device) for name, part in obs.items()}
        return tensor(obs).to(self.device)

    def state_of(self, state: Array) -> Tensor | None:
        return tensor(state).to(self.device) if self.recurrent else None

    def net_inputs(self, batch: Tensors, name: str) -> NetInputs:
        """What the network is asked about for a column of observations, ``obs`` or ``next_obs``. In replayed sequences, the next
        observation of a row is that of a later one, or what follows the last."""
        ahead = name == "next_obs" and bool(batch.length) and "next_obs" not in batch
        obs, rows = (batch.extended("obs"), batch.bootstrapped()) if ahead else (batch.nested(name), None)
        if not self.recurrent:
            return NetInputs(obs, rows=rows)
        if not batch.length:
            raise PlanError("A recurrent policy is trained on sequences: use batch.sequences(length), or replay of sequences.")
        burn_in = batch["burn_in"].reshape(-1, batch.length)
        if ahead:
            burn_in = torch.cat((burn_in, torch.zeros_like(burn_in[:, :1])), 1)
        return NetInputs(obs, batch.finals.get("state"), torch.zeros_like(burn_in), burn_in, rows)


class ActorCritic(Policy):
    """An action distribution and a state value."""

    @property
    def net(self) -> ActorCriticNet:
        """The network."""
        return cast("ActorCriticNet", self.module)

    @property
    def options(self) -> ActorCriticSpec:
        """The options of the policy."""
        return cast("ActorCriticSpec", self.spec)

    @property
    def state_size(self) -> int:
        return self.net.state_size

    def make_head(self, action_space: AnySpace) -> Head:
        options = self.options
        return head_for(action_space, squash=options.squash, rescale=options.rescale, log_std_init=options.log_std)

    def make_net(self) -> ActorCriticNet:
        encoder = self.make_encoder()
        shared = sees_images(encoder) if self.options.shared == "auto" else self.options.shared
        separate = None if shared else self.make_encoder()
        return ActorCriticNet(
            encoder,
            self.head.inputs,
            value_encoder=separate,
            free_outputs=self.head.free,
            free_init=self.head.free_init,
        )

    def plain_modules(self) -> tuple[nn.Module, ...]:
        net = self.net
        if type(net) is not ActorCriticNet or not isinstance(net.encoder, (MLPEncoder, NormalizedEncoder)):
            return ()
        return (net.encoder, net.action) if net.separate_critic else (net.encoder, net.action, net.value)

    def rows(
        self, obs: Obs, rng: np.random.Generator, *, state: Array, masks: Array | None = None, explore: bool = True
    ) -> Acted:
        small = self.small_net(obs)
        inputs, values, after = self._computed(obs, state) if small is None else (*self._computed_by(small, obs), state)
        actions, logp = self.head.sample_numpy(inputs, rng, masks) if explore else self._likeliest(inputs, masks)
        return Acted(actions, logp, values, after)

    def _computed_by(self, small: SmallNet, obs: Obs) -> tuple[Array, Array | None]:
        """Inputs of the head, and values if they come with them."""
        inputs, *values = small(obs)
        if self.net.free is not None:
            free = self.net.free.detach().numpy()
            inputs = np.concatenate((inputs, np.broadcast_to(free, (len(inputs), len(free)))), axis=1)
        return inputs, values[0][:, 0] if values else None

    @torch.inference_mode()
    def _computed(self, obs: Obs, state: Array) -> tuple[Array, Array | None, Array]:
        """As above, and the next recurrent state."""
        if self.net.separate_critic:
            return self.net.act(self.inputs_of(obs)).cpu().numpy(), None, state
        inputs, values, after = self.net(self.inputs_of(obs), self.state_of(state))
        return inputs.cpu().numpy(), values.cpu().numpy(), state if after is None else after.cpu().numpy()

    @torch.inference_mode()
    def _likeliest(self, inputs: Array, masks: Array | None) -> tuple[Array, Array]:
        given = torch.from_numpy(inputs)
        if masks is not None:
            given = self.head.masked(given, tensor(masks))
        best = self.head.mode(given)
        return best.numpy(), self.head.logp(given, best).numpy()

    @torch.inference_mode()
    def values(self, obs: Obs, state: Array) -> Array:
        if self.net.separate_critic:
            return np.asarray(self.net.critic(self.inputs_of(obs)).cpu().numpy())
        _, values, _ = self.net(self.inputs_of(obs), self.state_of(state))
        return np.asarray(values.cpu().numpy())

    @torch.inference_mode()
    def scores(self, obs: Obs) -> Array:
        inputs, _, _ = self.net(self.inputs_of(obs))
        found = inputs if self.head.form.choices else self.head.mode(inputs)
        return np.asarray(found.cpu().numpy())

    def evaluate(self, batch: Tensors, weights: Tensor | None = None) -> Evaluated:
        """Evaluate the actions of a batch, with the policy's or with other (flat) weights."""
        given = self.net_inputs(batch, "obs")[:4]
        parameters = {} if weights is None else self.flat.named(weights)
        inputs, values, _ = torch.func.functional_call(self.net, parameters, given) if parameters else self.net(*given)
        if "masks" in batch:
            inputs = self.head.masked(inputs, batch["masks"])
        return Evaluated(inputs, self.head.logp(inputs, batch["actions"]), values, self.head.entropy(inputs))


class QPolicy(Policy):
    """Q-values of all actions. It acts greedily; exploration is separate."""

    @property
    def net(self) -> QNet:
        """The network."""
        return cast("QNet", self.module)

    @property
    def options(self) -> QSpec:
        """The options of the policy."""
        return cast("QSpec", self.spec)

    @property
    def state_size(self) -> int:
        return self.net.state_size

    def make_head(self, action_space: AnySpace) -> Head:
        if not isinstance(action_space, spaces.Discrete):
            raise PlanError(
                f"Q-learning needs a Discrete action space, got {one_line(action_space)}. Use a policy gradient "
                "algorithm such as PPO, or discretise the actions with an action wrapper."
            )
        return Categorical(action_space)

    def make_net(self) -> QNet:
        spec, encoder = self.options, self.make_encoder()
        return QNet(
            with_layer_norm(encoder) if spec.layer_norm else encoder,
            self.head.inputs,
            dueling=spec.dueling,
            kind=spec.kind,
            atoms=1 if spec.kind == "scalar" else spec.atoms,
            v_min=spec.v_min,
            v_max=spec.v_max,
            noisy=spec.noisy,
        )

    def plain_modules(self) -> tuple[nn.Module, ...]:
        net = self.net
        if type(net) is not QNet or not isinstance(net.encoder, (MLPEncoder, NormalizedEncoder)) or net.kind != "scalar":
            return ()
        return (net.encoder, net.advantage) if net.value is None else (net.encoder, net.advantage, net.value)

    def rows(
        self, obs: Obs, rng: np.random.Generator, *, state: Array, masks: Array | None = None, explore: bool = True
    ) -> Acted:
        if self.options.noisy:
            self.net.train(explore)
            if explore:
                self.generator.manual_seed(int(rng.integers(2**62)))
                self.fresh_noise()
        small = self.small_net(obs)
        values, after = self._computed(obs, state) if small is None else (self._computed_by(small, obs), state)
        allowed = values if masks is None else np.where(masks, values, -np.inf)
        best = allowed.argmax(axis=1)
        return Acted(best, np.zeros(len(best), np.float32), allowed.max(axis=1), after)

    def _computed_by(self, small: SmallNet, obs: Obs) -> Array:
        """Q-values."""
        values, *baseline = small(obs)
        return values - values.mean(axis=1, keepdims=True) + baseline[0] if baseline else values

    @torch.inference_mode()
    def _computed(self, obs: Obs, state: Array) -> tuple[Array, Array]:
        """Q-values, and the next recurrent state."""
        outputs, after = self.net(self.inputs_of(obs), self.state_of(state))
        return self.net.q_values(outputs).cpu().numpy(), state if after is None else after.cpu().numpy()

    @torch.inference_mode()
    def values(self, obs: Obs, state: Array) -> Array:
        return self.final_values(obs, state, None)

    @torch.inference_mode()
    def final_values(self, obs: Obs, state: Array, masks: Array | None) -> Array:
        outputs, _ = self.net(self.inputs_of(obs), self.state_of(state))
        values = self.net.q_values(outputs)
        allowed = values if masks is None else values.masked_fill(~tensor(masks).to(self.device), -math.inf)
        return np.asarray(allowed.max(dim=1).values.cpu().numpy())

    @torch.inference_mode()
    def scores(self, obs: Obs) -> Array:
        outputs, _ = self.net(self.inputs_of(obs))
        return np.asarray(self.net.q_values(outputs).cpu().numpy())

    def fresh_noise(self) -> None:
        """Draw new noise for noisy layers, before acting and before each update."""
        if self.options.noisy:
            self.net.reset_noise(self.generator)

    def outputs(self, batch: Tensors, name: str) -> Tensor:
        """Outputs of the network for the observations in a column: Q-values, or their distributions."""
        steps = self.net_inputs(batch, name)
        outputs: Tensor = self.net(*steps[:4])[0]
        return steps.wanted(outputs)
