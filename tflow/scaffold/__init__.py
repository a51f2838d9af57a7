"""``tflow new``: a small project with an algorithm of its own.

The files in ``project/`` are a project whose algorithm is called ``my_algo`` and whose class is ``MyAlgo``; a new project is a
copy with other names. They end in ``.template``, so that no tool takes them for modules and tests of tflow.
"""

from __future__ import annotations

import keyword
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from tflow import __version__
from tflow.algos.installed import algorithm_names
from tflow.errors import PlanError

PROJECT = Path(__file__).parent / "project"
SUFFIX = ".template"
TAKEN = ("tests", "test", "src", "build", "dist", "runs")


def create(folder: Path) -> list[Path]:
    """Write a project named like its folder. Returns the files, in order."""
    name = folder.name
    check_name(name)
    if not folder.parent.is_dir():
        raise PlanError(f"There is no folder {str(folder.parent)!r} to make {name!r} in.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PlanError(f"{str(folder)!r} is already there. Choose another name, or remove it.")
    written = []
    for source in sorted(PROJECT.rglob(f"*{SUFFIX}")):
        place = folder / named(str(source.relative_to(PROJECT)).removesuffix(SUFFIX), name)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(named(source.read_text(encoding="utf-8"), name), encoding="utf-8")
        except OSError as error:
            raise PlanError(f"Cannot write {str(place)!r}: {error.strerror}.") from None
        written.append(place)
    return written


def check_name(name: str) -> None:
    """Refuse what cannot be both a package and an algorithm."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        better = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_0123456789")
        hint = f" Such as {better}." if better and not keyword.iskeyword(better) else ""
        raise PlanError(f"{name!r} is no name for a package: lower-case letters, digits and _, and no word of Python.{hint}")
    if name in algorithm_names():
        raise PlanError(f"There is already an algorithm called {name!r}. Choose another name, such as my_{name}.")
    if name in sys.stdlib_module_names or name in TAKEN or find_spec(name) is not None:
        raise PlanError(f"There is already a module called {name!r}. Choose another name, such as {name}_rl.")


def named(text: str, name: str) -> str:
    """A text of the template for another algorithm."""
    return text.replace("my_algo", name).replace("MyAlgo", class_name(name)).replace("{version}", __version__)


def class_name(name: str) -> str:
    """``my_algo`` is ``MyAlgo``."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
