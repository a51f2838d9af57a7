"""Every algorithm can be stopped, saved, loaded and continued: bit for bit what it would have done."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from tests.algos.test_algorithms import SMALL
from tflow import Stop
from tflow.algos import APPO, DQN, PPO, SAC, Algorithm, ApeX, SinglePolicy
from tflow.algos.evaluation import with_evaluation
from tflow.combinators.runnable import Plan
from tflow.models import GRU, LSTM, MLP, GTrXL
from tflow.rl.metrics import Metrics
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
    "PPO with envs that cannot be saved": PPO(env=locked_cartpole, num_envs=2, fragment=16, epochs=2, minibatch=16),
}


def timeless(tree: Any, arrays: list[Any]) -> Any:  # Any: JSON, and arrays of all kinds
    """A snapshot without what depends on the clock, and with arrays in their places."""
    if isinstance(tree, list):
        return [timeless(each, arrays) for each in tree]
    if not isinstance(tree, dict):
        return tree
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


def reports(run: Run[Metrics], count: int) -> list[dict[str, float]]:
    return [numbers(next(run)) for _ in range(count)]


def plan_of(algorithm: Algorithm, *, evaluated: bool) -> Plan[Metrics]:
    plan = algorithm.plan()
    return with_evaluation(plan, every=50, episodes=2) if evaluated else plan


@pytest.mark.parametrize(
    ("name", "evaluated"), [*((name, False) for name in (*SMALL, *MORE)), ("PPO", True), ("IMPALA", True), ("DQN", True)]
)
def test_a_run_goes_on_bit_for_bit(name: str, evaluated: bool, tmp_path: Path) -> None:
    algorithm, count = {**SMALL, **MORE}[name], 3 if name == "MAML" else 40 if name == "PPODQN" else 15
    with plan_of(algorithm, evaluated=evaluated).run(seed=3) as whole:
        before = reports(whole, count)
        if name == "PPO with envs that cannot be saved":
            whole.snapshot()  # saving ends their episodes, in the run that goes on as well
        after, expected = reports(whole, count), snapshot(whole._driver).copied()
        ledger = whole.ledger
    with plan_of(algorithm, evaluated=evaluated).run(seed=3) as first:
        np.testing.assert_equal(reports(first, count), before)
        first.save(tmp_path / "saved")
    with plan_of(algorithm, evaluated=evaluated).run(resume=tmp_path / "saved") as second:
        np.testing.assert_equal(reports(second, count), after)
        assert second.ledger == ledger
        found = snapshot(second._driver)
    assert differences(timeless(found.tree, found.arrays), timeless(expected.tree, expected.arrays)) == []


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
