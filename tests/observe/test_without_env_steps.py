"""Plans in which nobody samples, such as those over datasets: updates are counted, wherever others count env steps."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tflow import (
    Metrics,
    ParallelRollouts,
    Plan,
    ReportMetrics,
    RunFolder,
    Stop,
    TrainOneStep,
    create_rollout_workers,
    from_items,
    train,
)
from tflow.losses import A3CLoss
from tflow.models import MLP
from tflow.optimizers import SGD
from tflow.rl.data.batch import Rollout
from tflow.schedules import Linear
from tflow.state.folders import checkpoints_in


def offline(*, repeat: bool = True) -> Plan[Metrics]:
    """Two updates per batch, on rollouts that were sampled before."""
    made = create_rollout_workers(env="CartPole-v1", loss=A3CLoss(), num_workers=1, num_envs=2, fragment=8)
    dataset: list[Rollout] = list(ParallelRollouts(made).gather_sync().take(2).run())
    learns = SGD(lr=Linear(1.0, 0.0, 10))
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss(), num_workers=1, model=MLP((8,)), optimizer=learns)
    return ReportMetrics(from_items(dataset, repeat=repeat).for_each(TrainOneStep(workers, epochs=2)), workers)


def test_evaluations_and_logged_points_count_updates(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", log_every_s=0, checkpoint_every="300", keep=9)
    run = train(offline(), stop=Stop(updates=800), eval_every=200, eval_episodes=1, callbacks=[folder])
    reports = list(run)
    assert [metrics.env_steps for metrics in reports] == [0] * len(reports)
    evaluated = sorted({metrics.evaluation.weights_at for metrics in reports if metrics.evaluations})
    assert [updates // 200 for updates in evaluated] == [1, 2, 3, 4]
    with (tmp_path / "run" / "metrics.csv").open(newline="") as file:
        assert [row["updates"] for row in csv.DictReader(file) if row["env_steps"] != "0"] == []
    assert [int(each.name) for each in checkpoints_in(tmp_path / "run" / "checkpoints")] == [300, 600, 800]
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    read = events.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    read.Reload()
    steps = [each.step for each in read.Scalars("trained")]
    assert steps[0] == 2
    assert steps[-1] == 800
    assert steps == sorted(steps)


def test_a_run_says_how_many_updates_it_has_made() -> None:
    run = train(offline(), stop=Stop(updates=4))
    run.finish()
    assert repr(run) == "<TrainingRun: A plan on CartPole-v1, local, seed 0; 4 updates; ended by 4 updates>"


def test_a_schedule_goes_by_updates() -> None:
    rates = [metrics.training.latest["lr"] for metrics in train(offline(), stop=Stop(updates=10))]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > rates[-1]


def test_rows_after_the_checkpoint_are_cut_when_it_goes_on(tmp_path: Path) -> None:
    plan, folder = offline(), tmp_path / "run"
    with train(plan, callbacks=[RunFolder(folder, log_every_s=0, checkpoint_every="4")]) as run:
        for metrics in run:
            if metrics.training.updates == 10:
                break
    (folder / "checkpoints" / f"{10:012d}").rename(tmp_path / "late")
    train(plan, resume=folder, stop=Stop(updates=12), callbacks=[RunFolder(folder, log_every_s=0)]).finish()
    with (folder / "metrics.csv").open(newline="") as file:
        assert [int(row["updates"]) for row in csv.DictReader(file)] == [2, 4, 6, 8, 10, 12]


def test_with_a_stream_that_samples_env_steps_count() -> None:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss(), num_workers=1, num_envs=1, fragment=4)
    sampled = ParallelRollouts(workers).gather_sync().for_each(TrainOneStep(workers))
    with train(ReportMetrics(sampled, workers)) as run:
        assert next(run).progress == 4
        assert next(run).unit == "env steps"
