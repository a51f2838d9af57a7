"""Two more environments that ship with tflow: ``KeyDoor`` needs exploration, ``ParametricCartPole`` has actions that change."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv

from tflow.combinators import check
from tflow.errors import EnvError
from tflow.rl.data.arrays import Array
from tflow.rl.envs.env import Infos

MOVES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)])


class KeyDoor(gymnasium.Env[Array, np.int64]):
    """A room with a key in one corner and a door in another: nothing pays but leaving through the door with the key.

    It sees the row and the column of its cell, and whether it has the key. The four actions move it by a cell; walls stop it. It
    begins in cell (0, 0), the key lies at the end of the first axis, the door is at the end of the second. Leaving pays 1 and
    terminates the episode, which is truncated after ``horizon`` steps. Of 20,000 episodes of random moves none got there.

    >>> env = KeyDoor(size=2)
    >>> env.reset(seed=0)[0].tolist()
    [0, 0, 0]
    >>> [env.step(action)[0].tolist() for action in (0, 1)], env.step(2)[1:3]
    ([[1, 0, 1], [0, 0, 1]], (1.0, True))
    """

    def __init__(self, size: int = 26, horizon: int = 260) -> None:
        self.size = check.integer("KeyDoor", "size", size, least=2)
        """Cells along each wall."""
        self.horizon = check.integer("KeyDoor", "horizon", horizon, least=1)
        self.observation_space = spaces.MultiDiscrete([size, size, 2])
        self.action_space = spaces.Discrete(4)
        self._at, self._has_key, self._steps = np.zeros(2, np.int64), False, 0

    def reset(self, *, seed: int | None = None, options: Infos | None = None) -> tuple[Array, dict[str, Any]]:  # Any: infos
        super().reset(seed=seed)
        self._at, self._has_key, self._steps = np.zeros(2, np.int64), False, 0
        return self._seen(), {}

    def step(self, action: np.int64 | int) -> tuple[Array, float, bool, bool, dict[str, Any]]:  # Any: gymnasium's
        last = self.size - 1
        self._at = np.clip(self._at + MOVES[action], 0, last)
        self._has_key = self._has_key or self._at.tolist() == [last, 0]
        self._steps += 1
        left = self._has_key and self._at.tolist() == [0, last]
        return self._seen(), float(left), left, self._steps >= self.horizon, {}

    def _seen(self) -> Array:
        return np.array([*self._at, self._has_key])


class ParametricCartPole(gymnasium.Env[dict[str, Array], np.int64]):
    """CartPole whose two actions are elsewhere in every step: an action is known by its embedding, as in RLlib's example.

    There are ``slots`` actions. In each step two of them, drawn anew, push to the left and to the right; ``action_mask`` in the
    infos allows these two only, anything else is an error. It sees the cart, and for each slot an embedding of two numbers: (-1,
    1) for left, (1, -1) for right, and zeros where there is no action.

    >>> env = ParametricCartPole(slots=4)
    >>> seen, infos = env.reset(seed=1)
    >>> seen["actions"].reshape(4, 2).any(axis=1).tolist() == (infos["action_mask"] == 1).tolist()
    True
    """

    EMBEDDINGS = np.array([(-1, 1), (1, -1)], np.float32)

    def __init__(self, slots: int = 6, horizon: int = 500) -> None:
        self.slots = check.integer("ParametricCartPole", "slots", slots, least=2)
        self.horizon = check.integer("ParametricCartPole", "horizon", horizon, least=1)
        self.cart: Any = CartPoleEnv()  # Any: gymnasium does not type its actions
        actions = spaces.Box(-1.0, 1.0, (2 * slots,), np.float32)
        observed: Any = spaces.Dict({"cart": self.cart.observation_space, "actions": actions})  # Any: gymnasium's own is wider
        self.observation_space = observed
        self.action_space = spaces.Discrete(slots)
        self._places, self._steps = np.zeros(2, np.int64), 0
        """The slots that push to the left and to the right."""

    def reset(
        self, *, seed: int | None = None, options: Infos | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:  # Any: infos
        super().reset(seed=seed)
        cart, _ = self.cart.reset(seed=seed)
        self._steps = 0
        return self._seen(cart)

    def step(self, action: np.int64 | int) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:  # Any: gymnasium's
        pushed = np.flatnonzero(self._places == action)
        if not len(pushed):
            problem = f"action {action} is not possible here. Choose among those that action_mask allows."
            raise EnvError(problem, "ParametricCartPole", None, "action")
        cart, reward, terminated, _, _ = self.cart.step(int(pushed[0]))
        self._steps += 1
        obs, infos = self._seen(cart)
        return obs, float(reward), bool(terminated), self._steps >= self.horizon, infos

    def _seen(self, cart: Array) -> tuple[dict[str, Array], dict[str, Any]]:  # Any: infos
        self._places = self.np_random.choice(self.slots, 2, replace=False)
        embeddings, mask = np.zeros((self.slots, 2), np.float32), np.zeros(self.slots, np.int8)
        embeddings[self._places], mask[self._places] = self.EMBEDDINGS, 1
        return {"cart": np.asarray(cart, np.float32), "actions": embeddings.reshape(-1)}, {"action_mask": mask}
