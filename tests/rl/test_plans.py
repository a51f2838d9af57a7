"""Plans of reinforcement learning, whole: they run on every runtime, count right, send the right weights, and survive."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tflow
from tests.laws.world import RUNTIMES, dice, over_repeatable_runtimes, over_runtimes, product
from tests.rl.toy_envs import Life, PlannedEnv, TogetherEnv
from tflow import (
    ApplyGradients,
    Batch,
    ComputeAdvantages,
    ComputeGradients,
    ConcatBatches,
    ConcatRounds,
    Gradients,
    Iter,
    LearnOnBatch,
    LocalRuntime,
    Metrics,
    ParallelEvaluations,
    ParallelReplay,
    ParallelRollouts,
    Plan,
    PlanError,
    Policy,
    ReportMetrics,
    Rollout,
    Select,
    SendWeights,
    Shard,
    StandardizeFields,
    StoreToBuffer,
    Tensors,
    TrainOneStep,
    TrainStats,
    Union,
    UpdatePriorities,
    UpdateTargetNetwork,
    UpdateWeights,
    create_evaluation_workers,
    create_learner,
    create_replay_actors,
    create_rollout_workers,
    from_items,
)
from tflow.actors import Actor, AnyWorkers, RolloutWorker
from tflow.envs import EnvSpec
from tflow.errors import Deadlock, OperatorError
from tflow.exploration import ApexEpsilons, EpsilonGreedy
from tflow.losses import A3CLoss, DQNLoss, PPOLoss
from tflow.operators import AverageGradients, MixInReplay, aggregate
from tflow.optimizers import Adam
from tflow.rl.data.arrays import Array
from tflow.rl.learning.learner import Learner
from tflow.rl.learning.losses import LossValue
from tflow.rl.learning.training import Stale, lag_of
from tflow.rl.policy.network_spec import LSTM, MLP
from tflow.rl.policy.weights import WHOLE
from tflow.rl.replay.replay import MultiReplayActor, ReplayActor, ReplaySpec
from tflow.rl.rollout.worker_spec import CurrentPolicy
from tflow.runtime.sim import Faults, SimRuntime
from tflow.testing.batches import rollouts
from tflow.types import Provenance, Source

T = TypeVar("T")
loose: Any = tflow  # Any: what checkers would reject, said at run time
PLANS = (((3, "terminated"), (4, "truncated")), ((2, "terminated"), (5, "terminated")))
ENV = EnvSpec(partial(PlannedEnv, PLANS))
SMALL: dict[str, Any] = {"num_envs": 2, "fragment": 6, "model": MLP((4,)), "optimizer": Adam(lr=0.01)}  # Any: several kinds


def reports(plan: Plan[T] | Iter[T], count: int, runtime: str = "local", seed: int = 0) -> list[T]:
    """The first items that a plan yields."""
    with RUNTIMES[runtime]() as session, plan.run(runtime=session, seed=seed) as run:
        return [next(run) for _ in range(count)]


def a3c() -> tuple[Plan[Metrics], AnyWorkers]:
    workers = create_rollout_workers(env=ENV, loss=A3CLoss(), **SMALL)
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    return ReportMetrics(grads.for_each(ApplyGradients(workers)), workers), workers


def a2c() -> tuple[Plan[Metrics], AnyWorkers]:
    workers = create_rollout_workers(env=ENV, loss=A3CLoss(), max_grad_norm=0.5, **SMALL)
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_rounds().for_each(AverageGradients())
    return ReportMetrics(grads.for_each(ApplyGradients(workers, to="all")), workers), workers


def ppo() -> tuple[Plan[Metrics], AnyWorkers]:
    workers = create_rollout_workers(env=ENV, loss=PPOLoss(), max_grad_norm=0.5, **SMALL)
    rounds = ConcatRounds(ParallelRollouts(workers).par_with_columns(ComputeAdvantages()).gather_rounds())
    standard = rounds.with_columns(StandardizeFields("advantages"))
    return ReportMetrics(standard.for_each(TrainOneStep(workers, epochs=2, minibatch=8)), workers), workers


def recurrent_ppo() -> tuple[Plan[Metrics], AnyWorkers]:
    workers = create_rollout_workers(env=ENV, loss=PPOLoss(), **{**SMALL, "model": LSTM(3, MLP((4,)))})
    rounds = ConcatRounds(ParallelRollouts(workers).par_with_columns(ComputeAdvantages()).gather_rounds())
    return ReportMetrics(rounds.for_each(TrainOneStep(workers, epochs=2, minibatch=64)), workers), workers


def apex() -> tuple[Plan[Metrics], AnyWorkers]:
    workers = create_rollout_workers(env=ENV, loss=DQNLoss(), exploration=ApexEpsilons(), **SMALL)
    replay_buffer = create_replay_actors(num_actors=2, capacity=200, batch=8, min_size=20, n_step=2)
    rollouts = ParallelRollouts(workers).gather_async()
    store_op = rollouts.for_each(StoreToBuffer(replay_buffer)).for_each(UpdateWeights(workers))
    replay_op = ParallelReplay(replay_buffer).gather_async().for_each(UpdatePriorities(workers)).for_each(TrainOneStep(workers))
    return ReportMetrics(Union(store_op, replay_op.for_each(UpdateTargetNetwork(workers, every=5))), workers), workers


def impala() -> tuple[Plan[Metrics], AnyWorkers]:
    workers = create_rollout_workers(env=ENV, loss=A3CLoss(), max_grad_norm=1.0, **SMALL)
    batches = ConcatBatches(aggregate(ParallelRollouts(workers), aggregators=2, batches=2).gather_async(), rows=30, exact=True)
    mixed = MixInReplay(batches, slots=3, proportion=0.5)
    stats = mixed.hand_off(create_learner(workers), LearnOnBatch()).for_each(SendWeights(workers))
    return ReportMetrics(stats, workers), workers


LIVES = (Life(0, 3), Life(0, 5, truncated=True), Life(1, 4))


def policy_of(agent: str) -> Literal["PPO", "DQN"]:
    return "PPO" if agent in ("agent_0", "agent_2") else "DQN"


def several() -> tuple[Plan[Metrics], AnyWorkers]:
    losses: dict[Literal["PPO", "DQN"], PPOLoss | DQNLoss] = {"PPO": PPOLoss(), "DQN": DQNLoss()}
    env = EnvSpec(partial(TogetherEnv, LIVES))
    workers = create_rollout_workers(env=env, losses=losses, policy_of=policy_of, **SMALL)
    r1, r2 = ParallelRollouts(workers).split()
    stats = Select(r1, policy="PPO").with_columns(ComputeAdvantages()).for_each(TrainOneStep(workers, loss=PPOLoss()))
    buffer = create_replay_actors(capacity=100, batch=8, min_size=10)
    store = Select(r2, policy="DQN").for_each(StoreToBuffer(buffer))
    train = ParallelReplay(buffer).gather_async().for_each(TrainOneStep(workers, loss=DQNLoss()))
    return ReportMetrics(Union(stats, Union(store.drain(), train)), workers), workers


ALL = {"a3c": a3c, "a2c": a2c, "ppo": ppo, "recurrent_ppo": recurrent_ppo, "apex": apex, "impala": impala, "several": several}


@product(ALL, on_ray=("apex",))
def test_plans_run_and_learn_something_on_every_runtime(name: str, runtime: str) -> None:
    plan, workers = ALL[name]()
    with RUNTIMES[runtime]() as session, plan.run(runtime=session) as run:
        found = [next(run) for _ in range(40 if name in ("apex", "several") else 8)]
        trained = {policy: run.ask(learner, CurrentPolicy.get_weights)[0] for policy, learner in workers.learners.items()}
    last = found[-1]
    assert last.env_steps > 0
    assert last.episodes.count > 0
    assert last.training.updates > 0
    assert last.training.skipped == 0
    assert [each.env_steps for each in found] == sorted(each.env_steps for each in found)
    fresh = {policy: session_weights(workers, policy) for policy in trained}
    for policy, weights in trained.items():
        assert np.isfinite(weights).all()
        assert (weights != fresh[policy]).any(), "nothing was learned"
    for policy in last.episodes.policies:
        assert f"{policy}/return" in last.flat()


def session_weights(workers: AnyWorkers, policy: str, seed: int = 0) -> Array:
    """What the weights are before anything is learned, in a session with this seed."""
    return workers.learners[policy].make(Shard("x", 0, 1, 0, 0, session_seed=seed)).weights


@pytest.mark.parametrize("name", sorted(ALL.keys() - {"impala"}))
def test_the_same_seed_gives_the_same_weights_bit_for_bit(name: str) -> None:
    def weights(seed: int) -> list[Array]:
        plan, workers = ALL[name]()
        with plan.run(seed=seed) as run:
            for _ in range(25):
                next(run)
            return [run.ask(learner, CurrentPolicy.get_weights)[0] for learner in workers.learners.values()]

    for one, again, other in zip(weights(1), weights(1), weights(2), strict=True):
        np.testing.assert_array_equal(one, again)
        assert (one != other).any()


@over_repeatable_runtimes
def test_a_deterministic_plan_gives_one_sequence_on_every_runtime(runtime: str) -> None:
    def numbers(runtime: str) -> list[dict[str, float]]:
        plan, _ = ppo()
        assert plan.deterministic
        return [
            {
                name: value
                for name, value in each.flat().items()
                if not name.startswith(("seconds", "busy")) and "per_s" not in name
            }
            for each in reports(plan, 5, runtime)
        ]

    assert numbers(runtime) == numbers("local")


# --------------------------------------------------------------------------- weights


@over_runtimes
def test_workers_and_learner_begin_with_the_same_weights(runtime: str) -> None:
    plan, workers = a3c()
    with RUNTIMES[runtime]() as session, plan.run(runtime=session, seed=6) as run:
        learner = run.ask(workers.learner, CurrentPolicy.get_weights)[0]
        np.testing.assert_array_equal(learner, session_weights(workers, "default", seed=6))
        for weights in run.ask(workers, weights_of):
            np.testing.assert_array_equal(weights, learner)


@over_runtimes
def test_every_round_is_sampled_with_the_newest_weights(runtime: str) -> None:
    workers = create_rollout_workers(env=ENV, loss=PPOLoss(), **SMALL)
    rounds = ConcatRounds(ParallelRollouts(workers).par_with_columns(ComputeAdvantages()).gather_rounds())
    stats = rounds.for_each(TrainOneStep(workers))
    with RUNTIMES[runtime]() as session, stats.run(runtime=session) as run:
        for count in range(1, 5):
            item = next(run)
            assert (item.version, item.lag) == (count, 0)
        held = run.ask(workers, weights_of)
        newest = run.ask(workers.learner, CurrentPolicy.get_weights)[0]
    for weights in held:
        np.testing.assert_array_equal(weights, newest)


def incarnation_of(worker: RolloutWorker) -> int:
    return worker.shard.incarnation


def updates_of(current: CurrentPolicy) -> int:
    return current.learner.updates


def weights_of(worker: RolloutWorker) -> Array:
    return worker.policies["default"].flat.get()


def test_items_of_one_round_may_follow_each_other_but_nothing_older() -> None:
    workers = create_rollout_workers(env=ENV, loss=PPOLoss(), **SMALL)
    wider = ParallelRollouts(workers).par_with_columns(ComputeAdvantages())
    good = wider.gather_sync().for_each(TrainOneStep(workers))
    assert [item.lag for item in reports(good, 6)] == [0, 1, 0, 1, 0, 1]
    late = cast(
        "Iter[Any, Any]", ParallelRollouts(workers).par_with_columns(ComputeAdvantages()).gather_sync().batch(6).flatten()
    )
    with pytest.raises(OperatorError, match="sampled 2 updates ago, but the loss is on-policy"):
        reports(late.for_each(TrainOneStep(workers)), 6)


class TwoWorkers:
    """What ``lag_of`` asks for: two workers, at version 3, and an item of version 2 that was made of these."""

    def __init__(self, *sources: tuple[int, int, int]) -> None:
        self.provenance = Provenance(frozenset(Source("workers", *each) for each in sources), {"default": 2})

    def __getitem__(self, actors: object) -> TwoWorkers:
        return self

    def __len__(self) -> int:
        return 2

    def shards(self, actors: object) -> tuple[int, ...]:
        return tuple(sorted({source.shard for source in self.provenance.sources}))

    def version(self, policy: str) -> int:
        return 3


def test_the_calls_of_a_worker_that_was_restarted_do_not_tell_rounds() -> None:
    """They are numbered from 0 again, so equal numbers may be of two rounds."""
    workers = create_rollout_workers(env=ENV, loss=PPOLoss(), **SMALL)

    def lag(*sources: tuple[int, int, int]) -> int:
        return lag_of(cast("Any", TwoWorkers(*sources)), workers, "default", on_policy=True)

    assert lag((0, 0, 2), (1, 0, 1)) == 1, "of two rounds, between which there was one update"
    assert lag((0, 1, 1), (1, 0, 1)) == 1, "as before, but shard 0 was restarted"
    assert lag((0, 1, 1), (1, 1, 1)) == 1, "both were, perhaps in different rounds"
    with pytest.raises(Stale, match="sampled 1 updates ago"):
        lag((0, 0, 1), (1, 0, 1))


def test_gradients_go_back_to_the_worker_that_they_came_from() -> None:
    plan, workers = a3c()
    with plan.run() as run:
        for _ in range(4):
            next(run)
        one, other = run.ask(workers, weights_of)
    assert (one != other).any(), "each worker has the weights of its own last update"


@pytest.mark.parametrize("to", ["source", "all"])
def test_update_weights_goes_to_the_source_or_to_all(to: Literal["source", "all"]) -> None:
    workers = create_rollout_workers(env=ENV, loss=A3CLoss(), **SMALL)
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    stream = grads.for_each(ApplyGradients(workers)).for_each(UpdateWeights(workers, to=to))
    with stream.run() as run:
        for _ in range(4):
            next(run)
        one, other = run.ask(workers, weights_of)
    assert (one == other).all() == (to == "all")


def test_what_is_sent_again_is_packed_once_unless_it_may_have_changed() -> None:
    """On a cluster, holding a value means to put it into the object store."""
    from tflow.runtime.shards import LivePool

    pool = LivePool(create_replay_actors(), "x", 0)
    held: list[object] = []
    frozen = np.zeros(2)
    frozen.flags.writeable = False
    for value in (frozen, frozen, np.zeros(3)):
        pool.hold(value, held.append)
    pool.hold(value, held.append)
    assert len(held) == 3


def test_update_weights_sends_what_is_new_and_only_that() -> None:
    workers = create_rollout_workers(env=ENV, loss=DQNLoss(), exploration=EpsilonGreedy(1.0), **SMALL)
    evaluators = create_evaluation_workers(workers, episodes=2)
    replay = create_replay_actors(capacity=200, batch=8, min_size=20)
    store = ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay))
    refreshed = store.for_each(UpdateWeights(workers, evaluators, to="all"))
    train = ParallelReplay(replay).gather_sync().for_each(TrainOneStep(workers))
    with Union(refreshed, train).run() as run:
        for _ in range(30):
            next(run)
        newest = run.ask(workers.learner, CurrentPolicy.get_weights)[0]
        updates = run.ask(workers.learner, updates_of)[0]
        here = run.ask(evaluators, weights_of)[0]
        held = run.ask(workers, weights_of)
    assert updates > 5
    for weights in held:
        np.testing.assert_array_equal(weights, newest)
    assert (here != session_weights(workers, "default")).any()


def test_a_plan_that_no_checker_saw_is_refused_before_it_starts() -> None:
    workers = loose.create_rollout_workers(env=ENV, loss=PPOLoss(), **SMALL)
    wider = loose.ParallelRollouts(workers).par_with_columns(ComputeAdvantages())
    with pytest.raises(PlanError, match='"TrainOneStep" needs a synchronous stream'):
        wider.gather_async().for_each(TrainOneStep(workers)).validate()
    again = loose.ParallelRollouts(workers).par_with_columns(ComputeAdvantages())
    with pytest.raises(PlanError, match="needs a synchronous stream"):
        ConcatBatches(again.gather_sync(), rows=6, exact=True).for_each(TrainOneStep(workers)).validate()
    lists = loose.ParallelRollouts(workers).par_with_columns(ComputeAdvantages()).gather_rounds()
    with pytest.raises(PlanError, match=r"Did you forget ConcatRounds\(stream\)"):
        lists.for_each(TrainOneStep(workers)).validate()
    with pytest.raises(OperatorError, match=r"Put them together: ConcatRounds\(stream\)"):
        reports(lists.map(of_unknown_type).for_each(TrainOneStep(workers)), 1)
    bare = loose.ConcatRounds(loose.ParallelRollouts(workers).gather_rounds())
    with pytest.raises(PlanError, match=r"lacks them\. with_columns\(ComputeAdvantages\(\)\) adds them"):
        bare.for_each(TrainOneStep(workers)).validate()
    with pytest.raises(OperatorError, match=r"'advantages', but the batch has only .* added by ComputeAdvantages"):
        reports(bare.map(of_unknown_type).for_each(TrainOneStep(workers)), 1)
    several_workers = several()[1]
    mixed = loose.ParallelRollouts(several_workers).gather_sync()
    with pytest.raises(PlanError, match=r"Did you forget Select\(stream, policy=\.\.\.\)"):
        mixed.for_each(TrainOneStep(several_workers, loss=DQNLoss())).validate()
    with pytest.raises(OperatorError, match=r"several policies\. Take one"):
        reports(mixed.map(of_unknown_type).for_each(TrainOneStep(several_workers, loss=DQNLoss())), 1)


def of_unknown_type(item):  # type: ignore[no-untyped-def]  # so that nobody knows what it returns
    return item


def test_training_other_workers_than_one_samples_from_is_noticed() -> None:
    sampling = create_rollout_workers(env=ENV, loss=A3CLoss(), **SMALL)
    trained = create_rollout_workers(env=ENV, loss=A3CLoss(), name="trained", **SMALL)
    with pytest.raises(OperatorError, match="were sampled by workers, but trained would be trained with them"):
        reports(ParallelRollouts(sampling).gather_async().for_each(TrainOneStep(trained)), 1)
    grads = ParallelRollouts(sampling).par_for_each(ComputeGradients()).gather_async()
    with pytest.raises(OperatorError, match="Name the same workers in both places"):
        reports(grads.for_each(ApplyGradients(trained)), 1)
    with pytest.raises(PlanError, match="sampled by workers, but it reports on other workers, trained"):
        ReportMetrics(grads.for_each(ApplyGradients(trained)), trained)
    same_name = create_rollout_workers(env=ENV, loss=A3CLoss(), **SMALL)
    with pytest.raises(OperatorError, match="sampled by workers, but another set of workers, which is called workers, too"):
        reports(ParallelRollouts(sampling).gather_async().for_each(TrainOneStep(same_name)), 1)
    with pytest.raises(PlanError, match="but it reports on another set of workers, which is called workers, too"):
        ReportMetrics(grads.for_each(ApplyGradients(same_name)), same_name)


@pytest.mark.parametrize("make", [a3c, ppo])
def test_workers_may_come_and_go_in_the_middle_of_training(make: Callable[[], tuple[Plan[Metrics], AnyWorkers]]) -> None:
    plan, workers = make()
    with plan.run() as run:
        for num in (2, 1, 3, 1, 2):
            run.resize(workers, num)
            found = [next(run) for _ in range(3)][-1]
            assert found.training.skipped == 0
        assert next(run).training.updates > 15


@over_runtimes
def test_training_elsewhere_is_reported(runtime: str) -> None:
    workers = create_rollout_workers(env=ENV, loss=A3CLoss(), **SMALL)
    stats = ParallelRollouts(workers).gather_async().hand_off(create_learner(workers), LearnOnBatch())
    grouped = ParallelRollouts(workers).gather_async().batch(16, weigh=len).for_each(UpdateWeights(workers))
    found = reports(ReportMetrics(stats, workers), 3, runtime)[-1]
    assert found.training.updates == 3
    assert [len(batches) >= 2 for batches in reports(grouped, 2, runtime)] == [True, True]


def test_a_learner_elsewhere_says_if_nobody_would_renew_its_target() -> None:
    def training(every: int | None) -> tuple[Iter[Rollout | TrainStats], Actor[Learner]]:
        loss = DQNLoss(target_every=every)
        workers = create_rollout_workers(env=ENV, loss=loss, exploration=EpsilonGreedy(1.0), **SMALL)
        replay = create_replay_actors(capacity=100, batch=8, min_size=10)
        store = ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay))
        learner = create_learner(workers)
        return Union(store, ParallelReplay(replay).gather_sync().call(learner, LearnOnBatch())), learner

    with pytest.raises(OperatorError, match=r"which nobody would update\. Say how often: DQNLoss\(target_every="):
        reports(training(None)[0], 8)
    stream, learner = training(2)
    with stream.run() as run:
        trained = sum(isinstance(next(run), TrainStats) for _ in range(12))
        assert run.ask(learner, target_updated_at) == [trained // 2 * 2]


@pytest.mark.parametrize("every", [None, 3])
def test_a_learner_renews_its_target_as_often_as_its_loss_says(every: int | None) -> None:
    workers = create_rollout_workers(env=ENV, loss=DQNLoss(target_every=every), exploration=EpsilonGreedy(1.0), **SMALL)
    replay = create_replay_actors(capacity=100, batch=8, min_size=10)
    store = ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay))
    train = ParallelReplay(replay).gather_sync().for_each(TrainOneStep(workers))
    with Union(store.drain(), train).run() as run:
        seen = [
            (next(run).version, *run.ask(workers.learner, lambda current: target_updated_at(current.learner))) for _ in range(7)
        ]
    assert seen == [(update, 0 if every is None else update // every * every) for update in range(1, 8)]


def target_updated_at(learner: Learner) -> int:
    return learner.target_updated_at


# --------------------------------------------------------------------------- gradients


@given(rollouts(min_pieces=2, dict_obs=False), st.data())
@settings(max_examples=20)
def test_averaging_the_gradients_of_parts_is_the_gradient_of_the_whole(batch: Rollout, data: st.DataObject) -> None:
    learner = small_learner()
    pieces = batch.pieces()
    cut = data.draw(st.integers(1, len(pieces) - 1))
    parts = [Batch.concat(pieces[:cut]), Batch.concat(pieces[cut:])]
    single = [
        Gradients(learner.gradients(part)[0], rows=len(part), env_steps=part.env_steps, summary=part.summary) for part in parts
    ]
    mean = AverageGradients().apply(single)
    np.testing.assert_allclose(mean.values, learner.gradients(batch)[0], rtol=1e-3, atol=1e-4)
    assert (mean.rows, mean.env_steps) == (len(batch), batch.env_steps)


def small_learner(loss: Any = None, max_grad_norm: float | None = None) -> Learner:  # Any: any loss
    from gymnasium import spaces

    from tflow.rl.policy.policy_spec import make_policy

    loss = loss or A3CLoss()
    seen = spaces.Box(-1e6, 1e6, (1,), np.float32)
    policy = make_policy(loss.policy(), MLP((4,)), seen, spaces.Discrete(2), seed=1)
    return Learner(policy, loss, Adam(lr=0.01), max_grad_norm=max_grad_norm)


def test_averaging_gradients_of_two_policies_is_refused() -> None:
    with pytest.raises(ValueError, match="expected gradients of one policy, got \\['a', 'b'\\]"):
        AverageGradients().apply([Gradients(np.zeros(1), 1, policy="a"), Gradients(np.zeros(1), 1, policy="b")])


@given(st.integers(0, 30), st.sampled_from([np.nan, np.inf, -np.inf]), st.sampled_from([None, 0.5]))
@settings(max_examples=20)
def test_a_gradient_that_is_not_finite_never_reaches_the_weights(place: int, poison: float, clip: float | None) -> None:
    learner = small_learner(max_grad_norm=clip)
    optimizer = learner.parts[WHOLE].optimizer
    gradient = np.ones(learner.policy.flat.trainable, np.float32)
    assert learner.apply(gradient)
    before, moments = learner.weights, copy.deepcopy(optimizer.state_dict())
    gradient[place % len(gradient)] = poison
    for _ in range(9):
        assert not learner.apply(gradient)
        np.testing.assert_array_equal(learner.policy.flat.get(), before)
    for name, value in moments.items():
        assert np.array_equal(optimizer.state_dict()[name], value), name
    assert learner.apply(np.zeros_like(gradient)), "a good one, and counting begins again"
    before = learner.policy.flat.get()
    for _ in range(9):
        assert not learner.apply(gradient)
    with pytest.raises(Exception, match="10 gradients in a row were not finite"):
        learner.apply(gradient)
    np.testing.assert_array_equal(learner.policy.flat.get(), before)


class Poison(A3CLoss):
    """A loss that is no number."""

    def compute(self, policy: Any, batch: Any, /, *, target: Any, steps: int) -> LossValue:  # Any: passed on
        found = super().compute(policy, batch, target=target, steps=steps)
        return LossValue(found.total * float("nan"), found.stats)


def test_an_update_that_was_skipped_is_no_new_version() -> None:
    workers = create_rollout_workers(env=ENV, loss=Poison(), **SMALL)
    found = reports(ParallelRollouts(workers).gather_async().for_each(TrainOneStep(workers)), 4)
    assert [(item.updates, item.skipped, item.version) for item in found] == [(0, 1, 0)] * 4


def test_skipped_updates_are_counted_and_the_plan_goes_on() -> None:
    workers = create_rollout_workers(env=ENV, loss=A3CLoss(), **SMALL)
    poisoned = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async().scan(poison_every_third, FIRST)
    stream = poisoned.map(lambda pair: cast("Gradients", pair[1])).for_each(ApplyGradients(workers))
    found = reports(ReportMetrics(stream, workers), 9)[-1]
    assert (found.training.updates, found.training.skipped) == (6, 3)


FIRST: tuple[int, object] = (0, None)


def poison_every_third(state: tuple[int, object], item: Gradients) -> tuple[int, object]:
    count = state[0] + 1
    bad = Gradients(np.full_like(item.values, np.nan), item.rows, item.env_steps)
    return count, bad if count % 3 == 0 else item


# --------------------------------------------------------------------------- replay


@over_repeatable_runtimes
def test_nothing_is_sampled_before_there_is_enough(runtime: str) -> None:
    workers = create_rollout_workers(env=ENV, loss=DQNLoss(), exploration=EpsilonGreedy(0.5), **SMALL)
    replay = create_replay_actors(capacity=500, batch=8, min_size=60, update_ratio=1 / 16)
    store = ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay))
    train = ParallelReplay(replay).gather_sync().for_each(TrainOneStep(workers))
    with RUNTIMES[runtime]() as session, Union(store, train).run(runtime=session) as run:
        stored = asked = 0
        for _ in range(60):
            item = next(run)
            if isinstance(item, TrainStats):
                asked += item.rows
                assert stored >= 60
                assert asked <= 0.5 * (stored - 60)
            else:
                stored += len(item)
        assert asked >= 0.5 * (stored - 60) - 8 * 3, "and it does use what it may"


def test_replay_that_nobody_fills_is_a_deadlock_that_says_so() -> None:
    replay = create_replay_actors(capacity=500, batch=8, min_size=60)
    with pytest.raises(Deadlock, match="replay actor 0 has been sent 0 of the 60 rows with which sampling starts"):
        next(ParallelReplay(replay).gather_async().run())
    with pytest.raises(Deadlock, match="replay actor 0 has been sent 0 of the 60 rows"):
        next(ParallelReplay(replay).gather_sync().run())


@over_runtimes
def test_priorities_reach_the_actor_that_the_rows_came_from(runtime: str) -> None:
    workers = create_rollout_workers(env=ENV, loss=DQNLoss(), exploration=EpsilonGreedy(1.0), **SMALL)
    replay = create_replay_actors(num_actors=2, capacity=200, batch=16, min_size=20)
    store = ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay))
    train = ParallelReplay(replay).gather_sync().for_each(UpdatePriorities(workers))
    with RUNTIMES[runtime]() as session, Union(store, train).run(runtime=session) as run:
        for _ in range(30):
            next(run)
        priorities = run.ask(replay, priorities_of)
        stale = run.ask(replay, stale_of)
    for found in priorities:
        assert len({round(float(x), 6) for x in found}) > 5, "they are no longer all the same"
    assert stale == [0, 0]


def priorities_of(actor: ReplayActor) -> Array:
    return cast("Array", actor.buffer.state()["priorities"])


def stale_of(actor: ReplayActor) -> int:
    return int(cast("int", actor.buffer.state()["stale"]))


def test_a_replay_actor_that_dies_comes_back_empty_and_is_left_alone_until_it_is_filled() -> None:
    """Priorities that were on their way to its earlier life are ignored."""
    workers = create_rollout_workers(env=ENV, loss=DQNLoss(), exploration=EpsilonGreedy(1.0), **SMALL)
    replay = create_replay_actors(capacity=500, batch=8, min_size=40)
    store = ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay))
    train = ParallelReplay(replay).gather_sync().for_each(UpdatePriorities(workers)).for_each(TrainOneStep(workers))
    trained_before = 0
    with SimRuntime() as session, Union(store, train).run(runtime=session) as run:
        for _ in range(20):
            trained_before += isinstance(next(run), TrainStats)
        assert trained_before > 0
        session.kill(session.pools[replay].shards[0].handle)
        rows_since = None
        for _ in range(60):
            item = next(run)
            if isinstance(item, TrainStats) and item.rows:
                if rows_since is not None:
                    assert rows_since >= 40 or run.ask(replay, rows_in)[0] >= 40
            elif not isinstance(item, TrainStats):
                rows_since = (rows_since or 0) + len(item)
        assert run.ask(replay, life_of)[0] >= 1024, "it lives again"
        assert run.ledger.balanced


def rows_in(actor: ReplayActor) -> int:
    return len(actor.buffer)


def life_of(actor: ReplayActor) -> int:
    return actor.buffer.incarnation


def test_workers_that_die_are_replaced_with_the_newest_weights() -> None:
    plan, workers = ppo()
    with SimRuntime(dice(3), faults=Faults(dies_before=3, dies_after=3)) as session, plan.run(runtime=session) as run:
        found = [next(run) for _ in range(20)]
        newest = run.ask(workers.learner, CurrentPolicy.get_weights)[0]
        for weights in run.ask(workers, weights_of):
            np.testing.assert_array_equal(weights, newest)
        lives = run.ask(workers, incarnation_of)
    assert max(lives) > 0, "some did die"
    assert found[-1].training.worst_lag == 0
    assert run.ledger.balanced


@pytest.mark.parametrize("kind", ["uniform", "prioritized", "reservoir"])
def test_what_is_replayed_was_sampled(kind: Literal["uniform", "prioritized", "reservoir"]) -> None:
    workers = create_rollout_workers(env=ENV, loss=DQNLoss(), exploration=EpsilonGreedy(1.0), **SMALL)
    replay = create_replay_actors(capacity=100, batch=16, min_size=10, kind=kind, gamma=0.5)
    store = ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay))
    stream = Union(store, ParallelReplay(replay).gather_sync())
    seen: set[tuple[float, ...]] = set()
    for each in reports(stream, 40):
        item = each.untyped()
        rows = {tuple(row) for row in np.column_stack([item["obs"], item["actions"], item["rewards"]]).tolist()}
        if "weights" in item:
            assert rows <= seen
            assert item.env_steps == 0
            over = item["terminated"]
            np.testing.assert_allclose(item["discounts"], np.where(over, 0, 0.5))
            assert (item["weights"] <= 1).all()
        else:
            seen |= rows


def test_sequences_are_replayed_for_policies_with_a_memory() -> None:
    model = LSTM(3, MLP((4,)))
    workers = create_rollout_workers(env=ENV, loss=A3CLoss(), **{**SMALL, "model": model, "fragment": 12})
    replay = create_replay_actors(capacity=50, batch=4, min_size=8, kind="sequences", length=4, burn_in=1)
    store = ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay))
    stream = cast("Iter[Any]", Union(store, ParallelReplay(replay).gather_sync()))
    replayed = [item for item in reports(stream, 12) if "mask" in item]
    assert replayed
    for item in replayed:
        assert len(item) == 16
        assert item.finals["state"].shape == (4, 12), "an actor and a critic, each with a memory of 2 * 3"
        assert item["mask"].any()


@over_repeatable_runtimes
@pytest.mark.parametrize("lockstep", [True, False])
def test_replay_of_several_policies(runtime: str, lockstep: bool) -> None:
    losses: dict[Literal["PPO", "DQN"], DQNLoss] = {"PPO": DQNLoss(), "DQN": DQNLoss()}
    env = EnvSpec(partial(TogetherEnv, (Life(0, 4), Life(0, 4))))
    workers = create_rollout_workers(env=env, losses=losses, policy_of=first_or_other, **SMALL)
    names: list[Literal["PPO", "DQN"]] = ["PPO", "DQN"]
    replay = create_replay_actors(policies=names, lockstep=lockstep, capacity=100, batch=8, min_size=10)
    store = ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay))
    one, other = ParallelReplay(replay).gather_sync().split()
    trained = [
        Select(one, policy="PPO").for_each(UpdatePriorities(workers)).for_each(TrainOneStep(workers, loss=DQNLoss())),
        Select(other, policy="DQN").for_each(TrainOneStep(workers, loss=DQNLoss())),
    ]
    with RUNTIMES[runtime]() as session, Union(store.drain(), *trained).run(runtime=session) as run:
        found = [next(run) for _ in range(12)]
        if lockstep:
            (drawn,) = run.ask(replay, together)
            np.testing.assert_array_equal(drawn["PPO"]["obs"][:, :3], drawn["DQN"]["obs"][:, :3])
            assert (drawn["PPO"]["obs"][:, 3] != drawn["DQN"]["obs"][:, 3]).all()
    assert {item.policy for item in found} == {"PPO", "DQN"}


def first_or_other(agent: str) -> Literal["PPO", "DQN"]:
    return "PPO" if agent == "agent_0" else "DQN"


def together(actor: ReplayActor) -> dict[str, Batch[str]]:
    assert isinstance(actor, MultiReplayActor)
    return {name: batch.untyped() for name, batch in actor.experience().batches.items()}


@pytest.mark.parametrize("policies", [(), ("PPO", "DQN")])
@pytest.mark.parametrize("lockstep", [True, False])
def test_a_replay_actor_goes_on_exactly_from_its_state(policies: tuple[str, ...], lockstep: bool) -> None:
    spec = cast("ReplaySpec", loose.create_replay_actors(policies=policies, lockstep=lockstep and bool(policies)).make)
    rows: Batch[str] = Batch({"obs": np.arange(40.0)[:, None], "rewards": np.ones(40), "terminated": np.zeros(40, bool)})
    one, other = (spec(Shard("replay", 0, 1, 0, seed)) for seed in (1, 2))
    one.insert(loose.data.MultiBatch(dict.fromkeys(policies, rows)) if policies else rows)
    one.update_priorities(("PPO", np.arange(5), np.arange(5.0)))
    other.load(one.state())

    def drawn(actor: ReplayActor) -> list[float]:
        found = actor.experience().batches.values() if isinstance(actor, MultiReplayActor) else [actor.sample()]
        return [float(x) for batch in found for x in batch.untyped()["obs"][:, 0]]

    assert drawn(one) == drawn(other)
    fresh = spec(Shard("replay", 0, 1, 0, 2))
    fresh.insert(loose.data.MultiBatch(dict.fromkeys(policies, rows)) if policies else rows)
    assert drawn(one) != drawn(fresh), "without the state it would be another sample"


def test_experience_of_several_policies_needs_a_place_for_each() -> None:
    losses: dict[Literal["PPO", "DQN"], DQNLoss] = {"PPO": DQNLoss(), "DQN": DQNLoss()}
    env = EnvSpec(partial(TogetherEnv, LIVES))
    workers = create_rollout_workers(env=env, losses=losses, policy_of=policy_of, **SMALL)
    stream = ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(create_replay_actors(min_size=1)))
    with pytest.raises(OperatorError, match="got a batch of several policies"):
        reports(stream, 3)


# --------------------------------------------------------------------------- streams of batches


@given(st.lists(rollouts(dict_obs=False, max_pieces=3), max_size=6), st.integers(1, 12), st.booleans())
def test_batches_of_another_size_hold_the_same_rows(batches: list[Rollout], rows: int, exact: bool) -> None:
    found = list(ConcatBatches(from_items(batches), rows=rows, exact=exact).run())
    kept = [float(x) for batch in found for x in batch["rewards"]]
    assert kept == [float(x) for batch in batches for x in batch["rewards"]]
    assert sum(batch.env_steps for batch in found) == sum(batch.env_steps for batch in batches)
    assert all(len(batch) == rows if exact else len(batch) >= rows for batch in found[:-1])
    following = [float(x) for batch in found if len(batch) for x in batch.successors("obs")["obs"][:, 0]]
    assert following == [float(x) for batch in batches if len(batch) for x in batch.successors("obs")["obs"][:, 0]]


def test_what_is_concatenated_comes_from_all_that_it_was_made_of() -> None:
    workers = create_rollout_workers(env=ENV, loss=A3CLoss(), **SMALL)
    stream = ConcatBatches(ParallelRollouts(workers).gather_sync(), rows=18, exact=True)
    with stream.run() as run:
        assert len(next(run)) == 18
        assert {(source.shard, source.sequence) for source in run.provenance.sources} == {(0, 0), (1, 0)}
        assert len(next(run)) == 18
        assert {(source.shard, source.sequence) for source in run.provenance.sources} == {(1, 0), (0, 1)}


@given(st.lists(st.integers(), max_size=30), st.integers(1, 5), st.floats(0, 3), st.integers(0, 99))
def test_mixing_in_replay_adds_earlier_items_only(items: list[int], slots: int, proportion: float, seed: int) -> None:
    numbered = list(enumerate(items))
    stream = MixInReplay(from_items(numbered), slots=slots, proportion=proportion, seed=seed)
    found = list(stream.run())
    newest, fresh = -1, []
    for number, value in found:
        if number == newest + 1:
            newest += 1
            fresh.append((number, value))
        else:
            assert newest - slots <= number < newest
    assert fresh == numbered
    extra = len(found) - len(items)
    assert int(proportion) * max(0, len(items) - 1) <= extra <= (int(proportion) + 1) * max(0, len(items) - 1)
    assert list(MixInReplay(from_items(numbered), slots=slots, proportion=proportion, seed=seed).run()) == found


def test_aggregating_puts_batches_together_in_actors() -> None:
    workers = create_rollout_workers(env=ENV, loss=A3CLoss(), **SMALL)
    stream = aggregate(ParallelRollouts(workers), aggregators=2, batches=3).gather_async()
    for batch in reports(stream, 4):
        assert len(batch) == 3 * 12
        assert batch.env_steps == 36


def test_fields_are_standardised_and_nothing_else_is_touched() -> None:
    workers = create_rollout_workers(env=ENV, loss=A3CLoss(), **SMALL)
    plain, standard = (
        reports(stream, 2)
        for stream in (
            ParallelRollouts(workers).gather_sync(),
            ParallelRollouts(workers).gather_sync().with_columns(StandardizeFields("rewards", "t")),
        )
    )
    for before, after in zip(plain, standard, strict=True):
        for name in ("rewards", "t"):
            column = before.untyped()[name].astype(np.float64)
            want = (column - column.mean()) / column.std()
            np.testing.assert_allclose(after.untyped()[name], want, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(after["obs"], before["obs"])


# --------------------------------------------------------------------------- metrics


def test_metrics_count_what_was_sampled_and_trained_once() -> None:
    plan, _ = ppo()
    found = reports(plan, 6)
    assert [each.env_steps for each in found] == [24 * count for count in range(1, 7)]
    assert [each.training.rows for each in found] == [24 * count for count in range(1, 7)]
    assert [each.training.updates for each in found] == [6 * count for count in range(1, 7)]
    episodes = found[-1].episodes
    # env 0 plays episodes of 3 and 4 steps, env 1 of 2 and 5; each worker has both, 36 steps each
    assert episodes.count == 4 * 10
    assert set(episodes.lengths) <= {2, 3, 4, 5}
    flat = found[-1].flat()
    assert flat["env_steps"] == 144
    assert flat["learner/entropy"] > 0


def test_speeds_and_times_are_looked_at_now_and_then() -> None:
    plan, _ = ppo()
    with SimRuntime() as session, plan.run(runtime=session) as run:
        found = [next(run) for _ in range(5)]
    assert found[0].speed.operators == {}
    with LocalRuntime() as slow, plan.run(runtime=slow) as run:
        clock = iter(range(1000))
        slow.now = lambda: float(next(clock))  # type: ignore[method-assign]  # a clock that jumps
        found = [next(run) for _ in range(5)]
    speed = found[-1].speed
    assert speed.seconds > 0
    assert speed.env_steps_per_s > 0
    assert speed.ledger is not None
    assert speed.ledger.balanced
    assert any("TrainOneStep" in name for name in speed.operators)


def test_evaluation_runs_beside_training() -> None:
    _, workers = ppo()
    evaluators = create_evaluation_workers(workers, episodes=3)
    found = reports(ParallelEvaluations(evaluators).gather_sync(), 2)
    assert [each.count for each in found] == [3, 3]


class Odd(A3CLoss):
    """A loss that goes wrong in one of several ways."""

    how: ClassVar[str] = ""

    def compute(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> LossValue:
        value = super().compute(policy, batch, target=target, steps=steps)
        wrong: Any = {  # Any: what checkers would reject
            "a tensor": value.total,
            "rows": value._replace(total=batch["rewards"] * value.total),
            "no gradient": value._replace(total=value.total.detach()),
            "a float": value._replace(stats=cast("Any", {"mine": 1.0})),  # Any: as above
        }[self.how]
        return cast("LossValue", wrong)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("a tensor", r"Odd.compute must return a LossValue\(total, stats\), got Tensor"),
        ("rows", "Odd.compute: total must be a scalar with a gradient"),
        ("no gradient", "Odd.compute: total must be a scalar with a gradient"),
        ("a float", "Odd.compute: stats must be scalar tensors; mine are not"),
    ],
)
def test_what_is_wrong_with_a_loss_of_ones_own(how: str, message: str) -> None:
    kind = type("Odd", (Odd,), {"how": how})
    workers = create_rollout_workers(env=ENV, loss=kind(), **SMALL)
    with pytest.raises(OperatorError, match=message):
        reports(ParallelRollouts(workers).gather_sync().for_each(TrainOneStep(workers)), 1)


@pytest.mark.parametrize("workers_in_pool", [1, 2])
def test_a_round_that_another_step_has_trained_on_before_is_stale(workers_in_pool: int) -> None:
    """Behind a split, the other branch may train first; a whole round must be as new as the weights."""
    workers = create_rollout_workers(env=ENV, loss=PPOLoss(), num_workers=workers_in_pool, **SMALL)
    rounds = ConcatRounds(ParallelRollouts(workers).par_with_columns(ComputeAdvantages()).gather_rounds())
    one, two = rounds.split()
    first, second = (branch.for_each(TrainOneStep(workers)) for branch in (one, two))
    with pytest.raises(OperatorError, match=r"between a split\(\) and this one"):
        reports(Union(first, second), 4)


# --------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: loose.create_rollout_workers(env=ENV, loss=A3CLoss(), num_envs=0), "num_envs must be at least 1, got 0"),
        (lambda: loose.create_rollout_workers(env=ENV), "give one of loss= and agent=, or losses= or agents="),
        (lambda: loose.create_rollout_workers(env=ENV, losses={"a": A3CLoss()}), "losses= and policy_of= belong together"),
        (lambda: loose.create_rollout_workers(env=ENV, loss="ppo"), "the loss of 'default' must be a loss such as PPOLoss"),
        (lambda: loose.create_rollout_workers(env=ENV, loss=A3CLoss(), optimizer=0.1), "must be an optimiser such as Adam"),
        (
            lambda: loose.create_rollout_workers(env=3, loss=A3CLoss()),
            "env must be a gymnasium id or something that makes an env",
        ),
        (lambda: loose.ParallelRollouts(create_replay_actors()), "workers must be what create_rollout_workers returns"),
        (lambda: loose.create_replay_actors(capacity=10, min_size=20), "min_size must be at most 10, got 20"),
        (lambda: loose.create_replay_actors(kind="fifo"), "kind must be 'uniform' or 'prioritized'"),
        (lambda: loose.create_replay_actors(lockstep=True), "lockstep=True needs several policies"),
        (lambda: loose.UpdateTargetNetwork(a3c()[1]), "A3CLoss has no target network"),
        (lambda: loose.TrainOneStep(a3c()[1], epochs=0), "epochs must be at least 1, got 0"),
        (lambda: loose.ComputeAdvantages(gamma=1.5), "gamma must be from 0 to 1, got 1.5"),
        (lambda: loose.StandardizeFields(3), "give the names of columns"),
        (lambda: several()[1].learner, "has several learners: PPO, DQN"),
        (lambda: loose.create_learner(a3c()[1], policy="x"), 'there is no policy "x"; there is default'),
        (lambda: loose.create_learner(3), "workers must be what create_rollout_workers returns"),
        (lambda: loose.create_evaluation_workers(a3c()[1], num_envs=0), "num_envs must be at least 1"),
        (lambda: loose.create_rollout_workers(env=ENV, loss=A3CLoss(), exploration=0.1), "such as EpsilonGreedy"),
        (lambda: loose.create_rollout_workers(env=ENV, loss=A3CLoss(), model="mlp"), "model must be 'auto', a description"),
        (lambda: loose.create_rollout_workers(env=ENV, losses={}, policy_of=str), "losses= is empty"),
        (lambda: A3CLoss(gamma=7), "gamma must be from 0 to 1"),
        (lambda: PPOLoss(clip=-1), "clip must be finite and above 0"),
    ],
)
def test_sentences_at_plan_time(make: Callable[[], object], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        make()


def test_an_env_that_does_not_exist_is_an_error_at_the_start() -> None:
    workers = create_rollout_workers(env="CartPol-v1", loss=A3CLoss())
    with pytest.raises(Exception, match=r"CartPol-v1: is not an env that gymnasium knows\. Did you mean CartPole"):
        next(ParallelRollouts(workers).gather_sync().run())


def test_making_a_plan_makes_no_env() -> None:
    def explode() -> PlannedEnv:
        raise AssertionError("made too early")

    workers = create_rollout_workers(env=explode, loss=A3CLoss())
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    plan = ReportMetrics(grads.for_each(ApplyGradients(workers)), workers)
    assert "ParallelRollouts(workers)" in str(plan)
    plan.validate()
    assert plan.fingerprint
