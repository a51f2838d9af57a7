"""What the corpus says about itself: comments on the lines with mistakes.

``# ERR why`` marks a line that every checker rejects without a plugin. ``PLUGIN linear`` in a comment marks a line where the
plugin reports ``tflow-linear``; a line can have both, and several codes.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(path.name for path in CORPUS.glob("*.py"))
Line = tuple[str, int]


def lines() -> dict[Line, str]:
    """All lines of the corpus."""
    return {(name, number): line for name in FILES for number, line in enumerate((CORPUS / name).read_text().splitlines(), 1)}


@cache
def blocks(name: str) -> list[tuple[int, int, str]]:
    """The first and the last line of each function and class of a file, with its name."""
    body = ast.parse((CORPUS / name).read_text()).body
    defined = [node for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
    return [(min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno or 0, node.name) for node in defined]


def place(name: str, line: int) -> str:
    """The function or class that a line is in."""
    return next((block for first, last, block in blocks(name) if first <= line <= last), "module")


def plain() -> set[Line]:
    """Where every checker complains."""
    return {where for where, line in lines().items() if "# ERR" in line}


def plugin() -> set[tuple[str, int, str]]:
    """Where the plugin complains, and with which code."""
    found = set()
    for where, line in lines().items():
        marked = re.search(r"#.*\bPLUGIN ((?:[a-z]+ ?)+)", line)
        found |= {(*where, f"tflow-{code}") for code in (marked[1].split() if marked else ())}
    return found
