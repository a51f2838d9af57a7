"""A stand-in for JAX, as much of it as the adapter of functional envs uses, in numpy: nothing is compiled, copies are a loop.

``tests/rl/test_native_envs.py`` runs the same envs with JAX itself.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from tflow.rl.data.arrays import Array

Tree = Any  # Any: arrays, or dictionaries and tuples of them


def mapped(fn: Callable[..., Any], *trees: Tree) -> Tree:
    first = trees[0]
    if isinstance(first, dict):
        return {name: mapped(fn, *(tree[name] for tree in trees)) for name in sorted(first)}
    if isinstance(first, tuple):
        parts = [mapped(fn, *each) for each in zip(*trees, strict=True)]
        return getattr(first, "_make", tuple)(parts)
    return fn(*trees)


def leaves(tree: Tree) -> list[Array]:
    found: list[Array] = []
    mapped(found.append, tree)
    return found


def unflatten(structure: Tree, given: list[Array]) -> Tree:
    rest = iter(given)
    return mapped(lambda _: next(rest), structure)


def vmap(fn: Callable[..., Tree]) -> Callable[..., Tree]:
    def over_copies(*trees: Tree) -> Tree:
        rows = [fn(*(mapped(lambda leaf, at=at: leaf[at], tree) for tree in trees)) for at in range(len(leaves(trees[0])[0]))]
        return mapped(lambda *each: np.stack([np.asarray(one) for one in each]), *rows)

    return over_copies


def split(key: Array, num: int) -> Array:
    mixed = (key.astype(np.uint64) + np.arange(2 * num, dtype=np.uint64).reshape(num, 2) + key.sum()) * 0x9E3779B97F4A7C15
    keys: Array = (mixed >> np.uint64(32)).astype(np.uint32)
    return keys


def numpy_jax() -> Any:  # Any: a module of its own making
    """The stand-in, to be put in the place of the module."""
    return SimpleNamespace(
        numpy=np,
        vmap=vmap,
        jit=lambda fn: fn,
        tree=SimpleNamespace(map=mapped, leaves=leaves, structure=lambda tree: tree, unflatten=unflatten),
        random=SimpleNamespace(PRNGKey=lambda seed: np.asarray([0, seed], np.uint32), split=split),
        lax=SimpleNamespace(cond=lambda condition, first, second: first() if condition else second()),
    )
