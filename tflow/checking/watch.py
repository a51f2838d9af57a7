"""``tflow check --watch``: checks again whenever a file changes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from tflow.checking.findings import Report, counted
from tflow.checking.layout import python_files
from tflow.errors import PlanError, TflowError

PAUSE_S = 0.2
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
