"""``tflow check`` as a process: what it prints, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checking.support import RIGHT, WRONG, WRONG_LINE, run, write
from tests.checking.test_formats import SCHEMA, validate

MESSAGE = "batch: size must be at least 1, got 0. To pass items through unbatched, drop batch()."
SHOWN = f"""\
plans/a.py:{WRONG_LINE}:26: {MESSAGE}  [tflow-literal]
    return rewards.batch(0)
                         ^
"""


def test_findings_are_exit_code_1_and_none_is_0(project: Path) -> None:
    write(project, {"plans/a.py": WRONG, "plans/b.py": RIGHT, "other.py": WRONG})
    found = run("plans", cwd=project)
    assert (found.returncode, found.stdout, found.stderr) == (1, SHOWN + "1 finding in 1 file\n", "")
    clean = run("plans/b.py", cwd=project)
    assert (clean.returncode, clean.stdout, clean.stderr) == (0, "No findings in 1 file\n", "")


def test_other_errors_are_shown_and_counted_on_request(project: Path) -> None:
    write(project, {"a.py": RIGHT + "x: int = ''\ny: int = ''\n"})
    done = run("a.py", "--ours", cwd=project)
    counted = "No findings in 1 file; 2 errors of other kinds are not shown (leave out --ours, or use your own type checker)\n"
    assert (done.returncode, done.stdout) == (0, counted)
    done = run("a.py", cwd=project)
    assert done.returncode == 1
    assert "a.py:7:10: Incompatible types" in done.stdout
    assert done.stdout.splitlines()[-1] == "2 findings in 1 file"


@pytest.mark.parametrize(
    ("comment", "code"), [("# tflow: ignore[literal]", 0), ("# type: ignore[tflow-literal]", 0), ("# tflow: ignore[linear]", 1)]
)
def test_a_comment_switches_a_rule_off(project: Path, comment: str, code: int) -> None:
    write(project, {"a.py": WRONG.replace("batch(0)", f"batch(0)  {comment}")})
    assert run("a.py", cwd=project).returncode == code


def test_rules_are_switched_off_by_option_and_by_project(project: Path) -> None:
    write(project, {"plans/a.py": WRONG, "b.py": WRONG, "sub/c.txt": ""})
    assert run("plans", cwd=project).returncode == 1
    assert run("plans", "--disable", "sync", "--disable", "literal", cwd=project).returncode == 0
    write(project, {"pyproject.toml": '[tool.tflow.check]\npaths = ["plans"]\n'})
    assert run(cwd=project).stdout.splitlines()[-1] == "1 finding in 1 file"
    write(project, {"pyproject.toml": '[tool.tflow.check]\npaths = ["plans"]\ndisable = ["literal"]\n'})
    assert run(cwd=project).stdout == "No findings in 1 file\n"


def test_without_paths_the_folder_is_checked(project: Path) -> None:
    write(project, {"plans/a.py": WRONG, "b.py": RIGHT})
    done = run(cwd=project)
    assert (done.returncode, done.stdout) == (1, SHOWN + "1 finding in 1 file\n")


def test_a_library_is_skipped_by_project(project: Path) -> None:
    write(project, {"slow.py": "def f() -> int: ...\n", "a.py": "from slow import f\nx: str = f()\n"})
    assert run("a.py", cwd=project).returncode == 1
    write(project, {"pyproject.toml": '[tool.tflow.check]\nskip = ["slow"]\n'})
    assert run("a.py", cwd=project).returncode == 0


def test_what_is_right_elsewhere_is_no_error_here(project: Path) -> None:
    """A name that changes its type, and a name for a type of a library that is not followed."""
    steps = "STEPS = (abs, math.sqrt, math.floor)\n"
    loop = "def f(s: Iter[float]) -> Iter[float]:\n    c = s\n    for step in STEPS:\n        c = c.map(step)\n    return c\n"
    alias = "Tensor = torch.Tensor\n\n\ndef g(x: Tensor) -> Tensor:\n    x.sum()\n    return x\n"
    write(project, {"a.py": f"import math\nimport torch\nfrom tflow import Iter\n{steps}{loop}{alias}"})
    done = run("a.py", cwd=project)
    assert (done.returncode, done.stdout) == (0, "No findings in 1 file\n")


def test_a_syntax_error_is_exit_code_2_with_its_place(project: Path) -> None:
    write(project, {"a.py": WRONG, "b.py": "x = 1\ny = (\n"})
    done = run(".", cwd=project)
    assert done.returncode == 2
    assert done.stdout.splitlines() == [
        "b.py:2:6: '(' was never closed  [syntax]",
        "    y = (",
        "         ^",
        "1 syntax error: repair it first, what it hides was not checked",
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.py"], "There is no file or folder 'nowhere.py'."),
        (["."], "There are no Python files in '.'."),
        ([".", "--disable", "linaer"], "Did you mean 'linear'?"),
        ([".", "--watch", "--format", "json"], "--watch prints text for people; leave --format json out."),
    ],
)
def test_what_cannot_be_checked_is_a_sentence_and_exit_code_2(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip().endswith(sentence)
    assert len(done.stderr.strip().splitlines()) == 1


def test_without_mypy_it_says_what_to_install(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": RIGHT})
    code = "import sys; sys.modules['mypy'] = None; sys.argv[0] = 'tflow'; from tflow.cli import main; main()"
    command = [sys.executable, "-c", code, "check", "a.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == "Checks of plans need the package mypy: pip install 'tflow[check]'"


def test_other_formats(project: Path) -> None:
    write(project, {"plans/a.py": WRONG})
    done = run("plans", "--format", "json", cwd=project)
    assert done.returncode == 1
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["file"], finding["line"], finding["column"], finding["end_column"]) == ("plans/a.py", WRONG_LINE, 26, 27)
    done = run("plans", "--format", "github", cwd=project)
    assert done.returncode == 1
    place = f"file=plans/a.py,line={WRONG_LINE},endLine={WRONG_LINE},col=26,endColumn=27,title=tflow-literal"
    assert done.stdout == f"::error {place}::{MESSAGE}\n1 finding in 1 file\n"
    done = run("plans", "--format", "sarif", cwd=project)
    assert done.returncode == 1
    made = json.loads(done.stdout)
    validate(made, SCHEMA)
    assert made["runs"][0]["results"][0]["ruleId"] == "tflow-literal"


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    code = """
import sys
from tflow.checking import command
heavy = {"rich", "mypy", "numpy", "torch", "tflow.checking.engine"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["types.py", "typing.py"])
def test_what_mypy_refuses_to_check_is_exit_code_2_in_every_format(project: Path, name: str) -> None:
    write(project, {"a.py": WRONG, name: "x = 1\n"})
    failure = f"mypy could not check {name}: This file shadows library module"
    text, told, sarif, github = (run("a.py", "--format", kind, cwd=project) for kind in ("text", "json", "sarif", "github"))
    assert [done.returncode for done in (text, told, sarif, github)] == [2, 2, 2, 2]
    assert text.stdout.startswith(failure)
    assert text.stdout.endswith("Rename it, or put it into a package\n")
    assert json.loads(told.stdout)["failure"].startswith(failure)
    validate(json.loads(sarif.stdout), SCHEMA)
    (invocation,) = json.loads(sarif.stdout)["runs"][0]["invocations"]
    assert invocation["toolExecutionNotifications"][0]["message"]["text"].startswith(failure)
    assert github.stdout.startswith(f"::error::{failure}")
