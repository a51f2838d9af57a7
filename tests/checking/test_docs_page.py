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
from tests.checking.test_watch import Watched
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
    plugin, project = blocks("toml")
    assert tomllib.loads(plugin) == {"tool": {"mypy": {"plugins": ["tflow.mypy_plugin"]}}}
    write(tmp_path, {"pyproject.toml": project})
    read = settings(tmp_path)
    assert (read.disable, read.skip, read.paths) == (frozenset(["tflow-unused"]), ("jax",), ("plans", "train.py"))


# ------------------------------------------------------------------- editors


def test_the_problem_matcher_of_vs_code_fits(output: str) -> None:
    _, tasks = map(json.loads, blocks("json"))
    (task,) = tasks["tasks"]
    pattern = task["problemMatcher"]["pattern"]
    found = [match for line in output.splitlines() if (match := re.search(pattern["regexp"], line))]
    fields = [tuple(match[pattern[name]] for name in ("file", "line", "column", "code")) for match in found]
    assert fields == PLACES
    assert found[0][pattern["message"]].startswith('The stream "rewards"')
    assert found[0][pattern["message"]].endswith("split()`.")
    cell = re.search(pattern["regexp"], "nb/a.ipynb:cell 3:2:5: Not so.  [tflow-linear]")
    assert cell is not None
    assert [cell[pattern[name]] for name in ("file", "line", "column")] == ["nb/a.ipynb", "2", "5"]


def test_vs_code_knows_when_a_check_begins_and_ends(tmp_path: Path) -> None:
    (task,) = json.loads(blocks("json")[1])["tasks"]
    background = task["problemMatcher"]["background"]
    for files in ({"a.py": ""}, {"b.py": ""}):
        write(tmp_path, files)
        watched = Watched(tmp_path)
        watched.watch.turn()
        begins = [bool(re.search(background["beginsPattern"], line)) for line in watched.said]
        ends = [bool(re.search(background["endsPattern"], line)) for line in watched.said]
        assert begins == [True, False, False]
        assert ends == [False, False, True]


def test_the_pattern_of_neovim_fits(output: str) -> None:
    (code,) = blocks("lua")
    (pattern,) = re.findall(r'"(\^\(.*\$)"', code)
    groups = re.findall(r'"(\w+)"', re.findall(r"\{ (\"file\".*?) \}", code)[0])
    found = [
        dict(zip(groups, match.groups(), strict=True))
        for line in output.splitlines()
        if (match := as_regexp(pattern).match(line))
    ]
    assert [(each["file"], each["lnum"], each["col"], each["code"]) for each in found] == PLACES


def as_regexp(lua: str) -> re.Pattern[str]:
    """A pattern of Lua as one of Python, as far as the page needs it. Groups, sets and repetition are alike."""
    letters = {"%d": r"\d", "%s": r"\s", "%w": "a-zA-Z0-9", "%[": r"\[", "%]": r"\]"}
    assert set(re.findall(r"%.", lua)) <= letters.keys()
    return re.compile(re.sub(r"%.", lambda found: letters[found[0]], lua))


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
