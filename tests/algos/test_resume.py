"""Every algorithm can be stopped, saved, loaded and continued: bit for bit what it would have done."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from tests.algos.test_algorithms import SMALL
from tflow import Stop
from tflow.algos import APPO, DDPPO, DQN, PPO, RNNSAC, SAC, Algorithm, ApeX, SinglePolicy
from tflow.algos.evaluation import with_evaluation
from tflow.algos.training_run import Callback, TrainingRun
from tflow.combinators.runnable import Plan
from tflow.errors import RunClosed
from tflow.models import GRU, LSTM, MLP, GTrXL
from tflow.rl.metrics import Metrics
from tflow.runtime.answers import SKIP, Answer
from tflow.runtime.executor import Run
from tflow.runtime.snapshot import snapshot
from tflow.schedules import Exponential, Linear

TIMES = {"busy_ns", "busy", "took_ns", "quick", "measured_at", "now", "began", "speed", "refreshed_at", "waited_ns", "starting_s"}
"""What a clock has a part in."""
UNSEEDED = {"random", "action_space", "observation_space", "single_action_space", "single_observation_space"}
"""Random numbers that nobody has seeded: of the process, which the test itself may use, and of gymnasium's spaces."""


class LockedCartPole(CartPoleEnv):
    """Has something in it that cannot be saved."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def locked_cartpole() -> LockedCartPole:
    return LockedCartPole()


MORE: dict[str, Algorithm] = {
    "Rainbow": DQN(
        num_envs=2, learning_starts=20, batch=8, capacity=60, kind="categorical", noisy=True, prioritized=True, n_step=3
    ),
    "Ape-X with action masks": ApeX(
        env="tflow/Doors-v0", num_envs=2, fragment=8, num_workers=2, model=MLP((8,)), batch=8, learning_starts=40, n_step=3
    ),
    "DQN with action masks": DQN(env="tflow/Doors-v0", num_envs=2, learning_starts=20, batch=8, capacity=60, n_step=2),
    "recurrent PPO with action masks": PPO(env="tflow/Doors-v0", num_envs=2, fragment=16, epochs=2, minibatch=16, model=LSTM(8)),
    "recurrent PPO": PPO(num_envs=2, fragment=16, epochs=2, minibatch=16, model=LSTM(8)),
    "PPO with a transformer": PPO(num_envs=2, fragment=16, epochs=2, minibatch=16, model=GTrXL(8, MLP((8,)), 8, 2, 2, 4)),
    "recurrent APPO": APPO(env="tflow/StatelessCartPole-v1", num_envs=2, fragment=16, model=GRU(8)),
    "R2D2 with action masks": replace(SMALL["R2D2"], env="tflow/Doors-v0"),
    "discrete RNNSAC": replace(SMALL["RNNSAC"], env="tflow/RepeatAfterMe-v0"),
    "SAC on MuJoCo": replace(SMALL["SAC"], env="HalfCheetah-v5"),
    "SAC with noise that depends on states": SAC(
        fragment=2, learning_starts=20, batch=8, capacity=200, num_envs=2, model=MLP((8,)), sde=True, sde_every=5
    ),
    "PPO with two learners": PPO(num_envs=2, fragment=16, epochs=2, minibatch=16, model=MLP((8,)), num_learners=2),
    "SAC with two learners": SAC(
        fragment=2,
        learning_starts=50,
        batch=8,
        capacity=200,
        update_ratio=0.5,
        num_envs=2,
        model=MLP((8,)),
        num_learners=2,
        prioritized=True,
        num_replay=2,
    ),
    "RNNSAC with two learners": RNNSAC(
        fragment=12,
        length=8,
        burn_in=4,
        learning_starts=50,
        batch=3,
        capacity=200,
        update_ratio=0.5,
        num_envs=2,
        model=LSTM(4, MLP((8,))),
        num_learners=2,
    ),
    "recurrent APPO with two learners": APPO(num_envs=2, fragment=8, model=GRU(8), num_learners=2),
    "recurrent DDPPO": DDPPO(num_envs=2, fragment=16, epochs=2, minibatch=16, num_workers=3, model=LSTM(8)),
    "PPO with envs that cannot be saved": PPO(env=locked_cartpole, num_envs=2, fragment=16, epochs=2, minibatch=16),
}


def timeless(tree: Any, arrays: list[Any]) -> Any:  # Any: JSON, and arrays of all kinds
    """A snapshot without what depends on the clock, and with arrays in their places."""
    if isinstance(tree, list):
        return [timeless(each, arrays) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("$") in ("set", "frozenset"):
        return sorted((timeless(each, arrays) for each in tree["v"]), key=repr)
    if tree.get("$") == "part":
        return timeless(tree["v"], arrays[tree["first"] :])
    if "a" in tree and "$" in tree:
        return tree["$"], str(arrays[tree["a"]].dtype), arrays[tree["a"]].tolist()
    if tree.get("c") == "tflow.runtime.stats:Reading":
        return tree["v"][:2]
    if tree.get("c") == "tflow.rl.metrics:MetricsState":
        tree = {name: each for name, each in tree["v"].items() if name not in ("env_steps", "trained")}
    return {name: timeless(each, arrays) for name, each in tree.items() if name not in TIMES | UNSEEDED}


def differences(one: Any, other: Any, path: str = "") -> list[str]:  # Any: as above
    """Where two snapshots differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [found for name in one for found in differences(one[name], other[name], f"{path}/{name}")]
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        return [found for n, pair in enumerate(zip(one, other, strict=True)) for found in differences(*pair, f"{path}/{n}")]
    return [] if one == other or (one != one and other != other) else [f"{path}: {one!r:.80} and {other!r:.80}"]


def numbers(metrics: Metrics) -> dict[str, float]:
    timed = ("seconds", "env_steps_per_s", "trained_per_s", "busy/", "staleness", "worst_staleness")
    return {
        name: value for name, value in metrics.flat().items() if not name.startswith(timed) and not name.endswith("staleness")
    }


def plan_of(algorithm: Algorithm, *, evaluated: bool) -> Plan[Metrics]:
    plan = algorithm.plan()
    return with_evaluation(plan, every=50, episodes=2) if evaluated else plan


def reports(run: Run[Metrics], count: int) -> list[dict[str, float]]:
    return [numbers(next(run)) for _ in range(count)]


def polled(run: Run[Metrics], count: int, found: list[dict[str, float]]) -> None:
    """So many polls of the sink; reports join those found."""
    for _ in range(count):
        answer: Answer = run._started().poll()
        if type(answer) is tuple:
            found.append(numbers(cast("Metrics", answer[0])))
        elif answer is not SKIP:
            run._rest(answer)


@pytest.mark.parametrize(
    ("name", "evaluated"),
    [*((name, False) for name in (*SMALL, *MORE)), ("PPO", True), ("IMPALA", True), ("DQN", True), ("DDPPO", True)],
)
def test_a_run_goes_on_bit_for_bit(name: str, evaluated: bool, tmp_path: Path) -> None:
    """Stopped at several polls: also in the middle of a round, an epoch or an update."""
    algorithm, count = {**SMALL, **MORE}[name], 6 if name == "MAML" else 80 if name == "PPODQN" else 30
    expected: list[dict[str, float]] = []
    found: list[dict[str, float]] = []
    polls = 0
    with plan_of(algorithm, evaluated=evaluated).run(seed=3) as whole:
        while len(expected) < count:
            polled(whole, 1, expected)
            polls += 1
        end, ledger = snapshot(whole._driver).copied(), whole.ledger
    places = sorted(np.random.default_rng(crc32(name.encode())).choice(polls - 1, 4, replace=False) + 1)
    if name == "PPO with envs that cannot be saved":  # saving ends their episodes, in the run that goes on as well
        expected.clear()
        with plan_of(algorithm, evaluated=evaluated).run(seed=3) as whole:
            for first, last in pairwise([0, *places, polls]):
                polled(whole, last - first, expected)
                whole.snapshot()
            end, ledger = snapshot(whole._driver).copied(), whole.ledger
    saved: Path | None = None
    for first, last in pairwise([0, *places, polls]):
        with plan_of(algorithm, evaluated=evaluated).run(seed=3, resume=saved) as run:
            polled(run, last - first, found)
            saved = tmp_path / str(last)
            run.save(saved)
            if last == polls:
                assert run.ledger == ledger
                again = snapshot(run._driver)
                assert differences(timeless(again.tree, again.arrays), timeless(end.tree, end.arrays)) == []
    np.testing.assert_equal(found, expected)


@pytest.mark.parametrize("name", ["PPO", "A3C", "DQN", "SAC", "IMPALA"])
def test_schedules_relative_to_the_stop_go_on_bit_for_bit(name: str, tmp_path: Path) -> None:
    algorithm, stop = SMALL[name], Stop(env_steps=600)
    assert isinstance(algorithm, SinglePolicy)
    algorithm = replace(algorithm, lr=Linear(1e-2, 0.0))
    if isinstance(algorithm, DQN):
        algorithm = replace(algorithm, epsilon=Exponential(1.0, 0.01, share=0.8))
    whole, first = algorithm.run(stop=stop, seed=3), algorithm.run(stop=stop, seed=3)
    expected = [numbers(metrics) for metrics in whole]
    with first:
        before = [numbers(next(first)) for _ in range(len(expected) // 2)]
        first.save(tmp_path / "saved")
    second = algorithm.run(stop=stop, resume=tmp_path / "saved")
    np.testing.assert_equal([*before, *(numbers(metrics) for metrics in second)], expected)
    assert (second.policy().flat.get() == whole.policy().flat.get()).all()


@pytest.mark.parametrize("name", ["PPO", "IMPALA", "DDPPO", "SAC", "PPODQN"])
def test_the_policy_of_a_resumed_run_is_the_saved_one_from_the_start(name: str, tmp_path: Path) -> None:
    with SMALL[name].run(seed=3) as first:
        for _ in zip(range(5), first, strict=False):
            pass
        first.save(tmp_path / "saved")
        expected = {policy: each.flat.get() for policy, each in first.policies().items()}
    with SMALL[name].run(resume=tmp_path / "saved") as second:
        np.testing.assert_equal({policy: each.flat.get() for policy, each in second.policies().items()}, expected)
        assert second.metrics is not None
        assert first.metrics is not None
        np.testing.assert_equal(numbers(second.metrics), numbers(first.metrics))
    closed = SMALL[name].run(resume=tmp_path / "saved")
    closed.close()
    with pytest.raises(RunClosed, match="closed"):
        closed.policies()  # and not those that it would have begun with


def test_a_run_that_was_saved_at_its_end_ends_at_once(tmp_path: Path) -> None:
    class Saves(Callback):
        def stopping(self, run: TrainingRun) -> None:
            run.save(tmp_path / "saved")

    stop = Stop(env_steps=200)
    whole = SMALL["PPO"].run(stop=stop, callbacks=[Saves()], seed=3)
    expected = numbers(whole.finish())
    again = SMALL["PPO"].run(stop=stop, resume=tmp_path / "saved")
    np.testing.assert_equal(numbers(again.finish()), expected)
    assert again.outcome == whole.outcome == "200 env steps"
    assert (again.policy().flat.get() == whole.policy().flat.get()).all()
    further = SMALL["PPO"].run(stop=Stop(env_steps=300), resume=tmp_path / "saved")
    assert further.finish().env_steps >= 300
