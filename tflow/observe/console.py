"""Where things are printed."""

from __future__ import annotations

import os
import sys

from rich.console import Console


class Output(Console):
    """A console that falls silent when nobody reads it any more, as behind ``| head``: training goes on."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
