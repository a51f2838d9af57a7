"""The pytest plugin: markers, the schedule of a failing test, and saved schedules as tests. Loaded by pytest itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tflow.testing.history import History

ENDING = ".schedule.json"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "law(*laws): the laws of tflow that a test proves")
    config.addinivalue_line("markers", "ray: runs on a real Ray cluster")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """What an earlier test simulated is none of this one's business."""
    latest().clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A test that failed shows the schedule of its last simulation, which is the smallest that hypothesis has found."""
    report = yield
    if call.when == "call" and call.excinfo is not None:
        for history in latest():
            report.sections.append(("tflow schedule", str(history)))  # type: ignore[attr-defined]  # the hook yields a report
    return report


def latest() -> list[History[object]]:
    """The last history, if anything was simulated at all: a test run without simulations loads nothing."""
    module = sys.modules.get("tflow.testing.history")
    return [] if module is None else module.LATEST


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.name.endswith(ENDING):
        return ScheduleFile.from_parent(parent, path=file_path)
    return None


class ScheduleFile(pytest.File):
    """A saved schedule."""

    def collect(self) -> Iterator[pytest.Item]:
        yield SavedSchedule.from_parent(self, name="replay")


class SavedSchedule(pytest.Item):
    """Runs a saved schedule again."""

    funcargs: Mapping[str, object] = MappingProxyType({})  # other plugins ask every test for it

    def runtest(self) -> None:
        from tflow.testing.schedules import replay

        replay(self.path)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        """What the check said; the schedule follows."""
        return f"{excinfo.type.__name__}: {excinfo.value}"

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"schedule {self.path.name}"
