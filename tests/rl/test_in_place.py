"""Training in place: workers that sample, average gradients among themselves, and stay equal."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

import tflow.algos
from tests.laws.world import RUNTIMES, dice
from tflow import Batch, ComputeAdvantages, ParallelRollouts, PlanError, ReportMetrics, Shard, Stop, create_rollout_workers
from tflow.algos import DDPPO, PPO, SinglePolicy
from tflow.errors import ShardFailed, TflowError
from tflow.losses import A3CLoss, PPOLoss
from tflow.models import GRU, LSTM, MLP
from tflow.rl.envs.samples import MultiCartPole
from tflow.rl.learning.gradients import AverageGradients
from tflow.rl.learning.in_place import AgreeOnBatch, ApplyInPlace, GradientsInPlace, HoldRollout, TakeShare
from tflow.rl.rollout.worker import SingleWorker
from tflow.rl.rollout.worker_spec import LearnerSpec
from tflow.runtime.sim import Faults, SimRuntime

loose: Any = tflow.algos  # Any: what checkers would reject, said at run time
TINY = MLP((8,))
WHOLE: dict[str, Any] = {"epochs": 3, "minibatch": None, "max_kl": None, "model": TINY}  # Any: several kinds
ONE = PPO(num_workers=3, num_envs=4, fragment=16, **WHOLE)


def together(one: PPO, **options: Any) -> DDPPO:  # Any: of several kinds
    """The same, decentralised."""
    return DDPPO(**{name: value for name, value in vars(one).items() if name != "num_learners"}, **options)


def weights_of(algorithm: SinglePolicy, *, updates: int = 12) -> np.ndarray[Any, Any]:  # Any: shape and dtype of weights
    run = algorithm.run(stop=Stop(updates=updates), seed=5)
    run.finish()
    return run.policy().flat.get(acting=True)


@pytest.mark.parametrize("sync_fraction", [1.0, 0.6])
@pytest.mark.parametrize(
    "one",
    [ONE, replace(ONE, model=LSTM(8)), replace(ONE, model=GRU(8)), replace(ONE, normalize_rewards=False, lr=1e-2)],
    ids=["mlp", "lstm", "gru", "raw"],
)
def test_it_learns_what_ppo_learns_from_all_rollouts_together(one: PPO, sync_fraction: float) -> None:
    alone, apart = weights_of(one), weights_of(together(one, sync_fraction=sync_fraction))
    assert np.abs(alone - weights_of(one, updates=3)).max() > 1e-3, "else everything is equal"
    np.testing.assert_allclose(apart, alone, atol=2e-5)


def test_epochs_end_early_where_those_of_ppo_do() -> None:
    """A share of few rows has a noisy divergence, which does not decide alone."""
    one = PPO(num_workers=4, num_envs=2, fragment=16, epochs=30, minibatch=None, lr=0.02, model=TINY)

    def updates(algorithm: SinglePolicy) -> list[int]:
        with algorithm.run(seed=2) as run:
            return [next(run).training.updates for _ in range(5)]

    assert updates(one)[-1] < 120, "else none would end early"
    assert updates(together(one)) == updates(one)


def sampled(lengths: list[int]) -> list[SingleWorker]:
    """Workers that have taken so many steps each."""
    spec = ONE.workers(ONE.loss()).spec
    workers = [SingleWorker(spec, Shard("workers", k, len(lengths), 0, k, session_seed=3)) for k in range(len(lengths))]
    for worker, steps in zip(workers, lengths, strict=True):
        for _ in range(steps):
            worker.take_step()
    return workers


@settings(max_examples=12)
@given(lengths=st.lists(st.integers(1, 16), min_size=1, max_size=4), minibatch=st.sampled_from([None, 20, 60]))
def test_rollouts_of_any_lengths_give_the_gradient_of_all_rows(lengths: list[int], minibatch: int | None) -> None:
    workers, advantages = sampled(lengths), ComputeAdvantages()
    held = [worker.finish_rollout() for worker in workers]
    rollouts: list[Batch[str]] = [each.untyped().with_columns({**advantages.compute(each)}) for each in held]
    loss = ONE.loss()
    sizes = [HoldRollout(loss).apply(worker, each) for worker, each in zip(workers, rollouts, strict=True)]
    assert [size.rows for size in sizes] == [len(each) for each in rollouts]
    assert [size.cut for size in sizes] == [steps < 16 for steps in lengths]
    whole = AgreeOnBatch().apply(sizes)
    batches = [TakeShare("default", 1, minibatch, pieces=False).apply(worker, whole) for worker in workers]
    assert len({len(each) for each in batches}) == 1, "all make as many steps"
    learner = LearnerSpec(workers[0].spec, "default")(Shard("learner", 0, 1, 0, 0, session_seed=3))
    seen = 0
    for parts in zip(*batches, strict=True):
        mean = AverageGradients().apply([GradientsInPlace().apply(w, part) for w, part in zip(workers, parts, strict=True)])
        seen += mean.rows
        if minibatch is None:
            joined: Batch[str] = Batch.concat(rollouts)
            expected, _ = learner.gradients(joined)
            np.testing.assert_allclose(mean.values, expected, atol=1e-5, rtol=1e-3)
        for worker in workers:
            ApplyInPlace().apply(worker, mean)
    assert seen == sum(map(len, rollouts)), "every row counts once"
    assert len({worker.replica("default").digest() for worker in workers}) == 1


@settings(max_examples=15)
@given(tape=st.lists(st.integers(0, 5), max_size=300))
def test_what_is_cut_is_used_and_all_stay_equal(tape: list[int]) -> None:
    algorithm = together(replace(ONE, fragment=6, minibatch=16), sync_fraction=0.6)
    plan = algorithm.plan()
    assert isinstance(plan, ReportMetrics)
    with SimRuntime(tape) as session, plan.run(runtime=session) as run:
        found = [next(run) for _ in range(2)]
        digests = run.ask(plan.workers, lambda worker: worker.replica("default").digest())
        weights = plan.workers.policy(run).flat.get()
        held = run.ask(plan.workers, lambda worker: worker.policies["default"].flat.get())
    assert len(set(digests)) == 1
    for each in held:
        np.testing.assert_array_equal(each, weights)
    assert found[-1].training.rows == found[-1].env_steps, "all that was sampled was trained on"
    assert found[-1].training.mean_lag == 0


def test_the_tape_decides_who_is_cut() -> None:
    def cut(tape: list[int]) -> list[float]:
        with SimRuntime(tape) as session, together(replace(ONE, fragment=6)).plan().run(runtime=session) as run:
            return [next(run).training.latest["preempted"] for _ in range(2)]

    assert cut([]) == [0.0, 0.0]
    assert cut([1] * 200) == cut([1] * 200)
    assert any(sum(cut([k % 3, k % 2] * 60)) for k in range(6))


class Slow(gymnasium.Env[Any, Any]):
    """Each step takes a while in the last process that begins."""

    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)

    def __init__(self, folder: Path) -> None:
        Path(folder, str(os.getpid())).touch()
        self.folder, self.t = folder, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if max(map(int, os.listdir(self.folder))) == os.getpid():
            self.t += 1
            self.when_slow()
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), float(action), False, False, {}

    def when_slow(self) -> None:
        time.sleep(0.3)


class Dies(Slow):
    """The process of one worker ends in its third rollout."""

    def when_slow(self) -> None:
        if self.t > 20:
            os._exit(1)


def on_ray(make: Any, **options: Any) -> DDPPO:  # Any: an env of two numbers, options of several kinds
    return together(replace(ONE, env=make, num_envs=1, fragment=10), **options)


@pytest.mark.ray
def test_a_slow_worker_does_not_hold_up_the_others(tmp_path: Path) -> None:
    with RUNTIMES["ray"]() as session, on_ray(lambda: Slow(tmp_path)).plan().run(runtime=session) as run:
        found = [next(run) for _ in range(2)]
    assert [each.training.latest["preempted"] for each in found] == [1.0, 1.0]
    assert found[-1].training.rows == found[-1].env_steps
    assert 2 * (10 + 10 + 1) <= found[-1].env_steps < 2 * (10 + 10 + 10)


@pytest.mark.ray
@pytest.mark.parametrize("sync_fraction", [1.0, 0.6])
def test_a_worker_that_dies_is_named_or_leaves_the_group(tmp_path: Path, sync_fraction: float) -> None:
    algorithm = on_ray(lambda: Dies(tmp_path), sync_fraction=sync_fraction)
    named = pytest.raises(ShardFailed, match=r"[Ss]hard workers(#\d+)?\[\d\]")
    with RUNTIMES["ray"]() as session, algorithm.plan().run(runtime=session) as run, named:
        for _ in range(4):
            next(run)
    for path in tmp_path.iterdir():
        path.unlink()
    with RUNTIMES["ray"]() as session, replace(algorithm, on_death="skip").plan().run(runtime=session) as run:
        found = [next(run) for _ in range(5)]
    assert found[-1].training.updates == 15
    assert found[-1].env_steps - found[-2].env_steps == 20, "of two workers"


ASKED: list[int] = []


@dataclass(frozen=True)
class Spied:
    """A learning rate that tells when it was asked for, also in copies."""

    def at(self, steps: int, /) -> float:
        ASKED.append(int(steps))
        return 1e-3


@pytest.mark.parametrize("seed", range(4))
def test_schedules_never_run_backwards_when_a_worker_dies(seed: int) -> None:
    ASKED.clear()
    algorithm = together(replace(ONE, num_envs=2, fragment=10, epochs=1, lr=Spied()), on_death="skip")
    with SimRuntime(dice(seed), Faults(dies_before=1, calm=60)) as session, algorithm.plan().run(runtime=session) as run:
        found = [next(run).env_steps for _ in range(7)]
    assert sorted(ASKED) == ASKED
    assert ASKED[-1] > found[0], "else it was not asked"
    assert found[1] - found[0] > found[-1] - found[-2], "one has died"


@pytest.mark.ray
def test_in_processes_it_does_the_same() -> None:
    algorithm = together(ONE, sync_fraction=1)

    def found(runtime: str) -> Mapping[str, float]:
        with RUNTIMES[runtime]() as session, algorithm.plan().run(runtime=session, seed=2) as run:
            return [next(run).training.latest for _ in range(3)][-1]

    assert found("ray") == pytest.approx(found("local"), rel=1e-4)


@pytest.mark.parametrize("sync_fraction", [1.0, 0.6])
def test_runs_resume_bit_for_bit(tmp_path: Path, sync_fraction: float) -> None:
    algorithm = together(replace(ONE, minibatch=24), sync_fraction=sync_fraction)

    def losses(run: Any, count: int) -> list[Mapping[str, float]]:  # Any: a run of metrics
        return [next(run).training.latest for _ in range(count)]

    with algorithm.plan().run(seed=2) as whole:
        losses(whole, 3)
        expected = losses(whole, 3)
    with algorithm.plan().run(seed=2) as first:
        losses(first, 3)
        first.save(tmp_path / "saved")
    with algorithm.plan().run(resume=tmp_path / "saved") as second:
        assert losses(second, 3) == expected


def test_an_open_rollout_is_part_of_the_state_of_a_worker() -> None:
    (one,), (other,) = sampled([5]), sampled([0])
    other.load(one.state())
    for worker in (one, other):
        for _ in range(3):
            worker.take_step()
    left, right = one.finish_rollout(), other.finish_rollout()
    assert len(left) == len(right) == 4 * 8
    np.testing.assert_array_equal(left["obs"], right["obs"])
    np.testing.assert_array_equal(left.ends, right.ends)


def test_a_rollout_in_steps_is_the_rollout() -> None:
    (stepwise,), (once,) = sampled([16]), sampled([0])
    left, right = stepwise.finish_rollout().untyped(), once.sample().untyped()
    for name in right.columns:
        np.testing.assert_array_equal(left[name], right[name])
    for name in right.finals:
        np.testing.assert_array_equal(left.finals[name], right.finals[name])
    with pytest.raises(TflowError, match="has no open rollout"):
        stepwise.finish_rollout()


def test_what_cannot_be_is_a_sentence() -> None:
    with pytest.raises(PlanError, match=r"DDPPO: sync_fraction must be from 0 to 1, got 1.5"):
        DDPPO(sync_fraction=1.5)
    with pytest.raises(PlanError, match="DDPPO: every worker trains, so there are no learners to count; got num_learners=2"):
        DDPPO(num_learners=2)
    with pytest.raises(PlanError, match="DDPPO: workers train where they sample, on CPUs; got device='cuda'"):
        DDPPO(device="cuda")
    several = create_rollout_workers(env=MultiCartPole, losses={"a": PPOLoss()}, policy_of=lambda _: "a")
    with pytest.raises(PlanError, match="learn_in_place: workers have several policies"):
        loose.learn_in_place(ParallelRollouts(several), several, loss=A3CLoss())
