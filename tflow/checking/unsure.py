"""What mypy says only because it does not know better: no error of the user's, and other checkers do not say it.

It takes all values of ``**options`` for values of each parameter, gives a list the type of its first member, and calls what two
classes have in common ``object``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tflow.checking.findings import Finding

ARGUMENTS = {"arg-type", "call-overload", "list-item", "dict-item"}
"""What mypy calls values that do not fit where they are given."""
UNFOLLOWED = re.compile(r"\w\?(?=[\s\"\]])")
"""A name for a type of a library that is not followed is taken for a variable, and called ``Space?`` where it is used."""
ALIAS = "valid-type"
LAMBDA = "Cannot infer type of lambda"
"""It has defaults, as in loops: ``lambda item, k=k: item * k``."""
JOINED = re.compile(
    r"incompatible type \"(?:object|function|(?:dict|list|set|tuple)\[[^\"]*\bobject\b[^\"]*)\"|expected \"Callable\[\[object\]"
)
"""What several classes have in common."""
GROWS = {"append", "add", "insert", "extend", "setdefault", "update"}


def is_unsure(finding: Finding, text: str) -> bool:
    """True if a finding of mypy's own, in a file with this text, is no mistake as far as anybody knows."""
    if finding.code == ALIAS or UNFOLLOWED.search(finding.message) or finding.message == LAMBDA:
        return True
    if finding.code not in ARGUMENTS:
        return False
    if '"**dict[' in finding.message or JOINED.search(finding.message):
        return True
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return False
    calls = list(calls_around(tree, finding))
    if "dict[" in finding.message and any(keyword.arg is None for call in calls[-1:] for keyword in call.keywords):
        return True
    return any(grows_untyped(call, tree) for call in calls)


def calls_around(tree: ast.AST, finding: Finding) -> Iterator[ast.Call]:
    """The calls that a place lies in, the outermost first."""
    place = finding.line, len(finding.source[: finding.column - 1].encode())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
            if (node.lineno, node.col_offset) <= place < end:
                yield node


def grows_untyped(call: ast.Call, tree: ast.AST) -> bool:
    """True for ``flows.append(...)`` if nobody has said what ``flows`` holds: its first member decided."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr in GROWS and isinstance(call.func.value, ast.Name)):
        return False
    name = call.func.value.id
    said = (node for node in ast.walk(tree) if isinstance(node, (ast.AnnAssign, ast.arg)) and node.annotation is not None)
    return all(name != (node.arg if isinstance(node, ast.arg) else getattr(node.target, "id", "")) for node in said)
