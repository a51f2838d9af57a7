"""``MultiCartPole``: a small environment with several agents. Describing a plan with it imports no gymnasium; making one does."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from tflow.combinators import check
from tflow.errors import EnvError
from tflow.rl.data.arrays import Array

if TYPE_CHECKING:
    from gymnasium import spaces

    from tflow.rl.envs.env import Infos


class MultiCartPole:
    """CartPoles side by side, each with an agent of its own: PettingZoo's parallel interface, without PettingZoo.

    Physics, reward and limits are those of gymnasium's CartPole-v1, so that what is known about that env holds for every
    agent here. One whose pole has fallen leaves, and the others go on; the episode is over when nobody is left.
    """

    GRAVITY, CART, POLE, HALF_LENGTH, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
    FARTHEST, STEEPEST, HORIZON = 2.4, 12 * 2 * math.pi / 360, 500

    metadata: dict[str, Any] = {"name": "multi_cart_pole", "render_modes": []}  # noqa: RUF012  # Any: PettingZoo's
    render_mode: str | None = None

    def __init__(self, agents: int = 2) -> None:
        from gymnasium import spaces

        check.integer("MultiCartPole", "agents", agents, least=1)
        self.possible_agents = [f"agent_{number}" for number in range(agents)]
        self.agents: list[str] = []
        high = np.array([self.FARTHEST * 2, np.inf, self.STEEPEST * 2, np.inf], np.float32)
        self.observation_spaces = {agent: spaces.Box(-high, high, dtype=np.float32) for agent in self.possible_agents}
        self.action_spaces = {agent: spaces.Discrete(2) for agent in self.possible_agents}
        self.state: Array = np.zeros((agents, 4))
        """Position, velocity, angle and angular velocity of every agent, float64."""
        self._steps, self._random = 0, np.random.default_rng()

    @property
    def unwrapped(self) -> MultiCartPole:
        return self

    def observation_space(self, agent: str) -> spaces.Box:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: Infos | None = None
    ) -> tuple[dict[str, Array], dict[str, dict[str, Any]]]:  # Any: PettingZoo's
        from gymnasium.utils import seeding

        if seed is not None:
            self._random, _ = seeding.np_random(seed)
        self.agents, self._steps = self.possible_agents[:], 0
        self.state = self._random.uniform(-0.05, 0.05, (len(self.agents), 4))
        return self._seen(self.agents), {agent: {} for agent in self.agents}

    def step(
        self, actions: Mapping[str, SupportsIndex]
    ) -> tuple[
        dict[str, Array], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]  # Any: PettingZoo's
    ]:
        acting = self.agents
        alive = [self.possible_agents.index(agent) for agent in acting]
        self.state[alive] = self._pushed(self.state[alive], self._pushes(actions))
        self._steps += 1
        fallen = (np.abs(self.state[alive, 0]) > self.FARTHEST) | (np.abs(self.state[alive, 2]) > self.STEEPEST)
        over = dict(zip(acting, fallen.tolist(), strict=True))
        cut = dict.fromkeys(acting, self._steps >= self.HORIZON)
        self.agents = [agent for agent in acting if not (over[agent] or cut[agent])]
        return self._seen(acting), dict.fromkeys(acting, 1.0), over, cut, {agent: {} for agent in acting}

    def close(self) -> None:
        """Nothing to close."""

    def _seen(self, agents: list[str]) -> dict[str, Array]:
        rows = dict(zip(self.possible_agents, self.state.astype(np.float32), strict=True))
        return {agent: rows[agent] for agent in agents}

    def _pushes(self, actions: Mapping[str, SupportsIndex]) -> Array:
        """The actions of the living as signs."""
        if not self.agents or set(actions) != set(self.agents):
            living = ", ".join(self.agents) or "nobody: call reset"
            problem = f"step got actions of {', '.join(actions) or 'nobody'}; it is the turn of {living}."
            raise EnvError(problem, "MultiCartPole", None, "actions")
        pushes = np.array([operator.index(actions[agent]) for agent in self.agents])
        if not ((pushes == 0) | (pushes == 1)).all():
            problem = f"actions must be 0 (to the left) or 1 (to the right), got {dict(actions)}."
            raise EnvError(problem, "MultiCartPole", None, "actions")
        return pushes * 2 - 1

    def _pushed(self, state: Array, signs: Array) -> Array:
        """The state a step later, by Euler. The operations come in the order of gymnasium's, for the same bits."""
        _, speed, angle, spin = state.T
        cos, sin = np.cos(angle), np.sin(angle)
        mass, moment = self.POLE + self.CART, self.POLE * self.HALF_LENGTH
        pull = (signs * self.FORCE + moment * np.square(spin) * sin) / mass
        spin_up = (self.GRAVITY * sin - cos * pull) / (self.HALF_LENGTH * (4.0 / 3.0 - self.POLE * np.square(cos) / mass))
        speed_up = pull - moment * spin_up * cos / mass
        rates = np.stack([speed, speed_up, spin, spin_up], axis=1)
        later: Array = state + self.SECONDS * rates
        return later
