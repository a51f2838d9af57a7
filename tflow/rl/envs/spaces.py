"""Observations and actions of gymnasium spaces as arrays, with checks.

An ``ObsLayout`` is made once per observation space. It knows the arrays that the space needs (``tflow.rl.data.arrays``), copies
the observation of a single env into a row, takes over the batch of a vector env without copying where it can, and finds invalid
rows. An ``ActionLayout`` does the same for actions, in the other direction.

Types: an observation may be of another float type than its space says, and of another integer type if no value changes: envs do
that a lot. It is converted. Other differences are mistakes of the env and raise ``Mismatch``, which the adapters turn into an
``EnvError``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from gymnasium import Space, spaces

from tflow.combinators.labels import one_line
from tflow.errors import TflowError
from tflow.rl.data.arrays import Array, Obs, picked

AnySpace: TypeAlias = Space[Any]  # Any: a space is generic in its elements, which we look at as arrays
Write = Callable[[int, object], None]
"""Copies the observation of one env into a row."""


class Mismatch(TflowError):
    """A value does not fit its space. ``field`` is where ("obs/position"), ``rows`` are the rows of a batch that are wrong."""

    def __init__(self, field: str, problem: str, rows: tuple[int, ...] = ()) -> None:
        super().__init__(field, problem, rows)
        self.field = field
        self.problem = one_line(problem)
        self.rows = rows

    def __str__(self) -> str:
        return f"{self.field} {self.problem}"


# --------------------------------------------------------------------------- one array


@dataclass(frozen=True, eq=False)
class Leaf:
    """One array of an observation."""

    name: str  # "" for a space that is not made of others, else "camera" or "arm/position"
    space: AnySpace
    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # Any: known when the space is

    @property
    def field(self) -> str:
        """Its name in errors and columns."""
        return f"obs/{self.name}" if self.name else "obs"

    def converted(self, value: object, shape: tuple[int, ...]) -> Array:
        """The value as an array of this shape and type, if no more than the precision of floats is lost."""
        try:
            given = np.asarray(value)
        except ValueError:  # lists of different lengths
            given = np.asarray(None)
        if given.dtype == object:
            raise Mismatch(
                self.field, f"is a {type(value).__name__}, not the array of {self.dtype} that its space {self.space} has."
            )
        if given.shape != shape:
            raise Mismatch(self.field, f"has shape {given.shape}; its space {self.space} says {shape}.")
        if np.can_cast(given.dtype, self.dtype, "safe"):
            return given.astype(self.dtype, copy=False)
        if given.dtype.kind == "f" and self.dtype.kind == "f":
            return given.astype(self.dtype)
        if given.dtype.kind in "iu" and self.dtype.kind in "iu":
            cast = given.astype(self.dtype)
            if np.array_equal(cast, given):
                return cast
        raise Mismatch(
            self.field,
            f"has type {given.dtype}; its space {self.space} says {self.dtype}. Convert it in the env, or change the space.",
        )

    def problem(self, rows: Array) -> Mismatch | None:
        """What is wrong with the values, if anything: not finite, or outside of a discrete space."""
        if self.dtype.kind == "f":
            if all_finite(rows):
                return None
            wrong, what = ~np.isfinite(rows), "is not finite"
        elif isinstance(self.space, (spaces.Discrete, spaces.MultiDiscrete)):
            first = self.space.start
            wrong = (rows < first) | (rows >= first + _choices(self.space))
            if not np.count_nonzero(wrong):
                return None
            what = "is not in its discrete space"
        else:
            return None
        where = tuple(np.flatnonzero(wrong.reshape(len(rows), -1).any(axis=1)).tolist())
        return Mismatch(self.field, f"{what}: {rows[where[0]]}. Its space is {self.space}.", where)


def all_finite(array: Array) -> bool:
    """Whether there is no nan and no infinity. It runs in every step; to look at the bytes is fastest for small arrays."""
    return b"\0" not in np.isfinite(array).tobytes("A")


def _choices(space: spaces.Discrete | spaces.MultiDiscrete) -> Array:
    return np.asarray(space.n if isinstance(space, spaces.Discrete) else space.nvec)


# --------------------------------------------------------------------------- observations


class ObsLayout:
    """Layout of observations: one array, or a flat dictionary of arrays."""

    def __init__(self, space: AnySpace) -> None:
        self.space = space
        self.leaves = tuple(_leaves(space, ""))
        self.single = len(self.leaves) == 1 and not self.leaves[0].name
        names = [leaf.name for leaf in self.leaves]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise Mismatch(
                f"obs/{twice}", "is the name of two parts of the observation: slashes join nested keys. Rename one of them."
            )
        self._leaf = {leaf.name: leaf for leaf in self.leaves}
        self._one_float = self.single and self.leaves[0].dtype.kind == "f"
        self._checked = tuple(leaf for leaf in self.leaves if leaf.dtype.kind == "f" or not isinstance(leaf.space, spaces.Box))

    def empty(self, rows: int) -> Obs:
        """Arrays of zeros for that many rows."""
        arrays = {leaf.name: np.zeros((rows, *leaf.shape), leaf.dtype) for leaf in self.leaves}
        return arrays[""] if self.single else arrays

    def writer(self, target: Obs) -> Write:
        """A function that copies the observation of one env into a row of these arrays."""
        return _writer(self.space, "", {"": target} if not isinstance(target, dict) else target)

    def row(self, value: object) -> Obs:
        """The observation of one env as arrays with one row, checked."""
        arrays = self.empty(1)
        self.writer(arrays)(0, value)
        self.check_row(arrays, 0)
        return arrays

    def batch(self, value: object, rows: int) -> Obs:
        """The observations of a vector env. Arrays that fit are taken as they are, not copied."""
        if self.single:
            return _batch_of(self.leaves[0], value, rows)
        arrays: dict[str, Array] = {}
        self._gather(self.space, "", value, rows, arrays)
        return arrays

    def _gather(self, space: AnySpace, name: str, value: Any, rows: int, into: dict[str, Array]) -> None:  # Any: from the env
        parts = parts_of(space)
        if parts is None:
            into[name] = _batch_of(self._leaf[name], value, rows)
            return
        if not has_parts(parts, value):
            raise _missing(name, parts, value)
        for key, part in parts.items():
            self._gather(part, below(name, key), value[key], rows, into)

    def finals(self, infos: Mapping[str, Any], ended: Array) -> Obs:  # Any: infos hold anything
        """The last observations in the infos of a vector env that resets itself in the same step."""
        given = infos.get("final_obs")
        if given is None:
            raise Mismatch(
                "final_obs", "is not in the infos, though episodes ended and the vector env has reset them in the same step."
            )
        if not (isinstance(given, np.ndarray) and given.dtype == object):  # arrays with a row for every env, as ale-py gives
            obs = picked(self.batch(given, len(ended)), ended)
        else:  # one object per env, as gymnasium gives; None for those that go on
            last = given[ended]
            obs = self.empty(len(last))
            write = self.writer(obs)
            for row, value in enumerate(last):
                write(row, value)
        if problem := self.problem(obs):
            rows = np.flatnonzero(ended)[list(problem.rows)]
            raise Mismatch(problem.field, f"of an episode's end {problem.problem}", tuple(rows.tolist()))
        return obs

    def check_row(self, obs: Obs, row: int) -> None:
        """Raise what is wrong with one row."""
        problem = self.problem(picked(obs, slice(row, row + 1)))
        if problem is not None:
            raise Mismatch(problem.field, problem.problem)

    def problem(self, obs: Obs) -> Mismatch | None:
        """The first array with invalid values, with their rows."""
        if self._one_float and not isinstance(obs, dict) and all_finite(obs):  # most envs, most of the time
            return None
        for leaf in self._checked:
            problem = leaf.problem(obs[leaf.name] if isinstance(obs, dict) else obs)
            if problem is not None:
                return problem
        return None


Parts = dict[Any, AnySpace]  # Any: keys are names in a dict space and numbers in a tuple space


def parts_of(space: AnySpace) -> Parts | None:
    """What a space is made of, by the key or the place of each part."""
    if isinstance(space, spaces.Dict):
        return dict(space.spaces)
    if isinstance(space, spaces.Tuple):
        return dict(enumerate(space.spaces))
    return None


def below(name: str, key: object) -> str:
    """The name of a part inside another."""
    return f"{name}/{key}" if name else str(key)


def _leaves(space: AnySpace, name: str) -> list[Leaf]:
    parts = parts_of(space)
    if parts is not None:
        if not parts:
            raise Mismatch(below("obs", name) if name else "obs", "has an empty space, with nothing to learn from.")
        return [leaf for key, part in parts.items() for leaf in _leaves(part, below(name, key))]
    if not isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        raise Mismatch(
            below("obs", name) if name else "obs",
            f"has the space {space}. Supported are Box, Discrete, MultiDiscrete and MultiBinary, and Dict and Tuple of these; "
            "turn it into one of them with an observation wrapper.",
        )
    assert space.shape is not None
    assert space.dtype is not None
    if 0 in space.shape:
        raise Mismatch(below("obs", name) if name else "obs", f"has the empty space {space}, with nothing to learn from.")
    return [Leaf(name, space, tuple(space.shape), np.dtype(space.dtype))]


def _missing(field: str, parts: Parts, value: object) -> Mismatch:
    name = f"obs/{field}" if field else "obs"
    wanted = ", ".join(map(str, parts))
    given = ", ".join(map(str, value)) if isinstance(value, Mapping) else f"{type(value).__name__}"
    return Mismatch(name, f"must have the parts {wanted}, as its space says; the env gave {given or 'none'}.")


def has_parts(parts: Parts, value: object) -> bool:
    """True if there is a value for every part, and nothing else."""
    if not isinstance(value, (Mapping, tuple, list)) or len(value) != len(parts):
        return False
    return all(key in value for key in parts) if isinstance(value, Mapping) else 0 in parts


def _writer(space: AnySpace, name: str, arrays: dict[str, Array]) -> Write:
    parts = parts_of(space)
    if parts is not None:
        inner = [(key, _writer(part, below(name, key), arrays)) for key, part in parts.items()]

        def write_parts(row: int, value: Any) -> None:  # Any: whatever the env gave; the check is in the body
            if not has_parts(parts, value):
                raise _missing(name, parts, value)
            for key, write in inner:
                write(row, value[key])

        return write_parts
    (leaf,) = _leaves(space, name)
    return _scalar_writer(leaf, arrays[name]) if leaf.shape == () else _array_writer(leaf, arrays[name])


def _array_writer(leaf: Leaf, target: Array) -> Write:
    shape, dtype, array = leaf.shape, leaf.dtype, np.ndarray

    def write(row: int, value: Any) -> None:  # Any: whatever the env gave; the check is in the body
        # The types of numpy are single objects, so that `is` finds the usual case fast; `converted` decides about the rest.
        if type(value) is array and value.dtype is dtype and value.shape == shape:
            target[row] = value
        else:
            target[row] = leaf.converted(value, shape)

    return write


def _scalar_writer(leaf: Leaf, target: Array) -> Write:
    usual = (int, np.int64) if leaf.dtype == np.int64 else (leaf.dtype.type,)

    def write(row: int, value: object) -> None:
        target[row] = value if type(value) in usual else leaf.converted(value, ())

    return write


def _batch_of(leaf: Leaf, value: object, rows: int) -> Array:
    shape = (rows, *leaf.shape)
    if type(value) is np.ndarray and value.dtype is leaf.dtype and value.shape == shape:
        return value
    return leaf.converted(value, shape)


def reward_of(value: Any) -> float:  # Any: the env may give anything
    """A reward as a number; raises for what is none, such as an array."""
    try:
        if value is not None and np.ndim(value) == 0:
            return float(value)
    except (TypeError, ValueError):
        pass
    raise Mismatch("reward", f"is not a finite number: {value!r}. Return a float.")


def reward_problem(rewards: Array) -> Mismatch | None:
    """Rewards that are not finite."""
    if all_finite(rewards):
        return None
    where = tuple(np.flatnonzero(~np.isfinite(rewards)).tolist())
    return Mismatch("reward", f"is not a finite number: {rewards[where[0]]}.", where)


# --------------------------------------------------------------------------- actions

NOTHING_ALLOWED_AT_THE_END = (
    "allows no action at all where an episode is truncated, though the value of that state counts. Allow at least one there, or "
    "return terminated=True if nothing can be done."
)


class ActionLayout:
    """Layout of actions: one row per env, in the dtype of the space, with discrete actions numbered from 0."""

    def __init__(self, space: AnySpace) -> None:
        if not isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
            raise Mismatch(
                "actions",
                f"have the space {space}. Supported are Discrete, MultiDiscrete, Box and MultiBinary; use an action wrapper.",
            )
        assert space.dtype is not None
        if 0 in (space.shape or ()):
            raise Mismatch("actions", f"have the empty space {space}, with nothing to choose.")
        self.own_space = space
        self.space = zero_based(space)
        """The space as policies see it."""
        self.dtype: np.dtype[Any] = np.dtype(space.dtype)  # Any: known when the space is
        self.shape = tuple(space.shape or ())
        choices = space if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)) else None
        self.first = np.asarray(0 if choices is None else choices.start, self.dtype)
        self.shifted = bool(self.first.any())
        self.continuous = self.dtype.kind == "f"
        parts = np.zeros(0, np.int64) if choices is None else _choices(choices).reshape(-1)
        self.choices = int(parts.sum())
        """Width of an action mask: the number of discrete actions, summed over the parts. 0: no action masks."""
        self._firsts = np.cumsum(parts) - parts  # where the mask of each part begins

    def given(self, actions: Array, rows: int) -> Array:
        """A policy's actions as the env wants them. Floats are copied: envs clip their actions in place."""
        wanted, given = (rows, *self.shape), actions.shape
        if given != wanted:
            raise Mismatch("actions", f"have shape {given}; {rows} envs with the action space {self.space} take {wanted}.")
        if self.continuous:
            if not all_finite(actions):
                where = tuple(np.flatnonzero(~np.isfinite(actions).reshape(rows, -1).all(axis=1)).tolist())
                raise Mismatch("actions", f"are not finite: {actions[where[0]]}. The policy gave them, not the env.", where)
            return actions.astype(self.dtype)
        if actions.dtype.kind not in "iub":
            raise Mismatch("actions", f"have type {actions.dtype}; the action space {self.space} takes whole numbers.")
        if actions.dtype is not self.dtype:
            actions = actions.astype(self.dtype)
        return actions + self.first if self.shifted else actions

    def masks(self, value: object, rows: int) -> Array:
        """Action masks as a bool array, one row per env."""
        if not self.choices:
            raise Mismatch("action_mask", f"is given, but the action space {self.space} has no choices to mask.")
        masks = np.asarray(value)
        if masks.dtype == object or masks.shape != (rows, self.choices):
            raise Mismatch("action_mask", f"has shape {masks.shape[1:]}; the action space {self.space} takes {(self.choices,)}.")
        return masks.astype(np.bool_)

    def mask(self, info: Mapping[str, Any]) -> Array:  # Any: infos hold anything
        """The action mask in the infos of one env."""
        if "action_mask" not in info:
            raise Mismatch(
                "action_mask", "is missing from the infos, though the env gave one before. Give it in reset and in step."
            )
        masks = self.masks([info["action_mask"]], 1)
        problem = self.no_choice(masks)
        if problem is not None:
            raise Mismatch(problem.field, problem.problem)
        return masks

    def final_mask(self, info: Mapping[str, Any]) -> Array:  # Any: infos hold anything
        """The action mask of the last state of a truncated episode; all actions if the env gives none."""
        if info.get("action_mask") is None:
            return np.ones(self.choices, np.bool_)
        masks = self.masks([info["action_mask"]], 1)
        if self.no_choice(masks):
            raise Mismatch("action_mask", NOTHING_ALLOWED_AT_THE_END)
        row: Array = masks[0]
        return row

    def final_masks(self, infos: Mapping[str, Any], ended: Array, terminated: Array) -> Array:  # Any: as above
        """The action masks of the last states of a vector env's episodes: all actions where the env gives no mask, or where the
        episode is terminated."""
        given, said = infos.get("action_mask"), infos.get("_action_mask")
        if given is None:
            return np.ones((int(ended.sum()), self.choices), np.bool_)
        if isinstance(given, np.ndarray) and given.dtype == object:  # one object per env, None where it gives none
            given = [np.zeros(self.choices) if each is None else each for each in given]
        masks = self.masks(given, len(ended))
        nothing = np.zeros(len(ended), np.bool_)
        if problem := self.no_choice(masks):
            nothing[list(problem.rows)] = True
        meant = ended & ~terminated & nothing & (False if said is None else np.asarray(said, np.bool_))
        if meant.any():  # zeros of an env that does not say whether it gave a mask may also mean that it gave none
            raise Mismatch("action_mask", NOTHING_ALLOWED_AT_THE_END, tuple(np.flatnonzero(meant).tolist()))
        masks[terminated | nothing] = True
        row: Array = masks[ended]
        return row

    def vector_masks(self, infos: Mapping[str, Any], rows: int, free: Array | None = None) -> Array:  # Any: infos hold anything
        """The action masks in the infos of a vector env. Where it is free (an episode has ended), everything is allowed."""
        given = infos.get("action_mask")
        masks = np.zeros((rows, max(1, self.choices)), np.bool_) if given is None else self.masks(given, rows)
        if free is not None:
            masks[free] = True
        if problem := self.no_choice(masks):
            raise problem
        return masks

    def no_choice(self, masks: Array) -> Mismatch | None:
        """Rows whose mask allows no action; with several parts, none of one of them."""
        firsts = self._firsts
        some = (
            masks.any(axis=1) if len(firsts) < 2 else np.logical_and.reduce(np.logical_or.reduceat(masks, firsts, axis=1), axis=1)
        )
        if np.count_nonzero(some) == len(masks):
            return None
        return Mismatch("action_mask", "allows no action at all, or is missing.", tuple(np.flatnonzero(~some).tolist()))


def zero_based(space: AnySpace) -> AnySpace:
    """The same space, with discrete actions numbered from 0."""
    if isinstance(space, spaces.Discrete) and space.start != 0:
        return spaces.Discrete(int(space.n))
    if isinstance(space, spaces.MultiDiscrete) and np.any(space.start):
        return spaces.MultiDiscrete(space.nvec)
    return space
