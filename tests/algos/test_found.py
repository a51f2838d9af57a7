"""What was found by using the algorithms hard: each was wrong once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import tflow
from tests.rl.test_plans import ENV, SMALL
from tests.rl.toy_envs import PlannedEnv
from tflow import (
    LearnOnBatch,
    Metrics,
    ParallelReplay,
    ParallelRollouts,
    PlanError,
    ReportMetrics,
    Stop,
    StoreToBuffer,
    TrainOneStep,
    Union,
    UpdateTargetNetwork,
    create_learner,
    create_replay_actors,
    create_rollout_workers,
    train,
)
from tflow.algos import A2C, A3C, DQN, IMPALA, PPO, Algorithm, ApeX, a3c_plan
from tflow.envs import EnvSpec
from tflow.exploration import ApexEpsilons, EpsilonGreedy
from tflow.losses import DQNLoss, IMPALALoss, PPOLoss
from tflow.models import MLP, QSpec
from tflow.rl.learning.learner import Learner
from tflow.rl.policy.policy import QPolicy
from tflow.rl.policy.policy_spec import make_policy
from tflow.rl.policy.tensors import Tensors
from tflow.rl.replay.replay import ReplayActor
from tflow.rl.rollout.worker_spec import CurrentPolicy
from tflow.schedules import Linear

TINY = MLP((4,))
BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)


def test_a_policy_that_was_taken_stays_as_it_was() -> None:
    with PPO(num_envs=2, fragment=8, model=TINY).run() as run:
        next(run)
        taken = run.policy()
        before = taken.flat.get()
        next(run)
        np.testing.assert_array_equal(taken.flat.get(), before)
        assert (run.policy().flat.get() != before).any()


def noisy_learner() -> Learner:
    loss = DQNLoss(spec=QSpec(noisy=True))
    return Learner(make_policy(loss.policy(), TINY, BOX, spaces.Discrete(3)), loss, tflow.optimizers.Adam(), seed=7)


def test_policy_and_target_have_noise_of_their_own_that_the_seed_decides() -> None:
    learner, twin = noisy_learner(), noisy_learner()
    target, policy = learner.target, learner.policy
    assert isinstance(target, QPolicy)
    assert isinstance(policy, QPolicy)
    assert torch.rand(3, generator=policy.generator).tolist() != torch.rand(3, generator=target.generator).tolist()
    assert twin.policy.generator.initial_seed() == policy.generator.initial_seed() == 7


def test_noisy_networks_learn_with_noise_whoever_acted_meanwhile() -> None:
    with DQN(noisy=True, epsilon=0.0, num_envs=2, learning_starts=40, batch=8, model=TINY).run() as run:
        next(run)
        run.policy().act(np.zeros(4, np.float32), deterministic=True)
        next(run)
        (training,) = run.run.ask(run.workers.learner, is_training)
    assert training


def is_training(current: CurrentPolicy) -> bool:
    return current.learner.policy.module.training


def test_targets_never_come_from_an_action_that_is_not_allowed() -> None:
    loss = DQNLoss()
    policy = make_policy(loss.policy(), TINY, BOX, spaces.Discrete(3))
    assert isinstance(policy, QPolicy)
    obs = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    values = policy.scores(obs)
    masks = np.ones_like(values, dtype=bool)
    masks[np.arange(20), values.argmax(axis=1)] = False
    columns = {"next_obs": obs, "rewards": np.zeros(20, np.float32), "discounts": np.ones(20, np.float32), "next_masks": masks}
    td_targets = loss.td_targets(policy, policy, Tensors.of(tflow.Batch(columns)))
    np.testing.assert_allclose(td_targets.numpy(), np.where(masks, values, -np.inf).max(axis=1), rtol=1e-5)


@pytest.mark.parametrize("n_step", [1, 2])
def test_replay_knows_what_is_allowed_next(n_step: int) -> None:
    plans = (((3, "terminated"), (4, "truncated")),)
    env = EnvSpec(partial(PlannedEnv, plans, masks=True))
    workers = create_rollout_workers(env=env, loss=DQNLoss(), **SMALL)
    replay = create_replay_actors(min_size=12, kind="uniform", n_step=n_step)
    with ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay)).run() as run:
        rows = next(run).untyped()
        next(run)
        (stored, *_) = run.ask(replay, lambda actor: columns_of(actor, len(rows)))
    following = rows.successors("masks")["masks"]
    ahead = np.minimum(np.arange(len(rows)) + n_step - 1, np.repeat(rows.ends, rows.ends - rows.starts + 1))
    np.testing.assert_array_equal(stored, following[ahead])
    assert not following.all(), "otherwise nothing would be forbidden"


def columns_of(actor: ReplayActor, rows: int) -> Any:  # Any: an array
    return actor.buffer.state()["columns/next_masks"][:rows]  # type: ignore[index]  # one of many kinds


@pytest.mark.parametrize("tried", [EpsilonGreedy(0.1), ApexEpsilons()])
@pytest.mark.parametrize("loss", [PPOLoss(), IMPALALoss()])
def test_who_draws_actions_does_not_explore_by_others(tried: Any, loss: Any) -> None:  # Any: several kinds
    with pytest.raises(PlanError, match="is for off-policy learning"):
        create_rollout_workers(env="CartPole-v1", loss=loss, exploration=tried)


def test_a_learner_elsewhere_needs_what_its_loss_needs() -> None:
    workers = create_rollout_workers(env=ENV, loss=PPOLoss(), **SMALL)
    learner, rollouts = create_learner(workers), ParallelRollouts(workers)
    with pytest.raises(PlanError, match='"LearnOnBatch" reads the columns advantages and returns'):
        rollouts.gather_sync().call(learner, LearnOnBatch()).validate()
    ready = rollouts.par_with_columns(tflow.ComputeAdvantages())
    with pytest.raises(PlanError, match='"LearnOnBatch" needs a synchronous stream, but "gather_async'):
        ready.gather_async().call(learner, LearnOnBatch()).validate()
    with pytest.raises(PlanError, match='"LearnOnBatch" needs a synchronous stream, but "hand_off'):
        ready.gather_sync().hand_off(learner, LearnOnBatch()).validate()
    ready.gather_sync().call(learner, LearnOnBatch()).validate()


def test_who_renews_targets_by_an_operator_is_not_overruled() -> None:
    workers = create_rollout_workers(env=ENV, loss=DQNLoss(target_every=2), **SMALL)
    replay = create_replay_actors(capacity=100, batch=8, min_size=10)
    store = ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay))
    train_op = ParallelReplay(replay).gather_sync().for_each(TrainOneStep(workers))
    with Union(store.drain(), train_op.for_each(UpdateTargetNetwork(workers, every=5))).run() as run:
        renewed = [run.ask(workers.learner, target_updated_at)[0] for _ in zip(range(11), run, strict=False)]
    assert renewed == [0] * 4 + [5] * 5 + [10] * 2


def target_updated_at(current: CurrentPolicy) -> int:
    return current.learner.target_updated_at


def test_a_stop_function_that_fails_ends_the_run() -> None:
    def failing(metrics: Metrics) -> bool:
        raise ZeroDivisionError

    run = A2C(num_envs=2, model=TINY).run(stop=failing)
    with pytest.raises(ZeroDivisionError):
        next(run)
    assert list(run) == []
    with pytest.raises(tflow.errors.RunClosed):
        next(run.run)


def test_targets_look_ahead_no_further_than_a_rollout() -> None:
    with pytest.raises(PlanError, match="DQN: n_step must be at most 4, got 5"):
        DQN(fragment=4, n_step=5)


class Frail(gymnasium.Env[Any, Any]):  # Any: as gymnasium has it
    """Its steps fail for a while, again and again, so that whole rollouts are lost."""

    observation_space = BOX
    action_space = spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:  # Any: gymnasium's
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:  # Any: gymnasium's
        Frail.steps += 1
        if Frail.steps % 40 > 32:
            raise RuntimeError("out of order")
        return np.zeros(2, np.float32), 1.0, False, False, {}


FRAIL: dict[str, Any] = {  # Any: several kinds
    "env": EnvSpec(Frail, on_error="restart"),
    "num_workers": 1,
    "num_envs": 1,
    "fragment": 4,
    "model": TINY,
}


@pytest.mark.parametrize(
    "algorithm",
    [
        A3C(**FRAIL),
        A2C(**FRAIL),
        PPO(**FRAIL, minibatch=4, epochs=1),
        IMPALA(**FRAIL),
        DQN(**FRAIL, learning_starts=10, batch=4),
        ApeX(**FRAIL, learning_starts=10, batch=4),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_rollouts_of_which_all_was_lost_are_survived(algorithm: Algorithm) -> None:
    Frail.steps = 0
    last = algorithm.run(stop=Stop(env_steps=120)).finish()
    assert last.episodes.discarded >= 8
    assert last.training.skipped == 0


@pytest.mark.parametrize("actors", [1, 4])
def test_corrections_for_priorities_go_by_what_all_replay_actors_have(actors: int) -> None:
    asked: list[int] = []
    workers = create_rollout_workers(env=ENV, loss=DQNLoss(), **SMALL)
    replay = create_replay_actors(num_actors=actors, capacity=4_000, batch=8, min_size=40, beta=Spied(asked))
    store = ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay))
    plan = ReportMetrics(Union(store.drain(), ParallelReplay(replay).gather_sync().for_each(TrainOneStep(workers))), workers)
    last = train(plan, stop=Stop(env_steps=400)).finish()
    assert 0.7 * last.env_steps <= max(asked) <= 1.2 * last.env_steps


@dataclass(frozen=True)
class Spied:
    asked: list[int]

    def at(self, steps: int, /) -> float:
        self.asked.append(steps)
        return Linear(0.4, 1.0, steps=1_000).at(steps)


def test_the_flow_of_a3c_takes_its_loss_from_its_configuration() -> None:
    def entropy_counts(coef: float) -> float:
        """What is left of the loss without its parts: nothing, if the coefficient is the one that was given."""
        config = A3C(entropy_coef=coef, num_envs=2, fragment=6, model=TINY, lr=0.01)
        workers = config.workers(config.loss())
        stats = a3c_plan(ParallelRollouts(workers), workers, config)
        found = train(ReportMetrics(stats, workers), stop=Stop(updates=1)).finish().training.latest
        return found["loss"] - found["policy_loss"] - 0.5 * found["value_loss"] + coef * found["entropy"]

    assert entropy_counts(0.0) == pytest.approx(entropy_counts(10.0), abs=1e-2)
