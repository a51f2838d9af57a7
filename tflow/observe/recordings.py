"""The recordings in a run folder: what a cluster decided, so that ``tflow replay`` can repeat the run.

A run that is resumed writes a recording of its own, which begins at the checkpoint that it was resumed from: ``recording.txt``,
``recording-2.txt``, and so on.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path

from tflow.errors import PlanError
from tflow.state.folders import CHECKPOINTS, read_manifest

STEM, SUFFIX = "recording", ".txt"


@dataclass(frozen=True)
class Recording:
    """A recording in a run folder."""

    path: Path

    @property
    def checkpoint(self) -> Path | None:
        """What the run was resumed from; None if it began there."""
        resumes = read_facts(self.path).get("resumes")
        return None if resumes is None else self.path.parent / CHECKPOINTS / str(resumes)

    @property
    def env_steps(self) -> int:
        """Where it begins."""
        return 0 if self.checkpoint is None else int(read_manifest(self.checkpoint)["env_steps"])


def recordings_in(folder: Path) -> list[Recording]:
    """The recordings of a run, in order. One that is empty is none: the run was killed before it had begun."""
    paths = (_numbered(folder, number) for number in count(1))
    return [Recording(path) for path in takewhile(lambda path: path.exists() and path.stat().st_size, paths)]


def beginnings(folder: Path) -> set[Path]:
    """The checkpoints that recordings of a run begin at, as far as these can be read."""
    found: list[Path | None] = []
    for each in recordings_in(folder):
        with suppress(PlanError):
            found.append(each.checkpoint)
    return {each for each in found if each is not None}


def read_facts(path: Path) -> dict[str, object]:
    """What a recording says of itself."""
    try:
        with path.open(encoding="ascii") as file:
            return dict(json.loads(file.readline()))
    except (OSError, ValueError, TypeError) as error:
        raise PlanError(f"{path} is no recording of a run: {error}.") from error


def next_recording(folder: Path) -> Path:
    """The file for the next one."""
    return _numbered(folder, len(recordings_in(folder)) + 1)


def _numbered(folder: Path, number: int) -> Path:
    return folder / f"{STEM}{SUFFIX if number == 1 else f'-{number}{SUFFIX}'}"
