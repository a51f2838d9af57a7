"""What a user calls by ``FILE:NAME``: imported, and built."""

from __future__ import annotations

import difflib
import inspect
from pathlib import Path
from types import ModuleType

from tflow.combinators.runnable import Described, Plan
from tflow.drawing import stand_ins
from tflow.errors import PlanError
from tflow.loading import SUFFIXES, load_file
from tflow.marks import MARK


def load(target: str) -> tuple[str, Described]:
    """The stream or plan called NAME in FILE, and its name. Functions are called, and configurations asked for their plan."""
    path, name = parted(target)
    module = load_file(path)
    name = name or only_plan(path, module)
    return name, built(found_in(path, module, name), f"{path}:{name}")


def parted(target: str) -> tuple[Path, str]:
    """``plans.py:a3c`` as a file and a name; the name may be empty."""
    whole = Path(target)
    file, _, name = target.rpartition(":")
    path = whole if whole.is_file() or not file else Path(file)
    if path.is_dir():
        raise PlanError(f"{str(path)!r} is a folder; expected FILE:NAME, such as plans.py:a3c.")
    if not path.is_file():
        raise PlanError(f"There is no file {str(path)!r}.")
    if path.suffix not in SUFFIXES:
        raise PlanError(f"{str(path)!r} is not a Python file.")
    return path, name if path != whole else ""


def only_plan(path: Path, module: ModuleType) -> str:
    """The plan of a file that has one."""
    own = offered(module)
    plans = [name for name, value in own.items() if isinstance(value, Plan) or getattr(value, MARK, "") == "plan"]
    chosen = plans or list(own)
    if len(chosen) != 1:
        have = f"{len(plans)} plans" if plans else "no plan, and no function marked @plan"
        raise PlanError(f"{path} has {have}; say which to draw, {path}:NAME. {in_it(own)}")
    return chosen[0]


def offered(module: ModuleType) -> dict[str, object]:
    """What a file has that can be drawn: streams, plans, and what is defined in it: functions, and configurations with a plan."""

    def can_be_drawn(value: object) -> bool:
        if isinstance(value, Described):
            return True
        if inspect.isfunction(value) or inspect.isclass(value):
            own = value.__module__ == module.__name__
            return own and (inspect.isfunction(value) or callable(getattr(value, "plan", None)))
        return not inspect.ismodule(value) and callable(getattr(value, "plan", None))

    return {name: value for name, value in vars(module).items() if not name.startswith("_") and can_be_drawn(value)}


def in_it(own: dict[str, object]) -> str:
    return f"Streams, plans and functions in it: {', '.join(own) or 'none'}."


def found_in(path: Path, module: ModuleType, name: str) -> object:
    """The thing called ``name``; a method is that of an instance."""
    found: object = module
    for part in name.split("."):
        if inspect.isclass(found):
            found = stand_ins.call(found, f"{path}:{found.__name__}")
        try:
            present = hasattr(found, part)
        except Exception as error:  # a property of the user's
            raise PlanError(f"{path}:{name} cannot be read: {type(error).__name__}: {error}.") from error
        if not present:
            own = offered(module)
            close = difflib.get_close_matches(name, own, n=1)
            hint = f"Did you mean {close[0]!r}? " if close else ""
            raise PlanError(f"{path} has no {name!r}. {hint}{in_it(own)}")
        found = getattr(found, part)
    return found


def built(found: object, shown: str) -> Described:
    """The stream or plan that something is, returns, or has."""
    if callable(found) and not isinstance(found, Described):
        found = stand_ins.call(found, shown)
    plan = getattr(found, "plan", None)
    if not isinstance(found, Described) and callable(plan):
        found = stand_ins.call(plan, f"{shown}.plan")
    if not isinstance(found, Described):
        kind = f"{'an' if type(found).__name__[0] in 'aeiou' else 'a'} {type(found).__name__}"
        raise PlanError(
            f"{shown} is {kind}; expected a stream, a plan, a function that returns one, or a configuration such as PPO."
        )
    return found
