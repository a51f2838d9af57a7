"""What is shown of a stream under the pointer: its type, the laws that its operator obeys, its columns, and the way to it."""

from __future__ import annotations

import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path

from tflow.checking.lsp.views import FileView, ShownStream
from tflow.laws import LAWS, Law, laws_of

ROOT = Path(__file__).parents[3]


def hover(view: FileView, stream: ShownStream) -> str:
    """All of it, as markdown."""
    parts = [f"**`{stream.type}`**{f' · {stream.where}' if stream.where else ''}"]
    made = operator(stream.maker)
    if made is not None:
        parts.append(f"`{stream.label}`" + (f": {said}" if (said := law_in(inspect.getdoc(made) or "")) else ""))
        parts += [f"- [{law.name}]({page(law)}): {law.says}" for law in laws_of_operator(made)]
    if stream.columns:
        parts.append(f"Columns: {', '.join(f'`{name}`' for name in stream.columns)}")
    parts.append(drawing(view, stream))
    return "\n\n".join(parts)


def drawing(view: FileView, stream: ShownStream) -> str:
    """The plan so far: an operator per line, with what it yields, and where."""
    way = view.way_to(stream)
    width = max(len(each.label) for each in way)
    lines = [f"{each.label:<{width}}  {each.summary}" for each in way]
    return "\n".join(["```text", *lines, "```"])


@cache
def operator(maker: str) -> object:
    """What makes a stream, if it is ours: a method, a function or a class."""
    if not maker.startswith("tflow."):
        return None
    module, _, name = maker.rpartition(".")
    owner = None
    if module.rpartition(".")[2][:1].isupper():  # a method of a class
        module, _, owner = module.rpartition(".")
    try:
        found = import_module(module)
        return inspect.getattr_static(getattr(found, owner), name) if owner else getattr(found, name)
    except (ImportError, AttributeError):
        return None


def laws_of_operator(made: object) -> tuple[Law[...], ...]:
    """The laws that it promises to obey."""
    plain = made.fget if isinstance(made, property) else made
    return laws_of(plain) if hasattr(plain, "__dict__") else ()


def law_in(doc: str) -> str:
    """What a docstring says after ``Law:``, up to the end of the paragraph."""
    found = re.search(r"^Law: (.+?)(?:\n\n|\Z)", doc, re.DOTALL | re.MULTILINE)
    return " ".join(found[1].split()).replace("``", "`") if found else ""


def page(law: Law[...]) -> str:
    """Where to read about a law: its page, or where it is defined."""
    written = ROOT / "docs" / "laws" / f"{law.name.replace(' ', '_')}.md"
    if written.exists():
        return written.as_uri()
    return f"{Path(inspect.getfile(type(law))).as_uri()}#L{law.wrong.__code__.co_firstlineno}"


def law_called(name: str) -> Law[...] | None:
    """A law by its name."""
    return LAWS.get(name)
