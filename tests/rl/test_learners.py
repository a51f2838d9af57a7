"""Several learners: batches are divided, gradients averaged, and all learners stay equal."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.world import RUNTIMES
from tflow import (
    Batch,
    ComputeAdvantages,
    ConcatRounds,
    ParallelRollouts,
    PlanError,
    ReportMetrics,
    Stop,
    create_rollout_workers,
)
from tflow.actors import LearnerActors, create_learners
from tflow.algos import APPO, DDPG, DQN, IMPALA, PPO, R2D2, SAC, TD3, ApeX, CrossQ, SinglePolicy, learn_together
from tflow.combinators.graph import actors_in
from tflow.envs import EnvSpec
from tflow.errors import ShardFailed, TflowError
from tflow.losses import A3CLoss, PPOLoss
from tflow.models import LSTM, MLP
from tflow.rl.data.batch import Rollout
from tflow.rl.learning.learners import ApplyTogether, divided
from tflow.rl.learning.losses import Loss, PPOReads
from tflow.types import Stateful, Sync

TINY = MLP((8,))
REPLAYED: dict[str, Any] = {  # Any: several kinds
    "num_envs": 2,
    "fragment": 4,
    "learning_starts": 40,
    "batch": 12,
    "capacity": 300,
    "update_ratio": 0.5,
    "model": TINY,
    "n_step": 1,
    "prioritized": False,
}


ALGORITHMS: dict[str, Any] = {  # Any: with num_learners
    "PPO": PPO(num_envs=4, fragment=8, epochs=3, minibatch=None, model=TINY),
    "recurrent PPO": PPO(num_envs=4, fragment=8, epochs=2, minibatch=None, model=LSTM(8)),
    "IMPALA": IMPALA(num_envs=4, fragment=8, model=TINY, normalize_obs=False, normalize_rewards=False),
    "APPO": APPO(num_envs=4, fragment=8, model=TINY, normalize_obs=False, normalize_rewards=False, replay_proportion=0.0),
    "DQN": DQN(**REPLAYED, target_every=5),
    "R2D2": R2D2(
        num_envs=2,
        fragment=12,
        length=8,
        burn_in=4,
        learning_starts=50,
        batch=6,
        capacity=400,
        update_ratio=0.5,
        model=LSTM(4, TINY),
        normalize_obs=False,
    ),
    "SAC": SAC(**{**REPLAYED, "fragment": 2}, env="CartPole-v1"),  # discrete actions: no learner draws any
    "TD3": TD3(**{**REPLAYED, "fragment": 2}, env="Pendulum-v1", smoothing=0.0),
    "DDPG": DDPG(**{**REPLAYED, "fragment": 2}, env="Pendulum-v1"),
}


def trained(algorithm: SinglePolicy, *, updates: int = 12) -> np.ndarray[Any, Any]:  # Any: shape and dtype of weights
    run = algorithm.run(stop=Stop(updates=updates), seed=5)
    run.finish()
    return run.policy().flat.get(acting=True)


@pytest.mark.parametrize("num", [2, 3])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_several_learners_learn_what_one_learns_from_the_whole_batch(name: str, num: int) -> None:
    one = ALGORITHMS[name]
    alone, together = trained(one), trained(replace(one, num_learners=num))
    start = one.run(seed=5)
    with start:
        moved = np.abs(alone - start.policy(untrained=True).flat.get(acting=True)).max()
    assert moved > 1e-3, "else everything is equal"
    np.testing.assert_allclose(together, alone, atol=0.02 * moved)


def learners_of(algorithm: SinglePolicy, updates: int, runtime: str = "local") -> list[tuple[str, int]]:
    """The hash of the weights of each learner, and how many updates it made."""
    plan = algorithm.plan()
    actors = next(each for each in actors_in(plan.node) if isinstance(each, LearnerActors))
    with RUNTIMES[runtime]() as session, plan.run(runtime=session) as run:
        while next(run).training.updates < updates:
            pass
        return run.ask(actors, lambda learner: (learner.digest(), learner.updates))


@pytest.mark.parametrize(
    "algorithm",
    [
        PPO(num_envs=4, fragment=16, epochs=2, minibatch=30, model=TINY, num_learners=3),
        PPO(num_envs=4, fragment=16, epochs=2, minibatch=30, model=LSTM(8), num_learners=2),
        IMPALA(num_envs=5, fragment=8, model=TINY, num_learners=4),
        DQN(**{**REPLAYED, "prioritized": True}, noisy=True, num_learners=2),
        SAC(**{**REPLAYED, "fragment": 2}, env="Pendulum-v1", actor_every=2, num_learners=3),
        SAC(**{**REPLAYED, "fragment": 2}, num_learners=2),
        ApeX(**{**REPLAYED, "prioritized": True}, num_learners=2),
    ],
    ids=lambda each: f"{type(each).__name__}-{each.num_learners}",
)
def test_the_weights_of_all_learners_stay_equal(algorithm: SinglePolicy) -> None:
    found = learners_of(algorithm, 12)
    assert len(found) > 1
    assert len(set(found)) == 1
    assert found[0][1] >= 12


@pytest.mark.ray
@pytest.mark.parametrize("name", ["PPO", "DQN"])
def test_learners_in_processes_do_the_same(name: str) -> None:
    algorithm = replace(ALGORITHMS[name], num_learners=2)
    assert learners_of(algorithm, 6, "ray") == learners_of(algorithm, 6)


@dataclass(frozen=True)
class Deadly(PPOLoss):
    """Ends the process of one learner at its second batch."""

    driver: int = 0
    folder: str = ""

    def prepare(self, batch: Batch[str], /) -> Batch[str]:
        begun = len(os.listdir(self.folder))
        Path(self.folder, f"{begun}-{os.getpid()}").touch()
        if begun >= 2 and os.getpid() != self.driver:
            os._exit(1)
        return super().prepare(batch)


@pytest.mark.ray
def test_a_learner_that_dies_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    class Dies(PPO):
        def loss(self) -> Loss[PPOReads, Sync]:
            return Deadly(driver=os.getpid(), folder=str(tmp_path))

    algorithm = Dies(num_envs=4, fragment=8, model=TINY, minibatch=None, epochs=1, num_learners=2)
    with RUNTIMES["ray"]() as session, algorithm.plan().run(runtime=session) as run:
        assert next(run).training.updates == 1
        with pytest.raises(ShardFailed, match=r"[Ss]hard learners(#\d+)?\[\d\]"):
            next(run)


def test_priorities_of_all_rows_come_back() -> None:
    seen: list[int] = []
    algorithm = DQN(**{**REPLAYED, "prioritized": True}, num_learners=2)
    plan = algorithm.plan().tapped("OneOfEqual", lambda stats: seen.append(len(stats.td_errors[0])))
    with plan.run() as run:
        for _ in range(5):
            next(run)
    assert seen[:5] == [12] * 5


class Apart(ApplyTogether):
    """One learner loses an update."""

    def apply(self, actor: Any, item: Any, /) -> Any:  # Any: as the operator has it
        found = super().apply(actor, item)
        if not actor.is_first:
            with torch.no_grad():
                actor.policy.flat.values[0] += 1
        return found


def test_learners_that_differ_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from tflow.rl.learning import learners

    monkeypatch.setattr(learners, "ApplyTogether", lambda: Apart(compared_every=1))
    algorithm = PPO(num_envs=4, fragment=8, model=TINY, minibatch=None, num_learners=3)
    with algorithm.run() as run, pytest.raises(TflowError, match="The weights of learner 1 and 2 differ from those of learner 0"):
        for _ in range(3):
            next(run)


class StoppingPPO(PPO):
    """As above, but the epochs on a batch may end early."""

    def loss(self) -> Loss[PPOReads, Sync]:
        return PPOLoss(scale_values=False, normalize=False)


@pytest.mark.parametrize("num", [2, 3])
def test_the_kl_of_all_shares_together_ends_the_epochs(num: int) -> None:
    one = StoppingPPO(num_workers=4, num_envs=2, fragment=16, epochs=30, minibatch=None, lr=0.02, model=TINY)

    def updates(algorithm: PPO) -> list[int]:
        with algorithm.run(seed=2) as run:
            return [next(run).training.updates for _ in range(5)]

    assert updates(one)[-1] < 120, "else none would end early"
    assert updates(replace(one, num_learners=num)) == updates(one)


@pytest.mark.parametrize("algorithm", [replace(ALGORITHMS["PPO"], num_learners=2), replace(ALGORITHMS["TD3"], num_learners=2)])
def test_runs_with_several_learners_resume_bit_for_bit(algorithm: SinglePolicy, tmp_path: Path) -> None:
    def losses(run: Any, count: int) -> list[Mapping[str, float]]:  # Any: a run of metrics
        return [next(run).training.latest for _ in range(count)]

    with algorithm.plan().run(seed=2) as whole:
        losses(whole, 4)
        expected = losses(whole, 4)
    with algorithm.plan().run(seed=2) as first:
        losses(first, 4)
        first.save(tmp_path / "saved")
    with algorithm.plan().run(resume=tmp_path / "saved") as second:
        assert losses(second, 4) == expected


# --------------------------------------------------------------------------- dividing batches


@given(lengths=st.lists(st.integers(1, 9), min_size=4, max_size=20), num=st.integers(1, 4), pieces=st.booleans())
def test_shares_are_the_batch_in_order_and_as_equal_as_may_be(lengths: list[int], num: int, pieces: bool) -> None:
    ends = np.cumsum(lengths) - 1
    batch: Batch[str] = Batch({"x": np.arange(ends[-1] + 1)}, ends=ends)
    shares = divided(batch, num, pieces=pieces)
    assert np.concatenate([each["x"] for each in shares]).tolist() == list(range(len(batch)))
    assert len(shares) == num
    assert min(map(len, shares)) > 0
    if pieces:
        assert np.concatenate([each.ends - each.starts + 1 for each in shares]).tolist() == lengths
    else:
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize(
    ("rows", "num", "pieces", "lengths"),
    [(6, 2, True, [6, 0]), (6, 7, False, [1, 1, 1, 1, 1, 1, 0]), (0, 2, False, [0, 0]), (0, 3, True, [0, 0, 0])],
)
def test_where_there_is_too_little_for_all_the_last_have_nothing(rows: int, num: int, pieces: bool, lengths: list[int]) -> None:
    batch: Batch[str] = Batch({"x": np.arange(rows)}, ends=np.array([rows - 1] if rows else [], np.int64))
    shares = divided(batch, num, pieces=pieces)
    assert list(map(len, shares)) == lengths
    assert [each.columns.keys() for each in shares] == [batch.columns.keys()] * num


class Failing(gymnasium.Env[Any, Any]):
    """One step in twenty fails, so episodes are discarded."""

    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # Any: as gymnasium has it
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:  # Any: as above
        if self.np_random.random() < 0.05:
            raise OSError("broken")
        return np.zeros(2, np.float32), 1.0, False, False, {}


def test_discarded_episodes_may_leave_too_little_for_all_learners() -> None:
    env = EnvSpec(Failing, vectorizer="loop", on_error="restart")
    found = learners_of(IMPALA(env=env, num_envs=2, fragment=8, model=TINY, num_learners=2), 30)
    assert len(set(found)) == 1


class EveryOther(Stateful[Rollout, Rollout, int]):
    """Each second batch is left as it is, the others are emptied."""

    def init(self) -> int:
        return 0

    def step(self, state: int, item: Rollout, /) -> tuple[int, Rollout]:
        return state + 1, item if state % 2 else item.slice(0, 0)


@pytest.mark.parametrize("minibatch", [None, 5])
def test_empty_batches_are_passed_over(minibatch: int | None) -> None:
    workers = create_rollout_workers(env="CartPole-v1", loss=PPOLoss(), num_envs=2, fragment=4, model=TINY)
    batches = ConcatRounds(ParallelRollouts(workers).gather_rounds()).for_each(EveryOther()).with_columns(ComputeAdvantages())
    updates, rows = 0, 0
    with ReportMetrics(learn_together(batches, workers, num=2, minibatch=minibatch), workers).run() as run:
        for _ in range(4):
            training = next(run).training
            assert training.rows - rows in (14, 15, 16), "CartPole may spend a step on beginning anew"
            updates += math.ceil((training.rows - rows) / (minibatch or 16))
            rows = training.rows
            assert training.updates == updates


# --------------------------------------------------------------------------- describing them


def test_learners_are_dealt_devices_in_turn() -> None:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss(), num_envs=2, fragment=4, model=TINY)
    learners = create_learners(workers, num=3, devices=("cpu", "cpu:1"))
    assert [learners.make.devices[k % 2] for k in range(3)] == ["cpu", "cpu:1", "cpu"]  # type: ignore[attr-defined]  # its own kind
    with pytest.raises(PlanError, match="create_learners: device must be one of torch's"):
        create_learners(workers, num=2, devices=("gpu",))


def test_what_cannot_be_is_a_sentence() -> None:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss(), num_envs=2, fragment=4, model=TINY)
    stream = ConcatRounds(ParallelRollouts(workers).gather_rounds())
    with pytest.raises(PlanError, match="num must be at least 1"):
        learn_together(stream, workers, num=0)
    with pytest.raises(PlanError, match="epochs must be at least 1"):
        learn_together(stream, workers, num=2, epochs=0)
    with pytest.raises(PlanError, match=r"workers train A3CLoss\(.*but loss is A3CLoss\(gamma=0.5"):
        learn_together(stream, workers, num=2, loss=A3CLoss(gamma=0.5))
    with pytest.raises(PlanError, match="there is no policy"):
        create_learners(workers, num=2, policy="other")
    with pytest.raises(PlanError, match="CrossQ: its normalisation needs whole batches, so it has one learner; got 2"):
        CrossQ(num_learners=2)
    with pytest.raises(PlanError, match="IMPALA: num_learners must be at most 4"):
        IMPALA(num_envs=4, num_learners=5)


def test_on_policy_losses_ask_for_fresh_batches_and_their_columns() -> None:
    workers = create_rollout_workers(env="CartPole-v1", loss=PPOLoss(), num_envs=2, fragment=4, model=TINY)
    stream: Any = ParallelRollouts(workers).gather_async()  # Any: what checkers would reject, said at validation
    with pytest.raises(PlanError, match=r"advantages|synchronous"):
        ReportMetrics(learn_together(stream, workers, num=2), workers).validate()
