"""The mypy that stays: it finds what a fresh run finds, after every change, on disk or only in an editor."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.checking.support import places, write
from tflow.checking.engine import Engine
from tflow.checking.findings import CheckFailed
from tflow.checking.layout import python_files
from tflow.checking.resident import ResidentEngine

RULES = "from typing import Any\ndef linear(x: int) -> Any: ...\n"
EDITS: list[dict[str, str | None]] = [
    {"a.py": "x: int = ''\n", "b.py": "from rules import linear\nlinear(1)\n"},
    {"a.py": "import b\n"},
    {"c.py": "import csv\nfrom rules import linear\nlinear(1)\nx: int = csv.reader([])\n"},
    {"a.py": "from c import x\ny: str = x\n"},
    {"c.py": "x = ''\n"},
    {"c.py": "x = (\n"},
    {"c.py": "x = 1\n"},
    {"c.py": None},
    {"b.py": None, "a.py": "from rules import linear\n\nlinear(2)\n"},
]


def test_it_finds_what_a_fresh_run_finds(tmp_path: Path, short_plugin: str) -> None:
    """After every change. All happen within seconds, some leave the size as it was."""
    folder = tmp_path / "p"
    write(folder, {"rules.py": RULES})
    with ResidentEngine(folder, plugin=short_plugin) as resident, Engine(folder, plugin=short_plugin) as fresh:
        for number, edit in enumerate(EDITS):
            write(folder, {name: text for name, text in edit.items() if text is not None})
            for name in edit:
                if edit[name] is None:
                    (folder / name).unlink()
                else:
                    os.utime(folder / name, ns=(10**18 + number, 10**18 + number))
            files = python_files(["."], folder)
            found = [finding for finding in resident.check(files) if finding.file in files]
            assert places(found) == places(fresh.check(files)), f"after {edit}"


def test_texts_that_are_not_saved_are_checked_as_they_are(tmp_path: Path, short_plugin: str) -> None:
    """Also those of files that are not there yet, and what others import from them."""
    write(tmp_path, {"rules.py": RULES, "a.py": "x = 1\n", "b.py": "from a import x\ny: int = x\n"})
    files = ["a.py", "b.py"]
    with ResidentEngine(tmp_path, plugin=short_plugin) as engine:
        assert engine.check(files) == []
        (changed,) = engine.checked(files, {"a.py": "x = ''\n"}).findings
        assert (changed.file, changed.line, changed.source) == ("b.py", 2, "y: int = x")
        (new,) = engine.checked([*files, "new.py"], {"new.py": 'from rules import linear\n"ä"; linear(1)\n'}).findings
        assert (new.file, new.line, new.column, new.source) == ("new.py", 2, 6, '"ä"; linear(1)')
        assert engine.check(files) == [], "as they are on disk"


def test_a_comment_that_is_not_saved_counts(tmp_path: Path) -> None:
    from tflow.checking.mypy_process import Texts
    from tflow.mypy_plugin.report import ignored

    write(tmp_path, {"a.py": "x  # tflow: ignore[linear]\n"})
    path, texts = str(tmp_path / "a.py"), Texts()
    assert ignored(path, 1, "tflow-linear")
    texts.replace({path: "x\n"})
    assert not ignored(path, 1, "tflow-linear")
    texts.replace({})
    assert ignored(path, 1, "tflow-linear")


def test_a_process_that_died_is_replaced(tmp_path: Path, short_plugin: str) -> None:
    write(tmp_path, {"a.py": "x: int = ''\n"})
    with ResidentEngine(tmp_path, plugin=short_plugin) as engine:
        engine.check(["a.py"])
        (first,) = engine.residents.values()
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
        assert len(engine.check(["a.py"])) == 1
        (second,) = engine.residents.values()
        assert second.process.pid != first.process.pid
    assert second.process.poll() is not None, "nothing is left running"


def test_a_cache_that_cannot_be_read_is_written_again(tmp_path: Path, short_plugin: str) -> None:
    write(tmp_path, {"a.py": "x: int = ''\n"})
    with ResidentEngine(tmp_path, plugin=short_plugin) as engine:
        engine.check(["a.py"])
        kept = [path for path in engine.cache_folder(()).rglob("*") if path.is_file() and path.name != "written"]
    for path in kept:
        path.write_bytes(b"nonsense")
    with ResidentEngine(tmp_path, plugin=short_plugin) as engine:
        assert len(engine.check(["a.py"])) == 1


def test_a_process_that_hangs_is_ended_with_a_sentence(tmp_path: Path, short_plugin: str) -> None:
    write(tmp_path, {"a.py": ""})
    with ResidentEngine(tmp_path, plugin=short_plugin) as engine:
        engine.check(["a.py"])
        (first,) = engine.residents.values()
        os.kill(first.process.pid, signal.SIGSTOP)
        engine.limit_s = 0.001  # nor can another one answer by then
        with pytest.raises(CheckFailed, match=r"^mypy did not answer within 0 s, and was ended\.$"):
            engine.check(["a.py"])
        assert first.process.poll() is not None
        engine.limit_s = 120
        assert engine.check(["a.py"]) == [], "the next one answers"


def test_files_of_one_name_are_checked_by_a_process_each(tmp_path: Path, short_plugin: str) -> None:
    write(tmp_path, {"exp-1/a.py": "x: int = ''\n", "exp-2/a.py": "x: int = ''\n"})
    with ResidentEngine(tmp_path, plugin=short_plugin) as engine:
        found = engine.check(["exp-1/a.py", "exp-2/a.py"])
        assert len(engine.residents) == 2
        engine.check(["exp-1/a.py"])
        assert len(engine.residents) == 1
    assert [finding.file for finding in found] == ["exp-1/a.py", "exp-2/a.py"]


def test_it_starts_from_what_was_written_before(tmp_path: Path, short_plugin: str) -> None:
    """Also if that was for another text of the file."""
    write(tmp_path, {"a.py": "x: int = ''\n"})
    for text, number in (("x: int = ''\n", 1), ("x: int = ''\n", 1), ("y: int = 1\n", 0)):
        write(tmp_path, {"a.py": text})
        with ResidentEngine(tmp_path, plugin=short_plugin) as engine:
            assert len(engine.check(["a.py"])) == number
            stamp = engine.cache_folder(()) / "written"
            written = stamp.stat().st_mtime_ns
        os.utime(stamp, ns=(1, 1))
    assert written == 1, "it was written once"
