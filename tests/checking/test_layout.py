"""Which files are checked, and under which names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mypy.find_sources import create_source_list
from mypy.fscache import FileSystemCache
from mypy.options import Options

from tests.checking.support import places, write
from tflow.checking.engine import Engine
from tflow.checking.layout import FileGroup, file_groups, imported, python_files
from tflow.errors import PlanError

HELPER = "def f() -> int:\n    return 1\n"


def test_folders_are_searched_and_each_file_comes_once(tmp_path: Path) -> None:
    here = ["a.py", "sub/b.py", "sub/c.pyi", "sub/note.md", "sub/deep/d.py"]
    hidden = [".venv/x.py", "env/pyvenv.cfg", "env/lib/y.py", "node_modules/z.py", "__pycache__/a.py", ".tflow_cache/w.py"]
    write(tmp_path, dict.fromkeys([*here, *hidden], ""))
    assert python_files(["."], tmp_path) == ["a.py", "sub/b.py", "sub/deep/d.py"]
    assert python_files(["sub", "a.py", tmp_path / "sub" / "b.py"], tmp_path) == ["sub/b.py", "sub/deep/d.py", "a.py"]
    assert python_files([tmp_path / "a.py"], tmp_path / "sub") == ["../a.py"]


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("nowhere", "There is no file or folder 'nowhere'."),
        ("note.md", "'note.md' is not a Python file; name files that end in .py, notebooks (.ipynb), or folders."),
        ("empty", "There are no Python files in 'empty'."),
    ],
)
def test_paths_without_python_are_sentences(tmp_path: Path, path: str, sentence: str) -> None:
    write(tmp_path, {"note.md": "", "empty/note.md": ""})
    with pytest.raises(PlanError) as raised:
        python_files([path], tmp_path)
    assert str(raised.value) == sentence


LAYOUTS = {
    "flat": ({"a.py": "import b", "b.py": ""}, [()]),
    "two files of one name": ({"a/plans.py": "", "b/plans.py": ""}, [()]),
    "scripts that import each other": ({"exp/train.py": "import helpers", "exp/helpers.py": HELPER}, [("exp",)]),
    "two such folders": (
        {
            "c/train.py": "from helpers import f",
            "c/helpers.py": HELPER,
            "d/train.py": "from helpers import f",
            "d/helpers.py": HELPER,
        },
        [("c",), ("d",)],
    ),
    "folders that are no packages": ({"exp-1/train.py": "", "exp-2/train.py": ""}, [("exp-1",), ("exp-2",)]),
    "src": ({"src/pkg/__init__.py": "", "src/pkg/a.py": "", "tests/test_a.py": "import os, pkg.a as a"}, [("src",)]),
    "a package that is run from above": ({"plans/a.py": "", "plans/b.py": "import a", "main.py": "from plans.a import x"}, [()]),
    "a module called as one of Python's": ({"exp/queue.py": "", "exp/helpers.py": "", "exp/b.py": "import helpers"}, [()]),
    "a script called as a library": ({"old/numpy.py": "", "new.py": "import numpy"}, [()]),
    "packages": ({"p/__init__.py": "", "p/q/__init__.py": "", "p/q/a.py": "from p.q import a", "p/b.py": ""}, [()]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_roots_are_where_imports_begin_and_mypy_names_no_module_twice(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, roots = LAYOUTS[layout]
    write(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    shared = file_groups(python_files(["."], tmp_path), tmp_path)
    assert [group.roots for group in shared] == roots
    assert sorted(file for group in shared for file in group.files) == sorted(files)
    for group in shared:
        names = names_for_mypy(group, tmp_path)
        assert len(set(names)) == len(group.files), names


def names_for_mypy(group: FileGroup, folder: Path) -> list[str]:
    options = Options()
    options.explicit_package_bases = options.namespace_packages = True
    options.mypy_path = [str(folder / root) for root in group.roots]
    return [source.module for source in create_source_list(list(group.files), options, FileSystemCache())]


def test_imports_at_a_glance(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"a.py": "import a.b as x, c  # d\nfrom .e import f\n  from g.h import (\n    i)\nfrom . import j\nimport k; l\n"},
    )
    assert imported(tmp_path / "a.py") == {"a.b", "c", "g.h", "k"}


def test_imports_lead_where_they_lead_at_run_time(tmp_path: Path, short_plugin: str) -> None:
    """In each folder ``f`` is another function, so that only one of the two uses is wrong."""
    script = "from helpers import f\nx: int = f()\n"
    write(tmp_path / "p", {"c/train.py": script, "c/helpers.py": HELPER, "d/train.py": script})
    write(tmp_path / "p", {"d/helpers.py": HELPER.replace("-> int", "-> str").replace("1", "''")})
    folder = tmp_path / "p"
    with Engine(folder, plugin=short_plugin) as engine:
        found = engine.check(python_files(["."], folder))
        assert places(found) == [("d/train.py", 2, "assignment")]
        assert places(engine.check(["d/train.py", "d/helpers.py"])) == places(found)


@pytest.mark.parametrize("folders", [("exp_1", "exp_2"), ("exp-1", "exp-2")])
def test_files_of_one_name_and_one_text_are_told_apart(folders: tuple[str, str], tmp_path: Path, short_plugin: str) -> None:
    """Even if they were written at the same time. With the dash, the folders are no packages and the names collide."""
    files = [f"{folder}/train.py" for folder in folders]
    write(tmp_path / "p", dict.fromkeys(files, "x: int = ''\n"))
    for file in files:
        os.utime(tmp_path / "p" / file, ns=(10**18, 10**18))
    with Engine(tmp_path / "p", plugin=short_plugin) as engine:
        for _ in range(2):  # the second time from the cache
            assert places(engine.check(files)) == [(file, 1, "assignment") for file in files]
