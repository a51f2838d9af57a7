"""What the live view shows: progress, returns, speeds, and where the time goes, as wide as the terminal is."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import pairwise

from rich.bar import Bar
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tflow.algos.training_run import Stop
from tflow.rl.data.episodes import Episodes
from tflow.rl.metrics import Metrics

TICKS = "▁▂▃▄▅▆▇█"
WIDE = 76
"""From so many columns on, numbers and operators stand side by side."""
NUMBERS = 36
"""Columns for numbers, if operators stand beside them."""
MOST_OPERATORS = 6
LEAST_SHARE = 0.005
"""Operators that take less of the time are not shown."""
SHORTEST = 40
"""Narrower than this, nothing can be read; it is drawn so wide and cut."""
HISTORY = 400
MOST_WARNINGS = 2
APPLIED = ("for_each", "par_for_each", "call", "hand_off")


def clock(seconds: float) -> str:
    """
    >>> clock(7), clock(75), clock(3_700)
    ('0:07', '1:15', '1:01:40')
    """
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def sparkline(values: list[float], width: int) -> str:
    """A curve in one line; several values that share a place are averaged.

    >>> sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8)
    '▁▂▃▄▅▆▇█'
    """
    if not values or width < 1:
        return ""
    width = min(width, len(values))
    bounds = [len(values) * place // width for place in range(width + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(bounds)]
    low, high = min(means), max(means)
    return "".join(TICKS[round((value - low) / (high - low) * 7) if high > low else 3] for value in means)


class View:
    """The state of the view: the latest metrics, and the returns so far. It is drawn by another thread than the one that sees."""

    def __init__(self, title: str, stop: Stop | None = None) -> None:
        self.title = title
        self.stop = stop
        self.over = False
        self.metrics: Metrics | None = None
        self.history: deque[float] = deque(maxlen=HISTORY)
        self.warnings: deque[str] = deque(maxlen=MOST_WARNINGS)
        self._began = time.monotonic()
        self._ended = 0.0
        self._noted_at = 0.0

    @property
    def seconds(self) -> float:
        """Since it began; it stands still when it is over."""
        if self.over and not self._ended:
            self._ended = time.monotonic()
        return (self._ended or time.monotonic()) - self._began

    def see(self, metrics: Metrics) -> None:
        """Take note."""
        self.metrics = metrics
        now = time.monotonic()
        if now - self._noted_at >= 0.5 and math.isfinite(metrics.mean_return):
            self._noted_at = now
            self.history.append(metrics.mean_return)

    # ------------------------------------------------------------------- numbers

    def steps_per_s(self, metrics: Metrics) -> float:
        """Of late, or on average before that is known."""
        return metrics.speed.env_steps_per_s or metrics.env_steps / max(self.seconds, 1e-9)

    @property
    def share(self) -> float | None:
        """How much is done, if that can be counted."""
        if self.stop is None or self.metrics is None:
            return None
        found = [counted / wanted for wanted, counted, _ in self.stop.counts(self.metrics)]
        return min(max(found), 1.0) if found else None

    @property
    def eta(self) -> float | None:
        """Seconds that are left, if it goes on like this."""
        share = self.share
        return None if not share or self.over else self.seconds * (1 - share) / share

    @property
    def goal(self) -> float | None:
        """The return that is wanted."""
        return None if self.stop is None else self.stop.mean_return

    def returns(self, metrics: Metrics) -> Iterator[tuple[str, str]]:
        """The mean return, of each policy or phase if there are several."""
        several = metrics.episodes.policies or metrics.episodes.phases
        for name, episodes in several.items() if several else [("", metrics.episodes)]:
            yield f"return {name}".strip(), _number(episodes)

    # ------------------------------------------------------------------- drawing

    def __rich__(self) -> RenderableType:
        return _Fitted(self)

    def draw(self, width: int) -> RenderableType:
        """Everything, so many columns wide."""
        metrics = self.metrics
        inner = width - 4
        if metrics is None:
            body: RenderableType = Text(f"starting workers ... {clock(self.seconds)}", style="dim")
        else:
            busy = metrics.speed.operators
            numbers = self._numbers(metrics, NUMBERS if width >= WIDE else inner)
            parts = [self._bar(metrics, inner), Text("")]
            if busy and width >= WIDE:
                both = Table.grid(padding=(0, 3, 0, 0), expand=True)
                both.add_column(width=NUMBERS)
                both.add_column(ratio=1)
                both.add_row(numbers, _operators(busy, inner - NUMBERS - 3))
                parts.append(both)
            else:
                parts += [numbers, *([Text(""), _operators(busy, inner)] if busy else [])]
            parts += [Text(f"Warning: {each}", style="yellow") for each in list(self.warnings)]
            body = Group(*parts)
        return Panel(body, title=Text(self.title, style="bold", overflow="ellipsis"), title_align="left", width=width)

    def _bar(self, metrics: Metrics, width: int) -> RenderableType:
        row = Table.grid(padding=(0, 1, 0, 0), expand=True)
        row.add_column(ratio=1)
        row.add_column(no_wrap=True)
        share = self.share
        if share is not None:
            left = ("done" if share == 1 else "ended") if self.over else f"eta {clock(self.eta or 0)}"
            row.add_row(ProgressBar(total=1.0, completed=share), f"{share:4.0%}  {left}")
        else:
            row.add_row(Text("" if self.over else "until Ctrl-C" if self.goal is None else f"until return {self.goal:g}", "dim"))
        return row

    def _numbers(self, metrics: Metrics, width: int) -> RenderableType:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis")
        for name, value in self.returns(metrics):
            goal = "" if self.goal is None else f" / {self.goal:g}"
            table.add_row(Text(name), Text.assemble((value, "bold green"), (goal, "dim")))
        curve = sparkline(list(self.history), width - 14)
        if curve:
            table.add_row("", Text(curve, style="green"))
        if metrics.evaluations:
            table.add_row("evaluation", f"{metrics.evaluation.mean_return:.1f} (no. {metrics.evaluations})")
        table.add_row("episodes", f"{metrics.episodes.count:,}, {metrics.episodes.mean_length:.0f} steps long")
        table.add_row("env steps", f"{metrics.env_steps:,}")
        table.add_row("speed", f"{self.steps_per_s(metrics):,.0f} steps/s")
        table.add_row("updates", f"{metrics.training.updates:,}")
        for name in [name for name in metrics.training.latest if name.rpartition("/")[2] == "loss"][:2]:
            table.add_row(Text(name), f"{metrics.training.latest[name]:.4g}")
        table.add_row("elapsed", clock(self.seconds))
        return table


class _Fitted:
    """Asks how wide the terminal is each time it is drawn, so that it fits after it was resized."""

    def __init__(self, view: View) -> None:
        self.view = view

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.view.draw(max(SHORTEST, min(options.max_width, 110)))


def _number(episodes: Episodes) -> str:
    return f"{episodes.mean_return:.1f}" if episodes.count else "-"


def _operators(seconds: Mapping[str, float], width: int) -> RenderableType:
    """Each operator's share of the time that operators were busy, the largest first."""
    whole = sum(seconds.values()) or 1.0
    first = sorted(((spent / whole, short(name)) for name, spent in seconds.items()), reverse=True)[:MOST_OPERATORS]
    shown = [(share, name) for share, name in first if share >= LEAST_SHARE]
    table = Table.grid(padding=(0, 1, 0, 0))
    name_width = min(max((len(name) for _, name in shown), default=1), max(12, width - 14))
    table.add_column(width=name_width, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(width=max(4, min(24, width - name_width - 8)))
    for share, name in shown:
        table.add_row(Text(name, style="cyan"), f"{share:.0%}", Bar(1.0, 0, share, color="cyan"))
    return table


def short(label: str) -> str:
    """The name of an operator without how it is applied.

    >>> short("for_each(TrainOneStep)"), short("ParallelRollouts(workers)"), short("hand_off(learner, LearnOnBatch)")
    ('TrainOneStep', 'ParallelRollouts', 'LearnOnBatch')
    """
    outer, _, inner = label.partition("(")
    return inner.rpartition(", ")[2].rstrip(")") if outer in APPLIED else outer
