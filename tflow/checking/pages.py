"""A page per rule: why, a mistake, the same done right. ``tflow check --explain CODE`` shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

from tflow.checking.findings import OURS
from tflow.errors import PlanError


@dataclass(frozen=True)
class Page:
    """What there is to know about a rule."""

    code: str
    title: str
    why: str
    text: str


@cache
def pages() -> dict[str, Page]:
    """All pages by the codes of their rules."""
    folder = files("tflow.checking") / "pages"
    texts = {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir() if entry.name.endswith(".md")}
    return {page.code: page for page in (_page(texts[name]) for name in sorted(texts))}


def _page(text: str) -> Page:
    heading, why, *_ = text.split("\n\n")
    code, _, title = heading.removeprefix("# ").partition(": ")
    return Page(code, title, " ".join(why.split()), text)


def code_of(name: str) -> str:
    """The code of a rule that is named with or without ``tflow-``.

    >>> code_of("linear"), code_of("tflow-linear")
    ('tflow-linear', 'tflow-linear')
    """
    code = name if name.startswith(OURS) else OURS + name
    if code not in pages():
        short = [each.removeprefix(OURS) for each in pages()]
        hint = did_you_mean(name.removeprefix(OURS), short)
        raise PlanError(f"There is no rule {name!r}; there are {', '.join(short[:-1])} and {short[-1]}.{hint}")
    return code


def did_you_mean(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name.lower(), list(known), 1)
    return f" Did you mean {near[0]!r}?" if near else ""
