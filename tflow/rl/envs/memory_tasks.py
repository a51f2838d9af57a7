"""Small environments that need a memory: what counts cannot be seen in the current observation."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleEnv, CartPoleVectorEnv
from gymnasium.vector.utils import batch_space

from tflow.combinators import check
from tflow.errors import EnvError
from tflow.rl.data.arrays import Array

Infos = dict[str, Any]  # Any: gymnasium's
SEEN = [0, 2]
"""What can be seen of a CartPole: the position of the cart and the angle of the pole."""


def _still(space: spaces.Box) -> spaces.Box:
    return spaces.Box(space.low[SEEN], space.high[SEEN], dtype=np.float32)


class StatelessCartPole(CartPoleEnv):
    """CartPole whose velocities cannot be seen: who remembers the positions before knows them.

    >>> env = StatelessCartPole()
    >>> env.observation_space.shape
    (2,)
    """

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        assert isinstance(self.observation_space, spaces.Box)
        self.observation_space = _still(self.observation_space)

    def reset(self, *, seed: int | None = None, options: Infos | None = None) -> tuple[Array, Infos]:
        obs, infos = super().reset(seed=seed, options=options)
        return obs[SEEN], infos

    def step(self, action: Any) -> tuple[Array, float, bool, Literal[False], Infos]:  # Any: gymnasium's
        obs, reward, terminated, _, infos = super().step(action)  # type: ignore[no-untyped-call]  # gymnasium's
        return obs[SEEN], reward, terminated, False, infos  # a TimeLimit truncates


class StatelessCartPoleVector(CartPoleVectorEnv):
    """Copies of ``StatelessCartPole`` as one array."""

    def __init__(self, num_envs: int = 1, max_episode_steps: int = 500, render_mode: str | None = None) -> None:
        super().__init__(num_envs, max_episode_steps, render_mode)
        assert isinstance(self.single_observation_space, spaces.Box)
        self.single_observation_space = _still(self.single_observation_space)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def reset(self, *, seed: int | None = None, options: Infos | None = None) -> tuple[Array, Infos]:
        obs, infos = super().reset(seed=seed, options=options)
        return obs[:, SEEN], infos

    def step(self, action: Any) -> tuple[Array, Array, Array, Array, Infos]:  # Any: gymnasium's
        obs, rewards, terminated, truncated, infos = super().step(action)
        return obs[:, SEEN], rewards, terminated, truncated, infos


class RepeatAfterMe(gymnasium.Env[np.int64, np.int64]):
    """Repeat what was seen ``delay`` steps ago, 0 before there was anything: a test of memory, as in RLlib.

    Symbols are drawn at random. A right answer pays 1, a wrong one costs 1, and an episode is truncated after ``horizon`` steps,
    so the best return is ``horizon``; without a memory it is 0 on average.

    >>> env = RepeatAfterMe(delay=1)
    >>> first, _ = env.reset(seed=0)
    >>> env.step(0)[1], env.step(first)[1]
    (1.0, 1.0)
    """

    def __init__(self, delay: int = 1, horizon: int = 100, symbols: int = 2) -> None:
        self.delay = check.integer("RepeatAfterMe", "delay", delay, least=0)
        self.horizon = check.integer("RepeatAfterMe", "horizon", horizon, least=1)
        symbols = check.integer("RepeatAfterMe", "symbols", symbols, least=2)
        self.symbols = symbols
        self.observation_space, self.action_space = spaces.Discrete(symbols), spaces.Discrete(symbols)
        self._asked: list[int] = []
        """What is still to be repeated, the oldest first."""
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Infos | None = None) -> tuple[np.int64, Infos]:
        super().reset(seed=seed)
        self._asked, self._steps = [0] * self.delay, 0
        return self._shown(), {}

    def step(self, action: np.int64 | int) -> tuple[np.int64, float, bool, bool, Infos]:
        if not self._asked:
            raise EnvError("is stepped before it was reset.", "RepeatAfterMe")
        right, self._steps = int(action) == self._asked.pop(0), self._steps + 1
        return self._shown(), 1.0 if right else -1.0, False, self._steps >= self.horizon, {}

    def _shown(self) -> np.int64:
        symbol = int(self.np_random.integers(self.symbols))
        self._asked.append(symbol)
        return np.int64(symbol)
