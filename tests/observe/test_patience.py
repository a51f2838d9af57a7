"""Early stopping: a run ends after so many evaluations without improvement, also if it was resumed meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tflow import Metrics, PlanError, Stop
from tflow.algos import PPO, Callback, TrainingRun
from tflow.algos.training_run import Improvement
from tflow.commands.choice import chosen
from tflow.models import MLP
from tflow.rl.data.episodes import Episodes
from tflow.rl.envs.env_spec import EnvSpec

SMALL = PPO(num_workers=1, num_envs=2, fragment=16, epochs=1, minibatch=32, lr=1e-9, model=MLP((8,)))
"""It never learns: all evaluations are alike, but for luck."""


class Evaluations(Callback):
    """The evaluations of a run, one after the other."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        if metrics.evaluations > len(self.found):
            self.found.append(metrics.evaluation.mean_return)


def seen(returns: list[float], min_delta: float = 0.0) -> list[int]:
    """How long it waits, after each of these evaluations."""
    found, waits = Improvement(min_delta), []
    usual = SMALL.run(stop=Stop(updates=1)).finish()
    for number, value in enumerate(returns, 1):
        metrics = replace(usual, evaluations=number, evaluation=Episodes(1, (value,), (1,)))
        found.see(metrics)
        found.see(metrics)  # the same evaluation, in another report
        waits.append(found.since)
    return waits


def test_it_counts_evaluations_since_the_best_one() -> None:
    assert seen([1, 2, 2, 1, 3, 0]) == [0, 0, 1, 2, 0, 1]
    assert seen([1, 2, 3, 3.5, 4.1], min_delta=1.0) == [0, 1, 0, 1, 0]
    assert seen([float("nan"), 1, float("nan"), 0]) == [0, 0, 0, 1]


def test_a_run_that_does_not_improve_ends() -> None:
    evaluations = Evaluations()
    stop = Stop(patience=3, min_delta=1e6, env_steps=100_000)
    run = SMALL.run(stop=stop, eval_every=64, eval_episodes=2, callbacks=[evaluations])
    run.finish()
    assert run.outcome == "3 evaluations without improvement"
    assert len(evaluations.found) == 4, "the first is the best, and three follow"


def test_what_was_waited_is_in_the_checkpoint(tmp_path: Path) -> None:
    stop = Stop(patience=4, min_delta=1e6, env_steps=100_000)
    first = SMALL.run(stop=stop, eval_every=64, eval_episodes=2)
    while next(first).evaluations < 3:
        continue
    first.save(tmp_path / "saved")
    first.close()
    second = SMALL.run(stop=stop, eval_every=64, eval_episodes=2, resume=tmp_path / "saved")
    assert second.finish().evaluations == 5
    assert second.outcome == "4 evaluations without improvement"


def test_it_needs_evaluations() -> None:
    with pytest.raises(PlanError, match=r"patience=3 counts evaluations, but there are none\. Say eval_every="):
        SMALL.run(stop=Stop(patience=3))
    with pytest.raises(PlanError, match="leave out --eval-every none"):
        chosen(("ppo",), {"patience": "3", "eval_every": "none"})
    with pytest.raises(PlanError, match="patience must be at least 1"):
        Stop(patience=0)


def test_the_command_line_says_it() -> None:
    run = chosen(("ppo",), {"patience": "3", "min_delta": "0.5", "stop_steps": "1e6"}).run
    assert run.stop(EnvSpec("CartPole-v1")) == Stop(env_steps=1_000_000, patience=3, min_delta=0.5)
