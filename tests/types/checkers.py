"""The four type checkers as functions from files to the set of (file, line) they reject."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
BIN = Path(sys.executable).parent
Rejected = set[tuple[str, int]]


def run(*command: str, cwd: Path = CORPUS) -> str:
    """Standard output; a checker that crashed or did not understand its arguments is an error, never 'no errors'."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    done = subprocess.run([str(BIN / command[0]), *command[1:]], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), f"{command[0]} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def lines_of(output: str, pattern: str) -> Rejected:
    return {(Path(file).name, int(line)) for file, line in re.findall(pattern, output, re.MULTILINE)}


def mypy(*files: str) -> Rejected:
    output = run(
        "mypy",
        "--strict",
        "--allow-subclassing-any",  # these runs do not follow torch
        "--no-error-summary",
        "--hide-error-context",
        "--config-file",
        str(CORPUS.parent / "mypy.ini"),
        "--no-incremental",
        "--explicit-package-bases",
        *files,
    )
    return lines_of(output, r"^([\w./]+):(\d+): error:")


def basedpyright(*files: str) -> Rejected:
    report = json.loads(run("basedpyright", "--outputjson", "--level=error", "--pythonpath", sys.executable, *files))
    assert report["summary"]["filesAnalyzed"] == len(files)
    return {(Path(e["file"]).name, e["range"]["start"]["line"] + 1) for e in report["generalDiagnostics"]}


def pyrefly(*files: str) -> Rejected:
    output = run(
        "pyrefly",
        "check",
        "--preset",
        "strict",
        "--search-path",
        ".",
        "--python-interpreter-path",
        sys.executable,
        "--output-format=min-text",
        *files,
    )
    return lines_of(output, r"^\s*ERROR ([\w./-]+):(\d+):")


def ty(*files: str) -> Rejected:
    output = run("ty", "check", "--python", sys.executable, "--output-format=concise", *files)
    return lines_of(output, r"^([\w./-]+):(\d+):\d+: error")


CHECKERS: dict[str, Callable[..., Rejected]] = {
    "mypy": mypy, "basedpyright": basedpyright, "pyrefly": pyrefly, "ty": ty,
}  # fmt: skip
