"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import pytest

from examples import one_of_each
from tflow.testing import explore

FAILING = """
from hypothesis import given, settings
from tflow import par_from_range
from tflow.testing import SimSchedule, schedules, simulate

@settings(derandomize=True, database=None)
@given(schedule=schedules())
def test_in_order(schedule: SimSchedule) -> None:
    items = simulate(par_from_range(4).gather_async(), *schedule).items
    assert items == sorted(items)

def test_without_a_simulation() -> None:
    assert False
"""


def test_a_failing_test_shows_its_schedule(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAILING)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=2)
    assert result.stdout.str().count("tflow schedule") == 1
    result.stdout.fnmatch_lines(["tape=* faults=Faults() seed=0", "*par_from_range?0?*pull*answers 0"])


def test_markers_are_known(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.law(*laws): *", "@pytest.mark.ray: *"])


def test_saved_schedules_are_tests(pytester: pytest.Pytester) -> None:
    explore(one_of_each.wrong_plan, one_of_each.one_of_each, save=pytester.path)
    explore(one_of_each.wrong_plan, one_of_each.one_of_each, save=pytester.path / "more")
    (right,) = (pytester.path / "more").iterdir()
    right.write_text(right.read_text().replace("wrong_plan", "right_plan"))
    result = pytester.runpytest_subprocess("-v")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*one-sided*", "*tflow schedule*"])
    assert len(result.stdout.lines) < 60, "the schedule, not the insides of pytest"
