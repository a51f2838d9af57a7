"""Vectorised multi-agent environments: PettingZoo's parallel and turn-based (AEC) envs.

A *slot* is one agent in one copy. Slots are numbered once: those of copy 0 in the order of ``possible_agents``, then those of
copy 1, and so on. Agents that share a policy form a group, which needs equal spaces: one batch serves all its slots.

Who collects experience need not know which kind of env it has. There are turns and transitions:

- ``turns[policy]`` says which slots of a policy act next and what they see, a row for each. ``step`` takes a row of actions for
  each of these rows. In a parallel env all living agents have a turn each time; in a turn-based one, one agent of each copy.
- A transition runs from a slot's action to its next turn, or to its end. ``completed`` marks slots whose last action has come to
  that in this step; ``rewards``, ``terminated`` and ``truncated`` are about these, and zero elsewhere. What the slot sees next is
  its row in ``turns``, or in ``final_obs`` if it ended. In a turn-based env the reward is all that came in since the action.
- So: on ``completed[slot]`` close the transition that the slot's last turn opened, then open one for each row in ``turns``.

When no agents are left, the episode of the copy is ``over`` and it is reset in the same step: its turns are those of the next
episode, so a slot can end and have a turn at once. Agents that end before they ever acted have no transition and leave no trace.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from tflow.errors import EnvError
from tflow.rl.data.arrays import Array, Obs
from tflow.rl.envs.env import MASK_FROM_THE_START, Adjustable, EnvFaults, Infos, OnError
from tflow.rl.envs.snapshot import env_state, load_env
from tflow.rl.envs.spaces import ActionLayout, AnySpace, Mismatch, ObsLayout

__all__ = ["AgentGroup", "MultiEnvs", "MultiStep", "Turn"]
Make = Callable[[], object]
PolicyOf = Callable[[str], str]
Row = tuple[int, object, Infos]  # slot, observation, infos
NO_MASKS: Mapping[str, Array] = MappingProxyType({})


class Turn(NamedTuple):
    """The slots of one policy that act next."""

    slots: Array  # int64, increasing
    obs: Obs  # one row per slot
    masks: Array | None  # bool (slots, actions), if the env gives them: "action_mask" in the infos, or beside "observation"


class MultiStep(NamedTuple):
    """The result of a step, in fresh arrays. The terms are explained at the top of this file."""

    turns: dict[str, Turn]
    """By policy. Every policy is there, if need be with no rows."""
    completed: Array  # bool (slots,)
    rewards: Array  # float32 (slots,)
    terminated: Array  # bool (slots,)
    truncated: Array  # bool (slots,)
    final_obs: dict[str, Obs]
    """By policy: the final observations of its slots that are terminated or truncated, in order. Policies without any are left
    out."""
    over: Array  # bool (num,): copies whose episode has ended
    failed: tuple[int, ...] = ()
    """Slots of copies that failed and were restarted: their episodes are to be discarded."""
    final_masks: Mapping[str, Array] = NO_MASKS
    """By policy, if it has masks: those of the final observations. All actions where a mask means nothing: after termination,
    where the env gives none, or one without any action, as those give whose turn it is not."""


@dataclass
class AgentGroup:
    """The agents of one policy."""

    agents: tuple[str, ...]
    slots: Array
    observation_space: AnySpace
    """Without the action mask that PettingZoo's classic games put beside the observation."""
    action_space: AnySpace
    layout: ObsLayout
    actions: ActionLayout
    mask_in_obs: bool
    masked: bool | None = None  # known from the first turn on


@dataclass
class Events:
    """What happened in one copy, by agent."""

    turns: dict[int, tuple[object, Infos]] = field(default_factory=dict)
    rewards: dict[int, object] = field(default_factory=dict)
    ends: dict[int, tuple[object, bool, bool, Infos]] = field(default_factory=dict)
    """Last observation, terminated, truncated, action mask as in infos. Observation and mask are copies: the env may write over
    its own when it is reset."""
    over: bool = False
    failed: bool = False


# --------------------------------------------------------------------------- one copy


class Copy(ABC):
    """One env, whose agents are called by their number."""

    def __init__(self, env: Any) -> None:  # Any: PettingZoo has no types
        self.env = env
        self.ids = list(env.possible_agents)
        self.number = {agent: number for number, agent in enumerate(self.ids)}
        self.spaces = [self._spaces(agent) for agent in self.ids]

    def _spaces(self, agent: object) -> tuple[AnySpace, AnySpace]:
        return self.env.observation_space(agent), self.env.action_space(agent)

    def begin(self, seed: int | None, events: Events) -> Events:
        """Reset, and see who acts first."""
        self._reset(seed, events)
        if not events.turns:
            raise Mismatch("agents", "are all gone right after a reset: nobody can act.")
        for agent, known in zip(self.ids, self.spaces, strict=True):
            for what, now, before in zip(("observation space", "action space"), self._spaces(agent), known, strict=True):
                if now is not before and now != before:
                    raise Mismatch(what, f"of agent {agent} was {before} and is {now} after a reset. It has to stay the same.")
        return events

    @abstractmethod
    def _reset(self, seed: int | None, events: Events) -> None: ...

    @abstractmethod
    def act(self, actions: dict[int, object]) -> Events:
        """Let those act whose turn it is."""


class Parallel(Copy):
    """All living agents act at once."""

    def _reset(self, seed: int | None, events: Events) -> None:
        obs, infos = self.env.reset(seed=seed)
        self._give_turns(obs, infos, self.env.agents, events)

    def _give_turns(
        self, obs: Mapping[object, object], infos: Mapping[object, Infos], agents: list[object], events: Events
    ) -> None:
        for agent in agents:
            if agent not in obs:
                raise Mismatch("obs", f"of agent {agent} is missing, though it is one of env.agents.")
            events.turns[self.number[agent]] = obs[agent], infos.get(agent, {})

    def act(self, actions: dict[int, object]) -> Events:
        events = Events()
        obs, rewards, over, cut, infos = self.env.step({self.ids[number]: action for number, action in actions.items()})
        for number in actions:
            agent = self.ids[number]
            if agent not in rewards or agent not in over or agent not in cut:
                raise Mismatch("agents", f"must all get a reward and flags for their end; {agent} acted and got none.")
            events.rewards[number] = rewards[agent]
            if over[agent] or cut[agent]:
                events.ends[number] = deepcopy(obs.get(agent)), bool(over[agent]), bool(cut[agent]), _mask_of(infos.get(agent))
            elif agent not in self.env.agents:
                raise Mismatch("agents", f"without {agent}, which was neither terminated nor truncated.")
        living = [agent for agent in self.env.agents if not (over.get(agent) or cut.get(agent))]
        if living:
            self._give_turns(obs, infos, living, events)
            return events
        events.over = True
        return self.begin(None, events)


class TurnBased(Copy):
    """One agent acts at a time (PettingZoo's AEC). Its transition is complete when its next turn comes, or its end."""

    def _reset(self, seed: int | None, events: Events) -> None:
        self.env.reset(seed=seed)
        self.acted: set[object] = set()
        self._find_next(events)

    def _find_next(self, events: Events) -> None:
        """Go on to the next agent that can act. The dead are stepped with None, which takes them out."""
        while self.env.agents:
            agent = self.env.agent_selection
            obs, reward, over, cut, info = self.env.last()
            number = self.number[agent]
            if agent in self.acted:
                events.rewards[number] = reward
            if not (over or cut):
                events.turns[number] = obs, info
                return
            if agent in self.acted:
                events.ends[number] = deepcopy(obs), bool(over), bool(cut), _mask_of(info)
            self.env.step(None)

    def act(self, actions: dict[int, object]) -> Events:
        ((number, action),) = actions.items()
        self.acted.add(self.ids[number])
        self.env.step(action)
        events = Events()
        self._find_next(events)
        if events.turns:
            return events
        events.over = True
        return self.begin(None, events)


def _mask_of(info: Infos | None) -> Infos:
    """A copy of the action mask in infos: the env may write over its own when it is reset."""
    return {} if info is None or info.get("action_mask") is None else {"action_mask": np.array(info["action_mask"])}


# --------------------------------------------------------------------------- all copies


class MultiEnvs(Adjustable):
    """``num`` copies of a PettingZoo env. Call ``reset`` once, then ``step``; see the top of the file.

    ``policy_of`` says which policy an agent has; ``str`` gives each its own. Copy i is seeded with ``seed + i``. With
    ``on_error="restart"`` a copy that fails is restarted, the others continue.
    """

    def __init__(self, make: Make, num: int, *, name: str, policy_of: PolicyOf = str, on_error: OnError = "raise") -> None:
        self.num, self.name, self._make = num, name, make
        self.faults = EnvFaults(name, on_error)
        self._seed: int | None = None
        self._copies: list[Copy] = []
        with ExitStack() as undo:
            undo.callback(self.close)
            for index in range(num):
                self._copies.append(self._made(index))
            self.agents = tuple(str(agent) for agent in self._copies[0].ids)
            self.slot_agents = list(self.agents) * num
            self.groups = self._grouped(policy_of)
            undo.pop_all()
        policies = {agent: policy for policy, group in self.groups.items() for agent in group.agents}
        self._policies = [policies[agent] for agent in self.slot_agents]
        self._turns: dict[str, Turn] = {}

    def copies(self) -> Iterable[object]:
        return [copy.env for copy in self._copies]

    def reset(self, seed: int | None = None) -> dict[str, Turn]:
        """Start all episodes. Gives the first turns."""
        self._seed = seed
        events = []
        for index, copy in enumerate(self._copies):
            try:
                events.append(copy.begin(None if seed is None else seed + index, Events()))
            except Exception as error:
                events.append(self._restarted(index, "reset", error))
        return self._gathered(events).turns

    def step(self, actions: Mapping[str, Array]) -> MultiStep:
        """Let all act whose turn it is: for each policy one row of actions per row of its turn."""
        if not self._turns:
            raise EnvError("is stepped before it was reset.", self.name)
        chosen: list[dict[int, object]] = [{} for _ in range(self.num)]
        for policy, turn in self._turns.items():
            if not len(turn.slots):
                continue
            if policy not in actions:
                raise EnvError(f"policy {policy} has a turn, but there are no actions for it.", self.name, None, "actions")
            given = self.faults.given(self.groups[policy].actions, actions[policy], len(turn.slots))
            for slot, action in zip(turn.slots.tolist(), given, strict=True):
                chosen[slot // len(self.agents)][slot % len(self.agents)] = action
        events = []
        for index, copy in enumerate(self._copies):
            try:
                events.append(copy.act(chosen[index]))
            except Exception as error:
                events.append(self._restarted(index, "step", error))
        step = self._gathered(events)
        self.faults.finished({index for index, each in enumerate(events) if each.failed})
        return step

    def state(self) -> dict[str, Any] | None:  # Any: as envs have it
        """The state of all copies between two steps; None if the env cannot say it."""
        envs = [env_state(copy.env) for copy in self._copies]
        return None if None in envs else {"envs": envs, "seed": self._seed, "turns": self._turns, "faults": self.faults.state()}

    def load(self, state: Mapping[str, Any]) -> None:  # Any: as above
        """Go on from a state."""
        self.reset(0)  # some envs make their parts only then
        for copy, saved in zip(self._copies, state["envs"], strict=True):
            load_env(copy.env, saved)
        self._seed, self._turns = state["seed"], state["turns"]
        self.faults.load(state["faults"])

    def renew(self) -> None:
        """Make all copies anew: what they remember is gone."""
        for index, copy in enumerate(self._copies):
            copy.env.close()
            self._copies[index] = self._made(index)

    def close(self) -> None:
        """Close all envs."""
        with ExitStack() as stack:
            for copy in self._copies:
                stack.callback(copy.env.close)
            self._copies = []

    def _gathered(self, events: list[Events]) -> MultiStep:
        """The events of all copies as arrays. A copy with invalid values is restarted, or raises."""
        while True:
            try:
                return self._arrays(events)
            except Mismatch as error:
                (index,) = error.rows
                events[index] = self._restarted(index, "step", Mismatch(error.field, error.problem))

    def _arrays(self, events: list[Events]) -> MultiStep:
        count, slots = len(self.agents), len(self.slot_agents)
        completed, terminated, truncated = (np.zeros(slots, np.bool_) for _ in range(3))
        rewards = np.zeros(slots, np.float32)
        acting: dict[str, list[Row]] = {policy: [] for policy in self.groups}
        ending: dict[str, list[Row]] = {policy: [] for policy in self.groups}
        for index, each in enumerate(events):
            for number, reward in each.rewards.items():
                slot = index * count + number
                completed[slot] = True
                rewards[slot] = self._number(reward, slot)
            for number, (last, over, cut, info) in sorted(each.ends.items(), key=lambda end: end[0]):
                slot = index * count + number
                terminated[slot], truncated[slot] = over, cut
                ending[self._policies[slot]].append((slot, last, info))
            for number, (obs, info) in sorted(each.turns.items()):
                acting[self._policies[number]].append((index * count + number, obs, info))
        turns = {policy: self._turn(self.groups[policy], rows) for policy, rows in acting.items()}
        final_obs = {policy: self._observed(self.groups[policy], rows) for policy, rows in ending.items() if rows}
        final_masks = {
            policy: self._final_masks(self.groups[policy], rows, terminated)
            for policy, rows in ending.items()
            if rows and self.groups[policy].masked
        }
        self._turns = turns
        failed = tuple(slot for slot in range(slots) if events[slot // count].failed)
        over_now = np.asarray([each.over for each in events], np.bool_)
        return MultiStep(turns, completed, rewards, terminated, truncated, final_obs, over_now, failed, final_masks)

    def _turn(self, group: AgentGroup, rows: list[Row]) -> Turn:
        obs, masks = self._observed(group, rows), None
        infos = [value if group.mask_in_obs and isinstance(value, Mapping) else info for _, value, info in rows]
        if group.masked is None and rows:
            group.masked = any("action_mask" in info for info in infos)
        if group.masked:
            masks = np.ones((len(rows), max(1, group.actions.choices)), np.bool_)
        for row, info in enumerate(infos):
            try:
                if masks is not None:
                    masks[row] = group.actions.mask(info)
                elif "action_mask" in info:
                    raise Mismatch("action_mask", MASK_FROM_THE_START)
            except Mismatch as error:
                raise self._at(rows[row][0], error) from None
        return Turn(np.asarray([slot for slot, _, _ in rows], np.int64), obs, masks)

    def _final_masks(self, group: AgentGroup, rows: list[Row], terminated: Array) -> Array:
        masks = np.ones((len(rows), group.actions.choices), np.bool_)
        for row, (slot, value, info) in enumerate(rows):
            given = (value if group.mask_in_obs and isinstance(value, Mapping) else info).get("action_mask")
            if given is None or terminated[slot]:
                continue
            try:
                found = group.actions.masks([given], 1)
            except Mismatch as error:
                raise self._at(slot, error) from None
            if group.actions.no_choice(found) is None:
                masks[row] = found
        return masks

    def _observed(self, group: AgentGroup, rows: list[Row]) -> Obs:
        obs = group.layout.empty(len(rows))
        write = group.layout.writer(obs)
        for row, (slot, value, _) in enumerate(rows):
            try:
                write(row, value["observation"] if group.mask_in_obs and isinstance(value, Mapping) else value)
            except Mismatch as error:
                raise self._at(slot, error) from None
        if problem := group.layout.problem(obs):
            raise self._at(rows[problem.rows[0]][0], problem)
        return obs

    def _number(self, reward: Any, slot: int) -> float:  # Any: the env may give anything
        try:
            if math.isfinite(reward):
                return float(reward)
        except TypeError:
            pass
        raise self._at(slot, Mismatch("reward", f"is not a finite number: {reward!r}."))

    def _at(self, slot: int, error: Mismatch) -> Mismatch:
        """The error with the agent's name and the number of the copy."""
        copy, agent = divmod(slot, len(self.agents))
        return Mismatch(f"{self.agents[agent]}/{error.field}", error.problem, (copy,))

    def _made(self, index: int) -> Copy:
        try:
            env: Any = self._make()  # Any: PettingZoo has no types
        except Exception as error:
            self.faults.refuse(error, "make", index)
        if not callable(getattr(env, "action_space", None)):  # it has one per agent
            raise EnvError(f"is made as a {type(env).__name__}, not an AECEnv or ParallelEnv of PettingZoo.", self.name, index)
        if not getattr(env, "possible_agents", None):
            problem = "does not say which agents there can be. Give it possible_agents: policies are made for these."
            raise EnvError(problem, self.name, index, "possible_agents")
        copy = TurnBased(env) if hasattr(env, "agent_iter") else Parallel(env)
        first = self._copies[0] if self._copies else copy
        if copy.ids != first.ids or copy.spaces != first.spaces:
            raise EnvError("has other agents or spaces than env 0. All copies need the same ones.", self.name, index)
        self.apply_settings(env)
        return copy

    def _restarted(self, index: int, call: str, error: Exception) -> Events:
        """Restart one copy, if that is allowed."""
        while True:
            self.faults.allow(error, call, index)
            with suppress(Exception):  # it is broken; what matters is the new one
                self._copies[index].env.close()
            try:
                self._copies[index] = self._made(index)
                return self._copies[index].begin(self.faults.seed(self._seed), Events(failed=True))
            except Exception as again:
                error = again

    def _grouped(self, policy_of: PolicyOf) -> dict[str, AgentGroup]:
        by_policy: dict[str, list[int]] = {}
        for number, agent in enumerate(self.agents):
            by_policy.setdefault(policy_of(agent), []).append(number)
        known = self._copies[0].spaces
        for policy, numbers in by_policy.items():
            for number in numbers:
                if known[number] != known[numbers[0]]:
                    names = f"{self.agents[numbers[0]]} and {self.agents[number]}"
                    problem = (
                        f"policy {policy} is for {names}, which have different spaces: {known[numbers[0]]}, {known[number]}."
                    )
                    raise EnvError(f"{problem} Give them different policies.", self.name)
        return {policy: self._group(numbers) for policy, numbers in by_policy.items()}

    def _group(self, numbers: list[int]) -> AgentGroup:
        seen, actions = self._copies[0].spaces[numbers[0]]
        in_obs = isinstance(seen, spaces.Dict) and set(seen.spaces) == {"observation", "action_mask"}
        if isinstance(seen, spaces.Dict) and in_obs:
            seen = seen["observation"]
        layout, action_layout = self.faults.layouts(seen, actions)
        slots = np.asarray([copy * len(self.agents) + number for copy in range(self.num) for number in numbers], np.int64)
        names = tuple(self.agents[number] for number in numbers)
        return AgentGroup(names, slots, seen, action_layout.space, layout, action_layout, in_obs)
