"""What the corpus says about itself: comments on the lines with mistakes.

``# ERR why`` marks a line that every checker rejects without a plugin. ``PLUGIN linear`` in a comment marks a line where the
plugin reports ``tflow-linear``; a line can have both, and several codes.
"""

from __future__ import annotations

import re
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(path.name for path in CORPUS.glob("*.py"))
Line = tuple[str, int]


def lines() -> dict[Line, str]:
    """All lines of the corpus."""
    return {(name, number): line for name in FILES for number, line in enumerate((CORPUS / name).read_text().splitlines(), 1)}


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
