"""The live view and the lines: what is shown of which metrics, at any width."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tflow import Metrics, ShowProgress, Stop
from tflow.algos import PPO
from tflow.data import Episodes
from tflow.models import MLP
from tflow.observe import view as drawing
from tflow.observe.view import View, clock, sparkline
from tflow.rl.metrics import Speed, Training

SMALL = PPO(num_workers=1, num_envs=2, fragment=16, epochs=1, minibatch=32, model=MLP((8,)))
BUSY = {"for_each(TrainOneStep)": 3.0, "ParallelRollouts(workers)": 1.0, "for_each(CollectMetrics)": 0.001}


def metrics_at(env_steps: int, mean_return: float = 20.0, **changes: object) -> Metrics:
    episodes = Episodes(3, (mean_return,) * 3, (7, 8, 9))
    found = Metrics(env_steps, episodes, Training(rows=5, updates=4, latest={"loss": 0.25}), Speed(2.0, 1234.0, 0.0, BUSY))
    return replace(found, **changes)  # type: ignore[arg-type]  # fields of metrics


def screen(view: View, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=False, legacy_windows=False)
    console.print(view)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still until a test moves it."""
    now = [100.0]
    monkeypatch.setattr("tflow.observe.view.time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_what_is_shown(frozen: list[float]) -> None:
    view = View("PPO on CartPole-v1, local, seed 0", Stop(env_steps=10_000, mean_return=475))
    assert "starting" in "\n".join(screen(view, 80))
    frozen[0] += 30
    view.see(metrics_at(2_500, evaluation=Episodes(1, (33.0,), (5,)), evaluations=2))
    shown = "\n".join(screen(view, 90))
    for words in (
        "PPO on CartPole-v1, local, seed 0",
        "25%  eta 1:30",
        "20.0 / 475",
        "33.0 (no. 2)",
        "3, 8 steps long",
        "2,500",
        "1,234 steps/s",
        "0.25",
        "0:30",
        "TrainOneStep     75%",
        "ParallelRollouts 25%",
    ):
        assert words in shown
    assert "Report" not in shown, "it takes no time worth mentioning"


def test_when_it_is_over_the_clock_stands_still(frozen: list[float]) -> None:
    view = View("x", Stop(env_steps=100))
    frozen[0] += 5
    view.see(metrics_at(100))
    view.over = True
    assert view.seconds == 5
    frozen[0] += 5
    assert view.seconds == 5
    assert "100%  done" in "\n".join(screen(view, 80))


@pytest.mark.parametrize(
    ("stop", "words"), [(None, "until Ctrl-C"), (Stop(mean_return=475), "until return 475"), (Stop(seconds=8), "25%  eta")]
)
def test_what_is_waited_for(frozen: list[float], stop: Stop | None, words: str) -> None:
    view = View("x", stop)
    frozen[0] += 1
    view.see(metrics_at(1))
    assert words in "\n".join(screen(view, 80))


def test_policies_and_phases_have_returns_of_their_own() -> None:
    view = View("x")
    each = Episodes(1, (1.0,), (1,))
    view.see(
        metrics_at(1, episodes=Episodes(2, (1.0, 2.0), (1, 2), policies={"PPO": each, "DQN": replace(each, returns=(2.5,))}))
    )
    shown = "\n".join(screen(view, 80))
    assert "return PPO" in shown
    assert "2.5" in shown


def test_names_are_no_markup() -> None:
    view = View("x")
    each = Episodes(1, (1.0,), (1,))
    view.see(metrics_at(1, episodes=Episodes(1, (1.0,), (1,), policies={"a[red]": each, "b[/x]": each})))
    assert "return a[red]" in "\n".join(screen(view, 80))
    assert "return b[/x]" in "\n".join(screen(view, 80))


@given(st.integers(10, 200), st.integers(0, 10**9), st.floats(-1e6, 1e6), st.booleans())
def test_no_line_is_wider_than_the_terminal(width: int, steps: int, value: float, long: bool) -> None:
    view = View("A title that is rather long for a narrow terminal, local, seed 0", Stop(env_steps=10**9, mean_return=1e6))
    busy = {f"for_each({'VeryLong' * 9}Operator{number})": 1.0 + number for number in range(9)} if long else {}
    view.see(metrics_at(steps, value, speed=Speed(1.0, 1e9, 0.0, busy)))
    lines = screen(view, max(width, drawing.SHORTEST))
    assert max(map(len, lines)) <= max(width, drawing.SHORTEST)
    assert lines[0].startswith("╭")
    assert lines[-1].endswith("╯")


@given(st.lists(st.floats(-1e9, 1e9), max_size=50), st.integers(0, 20))
def test_curves_fit_and_keep_their_ends(values: list[float], width: int) -> None:
    found = sparkline(values, width)
    assert len(found) == min(width, len(values))
    if len(values) <= width and len(set(values)) > 1:
        assert found[values.index(max(values))] == "█"
        assert found[values.index(min(values))] == "▁"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3599.7, "1:00:00"), (90_061, "25:01:01")])
def test_times(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_lines_where_nobody_watches() -> None:
    file = io.StringIO()
    SMALL.run(stop=Stop(updates=3), callbacks=[ShowProgress(file=file)], eval_every=32, eval_episodes=1).finish()
    first, *lines = file.getvalue().splitlines()
    assert first == "PPO on CartPole-v1, local, seed 0"
    assert "env steps " in lines[-1]
    assert "updates 3" in lines[-1]
    assert "evaluation " in lines[-1]
    assert "\x1b" not in file.getvalue(), "no codes for terminals in a file"


def test_the_last_line_stands_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tflow.observe.progress.LINE_EVERY_S", 0.0)
    file = io.StringIO()
    SMALL.run(Stop(updates=3), callbacks=[ShowProgress(file=file)]).finish()
    lines = [line.partition("  env steps")[2] for line in file.getvalue().splitlines()[1:]]
    assert len(lines) == len(set(lines)) == 3


def test_a_live_view_can_be_insisted_on() -> None:
    file = io.StringIO()
    SMALL.run(stop=Stop(updates=2), callbacks=[ShowProgress(live=True, file=file)]).finish()
    assert "╭─ PPO on CartPole-v1, local, seed 0" in file.getvalue()
