"""Mutation testing of one module: ``make mutants MODULE=tflow/runtime/gather.py``. Not part of CI: it takes minutes.

Cosmic Ray changes one thing at a time in a copy of the project, and the laws and unit tests, with few examples each, must notice.
Prints the share of mutants that were killed, and a diff for each that survived.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
COPIED = ("tflow", "tests", "docs", "examples", "pyproject.toml", "README.md", "Makefile")
JUDGES = (  # the quickest to notice come first
    *(f"tests/unit/test_{name}.py" for name in ("run", "corners", "freshness", "sim", "stats", "teardown", "validation")),
    *(
        f"tests/laws/test_{name}.py"
        for name in ("merge_and_split", "gather", "faults", "runs", "combinators", "transforms", "bad_input")
    ),
)
TIMEOUT_S = 60.0
TOOLS = Path(sys.executable).parent

# One mutant of each kind is enough: `+` for `-` says as much as `+` for `**`. `|` stands mostly in annotations, which do not run.
LEFT_OUT = (
    "core/ReplaceBinaryOperator_(?!Add_Sub|Sub_Add|Mul_Div|Div_Mul|Mod_Mul|FloorDiv_Mul).*",
    "core/ReplaceComparisonOperator_(?!Eq_NotEq|NotEq_Eq|Lt_LtE|LtE_Lt|Gt_GtE|GtE_Gt|Lt_GtE|Gt_LtE|Is_IsNot|IsNot_Is|In_NotIn|NotIn_In).*",
    "core/ReplaceUnaryOperator_(?!Delete_Not|USub_UAdd).*",
    "core/RemoveDecorator",
)


def prepare(module: str, folder: Path) -> Path:
    """A copy of the project, with a configuration for Cosmic Ray in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        ignore = shutil.ignore_patterns("__pycache__", ".mypy_cache")
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignore)
        else:
            shutil.copy(source, folder / name)
    judge = f"{sys.executable} -m pytest -x -q --failed-first -k 'not shuffled' {' '.join(JUDGES)}"  # what noticed one often notices the next
    left_out = ", ".join(f"'{operator}'" for operator in LEFT_OUT)
    config = folder / "mutants.toml"
    config.write_text(
        f"""[cosmic-ray]
module-path = "{module}"
timeout = {TIMEOUT_S}
excluded-modules = []
test-command = "{judge}"
[cosmic-ray.distributor]
name = "local"
[cosmic-ray.filters.operators-filter]
exclude-operators = [{left_out}]
"""
    )
    return config


def again(module: str, folder: Path) -> None:
    """Only what survived, if the module itself has not changed since."""
    if (folder / module).read_text() != (ROOT / module).read_text():
        sys.exit(f"{module} has changed since the last run; run all of it.")
    session = (folder / "session.sqlite").read_bytes()
    config = prepare(module, folder)
    (folder / "session.sqlite").write_bytes(session)
    with sqlite3.connect(folder / "session.sqlite") as results:
        results.execute("delete from work_results where test_outcome = 'SURVIVED'")
    execute(folder, [TOOLS / "cosmic-ray", "exec", config, "session.sqlite"])


def run(module: str, folder: Path) -> None:
    config = prepare(module, folder)
    execute(folder, [TOOLS / "cosmic-ray", "init", config, "session.sqlite"])
    execute(folder, [TOOLS / "cr-filter-operators", "session.sqlite", config])
    execute(folder, [TOOLS / "cosmic-ray", "exec", config, "session.sqlite"])


def execute(folder: Path, command: list[str | Path]) -> None:
    environment = {**os.environ, "PYTHONPATH": str(folder), "HYPOTHESIS_PROFILE": "mutants", "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([str(part) for part in command], cwd=folder, env=environment, check=True)


def report(module: str, folder: Path) -> None:
    with sqlite3.connect(folder / "session.sqlite") as session:
        rows = session.execute(
            "select r.test_outcome, r.diff, m.operator_name, m.start_pos_row from work_results r join mutation_specs m"
            " on r.job_id = m.job_id where r.worker_outcome != 'SKIPPED' order by m.start_pos_row"
        ).fetchall()
    survived = [row for row in rows if row[0] == "SURVIVED"]
    for _, diff, operator, line in survived:
        print(f"--- line {line}, {operator.removeprefix('core/')}")
        print("\n".join(text for text in diff.splitlines() if text[:1] in "+-" and text[:3] not in ("+++", "---")))
    killed = len(rows) - len(survived)
    print(f"{module}: {killed} of {len(rows)} mutants killed, {killed / max(len(rows), 1):.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", help="such as tflow/runtime/gather.py")
    parser.add_argument("--report", action="store_true", help="only report on the last run")
    parser.add_argument("--again", action="store_true", help="try those that survived the last run with the tests of today")
    arguments = parser.parse_args()
    folder = ROOT / "build" / "mutants" / Path(arguments.module).stem
    if arguments.again:
        again(arguments.module, folder)
    elif not arguments.report:
        run(arguments.module, folder)
    report(arguments.module, folder)


if __name__ == "__main__":
    main()
