"""What most tests here share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.laws.world import ray_session
from tests.on_ray.mortals import at_most


@pytest.fixture
def bounded(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Every test ends, and sees what is logged."""
    caplog.set_level(logging.WARNING, "tflow")
    ray_session().close()  # starting Ray is not a part of any test
    with at_most():
        yield
