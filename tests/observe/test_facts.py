"""What a run folder says about where a run was made."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tflow import RunFolder, Stop, loading
from tflow.algos import PPO
from tflow.models import MLP
from tflow.observe.facts import commit_in

MINE = """
from dataclasses import dataclass
import gymnasium
from tflow.algos import PPO

@dataclass(frozen=True, kw_only=True)
class Mine(PPO):
    extra: int = 3

def make_env(size: int = 3):
    return gymnasium.make("CartPole-v1")
"""
SMALL = {"num_workers": 1, "num_envs": 2, "fragment": 16, "epochs": 1, "minibatch": 32, "model": MLP((8,))}


def test_the_folder_says_what_it_was_made_with_and_keeps_the_users_own_files(tmp_path: Path) -> None:
    file = tmp_path / "facts_of_mine.py"
    file.write_text(MINE)
    module = loading.load_file(file)
    config = module.Mine(**SMALL, env=module.make_env)
    config.run(stop=Stop(env_steps=32), callbacks=[RunFolder(tmp_path / "run")]).finish()
    found = json.loads((tmp_path / "run" / "run.json").read_text())
    for name in ("torch", "gymnasium", "numpy", "ray"):
        assert found["versions"][name] == version(name)
    assert found["versions"]["python"] == platform.python_version()
    assert (found["device"], found["cpus"], found["host"]) == ("cpu", os.cpu_count(), platform.node())
    assert Path(found["command"].split()[0].strip("'")).name.startswith(Path(sys.orig_argv[0]).name)
    assert set(found["sources"]) == {"algorithm", "env"}
    assert found["sources"]["algorithm"] == {"file": str(file), "copy": "source/facts_of_mine.py"}
    file.unlink()
    assert (tmp_path / "run" / "source" / "facts_of_mine.py").read_text() == MINE
    assert found["metrics"]["env_steps_per_s"] > 0, "a run that is over within a second had a speed, too"


def test_what_is_ours_is_not_copied(tmp_path: Path) -> None:
    PPO(**SMALL).run(stop=Stop(env_steps=32), callbacks=[RunFolder(tmp_path / "run")]).finish()  # type: ignore[arg-type]  # of several types
    assert not (tmp_path / "run" / "source").exists()


def test_the_commit_and_whether_files_differ_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert commit_in(tmp_path) is None
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)

    def git(*words: str) -> str:
        settings = ("-c", "user.name=me", "-c", "user.email=me@example.org")
        return subprocess.run(
            ["git", "-C", str(tmp_path), *settings, *words], check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init")
    assert commit_in(tmp_path) is None, "there is no commit yet"
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "first")
    assert commit_in(tmp_path) == {"commit": git("rev-parse", "HEAD"), "dirty": False}
    (tmp_path / "a").write_text("2")
    assert commit_in(tmp_path) == {"commit": git("rev-parse", "HEAD"), "dirty": True}
    monkeypatch.setenv("PATH", "")
    assert commit_in(tmp_path) is None, "there is no git"
