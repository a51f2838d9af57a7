"""Where the public names of tflow are defined, read from the one list of them: ``tflow/__init__.pyi`` and its namespaces."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def homes() -> dict[str, str]:
    """By public name: the module that defines it."""
    found: dict[str, str] = {}
    for namespace in namespaces():
        found |= names_in(namespace)
    return found | root_names()


@cache
def stub() -> ast.Module:
    """The list of public names."""
    return ast.parse((ROOT / "__init__.pyi").read_text(encoding="utf-8"))


def namespaces() -> list[str]:
    """The modules that users import names from, beside ``tflow`` itself."""
    nodes = [node for node in stub().body if isinstance(node, ast.ImportFrom) and node.module is None]
    return [alias.name for node in nodes for alias in node.names]


def root_names() -> dict[str, str]:
    """The names that ``tflow`` itself offers."""
    return {name: f"tflow.{module}" for name, module in imported(stub())}


def names_in(namespace: str) -> dict[str, str]:
    """The names that a namespace passes on, or defines itself."""
    file = ROOT / f"{namespace}.py"
    tree = ast.parse((file if file.exists() else ROOT / namespace / "__init__.py").read_text(encoding="utf-8"))
    own = {node.name: f"tflow.{namespace}" for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    own = {name: module for name, module in own.items() if not name.startswith("_")}
    return own | dict(imported(tree))


def imported(tree: ast.Module) -> list[tuple[str, str]]:
    """Names that are imported under the same name, which makes them public, and from where."""
    nodes = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module is not None]
    return [(alias.name, node.module) for node in nodes if node.module for alias in node.names if alias.asname == alias.name]
