"""What users pass to ``Policy.act``: one observation or a batch, in the form that is at hand, as the arrays that networks take.

Envs are held to their spaces (``tflow.rl.envs.spaces``); users may write ``[0, 1, 0, 0]`` where the space has floats. A value is
converted if that changes none, and floats may lose precision.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from tflow.errors import PlanError
from tflow.rl.data.arrays import Array, Obs
from tflow.rl.envs.spaces import ActionLayout, AnySpace, Leaf, Mismatch, ObsLayout, below, has_parts, parts_of

Arrays = dict[str, Array]
"""The arrays of an observation, by the name of their leaf."""


class Observations(NamedTuple):
    """Observations with a leading axis."""

    obs: Obs
    rows: int
    single: bool
    """True if it was one observation, without that axis."""


def observations(layout: ObsLayout, value: object) -> Observations:
    """One observation or a batch of them, as arrays of the types of their space, checked.

    Args:
        layout: The layout of the observation space.
        value: An observation; a list of them; or a batch, with a leading axis in every part of the space.
    """
    if _is_list(layout, value):
        arrays, single = _stacked(layout, value), False
    else:
        arrays = _arrays(layout, value)
        single = _has_no_rows(layout, arrays)
    rows = _converted(layout, arrays, single)
    obs: Obs = rows[""] if layout.single else rows
    problem = layout.problem(obs)
    if problem is not None:
        where = "" if single else f"of row {problem.rows[0]} "
        raise Mismatch(problem.field, f"{where}{problem.problem}", problem.rows)
    return Observations(obs, len(next(iter(rows.values()))), single)


def action_masks(space: AnySpace, masks: object, given: Observations) -> Array:
    """The action masks of observations, one row each, checked."""
    layout = ActionLayout(space)
    try:
        found = np.asarray(masks)
    except ValueError:  # lists of different lengths
        found = np.asarray(None)
    wanted = (layout.choices,) if given.single else (given.rows, layout.choices)
    if layout.choices and found.shape != wanted:
        raise Mismatch("masks", f"have shape {found.shape}; these observations and the action space {space} take {wanted}.")
    found = layout.masks(found[None] if given.single else found, given.rows)
    problem = layout.no_choice(found)
    if problem is not None:
        raise problem
    return found


def first_rows(first: object, rows: int) -> Array:
    """Which rows are the first of an episode."""
    begins = np.asarray(first)
    if begins.dtype != np.bool_ or begins.shape not in ((), (rows,)):
        raise PlanError(f"act: first must be True or False, or an array of {rows} bools, one for each row; got {first!r}.")
    return np.broadcast_to(begins, (rows,))


def another_size(before: int, now: int) -> str:
    """What is said if a recurrent policy is given another number of observations than before."""
    return (
        f"act: this policy is recurrent and has a state for {before} row{'s' if before != 1 else ''}; it was given {now}, so all "
        "of them start anew. Pass first=True with the first observations of episodes, and act for the same envs until they end."
    )


def _arrays(layout: ObsLayout, value: object) -> Arrays:
    """The arrays of a value, whatever their shapes."""
    found: Arrays = {}

    def gather(space: AnySpace, name: str, part: Any) -> None:  # Any: from the user; the checks are in the body
        parts = parts_of(space)
        if parts is None:
            found[name] = _array(name, space, part)
            return
        if not has_parts(parts, part):
            got = list(part) if isinstance(part, dict) else f"a {type(part).__name__}"
            raise Mismatch(
                _field(name), f"must have the parts {', '.join(map(str, parts))}, as its space {space} says; got {got}."
            )
        for key, inner in parts.items():
            gather(inner, below(name, key), part[key])

    gather(layout.space, "", value)
    return found


def _array(name: str, space: AnySpace, value: object) -> Array:
    try:
        found = np.asarray(value)
    except ValueError:  # lists of different lengths
        found = np.asarray(None)
    if found.dtype.kind not in "biuf":
        what = (
            f"a {type(value).__name__} of {found.dtype}" if found.ndim and found.dtype != object else f"a {type(value).__name__}"
        )
        raise Mismatch(_field(name), f"is {what}, which is no array of numbers; its space is {space}.")
    return found


def _field(name: str) -> str:
    return f"obs/{name}" if name else "obs"


def _is_list(layout: ObsLayout, value: object) -> bool:
    """True for a list of observations of a space with parts. Lists of arrays need no more than numpy."""
    if layout.single or not isinstance(value, list):
        return False
    return isinstance(layout.space, spaces.Dict) or (not _fits(layout, value) and all(_fits(layout, each) for each in value))


def _fits(layout: ObsLayout, value: object) -> bool:
    """True for one observation, by its shapes."""
    try:
        arrays = _arrays(layout, value)
    except Mismatch:
        return False
    return all(arrays[leaf.name].shape == leaf.shape for leaf in layout.leaves)


def _stacked(layout: ObsLayout, value: Any) -> Arrays:  # Any: a list, as `_is_list` says
    """The arrays of a list of observations."""
    each = []
    for row, one in enumerate(value):
        try:
            each.append(_arrays(layout, one))
            for leaf in layout.leaves:
                if each[-1][leaf.name].shape != leaf.shape:
                    raise Mismatch(
                        leaf.field, f"has shape {each[-1][leaf.name].shape}; its space {leaf.space} says {leaf.shape}."
                    )
        except Mismatch as problem:
            raise Mismatch(problem.field, f"of row {row} {problem.problem}", (row,)) from None
    if not each:
        raise Mismatch("obs", f"is an empty list; observations of the space {layout.space} are wanted.")
    return {leaf.name: np.stack([arrays[leaf.name] for arrays in each]) for leaf in layout.leaves}


def _has_no_rows(layout: ObsLayout, arrays: Arrays) -> bool:
    """True for one observation, False for a batch; raises for what is neither."""
    rows: dict[int | None, str] = {}
    for leaf in layout.leaves:
        given = arrays[leaf.name].shape
        if given != leaf.shape and given[1:] != leaf.shape:
            batch = f"({', '.join(map(str, ('rows', *leaf.shape)))}{',' if not leaf.shape else ''})"
            sentence = f"has shape {given}; its space {leaf.space} says {leaf.shape}, or {batch} for a batch."
            raise Mismatch(leaf.field, sentence)
        rows.setdefault(None if given == leaf.shape else given[0], leaf.field)
    if len(rows) > 1:
        said = " and ".join(f"{field} {'one' if count is None else f'{count} rows'}" for count, field in rows.items())
        raise Mismatch(
            "obs", f"has parts of different lengths: {said}. Give one observation, or the same number of rows in each."
        )
    return None in rows


def _converted(layout: ObsLayout, arrays: Arrays, single: bool) -> Arrays:
    """The arrays in the types of the space, with a leading axis."""
    rows = {leaf.name: _cast(leaf, arrays[leaf.name]) for leaf in layout.leaves}
    return {name: array[None] for name, array in rows.items()} if single else rows


def _cast(leaf: Leaf, given: Array) -> Array:
    """The array in the type of its leaf; raises if a value would change by more than the precision of floats."""
    with np.errstate(all="ignore"):  # the comparison, and the check for finite numbers, say what went wrong
        cast = given.astype(leaf.dtype, copy=False)
    if (given.dtype.kind == "f" and leaf.dtype.kind == "f") or np.array_equal(cast, given):
        return cast
    sentence = (
        f"is of type {given.dtype}, with a value that changes as {leaf.dtype}, the type of its space {leaf.space}. Convert it."
    )
    raise Mismatch(leaf.field, sentence)
