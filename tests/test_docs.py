"""What the documents say is true: snippets run, outputs match, tables are up to date, examples work."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import runpy
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from benchmarks import curves, flow, growth, memory, spark
from benchmarks.contest import with_table
from docs import generate
from examples import own_callback, train_and_act
from tests.laws.world import ray_session
from tflow import Metrics, Plan, cli
from tflow.algos import PPO
from tflow.commands.choice import chosen
from tflow.mypy_plugin.public import homes
from tflow.presets import preset
from tflow.schedules import Linear

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CONFIG = str(ROOT / "tests" / "types" / "mypy.ini")  # it does not follow torch
MYPY = [sys.executable, "-m", "mypy", "--strict", "--allow-subclassing-any", "--config-file", CONFIG]
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.name != "__init__.py")
OTHERS = ("train_and_act", "own_callback")
"""Examples that print no plan; they have tests of their own."""


def blocks(text: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [body for kind, body in found if kind == language]


def test_the_programs_of_the_readme_run_and_print_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    training, plan, _ = blocks(README, "python")
    scope: dict[str, object] = {}
    exec(compile(training, "README.md", "exec", dont_inherit=True), scope)
    assert scope["action"] in (0, 1)
    assert len(capsys.readouterr().out.splitlines()) > 3
    exec(compile(plan, "README.md", "exec", dont_inherit=True), scope)
    a3c = cast("Plan[Metrics]", scope["plan"])
    assert f"{a3c}\n" in blocks(README, ""), (
        "the fingerprint depends on the version of Python, so this is for the one we test with"
    )
    with a3c.run() as run:
        assert next(run).training.updates == 1


@pytest.mark.ray
def test_the_plan_of_the_readme_runs_on_ray(capsys: pytest.CaptureFixture[str]) -> None:
    """It joins the Ray of these tests; the guide below starts one of its own."""
    ray_session().close()
    _, plan, on_ray = blocks(README, "python")
    scope: dict[str, object] = {}
    exec(compile(f"{plan}\n{on_ray}", "README.md", "exec", dont_inherit=True), scope)
    assert capsys.readouterr().out == "1\n"


def commands_in(text: str) -> list[str]:
    return [line for block in blocks(text, "") for line in block.splitlines() if line.startswith("tflow ")]


@pytest.mark.parametrize(("name", "folders"), [("command_line", 9), ("reliability", 2), ("reports", 2)])
def test_the_commands_of_the_page_work(name: str, folders: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They train for long; here they are told to stop sooner. What they say is tested elsewhere."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / f"{name}.md").read_text()
    sooner = re.sub(r"--(stop-steps|eval-every|until) [\d_]+", r"--\1 600", page)
    first, *others = commands_in(re.sub(r"(--resume .*--stop-steps) 600", r"\1 6_000", sooner))
    for line in (f"{first} --stop-steps 600", *others):
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert not left.value.code, line
    assert len(list((tmp_path / "runs").iterdir())) == folders


def test_the_file_of_the_page_is_understood(tmp_path: Path) -> None:
    (text,) = blocks((ROOT / "docs" / "command_line.md").read_text(), "toml")
    (tmp_path / "config.toml").write_text(text)
    choice = chosen([], file=tmp_path / "config.toml")
    assert choice.algorithm == replace(cast("PPO", preset("ppo", "CartPole-v1")), lr=Linear(1e-3, 0, 100_000), num_envs=16)
    assert (choice.run.stop_return, choice.run.eval_every) == (475, 10_000)


@pytest.mark.parametrize("page", ["README.md", "docs/algorithms.md", "docs/from_sb3.md"])
def test_the_commands_of_a_page_are_understood(page: str) -> None:
    """They train for long; that they would is what is looked at."""
    lines = commands_in((ROOT / page).read_text())
    assert lines
    for line in lines:
        _, command, *words = shlex.split(line)
        if command == "train":
            kept = [word for at, word in enumerate(words) if word != "--seeds" and words[at - 1] != "--seeds"]
            chosen(kept).algorithm.check()


GUIDES = (
    "guide",
    "rl",
    "algorithms",
    "customising",
    "command_line",
    "first_steps",
    "ideas",
    "tutorial",
    "debugging",
    "multi_agent",
    "offline",
    "from_sb3",
    "from_rllib",
    "reports",
    "tools",
    "reliability",
    "ray",
)


def code_of(page: str) -> str:
    """All code of a page, as one module."""
    return "\n".join(blocks((ROOT / "docs" / f"{page}.md").read_text(), "python"))


ONE_BY_ONE = """
import os, runpy, sys
for page in sys.argv[1:]:  # each in the folder that it stands in: pages do not know which runs others keep
    os.chdir(os.path.dirname(page))
    runpy.run_path(page, run_name="__main__")
"""


@pytest.mark.parametrize(
    "pages", [[page for page in GUIDES if page != "ray"], pytest.param(["ray"], marks=pytest.mark.ray)], ids=["local", "ray"]
)
def test_the_guides_run(pages: list[str], tmp_path: Path) -> None:
    """One after the other in a process of their own, which has to import torch only once."""
    files = [tmp_path / page / f"{page}_guide.py" for page in pages]
    for page, file in zip(pages, files, strict=True):
        file.parent.mkdir()
        file.write_text(code_of(page))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", ONE_BY_ONE, *map(str, files)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr


def test_the_guides_type_check(tmp_path: Path) -> None:
    pages = (*GUIDES, "testing", "verify")
    for page in pages:
        (tmp_path / f"{page}_guide.py").write_text(code_of(page))
    command = [*MYPY, "--cache-dir", str(tmp_path / "cache"), *(f"{page}_guide.py" for page in pages)]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout


def test_the_commands_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make (\w+)", README):
        if target != "and":
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "tests" / "README.md"]:
        for link in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_measured_tables_are_those_of_the_results() -> None:
    performance = {"spark": spark.table(), "flow": flow.table(), "memory": memory.table()}
    for page, tables in (("performance", performance), ("scale", {part: growth.table(part) for part in growth.PARTS})):
        text = (ROOT / "docs" / f"{page}.md").read_text()
        for name, table in tables.items():
            assert f"<!-- {name} -->" in text
            assert with_table(text, name, table) == text, f"run: make bench-{name if page == 'performance' else 'growth'}"


def test_the_operator_tables_are_up_to_date() -> None:
    text = generate.PAGE.read_text()
    assert generate.page(text) == text, "run: python docs/generate.py"
    text = generate.ALGORITHMS_PAGE.read_text()
    assert generate.algorithms_page(text) == text, "run: python docs/generate.py"
    for kind in generate.CONFIGURATIONS:
        text = Path(inspect.getfile(kind)).read_text()
        assert generate.documented(text, kind) == text, "run: python docs/generate.py"
    text = curves.PAGE.read_text()
    assert curves.filled(text) == text, "run: make curves"
    assert generate.readme(README) == README, "run: python docs/generate.py"
    text = generate.NAMES.read_text()
    assert generate.filled(text, "names", [generate.names_table()]) == text, "run: python docs/generate.py"
    text = generate.CHECKING.read_text()
    assert generate.rules_page(text) == text, "run: python docs/generate.py"


def test_every_operator_is_in_the_tables() -> None:
    architecture = importlib.import_module("tests.test_architecture")
    listed = {*generate.CREATION, *generate.DRIVER, *generate.PARALLEL, *generate.JOINTS}
    built = {name.rpartition(".")[2] for name in architecture.operators()}
    assert built == listed


def test_the_pictures_of_plans_are_up_to_date() -> None:
    pictures = generate.pictures()
    assert {path.name for path in generate.PICTURES.glob("*.svg")} == {*pictures, "live.svg"}
    for name, text in pictures.items():
        assert (generate.PICTURES / name).read_text() == text, "run: python docs/generate.py"


def test_every_public_name_is_in_a_document_and_every_operator_of_rl_in_the_tables() -> None:
    written = "\n".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    found = set(re.findall(r"`(\w+)[`(]", written))
    assert homes().keys() - found == set()
    assert {"create_learner", "LearnOnBatch", "SendWeights", "MixInReplay"} <= generate.learning_operators().keys()
    told = "\n".join(page.read_text() for page in (ROOT / "docs").glob("*.md") if page != generate.NAMES)
    for name in ("policy.module", "policy.evaluate(batch)", "action_mask"):
        assert name in told


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.stem not in OTHERS], ids=lambda path: path.name)
def test_examples_run(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.startswith(("Iter of", "ReportMetrics of"))


def test_training_and_acting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    returns = train_and_act.main(str(tmp_path / "run"), env_steps=12_000)
    assert len(returns) == 3
    assert min(returns) > 30, "better than chance"
    assert "over: 12,000 env steps" in capsys.readouterr().out
    assert (tmp_path / "run" / "policy.safetensors").is_file()


def test_a_callback_of_ones_own() -> None:
    records = own_callback.main(env_steps=1_500)
    assert records.end == "1,500 env steps"
    assert [value for _, value in records.found] == sorted({value for _, value in records.found})


def test_the_bandit_learns_the_best_arm() -> None:
    from examples.bandit import bandit_plan

    *_, last = bandit_plan(num_workers=3).take(8).run(seed=1)
    assert last.chance_of_best_arm > 0.9
    assert last.mean_reward > 0.6


@pytest.mark.parametrize("page", ["testing", "verify"])
def test_a_page_of_the_kit_runs_and_prints_what_it_says(page: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    (tmp_path / "page.py").write_text(code_of(page))
    environment = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(blocks(text, ""))


def test_every_law_has_a_page_that_is_up_to_date() -> None:
    pages = generate.law_pages()
    assert {path.name for path in generate.LAW_PAGES.glob("*.md")} == pages.keys()
    for name, text in pages.items():
        assert (generate.LAW_PAGES / name).read_text() == text, "run: python docs/generate.py"


def test_the_ten_usual_changes_name_files_that_are_there_and_definitions_in_them() -> None:
    """What CONTRIBUTING tells to touch exists, each row names tests, and each file has the pattern that the row is about."""
    rows = [line.strip("|").split("|") for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if line.startswith("| ")][
        1:
    ]
    changes = {name.strip(): (write, then) for name, write, then in rows}
    usual = {"combinator", "algorithm", "estimator", "env backend", "runtime", "rule", "logger", "network", "law", "column"}
    assert changes.keys() == usual
    for change, (write, then) in changes.items():
        paths = re.findall(r"`([\w/]+/[\w/.]+|pyproject.toml)`", write + then)
        assert [path for path in paths if not (ROOT / path).exists()] == [], change
        assert any(path.startswith("tflow/") for path in paths), change
        assert any(path.startswith("tests/") for path in re.findall(r"`([\w/.]+)`", then)) or "docs/generate.py" in then, change
    defined = {
        "tflow/combinators/nodes/unary.py": "class Map",
        "tflow/runtime/build.py": "CELLS",
        "tflow/algos/names.py": "a2c",
        "tflow/runtime/base.py": "class Runtime",
        "tests/laws/world.py": "RUNTIMES",
        "tflow/mypy_plugin/codes.py": "tflow-sync",
        "tflow/observe/loggers.py": "def loggers_in",
        "tflow/models.py": "MLP",
        "tflow/rl/__init__.py": "NamedBatch",
    }
    for path, text in defined.items():
        assert text in (ROOT / path).read_text(), path
        assert f"`{path}`" in (ROOT / "CONTRIBUTING.md").read_text(), path
