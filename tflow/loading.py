"""``FILE:NAME`` and ``module:NAME``: things of a user's own, by what one types."""

from __future__ import annotations

import importlib.util
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import cloudpickle

from tflow.errors import PlanError

SUFFIXES = (".py", ".pyw")


def load_file(path: Path) -> ModuleType:
    """A Python file as a module. It runs once per process, and what it defines travels to actors by value: they need no such
    file."""
    resolved = path.resolve()
    known = sys.modules.get(resolved.stem)
    if known is not None and Path(getattr(known, "__file__", None) or "/").resolve() == resolved:
        return known
    spec = importlib.util.spec_from_file_location(resolved.stem, resolved)
    if spec is None or spec.loader is None:
        raise PlanError(f"{str(path)!r} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(resolved.parent))  # it may import its neighbours
    sys.modules[resolved.stem] = module
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)
    return module


def is_file(target: str) -> bool:
    """True for ``FILE.py:NAME``, whether there is such a file or not."""
    return target.rpartition(":")[0].endswith(SUFFIXES)


def find(target: str) -> object:
    """What ``FILE.py:NAME`` or ``module:NAME`` means. Raises if there is no such file, module or name."""
    where, _, name = target.rpartition(":")
    if is_file(target):
        if not Path(where).is_file():
            raise PlanError(f"There is no file {where!r}.")
        module = load_file(Path(where))
    else:
        try:
            module = import_module(where)
        except ModuleNotFoundError as error:
            raise PlanError(f"{target!r} needs a module that is not there: {error}.") from None
    found: object = module
    for part in name.split("."):
        if not hasattr(found, part):
            offered = ", ".join(sorted(key for key in vars(module) if not key.startswith("_"))[:20]) or "nothing"
            raise PlanError(f"{where} has no {name!r}. In it: {offered}.")
        found = getattr(found, part)
    return found


def place_of(thing: object) -> str | None:
    """The text from which ``find`` finds this class or function again; None if there is none."""
    name, module = getattr(thing, "__qualname__", ""), sys.modules.get(getattr(thing, "__module__", ""))
    if not name or "<" in name or module is None or module.__name__ == "__main__":
        return None
    file = getattr(module, "__file__", None)
    alone = "." not in module.__name__ and file is not None and Path(file).suffix in SUFFIXES
    text = f"{Path(str(file)).resolve() if alone else module.__name__}:{name}"
    try:
        return text if find(text) is thing else None
    except PlanError:
        return None
