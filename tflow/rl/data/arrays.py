"""Observations as numpy arrays, or dictionaries of them, between environments, policies and batches.

Observations of dict and tuple spaces are flat dictionaries: the keys of nested ones are joined by a slash, the members of a tuple
are called "0", "1", and so on. Everything else is one array. The first axis counts rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # Any: columns have many dtypes, which no checker follows through indexing
Obs = Array | dict[str, Array]


def flat(name: str, value: Obs) -> dict[str, Array]:
    """Columns for a value: one, or one per member of a dictionary."""
    return {f"{name}/{key}": part for key, part in value.items()} if isinstance(value, dict) else {name: value}


def nested(columns: Mapping[str, Array], name: str) -> Obs:
    """The value whose columns these are."""
    if name in columns:
        return columns[name]
    prefix = f"{name}/"
    return {key.removeprefix(prefix): part for key, part in columns.items() if key.startswith(prefix)}


def rows_of(value: Obs) -> int:
    """How many rows a value has."""
    return len(next(iter(value.values()))) if isinstance(value, dict) else len(value)


def picked(value: Obs, index: Array | slice) -> Obs:
    """Some rows of a value."""
    return {key: part[index] for key, part in value.items()} if isinstance(value, dict) else value[index]


def sealed(array: Array) -> Array:
    """The same array, read-only. A view of memory that others may change is made read-only too, not copied."""
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def stacked(values: list[Obs]) -> Obs:
    """Values one after the other."""
    first = values[0]
    if isinstance(first, dict):
        return {key: np.concatenate([value[key] for value in values if isinstance(value, dict)]) for key in first}
    return np.concatenate([value for value in values if not isinstance(value, dict)])
