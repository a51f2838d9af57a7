"""The plugin over the corpus: what it reports is what the comments say, word for word as pinned, in every mode of mypy.

``python -m tests.types.plugin_runs pin`` pins the messages again; read the difference before you commit it.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.types import markers
from tests.types.checkers import CORPUS, run
from tests.types.plugin_runs import CONFIG, PINNED, Report, check, ours, reports, strangers, written
from tflow.mypy_plugin.codes import TITLES

MODES = {
    "in parallel": ("-n", "2"),
    "without a cache": ("--no-incremental",),
    "with files as cache": ("--no-sqlite-cache",),
    "with json as cache": ("--no-fixed-format-cache",),
    "with Python's parser": ("--no-native-parser",),
    "in one phase": ("--no-local-partial-types",),
}
RARE = [mode for mode in MODES if mode != "in parallel"]


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Report]]:
    cache = tmp_path_factory.mktemp("cache")
    return cache, check(cache)


@pytest.mark.types
def test_the_marked_lines_have_the_marked_codes(cold: tuple[Path, list[Report]]) -> None:
    found = {(file, line, code) for file, line, _, code, _ in ours(cold[1])}
    assert sorted(markers.plugin() - found) == [], "the plugin accepts these mistakes"
    assert sorted(found - markers.plugin()) == [], "false alarms"


@pytest.mark.types
def test_nothing_else_is_reported_that_plain_mypy_accepts(cold: tuple[Path, list[Report]]) -> None:
    assert strangers(cold[1]) == []


@pytest.mark.types
def test_the_messages_are_pinned(cold: tuple[Path, list[Report]]) -> None:
    assert written(ours(cold[1])) == PINNED.read_text()


@pytest.mark.types
def test_what_is_cached_is_reported_again(cold: tuple[Path, list[Report]]) -> None:
    assert check(cold[0]) == cold[1]


@pytest.mark.types
@pytest.mark.parametrize("mode", ["in parallel", *(pytest.param(mode, marks=pytest.mark.full) for mode in RARE)])
def test_every_mode_reports_the_same(mode: str, cold: tuple[Path, list[Report]], tmp_path: Path) -> None:
    assert ours(check(tmp_path, *MODES[mode])) == ours(cold[1])


class Daemon:
    """dmypy over a copy of the corpus."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder.parent / "plugin.ini"
        shutil.copy(CONFIG, self.config)
        for name in markers.FILES:
            shutil.copy(CORPUS / name, folder / name)

    def dmypy(self, *arguments: str) -> str:
        return run("dmypy", "--status-file", str(self.folder.parent / "dmypy.json"), *arguments, cwd=self.folder)

    def check(self) -> list[Report]:
        return reports(
            self.dmypy("run", "--timeout", "600", "--", "--config-file", str(self.config), "--hide-error-context", *markers.FILES)
        )

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text()
        assert text.count(old) == 1
        (self.folder / name).write_text(text.replace(old, new))


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    (tmp_path / "copy").mkdir()
    made = Daemon(tmp_path / "copy")
    yield made
    made.dmypy("stop")


@pytest.mark.full
@pytest.mark.types
def test_the_daemon_reports_the_same_and_follows_edits(daemon: Daemon, cold: tuple[Path, list[Report]]) -> None:
    first = daemon.check()
    assert ours(first) == ours(cold[1])
    right = "    return ReportMetrics(apply_op, workers)\n\n\ndef a2c"
    wrong = right.replace("apply_op", "grads.for_each(ApplyGradients(workers))")
    daemon.edit("rl_good.py", right, wrong)
    assert {each[3] for each in ours(daemon.check()) if each[0] == "rl_good.py"} == {"tflow-linear", "tflow-unused"}
    daemon.edit("rl_good.py", wrong, right)
    assert daemon.check() == first
    daemon.edit("world.py", "OffPolicyStep(Stateless[Rollout, ", "OffPolicyStep(Stateless[int, ")
    edited = daemon.check()
    changed = {each[:2] for each in ours(edited)} ^ {each[:2] for each in ours(first)}
    assert {each[:3] for each in edited if each[3] == "arg-type"} & {each[:3] for each in ours(edited)} == set(), "said twice"
    assert {file for file, _ in changed} >= {"good.py", "bad.py"}, "an operator of another module has changed"


def test_the_corpus_is_large_and_every_rule_is_in_it() -> None:
    found = Counter(code for _, _, code in markers.plugin())
    assert set(found) == set(TITLES) - {"tflow-unchecked"}
    assert min(found.values()) >= 5, found
    bad = {name for name, _ in markers.plain()} | {name for name, _, _ in markers.plugin()}
    plans = {name: len(re.findall(r"^@(?:plan|flow)$", (CORPUS / name).read_text(), re.MULTILINE)) for name in markers.FILES}
    assert sum(count for name, count in plans.items() if name in bad) >= 80, plans
    assert sum(count for name, count in plans.items() if name not in bad) >= 60, plans
