"""What an editor wants to know of plans beside mistakes: the streams with their types and places, functions that make plans, and
what could be done about a mistake. Nothing is recorded, and nothing costs anything, unless somebody asks for it (``recording``).

Lines count from 1 and columns in bytes from 0, as mypy counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from mypy.nodes import Context

Place = tuple[int, int]
"""Line and column."""


@dataclass(frozen=True)
class Edit:
    """Text instead of what is between two places."""

    start: Place
    end: Place
    text: str


@dataclass(frozen=True)
class Proposal:
    """A way to repair a mistake: what it does, in a few words, and the edits."""

    title: str
    edits: tuple[Edit, ...]


Fixes = Callable[[], Iterable[Proposal]]
"""Works out what could be done about a mistake."""


@dataclass(frozen=True)
class StreamRecord:
    """An expression that is a stream. Its place is that of the call or the name, without what comes before it in a chain."""

    id: int
    line: int
    column: int
    end_line: int
    end_column: int
    type: str
    """As people write it, without how it is gathered."""
    element: str
    where: str
    """``driver · async``, or in which actors."""
    columns: tuple[str, ...]
    label: str
    maker: str
    """The qualified name of the method, function or class that makes it; empty for a name."""
    inputs: tuple[int, ...]
    """The streams that it is made of."""
    hinted: bool
    """False for a name in the middle of a line."""


@dataclass(frozen=True)
class FunctionRecord:
    """A function that returns a stream or a plan."""

    name: str
    line: int
    column: int
    plan: bool


@dataclass(frozen=True)
class ProposalRecord:
    """What could be done about a finding."""

    code: str
    line: int
    column: int
    title: str
    edits: tuple[tuple[int, int, int, int, str], ...]


@dataclass
class Unit:
    """What was recorded of a function, or of the top of a module."""

    streams: list[StreamRecord] = field(default_factory=list)
    functions: list[FunctionRecord] = field(default_factory=list)
    proposals: list[ProposalRecord] = field(default_factory=list)


class StreamRecorder:
    """By file and function: what was recorded last. What is being recorded is kept apart until ``settle``."""

    def __init__(self) -> None:
        self.settled: dict[str, dict[str, Unit]] = {}
        self.new: dict[str, dict[str, Unit]] = {}
        self.unit = Unit()

    def start(self, path: str, unit: str) -> None:
        """A function is being looked at, perhaps again."""
        self.unit = self.new.setdefault(path, {})[unit] = Unit()

    def settle(self, changed: Iterable[str]) -> None:
        """Take over what was recorded; of files that have changed, nothing else holds any more."""
        for path in changed:
            self.settled.pop(path, None)
        for path, units in self.new.items():
            self.settled.setdefault(path, {}).update(units)
        self.new = {}

    def has(self, path: str) -> bool:
        """True if something of a file was recorded."""
        return path in self.new or path in self.settled

    def of(self, path: str) -> dict[str, list[dict[str, object]]]:
        """All that is known of a file, as plain values; streams have numbers that are unique in the file."""
        found: dict[str, list[dict[str, object]]] = {"streams": [], "functions": [], "proposals": []}
        for unit in self.settled.get(path, {}).values():
            first = len(found["streams"])
            for each in unit.streams:
                shifted = {"id": each.id + first, "inputs": [number + first for number in each.inputs]}
                found["streams"].append(asdict(each) | shifted)
            found["functions"] += [asdict(each) for each in unit.functions]
            found["proposals"] += [asdict(each) for each in unit.proposals]
        return found


_active: list[StreamRecorder] = []


def active() -> StreamRecorder | None:
    """Who records at the moment; None in usual runs of mypy."""
    return _active[-1] if _active else None


@contextmanager
def recording(into: StreamRecorder) -> Iterator[None]:
    """Record what is checked inside."""
    _active.append(into)
    try:
        yield
    finally:
        _active.pop()


def propose(code: str, where: Context, fixes: Fixes | None) -> None:
    """Record what could be done about a finding; it is worked out only if somebody records."""
    into = active()
    if into is None or fixes is None:
        return
    for each in fixes():
        edits = tuple((*edit.start, *edit.end, edit.text) for edit in each.edits)
        into.unit.proposals.append(ProposalRecord(code, where.line, where.column, each.title, edits))
