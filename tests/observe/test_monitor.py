"""Signs of trouble: told in runs that are made to go wrong, once each, and not in runs that go well."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from tflow import Metrics, RunFolder, ShowProgress, Stop
from tflow.algos import A2C, IMPALA, PPO, TD3, Algorithm
from tflow.envs import EnvSpec
from tflow.models import MLP
from tflow.observe.monitor import LEAST_REPORTS, TrainingMonitor
from tflow.rl.data.episodes import Episodes
from tflow.rl.metrics import Speed, Training

SMALL = MLP((16,))


class Millions(gymnasium.RewardWrapper[Any, Any]):  # Any: gymnasium's
    """Rewards as nobody should have them."""

    def reward(self, reward: Any) -> float:  # Any: gymnasium's
        return 1e6 * float(reward)


WRONG: dict[str, tuple[Algorithm, str]] = {
    "a learning rate that is far too large": (
        PPO(num_workers=1, num_envs=8, fragment=32, lr=0.5, max_kl=None, model=SMALL),
        "the learning rate is probably too large. Lower lr, or set max_kl.",
    ),
    "a policy that settles before it has found anything": (
        A2C(env="Acrobot-v1", num_workers=1, lr=0.1, entropy_coef=0.0, model=SMALL),
        "and returns have not risen: the policy has settled too early. Explore more (entropy_coef, noise), or lower lr.",
    ),
    "an actor that is saturated": (
        TD3(env="Pendulum-v1", lr=0.3, batch=32, learning_starts=100, model=SMALL),
        "nothing is learned. Units or actions are saturated, which a smaller lr or normalised observations may prevent",
    ),
    "a reward that was never found": (
        PPO(env="MountainCar-v0", num_workers=1, num_envs=64, fragment=200, lr=1e-6, epochs=1, minibatch=4096, model=SMALL),
        "no other reward was found yet. More exploration (entropy_coef, epsilon) may find one.",
    ),
    "rewards that are far too large": (
        A2C(env=EnvSpec("CartPole-v1", wrappers=[Millions]), num_workers=1, normalize_rewards=False, model=SMALL),
        "rewards or observations are probably very large. Normalise them.",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_run_that_goes_wrong_says_so(name: str, tmp_path: Path) -> None:
    algorithm, sentence = WRONG[name]
    out = StringIO()
    steps = 80_000 if "never" in name else 1_000 if "actor" in name else 10_000 if "settles" in name else 4_000
    run = algorithm.run(stop=Stop(env_steps=steps), callbacks=[RunFolder(tmp_path / "run"), ShowProgress(live=False, file=out)])
    run.finish()
    assert out.getvalue().count(sentence) == 1, "on the terminal, once"
    status = json.loads((tmp_path / "run" / "run.json").read_text())
    (told,) = [each for each in status["warnings"] if sentence in each["warning"]]
    assert 0 < told["env_steps"] <= steps


@pytest.mark.parametrize("algorithm", [PPO(num_envs=8, fragment=64), A2C(), IMPALA()], ids=lambda each: type(each).__name__)
def test_a_run_that_goes_well_says_nothing(algorithm: Algorithm, tmp_path: Path) -> None:
    keeper = RunFolder(tmp_path / "run")
    algorithm.run(stop=Stop(env_steps=20_000), callbacks=[keeper]).finish()
    assert keeper.warnings == []


def metrics(latest: Mapping[str, float] | None = None, *, returns: tuple[float, ...] = (), updates: int = 0) -> Metrics:
    episodes = Episodes(len(returns), returns, (1,) * len(returns))
    return Metrics(1_000, episodes, Training(updates=updates, latest=latest or {}), Speed())


def test_one_odd_batch_is_no_trouble() -> None:
    monitor = TrainingMonitor()
    found = [monitor.see(metrics({"kl": 5.0 if each == 8 else 0.01}, updates=each)) for each in range(1, LEAST_REPORTS)]
    assert not any(found)
    found = [monitor.see(metrics({"kl": 0.5}, updates=100 + each)) for each in range(LEAST_REPORTS)]
    assert sum(map(len, found)) == 1


def test_reports_without_updates_are_not_judged_again() -> None:
    monitor = TrainingMonitor()
    assert not any(monitor.see(metrics({"kl": 9.0}, updates=1)) for _ in range(5 * LEAST_REPORTS))


def test_each_policy_is_named() -> None:
    monitor = TrainingMonitor()
    found = [monitor.see(metrics({"red/kl": 1.0, "blue/kl": 0.0}, updates=each)) for each in range(1, 20)]
    (told,) = [sentence for each in found for sentence in each]
    assert told.startswith("red: KL 1 per update")


def test_a_return_that_fell_is_told_but_noise_is_not() -> None:
    monitor = TrainingMonitor()

    def seen(level: float, count: int) -> list[str]:
        found = metrics(returns=tuple(level + (40 if place % 2 else -40) for place in range(100)))
        return monitor.see(replace(found, episodes=replace(found.episodes, count=count)))

    assert seen(20.0, 100) == []
    assert seen(24.0, 200) == []
    assert seen(20.0, 300) == [], "less than episodes differ anyway"
    assert seen(400.0, 400) == []
    (told,) = seen(120.0, 500)
    assert told.startswith("the mean return fell from 400 to 120:")
    assert seen(110.0, 600) == [], "once"


@pytest.mark.parametrize(("stat", "said"), [("entropy", "the entropy of the policy"), ("action_std", "the spread of actions")])
def test_a_policy_that_has_settled_is_told_unless_its_returns_have_risen(stat: str, said: str) -> None:
    def found(at_last: tuple[float, ...]) -> list[str]:
        monitor, told = TrainingMonitor(), list[str]()
        for each in range(60):
            returns = (1.0, 2.0) * 50 if each < 20 else at_last
            seen = metrics({stat: 0.7 if each < 20 else 1e-3}, returns=returns, updates=each + 1)
            told += monitor.see(replace(seen, episodes=replace(seen.episodes, count=100 + each)))
        return told

    (sentence,) = found((1.0, 2.0) * 50)
    assert sentence.startswith(f"{said} fell from 0.7 to 0.01")
    assert found((90.0, 100.0) * 50) == []


def test_the_entropy_of_continuous_actions_may_be_anything() -> None:
    monitor = TrainingMonitor()
    latest = [{"entropy": 1.0 - 0.1 * each, "action_std": 0.5} for each in range(60)]
    assert not any(monitor.see(metrics(stats, updates=each + 1)) for each, stats in enumerate(latest))


def test_skipped_updates_are_told() -> None:
    found = metrics(updates=3)
    (told,) = TrainingMonitor().see(replace(found, training=replace(found.training, skipped=2)))
    assert told.startswith("2 updates were skipped, because gradients were not finite.")
