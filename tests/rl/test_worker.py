"""Rollout workers against envs whose every number is known: nothing is lost, nothing is invented, ends are right."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal, cast

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import FrameStackObservation, NormalizeReward
from gymnasium.wrappers.vector import NormalizeObservation
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rl.toy_envs import ACTIONS, InTurnEnv, Life, PlannedEnv, PlannedVectorEnv, TogetherEnv, paid, wages
from tflow import PlanError, Shard
from tflow.data import Episodes
from tflow.envs import EnvSpec
from tflow.errors import EnvError
from tflow.exploration import EpsilonGreedy, ParameterNoise
from tflow.losses import A3CLoss, DQNLoss, TD3Loss
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch, Rollout
from tflow.rl.learning.agent import Agent, AnyAgent
from tflow.rl.learning.losses import Loss
from tflow.rl.policy.exploration import Explorer, GaussianNoise, OUNoise
from tflow.rl.policy.network_spec import LSTM, MLP, ModelLike, SmallCNN
from tflow.rl.policy.policy_spec import ActorCriticSpec
from tflow.rl.policy.weights import Weights, seed_for
from tflow.rl.rollout.multi_worker import MultiWorker
from tflow.rl.rollout.worker import SingleWorker
from tflow.rl.rollout.worker_spec import WorkerSpec

Plans = tuple[tuple[tuple[int, str], ...], ...]
AnyLoss = Loss[Any, Any]  # Any: whatever it reads
SHARD = Shard("workers", 0, 1, 0, seed=7, session_seed=3)
ADAPTERS = ("loop", "same step", "next step", "disabled")
MODES = {"same step": AutoresetMode.SAME_STEP, "next step": AutoresetMode.NEXT_STEP, "disabled": AutoresetMode.DISABLED}
episodes = st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["terminated", "truncated"])), min_size=1, max_size=3)


def spec(plans: Plans, adapter: str = "loop", *, loss: AnyLoss | None = None, **more: Any) -> WorkerSpec:  # Any: other fields
    if adapter == "loop":
        env = EnvSpec(partial(PlannedEnv, plans))
    else:
        env = EnvSpec(PlannedVectorEnv, {"plans": plans, "mode": MODES[adapter]})
    of_agent = {name: more.pop(name) for name in ("model", "exploration") if name in more}
    agent: AnyAgent = Agent(loss or A3CLoss(), **{"model": MLP((4,)), **of_agent})
    settings: dict[str, Any] = {"num_envs": 2, "fragment": 5, **more}  # Any: as above
    return WorkerSpec(env, {"default": agent}, **settings)


def check_rows(batch: Rollout, plans: Plans) -> None:
    """Every row says what the env must have said, and so does what follows it."""
    obs = cast("Array", batch.nested("obs"))
    after = batch.successors("obs")["obs"]
    for row in range(len(batch)):
        number, episode, step, _ = (int(x) for x in obs[row])
        action = int(batch["actions"][row])
        plan = plans[number % len(plans)]
        length, end = plan[episode % len(plan)]
        last = step + 1 >= length
        assert batch["t"][row] == step
        assert batch["rewards"][row] == np.float32(paid(number, episode, step + 1, action))
        assert [int(x) for x in after[row]] == [number, episode, step + 1, action]
        assert bool(batch["terminated"][row]) == (last and end == "terminated")
        assert bool(batch["truncated"][row]) == (last and end == "truncated")
        assert (row in batch.ends) or not last
    np.testing.assert_array_equal(batch.finals["obs"][:, 3], batch["actions"][batch.ends])


@settings(max_examples=25)
@given(st.tuples(episodes.map(tuple), episodes.map(tuple)), st.sampled_from(ADAPTERS), st.integers(1, 7))
def test_fragments_hold_exactly_what_the_envs_did(plans: Plans, adapter: str, fragment: int) -> None:
    worker = SingleWorker(spec(plans, adapter, fragment=fragment), SHARD)
    seen: dict[int, list[tuple[int, int]]] = {}
    finished: list[float] = []
    for _ in range(3):
        batch = worker.sample()
        check_rows(batch, plans)
        assert batch.env_steps == len(batch)
        assert len(batch) == 2 * fragment or adapter == "next step"
        assert isinstance(batch.summary, Episodes)
        finished += batch.summary.returns
        for number, episode, step, _ in cast("Array", batch.nested("obs")).astype(int):
            seen.setdefault(int(number), []).append((int(episode), int(step)))
    assert worker.steps == sum(map(len, seen.values()))
    for number, steps in seen.items():  # no step is missing and none comes twice
        plan = plans[number % len(plans)]
        want = [(episode, step) for episode in range(40) for step in range(plan[episode % len(plan)][0])]
        assert steps == want[: len(steps)]
    over = sum(
        step + 1 == plans[n % len(plans)][e % len(plans[n % len(plans)])][0] for n, steps in seen.items() for e, step in steps
    )
    assert len(finished) == over


def test_values_are_those_of_the_policy_also_after_the_last_row() -> None:
    worker = SingleWorker(spec((((3, "truncated"), (4, "terminated")),)), SHARD)
    batch = worker.sample()
    state = worker.policy.initial_state(len(batch))
    np.testing.assert_allclose(batch["values"], worker.policy.values(batch.nested("obs"), state), rtol=1e-5)
    finals = worker.policy.values(batch.finals["obs"], worker.policy.initial_state(len(batch.ends)))
    np.testing.assert_allclose(batch.finals["values"], finals, rtol=1e-5)
    assert batch["values"].dtype == batch["logp"].dtype == np.float32
    assert (batch["logp"] < 0).all()


def test_the_same_shard_samples_the_same_and_another_does_not() -> None:
    plans: Plans = (((3, "terminated"),),)

    def actions(shard: Shard) -> list[int]:
        worker = SingleWorker(spec(plans, num_envs=4, fragment=40), shard)
        return [int(x) for x in worker.sample()["actions"]]

    assert actions(SHARD) == actions(SHARD)
    assert actions(SHARD) != actions(Shard("workers", 1, 2, 0, seed=8, session_seed=3))


def test_policies_begin_equal_on_all_workers_of_a_session() -> None:
    plans: Plans = (((3, "terminated"),),)
    one = SingleWorker(spec(plans), SHARD)
    other = SingleWorker(spec(plans), Shard("workers", 1, 2, 0, seed=99, session_seed=3))
    elsewhere = SingleWorker(spec(plans), Shard("workers", 0, 1, 0, seed=7, session_seed=4))
    np.testing.assert_array_equal(one.policy.flat.get(), other.policy.flat.get())
    assert (one.policy.flat.get() != elsewhere.policy.flat.get()).any()


def test_masks_are_obeyed_and_recorded() -> None:
    plans: Plans = (((6, "terminated"),),)
    agents: tuple[AnyAgent, ...] = Agent(A3CLoss(), MLP((4,))), Agent(DQNLoss(), MLP((4,)), exploration=EpsilonGreedy(0.7))
    for agent in agents:
        env = EnvSpec(partial(PlannedEnv, plans, "box", True))
        settings = WorkerSpec(env, {"default": agent}, num_envs=3, fragment=30)
        batch = SingleWorker(settings, SHARD).sample().untyped()
        assert not batch["masks"].all()
        assert batch["masks"][np.arange(len(batch)), batch["actions"]].all()


def test_exploring_says_how_likely_it_was() -> None:
    worker = SingleWorker(
        spec((((5, "terminated"),),), loss=DQNLoss(), exploration=EpsilonGreedy(0.3), num_envs=8, fragment=100), SHARD
    )
    batch = worker.sample()
    greedy = worker.policy.rows(batch.nested("obs"), worker.rng, state=worker.policy.initial_state(len(batch))).actions
    same = batch["actions"] == greedy
    np.testing.assert_allclose(batch["logp"][same], np.log(0.7 + 0.3 / ACTIONS), rtol=1e-6)
    np.testing.assert_allclose(batch["logp"][~same], np.log(0.3 / ACTIONS), rtol=1e-6)
    assert 0.1 < 1 - same.mean() < 0.3


def test_a_memory_begins_anew_with_each_episode() -> None:
    plans: Plans = (((3, "terminated"), (2, "truncated")),)
    worker = SingleWorker(spec(plans, model=LSTM(3, MLP((4,))), num_envs=2, fragment=11), SHARD)
    batch = worker.sample().untyped()
    assert (batch["state"][batch["t"] == 0] == 0).all()
    assert (batch["state"][batch["t"] > 0] != 0).any(axis=1).all()
    # the state of each row is what the network makes of the row before
    inside = np.flatnonzero(batch["t"][1:] > 0)
    before = batch.take(inside)
    acted = worker.policy.rows(before.nested("obs"), worker.rng, state=before["state"])
    np.testing.assert_allclose(batch["state"][inside + 1], acted.state, rtol=1e-4, atol=1e-6)
    assert "state" not in batch.finals


def test_evaluation_takes_whole_episodes_and_does_not_explore() -> None:
    plans: Plans = (((3, "terminated"),), ((4, "truncated"),))
    settings = spec(plans, explore=False, episodes=4)
    worker = SingleWorker(settings, SHARD)
    found = worker.evaluate()
    assert found.count == 4
    assert sorted(found.lengths) == [3, 3, 4, 4]
    assert found == SingleWorker(settings, SHARD).evaluate()
    worker.close()


class Breaks(gymnasium.Env[Any, Any]):  # Any: gymnasium's
    """Counts its steps, and does something wrong at one of them."""

    def __init__(self, what: str, at: int, length: int = 1000) -> None:
        self.what, self.at, self.count, self.length = what, at, 0, length
        self.observation_space = spaces.Box(-1e3, 1e3, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:  # Any: gymnasium's
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:  # Any: gymnasium's
        self.count += 1
        obs: Any = np.full(2, self.count, np.float32)  # Any: to be spoiled
        reward: Any = 1.0  # Any: to be spoiled
        if self.count == self.at:
            match self.what:
                case "raise":
                    raise RuntimeError("motor on fire")
                case "nan":
                    obs[1] = np.nan
                case "reward":
                    reward = float("inf")
                case "shape":
                    obs = np.zeros(3, np.float32)
                case "dtype":
                    obs = np.array(["a", "b"])
        return obs, reward, self.count % self.length == 0, False, {}


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("raise", "Breaks, env 0: step raised RuntimeError: motor on fire"),
        ("nan", "Breaks, env 0: obs"),
        ("reward", "Breaks, env 0: reward is not a finite number: inf"),
        ("shape", "Breaks, env 0: obs"),
        ("dtype", "Breaks, env 0: obs"),
    ],
)
def test_an_env_that_misbehaves_is_named(what: str, message: str) -> None:
    env = EnvSpec(Breaks, {"what": what, "at": 3})
    worker = SingleWorker(WorkerSpec(env, {"default": Agent(A3CLoss(), MLP((4,)))}, num_envs=2), SHARD)
    with pytest.raises(EnvError, match=message):
        worker.sample()


def test_an_env_that_is_restarted_loses_its_episode_and_no_other_row() -> None:
    env = EnvSpec(Breaks, {"what": "raise", "at": 4}, on_error="restart")
    worker = SingleWorker(WorkerSpec(env, {"default": Agent(A3CLoss(), MLP((4,)))}, num_envs=2, fragment=6), SHARD)
    batch = worker.sample()
    assert isinstance(batch.summary, Episodes)
    assert batch.summary.discarded == 2
    # three steps were lost with each env, and the step that failed; two were made after that
    assert len(batch) == 4 == batch.env_steps
    assert cast("Array", batch.nested("obs"))[:, 0].tolist() == [0, 1, 0, 1]
    assert batch.successors("obs")["obs"][:, 0].tolist() == [1, 2, 1, 2]


def test_only_the_episode_that_failed_is_lost() -> None:
    """The env fails in the second step of its third episode, in the middle of the second fragment."""
    env = EnvSpec(Breaks, {"what": "raise", "at": 8, "length": 3}, on_error="restart")
    worker = SingleWorker(WorkerSpec(env, {"default": Agent(A3CLoss(), MLP((4,)))}, num_envs=1, fragment=4), SHARD)
    first, second, third = (worker.sample() for _ in range(3))
    # steps 1 to 4; then 5 and 6 end the second episode, 7 is lost with step 8; the new env begins at 1
    assert first.successors("obs")["obs"][:, 0].tolist() == [1, 2, 3, 4]
    assert second.successors("obs")["obs"][:, 0].tolist() == [5, 6]
    assert third.successors("obs")["obs"][:, 0].tolist() == [1, 2, 3, 4]
    summaries = [batch.summary for batch in (first, second, third) if isinstance(batch.summary, Episodes)]
    assert [summary.discarded for summary in summaries] == [0, 1, 0]
    assert [summary.lengths for summary in summaries] == [(3,), (3,), (3,)]
    assert third["t"].tolist() == [0, 1, 2, 0]


def test_drifting_noise_begins_anew_with_each_episode() -> None:
    started: list[Array] = []

    class Told(Explorer):
        def ended(self, rows: Array) -> None:
            started.append(rows.copy())

    worker = SingleWorker(spec((((2, "terminated"),), ((3, "truncated"),)), fragment=6), SHARD)
    worker.lanes[0].explorer = Told()
    worker.sample()
    assert started.pop(0).all(), "all episodes begin"
    numbers = [int(x) % 2 for x in cast("Array", worker.lanes[0].obs)[:, 0]]
    lengths = [2 if number == 0 else 3 for number in numbers]
    want = [[step % length == 0 for length in lengths] for step in range(1, 7)]
    assert [rows.tolist() for rows in started] == [rows for rows in want if any(rows)]


def test_a_loss_that_does_not_fit_the_actions_is_refused() -> None:
    with pytest.raises(PlanError, match="needs a Discrete action space, got Box"):
        SingleWorker(WorkerSpec(EnvSpec("Pendulum-v1"), {"default": Agent(DQNLoss())}), SHARD)


# --------------------------------------------------------------------------- several agents

LIVES = (Life(0, 3), Life(0, 5, truncated=True), Life(1, 4))


def multi(make: Any, fragment: int, model: ModelLike | None = None) -> WorkerSpec:  # Any: something that makes an env
    agents = {name: Agent(A3CLoss(), model or MLP((4,))) for name in ("even", "odd")}
    return WorkerSpec(EnvSpec(make), agents, num_envs=2, fragment=fragment, policy_of=policy_of)


def policy_of(agent: str) -> Literal["even", "odd"]:
    return "even" if int(agent.removeprefix("agent_")) % 2 == 0 else "odd"


def rows_of(batch: Batch[Any]) -> list[tuple[tuple[int, ...], int, float, bool, bool, tuple[int, ...]]]:  # Any: all columns
    if not len(batch):
        return []
    obs, after = batch["obs"].astype(int), batch.successors("obs")["obs"].astype(int)
    return [
        (
            tuple(obs[row].tolist()),
            int(batch["actions"][row]),
            float(batch["rewards"][row]),
            bool(batch["terminated"][row]),
            bool(batch["truncated"][row]),
            tuple(after[row].tolist()),
        )
        for row in range(len(batch))
    ]


@pytest.mark.parametrize("fragment", [1, 2, 3, 7])
def test_agents_that_act_together(fragment: int) -> None:
    worker = MultiWorker(multi(partial(TogetherEnv, LIVES), fragment), SHARD)
    worker.turns = worker.envs.reset(5)  # a seed that fits into the observation
    count = 0
    for _ in range(12 // fragment):
        batches = worker.sample()
        assert batches.env_steps == 2 * fragment
        for name, batch in batches.batches.items():
            assert batch.policy == name
            for (seed, episode, step, agent), action, reward, over, cut, after in rows_of(batch):
                life = LIVES[agent]
                assert policy_of(f"agent_{agent}") == name
                assert reward == wages(agent, agent, step, action)
                assert after == (seed, episode, step + 1, agent)
                ends = step + 1 >= life.dies
                assert (over, cut) == (ends and not life.truncated, ends and life.truncated)
                count += 1
    # agents live 3, 5 and 3 steps of each episode of 5 steps, in 2 envs
    steps = 12 // fragment * fragment
    lived = sum(life.born <= step % 5 < life.dies for step in range(steps) for life in LIVES)
    assert count == 2 * lived


@pytest.mark.parametrize("fragment", [1, 2, 5, 8])
def test_agents_that_act_in_turn(fragment: int) -> None:
    order, lives = (0, 1, 2, 1), (Life(0, 9), Life(0, 9, truncated=True), Life(0, 6))
    worker = MultiWorker(multi(partial(InTurnEnv, order, lives), fragment), SHARD)
    worker.turns = worker.envs.reset(5)
    found = [row for _ in range(40 // fragment) for batch in worker.sample().batches.values() for row in rows_of(batch)]
    acts: dict[tuple[int, int], dict[int, tuple[int, int]]] = {}
    for (seed, episode, moves, agent), action, *_ in found:
        acts.setdefault((seed, episode), {})[moves] = (agent, action)
    whole = {key: moves for key, moves in acts.items() if sorted(moves) == list(range(9))}
    assert len(whole) >= 4
    for (seed, episode, moves, agent), _, reward, over, cut, after in found:
        if (seed, episode) not in whole:
            continue
        later = [m for m in range(moves + 1, 9) if whole[seed, episode][m][0] == agent and m < lives[agent].dies]
        until = later[0] if later else lives[agent].dies
        earned = sum(wages(agent, *_turn(whole[seed, episode], m)) for m in range(moves, until))
        assert reward == pytest.approx(earned)
        assert (over, cut) == (not later and not lives[agent].truncated, not later and lives[agent].truncated)
        assert after[:2] == (seed, episode)
        assert after[2] == until
        assert after[3] == agent


def _turn(moves: dict[int, tuple[int, int]], move: int) -> tuple[int, int, int]:
    agent, action = moves[move]
    return agent, move, action


@pytest.mark.parametrize("make", [partial(TogetherEnv, LIVES), partial(InTurnEnv, (0, 1, 2, 1), (Life(0, 9),) * 3)])
def test_evaluating_between_two_fragments_spoils_neither(make: Any) -> None:  # Any: something that makes an env
    worker = MultiWorker(multi(make, 7), SHARD)
    for _ in range(3):
        worker.sample()
        assert worker.evaluate().count == 10
        for batch in worker.sample().batches.values():
            if len(batch):
                assert batch["t"][0] == 0, "new episodes have begun"


class Greedy(SingleWorker):
    """Notes what its policy acts with."""

    def __init__(self, spec: WorkerSpec, shard: Shard) -> None:
        super().__init__(spec, shard)
        self.seen: list[Array] = []
        self.taken: list[int] = []
        plain_rows, plain_begin = self.policy.rows, self.lanes[0].envs.begin

        def rows(*args: Any, **more: Any) -> Any:  # Any: passed on
            self.seen.append(self.policy.flat.get())
            return plain_rows(*args, **more)

        def begin(actions: Array) -> None:
            self.taken += actions.tolist()
            plain_begin(actions)

        self.policy.rows = rows  # type: ignore[method-assign]  # to listen
        self.lanes[0].envs.begin = begin  # type: ignore[method-assign]  # to listen


def test_the_memory_of_an_agent_begins_anew_with_each_episode() -> None:
    worker = MultiWorker(multi(partial(TogetherEnv, LIVES), 12, model=LSTM(3, MLP((4,)))), SHARD)
    for batch in worker.sample().batches.values():
        columns = batch.untyped()
        assert (columns["state"][columns["t"] == 0] == 0).all()
        assert (columns["state"][columns["t"] > 0] != 0).any(axis=1).all()
        assert (columns["t"] == 0).sum() > 2


def test_evaluating_does_not_explore() -> None:
    plans: Plans = (((4, "terminated"),),)
    eager = Greedy(spec(plans, loss=DQNLoss(), exploration=EpsilonGreedy(1.0), episodes=30), SHARD)
    eager.evaluate()
    assert len(set(eager.taken)) < ACTIONS, "chance would take them all"
    noisy = Greedy(spec(plans, loss=DQNLoss(), exploration=ParameterNoise(5.0)), SHARD)
    noisy.set_weights(Weights("default", np.zeros_like(noisy.policy.flat.get())))
    acting = noisy.policy.flat.get()
    assert (acting != 0).any()
    noisy.evaluate()
    assert noisy.seen
    assert all((weights == 0).all() for weights in noisy.seen)
    np.testing.assert_array_equal(noisy.policy.flat.get(), acting)


class Remembers(PlannedEnv):
    """Notes the seeds that it is given."""

    seeds: ClassVar[list[int]] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:  # Any: gymnasium's
        if seed is not None:
            self.seeds.append(seed)
        return super().reset(seed=seed, options=options)


def test_training_after_an_evaluation_begins_with_other_episodes() -> None:
    Remembers.seeds.clear()
    env = EnvSpec(partial(Remembers, (((3, "terminated"),),)))
    worker = SingleWorker(WorkerSpec(env, {"default": Agent(A3CLoss(), MLP((4,)))}, num_envs=1, fragment=5), SHARD)
    for _ in range(3):
        worker.sample()
        worker.evaluate()
    assert len(Remembers.seeds) == len(set(Remembers.seeds)) == 6


def test_schedules_go_on_where_the_driver_says_all_are() -> None:
    worker = SingleWorker(spec((((3, "terminated"),),)), Shard("workers", 0, 4, 1, seed=7))
    assert worker.global_steps == 0
    worker.set_weights(Weights("default", worker.policy.flat.get(), 1000))
    worker.sample()
    assert worker.global_steps == 1000 + 4 * 10
    worker.set_weights(Weights("default", worker.policy.flat.get(), 900))
    assert worker.global_steps == 1040, "it never goes back"


def test_a_fragment_that_is_lost_altogether_is_no_gradient() -> None:
    env = EnvSpec(Breaks, {"what": "raise", "at": 2}, on_error="restart")
    worker = SingleWorker(WorkerSpec(env, {"default": Agent(A3CLoss(), MLP((4,)))}, num_envs=1, fragment=2), SHARD)
    batch = worker.sample()
    assert len(batch) == 0
    gradient = worker.gradients(batch)
    assert gradient.rows == 0
    assert (gradient.values == 0).all()
    assert isinstance(gradient.summary, Episodes)
    assert gradient.summary.discarded == 1


def test_episodes_are_counted_by_env_and_by_policy() -> None:
    worker = MultiWorker(multi(partial(TogetherEnv, LIVES), 10), SHARD)
    summary = worker.sample().summary
    assert isinstance(summary, Episodes)
    assert (summary.count, summary.lengths) == (4, (5, 5, 5, 5))
    assert {name: each.count for name, each in summary.policies.items()} == {"even": 8, "odd": 4}
    assert set(summary.policies["odd"].lengths) == {5}
    found = worker.evaluate()
    assert found.count == 10
    worker.close()


def test_a_policy_without_a_loss_or_without_agents_is_named() -> None:
    env = EnvSpec(partial(TogetherEnv, LIVES))
    with pytest.raises(PlanError, match="maps agent 'agent_0' to the policy \"other\", but there is only even"):
        MultiWorker(WorkerSpec(env, {"even": Agent(A3CLoss())}, policy_of=lambda agent: "other"), SHARD)
    lonely = WorkerSpec(env, {"even": Agent(A3CLoss()), "x": Agent(A3CLoss())}, policy_of=lambda agent: "even")
    with pytest.raises(PlanError, match="No agent has the policy x"):
        lonely.spaces_of("even")


def test_seeds_are_functions_of_their_parts() -> None:
    assert seed_for(1, "a") == seed_for(1, "a")
    assert len({seed_for(1, "a"), seed_for(1, "b"), seed_for(2, "a"), seed_for(1)}) == 4
    assert 0 <= seed_for(2**70, "x") < 2**31


# --------------------------------------------------------------------------- envs that compute beside the policy


@pytest.mark.parametrize("num_envs", [1, 2, 3, 4])
def test_lanes_that_take_turns_lose_nothing(num_envs: int) -> None:
    """Envs in processes of their own: while one half computes, the policy acts for the other."""
    plans: Plans = (((3, "terminated"), (4, "truncated")), ((2, "terminated"),))
    env = EnvSpec(partial(PlannedEnv, plans), vectorizer="processes")
    worker = SingleWorker(WorkerSpec(env, {"default": Agent(A3CLoss(), MLP((4,)))}, num_envs=num_envs, fragment=7), SHARD)
    try:
        assert len(worker.lanes) == (2 if num_envs % 2 == 0 else 1)
        worker.sample()
        batch = worker.sample()
        check_rows(batch, plans)
        assert len(batch) == 7 * num_envs
        seeds = {int(x) for x in cast("Array", batch.nested("obs"))[:, 0]}
        assert len(seeds) == num_envs, "every env has a seed of its own"
    finally:
        worker.close()


def test_a_game_of_atari() -> None:
    pytest.importorskip("ale_py", reason="needs tflow[atari]")
    spec = WorkerSpec(EnvSpec("ALE/Pong-v5"), {"default": Agent(A3CLoss(), SmallCNN(16))}, num_envs=4, fragment=5)
    worker = SingleWorker(spec, SHARD)
    first, second = worker.sample().untyped(), worker.sample().untyped()
    assert len(worker.lanes) == 2
    assert first["obs"].shape == (20, 4, 84, 84)
    assert first["obs"].dtype == np.uint8
    assert first["t"].reshape(4, 5).tolist() == [[0, 1, 2, 3, 4]] * 4
    assert second["t"].reshape(4, 5).tolist() == [[5, 6, 7, 8, 9]] * 4
    # the stack of frames that follows the last row of a fragment is that of the next fragment's first row
    np.testing.assert_array_equal(first.finals["obs"], second["obs"].reshape(4, 5, 4, 84, 84)[:, 0])
    inside = first["obs"].reshape(4, 5, 4, 84, 84)
    np.testing.assert_array_equal(inside[:, 1:, :3], inside[:, :-1, 1:])
    worker.close()


class FromTwo(PlannedEnv):
    """Counts its actions from 2."""

    def __init__(self) -> None:
        super().__init__((((3, "terminated"),),))
        self.action_space = spaces.Discrete(ACTIONS, start=2)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # Any: gymnasium's
        assert self.action_space.contains(action)
        return super().step(action - 2)


def test_actions_that_do_not_count_from_0() -> None:
    worker = SingleWorker(WorkerSpec(EnvSpec(FromTwo), {"default": Agent(A3CLoss(), MLP((4,)))}, num_envs=2, fragment=20), SHARD)
    batch = worker.sample()
    assert {int(x) for x in batch["actions"]} == {0, 1, 2}
    env = FromTwo()
    obs, _ = env.reset(seed=1)
    assert {int(worker.policy.act(obs, deterministic=False)) for _ in range(40)} == {2, 3, 4}


# --------------------------------------------------------------------------- real envs with options


STOCHASTIC = [ActorCriticSpec(), ActorCriticSpec(rescale=True), ActorCriticSpec(squash=True)]


@pytest.mark.parametrize(
    "agent",
    [
        *(Agent(A3CLoss(spec=options), MLP((4,)), exploration=ParameterNoise(0.1)) for options in STOCHASTIC),
        *(Agent(TD3Loss(), MLP((4,)), exploration=noise) for noise in (GaussianNoise(0.3), OUNoise(), ParameterNoise(0.1))),
    ],
)
def test_noise_on_continuous_actions(agent: AnyAgent) -> None:
    worker = SingleWorker(WorkerSpec(EnvSpec("Pendulum-v1"), {"default": agent}, num_envs=2, fragment=8), SHARD)
    batch = worker.sample()
    assert batch["actions"].shape == (16, 1)
    assert np.isfinite(batch["logp"]).all()
    taken = worker.policy.head.to_env(batch["actions"])
    assert (np.abs(taken) <= 2).all()
    options = agent.loss.policy()
    if not isinstance(options, ActorCriticSpec) or options.rescale or options.squash:
        ends = np.array([[-1.0], [1.0]], np.float32)
        np.testing.assert_allclose(worker.policy.head.to_env(ends), [[-2], [2]], rtol=1e-6)


def test_gymnasiums_wrappers_in_a_worker() -> None:
    stacked = EnvSpec("CartPole-v1", wrappers=[partial(FrameStackObservation, stack_size=3), NormalizeReward])
    batch = SingleWorker(WorkerSpec(stacked, {"default": Agent(A3CLoss(), MLP((4,)))}, num_envs=2, fragment=9), SHARD).sample()
    obs = cast("Array", batch.nested("obs"))
    assert obs.shape[1:] == (3, 4)
    inside = batch["t"][1:] > 0
    np.testing.assert_array_equal(obs[1:][inside][:, :2], obs[:-1][inside][:, 1:])
    assert len(set(batch["rewards"].tolist())) > 1, "CartPole itself pays the same each time"
    normal = EnvSpec("CartPole-v1", vector_wrappers=[NormalizeObservation])
    worker = SingleWorker(WorkerSpec(normal, {"default": Agent(A3CLoss(), MLP((4,)))}, num_envs=8, fragment=200), SHARD)
    worker.sample()
    settled = cast("Array", worker.sample().nested("obs"))
    assert np.abs(settled.std(axis=0) - 1).max() < 0.5


@pytest.mark.parametrize(
    ("model", "shared"), [(MLP((4,), "relu"), False), (MLP((4,), "relu"), True), (LSTM(3, MLP((4,))), False)]
)
def test_values_are_those_of_the_policy_that_acted(model: ModelLike, shared: bool) -> None:
    """Whether they are computed step by step or for the whole fragment at once."""
    loss = A3CLoss(spec=ActorCriticSpec(shared=shared))
    worker = SingleWorker(spec((((3, "terminated"), (5, "truncated")),), loss=loss, model=model, num_envs=2, fragment=11), SHARD)
    rollout = worker.sample().untyped()
    state = rollout["state"] if "state" in rollout else worker.policy.initial_state(len(rollout))
    expected = worker.policy.values(rollout.nested("obs"), state)
    np.testing.assert_allclose(rollout["values"], expected, rtol=1e-4, atol=1e-6)
    assert len(set(rollout["values"].tolist())) > 2
