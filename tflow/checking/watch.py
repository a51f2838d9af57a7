"""``tflow check --watch``: checks again whenever a file changes, with a mypy daemon that keeps what it knows in memory."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from tflow.checking.engine import Engine, environment
from tflow.checking.findings import CheckFailed, Finding, Report, counted
from tflow.checking.layout import FileGroup, file_groups, python_files
from tflow.errors import PlanError, TflowError

PAUSE_S = 0.2
IDLE_S = 1800
"""A daemon that nobody asks for so long ends by itself, should this process have been killed."""
START_S = 60
Stamp = tuple[int, int]
"""When a file changed last, in nanoseconds, and its size."""


def stamps(files: Iterable[str], folder: Path) -> dict[str, Stamp]:
    """Those of all files that are there."""
    found: dict[str, Stamp] = {}
    for file in files:
        with suppress(FileNotFoundError):  # gone between two looks
            now = (folder / file).stat()
            found[file] = now.st_mtime_ns, now.st_size
    return found


def looks_the_same(old: Stamp | None, new: Stamp) -> bool:
    """True for a change that mypy does not notice: it looks at the size, and at whole seconds."""
    return old is not None and old != new and (old[0] // 10**9, old[1]) == (new[0] // 10**9, new[1])


class DaemonEngine(Engine):
    """Asks a daemon, its own child, so that nothing of it outlives us.

    Where names collide one daemon is not enough, and daemons have faults of their own: mypy then runs afresh for that turn.
    """

    daemon: subprocess.Popen[bytes] | None = None
    served: tuple[tuple[str, ...], ...] = ()
    """The roots that the daemon was started with, and what it follows."""
    known: Mapping[str, Stamp] = {}
    """The files that it has seen."""

    def check(self, files: Sequence[str]) -> list[Finding]:
        first, *others = file_groups(files, self.folder)
        if not others:
            with suppress(CheckFailed):
                return self.ask(first)
        self.stop()
        return super().check(files)

    def ask(self, group: FileGroup) -> list[Finding]:
        files = self.arguments(group)
        now = stamps(files, self.folder)
        unnoticed = any(looks_the_same(self.known.get(file), stamp) for file, stamp in now.items())
        if self.daemon is None or self.served != (group.roots, self.followed(group)) or unnoticed:
            self.start(group)
        self.known = now
        return self.read(self.run("mypy.dmypy", "--status-file", str(self.status), "check", "--", *files))

    @property
    def status(self) -> Path:
        return self.desk / "dmypy.json"

    def start(self, group: FileGroup) -> None:
        self.stop()
        log = self.desk / "daemon.txt"
        command = ["mypy.dmypy", "--status-file", str(self.status), "daemon", "--timeout", str(IDLE_S), "--"]
        with log.open("wb") as written:
            self.daemon = subprocess.Popen(  # noqa: S603  # our own interpreter and our own words
                [sys.executable, "-m", *command, *self.options(group)],
                cwd=self.folder,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us; we end it
            )
        self.served = group.roots, self.followed(group)
        limit = time.monotonic() + START_S
        while not self.status.exists():
            if self.daemon.poll() is not None or time.monotonic() > limit:
                raise CheckFailed(f"The daemon did not start: {log.read_text(errors='replace')}")
            time.sleep(0.02)

    def stop(self) -> None:
        if self.daemon is not None:
            self.daemon.kill()
            self.daemon.wait()
            self.daemon = None
        self.status.unlink(missing_ok=True)

    def close(self) -> None:
        self.stop()
        super().close()


class Watch:
    """Looks at the files in turns. ``check`` makes a report of files, ``show`` prints it, ``say`` prints a line."""

    def __init__(
        self,
        paths: Sequence[str | Path],
        folder: Path,
        *,
        check: Callable[[Sequence[str]], Report],
        show: Callable[[Report], None],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.paths, self.folder = paths, folder
        self.check, self.show, self.say, self.clock = check, show, say, clock
        self.seen: dict[str, Stamp] | None = None

    def turn(self) -> bool:
        """Check if anything has changed since the last turn; say whether it had."""
        files = self.snapshot()
        if files == self.seen:
            return False
        self.seen = files
        started = self.clock()
        self.say(f"Checking {counted(len(files), 'file')} ...")
        try:
            self.show(self.check(python_files(self.paths, self.folder)))  # again, for the sentence if all are gone
        except TflowError as error:  # the next change may repair it
            self.say(str(error))
        self.say(f"Checked in {self.clock() - started:.1f} s; watching for changes.")
        return True

    def snapshot(self) -> dict[str, Stamp]:
        """What there is now."""
        try:
            return stamps(python_files(self.paths, self.folder), self.folder)
        except PlanError:  # all are gone; they may come back
            return {}

    def run(self) -> None:
        """Until Ctrl-C or another signal."""
        with stopped_by_signals():
            while True:
                if not self.turn():
                    time.sleep(PAUSE_S)


class Stopped(Exception):
    """Somebody asked us to end."""


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a terminal that is closed end what is inside, and nothing else."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]  # Windows lacks one
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    except Stopped:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
