"""Reports as a browser shows them: nothing leaves the screen, everything can be read, nothing is loaded, charts answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.observe.browser import Scheme, hex_of, looked_at
from tests.observe.page_check import contrast
from tests.observe.test_report import QUICK, made
from tflow.observe.kept import asked_runs
from tflow.observe.page import page

pytestmark = pytest.mark.full
LEAST_LETTER = 8.0
"""Pixels; smaller letters cannot be read."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The report of a run, and that of several kinds of runs."""
    runs = tmp_path_factory.mktemp("runs")
    one = made(runs / "one", replace(QUICK, lr=1e-2), steps=600)
    for seed in (0, 1):
        made(runs / "some" / f"seed-{seed}", seed=seed, steps=600)
    return {"one": page(asked_runs([one])), "several": page(asked_runs([runs]))}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("wide", [1280, 500])
@pytest.mark.parametrize("name", ["one", "several"])
def test_the_page_is_shown_as_it_should_be(name: str, wide: int, scheme: Scheme, pages: dict[str, str], tmp_path: Path) -> None:
    found = looked_at(pages[name], tmp_path, wide=wide, scheme=scheme)
    assert abs(found["wide"] - wide) < 30
    assert found["resources"] == 0, "nothing is loaded"
    assert found["scroll"] <= found["wide"], "the page does not scroll sideways"
    assert found["outside"] == []
    assert (contrast(hex_of(found["background"]), "#000000") > 10) == (scheme == "light")
    assert len(found["texts"]) > 50
    for ink, ground, size in found["texts"]:
        assert contrast(hex_of(ink), hex_of(ground)) >= 4.5, (ink, ground)
        assert size >= LEAST_LETTER
    assert "env steps" in found["tip"]
    assert found["left"], "it goes when the pointer goes"
