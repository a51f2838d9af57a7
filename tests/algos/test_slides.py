"""The plans of the paper's slides: as short as there, drawn as they were, and they run and learn on every runtime."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.laws.world import RUNTIMES, product
from tests.types.checkers import CORPUS
from tflow import Metrics, Plan

SOURCE = CORPUS / "slides.py"
SLIDES = {"a3c": 7, "apex": 12, "multi_agent": 8}
"""Lines of code on the slides, comments and blank lines aside."""
DRAWN = {
    "a3c": [
        ("ParallelRollouts(workers)", "actor", "Rollout"),
        ("par_for_each(ComputeGradients)", "actor", "Gradients"),
        ("gather_async()", "driver", "Gradients"),
        ("for_each(ApplyGradients)", "driver", "TrainStats"),
        ("for_each(CollectMetrics)", "driver", "Metrics"),
    ],
    "apex": [
        ("ParallelRollouts(workers)", "actor", "Rollout"),
        ("gather_async()", "driver", "Rollout"),
        ("for_each(StoreToBuffer)", "driver", "Rollout"),
        ("for_each(UpdateWeights)", "driver", "Rollout"),
        ("ParallelReplay(replay)", "actor", "Replayed"),
        ("gather_async()", "driver", "Replayed"),
        ("for_each(UpdatePriorities)", "driver", "Replayed"),
        ("for_each(TrainOneStep)", "driver", "TrainStats"),
        ("Union() <- 3, 7", "driver", "Rollout | TrainStats"),
        ("for_each(CollectMetrics)", "driver", "Metrics"),
    ],
    "multi_agent": [
        ("ParallelRollouts(workers)", "actor", "MultiBatch"),
        ("gather_sync()", "driver", "MultiBatch"),
        ("split(2)", "driver", "MultiBatch"),
        ("branch 0", "driver", "MultiBatch"),
        ("for_each(OfPolicy)", "driver", "Rollout"),
        ("Select(PPO)", "driver", "Rollout"),
        ("for_each(ComputeAdvantages)", "driver", "Rollout+advantages+returns"),
        ("for_each(TrainOneStep)", "driver", "TrainStats"),
        ("branch 1 <- 2", "driver", "MultiBatch"),
        ("for_each(OfPolicy)", "driver", "Rollout"),
        ("Select(DQN)", "driver", "Rollout"),
        ("for_each(StoreToBuffer)", "driver", "Rollout"),
        ("drain()", "driver", "Never"),
        ("ParallelReplay(replay)", "actor", "Replayed"),
        ("gather_sync()", "driver", "Replayed"),
        ("for_each(TrainOneStep)", "driver", "TrainStats"),
        ("for_each(SendPriorities)", "driver", "TrainStats"),
        ("Union() <- 12, 16", "driver", "TrainStats"),
        ("Union() <- 7, 17", "driver", "TrainStats"),
        ("for_each(CollectMetrics)", "driver", "Metrics"),
    ],
}


def plans() -> dict[str, Callable[[], Plan[Metrics]]]:
    """The functions in the corpus file that checkers read."""
    spec = importlib.util.spec_from_file_location("slides", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: getattr(module, name) for name in SLIDES}


PLANS = plans()


def lines_of(path: Path, function: str) -> int:
    """Lines of code in a body; looks at types are no part of a plan."""
    (found,) = [each for each in ast.parse(path.read_text()).body if isinstance(each, ast.FunctionDef) and each.name == function]
    code = [node for node in found.body if not ast.unparse(node).startswith("assert_type")]
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in code)


@pytest.mark.parametrize("name", SLIDES)
def test_no_more_lines_than_on_the_slide(name: str) -> None:
    assert lines_of(SOURCE, name) <= SLIDES[name]


@pytest.mark.parametrize("name", SLIDES)
def test_they_are_what_was_drawn(name: str) -> None:
    rows = [line for line in str(PLANS[name]()).splitlines()[2:] if line[:1].isdigit()]
    cells = [[cell for cell in row.split("  ") if cell] for row in rows]
    assert [tuple(cell.strip() for cell in row[1:4]) for row in cells] == DRAWN[name]


@product(SLIDES)  # the plan of the README, which is that of A3C, always runs on Ray
def test_they_run(name: str, runtime: str) -> None:
    with RUNTIMES[runtime]() as session, PLANS[name]().run(runtime=session) as run:
        found = [next(run) for _ in range({"a3c": 12, "apex": 60, "multi_agent": 120}[name])]
    last = found[-1]
    assert last.env_steps >= 600
    assert last.episodes.count > 5
    assert last.training.updates >= 10
    assert last.training.skipped == 0
    for policy in last.episodes.policies:
        assert f"learner/{policy}/loss" in last.flat(), "both algorithms trained"
