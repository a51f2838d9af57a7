"""From what mypy says about a place to where it is: columns in characters from 1, and the line itself."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import cast

from tflow.checking.findings import Finding, with_note

WORD = re.compile(r"[\w.]+|.", re.DOTALL)


class Sources:
    """The lines of files, read once each; ``texts`` are those of files that are not as they are on disk."""

    def __init__(self, folder: Path, texts: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.read = {file: text.split("\n") for file, text in (texts or {}).items()}

    def lines(self, file: str) -> list[str]:
        if file not in self.read:
            try:
                with tokenize.open(self.folder / file) as opened:  # it knows about coding cookies
                    self.read[file] = opened.read().split("\n")
            except (OSError, SyntaxError, UnicodeDecodeError):
                self.read[file] = []
        return self.read[file]

    def text(self, file: str) -> str:
        return "\n".join(self.lines(file))

    def line(self, file: str, number: int) -> str:
        lines = self.lines(file)
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def findings(self, errors: Iterable[Mapping[str, object]]) -> list[Finding]:
        """Errors become findings; a note belongs to the finding before it in the same file, if that is of the same kind."""
        found: list[Finding] = []
        for error in errors:
            finding = self.finding(error)
            if error["severity"] == "error":
                found.append(finding)
            elif finding.ours and found and (found[-1].file, found[-1].code) == (finding.file, finding.code):
                found[-1] = with_note(found[-1], finding.message)
        return found

    def finding(self, error: Mapping[str, object]) -> Finding:
        file = PurePath(str(error["file"])).as_posix()
        number = max(1, cast("int", error["line"]))
        source = self.line(file, number)
        start = characters(source, cast("int", error["column"]))
        last = cast("int", error.get("end_line", number))
        if last > number or (last == number and "end_column" in error):
            end = characters(self.line(file, last), cast("int", error["end_column"]))
        else:  # mypy before 1.20 does not say where it ends: mark the word
            word = WORD.match(source, start)
            last, end = number, word.end() if word else start + 1
        hints = cast("str | None", error.get("hint")) or ""
        return Finding(
            file=file,
            line=number,
            column=start + 1,
            end_line=last,
            end_column=max(end, start + 1 if last == number else 0) + 1,
            message=str(error["message"]),
            code=str(error["code"] or "misc"),
            notes=tuple(hints.splitlines()),
            source=source,
        )


def characters(line: str, column: int) -> int:
    """mypy counts the bytes before a place; people and editors count characters."""
    return len(line.encode()[: max(0, column)].decode(errors="ignore"))
