"""``--watch``: turn by turn without mypy, and as a process."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.checking.support import RIGHT, SCRIPT, WRONG, WRONG_LINE, write
from tflow.checking.engine import CACHE
from tflow.checking.findings import CheckFailed, Report
from tflow.checking.watch import Watch, stopped_by_signals

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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_watch_and_are_then_what_they_were(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    reached = False
    with stopped_by_signals():
        signal.raise_signal(number)
        reached = True
    assert not reached
    assert signal.getsignal(number) is before


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


def children_of(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(word) for task in Path(f"/proc/{pid}/task").iterdir() for word in (task / "children").read_text().split()]


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
    (child,) = children_of(watching.process.pid)
    write(project, {"a.py": "# repaired\n" + RIGHT, "b.py": RIGHT})
    assert "No findings" in watching.until("Checked in")[-2]
    watching.process.send_signal(number)
    assert watching.process.wait(timeout=LIMIT_S) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert not list((project / CACHE).glob("run-*"))
