"""Intrinsic rewards: random network distillation against slow formulas, and two streams of returns."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from tflow import Batch, ConcatRounds, ParallelRollouts, PlanError, Policy, Stop
from tflow.algos import PPO, RND
from tflow.envs import EnvSpec
from tflow.errors import TflowError
from tflow.losses import RNDLoss
from tflow.models import MLP
from tflow.optimizers import Adam
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Rollout
from tflow.rl.envs.memory_tasks import RepeatAfterMe
from tflow.rl.learning.intrinsic import ComputeIntrinsicRewards, SoFar, TwoStreams, goes_on, so_far
from tflow.rl.learning.learner import Learner
from tflow.rl.policy.curious import CuriousActorCritic, merge
from tflow.rl.policy.network import RunningStatistics
from tflow.rl.policy.policy_spec import ActorCriticSpec, CuriousSpec, make_policy
from tflow.rl.policy.threads import threads

SPEC = CuriousSpec(width=8, features=4)
STREAMS = TwoStreams(gamma=0.9, intrinsic_gamma=0.8, lam=0.7, extrinsic_coef=2.0, intrinsic_coef=0.5)


def policy() -> CuriousActorCritic:
    return cast("CuriousActorCritic", make_policy(SPEC, MLP((8,)), spaces.Box(-1, 1, (2,)), spaces.Discrete(2), seed=1))


def rollout(seed: int = 0) -> Rollout:
    """Two envs of four steps each. The episode of the first ends after two steps, that of the second with the fragment."""
    rng = np.random.default_rng(seed)
    ends = np.array([1, 3, 7])
    columns: dict[str, Array] = {
        "obs": rng.normal(size=(8, 2)).astype(np.float32) * 3 + 1,
        "actions": rng.integers(2, size=8),
        "rewards": rng.normal(size=8).astype(np.float32),
        "terminated": np.array([0, 1, 0, 0, 0, 0, 0, 1], bool),
        "truncated": np.zeros(8, bool),
        "t": np.array([5, 6, 0, 1, 3, 4, 5, 6], np.int32),
        "logp": np.full(8, np.log(0.5), np.float32),
        "values": rng.normal(size=8).astype(np.float32),
    }
    following = {"obs": rng.normal(size=(3, 2)).astype(np.float32), "values": rng.normal(size=3).astype(np.float32)}
    finals = {**following, "slot": np.array([0, 0, 1])}
    batch: Batch[str] = Batch(columns, ends=ends, finals=finals, env_steps=8)
    return cast("Rollout", batch)


def added(made: CuriousActorCritic, item: Rollout, streams: TwoStreams = STREAMS) -> Batch[str]:
    workers = RND(width=8, features=4).workers(RND(width=8, features=4).loss())
    operator = ComputeIntrinsicRewards(workers, streams)
    return operator.added(made, operator.init(), item, np.random.default_rng(0))[1].untyped()


def test_intrinsic_returns_go_on_where_the_next_episode_of_the_same_env_begins() -> None:
    item = rollout()
    assert goes_on(item).tolist() == [True, False, False]
    sums, _ = so_far(np.arange(1, 9, dtype=np.float32), np.array([0, 0, 0, 0, 1, 1, 1, 1]), {}, 0.5)
    np.testing.assert_allclose(sums, [1, 2.5, 4.25, 6.125, 5, 8.5, 11.25, 13.625])


@pytest.mark.parametrize("length", [100, 50])
def test_they_never_go_on_in_another_env(length: int) -> None:
    """Also where all episodes begin and end with the fragment, so that nothing else tells where an env ends."""
    algorithm = RND(env="tflow/RepeatAfterMe-v0", num_workers=2, num_envs=3, fragment=100, width=8, features=4, model=MLP((8,)))
    env = EnvSpec(partial(RepeatAfterMe, horizon=length))
    rollouts = ConcatRounds(ParallelRollouts(replace(algorithm, env=env).workers(algorithm.loss())).gather_rounds())
    first, second = rollouts.take(2).run()
    for batch in (first, second):
        assert batch["t"][batch.starts].tolist() == [0] * len(batch.ends)
        assert goes_on(batch).tolist() == ([False] * 6 if length == 100 else [True, False] * 6)
        assert batch.finals["slot"].tolist() == np.repeat(range(6), 100 // length).tolist()
        assert batch.slice(10, 560).finals["slot"].tolist() == batch.finals["slot"].tolist()


@given(
    rounds=st.lists(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1, width=32)), min_size=1, max_size=9), max_size=4),
    gamma=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
)
def test_sums_of_intrinsic_rewards_go_on_from_batch_to_batch(rounds: list[list[tuple[int, float]]], gamma: float) -> None:
    sums, expected = cast("SoFar", {}), dict.fromkeys(range(4), 0.0)
    for rows in rounds:
        slots, rewards = (np.array(each) for each in zip(*rows, strict=True))
        found, sums = so_far(rewards.astype(np.float32), slots, sums, gamma)
        for (slot, reward), value in zip(rows, found, strict=True):
            expected[slot] = gamma * expected[slot] + reward
            assert value == pytest.approx(expected[slot], rel=1e-4, abs=1e-6)
    assert all(sums[slot] == pytest.approx(expected[slot], rel=1e-4, abs=1e-6) for slot in sums)


def test_what_was_gathered_before_counts_for_the_scale() -> None:
    made, item = policy(), rollout()
    workers = RND(width=8, features=4).workers(RND(width=8, features=4).loss())
    operator, rng = ComputeIntrinsicRewards(workers, STREAMS), np.random.default_rng(0)
    sums, seen, totals = operator.init(), list[float](), [0.0, 0.0]
    for _ in range(3):
        sums, found = operator.added(made, sums, item, rng)
        errors = found["intrinsic_rewards"] / float(made.novelty.returns.scale)
        for row, error in enumerate(errors.tolist()):
            totals[row // 4] = 0.8 * totals[row // 4] + error
            seen.append(totals[row // 4])
    after = made.novelty.returns.moments()
    assert after is not None
    np.testing.assert_allclose(after.variance, np.var(seen), rtol=1e-3)


def test_small_networks_judge_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    judged = CuriousActorCritic.judged

    def noted(self: CuriousActorCritic, *rows: Array) -> Any:  # Any: passed on
        seen.append(torch.get_num_threads())
        return judged(self, *rows)

    monkeypatch.setattr(CuriousActorCritic, "judged", noted)
    algorithm = RND(num_envs=2, fragment=16, minibatch=16, epochs=1, width=8, features=4, model=MLP((8,)))
    with threads(3):
        algorithm.run(stop=Stop(updates=1)).finish()
    assert set(seen) == {1}


def test_moments_of_many_batches_are_merged_without_drift() -> None:
    statistics = RunningStatistics("x", (1,))
    for _ in range(300):
        merge(statistics, np.array([[-1e-4], [1e-4]]))
    after = statistics.moments()
    assert after is not None
    np.testing.assert_allclose(after.variance, 1e-8, rtol=1e-3)


def test_both_streams_by_slow_formulas() -> None:
    made, item = policy(), rollout()
    found = added(made, item)
    after = np.array(
        [item["obs"][1], item.finals["obs"][0], item["obs"][3], item.finals["obs"][1], *item["obs"][5:], item.finals["obs"][2]]
    )
    mean, std = after.mean(0), np.sqrt(after.var(0) + 1e-8)
    reached, left = np.clip((after - mean) / std, -5, 5), np.clip((item["obs"] - mean) / std, -5, 5)
    np.testing.assert_allclose(found["reached"], reached, atol=1e-5)
    np.testing.assert_allclose(found["left"], left, atol=1e-5)
    net = made.novelty
    with torch.no_grad():
        given = torch.from_numpy(reached.astype(np.float32))
        errors = (net.predictor(given) - net.target(given)).square().mean(1).numpy()
        values = net.critic(torch.from_numpy(left.astype(np.float32))).squeeze(1).numpy()
        last = net.critic(given[[3, 7]]).squeeze(1).numpy()
    sums = np.zeros(8)
    for first in (0, 4):
        for row in range(first, first + 4):
            sums[row] = errors[row] + (0.8 * sums[row - 1] if row > first else 0)
    np.testing.assert_allclose(found["intrinsic_rewards"], errors / np.sqrt(sums.var() + 1e-8), rtol=1e-3)

    def advantages(rewards: Any, values: Any, following: Any, going: Any, gamma: float) -> Any:  # Any: arrays
        found, so_far = np.zeros(8), 0.0
        for row in reversed(range(8)):
            so_far = so_far if going[row] == "on" else 0.0
            bootstrap = 0.0 if going[row] == "over" else following[row]
            so_far = rewards[row] + gamma * bootstrap - values[row] + gamma * 0.7 * so_far
            found[row] = so_far
        return found

    inside = advantages(
        found["intrinsic_rewards"],
        values,
        [*values[1:4], last[0], *values[5:], last[1]],
        ["on", "on", "on", "cut", "on", "on", "on", "cut"],
        0.8,
    )
    outside_values = item["values"]
    outside = advantages(
        item["rewards"],
        outside_values,
        [outside_values[1], 0, outside_values[3], item.finals["values"][1], *outside_values[5:], 0],
        ["on", "over", "on", "cut", "on", "on", "on", "over"],
        0.9,
    )
    np.testing.assert_allclose(found["intrinsic_returns"], inside + values, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found["advantages"], 2.0 * outside + 0.5 * inside, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found["returns"], outside + outside_values, rtol=1e-4, atol=1e-5)


def test_statistics_run_over_all_batches() -> None:
    made = policy()
    batches = [rollout(0), rollout(1)]
    for each in batches:
        added(made, each)
    every = np.concatenate([each.with_next_obs()["next_obs"] for each in batches])
    np.testing.assert_allclose(made.novelty.seen.mean.numpy(), every.mean(0), atol=1e-4)
    np.testing.assert_allclose(made.novelty.seen.scale.numpy(), 1 / every.std(0), rtol=1e-3)


def test_what_was_seen_often_is_not_new_and_the_random_network_stays() -> None:
    made, item = policy(), rollout()
    loss = RNDLoss(spec=SPEC, max_kl=None)
    learner = Learner(made, loss, Adam(lr=1e-2))
    target = [buffer.clone() for buffer in made.novelty.target.buffers()]
    first = added(made, item)
    for _ in range(60):
        learner.train(added(made, item))
    last = added(made, item)
    with torch.no_grad():
        before = float(np.mean(first["intrinsic_rewards"]))
        error, _, _ = made.judged(last["reached"], last["left"], last["left"][:1])
        elsewhere, _, _ = made.judged(-5 * np.ones((1, 2), np.float32), last["left"], last["left"][:1])
    assert before > 0
    assert error.mean() < 0.2 * elsewhere.mean()
    assert len(target) == 6
    assert all(torch.equal(one, other) for one, other in zip(target, made.novelty.target.buffers(), strict=True))


def test_the_predictor_learns_on_where_the_policy_has_moved_too_far() -> None:
    made = policy()
    learner = Learner(made, RNDLoss(spec=SPEC, max_kl=1e-9), Adam(lr=1e-2))
    acting, novelty = made.flat.get(acting=True).copy(), made.flat.get(acting=False)[made.flat.acting :].copy()
    outcome = learner.train(added(made, rollout()), epochs=3)
    assert (outcome.updates, outcome.skipped) == (3, 0)
    np.testing.assert_array_equal(made.flat.get(acting=True), acting)
    assert (made.flat.get(acting=False)[made.flat.acting :] != novelty).any()


def test_each_part_has_a_gradient_of_its_own() -> None:
    made = policy()
    values, stats = Learner(made, RNDLoss(spec=SPEC), Adam(lr=1e-3)).gradients(added(made, rollout()))
    acting = made.flat.parts["actor_critic"].gradient.numel()
    assert np.abs(values[:acting]).max() > 0
    assert np.abs(values[acting:]).max() > 0
    assert {"actor_critic_loss", "novelty_loss", "predictor_error", "intrinsic_value_loss"} <= stats.keys()


def test_workers_are_sent_what_acts_and_the_policy_is_saved_whole(tmp_path: Any) -> None:
    algorithm = RND(num_envs=2, fragment=16, minibatch=16, epochs=1, width=8, features=4, model=MLP((8,)))
    run = algorithm.run(stop=Stop(updates=4))
    run.finish()
    trained = run.policy()
    assert trained.flat.acting < len(trained.flat.values)
    trained.save(tmp_path / "policy.safetensors")
    loaded = Policy.load(tmp_path / "policy.safetensors")
    assert isinstance(loaded, CuriousActorCritic)
    np.testing.assert_array_equal(loaded.flat.get(acting=True), trained.flat.get(acting=True))


@pytest.mark.parametrize("env", ["tflow/KeyDoor-v0", "tflow/ParametricCartPole-v0"])
def test_it_takes_observations_of_any_kind(env: str) -> None:
    algorithm = RND(env=env, num_envs=2, fragment=16, minibatch=16, epochs=1, width=8, features=4, model="auto", keep=0.5)
    last = algorithm.run(stop=Stop(updates=4)).finish()
    assert last.training.latest["predictor_error"] > 0
    assert last.training.skipped == 0


def test_what_cannot_be_is_a_sentence() -> None:
    with pytest.raises(PlanError, match="RND: intrinsic rewards are computed beside the learner, so there is one; got 2"):
        RND(num_learners=2)
    with pytest.raises(PlanError, match="TwoStreams: intrinsic_gamma must be from 0 to 1, got 2"):
        RND(intrinsic_gamma=2).plan()
    with pytest.raises(PlanError, match="ComputeIntrinsicRewards: workers have no RNDLoss, whose networks it needs"):
        ComputeIntrinsicRewards(PPO().workers(PPO().loss()))
    with pytest.raises(PlanError, match="RNDLoss: spec must be a CuriousSpec"):
        RNDLoss(spec=ActorCriticSpec())
    plain = make_policy(ActorCriticSpec(), MLP((8,)), spaces.Box(-1, 1, (2,)), spaces.Discrete(2))
    with pytest.raises(TflowError, match="ActorCritic has no networks for intrinsic rewards"):
        RNDLoss().losses(plain, cast("Any", None), target=None, steps=0)["novelty"]()


def test_discrete_observations_are_one_hot_so_that_neighbours_are_not_alike() -> None:
    space = spaces.Dict({"at": spaces.Discrete(3, start=5), "near": spaces.Box(0, 1, (2,)), "on": spaces.MultiBinary(1)})
    made = make_policy(SPEC, MLP((8,)), space, spaces.Discrete(2))
    assert isinstance(made, CuriousActorCritic)
    columns = {"obs/at": np.array([5, 7]), "obs/near": np.array([[0.1, 0.2], [0.3, 0.4]], np.float32), "obs/on": np.ones((2, 1))}
    expected = np.array([[1, 0, 0, 0.1, 0.2, 1], [0, 0, 1, 0.3, 0.4, 1]], np.float32)
    np.testing.assert_array_equal(made.vectors_of(Batch(columns)), expected)
    assert made.novelty.seen.mean.shape == (6,)
