"""Progress on the terminal: a live view, or lines elsewhere."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any, TextIO

from rich.console import Console
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
        self._printed: Metrics | None = None
        self._shown: Any = None  # Any: IPython's handle of what it displays; None outside of notebooks

    @property
    def picture(self) -> NotebookPicture:
        """The live view as a notebook shows it."""
        return NotebookPicture(self._view)

    def started(self, run: TrainingRun) -> None:
        self._monitor = TrainingMonitor()
        self._view = View(self.title or run.title, run.stop if isinstance(run.stop, Stop) else None)
        self._shown = in_notebook() and show_in_notebook(self.picture)
        if not self.live and not self._shown:
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
        if self._shown and now >= self._line_at:
            self._line_at = now + 1 / REFRESH_PER_S
            self._shown.update(self.picture)
        elif not self.live and now >= self._line_at:
            self._line_at = now + LINE_EVERY_S
            self._print_line(metrics)

    def ended(self, run: TrainingRun, error: BaseException | None) -> None:
        self._view.over = True
        if self._display is not None:
            self._display.stop()
        elif self._shown:
            self._shown.update(self.picture)
        elif run.metrics is not None and run.metrics is not self._printed:
            self._print_line(run.metrics)

    def _print_line(self, metrics: Metrics) -> None:
        self._printed = metrics
        self.console.print("  ".join(words(metrics, self._view)), soft_wrap=True)


class NotebookPicture:
    """The live view as HTML."""

    def __init__(self, view: View) -> None:
        self.view = view

    def _repr_html_(self) -> str:
        console = Console(record=True, file=io.StringIO(), width=100, force_jupyter=False)
        console.print(self.view)
        return console.export_html(inline_styles=True, code_format="<pre style='line-height: 1.2'>{code}</pre>")


def in_notebook() -> bool:
    """True in the kernel of a notebook."""
    shell: Any = sys.modules.get("IPython")  # Any: IPython is not needed
    shell = None if shell is None else shell.get_ipython()
    return getattr(shell, "kernel", None) is not None


def show_in_notebook(picture: NotebookPicture) -> Any:  # Any: IPython's handle
    """Display a picture below the cell, where it can be updated."""
    display = import_module("IPython.display").display
    return display(picture, display_id=True)


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
