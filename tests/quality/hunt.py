"""How the kit is judged: it must find a planted bug within a stated number of examples, and make the counterexample small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any

from tflow.runtime.sim import Faults
from tflow.testing import SimSchedule
from tflow.testing.schedules import searching


@dataclass(frozen=True)
class Found:
    """A counterexample."""

    examples: int
    """How many were tried until the first failed."""
    size: int
    """How large the smallest is: numbers on the tape, faults, items, lengths."""
    error: BaseException


def hunt(test: Callable[..., None], *, examples: int) -> Found | None:
    """Run a test of the kit until it fails, and let hypothesis make the example small."""
    tried = 0
    first = 0
    smallest: dict[str, object] = {}
    inner = test.hypothesis.inner_test  # type: ignore[attr-defined]  # how others wrap the tests of hypothesis, too

    def counting(*args: object, **drawn: object) -> None:
        nonlocal tried, first
        tried += not first
        try:
            inner(*args, **drawn)
        except BaseException:
            first = first or tried
            smallest.clear()
            smallest.update(drawn)
            raise

    test.hypothesis.inner_test = counting  # type: ignore[attr-defined]  # see above
    test._hypothesis_internal_use_settings = searching(examples)  # type: ignore[attr-defined]  # the test has settings of its own
    try:
        test(object())
    except BaseException as error:
        return Found(first, size(smallest), error)
    finally:
        test.hypothesis.inner_test = inner  # type: ignore[attr-defined]  # see above
    return None


def size(value: Any) -> int:  # Any: whatever hypothesis drew
    """How much there is to read in a counterexample."""
    if isinstance(value, SimSchedule):
        return len([choice for choice in value.tape if choice]) + size(value.faults)
    if isinstance(value, Faults):
        return sum(count for count in astuple(value)[:6])
    if isinstance(value, dict):
        return sum(map(size, value.values()))
    if isinstance(value, (list, tuple)):
        return len(value) + sum(size(member) for member in value)
    return int(value) if isinstance(value, int) else 0
