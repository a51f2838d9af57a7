"""Exploration strategies for rollout workers. Only numpy.

Every strategy has two halves. The *description* (``EpsilonGreedy(0.1)``) is a frozen value in the plan. Each worker calls
``start`` on it once and gets an *explorer*, which holds the state: the noise of each env, an adapted scale. The worker

- asks ``weights`` which weights to act with, whenever new ones arrive (only parameter noise changes them);
- sends the actions of every step through ``apply``, in the units in which batches hold them, before ``Head.to_env``;
- tells ``ended`` which rows have just finished an episode;
- may call ``adapt`` with the outputs of the unperturbed and the perturbed policy for the same observations;
- keeps ``state()`` in checkpoints and gives it back to ``restore``.

Explorers draw from the generator that they are handed, as many numbers whatever these turn out to be: same seed, same actions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tflow.combinators import check
from tflow.errors import PlanError, TflowError
from tflow.rl.data.arrays import Array
from tflow.rl.schedules import Schedule, schedule_of


@dataclass(frozen=True, eq=False)
class ActionForm:
    """The form of actions in batches (``Head.form``)."""

    choices: tuple[int, ...] = ()
    """Discrete: the number of actions of each part, numbered from 0."""
    size: int = 0
    """Continuous: the number of components."""
    low: float | Array = -1.0
    """Continuous: lower bound, of all or of each component."""
    high: float | Array = 1.0


class Exploration(Protocol):
    """Description of an exploration strategy."""

    def start(self, num_envs: int, form: ActionForm, *, shard_index: int = 0, shard_count: int = 1) -> Explorer:
        """Make the explorer of worker ``shard_index`` out of ``shard_count``, for ``num_envs`` envs."""
        ...


class Explorer:
    """An exploration strategy at work in a worker. What is not overridden does nothing."""

    def weights(self, flat: Array, *, rng: np.random.Generator) -> Array:
        """The flat float32 weights to act with, given those of the policy."""
        return flat

    def apply(self, actions: Array, *, steps: int, rng: np.random.Generator, masks: Array | None = None) -> Array:
        """The actions to take, one row per env, given those of the policy and the env steps so far. Never changes its input.

        ``masks`` (rows, choices) is True where a choice is allowed; the masks of several parts stand side by side.
        """
        return actions

    def logp(self, actions: Array, own: Array, *, steps: int, masks: Array | None = None) -> Array:
        """Log-probability of taking ``actions`` when the policy chose ``own``; 0 if it is not known."""
        return np.zeros(len(actions), np.float32)

    def ended(self, rows: Array) -> None:
        """The episodes of the rows where this bool array is True have ended."""

    def adapt(self, unperturbed: Array, perturbed: Array) -> None:
        """Adapt to the distance between the unperturbed and the perturbed policy, given their actions or Q-values."""

    def metrics(self, steps: int) -> dict[str, float]:
        """Numbers to report."""
        return {}

    def state(self) -> dict[str, Array]:
        """The state, for a checkpoint."""
        return {}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore a state."""


# --------------------------------------------------------------------------- discrete actions


@dataclass(frozen=True)
class EpsilonGreedy:
    """Epsilon-greedy: with probability epsilon, an action drawn uniformly from those that are allowed."""

    epsilon: float | Schedule = 0.1
    """Probability of a random action, or a schedule; usually annealed from 1 to 0.01..0.1."""

    def __post_init__(self) -> None:
        _probability("EpsilonGreedy", "epsilon", schedule_of(self.epsilon, where="EpsilonGreedy: epsilon").at(0))

    def start(self, num_envs: int, form: ActionForm, *, shard_index: int = 0, shard_count: int = 1) -> Explorer:
        _shard("EpsilonGreedy", num_envs, shard_index, shard_count)
        return _Epsilons(schedule_of(self.epsilon), np.ones(num_envs), _choices("EpsilonGreedy", form))


@dataclass(frozen=True)
class ApexEpsilons:
    """Epsilon-greedy with a constant epsilon per env (Ape-X, Horgan et al. 2018): ``base ** (1 + alpha * i / (N - 1))`` for
    env i of the N envs of all workers. A single env gets ``base``.

    >>> ApexEpsilons().epsilons(8).round(4).tolist()
    [0.4, 0.16, 0.064, 0.0256, 0.0102, 0.0041, 0.0016, 0.0007]
    """

    base: float = 0.4
    """Largest epsilon; usually 0.4. Larger: more exploration."""
    alpha: float = 7.0
    """Exponent; usually 7. Larger: more envs act almost greedily."""

    def __post_init__(self) -> None:
        _probability("ApexEpsilons", "base", self.base)
        check.at_least_zero("ApexEpsilons", "alpha", self.alpha)

    def epsilons(self, rows: int) -> Array:
        """The epsilon of every env of all workers."""
        return np.asarray(self.base ** (1 + self.alpha * np.arange(rows) / max(rows - 1, 1)), dtype=np.float64)

    def start(self, num_envs: int, form: ActionForm, *, shard_index: int = 0, shard_count: int = 1) -> Explorer:
        _shard("ApexEpsilons", num_envs, shard_index, shard_count)
        mine = self.epsilons(num_envs * shard_count)[shard_index * num_envs :][:num_envs]
        return _Epsilons(schedule_of(1.0), mine, _choices("ApexEpsilons", form))


class _Epsilons(Explorer):
    """Each env explores with the scheduled epsilon times a factor of its own."""

    def __init__(self, schedule: Schedule, factors: Array, choices: tuple[int, ...]) -> None:
        self._schedule, self._factors, self._choices = schedule, factors, choices

    def apply(self, actions: Array, *, steps: int, rng: np.random.Generator, masks: Array | None = None) -> Array:
        explores = rng.random(len(actions)) < self._factors * self._schedule.at(steps)
        drawn = uniform_choices(rng.random((len(self._choices), len(actions))), self._choices, masks)
        if actions.ndim > 1:
            explores, drawn = explores[:, None], drawn.T
        else:
            drawn = drawn[0]
        taken: Array = np.where(explores, drawn, actions)
        return taken

    def logp(self, actions: Array, own: Array, *, steps: int, masks: Array | None = None) -> Array:
        epsilons = self._factors * self._schedule.at(steps)
        each: Array = np.full(len(actions), 1 / math.prod(self._choices))
        if masks is not None:
            allowed = np.split(masks, np.cumsum(self._choices)[:-1], axis=1)
            each = 1 / np.prod([part.sum(axis=1) for part in allowed], axis=0)
        same = actions == own if actions.ndim == 1 else (actions == own).all(axis=1)
        chances: Array = np.log(epsilons * each + (1 - epsilons) * same)
        return chances.astype(np.float32)

    def metrics(self, steps: int) -> dict[str, float]:
        return {"epsilon": float(self._factors.mean()) * self._schedule.at(steps)}


def uniform_choices(uniform: Array, choices: tuple[int, ...], masks: Array | None) -> Array:
    """Turn uniform numbers of [0, 1), (parts, rows), into actions; with ``masks`` (rows, actions) only allowed ones."""
    drawn: Array = (uniform * np.asarray(choices)[:, None]).astype(np.int64)
    if masks is None:
        return drawn
    for part, allowed in enumerate(np.split(masks, np.cumsum(choices)[:-1], axis=1)):
        ranks = np.cumsum(allowed, axis=1)  # the k-th allowed choice has rank k, counted from 1
        if not ranks[:, -1].all():
            raise TflowError("Action masks: a row allows no action at all; allow at least one in every row.")
        drawn[part] = (ranks <= (uniform[part] * ranks[:, -1]).astype(np.int64)[:, None]).sum(axis=1)
    return drawn


# --------------------------------------------------------------------------- continuous actions


def clipped_to_bounds(actions: Array, form: ActionForm) -> Array:
    """Actions clipped to their bounds."""
    clipped: Array = np.clip(actions, np.asarray(form.low, actions.dtype), np.asarray(form.high, actions.dtype))
    return clipped


@dataclass(frozen=True)
class GaussianNoise:
    """Gaussian noise on every component, clipped to the bounds (as in TD3)."""

    sigma: float | Schedule = 0.1
    """Standard deviation of the noise, or a schedule, in the units of actions; usually 0.05 to 0.3. Larger: more
    exploration."""

    def __post_init__(self) -> None:
        check.at_least_zero("GaussianNoise", "sigma", schedule_of(self.sigma, where="GaussianNoise: sigma").at(0))

    def start(self, num_envs: int, form: ActionForm, *, shard_index: int = 0, shard_count: int = 1) -> Explorer:
        _shard("GaussianNoise", num_envs, shard_index, shard_count)
        return _Gaussian(schedule_of(self.sigma), _bounded("GaussianNoise", form))


class _Gaussian(Explorer):
    def __init__(self, sigma: Schedule, form: ActionForm, factors: Array | float = 1.0) -> None:
        self._sigma, self._form, self._factors = sigma, form, np.asarray(factors, np.float32)

    def apply(self, actions: Array, *, steps: int, rng: np.random.Generator, masks: Array | None = None) -> Array:
        noise = rng.standard_normal(actions.shape, dtype=np.float32) * (np.float32(self._sigma.at(steps)) * self._factors)
        return clipped_to_bounds(actions + noise, self._form)

    def metrics(self, steps: int) -> dict[str, float]:
        return {"sigma": self._sigma.at(steps) * float(self._factors.mean())}


@dataclass(frozen=True)
class OUNoise:
    """Ornstein-Uhlenbeck noise: correlated in time, one process per env, which starts at 0 in each episode (as in DDPG)."""

    theta: float = 0.15
    """Rate of mean reversion; usually 0.15. Larger: shorter correlation."""
    sigma: float = 0.2
    """Scale of the noise; usually 0.1 to 0.3. Larger: more exploration."""
    dt: float = 0.01
    """Time per step; usually 0.01."""

    def __post_init__(self) -> None:
        check.at_least_zero("OUNoise", "theta", self.theta)
        check.at_least_zero("OUNoise", "sigma", self.sigma)
        check.positive("OUNoise", "dt", self.dt)

    def start(self, num_envs: int, form: ActionForm, *, shard_index: int = 0, shard_count: int = 1) -> Explorer:
        _shard("OUNoise", num_envs, shard_index, shard_count)
        return _OrnsteinUhlenbeck(self, num_envs, _bounded("OUNoise", form))


class _OrnsteinUhlenbeck(Explorer):
    def __init__(self, process: OUNoise, num_envs: int, form: ActionForm) -> None:
        self._process, self._form = process, form
        self._noise = np.zeros((num_envs, form.size), np.float32)

    def apply(self, actions: Array, *, steps: int, rng: np.random.Generator, masks: Array | None = None) -> Array:
        process = self._process
        fresh = rng.standard_normal(self._noise.shape, dtype=np.float32)
        self._noise = self._noise * np.float32(1 - process.theta * process.dt) + fresh * np.float32(
            process.sigma * math.sqrt(process.dt)
        )
        return clipped_to_bounds(actions + self._noise, self._form)

    def ended(self, rows: Array) -> None:
        self._noise[rows] = 0

    def state(self) -> dict[str, Array]:
        return {"noise": self._noise.copy()}

    def load(self, state: Mapping[str, Array]) -> None:
        self._noise = np.array(state["noise"], dtype=np.float32)


@dataclass(frozen=True)
class ApexNoise:
    """Gaussian noise with a constant sigma per env (Ape-X DPG, Horgan et al. 2018): ``base ** (1 + alpha * i / (N - 1))`` for env
    i of the N envs of all workers. A single env gets ``base``."""

    base: float = 0.4
    """Largest sigma, in the units of actions; usually 0.3 to 0.5. Larger: more exploration."""
    alpha: float = 3.0
    """Exponent; usually 1 to 7. Larger: more envs act almost without noise."""

    def __post_init__(self) -> None:
        _probability("ApexNoise", "base", self.base)
        check.at_least_zero("ApexNoise", "alpha", self.alpha)

    def start(self, num_envs: int, form: ActionForm, *, shard_index: int = 0, shard_count: int = 1) -> Explorer:
        _shard("ApexNoise", num_envs, shard_index, shard_count)
        sigmas = ApexEpsilons(self.base, self.alpha).epsilons(num_envs * shard_count)[shard_index * num_envs :][:num_envs]
        return _Gaussian(schedule_of(1.0), _bounded("ApexNoise", form), sigmas.astype(np.float32)[:, None])


# --------------------------------------------------------------------------- any actions


@dataclass(frozen=True)
class RandomFirst:
    """Actions drawn uniformly for the first env steps, so that replay begins with all kinds of them."""

    steps: int = 100
    """Env steps of all workers with random actions; usually 100 to 25,000."""
    then: Exploration | None = None
    """The exploration strategy after that; None samples from the policy alone."""

    def __post_init__(self) -> None:
        check.integer("RandomFirst", "steps", self.steps, least=0)
        if self.then is not None and not hasattr(self.then, "start"):
            raise PlanError(f"RandomFirst: then must be an exploration strategy such as GaussianNoise(0.1); got {self.then!r}.")

    def start(self, num_envs: int, form: ActionForm, *, shard_index: int = 0, shard_count: int = 1) -> Explorer:
        _shard("RandomFirst", num_envs, shard_index, shard_count)
        if form.size and not (np.isfinite(form.low).all() and np.isfinite(form.high).all()):
            raise PlanError("RandomFirst: uniform actions need finite bounds. Leave it out, or give the action space some.")
        shard = {"shard_index": shard_index, "shard_count": shard_count}
        return _RandomFirst(self.steps, form, Explorer() if self.then is None else self.then.start(num_envs, form, **shard))


class _RandomFirst(Explorer):
    def __init__(self, steps: int, form: ActionForm, then: Explorer) -> None:
        self._steps, self._form, self._then = steps, form, then

    def weights(self, flat: Array, *, rng: np.random.Generator) -> Array:
        return self._then.weights(flat, rng=rng)

    def apply(self, actions: Array, *, steps: int, rng: np.random.Generator, masks: Array | None = None) -> Array:
        if steps >= self._steps:
            return self._then.apply(actions, steps=steps, rng=rng, masks=masks)
        if self._form.choices:
            drawn = uniform_choices(rng.random((len(self._form.choices), len(actions))), self._form.choices, masks)
            return drawn.T if actions.ndim > 1 else drawn[0]
        low, high = np.broadcast_to(self._form.low, actions.shape), np.broadcast_to(self._form.high, actions.shape)
        return rng.uniform(low, high).astype(actions.dtype)

    def logp(self, actions: Array, own: Array, *, steps: int, masks: Array | None = None) -> Array:
        if steps >= self._steps:
            return self._then.logp(actions, own, steps=steps, masks=masks)
        return super().logp(actions, own, steps=steps, masks=masks)

    def ended(self, rows: Array) -> None:
        self._then.ended(rows)

    def adapt(self, unperturbed: Array, perturbed: Array) -> None:
        self._then.adapt(unperturbed, perturbed)

    def metrics(self, steps: int) -> dict[str, float]:
        return self._then.metrics(steps)

    def state(self) -> dict[str, Array]:
        return self._then.state()

    def load(self, state: Mapping[str, Array]) -> None:
        self._then.load(state)


# --------------------------------------------------------------------------- weights


@dataclass(frozen=True)
class ParameterNoise:
    """Parameter space noise: Gaussian noise on the weights, for consistent exploration (Plappert et al., 2018).

    The scale is adapted to a target distance between the perturbed and the unperturbed policy: the root mean squared difference
    of continuous actions, or the KL divergence of the softmax of Q-values.
    """

    sigma: float = 0.1
    """Initial standard deviation of the noise; usually 0.01 to 0.2."""
    target_distance: float | None = 0.1
    """Distance that sigma is adapted to; usually 0.05 to 0.3. Larger: more exploration. None: sigma is constant."""
    factor: float = 1.01
    """Factor by which sigma changes per adaptation; usually 1.01."""

    def __post_init__(self) -> None:
        check.positive("ParameterNoise", "sigma", self.sigma)
        check.positive("ParameterNoise", "factor", self.factor)
        if self.factor <= 1:
            raise PlanError(f"ParameterNoise: factor must be above 1, got {self.factor}.")
        if self.target_distance is not None:
            check.positive("ParameterNoise", "target_distance", self.target_distance)

    def start(self, num_envs: int, form: ActionForm, *, shard_index: int = 0, shard_count: int = 1) -> Explorer:
        _shard("ParameterNoise", num_envs, shard_index, shard_count)
        return _PerturbedWeights(self, form)


class _PerturbedWeights(Explorer):
    def __init__(self, noise: ParameterNoise, form: ActionForm) -> None:
        self._description, self._discrete = noise, bool(form.choices)
        self._sigma, self._distance = noise.sigma, 0.0

    def weights(self, flat: Array, *, rng: np.random.Generator) -> Array:
        noisy: Array = flat + rng.standard_normal(flat.shape, dtype=np.float32) * np.float32(self._sigma)
        return noisy

    def adapt(self, unperturbed: Array, perturbed: Array) -> None:
        target, factor = self._description.target_distance, self._description.factor
        self._distance = softmax_kl(unperturbed, perturbed) if self._discrete else root_mean_square(unperturbed - perturbed)
        if target is not None:
            self._sigma *= factor if self._distance <= target else 1 / factor

    def metrics(self, steps: int) -> dict[str, float]:
        return {"sigma": self._sigma, "distance": self._distance}

    def state(self) -> dict[str, Array]:
        return {"sigma": np.array([self._sigma])}

    def load(self, state: Mapping[str, Array]) -> None:
        self._sigma = float(state["sigma"][0])


def root_mean_square(differences: Array) -> float:
    """Distance of policies with continuous actions, by the differences of their actions."""
    return float(np.sqrt(np.mean(np.square(differences, dtype=np.float64))))


def softmax_kl(unperturbed: Array, perturbed: Array) -> float:
    """Distance of policies with Q-values: the mean KL divergence of their softmax."""
    unperturbed_logp, perturbed_logp = (
        shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        for shifted in (values.astype(np.float64) - values.max(axis=-1, keepdims=True) for values in (unperturbed, perturbed))
    )
    return float((np.exp(unperturbed_logp) * (unperturbed_logp - perturbed_logp)).sum(axis=-1).mean())


# --------------------------------------------------------------------------- checks


def _shard(where: str, num_envs: int, index: int, count: int) -> None:
    check.integer(where, "num_envs", num_envs, least=1)
    check.integer(where, "shard_count", count, least=1)
    check.integer(where, "shard_index", index, least=0, most=count - 1)


def _probability(where: str, name: str, value: float) -> None:
    check.at_least_zero(where, name, value)
    if value > 1:
        raise PlanError(f"{where}: {name} is a probability, at most 1, got {value}.")


def _choices(where: str, form: ActionForm) -> tuple[int, ...]:
    if not form.choices:
        raise PlanError(f"{where}: needs discrete actions, but these are continuous. Use GaussianNoise() or OUNoise() instead.")
    return form.choices


def _bounded(where: str, form: ActionForm) -> ActionForm:
    if not form.size:
        raise PlanError(f"{where}: needs continuous actions, but these are discrete. Use EpsilonGreedy() instead.")
    return form
