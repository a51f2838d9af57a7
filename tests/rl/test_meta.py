"""Learning to adapt: the derivative through inner steps, what workers do with their tasks, and the plan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import tflow
from tests.laws.world import RUNTIMES, over_repeatable_runtimes
from tests.rl.toy_envs import PlannedEnv
from tflow import Batch, Metrics, ParallelRollouts, PlanError, Rollout, Shard, create_rollout_workers
from tflow.data import Episodes
from tflow.envs import EnvSpec
from tflow.errors import EnvError, OperatorError, TflowError
from tflow.losses import A3CLoss, MAMLLoss
from tflow.models import ActorCriticSpec
from tflow.operators import AdaptToTask
from tflow.rl.data.arrays import Array
from tflow.rl.learning.agent import Agent
from tflow.rl.learning.meta import fitted, rows_of
from tflow.rl.policy.network_spec import MLP
from tflow.rl.policy.policy import ActorCritic
from tflow.rl.policy.policy_spec import make_policy
from tflow.rl.policy.tensors import Tensors
from tflow.rl.policy.threads import one_thread
from tflow.rl.policy.weights import Weights
from tflow.rl.rollout.worker import SingleWorker
from tflow.rl.rollout.worker_spec import WorkerSpec

loose: Any = tflow  # Any: what checkers would reject, said at run time
NAVIGATION = EnvSpec("tflow/Navigation-v0", {"horizon": 4})
PLANNED = EnvSpec(partial(PlannedEnv, (((3, "terminated"),),)))
SHARD = Shard("workers", 1, 3, 0, seed=7, session_seed=3)


@pytest.fixture(autouse=True)
def quietly() -> Iterator[None]:
    """Networks of a few numbers are slower with more threads."""
    with one_thread():
        yield


# --------------------------------------------------------------------------- the derivative


class Tiny(nn.Module):
    """An encoder that keeps the precision of what it is given; those of tflow compute in float32."""

    def __init__(self, observation_space: object) -> None:
        super().__init__()
        self.features = 2
        self.layer = nn.Linear(2, 2)

    def forward(self, obs: Tensor) -> Tensor:
        return torch.tanh(self.layer(obs))


@contextmanager
def double_precision() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


Acts = spaces.Discrete | spaces.Box
CHOICES = spaces.Discrete(3)
MOVES = spaces.Box(-1.0, 1.0, (2,), np.float64)


def exact(acts: Acts = CHOICES) -> ActorCritic:
    """A tiny policy in double precision, so that differences of its losses say something."""
    with double_precision():
        policy = make_policy(ActorCriticSpec(log_std=-0.5), Tiny, spaces.Box(-1.0, 1.0, (2,), np.float64), acts)
    policy.flat.set(np.random.default_rng(3).normal(0, 0.7 if acts is CHOICES else 0.3, len(policy.flat.get())))
    assert isinstance(policy, ActorCritic)
    return policy


def played(policy: ActorCritic, phases: int, acts: Acts = CHOICES, per_phase: int = 5) -> Batch[str]:
    """Rows of two tasks. The learner has moved a little since: some ratios are clipped, some are not."""
    rng = np.random.default_rng(5)
    size = 2 * phases * per_phase
    rows: Batch[str] = Batch(
        {
            "obs": rng.normal(size=(size, 2)),
            "actions": rng.integers(3, size=size) if acts is CHOICES else rng.normal(0, 0.5, (size, 2)),
            "advantages": rng.normal(size=size),
            "task": np.repeat([70, 30], size // 2),
            "phase": np.tile(np.repeat(np.arange(phases), per_phase), 2),
        }
    )
    logp = policy.evaluate(Tensors.of(rows)).logp.detach().numpy()
    mixed = rng.permutation(size)  # rows of a task need not follow each other
    return rows.with_columns({"logp": logp + rng.normal(0, 0.3, size)}).take(mixed)


def total_at(weights: Array, loss: MAMLLoss, policy: ActorCritic, rows: Tensors) -> float:
    policy.flat.set(weights)
    return float(loss.compute(policy, rows, target=None, steps=0).total.detach())


def by_differences(loss: MAMLLoss, policy: ActorCritic, rows: Tensors, step: float = 1e-6) -> Array:
    """Central differences. In double precision they are off by about 1e-10: step squared, and rounding over step."""
    start = policy.flat.get()
    found = np.zeros(len(start))
    for place in range(len(start)):
        ahead, back = start.copy(), start.copy()
        ahead[place] += step
        back[place] -= step
        found[place] = (total_at(ahead, loss, policy, rows) - total_at(back, loss, policy, rows)) / (2 * step)
    policy.flat.set(start)
    return found


def gradient_of(loss: MAMLLoss, policy: ActorCritic, rows: Tensors) -> Array:
    total = loss.compute(policy, rows, target=None, steps=0).total
    return np.array(policy.flat.gradients_of(total).numpy())


@pytest.mark.parametrize("inner_steps", [1, 2])
@pytest.mark.parametrize("acts", [CHOICES, MOVES], ids=["choices", "moves"])
def test_the_gradient_goes_through_the_inner_steps(inner_steps: int, acts: Acts) -> None:
    inner_lr = 0.3 if acts is CHOICES else 0.1  # densities change faster than probabilities
    loss = MAMLLoss(inner_lr=inner_lr, inner_steps=inner_steps, entropy_coef=0.05)
    policy = exact(acts)
    rows = Tensors.of(played(policy, inner_steps + 1, acts))
    gradient = gradient_of(loss, policy, rows)
    np.testing.assert_allclose(gradient, by_differences(loss, policy, rows), rtol=1e-5, atol=1e-8)
    assert np.abs(gradient).max() > 0.01


class Plainly:
    """The objective once more, written out for choices: one network, one softmax, all sums by hand."""

    def __init__(self, loss: MAMLLoss, policy: ActorCritic) -> None:
        self.loss, self.policy = loss, policy

    def all_logp(self, weights: Tensor, rows: Tensors) -> Tensor:
        parts = self.policy.flat.named(weights)
        hidden = torch.tanh(rows["obs"] @ parts["encoder.layer.weight"].T + parts["encoder.layer.bias"])
        logits = hidden @ parts["action.weight"].T + parts["action.bias"]
        return logits - logits.exp().sum(1, keepdim=True).log()

    def ratios(self, weights: Tensor, rows: Tensors) -> Tensor:
        logp = self.all_logp(weights, rows)[torch.arange(len(rows)), rows["actions"]]
        return (logp - rows["logp"]).exp()

    def inner(self, weights: Tensor, rows: Tensors) -> Tensor:
        """Minus what one plain step of policy gradient makes large."""
        return -(self.ratios(weights, rows) * rows["advantages"]).sum() / len(rows)

    def outer(self, weights: Tensor, rows: Tensors) -> Tensor:
        gain = torch.zeros((), dtype=torch.float64)
        for ratio, advantage in zip(self.ratios(weights, rows), rows["advantages"], strict=True):
            clipped = ratio.clamp(1 - self.loss.clip, 1 + self.loss.clip)
            gain = gain + torch.minimum(ratio * advantage, clipped * advantage)
        logp = self.all_logp(weights, rows)
        entropy = -(logp.exp() * logp).sum()
        return -(gain + self.loss.entropy_coef * entropy) / len(rows)

    def adapted(self, weights: Tensor, task: Tensors) -> Tensor:
        for phase in range(self.loss.inner_steps):
            (slope,) = torch.autograd.grad(
                self.inner(weights, rows_of(task, phase)), weights, create_graph=True, allow_unused=True
            )
            weights = weights - self.loss.inner_lr * slope
        return weights


def tasks_of(rows: Tensors) -> list[Tensors]:
    return [rows.take((rows["task"] == task).nonzero()[:, 0]) for task in (30, 70)]


@pytest.mark.parametrize("inner_steps", [1, 2])
def test_the_loss_is_that_of_the_adapted_policy_averaged_over_tasks(inner_steps: int) -> None:
    loss = MAMLLoss(inner_lr=0.3, inner_steps=inner_steps, entropy_coef=0.05)
    policy = exact()
    rows, plainly = Tensors.of(played(policy, inner_steps + 1)), Plainly(loss, policy)
    start = torch.from_numpy(policy.flat.get().copy()).requires_grad_()
    totals = [plainly.outer(plainly.adapted(start, task), rows_of(task, inner_steps)) for task in tasks_of(rows)]
    wanted = torch.stack(totals).mean()
    got = loss.compute(policy, rows, target=None, steps=0)
    assert float(got.total.detach()) == pytest.approx(float(wanted.detach()), rel=1e-12)
    (slope,) = torch.autograd.grad(wanted, start)
    np.testing.assert_allclose(gradient_of(loss, policy, rows), slope.numpy(), rtol=1e-9, atol=1e-12)
    shares = [float(((plainly.ratios(start, task) - 1).abs() > loss.clip).double().mean()) for task in tasks_of(rows)]
    assert all(0 < share < 1 for share in shares), "some rows are clipped and some are not"


@pytest.mark.parametrize("inner_steps", [1, 2])
def test_without_second_derivatives_it_is_the_gradient_at_the_adapted_weights(inner_steps: int) -> None:
    """As if adapting had shifted the weights by a constant."""
    whole = MAMLLoss(inner_lr=0.3, inner_steps=inner_steps, entropy_coef=0.05)
    loss = MAMLLoss(inner_lr=0.3, inner_steps=inner_steps, entropy_coef=0.05, first_order=True)
    policy = exact()
    rows, plainly = Tensors.of(played(policy, inner_steps + 1)), Plainly(loss, policy)
    start = torch.from_numpy(policy.flat.get().copy()).requires_grad_()
    slopes = []
    for task in tasks_of(rows):
        shift = (plainly.adapted(start, task) - start).detach()
        (slope,) = torch.autograd.grad(plainly.outer(start + shift, rows_of(task, inner_steps)), start)
        slopes.append(slope.numpy())
    got, exactly = gradient_of(loss, policy, rows), gradient_of(whole, policy, rows)
    np.testing.assert_allclose(got, np.mean(slopes, axis=0), rtol=1e-9, atol=1e-12)
    assert np.abs(got - exactly).max() > 1e-3
    first, second = (each.compute(policy, rows, target=None, steps=0).total for each in (loss, whole))
    assert float(first.detach()) == float(second.detach()), "only their derivatives differ"


def test_a_policy_that_played_is_not_far_from_itself() -> None:
    """If the learner is where the workers were, the adapted policy is the one that played last: nothing is gained yet."""
    loss = MAMLLoss(inner_lr=0.3)
    policy = exact()
    rows = played(policy, 2)
    start = policy.flat.parameter.detach().clone()
    columns = {name: np.array(column) for name, column in rows.columns.items()}
    columns["logp"] = policy.evaluate(Tensors.of(rows)).logp.detach().numpy().copy()
    for task in (30, 70):
        first, last = ((columns["task"] == task) & (columns["phase"] == phase) for phase in (0, 1))
        tensors = Tensors.of(Batch({name: column[first] for name, column in columns.items()}))
        after = loss.inner_step(policy, policy.flat.parameter, tensors).detach()
        again = Tensors.of(Batch({name: column[last] for name, column in columns.items()}))
        columns["logp"][last] = policy.evaluate(again, after).logp.detach().numpy()
    got = loss.compute(policy, Tensors.of(Batch(columns)), target=None, steps=0)
    assert float(got.stats["kl"]) == pytest.approx(0.0, abs=1e-12)
    means = [columns["advantages"][(columns["task"] == task) & (columns["phase"] == 1)].mean() for task in (30, 70)]
    assert float(got.stats["policy_loss"].detach()) == pytest.approx(-np.mean(means), rel=1e-9)
    assert bool((policy.flat.parameter == start).all()), "computing a loss moves nothing"


# --------------------------------------------------------------------------- adapting, in a worker


class Watched(SingleWorker):
    """A worker that writes down with which weights it plays, and can be told to fail."""

    def __init__(self, loss: Any, env: EnvSpec = NAVIGATION) -> None:  # Any: any loss
        self.acted_with: list[Array] = []
        self.fails_after = math.inf
        super().__init__(WorkerSpec(env, {"default": Agent(loss, MLP((4,)))}, num_envs=2, fragment=6), SHARD)
        sent = np.random.default_rng(2).normal(0, 0.3, len(self.policy.flat.get())).astype(np.float32)
        self.set_weights(Weights("default", sent))

    def sample(self) -> Rollout:
        if len(self.acted_with) >= self.fails_after:
            raise RuntimeError("broken")
        self.acted_with.append(self.policy.flat.get())
        return super().sample()

    @property
    def goal(self) -> list[float]:
        goal: list[float] = np.asarray(self.task).tolist()
        return goal


def goal_of(rows: Batch[str]) -> Array:
    """Which goal rewards are about: those that fit all rows, by least squares of |p - g|^2 = |p|^2 - 2 p.g + |g|^2."""
    after = rows.successors("obs")["obs"].astype(np.float64)
    features = np.column_stack([2 * after, -np.ones(len(rows))])
    found, _, rank, _ = np.linalg.lstsq(features, rows["rewards"] + (after**2).sum(1), rcond=None)
    assert rank == 3
    return np.asarray(found[:2])


@pytest.mark.parametrize("inner_steps", [1, 2])
def test_a_worker_adapts_by_the_inner_steps_of_the_loss_bit_for_bit(inner_steps: int) -> None:
    loss = MAMLLoss(inner_lr=0.5, inner_steps=inner_steps)
    worker = Watched(loss)
    adapted = AdaptToTask().apply(worker, worker.sample())
    assert len(worker.acted_with) == 1 + inner_steps
    tensors = Tensors.of(adapted.untyped())
    weights: Tensor = worker.policy.flat.parameter
    with one_thread():
        for phase, used in enumerate(worker.acted_with):
            np.testing.assert_array_equal(weights.detach().numpy(), used)
            rows = rows_of(tensors, phase)
            recorded = worker.policy.evaluate(rows, weights).logp.detach()  # type: ignore[attr-defined]  # an actor-critic
            np.testing.assert_allclose(rows["logp"].numpy(), recorded.numpy(), rtol=1e-4, atol=1e-4)
            weights = loss.inner_step(worker.policy, weights, rows)  # type: ignore[arg-type]  # as above
    assert all((one != other).any() for one, other in zip(worker.acted_with[1:], worker.acted_with, strict=False))


@pytest.mark.parametrize("inner_steps", [1, 2])
def test_a_worker_gives_back_all_that_it_played_and_goes_to_another_task(inner_steps: int) -> None:
    loss = MAMLLoss(inner_lr=0.5, inner_steps=inner_steps)
    worker = Watched(loss)
    sent, task = worker.policy.flat.get(), worker.goal
    first = worker.sample()
    adapted = AdaptToTask().apply(worker, first)
    np.testing.assert_array_equal(worker.policy.flat.get(), sent)
    rows, phases = adapted.untyped(), inner_steps + 1
    assert (len(rows), rows.env_steps, rows.policy) == (12 * phases, 12 * phases, "default")
    assert rows["phase"].tolist() == [phase for phase in range(phases) for _ in range(12)]
    assert len(set(rows["task"].tolist())) == 1
    for name in first.untyped().columns:
        np.testing.assert_array_equal(rows[name][:12], first.untyped()[name])
    for phase in range(phases):
        part = rows.slice(12 * phase, 12 * (phase + 1))
        np.testing.assert_allclose(goal_of(part), task, atol=1e-4)
        assert part["advantages"].mean() == pytest.approx(0.0, abs=1e-5)
        assert part["advantages"].std() == pytest.approx(1.0, rel=1e-4)
    # each phase begins with fresh episodes, of 4 steps, in rollouts of 6
    assert rows["t"].tolist() == [0, 1, 2, 3, 0, 1] * 2 * phases
    # and the next rollout is about another task, from its beginning
    assert worker.goal != task
    later = worker.sample()
    np.testing.assert_array_equal(worker.acted_with[-1], sent)
    assert later.untyped()["t"].tolist() == [0, 1, 2, 3, 0, 1] * 2
    np.testing.assert_allclose(goal_of(later.untyped()), worker.goal, atol=1e-4)
    again = AdaptToTask().apply(worker, later).untyped()
    assert set(again["task"].tolist()).isdisjoint(rows["task"].tolist())


def test_tasks_of_different_workers_have_different_numbers() -> None:
    numbers: set[int] = set()
    for index in range(3):
        spec = WorkerSpec(NAVIGATION, {"default": Agent(MAMLLoss(), MLP((4,)))}, num_envs=1, fragment=1)  # a task is 2 steps
        worker = SingleWorker(spec, Shard("workers", index, 3, 0, seed=index))
        for _ in range(3):
            numbers |= set(AdaptToTask().apply(worker, worker.sample())["task"].tolist())
    assert len(numbers) == 9


@pytest.mark.parametrize("inner_steps", [1, 2])
def test_episodes_before_and_after_are_told_apart(inner_steps: int) -> None:
    """Two envs, rollouts of 6 steps, episodes of 4: each phase ends one per env."""
    worker = Watched(MAMLLoss(inner_steps=inner_steps))
    adapted = AdaptToTask().apply(worker, worker.sample())
    rows, summary = adapted.untyped(), adapted.summary
    assert isinstance(summary, Episodes)
    assert summary.phases.keys() == {"before", "after"}
    before, later = summary.phases["before"], summary.phases["after"]
    assert (before.count, later.count) == (2, 2)
    assert (summary.count, summary.returns, summary.lengths) == (later.count, later.returns, later.lengths)
    first = rows.slice(0, 12)
    sums = [float(piece["rewards"].sum()) for piece in first.pieces() if piece["truncated"][-1]]
    assert sorted(before.returns) == pytest.approx(sorted(sums), rel=1e-5)
    assert before.returns != later.returns


def test_a_task_whose_envs_failed_is_left_out() -> None:
    worker = Watched(MAMLLoss())
    nothing: Rollout = Batch({}, env_steps=5, summary=Episodes(discarded=2))
    task, adapted = worker.goal, AdaptToTask().apply(worker, nothing)
    assert (len(adapted), adapted.env_steps) == (0, 5)
    assert isinstance(adapted.summary, Episodes)
    assert (adapted.summary.count, adapted.summary.discarded) == (0, 2)
    assert worker.goal != task


def test_weights_are_restored_whatever_happens_meanwhile() -> None:
    worker = Watched(MAMLLoss())
    first, sent = worker.sample(), worker.policy.flat.get()
    worker.fails_after = 1
    with pytest.raises(RuntimeError, match="broken"):
        AdaptToTask().apply(worker, first)
    np.testing.assert_array_equal(worker.policy.flat.get(), sent)


# --------------------------------------------------------------------------- the baseline


@given(st.integers(1, 4), st.integers(1, 25), st.sampled_from([0.5, 30.0]), st.integers(0, 99))
@settings(max_examples=40)
def test_the_baseline_is_the_damped_least_squares_fit(size: int, rows: int, spread: float, seed: int) -> None:
    """Damping by d is the same as further rows: sqrt(d) for one feature each, and a return of 0."""
    rng = np.random.default_rng(seed)
    obs, time = rng.normal(0, spread, (rows, size)).astype(np.float32), rng.integers(0, 200, rows)
    returns = rng.normal(0, 5, rows)
    features = []
    for row in range(rows):
        near = [max(-10.0, min(10.0, float(x))) for x in obs[row]]
        t = int(time[row]) / 100
        features.append([*near, *(x**2 for x in near), t, t**2, t**3, 1.0])
    width = 2 * size + 4
    whole = np.concatenate([np.array(features), math.sqrt(1e-5) * np.eye(width)])
    found, _, _, _ = np.linalg.lstsq(whole, np.concatenate([returns, np.zeros(width)]), rcond=None)
    batch: Any = Batch({"obs": obs, "t": time})  # Any: only what the fit reads
    got = fitted(batch, returns)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, np.array(features) @ found, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("lam", [1.0, 0.5])
def test_advantages_are_over_the_baseline_and_standardised(lam: float) -> None:
    """Nothing is known of what follows a rollout, so it counts for nothing."""
    loss = MAMLLoss(gamma=0.9, lam=lam)
    rollout = Watched(loss).sample()
    rows = rollout.untyped()
    last = set(rows.ends.tolist())
    returns = np.zeros(12)
    for row in reversed(range(12)):
        returns[row] = float(rows["rewards"][row]) + (0.0 if row in last else 0.9 * returns[row + 1])
    baseline = fitted(rollout, returns)
    wanted = np.zeros(12)
    for row in reversed(range(12)):
        following, later = (0.0, 0.0) if row in last else (float(baseline[row + 1]), wanted[row + 1])
        wanted[row] = float(rows["rewards"][row]) + 0.9 * following - float(baseline[row]) + 0.9 * lam * later
    got = loss.with_advantages(rollout)["advantages"]
    np.testing.assert_allclose(got, (wanted - wanted.mean()) / wanted.std(), rtol=1e-3, atol=1e-3)


# --------------------------------------------------------------------------- sentences


def test_workers_with_another_loss_do_not_adapt() -> None:
    worker = Watched(A3CLoss(), PLANNED)
    with pytest.raises(TflowError, match=r"^AdaptToTask: workers with a A3CLoss do not adapt to tasks\. Give them a MAML"):
        AdaptToTask().apply(worker, worker.sample())
    workers = create_rollout_workers(env=PLANNED, loss=A3CLoss(), num_envs=2, fragment=6, model=MLP((4,)))
    with pytest.raises(OperatorError, match="workers with a A3CLoss do not adapt to tasks"):
        next(ParallelRollouts(workers).par_for_each(AdaptToTask()).gather_sync().run())


def test_an_env_without_tasks_is_named() -> None:
    with pytest.raises(EnvError, match=r"has no tasks\. To adapt to tasks, an env needs sample_task\(rng\), and reset\(\)"):
        Watched(MAMLLoss(), PLANNED)
    with pytest.raises(Exception, match=r"CartPole-v1: has no tasks\. To adapt to tasks"):
        next(tflow.algos.MAML(env="CartPole-v1", num_envs=1).plan().run())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inner_lr": 0.0}, "inner_lr must be"),
        ({"inner_steps": 0}, "inner_steps must be at least 1"),
        ({"clip": -1.0}, "clip must be"),
        ({"gamma": 2.0}, "gamma must be from 0 to 1"),
        ({"lam": 2.0}, "lam must be from 0 to 1"),
    ],
)
def test_sentences_at_plan_time(options: dict[str, Any], message: str) -> None:  # Any: numbers
    with pytest.raises(PlanError, match=message):
        loose.losses.MAMLLoss(**options)


# --------------------------------------------------------------------------- the plan

TINY: dict[str, Any] = {  # Any: fields of several types
    "env": NAVIGATION,
    "num_workers": 2,
    "num_envs": 2,
    "fragment": 4,
    "tasks": 2,
    "model": MLP((4,)),
}


def numbers(found: Metrics) -> dict[str, float]:
    """What does not depend on the clock."""
    left_out = ("seconds", "busy", "staleness", "worst_staleness")
    return {name: value for name, value in found.flat().items() if not name.startswith(left_out) and "per_s" not in name}


def reports(count: int, runtime: str = "local", seed: int = 0, **more: Any) -> list[Metrics]:  # Any: fields of several types
    with RUNTIMES[runtime]() as session, tflow.algos.MAML(**{**TINY, **more}).plan().run(runtime=session, seed=seed) as run:
        return [next(run) for _ in range(count)]


@over_repeatable_runtimes
@pytest.mark.parametrize("inner_steps", [1, 2])
def test_the_plan_gives_one_sequence_on_every_runtime(runtime: str, inner_steps: int) -> None:
    found = reports(3, runtime, inner_steps=inner_steps, epochs=2)
    per_round = 2 * 2 * (1 + inner_steps) * 2 * 4  # workers, tasks, rollouts per task, envs, steps
    assert [each.env_steps for each in found] == [per_round, 2 * per_round, 3 * per_round]
    assert [each.training.updates for each in found] == [2, 4, 6]
    assert found[-1].training.worst_lag == 0
    # every rollout is as long as an episode, so each of them ends one in each env
    assert found[-1].episodes.count == 3 * 2 * 2 * 2
    assert {name: each.count for name, each in found[-1].episodes.phases.items()} == {"before": 24, "after": 24}
    shown = found[-1].flat()
    assert shown["return"] == shown["after/return"] != shown["before/return"]
    assert list(map(numbers, found)) == list(map(numbers, reports(3, "local", inner_steps=inner_steps, epochs=2)))


def test_another_seed_gives_other_numbers() -> None:
    one, again, other = (list(map(numbers, reports(2, seed=seed))) for seed in (1, 1, 2))
    assert one == again
    assert one != other


@pytest.mark.parametrize("inner_steps", [1, 2])
def test_the_learner_adapts_as_the_workers_did(inner_steps: int) -> None:
    """So in the first epoch nothing has moved, and of standardised advantages nothing is gained."""
    for found in reports(3, inner_steps=inner_steps, epochs=1, inner_lr=0.5):
        latest = found.training.latest
        assert latest["kl"] < 1e-8
        assert abs(latest["policy_loss"]) < 1e-5
