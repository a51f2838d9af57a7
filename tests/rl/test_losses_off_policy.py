"""Losses that learn from what an older policy did, against slow, plain computations; and the priorities made of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.world import RUNTIMES, over_repeatable_runtimes
from tests.rl import reference
from tests.rl.test_policy import batch, replayed
from tests.rl.toy_envs import PlannedEnv
from tflow import (
    Batch,
    Iter,
    LearnOnBatch,
    ParallelReplay,
    ParallelRollouts,
    PlanError,
    Rollout,
    SendWeights,
    Shard,
    StoreToBuffer,
    TrainOneStep,
    TrainStats,
    Union,
    UpdatePriorities,
    UpdateTargetNetwork,
    Workers,
    create_learner,
    create_replay_actors,
    create_rollout_workers,
)
from tflow.actors import ReplayActors
from tflow.envs import EnvSpec
from tflow.errors import TflowError
from tflow.exploration import EpsilonGreedy
from tflow.losses import A3CLoss, DQNLoss, IMPALALoss, PPOLoss
from tflow.models import ActorCriticSpec, QSpec
from tflow.operators import ComputePriorities, SendPriorities
from tflow.optimizers import SGD, Adam
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import AnyBatch
from tflow.rl.learning.agent import Agent
from tflow.rl.learning.learner import Learner
from tflow.rl.learning.losses import LossValue
from tflow.rl.policy.network_spec import LSTM, MLP, ModelLike
from tflow.rl.policy.policy import ActorCritic, QPolicy
from tflow.rl.policy.policy_spec import PolicySpec, make_policy
from tflow.rl.policy.tensors import Tensors
from tflow.rl.policy.threads import one_thread
from tflow.rl.policy.weights import Weights
from tflow.rl.replay.replay import ReplayActor
from tflow.rl.rollout.worker import RolloutWorker, SingleWorker
from tflow.rl.rollout.worker_spec import CurrentPolicy, WorkerSpec
from tflow.rl.schedules import schedule_of
from tflow.schedules import Linear
from tflow.testing.batches import rollouts

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
HIDDEN = MLP((8,))
LINE = spaces.Box(-1e6, 1e6, (1,), np.float32)
KINDS: tuple[Literal["scalar", "categorical", "quantile"], ...] = ("scalar", "categorical", "quantile")
Kind = Literal["scalar", "categorical", "quantile"]
PLANS = (((3, "terminated"), (4, "truncated")), ((2, "terminated"), (5, "terminated")))


class Modest(PlannedEnv):
    """What it shows and pays is as small as the values of a network, so that none of these is lost among the rewards."""

    def look(self, action: int) -> Array:
        shown: Array = super().look(action) / np.array([1000, 10, 10, 4], np.float32)
        return shown

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # Any: gymnasium's
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward % 10 / 10, terminated, truncated, info


ENV = EnvSpec(partial(Modest, PLANS))
SMALL: dict[str, Any] = {"num_envs": 2, "fragment": 6, "model": MLP((4,)), "optimizer": Adam(lr=0.01)}  # Any: several kinds
STILL = SGD(lr=1e-30)
"""An optimiser that leaves weights as they are, so that all minibatches meet the same policy."""


@pytest.fixture(autouse=True)
def quietly() -> Iterator[None]:
    """Networks of a few numbers are slower with more threads."""
    with one_thread():
        yield


def made(
    spec: PolicySpec, *, seed: int = 0, model: ModelLike = HIDDEN, seen: spaces.Box = BOX, actions: int = 4
) -> Any:  # Any: the kind that the spec says
    """A policy with opinions: fresh ones like all actions equally."""
    policy = make_policy(spec, model, seen, spaces.Discrete(actions), seed=seed)
    policy.flat.set(np.random.default_rng(seed).normal(0, 0.6, len(policy.flat.get())).astype(np.float32))
    return policy


def number(of: torch.Tensor) -> float:
    return float(of.detach())


# --------------------------------------------------------------------------- V-trace, row by row


class Said:
    """What a policy without a memory says of the rows of a batch and of what follows its pieces."""

    def __init__(self, policy: ActorCritic, rows: Batch[str]) -> None:
        with torch.no_grad():
            inputs, values, _ = policy.net(torch.from_numpy(np.array(rows["obs"])))
            _, finals, _ = policy.net(torch.from_numpy(np.array(rows.finals["obs"])))
        self.chances: list[list[float]] = inputs.double().softmax(1).tolist()
        self.values: list[float] = values.tolist()
        self.finals: list[float] = finals.tolist()


def remembered(policy: ActorCritic, rows: Batch[str], starts: list[int]) -> Said:
    """The same of a policy with a memory: at each of ``starts`` it begins with what was recorded, and goes on by itself."""
    said = Said.__new__(Said)
    said.chances, said.values = [], []
    state = torch.empty(0)
    for row, obs in enumerate(rows["obs"]):
        if row in starts:
            state = torch.from_numpy(np.array(rows["state"][row : row + 1]))
        inputs, values, state = policy.net(torch.from_numpy(np.array(obs[None])), state)
        said.chances.append(torch.softmax(inputs.detach()[0].double(), 0).tolist())
        said.values.append(number(values[0]))
    return said


def recursively(rows: reference.Rows, loss: IMPALALoss) -> list[float]:
    """Remark 1 of arXiv 1802.01561: v[s] from v[s + 1], from the last row to the first."""
    targets = [0.0] * len(rows)
    for s in reversed(range(len(rows))):
        ratio = rows.ratio(s)
        later = targets[s + 1] - rows.values[s + 1] if rows.goes_on(s) else 0.0
        correction = min(loss.clip_rho, ratio) * rows.error(s, loss.gamma)
        targets[s] = rows.values[s] + correction + loss.gamma * loss.lam * min(loss.clip_c, ratio) * later
    return targets


def by_hand(loss: IMPALALoss, said: Said, rows: Batch[str], ends: list[int] | None = None) -> dict[str, Any]:  # Any: mixed
    """The loss of section 4.2, and the constants in it: targets of the values and weights of the policy gradient."""
    taken = [chances[action] for chances, action in zip(said.chances, rows["actions"], strict=True)]
    plain = reference.Rows(
        rows["rewards"].tolist(),
        said.values,
        said.finals,
        rows["terminated"].tolist(),
        rows.ends.tolist() if ends is None else ends,
        rows["logp"].tolist(),
        [math.log(chance) for chance in taken],
    )
    clips = loss.clip_rho, loss.clip_c, loss.clip_pg_rho
    targets, advantages, rhos = reference.vtrace(plain, loss.gamma, loss.lam, *clips)  # equation 1
    assert recursively(plain, loss) == pytest.approx(targets, rel=1e-9, abs=1e-9)
    count = len(plain)
    gain = sum(math.log(chance) * advantage for chance, advantage in zip(taken, advantages, strict=True)) / count
    miss = sum((value - target) ** 2 for value, target in zip(said.values, targets, strict=True)) / count
    entropy = -sum(chance * math.log(chance) for chances in said.chances for chance in chances) / count
    total = -gain + loss.value_coef * miss - schedule_of(loss.entropy_coef).at(0) * entropy
    stats = {"policy_loss": -gain, "value_loss": miss, "entropy": entropy, "rho": sum(rhos) / count}
    return {"total": total, "stats": stats, "targets": targets, "advantages": advantages}


def agrees(got: LossValue, wanted: dict[str, Any]) -> None:  # Any: mixed
    scale = 1 + abs(wanted["stats"]["policy_loss"]) + abs(wanted["stats"]["value_loss"])  # float32 sums of such numbers
    assert number(got.total) == pytest.approx(wanted["total"], rel=1e-4, abs=1e-5 * scale)
    for name, value in wanted["stats"].items():
        assert number(got.stats[name]) == pytest.approx(value, rel=1e-4, abs=1e-5 * scale), name


clips = st.sampled_from([0.3, 1.0, 1.7, 100.0])
shares = st.sampled_from([0.0, 0.5, 0.9, 1.0])


@st.composite
def off_policy(draw: st.DrawFn) -> Batch[str]:
    """A rollout of which the policy that acted is not the one that learns: actions may have had any probability."""
    drawn = draw(rollouts(min_pieces=1, longest=8, dict_obs=False)).untyped()
    logp = [draw(st.integers(-250, -1)) / 100 for _ in range(len(drawn))]
    small = drawn.with_columns({"obs": drawn["obs"] / 10, "logp": np.array(logp, np.float32)})
    return Batch(small.columns, ends=small.ends, finals={**small.finals, "obs": small.finals["obs"] / 10})


@given(off_policy(), shares, shares, clips, clips, clips, st.integers(0, 3))
def test_impala_row_by_row(
    rows: Batch[str], gamma: float, lam: float, clip_rho: float, clip_c: float, clip_pg_rho: float, seed: int
) -> None:
    loss = IMPALALoss(gamma, lam, clip_rho, clip_c, clip_pg_rho, value_coef=0.7, entropy_coef=0.1)
    policy: ActorCritic = made(loss.policy(), seed=seed, seen=LINE, actions=2)
    got = loss.compute(policy, Tensors.of(rows), target=None, steps=0)
    wanted = by_hand(loss, Said(policy, rows), rows)
    agrees(got, wanted)
    # the gradient takes targets and advantages for constants
    gradient = policy.flat.gradients_of(got.total).numpy().copy()
    inputs, values, _ = policy.net(torch.from_numpy(np.array(rows["obs"])))
    logp = inputs.log_softmax(1)
    taken = logp[torch.arange(len(rows)), torch.from_numpy(np.array(rows["actions"]))]
    total = -(taken * torch.tensor(wanted["advantages"], dtype=torch.float32)).mean()
    total = total + 0.7 * (values - torch.tensor(wanted["targets"], dtype=torch.float32)).square().mean()
    total = total + 0.1 * (logp.exp() * logp).sum(1).mean()
    same = policy.flat.gradients_of(total).numpy()
    np.testing.assert_allclose(gradient, same, rtol=1e-3, atol=1e-5 * (1 + np.abs(same).max()))


def test_the_entropy_of_impala_follows_its_schedule() -> None:
    policy: ActorCritic = made(IMPALALoss().policy())
    for loss, steps, coef in (
        (IMPALALoss(entropy_coef=Linear(1.0, 0.0, steps=100)), 75, 0.25),
        (IMPALALoss(entropy_coef=0.5), 75, 0.5),
    ):
        got = loss.compute(policy, Tensors.of(batch()), target=None, steps=steps)
        rest = got.stats["policy_loss"] + loss.value_coef * got.stats["value_loss"]
        assert number(got.total) == pytest.approx(number(rest - coef * got.stats["entropy"]), rel=1e-6)


@pytest.mark.parametrize("how", ["terminated", "truncated", "cut"])
def test_what_follows_a_piece_counts_unless_it_terminated(how: str) -> None:
    """And it is the policy's own value of now, whatever the worker's was."""
    loss = IMPALALoss()
    policy: ActorCritic = made(loss.policy())
    marks = np.isin(np.arange(12), [5, 11])
    rows = batch().with_columns({"terminated": marks & (how == "terminated"), "truncated": marks & (how == "truncated")})

    def total(obs: float, values: float) -> float:
        finals = {"obs": np.full((2, 3), obs, np.float32), "values": np.full(2, values, np.float32)}
        tensors = Tensors.of(Batch(rows.columns, ends=rows.ends, finals=finals))
        return number(loss.compute(policy, tensors, target=None, steps=0).total)

    assert (total(obs=0.5, values=1.0) == total(obs=-0.5, values=1.0)) == (how == "terminated")
    assert total(obs=0.5, values=1.0) == total(obs=0.5, values=9.0)


@given(rollouts(min_pieces=1, dict_obs=False), st.sampled_from([0.0, 0.9, 1.0]), st.sampled_from([1.0, 2.0, 1e9]))
@settings(max_examples=20)
def test_on_its_own_rollouts_impala_is_a3c(rollout: Rollout, gamma: float, clip: float) -> None:
    loss = IMPALALoss(gamma=gamma, clip_rho=clip, clip_c=clip, clip_pg_rho=clip)
    policy: ActorCritic = made(loss.policy(), seen=LINE, actions=2)
    rows = rollout.untyped()
    said = policy.evaluate(Tensors.of(rows))
    own = rows.with_columns({"logp": said.logp.detach().numpy(), "values": said.values.detach().numpy()})
    finals = {**rows.finals, "values": policy.values(rows.finals["obs"], policy.initial_state(len(rows.ends)))}
    one = Learner(policy, loss, Adam())
    other = Learner(policy, A3CLoss(gamma=gamma, lam=1.0), Adam())
    played: Batch[str] = Batch(own.columns, ends=own.ends, finals=finals)
    (gradient, stats), (same, wanted) = one.gradients(played), other.gradients(played)
    for name in ("loss", "policy_loss", "value_loss", "entropy"):
        assert stats[name] == pytest.approx(wanted[name], rel=1e-4, abs=1e-4)
    assert stats["rho"] == pytest.approx(1.0)
    np.testing.assert_allclose(gradient, same, rtol=1e-3, atol=1e-5 * (1 + np.abs(same).max()))


# --------------------------------------------------------------------------- whole pieces


def uneven() -> Batch[str]:
    """Pieces of 1 to 5 rows; every reward is there once."""
    rows = batch(15, seed=4)
    over = np.isin(np.arange(15), [4, 9])
    finals = {"obs": np.random.default_rng(1).random((5, 3), dtype=np.float32), "values": np.ones(5, np.float32)}
    columns = {**rows.columns, "terminated": over}
    return Batch(columns, ends=np.array([4, 5, 7, 10, 14]), finals=finals)


@pytest.mark.parametrize(("minibatch", "each"), [(None, 5), (1, 1), (4, 1), (8, 2), (14, 4), (15, 5), (99, 5)])
def test_minibatches_are_whole_pieces_and_padding_does_not_count(minibatch: int | None, each: int) -> None:
    """Pieces have 3 rows on average: a minibatch has as many pieces (``each``) as that makes."""
    seen: list[tuple[list[float], float]] = []

    class Spy(IMPALALoss):
        """Notes the rows of each minibatch, by their rewards, and its loss."""

        def compute(self, policy: Any, batch: Tensors, /, *, target: Any, steps: int) -> LossValue:  # Any: passed on
            value = super().compute(policy, batch, target=target, steps=steps)
            rewards = batch["rewards"][batch["mask"]] if "mask" in batch else batch["rewards"]
            seen.append((rewards.tolist(), number(value.total)))
            return value

    plain, rows = IMPALALoss(gamma=0.9, entropy_coef=0.1), uneven()
    policy = made(plain.policy())
    Learner(policy, Spy(gamma=0.9, entropy_coef=0.1), STILL).train(rows, minibatch=minibatch, epochs=2)
    assert sorted(reward for rewards, _ in seen for reward in rewards) == sorted(rows["rewards"].tolist() * 2)
    assert len(seen) == 2 * -(-5 // each)
    for rewards, total in seen:
        chosen = [piece for piece in rows.pieces() if piece["rewards"][0] in rewards]
        assert sorted(rewards) == sorted(reward for piece in chosen for reward in piece["rewards"].tolist())
        alone = plain.compute(policy, Tensors.of(Batch.concat(chosen)), target=None, steps=0)
        assert total == pytest.approx(number(alone.total), rel=1e-5)


def test_rows_that_were_picked_one_by_one_are_refused() -> None:
    loss = IMPALALoss()
    rows = Tensors.of(batch()).take(torch.tensor([7, 3]))
    with pytest.raises(TflowError, match=r"V-trace needs consecutive steps, but these rows were picked one by one\. Train on"):
        loss.compute(made(loss.policy()), rows, target=None, steps=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: IMPALALoss(gamma=1.5), "gamma must be from 0 to 1"),
        (lambda: IMPALALoss(lam=-0.1), "lam must be"),
        (lambda: IMPALALoss(clip_rho=0), "clip_rho must be"),
        (lambda: IMPALALoss(clip_c=-1), "clip_c must be"),
        (lambda: IMPALALoss(clip_pg_rho=0), "clip_pg_rho must be"),
        (lambda: PPOLoss(kl_coef=-1), "kl_coef must be"),
        (lambda: PPOLoss(max_kl=0), "max_kl must be"),
        (lambda: LearnOnBatch(weights_every=0), "weights_every must be at least 1"),
        (lambda: ComputePriorities(n_step=0), "n_step must be at least 1"),
        (lambda: ComputePriorities(gamma=2), "gamma must be from 0 to 1"),
    ],
)
def test_sentences(make: Any, message: str) -> None:  # Any: makes something
    with pytest.raises(PlanError, match=message):
        make()


# --------------------------------------------------------------------------- with a memory


@pytest.mark.parametrize("length", [32, 6, 4, 1])
@pytest.mark.parametrize("shared", [True, False])
def test_a_policy_with_a_memory_row_by_row(length: int, shared: bool) -> None:
    """Sequences are cut at its length; what follows each is taken from what the worker wrote down."""
    loss = IMPALALoss(gamma=0.9, entropy_coef=0.1, spec=ActorCriticSpec(shared=shared))
    policy: ActorCritic = made(loss.policy(), model=LSTM(3, MLP((4,)), length=length))
    rng = np.random.default_rng(3)
    states = rng.normal(0, 0.5, (12, policy.state_size)).astype(np.float32)
    plain = batch(seed=2).with_columns({"state": states, "terminated": np.arange(12) == 11})
    finals = {"values": rng.random(3), "obs": np.zeros((3, 3))}
    rows: Batch[str] = Batch(plain.columns, ends=np.array([5, 7, 11]), finals=finals)
    starts = [start + first for start, stop in ((0, 6), (6, 8), (8, 12)) for first in range(0, stop - start, length)]
    ends = [row for row in range(12) if row + 1 in starts or row in (5, 7, 11)]
    said = remembered(policy, rows, starts)
    following = dict(zip([5, 7, 11], rows.finals["values"].tolist(), strict=True))
    said.finals = [following[end] if end in following else float(rows["values"][end + 1]) for end in ends]
    wanted = by_hand(loss, said, rows, ends)
    learner = Learner(policy, loss, STILL)
    assert learner.gradients(rows)[1]["loss"] == pytest.approx(wanted["total"], rel=1e-4)
    outcome = learner.train(rows)
    assert outcome.updates == 1
    known = {"loss": wanted["total"], **wanted["stats"]}
    assert known == pytest.approx({name: outcome.stats[name] for name in known}, rel=1e-4)


def test_a_policy_with_a_memory_learns_in_a_plan() -> None:
    model = LSTM(3, MLP((4,)), length=3)
    workers = create_rollout_workers(env=ENV, loss=IMPALALoss(), **{**SMALL, "model": model})
    stream = ParallelRollouts(workers).gather_async().for_each(TrainOneStep(workers, minibatch=6))
    with stream.run() as run:
        found = [next(run) for _ in range(4)]
    assert all(item.updates >= 2 and not item.skipped for item in found)
    assert all(math.isfinite(value) for item in found for value in item.stats.values())


# --------------------------------------------------------------------------- PPO and divergence


def rated(rows: Batch[str]) -> Batch[str]:
    """With advantages and returns."""
    rng = np.random.default_rng(8)
    size = len(rows)
    columns = {"advantages": rng.normal(size=size).astype(np.float32), "returns": rng.random(size, dtype=np.float32)}
    return rows.with_columns(columns)


@pytest.mark.parametrize("coef", [0.5, 3.0])
def test_the_penalty_of_ppo_row_by_row(coef: float) -> None:
    plain, penalised = PPOLoss(), PPOLoss(kl_coef=coef)
    policy: ActorCritic = made(plain.policy())
    rows = rated(batch())
    tensors = Tensors.of(rows)
    before, after = (loss.compute(policy, tensors, target=None, steps=0) for loss in (plain, penalised))
    penalty, slope = 0.0, np.zeros(policy.flat.trainable)
    for row, chances in enumerate(Said(policy, rows).chances):
        ratio = chances[int(rows["actions"][row])] / math.exp(float(rows["logp"][row]))
        penalty += (ratio - 1 - math.log(ratio)) / 12
        logp = policy.evaluate(tensors).logp[row]
        slope += (ratio - 1) / 12 * policy.flat.gradients_of(logp).numpy()
    assert number(after.total - before.total) == pytest.approx(coef * penalty, rel=1e-4)
    assert number(after.stats["kl"]) == pytest.approx(penalty, rel=1e-4)
    with_it = policy.flat.gradients_of(after.total).numpy().copy()
    without = policy.flat.gradients_of(before.total).numpy()
    np.testing.assert_allclose(with_it - without, coef * slope, rtol=1e-3, atol=1e-5)


def test_the_penalty_of_ppo_follows_its_schedule() -> None:
    policy: ActorCritic = made(PPOLoss().policy())
    tensors = Tensors.of(rated(batch()))
    fading, half = PPOLoss(kl_coef=Linear(1.0, 0.0, steps=100)), PPOLoss(kl_coef=0.5)
    for loss, steps, same in ((fading, 50, half), (fading, 100, PPOLoss())):
        got, wanted = (each.compute(policy, tensors, target=None, steps=steps).total for each in (loss, same))
        assert number(got) == number(wanted)


def test_on_average_the_penalty_pulls_as_the_divergence_does() -> None:
    """Each action is there as often as it was likely, so that means over the rows are expectations."""
    loss = PPOLoss(kl_coef=1.0)
    policy: ActorCritic = made(loss.policy())
    obs = np.random.default_rng(2).random((3, 3), dtype=np.float32)
    counts = np.array([[10, 5, 3, 2], [1, 1, 9, 9], [5, 5, 5, 5]])
    state, action = (part.ravel() for part in np.indices(counts.shape))
    times = counts.ravel()
    likely = counts / 20
    rows: Batch[str] = Batch(
        {
            "obs": np.repeat(obs[state], times, axis=0),
            "actions": np.repeat(action, times),
            "logp": np.repeat(np.log(likely[state, action]), times).astype(np.float32),
            "values": np.zeros(60, np.float32),
        }
    )
    tensors = Tensors.of(rated(rows))
    penalised, plain = (each.compute(policy, tensors, target=None, steps=0) for each in (loss, PPOLoss()))
    old = torch.from_numpy(likely)
    exact = (old * (old.log() - policy.net(torch.from_numpy(obs))[0].log_softmax(1))).sum(1).mean()
    assert number(penalised.stats["kl"]) == pytest.approx(number(exact), rel=1e-4)
    assert number(exact) > 0.05
    wanted = policy.flat.gradients_of(exact).numpy().copy()
    got = policy.flat.gradients_of(penalised.total).numpy().copy() - policy.flat.gradients_of(plain.total).numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-5)
    assert np.abs(wanted).max() > 0.01


@pytest.mark.parametrize("minibatch", [None, 4])
def test_a_policy_that_moved_too_far_is_left_alone_until_the_next_batch(minibatch: int | None) -> None:
    def fresh(loss: PPOLoss) -> Learner:
        return Learner(made(loss.policy()), loss, SGD(lr=0.05), seed=5)

    most = 0.02
    rows = rated(batch())
    own = fresh(PPOLoss()).policy
    assert isinstance(own, ActorCritic)
    rows = rows.with_columns({"logp": own.evaluate(Tensors.of(rows)).logp.detach().numpy()})  # at first it has not moved
    divergences: list[float] = []

    class Noted(PPOLoss):
        def compute(self, policy: Any, batch: Any, /, *, target: Any, steps: int) -> LossValue:  # Any: passed on
            value = super().compute(policy, batch, target=target, steps=steps)
            divergences.append(float(value.stats["kl"]))
            return value

    every = fresh(Noted(max_kl=None)).train(rows, epochs=8, minibatch=minibatch)
    allowed = next(nth for nth, divergence in enumerate(divergences) if divergence > most)
    assert every.updates == len(divergences) == (8 if minibatch is None else 24)
    assert 1 < allowed < every.updates
    held, twin = fresh(PPOLoss(max_kl=most)), fresh(PPOLoss(max_kl=1e6))
    outcome = held.train(rows, epochs=8, minibatch=minibatch)
    assert (outcome.updates, outcome.skipped, held.updates) == (allowed, 0, allowed)
    assert outcome.stats["kl"] == pytest.approx(np.mean(divergences[: allowed + 1]), rel=1e-4)
    assert twin.train(rows, epochs=8, minibatch=minibatch).updates == every.updates
    if minibatch is None:
        stopped, again = held.weights, held.train(rows, epochs=8)
        assert (again.updates, again.skipped, again.rows) == (0, 0, 0), "it is still where it was too far"
        assert again.stats["kl"] > most
        np.testing.assert_array_equal(held.weights, stopped)


# --------------------------------------------------------------------------- td_targets of Q-learning


def q_loss(kind: Kind, double: bool = True) -> DQNLoss:
    return DQNLoss(double=double, spec=QSpec(kind=kind, atoms=5, v_min=-2.0, v_max=2.0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("double", [True, False])
def test_td_targets_that_come_with_the_batch_are_not_computed_again(kind: Kind, double: bool) -> None:
    loss = q_loss(kind, double)
    policy: QPolicy = made(loss.policy())
    target: QPolicy = made(loss.policy(), seed=3)
    rows = replayed()
    plain = loss.compute(policy, Tensors.of(rows), target=target, steps=0)
    assert plain.td_targets is not None
    assert plain.td_errors is not None
    assert plain.td_targets.shape == ((12,) if kind == "scalar" else (12, 5))
    gradient = policy.flat.gradients_of(plain.total).numpy().copy()
    handed_on = Tensors.of(rows.with_columns({"td_targets": plain.td_targets.numpy()}))
    again = loss.compute(policy, handed_on, target=None, steps=0)
    assert number(again.total) == number(plain.total)
    assert again.td_errors is not None
    np.testing.assert_array_equal(again.td_errors.numpy(), plain.td_errors.numpy())
    np.testing.assert_array_equal(policy.flat.gradients_of(again.total).numpy(), gradient)
    other = loss.compute(
        policy, Tensors.of(rows.with_columns({"td_targets": plain.td_targets.numpy() + 1})), target=target, steps=0
    )
    assert number(other.total) != number(plain.total), "they are read"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("double", [True, False])
def test_td_targets_row_by_row(kind: Kind, double: bool) -> None:
    """Reward, and what the target network says of the best action next; ``double`` asks the policy which that is."""
    loss = q_loss(kind, double)
    policy: QPolicy = made(loss.policy())
    target: QPolicy = made(loss.policy(), seed=3)
    discounts = np.linspace(0, 1, 12, dtype=np.float32)
    rows = replayed().with_columns({"discounts": discounts})
    td_targets = loss.td_targets(policy, target, Tensors.of(rows)).numpy()
    after = torch.from_numpy(np.array(rows["next_obs"]))
    chosen = (policy if double else target).scores(rows["next_obs"]).argmax(axis=1)
    assert (policy.scores(rows["next_obs"]).argmax(axis=1) != target.scores(rows["next_obs"]).argmax(axis=1)).any()
    for row, said in enumerate(target.net(after)[0].detach().numpy()[np.arange(12), chosen]):
        reward, discount = float(rows["rewards"][row]), float(discounts[row])
        if kind != "categorical":
            np.testing.assert_allclose(td_targets[row], reward + discount * said, rtol=1e-5, atol=1e-6)
            continue
        wanted, chances = np.zeros(5), np.exp(said) / np.exp(said).sum()
        for atom, chance in zip(range(-2, 3), chances, strict=True):  # atoms are 1 apart, from -2 to 2
            place = max(-2.0, min(2.0, reward + discount * atom)) + 2
            low = min(int(place), 3)
            wanted[[low, low + 1]] += chance * (low + 1 - place), chance * (place - low)
        np.testing.assert_allclose(td_targets[row], wanted, rtol=1e-4, atol=1e-6)


def q_workers(kind: Kind = "scalar", **more: Any) -> Workers[Any, Any]:  # Any: options, and what the loss reads
    return create_rollout_workers(env=ENV, loss=q_loss(kind), exploration=EpsilonGreedy(1.0), **{**SMALL, **more})


def without_td_targets(rows: AnyBatch) -> Batch[str]:
    whole = rows.untyped()
    return Batch({name: column for name, column in whole.columns.items() if name != "td_targets"}, ends=whole.ends)


Order = Literal["priorities first", "priorities first, td_targets lost", "training first"]


def learning(order: Order, workers: Workers[Any, Any], replay: ReplayActors) -> Iter[TrainStats]:  # Any: what the loss reads
    drawn = ParallelReplay(replay).gather_sync()
    if order == "training first":
        return drawn.for_each(TrainOneStep(workers)).for_each(SendPriorities())
    updated: Iter[Any] = drawn.for_each(UpdatePriorities(workers))  # Any: batches, with and without td_targets
    return (updated if order == "priorities first" else updated.map(without_td_targets)).for_each(TrainOneStep(workers))


@pytest.mark.parametrize("kind", KINDS)
def test_the_target_network_is_asked_once_per_batch(kind: Kind) -> None:
    """Whether priorities come first, as on the slides, or last; and what is learned is the same."""

    def passes_and_weights(order: Order) -> tuple[float, float, list[float]]:
        workers = q_workers(kind)
        replay = create_replay_actors(capacity=200, batch=8, min_size=20)
        store = ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay))
        train = learning(order, workers, replay).for_each(UpdateTargetNetwork(workers, every=3))
        passes = {"target": 0, "policy": 0}

        def count(name: str, *_: object) -> None:
            passes[name] += 1

        def watch(current: CurrentPolicy) -> None:
            learner = current.learner
            assert learner.target is not None
            learner.target.module.register_forward_hook(partial(count, "target"))
            learner.policy.module.register_forward_hook(partial(count, "policy"))

        with Union(store.drain(), train).run() as run:
            run.ask(workers.learner, watch)
            for _ in range(7):
                next(run)
            ((updates, weights),) = run.ask(workers.learner, lambda current: (current.learner.updates, current.weights.tolist()))
        assert updates == 7
        return passes["target"] / updates, passes["policy"] / updates, weights

    first = passes_and_weights("priorities first")
    lost = passes_and_weights("priorities first, td_targets lost")
    last = passes_and_weights("training first")
    # the policy looks at next_obs for the td_targets, and at obs for the errors: of priorities, and of training
    assert [found[:2] for found in (first, lost, last)] == [(1, 3), (2, 4), (1, 2)]
    assert first[2] == lost[2] == last[2]


# --------------------------------------------------------------------------- priorities


def held(actor: ReplayActor) -> dict[str, Any]:  # Any: arrays and numbers
    return cast("dict[str, Any]", actor.buffer.state())  # Any: as above


class Frozen:
    """A learner's policy and target at one moment."""

    def __init__(self, current: CurrentPolicy) -> None:
        learner = current.learner
        assert learner.target is not None
        self.policy, self.target = learner.policy.copy(), learner.target.copy()

    def errors(self, rows: dict[str, Array]) -> list[float]:
        """|reward + discount * the target's value of the policy's choice - value|, row by row."""
        found = []
        for row in range(len(rows["rewards"])):
            obs, after = rows["obs"][row][None], rows["next_obs"][row][None]
            choice = int(self.policy.scores(after)[0].argmax())
            td_target = float(rows["rewards"][row]) + float(rows["discounts"][row]) * float(self.target.scores(after)[0, choice])
            found.append(abs(td_target - float(self.policy.scores(obs)[0, int(rows["actions"][row])])))
        return found


@over_repeatable_runtimes
@pytest.mark.parametrize("order", ["priorities first", "training first"])
def test_priorities_become_what_the_errors_were(runtime: str, order: Order) -> None:
    workers = q_workers()
    replay = create_replay_actors(capacity=500, batch=8, min_size=20, alpha=0.5, n_step=2, gamma=0.9)
    store = ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay))
    train = learning(order, workers, replay).for_each(UpdateTargetNetwork(workers, every=2))
    updated: set[int] = set()
    with RUNTIMES[runtime]() as session, Union(store.drain(), train).run(runtime=session) as run:
        for _ in range(6):
            (before,) = run.ask(workers.learner, Frozen)
            item = next(run)
            assert item.td_errors is not None
            ids = item.td_errors[0].tolist()
            (inside,) = run.ask(replay, held)
            rows = {name: inside[f"columns/{name}"][ids] for name in ("obs", "actions", "rewards", "next_obs", "discounts")}
            wanted = np.array(before.errors(rows))
            np.testing.assert_allclose(item.td_errors[1], wanted, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(inside["priorities"][ids], np.sqrt(wanted + 1e-6), rtol=1e-4, atol=1e-3)
            updated |= set(ids)
            others = [row for row in range(len(inside["priorities"])) if row not in updated]
            assert (inside["priorities"][others] >= 1).all(), "what was not drawn is as it was stored"
        (inside,) = run.ask(replay, held)
        assert inside["stale"] == 0
        assert len({round(float(x), 4) for x in inside["priorities"][sorted(updated)]}) > 5


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_workers_rate_their_rows_by_their_own_weights(n_step: int, gamma: float) -> None:
    agent = Agent(DQNLoss(), MLP((4,)), exploration=EpsilonGreedy(0.5))
    spec = WorkerSpec(ENV, {"default": agent}, num_envs=2, fragment=8)
    worker = spec(Shard("workers", 0, 1, 0, seed=7, session_seed=3))
    assert isinstance(worker, SingleWorker)
    policy = worker.policy
    ComputePriorities().apply(worker, worker.sample())
    sent = np.random.default_rng(1).normal(0, 0.5, len(policy.flat.get())).astype(np.float32)
    worker.set_weights(Weights("default", sent))  # they are what counts from now on, also as what they are compared with
    rollout = worker.sample()
    rows = rollout.untyped()
    found = ComputePriorities(n_step=n_step, gamma=gamma).apply(worker, rollout)
    assert set(found.columns) == {*rows.columns, "priorities"}
    assert found["priorities"].dtype == np.float32
    ways = {(bool(rows["terminated"][end]), bool(rows["truncated"][end])) for end in rows.ends}
    assert ways == {(True, False), (False, True), (False, False)}, "pieces end in all three ways"
    following = rows.successors("obs")["obs"]
    for row in range(len(rows)):
        last, td_target, end = row, 0.0, int(rows.ends[np.searchsorted(rows.ends, row)])
        for later in range(row, min(row + n_step, end + 1)):
            td_target += gamma ** (later - row) * float(rows["rewards"][later])
            last = later
        if not rows["terminated"][last]:
            td_target += gamma ** (last - row + 1) * float(policy.scores(following[last][None]).max())
        value = float(policy.scores(rows["obs"][row][None])[0, int(rows["actions"][row])])
        assert float(found["priorities"][row]) == pytest.approx(abs(td_target - value) + 1e-6, rel=1e-4)
    np.testing.assert_array_equal(policy.flat.get(), sent)


def test_first_priorities_arrive_in_replay() -> None:
    workers = q_workers()
    replay = create_replay_actors(capacity=500, batch=8, min_size=20, alpha=1.0, n_step=3, gamma=0.9)
    rated = ParallelRollouts(workers).par_for_each(ComputePriorities(n_step=3, gamma=0.9)).gather_sync()
    with rated.for_each(StoreToBuffer(replay)).run() as run:
        items = [next(run) for _ in range(4)]
        (inside,) = run.ask(replay, held)
    wanted = np.concatenate([item["priorities"] for item in items])
    np.testing.assert_allclose(inside["priorities"], wanted, rtol=1e-6)
    assert "columns/priorities" not in inside


# --------------------------------------------------------------------------- a learner elsewhere


def weights_of(worker: RolloutWorker) -> Array:
    return worker.policies["default"].flat.get()


def sent_by(learner: Learner) -> Array:
    return learner.weights


def noted(item: TrainStats) -> TrainStats:
    """With a word on whether weights came with it."""
    return replace(item, stats={**item.stats, "sent": float(item.weights is not None)})


@over_repeatable_runtimes
@pytest.mark.parametrize("every", [1, 3])
def test_a_learner_elsewhere_sends_weights_once_per_so_many_updates(runtime: str, every: int) -> None:
    workers = create_rollout_workers(env=ENV, loss=IMPALALoss(), **SMALL)
    learner = create_learner(workers)
    stats = ParallelRollouts(workers).gather_sync().call(learner, LearnOnBatch(weights_every=every))
    stream = stats.map(noted).for_each(SendWeights(workers))
    with RUNTIMES[runtime]() as session, stream.run(runtime=session) as run:
        (before,) = run.ask(learner, sent_by)
        newest = before
        for count in range(1, 8):
            item = next(run)
            assert item.updates == 1
            assert item.stats["sent"] == (count % every == 0)
            assert item.weights is None, "they went to the workers"
            assert item.version == count // every
            (now,) = run.ask(learner, sent_by)
            newest = now if count % every == 0 else newest
            (here,) = run.ask(workers.learner, CurrentPolicy.get_weights)
            np.testing.assert_array_equal(here, newest)
            for weights in run.ask(workers, weights_of):
                np.testing.assert_array_equal(weights, newest)
        assert (newest != before).any()


def test_several_updates_per_batch_are_all_counted() -> None:
    """3 updates per batch, weights once per 2: after 3, 6, 9 and 12 there are new ones; once per 4: not after 3."""
    for every, sent in ((2, [True, True, True, True]), (4, [False, True, True, True]), (5, [False, True, False, True])):
        learner = Learner(made(A3CLoss().policy()), A3CLoss(), Adam(lr=0.01))
        learn = LearnOnBatch(minibatch=4, weights_every=every)
        found = [learn.apply(learner, batch(seed=seed)) for seed in range(4)]
        assert [item.updates for item in found] == [3] * 4
        assert [item.weights is not None for item in found] == sent
