"""The engine of ``tflow check --watch`` and ``tflow lsp``: asks a mypy that stays, and keeps in memory what it knows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import IO, cast

from tflow.checking.engine import PARTS_OF_LIBRARIES, PLUGIN, Engine, Said, environment
from tflow.checking.findings import CheckFailed, Finding
from tflow.checking.layout import FileGroup, file_groups, imported_in
from tflow.checking.places import Sources

PROCESS, WHOLE = "tflow.checking.mypy_process", "--whole"
LIMIT_S = 300.0
"""A check that takes longer has gone wrong."""
Key = tuple[tuple[str, ...], tuple[str, ...]]
"""The folders in which module names begin, and which of our libraries are followed."""
Record = dict[str, list[dict[str, object]]]
"""What was recorded of a file, as ``tflow.mypy_plugin.recorder`` writes it."""


@dataclass
class Checked:
    """What is known of files after a check."""

    findings: list[Finding] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)
    known: list[str] = field(default_factory=list)
    """All files of the project that were followed."""


class ResidentProcess:
    """A process that was started for some folders in which module names begin. It ends with us: its input is closed then."""

    def __init__(self, options: Sequence[str], folder: Path, log: Path) -> None:
        with log.open("wb") as written:
            self.process = subprocess.Popen(  # noqa: S603  # our own interpreter and our own words
                [sys.executable, "-m", PROCESS, *options],
                cwd=folder,
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=written,
                start_new_session=True,  # Ctrl-C is for us; we end it
            )
        self.log = log
        self.reader = ThreadPoolExecutor(1)  # waits for answers, so that we can stop waiting

    def ask(self, request: Mapping[str, object], limit_s: float) -> dict[str, object]:
        """Its answer; ``CheckFailed`` if it has none."""
        given, answers = cast("IO[bytes]", self.process.stdin), cast("IO[bytes]", self.process.stdout)
        try:
            given.write(json.dumps(request).encode() + b"\n")
            given.flush()
        except OSError:
            line = b""
        else:
            try:
                line = self.reader.submit(answers.readline).result(limit_s)
            except TimeoutError:
                raise CheckFailed(f"mypy did not answer within {limit_s:.0f} s, and was ended.") from None
        if not line:
            raise CheckFailed(f"The process that checks has ended: {' '.join(self.log.read_text(errors='replace').split())}")
        answer: dict[str, object] = json.loads(line)
        return answer

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.shutdown()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what it was not given any more
                    pipe.close()


class ResidentEngine(Engine):
    """Checks files again and again, each time only what a change can affect. Where names collide there are several processes.

    A process that has a fault is replaced once, since what it kept, or what it started from, may be the reason; only if the other
    fails too, it is ``CheckFailed``.
    """

    limit_s = LIMIT_S
    whole = tuple(PARTS_OF_LIBRARIES)  # files may import them later, and a process that begins anew costs more

    def __init__(self, folder: Path, *, skip: Sequence[str] = (), plugin: str = PLUGIN, redefine: bool = True) -> None:
        super().__init__(folder, skip=skip, plugin=plugin, redefine=redefine)
        self.residents: dict[Key, ResidentProcess] = {}
        self.texts: Mapping[str, str] = {}
        """Of files that are not as they are on disk."""

    def cache_folder(self, followed: Sequence[str]) -> Path:
        return self.cache / "-".join(["resident", *(() if self.redefine else ("strict",)), *followed])

    def imports(self, file: str) -> set[str]:
        return imported_in(self.texts[file]) if file in self.texts else super().imports(file)

    def key(self, group: FileGroup) -> Key:
        return group.roots, self.followed(group)

    def check(self, files: Sequence[str]) -> list[Finding]:
        return self.checked(files).findings

    def checked(self, files: Sequence[str], texts: Mapping[str, str] | None = None, record: Sequence[str] = ()) -> Checked:
        """Check files, some of them with other texts than on disk. What streams they have is recorded where it is wanted."""
        groups, texts = file_groups(files, self.folder), texts or {}
        self.texts = texts
        for other in self.residents.keys() - {self.key(group) for group in groups}:
            self.residents.pop(other).end()
        found = Checked()
        for group in groups:
            request = {
                "files": self.arguments(group),
                "texts": {file: text for file, text in texts.items() if file in group.files},
                "record": [file for file in record if file in group.files],
            }
            answer = self.answer(group, request)
            said = Said(cast("int", answer["status"]), str(answer["out"]), str(answer["err"]))
            found.findings += self.read(said, Sources(self.folder, texts))
            found.records |= cast("dict[str, Record]", answer["records"])
            found.known += cast("list[str]", answer["known"])
        return found

    def answer(self, group: FileGroup, request: Mapping[str, object]) -> dict[str, object]:
        try:
            return self.asked(group, request)
        except CheckFailed:
            return self.asked(group, request)

    def asked(self, group: FileGroup, request: Mapping[str, object]) -> dict[str, object]:
        """The answer of the process for these files. One that fails is ended; what a new one started from is removed with it."""
        key = self.key(group)
        fresh = key not in self.residents
        if fresh:
            log = self.desk / f"resident-{len(self.residents)}.txt"
            options = [*self.options(group), *([WHOLE] if self.plugin == PLUGIN else [])]
            self.residents[key] = ResidentProcess(options, self.folder, log)
        try:
            answer = self.residents[key].ask(request, self.limit_s)
            if answer.get("broken"):
                self.read(Said(cast("int", answer["status"]), str(answer["out"]), str(answer["err"])))
                raise CheckFailed("mypy stopped, and did not say why.")
        except BaseException as error:  # also Ctrl-C: its answer would be taken for that to the next question
            self.residents.pop(key).end()
            if fresh and isinstance(error, CheckFailed):
                rmtree(self.cache_folder(key[1]), ignore_errors=True)
            raise
        return answer

    def close(self) -> None:
        for resident in self.residents.values():
            resident.end()
        self.residents.clear()
        super().close()
