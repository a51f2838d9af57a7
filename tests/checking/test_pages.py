"""There is a page per rule, and what it says is true."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from tests.checking.support import run, write
from tflow.checking.command import show_page
from tflow.checking.engine import Engine
from tflow.checking.pages import Page, code_of, pages
from tflow.errors import PlanError
from tflow.mypy_plugin.codes import TITLES

WITH_BLOCKS = sorted(TITLES.keys() - {"tflow-unchecked"})


def block(page: Page, heading: str) -> str:
    found = re.findall(rf"^## {heading}\n\n```python\n(.*?)^```$", page.text, re.DOTALL | re.MULTILINE)
    assert len(found) == 1, f"{page.code}: one block under {heading}"
    return str(found[0])


def test_every_rule_has_a_page_with_its_title() -> None:
    assert {page.code: page.title for page in pages().values()} == TITLES


@pytest.mark.parametrize("code", TITLES)
def test_pages_have_one_form(code: str) -> None:
    page = pages()[code]
    parts = ["Wrong", "Right", "Switch it off"] if code in WITH_BLOCKS else ["Switch it off"]
    assert re.findall(r"^## (.*)$", page.text, re.MULTILINE) == parts
    assert page.text.startswith(f"# {code}: {page.title}\n\n{page.why.split()[0]}")
    assert f"# tflow: ignore[{code.removeprefix('tflow-')}]" in page.text
    assert len(page.why) > 100
    assert max(map(len, page.text.splitlines())) <= 135


def test_wrong_gives_the_rule_on_the_marked_line_and_right_gives_nothing(project: Path) -> None:
    marked = set()
    for code in WITH_BLOCKS:
        name = code.removeprefix("tflow-")
        wrong, right = block(pages()[code], "Wrong"), block(pages()[code], "Right")
        lines = [number for number, line in enumerate(wrong.splitlines(), 1) if line.endswith(f"  # {code}")]
        assert len(lines) == 1, f"{code}: mark one line with the code"
        marked.add((f"{name}_wrong.py", lines[0], code))
        write(project, {f"{name}_wrong.py": wrong, f"{name}_right.py": right})
    with Engine(project) as engine:
        found = engine.check(sorted(path.name for path in project.glob("*.py")))
    assert {(finding.file, finding.line, finding.code) for finding in found} == marked
    assert len(found) == len(marked)


@pytest.mark.parametrize("name", ["linear", "tflow-linear"])
def test_explain_prints_the_page_as_it_is_where_nobody_sees_it(name: str, tmp_path: Path) -> None:
    done = run("--explain", name, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, pages()["tflow-linear"].text)


def test_explain_sets_the_page_on_a_terminal() -> None:
    written = io.StringIO()
    show_page("linear", Console(file=written, force_terminal=True, width=100))
    assert "\x1b[" in written.getvalue()
    assert "```" not in written.getvalue()
    assert "a stream is consumed twice" in written.getvalue()


def test_an_unknown_rule_is_a_sentence_with_the_nearest(tmp_path: Path) -> None:
    done = run("--explain", "linaer", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip().endswith("Did you mean 'linear'?")
    with pytest.raises(PlanError, match=r"^There is no rule 'tflow-x'; there are columns, flow, .* and unused\.$"):
        code_of("tflow-x")
