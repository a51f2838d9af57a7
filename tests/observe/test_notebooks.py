"""Notebooks: plans draw themselves, runs show how far they are, metrics are data frames; the examples are executed."""

from __future__ import annotations

import json
import math
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from tflow import PlanError, RunFolder, ShowProgress, Stop
from tflow.algos import PPO
from tflow.errors import MissingExtra
from tflow.models import MLP
from tflow.observe import progress
from tflow.rl import history as histories
from tflow.rl.history import MetricsHistory, history

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SMALL = PPO(num_workers=1, num_envs=2, fragment=16, epochs=1, minibatch=32, model=MLP((8,)))


@pytest.fixture
def shell() -> Any:  # Any: an iterator of a shell
    made = InteractiveShell.instance()
    yield made
    made.reset()  # type: ignore[no-untyped-call]  # IPython has no types for it
    InteractiveShell.clear_instance()


@pytest.mark.parametrize("name", ["train", "plan"])
def test_the_example_notebooks_run(
    name: str, shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # Any: as above
    monkeypatch.chdir(tmp_path)
    cells = json.loads((EXAMPLES / f"{name}.ipynb").read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(sources) >= 2
    for source in sources:
        with capture_output():
            done = shell.run_cell(source)
        done.raise_error()
    if name == "plan":
        assert shell.user_ns["updates"] == 1
        plain, _ = shell.display_formatter.format(shell.user_ns["plan"])
        assert plain["text/html"].startswith("<svg")
    else:
        assert len(shell.user_ns["frame"]) >= 2


def test_streams_and_plans_draw_themselves() -> None:
    drawn = ET.fromstring(SMALL.plan()._repr_html_())
    assert "TrainOneStep" in " ".join("".join(each.itertext()) for each in drawn.iter())


def test_a_run_shows_its_progress_in_a_notebook(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, picture: progress.NotebookPicture) -> None:
            shown.append(picture._repr_html_())

    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    monkeypatch.setattr(progress, "show_in_notebook", lambda picture: Handle())
    SMALL.run(stop=Stop(updates=6), callbacks=[ShowProgress()]).finish()
    assert shown
    assert "PPO on CartPole-v1" in shown[-1]
    assert "<pre" in shown[-1]
    assert "192" in shown[-1] or "env steps" in shown[-1]
    assert capsys.readouterr().out == "", "no lines beside the picture"


def test_the_kernel_of_a_notebook_is_known(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # Any: as above
    assert not progress.in_notebook(), "a terminal"
    monkeypatch.setattr(type(shell), "kernel", object(), raising=False)
    assert progress.in_notebook()


def test_metrics_as_a_data_frame_of_a_run_and_of_its_folder(tmp_path: Path) -> None:
    run = SMALL.run(stop=Stop(updates=8), callbacks=[RunFolder(tmp_path / "run", log_every_s=0)], eval_every=64, eval_episodes=2)
    last = run.finish()
    frame = run.history.frame()
    assert frame["updates"].iloc[-1] == 8
    assert frame["env_steps"].is_monotonic_increasing
    assert frame["evaluation/return"].iloc[-1] == last.evaluation.mean_return
    kept = history(tmp_path / "run").frame("pandas")
    assert sorted(set(kept["updates"])) == list(range(1, 9)), "and rows of evaluations"
    assert math.isnan(kept["evaluation/return"].iloc[0]), "it was not known yet"
    with pytest.raises(PlanError, match=r"There is no .*metrics\.jsonl"):
        history(tmp_path / "other")


def test_a_long_run_keeps_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "MOST_ROWS", 10)
    run = SMALL.run(stop=Stop(updates=60), eval_every=32, eval_episodes=1)
    run.finish()
    assert 4 < len(run.history) <= 11
    assert run.history[-1]["updates"] == 60


def test_without_a_library_a_sentence_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtra, match=r"pip install 'tflow\[polars\]'"):
        MetricsHistory([{"a": 1.0}]).frame("polars")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"pip install 'tflow\[pandas\]'"):
        MetricsHistory([{"a": 1.0}]).frame()
    with pytest.raises(PlanError, match="library must be"):
        MetricsHistory([{"a": 1.0}]).frame("arrow")  # type: ignore[arg-type]  # it is the mistake
