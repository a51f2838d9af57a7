"""Which files to check, and under which module names, so that imports lead where they lead when the code runs.

mypy wants every module name once. By default a file is named by its path from the working directory, so that two files of
one name in two folders do not collide. A folder whose files import each other by their bare names, as scripts do, is a root
of its own; so is ``src``. If names collide all the same, mypy runs once per set of files in which they do not.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from tflow.checking.notebooks import SUFFIX, notebook
from tflow.errors import PlanError

SKIPPED = {"__pycache__", "site-packages", "node_modules"}
IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import\b|import[ \t]+([^#;\n]+))", re.MULTILINE)


@dataclass(frozen=True)
class FileGroup:
    """Files that one run of mypy checks together, and the folders in which their module names begin."""

    files: tuple[str, ...]
    roots: tuple[str, ...]


def python_files(paths: Sequence[str | Path], folder: Path) -> list[str]:
    """The files that are meant, by their paths from ``folder``, each once."""
    found: dict[str, None] = {}
    for given in paths:
        path = folder / given
        if path.is_dir():
            inside = list(_walk(path))
        elif not path.exists():
            raise PlanError(f"There is no file or folder {str(given)!r}.")
        elif path.suffix not in (".py", SUFFIX):
            raise PlanError(f"{str(given)!r} is not a Python file; name files that end in .py, notebooks ({SUFFIX}), or folders.")
        else:
            inside = [path]
        found |= dict.fromkeys(PurePath(os.path.relpath(each, folder)).as_posix() for each in inside if is_python(each))
    if not found:
        raise PlanError(f"There are no Python files in {', '.join(repr(str(path)) for path in paths)}.")
    return list(found)


def is_python(path: Path) -> bool:
    """False for notebooks in other languages, and for what is gone: a link that leads nowhere, a file between two saves."""
    try:
        return path.suffix != SUFFIX or notebook(path) is not None
    except FileNotFoundError:
        return False


def _walk(folder: Path) -> Iterator[Path]:
    """All Python files and notebooks below; hidden folders, caches and virtual environments are left out."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in SKIPPED and not Path(place, name, "pyvenv.cfg").exists()
        )
        yield from (Path(place, name) for name in sorted(files) if name.endswith((".py", SUFFIX)))


def file_groups(files: Sequence[str], folder: Path) -> list[FileGroup]:
    """Share the files out so that no run of mypy meets a module name twice. Nearly always there is one group."""
    roots = _Roots(files, folder)
    groups: dict[str, dict[str, str]] = {}
    for file in files:
        root = roots.of(file)
        groups.setdefault(root, {})[_module(file, root)] = file
    shared: list[dict[str, dict[str, str]]] = []
    for root, modules in groups.items():
        for group in shared:
            if not any(modules.keys() & others.keys() for others in group.values()):
                group[root] = modules
                break
        else:
            shared.append({root: modules})
    return [
        FileGroup(
            files=tuple(file for modules in group.values() for file in modules.values()),
            roots=tuple(root for root in group if root != "."),
        )
        for group in shared
    ]


def _module(file: str, root: str) -> str:
    if file.endswith(SUFFIX):
        return file  # nobody imports it
    name = os.path.relpath(file, root).removesuffix(".py").replace(os.sep, ".")
    return name.removesuffix(".__init__")


class _Roots:
    """Finds for each file the folder in which its module name begins."""

    def __init__(self, files: Sequence[str], folder: Path) -> None:
        self.folder = folder
        self.homes = {file: self._home(file) for file in files}
        """The first folder above a file that is not a package."""
        self.imports = {file: imported(folder / file) for file in files} if set(self.homes.values()) != {"."} else {}
        self.explicit = {home for home in set(self.homes.values()) if home != "." and self._is_root(home)}

    def of(self, file: str) -> str:
        home = self.homes[file]
        while home not in self.explicit and home != ".":
            parent, _, name = home.rpartition("/")
            if not name.isidentifier():  # not the name of a package (nor is "..", outside): mypy looks no further up
                return self.homes[file]
            home = parent or "."
        return home

    def _home(self, file: str) -> str:
        home = PurePath(file).parent
        while home.name.isidentifier() and (self.folder / home / "__init__.py").exists():
            home = home.parent
        return home.as_posix()

    def _is_root(self, home: str) -> bool:
        """Do its files import each other by their bare names? (Or do others import a package that is in it?)"""
        inside = {file for file, its_home in self.homes.items() if its_home == home}
        tops = {PurePath(os.path.relpath(file, home)).parts[0].removesuffix(".py") for file in inside}
        if tops & sys.stdlib_module_names:
            return False  # `queue` would then be this file, for everyone
        packages = {top for top in tops if (self.folder / home / top / "__init__.py").exists()}
        wanted = set[str]()
        for file, names in self.imports.items():
            if any(name == home.replace("/", ".") or name.startswith(home.replace("/", ".") + ".") for name in names):
                return False  # imported by its path from the working directory
            wanted |= {name.partition(".")[0] for name in names} & (tops if file in inside else packages)
        return any(not (self.folder / top).is_dir() and not (self.folder / f"{top}.py").exists() for top in wanted)


def imported(path: Path) -> set[str]:
    """The modules that a file imports by their full names. (A glance: mypy reads it properly.)"""
    cells = notebook(path) if path.suffix == SUFFIX else None
    if cells is None and not path.exists():
        return set()  # in an editor, it may not be saved yet
    return imported_in(cells.module if cells else path.read_text(encoding="utf-8", errors="ignore"))


def imported_in(text: str) -> set[str]:
    """As ``imported``, of the text of a file."""
    found = set[str]()
    for source, several in IMPORT.findall(text):
        names = [source] if source else [name.split()[0] for name in several.split(",") if name.split()]
        found |= {name for name in names if not name.startswith(".")}
    return found
