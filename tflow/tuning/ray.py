"""A trainable for Ray Tune: a function of a mapping of fields, which reports every evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tflow.algos.algorithm import Algorithm
from tflow.algos.training_run import Callback, Stop, TrainingRun
from tflow.combinators import check
from tflow.errors import PlanError
from tflow.rl.metrics import Metrics

Report = Callable[[dict[str, float]], object]


class ReportEvaluations(Callback):
    """Reports the metrics with each evaluation, and at the end."""

    def __init__(self, report: Report) -> None:
        self.report, self.seen = report, 0

    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        if metrics.evaluations > self.seen:
            self.seen = metrics.evaluations
            self.report({**metrics.flat(), "training_iteration": float(self.seen)})


def trainable(
    algorithm: Algorithm, *, stop: Stop, eval_every: int, eval_episodes: int = 20, seed: int = 0, report: Report | None = None
) -> Callable[[Mapping[str, Any]], None]:  # Any: values of all kinds
    """A function for ``ray.tune.Tuner(trainable(PPO(...), ...), param_space={"lr": tune.loguniform(1e-4, 1e-2)})``.

    Each trial trains on the local runtime, in the process that Ray Tune gives it. It reports all metrics by their names, such as
    ``evaluation/return``, with each evaluation.

    Args:
        algorithm: The configuration; the values of a trial replace its fields.
        stop: When a trial ends.
        eval_every: Env steps between evaluations.
        eval_episodes: Episodes per evaluation.
        seed: Random seed of all trials.
        report: Takes the metrics; None is ``ray.tune.report``, which needs ``pip install 'ray[tune]'``.
    """
    check.instance("trainable", "algorithm", algorithm, Algorithm, "a configuration such as PPO()")

    def train_trial(config: Mapping[str, Any]) -> None:  # Any: values of fields
        tell = report
        if tell is None:
            from ray import tune

            tell = tune.report
        unknown = config.keys() - vars(algorithm).keys()
        if unknown:
            raise PlanError(
                f"{type(algorithm).__name__} has no field {' and '.join(sorted(unknown))}; the search space names it."
            )
        trial = replace(algorithm, **config)
        callbacks = [ReportEvaluations(tell)]
        trial.run(stop=stop, eval_every=eval_every, eval_episodes=eval_episodes, seed=seed, callbacks=callbacks).finish()

    return train_trial
