"""When a run is saved, and which of its checkpoints are kept."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from itertools import chain, count
from pathlib import Path

from tflow.algos.training_run import TrainingRun
from tflow.combinators import check
from tflow.errors import CheckpointError
from tflow.observe.recordings import beginnings
from tflow.rl.metrics import Metrics
from tflow.settings.period import Period
from tflow.state.folders import ASIDE, checkpoints_in, read_manifest


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
        """When the last one was written, on the clock and in env steps, or updates where there are none."""

    def begin(self, steps: int) -> None:
        """Count from here."""
        self._time, self._steps = time.monotonic(), steps

    def due(self, metrics: Metrics) -> bool:
        """True if it is time to write one."""
        if self.period is None:
            return False
        if self.period.seconds is not None:
            return time.monotonic() - self._time >= self.period.seconds
        return metrics.progress - self._steps >= (self.period.env_steps or 0)

    def write(self, run: TrainingRun, facts: Mapping[str, object]) -> None:
        """Write one, and remove those that are not kept. If it cannot be written, the next try comes after another period."""
        steps = run.run.stats().env_steps if run.metrics is None else run.metrics.progress
        self.begin(steps)
        evaluated = run.metrics is not None and run.metrics.evaluation.count > 0
        evaluation = run.metrics.evaluation.mean_return if run.metrics is not None and evaluated else None
        run.save(self._free(f"{steps:012d}", run), {**facts, "evaluation": evaluation})
        self._time = time.monotonic()
        self.prune()

    def _free(self, name: str, run: TrainingRun) -> Path:
        """Where one of this name goes. Those that recordings begin at, and this run, stay as they are."""
        taken = {run.resumed_from, *beginnings(self.folder.parent)}
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        return next(self.folder / each for each in names if self.folder / each not in taken)

    def prune(self) -> None:
        """Remove all but the latest few, the best and those that recordings begin at; and what a killed process has left."""
        found = checkpoints_in(self.folder)
        kept = {*found[-self.keep :], *best_of(found), *beginnings(self.folder.parent)}
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
