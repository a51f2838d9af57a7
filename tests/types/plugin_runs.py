"""mypy with the plugin over the corpus, and the messages that are pinned.

``python -m tests.types.plugin_runs pin`` pins the messages again (``make pin``); read the difference before you commit it.
``... compare`` fails if the mypy of this environment says anything else; it needs nothing but mypy and numpy
(``make test-mypy-range``).
"""

from __future__ import annotations

import difflib
import re
import sys
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.types import markers
from tests.types.checkers import CORPUS, run

CONFIG = CORPUS.parent / "plugin.ini"
PINNED = CORPUS.parent / "messages.txt"
REPORT = re.compile(r"^([\w.]+):(\d+):(\d+): error: (.*)  \[([\w-]+)\]$", re.MULTILINE)
Report = tuple[str, int, int, str, str]


def check(cache: Path, *options: str) -> list[Report]:
    """What mypy reports with the plugin."""
    output = run(
        "mypy", "--config-file", str(CONFIG), "--hide-error-context", "--cache-dir", str(cache), *options, *markers.FILES
    )
    return reports(output)


def reports(output: str) -> list[Report]:
    return sorted((file, int(line), int(column), code, text) for file, line, column, text, code in REPORT.findall(output))


def ours(found: list[Report]) -> list[Report]:
    return [each for each in found if each[3].startswith("tflow-")]


def listed(found: list[Report]) -> str:
    """One line each, as mypy prints them."""
    return "".join(f"{file}:{line}:{column}: {text}  [{code}]\n" for file, line, column, code, text in found)


def written(found: list[Report]) -> str:
    """As they are pinned: below the line of the corpus that they are about. No line numbers, so that a line that is added to the
    corpus changes nothing but its own messages."""
    text = []
    sources = markers.lines()
    for (file, line), group in groupby(found, lambda each: each[:2]):
        source = re.sub(r"  # .*", "", sources[file, line])
        text += ["", f"{file}, {markers.place(file, line)}:", source]
        text += [f"{'^':>{column}} [{code}] {sentence}" for _, _, column, code, sentence in group]
    return "\n".join([*text[1:], ""])


def pinned() -> list[tuple[str, str, str, str]]:
    """File, function, code and sentence of each message that is pinned."""
    found = []
    file = place = ""
    for line in PINNED.read_text().splitlines():
        if header := re.match(r"(\w+\.py), (\w+):$", line):
            file, place = header.groups()
        elif message := re.match(r" *\^ \[(tflow-\w+)\] (.*)$", line):
            found.append((file, place, message[1], message[2]))
    return found


def strangers(found: list[Report]) -> list[Report]:
    """What mypy itself says on lines that plain mypy accepts."""
    allowed = markers.plain() | {(file, line) for file, line, code in markers.plugin() if code == "tflow-untyped"}
    return [each for each in found if not each[3].startswith("tflow-") and each[:2] not in allowed]


def main(command: str) -> int:
    with TemporaryDirectory() as folder:
        found = check(Path(folder))
    text = written(ours(found))
    if command == "pin":
        PINNED.write_text(text)
        return 0
    wrong = list(difflib.unified_diff(PINNED.read_text().splitlines(), text.splitlines(), "pinned", "found", lineterm=""))
    wrong += listed(strangers(found)).splitlines()
    print("\n".join(wrong) or f"{len(ours(found))} messages, as pinned")  # noqa: T201  # a script
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
