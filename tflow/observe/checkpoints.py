"""When a run is saved, and which of its checkpoints are kept."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tflow.algos.training_run import TrainingRun
from tflow.combinators import check
from tflow.errors import CheckpointError, PlanError
from tflow.rl.metrics import Metrics
from tflow.runtime.checkpoint import ASIDE, checkpoints_in, read_manifest

SECONDS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class Period:
    """A period of time or of env steps."""

    seconds: float | None = None
    env_steps: int | None = None

    @staticmethod
    def of(where: str, text: str) -> Period:
        """
        >>> Period.of("x", "5m"), Period.of("x", "100_000")
        (Period(seconds=300.0, env_steps=None), Period(seconds=None, env_steps=100000))
        """
        timed = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh])", str(text).strip())
        counted = re.fullmatch(r"\d[\d_,]*", str(text).strip())
        amount = float(timed[1]) if timed else int(re.sub(r"[_,]", "", counted[0])) if counted else 0
        if not amount:
            raise PlanError(
                f"{where} must be a time such as 30s, 5m or 2h, or a number of env steps such as 100_000; got {text!r}."
            )
        return Period(seconds=amount * SECONDS[timed[2]]) if timed else Period(env_steps=int(amount))


class Checkpoints:
    """The checkpoints of a run folder: the latest ones, and the one with the best evaluation.

    Args:
        folder: Where they are.
        period: Time or env steps between two; None writes one at the end only.
        keep: How many of the latest are kept.
    """

    def __init__(self, folder: Path, period: Period | None, keep: int) -> None:
        self.folder, self.period = folder, period
        self.keep = check.integer("RunFolder", "keep", keep, least=1)
        self._time, self._steps = time.monotonic(), 0
        """When the last one was written, on the clock and in env steps."""

    def begin(self, env_steps: int) -> None:
        """Count from here."""
        self._time, self._steps = time.monotonic(), env_steps

    def due(self, metrics: Metrics) -> bool:
        """True if it is time to write one."""
        if self.period is None:
            return False
        if self.period.seconds is not None:
            return time.monotonic() - self._time >= self.period.seconds
        return metrics.env_steps - self._steps >= (self.period.env_steps or 0)

    def write(self, run: TrainingRun, facts: Mapping[str, object]) -> None:
        """Write one, and remove those that are not kept. If it cannot be written, the next try comes after another period."""
        steps = run.run.stats().env_steps if run.metrics is None else run.metrics.env_steps
        self.begin(steps)
        evaluated = run.metrics is not None and run.metrics.evaluation.count > 0
        evaluation = run.metrics.evaluation.mean_return if run.metrics is not None and evaluated else None
        run.save(self.folder / f"{steps:012d}", {**facts, "evaluation": evaluation})
        self._time = time.monotonic()
        self.prune()

    def prune(self) -> None:
        """Remove all but the latest few and the best, and what a process that was killed has left."""
        found = checkpoints_in(self.folder)
        kept = {*found[-self.keep :], *best_of(found)}
        for each in found:
            if each not in kept:
                shutil.rmtree(each, ignore_errors=True)
        for left in self.folder.glob(f"*{ASIDE}"):
            if left not in found:
                shutil.rmtree(left, ignore_errors=True)


def best_of(found: list[Path]) -> list[Path]:
    """The checkpoint with the best evaluation, if there was one."""
    worth: dict[Path, float] = {}
    for each in found:
        try:
            evaluation = read_manifest(each).get("evaluation")
        except CheckpointError:
            continue
        if isinstance(evaluation, (int, float)):
            worth[each] = evaluation
    return [max(worth, key=lambda each: worth[each])] if worth else []
