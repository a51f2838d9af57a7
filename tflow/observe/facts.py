"""What a run folder says about where a run was made: versions, machine, command, commit, and the user's own source files."""

from __future__ import annotations

import inspect
import os
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import tflow
from tflow.algos.training_run import TrainingRun
from tflow.observe.status import read_status

PACKAGES = ("torch", "gymnasium", "numpy", "ray")
SOURCES = "source"
"""The folder with copies of the user's own files."""
GIT_S = 5.0
"""How long git may take."""


def versions() -> dict[str, str | None]:
    """Of python, tflow and what it stands on; None for what is not installed."""
    found: dict[str, str | None] = {"python": sys.version.split()[0], "tflow": tflow.__version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def facts_of(run: TrainingRun) -> dict[str, object]:
    """What is true all along the run."""
    from tflow.rl.policy.policy_spec import chosen_device

    return {
        "versions": versions(),
        "command": shlex.join(sys.orig_argv),
        "directory": str(Path.cwd()),
        "git": commit_in(Path.cwd()),
        "device": str(chosen_device(run.workers.spec.device)),
        "cpus": os.cpu_count(),
    }


def commit_in(folder: Path) -> dict[str, object] | None:
    """The commit that is checked out in a folder, and whether files differ from it; None if it is in no repository."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(folder), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=GIT_S, check=True).stdout.strip()  # noqa: S603

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None


def own_files(run: TrainingRun) -> dict[str, Path]:
    """The user's own source files that the run is made of, by what is in them: the algorithm, the env, the models."""
    found: dict[str, Path] = {}
    for what, thing in _parts(run):
        while isinstance(thing, partial):
            thing = thing.func
        try:
            file = inspect.getsourcefile(thing)
        except TypeError:  # a text or a description
            continue
        if file is not None and Path(file).is_file() and not _installed(Path(file).resolve()):
            found[what] = Path(file).resolve()
    return found


def copies_in(folder: Path) -> dict[Path, Path]:
    """The copies of the user's own files in a run folder, by where these files were when it was written."""
    sources = read_status(folder).get("sources")
    found = {}
    for each in sources.values() if isinstance(sources, dict) else ():
        if isinstance(each, dict):
            file = Path(str(each.get("file")))
            found[file] = folder / SOURCES / file.name
    return found


def _parts(run: TrainingRun) -> Iterator[tuple[str, Any]]:  # Any: whatever a user passes
    spec = run.workers.spec
    if run.algorithm is not None:
        yield "algorithm", type(run.algorithm)
    yield "env", spec.env.env
    for number, wrapper in enumerate((*spec.env.wrappers, *spec.env.vector_wrappers)):
        yield f"wrapper {number}", wrapper
    for name, agent in spec.agents.items():
        yield f"model of {name}", agent.model
        yield f"loss of {name}", type(agent.loss)


def _installed(file: Path) -> bool:
    """Whether a file is part of tflow, of Python, or of something that was installed."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    places = [Path(tflow.__file__ or "").parent, *(Path(sysconfig.get_path(name)) for name in names)]
    return any(place.resolve() in file.parents for place in places)
