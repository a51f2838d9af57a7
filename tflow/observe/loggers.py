"""Metrics as files: comma-separated, one JSON object per line, and TensorBoard's events."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from tflow.errors import MissingExtra
from tflow.extras import require


class Logger(Protocol):
    """Writes rows of numbers. What was written is on disk when ``write`` returns."""

    def write(self, row: Mapping[str, float]) -> None: ...
    def close(self) -> None: ...


class CsvLog:
    """A CSV file with a column per metric. A new metric rewrites the file with one more column."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns: list[str] = []

    def write(self, row: Mapping[str, float]) -> None:
        new = [name for name in row if name not in self.columns]
        if new:
            self._widen(new)
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.columns).writerow({name: _short(value) for name, value in row.items()})

    def _widen(self, new: list[str]) -> None:
        before: list[dict[str, str]] = []
        if self.columns:
            with self.path.open(newline="", encoding="utf-8") as file:
                before = list(csv.DictReader(file))
        self.columns += new
        aside = self.path.with_name(f".{self.path.name}")
        with aside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns)
            writer.writeheader()
            writer.writerows(before)
        aside.replace(self.path)

    def close(self) -> None:
        return  # nothing is kept open


class JsonLog:
    """One object per line. Numbers that JSON does not have, such as the mean of no episodes, are null."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a", encoding="utf-8")

    def write(self, row: Mapping[str, float]) -> None:
        self.file.write(json.dumps(finite(row)) + "\n")
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class TensorBoardLog:
    """Events for ``tensorboard --logdir``, over env steps."""

    def __init__(self, path: Path) -> None:
        require("tensorboard", extra="tensorboard", feature="TensorBoard logs")
        from torch.utils.tensorboard import SummaryWriter

        self.writer: Any = SummaryWriter(str(path))  # Any: torch's writer has no types

    def write(self, row: Mapping[str, float]) -> None:
        for name, value in row.items():
            if name != "env_steps" and math.isfinite(value):
                self.writer.add_scalar(name, value, int(row["env_steps"]))
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


def loggers_in(folder: Path) -> list[Logger]:
    """All kinds of files, in a run folder; TensorBoard's if it is installed."""
    found: list[Logger] = [CsvLog(folder / "metrics.csv"), JsonLog(folder / "metrics.jsonl")]
    with suppress(MissingExtra):  # the other two have the same numbers
        found.append(TensorBoardLog(folder / "tensorboard"))
    return found


def finite(row: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers for JSON: null if not finite."""
    return {name: value if math.isfinite(value) else None for name, value in row.items()}


def _short(value: float) -> str:
    return f"{value:.10g}"
