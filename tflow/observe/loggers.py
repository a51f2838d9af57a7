"""Loggers: what takes the metrics of a run. Here are those that write files: comma-separated, one JSON object per line, and
TensorBoard's events. ``tflow.observe.trackers`` has those of services, which are asked for by name, and finds those of others."""

from __future__ import annotations

import csv
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from tflow.errors import MissingExtra
from tflow.extras import require


class Logger(Protocol):
    """Takes the metrics of a run, row by row. One that raises is told once, and given the same row again later."""

    def write(self, row: Mapping[str, float], /) -> None:
        """Take a row: numbers by name, among them ``env_steps``; some may be NaN."""
        ...

    def finish(self, summary: Mapping[str, object], /) -> None:
        """The run is over: its status, its outcome in words, the best evaluations and the last metrics."""
        ...


class RunFacts(NamedTuple):
    """What a logger may know of a run when it begins."""

    name: str
    """The name of the run folder."""
    folder: Path
    """The run folder."""
    config: Mapping[str, object]
    """All settings by name: texts, numbers and bools."""
    after: int | None = None
    """Env steps at which the run was resumed; None if it was not."""

    def kept_id(self, service: str, new: Callable[[], str]) -> str:
        """The name that a service has for this run: kept in the folder, so that a run that is resumed goes on there."""
        file = self.folder / f"{service}.id"
        if not file.exists():
            file.write_text(f"{new()}\n", encoding="utf-8")
        return file.read_text(encoding="utf-8").strip()


MakeLogger: TypeAlias = Callable[[RunFacts], Logger]
"""Makes a logger when a run begins: its class, or a function. If it raises, the run does not begin."""


class CsvLog:
    """A CSV file with a column per metric. A new metric rewrites the file with one more column."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns: list[str] = []

    def write(self, row: Mapping[str, float]) -> None:
        if not self.columns and self.path.exists():  # of a run that goes on
            with self.path.open(newline="", encoding="utf-8", errors="replace") as file:
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

    def finish(self, summary: Mapping[str, object]) -> None:
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

    def finish(self, summary: Mapping[str, object]) -> None:
        self.file.close()


class TensorBoardLog:
    """Events for ``tensorboard --logdir``, over env steps, or updates where there are none.

    Not by torch's writer: its thread prints a traceback if the disk is full, and writes nothing from then on.
    """

    def __init__(self, path: Path, after: int | None = None) -> None:
        require("tensorboard", extra="tensorboard", feature="TensorBoard logs")
        self.proto: Any = import_module("tensorboard.compat.proto.event_pb2")  # Any: tensorboard has no types
        self.summary: Any = import_module("tensorboard.compat.proto.summary_pb2")  # Any: as above
        self.record: Any = import_module("tensorboard.summary.writer.record_writer")  # Any: as above
        self.path, self.after = path, after
        self.file: Path | None = None

    def write(self, row: Mapping[str, float]) -> None:
        values = [
            self.summary.Summary.Value(tag=name, simple_value=value)
            for name, value in row.items()
            if name != "env_steps" and math.isfinite(value)
        ]
        try:
            if self.file is None or not self.file.exists():  # it may have been removed
                self.file = self._begun()
            self._add(self.file, step=step_of(row), summary=self.summary.Summary(value=values))
        except OSError:
            self.file = None  # what is written after half an event cannot be read
            raise

    def _begun(self) -> Path:
        """A new file. The first of a run that goes on lets TensorBoard hide what came later than there."""
        self.path.mkdir(parents=True, exist_ok=True)
        names = (self.path / f"events.out.tfevents.{int(time.time())}.{os.getpid()}.{number}" for number in count())
        file = next(each for each in names if not each.exists())
        self._add(file, file_version="brain.Event:2")
        if self.after is not None:
            self._add(file, step=self.after + 1, session_log=self.proto.SessionLog(status=self.proto.SessionLog.START))
            self.after = None
        return file

    def _add(self, file: Path, **facts: object) -> None:
        event = self.proto.Event(wall_time=time.time(), **facts)
        with file.open("ab") as opened:
            self.record.RecordWriter(opened).write(event.SerializeToString())

    def finish(self, summary: Mapping[str, object]) -> None:
        return  # nothing is kept open


class HowFar(NamedTuple):
    """How far a run was: three counts that never become smaller."""

    env_steps: float
    updates: float
    evaluated_at: float
    """How far it was when the weights were copied that the latest evaluation is of; 0 if there is none."""

    @staticmethod
    def of(row: Mapping[str, Any]) -> HowFar:  # Any: numbers, or numbers as text
        """That of a row."""
        return HowFar(*(float(row.get(name) or 0) for name in ("env_steps", "updates", EVALUATED_AT)))

    @staticmethod
    def saved(manifest: Mapping[str, Any]) -> HowFar:  # Any: facts of all kinds
        """That of a checkpoint, as far as it is known: some were not saved by a run folder."""
        found = manifest.get("folder", {}).get("place") or [manifest.get("env_steps"), manifest.get("updates"), None]
        return HowFar(*(math.inf if each is None else each for each in found))

    def is_after(self, other: HowFar) -> bool:
        return any(mine > others for mine, others in zip(self, other, strict=True))


EVALUATED_AT = "evaluation/weights_at"


def loggers_in(folder: Path, after: HowFar | None = None) -> list[Logger]:
    """All kinds of files, in a run folder; TensorBoard's if it is installed. A run that goes on ``after`` a checkpoint continues
    its files: what came later is removed."""
    if after is not None:
        cut(folder / "metrics.csv", folder / "metrics.jsonl", after)
    found: list[Logger] = [CsvLog(folder / "metrics.csv"), JsonLog(folder / "metrics.jsonl")]
    with suppress(MissingExtra):  # the other two have the same numbers
        found.append(TensorBoardLog(folder / "tensorboard", None if after is None else step_of(after._asdict())))
    return found


def cut(table: Path, lines: Path, after: HowFar) -> None:
    """Remove the rows that were written after this, and what is no row: a kill or a full disk may have cut one off."""
    if table.exists():
        with table.open(newline="", encoding="utf-8", errors="replace") as file:
            rows = csv.DictReader(file, restval=MISSING)
            columns, kept = (
                list(rows.fieldnames or []),
                [row for row in rows if _is_row(row) and not HowFar.of(row).is_after(after)],
            )
        aside = table.with_name(f".{table.name}")
        with aside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(kept)
        aside.replace(table)
    if lines.exists():
        texts = lines.read_text(encoding="utf-8", errors="replace").splitlines()
        whole = [(text, row) for text in texts if isinstance(row := _object_in(text), dict) and _is_row(row)]
        aside = lines.with_name(f".{lines.name}")
        aside.write_text("".join(f"{text}\n" for text, row in whole if not HowFar.of(row).is_after(after)), encoding="utf-8")
        aside.replace(lines)


MISSING = "missing"
"""Stands in a row of a table for what was cut off."""


def _object_in(text: str) -> object:
    with suppress(ValueError):
        return cast("object", json.loads(text))
    return None


def _is_row(row: Mapping[str, Any]) -> bool:  # Any: as above
    """True if it is whole, and says how far the run was."""
    try:
        HowFar.of(row)
    except (ValueError, TypeError):
        return False
    return None not in row and MISSING not in row.values()  # as a reader of tables calls columns that are too many


def step_of(row: Mapping[str, Any]) -> int:  # Any: numbers, or numbers as text
    """How far the run was: env steps, or updates where nobody samples."""
    return int(float(row.get("env_steps") or 0)) or int(float(row.get("updates") or 0))


def finite(row: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers for JSON: null if not finite."""
    return {name: value if math.isfinite(value) else None for name, value in row.items()}


def _short(value: float) -> str:
    return f"{value:.10g}"
