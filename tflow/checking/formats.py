"""A report for people (text), for programs (JSON) and for GitHub (annotations). SARIF has a file of its own."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path, PurePath

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tflow.checking.findings import UNCHECKED, Finding, Report

INDENT = "    "


def show_text(report: Report, console: Console) -> None:
    """``file:line:column: message  [code]``, the line itself with the place marked, and notes."""
    for finding in (*report.unreadable, *report.findings):
        show_finding(finding, console)
    console.print(Text(report.summary, ("green", "red", "red")[report.exit_code]), soft_wrap=True)


def show_finding(finding: Finding, console: Console) -> None:
    line = Text.assemble((f"{finding.place}:", "bold"), f" {finding.message}  ", (f"[{finding.code}]", "yellow"))
    console.print(line, soft_wrap=True)
    for text, style in marked(finding):
        console.print(Text(f"{INDENT}{text}", style), soft_wrap=True)


def marked(finding: Finding) -> Iterator[tuple[str, str]]:
    """The line, carets under the place, and the notes, each with its style."""
    if finding.source.strip():
        before = finding.source[: finding.column - 1].expandtabs(4)
        whole = finding.source.expandtabs(4)
        indentation = len(whole) - len(whole.lstrip())
        one_line = finding.end_line == finding.line
        place = finding.source[finding.column - 1 : finding.end_column - 1 if one_line else None].rstrip()
        yield whole.strip(), "dim"
        yield " " * max(0, cell_len(before) - indentation) + "^" * max(1, cell_len(place)), "red"
    for note in finding.notes:
        yield f"note: {note}", ""


def as_json(report: Report) -> str:
    """One object: the findings, what could not be read, and counts."""
    return json.dumps(
        {
            "findings": [as_record(finding) for finding in report.findings],
            "syntax_errors": [as_record(finding) for finding in report.unreadable],
            "counts": {
                "findings": len(report.findings),
                "files": report.files,
                "files_with_findings": len({finding.file for finding in report.findings}),
                "other_errors": report.hidden,
                "unchecked": sum(finding.code == UNCHECKED for finding in report.findings),
                "by_code": dict(sorted(Counter(finding.code for finding in report.findings).items())),
            },
            "failure": report.failure,
            "exit_code": report.exit_code,
        },
        indent=2,
    )


def as_record(finding: Finding) -> dict[str, object]:
    return {key: value for key, value in asdict(finding).items() if key != "source"}


def as_github(report: Report, folder: Path) -> str:
    """Workflow commands, which GitHub shows at the lines of a pull request, and the summary."""
    findings = (*report.unreadable, *report.findings)
    failure = [f"::error::{in_message(report.failure)}"] if report.failure else []
    return "\n".join([*failure, *(annotation(finding, folder) for finding in findings), report.summary])


def annotation(finding: Finding, folder: Path) -> str:
    file = in_repository(finding.file, folder)
    fields: dict[str, object] = {"file": file, "line": finding.line, "endLine": finding.end_line}
    if finding.cell is not None:  # its lines are not those of the file: the message says where it is
        fields = {"file": file, "line": 1}
    elif finding.end_line == finding.line:  # GitHub knows columns only within a line
        fields |= {"col": finding.column, "endColumn": finding.end_column}
    fields["title"] = finding.code
    shown = ",".join(f"{name}={in_property(str(value))}" for name, value in fields.items())
    return f"::error {shown}::{in_message(finding.in_full)}"


def in_repository(file: str, folder: Path) -> str:
    """GitHub takes paths from the root of the repository, wherever the command runs."""
    root = os.environ.get("GITHUB_WORKSPACE")
    if not root:
        return file
    path, top = (folder / file).resolve(), Path(root).resolve()
    return PurePath(path.relative_to(top)).as_posix() if path.is_relative_to(top) else file


def in_message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def in_property(text: str) -> str:
    return in_message(text).replace(":", "%3A").replace(",", "%2C")
