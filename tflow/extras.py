"""Optional features name the extra that they need, in one sentence with the command that installs it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from tflow.errors import MissingExtra


def require(module: str, *, extra: str, feature: str) -> ModuleType:
    """Import an optional module, or say how to install it.

    >>> require("no_such_module", extra="atari", feature="Atari games")
    Traceback (most recent call last):
    tflow.errors.MissingExtra: Atari games need the package no_such_module: pip install 'tflow[atari]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise  # the package is there, but something that it needs is not
        raise MissingExtra(f"{feature} need the package {error.name}: pip install 'tflow[{extra}]'") from None
