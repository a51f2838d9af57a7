"""What a check finds, and what it could not look at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tflow.errors import TflowError

OURS = "tflow-"
UNCHECKED = "tflow-unchecked"
SYNTAX = "syntax"


class CheckFailed(TflowError):
    """Nothing could be checked: mypy is missing, stopped or crashed."""


@dataclass(frozen=True)
class Finding:
    """A mistake at a place. Lines and columns count from 1, in characters; the end is where it is over."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    message: str
    code: str
    notes: tuple[str, ...] = ()
    source: str = ""
    """The line of the file, for showing it."""
    cell: int | None = None
    """In a notebook the cell, of all cells, from 1; lines count within it."""

    @property
    def place(self) -> str:
        """``plans.py:7:15``, or ``plans.ipynb:cell 3:7:15``, as other tools have it."""
        cell = "" if self.cell is None else f"cell {self.cell}:"
        return f"{self.file}:{cell}{self.line}:{self.column}"

    @property
    def ours(self) -> bool:
        """True for our rules, and for a module of ours that is not there: what comes from it could not be checked."""
        return self.code.startswith(OURS) or (self.code == "import-not-found" and '"tflow.' in self.message)

    @property
    def in_full(self) -> str:
        """The message with its notes, a line each. It names the cell, for services that know only lines of files."""
        cell = "" if self.cell is None else f"Cell {self.cell}, line {self.line}: "
        return "\n".join([f"{cell}{self.message}", *self.notes])


@dataclass(frozen=True)
class Report:
    """What one check has to say. ``hidden`` counts errors of other kinds that are not shown."""

    findings: tuple[Finding, ...] = ()
    unreadable: tuple[Finding, ...] = ()
    """Syntax errors: where there is one, nothing is checked."""
    hidden: int = 0
    files: int = 0
    failure: str = ""
    """Why nothing could be checked; empty if it could."""

    @property
    def exit_code(self) -> int:
        """0: nothing found. 1: findings. 2: something could not be checked, which must never look like 'nothing found'."""
        if self.failure or self.unreadable or any(finding.code == UNCHECKED for finding in self.findings):
            return 2
        return 1 if self.findings else 0

    @property
    def summary(self) -> str:
        """One line: ``3 findings in 2 files; 4 errors of other kinds are not shown (...)``."""
        if self.failure:
            return self.failure
        parts = []
        if self.unreadable:
            parts.append(f"{counted(len(self.unreadable), 'syntax error')}: repair it first, what it hides was not checked")
        if self.findings:
            where = {finding.file for finding in self.findings}
            parts.append(f"{counted(len(self.findings), 'finding')} in {counted(len(where), 'file')}")
        elif not self.unreadable:
            parts.append(f"no findings in {counted(self.files, 'file')}")
        if unchecked := sum(finding.code == UNCHECKED for finding in self.findings):
            parts.append(f"{counted(unchecked, 'place')} could not be checked")
        if self.hidden:
            errors = f"{counted(self.hidden, 'error')} of other kinds {'is' if self.hidden == 1 else 'are'}"
            parts.append(f"{errors} not shown (leave out --ours, or use your own type checker)")
        line = "; ".join(parts)
        return line[0].upper() + line[1:]


def counted(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def sorted_out(found: Iterable[Finding], *, files: Iterable[str], disabled: frozenset[str], show_all: bool) -> Report:
    """Keep what is ours, in the files that were named and not switched off; count the rest."""
    named = frozenset(files)
    everything = sorted(
        set(found), key=lambda finding: (finding.file, finding.cell or 0, finding.line, finding.column, finding.code)
    )
    unreadable = tuple(finding for finding in everything if finding.code == SYNTAX)
    here = [finding for finding in everything if finding.file in named and finding.code != SYNTAX]
    shown = tuple(f for f in here if (f.ours or show_all) and f.code not in disabled)
    return Report(shown, unreadable, hidden=sum(not f.ours and f not in shown for f in here), files=len(named))


def with_note(finding: Finding, note: str) -> Finding:
    return replace(finding, notes=(*finding.notes, note))
