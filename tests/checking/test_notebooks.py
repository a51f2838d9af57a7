"""Notebooks: cells as a module, findings at cells, as files, watched, and in a shell of IPython."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from tests.checking.support import RIGHT, WRONG, run, write
from tests.checking.test_watch import Watched
from tflow.checking.engine import CACHE, Engine
from tflow.checking.findings import SYNTAX, Finding
from tflow.checking.layout import file_groups, python_files
from tflow.checking.notebooks import Modules, joined, notebook, without_magics, write_newer
from tflow.checking.resident import ResidentEngine
from tflow.errors import PlanError

RULES = "from typing import Any\ndef linear(x: int) -> Any: ...\n"


REFUSED = "batch: size must be at least 1, got 0. To pass items through unbatched, drop batch()."


def as_notebook(*cells: str, metadata: Mapping[str, object] | None = None) -> str:
    """The text of a file: a cell of Markdown, then code."""
    said = {"cell_type": "markdown", "metadata": {}, "source": ["# A heading: not Python"]}
    code = [
        {"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": [], "source": text.splitlines(keepends=True)}
        for text in cells
    ]
    return json.dumps({"cells": [said, *code], "metadata": metadata or {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def shown(found: list[Finding]) -> list[tuple[str, str]]:
    return sorted((each.place, each.code) for each in found)


# ------------------------------------------------------------------- cells as Python

PYTHON = {
    "x = 1;": "x = 1;",
    "%matplotlib inline\nx = 1": "get_ipython()\nx = 1",
    "if x:\n    !ls\n    %cd ..": "if x:\n    get_ipython()\n    get_ipython()",
    "names = !ls\na, b = %who": "names = get_ipython()\na, b = get_ipython()",
    "!pip install a \\\n  b\nx = 1": "get_ipython()\n\nx = 1",
    "x?\nx.y??\n?x": "get_ipython()\nget_ipython()\nget_ipython()",
    "%time x = f(1)": "pass; x = f(1)",
    "%timeit   f(1)": "pass;     f(1)",
    "%timeit -n 3 f(1)": "get_ipython()",
    "\n%%time\nx = 1\n!ls": "\n\nx = 1\nget_ipython()",
    "%%bash\nls $HOME": "\n",
    "%%time": "",
    "text = '''\n%run x\n!ls\n'''\n!ls": "text = '''\n%run x\n!ls\n'''\nget_ipython()",
    "x = (7\n%y)\n!ls": "x = (7\n%y)\nget_ipython()",
    "x = 7 \\\n  %y\n!ls": "x = 7 \\\n  %y\nget_ipython()",
    "a = b != c  # d = !e?": "a = b != c  # d = !e?",
    "await f()\nasync with g() as h:\n    [i async for i in h]": "await f()\nasync with g() as h:\n    [i async for i in h]",
}


@pytest.mark.parametrize("cell", PYTHON)
def test_a_cell_becomes_python_line_by_line(cell: str) -> None:
    lines, _ = without_magics(cell.split("\n"))
    assert lines == PYTHON[cell].split("\n")
    assert len(lines) == cell.count("\n") + 1
    ast.parse("\n".join(lines))
    ast.parse(TransformerManager().transform_cell(cell))  # type: ignore[no-untyped-call]  # IPython, too, takes it for a cell


BROKEN = {
    "x = (\n": ("'(' was never closed", 1, 5),
    "x = 1\n  y = 2": ("Unexpected indent", 2, 2),
    "!ls\nif x:": ("Expected an indented block after 'if' statement on line 2", 2, 6),
    "text = '''": ("Unterminated triple-quoted string literal (detected at line 1)", 1, 8),
}


@pytest.mark.parametrize("cell", BROKEN)
def test_a_cell_that_is_no_python_is_reported_and_left_out(cell: str) -> None:
    made = joined([(1, "a = 1"), (2, cell), (3, "b = a")])
    (error,) = made.broken
    assert (error.message, error.line, error.column, error.cell, error.code) == (*BROKEN[cell], 2, "syntax")
    assert made.module.splitlines()[2:] == ["a = 1", "b = a"]
    assert made.unknown_names, "those of the broken cell"


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["def f(): 1", "def f(): 2"], {"f"}),
        (["class C: pass", "from m import C"], {"C"}),
        (["def f(): 1\ndef f(): 2", "f()"], set()),  # within a cell it is a mistake
        (["x = 1", "x = ''"], set()),  # a variable may change its type, and stays known
        (["x = 1", "x = ''", "def f(): return [x for _ in 'a']"], {"x"}),  # whichever it is by then
        (["x = 1", "x = ''", "[x for _ in 'a']"], set()),  # it is looked up at once
        (["import m", "import m", "def f(): return m"], set()),
    ],
)
def test_names_that_later_cells_define_anew_have_no_type(cells: list[str], names: set[str]) -> None:
    made = joined(enumerate(cells, 1))
    assert made.redefined == names
    assert made.module.splitlines()[1] == "; ".join(f"{name}: __Any" for name in names)


@pytest.mark.parametrize(
    ("cell", "unknown"),
    [
        ("%run plans.py", True),
        ("%%capture out\nx", True),
        ("%%capture\nx", False),
        ("%%sql out <<\nx", True),
        ("%%bash\nls", False),
        ("%%bash --out x\nls", True),
        ("x = 7\n!ls\n%cd x", False),
    ],
)
def test_some_magics_bring_names(cell: str, unknown: bool) -> None:
    assert joined([(1, cell)]).unknown_names == unknown


# ------------------------------------------------------------------- files


def test_code_cells_are_read_and_others_left_out(tmp_path: Path) -> None:
    written = json.loads(as_notebook("a = 1\n", "b = 2"))
    written["cells"][1]["source"] = "a = 1\r\naa = 1"  # a string is as good as a list
    written["cells"] += [{"cell_type": "raw", "source": "c = 3"}]
    written["cells"] += [{"cell_type": "code", "metadata": {"vscode": {"languageId": "sql"}}, "source": "select"}]
    write(tmp_path, {"a.ipynb": json.dumps(written), "empty.ipynb": ""})
    made = notebook(tmp_path / "a.ipynb")
    assert made is not None
    assert made.module.splitlines()[2:] == ["a = 1", "aa = 1", "b = 2"]
    assert [(line.cell, line.number) for line in made.lines[2:]] == [(2, 1), (2, 2), (3, 1)]
    assert notebook(tmp_path / "empty.ipynb") == joined([]), "as editors make new ones"


def test_notebooks_in_other_languages_are_skipped(tmp_path: Path) -> None:
    in_r, in_julia = {"language_info": {"name": "R"}}, {"kernelspec": {"language": "julia"}}
    in_python = {"language_info": {"name": "python"}}
    write(tmp_path, {"r.ipynb": as_notebook("x <- 1", metadata=in_r), "j.ipynb": as_notebook("1", metadata=in_julia)})
    with pytest.raises(PlanError, match=r"There are no Python files in '\.'"):
        python_files(["."], tmp_path)
    write(tmp_path, {"a.ipynb": as_notebook("x = 1", metadata=in_python), ".ipynb_checkpoints/a.ipynb": as_notebook()})
    assert python_files([".", "r.ipynb"], tmp_path) == ["a.ipynb"]


ODD = "This is not a notebook: its JSON is not as Jupyter writes it. Save it anew with Jupyter."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "This is not a notebook: it is not JSON (Expecting property name"),
        ("[]", ODD),
        ('{"nbformat": 4}', ODD),
        ('{"nbformat": 4, "cells": [1]}', ODD),
        ('{"nbformat": 4, "cells": [{"cell_type": "code", "source": 1}]}', ODD),
        ('{"nbformat": 3, "worksheets": []}', "This is a notebook of format 3; save it anew with Jupyter, in format 4."),
    ],
)
def test_what_is_no_notebook_is_a_finding(tmp_path: Path, text: str, words: str) -> None:
    write(tmp_path, {"sub/a.ipynb": text})
    files = python_files(["."], tmp_path)
    (found,) = Modules(files, tmp_path, tmp_path).findings([])
    assert (found.place, found.code) == ("sub/a.ipynb:1:1", SYNTAX)
    assert found.message.startswith(words)


def test_a_notebook_imports_what_is_beside_it(tmp_path: Path) -> None:
    write(tmp_path, {"exp/a.ipynb": as_notebook("!ls\nimport helpers"), "exp/helpers.py": ""})
    (group,) = file_groups(python_files(["."], tmp_path), tmp_path)
    assert group.roots == ("exp",)


# ------------------------------------------------------------------- findings


NORMAL = [
    "%load_ext autoreload\nimport asyncio\nfrom rules import linear\nfiles = !ls\nfiles.sort()\nIn[1], Out, _, _2, _i3",
    "def f(x: int) -> int:\n    return x\nf(1)",
    "def f(x: str) -> str:\n    return x\nf('a')",
    "class C:\n    x = 1\nC().x",
    "class C:\n    y = 1\ndef g(c: C) -> None:\n    c.y",
    "display(get_ipython())\nawait asyncio.sleep(0)\nasync with files as z:\n    w = [i async for i in z]\nasync for i in z: w",
    "x = 1\nx + 1;",
    "x = ''\nx.upper()\ndef later():\n    return x.upper()",
]


def test_what_is_normal_in_a_notebook_is_no_finding(tmp_path: Path, short_plugin: str) -> None:
    write(tmp_path, {"rules.py": RULES, "a.ipynb": as_notebook(*NORMAL)})
    with Engine(tmp_path, plugin=short_plugin) as engine:
        found = engine.check(["a.ipynb"])
    assert [(each.place, each.message) for each in found] == []
    assert not list((tmp_path / CACHE).glob("run-*")), "and nothing is left behind"


def test_findings_are_at_cells_and_lines(tmp_path: Path, short_plugin: str) -> None:
    cells = [
        "from rules import linear",
        "%time linear(1)\n\nlinear(2)  # type: ignore[tflow-linear]",
        "def f(x: int) -> int: return x\ndef f(x: str) -> str: return x",
        "y: int = (\n  '')\nmisspelt",
    ]
    write(
        tmp_path,
        {
            "rules.py": RULES,
            "sub-1/a.ipynb": as_notebook(*cells),
            "sub-2/a.ipynb": as_notebook("x: int = ''"),
            "a.py": "x: int = ''",
        },
    )
    files = ["sub-1/a.ipynb", "sub-2/a.ipynb", "a.py"]
    assert len(file_groups(files, tmp_path)) == 1, "one run of mypy"
    with Engine(tmp_path, plugin=short_plugin) as engine:
        found = engine.check(files)
    assert shown(found) == [
        ("a.py:1:10", "assignment"),
        ("sub-1/a.ipynb:cell 3:1:7", "tflow-linear"),
        ("sub-1/a.ipynb:cell 4:2:1", "no-redef"),
        ("sub-1/a.ipynb:cell 5:2:3", "assignment"),
        ("sub-1/a.ipynb:cell 5:3:1", "name-defined"),
        ("sub-2/a.ipynb:cell 2:1:10", "assignment"),
    ]
    at = {each.place.partition("cell ")[2]: each for each in found}
    assert at["3:1:7"].source == "%time linear(1)", "as it is written"
    assert at["3:1:7"].notes == ("But otherwise.",)
    assert at["4:2:1"].message == 'Name "f" already defined on line 1', "of this cell"


def test_names_that_may_come_from_elsewhere_are_no_findings(tmp_path: Path, short_plugin: str) -> None:
    write(
        tmp_path,
        {"a.ipynb": as_notebook("%run other.py", "found_there\nx: int = ''"), "b.ipynb": as_notebook("x = (", "x\ny: int = ''")},
    )
    with Engine(tmp_path, plugin=short_plugin) as engine:
        found = engine.check(["a.ipynb", "b.ipynb"])
    assert shown(found) == [
        ("a.ipynb:cell 3:2:10", "assignment"),
        ("b.ipynb:cell 2:1:5", "syntax"),
        ("b.ipynb:cell 3:2:10", "assignment"),
    ]


def test_lines_of_other_cells_are_named(tmp_path: Path) -> None:
    made = joined([(2, "a = 1"), (5, "\nb = 2\nc = 3")])
    assert made.told("It is first consumed in line 5, by map.", 2) == "It is first consumed in line 2 of cell 5, by map."
    assert made.told("It is first consumed in line 5, by map.", 5) == "It is first consumed in line 2, by map."


def test_a_mypy_that_stays_sees_edits_of_notebooks(tmp_path: Path, short_plugin: str) -> None:
    """All within a second, and some leave the size as it was."""
    edits = [["x: int = ''"], ["x: int = 11"], ["x: str = 11"], ["x = (", "y: str = 1"], ["y: str = 1"], []]
    with ResidentEngine(tmp_path, plugin=short_plugin) as engine:
        found, processes = [], set[int]()
        for number, cells in enumerate(edits):
            write(tmp_path, {"a.ipynb": as_notebook(*cells)})
            os.utime(tmp_path / "a.ipynb", ns=(10**18 + number, 10**18 + number))
            found.append(shown(engine.check(["a.ipynb"])))
            processes |= {each.process.pid for each in engine.residents.values()}
    assert len(processes) == 1, "it stays"
    wrong = [("a.ipynb:cell 2:1:10", "assignment")]
    assert found == [wrong, [], wrong, [("a.ipynb:cell 2:1:5", "syntax"), ("a.ipynb:cell 3:1:10", "assignment")], wrong, []]


def test_every_edition_of_a_module_is_a_second_later(tmp_path: Path) -> None:
    """mypy's daemon looks at the size, and at whole seconds."""
    path, seconds = tmp_path / "a.py", []
    for text in ("x = 1", "x = 2", "x = 2", "x = 3"):
        write_newer(path, text)
        assert path.read_text() == text
        seconds.append(int(path.stat().st_mtime))
    assert seconds[0] < seconds[1] == seconds[2] < seconds[3]


def test_notebooks_are_watched(tmp_path: Path) -> None:
    write(tmp_path, {"a.ipynb": as_notebook("x = 1")})
    watched = Watched(tmp_path)
    assert watched.watch.turn()
    assert not watched.watch.turn()
    write(tmp_path, {"a.ipynb": "{"})  # half written
    assert watched.watch.turn()
    write(tmp_path, {"a.ipynb": as_notebook("x = 12")})
    assert watched.watch.turn()
    assert watched.checked == [["a.ipynb"]] * 3


# ------------------------------------------------------------------- as a process


def test_notebooks_are_checked_like_files(project: Path) -> None:
    imports, wrong = WRONG.split("\n\n\n")
    joins = ["a = source.map(abs)", "b = source.map(abs)\nboth = Union(a, b)"]
    head = f"{imports}\nfrom tflow import Union, from_items\nsource = from_items([1.0])"
    write(project, {"nb/a.ipynb": as_notebook(head, wrong, *joins), "b.py": RIGHT})
    done = run(".", cwd=project)
    assert done.stdout.splitlines() == [
        f"nb/a.ipynb:cell 3:3:26: {REFUSED}  [tflow-literal]",
        "    return rewards.batch(0)",
        "                         ^",
        "nb/a.ipynb:cell 5:1:5: The stream from_items(...) is consumed twice: by map(abs) and by map(abs). "
        "To feed both, write `a, b = stream.split()`.  [tflow-linear]",
        "    b = source.map(abs)",
        "        ^^^^^^",
        "    note: It is first consumed in line 1 of cell 4, by map(abs).",
        "2 findings in 1 file",
    ]
    assert (done.returncode, done.stderr) == (1, "")
    ignoring = wrong.replace("batch(0)", "batch(0)  # tflow: ignore[literal]")
    write(project, {"nb/a.ipynb": as_notebook(imports, ignoring)})
    done = run("nb/a.ipynb", cwd=project)
    assert (done.returncode, done.stdout) == (0, "No findings in 1 file\n")
    write(project, {"nb/b.ipynb": "{"})
    done = run(".", cwd=project)
    assert done.returncode == 2
    assert done.stdout.startswith("nb/b.ipynb:1:1: This is not a notebook: it is not JSON")
    write(project, {"nb/a.ipynb": as_notebook(imports, wrong)})
    done = run(".", cwd=project)
    assert (done.returncode, done.stdout.count(REFUSED)) == (2, 1), "the others are checked"
    assert not list((project / CACHE).glob("run-*"))


# ------------------------------------------------------------------- in IPython

SESSION = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

shell = InteractiveShell.instance(history_length=0)
shell.run_line_magic("xmode", "Minimal")
said = []
for cell, name in json.loads(sys.argv[1]):
    with capture_output() as captured:
        result = shell.run_cell(cell, store_history=True, cell_id=name)
    said.append([captured.stdout, result.success])
print(json.dumps(said))
"""


def in_ipython(folder: Path, *cells: str | tuple[str, str]) -> list[tuple[str, bool]]:
    """What each cell printed and whether it succeeded; some have names, as editors give them."""
    named = [(cell, None) if isinstance(cell, str) else cell for cell in cells]
    done = subprocess.run(
        [sys.executable, "-c", SESSION, json.dumps(named)],
        cwd=folder,
        env=os.environ | {"IPYTHONDIR": str(folder / ".ipython")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [(printed, success) for printed, success in json.loads(done.stdout.splitlines()[-1])]


def test_cells_are_checked_before_they_run(project: Path) -> None:
    write(project, {"pyproject.toml": ""})
    said = in_ipython(
        project,
        "before = 1",
        "%load_ext tflow",
        "from tflow import Union, from_items, flow, Iter\nsource = from_items([1.0])",
        ("print('runs')\nwrong = source.batch(0)", "a"),  # fails, and is forgotten
        ("right = source.batch(2)", "a"),
        ("right = source.batch(3)", "a"),  # run again: no second use of the source
        "other = source.batch(2)",
        "both = Union(right, other)",  # two ends meet here
        "both = Union(right, other)",  # which has been said
        "%tflow_check off",
        "wrong = source.batch(0)",
        "%tflow_check",
        "%tflow_check on",
        "x = (",
        "%tflow_check maybe",
        "def f(s: Iter[int]) -> Iter[list[int]]:\n    return s.batch(0)",
        "%unload_ext tflow",
        "def f(s: Iter[int]) -> Iter[list[int]]:\n    return s.batch(0)",
    )
    texts = [printed for printed, _ in said]
    assert texts[:3] == ["", "", ""]
    first, marked, carets, ran, *_ = texts[3].splitlines()
    assert (first, marked) == (f"In[4]:2:22: {REFUSED}  [tflow-literal]", "    wrong = source.batch(0)")
    assert (carets.strip(), ran) == ("^", "runs"), "it is said before the cell runs"
    assert said[3][1] is False, "as Python has it"
    assert texts[4:7] == ["", "", ""]
    assert texts[7].startswith("In[7]:1:9: The stream from_items(...) is consumed twice")
    assert "first consumed in line 1 of cell 6" in texts[7]
    assert texts[8:10] == ["", ""]
    assert "tflow-literal" not in texts[10]
    assert texts[11:13] == ["Cells are not checked.\n", ""]
    assert "tflow" not in texts[13], "Python itself says what is no Python"
    assert texts[14] == "%tflow_check takes on or off, got 'maybe'.\n"
    assert texts[15].startswith(f"In[16]:2:20: {REFUSED}  [tflow-literal]\n")
    assert said[15][1] is True
    assert texts[16:] == ["", ""]
    assert not list((project / CACHE).glob("run-*"))


def test_a_check_that_fails_is_one_line_and_the_cell_runs(tmp_path: Path) -> None:
    write(tmp_path, {CACHE: "not a folder", "pyproject.toml": ""})
    said = in_ipython(tmp_path, "%load_ext tflow", "import tflow\nprint('runs')", "%tflow_check off", "print('runs')")
    failure, ran = said[1][0].splitlines()
    assert failure.startswith(f"tflow could not check this cell: {CACHE} is where findings are remembered")
    assert ran == "runs"
    assert said[3] == ("runs\n", True)


def test_a_link_that_leads_nowhere_is_left_out(project: Path) -> None:
    write(project, {"plans/a.py": WRONG})
    (project / "gone.ipynb").symlink_to(project / "nowhere.ipynb")
    done = run(".", cwd=project)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[-1] == "1 finding in 1 file"
