"""Imports a user's own objects by name: ``FILE.py:NAME`` and ``module:NAME``."""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType

import cloudpickle

from tflow.errors import PlanError

log = logging.getLogger("tflow")
SUFFIXES = (".py", ".pyw")
_copies: dict[Path, Path] = {}


def keep_copies(copies: Mapping[Path, Path]) -> None:
    """Let ``find`` take copies, by where files were, once these files are gone: run folders have some."""
    _copies.update(copies)


def _present(path: Path) -> Path:
    """A file, or its copy if it is gone."""
    if path.is_file():
        return path
    copy = _copies.get(path.resolve())
    if copy is None or not copy.is_file():
        raise PlanError(f"There is no file {str(path)!r}.")
    if _file_of(sys.modules.get(copy.stem)) != copy.resolve():
        log.warning("%s is gone. Its copy in the run folder is taken: %s.", path, copy)
    return copy


def load_file(path: Path) -> ModuleType:
    """A Python file as a module. It runs once per process, and what it defines travels to actors by value: they need no such
    file."""
    resolved = path.resolve()
    name = resolved.stem
    if _file_of(sys.modules.get(name)) == resolved:
        return sys.modules[name]
    if name in sys.modules or name in sys.stdlib_module_names:
        raise PlanError(f"{str(path)!r} cannot be loaded: there is another module called {name}. Rename the file.")
    spec = importlib.util.spec_from_file_location(name, resolved)
    if spec is None or spec.loader is None:
        raise PlanError(f"{str(path)!r} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(resolved.parent))  # it may import its neighbours
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        sys.path.remove(str(resolved.parent))
        if not isinstance(error, Exception):
            raise
        raise PlanError(f"{str(path)!r} cannot be loaded: {type(error).__name__}: {error}.") from error
    cloudpickle.register_pickle_by_value(module)
    return module


def is_file(target: str) -> bool:
    """True for ``FILE.py:NAME``, whether there is such a file or not."""
    return target.rpartition(":")[0].endswith(SUFFIXES)


def is_import_path(target: str) -> bool:
    """True for ``FILE.py:NAME`` and ``module:NAME``, by syntax alone."""
    where, _, name = target.rpartition(":")
    dotted = [*name.split("."), *([] if is_file(target) else where.split("."))]
    return all(part.isidentifier() for part in dotted)


def find(target: str) -> object:
    """Import ``FILE.py:NAME`` or ``module:NAME``. Raises if there is no such file, module or name."""
    where, _, name = target.rpartition(":")
    if not is_import_path(target):
        dotted = not where and "." in name and all(part.isidentifier() for part in name.split("."))
        hint = f" Did you mean {':'.join(name.rsplit('.', 1))}?" if dotted else ""
        raise PlanError(f"Expected FILE.py:NAME or module:NAME, got {target!r}.{hint}")
    if is_file(target):
        module = load_file(_present(Path(where)))
    else:
        try:
            module = import_module(where)
        except Exception as error:  # whatever happens in a module of the user's
            raise PlanError(f"{target!r} cannot be imported: {type(error).__name__}: {error}.") from error
    found: object = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            imported = {key for key, value in vars(module).items() if isinstance(value, ModuleType)}
            known = sorted(key for key in dir(module) if not key.startswith("_") and key not in imported)
            offered = ", ".join(known[:20]) or "nothing"
            near = get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise PlanError(f"{where} has no {name!r}.{hint} In it: {offered}.") from None
        except Exception as error:  # modules may import theirs when they are asked for
            raise PlanError(f"{target!r} cannot be imported: {type(error).__name__}: {error}.") from error
    return found


def place_of(thing: object) -> str | None:
    """The text from which ``find`` finds this class or function again; None if there is none. Nothing is loaded for it."""
    name, module = getattr(thing, "__qualname__", ""), sys.modules.get(getattr(thing, "__module__", ""))
    if not name or module is None or module.__name__ == "__main__":
        return None
    found: object = module
    for part in name.split("."):
        found = getattr(found, part, None)
    file = _file_of(module)
    alone = file is not None and file.stem == module.__name__ and file.suffix in SUFFIXES
    return None if found is not thing else f"{file if alone else module.__name__}:{name}"


def _file_of(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    return None if file is None else Path(file).resolve()
