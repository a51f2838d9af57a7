"""What is known of one file that is open in an editor: its text when it was checked, findings, streams, functions, proposals.

Lines count from 0 and columns in characters, as editors do; ``tflow.checking.lsp.server`` turns characters into what the editor
counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tflow.checking.findings import Finding
from tflow.checking.places import characters
from tflow.checking.resident import Record

Place = tuple[int, int]


@dataclass(frozen=True)
class Span:
    """From one place to another."""

    start: Place
    end: Place

    def has(self, place: Place) -> bool:
        """True if a place is inside."""
        return self.start <= place < self.end

    def meets(self, other: Span) -> bool:
        """True if they have a place in common."""
        return self.start <= other.end and other.start <= self.end


@dataclass(frozen=True)
class ShownStream:
    """An expression that is a stream."""

    id: int
    span: Span
    type: str
    where: str
    columns: tuple[str, ...]
    label: str
    maker: str
    inputs: tuple[int, ...]
    hinted: bool

    @property
    def summary(self) -> str:
        """``Iter[Gradients] · driver · async``."""
        return " · ".join(filter(None, (self.type, self.where)))


@dataclass(frozen=True)
class Function:
    """A function that makes a plan, or a part of one."""

    name: str
    line: int


@dataclass(frozen=True)
class Change:
    """Another text for a part of the file."""

    span: Span
    text: str


@dataclass(frozen=True)
class Repair:
    """What could be done about a finding at a place."""

    code: str
    place: Place
    title: str
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Hint:
    """A short text after the end of a line."""

    line: int
    column: int
    text: str


@dataclass(frozen=True)
class FileView:
    """All of it, as of one check."""

    text: str = ""
    findings: tuple[Finding, ...] = ()
    streams: tuple[ShownStream, ...] = ()
    functions: tuple[Function, ...] = ()
    repairs: tuple[Repair, ...] = ()
    broken: Finding | None = field(default=None)
    """A syntax error of a later text: what is known is from before."""

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def by_id(self) -> dict[int, ShownStream]:
        return {stream.id: stream for stream in self.streams}

    def repairs_of(self, finding: Finding) -> list[Repair]:
        """What could be done about a finding."""
        place = finding.line - 1, finding.column - 1
        return [each for each in self.repairs if (each.code, each.place) == (finding.code, place)]

    def shown(self, *, everything: bool) -> list[Finding]:
        """What to show: our rules, and what we know how to repair; or all."""
        return [each for each in self.findings if everything or each.ours or self.repairs_of(each)]

    def hints(self) -> list[Hint]:
        """One for each line on which a stream is made: of several, the last."""
        last: dict[int, ShownStream] = {}
        for stream in self.streams:
            line = stream.span.end[0]
            if stream.hinted and (line not in last or stream.span.end >= last[line].span.end):
                last[line] = stream
        return [Hint(line, len(self.lines[line].rstrip()), stream.summary) for line, stream in sorted(last.items())]

    def stream_at(self, place: Place) -> ShownStream | None:
        """The innermost stream there."""
        inside = [stream for stream in self.streams if stream.span.has(place)]
        return min(inside, key=lambda stream: _size(stream.span), default=None)

    def way_to(self, stream: ShownStream) -> list[ShownStream]:
        """The operators that lead to a stream, the first one first; names stand for what they were set to."""
        seen: dict[int, ShownStream] = {}

        def follow(each: ShownStream) -> None:
            if each.id in seen:
                return
            for number in each.inputs:
                if number in self.by_id:
                    follow(self.by_id[number])
            if each.maker or not each.inputs:
                seen[each.id] = each

        follow(stream)
        return list(seen.values())

    def moved_to(self, text: str) -> FileView:
        """The same for a text that is a little different: what is in lines that have changed is left out."""
        if text == self.text:
            return self
        move = Moved(self.lines, text.split("\n"))
        return replace(
            self,
            text=text,
            findings=tuple(each for finding in self.findings for each in move.finding(finding)),
            streams=tuple(replace(stream, span=span) for stream in self.streams for span in move.span(stream.span)),
            functions=tuple(replace(each, line=line) for each in self.functions for line in move.line(each.line)),
            repairs=(),
        )


def _size(span: Span) -> tuple[int, int]:
    lines = span.end[0] - span.start[0]
    return lines, span.end[1] - span.start[1] if not lines else 0


class Moved:
    """Where lines are after a change: those before it stay, those behind it move, those in it are gone."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        least = min(len(old), len(new))
        self.first = next((n for n in range(least) if old[n] != new[n]), least)
        rest = least - self.first
        same = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
        self.behind, self.by = len(old) - same, len(new) - len(old)

    def line(self, number: int) -> list[int]:
        """The line now; nothing if it is gone."""
        if number < self.first:
            return [number]
        return [number + self.by] if number >= self.behind else []

    def span(self, span: Span) -> list[Span]:
        starts, ends = self.line(span.start[0]), self.line(span.end[0])
        return [Span((line, span.start[1]), (last, span.end[1])) for line in starts for last in ends if line <= last]

    def finding(self, finding: Finding) -> list[Finding]:
        lines, ends = self.line(finding.line - 1), self.line(finding.end_line - 1)
        return [replace(finding, line=line + 1, end_line=last + 1) for line in lines for last in ends]


def view_of(text: str, findings: Iterable[Finding], record: Record) -> FileView:
    """Put together what was found and what was recorded. mypy counts lines from 1 and columns in bytes."""
    lines = text.split("\n")

    def place(line: Any, column: Any) -> Place:  # Any: numbers, from JSON
        return line - 1, characters(lines[line - 1], column) if 0 < line <= len(lines) else 0

    def span(each: dict[str, Any]) -> Span:  # Any: as above
        return Span(place(each["line"], each["column"]), place(each["end_line"], each["end_column"]))

    streams = [
        ShownStream(
            id=each["id"],
            span=span(each),
            type=each["type"],
            where=each["where"],
            columns=tuple(each["columns"]),
            label=each["label"],
            maker=each["maker"],
            inputs=tuple(each["inputs"]),
            hinted=each["hinted"],
        )
        for each in _all(record, "streams")
    ]
    repairs = [
        Repair(
            code=each["code"],
            place=place(each["line"], each["column"]),
            title=each["title"],
            changes=tuple(
                Change(Span(place(line, column), place(end_line, end_column)), new)
                for line, column, end_line, end_column, new in each["edits"]
            ),
        )
        for each in _all(record, "proposals")
    ]
    functions = [Function(each["name"], each["line"] - 1) for each in _all(record, "functions")]
    return FileView(text, tuple(findings), tuple(streams), tuple(functions), tuple(repairs))


def _all(record: Record, kind: str) -> list[dict[str, Any]]:  # Any: plain values, from JSON
    return record.get(kind, [])
