"""Progress on the terminal: a live view, or lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TextIO

from rich.live import Live

from tflow.algos.training_run import Callback, Stop, TrainingRun
from tflow.observe.console import Output
from tflow.observe.monitor import TrainingMonitor
from tflow.observe.view import View, clock
from tflow.rl.metrics import Metrics

LINE_EVERY_S = 5.0
"""Seconds between lines."""
REFRESH_PER_S = 4


class ShowProgress(Callback):
    """Shows progress: a live view on a terminal, lines elsewhere; ``live`` forces one or the other. ``note`` is said once, at the
    start."""

    def __init__(self, *, live: bool | None = None, file: TextIO | None = None, title: str = "", note: str = "") -> None:
        self.console = Output(file=file or sys.stdout, highlight=False, markup=False)
        self.live = self.console.is_terminal and not self.console.is_dumb_terminal if live is None else live
        self.title = title
        self.note = note
        self._view = View("")
        self._monitor = TrainingMonitor()
        self._display: Live | None = None
        self._line_at = 0.0

    def started(self, run: TrainingRun) -> None:
        self._monitor = TrainingMonitor()
        self._view = View(self.title or title_of(run), run.stop if isinstance(run.stop, Stop) else None)
        if not self.live:
            self.console.print(self._view.title, soft_wrap=True)
        if self.note:
            self.console.print(self.note, soft_wrap=True)
        if self.live:
            self._display = Live(
                console=self.console,
                refresh_per_second=REFRESH_PER_S,
                get_renderable=self._view.__rich__,
                vertical_overflow="crop",
            )
            self._display.start()
        else:
            self._line_at = time.monotonic() + LINE_EVERY_S / 5  # the first comes soon: one wants to see that it works

    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        self._view.see(metrics)
        for sentence in self._monitor.see(metrics):
            self._view.warnings.append(sentence)
            if not self.live:
                self.console.print(f"Warning: {sentence}", soft_wrap=True)
        now = time.monotonic()
        if not self.live and now >= self._line_at:
            self._line_at = now + LINE_EVERY_S
            self._print_line(metrics)

    def ended(self, run: TrainingRun, error: BaseException | None) -> None:
        self._view.over = True
        if self._display is not None:
            self._display.stop()
        elif run.metrics is not None:
            self._print_line(run.metrics)

    def _print_line(self, metrics: Metrics) -> None:
        self.console.print("  ".join(words(metrics, self._view)), soft_wrap=True)


def words(metrics: Metrics, view: View) -> Iterator[str]:
    """A line for a log: the same words in the same order, so that one can search for them."""
    yield f"{clock(view.seconds):>7}"
    yield f"env steps {metrics.env_steps:,}"
    for name, value in view.returns(metrics):
        yield f"{name} {value}"
    if metrics.evaluations:
        yield f"evaluation {metrics.evaluation.mean_return:.1f}"
    yield f"updates {metrics.training.updates:,}"
    yield f"{view.steps_per_s(metrics):,.0f} steps/s"
    if view.eta is not None:
        yield f"eta {clock(view.eta)}"


def title_of(run: TrainingRun) -> str:
    """What is being trained, in one line."""
    what = "A plan" if run.algorithm is None else type(run.algorithm).__name__
    where = type(run.run.runtime).__name__.removesuffix("Runtime").lower()
    return f"{what} on {run.workers.spec.env.name}, {where}, seed {run.seed}"
