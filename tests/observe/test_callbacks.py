"""Who looks on: callbacks are told of the beginning, of every report and of the end, whatever that is."""

from __future__ import annotations

import copy
import gc
from dataclasses import replace

import numpy as np
import pytest

from tests.laws.world import RUNTIMES, dice, over_runtimes
from tflow import Metrics, PlanError, Stop
from tflow.algos import A2C, A3C, DQN, IMPALA, MAML, PPO, PPODQN, Algorithm, ApeX, Callback, TrainingRun
from tflow.algos.evaluation import reporting, with_evaluation
from tflow.models import MLP
from tflow.runtime.sim import SimRuntime
from tflow.schedules import Piecewise

SMALL = PPO(num_workers=1, num_envs=2, fragment=16, epochs=1, minibatch=32, model=MLP((8,)))


class Notes(Callback):
    """Writes down what it is told; raises when it is asked to."""

    def __init__(self, fails_in: str = "") -> None:
        self.fails_in = fails_in
        self.heard: list[str] = []

    def note(self, what: str, said: str) -> None:
        self.heard.append(said)
        if what == self.fails_in:
            raise RuntimeError(f"in {what}")

    def started(self, run: TrainingRun) -> None:
        assert run.metrics is None
        self.note("started", "started")

    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        assert run.metrics is metrics
        self.note("reported", f"{metrics.training.updates}")

    def ended(self, run: TrainingRun, error: BaseException | None) -> None:
        assert run.policy().act([0.0] * 4) in (0, 1)
        self.note("ended", f"ended: {run.outcome}, {type(error).__name__}")


def test_they_hear_everything_once_and_in_order() -> None:
    notes = Notes()
    run = SMALL.run(stop=Stop(updates=3), callbacks=[notes])
    assert notes.heard == [], "nothing has begun"
    assert [metrics.training.updates for metrics in run] == [1, 2, 3]
    assert notes.heard == ["started", "1", "2", "3", "ended: 3 updates, NoneType"]
    run.close()
    assert len(notes.heard) == 5


def test_a_run_that_is_let_go_of_has_ended_too() -> None:
    notes = Notes()
    with SMALL.run(callbacks=[notes]) as run:
        next(run)
    assert notes.heard == ["started", "1", "ended: closed, NoneType"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("mine")])
def test_errors_and_ctrl_c_are_told(error: BaseException) -> None:
    notes = Notes()
    with pytest.raises(type(error)), SMALL.run(callbacks=[notes]) as run:
        next(run)
        raise error
    told = "interrupted" if isinstance(error, KeyboardInterrupt) else "ValueError: mine"
    assert notes.heard[-1] == f"ended: {told}, {type(error).__name__}"


@pytest.mark.parametrize("where", ["started", "reported", "ended"])
def test_a_callback_that_raises_ends_the_run_and_the_others_hear_of_it(where: str) -> None:
    notes, broken = Notes(), Notes(where)
    run = SMALL.run(stop=Stop(updates=2), callbacks=[notes, broken])
    with pytest.raises(RuntimeError, match=f"in {where}"):
        run.finish()
    assert notes.heard[-1].startswith("ended: ")
    assert list(run) == []


def test_what_else_goes_wrong_at_the_end_is_a_note() -> None:
    broken = Notes("ended")
    with pytest.raises(ValueError, match="first") as caught, SMALL.run(callbacks=[broken]) as run:
        next(run)
        raise ValueError("first")
    assert caught.value.__notes__ == ["While ending: RuntimeError: in ended"]


def test_an_iteration_that_a_callback_stops_is_an_error_of_its_own() -> None:
    class Careless(Callback):
        def reported(self, run: TrainingRun, metrics: Metrics) -> None:
            next(iter(()))

    run = SMALL.run(callbacks=[Careless()])
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        run.finish()
    assert run.outcome.startswith("StopIteration")


def test_a_run_that_is_forgotten_has_ended_too() -> None:
    notes = Notes()
    for _ in SMALL.run(callbacks=[notes]):
        break
    gc.collect()
    assert notes.heard == ["started", "1", "ended: closed, NoneType"]


def test_only_callbacks_are_callbacks() -> None:
    with pytest.raises(PlanError, match="callbacks must be a list of callbacks"):
        SMALL.run(callbacks=Callback())  # type: ignore[arg-type]  # that is the point
    with pytest.raises(PlanError, match=r"each of callbacks must be a Callback such as ShowProgress\(\)"):
        SMALL.run(callbacks=[print])  # type: ignore[list-item]  # that is the point


# ------------------------------------------------------------------- evaluation beside training

ALL: dict[str, tuple[Algorithm, int]] = {
    "PPO": (SMALL, 12),
    "A2C": (A2C(num_envs=2), 30),
    "A3C": (A3C(num_envs=2), 40),
    "DQN": (DQN(learning_starts=100, num_envs=2, model=MLP((8,))), 60),
    "ApeX": (ApeX(learning_starts=200, num_envs=2, model=MLP((8,))), 20),
    "IMPALA": (IMPALA(num_envs=2), 20),
    "PPODQN": (PPODQN(num_envs=2, ppo_batch=128, dqn=DQN(learning_starts=100, model=MLP((8,)))), 40),
}


@pytest.mark.parametrize("name", ALL)
def test_evaluating_changes_nothing_of_what_is_learned(name: str) -> None:
    config, updates = ALL[name]
    plain = config.run(stop=Stop(updates=updates))
    beside = config.run(stop=Stop(updates=updates), eval_every=100, eval_episodes=2)
    plain.finish()
    last = beside.finish()
    assert last.evaluations >= 1
    assert last.evaluation.count == 2
    for policy, learned in plain.policies().items():
        assert np.array_equal(learned.flat.get(), beside.policies()[policy].flat.get())


@over_runtimes
def test_the_policy_that_was_evaluated_is_the_one_that_is_given(runtime: str) -> None:
    """A learning rate of zero after the first round: what is evaluated later is what was trained in the first."""
    config = replace(SMALL, lr=Piecewise(((0, 0.1), (32, 0.1), (33, 0.0))))
    with RUNTIMES[runtime]() as session, config.run(eval_every=32, eval_episodes=2, runtime=session) as run:
        next(metrics for metrics in run if metrics.evaluations == 3)
        assert np.array_equal(run.evaluated_policies()["default"].flat.get(), run.policy().flat.get())


def test_what_was_evaluated_is_not_what_was_learned_since() -> None:
    with SMALL.run(eval_every=64, eval_episodes=2) as run:
        next(metrics for metrics in run if metrics.evaluations)
        then = run.policy().flat.get()
        assert next(run).evaluations == 1, "this is a step of training"
        assert not np.array_equal(run.policy().flat.get(), then)
        assert np.array_equal(run.evaluated_policies()["default"].flat.get(), then)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("rounds", [1, 2])
def test_an_evaluation_that_is_under_way_or_due_at_the_end_is_waited_for(seed: int, rounds: int) -> None:
    """Whatever is slow: in one of these orders, the first evaluation is not over when the second round is."""
    notes = Notes()
    with SimRuntime(dice(seed)) as session:
        run = SMALL.run(stop=Stop(env_steps=30 * rounds), callbacks=[notes], eval_every=32, eval_episodes=2, runtime=session)
        reports = list(run)
        assert (reports[-1].evaluations, reports[-1].evaluation.weights_at) == (1, 32)
        assert len(notes.heard) == len(reports) + 2, "each report is heard once, and so are beginning and end"


def test_policies_that_adapt_are_evaluated_all_along() -> None:
    with pytest.raises(PlanError, match="its metrics have the return before and after"):
        MAML().run(eval_every=100)


def test_a_plan_that_evaluates_is_not_made_to_do_so_twice() -> None:
    with pytest.raises(PlanError, match="evaluates already"):
        with_evaluation(with_evaluation(SMALL.plan(), every=10), every=10)


def test_a_plan_carries_its_workers_through_taps_evaluation_and_copies() -> None:
    plan = reporting(A2C(env="CartPole-v1", num_workers=1, num_envs=2, fragment=8).plan())
    seen: list[Metrics] = []
    tapped = plan.tapped("CollectMetrics", seen.append)
    watched = with_evaluation(tapped, every=16, episodes=1)
    assert tapped.workers is watched.workers is plan.workers
    assert (plan.evaluators, tapped.evaluators, len(watched.evaluators)) == ((), (), 1)
    assert copy.copy(watched).evaluators == watched.evaluators
    with watched.run() as run:
        reports = [next(run) for _ in range(6)]
    assert seen == reports, "the tap is still behind the report"
    assert reports[-1].evaluations > 0
