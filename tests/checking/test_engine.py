"""mypy as we run it: with our configuration, not the user's, and never 'nothing found' when it did not get to the end."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.checking.support import RIGHT, WRONG, WRONG_LINE, places, write
from tflow.checking import engine as engines
from tflow.checking.engine import CACHE, Engine, Said, configuration
from tflow.checking.findings import CheckFailed, sorted_out
from tflow.checking.resident import ResidentEngine
from tflow.errors import MissingExtra

RULES = "from typing import Any\ndef linear(x: int) -> Any: ...\ndef unchecked() -> Any: ...\ndef crash() -> Any: ...\n"


def check(folder: Path, files: dict[str, str], plugin: str, **options: object) -> list[tuple[str, int, str]]:
    write(folder, files)
    with Engine(folder, plugin=plugin, **options) as engine:  # type: ignore[arg-type]  # options by name
        return places(engine.check(list(files)))


def test_places_count_characters_from_one(tmp_path: Path, short_plugin: str) -> None:
    """Wide letters, tabs, and a call over two lines."""
    code = 'from rules import linear\nx = ("äöü日本😀", linear(3))\nif x:\n\ty = (1, linear(\n\t\t3))\n'
    write(tmp_path / "p", {"rules.py": RULES, "a.py": code})
    with Engine(tmp_path / "p", plugin=short_plugin) as engine:
        first, second = engine.check(["a.py", "rules.py"])
    assert code.split("\n")[1][first.column - 1 : first.end_column - 1] == "linear(3)"
    assert (first.line, first.end_line, first.notes, first.source) == (2, 2, ("But otherwise.",), code.split("\n")[1])
    assert (second.line, second.column, second.end_line, second.end_column) == (4, 10, 5, 5)


def test_a_place_without_an_end_is_a_word(tmp_path: Path) -> None:
    """mypy before 1.20 does not say where a place ends."""
    write(tmp_path, {"a.py": "x = r.map(f)\n"})
    old = {"file": "a.py", "line": 1, "column": 4, "message": "m", "hint": None, "code": "tflow-linear", "severity": "error"}
    with Engine(tmp_path) as engine:
        (finding,) = engine.read(Said(1, json.dumps(old), ""))
    assert (finding.column, finding.end_line, finding.end_column) == (5, 1, 10)


def test_notes_that_come_alone_belong_to_the_finding_before(tmp_path: Path) -> None:
    error = {"file": "a.py", "line": 1, "column": 0, "message": "m", "hint": None, "code": "tflow-linear", "severity": "error"}
    note = error | {"message": "n", "severity": "note", "line": 2}
    other = note | {"message": "Revealed type", "code": "misc"}
    with Engine(tmp_path) as engine:
        (finding,) = engine.read(Said(1, "\n".join(map(json.dumps, [error, note, other])), ""))
    assert finding.notes == ("n",)


def test_the_configuration_of_the_user_is_not_read(tmp_path: Path, short_plugin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "p"
    for name in ("mypy.ini", ".mypy.ini", "setup.cfg"):
        write(folder, {name: "[mypy]\nplugins = nonsense\nignore_errors = True\n"})
    write(folder, {"pyproject.toml": '[tool.mypy]\nplugins = ["nonsense"]\nignore_errors = true\n'})
    monkeypatch.setenv("MYPY_CACHE_DIR", str(tmp_path / "elsewhere"))
    assert check(folder, {"a.py": "x: int = ''\n"}, short_plugin) == [("a.py", 1, "assignment")]
    assert not (tmp_path / "elsewhere").exists()
    assert not (folder / ".mypy_cache").exists()
    assert "*" in (folder / CACHE / ".gitignore").read_text()
    assert not list((folder / CACHE).glob("run-*")), "what belongs to one run is gone after it"


def test_modules_of_the_user_do_not_shadow_those_of_mypy(tmp_path: Path, short_plugin: str) -> None:
    files = {"json.py": "raise SystemExit('mine')\n", "mypy.py": "raise SystemExit('mine')\n", "a.py": "x: int = ''\n"}
    assert check(tmp_path / "p", files, short_plugin) == [("a.py", 1, "assignment")]


def test_a_file_whose_name_looks_like_an_option_is_a_file(tmp_path: Path, short_plugin: str) -> None:
    files = {"-m.py": "x: int = ''\n", "@a.py": "x: int = ''\n"}
    assert check(tmp_path / "p", files, short_plugin) == [("-m.py", 1, "assignment"), ("@a.py", 1, "assignment")]


def test_a_change_in_the_same_second_to_the_same_size_is_noticed(tmp_path: Path, short_plugin: str) -> None:
    with Engine(tmp_path, plugin=short_plugin) as engine:
        for number, kind in enumerate(["int", "str", "int"]):
            write(tmp_path, {"a.py": f"x: {kind} = ''\n"})
            os.utime(tmp_path / "a.py", ns=(10**18 + number, 10**18 + number))
            assert len(engine.check(["a.py"])) == (kind == "int")


def test_libraries_are_followed_unless_they_are_skipped(tmp_path: Path, short_plugin: str) -> None:
    write(tmp_path, {"large/__init__.py": "from large.sub import f as f\n", "large/sub.py": "def f() -> int: ...\nx: int = ''\n"})
    code = {"a.py": "from large import f\nimport large.sub\nx: str = f()\ny: str = large.sub.f()\n"}
    assert check(tmp_path, code, short_plugin) == [("a.py", 3, "assignment"), ("a.py", 4, "assignment")]
    assert check(tmp_path, code, short_plugin, skip=["large"]) == []


def test_the_large_libraries_are_skipped() -> None:
    text = configuration(Path(), "p", engines.SKIPPED_LIBRARIES, [])
    for library in ("torch", "torchvision", "ray", "gymnasium"):
        assert f'"{library}.*.*"' in text
    assert "numpy" not in text


def test_a_name_can_take_another_type_as_it_can_elsewhere(project: Path) -> None:
    code = """\
from tflow import ApplyGradients, ComputeGradients, create_rollout_workers, flow, Iter, ParallelRollouts, TrainStats
from tflow.losses import A3CLoss


@flow
def a3c() -> Iter[TrainStats]:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
    stream = ParallelRollouts(workers)
    stream = stream.par_for_each(ComputeGradients())
    stream = stream.gather_async()
    return stream.for_each(ApplyGradients(workers))
"""
    write(project, {"a.py": code, "b.py": code.replace("gather_async()", "gather_async(in_flight=-1)"), "c.py": WRONG})
    with Engine(project) as engine:
        found = places(engine.check(["a.py", "b.py", "c.py"]))
    assert found == [("b.py", 10, "tflow-literal"), ("c.py", WRONG_LINE, "tflow-literal")]


# ------------------------------------------------------------------- runs that did not get to the end


@pytest.mark.parametrize("kind", [Engine, ResidentEngine])
def test_a_crash_is_a_sentence_and_the_traceback_is_kept(kind: type[Engine], tmp_path: Path, short_plugin: str) -> None:
    folder = tmp_path / "p"
    write(folder, {"rules.py": RULES, "a.py": "from rules import crash\ncrash()\n"})
    with kind(folder, plugin=short_plugin) as engine, pytest.raises(CheckFailed) as raised:
        engine.check(["a.py"])
    number = ".".join(map(str, engines.mypy_version()))
    sentence = f"mypy {number} crashed at a.py:2 (RuntimeError: boom). The traceback is in .tflow_cache/crash.txt."
    assert str(raised.value) == sentence
    assert "in get_function_hook" in (folder / CACHE / "crash.txt").read_text()


@pytest.mark.parametrize("kind", [Engine, ResidentEngine])
@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("import sys; print('tflow.x works with mypy 1.', file=sys.stderr); raise SystemExit(2)", "tflow.x works with mypy 1."),
        ("from tflow.errors import PlanError; raise PlanError('Not this mypy.')", "Not this mypy."),
        (
            "raise RuntimeError('boom')",
            "mypy {mypy} crashed (RuntimeError: boom). The traceback is in .tflow_cache/crash.txt.",
        ),
    ],
)
def test_a_plugin_that_refuses_is_passed_on(
    kind: type[Engine], body: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"plugins/refusing.py": f"def plugin(version):\n    {body}\n", "p/a.py": ""})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "plugins"))
    with kind(tmp_path / "p", plugin="refusing") as engine, pytest.raises(CheckFailed) as raised:
        engine.check(["a.py"])
    assert str(raised.value) == sentence.format(mypy=".".join(map(str, engines.mypy_version())))


def test_a_plugin_that_is_not_there(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": ""})
    with Engine(tmp_path, plugin="no_such") as engine, pytest.raises(CheckFailed) as raised:
        engine.check(["a.py"])
    assert str(raised.value) == "mypy could not start: Error importing plugin \"no_such\": No module named 'no_such'."


def test_what_mypy_refuses_to_check_is_a_sentence(tmp_path: Path, short_plugin: str) -> None:
    with pytest.raises(CheckFailed, match=r'^mypy could not check types.py: This file shadows library module "types"\. A user-'):
        check(tmp_path / "p", {"types.py": ""}, short_plugin)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (Said(2, "", ""), "mypy stopped with exit code 2: it said nothing"),
        (Said(-11, "", ""), "mypy stopped with exit code -11: it said nothing"),
        (Said(1, "", "out of memory"), "mypy stopped with exit code 1: out of memory"),
        (Said(2, "usage: mypy", "no such option"), "mypy stopped with exit code 2: usage: mypy no such option"),
    ],
)
def test_silence_is_not_success(said: Said, sentence: str, tmp_path: Path) -> None:
    with Engine(tmp_path) as engine, pytest.raises(CheckFailed) as raised:
        engine.read(said)
    assert str(raised.value) == sentence


def test_errors_before_a_stop_do_not_make_it_a_check(tmp_path: Path) -> None:
    error = {"file": "a.py", "line": 1, "column": 0, "message": "m", "hint": None, "code": "misc", "severity": "error"}
    with Engine(tmp_path) as engine:
        assert len(engine.read(Said(1, json.dumps(error), ""))) == 1
        with pytest.raises(CheckFailed, match=r"^mypy could not check a\.py: m\.$"):
            engine.read(Said(2, json.dumps(error), ""))
        with pytest.raises(CheckFailed, match=r"^mypy could not check a\.py: m\. Do this\.$"):  # the daemon says 1 for such, too
            engine.read(Said(1, json.dumps(error | {"line": -1, "hint": "Do this.\nAnd that."}), ""))


def test_without_mypy_there_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mypy", None)
    with pytest.raises(MissingExtra) as raised:
        Engine(tmp_path)
    assert str(raised.value) == "Checks of plans need the package mypy: pip install 'tflow[check]'"


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    write(tmp_path, {CACHE: "a file"})
    with pytest.raises(CheckFailed, match=r"^\.tflow_cache is where findings are remembered, and it cannot be written: "):
        Engine(tmp_path)


# ------------------------------------------------------------------- reports


def test_a_report_keeps_what_is_ours_and_counts_the_rest(tmp_path: Path, short_plugin: str) -> None:
    code = "from rules import linear, unchecked\nlinear(1)\nx: int = ''\ny: int = ''\n"
    write(tmp_path / "p", {"rules.py": RULES, "a.py": code, "b.py": "import a\n" + code, "c.py": ""})
    with Engine(tmp_path / "p", plugin=short_plugin) as engine:
        found = engine.check(["a.py", "b.py", "c.py"])
    named = ["a.py", "c.py"]
    report = sorted_out(found, files=named, disabled=frozenset(), show_all=False)
    assert places(report.findings) == [("a.py", 2, "tflow-linear")]
    assert (report.hidden, report.files, report.exit_code) == (2, 2, 1)
    with_all = sorted_out(found, files=named, disabled=frozenset(), show_all=True)
    assert [finding.line for finding in with_all.findings] == [2, 3, 4]
    assert (with_all.hidden, with_all.exit_code) == (0, 1)
    without = sorted_out(found, files=named, disabled=frozenset(["tflow-linear"]), show_all=False)
    assert (without.findings, without.hidden, without.exit_code) == ((), 2, 0)


def test_what_could_not_be_checked_is_exit_code_2(tmp_path: Path, short_plugin: str) -> None:
    write(tmp_path / "p", {"rules.py": RULES, "a.py": "from rules import unchecked\nunchecked()\n", "b.py": "x = (\n"})
    with Engine(tmp_path / "p", plugin=short_plugin) as engine:
        unchecked = sorted_out(engine.check(["a.py"]), files=["a.py"], disabled=frozenset(), show_all=False)
        broken = sorted_out(engine.check(["a.py", "b.py"]), files=["a.py", "b.py"], disabled=frozenset(), show_all=False)
    assert unchecked.exit_code == 2
    assert unchecked.summary == "1 finding in 1 file; 1 place could not be checked"
    assert (broken.exit_code, places(broken.unreadable)) == (2, [("b.py", 1, "syntax")])
    assert broken.summary == "1 syntax error: repair it first, what it hides was not checked"


def test_the_real_plugin_and_the_cache_of_findings(project: Path) -> None:
    write(project, {"a.py": WRONG, "b.py": RIGHT})
    for _ in range(2):  # the second time from the cache
        with Engine(project) as engine:
            assert places(engine.check(["a.py", "b.py"])) == [("a.py", WRONG_LINE, "tflow-literal")]
