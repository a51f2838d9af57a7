"""A file that is written beside a run: the run goes on without it if it cannot be written any more."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from tflow.errors import PlanError

log = logging.getLogger("tflow")


class SideFile:
    """Text that grows while a run goes on. The file is made at the first write: a run that never begins writes over no other.

    Args:
        path: The file.
        what: What is in it, as warnings call it.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path, self.what = path, what
        self.file: TextIO | None = None
        self.closed = False
        """Nothing is written any more."""

    def write(self, text: str) -> None:
        """Add text; the disk gets it when there is enough of it."""
        if self.closed:
            return
        try:
            self._opened().write(text)
        except OSError as error:
            self._give_up(error)

    def flush(self) -> None:
        """Give the disk what was added."""
        if self.file is not None and not self.closed:
            try:
                self.file.flush()
            except OSError as error:
                self._give_up(error)

    def close(self) -> None:
        """Write the rest."""
        self.flush()
        self.closed = True
        if self.file is not None:
            self.file.close()

    def _opened(self) -> TextIO:
        if self.file is None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.file = self.path.open("w", encoding="utf-8")
            except OSError as error:
                self.closed = True
                raise PlanError(
                    f"{self.what} cannot be written to {self.path}: {error.strerror}. Choose another place."
                ) from error
        return self.file

    def _give_up(self, error: OSError) -> None:
        """What is missing from here on would be a gap, so nothing follows."""
        self.closed = True
        log.warning("%s ends here (%s: %s). The run goes on.", self.what, self.path, error.strerror)
        if self.file is not None:
            with suppress(OSError):  # it tries once more to write what is left
                self.file.close()
