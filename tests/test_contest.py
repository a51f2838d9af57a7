"""Contests: what contestants print is kept, nothing runs twice, and ratios are taken within a round."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.contest import by_threads, hold, outcome, ratios, read, speed, speeds_by_threads, spread
from benchmarks.peers.stopwatch import WARM_UP, Stopwatch, options

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


def test_threads_are_one_or_left_to_the_contestant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    asks = (sys.executable, "-c", "import json, os; print(json.dumps({'is': int(os.environ.get('OMP_NUM_THREADS', 0))}))")
    assert (outcome(asks)["is"], outcome(asks, one_thread=False)["is"]) == (1, 0)
    contestants = by_threads({"fast": FAST, "slow": SLOW})
    assert contestants["slow, 1 thread"] == (*SLOW, "--threads", "1")
    hold(tmp_path / "contest.csv", contestants, range(1), one_thread=False)
    rows = speeds_by_threads(tmp_path / "contest.csv", ("fast", "slow"), base="slow").splitlines()
    assert rows[0] == "| contestant | env steps/s | against slow's |"
    assert [row.split(" | ")[0] for row in rows[2:]] == [
        f"| {name}, {threads}" for threads in ("1 thread", "default threads") for name in ("fast", "slow")
    ]
    assert [row.split(" | ")[2] for row in rows[2:]] == ["3.00 [3.00..3.00] |", "1.00 [1.00..1.00] |"] * 2


def test_the_clock_runs_from_the_warm_up_and_stands_still_in_evaluations(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--seed", "0", "--learning-starts", "10", "--steps", str(10 + WARM_UP + 5), "--evaluate-at", "3", "12"]
    watch = Stopwatch(options("CartPole-v1", lr=1.0, learning_starts=0).parse_args(words), lambda: lambda obs: 0)
    steps = 0
    while not watch.over(steps):
        steps += 1
    *evaluations, last = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert [found["env_steps"] for found in evaluations] == [3, 12]
    assert evaluations[0]["evaluation"] == evaluations[1]["evaluation"], "the same episodes"
    assert (last["env_steps"], last["reached"]) == (5, 0)
    assert watch.seconds < evaluations[0]["seconds"] + 1
