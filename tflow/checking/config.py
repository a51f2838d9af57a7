"""``[tool.tflow.check]`` of the nearest pyproject.toml."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tflow.checking.pages import code_of, did_you_mean
from tflow.errors import PlanError

KEYS = ("disable", "paths", "skip")


@dataclass(frozen=True)
class CheckSettings:
    """What a project says about its checks."""

    disable: frozenset[str] = frozenset()
    """Rules that are switched off, by their full codes."""
    skip: tuple[str, ...] = ()
    """Libraries whose sources are not followed, besides those that never are."""
    paths: tuple[str, ...] = ()
    """What to check if nothing is named, from the working directory."""


def settings(folder: Path) -> CheckSettings:
    """Those of the nearest pyproject.toml, from ``folder`` upwards."""
    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        if file.is_file():
            return read(file, folder)
    return CheckSettings()


def read(file: Path, folder: Path) -> CheckSettings:
    shown = os.path.relpath(file, folder)
    try:
        table: object = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlanError(f"{shown} is not TOML: {error}.") from None
    where = "[tool.tflow.check]"
    for key in ("tool", "tflow", "check"):
        table = table.get(key, {}) if isinstance(table, dict) else {}
    if not isinstance(table, dict):
        raise PlanError(f"tool.tflow.check in {shown} must be a table, got {table!r}.")
    for key in table:
        if key not in KEYS:
            hint = did_you_mean(key, KEYS)
            raise PlanError(f"{where} in {shown} has no key {key!r}; there are {', '.join(KEYS[:-1])} and {KEYS[-1]}.{hint}")
    lists = {key: _strings(table.get(key, []), f"{key} in {where} of {shown}") for key in KEYS}
    return CheckSettings(
        disable=rules(lists["disable"]),
        skip=tuple(_library(name, f"skip in {where} of {shown}") for name in lists["skip"]),
        paths=tuple(os.path.relpath(file.parent / path, folder) for path in lists["paths"]),
    )


def rules(names: Iterable[str]) -> frozenset[str]:
    """The full codes of rules that are named with or without ``tflow-``."""
    return frozenset(code_of(name) for name in names)


def _strings(value: object, what: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise PlanError(f"{what} must be a list of strings, got {value!r}.")
    return value


def _library(name: str, what: str) -> str:
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name):
        raise PlanError(f"{what}: expected the name of a library as it is imported, such as jax, got {name!r}.")
    if name.partition(".")[0] == "tflow":
        raise PlanError(f"{what}: without the types of tflow there is nothing to check; leave {name!r} out.")
    return name
