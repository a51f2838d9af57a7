"""Reporting: every finding goes through here, and so does every failure of the plugin itself."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from typing import Any, TypeVar

from mypy.errorcodes import ErrorCode
from mypy.nodes import Context

from tflow.mypy_plugin.codes import TITLES
from tflow.mypy_plugin.recorder import Fixes, propose

CODES = {name: ErrorCode(name, title, "tflow") for name, title in TITLES.items()}
IGNORE = re.compile(r"#\s*tflow:\s*ignore(?:\[([\w\s,-]*)\])?")
Checker = Any  # Any: mypy's TypeChecker, of which plugins see a part and rules need more
Given = TypeVar("Given")


def report(
    api: Checker,
    code: str,
    sentence: str,
    where: Context,
    note: str = "",
    instead_of: Context | None = None,
    keep: set[tuple[int, int, str]] | None = None,
    fixes: Fixes | None = None,
) -> None:
    """Say what is wrong, unless a comment on that line says that it is meant. ``fixes`` works out what could be done about it.

    What mypy has said about the same mistake is left out. It may have said it of a part of ``where`` (all but ``keep`` is about
    the same), or of the whole call, ``instead_of``.
    """
    if ignored(api.path, where.line, code):
        return
    if code in ABOUT_TYPES and CODES[code] not in api.options.disabled_error_codes:
        begin = where.line, where.column
        said = [each for each in said_of(api, where) if of_kind(each, SAME)]
        withdraw(api, [each for each in said if _is_same(each, begin, keep)])
        if instead_of is not None:
            begin = instead_of.line, instead_of.column
            said = [each for each in said_of(api, instead_of) if of_kind(each, {"call-overload", "misc"})]
            withdraw(api, [each for each in said if (each.line, each.column) == begin])
    api.fail(sentence, where, code=CODES[code])
    if note:
        api.note(note, where, code=CODES[code])
    propose(code, where, fixes)


def _is_same(said: Any, begin: tuple[int, int], keep: set[tuple[int, int, str]] | None) -> bool:  # Any: mypy's ErrorInfo
    place = said.line, said.column
    return place == begin if keep is None else (*place, said.message) not in keep


def of_kind(said: Any, codes: set[str]) -> bool:  # Any: mypy's ErrorInfo
    """True for an error with one of these codes."""
    return said.code is not None and said.code.code in codes


ABOUT_TYPES = {f"tflow-{rule}" for rule in ("flow", "placement", "sync", "columns", "policy", "literal")}
"""The rules that say in better words what mypy may have said already."""
SAME = {"arg-type", "call-overload", "attr-defined", "index", "union-attr", "misc", "type-var", "list-item", "var-annotated"}
"""What mypy calls the mistakes that the rules are about."""


def withdraw(api: Checker, errors: list[Any]) -> None:  # Any: mypy's ErrorInfo
    """Take back what mypy itself has reported, with the notes that belong to it."""
    gone = set(map(id, errors))
    if gone:
        said = api.errors.error_info_map[api.errors.file]
        said[:] = [each for each in said if id(each) not in gone and id(getattr(each, "parent_error", None)) not in gone]


def said_of(api: Checker, where: Context) -> list[Any]:  # Any: mypy's ErrorInfo
    """The errors that mypy itself has reported of an expression, or inside it."""
    said = api.errors.error_info_map.get(api.errors.file)
    if not said:
        return []
    begin = where.line, where.column
    end = where.end_line or where.line, where.end_column or where.column + 1
    return [each for each in said if each.severity == "error" and begin <= (each.line, each.column) < end]


def ignored(path: str, line: int, code: str) -> bool:
    """True if the line ends with ``# tflow: ignore`` or ``# tflow: ignore[linear]``."""
    linecache.checkcache(path)
    found = IGNORE.search(linecache.getline(path, line))
    if found is None:
        return False
    named = [name.strip() for name in (found[1] or "").split(",") if name.strip()]
    return not named or code in named or code.removeprefix("tflow-") in named


Hook = Callable[[Any], Given]  # Any: a context of mypy, of which there are four kinds


def guarded(usual: Hook[Given]) -> Callable[[Hook[Given]], Hook[Given]]:
    """A hook that fails says so and does as if it were not there: ``usual`` is what mypy would do without it."""

    def wrap(hook: Hook[Given]) -> Hook[Given]:
        def safe(ctx: Any) -> Given:  # Any: as above
            try:
                return hook(ctx)
            except Exception as error:  # whatever it is, the user's run goes on
                unchecked(ctx.api, ctx.context, error)
                return usual(ctx)

        return safe

    return wrap


def unchecked(api: Checker, where: Context, error: Exception) -> None:
    """A part of a plan could not be checked: never quietly."""
    reason = f"{type(error).__name__}: {error}".rstrip(": ")
    report(
        api,
        "tflow-unchecked",
        f"The tflow plugin could not check this: {reason}. Please report it, with these lines.",
        where,
    )
