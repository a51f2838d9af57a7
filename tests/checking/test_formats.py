"""A report in each format."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import cast

import jsonschema  # type: ignore[import-untyped]  # without types of its own
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.checking.support import a_finding
from tflow.checking.findings import Finding, Report
from tflow.checking.formats import annotation, as_github, as_json, show_text
from tflow.checking.pages import pages
from tflow.checking.sarif import as_sarif

validate = jsonschema.validate
SCHEMA = json.loads((Path(__file__).parent / "sarif_schema.json").read_text())


def shown(report: Report, **options: object) -> str:
    written = io.StringIO()
    show_text(report, Console(file=written, highlight=False, **options))  # type: ignore[arg-type]  # options by name
    return written.getvalue()


def body_of(finding: Finding) -> list[str]:
    """What is under the line with the message, without the summary."""
    return shown(Report((finding,), files=1)).split("\n")[1:-2]


def test_text_shows_the_line_and_marks_the_place() -> None:
    finding = a_finding(
        "Not [bold]so[/] :smile:", notes=("First consumed in line 2.", "Or so."), source="  x = abc(1)  # why", column=7
    )
    other = a_finding("Wrong type", code="assignment", file="b.py", source="")
    assert shown(Report((finding, other), hidden=3, files=9)).split("\n") == [
        "plans/a.py:3:7: Not [bold]so[/] :smile:  [tflow-linear]",
        "    x = abc(1)  # why",
        "        ^",
        "    note: First consumed in line 2.",
        "    note: Or so.",
        "b.py:3:5: Wrong type  [assignment]",
        "2 findings in 2 files; 3 errors of other kinds are not shown (leave out --ours, or use your own type checker)",
        "",
    ]


def test_a_long_line_is_not_broken() -> None:
    long = "word " * 100
    assert f"plans/a.py:3:5: {long}  [tflow-linear]\n" in shown(Report((a_finding(long),)), width=40)


@pytest.mark.parametrize(
    ("source", "column", "end_column", "end_line", "marked"),
    [
        ("x = abc(1)", 5, 11, 3, "    ^^^^^^"),
        ("    x = abc(1)", 9, 15, 3, "    ^^^^^^"),
        ("\tx = abc(1)", 6, 12, 3, "    ^^^^^^"),
        ("日本 = abc(日, 1)", 6, 15, 3, "       ^^^^^^^^^^"),
        ("x = abc(  # more", 5, 3, 4, "    ^^^^^^^^^^^^"),
        ("x = abc", 8, 8, 3, "       ^"),
    ],
)
def test_carets_are_under_the_place(source: str, column: int, end_column: int, end_line: int, marked: str) -> None:
    finding = a_finding(source=source, column=column, end_column=end_column, end_line=end_line)
    assert body_of(finding) == [f"    {source.expandtabs(4).strip()}", f"    {marked}"]


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report((a_finding(),))
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    assert "\x1b[" not in shown(report)
    assert "\x1b[33m[tflow-linear]" in shown(report, force_terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[\d*;?3\d", shown(report, force_terminal=True)), "bold may stay, colours not"


@pytest.mark.parametrize(
    ("report", "summary"),
    [
        (Report(files=1), "No findings in 1 file"),
        (
            Report(files=3, hidden=1),
            "No findings in 3 files; 1 error of other kinds is not shown (leave out --ours, or use your own type checker)",
        ),
        (Report((a_finding(), a_finding(line=4)), files=3), "2 findings in 1 file"),
        (
            Report((a_finding(),), (a_finding(code="syntax"),), files=2),
            "1 syntax error: repair it first, what it hides was not checked; 1 finding in 1 file",
        ),
    ],
)
def test_the_last_line_counts(report: Report, summary: str) -> None:
    assert report.summary == summary


def test_json_has_findings_and_counts() -> None:
    unchecked = a_finding(code="tflow-unchecked", file="b.py")
    made = json.loads(as_json(Report((a_finding(notes=("n",)), unchecked), (a_finding(code="syntax"),), hidden=4, files=7)))
    assert made["findings"][0] == {
        "file": "plans/a.py",
        "line": 3,
        "column": 5,
        "end_line": 3,
        "end_column": 8,
        "message": "Not so.",
        "code": "tflow-linear",
        "notes": ["n"],
        "cell": None,
    }
    assert [each["code"] for each in made["syntax_errors"]] == ["syntax"]
    assert made["counts"] == {
        "findings": 2,
        "files": 7,
        "files_with_findings": 2,
        "other_errors": 4,
        "unchecked": 1,
        "by_code": {"tflow-linear": 1, "tflow-unchecked": 1},
    }
    assert made["exit_code"] == 2


# ------------------------------------------------------------------- GitHub


def test_annotations_are_escaped() -> None:
    finding = a_finding("50% of: a, b\r\nc", file="odd,name:%.py", notes=("n",))
    assert annotation(finding, Path()) == (
        "::error file=odd%2Cname%3A%25.py,line=3,endLine=3,col=5,endColumn=8,title=tflow-linear::50%25 of: a, b%0D%0Ac%0An"
    )
    assert "col=" not in annotation(a_finding(end_line=4), Path()), "GitHub takes columns only within one line"


@given(st.text(), st.text(st.characters(exclude_characters="\0/"), min_size=1))
def test_what_is_escaped_can_be_read_back(message: str, file: str) -> None:
    line = annotation(a_finding(message, file=file), Path("/nowhere"))
    assert not re.search(r"[\r\n]", line)
    read = re.fullmatch(r"::error file=([^,:]*),line=3,.*?::(.*)", line)
    assert read
    assert (unescaped(read[1]), unescaped(read[2])) == (file, message)


def unescaped(text: str) -> str:
    for code, letter in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(code, letter)
    return text


def test_paths_count_from_the_root_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    first, last = as_github(Report((a_finding(),), files=1), tmp_path / "sub").splitlines()
    assert first.startswith("::error file=sub/plans/a.py,line=3")
    assert last == "1 finding in 1 file"
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "sub" / "other"))
    assert as_github(Report((a_finding(),)), tmp_path / "sub").startswith("::error file=plans/a.py,")


def test_an_annotation_of_a_notebook_names_the_cell() -> None:
    """GitHub counts the lines of the file, which are those of JSON."""
    shown = as_github(Report((a_finding(file="a.ipynb", cell=4),)), Path("/project"))
    assert shown.startswith("::error file=a.ipynb,line=1,title=tflow-linear::Cell 4, line 3: Not so.")


# ------------------------------------------------------------------- SARIF

EVERYTHING = Report(
    (
        a_finding(notes=("n",)),
        a_finding(code="assignment", file="a folder/ä#?.py"),
        a_finding(file="../outside.py", end_line=9, end_column=1),
        a_finding(code="tflow-unchecked"),
        a_finding(file="plans/a.ipynb", cell=4),
    ),
    (a_finding("Never closed", code="syntax"),),
    hidden=2,
    files=5,
)


@pytest.mark.parametrize("report", [Report(files=3), EVERYTHING])
def test_sarif_is_as_the_schema_says(report: Report) -> None:
    made = json.loads(as_sarif(report, Path("/project")))
    validate(made, SCHEMA)


def test_the_schema_would_notice() -> None:
    made = json.loads(as_sarif(EVERYTHING, Path("/project")))
    made["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    with pytest.raises(jsonschema.ValidationError):
        validate(made, SCHEMA)


def test_sarif_says_where_and_which_rule() -> None:
    (run,) = json.loads(as_sarif(EVERYTHING, Path("/some/project")))["runs"]
    rules = run["tool"]["driver"]["rules"]
    linear, other, outside, _, cell = run["results"]
    assert rules[linear["ruleIndex"]]["id"] == "tflow-linear"
    assert rules[linear["ruleIndex"]]["shortDescription"]["text"] == pages()["tflow-linear"].title
    assert "## Wrong" in rules[linear["ruleIndex"]]["help"]["markdown"]
    assert linear["message"]["text"] == "Not so.\nn"
    assert place(linear) == {
        "artifactLocation": {"uri": "plans/a.py", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 3, "startColumn": 5, "endLine": 3, "endColumn": 8},
    }
    assert rules[other["ruleIndex"]] == {"id": "assignment"}
    assert place(other)["artifactLocation"] == {"uri": "a%20folder/%C3%A4%23%3F.py", "uriBaseId": "%SRCROOT%"}
    assert place(outside)["artifactLocation"] == {"uri": "file:///some/outside.py"}
    assert cell["message"]["text"] == "Cell 4, line 3: Not so."
    assert place(cell)["region"] == {"startLine": 1}, "the lines of a cell are not those of the file"
    (location,) = cell["locations"]
    assert location["logicalLocations"] == [{"name": "cell 4", "kind": "cell"}]
    assert location["properties"] == {"cell": 4, "startLine": 3, "startColumn": 5, "endLine": 3, "endColumn": 8}
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 2)
    assert invocation["toolExecutionNotifications"][0]["message"]["text"] == "Never closed"


def place(result: dict[str, object]) -> dict[str, object]:
    (location,) = cast("list[dict[str, dict[str, object]]]", result["locations"])
    return location["physicalLocation"]


def test_a_check_without_findings_is_a_success_in_sarif() -> None:
    (run,) = json.loads(as_sarif(Report(files=3), Path("/project")))["runs"]
    assert run["invocations"] == [{"executionSuccessful": True, "exitCode": 0, "toolExecutionNotifications": []}]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == set(pages())
