"""Action distributions: how the outputs of a network become actions. One head per kind of action space, by ``head_for``.

A head is stateless. It reads *inputs*, the last axis of a tensor that the network has made, and knows the distribution that they
describe. All that a distribution depends on is in its inputs, so those of an old policy can be kept in a batch and compared with
the new ones. The last ``free`` of them do not come from the observation: the network adds a parameter
(``ActorCriticNet(free_outputs=head.free)``).

Actions in batches count from 0 (discrete) or are flat float32 vectors, in [-1, 1] where the head rescales; ``to_env`` makes them
fit the action space. Written on tensors directly, because the objects of ``torch.distributions`` cost more than the arithmetic;
``sample_numpy`` does without torch, for rollout workers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Generator, Tensor
from torch.nn import functional

from tflow.combinators.labels import one_line
from tflow.errors import PlanError, TflowError
from tflow.rl.data.arrays import Array
from tflow.rl.policy.exploration import ActionForm

MASKED = -1e9
"""The logit of an action that is not allowed: its probability is exactly 0, and all sums over it stay finite."""
TINY = 1e-30
LOG_STD_RANGE = (-20.0, 2.0)
HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


class Head(ABC):
    """How the outputs of a network become actions. Leading axes are free, so sequences work as well as rows."""

    inputs: int
    """Number of distribution parameters."""
    free: int = 0
    """How many of these, the last ones, are state-independent: parameters of the network, such as the log standard deviation."""
    free_init: float = 0.0
    """Initial value of these parameters."""
    form: ActionForm
    """The form of actions in batches."""

    @abstractmethod
    def sample(self, inputs: Tensor, generator: Generator | None = None) -> Tensor:
        """Draw actions. Gradients flow through continuous ones (the reparameterisation trick)."""

    @abstractmethod
    def mode(self, inputs: Tensor) -> Tensor:
        """The deterministic actions: the mode of the distribution."""

    @abstractmethod
    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """The log-probability, or log-density, of actions of a batch."""

    @abstractmethod
    def entropy(self, inputs: Tensor) -> Tensor:
        """The entropy of each distribution."""

    @abstractmethod
    def kl(self, old_inputs: Tensor, new_inputs: Tensor) -> Tensor:
        """The divergence KL(old || new)."""

    @abstractmethod
    def sample_numpy(self, inputs: Array, rng: np.random.Generator, masks: Array | None = None) -> tuple[Array, Array]:
        """Draw one action per row of ``inputs`` (rows, inputs); the actions and their log-probabilities."""

    @abstractmethod
    def to_env(self, actions: Array) -> Array:
        """Actions of a batch, one per row, as the action space wants them: its bounds, its shape, its dtype."""

    @abstractmethod
    def to_env_tensor(self, actions: Tensor) -> Tensor:
        """As ``to_env``, on tensors: for policies that leave tflow."""

    def sample_logp(self, inputs: Tensor, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
        """Draw actions, together with their log-probabilities."""
        actions = self.sample(inputs, generator)
        return actions, self.logp(inputs, actions)

    def masked(self, inputs: Tensor, masks: Tensor) -> Tensor:
        """Inputs under which actions have probability 0 where the bool ``masks`` (same shape) is False."""
        raise TflowError(f"{type(self).__name__}: action masks need a Discrete or MultiDiscrete action space.")


# --------------------------------------------------------------------------- discrete


class Categorical(Head):
    """One choice out of several; the inputs are logits."""

    def __init__(self, space: spaces.Discrete) -> None:
        self.inputs = int(space.n)
        self.form = ActionForm(choices=(self.inputs,))
        self._start, self._dtype = int(space.start), space.dtype

    def sample(self, inputs: Tensor, generator: Generator | None = None) -> Tensor:
        # Gumbel-max trick, by exponential races.
        waits = torch.empty_like(inputs).exponential_(generator=generator).clamp_min_(TINY)
        return (inputs.detach() - waits.log_()).argmax(-1)

    def mode(self, inputs: Tensor) -> Tensor:
        return inputs.argmax(-1)

    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        return inputs.log_softmax(-1).gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self, inputs: Tensor) -> Tensor:
        logp = inputs.log_softmax(-1)
        return -(logp.exp() * logp).sum(-1)

    def kl(self, old_inputs: Tensor, new_inputs: Tensor) -> Tensor:
        old, new = old_inputs.log_softmax(-1), new_inputs.log_softmax(-1)
        return (old.exp() * (old - new)).sum(-1)

    def masked(self, inputs: Tensor, masks: Tensor) -> Tensor:
        _same_shape(inputs.shape, masks.shape)
        return inputs.masked_fill(~masks, MASKED)

    def sample_numpy(self, inputs: Array, rng: np.random.Generator, masks: Array | None = None) -> tuple[Array, Array]:
        return sample_choices(inputs if masks is None else _masked_numpy(inputs, masks), rng)

    def to_env(self, actions: Array) -> Array:
        return (actions + self._start).astype(self._dtype, copy=False)

    def to_env_tensor(self, actions: Tensor) -> Tensor:
        return (actions + self._start).to(_torch_type(self._dtype))


class MultiCategorical(Head):
    """Several independent choices; the inputs are the logits of all parts, side by side."""

    def __init__(self, space: spaces.MultiDiscrete) -> None:
        parts = np.asarray(space.nvec).ravel()
        self.inputs = int(parts.sum())
        self.form = ActionForm(choices=tuple(int(choices) for choices in parts))
        self._start, self._shape, self._dtype = np.asarray(space.start), space.nvec.shape, space.dtype
        # All parts are padded to the same number of choices, so that one operation serves them all.
        column = np.arange(parts.max())
        self._padding = column >= parts[:, None]
        self._columns = np.where(self._padding, 0, column + (np.cumsum(parts) - parts)[:, None])
        self._one = Categorical(spaces.Discrete(int(parts.max())))

    def _padded(self, inputs: Tensor) -> Tensor:
        columns = torch.as_tensor(self._columns, device=inputs.device)
        return inputs[..., columns].masked_fill(torch.as_tensor(self._padding, device=inputs.device), MASKED)

    def sample(self, inputs: Tensor, generator: Generator | None = None) -> Tensor:
        return self._one.sample(self._padded(inputs), generator)

    def mode(self, inputs: Tensor) -> Tensor:
        return self._one.mode(self._padded(inputs))

    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        return self._one.logp(self._padded(inputs), actions).sum(-1)

    def entropy(self, inputs: Tensor) -> Tensor:
        return self._one.entropy(self._padded(inputs)).sum(-1)

    def kl(self, old_inputs: Tensor, new_inputs: Tensor) -> Tensor:
        return self._one.kl(self._padded(old_inputs), self._padded(new_inputs)).sum(-1)

    def masked(self, inputs: Tensor, masks: Tensor) -> Tensor:
        return self._one.masked(inputs, masks)

    def sample_numpy(self, inputs: Array, rng: np.random.Generator, masks: Array | None = None) -> tuple[Array, Array]:
        width = self._one.inputs
        padded = np.where(self._padding, np.float32(MASKED), inputs[:, self._columns]).reshape(-1, width)
        if masks is not None:
            _same_shape(inputs.shape, masks.shape)
            masks = (masks[:, self._columns] & ~self._padding).reshape(-1, width)
        actions, logp = self._one.sample_numpy(padded, rng, masks)
        return actions.reshape(len(inputs), -1), logp.reshape(len(inputs), -1).sum(axis=1)

    def to_env(self, actions: Array) -> Array:
        return (actions.reshape(-1, *self._shape) + self._start).astype(self._dtype, copy=False)

    def to_env_tensor(self, actions: Tensor) -> Tensor:
        shaped = actions.reshape(-1, *self._shape) + torch.as_tensor(self._start)
        return shaped.to(_torch_type(self._dtype))


class Bernoulli(Head):
    """Independent binary actions; the inputs are logits."""

    def __init__(self, space: spaces.MultiBinary) -> None:
        self.inputs = math.prod(space.shape)
        self.form = ActionForm(choices=(2,) * self.inputs)
        self._shape, self._dtype = space.shape, space.dtype

    def sample(self, inputs: Tensor, generator: Generator | None = None) -> Tensor:
        uniform = torch.rand(inputs.shape, dtype=inputs.dtype, device=inputs.device, generator=generator)
        return (uniform < inputs.sigmoid()).long()

    def mode(self, inputs: Tensor) -> Tensor:
        return (inputs > 0).long()

    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        return functional.logsigmoid(torch.where(actions.bool(), inputs, -inputs)).sum(-1)

    def entropy(self, inputs: Tensor) -> Tensor:
        yes = inputs.sigmoid()
        return -(yes * functional.logsigmoid(inputs) + (1 - yes) * functional.logsigmoid(-inputs)).sum(-1)

    def kl(self, old_inputs: Tensor, new_inputs: Tensor) -> Tensor:
        yes, log = old_inputs.sigmoid(), functional.logsigmoid
        return (yes * (log(old_inputs) - log(new_inputs)) + (1 - yes) * (log(-old_inputs) - log(-new_inputs))).sum(-1)

    def sample_numpy(self, inputs: Array, rng: np.random.Generator, masks: Array | None = None) -> tuple[Array, Array]:
        if masks is not None:
            raise TflowError("Bernoulli: action masks need a Discrete or MultiDiscrete action space.")
        surprise_of_yes = np.logaddexp(0, -inputs)
        yes = rng.random(inputs.shape) < np.exp(-surprise_of_yes)
        return yes.astype(np.int64), -(surprise_of_yes + np.where(yes, 0, inputs)).sum(axis=1)

    def to_env(self, actions: Array) -> Array:
        return actions.reshape(-1, *self._shape).astype(self._dtype, copy=False)

    def to_env_tensor(self, actions: Tensor) -> Tensor:
        return actions.reshape(-1, *self._shape).to(_torch_type(self._dtype))


def _torch_type(dtype: np.dtype[Any] | type | None) -> torch.dtype:  # Any: known when the space is
    return torch.from_numpy(np.empty(0, dtype)).dtype


def sample_choices(logits: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw one choice per row of logits; the choices and their log-probabilities."""
    columns = np.ascontiguousarray(logits.T)  # numpy reduces a long row much faster than many short ones
    columns = columns - np.maximum.reduce(columns, axis=0)
    rates = np.exp(columns)
    waits = rng.standard_exponential(rates.shape)
    waits += TINY  # a wait can be 0, and 0 / 0 would let a masked action win
    choices = (rates / waits).argmax(axis=0)  # an exponential race: the Gumbel-max trick without logarithms
    return choices, columns[choices, np.arange(choices.size)] - np.log(np.add.reduce(rates, axis=0))


def _masked_numpy(inputs: Array, masks: Array) -> Array:
    _same_shape(inputs.shape, masks.shape)
    if not masks.any(axis=1).all():
        raise TflowError("Action masks: a row allows no action at all; allow at least one in every row.")
    masked: Array = np.where(masks, inputs, np.float32(MASKED))
    return masked


def _same_shape(inputs: tuple[int, ...], masks: tuple[int, ...]) -> None:
    if inputs != masks:
        raise TflowError(f"Action masks: expected one bool per choice and row, shape {tuple(inputs)}, got shape {tuple(masks)}.")


# --------------------------------------------------------------------------- continuous


class Gaussian(Head):
    """Diagonal Gaussian; the inputs are the means, then the log standard deviations."""

    def __init__(
        self,
        space: spaces.Box,
        *,
        predict_std: bool = False,
        rescale: bool = False,
        log_std_init: float = 0.0,
        log_std_range: tuple[float, float] | None = None,
    ) -> None:
        size = math.prod(space.shape)
        self.inputs, self.free, self.free_init = 2 * size, 0 if predict_std else size, log_std_init
        self._range, self._rescale, self._shape, self._dtype = log_std_range, rescale, space.shape, space.low.dtype
        self._low, self._high, self._whole = space.low, space.high, np.issubdtype(self._dtype, np.integer)
        self._half_range = 0.5 * self._high - 0.5 * self._low if rescale else np.zeros(())
        low, high = (-1.0, 1.0) if rescale else (self._low.ravel(), self._high.ravel())
        self.form = ActionForm(size=size, low=low, high=high)

    def _parts(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = inputs.chunk(2, -1)
        return mean, log_std if self._range is None else log_std.clamp(*self._range)

    def sample(self, inputs: Tensor, generator: Generator | None = None) -> Tensor:
        mean, log_std = self._parts(inputs)
        noise = torch.randn(mean.shape, dtype=mean.dtype, device=mean.device, generator=generator)
        return mean + log_std.exp() * noise

    def mode(self, inputs: Tensor) -> Tensor:
        return self._parts(inputs)[0]

    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        mean, log_std = self._parts(inputs)
        return -(0.5 * ((actions - mean) * torch.exp(-log_std)).square() + log_std + HALF_LOG_TAU).sum(-1)

    def entropy(self, inputs: Tensor) -> Tensor:
        return (self._parts(inputs)[1] + (0.5 + HALF_LOG_TAU)).sum(-1)

    def kl(self, old_inputs: Tensor, new_inputs: Tensor) -> Tensor:
        (old, old_log_std), (new, new_log_std) = self._parts(old_inputs), self._parts(new_inputs)
        ratio = (2 * (old_log_std - new_log_std)).exp()
        apart = ((old - new) * torch.exp(-new_log_std)).square()
        return (new_log_std - old_log_std + 0.5 * (ratio + apart - 1)).sum(-1)

    def sample_numpy(self, inputs: Array, rng: np.random.Generator, masks: Array | None = None) -> tuple[Array, Array]:
        if masks is not None:
            raise TflowError(f"{type(self).__name__}: action masks need a Discrete or MultiDiscrete action space.")
        size = self.form.size
        mean, log_std = inputs[:, :size], inputs[:, size:]
        if self._range is not None:
            log_std = np.clip(log_std, *self._range)
        noise = rng.standard_normal(mean.shape, dtype=np.float32)
        logp = -(0.5 * noise * noise + log_std) @ np.ones(size, np.float32) - np.float32(size * HALF_LOG_TAU)
        return mean + np.exp(log_std) * noise, logp

    def to_env(self, actions: Array) -> Array:
        values = actions.reshape(-1, *self._shape)
        if self._rescale:
            values = self._low + (values + 1) * self._half_range
        if self._whole:
            values = np.rint(values)
        return np.clip(values, self._low, self._high).astype(self._dtype, copy=False)

    def to_env_tensor(self, actions: Tensor) -> Tensor:
        values = actions.reshape(-1, *self._shape)
        low, high = torch.as_tensor(self._low), torch.as_tensor(self._high)
        if self._rescale:
            values = low + (values + 1) * torch.as_tensor(self._half_range)
        if self._whole:
            values = values.round()
        return torch.minimum(torch.maximum(values, low), high).to(_torch_type(self._dtype))


class SquashedGaussian(Gaussian):
    """Diagonal Gaussian squashed into [-1, 1] by tanh, which ``to_env`` rescales to the bounds (as in SAC).

    Densities are those of actions in [-1, 1], so entropies do not depend on the bounds. ``logp`` has to invert tanh: it is exact
    as far as float32 tells an action from the bound; ``sample_logp`` and ``sample_numpy`` are exact everywhere. The entropy has
    no formula and is computed numerically. KL divergences are those before squashing, which changes none.
    """

    def sample(self, inputs: Tensor, generator: Generator | None = None) -> Tensor:
        return super().sample(inputs, generator).tanh()

    def sample_logp(self, inputs: Tensor, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
        values = super().sample(inputs, generator)
        return values.tanh(), super().logp(inputs, values) - _log_slope(values).sum(-1)

    def mode(self, inputs: Tensor) -> Tensor:
        return self._parts(inputs)[0].tanh()

    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        within = 1 - torch.finfo(actions.dtype).eps
        values = actions.clamp(-within, within).atanh()
        return super().logp(inputs, values) - _log_slope(values).sum(-1)

    def entropy(self, inputs: Tensor) -> Tensor:
        mean, log_std = self._parts(inputs)
        places, weights = (torch.as_tensor(part, dtype=mean.dtype, device=mean.device) for part in (PLACES, WEIGHTS))
        slopes = _log_slope(mean.unsqueeze(-1) + log_std.exp().unsqueeze(-1) * places) @ weights
        return super().entropy(inputs) + slopes.sum(-1)

    def sample_numpy(self, inputs: Array, rng: np.random.Generator, masks: Array | None = None) -> tuple[Array, Array]:
        values, logp = super().sample_numpy(inputs, rng, masks)
        slopes = 2 * (math.log(2) - values - np.logaddexp(0, -2 * values))
        return np.tanh(values), logp - slopes.sum(axis=1)


class Deterministic(Gaussian):
    """The action itself, squashed into [-1, 1] by tanh, which ``to_env`` rescales to the bounds (as in DDPG and TD3)."""

    def __init__(self, space: spaces.Box) -> None:
        check_bounds(space)
        super().__init__(space, rescale=True)
        self.inputs, self.free = self.form.size, 0

    def sample(self, inputs: Tensor, generator: Generator | None = None) -> Tensor:
        return inputs.tanh()

    def mode(self, inputs: Tensor) -> Tensor:
        return inputs.tanh()

    def logp(self, inputs: Tensor, actions: Tensor) -> Tensor:
        return torch.zeros_like(inputs[..., 0])

    def entropy(self, inputs: Tensor) -> Tensor:
        return torch.zeros_like(inputs[..., 0])

    def kl(self, old_inputs: Tensor, new_inputs: Tensor) -> Tensor:
        raise TflowError("Deterministic: a deterministic policy has no KL divergence.")

    def sample_numpy(self, inputs: Array, rng: np.random.Generator, masks: Array | None = None) -> tuple[Array, Array]:
        if masks is not None:
            raise TflowError("Deterministic: action masks need a Discrete or MultiDiscrete action space.")
        return np.tanh(inputs), np.zeros(len(inputs), np.float32)


def check_bounds(space: spaces.Box) -> None:
    """Raise unless actions can be squashed into the bounds of their space."""
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise PlanError(
            f"Squashed actions need finite bounds, but the action space is {one_line(space)}. Give it some with "
            "gymnasium.wrappers.TransformAction, or use PPO."
        )


def _log_slope(values: Tensor) -> Tensor:
    """The logarithm of the derivative of tanh, without the cancellation in log(1 - tanh(x) ** 2)."""
    return 2 * (math.log(2) - values - functional.softplus(-2 * values))


PLACES = np.linspace(-5.5, 5.5, 64)
"""Where a standard normal number may be. With even spaces, and the densities as weights, the mean of the log slope of tanh has an
error below 0.0002 up to a standard deviation of exp(2), and below 0.000001 up to exp(1); Gaussian quadrature is worse at it."""
WEIGHTS = np.exp(-0.5 * PLACES**2) / np.exp(-0.5 * PLACES**2).sum()


# --------------------------------------------------------------------------- by action space


def head_for(
    action_space: spaces.Space[Any],  # Any: what the actions of a space are is known only when it runs
    *,
    squash: bool = False,
    rescale: bool = False,
    predict_std: bool | None = None,
    log_std_init: float = 0.0,
    log_std_range: tuple[float, float] | None = None,
) -> Head:
    """The head for an action space. All options are for Box spaces.

    Args:
        action_space: The action space.
        squash: Squash actions into their bounds by tanh; otherwise ``to_env`` clips them.
        rescale: Rescale actions from [-1, 1] to the bounds; squashed ones always are.
        predict_std: Predict the standard deviation from the observation; None does so only if squashed.
        log_std_init: Initial log standard deviation, if it is a parameter.
        log_std_range: Bounds of the log standard deviation; a predicted one always has some.
    """
    if isinstance(action_space, spaces.Discrete):
        return Categorical(action_space)
    if isinstance(action_space, spaces.MultiDiscrete):
        return MultiCategorical(action_space)
    if isinstance(action_space, spaces.MultiBinary):
        return Bernoulli(action_space)
    if not isinstance(action_space, spaces.Box):
        raise PlanError(
            f"head_for: no head fits the action space {one_line(action_space)}. Turn it into a Discrete, "
            "MultiDiscrete, MultiBinary or Box with an action wrapper."
        )
    bounded = np.isfinite(action_space.low).all() and np.isfinite(action_space.high).all()
    if (squash or rescale) and not bounded:
        option = "squash" if squash else "rescale"
        raise PlanError(
            f"head_for: {option}=True needs finite bounds, but the action space is {one_line(action_space)}. Leave it out."
        )
    predict_std = squash if predict_std is None else predict_std
    return (SquashedGaussian if squash else Gaussian)(
        action_space,
        predict_std=predict_std,
        rescale=rescale or squash,
        log_std_init=log_std_init,
        log_std_range=LOG_STD_RANGE if log_std_range is None and predict_std else log_std_range,
    )
