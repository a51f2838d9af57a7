"""Ways to try something else than what the policy thinks best, for rollout workers. Only numpy.

Every way has two halves. The *description* (``EpsilonGreedy(0.1)``) is a frozen value that stands in the plan. Each worker calls
``start`` on it once and gets an *explorer*, which holds what changes: the noise of each env row, an adapted strength. The worker

- asks ``weights`` which weights to act with, whenever new ones arrive (only parameter noise answers with others);
- sends the actions of every step through ``apply``, in the units in which batches hold them, before ``Head.to_env``;
- tells ``ended`` which rows have just finished an episode;
- may call ``adapt`` with what the plain and the perturbed policy say about the same observations;
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
    """What the actions in batches look like; heads tell it of theirs (``Head.form``)."""

    choices: tuple[int, ...] = ()
    """Of discrete actions: the number of choices of each part. Actions count from 0."""
    size: int = 0
    """Of continuous actions: the number of components."""
    low: float | Array = -1.0
    """The least value of continuous actions, for all or for each component."""
    high: float | Array = 1.0


class Exploration(Protocol):
    """A way to explore, as a plan describes it."""

    def start(self, num_envs: int, form: ActionForm, *, shard_index: int = 0, shard_count: int = 1) -> Explorer:
        """The explorer of worker ``shard_index`` out of ``shard_count``, for so many env rows."""
        ...


class Explorer:
    """A way to explore at work. What is not overridden leaves things as they are."""

    def weights(self, flat: Array, *, rng: np.random.Generator) -> Array:
        """The flat float32 weights to act with, given those of the policy."""
        return flat

    def apply(self, actions: Array, *, steps: int, rng: np.random.Generator, masks: Array | None = None) -> Array:
        """The actions to take, one row per env, given the policy's own and the env steps so far. Never changes its input.

        ``masks`` (rows, choices) is True where a choice is allowed; the masks of several parts stand side by side.
        """
        return actions

    def logp(self, actions: Array, own: Array, *, steps: int, masks: Array | None = None) -> Array:
        """How likely it was to take ``actions`` when the policy's own were others: the logarithm, or 0 if nobody can tell."""
        return np.zeros(len(actions), np.float32)

    def ended(self, rows: Array) -> None:
        """The episodes of the rows where this bool array is True have ended."""

    def adapt(self, plain: Array, perturbed: Array) -> None:
        """Compare what the policy says with plain and with perturbed weights: continuous actions, or the values of choices."""

    def metrics(self, steps: int) -> dict[str, float]:
        """Numbers to report."""
        return {}

    def state(self) -> dict[str, Array]:
        """All that changes, for a checkpoint."""
        return {}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Continue from a state."""


# --------------------------------------------------------------------------- discrete actions


@dataclass(frozen=True)
class EpsilonGreedy:
    """With probability epsilon, an action drawn evenly from those that are allowed."""

    epsilon: float | Schedule = 0.1

    def __post_init__(self) -> None:
        _probability("EpsilonGreedy", "epsilon", schedule_of(self.epsilon, where="EpsilonGreedy: epsilon").at(0))

    def start(self, num_envs: int, form: ActionForm, *, shard_index: int = 0, shard_count: int = 1) -> Explorer:
        _shard("EpsilonGreedy", num_envs, shard_index, shard_count)
        return _Epsilons(schedule_of(self.epsilon), np.ones(num_envs), _choices("EpsilonGreedy", form))


@dataclass(frozen=True)
class ApexEpsilons:
    """Epsilon-greedy with one constant epsilon per env row, ``base ** (1 + alpha * i / (N - 1))`` for row i of all N rows of all
    workers: some explore all the time, some hardly ever (Horgan et al., 2018). A single row gets ``base``.

    >>> ApexEpsilons().epsilons(8).round(4).tolist()
    [0.4, 0.16, 0.064, 0.0256, 0.0102, 0.0041, 0.0016, 0.0007]
    """

    base: float = 0.4
    alpha: float = 7.0

    def __post_init__(self) -> None:
        _probability("ApexEpsilons", "base", self.base)
        check.at_least_zero("ApexEpsilons", "alpha", self.alpha)

    def epsilons(self, rows: int) -> Array:
        """The epsilon of every row of all workers."""
        return np.asarray(self.base ** (1 + self.alpha * np.arange(rows) / max(rows - 1, 1)), dtype=np.float64)

    def start(self, num_envs: int, form: ActionForm, *, shard_index: int = 0, shard_count: int = 1) -> Explorer:
        _shard("ApexEpsilons", num_envs, shard_index, shard_count)
        mine = self.epsilons(num_envs * shard_count)[shard_index * num_envs :][:num_envs]
        return _Epsilons(schedule_of(1.0), mine, _choices("ApexEpsilons", form))


class _Epsilons(Explorer):
    """Each row explores with the scheduled epsilon times its own factor."""

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
    """Turn numbers of [0, 1), (parts, rows), into choices of each part; with ``masks`` (rows, choices) only allowed ones."""
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


def within(actions: Array, form: ActionForm) -> Array:
    """The nearest actions that are within the bounds."""
    clipped: Array = np.clip(actions, np.asarray(form.low, actions.dtype), np.asarray(form.high, actions.dtype))
    return clipped


@dataclass(frozen=True)
class GaussianNoise:
    """Normal noise on every component, new at each step, then back within the bounds (as in TD3)."""

    sigma: float | Schedule = 0.1

    def __post_init__(self) -> None:
        check.at_least_zero("GaussianNoise", "sigma", schedule_of(self.sigma, where="GaussianNoise: sigma").at(0))

    def start(self, num_envs: int, form: ActionForm, *, shard_index: int = 0, shard_count: int = 1) -> Explorer:
        _shard("GaussianNoise", num_envs, shard_index, shard_count)
        return _Gaussian(schedule_of(self.sigma), _bounded("GaussianNoise", form))


class _Gaussian(Explorer):
    def __init__(self, sigma: Schedule, form: ActionForm) -> None:
        self._sigma, self._form = sigma, form

    def apply(self, actions: Array, *, steps: int, rng: np.random.Generator, masks: Array | None = None) -> Array:
        noise = rng.standard_normal(actions.shape, dtype=np.float32) * np.float32(self._sigma.at(steps))
        return within(actions + noise, self._form)

    def metrics(self, steps: int) -> dict[str, float]:
        return {"sigma": self._sigma.at(steps)}


@dataclass(frozen=True)
class OUNoise:
    """Noise that drifts: an Ornstein-Uhlenbeck process per env row, which starts at 0 with each episode (as in DDPG)."""

    theta: float = 0.15
    sigma: float = 0.2
    dt: float = 0.01

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
        return within(actions + self._noise, self._form)

    def ended(self, rows: Array) -> None:
        self._noise[rows] = 0

    def state(self) -> dict[str, Array]:
        return {"noise": self._noise.copy()}

    def restore(self, state: Mapping[str, Array]) -> None:
        self._noise = np.array(state["noise"], dtype=np.float32)


# --------------------------------------------------------------------------- weights


@dataclass(frozen=True)
class ParameterNoise:
    """Normal noise on the weights, so that a policy errs in a consistent way (Plappert et al., 2018).

    ``sigma`` is where the strength starts. After each ``adapt`` it grows by ``factor`` if the perturbed policy was at most
    ``target_distance`` away from the plain one, else it shrinks by it; with ``target_distance=None`` it stays. The distance is
    the root of the mean squared difference of continuous actions, or the KL divergence of the softmax of values of choices.
    """

    sigma: float = 0.1
    target_distance: float | None = 0.1
    factor: float = 1.01

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

    def adapt(self, plain: Array, perturbed: Array) -> None:
        target, factor = self._description.target_distance, self._description.factor
        self._distance = softmax_kl(plain, perturbed) if self._discrete else root_mean_square(plain - perturbed)
        if target is not None:
            self._sigma *= factor if self._distance <= target else 1 / factor

    def metrics(self, steps: int) -> dict[str, float]:
        return {"sigma": self._sigma, "distance": self._distance}

    def state(self) -> dict[str, Array]:
        return {"sigma": np.array([self._sigma])}

    def restore(self, state: Mapping[str, Array]) -> None:
        self._sigma = float(state["sigma"][0])


def root_mean_square(differences: Array) -> float:
    """The distance of policies with continuous actions, from the differences of their actions."""
    return float(np.sqrt(np.mean(np.square(differences, dtype=np.float64))))


def softmax_kl(plain: Array, perturbed: Array) -> float:
    """The distance of policies given by values of choices: the mean KL divergence of the softmax distributions."""
    plain_logp, perturbed_logp = (
        shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        for shifted in (values.astype(np.float64) - values.max(axis=-1, keepdims=True) for values in (plain, perturbed))
    )
    return float((np.exp(plain_logp) * (plain_logp - perturbed_logp)).sum(axis=-1).mean())


def distance_of_epsilon(epsilon: float, choices: int) -> float:
    """The target distance at which parameter noise explores about as much as epsilon-greedy: -log(1 - epsilon + epsilon / n)."""
    return -math.log(1 - epsilon + epsilon / choices)


# --------------------------------------------------------------------------- sentences


def _shard(where: str, num_envs: int, index: int, count: int) -> None:
    check.whole(where, "num_envs", num_envs, least=1)
    check.whole(where, "shard_count", count, least=1)
    check.whole(where, "shard_index", index, least=0, most=count - 1)


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
