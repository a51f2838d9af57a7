"""``tflow graph``, as a user calls it: formats, files, and sentences where something is wrong."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tflow.drawing.command import graph
from tflow.errors import TflowError

PLANS = """
from tflow import flow, from_range, Iter, Metrics, ParIter, Plan, plan, Rollout
from tflow.algos import PPO
from tflow.losses import A3CLoss
from tflow import ApplyGradients, ComputeGradients, ParallelRollouts, ReportMetrics, Workers, create_rollout_workers
from drawn_parts import doubled

numbers = from_range(3)
answer = 42
config = PPO(num_workers=3)

@plan
def train() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss(), num_workers=2)
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    return ReportMetrics(grads.for_each(ApplyGradients(workers)), workers)

@flow
def small(stream: Iter[int], size: int = 7) -> Iter[list[int]]:
    return doubled(stream).batch(size)

class Mine(PPO):
    pass

class Holder:
    def __init__(self, size: int = 5) -> None:
        self.size = size

    def stream(self, shards: ParIter[Rollout]) -> Iter[Rollout]:
        return shards.gather_async().take(self.size)
"""
PARTS = """
from tflow import Iter

def doubled(stream: Iter[int]) -> Iter[int]:
    return stream.map(lambda x: 2 * x)
"""
app = typer.Typer()
app.command()(graph)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder. What is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "drawn_plans.py").write_text(PLANS)
    (tmp_path / "drawn_parts.py").write_text(PARTS)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def run(*args: str) -> tuple[str, str]:
    """What a command printed, and the sentence with which it gave up."""
    done = CliRunner().invoke(app, args)
    if done.exception is not None and not isinstance(done.exception, TflowError):
        raise done.exception
    return done.stdout, str(done.exception or "")


def test_text_goes_to_the_terminal(folder: Path) -> None:
    output, sentence = run("drawn_plans.py:train")
    assert sentence == ""
    head, *lines = output.splitlines()
    assert head.startswith("ReportMetrics of Metrics, fingerprint ")
    assert lines == [
        "   operator                        where   yields      bounds",
        "0  ParallelRollouts(workers)       actor   Rollout     shards=2",
        "1  par_for_each(ComputeGradients)  actor   Gradients",
        "2  gather_async()                  driver  Gradients   in_flight=1, per_call=1",
        "3  for_each(ApplyGradients)        driver  TrainStats",
        "4  for_each(CollectMetrics)        driver  Metrics",
        "not deterministic: 2 gather_async() order depends on which actor answers first",
        "messages",
        "3  for_each(ApplyGradients) -> workers[2]: weights",
    ]
    assert run("drawn_plans.py")[0] == output, "it is the only plan in the file"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("numbers", ["0  from_range(3)"]),
        ("small", ["0  stream ", "1  map(<lambda>)", "2  batch(7)"]),
        ("config", ["0  ParallelRollouts(workers)", "shards=3", "for_each(TrainOneStep) -> workers[3]: weights"]),
        ("Mine", ["0  ParallelRollouts(workers)", "shards=2"]),
        ("Holder.stream", ["0  shards", "1  gather_async()", "2  take(5)"]),
        ("doubled", ["0  stream ", "1  map(<lambda>)"]),
    ],
)
def test_streams_functions_methods_and_configurations_have_names(folder: Path, name: str, shown: list[str]) -> None:
    output, sentence = run(f"drawn_plans.py:{name}")
    assert sentence == ""
    assert [part for part in shown if part not in output] == []


def test_the_name_of_the_output_says_the_format(folder: Path) -> None:
    for name, start in (("a.svg", "<svg"), ("a.mmd", "---\ntitle"), ("a.txt", "Iter of list"), ("b", "Iter of list")):
        assert run("drawn_plans.py:small", "-o", name) == ("", "")
        assert (folder / name).read_text().startswith(start)
    assert run("drawn_plans.py:small", "-o", "c.svg", "--format", "mermaid") == ("", "")
    assert (folder / "c.svg").read_text().startswith('---\ntitle: "small"')
    assert run("drawn_plans.py:small", "-o", "no/such/a.svg")[1] == "Cannot write 'no/such/a.svg': No such file or directory."


def test_direction(folder: Path) -> None:
    sizes = []
    for direction in ("right", "down"):
        root = ET.fromstring(run("drawn_plans.py:train", "-f", "svg", "--direction", direction)[0])
        sizes.append((float(root.get("width", "")), float(root.get("height", ""))))
    assert sizes[0][0] > sizes[1][0]
    assert sizes[0][1] < sizes[1][1]
    assert "flowchart TD" in run("drawn_plans.py:small", "-f", "mermaid", "--direction", "down")[0]
    assert "flowchart LR" in run("drawn_plans.py:small", "-f", "mermaid")[0]


IN_IT = "Streams, plans and functions in it: numbers, config, train, small, Mine."
MISTAKES = {
    "drawn_plans.py:smal": f"drawn_plans.py has no 'smal'. Did you mean 'small'? {IN_IT}",
    "drawn_plans.py:nothing": f"drawn_plans.py has no 'nothing'. {IN_IT}",
    "drawn_plans.py:Holder.other": f"drawn_plans.py has no 'Holder.other'. {IN_IT}",
    "drawn_plans.py:answer": (
        "drawn_plans.py:answer is an int; expected a stream, a plan, a function that returns one, or a configuration such as PPO."
    ),
    "nowhere.py:a": "There is no file 'nowhere.py'.",
    "nowhere.py": "There is no file 'nowhere.py'.",
    ".": "'.' is a folder; expected FILE:NAME, such as plans.py:a3c.",
    "notes.txt:a": "'notes.txt' is not a Python file.",
    "drawn_empty.py": (
        "drawn_empty.py has no plan, and no function marked @plan; say which to draw, drawn_empty.py:NAME. Streams, plans and "
        "functions in it: none."
    ),
    "drawn_both.py": (
        "drawn_both.py has 2 plans; say which to draw, drawn_both.py:NAME. Streams, plans and functions in it: one, two."
    ),
    "drawn_side.py:r": "'drawn_side.py' cannot be loaded: ZeroDivisionError: division by zero.",
}


@pytest.mark.parametrize("target", MISTAKES)
def test_mistakes_are_sentences(folder: Path, target: str) -> None:
    marked = "@plan\ndef {}() -> Plan[Metrics]: ...\n"
    (folder / "drawn_both.py").write_text("from tflow import Metrics, Plan, plan\n" + marked.format("one") + marked.format("two"))
    (folder / "drawn_empty.py").write_text("x = 1\n")
    (folder / "drawn_side.py").write_text("1 / 0\n")
    (folder / "notes.txt").write_text("")
    assert run(target) == ("", MISTAKES[target])


def test_drawing_loads_nothing_heavy() -> None:
    code = (
        "import sys, tflow.drawing.command\nfrom tflow.algos import PPO\nfrom tflow.drawing.built import of_plan\n"
        "of_plan(PPO().plan())\nassert not {'mypy', 'torch', 'ray'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_plan_that_cannot_be_run_is_drawn_and_said_to_be_wrong(tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text(
        "from tflow import Iter, Union, from_range\n\n\ndef twice() -> Iter[int]:\n    stream = from_range(3)\n"
        "    return Union(stream.map(abs), stream.map(abs))\n"
    )
    done = CliRunner().invoke(app, [f"{tmp_path / 'twice.py'}:twice"])
    assert done.exit_code == 0
    assert "Union()" in done.stdout
    assert done.stderr.startswith("This plan cannot be run: The stream from_range(3) is consumed twice")
