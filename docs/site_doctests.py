"""Shows doctests in docstrings as code, wherever they stand: used by mkdocstrings, see ``mkdocs.yml``."""

from __future__ import annotations

import re

import griffe

DOCTEST = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)


class Doctests(griffe.Extension):
    """Fences what begins with ``>>>``."""

    def on_object(self, *, obj: griffe.Object, **kwargs: object) -> None:
        """Of each object that is read."""
        if obj.docstring is not None:
            obj.docstring.value = DOCTEST.sub(lambda found: f"```pycon\n{found.group()}\n```", obj.docstring.value)
