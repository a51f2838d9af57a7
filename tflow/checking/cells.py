"""``%load_ext tflow``: before a cell runs, says what is wrong with the plans in it, or because of it.

What has run so far is a notebook of its own, whose cells have the numbers of IPython's prompts. It is checked by a mypy that
stays. A cell that is run again takes the place of its former self, if the editor says which cell it is; a cell that failed
is left out. Whatever happens to a check, the cell runs.
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from tflow.checking.config import settings
from tflow.checking.findings import Finding, sorted_out
from tflow.checking.formats import show_finding
from tflow.checking.resident import ResidentEngine
from tflow.errors import TflowError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

SESSION = "session.ipynb"
MAGIC = "tflow_check"
Place = tuple[int | None, int, int, str]
"""The cell, the line and the column of a finding, and its rule."""


class CellChecks:
    """Checks the cells of one shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.folder = Path.cwd()
        self.enabled = True
        self.cells = {number: text for number, text in enumerate(history(shell)) if text}
        """What has run, by the number of its prompt."""
        self.numbers: dict[str, int] = {}
        """The last number of each cell that has a name."""
        self.current = 0
        self.known: set[Place] | None = None
        """Where there were findings before; None if nobody has looked."""
        self.engine: ResidentEngine | None = None

    def before(self, info: ExecutionInfo) -> None:
        """Check a cell; one line says if that could not be done."""
        if not info.store_history:
            return
        self.current = len(history(self.shell))
        if info.cell_id:
            self.cells.pop(self.numbers.get(info.cell_id, 0), None)
            self.numbers[info.cell_id] = self.current
        self.cells[self.current] = str(info.raw_cell)
        if not self.enabled or not any("tflow" in text for text in self.cells.values()):
            return
        console = Console(highlight=False, markup=False, emoji=False)
        try:
            for finding in self.findings():
                show_finding(replace(finding, file=f"In[{finding.cell}]", cell=None), console)
        except (Exception, KeyboardInterrupt) as error:  # whatever it is, the cell runs
            words = str(error) if isinstance(error, TflowError) else f"{type(error).__name__} {error}".rstrip()
            line = " ".join(f"tflow could not check this cell: {words}".split())
            console.print(Text(line, "red"), soft_wrap=True)

    def after(self, result: ExecutionResult) -> None:
        """What a cell that failed had begun is not known."""
        if result.info and result.info.store_history and not result.success:
            self.cells.pop(self.current, None)

    def findings(self) -> Sequence[Finding]:
        """What our rules say about the cell that is about to run, and about others because of it: a stream is consumed twice when
        its two ends meet. Python itself says whether a cell is Python."""
        project = settings(self.folder)
        if self.engine is None:
            self.engine = ResidentEngine(self.folder, skip=project.skip)
        session = self.engine.desk / SESSION
        numbered = [self.cells.get(number, "") for number in range(1, self.current + 1)]
        cells = [{"cell_type": "code", "source": text} for text in numbered]
        session.write_text(json.dumps({"nbformat": 4, "cells": cells}), encoding="utf-8")
        files = [os.path.relpath(session, self.folder)]
        report = sorted_out(self.engine.check(files), files=files, disabled=project.disable, show_all=False)
        found = {(each.cell, each.line, each.column, each.code): each for each in report.findings}
        before = found.keys() if self.known is None else self.known
        self.known = set(found)
        return [each for place, each in found.items() if each.cell == self.current or place not in before]

    def switch(self, line: str) -> None:
        """``%tflow_check off`` stops the checks of cells; ``%tflow_check on`` begins them again."""
        word = line.strip()
        if word in ("on", "off"):
            self.enabled, self.known = word == "on", None
        elif word:
            print(f"%{MAGIC} takes on or off, got {word!r}.")  # noqa: T201  # as magics do
        else:
            print(f"Cells are {'' if self.enabled else 'not '}checked.")  # noqa: T201

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()
            self.engine = None


def history(shell: InteractiveShell) -> list[str]:
    """What was typed, by the numbers of the prompts; the first is empty."""
    manager = shell.history_manager
    return manager.input_hist_raw if manager else [""]


def load(shell: InteractiveShell) -> None:
    """Begin to check the cells of a shell."""
    checks = CellChecks(shell)
    shell.events.register("pre_run_cell", checks.before)
    shell.events.register("post_run_cell", checks.after)
    shell.magics_manager.register_function(checks.switch, "line", MAGIC)
    atexit.register(checks.close)


def unload(shell: InteractiveShell) -> None:
    """Leave the shell as it was."""
    checks = shell.magics_manager.magics["line"].pop(MAGIC).__self__
    shell.events.unregister("pre_run_cell", checks.before)
    shell.events.unregister("post_run_cell", checks.after)
    atexit.unregister(checks.close)
    checks.close()
