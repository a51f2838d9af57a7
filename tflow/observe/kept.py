"""Run folders, read back: whatever state they are in, and without running anything of the user's."""

from __future__ import annotations

import csv
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from tflow.drawing.model import DrawnEdge, DrawnNode, Graph
from tflow.errors import PlanError
from tflow.observe.measured import PLAN, STATS
from tflow.observe.status import STATUS, read_status

CONFIG = "config.toml"
EVALUATION = "evaluation/return"
MARKS = (STATUS, "metrics.jsonl", "metrics.csv")
"""What makes a folder that of a run."""
BESIDE = re.compile(r"seeds\.csv|seed-\d+\.log|report\.html")
"""Files of ours that lie beside runs, which ``FOLDER/*`` names, too."""
MOST_NAMED = 5
"""Runs that errors name."""
DEEPEST = 3
"""Folders in folders in which runs are looked for."""
ENV_SPEC = re.compile(r"EnvSpec\((['\"])(.*?)\1, ")
"""The text of an env with arguments or wrappers."""
Row = Mapping[str, float]
Curve = list[tuple[float, float]]


class Setting(NamedTuple):
    """A field of a configuration, as text."""

    name: str
    value: str
    default: str | None
    """None if it is not known, or if there is none."""
    meaning: str = ""

    @property
    def changed(self) -> bool:
        """True if it is known not to be the default."""
        return self.default is not None and self.value != self.default


@dataclass(frozen=True)
class KeptRun:
    """A run, as its folder tells it."""

    path: Path
    status: Mapping[str, Any]  # Any: JSON
    rows: tuple[Row, ...]
    """What was logged; numbers that were not known then are left out."""
    plan: Mapping[str, Any]  # Any: JSON
    stats: Mapping[str, Any]  # Any: JSON
    config: Mapping[str, Any]  # Any: TOML

    @property
    def name(self) -> str:
        """Its folder; of one seed of several, with the folder around it."""
        path = self.path.resolve()
        return f"{path.parent.name}/{path.name}" if path.name.startswith("seed-") else path.name

    @property
    def family(self) -> str:
        """The folder that it shares with other seeds, or its own."""
        return self.name.partition("/")[0]

    @property
    def state(self) -> str:
        """How it stands: running, finished, interrupted, failed or killed."""
        return str(self.status.get("status", "unknown"))

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """The fields of its algorithm."""
        if self.plan.get("settings"):
            return tuple(_setting(each) for each in self.plan["settings"])
        return tuple(Setting(name, value, None) for name, value in _flat(self.config) if not name.startswith("run."))

    @cached_property
    def run_settings(self) -> tuple[Setting, ...]:
        """Those of the run: seed, when it stops, when it is evaluated."""
        if self.plan.get("run"):
            return tuple(_setting(each) for each in self.plan["run"])
        table = self.config.get("run", {})
        return tuple(Setting(name, value, None) for name, value in _flat(table if isinstance(table, dict) else {}))

    @property
    def algorithm(self) -> str:
        """Its name; of a plan of one's own, "plan"."""
        return next((each.value for each in self.run_settings if each.name == "algo" and each.value), "plan")

    @property
    def short_algorithm(self) -> str:
        """Its name, without the folder of a file."""
        return without_folder(self.algorithm)

    @property
    def short_env(self) -> str:
        """What it was trained on, without the folder of a file; a + stands for arguments and wrappers."""
        described = ENV_SPEC.match(self.env)
        return without_folder(f"{described[2]}+" if described else self.env)

    @property
    def env(self) -> str:
        """What it was trained on."""
        said = self.status.get("env") or next((each.value for each in self.settings if each.name == "env"), None)
        return str(said or str(self.plan.get("title", "")).partition(" on ")[2] or "an env of one's own")

    @property
    def seed(self) -> int | None:
        found = self.status.get("seed")
        return found if isinstance(found, int) else None

    @cached_property
    def began(self) -> datetime | None:
        with suppress(ValueError):
            return datetime.fromisoformat(str(self.status.get("began")))
        return None

    @property
    def last(self) -> Row:
        """The last row; before there is one, what its status says."""
        if self.rows:
            return self.rows[-1]
        found = self.status.get("metrics")
        return dict(_numbers(found)) if isinstance(found, dict) else {}

    @property
    def seconds(self) -> float | None:
        found = self.status.get("seconds")
        return float(found) if isinstance(found, (int, float)) else self.last.get("seconds")

    @cached_property
    def progress(self) -> str:
        """What its curves go by: env steps, or updates if it samples none."""
        return "env_steps" if any(row.get("env_steps", 0) > 0 for row in self.rows) else "updates"

    def curve(self, name: str, by: str | None = None) -> Curve:
        """A metric over progress, where it is known. What was logged twice counts once: the latest."""
        by = by or self.progress
        return sorted({row[by]: row[name] for row in self.rows if name in row and by in row}.items())

    @cached_property
    def evaluations(self) -> Curve:
        """Each evaluation once, at the progress of the weights that were evaluated."""
        at = "evaluation/weights_at"
        found: dict[float, float] = {}
        for row in self.rows:
            if EVALUATION in row and self.progress in row:
                place = row.get(at, row[self.progress]) if self.progress == "env_steps" else row[self.progress]
                if self.progress == "env_steps" or row[EVALUATION] not in list(found.values())[-1:]:
                    found[place] = row[EVALUATION]
        return sorted(found.items())

    @property
    def returns(self) -> list[str]:
        """The metrics that are returns: one, or one for each policy."""
        names = dict.fromkeys(name for row in self.rows for name in row if name.endswith("/return") and name != EVALUATION)
        return list(names) or ["return"]

    @property
    def score(self) -> float | None:
        """What it is compared by: the mean of its evaluations in the last tenth of its progress, or else its last return."""
        if self.evaluations:
            late = [value for place, value in self.evaluations if place >= 0.9 * self.evaluations[-1][0]]
            return sum(late) / len(late)
        found = self.curve("return")
        return found[-1][1] if found else None

    @cached_property
    def graph(self) -> Graph | None:
        """The plan as it was drawn; None if the folder has no data of it."""
        with suppress(KeyError, TypeError):
            drawn = tuple(DrawnNode(**each) for each in self.plan["nodes"])
            return Graph(str(self.plan["title"]), drawn, tuple(DrawnEdge(**each) for each in self.plan["edges"]))
        return None


def without_folder(target: str) -> str:
    """A file's name for ``folder/FILE.py:NAME``; anything else as it is.

    >>> without_folder("/home/me/mine.py:MyPPO"), without_folder("ALE/Pong-v5")
    ('mine.py:MyPPO', 'ALE/Pong-v5')
    """
    return target.replace("\\", "/").rpartition("/")[2] if ".py:" in target else target


def _setting(found: Mapping[str, Any]) -> Setting:  # Any: JSON
    return Setting(str(found["name"]), str(found["value"]), found.get("default"), str(found.get("meaning", "")))


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:  # Any: TOML
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)


def _numbers(row: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    """The numbers of a row that are finite."""
    for name, value in row.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            yield name, float(value)


def is_run(path: Path) -> bool:
    return any((path / name).is_file() for name in MARKS)


def read_run(path: Path) -> KeptRun:
    """The run in a folder, as far as it is there: a file that is missing, or cut off in the middle, counts as empty."""
    if not is_run(path):
        raise PlanError(f"{str(path)!r} {no_run(path)}")
    config: dict[str, Any] = {}  # Any: TOML
    with suppress(OSError, ValueError):
        config = tomllib.loads((path / CONFIG).read_text(encoding="utf-8"))
    return KeptRun(path, read_status(path), tuple(_rows(path)), _facts(path / PLAN), _facts(path / STATS), config)


def no_run(path: Path) -> str:
    """Why a path is no run, in words."""
    if not path.exists():
        return "does not exist. tflow runs lists the runs that there are."
    if not path.is_dir():
        return "is a file. Name the folder of a run, such as runs/ppo-CartPole-v1-1."
    inside = [str(each) for each in runs_in(path)]
    hint = f"There are runs in it: {', '.join(inside[:MOST_NAMED])}" if inside else "tflow runs lists the runs that there are"
    return f"is no run folder: it has none of {', '.join(MARKS)}. {hint}."


def _facts(path: Path) -> Mapping[str, Any]:  # Any: JSON
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def _rows(path: Path) -> Iterator[Row]:
    """The rows of metrics, from either file."""
    lines, table = path / "metrics.jsonl", path / "metrics.csv"
    with suppress(OSError):
        if lines.is_file():
            for line in lines.read_text(encoding="utf-8", errors="replace").splitlines():
                with suppress(ValueError):  # a kill may cut the last
                    found = json.loads(line)
                    if isinstance(found, dict):
                        yield dict(_numbers(found))
        elif table.is_file():
            with table.open(newline="", encoding="utf-8", errors="replace") as file:
                for row in csv.DictReader(file):
                    yield dict(_numbers({name: _number(text) for name, text in row.items() if name and isinstance(text, str)}))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def runs_in(folder: Path, depth: int = DEEPEST) -> list[Path]:
    """The runs in a folder, in the folders in it, and so on; the folder itself if it is one."""
    if is_run(folder):
        return [folder]
    if depth == 0 or not folder.is_dir():
        return []
    with suppress(OSError):
        inner = sorted((each for each in folder.iterdir() if each.is_dir() and not each.name.startswith(".")), key=_natural)
        return [run for each in inner for run in runs_in(each, depth - 1)]
    return []


def _natural(path: Path) -> tuple[str, int, str]:
    """So that seed-10 comes after seed-9."""
    stem = path.name.rstrip("0123456789")
    number = path.name[len(stem) :]
    return stem, int(number) if number else -1, path.name


def asked_runs(paths: Sequence[Path]) -> list[KeptRun]:
    """The runs that somebody names: run folders, or folders with such in them, as ``--seeds`` makes them."""
    found: dict[Path, KeptRun] = {}
    folders = [path for path in paths if not (path.is_file() and BESIDE.fullmatch(path.name))]
    for path in folders or paths:
        inside = runs_in(path)
        if not inside:
            raise PlanError(f"{str(path)!r} {no_run(path)}")
        for each in inside:
            found.setdefault(each.resolve(), read_run(each))
    return list(found.values())
