"""The command line, as real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tflow
from tflow.errors import MissingExtra
from tflow.extras import require

SCRIPT = Path(sys.executable).parent / "tflow"
PLANS = """
from tflow import from_range, par_from_range
numbers = from_range(3).map(str)
shards = par_from_range(3)
def make():
    return numbers.batch(2)
def needy(env, lr, seed=0):
    return numbers
answer = 42
"""


def run(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(SCRIPT), *args], capture_output=True, text=True, cwd=cwd, timeout=60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plans.py").write_text(PLANS)
    return tmp_path


def test_version() -> None:
    assert run("--version").stdout == f"tflow {tflow.__version__}\n"
    as_module = subprocess.run([sys.executable, "-m", "tflow", "--version"], capture_output=True, text=True, timeout=60)
    assert as_module.stdout == f"tflow {tflow.__version__}\n"


@pytest.mark.parametrize(
    ("name", "shown"), [("numbers", "Iter of str"), ("make", "Iter of list[str]"), ("shards", "ParIter of int")]
)
def test_graph_prints_streams_and_what_functions_make(folder: Path, name: str, shown: str) -> None:
    done = run("graph", f"plans.py:{name}", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(shown)
    assert "from_range(3)" in done.stdout or "par_from_range(...)" in done.stdout


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("nowhere.py:plan", "There is no file 'nowhere.py'."),
        ("plans.py:other", "plans.py has no 'other'. Streams, plans and functions in it: numbers, shards, make, needy."),
        (
            "plans.py:needy",
            "plans.py:needy needs 'env', which has no annotation. Annotate it, or draw a function without parameters that "
            "calls it.",
        ),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(folder: Path, target: str, sentence: str) -> None:
    done = run("graph", target, cwd=folder)
    assert done.returncode == 2
    assert done.stderr.strip() == sentence
    assert done.stdout == ""


def test_a_missing_extra_is_a_sentence_with_the_command() -> None:
    with pytest.raises(MissingExtra, match=r"^Atari games need the package no_such: pip install 'tflow\[atari\]'$"):
        require("no_such.part", extra="atari", feature="Atari games")
    assert require("json", extra="x", feature="x").__name__ == "json"


def test_a_broken_package_is_not_a_missing_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_installed.py").write_text("import something_it_needs")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="something_it_needs"):
        require("half_installed", extra="x", feature="x")
