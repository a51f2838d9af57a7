"""The command line, as one types it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tflow import cli

Typed = Callable[..., tuple[Any, str, str]]  # Any: an exit code


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Runs a command: its exit code, what it printed, and its errors."""

    def run(*words: str) -> tuple[Any, str, str]:  # Any: an exit code
        monkeypatch.setattr(sys, "argv", ["tflow", *words])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        return left.value.code or 0, out, err

    return run
