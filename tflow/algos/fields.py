"""The fields of configurations with their documentation: the strings below them, which editors show too."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from itertools import pairwise
from typing import NamedTuple


class Field(NamedTuple):
    """One field of a configuration."""

    name: str
    default: object
    meaning: str

    @property
    def plain_text(self) -> str:
        """The documentation without code markup."""
        return self.meaning.replace("``", "")


def fields_of(kind: type) -> list[Field]:
    """The fields of a configuration, those of its bases first. Documentation in a class replaces that of its bases."""
    meanings: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if dataclasses.is_dataclass(base):
            meanings |= _written_in(base)
    return [Field(each.name, each.default, meanings.get(each.name, "")) for each in dataclasses.fields(kind)]


def _written_in(kind: type) -> dict[str, str]:
    try:
        (tree,) = ast.parse(inspect.cleandoc(inspect.getsource(kind))).body
    except (OSError, TypeError):  # typed into a console
        return {}
    members = tree.body if isinstance(tree, ast.ClassDef) else []
    return {
        ast.unparse(field.target): " ".join(str(text.value.value).split())
        for field, text in pairwise(members)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }
