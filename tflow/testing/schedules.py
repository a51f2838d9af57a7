"""``explore``: let hypothesis search for a schedule under which a check fails, make it small, keep it as a regression.

A saved schedule is a JSON file that names the plan and the check and holds the tape and the faults: data, no code. ``tflow replay
FILE`` runs it again, ``--pdb`` stops where it fails, and pytest collects files called ``*.schedule.json`` as tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import cast

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from tflow.combinators import check as argument
from tflow.combinators.runnable import Runnable
from tflow.errors import PlanError
from tflow.pytest_plugin import ENDING
from tflow.runtime.sim import Faults
from tflow.testing.history import History, simulate
from tflow.testing.strategies import SimSchedule
from tflow.testing.swarm import retold, shrink, swarm
from tflow.types import U

UNSAVED = ("script", "examples", "diagram", "mermaid")
"""What a replay makes again."""
MakePlan = Callable[[], Runnable[U]]
Check = Callable[[History[U]], object]


@dataclass(frozen=True)
class Counterexample:
    """A schedule under which a check fails."""

    plan: str
    """Where the function that makes the plan is: ``module:name``."""
    check: str
    tape: list[int]
    faults: Faults
    seed: int
    most: int
    error: str
    """What the check raised."""
    script: str = field(repr=False)
    examples: int = field(default=0, repr=False)
    """After how many examples it was found."""
    diagram: str = field(default="", repr=False)
    """What happens, drawn as text."""
    mermaid: str = field(default="", repr=False)
    """The same for mermaid."""

    def __str__(self) -> str:
        return f"{self.error}\n{self.plan} under this schedule:\n{self.script}"

    __repr__ = __str__

    def save(self, folder: str | Path) -> Path:
        """Write it as a regression test and return the file."""
        for name in (self.plan, self.check):
            found(name)
        kept = {key: value for key, value in asdict(self).items() if key not in UNSAVED}
        kept["faults"] = {key: value for key, value in kept["faults"].items() if value != getattr(Faults, key)}
        name = f"{self.plan}-{self.check.rpartition(':')[2]}".replace(":", ".")
        path = Path(folder) / f"{name}{ENDING}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(kept, indent=2) + "\n")
        return path


def searching(examples: int) -> settings:
    """How to search: the same way every time, to the end, for the smallest."""
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )


def explore(
    plan: MakePlan[U],
    check: Check[U],
    *,
    faults: st.SearchStrategy[Faults] | None = None,
    examples: int = 200,
    max_size: int = 60,
    seed: int = 0,
    most: int = 1000,
    steps: int = 20_000,
    save: str | Path | None = None,
) -> Counterexample | None:
    """Search for a schedule under which ``check(history)`` raises, and make it as small as possible.

    Returns None if ``examples`` schedules pass; a test says ``assert explore(plan, check) is None``. The search is the same every
    time. ``faults=fault_profiles()`` lets actors die, too; ``most`` and ``steps`` are as in ``simulate``; with ``save=`` a
    counterexample is written into that folder.

    >>> from tflow import par_from_range
    >>> from tflow.testing import explore
    >>> def plan():
    ...     return par_from_range(4).gather_async()
    >>> def in_order(history):
    ...     assert history.items == sorted(history.items)
    >>> explore(plan, in_order).tape
    []
    """
    argument.integer("explore", "examples", examples, least=1)
    argument.integer("explore", "max_size", max_size, least=0)
    argument.function("explore", plan)
    argument.function("explore", check)
    failed: list[tuple[SimSchedule, History[U], Exception]] = []
    tried = found_after = 0

    def attempt(schedule: SimSchedule) -> None:
        nonlocal tried, found_after
        tried += not failed
        history = simulate(plan(), *schedule, seed=seed, most=most, steps=steps)
        try:
            judge(check, history)
        except Exception as error:
            found_after = found_after or tried
            failed.append((schedule, history, error))
            raise

    def fails(tape: list[int]) -> bool:
        known = len(failed)
        with suppress(Exception):
            attempt(SimSchedule(tape, failed[-1][0].faults))
        return len(failed) > known

    search = searching(examples)(given(schedule=swarm(faults, max_size=max_size))(attempt))
    try:
        search()
    except Flaky:
        raise PlanError(
            f"explore: {named(plan)} fails under a schedule at one time and passes under it at another. It, an operator or the "
            "check remembers something between runs."
        ) from None
    except Exception:
        if not failed:
            raise  # not the check: something is wrong with the plan
        for _ in range(2):  # with fewer choices, fewer faults may do
            with suppress(Exception):
                attempt(retold(plan(), failed[-1][1], most=most))
            shrink(failed[-1][1].tape, fails)
        _, history, error = failed[-1]
        example = counterexample(plan, check, history, error, most=most, examples=found_after)
        if save is not None:
            example.save(save)
        return example
    return None


def judge(check: Check[U], history: History[U]) -> None:
    """Raise if a check says that a run was wrong."""
    if check(history) is False:
        raise AssertionError(f"{named(check)} returned False")


def counterexample(
    plan: MakePlan[U], check: Check[U], history: History[U], error: Exception, *, most: int, examples: int
) -> Counterexample:
    """A run under which a check fails, as something to keep."""
    return Counterexample(
        named(plan),
        named(check),
        history.tape,
        history.faults,
        history.seed,
        most,
        f"{type(error).__name__}: {error}",
        str(history),
        examples,
        history.diagram,
        history.mermaid,
    )


@dataclass(frozen=True)
class Saved:
    """A schedule that was saved."""

    plan: Callable[..., object]
    check: Callable[..., object]
    tape: list[int]
    faults: Faults
    seed: int
    most: int

    @staticmethod
    def load(path: str | Path) -> Saved:
        """Read a file, without running anything but imports."""
        try:
            kept = json.loads(Path(path).read_text())
            names = str(kept["plan"]), str(kept["check"])
            tape, faults = [int(choice) for choice in kept["tape"]], Faults(**kept["faults"])
            seed, most = int(kept["seed"]), int(kept["most"])
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise PlanError(f"{path} is not a saved schedule: {type(error).__name__}: {error}") from error
        return Saved(found(names[0]), found(names[1]), tape, faults, seed, most)

    def replay(self) -> History[object]:
        """Run it again; the check raises if it still fails."""
        made = self.plan()
        if not isinstance(made, Runnable):
            raise PlanError(f"{named(self.plan)} makes a {type(made).__name__}; expected a stream or a plan.")
        plan = cast("Runnable[object]", made)
        history = simulate(plan, self.tape, self.faults, seed=self.seed, most=self.most)
        judge(self.check, history)
        return history


def replay(path: str | Path) -> History[object]:
    """Run a saved schedule again; the check raises if it still fails."""
    return Saved.load(path).replay()


def named(function: Callable[..., object]) -> str:
    """Where a function can be found again."""
    if isinstance(function, (FunctionType, type)):
        return f"{function.__module__}:{function.__qualname__}"
    return f"{type(function).__module__}:{type(function).__qualname__}(...)"


def found(name: str) -> Callable[..., object]:
    """The function that ``named`` named."""
    module, _, path = name.partition(":")
    try:
        value: object = import_module(module)
        for part in path.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError, ValueError):
        value = None
    if not callable(value):
        raise PlanError(f"{name!r} cannot be found. Plan and check of a saved schedule are functions at the top of a module.")
    return cast("Callable[..., object]", value)
