"""docs/checking.md, and what the README shows of checking: examples are what the command prints, and settings fit that."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # without types of its own

from tests.checking.support import SCRIPT, WRONG, run, write
from tflow import PlanError
from tflow.checking.config import settings
from tflow.checking.engine import CACHE
from tflow.checking.pages import pages

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "checking.md").read_text()


def blocks(language: str, page: str = PAGE) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [body for kind, body in found if kind == language]


@pytest.fixture(scope="module")
def output(warm: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the command prints about the example, and about a line that itself looks like a finding."""
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(warm, folder / CACHE)
    odd = WRONG.replace("batch(0)", "batch(0)  # a.py:1:2: no  [code]")
    write(folder, {"plans.py": blocks("python")[0], "a folder/b.py": odd})
    return run("plans.py", cwd=folder).stdout + run("a folder", cwd=folder).stdout


PLACES = [("plans.py", "7", "15", "tflow-linear"), ("a folder/b.py", "6", "26", "tflow-literal")]


def test_the_example_is_what_the_command_prints(output: str) -> None:
    example = next(body for body in blocks("") if body.startswith("plans.py:"))
    assert output.startswith(example)


def test_the_type_error_of_the_readme_is_what_users_see(project: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    _, code, _ = blocks("python", readme)
    wrong = code.replace(".par_for_each(ComputeGradients()).gather_async()", ".gather_async().for_each(ComputeGradients())")
    imports, rest = wrong.split("\n\n")
    body = "".join(f"    {line.partition('  #')[0]}\n" for line in rest.splitlines())
    write(project, {"plan.py": f"{imports}\n\n\ndef a3c() -> None:\n{body}"})
    done = run("plan.py", cwd=project)
    (shown,) = [block for block in blocks("", readme) if "Ill-typed plan" in block]
    first, second, *drawn = shown.splitlines()
    assert done.stdout.splitlines()[:3] == [f"{first} {second}", *drawn]
    with pytest.raises(PlanError) as caught:
        exec(compile(wrong + "plan.validate()", "README.md", "exec", dont_inherit=True), {})
    assert str(caught.value) in f"{first} {second}"


def test_the_commands_of_the_page_exist(tmp_path: Path) -> None:
    options = set(re.findall(r"tflow check.*?(--[a-z]+)", PAGE))
    shown = run("--help", cwd=tmp_path, COLUMNS="200", TERM="dumb").stdout
    assert options >= {"--watch", "--explain", "--disable", "--ours", "--format"}
    assert {option for option in options if option not in shown} == set()


def test_the_settings_of_projects_are_accepted(tmp_path: Path) -> None:
    plugin, project, _ = blocks("toml")
    assert tomllib.loads(plugin) == {"tool": {"mypy": {"plugins": ["tflow.mypy_plugin"]}}}
    write(tmp_path, {"pyproject.toml": project})
    read = settings(tmp_path)
    assert (read.disable, read.skip, read.paths) == (frozenset(["tflow-unused"]), ("jax",), ("plans", "train.py"))


# ------------------------------------------------------------------- editors


def test_the_settings_of_vs_code_exist() -> None:
    settings, _ = map(json.loads, blocks("json"))
    package = json.loads((ROOT / "editors" / "vscode" / "package.json").read_text())
    assert settings.keys() == package["contributes"]["configuration"]["properties"].keys()


def test_every_editor_starts_the_server() -> None:
    """The older of both recipes for Neovim runs in ``tests/checking/lsp/test_editor.py``."""
    assert all('cmd = { "tflow", "lsp" }' in recipe for recipe in blocks("lua"))
    helix = tomllib.loads(blocks("toml")[2])
    assert helix["language-server"]["tflow"] == {"command": "tflow", "args": ["lsp"]}


def test_the_output_filter_of_pycharm_fits(output: str) -> None:
    (shown,) = re.findall(r"^\| Output filters \| `(.*)` \|$", PAGE, re.MULTILINE)
    names = {"FILE_PATH": r"([^\s:][^:]*)", "LINE": r"(\d+)", "COLUMN": r"(\d+)", "MESSAGE": "(.*)"}
    pattern = re.sub(r"\$(\w+)\$", lambda name: names[name[1]], shown)
    found = [match for line in output.splitlines() if (match := re.fullmatch(pattern, line))]
    assert [(match[1], match[2], match[3]) for match in found] == [place[:3] for place in PLACES]


# ------------------------------------------------------------------- hooks and workflows


def test_the_hook_of_pre_commit_is_complete() -> None:
    hook, *_ = map(yaml.safe_load, blocks("yaml"))
    (only,) = hook["repos"][0]["hooks"]
    assert only["entry"] == "tflow check"
    assert {"id", "name", "language", "types"} <= only.keys()
    assert only["require_serial"], "files that import each other are checked together"


def test_the_workflows_run_the_command_in_the_right_format() -> None:
    _, annotations, scanning = map(yaml.safe_load, blocks("yaml"))
    for workflow, form in ((annotations, "github"), (scanning, "sarif")):
        steps = workflow["jobs"]["check"]["steps"]
        runs = [step["run"] for step in steps if "run" in step]
        assert any(f"tflow check --format {form}" in command for command in runs)
        assert all("uses" in step or "run" in step for step in steps)
    assert scanning["permissions"]["security-events"] == "write"
    upload = scanning["jobs"]["check"]["steps"][-1]
    assert upload["with"]["sarif_file"] == "tflow.sarif"


def test_the_place_for_the_table_is_there() -> None:
    assert re.search(r"^<!-- table -->\n(.*\n)*<!-- end -->$", PAGE, re.MULTILINE)


@pytest.mark.types
def test_what_the_page_says_about_pyrefly(tmp_path: Path) -> None:
    wrong = re.findall(r"^```python\n(.*?)^```$", pages()["tflow-flow"].text, re.DOTALL | re.MULTILINE)[0]
    write(tmp_path, {"plans.py": wrong})
    command = [str(SCRIPT.parent / "pyrefly"), "check", "--python-interpreter-path", sys.executable]
    (setting,) = set(re.findall(r"`(preset = .*?)`", PAGE))
    for config, code in (("", 0), (setting, 1)):
        if config:
            write(tmp_path, {"pyrefly.toml": config})
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == code, done.stdout + done.stderr
