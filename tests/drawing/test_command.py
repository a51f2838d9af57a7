"""``tflow graph``, as a user calls it: formats, files, and sentences where something is wrong."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import mypy.build
import pytest
import typer
from mypy.build import BuildResult
from mypy.modulefinder import BuildSource
from mypy.options import Options
from tflow.drawing.static import build
from tflow.drawing.static.read import of_source
from typer.testing import CliRunner

from tests.drawing.conftest import Draw
from tflow.drawing.command import graph, source_drawing
from tflow.errors import MissingExtra, TflowError

TWO_PLANS = """
from tflow import Iter, Metrics, Plan, flow, from_range, plan
from parts import doubled

numbers = from_range(3)
answer = 42

@plan
def train() -> Plan[Metrics]:
    raise NotImplementedError

@flow
def small() -> Iter[int]:
    return doubled(numbers.take(2))

def untouched(x: int) -> int:
    return x

class Holder:
    def stream(self) -> Iter[str]:
        return numbers.map(str)
"""
PARTS = """
from tflow import Iter

def doubled(stream: Iter[int]) -> Iter[int]:
    return stream.map(lambda x: 2 * x)
"""
app = typer.Typer()
app.command()(graph)


@dataclass(frozen=True)
class Done:
    """What a command printed, and the sentence with which it gave up."""

    output: str
    errors: str
    sentence: str


@pytest.fixture
def folder(tmp_path: Path, types_cache: Path, drawings: object, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, with types of imports known already."""
    monkeypatch.setenv("TFLOW_CACHE", str(types_cache))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plans.py").write_text(TWO_PLANS)
    (tmp_path / "parts.py").write_text(PARTS)
    return tmp_path


def run(*args: str) -> Done:
    done = CliRunner().invoke(app, args)
    if done.exception is not None and not isinstance(done.exception, TflowError):
        raise done.exception
    return Done(done.stdout, done.stderr, str(done.exception or ""))


def test_text_goes_to_the_terminal(folder: Path) -> None:
    done = run("plans.py:small")
    assert done.sentence == ""
    assert done.errors == ""
    assert (
        done.output
        == """\
small: Iter[int, Async]
   operator                   where   yields            line
0  from_range(3)              driver  Iter[int, Sync]   5
1  take(2)                    driver  Iter[int, Sync]   14
2  doubled(Iter[int, Async])  driver  Iter[int, Async]  14
"""
    )


def test_expand_looks_into_functions_of_other_files(folder: Path) -> None:
    assert "2  map(<lambda>)  driver  Iter[int, Async]  5     doubled" in run("plans.py:small", "--expand").output


def test_variables_and_methods_have_names_too(folder: Path) -> None:
    assert run("plans.py:numbers").output.startswith("numbers: Iter[int, Sync]\n")
    assert "map(str)" in run("plans.py:Holder.stream").output


def test_the_name_of_the_output_says_the_format(folder: Path) -> None:
    for name, start in (("a.svg", "<svg"), ("a.mmd", "---\ntitle"), ("a.txt", "small: Iter"), ("b", "small: Iter")):
        assert run("plans.py:small", "-o", name).output == ""
        assert (folder / name).read_text().startswith(start)
    assert run("plans.py:small", "-o", "c.svg", "--format", "mermaid").sentence == ""
    assert (folder / "c.svg").read_text().startswith("---\ntitle")


def test_direction(folder: Path) -> None:
    sizes = []
    for direction in ("right", "down"):
        root = ET.fromstring(run("plans.py:small", "-f", "svg", "--direction", direction).output)
        sizes.append((float(root.get("width", "")), float(root.get("height", ""))))
    assert sizes[0][0] > sizes[1][0]
    assert sizes[0][1] < sizes[1][1]
    assert "flowchart TD" in run("plans.py:small", "-f", "mermaid", "--direction", "down").output
    assert "flowchart LR" in run("plans.py:small", "-f", "mermaid").output


def test_nothing_of_the_file_is_executed(folder: Path) -> None:
    (folder / "side.py").write_text(
        "from pathlib import Path\nfrom tflow import from_range\nPath('done').write_text('')\nr = from_range(2)\n1 / 0\n"
    )
    assert "from_range(2)" in run("side.py:r").output
    assert not (folder / "done").exists()
    assert run("side.py:r", "--built").sentence == "'side.py' cannot be loaded: ZeroDivisionError: division by zero."
    assert (folder / "done").exists()


def test_built_draws_what_was_really_built(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "made.py").write_text("from tflow import from_range\ndef r():\n    s = from_range(2)\n    return s.map(str)\n")
    done = run("made.py:r", "--built")
    assert done.output.startswith("Iter of str, fingerprint ")
    assert done.output.endswith("deterministic\n")
    assert 'n1("map(str)")' in run("made.py:r", "--built", "-f", "mermaid").output
    assert run("made.py", "--built").sentence == "Expected FILE:NAME, such as plans.py:a3c, got 'made.py'."


def test_without_a_name_the_only_plan_is_taken(folder: Path) -> None:
    (folder / "one.py").write_text(
        "from tflow import *\n\n@plan\ndef only(stream: Iter[TrainStats], workers: AnyWorkers) -> Plan[Metrics]:\n"
        "    return ReportMetrics(stream, workers)\n\ndef other() -> Iter[int]:\n    return from_range(2)\n"
    )
    assert run("one.py").output.startswith("only: Plan[Metrics]\n")
    assert run("parts.py").output.startswith("doubled: Iter[int, Async]\n"), "nothing else is in it"


MISTAKES = {
    "plans.py:smal": (
        "plans.py has no 'smal'. Did you mean 'small'? Streams and plans in it: train, small, Holder.stream, numbers."
    ),
    "plans.py:nothing": "plans.py has no 'nothing'. Streams and plans in it: train, small, Holder.stream, numbers.",
    "plans.py:doubled": "plans.py only imports 'doubled', from parts. Name the file in which it is written.",
    "plans.py:answer": (
        "plans.py:answer is not a stream, a plan, or a function. Streams and plans in it: train, small, Holder.stream, numbers."
    ),
    "plans.py:untouched": "plans.py:untouched builds no stream and takes none.",
    "plans.py:train": "plans.py:train builds no stream and takes none.",
    "nowhere.py:a": "There is no file 'nowhere.py'.",
    "nowhere.py": "There is no file 'nowhere.py'.",
    ".": "'.' is a folder; expected FILE:NAME, such as plans.py:a3c.",
    "notes.txt:a": "'notes.txt' is not a Python file.",
    "unmarked.py": (
        "unmarked.py has no function marked @plan; say which to draw, unmarked.py:NAME. Streams and plans in it: f, r."
    ),
    "empty.py": "empty.py has no function marked @plan; say which to draw, empty.py:NAME. Streams and plans in it: none.",
    "both.py": "both.py has 2 plans; say which to draw, both.py:NAME. Streams and plans in it: one, two.",
    "broken.py:a": "broken.py, line 2: invalid syntax. Python cannot read it.",
    "latin.py:a": "latin.py is not text that Python can read: ",
    "lost.py:a": "lost.py:a cannot be followed to a stream or a plan. Name a function that builds it.",
}  # fmt: skip


@pytest.mark.parametrize("target", MISTAKES)
def test_mistakes_are_sentences(folder: Path, target: str) -> None:
    marked = "@plan\ndef {}() -> Plan[Metrics]: ...\n"
    (folder / "both.py").write_text("from tflow import Metrics, Plan, plan\n" + marked.format("one") + marked.format("two"))
    (folder / "unmarked.py").write_text("from tflow import *\nr = from_range(3)\ndef f() -> Iter[int]:\n    return r\n")
    (folder / "empty.py").write_text("x = 1\n")
    (folder / "broken.py").write_text("x = 1\ndef a(:\n")
    (folder / "latin.py").write_bytes("x = 'é'\n".encode("latin-1"))
    (folder / "lost.py").write_text("from tflow import Iter\na: Iter[int]\n")
    (folder / "notes.txt").write_text("")
    done = run(target)
    assert done.sentence.startswith(MISTAKES[target])
    assert done.sentence == MISTAKES[target] or target == "latin.py:a"
    assert done.output == ""


def test_a_file_that_cannot_be_written_is_a_sentence(folder: Path) -> None:
    assert run("plans.py:small", "-o", "no/such/a.svg").sentence == "Cannot write 'no/such/a.svg': No such file or directory."


def test_type_errors_are_mentioned_and_drawn(folder: Path) -> None:
    lines = "\n".join(f"    r.take('{n}')" for n in range(7))
    (folder / "wrong.py").write_text(f"from tflow import from_range\ndef f() -> None:\n    r = from_range('a')\n{lines}\n")
    done = run("wrong.py:f")
    assert "0  from_range(a)" in done.output
    head, *errors, last = done.errors.splitlines()
    count = re.fullmatch(r"wrong.py has (\d+) type errors; it is drawn all the same.", head)
    assert count is not None
    assert errors[0].startswith('  wrong.py:3: error: Argument 1 to "from_range" has incompatible type "str"')
    assert int(count.group(1)) >= 8
    assert (len(errors), last) == (5, f"  and {int(count.group(1)) - 5} more: tflow check wrong.py")


def test_the_file_is_always_read_anew(folder: Path) -> None:
    """A cache that looks at times and sizes would not see this."""
    file, other = folder / "fresh.py", folder / "parts.py"
    text = "from parts import doubled\nfrom tflow import from_range\nr = doubled(from_range(1)).map(str)\n"
    for source, label, result in ((text, "map(str)", "str"), (text.replace("str", "hex"), "map(hex)", "str")):
        file.write_text(source)
        os.utime(file, (1, 1))
        assert f"2  {label}" in run("fresh.py:r").output
        assert f"Iter[{result}, Async]" in run("fresh.py:r").output
    other.write_text(PARTS.replace("-> Iter[int]", "-> Iter[float]"))
    assert "1  doubled(Iter[int, Async])  driver  Iter[float, Async]" in run("fresh.py:r").output


def test_letters_that_are_not_ascii(folder: Path) -> None:
    (folder / "umlaut.py").write_text(
        'from tflow import Iter, from_range\ndef f(größe: int, ö: dict[str, int]) -> Iter[int]:\n'
        '    return from_range(größe).take(ö["äöü"]).batch(ö["é"] + größe).flatten()\n',
        encoding="utf-8",
    )  # fmt: skip
    output = run("umlaut.py:f").output
    for label in ("from_range(größe)", 'take(ö["äöü"])', 'batch(ö["é"] + größe)'):
        assert label in output


def test_settings_of_the_user_are_not_read(folder: Path) -> None:
    (folder / "mypy.ini").write_text("[mypy]\nplugins = no.such.plugin\nignore_errors = True\n")
    (folder / "wrong.py").write_text("from tflow import from_range\nr = from_range('a')\n")
    assert run("wrong.py:r").errors.startswith("wrong.py has ")


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """The settings of each run of mypy. The second one, which has no cache, is given that of the tests all the same."""
    seen: list[Options] = []
    working = build._built

    def recorded(sources: list[BuildSource], options: Options) -> BuildResult:
        seen.append(copy.copy(options))
        options.cache_dir, options.incremental, options.plugins = seen[0].cache_dir, True, seen[0].plugins
        return working(sources, options)

    monkeypatch.setattr(build, "_built", recorded)
    return seen


def test_a_mypy_that_trips_gets_a_second_chance(folder: Path, attempts: list[Options], monkeypatch: pytest.MonkeyPatch) -> None:
    running = mypy.build.build
    failures = [AssertionError("a broken cache")]

    def tripping(sources: list[BuildSource], options: Options) -> BuildResult:
        if failures:
            raise failures.pop()
        return running(sources, options)

    monkeypatch.setattr(mypy.build, "build", tripping)
    assert run("parts.py:doubled").output.startswith("doubled: Iter[int, Async]\n")
    first, second = attempts
    assert (first.cache_dir, first.incremental) == (str(build.cache_folder()), True)
    assert (second.cache_dir, second.incremental, second.plugins) == (os.devnull, False, [])
    failures += [AssertionError("a bug"), AssertionError("a broken cache")]
    assert run("parts.py:doubled").sentence == (
        "mypy failed at parts.py (AssertionError: a bug). To draw what the file really builds: tflow graph --built parts.py:NAME."
    )


def test_an_import_that_python_cannot_read_is_a_sentence(folder: Path, attempts: list[Options]) -> None:
    (folder / "parts.py").write_text("def doubled(:\n")
    assert run("plans.py:small").sentence.startswith("The types cannot be looked at: parts.py:1: ")


def test_types_are_found_without_the_plugin(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw: Draw) -> None:
    monkeypatch.setattr(build, "has_plugin", lambda: False)
    (folder / "plan.py").write_text(
        "from tflow import *\ndef small() -> Iter[TrainStats]:\n    workers = create_rollout_workers(env='x', loss=A3CLoss())\n"
        "    return ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async().for_each(ApplyGradients(workers))\n"
    )
    found = of_source(folder / "plan.py", "small", cache=tmp_path / "other")
    assert found.errors == []
    slides = draw("a3c", slides=True)
    assert [node.yields for node in found.graph.nodes] == [node.yields for node in slides.nodes[:-1]]


def test_mypy_is_loaded_only_when_it_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = "import sys, tflow.drawing.command, tflow.drawing.built; assert 'mypy' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    monkeypatch.setitem(sys.modules, "mypy", None)
    with pytest.raises(MissingExtra, match=r"need the package mypy: pip install 'tflow\[check\]'"):
        source_drawing(str(tmp_path / "x.py"), "text", None, expand=False)


def test_caches_are_where_users_keep_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFLOW_CACHE", "/a")
    assert build.cache_folder() == Path("/a/mypy")
    monkeypatch.delenv("TFLOW_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert build.cache_folder() == Path("/b/tflow/mypy")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/c")
    if sys.platform != "win32":
        assert build.cache_folder() == Path("/c/.cache/tflow/mypy")
