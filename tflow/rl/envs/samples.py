"""Small environments that ship with tflow, for meta-learning, action masks, memory and multi-agent algorithms.

``Navigation`` is a family of tasks, for meta-learning. ``Doors`` has action masks, ``ParametricCartPole`` also actions that are
known by their embeddings. ``StatelessCartPole`` and ``RepeatAfterMe`` need a memory, ``KeyDoor`` needs exploration.
``MultiCartPole`` has several agents, for one policy or many.

Importing this file registers ``tflow/Navigation-v0``, ``tflow/Doors-v0`` and so on; tflow does so when a plan names one. For
``gymnasium.make`` itself, which does not look for envs in other packages, it is ``"tflow.rl.envs.samples:tflow/Navigation-v0"``.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from tflow.combinators import check
from tflow.errors import EnvError
from tflow.rl.data.arrays import Array
from tflow.rl.envs.env import Infos
from tflow.rl.envs.memory_tasks import RepeatAfterMe, StatelessCartPole, StatelessCartPoleVector
from tflow.rl.envs.multi_cart_pole import MultiCartPole
from tflow.rl.envs.puzzles import KeyDoor, ParametricCartPole

__all__ = [
    "Doors",
    "KeyDoor",
    "MultiCartPole",
    "Navigation",
    "NavigationVector",
    "ParametricCartPole",
    "RepeatAfterMe",
    "StatelessCartPole",
    "StatelessCartPoleVector",
    "register",
]
NAVIGATION, STATELESS = "tflow/Navigation-v0", "tflow/StatelessCartPole-v1"
SINGLE = {
    "tflow/Doors-v0": "tflow.rl.envs.samples:Doors",
    "tflow/KeyDoor-v0": "tflow.rl.envs.puzzles:KeyDoor",
    "tflow/ParametricCartPole-v0": "tflow.rl.envs.puzzles:ParametricCartPole",
    "tflow/RepeatAfterMe-v0": "tflow.rl.envs.memory_tasks:RepeatAfterMe",
}
"""Those that have no vector env of their own."""


def register() -> None:
    """Make the ids of this file known to gymnasium. A second time changes nothing."""
    if NAVIGATION not in gymnasium.registry:
        gymnasium.register(
            NAVIGATION,
            entry_point="tflow.rl.envs.samples:Navigation",
            vector_entry_point="tflow.rl.envs.samples:NavigationVector",
        )
    if STATELESS not in gymnasium.registry:
        gymnasium.register(
            STATELESS,
            entry_point="tflow.rl.envs.memory_tasks:StatelessCartPole",
            vector_entry_point="tflow.rl.envs.memory_tasks:StatelessCartPoleVector",
            max_episode_steps=500,
        )
    for name, entry_point in SINGLE.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=entry_point)


class _Goals:
    """The tasks of the family: which goal counts, and how far a move is from it."""

    SPEED, NEAR = 0.1, 0.01

    task: Array | None = None
    """The goal, float32 (2,). None before the first reset."""

    def __init__(self, reach: float, horizon: int) -> None:
        self.reach = check.positive("Navigation", "reach", reach)
        self.horizon = check.integer("Navigation", "horizon", horizon, least=1)
        self._brought = False

    def sample_task(self, rng: np.random.Generator) -> Array:
        """A goal, uniformly from the square that ``reach`` spans."""
        return rng.uniform(-self.reach, self.reach, 2).astype(np.float32)

    def _begin(self, rng: np.random.Generator, seed: int | None, options: Infos | None) -> None:
        """Decide on the task. One that was drawn, not brought, is a function of the latest seed, whatever came before."""
        if options is not None and "task" in options:
            self.task, self._brought = _goal(options["task"]), True
        elif self.task is None or (seed is not None and not self._brought):
            self.task = self.sample_task(rng)

    def _moved(self, positions: Array, actions: Array) -> tuple[Array, Array, Array]:
        """Positions, rewards and arrivals after a move, for one point or for a row of them."""
        if self.task is None:
            raise EnvError("is stepped before it was reset.", "Navigation")
        positions = positions + np.clip(np.asarray(actions, np.float32), -self.SPEED, self.SPEED)
        offsets = positions - self.task
        x, y = offsets[..., 0], offsets[..., 1]
        squares = x * x + y * y
        return positions, -squares, squares <= self.NEAR**2


def _goal(given: object) -> Array:
    try:
        goal: Array = np.array(given, np.float32)
    except (TypeError, ValueError):
        goal = np.empty(0)
    if goal.shape != (2,) or not np.isfinite(goal).all():
        problem = f"the task is {given!r}. A task is a goal: an array of 2 finite numbers, as sample_task gives."
        raise EnvError(problem, "Navigation", None, "task")
    return goal


def _navigation_spaces() -> tuple[spaces.Box, spaces.Box]:
    positions = spaces.Box(-math.inf, math.inf, (2,), np.float32)
    return positions, spaces.Box(-_Goals.SPEED, _Goals.SPEED, (2,), np.float32)


class Navigation(_Goals, gymnasium.Env[Array, Array]):
    """A point walks from the origin to a goal that it cannot see: MAML's 2-D navigation (arXiv 1703.03400, section 5.3).

    It sees its position and chooses its velocity, which is clipped to ``SPEED`` along each axis. The reward is minus the
    squared distance to the goal after the move. An episode is terminated ``NEAR`` the goal and truncated after ``horizon``
    steps.

    A task is a goal. ``reset(options={"task": goal})`` sets it; it stays until a reset brings another. While none was
    brought, the env draws its own when it is first reset, and whenever it is reset with a seed.

    >>> env = Navigation()
    >>> _ = env.reset(options={"task": [0.1, 0.2]})
    >>> [env.step(np.full(2, 0.1))[2] for _ in range(2)], env.step(np.array([-0.1, 0]))[2]
    ([False, False], True)
    """

    def __init__(self, reach: float = 0.5, horizon: int = 100) -> None:
        super().__init__(reach, horizon)
        self.observation_space, self.action_space = _navigation_spaces()
        self._position, self._steps = np.zeros(2, np.float32), 0

    def reset(self, *, seed: int | None = None, options: Infos | None = None) -> tuple[Array, dict[str, Any]]:  # Any: infos
        super().reset(seed=seed)
        self._begin(self.np_random, seed, options)
        self._position, self._steps = np.zeros(2, np.float32), 0
        return self._position.copy(), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:  # Any: gymnasium's
        self._position, reward, arrived = self._moved(self._position, action)
        self._steps += 1
        return self._position.copy(), float(reward), bool(arrived), self._steps >= self.horizon, {}


class NavigationVector(_Goals, VectorEnv[Array, Array, Array]):
    """Copies of ``Navigation`` as one array. All have the same task; each resets in the step that ends its episode."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012  # as gymnasium declares it

    def __init__(
        self,
        num_envs: int = 1,
        reach: float = 0.5,
        horizon: int = 100,
        max_episode_steps: int | None = None,  # a limit from outside, as gymnasium calls it: the smaller one counts
    ) -> None:
        super().__init__(reach, horizon if max_episode_steps is None else min(horizon, max_episode_steps))
        self.num_envs = check.integer("Navigation", "num_envs", num_envs, least=1)
        self.single_observation_space, self.single_action_space = _navigation_spaces()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._positions, self._steps = np.zeros((num_envs, 2), np.float32), np.zeros(num_envs, np.int64)

    def reset(self, *, seed: int | None = None, options: Infos | None = None) -> tuple[Array, dict[str, Any]]:  # Any: infos
        super().reset(seed=seed)
        self._begin(self.np_random, seed, options)
        self._positions, self._steps = np.zeros_like(self._positions), np.zeros_like(self._steps)
        return self._positions.copy(), {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:  # Any: gymnasium's
        reached, rewards, arrived = self._moved(self._positions, actions)
        self._steps += 1
        truncated = self._steps >= self.horizon
        ended = arrived | truncated
        infos: dict[str, Any] = {}  # Any: gymnasium's
        self._positions = reached
        if ended.any():
            infos = {"final_obs": reached, "_final_obs": ended}
            self._positions = np.where(ended[:, None], np.float32(0), reached)
            self._steps[ended] = 0
        return self._positions.copy(), rewards, arrived, truncated, infos


class Doors(gymnasium.Env[Array, np.int64]):
    """A walk to one of several doors, which opens only there: a task with action masks.

    It sees how far it is from the door, from 1 down to 0, and which door it is. Action 0 rests, action 1 walks a step, and the
    others open a door each. ``action_mask`` in the infos allows walking on the way, and only the one door at its end; anything
    else is an error. Walking costs 0.2 and resting 0.1. Opening pays 2 and terminates the episode, which is truncated after
    ``horizon`` steps. The best return is 1.4 on average, with walks of 1 to 5 steps; who always rests has -2.

    Whenever a door can be opened, that pays 2, so this is what a network predicts for all states. With a maximum over actions
    that are not allowed, each state would be worth that much, and resting, which is cheap, would be best.

    >>> env = Doors(doors=2)
    >>> _, infos = env.reset(seed=3)
    >>> infos["action_mask"].tolist()
    [1, 1, 0, 0]
    """

    def __init__(self, doors: int = 4, length: int = 5, horizon: int = 20) -> None:
        self.doors = check.integer("Doors", "doors", doors, least=1)
        self.length = check.integer("Doors", "length", length, least=1)
        """The longest walk, in steps."""
        self.horizon = check.integer("Doors", "horizon", horizon, least=1)
        self.observation_space = spaces.Box(0.0, 1.0, (1 + doors,), np.float32)
        self.action_space = spaces.Discrete(2 + doors)
        self._door = self._left = self._steps = 0

    def reset(self, *, seed: int | None = None, options: Infos | None = None) -> tuple[Array, dict[str, Any]]:  # Any: infos
        super().reset(seed=seed)
        self._door, self._steps = int(self.np_random.integers(self.doors)), 0
        self._left = int(self.np_random.integers(1, self.length + 1))
        return self._seen()

    def step(self, action: np.int64 | int) -> tuple[Array, float, bool, bool, dict[str, Any]]:  # Any: gymnasium's
        if not self._allowed()[action]:
            problem = f"action {action} is not possible here. Choose among those that action_mask allows."
            raise EnvError(problem, "Doors", None, "action")
        opened, self._steps = action > 1, self._steps + 1
        self._left -= int(action == 1)
        obs, infos = self._seen()
        return obs, 2.0 if opened else -0.2 if action == 1 else -0.1, bool(opened), self._steps >= self.horizon, infos

    def _allowed(self) -> Array:
        allowed = np.zeros(2 + self.doors, np.int8)
        allowed[[0, 1 if self._left else 2 + self._door]] = 1
        return allowed

    def _seen(self) -> tuple[Array, dict[str, Any]]:  # Any: infos
        obs = np.zeros(1 + self.doors, np.float32)
        obs[0], obs[1 + self._door] = self._left / self.length, 1
        return obs, {"action_mask": self._allowed()}


register()
