"""The metrics of a run as a table: ``run.history.frame()``, also from a run folder."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tflow.combinators import check
from tflow.errors import MissingExtra, PlanError
from tflow.extras import require

if TYPE_CHECKING:
    from tflow.rl.metrics import Metrics

Library = Literal["pandas", "polars"]
MOST_ROWS = 4_000
"""A run keeps no more: then every second row is dropped, and further ones come half as often."""


class MetricsHistory(Sequence[Mapping[str, float]]):
    """Rows of metrics: a mapping of numbers by name each."""

    def __init__(self, rows: Sequence[Mapping[str, float]] = ()) -> None:
        self._rows = list(rows)
        self._every = 1
        self._asked = self._evaluations = 0
        self._speed: object = None
        self._latest: Metrics | None = None

    def __len__(self) -> int:
        return len(self._shown())

    def __getitem__(self, index: Any) -> Any:  # Any: a number or a slice, as lists take them
        return self._shown()[index]

    def __iter__(self) -> Iterator[Mapping[str, float]]:
        return iter(self._shown())

    def __repr__(self) -> str:
        return f"<History of {len(self)} rows; .frame() is a table>"

    def see(self, metrics: Metrics) -> None:
        """Keep a report: one per second, and those with evaluations."""
        self._latest = metrics
        if metrics.speed is self._speed and metrics.evaluations == self._evaluations:
            return
        self._speed = metrics.speed
        self._asked += 1
        if metrics.evaluations > self._evaluations or self._asked % self._every == 0:
            self._evaluations = metrics.evaluations
            self._rows.append(metrics.flat())
        if len(self._rows) > MOST_ROWS:
            self._rows, self._every = self._rows[::2], self._every * 2

    def _shown(self) -> list[Mapping[str, float]]:
        """The rows, with the latest report as the last."""
        if self._latest is None or (self._rows and self._rows[-1].get("updates") == self._latest.training.updates):
            return self._rows
        return [*self._rows, self._latest.flat()]

    def frame(self, library: Library | None = None) -> Any:  # Any: a data frame, whose library may not be installed
        """The rows as a data frame, with a column per metric; what was not known yet is NaN.

        Args:
            library: ``"pandas"`` or ``"polars"``; None takes pandas if it is installed, else polars.
        """
        if library is not None:
            check.one_of("frame", "library", library, ("pandas", "polars"))
        rows = self._shown()
        columns = list(dict.fromkeys(name for row in rows for name in row))
        table = {name: [row.get(name, math.nan) for row in rows] for name in columns}
        return _library(library).DataFrame(table)


def _library(wanted: Library | None) -> Any:  # Any: as above
    if wanted is None:
        for name in ("pandas", "polars"):
            with suppress(MissingExtra):
                return require(name, extra=name, feature="Data frames")
    return require(wanted or "pandas", extra=wanted or "pandas", feature="Data frames")


def history(run: str | os.PathLike[str]) -> MetricsHistory:
    """The metrics in a run folder."""
    file = Path(run) / "metrics.jsonl"
    if not file.is_file():
        raise PlanError(f"There is no {str(file)!r}. Name a run folder, which RunFolder and tflow train make.")
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.endswith("}")]  # a kill may cut the last
    rows = [json.loads(line) for line in lines]
    return MetricsHistory([{name: math.nan if value is None else float(value) for name, value in row.items()} for row in rows])
