"""What the documents say is true: snippets run, outputs match, tables are up to date, examples work."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from docs import generate
from tflow import Metrics, Plan

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CONFIG = str(ROOT / "tests" / "types" / "mypy.ini")  # it does not follow torch
MYPY = [sys.executable, "-m", "mypy", "--strict", "--allow-subclassing-any", "--config-file", CONFIG]
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.name != "__init__.py")


def blocks(text: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [body for kind, body in found if kind == language]


def test_the_plan_of_the_readme_runs_and_prints_what_it_says() -> None:
    code, plan, algorithm, _ = blocks(README, "python")
    outputs = blocks(README, "")
    shown = io.StringIO()
    scope: dict[str, object] = {"__name__": "readme"}
    learning: dict[str, object] = {}
    sys.modules["readme"] = type(sys)("readme")
    with contextlib.redirect_stdout(shown):
        exec(compile(code, "README.md", "exec", dont_inherit=True), scope)
        exec(compile(plan, "README.md", "exec", dont_inherit=True), learning)
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(algorithm, "README.md", "exec", dont_inherit=True), trained := dict[str, object]())
    assert trained["action"] in (0, 1)
    assert shown.getvalue() in outputs
    a3c = cast("Plan[Metrics]", learning["plan"])
    with a3c.run() as run:
        assert next(run).training.updates == 1
    stream = scope["stats"]
    drawn = str(stream).splitlines()
    (graph,) = [output.splitlines() for output in outputs if output.startswith("Iter of str")]
    assert graph == drawn, "the fingerprint depends on the version of Python, so this is for the one we test with"


@pytest.mark.ray
def test_the_plan_of_the_readme_runs_on_ray(tmp_path: Path) -> None:
    first, _, _, on_ray = blocks(README, "python")
    (tmp_path / "readme.py").write_text(f"{first}\n{on_ray}")
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    command = [sys.executable, "readme.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment)
    here, there = done.stdout.splitlines()[:3], done.stdout.splitlines()[3:]
    assert here == ["update 1 from shard 0", "update 2 from shard 1", "update 3 from shard 0"], done.stderr
    assert [line.split(" from ")[0] for line in there] == ["update 1", "update 2", "update 3"]


@pytest.mark.parametrize("page", ["guide", "rl", "algorithms", "customising", pytest.param("ray", marks=pytest.mark.ray)])
def test_the_guides_run_and_type_check(page: str, tmp_path: Path) -> None:
    code = "\n".join(blocks((ROOT / "docs" / f"{page}.md").read_text(), "python"))
    (tmp_path / "guide.py").write_text(code)
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    subprocess.run([sys.executable, "guide.py"], cwd=tmp_path, check=True, timeout=120, env=environment)
    command = [*MYPY, "--cache-dir", str(tmp_path / "cache"), "guide.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def test_the_type_errors_of_the_readme_are_what_users_see(tmp_path: Path) -> None:
    code, *_ = blocks(README, "python")
    wrong = "from_actors(workers, Worker.sample).gather_async().for_each(ComputeGradient())"
    (tmp_path / "wrong.py").write_text(f"{code}\nbad = {wrong}\n")
    command = [*MYPY, "--cache-dir", str(tmp_path / "cache"), "wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    message = re.search(r"error: (Argument.*?)  \[arg-type\]", done.stdout)
    assert message, done.stdout
    assert f"error: {message.group(1)}\n" in README
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{wrong}.validate()"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    sentence = done.stderr.strip().splitlines()[-1].removeprefix("tflow.errors.PlanError: ")
    assert sentence in " ".join(README.split())


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


def test_the_operator_tables_are_up_to_date() -> None:
    text = generate.PAGE.read_text()
    assert generate.page(text) == text, "run: python docs/generate.py"
    text = generate.ALGORITHMS_PAGE.read_text()
    assert generate.algorithms_page(text) == text, "run: python docs/generate.py"
    for kind in generate.CONFIGURATIONS:
        text = Path(inspect.getfile(kind)).read_text()
        assert generate.documented(text, kind) == text, "run: python docs/generate.py"
    text = generate.CHECKING.read_text()
    assert generate.rules_page(text) == text, "run: python docs/generate.py"


def test_every_operator_is_in_the_tables() -> None:
    architecture = importlib.import_module("tests.test_architecture")
    listed = {*generate.CREATION, *generate.DRIVER, *generate.PARALLEL, *generate.JOINTS}
    built = {name.rpartition(".")[2] for name in architecture.operators()}
    assert built == listed


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.startswith(("Iter of", "ReportMetrics of"))


def test_the_bandit_learns_the_best_arm() -> None:
    from examples.bandit import bandit_plan

    *_, last = bandit_plan(num_workers=3).take(8).run(seed=1)
    assert last.chance_of_best_arm > 0.9
    assert last.mean_reward > 0.6


def test_the_testing_page_runs_prints_what_it_says_and_type_checks(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "testing.md").read_text()
    code = "\n".join(blocks(text, "python"))
    (tmp_path / "page.py").write_text(code)
    environment = {"PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(blocks(text, ""))
    command = [*MYPY, "--cache-dir", str(tmp_path / "cache"), "page.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stdout


def test_every_law_has_a_page_that_is_up_to_date() -> None:
    pages = generate.law_pages()
    assert {path.name for path in generate.LAW_PAGES.glob("*.md")} == pages.keys()
    for name, text in pages.items():
        assert (generate.LAW_PAGES / name).read_text() == text, "run: python docs/generate.py"
