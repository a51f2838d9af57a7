"""``--watch``: turn by turn without a daemon, with one, and as a process."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.checking.support import RIGHT, SCRIPT, WRONG, WRONG_LINE, places, write
from tflow.checking.engine import CACHE, Engine
from tflow.checking.findings import CheckFailed, Report
from tflow.checking.layout import python_files
from tflow.checking.watch import DaemonEngine, Watch, looks_the_same, stopped_by_signals

LIMIT_S = 120  # for machines that are busy; nothing waits that long when all is well


class Watched:
    """A watch over a folder whose checks only note what they are asked."""

    def __init__(self, folder: Path, *paths: str) -> None:
        self.checked: list[list[str]] = []
        self.said: list[str] = []
        self.error: CheckFailed | None = None
        times = iter(range(100))
        self.watch = Watch(
            paths or ["."],
            folder,
            check=self.check,
            show=lambda report: self.said.append(report.summary),
            say=self.said.append,
            clock=lambda: next(times),
        )

    def check(self, files: Sequence[str]) -> Report:
        self.checked.append(list(files))
        if self.error:
            raise self.error
        return Report(files=len(files))


def test_a_turn_checks_only_when_something_has_changed(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "1", "sub/b.py": "2"})
    watched = Watched(tmp_path)
    assert watched.watch.turn()
    assert watched.said == ["Checking 2 files ...", "No findings in 2 files", "Checked in 1.0 s; watching for changes."]
    assert not watched.watch.turn()
    write(tmp_path, {"note.md": "", ".hidden/c.py": ""})
    assert not watched.watch.turn()
    assert watched.checked == [["a.py", "sub/b.py"]]


def changed(folder: Path) -> None:
    write(folder, {"a.py": "1 + 1"})


def touched(folder: Path) -> None:
    """The same size, another time."""
    os.utime(folder / "a.py", ns=(1, 1))


def created(folder: Path) -> None:
    write(folder, {"sub/new.py": ""})


def deleted(folder: Path) -> None:
    (folder / "sub" / "b.py").unlink()


@pytest.mark.parametrize(
    ("change", "files"),
    [
        (changed, ["a.py", "sub/b.py"]),
        (touched, ["a.py", "sub/b.py"]),
        (created, ["a.py", "sub/b.py", "sub/new.py"]),
        (deleted, ["a.py"]),
    ],
)
def test_changes_new_files_and_deleted_ones_are_noticed(change: Callable[[Path], None], files: list[str], tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "1", "sub/b.py": "2"})
    watched = Watched(tmp_path)
    watched.watch.turn()
    change(tmp_path)
    assert watched.watch.turn()
    assert watched.checked[1:] == [files]
    assert not watched.watch.turn()


def test_files_may_go_and_come_back(tmp_path: Path) -> None:
    write(tmp_path, {"plans/a.py": ""})
    watched = Watched(tmp_path, "plans")
    watched.watch.turn()
    shutil.rmtree(tmp_path / "plans")
    assert watched.watch.turn()
    assert watched.said[-2:] == ["There is no file or folder 'plans'.", "Checked in 1.0 s; watching for changes."]
    assert not watched.watch.turn()
    write(tmp_path, {"plans/a.py": ""})
    assert watched.watch.turn()
    assert watched.checked == [["plans/a.py"], ["plans/a.py"]]


def test_what_cannot_be_checked_is_said_and_the_watch_goes_on(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": ""})
    watched = Watched(tmp_path)
    watched.error = CheckFailed("mypy crashed.")
    assert watched.watch.turn()
    assert watched.said == ["Checking 1 file ...", "mypy crashed.", "Checked in 1.0 s; watching for changes."]
    assert not watched.watch.turn()
    watched.error = None
    write(tmp_path, {"a.py": "1"})
    assert watched.watch.turn()
    assert "No findings in 1 file" in watched.said


def test_changes_that_mypy_does_not_notice_are_known() -> None:
    second = 10**9
    assert looks_the_same((5 * second, 7), (5 * second + 1, 7))
    assert not looks_the_same((5 * second, 7), (5 * second, 7)), "no change"
    assert not looks_the_same((5 * second, 7), (6 * second, 7))
    assert not looks_the_same((5 * second, 7), (5 * second + 1, 8))
    assert not looks_the_same(None, (5 * second, 7))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_watch_and_are_then_what_they_were(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    reached = False
    with stopped_by_signals():
        signal.raise_signal(number)
        reached = True
    assert not reached
    assert signal.getsignal(number) is before


# ------------------------------------------------------------------- with a daemon

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


def test_the_daemon_finds_what_a_fresh_run_finds(tmp_path: Path, short_plugin: str) -> None:
    """After every change. All happen within seconds, some leave the size as it was."""
    folder = tmp_path / "p"
    write(folder, {"rules.py": "from typing import Any\ndef linear(x: int) -> Any: ...\n"})
    with DaemonEngine(folder, plugin=short_plugin) as daemon, Engine(folder, plugin=short_plugin) as fresh:
        for number, edit in enumerate(EDITS):
            write(folder, {name: text for name, text in edit.items() if text is not None})
            for name in edit:
                if edit[name] is None:
                    (folder / name).unlink()
                else:
                    os.utime(folder / name, ns=(10**18 + number, 10**18 + number))
            files = python_files(["."], folder)
            found = [finding for finding in daemon.check(files) if finding.file in files]
            assert places(found) == places(fresh.check(files)), f"after {edit}"
            assert daemon.daemon is not None, "it was the daemon that answered"


def test_a_daemon_that_died_is_replaced(tmp_path: Path, short_plugin: str) -> None:
    write(tmp_path, {"a.py": "x: int = ''\n"})
    with DaemonEngine(tmp_path, plugin=short_plugin) as engine:
        engine.check(["a.py"])
        first = engine.daemon
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)
        assert len(engine.check(["a.py"])) == 1, "mypy itself steps in"
        engine.check(["a.py"])
        second = engine.daemon
        assert second is not None
        assert second.pid != first.pid
    assert second.poll() is not None, "nothing is left running"


def test_colliding_names_are_watched_without_a_daemon(tmp_path: Path, short_plugin: str) -> None:
    write(tmp_path, {"exp-1/a.py": "x: int = ''\n", "exp-2/a.py": "x: int = ''\n"})
    with DaemonEngine(tmp_path, plugin=short_plugin) as engine:
        found = engine.check(["exp-1/a.py", "exp-2/a.py"])
        assert engine.daemon is None
    assert [finding.file for finding in found] == ["exp-1/a.py", "exp-2/a.py"]


# ------------------------------------------------------------------- as a process


class Process:
    """A running ``tflow check --watch``. Waiting for a line has a limit."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [str(SCRIPT), "check", "--watch", "."], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as written:
            for line in written:
                self.lines.put(line.rstrip("\n"))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join()

    def until(self, start: str) -> list[str]:
        """All lines up to one that starts so."""
        seen: list[str] = []
        while not seen or not seen[-1].startswith(start):
            seen.append(self.lines.get(timeout=LIMIT_S))
        return seen


@pytest.fixture
def watching(project: Path) -> Iterator[Process]:
    write(project, {"a.py": WRONG})
    running = Process(project)
    yield running
    running.end()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_edits_are_seen_and_a_signal_ends_everything(number: signal.Signals, watching: Process, project: Path) -> None:
    first = watching.until("Checked in")
    assert first[0] == "Checking 1 file ..."
    assert first[1].startswith(f"a.py:{WRONG_LINE}:26: batch: size must be at least 1")
    assert first[-2] == "1 finding in 1 file"
    (status,) = (project / CACHE).glob("run-*/dmypy.json")
    daemon = json.loads(status.read_text())["pid"]
    os.kill(daemon, 0)  # it is there
    write(project, {"a.py": "# repaired\n" + RIGHT, "b.py": RIGHT})
    assert "No findings" in watching.until("Checked in")[-2]
    watching.process.send_signal(number)
    assert watching.process.wait(timeout=LIMIT_S) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(daemon, 0)
    assert not list((project / CACHE).glob("run-*"))
