"""Algorithms of other packages, which register themselves under the entry point ``tflow.algorithms``.

In the ``pyproject.toml`` of such a package::

    [project.entry-points."tflow.algorithms"]
    my_algo = "my_algo:MyAlgo"

An entry point is imported when its name is asked for, so that a package that cannot be imported is in nobody's way.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from tflow.algos.algorithm import Algorithm
from tflow.algos.names import ALGORITHMS
from tflow.errors import PlanError

GROUP = "tflow.algorithms"


def plain(name: str) -> str:
    """A name as the command line compares it: upper case and dashes do not matter."""
    return name.lower().replace("-", "_")


@cache
def registered() -> Mapping[str, tuple[EntryPoint, ...]]:
    """By name, what packages have registered; several of one name cannot be used."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for each in entry_points(group=GROUP):
        found.setdefault(plain(each.name), {})[package_of(each)] = each
    return {name: tuple(found[name].values()) for name in sorted(found)}


def algorithm_names() -> tuple[str, ...]:
    """All names on the command line."""
    return (*ALGORITHMS, *(name for name in registered() if name not in ALGORITHMS))


@cache
def installed(name: str) -> type[Algorithm]:
    """Import the algorithm that a package has registered under this name."""
    entry, *others = registered()[name]
    packages = ", ".join(map(package_of, (entry, *others)))
    if name in ALGORITHMS:
        raise PlanError(
            f"An algorithm of {packages} is called {name!r} like one of tflow, which is taken. Rename that of {packages}."
        )
    if others:
        raise PlanError(f"There are several algorithms called {name!r}, of the packages {packages}. Uninstall all but one.")
    said = f"The package {packages} says that its algorithm {name} is {entry.value!r}, which"
    try:
        found = entry.load()
    except Exception as error:  # whatever happens in a module of the user's
        raise PlanError(f"{said} cannot be imported: {type(error).__name__}: {error}.") from error
    if not inspect.isclass(found) or not issubclass(found, Algorithm) or inspect.isabstract(found):
        raise PlanError(f"{said} is not an algorithm: derive a dataclass from one, such as class MyAlgo(PPO).")
    return found


def usable() -> tuple[dict[str, type[Algorithm]], list[str]]:
    """The algorithms of packages by name, all imported, and a sentence for each that cannot be used."""
    found: dict[str, type[Algorithm]] = {}
    wrong: list[str] = []
    for name in registered():
        try:
            found[name] = installed(name)
        except PlanError as error:
            wrong.append(str(error))
    return found, wrong


def name_of(kind: type) -> str:
    """What the command line calls a class; empty if it has no name there. Imports nothing."""
    for name, (entry, *_) in registered().items():
        module, _, attribute = entry.value.partition(":")
        if name not in ALGORITHMS and attribute == kind.__qualname__ and f"{kind.__module__}.".startswith(f"{module}."):
            return name
    return next((name for name, each in ALGORITHMS.items() if each is kind), "")


def folder_of(name: str) -> Path | None:
    """The folder of the package that has registered an algorithm. The package is not imported."""
    (entry, *_) = registered()[name]
    package = entry.value.partition(":")[0].partition(".")[0]
    spec = find_spec(package) if package.isidentifier() else None
    places = [] if spec is None else spec.submodule_search_locations or []
    return next(map(Path, places), None)


def package_of(entry: EntryPoint) -> str:
    """The distribution that an entry point belongs to."""
    return "" if entry.dist is None else entry.dist.name
