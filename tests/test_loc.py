"""How lines of code are counted, and that the plans of the algorithms stay short."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import loc
from tflow.algos import OffPolicy, apex, dqn, maml, ppo, ppo_dqn
from tflow.rl.data.batch import Batch
from tflow.rl.envs.samples import MultiCartPole
from tflow.rl.learning.losses import A3CLoss, DQNLoss, PPOLoss
from tflow.rl.learning.training import TrainOneStep
from tflow.rl.replay.replay_spec import create_replay_actors
from tflow.rl.rollout.worker_spec import ParallelRollouts

CONFIG = '''"""A made-up algorithm."""

from __future__ import annotations

from dataclasses import dataclass

from tflow import ConcatRounds, Iter, Metrics, ParallelRollouts, Plan, ReportMetrics, Rollout, Sync, TrainOneStep, TrainStats
from tflow.losses import A3CLoss
from tflow.algos.algorithm import Algorithm, agreed
from tflow.rl.rollout.worker_spec import AnyWorkers

HOW_OFTEN = 3
"""A constant."""


@dataclass(frozen=True, kw_only=True)
class MadeUp(Algorithm):
    """Its configuration."""

    epochs: int = HOW_OFTEN
    """A field."""

    def loss(self) -> A3CLoss:
        return A3CLoss()

    def plan(self) -> Plan[Metrics]:
        workers = self.workers(self.loss())
        return ReportMetrics(made_up_plan(ConcatRounds(ParallelRollouts(workers).gather_rounds()), workers, self), workers)


def made_up_plan(stream: Iter[Rollout, Sync], workers: AnyWorkers, config: MadeUp | None = None) -> Iter[TrainStats]:
    """Its sub-flow."""
    # A comment.
    return stream.for_each(TrainOneStep(workers, loss=agreed("made_up_plan", workers, config, MadeUp())))
'''


def made_up(folder: Path, patch: pytest.MonkeyPatch, source: str) -> loc.Lines:
    """The numbers of an algorithm whose file says this."""
    path = folder / "made_up.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("made_up", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    patch.setitem(sys.modules, "made_up", module)
    spec.loader.exec_module(module)
    config = loc.config_of(module)
    assert config is not None
    return loc.measure(module, config)


def operators(module: ModuleType) -> list[loc.Thing]:
    config = loc.config_of(module)
    assert config is not None
    return loc.operators(module, config)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("x = 1\n\n   \ny = 2\n", [1, 4], id="blank lines"),
        pytest.param("# one\nx = 1  # two\n    # three\n", [2], id="comments"),
        pytest.param('"""One.\n\nMore.\n"""\ndef f():\n    """Two."""\n    return 1\n', [5, 7], id="docstrings"),
        pytest.param('class A:\n    x: int = 1\n    """What\n    it is."""\n    y = 2\n', [1, 2, 5], id="of attributes"),
        pytest.param('x = """\n# text\n\ntext"""\nf("""a\nb""")\n', [1, 2, 4, 5, 6], id="string values"),
        pytest.param('x = f"""{1}\n\n{2}"""\n', [1, 3], id="formatted strings"),
        pytest.param('("one"\n "two")\nx = 1\n', [3], id="a docstring in brackets"),
        pytest.param('é = "é"; "text"\ndef f(): "text"\n', [1, 2], id="a docstring beside code"),
        pytest.param("@a\n@b(\n    1,\n)\ndef f(): ...\n", [1, 2, 3, 4, 5], id="decorators"),
        pytest.param("f(\n    1,\n\n    # two\n    2,\n)\n", [1, 2, 5, 6], id="calls of several lines"),
        pytest.param("x = 1 + \\\n    2\n", [1, 2], id="a line that goes on"),
        pytest.param('def f():\n    def g():\n        """Text."""\n        h()\n\n    g()\n', [1, 2, 4, 6], id="nested"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_code_lines(source: str, expected: list[int]) -> None:
    assert sorted(loc.code_rows(source)) == expected


def test_the_numbers_of_an_algorithm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = made_up(tmp_path, monkeypatch, CONFIG)
    assert (found.name, found.plan, found.flow, found.file) == ("MadeUp", 3 + 2, 1 + 2 + 3 + 2, 1 + 3 + 2 + 3 + 2)


def test_each_operator_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made_up(tmp_path, monkeypatch, CONFIG)
    twice = CONFIG.replace("stream.for_each(", "stream.for_each(TrainOneStep(workers)).for_each(")
    assert made_up(tmp_path, monkeypatch, twice) == before
    other = made_up(tmp_path, monkeypatch, CONFIG.replace("return A3CLoss()", "return self.loss()"))
    assert before.with_operators - other.with_operators == loc.length([A3CLoss])


def test_operators_are_found_through_imports() -> None:
    found = operators(ppo)
    assert {ParallelRollouts, TrainOneStep, PPOLoss} <= set(found)
    assert len(found) == len(set(found))
    assert not {each.__name__ for each in found} & {"Iter", "Plan", "Rollout", "Metrics", "Algorithm", "PPO", "ppo_plan"}


def test_inherited_methods_and_sub_flows_of_others_are_followed() -> None:
    assert {dqn.DQN.loss, OffPolicy.replay, DQNLoss, create_replay_actors} <= set(operators(apex))
    assert not {dqn.DQN.plan, dqn.dqn_plan} & set(operators(apex))
    assert {ppo.ppo_plan, dqn.dqn_plan, OffPolicy.replay, PPOLoss, DQNLoss} <= set(operators(ppo_dqn))
    assert not {ppo.PPO, dqn.DQN} & set(operators(ppo_dqn)), "configurations are fields"
    assert MultiCartPole not in operators(ppo_dqn)  # the default of a field


def test_of_a_class_that_is_named_for_a_method_only_the_method_counts() -> None:
    found = {each.__qualname__ for each in operators(maml)}
    assert "Batch.concat" in found
    assert Batch.__qualname__ not in found


def test_overloads_count() -> None:
    assert len(loc.definitions(create_replay_actors)) == 5  # type: ignore[arg-type]  # a function, which mypy cannot tell


def test_a_plan_that_is_too_long_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def padded(lines: int) -> list[loc.Lines]:
        more = "".join(f"    x{n} = {n}\n" for n in range(lines))
        return [made_up(tmp_path, monkeypatch, CONFIG.replace("    # A comment.\n", more))]

    for lines, expected in ((10, None), (11, "MadeUp: its plan has 16 lines, 15 are allowed")):
        measured = padded(lines)
        monkeypatch.setattr(loc, "algorithms", lambda measured=measured: measured)
        assert loc.main(["--check"]) == expected
        assert loc.main([]) is None
    assert "| MadeUp |  |  |  | 16 | 19 |" in capsys.readouterr().out


def test_a_flow_that_is_not_shorter_than_the_papers_fails() -> None:
    assert loc.complaints([loc.Lines("A3C", 6, 10, 60, 90)]) == []
    assert loc.complaints([loc.Lines("A3C", 6, 11, 60, 90)]) == ["A3C: its flow has 11 lines, the paper's 11"]


def test_all_algorithms_of_the_paper_are_measured_and_pass() -> None:
    found = loc.algorithms()
    assert [each.name for each in found][: len(loc.PAPER)] == list(loc.PAPER)
    assert loc.complaints([each for each in found if each.name in loc.PAPER]) == []
    assert all(each.plan <= each.flow < each.file < each.with_operators for each in found)


def test_the_check_passes() -> None:
    assert loc.main(["--check"]) is None
