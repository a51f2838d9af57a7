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
ALIAS, INFERENCE = "valid-type", "var-annotated"
"""Neither is about what happens: a name of a library that is not followed, and a type that nobody needs to write."""
REPLACES = {"assignment", "no-redef", "misc"}
"""What mypy calls it that something stands in for a module which is not installed."""
LAMBDA = "Cannot infer type of lambda"
"""It has defaults, as in loops: ``lambda item, k=k: item * k``."""
JOINED = re.compile(
    r"incompatible type \"(?:object|function|(?:dict|list|set|tuple)\[[^\"]*\bobject\b[^\"]*)\"|expected \"Callable\[\[object\]"
    r"|matches argument types? .*\"(?:object|(?:dict|list|set|tuple)\[[^\"]*\bobject\b[^\"]*)\""
)
"""What several classes have in common."""
OBJECT = re.compile(r"(:|->)\s*object\b")
"""Somebody says so himself."""
GROWS = {"append", "add", "insert", "extend", "setdefault", "update"}


def is_unsure(finding: Finding, text: str) -> bool:
    """True if a finding of mypy's own, in a file with this text, is no mistake as far as anybody knows."""
    if finding.code in (ALIAS, INFERENCE) or UNFOLLOWED.search(finding.message) or finding.message == LAMBDA:
        return True
    if finding.code not in ARGUMENTS | REPLACES:
        return False
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return False
    if finding.code in REPLACES:
        return any(stands_in(node, finding.line) for node in ast.walk(tree))
    calls = list(calls_around(tree, finding))
    joined = JOINED.search(finding.message) is not None
    if '"**dict[' in finding.message or (joined and (not OBJECT.search(text) or gives_shown(calls, finding, tree))):
        return True
    if "dict[" in finding.message and any(keyword.arg is None for call in calls[-1:] for keyword in call.keywords):
        return True
    about_streams = 'of "Iter"' in finding.message or 'of "ParIter"' in finding.message  # which what they are put into changes
    return any(grows_untyped(call, tree) for call in (calls if about_streams else calls[-1:]))


def stands_in(node: ast.AST, line: int) -> bool:
    """True for ``except ImportError: wandb = None``, and what else defines a name there that an import has not."""
    if not isinstance(node, ast.ExceptHandler) or node.type is None:
        return False
    caught = {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)}
    defines = (ast.Assign, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    defined = {each.lineno for each in node.body if isinstance(each, defines)}
    return bool(caught & {"ImportError", "ModuleNotFoundError"}) and line in defined


def calls_around(tree: ast.AST, finding: Finding) -> Iterator[ast.Call]:
    """The calls that a place lies in, the outermost first."""
    place = finding.line, len(finding.source[: finding.column - 1].encode())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
            if (node.lineno, node.col_offset) <= place < end:
                yield node


def gives_shown(calls: list[ast.Call], finding: Finding, tree: ast.AST) -> bool:
    """True if what is blamed in a call is a mapping or a list that is written down, or one of its members: then what its members
    have in common is ``object``, and nobody has said so."""
    given = [expr for call in calls[-1:] for expr in (*call.args, *(each.value for each in call.keywords))]
    place = finding.line, len(finding.source[: finding.column - 1].encode())
    blamed = [each for each in given if (each.lineno, each.col_offset) == place] or given
    names = [each.value if isinstance(each, ast.Subscript) else each for each in blamed]
    return any(is_shown(each.id, tree) for each in names if isinstance(each, ast.Name))


def is_shown(name: str, tree: ast.AST) -> bool:
    """True for a variable that is only ever set to a display, without an annotation."""
    made = [node.value for node in ast.walk(tree) if isinstance(node, ast.Assign) and is_target(name, node)]
    declared = [node for node in ast.walk(tree) if isinstance(node, (ast.AnnAssign, ast.arg)) and name == name_of(node)]
    return bool(made) and not declared and all(isinstance(each, (ast.Dict, ast.List, ast.Tuple, ast.Set)) for each in made)


def is_target(name: str, node: ast.Assign) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in node.targets)


def name_of(node: ast.AnnAssign | ast.arg) -> str:
    return node.arg if isinstance(node, ast.arg) else node.target.id if isinstance(node.target, ast.Name) else ""


def grows_untyped(call: ast.Call, tree: ast.AST) -> bool:
    """True for ``flows.append(...)`` if nobody has said what ``flows`` holds: its first member decided."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr in GROWS and isinstance(call.func.value, ast.Name)):
        return False
    name = call.func.value.id
    settings = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    assigned = [node for node in settings if is_target(name, node)]
    return bool(assigned) and all(is_empty(node.value) for node in assigned)


def is_empty(made: ast.expr) -> bool:
    """True for ``[]``, ``{}``, ``set()`` and the like."""
    if isinstance(made, ast.Call):
        return isinstance(made.func, ast.Name) and made.func.id in ("list", "dict", "set") and not made.args and not made.keywords
    return (isinstance(made, ast.List) and not made.elts) or (isinstance(made, ast.Dict) and not made.keys)
