"""A report as SARIF 2.1.0, which code scanning services read."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

from tflow.checking.findings import Finding, Report
from tflow.checking.pages import pages

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"


def as_sarif(report: Report, folder: Path) -> str:
    from tflow import __version__

    rules = described_rules(report)
    index = {rule["id"]: number for number, rule in enumerate(rules)}
    run = {
        "tool": {"driver": {"name": "tflow check", "semanticVersion": __version__, "rules": rules}},
        "originalUriBaseIds": {ROOT: {"description": {"text": "The folder in which tflow check was run."}}},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": report.exit_code != 2,
                "exitCode": report.exit_code,
                "toolExecutionNotifications": [
                    *([{"level": "error", "message": {"text": report.failure}}] if report.failure else []),
                    *(
                        {"level": "error", "message": {"text": each.in_full}, "locations": [location(each, folder)]}
                        for each in report.unreadable
                    ),
                ],
            }
        ],
        "results": [
            {
                "ruleId": each.code,
                "ruleIndex": index[each.code],
                "level": "error",
                "message": {"text": each.in_full},
                "locations": [location(each, folder)],
            }
            for each in report.findings
        ],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def described_rules(report: Report) -> list[dict[str, object]]:
    """All of ours, with their pages; of those of mypy (``--all``) only the names."""
    ours: list[dict[str, object]] = [
        {
            "id": page.code,
            "shortDescription": {"text": page.title},
            "fullDescription": {"text": page.why},
            "help": {"text": page.text, "markdown": page.text},
            "defaultConfiguration": {"level": "error"},
        }
        for page in pages().values()
    ]
    others = sorted({finding.code for finding in report.findings} - pages().keys())
    return ours + [{"id": code} for code in others]


def location(finding: Finding, folder: Path) -> dict[str, object]:
    if finding.file.startswith("../"):  # outside: no path from the root says where it is
        artifact = {"uri": (folder / finding.file).resolve().as_uri()}
    else:
        artifact = {"uri": quote(finding.file), "uriBaseId": ROOT}
    region = {
        "startLine": finding.line,
        "startColumn": finding.column,
        "endLine": finding.end_line,
        "endColumn": finding.end_column,
    }
    if finding.cell is None:
        return {"physicalLocation": {"artifactLocation": artifact, "region": region}}
    return {  # the lines of a cell are not those of the file
        "physicalLocation": {"artifactLocation": artifact, "region": {"startLine": 1}},
        "logicalLocations": [{"name": f"cell {finding.cell}", "kind": "cell"}],
        "properties": {"cell": finding.cell, **region},
    }
