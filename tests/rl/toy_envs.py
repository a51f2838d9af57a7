"""Environments whose every observation, reward and end is known beforehand, and the plain loops that say what must come out.

A copy is told its number by its seed, so that copies differ. What it shows is (number, episode, step, last action).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from tflow.rl.data.arrays import Array, Obs
from tflow.rl.envs.env import Envs

try:
    from pettingzoo import AECEnv, ParallelEnv  # type: ignore[import-untyped]  # PettingZoo has no types
except ImportError:  # only the tests with several agents need it
    AECEnv = ParallelEnv = object

Plan = tuple[tuple[int, str], ...]
"""The episodes of one copy, over and over: how long each is, and how it ends ("terminated", "truncated" or "both")."""
ACTIONS = 3
SPACES: dict[str, spaces.Space[Any]] = {  # Any: spaces are generic in their elements
    "box": spaces.Box(-1e6, 1e6, (4,), np.float32),
    "number": spaces.Discrete(100_000),
    "dict": spaces.Dict(
        {
            "who": spaces.Discrete(1000),
            "when": spaces.Dict({"episode": spaces.Box(0, 1e6, (1,), np.float64), "step": spaces.Box(0, 255, (2,), np.uint8)}),
            "pair": spaces.Tuple((spaces.MultiDiscrete([1000, 1000]), spaces.MultiBinary(2))),
        }
    ),
}


def seen(kind: str, number: int, episode: int, step: int, action: int) -> Any:  # Any: an array, a number or a dict
    """The observation of a copy."""
    if kind == "box":
        return np.asarray([number, episode, step, action], np.float32)
    if kind == "number":
        return number * 1000 + episode * 100 + step
    return {
        "who": np.int64(number),
        "when": {"episode": np.asarray([episode], np.float64), "step": np.asarray([step, action + 1], np.uint8)},
        "pair": (np.asarray([episode, step]), np.asarray([step % 2, episode % 2], np.int8)),
    }


def flat_names(kind: str) -> set[str]:
    return {"who", "when/episode", "when/step", "pair/0", "pair/1"} if kind == "dict" else set()


def allowed(episode: int, step: int) -> Array:
    mask = np.zeros(ACTIONS, np.int8)
    mask[[(episode + step) % ACTIONS, step % 2]] = 1
    return mask


def paid(number: int, episode: int, step: int, action: int) -> float:
    return 100.0 * number + 10 * episode + step + action / 4


class PlannedEnv(gymnasium.Env[Any, Any]):  # Any: observations of several kinds
    """A single env that follows a plan."""

    def __init__(self, plans: tuple[Plan, ...], kind: str = "box", masks: bool = False, one_array: bool = False) -> None:
        self.plans, self.kind, self.masks = plans, kind, masks
        self.one_array = np.zeros(4, np.float32) if one_array else None  # some envs always give the same array
        self.observation_space = SPACES[kind]
        self.action_space = spaces.Discrete(ACTIONS)
        self.number, self.episode, self.at = 0, -1, 0

    def info(self) -> dict[str, Any]:  # Any: infos hold anything
        return {"action_mask": allowed(self.episode, self.at)} if self.masks else {}

    def look(self, action: int) -> Any:  # Any: observations of several kinds
        obs = seen(self.kind, self.number, self.episode, self.at, action)
        if self.one_array is None:
            return obs
        self.one_array[:] = obs
        return self.one_array

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:  # Any: gymnasium's
        if seed is not None:
            self.number, self.episode = seed % 1000, -1  # a copy that was restarted has a large seed
        self.episode, self.at = self.episode + 1, 0
        return self.look(-1), self.info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # Any: gymnasium's
        plan = self.plans[self.number % len(self.plans)]
        length, end = plan[self.episode % len(plan)]
        self.at += 1
        last = self.at >= length
        reward = paid(self.number, self.episode, self.at, int(action))
        obs = self.look(int(action))
        return obs, reward, last and end != "truncated", last and end != "terminated", self.info()


class PlannedVectorEnv(VectorEnv[Any, Any, Any]):  # Any: observations of several kinds
    """The same as one vector env that resets in any of the three ways, and always writes to the same arrays."""

    def __init__(self, num_envs: int, plans: tuple[Plan, ...], mode: AutoresetMode, masks: bool = False) -> None:
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": mode}
        self.mode = mode
        self.envs = [PlannedEnv(plans, "box", masks) for _ in range(num_envs)]
        self.single_observation_space, self.single_action_space = self.envs[0].observation_space, self.envs[0].action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.obs, self.finals = np.zeros((num_envs, 4), np.float32), np.zeros((num_envs, 4), np.float32)
        self.rewards = np.zeros(num_envs, np.float32)
        self.over, self.cut, self.done = (np.zeros(num_envs, np.bool_) for _ in range(3))
        self.given, self.final_given = np.zeros((num_envs, ACTIONS), np.int8), np.zeros((num_envs, ACTIONS), np.int8)
        self.masks = masks

    def infos(self) -> dict[str, Any]:  # Any: infos hold anything
        return {"action_mask": self.given} if self.masks else {}

    def begin(self, index: int, seed: int | None = None) -> None:
        self.obs[index], info = self.envs[index].reset(seed=seed)
        self.given[index] = info.get("action_mask", 1)

    def reset(
        self,
        *,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,  # Any: gymnasium's
    ) -> tuple[Array, dict[str, Any]]:  # Any: gymnasium's
        chosen = np.ones(self.num_envs, np.bool_) if options is None else options["reset_mask"]
        self.obs[~chosen] = -1  # nobody may look at these rows
        self.done[chosen] = False
        for index in np.flatnonzero(chosen).tolist():
            self.begin(index, None if seed is None else seed + index)
        return self.obs, self.infos()

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:  # Any: gymnasium's
        for index, env in enumerate(self.envs):
            if self.mode is AutoresetMode.NEXT_STEP and self.done[index]:
                self.rewards[index], self.over[index], self.cut[index] = 0, False, False
                self.begin(index)
                continue
            assert not self.done[index] or self.mode is AutoresetMode.SAME_STEP
            self.obs[index], self.rewards[index], self.over[index], self.cut[index], info = env.step(actions[index])
            self.given[index] = 0 if self.over[index] else info.get("action_mask", 1)
        self.done = self.over | self.cut
        infos = self.infos()
        if self.mode is AutoresetMode.SAME_STEP and self.done.any():
            self.finals[self.done] = self.obs[self.done]
            infos["final_obs"] = self.finals
            if self.masks:
                self.final_given[self.done] = self.given[self.done]
                infos["final_info"] = {"action_mask": self.final_given}
            for index in np.flatnonzero(self.done).tolist():
                self.begin(index)
        return self.obs, self.rewards, self.over, self.cut, infos


@dataclass
class Transition:
    """What a policy learns from. Observations are flat."""

    obs: dict[str, list[Any]]  # Any: numbers
    action: int
    reward: float
    terminated: bool
    truncated: bool
    next_obs: dict[str, list[Any]]  # Any: numbers
    mask: list[bool] | None
    next_mask: list[bool] | None = None
    """What is allowed next; None where that means nothing, after termination."""


def plain(obs: Any) -> dict[str, list[Any]]:  # Any: a nested observation, or rows of a flat one
    """An observation as flat lists, to compare."""
    if isinstance(obs, Mapping):
        return {f"{key}/{below}".rstrip("/"): value for key, part in obs.items() for below, value in plain(part).items()}
    if isinstance(obs, tuple):
        return plain({str(place): part for place, part in enumerate(obs)})
    return {"": np.asarray(obs).reshape(-1).tolist()}


def by_hand(env: gymnasium.Env[Any, Any], seed: int, actions: list[int]) -> list[Transition]:  # Any: as above
    """What stepping a single env gives."""
    obs, info = env.reset(seed=seed)
    found = []
    for action in actions:
        before = plain(obs)
        after, reward, terminated, truncated, next_info = env.step(action)
        mask = info["action_mask"].astype(bool).tolist() if "action_mask" in info else None
        masked = "action_mask" in next_info and not terminated
        next_mask = next_info["action_mask"].astype(bool).tolist() if masked else None
        found.append(Transition(before, action, float(reward), terminated, truncated, plain(after), mask, next_mask))
        obs, info = env.reset() if terminated or truncated else (after, next_info)
    return found


def array(obs: Obs | None) -> Array:
    """An observation that is one array."""
    assert isinstance(obs, np.ndarray)
    return obs


def row_of(obs: Obs, row: int) -> dict[str, list[Any]]:  # Any: numbers
    return plain({key: part[row] for key, part in obs.items()} if isinstance(obs, dict) else obs[row])


def collected(envs: Envs, seed: int, actions: list[list[int]]) -> list[list[Transition]]:
    """What an adapter gives if each env is to take these actions, one list per env. Lost episodes are discarded."""
    count = len(actions[0])
    found: list[list[Transition]] = [[] for _ in actions]
    taken, start = [0] * len(actions), [0] * len(actions)
    obs, masks = envs.reset(seed)
    for _ in range(4 * count):  # NEXT_STEP needs two steps for an episode of one
        if min(taken) >= count:
            return [each[:count] for each in found]
        before = [row_of(obs, row) for row in range(envs.num)]
        mask = [None if masks is None else masks[row].tolist() for row in range(envs.num)]
        chosen = np.asarray([each[min(at, count - 1)] for each, at in zip(actions, taken, strict=True)])
        obs, rewards, terminated, truncated, final_obs, valid, masks, failed, final_masks = envs.step(chosen)
        assert [array.dtype for array in (rewards, terminated, truncated)] == ["float32", "bool", "bool"]
        ended = np.flatnonzero(terminated | truncated).tolist()
        assert (final_obs is None) == (not ended)
        assert (final_masks is None) == (masks is None or not ended)
        for index in range(envs.num):
            if index in failed:
                del found[index][start[index] :]
            if valid is not None and not valid[index]:
                assert index not in ended
                continue
            over, cut = bool(terminated[index]), bool(truncated[index])
            assert final_obs is not None or not (over or cut)
            after = row_of(final_obs, ended.index(index)) if final_obs is not None and index in ended else row_of(obs, index)
            allowed_next = None if masks is None or over else masks[index].tolist()
            if final_masks is not None and cut and not over:
                allowed_next = final_masks[ended.index(index)].tolist()
            move = Transition(
                before[index], int(chosen[index]), float(rewards[index]), over, cut, after, mask[index], allowed_next
            )
            found[index].append(move)
            taken[index] += 1
            if over or cut:
                start[index] = len(found[index])
    raise AssertionError("the envs never took all the actions")


# --------------------------------------------------------------------------- several agents


@dataclass(frozen=True)
class Life:
    """When an agent is there: it joins before step ``born`` and ends in step ``dies`` of the episode."""

    born: int
    dies: int
    truncated: bool = False


def wages(agent: int, actor: int, step: int, action: int) -> float:
    """What an agent gets when an agent acts."""
    return 10.0 * agent + actor + step / 4 + action / 8


class TogetherEnv(ParallelEnv):  # type: ignore[misc]  # PettingZoo has no types
    """All living agents act at once; agents come and go. Shows (seed, episode, step, agent)."""

    metadata: dict[str, Any] = {"name": "together"}  # Any: PettingZoo's
    render_mode = None

    def __init__(self, lives: tuple[Life, ...], masks: bool = False) -> None:
        self.lives, self.masks = lives, masks
        self.shown = np.zeros((len(lives), 4), np.float32)  # always the same arrays: nobody may keep them
        self.possible_agents = [f"agent_{number}" for number in range(len(lives))]
        self.agents: list[str] = []
        self.seed, self.episode, self.at = 0, -1, 0

    def observation_space(self, agent: str) -> spaces.Space[Any]:  # Any: spaces are generic
        return SPACES["box"]

    def action_space(self, agent: str) -> spaces.Space[Any]:  # Any: spaces are generic
        return spaces.Discrete(ACTIONS)

    def look(self, agent: str) -> Array:
        number = self.possible_agents.index(agent)
        self.shown[number] = [self.seed, self.episode, self.at, number]
        row: Array = self.shown[number]
        return row

    def info(self) -> dict[str, Any]:  # Any: infos hold anything
        return {"action_mask": allowed(self.episode, self.at)} if self.masks else {}

    def join(self) -> None:
        for agent, life in zip(self.possible_agents, self.lives, strict=True):
            if life.born <= self.at < life.dies and agent not in self.agents:
                self.agents.append(agent)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:  # Any: PettingZoo's
        if seed is not None:
            self.seed, self.episode = seed, -1
        self.episode, self.at, self.agents = self.episode + 1, 0, []
        self.join()
        return {agent: self.look(agent) for agent in self.agents}, {agent: self.info() for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:  # Any: PettingZoo's five dictionaries
        assert set(actions) == set(self.agents)
        number = {agent: place for place, agent in enumerate(self.possible_agents)}
        rewards = {agent: wages(number[agent], number[agent], self.at, int(actions[agent])) for agent in actions}
        self.at += 1
        ends = {agent: self.at >= self.lives[number[agent]].dies for agent in actions}
        over = {agent: ends[agent] and not self.lives[number[agent]].truncated for agent in actions}
        cut = {agent: ends[agent] and self.lives[number[agent]].truncated for agent in actions}
        shown = list(actions)
        self.agents = [agent for agent in self.agents if not ends[agent]]
        self.join()
        shown += [agent for agent in self.agents if agent not in shown]
        return (
            {agent: self.look(agent) for agent in shown},
            rewards | {agent: 0.0 for agent in shown if agent not in rewards},
            over | {agent: False for agent in shown if agent not in over},
            cut | {agent: False for agent in shown if agent not in cut},
            {agent: self.info() for agent in shown},
        )


class InTurnEnv(AECEnv):  # type: ignore[misc]  # PettingZoo has no types
    """One agent acts at a time, in a fixed order, and everybody alive is paid for it. Shows (seed, episode, moves so far, agent).

    ``lives`` count moves: an agent is dead when so many moves have been made by all together.
    """

    metadata: dict[str, Any] = {"name": "in_turn"}  # Any: PettingZoo's

    def __init__(self, order: tuple[int, ...], lives: tuple[Life, ...], mask_in_obs: bool = False) -> None:
        super().__init__()
        self.order, self.lives, self.mask_in_obs = order, lives, mask_in_obs
        self.shown = np.zeros((len(lives), 4), np.float32)  # always the same arrays: nobody may keep them
        self.possible_agents = [f"agent_{number}" for number in range(len(lives))]
        self.agents: list[str] = []
        self.seed, self.episode, self.at = 0, -1, 0

    def observation_space(self, agent: str) -> spaces.Space[Any]:  # Any: spaces are generic
        if not self.mask_in_obs:
            return SPACES["box"]
        return spaces.Dict({"observation": SPACES["box"], "action_mask": spaces.Box(0, 1, (ACTIONS,), np.int8)})

    def action_space(self, agent: str) -> spaces.Space[Any]:  # Any: spaces are generic
        return spaces.Discrete(ACTIONS)

    def observe(self, agent: str) -> Any:  # Any: with or without a mask
        number = self.possible_agents.index(agent)
        self.shown[number] = [self.seed, self.episode, self.at, number]
        obs = self.shown[number]
        return {"observation": obs, "action_mask": allowed(self.episode, self.at)} if self.mask_in_obs else obs

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:  # Any: PettingZoo's
        if seed is not None:
            self.seed, self.episode = seed, -1
        self.episode, self.at, self.agents = self.episode + 1, 0, self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations, self.truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}  # Any: PettingZoo's
        self._skip_agent_selection: str | None = None
        self.select()

    def select(self) -> None:
        """The next in the order who is alive; the last one stays selected if nobody is."""
        for ahead in range(len(self.order)):
            agent = self.possible_agents[self.order[(self.at + ahead) % len(self.order)]]
            if agent in self.agents and not (self.terminations[agent] or self.truncations[agent]):
                self.agent_selection = agent
                return

    def step(self, action: Any) -> None:  # Any: PettingZoo's
        actor = self.agent_selection
        if self.terminations[actor] or self.truncations[actor]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[actor] = 0
        numbers = {agent: self.possible_agents.index(agent) for agent in self.agents}
        self.rewards = {agent: wages(numbers[agent], numbers[actor], self.at, int(action)) for agent in self.agents}
        self.at += 1
        for agent in self.agents:
            life = self.lives[numbers[agent]]
            (self.truncations if life.truncated else self.terminations)[agent] = self.at >= life.dies
        self._accumulate_rewards()
        self.select()
        dead = [agent for agent in self.agents if self.terminations[agent] or self.truncations[agent]]
        if dead:  # the last one first: nobody may rely on the order
            self._skip_agent_selection, self.agent_selection = self.agent_selection, dead[-1]
