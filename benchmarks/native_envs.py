"""Env steps per second of a rollout worker as a share of what gymnax and EnvPool do alone (``make bench-native``).

    python -m benchmarks.native_envs [--envs 64 1024] [--seconds 1.0] [--rounds 7]

Cases run in one process in turn, as in ``benchmarks.rollouts``. ``bare``: the library by itself, as its users call it, with
random actions that were drawn beforehand: gymnax's own step, mapped over all copies and compiled, with what it gives read as
numpy arrays; EnvPool's own step. ``adapter``: the same as tflow's workers see it, checked. ``worker``: a rollout worker, without
learning.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.rollouts import Case, report, worker
from tflow.envs import EnvSpec
from tflow.models import MLP

STEPS = 64


def drawn(num: int) -> list[Any]:  # Any: arrays
    return list(np.random.default_rng(0).integers(0, 2, (STEPS, num)))


def gymnax_alone(num: int) -> Case:
    """gymnax's own step, which resets by itself."""
    jax, gymnax = import_module("jax"), import_module("gymnax")
    env, params = gymnax.make("CartPole-v1")
    split = jax.vmap(jax.random.split)

    def advance(keys: Any, state: Any, actions: Any) -> Any:  # Any: arrays of JAX
        both = split(keys)
        return both[:, 0], jax.vmap(env.step, (0, 0, 0, None))(both[:, 1], state, actions, params)

    step: Any = jax.jit(advance)  # Any: as above
    keys = jax.random.split(jax.random.PRNGKey(0), num)
    actions, carried = drawn(num), [keys, jax.vmap(env.reset, (0, None))(keys, params)[1]]

    def run() -> int:
        keys, state = carried
        for action in actions:
            keys, (obs, state, rewards, terminated, truncated, _) = step(keys, state, action)
            for each in (obs, rewards, terminated, truncated):
                np.asarray(each)
        carried[:] = keys, state
        return num * STEPS

    return run


def envpool_alone(num: int) -> Case:
    """EnvPool's own step, with as many threads as it takes by itself."""
    pool = import_module("envpool").make("CartPole-v1", env_type="gymnasium", num_envs=num, seed=0)
    pool.reset()
    actions = drawn(num)

    def run() -> int:
        for action in actions:
            pool.step(action)
        return num * STEPS

    return run


def adapter(env: str, num: int) -> Case:
    """Envs as workers have them."""
    envs = EnvSpec(env).make(num)
    envs.reset(0)
    actions = drawn(num)

    def run() -> int:
        for action in actions:
            envs.step(action)
        return num * STEPS

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, nargs="+", default=[64, 1024])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    for num in given.envs:
        for env, bare in (("gymnax:CartPole-v1", gymnax_alone), ("envpool:CartPole-v1", envpool_alone)):
            cases = {
                "bare": bare(num),
                "adapter": adapter(env, num),
                "worker, MLP 64x64": worker(env, num, MLP(), shared=True),
            }
            report(f"{env}, {num} envs", cases, given.seconds, given.rounds)


if __name__ == "__main__":
    main()
