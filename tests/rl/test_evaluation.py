"""Evaluation beside training: when it happens, with which weights, and where its results are seen."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import tflow
from tests.laws.world import RUNTIMES, over_repeatable_runtimes
from tests.rl.toy_envs import Life, PlannedEnv, TogetherEnv
from tflow import (
    ComputeAdvantages,
    ConcatRounds,
    Iter,
    Metrics,
    ParallelEvaluations,
    ParallelRollouts,
    PlanError,
    ReportMetrics,
    Stop,
    TrainOneStep,
    TrainStats,
    Union,
    UpdateWeights,
    Workers,
    create_evaluation_workers,
    create_rollout_workers,
)
from tflow.actors import Evaluators
from tflow.algos import PPO, PPODQN, Algorithm
from tflow.data import Episodes
from tflow.envs import EnvSpec
from tflow.errors import Deadlock, EnvError
from tflow.losses import PPOLoss
from tflow.models import MLP
from tflow.optimizers import SGD
from tflow.rl.data.arrays import Array
from tflow.rl.policy.policy import Policy
from tflow.rl.policy.weights import seed_for
from tflow.rl.rollout.evaluate import evaluate
from tflow.rl.rollout.worker import RolloutWorker, SingleWorker
from tflow.rl.rollout.worker_spec import CurrentPolicy
from tflow.types import Sync

loose: Any = tflow  # Any: what checkers would reject, said at run time
PLANS = (((3, "terminated"), (4, "truncated")), ((2, "terminated"), (5, "terminated")))
ENV = EnvSpec(partial(PlannedEnv, PLANS))
PER_STEP = 24
"""Env steps per step of training: 2 workers with 2 envs each, 6 steps at a time."""
over_ways = pytest.mark.parametrize("way", ["gather_sync", "gather_async"])


def described(every: int | None, num_workers: int = 1) -> tuple[Workers[Any, Any], Evaluators]:  # Any: what the loss reads
    fast = SGD(lr=0.5)  # so that a few updates make another policy
    workers = create_rollout_workers(env=ENV, loss=PPOLoss(), num_envs=2, fragment=6, model=MLP((4,)), optimizer=fast)
    return workers, create_evaluation_workers(workers, episodes=3, every=every, num_workers=num_workers)


def training(workers: Workers[Any, Any]) -> Iter[TrainStats, Sync]:  # Any: what the loss reads
    rounds = ConcatRounds(ParallelRollouts(workers).par_with_columns(ComputeAdvantages()).gather_rounds())
    return rounds.for_each(TrainOneStep(workers))


def evaluations(evaluators: Evaluators, way: str = "gather_sync") -> Iter[Episodes]:
    found = ParallelEvaluations(evaluators)
    return found.gather_sync() if way == "gather_sync" else found.gather_async()


def both(
    workers: Workers[Any, Any], evaluators: Evaluators, way: str = "gather_sync"
) -> Iter[TrainStats | Episodes]:  # Any: ditto
    return Union(training(workers).for_each(UpdateWeights(workers, evaluators)), evaluations(evaluators, way))


def dues(trained: int, every: int) -> list[int]:
    """After which steps of training an evaluation is due: those that pass multiples of ``every``, however many they pass."""
    return [step for step in range(1, trained + 1) if PER_STEP * step // every > PER_STEP * (step - 1) // every]


# --------------------------------------------------------------------------- when


@over_repeatable_runtimes
@over_ways
@pytest.mark.parametrize("every", [10, 24, 60])
def test_evaluations_happen_once_per_so_many_env_steps_and_no_more(runtime: str, way: str, every: int) -> None:
    workers, evaluators = described(every)
    trained = found = wanted = 0
    with RUNTIMES[runtime]() as session, both(workers, evaluators, way).run(runtime=session) as run:
        for _ in range(15):
            item = next(run)
            trained += isinstance(item, TrainStats)
            found += isinstance(item, Episodes)
            wanted = len(dues(trained, every))
            assert found <= wanted
            if way == "gather_sync" or not runtime.startswith("sim,"):
                assert found >= wanted - 1, "it comes next"
    assert trained > 5
    assert found >= wanted // 2, "an evaluator that is slow leaves some out"


@pytest.mark.parametrize("runtime", ["local", "sim"])
def test_in_order_an_evaluation_follows_at_once(runtime: str) -> None:
    workers, evaluators = described(60)
    with RUNTIMES[runtime]() as session, both(workers, evaluators).run(runtime=session) as run:
        shown = "".join("t" if isinstance(next(run), TrainStats) else "E" for _ in range(20))
    expected = "".join("tE" if step in dues(20, 60) else "t" for step in range(1, 21))
    assert shown == expected[:20]


@over_ways
def test_each_of_several_evaluators_works_once_per_due(way: str) -> None:
    workers, evaluators = described(60, num_workers=2)
    sources: list[tuple[int, int]] = []
    trained = 0
    with both(workers, evaluators, way).run() as run:
        while trained < 13:
            if isinstance(next(run), TrainStats):
                trained += 1
            else:
                sources += [(source.shard, source.sequence) for source in run.provenance.sources]
    assert len(dues(12, 60)) == 4
    assert sorted(sources)[:8] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)]
    assert len(sources) == 8


def test_without_every_they_are_made_all_the_time() -> None:
    workers, evaluators = described(None)
    with both(workers, evaluators).run() as run:
        shown = "".join("t" if isinstance(next(run), TrainStats) else "E" for _ in range(10))
    assert shown in ("tE" * 5, "Et" * 5)


ENDLESS = ((3, "terminated"), (10**9, "terminated"))


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(PPO(env=EnvSpec(partial(PlannedEnv, (ENDLESS,))), num_envs=2, fragment=8), id="one agent"),
        pytest.param(
            PPODQN(env=EnvSpec(partial(TogetherEnv, (Life(0, 3), Life(0, 10**9)))), num_envs=2, fragment=8), id="several agents"
        ),
    ],
)
def test_episodes_without_end_are_cut(config: Algorithm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tflow.rl.rollout.evaluation.CUT_AFTER", 50)
    last = config.run(eval_every=16, eval_episodes=4, stop=Stop(env_steps=200)).finish()
    assert last.evaluations
    assert max(last.evaluation.lengths) == 50
    assert 3 in last.evaluation.lengths or len(last.evaluation.lengths) == 2, "those that end count as well"


def test_an_evaluation_of_ones_own_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tflow.rl.rollout.worker.LONGEST", 50)
    env = EnvSpec(partial(PlannedEnv, (ENDLESS,)))
    policy = PPO(env=env, num_envs=2, fragment=8).run(stop=Stop(env_steps=16))
    policy.finish()
    with pytest.raises(EnvError, match="has an episode that is not over after 50 steps, so it cannot be evaluated"):
        evaluate(policy.policy(), env, episodes=4, num_envs=2)
    found = evaluate(policy.policy(), env, episodes=4, cut_after=40, num_envs=2)
    assert sorted(found.lengths) == [3, 3, 40, 40]


# --------------------------------------------------------------------------- with which weights


def greedy(policy: Policy, seed: int) -> Episodes:
    """What 3 episodes of 2 envs come to, played by hand: the first ones of both, then the second of the first."""
    found: list[list[tuple[float, int]]] = [[], []]
    for number in range(2):
        env = PlannedEnv(PLANS)
        obs, _ = env.reset(seed=seed + number)
        for _ in range(2):
            total, length, over = 0.0, 0, False
            while not over:
                obs, reward, terminated, truncated, _ = env.step(policy.act(obs))
                total, length, over = total + float(np.float32(reward)), length + 1, terminated or truncated
            found[number].append((total, length))
            obs, _ = env.reset()
    first = [found[0][0], found[1][0], found[0][1]]
    return Episodes(3, tuple(total for total, _ in first), tuple(length for _, length in first))


def begins_with(worker: RolloutWorker) -> int:
    """The seed of its next evaluation."""
    return seed_for(worker.shard.seed, "evaluation", worker.steps)


@pytest.mark.parametrize("runtime", ["local", "sim"])
def test_what_is_evaluated_is_the_policy_as_it_is_now_without_exploring(runtime: str) -> None:
    workers, evaluators = described(48)
    seen: list[Episodes] = []
    trained = 0
    with RUNTIMES[runtime]() as session, both(workers, evaluators).run(runtime=session) as run:
        (seed,) = run.ask(evaluators, begins_with)
        while len(seen) < 4:
            item = next(run)
            if isinstance(item, TrainStats):
                trained += 1
            else:
                assert item == replace(greedy(workers.policy(run), seed), weights_at=PER_STEP * trained)
                seen.append(item)
                (seed,) = run.ask(evaluators, begins_with)
    assert len({episodes.returns for episodes in seen}) == 4


@over_repeatable_runtimes
@over_ways
def test_evaluators_have_the_weights_of_the_latest_update_that_they_were_told_of(
    runtime: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers, evaluators = described(24)
    used: list[Array] = []
    play = SingleWorker.evaluate

    def noted(worker: SingleWorker) -> Episodes:
        used.append(worker.policy.flat.get())
        return play(worker)

    monkeypatch.setattr(SingleWorker, "evaluate", noted)
    with RUNTIMES[runtime]() as session, both(workers, evaluators, way).run(runtime=session) as run:
        versions = [run.ask(workers.learner, CurrentPolicy.get_weights)[0]]
        shown = 0
        for _ in range(24):
            item = next(run)
            if isinstance(item, TrainStats):
                versions.append(run.ask(workers.learner, CurrentPolicy.get_weights)[0])
            else:
                shown += 1
    found = [next(nth for nth, weights in enumerate(versions) if np.array_equal(weights, each)) for each in used[:shown]]
    assert found == sorted(set(found)), "each is of a later version"
    assert found[0] == 1, "the first weights are not evaluated: nothing has been sampled yet"
    if way == "gather_sync":
        assert found == list(range(1, shown + 1))
    else:
        assert found[-1] >= shown


def test_training_is_the_same_with_and_without_evaluation() -> None:
    def learned(evaluated: bool) -> tuple[list[float], list[float]]:
        workers, evaluators = described(30)
        stream: Iter[Any] = both(workers, evaluators) if evaluated else training(workers)  # Any: both kinds
        losses: list[float] = []
        with stream.run(seed=4) as run:
            while len(losses) < 6:
                item = next(run)
                if isinstance(item, TrainStats):
                    losses.append(item.stats["loss"])
            return losses, run.ask(workers.learner, CurrentPolicy.get_weights)[0].tolist()

    assert learned(True) == learned(False)


# --------------------------------------------------------------------------- where they are seen


@over_repeatable_runtimes
def test_evaluations_show_up_in_the_metrics(runtime: str) -> None:
    workers, evaluators = described(60)
    plan = ReportMetrics(both(workers, evaluators), workers)
    with RUNTIMES[runtime]() as session, plan.run(runtime=session) as run:
        found: list[Metrics] = [next(run) for _ in range(12)]
    first = next(nth for nth, metrics in enumerate(found) if metrics.evaluation.count)
    assert first >= dues(12, 60)[0]
    for metrics in found[:first]:
        assert metrics.evaluation == Episodes()
        assert not any(name.startswith("evaluation/") for name in metrics.flat())
    different = set()
    for before, metrics in zip(found[first:], found[first + 1 :], strict=False):
        assert metrics.evaluation.count == 3, "the latest, not all of them"
        assert (metrics.evaluation == before.evaluation) == (metrics.training.steps > before.training.steps)
        assert metrics.env_steps == PER_STEP * metrics.training.steps, "what evaluators play is not counted"
        different.add(metrics.evaluation.returns)
        flat = metrics.flat()
        assert flat["evaluation/return"] == pytest.approx(sum(metrics.evaluation.returns) / 3)
        assert flat["evaluation/length"] == pytest.approx(sum(metrics.evaluation.lengths) / 3)
        assert flat["return"] == metrics.episodes.mean_return != flat["evaluation/return"]
    assert len(different) >= 2


# --------------------------------------------------------------------------- when it cannot be


@over_repeatable_runtimes
@over_ways
def test_evaluators_that_nobody_tells_anything_wait_for_ever_and_say_so(runtime: str, way: str) -> None:
    _, evaluators = described(50)
    sentence = r"^The plan cannot go on: evaluation is due every 50 env steps, and UpdateWeights\(.*\) has reported 0\."
    with RUNTIMES[runtime]() as session, pytest.raises(Deadlock, match=sentence):
        next(evaluations(evaluators, way).run(runtime=session))


def test_beside_training_that_ends_they_say_how_far_it_came() -> None:
    for tells, shown, reported in ((True, "tttEt", 96), (False, "tttt", 0)):
        workers, evaluators = described(60)
        trained = training(workers)
        told = trained.for_each(UpdateWeights(workers, evaluators)) if tells else trained
        items = ""
        whole = Union(told.take(4), evaluations(evaluators))
        with whole.run() as run, pytest.raises(Deadlock, match=f"reported {reported}"):
            for item in run:
                items += "t" if isinstance(item, TrainStats) else "E"
        assert items == shown


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda workers, _: loose.create_evaluation_workers(workers, every=0), "every must be at least 1, got 0"),
        (lambda workers, _: loose.create_evaluation_workers(workers, every=1.5), "every must be a whole number"),
        (lambda workers, _: loose.create_evaluation_workers(workers, episodes=0), "episodes must be at least 1"),
        (lambda workers, _: loose.create_evaluation_workers(workers, num_workers=0), "num_workers must be at least 1"),
        (lambda workers, _: loose.create_evaluation_workers(3), "workers must be what create_rollout_workers returns"),
        (lambda workers, _: loose.ParallelEvaluations(workers), "workers must be what create_evaluation_workers returns"),
        (lambda workers, _: loose.UpdateWeights(workers, workers), "others must be what create_evaluation_workers returns"),
        (lambda workers, each: loose.UpdateWeights(each, to="none"), "to must be 'source' or 'all'"),
    ],
)
def test_sentences_at_plan_time(make: Any, message: str) -> None:  # Any: makes something
    with pytest.raises(PlanError, match=message):
        make(*described(10))


def test_evaluators_are_made_as_the_workers_are() -> None:
    workers, evaluators = described(10)
    assert evaluators.name == "workers.evaluation"
    assert (evaluators.spec.explore, evaluators.spec.episodes, evaluators.spec.num_envs) == (False, 3, 2)
    assert evaluators.spec.env == workers.spec.env
    alone = create_evaluation_workers(workers, episodes=1)
    assert (alone.spec.num_envs, alone.due) == (1, None), "no more envs than episodes"
    assert create_evaluation_workers(workers, episodes=1, num_envs=4).spec.num_envs == 4
