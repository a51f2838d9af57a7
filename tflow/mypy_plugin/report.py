"""Reporting: every finding goes through here, and so does every failure of the plugin itself."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from mypy.errorcodes import ErrorCode
from mypy.nodes import Context

from tflow.mypy_plugin.codes import TITLES

CODES = {name: ErrorCode(name, title, "tflow") for name, title in TITLES.items()}
IGNORE = re.compile(r"#\s*tflow:\s*ignore(?:\[([\w\s,-]*)\])?")
Checker = Any  # Any: mypy's TypeChecker, of which plugins see a part and rules need more
Ctx = TypeVar("Ctx")
Given = TypeVar("Given")


def report(api: Checker, code: str, sentence: str, where: Context, note: str = "") -> None:
    """Say what is wrong, unless a comment on that line says that it is meant."""
    if ignored(api.path, where.line, code):
        return
    api.fail(sentence, where, code=CODES[code])
    if note:
        api.note(note, where, code=CODES[code])


def ignored(path: str, line: int, code: str) -> bool:
    """True if the line ends with ``# tflow: ignore`` or ``# tflow: ignore[linear]``."""
    linecache.checkcache(path)
    found = IGNORE.search(linecache.getline(path, line))
    if found is None:
        return False
    named = [name.strip() for name in (found[1] or "").split(",") if name.strip()]
    return not named or code in named or code.removeprefix("tflow-") in named


def guarded(usual: Callable[[Ctx], Given]) -> Callable[[Callable[[Ctx], Given]], Callable[[Ctx], Given]]:
    """A hook that fails says so and does as if it were not there: ``usual`` is what mypy would do without it."""

    def wrap(hook: Callable[[Ctx], Given]) -> Callable[[Ctx], Given]:
        @wraps(hook)
        def safe(ctx: Ctx) -> Given:
            try:
                return hook(ctx)
            except Exception as error:  # whatever it is, the user's run goes on
                unchecked(ctx.api, ctx.context, error)  # type: ignore[attr-defined]  # every context has both
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
