"""The environments that ship with tflow do what they say, compared with plain Python and with gymnasium's CartPole."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv, CartPoleVectorEnv
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from tests.rl.toy_envs import array
from tflow.errors import EnvError, PlanError
from tflow.rl.data.arrays import Array
from tflow.rl.envs import samples as sample_envs
from tflow.rl.envs.env import Envs
from tflow.rl.envs.env_spec import EnvSpec, Vectorizer
from tflow.rl.envs.samples import (
    MultiCartPole,
    Navigation,
    NavigationVector,
    RepeatAfterMe,
    StatelessCartPole,
    StatelessCartPoleVector,
)

ID = "tflow/Navigation-v0"
Make = Callable[..., Navigation | NavigationVector]
Pair = tuple[float, float]


def pairs(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[Pair]:
    return st.tuples(numbers, numbers)


def walks(steps: int) -> st.SearchStrategy[tuple[Pair, list[Pair]]]:
    """A goal and moves: anywhere, or on a grid, where points arrive."""
    anywhere = pairs(st.floats(-0.5, 0.5)), pairs(st.floats(-0.25, 0.25))
    grid = pairs(st.sampled_from([-0.1, 0.0, 0.1])), pairs(st.sampled_from([-0.2, -0.1, 0.0, 0.1]))
    return st.one_of([st.tuples(goal, st.lists(move, min_size=steps, max_size=steps)) for goal, move in (anywhere, grid)])


def task_of(env: Navigation | NavigationVector) -> list[float]:
    assert env.task is not None
    values: list[float] = env.task.tolist()
    return values


# --------------------------------------------------------------------------- navigation, one


@given(walks(12), st.integers(1, 12))
def test_rewards_and_ends_are_those_of_plain_python(walk: tuple[Pair, list[Pair]], horizon: int) -> None:
    goal, steps = walk
    env = Navigation(horizon=horizon)
    obs, _ = env.reset(options={"task": goal})
    assert obs.tolist() == [0, 0]
    x = y = 0.0
    for number, (right, up) in enumerate(steps, 1):
        x, y = x + max(-0.1, min(0.1, right)), y + max(-0.1, min(0.1, up))
        distance = math.hypot(x - goal[0], y - goal[1])
        obs, reward, terminated, truncated, info = env.step(np.array([right, up], np.float32))
        assert obs.tolist() == pytest.approx([x, y], abs=1e-5)
        assert reward == pytest.approx(-(distance**2), abs=1e-5)
        if abs(distance - 0.01) > 1e-5:  # too near to tell in float32
            assert terminated is (distance < 0.01)
        assert truncated is (number >= horizon)
        assert info == {}
        assert obs.dtype == np.float32
        if terminated or truncated:
            return


def test_a_point_arrives_within_a_hundredth() -> None:
    for goal, arrives in (([0.1, 0.0095], True), ([0.1, 0.0105], False), ([0.1071, 0.0071], False), ([0.107, 0.007], True)):
        env = Navigation()
        env.reset(options={"task": goal})
        assert env.step(np.array([0.1, 0], np.float32))[2] is arrives


def test_gymnasium_finds_nothing_wrong() -> None:
    env = gymnasium.make(f"tflow.rl.envs.samples:{ID}")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        check_env(env.unwrapped)
    wanted = ("space minimum value is -inf", "space maximum value is inf", "symmetric and normalized")  # as the paper has it
    assert [str(each.message) for each in said if not any(part in str(each.message) for part in wanted)] == []


def test_an_episode_has_a_hundred_steps_unless_said() -> None:
    for env, horizon in ((Navigation(), 100), (Navigation(horizon=7), 7)):
        env.reset(options={"task": [0.3, 0.3]})
        cut = [env.step(np.zeros(2, np.float32))[3] for _ in range(horizon)]
        assert cut == [False] * (horizon - 1) + [True]
        env.reset()
        assert not env.step(np.zeros(2, np.float32))[3] or horizon == 1


# --------------------------------------------------------------------------- tasks

EITHER: list[Make] = [Navigation, partial(NavigationVector, 2)]
either = pytest.mark.parametrize("make", EITHER, ids=["single", "vector"])


@either
def test_a_task_stays_until_a_reset_brings_another(make: Make) -> None:
    env, still = make(), np.zeros((2, 2) if make is not Navigation else 2, np.float32)
    env.reset(seed=1, options={"task": np.array([0.25, -0.5])})
    for reset in (
        partial(env.reset),
        partial(env.reset, seed=5),
        partial(env.reset, options={}),
        partial(env.reset, options=None),
    ):
        reset()
        assert task_of(env) == [0.25, -0.5]
        assert env.step(still)[1] == pytest.approx(-0.3125)
    env.reset(options={"task": [0.5, 0]})
    assert env.step(still)[1] == pytest.approx(-0.25)


@either
def test_without_one_the_task_is_drawn_by_the_seed(make: Make) -> None:
    def drawn(*seeds: int | None) -> list[float]:
        env = make()
        for seed in seeds:
            env.reset(seed=seed)
        return task_of(env)

    assert drawn(3) == drawn(3) == drawn(8, 3) == drawn(3, None) == drawn(3, None, None)
    assert len({tuple(drawn(seed)) for seed in range(20)}) == 20
    assert drawn(None) != drawn(None)


@either
def test_a_task_is_a_copy(make: Make) -> None:
    env, goal = make(), np.array([0.25, 0.5], np.float32)
    env.reset(options={"task": goal})
    goal[:] = 9
    assert task_of(env) == [0.25, 0.5]


@either
@given(st.integers(0, 2**32), st.sampled_from([0.125, 0.5, 3.0]))
def test_tasks_are_drawn_from_the_square(make: Make, seed: int, reach: float) -> None:
    env, rng = make(reach=reach), np.random.default_rng(seed)
    tasks = np.stack([env.sample_task(rng) for _ in range(200)])
    assert tasks.shape == (200, 2)
    assert np.abs(tasks).max() <= reach
    assert (tasks.max(0) > 0.8 * reach).all()
    assert (tasks.min(0) < -0.8 * reach).all()
    assert np.array_equal(tasks[0], env.sample_task(np.random.default_rng(seed)))
    assert env.task is None  # drawing one does not set it


@either
@pytest.mark.parametrize("task", [None, 0.5, [0.5], [0.1, 0.2, 0.3], [[0.1, 0.2]], "north", [0, math.nan], [math.inf, 0]])
def test_a_wrong_task_is_a_sentence(make: Make, task: object) -> None:
    env = make()
    env.reset(options={"task": [0.25, 0.5]})
    with pytest.raises(
        EnvError, match=r"^Navigation: the task is .*\. A task is a goal: an array of 2 finite numbers, as sample"
    ):
        env.reset(options={"task": task})
    assert task_of(env) == [0.25, 0.5]


def test_wrong_arguments_are_sentences() -> None:
    for make, sentence in (
        (partial(Navigation, reach=0.0), "reach must be finite and above 0"),
        (partial(Navigation, horizon=0), "horizon must be at least 1"),
        (partial(NavigationVector, 0), "num_envs must be at least 1"),
        (partial(NavigationVector, 2, max_episode_steps=0), "horizon must be at least 1"),
        (partial(MultiCartPole, 0), "agents must be at least 1"),
    ):
        with pytest.raises(PlanError, match=sentence):
            make()
    with pytest.raises(EnvError, match="stepped before it was reset"):
        Navigation().step(np.zeros(2, np.float32))
    with pytest.raises(EnvError, match="stepped before it was reset"):
        NavigationVector(2).step(np.zeros((2, 2), np.float32))


# --------------------------------------------------------------------------- navigation, many


@given(walks(30), st.sampled_from([1, 2, 3, 5]), st.integers(1, 6), st.none() | st.integers(0, 1000))
def test_a_row_of_many_is_a_single_env(walk: tuple[Pair, list[Pair]], num: int, horizon: int, seed: int | None) -> None:
    task = {"task": walk[0]} if seed is None else None  # drawn: the same seed must draw the same for one and for many
    actions = np.array(walk[1], np.float32).reshape(-1, num, 2)
    vector, singles = NavigationVector(num, horizon=horizon), [Navigation(horizon=horizon) for _ in range(num)]
    first, _ = vector.reset(seed=seed, options=task)
    assert first.tolist() == [single.reset(seed=seed, options=task)[0].tolist() for single in singles]
    for row in actions:
        obs, rewards, terminated, truncated, infos = vector.step(row)
        assert obs.dtype == rewards.dtype == np.float32
        assert terminated.dtype == truncated.dtype == np.bool_
        ended = terminated | truncated
        assert ("final_obs" in infos) == ("_final_obs" in infos) == ended.any()
        if ended.any():
            assert infos["_final_obs"].tolist() == ended.tolist()
        for index, single in enumerate(singles):
            last, reward, over, cut, _ = single.step(row[index])
            assert (rewards[index], terminated[index], truncated[index]) == (np.float32(reward), over, cut)
            if over or cut:
                assert infos["final_obs"][index].tolist() == last.tolist()
                last, _ = single.reset()
            assert obs[index].tolist() == last.tolist()


def test_nobody_can_change_the_envs_through_what_they_gave() -> None:
    for env, action in ((Navigation(), np.full(2, 0.1)), (NavigationVector(2), np.full((2, 2), 0.1))):
        obs, _ = env.reset(options={"task": [0.5, 0.5]})
        obs += 7
        after = env.step(action)[0]
        assert (after == np.float32(0.1)).all()
        after += 7
        assert (env.step(action)[0] == np.float32(0.2)).all()


def test_a_limit_from_outside_is_the_same_for_one_and_for_many() -> None:
    hows: tuple[Vectorizer, ...] = ("native", "loop")
    for limit, length in ((4, 4), (200, 100)):
        lengths = []
        for how in hows:
            envs = EnvSpec(ID, vectorizer=how, max_episode_steps=limit).make(2)
            envs.reset(0)
            lengths.append(next(at for at in range(1, 300) if envs.step(np.zeros((2, 2), np.float32)).truncated.all()))
            envs.close()
        assert lengths == [length, length]


def test_tflow_reads_the_ends_as_they_are_meant() -> None:
    envs = EnvSpec(ID, kwargs={"horizon": 3}).make(4, seed=5)
    by_hand = NavigationVector(1)
    by_hand.reset(seed=5)
    x, y = task_of(by_hand)
    obs, masks = envs.reset(5)
    assert masks is None
    assert array(obs).tolist() == [[0, 0]] * 4
    goal = np.array([x, y], np.float32)
    to_the_goal = goal / math.ceil(np.abs(goal).max() / 0.1)
    directions = np.array([[0.1, 0], [0, 0.1], [0, 0], to_the_goal], np.float32)
    for at in range(1, 8):
        step = envs.step(directions)
        walked = (at - 1) % 3 + 1
        assert step.valid is None
        assert step.truncated.tolist() == [walked == 3] * 4
        expected = walked * directions
        assert step.rewards == pytest.approx(-np.square(expected - goal).sum(1), abs=1e-5)
        if walked == 3:
            assert array(step.final_obs) == pytest.approx(expected, abs=1e-6)
            assert array(step.obs).tolist() == [[0, 0]] * 4
        else:
            assert step.final_obs is None
            assert array(step.obs) == pytest.approx(expected, abs=1e-6)
    envs.close()


def test_tflow_sees_who_arrived() -> None:
    vector = NavigationVector(3)
    envs = EnvSpec(lambda num_envs: vector).make(3)
    envs.reset()
    vector.reset(options={"task": [0.1, 0.2]})
    stay, up, right = [0.0, 0.0], [0.0, 0.1], [0.1, 0.0]
    for actions in ([up, right, stay], [right, up, stay]):
        assert not envs.step(np.array(actions, np.float32)).terminated.any()
    step = envs.step(np.array([up, stay, stay], np.float32))
    assert step.terminated.tolist() == [True, False, False]
    assert array(step.final_obs) == pytest.approx(np.array([[0.1, 0.2]]), abs=1e-6)
    assert array(step.obs) == pytest.approx(np.array([[0, 0], [0.1, 0.1], [0, 0]]), abs=1e-6)


# --------------------------------------------------------------------------- registering


def test_registering_again_changes_nothing() -> None:
    known = gymnasium.spec(ID)
    sample_envs.register()  # gymnasium would warn about a second one, and warnings are errors here
    assert gymnasium.spec(ID) is known


def test_the_id_that_names_the_file_works_in_a_fresh_process_without_torch() -> None:
    code = f"""
import sys, gymnasium
name = "tflow.rl.envs.samples:{ID}"
assert gymnasium.make(name, horizon=5).unwrapped.horizon == 5
assert gymnasium.make_vec(name, num_envs=3, vectorization_mode="vector_entry_point").num_envs == 3
assert not {{"torch", "pettingzoo", "ray"}} & set(sys.modules)
from tflow.envs import EnvSpec
assert EnvSpec(name).make(4).num == 4
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


# --------------------------------------------------------------------------- several agents


def balanced(obs: Array) -> int:
    """An action that keeps the pole up for 500 steps."""
    return int(obs[2] + 0.5 * obs[3] + 0.02 * obs[0] + 0.1 * obs[1] > 0)


@given(st.integers(1, 4), st.integers(0, 2**31), st.data())
def test_each_agent_lives_in_a_cart_pole_of_gymnasium(agents: int, seed: int, data: st.DataObject) -> None:
    env = MultiCartPole(agents)
    obs, _ = env.reset(seed=seed)
    own = {agent: gymnasium.make("CartPole-v1") for agent in env.possible_agents}
    for number, (agent, single) in enumerate(own.items()):
        single.reset()
        single.unwrapped.state = env.state[number].copy()  # type: ignore[attr-defined]  # CartPole's own
        assert obs[agent].tolist() == env.state[number].astype(np.float32).tolist()
    bias = {agent: data.draw(st.floats(0, 1)) for agent in own}
    rng = np.random.default_rng(seed)
    while env.agents:
        actions = {agent: np.int64(rng.random() < bias[agent]) for agent in env.agents}
        obs, rewards, over, cut, infos = env.step(actions)
        assert obs.keys() == rewards.keys() == over.keys() == cut.keys() == infos.keys() == actions.keys()
        for agent, action in actions.items():
            after, reward, terminated, truncated, _ = own[agent].step(action)
            assert obs[agent] == pytest.approx(after, rel=1e-5, abs=1e-7)  # here they are equal; sines may differ elsewhere
            assert obs[agent].dtype == np.float32
            assert (rewards[agent], over[agent], cut[agent]) == (reward, terminated, truncated)
            assert type(over[agent]) is type(cut[agent]) is bool
        assert env.agents == [agent for agent in actions if not over[agent] and not cut[agent]]


def test_a_cart_that_leaves_the_track_is_done() -> None:
    for side, action in ((2.39, 1), (-2.39, 0)):
        env = MultiCartPole(2)
        env.reset(seed=0)
        env.state[1] = [side, math.copysign(1.0, side), 0, 0]
        obs, _, over, cut, _ = env.step({"agent_0": action, "agent_1": action})
        assert abs(obs["agent_1"][0]) > 2.4
        assert over == {"agent_0": False, "agent_1": True}
        assert not any(cut.values())


def test_a_fallen_agent_leaves_and_the_others_go_on_to_the_end() -> None:
    env = MultiCartPole(3)
    obs, _ = env.reset(seed=2)
    fallen_at = 0
    for at in range(1, 501):
        actions = {agent: 1 if agent == "agent_1" else balanced(obs[agent]) for agent in env.agents}
        obs, _, over, cut, _ = env.step(actions)
        if over.get("agent_1"):
            assert not cut["agent_1"]
            fallen_at = at
        assert env.agents == ([] if at == 500 else ["agent_0", "agent_2"] if fallen_at else env.possible_agents)
        assert cut == dict.fromkeys(actions, at == 500)
    assert 5 < fallen_at < 20
    with pytest.raises(EnvError, match=r"got actions of nobody; it is the turn of nobody: call reset"):
        env.step({})
    env.reset()
    assert env.agents == env.possible_agents
    assert not any(env.step(dict.fromkeys(env.agents, 0))[3].values())


def test_a_seed_repeats_the_starts_and_all_differ() -> None:
    env, again = MultiCartPole(3), MultiCartPole(3)
    first, infos = env.reset(seed=4)
    assert infos == {agent: {} for agent in env.agents}
    second, _ = env.reset()
    third, _ = env.reset(seed=4)
    assert {agent: row.tolist() for agent, row in third.items()} == {agent: row.tolist() for agent, row in first.items()}
    assert again.reset(seed=4)[0]["agent_2"].tolist() == first["agent_2"].tolist()
    assert again.reset()[0]["agent_1"].tolist() == second["agent_1"].tolist()
    starts = [row for seen in (first, second, env.reset(seed=5)[0]) for row in seen.values()]
    assert len({number for row in starts for number in row.tolist()}) == 3 * 3 * 4
    assert MultiCartPole().reset()[0]["agent_0"].tolist() != MultiCartPole().reset()[0]["agent_0"].tolist()
    many = np.stack(list(MultiCartPole(200).reset(seed=1)[0].values()))
    assert np.abs(many).max() <= 0.05
    assert (many.max(0) > 0.045).all()
    assert (many.min(0) < -0.045).all()


def test_what_an_agent_saw_stays_as_it_was() -> None:
    env = MultiCartPole(1)
    obs, _ = env.reset(seed=1)
    before = obs["agent_0"].tolist()
    env.step({"agent_0": 1})
    assert obs["agent_0"].tolist() == before


@pytest.mark.parametrize(
    ("actions", "sentence"),
    [
        ({"agent_0": 1}, r"step got actions of agent_0; it is the turn of agent_0, agent_1\."),
        ({"agent_0": 1, "agent_1": 0, "agent_2": 0}, r"step got actions of agent_0, agent_1, agent_2; it is the turn"),
        (
            {"agent_0": 1, "agent_1": 2},
            r"actions must be 0 \(to the left\) or 1 \(to the right\), got {'agent_0': 1, 'agent_1': 2}",
        ),
        ({"agent_0": -1, "agent_1": 0}, "actions must be 0"),
    ],
)
def test_wrong_actions_are_sentences(actions: dict[str, int], sentence: str) -> None:
    env = MultiCartPole(2)
    env.reset(seed=0)
    with pytest.raises(EnvError, match=rf"^MultiCartPole: {sentence}"):
        env.step(actions)


def test_pettingzoo_finds_nothing_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    pettingzoo = pytest.importorskip("pettingzoo.test", reason="needs tflow[multiagent]")
    for agents in (1, 3):
        pettingzoo.parallel_api_test(MultiCartPole(agents), num_cycles=600)
    assert "Passed" in capsys.readouterr().out


@pytest.mark.parametrize(
    "derived",
    [
        True,
        False,
    ],
)
def test_tflow_plays_it(derived: bool) -> None:
    pettingzoo = pytest.importorskip("pettingzoo", reason="needs tflow[multiagent]")
    kind = type("InTheZoo", (MultiCartPole, pettingzoo.ParallelEnv), {}) if derived else MultiCartPole
    envs = EnvSpec(partial(kind, agents=3)).make_multi(2, policy_of=lambda _: "shared")
    by_hand = [MultiCartPole(3), MultiCartPole(3)]
    seen = [env.reset(seed=7 + number)[0] for number, env in enumerate(by_hand)]
    turn = envs.reset(7)["shared"]
    assert envs.agents == ("agent_0", "agent_1", "agent_2")
    rng = np.random.default_rng(0)
    over = 0
    while over < 4:
        shown = [(copy, agent) for copy, env in enumerate(by_hand) for agent in env.agents]
        assert turn.slots.tolist() == [3 * copy + int(agent[-1]) for copy, agent in shown]
        assert array(turn.obs).tolist() == [seen[copy][agent].tolist() for copy, agent in shown]
        actions = rng.integers(0, 2, len(shown))
        step = envs.step({"shared": actions})
        for copy, env in enumerate(by_hand):
            chosen = {agent: int(action) for (owner, agent), action in zip(shown, actions, strict=True) if owner == copy}
            seen[copy], rewards, ends, _, _ = env.step(chosen)
            for agent in chosen:
                slot = 3 * copy + int(agent[-1])
                assert step.completed[slot]
                assert (step.rewards[slot], step.terminated[slot]) == (rewards[agent], ends[agent])
            assert step.over[copy] == (not env.agents)
            if not env.agents:
                over += 1
                seen[copy], _ = env.reset()
        turn = step.turns["shared"]
    envs.close()


# --------------------------------------------------------------------------- memory


@given(st.integers(0, 1000), st.integers(0, 4), st.lists(st.integers(0, 2), min_size=1, max_size=12))
def test_what_was_seen_is_asked_for_later(seed: int, delay: int, actions: list[int]) -> None:
    env = RepeatAfterMe(delay=delay, horizon=9, symbols=3)
    seen = [int(env.reset(seed=seed)[0])]
    for step, action in enumerate(actions):
        obs, reward, terminated, truncated, _ = env.step(action)
        wanted = seen[step - delay] if step >= delay else 0
        assert reward == (1.0 if action == wanted else -1.0)
        assert (terminated, truncated) == (False, step + 1 >= 9)
        seen.append(int(obs))
    assert set(seen) <= {0, 1, 2}


def test_who_remembers_has_the_best_return() -> None:
    env = RepeatAfterMe(delay=2)
    asked, total, over = [0, 0, int(env.reset(seed=1)[0])], 0.0, False
    while not over:
        obs, reward, _, over, _ = env.step(asked[-3])
        asked.append(int(obs))
        total += reward
    assert total == 100


@given(st.integers(0, 1000), st.lists(st.integers(0, 1), min_size=1, max_size=60))
def test_velocities_are_all_that_is_hidden(seed: int, actions: list[int]) -> None:
    hidden, open_one = StatelessCartPole(), CartPoleEnv()
    assert hidden.reset(seed=seed)[0].tolist() == open_one.reset(seed=seed)[0][[0, 2]].tolist()
    for action in actions:
        mine, full = hidden.step(action), open_one.step(action)  # type: ignore[no-untyped-call]  # gymnasium's
        assert mine[0].tolist() == full[0][[0, 2]].tolist()
        assert mine[1:4] == full[1:4]
        if mine[2]:
            return


def test_many_without_velocities_are_those_of_gymnasium() -> None:
    hidden, open_ones = StatelessCartPoleVector(3, 30), CartPoleVectorEnv(3, 30)
    assert hidden.single_observation_space.shape == (2,)
    np.testing.assert_array_equal(hidden.reset(seed=4)[0], open_ones.reset(seed=4)[0][:, [0, 2]])
    dice, ended = np.random.default_rng(0), 0
    for _ in range(80):
        actions = dice.integers(2, size=3)
        mine, full = hidden.step(actions), open_ones.step(actions)
        np.testing.assert_array_equal(mine[0], full[0][:, [0, 2]])
        for one, other in zip(mine[1:4], full[1:4], strict=True):
            np.testing.assert_array_equal(one, other)
        ended += int((mine[2] | mine[3]).sum())
    assert ended > 3


@pytest.mark.parametrize("name", ["tflow/StatelessCartPole-v1", "tflow/RepeatAfterMe-v0"])
def test_envs_with_a_memory_are_saved_in_the_middle_of_an_episode(name: str) -> None:
    def steps(env: Envs, seed: int) -> list[list[float]]:
        found: list[list[float]] = []
        for _ in range(120):
            env.begin(np.random.default_rng(seed + len(found)).integers(2, size=2))
            taken = env.finish()
            found.append([*np.ravel(array(taken.obs)).tolist(), *taken.rewards.tolist()])
        return found

    env, twin = (EnvSpec(name).make(2) for _ in range(2))
    for each, seed in ((env, 1), (twin, 2)):
        each.reset(seed)
    steps(env, 5)
    saved = deepcopy(env.state())
    assert saved is not None
    twin.load(saved)
    assert steps(env, 9) == steps(twin, 9)
    for each in (env, twin):
        each.close()


@pytest.mark.parametrize("make", [RepeatAfterMe, StatelessCartPole])
def test_gymnasium_finds_nothing_wrong_with_those_that_need_a_memory(make: Callable[[], gymnasium.Env[object, object]]) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        check_env(make(), skip_render_check=True)
    allowed = ("space minimum value is -inf", "space maximum value is inf", "registered")
    assert [str(each.message) for each in said if not any(part in str(each.message) for part in allowed)] == []


def test_repeating_before_a_reset_and_wrong_arguments_are_sentences() -> None:
    with pytest.raises(EnvError, match="is stepped before it was reset"):
        RepeatAfterMe(delay=0).step(0)
    with pytest.raises(PlanError, match="RepeatAfterMe: symbols must be at least 2, got 1"):
        RepeatAfterMe(symbols=1)
