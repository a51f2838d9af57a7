"""What an editor shows: every field of a configuration with its meaning, and the types of what a run yields."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.types.editor import Editor
from tflow.algos.fields import fields_of
from tflow.algos.names import ALGORITHMS

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
from tflow import Metrics, RunFolder, Stop
from tflow.algos import A2C, A3C, ApeX, APPO, Callback, DQN, IMPALA, MAML, PG, PPO, PPODQN, PQN, Rainbow, SimpleQ, TrainingRun
from tflow.algos import ApeXDDPG, ApeXSAC, ApeXTD3, CrossQ, DDPG, DDPPO, R2D2, RND, RNNSAC, SAC, TD3, TQC

run = PPO(lr=1e-3).run(stop=Stop(env_steps=1_000), callbacks=[RunFolder("runs/mine")])
for metrics in run:
    print(metrics.mean_return)
policy = run.policy()


class Mine(Callback):
    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        print(metrics.training)


(A2C(), A3C(), DQN(), IMPALA(), MAML(), PPODQN(), ApeX(), APPO(), PG(), PQN(), Rainbow(), SimpleQ(), DDPPO(), RND())
(SAC(), TQC(), CrossQ(), TD3(), DDPG(), ApeXDDPG(), ApeXTD3(), ApeXSAC(), R2D2(), RNNSAC())
"""


@pytest.fixture(scope="module")
def editor() -> Iterator[Editor]:
    with Editor(ROOT) as session:
        yield session


@pytest.fixture
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("editor") / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.types
@pytest.mark.parametrize("kind", ALGORITHMS.values(), ids=ALGORITHMS)
def test_resting_on_a_configuration_shows_every_field_with_its_meaning(editor: Editor, program: Path, kind: type) -> None:
    shown = " ".join(editor.hover(program, f"{kind.__name__}(").split())
    for field in fields_of(kind):
        assert f"{field.name}: {field.meaning}" in shown
    assert shown.count(": ") > len(dataclasses.fields(kind))


@pytest.mark.types
@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("lr=1e-3", "Learning rate, or a schedule over env steps;"),
        ("run(stop", "-> TrainingRun"),
        ("metrics in", "metrics: Metrics"),
        ("mean_return", "mean_return: float"),
        ("policy =", "policy: Policy"),
        ("env_steps=1_000", "Env steps of all workers."),
        ("reported", "metrics: Metrics"),
        ("training)", "training: Training"),
    ],
)
def test_what_a_run_yields_is_typed(editor: Editor, program: Path, place: str, shown: str) -> None:
    assert shown in editor.hover(program, place)
