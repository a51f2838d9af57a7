"""Functional envs whose transitions are known, and the loop that says what must come of them. They run in JAX and in numpy."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from tflow.rl.envs.functional import FunctionalEnv

ACTIONS = 3
Tree = Any  # Any: arrays of JAX or numpy, and dictionaries of them


def xp() -> Any:  # Any: jax.numpy or numpy
    return import_module("jax").numpy


@dataclass(frozen=True)
class Limits:
    longest: int = 4
    max_steps_in_episode: int = 3


class Counts:
    """Shows (length drawn at the start, step, last action, luck), so that its observation is its whole state. An episode is
    terminated after the length that was drawn, truncated at the limit, and may be both."""

    default_params = Limits()

    def __init__(self, scale: int = 1) -> None:
        self.scale = scale

    def observation_space(self, params: Limits) -> Any:  # Any: of several kinds
        return spaces.Box(-1e6, 1e6, (4,), np.float32)

    def action_space(self, params: Limits) -> Any:  # Any: of several kinds
        return spaces.Discrete(ACTIONS)

    def reset(self, key: Tree, params: Limits) -> tuple[Tree, Tree]:
        length = (1 + key[1] % params.longest).astype("int32")
        return self.seen(length, 0 * length, -1, 0 * length), {"length": length, "at": 0 * length}

    def step(self, key: Tree, state: Tree, action: Tree, params: Limits) -> tuple[Tree, ...]:
        at, luck = state["at"] + 1, (key[1] % 2).astype("int32")
        over, cut = at >= state["length"], at >= params.max_steps_in_episode
        reward = self.scale * (10 * state["length"] + at + action / 4 + luck / 8)
        return self.seen(state["length"], at, action, luck), {**state, "at": at}, reward, over, cut, {}

    def seen(self, length: Tree, at: Tree, action: Tree, luck: Tree) -> Tree:
        return xp().stack([length, at, xp().asarray(action), luck]).astype("float32")


class Named(Counts):
    """The same in a dictionary."""

    def observation_space(self, params: Limits) -> Any:  # Any: as above
        whole = spaces.Box(0, 100, (2,), np.int32)
        return spaces.Dict(
            {"now": whole, "last": spaces.Tuple((spaces.Box(-1, 100, (), np.int32), spaces.Box(0, 1, (), np.int32)))}
        )

    def seen(self, length: Tree, at: Tree, action: Tree, luck: Tree) -> Tree:
        return {"now": xp().stack([length, at]).astype("int32"), "last": (xp().asarray(action).astype("int32"), luck)}


class OneByHand(gymnasium.Env[Any, Any]):  # Any: as above
    """One copy, by calls of its functions. The key of a copy is split in three in every call: for the next call, for a step, and
    for a reset in it."""

    def __init__(self, env: FunctionalEnv, params: object, mode: AutoresetMode) -> None:
        self.env, self.params, self.mode = env, params, mode
        self.split = import_module("jax").random.split
        self.key: Tree = None

    def turn(self) -> None:
        self.key, self.now, self.again = self.split(self.key, 3)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:  # Any: gymnasium's
        if seed is not None:
            self.key = import_module("jax").random.PRNGKey(np.uint32(seed))
        if seed is not None or self.mode is AutoresetMode.NEXT_STEP:
            self.turn()
        obs, self.state = self.env.reset(self.again, self.params)
        return obs, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # Any: gymnasium's
        self.turn()
        obs, self.state, reward, over, cut, _ = self.env.step(self.now, self.state, np.int32(action), self.params)
        return obs, float(reward), bool(over), bool(cut), {}
