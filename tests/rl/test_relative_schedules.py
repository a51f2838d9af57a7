"""Schedules relative to the stop of a run: what they are worth, and who is told when the run stops."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algos.test_algorithms import SMALL
from tests.laws.world import RUNTIMES
from tflow import PlanError, Stop, create_replay_actors
from tflow.algos import A3C, DQN, PPO, SAC, Algorithm, SinglePolicy
from tflow.algos.evaluation import reporting
from tflow.commands.choice import chosen
from tflow.models import MLP
from tflow.rl.rollout.worker import RolloutWorker
from tflow.rl.schedules import EnvSteps, Exponential, Linear, Schedule
from tflow.settings.values import read, shown

finite = st.floats(-1e6, 1e6)
positive = st.floats(1e-6, 1e6)
SHARES = st.floats(0.01, 1.0)


# --------------------------------------------------------------------------- values


@given(finite, finite, st.integers(1, 10**9), st.integers(0, 10**10))
def test_the_whole_run_is_its_env_steps(start: float, end: float, stops_at: int, now: int) -> None:
    assert Linear(start, end).at(EnvSteps(now, stops_at)) == Linear(start, end, steps=stops_at).at(now)


@given(positive, positive, st.integers(1, 10**9), st.integers(0, 10**10))
def test_exponential_ones_too(start: float, end: float, stops_at: int, now: int) -> None:
    assert Exponential(start, end).at(EnvSteps(now, stops_at)) == Exponential(start, end, steps=stops_at).at(now)


@given(positive, positive, SHARES, st.integers(100, 10**9), st.lists(st.floats(0.0, 2.0), min_size=2))
def test_a_share_of_the_run_is_annealed_and_the_rest_is_constant(
    start: float, end: float, share: float, stops_at: int, when: list[float]
) -> None:
    for schedule in (Linear(start, end, share=share), Exponential(start, end, share=share)):
        values = [schedule.at(EnvSteps(int(part * stops_at), stops_at)) for part in sorted(when)]
        slack = 1e-9 * (start + end)
        towards = 1 if end >= start else -1
        assert all(towards * (after - before) >= -slack for before, after in pairwise(values)), "it never turns back"
        assert schedule.at(EnvSteps(0, stops_at)) == start
        assert schedule.at(EnvSteps(int(share * stops_at) + 1, stops_at)) == schedule.at(EnvSteps(stops_at, stops_at)) == end


@given(positive, positive, SHARES, st.integers(0, 10**10))
def test_without_a_stop_the_value_stays(start: float, end: float, share: float, now: int) -> None:
    for schedule in (Linear(start, end, share=share), Exponential(start, end, share=share)):
        assert schedule.at(now) == schedule.at(EnvSteps(now)) == start


def test_by_hand() -> None:
    halved = [Linear(1.0, 0.2, share=0.5).at(EnvSteps(steps, stops_at=1000)) for steps in (0, 250, 500, 750, 1000, 1500)]
    assert halved == pytest.approx([1.0, 0.6, 0.2, 0.2, 0.2, 0.2])
    assert Exponential(1.0, 0.01).at(EnvSteps(50, stops_at=100)) == pytest.approx(0.1)


@given(st.integers(-(10**6), 10**12), st.none() | st.integers(1, 10**12))
def test_env_steps_are_numbers(steps: int, stops_at: int | None) -> None:
    made = EnvSteps(steps, stops_at)
    assert (made, hash(made), made.stops_at, repr(made)) == (steps, hash(steps), stops_at, repr(steps))
    assert type(made + 0) is int
    for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert (type(again), again, again.stops_at) == (EnvSteps, steps, stops_at)


@given(finite, finite, st.none() | st.integers(1, 10**9), SHARES)
def test_what_is_shown_can_be_read(start: float, end: float, steps: int | None, share: float) -> None:
    made = Linear(start, end, steps) if steps is not None else Linear(start, end, share=share)
    assert read(shown(made) or "") == made
    assert eval(repr(made), {"Linear": Linear}) == made


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (Linear(1.0, 0.1), "Linear(start=1.0, end=0.1)"),
        (Linear(1.0, 0.1, 10), "Linear(start=1.0, end=0.1, steps=10)"),
        (Exponential(1.0, 0.1, share=0.5), "Exponential(start=1.0, end=0.1, share=0.5)"),
    ],
)
def test_only_what_was_given_is_shown(schedule: Schedule, text: str) -> None:
    assert repr(schedule) == text


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: Linear(1.0, 0.1, 10, 0.5),
            r"Linear: got steps=10 and share=0.5\. Give steps= to anneal within so many env steps, or",
        ),
        (lambda: Exponential(1.0, 0.1, steps=10, share=0.5), "Exponential: got steps=10 and share=0.5.*not both"),
        (lambda: Linear(1.0, 0.1, share=0), "Linear: share must be above 0 and at most 1, got 0"),
        (lambda: Exponential(1.0, 0.1, share=1.5), "Exponential: share must be above 0 and at most 1, got 1.5"),
        (lambda: Linear(1.0, 0.1, share=True), "Linear: share must be above 0 and at most 1, got True"),
        (lambda: DQN(beta=Linear(0.4, 1.0)), r"DQN: beta goes by the rows stored.*got Linear\(start=0.4, end=1.0\)\. Say within"),
        (lambda: SAC(update_ratio=Linear(0.1, 1.0)), r"SAC: update_ratio goes by .* how many: Linear\(0.1, 1.0, steps=\.\.\.\)"),
        (
            lambda: create_replay_actors(beta=Exponential(0.4, 1.0)),
            r"create_replay_actors: beta .* Exponential\(0.4, 1.0, steps=",
        ),
        (lambda: create_replay_actors(update_ratio=Linear(0, 1)), "create_replay_actors: update_ratio goes by the rows stored"),
        (lambda: PPO().plan().run().will_stop(0), "will_stop: env_steps must be at least 1, got 0"),
    ],
)
def test_sentences(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        make()


# --------------------------------------------------------------------------- runs


SEEN: list[int] = []
"""What the schedules below were asked for: operators have copies of them."""


@dataclass(frozen=True)
class Noted:
    """A schedule of one's own: notes what it is asked for, and is worth what another one is."""

    then: Schedule

    def at(self, steps: int, /) -> float:
        SEEN.append(steps)
        return self.then.at(steps)


def rates(algorithm: Algorithm, stop: Stop | None, runtime: str = "local", count: int = 1000) -> list[tuple[int, float]]:
    """Env steps and learning rate of each report with updates."""
    found = []
    with RUNTIMES[runtime]() as session, algorithm.run(stop=stop, runtime=session) as run:
        for _, metrics in zip(range(count), run, strict=False):
            if rate := [value for name, value in metrics.flat().items() if name.endswith("lr")]:
                found.append((metrics.env_steps, rate[0]))
    return found


def small(name: str, lr: Schedule) -> SinglePolicy:
    algorithm = SMALL[name]
    assert isinstance(algorithm, SinglePolicy)
    return replace(algorithm, lr=lr)


@pytest.mark.parametrize("name", ["PPO", "A2C", "DQN", "SAC"])
def test_learning_rates_reach_their_end_with_the_run(name: str) -> None:
    found = rates(small(name, Linear(1e-2, 0.0)), Stop(env_steps=400))
    assert found[-1][0] >= 400
    assert all(rate == pytest.approx(1e-2 * max(0, 1 - steps / 400)) for steps, rate in found)
    absolute = rates(small(name, Linear(1e-2, 0.0, steps=400)), Stop(env_steps=400))
    assert found == absolute, "the same run, whichever way it is said"


@pytest.mark.parametrize("stop", [None, Stop(updates=20), Stop(seconds=60)])
def test_without_a_stop_by_env_steps_they_stay(stop: Stop | None) -> None:
    found = rates(small("PPO", Linear(1e-2, 0.0)), stop, count=8)
    assert {rate for _, rate in found} == {1e-2}


@pytest.mark.parametrize("runtime", ["local", "sim"])
def test_learners_in_actors_are_told(runtime: str) -> None:
    found = rates(small("IMPALA", Linear(1e-2, 0.0)), Stop(env_steps=2_000), runtime)
    assert found[0][1] == 1e-2, "not told yet"
    late = [(steps, rate) for steps, rate in found if steps > 500]
    assert late
    assert all(rate == pytest.approx(1e-2 * (1 - steps / 2_000), abs=1e-2 * 0.1) for steps, rate in late)


def test_workers_know_before_the_first_weights_arrive() -> None:
    """Replay is filled without an update, and so without a message; the epsilon is annealed meanwhile."""
    config = DQN(num_workers=1, num_envs=2, fragment=4, learning_starts=300, capacity=400, batch=8, model=MLP((8,)))
    noted = replace(config, epsilon=Noted(Linear(1.0, 0.0, share=0.5)))
    SEEN.clear()
    noted.run(stop=Stop(env_steps=400)).finish()
    told = [steps for steps in SEEN if isinstance(steps, EnvSteps)]
    assert {steps.stops_at for steps in told} == {400}
    assert (told[0], len([steps for steps in told if steps < 300]) > 20) == (0, True)


def test_workers_that_compute_gradients_know() -> None:
    config = A3C(num_envs=2, fragment=8, model=MLP((8,)), entropy_coef=Noted(Linear(0.1, 0.0)))
    SEEN.clear()
    config.run(stop=Stop(env_steps=200)).finish()
    assert {each.stops_at for each in SEEN if isinstance(each, EnvSteps)} == {200}
    assert len(SEEN) > 10


def test_the_latest_word_counts() -> None:
    config = small("PPO", Linear(1e-2, 0.0))
    plan = config.plan()
    workers = reporting(plan).workers
    with plan.run() as run:
        run.will_stop(5_000)
        next(run)
        assert run.ask(workers, stops_at) == [5_000, 5_000]
        run.will_stop(7_000)
        next(run)
        next(run)
        assert run.ask(workers, stops_at) == [7_000, 7_000]


def stops_at(worker: RolloutWorker) -> int | None:
    return worker.stops_at


def test_the_command_line_takes_them() -> None:
    choice = chosen(["ppo", "--lr", "Linear(1e-3, 0)", "--clip", "Exponential(0.2, 0.1, share=0.5)"], {})
    assert isinstance(choice.algorithm, PPO)
    assert (choice.algorithm.lr, choice.algorithm.clip) == (Linear(1e-3, 0), Exponential(0.2, 0.1, share=0.5))
