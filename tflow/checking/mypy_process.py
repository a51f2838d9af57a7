"""mypy in a process of its own that stays. It reads what to check from its input, a line of JSON each, and answers in lines.

What it has checked it keeps in memory, so that after a change only that is checked again which the change can affect. It starts
from a cache that is written once (``write``). Texts that are not saved yet are checked as they are (``Texts``).
"""

from __future__ import annotations

import hashlib
import json
import linecache
import os
import subprocess
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path, PurePath
from typing import TextIO, TypedDict

import mypy.build
from mypy.dmypy_server import Server
from mypy.errors import CompileError
from mypy.find_sources import InvalidSourceList, create_source_list
from mypy.fscache import FileSystemCache
from mypy.fswatcher import FileData
from mypy.main import process_options
from mypy.modulefinder import BuildSource
from mypy.options import Options
from mypy.util import hash_digest
from mypy.version import __version__ as mypy_version

import tflow.mypy_plugin
from tflow.checking.layout import SKIPPED
from tflow.mypy_plugin import recorder

PACKAGE = Path(tflow.mypy_plugin.__file__).parents[1].resolve()
WHOLE = "--whole"
"""Know all of tflow from the beginning, whatever files import of it."""
STAMP = "written"
MANY = 50
"""So many modules that were not in the cache are a reason to write it anew, the next time."""
UNSEEN = FileData(0.0, -1, "")


class CheckRequest(TypedDict):
    """Which files to check. ``texts`` are those of files that are not saved; ``record`` names files whose streams are wanted."""

    files: list[str]
    texts: dict[str, str]
    record: list[str]


class Texts(FileSystemCache):
    """Files as they are on disk, or as they are in an editor."""

    def __init__(self) -> None:
        self.texts: dict[str, bytes] = {}
        self.seen: dict[str, tuple[int, object]] = {}
        """By file: how often it has changed, and what it was like then."""
        super().__init__()

    def replace(self, texts: Mapping[str, str]) -> None:
        """These files are not as they are on disk."""
        self.texts = {path: text.encode() for path, text in texts.items()}
        self.flush()
        for path in [path for path, entry in linecache.cache.items() if len(entry) == 4 and entry[1] is None]:
            del linecache.cache[path]
        for path, text in texts.items():  # which rules read, for comments; without a time, it is taken as it is
            linecache.cache[path] = len(text), None, text.splitlines(keepends=True), path

    def changed(self, paths: Iterable[str]) -> set[str]:
        """Those that are not as they were when this was asked before."""
        found = set()
        for path in paths:
            now = self.now(path)
            count, before = self.seen.get(path, (0, None))
            if now != before:
                self.seen[path] = count + 1, now
                found.add(path)
        return found

    def now(self, path: str) -> object:
        if path in self.texts:
            return self.texts[path]
        try:
            known = os.stat(path)
        except OSError:
            return None
        return known.st_mtime_ns, known.st_size

    def stat_or_none(self, path: str) -> os.stat_result | None:
        """mypy looks at sizes and whole seconds: a change within a second must show, too."""
        found = super().stat_or_none(path)
        if path not in self.texts and (path not in self.seen or found is None):
            return found
        size = len(self.texts[path]) if path in self.texts else found.st_size if found is not None else 0
        values = list(found if found is not None else (0o100644, *(0,) * 9))
        values[6], values[8] = size, self.seen.get(path, (1, None))[0]
        return os.stat_result(values)

    def read(self, path: str) -> bytes:
        if path not in self.texts:
            return super().read(path)
        self.hash_cache[path] = hash_digest(self.texts[path])
        return self.texts[path]

    def hash_digest(self, path: str) -> str:
        return hash_digest(self.texts[path]) if path in self.texts else super().hash_digest(path)

    def listdir(self, path: str) -> list[str]:
        new = [
            name for folder, name in map(os.path.split, self.texts) if os.path.normpath(folder or ".") == os.path.normpath(path)
        ]
        there = super().listdir(path)
        return [*there, *(name for name in new if name not in there)]


class Checks:
    """What is kept between two requests."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = list(arguments)
        self.files = Texts()
        self.server: Server | None = None
        self.record = recorder.StreamRecorder()
        self.waiting: set[str] = set()
        """Files whose records are out of date until nothing is in the way of checking them."""
        self.asked: set[str] = set()
        """Files whose streams were wanted before."""

    def answer(self, request: CheckRequest) -> dict[str, object]:
        """Check, and say what mypy says, as if it had been run: its output, its errors and its exit code."""
        out, err = StringIO(), StringIO()
        try:
            with redirect_stdout(out), redirect_stderr(err):
                said = self.check(request)
        except (Exception, SystemExit) as error:  # whatever it is, the other side is told, and ends us
            if not isinstance(error, SystemExit):
                err.write(traceback.format_exc())
            code = error.code if isinstance(error, SystemExit) else 2
            return {"out": out.getvalue(), "err": err.getvalue(), "status": code or 2, "broken": True}
        return {"out": said["out"], "err": said["err"] or err.getvalue(), "status": said["status"]} | self.recorded(request, said)

    def check(self, request: CheckRequest) -> dict[str, str]:
        self.files.replace(request["texts"])
        self.waiting |= self.files.changed(request["files"])
        first = self.server is None
        if self.server is None:
            if not self.is_written():
                self.write(request["files"])
            self.server = self.started()
        try:
            sources = self.sources(request["files"], self.server)
        except InvalidSourceList as error:
            return {"out": "", "err": str(error), "status": 2}  # type: ignore[dict-item]  # as mypy's daemon does it
        with recorder.recording(self.record):
            said: dict[str, str] = self.server.check(sources, False, False, 80)
            unseen = [path for path in request["record"] if path not in self.asked and not self.record.has(path)]
            unseen += self.silent(request["files"]) if first else []
            if unseen and self.server.fine_grained_manager is not None:  # what comes from the cache was not looked at
                for path in unseen:
                    self.server.fswatcher.set_file_data(path, UNSEEN)
                said = self.server.check(sources, False, False, 80)
        self.asked |= set(request["record"])
        if first:
            self.keep_cache_in_use()
        return said

    def silent(self, files: Sequence[str]) -> list[str]:
        """Files in which something was found that the cache remembers, and mypy does not repeat when it starts from there."""
        manager = self.server.fine_grained_manager if self.server is not None else None
        states = manager.graph.values() if manager is not None else ()
        return [state.path for state in states if state.path and state.path in files and getattr(state, "error_lines", True)]

    def recorded(self, request: CheckRequest, said: Mapping[str, str]) -> dict[str, object]:
        """What was recorded of files. Behind a syntax error, it is what was recorded before."""
        blocked = '"code": "syntax"' in said["out"] + said["err"]
        self.record.settle(set() if blocked else self.waiting)
        if not blocked:
            self.waiting = set()
        manager = self.server.fine_grained_manager if self.server is not None else None
        paths = [state.path for state in manager.graph.values() if state.path] if manager is not None else []
        known = [file for path in paths if (file := own_file(path))]
        return {"records": {path: self.record.of(path) for path in request["record"]}, "known": known}

    # ------------------------------------------------------------------- mypy

    def started(self) -> Server:
        options = options_of(self.arguments, "--use-fine-grained-cache")
        server = Server(options, os.path.join(self.folder, "no-status-file"))
        server.fscache = self.files
        return server

    def sources(self, files: Sequence[str], server: Server) -> list[BuildSource]:
        """The files, and all of tflow: who imports more of it later need not wait."""
        return [*whole(self.arguments), *create_source_list(list(files), server.options, self.files)]

    # ------------------------------------------------------------------- the cache that it starts from

    @property
    def folder(self) -> str:
        return self.arguments[self.arguments.index("--cache-dir") + 1]

    @property
    def stamp(self) -> Path:
        return Path(self.folder) / STAMP

    def key(self) -> str:
        """What a cache is good for. Of another environment, mypy can start from none: its libraries are elsewhere."""
        config = Path(self.arguments[self.arguments.index("--config-file") + 1]).read_text(encoding="utf-8")
        parts = (config, tflow.mypy_plugin.DIGEST, mypy_version, mypy.build.__file__, sys.version, sys.prefix)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def is_written(self) -> bool:
        return self.stamp.exists() and self.stamp.read_text(encoding="utf-8") == self.key()

    def write(self, files: Sequence[str]) -> None:
        """In another process, which frees the memory; without the user's files if one of them cannot be read."""
        for several in (files, ()):
            command = [sys.executable, "-m", "tflow.checking.mypy_process", "write", *self.arguments, "--", *several]
            if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:  # noqa: S603  # our own interpreter and our own words
                self.stamp.write_text(self.key(), encoding="utf-8")
                return

    def keep_cache_in_use(self) -> None:
        """If much was not in the cache, such as a library that is imported since, write it again the next time."""
        manager = self.server.fine_grained_manager if self.server is not None else None
        if manager is not None and sum(state.meta is None for state in manager.graph.values()) > MANY:
            self.stamp.unlink(missing_ok=True)


def own_file(path: str) -> str:
    """A file of the project, named from the working directory; empty for those of libraries, and our own."""
    if Path(path).resolve().is_relative_to(PACKAGE) or not path.endswith(".py"):
        return ""
    parts = PurePath(os.path.relpath(path)).parts
    return "" if any(part.startswith(".") or part in SKIPPED for part in parts) else PurePath(*parts).as_posix()


def whole(arguments: Sequence[str]) -> list[BuildSource]:
    """All of tflow, if it was asked for."""
    if WHOLE not in arguments:
        return []
    return [BuildSource(str(PACKAGE / "__init__.pyi"), "tflow", followed=True)]


def options_of(arguments: Sequence[str], more: str) -> Options:
    """What mypy makes of these arguments."""
    words = [word for word in arguments if word != WHOLE]
    return process_options([*words, more], require_targets=False, server_options=True)[1]


def write(arguments: Sequence[str]) -> int:
    """Write a cache that ``Checks`` can start from."""
    at = arguments.index("--")
    options = options_of(arguments[:at], "--cache-fine-grained")
    try:
        sources = create_source_list(list(arguments[at + 1 :]), options)
        mypy.build.build([*whole(arguments), *sources], options)
    except (CompileError, InvalidSourceList):
        return 2
    return 0


def serve(arguments: Sequence[str], read: TextIO, answer: TextIO) -> None:
    """Until the input ends."""
    checks = Checks(arguments)
    for line in read:
        said = checks.answer(json.loads(line))
        answer.write(json.dumps(said) + "\n")
        answer.flush()
        if said.get("broken"):
            return  # what is in memory may be half done


def main(arguments: Sequence[str]) -> int:
    if arguments[0] == "write":
        return write(arguments[1:])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing else is to be taken for an answer
    serve(arguments, sys.stdin, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
