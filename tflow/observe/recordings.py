"""The recordings in a run folder: what a cluster decided, so that ``tflow replay`` can repeat the run.

A run that is resumed writes a recording of its own, which begins at the checkpoint that it was resumed from: ``recording.txt``,
``recording-2.txt``, and so on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from tflow.errors import PlanError
from tflow.state.folders import CHECKPOINTS, read_manifest

STEM, SUFFIX = "recording", ".txt"


class Recording(NamedTuple):
    """A recording in a run folder."""

    path: Path
    checkpoint: Path | None
    """What the run was resumed from; None if it began there."""

    @property
    def env_steps(self) -> int:
        """Where it begins."""
        return 0 if self.checkpoint is None else int(read_manifest(self.checkpoint)["env_steps"])


def recordings_in(folder: Path) -> list[Recording]:
    """The recordings of a run, in order."""
    found, number = [], 1
    while (path := _numbered(folder, number)).exists():
        resumes = read_facts(path).get("resumes")
        found.append(Recording(path, None if resumes is None else folder / CHECKPOINTS / str(resumes)))
        number += 1
    return found


def read_facts(path: Path) -> dict[str, object]:
    """What a recording says of itself."""
    try:
        with path.open(encoding="ascii") as file:
            return dict(json.loads(file.readline()))
    except (ValueError, TypeError) as error:
        raise PlanError(f"{path} is no recording of a run: {error}.") from error


def next_recording(folder: Path) -> Path:
    """The file for the next one."""
    return _numbered(folder, len(recordings_in(folder)) + 1)


def _numbered(folder: Path, number: int) -> Path:
    return folder / f"{STEM}{SUFFIX if number == 1 else f'-{number}{SUFFIX}'}"
