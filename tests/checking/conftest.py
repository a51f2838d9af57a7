"""Checking tflow itself for the first time takes seconds. One folder pays for it; the others get a copy of its cache."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.checking.support import PLUGIN, RIGHT, run, write
from tflow.checking.engine import CACHE

EVERYTHING = (
    "import tflow.rl.data.advantages\n"
    "from tflow import create_replay_actors, ParallelRollouts, ReportMetrics, TrainOneStep; from tflow.losses import A3CLoss\n"
)


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("warm")
    write(folder, {"everything.py": EVERYTHING + RIGHT})
    done = run(".", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / CACHE


@pytest.fixture
def project(warm: Path, tmp_path: Path) -> Path:
    """An empty folder where checking is quick."""
    folder = tmp_path / "project"
    shutil.copytree(warm, folder / CACHE)
    return folder


@pytest.fixture
def short_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a plugin that starts faster than the real one, for tests of what is around it."""
    write(tmp_path / "plugins", {"short_plugin.py": PLUGIN})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "plugins"))
    return "short_plugin"
