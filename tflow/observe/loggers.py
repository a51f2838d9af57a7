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
        if not self.columns and self.path.exists():  # of a run that goes on
            with self.path.open(newline="", encoding="utf-8") as file:
                self.columns = list(csv.DictReader(file).fieldnames or [])
        if not self.path.exists():
            self.columns = []
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
        self.path = path
        self.file = path.open("a", encoding="utf-8")

    def write(self, row: Mapping[str, float]) -> None:
        if not self.path.exists():  # it was removed
            self.file.close()
            self.file = self.path.open("a", encoding="utf-8")
        self.file.write(json.dumps(finite(row)) + "\n")
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class TensorBoardLog:
    """Events for ``tensorboard --logdir``, over env steps."""

    def __init__(self, path: Path, after: int | None = None) -> None:
        require("tensorboard", extra="tensorboard", feature="TensorBoard logs")
        from torch.utils.tensorboard import SummaryWriter

        self.path = path
        purged = None if after is None else after + 1
        self.writer: Any = SummaryWriter(str(path), purge_step=purged)  # Any: torch's writer has no types

    def write(self, row: Mapping[str, float]) -> None:
        self.path.mkdir(parents=True, exist_ok=True)  # it may have been removed; its thread would not survive that
        for name, value in row.items():
            if name != "env_steps" and math.isfinite(value):
                self.writer.add_scalar(name, value, int(row["env_steps"]))
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


def loggers_in(folder: Path, after: int | None = None) -> list[Logger]:
    """All kinds of files, in a run folder; TensorBoard's if it is installed. A run that goes on ``after`` so many env steps
    continues its files: what came later is removed."""
    if after is not None:
        cut(folder / "metrics.csv", folder / "metrics.jsonl", after)
    found: list[Logger] = [CsvLog(folder / "metrics.csv"), JsonLog(folder / "metrics.jsonl")]
    with suppress(MissingExtra):  # the other two have the same numbers
        found.append(TensorBoardLog(folder / "tensorboard", after))
    return found


def cut(table: Path, lines: Path, after: int) -> None:
    """Remove the rows that were written after so many env steps."""
    if table.exists():
        with table.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            columns, kept = list(rows.fieldnames or []), [row for row in rows if float(row.get("env_steps") or 0) <= after]
        aside = table.with_name(f".{table.name}")
        with aside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(kept)
        aside.replace(table)
    if lines.exists():
        whole = [line for line in lines.read_text(encoding="utf-8").splitlines() if line.endswith("}")]  # a kill may cut the last
        aside = lines.with_name(f".{lines.name}")
        aside.write_text("".join(f"{line}\n" for line in whole if json.loads(line)["env_steps"] <= after), encoding="utf-8")
        aside.replace(lines)


def finite(row: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers for JSON: null if not finite."""
    return {name: value if math.isfinite(value) else None for name, value in row.items()}


def _short(value: float) -> str:
    return f"{value:.10g}"
