"""Several agents: the adapter gives the transitions that PettingZoo's own loops give, for envs with turns and without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from tests.rl.toy_envs import ACTIONS, SPACES, InTurnEnv, Life, TogetherEnv, allowed, array, row_of, wages
from tflow.errors import EnvError, PlanError
from tflow.rl.data.arrays import Array
from tflow.rl.envs.env_spec import EnvSpec
from tflow.rl.envs.multi_env import MultiEnvs

pettingzoo = pytest.importorskip("pettingzoo", reason="needs tflow[multiagent]")

Played = tuple[list[float], int, float, bool, bool, list[float]]
"""Observation, action, reward, terminated, truncated, next observation."""


def unmasked(obs: Any) -> list[float]:  # Any: with or without a mask
    values: list[float] = (obs["observation"] if isinstance(obs, Mapping) else obs).tolist()
    return values


def played_by_hand(
    env: Any, seed: int, choose: Callable[[list[float]], int], episodes: int
) -> dict[str, list[Played]]:  # Any: no types
    """What PettingZoo's own loops give for a copy: the transitions of each agent over some episodes."""
    found: dict[str, list[Played]] = {agent: [] for agent in env.possible_agents}
    for episode in range(episodes):
        start = seed if episode == 0 else None
        if isinstance(env, pettingzoo.AECEnv):
            env.reset(seed=start)
            open_turns: dict[str, tuple[list[float], int]] = {}
            for agent in env.agent_iter():
                obs, reward, over, cut, _ = env.last()
                if agent in open_turns:
                    found[agent].append((*open_turns.pop(agent), float(reward), over, cut, unmasked(obs)))
                action = None if over or cut else choose(unmasked(obs))
                if action is not None:
                    open_turns[agent] = unmasked(obs), action
                env.step(action)
            continue
        obs = {agent: value.tolist() for agent, value in env.reset(seed=start)[0].items()}
        while env.agents:
            actions = {agent: choose(obs[agent]) for agent in env.agents}
            values, rewards, over, cut, _ = env.step(actions)
            after = {agent: value.tolist() for agent, value in values.items()}
            for agent, action in actions.items():
                found[agent].append((obs[agent], action, rewards[agent], over[agent], cut[agent], after[agent]))
            obs = after
    return found


def played(envs: MultiEnvs, seed: int, choose: Callable[[list[float]], int], episodes: int) -> list[list[Played]]:
    """What the adapter gives, used as its docstring says: the transitions of each slot over some episodes of each copy."""
    slots = len(envs.slot_agents)
    found: list[list[Played]] = [[] for _ in range(slots)]
    opened: list[tuple[list[float], int] | None] = [None] * slots
    over = np.zeros(envs.num, int)
    turns = envs.reset(seed)
    while over.min() < episodes:
        actions: dict[str, Array] = {}
        for policy, turn in turns.items():
            rows = [row_of(turn.obs, row)[""] for row in range(len(turn.slots))]
            actions[policy] = np.asarray([choose(row) for row in rows], np.int64)
            assert (np.diff(turn.slots) > 0).all()
            assert set(turn.slots.tolist()) <= set(envs.groups[policy].slots.tolist())
            for slot, row, action in zip(turn.slots.tolist(), rows, actions[policy].tolist(), strict=True):
                assert opened[slot] is None
                opened[slot] = row, action
        step = envs.step(actions)
        turns = step.turns
        assert not ((step.terminated | step.truncated) & ~step.completed).any()
        last: dict[int, list[float]] = {}
        for policy, obs in step.final_obs.items():
            ended = [slot for slot in envs.groups[policy].slots.tolist() if step.terminated[slot] or step.truncated[slot]]
            assert len(array(obs)) == len(ended)
            last |= {slot: row_of(obs, row)[""] for row, slot in enumerate(ended)}
        seen_next = {slot: row_of(turn.obs, row)[""] for turn in turns.values() for row, slot in enumerate(turn.slots.tolist())}
        for slot in step.failed:
            opened[slot] = None
        for slot in np.flatnonzero(step.completed).tolist():
            turn_taken = opened[slot]
            assert turn_taken is not None
            opened[slot] = None
            if over[slot // len(envs.agents)] < episodes:
                ends = bool(step.terminated[slot]), bool(step.truncated[slot])
                after = last[slot] if any(ends) else seen_next[slot]
                found[slot].append((*turn_taken, float(step.rewards[slot]), *ends, after))
        over += step.over
    return found


def choice(obs: list[float]) -> int:
    """Some action that depends on all that is seen."""
    seed, episode, step, agent = obs
    return int(seed + 2 * episode + step + agent) % ACTIONS


def shared(agent: str) -> str:
    """Two policies: agent_1 has its own."""
    return "alone" if agent == "agent_1" else "shared"


lives = st.lists(
    st.builds(lambda born, more, cut: Life(born, born + more, cut), st.integers(0, 3), st.integers(1, 4), st.booleans()),
    min_size=1,
    max_size=3,
).map(lambda drawn: (Life(0, drawn[0].dies, drawn[0].truncated), *drawn[1:]))  # somebody is there at the start
short_lives = st.lists(
    st.builds(lambda dies, cut: Life(0, dies, cut), st.integers(1, 7), st.booleans()), min_size=1, max_size=3
).map(tuple)


@given(lives=lives, num=st.integers(1, 3), policy_of=st.sampled_from([str, shared]), episodes=st.integers(1, 3))
def test_agents_that_act_together(lives: tuple[Life, ...], num: int, policy_of: Callable[[str], str], episodes: int) -> None:
    envs = MultiEnvs(lambda: TogetherEnv(lives), num, name="together", policy_of=policy_of)
    expected = [played_by_hand(TogetherEnv(lives), 5 + copy, choice, episodes) for copy in range(num)]
    assert played(envs, 5, choice, episodes) == [transitions for copy in expected for transitions in copy.values()]


@given(
    lives=short_lives,
    order=st.lists(st.integers(0, 2), min_size=1, max_size=5),
    num=st.integers(1, 3),
    policy_of=st.sampled_from([str, shared]),
    episodes=st.integers(1, 3),
    mask=st.booleans(),
)
def test_agents_that_act_in_turn(
    lives: tuple[Life, ...], order: list[int], num: int, policy_of: Callable[[str], str], episodes: int, mask: bool
) -> None:
    turns = (*(number % len(lives) for number in order), *range(len(lives)))  # everybody has a turn some time
    envs = MultiEnvs(lambda: InTurnEnv(turns, lives, mask), num, name="in turn", policy_of=policy_of)
    expected = [played_by_hand(InTurnEnv(turns, lives, mask), 5 + copy, choice, episodes) for copy in range(num)]
    assert played(envs, 5, choice, episodes) == [transitions for copy in expected for transitions in copy.values()]


@given(lives=lives, num=st.integers(1, 2))
def test_who_collects_cannot_tell_a_parallel_env_from_its_version_with_turns(lives: tuple[Life, ...], num: int) -> None:
    everybody = tuple(Life(0, life.dies, life.truncated) for life in lives)  # PettingZoo's conversion knows no latecomers
    to_turns = pettingzoo.utils.conversions.parallel_to_aec
    parallel = MultiEnvs(lambda: TogetherEnv(everybody), num, name="together")
    in_turn = MultiEnvs(lambda: to_turns(TogetherEnv(everybody)), num, name="in turn")
    assert played(parallel, 3, choice, 2) == played(in_turn, 3, choice, 2)


def test_a_game_by_hand() -> None:
    """Two players; the second one's move ends the game for both. Each is paid for both moves."""
    game = InTurnEnv((0, 1), (Life(0, 2), Life(0, 2, truncated=True)))
    envs = MultiEnvs(lambda: game, 1, name="game")
    turns = envs.reset(9)
    assert (envs.slot_agents, envs.agents) == (["agent_0", "agent_1"], ("agent_0", "agent_1"))
    assert {policy: group.slots.tolist() for policy, group in envs.groups.items()} == {"agent_0": [0], "agent_1": [1]}
    assert [turn.slots.tolist() for turn in turns.values()] == [[0], []]
    assert array(turns["agent_0"].obs).tolist() == [[9, 0, 0, 0]]
    assert array(turns["agent_1"].obs).shape == (0, 4)
    step = envs.step({"agent_0": np.asarray([2])})
    assert step.completed.tolist() == [False, False]  # the first player's transition waits for its next turn
    assert [turn.slots.tolist() for turn in step.turns.values()] == [[], [1]]
    assert (step.rewards.tolist(), step.final_obs, step.over.tolist()) == ([0, 0], {}, [False])
    step = envs.step({"agent_0": np.zeros(0, np.int64), "agent_1": np.asarray([1])})
    assert (step.completed.tolist(), step.over.tolist()) == ([True, True], [True])
    assert (step.terminated.tolist(), step.truncated.tolist()) == ([True, False], [False, True])
    assert step.rewards.tolist() == [wages(0, 0, 0, 2) + wages(0, 1, 1, 1), wages(1, 1, 1, 1)]
    assert {policy: array(obs).tolist() for policy, obs in step.final_obs.items()} == {
        "agent_0": [[9, 0, 2, 0]],
        "agent_1": [[9, 0, 2, 1]],
    }
    assert array(step.turns["agent_0"].obs).tolist() == [[9, 1, 0, 0]], "the next episode has begun"


def test_last_observations_are_in_the_order_of_the_slots_however_the_env_says_goodbye() -> None:
    envs = MultiEnvs(lambda: InTurnEnv((0, 1), (Life(0, 2), Life(0, 2))), 2, name="game", policy_of=lambda _: "both")
    envs.reset(5)
    envs.step({"both": np.zeros(2, np.int64)})
    step = envs.step({"both": np.zeros(2, np.int64)})
    assert array(step.final_obs["both"]).tolist() == [[5, 0, 2, 0], [5, 0, 2, 1], [6, 0, 2, 0], [6, 0, 2, 1]]


@pytest.mark.parametrize("kind", ["infos", "beside the observation"])
def test_masks_come_with_turns(kind: str) -> None:
    def env() -> object:
        if kind == "infos":
            return TogetherEnv((Life(0, 3), Life(1, 3)), masks=True)
        return InTurnEnv((0, 1), (Life(0, 3), Life(0, 3)), mask_in_obs=True)

    envs = MultiEnvs(env, 2, name="masked", policy_of=lambda _: "all")
    assert envs.groups["all"].observation_space == SPACES["box"]
    turn = envs.reset(0)["all"]
    for at in range(2):
        assert turn.masks is not None
        assert turn.masks.tolist() == [allowed(0, at).astype(bool).tolist()] * len(turn.slots)
        turn = envs.step({"all": turn.masks.argmax(axis=1)}).turns["all"]


# --------------------------------------------------------------------------- what is refused


class Spoilt(TogetherEnv):
    """Goes wrong in copy 1, by its seed, in its second step."""

    def __init__(self, fault: str) -> None:
        super().__init__((Life(0, 9), Life(0, 9)), masks=fault == "mask")
        self.fault = fault

    def reset(self, seed: int | None = None, options: Any = None) -> Any:  # Any: PettingZoo's
        result = super().reset(seed)
        if self.seed == 1 and self.fault == "reset raises":
            raise RuntimeError("no start")
        return result

    def observation_space(self, agent: str) -> spaces.Space[Any]:  # Any: spaces are generic
        changed = self.fault == "space" and self.seed == 1
        return spaces.Box(0, 1, (3,)) if changed else super().observation_space(agent)

    def step(self, actions: dict[str, Any]) -> Any:  # Any: PettingZoo's
        obs, rewards, over, cut, infos = super().step(actions)
        if self.seed != 1 or self.at != 2:
            return obs, rewards, over, cut, infos
        if self.fault == "raises":
            raise RuntimeError("broken")
        if self.fault == "nan":
            obs["agent_1"] = obs["agent_1"] * np.nan
        elif self.fault == "shape":
            obs["agent_1"] = obs["agent_1"][:2]
        elif self.fault == "missing":
            del obs["agent_1"]
        elif self.fault == "reward":
            rewards["agent_1"] = float("inf")
        elif self.fault == "text":
            rewards["agent_1"] = "much"
        elif self.fault == "no reward":
            del rewards["agent_1"]
        elif self.fault == "vanishes":
            self.agents.remove("agent_1")
        elif self.fault == "mask":
            infos["agent_1"] = {}
        return obs, rewards, over, cut, infos


FAULTS = [
    ("raises", "step raised RuntimeError: broken"),
    ("nan", "agent_1/obs is not finite"),
    ("shape", r"agent_1/obs has shape \(2,\)"),
    ("missing", "obs of agent agent_1 is missing, though it is one of env.agents"),
    ("reward", "agent_1/reward is not a finite number: inf"),
    ("text", "agent_1/reward is not a finite number: 'much'"),
    ("no reward", "agents must all get a reward and flags for their end; agent_1 acted and got none"),
    ("vanishes", "agents without agent_1, which was neither terminated nor truncated"),
    ("mask", "agent_1/action_mask is missing from the infos"),
]


@pytest.mark.parametrize(
    ("fault", "sentence"), [*FAULTS, ("reset raises", "reset raised"), ("space", "observation space of agent")]
)
def test_what_goes_wrong_is_named(fault: str, sentence: str) -> None:
    envs = MultiEnvs(lambda: Spoilt(fault), 3, name="spoilt", policy_of=lambda _: "all")
    with pytest.raises(EnvError, match=f"^spoilt, env 1: {sentence}"):
        envs.reset(0)
        for _ in range(2):
            envs.step({"all": np.zeros(6, np.int64)})


@pytest.mark.parametrize("fault", [fault for fault, _ in FAULTS])
def test_a_copy_that_fails_is_made_anew_alone(fault: str) -> None:
    envs = MultiEnvs(lambda: Spoilt(fault), 3, name="spoilt", policy_of=lambda _: "all", on_error="restart")
    envs.reset(0)
    actions = {"all": np.zeros(6, np.int64)}
    assert envs.step(actions).failed == ()
    step = envs.step(actions)
    assert step.failed == (2, 3)
    assert step.completed.tolist() == [True, True, False, False, True, True]
    assert array(step.turns["all"].obs)[:, 1:].tolist() == [[0, 2, 0], [0, 2, 1], [0, 0, 0], [0, 0, 1], [0, 2, 0], [0, 2, 1]]
    assert envs.step(actions).completed.all()
    assert envs.faults.restarts == 1


def test_restarts_come_to_an_end() -> None:
    class Hopeless(TogetherEnv):
        def step(self, actions: dict[str, Any]) -> Any:  # Any: PettingZoo's
            raise RuntimeError("hopeless")

    envs = MultiEnvs(lambda: Hopeless((Life(0, 2),)), 1, name="h", on_error="restart")
    envs.reset(0)
    with pytest.raises(EnvError, match=r"h, env 0: was restarted 10 times without finishing a step. The last error: .*hopeless"):
        for _ in range(20):
            assert envs.step({"agent_0": np.zeros(1, np.int64)}).failed == (0,)


def test_nobody_left_after_a_reset_is_an_error_and_not_an_endless_loop() -> None:
    class Empty(InTurnEnv):
        def reset(self, seed: int | None = None, options: Any = None) -> None:  # Any: PettingZoo's
            super().reset(seed)
            self.terminations = dict.fromkeys(self.agents, True)

    with pytest.raises(EnvError, match="empty, env 0: agents are all gone right after a reset"):
        MultiEnvs(lambda: Empty((0,), (Life(0, 1),)), 1, name="empty").reset(0)


def test_agents_of_one_policy_need_equal_spaces() -> None:
    class Unequal(TogetherEnv):
        def action_space(self, agent: str) -> spaces.Space[Any]:  # Any: spaces are generic
            return spaces.Discrete(2 + (agent == "agent_1"))

    both = (Life(0, 2), Life(0, 2))
    with pytest.raises(
        EnvError, match=r"policy p is for agent_0 and agent_1, which have different spaces: .*Give them different"
    ):
        MultiEnvs(lambda: Unequal(both), 1, name="u", policy_of=lambda _: "p")
    envs = MultiEnvs(lambda: Unequal(both), 1, name="u")
    assert [group.action_space for group in envs.groups.values()] == [spaces.Discrete(2), spaces.Discrete(3)]
    with pytest.raises(EnvError, match="u: is stepped before it was reset"):
        envs.step({})
    envs.reset(0)
    with pytest.raises(EnvError, match="u: policy agent_1 has a turn, but there are no actions for it"):
        envs.step({"agent_0": np.zeros(1, np.int64)})
    with pytest.raises(EnvError, match=r"u: actions have shape \(2,\); 1 envs with the action space Discrete\(2\) take \(1,\)"):
        envs.step({"agent_0": np.zeros(2, np.int64), "agent_1": np.zeros(2, np.int64)})


def test_specs_make_envs_for_several_agents() -> None:
    envs = EnvSpec(TogetherEnv, kwargs={"lives": (Life(0, 2),)}, wrappers=[lambda env: env]).make_multi(2)
    assert [turn.slots.tolist() for turn in envs.reset(0).values()] == [[0, 1]]
    envs.close()
    with pytest.raises(PlanError, match="run in a loop, without vector_wrappers and max_episode_steps"):
        EnvSpec(TogetherEnv, max_episode_steps=3).make_multi(1)
    with pytest.raises(EnvError, match="env 0: is made as a int, not an AECEnv or ParallelEnv of PettingZoo"):
        EnvSpec(lambda: 3).make_multi(1)  # type: ignore[arg-type, return-value]  # wrong on purpose
    with pytest.raises(EnvError, match="env 0: make raised TypeError"):
        EnvSpec(TogetherEnv).make_multi(1)
    with pytest.raises(EnvError, match="no_such_game: needs a module that is not there"):
        EnvSpec("no_such_game").make_multi(1)
    if hasattr(pettingzoo, "make"):
        with pytest.raises(EnvError, match=r"is not an env that PettingZoo knows. Did you mean classic/tictactoe-v3"):
            EnvSpec("classic/tictacto-v3").make_multi(1)


@pytest.mark.filterwarnings("ignore:The old environment creation API:DeprecationWarning")
def test_pettingzoo_s_own_envs() -> None:
    """Their example with agents that are invented on the way cannot be served, and says so."""
    module = "pettingzoo.test.example_envs.generated_agents_parallel_v0"
    with pytest.raises(EnvError, match=r"env 0: does not say which agents there can be. Give it possible_agents"):
        EnvSpec(module).make_multi(1)


def test_tic_tac_toe() -> None:
    pytest.importorskip("pygame", reason="PettingZoo's classic games import it")
    envs = EnvSpec("classic/tictactoe-v3").make_multi(2, lambda _: "self play")
    turn = envs.reset(0)["self play"]
    assert envs.groups["self play"].observation_space == spaces.Box(0, 1, (3, 3, 2), np.int8)
    for _ in range(6):
        assert turn.masks is not None
        step = envs.step({"self play": turn.masks.argmax(axis=1)})
        turn = step.turns["self play"]
        assert not step.over.any()
    assert turn.slots.tolist() == [0, 2]
    step = envs.step({"self play": np.asarray([6, 6])})
    assert step.over.all()
    assert step.terminated.all()
    assert step.rewards.tolist() == [1, -1, 1, -1]
    assert step.turns["self play"].slots.tolist() == [0, 2]
