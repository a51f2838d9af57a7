"""What several of these tests need: the command as a process, projects in a folder, findings by their places."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tflow.checking.findings import Finding

SCRIPT = Path(sys.executable).parent / "tflow"
RIGHT = """\
from tflow import Iter, flow


@flow
def pairs(rewards: Iter[float]) -> Iter[list[float]]:
    return rewards.batch(2)
"""
WRONG = RIGHT.replace("batch(2)", "batch(0)")
WRONG_LINE = 6
PLUGIN = """
from mypy.errorcodes import ErrorCode
from mypy.plugin import Plugin

CODES = {name: ErrorCode(name, name, "tflow") for name in ("tflow-linear", "tflow-unchecked")}


class Short(Plugin):
    '''Objects to calls of functions that are called like a rule; it starts much faster than the real one.'''

    def get_function_hook(self, fullname):
        name = fullname.rpartition(".")[2]
        if name == "crash":
            raise RuntimeError("boom")
        code = CODES.get("tflow-" + name)

        def hook(ctx):
            ctx.api.fail("Not so.", ctx.context, code=code)
            ctx.api.note("But otherwise.", ctx.context, code=code)
            return ctx.default_return_type

        return hook if code else None


def plugin(version):
    return Short
"""


def run(*args: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """``tflow check`` as users run it. Colours that the surroundings ask for are left out."""
    kept = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "GITHUB_WORKSPACE")}
    command = [str(SCRIPT), "check", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, env=kept | env)


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def places(findings: Iterable[Finding]) -> list[tuple[str, int, str]]:
    return sorted((finding.file, finding.line, finding.code) for finding in findings)


def a_finding(message: str = "Not so.", **changes: object) -> Finding:
    usual: dict[str, object] = {
        "file": "plans/a.py",
        "line": 3,
        "column": 5,
        "end_line": 3,
        "end_column": 8,
        "message": message,
        "code": "tflow-linear",
        "source": "x = abc(1)",
    }
    return Finding(**(usual | changes))  # type: ignore[arg-type]  # fields by name
