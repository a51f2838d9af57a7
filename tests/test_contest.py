"""Contests: what contestants print is kept, nothing runs twice, and ratios are taken within a round."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.contest import hold, ratios, read, speed, spread

SAYS = (
    "import json, sys; print('noise'); print(json.dumps({'seconds': 2, 'env_steps': %d * (1 + int(sys.argv[-1])), 'reached': 1}))"
)
FAST, SLOW = (sys.executable, "-c", SAYS % 900), (sys.executable, "-c", SAYS % 300)
BROKEN = (sys.executable, "-c", "raise SystemExit('no such thing')")


def test_every_round_is_run_once_and_compared_with_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new" / "contest.csv"
    hold(path, {"fast": FAST, "slow": SLOW}, range(2))
    assert len(capsys.readouterr().out.splitlines()) == 4
    hold(path, {"fast": FAST, "slow": SLOW}, range(3))
    assert len(capsys.readouterr().out.splitlines()) == 2, "only the new round"
    rows = read(path)
    fast = [row for row in rows if row["contestant"] == "fast"]
    assert [speed(row) for row in fast] == [450, 900, 1350]
    assert ratios(fast, "slow", rows, speed) == [3, 3, 3]
    assert spread([speed(row) for row in fast], ".0f") == "900 [450..1350]"


def test_a_contestant_that_fails_ends_it_and_what_was_found_stays(tmp_path: Path) -> None:
    path = tmp_path / "contest.csv"
    with pytest.raises(SystemExit, match="no such thing"):
        hold(path, {"fast": FAST, "broken": BROKEN}, range(1))
    assert [row["contestant"] for row in read(path)] == ["fast"]
