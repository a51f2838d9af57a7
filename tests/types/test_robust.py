"""The plugin in bad company: hooks that fail, other versions of mypy, changed plugins, comments that switch rules off."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mypy.checker import TypeChecker
from mypy.nodes import CallExpr, FuncDef, NameExpr, Var
from mypy.scope import Scope
from mypy.version import __version__ as installed

import tflow
from tests.types.checkers import BIN
from tflow import mypy_plugin

PACKAGE = Path(tflow.__file__).parent
PLAN = """
from tflow import Iter, Stateless, Union, flow, from_items

class Shout(Stateless[str, str]):
    def apply(self, item: str, /) -> str:
        return item.upper()

@flow
def twice(words: Iter[str]) -> Iter[str]:
    return Union(words.for_each(Shout()), words)

def wrong() -> Iter[str]:
    return from_items([1]).for_each(Shout())
"""
CONFIG = """
[mypy]
plugins = {plugin}
follow_imports = skip
{more}
[mypy-tflow.*]
follow_imports = silent
"""


def check(folder: Path, plan: str = PLAN, *, plugin: str = "tflow.mypy_plugin", more: str = "", package: Path = PACKAGE) -> str:
    """What mypy says, with the tflow of ``package``."""
    (folder / "plans.py").write_text(plan)
    return check_all(folder, ["plans.py"], plugin=plugin, more=more, package=package)


def check_all(
    folder: Path, files: list[str], *, plugin: str = "tflow.mypy_plugin", more: str = "", package: Path = PACKAGE
) -> str:
    """As above, for files that are there."""
    (folder / "mypy.ini").write_text(CONFIG.format(plugin=plugin, more=more))
    done = subprocess.run(
        [str(BIN / "python"), "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", "cache", *files],
        cwd=folder,
        env={"PYTHONPATH": str(package.parent), "MYPYPATH": str(package.parent), "PATH": str(BIN)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "INTERNAL ERROR" not in done.stdout + done.stderr
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def codes(output: str) -> list[str]:
    return [line.rsplit("[", 1)[1].rstrip("]") for line in output.splitlines() if ": error:" in line]


BROKEN = """
from tflow.mypy_plugin import bodies, columns, plugin

def boom(*_):
    raise RuntimeError("no such thing")

columns.broken = boom
bodies.streams_of = lambda api, fn, scopes, *, marked, strict: boom
"""


@pytest.mark.types
def test_a_rule_that_fails_says_so_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    output = check(tmp_path, PLAN + "\nfrom_items([1]).batch(0)\n", plugin="broken.py")
    assert set(codes(output)) == {"tflow-unchecked", "tflow-literal", "arg-type"}
    assert "The tflow plugin could not check this: RuntimeError: no such thing. Please report it" in output


@pytest.mark.types
def test_what_an_older_plugin_found_is_not_taken_from_the_cache(tmp_path: Path) -> None:
    package = Path(shutil.copytree(PACKAGE, tmp_path / "path" / "tflow", ignore=shutil.ignore_patterns("__pycache__")))
    assert "is consumed twice: by" in check(tmp_path, package=package)
    sentences = package / "sentences.py"
    sentences.write_text(sentences.read_text().replace("is consumed twice: by", "is eaten twice: by"))
    assert "is eaten twice: by" in check(tmp_path, package=package)


@pytest.mark.types
@pytest.mark.parametrize(
    ("more", "left"),
    [
        ("disable_error_code = tflow-linear", ["tflow-flow"]),
        pytest.param("disable_error_code = tflow-flow", ["arg-type", "tflow-linear"], marks=pytest.mark.full),
    ],
)
def test_rules_can_be_switched_off_for_a_project(more: str, left: list[str], tmp_path: Path) -> None:
    assert sorted(codes(check(tmp_path, more=more))) == left


@pytest.mark.types
def test_rules_can_be_switched_off_for_a_line_or_a_file(tmp_path: Path) -> None:
    line, last = ", words)", "for_each(Shout())\n"
    plans = {
        PLAN: ["tflow-flow", "tflow-linear"],
        PLAN.replace(last, "for_each(Shout(shout.loud))\n"): ["call-arg", "name-defined", "tflow-flow", "tflow-linear"],
        PLAN.replace(line, f"{line}  # type: ignore[tflow-linear]"): ["tflow-flow"],
        PLAN.replace(line, f"{line}  # tflow: ignore[linear]"): ["tflow-flow"],
        PLAN.replace(line, f"{line}  # tflow: ignore[flow]"): ["tflow-flow", "tflow-linear"],
        '# mypy: disable-error-code="tflow-flow"\n' + PLAN: ["arg-type", "tflow-linear"],
        PLAN.replace(last, "for_each(Shout())  # tflow: ignore\n"): ["arg-type", "tflow-linear"],
    }
    names = {f"plan_{number}.py": plan for number, plan in enumerate(plans)}
    for name, plan in names.items():
        (tmp_path / name).write_text(plan)
    lines = check_all(tmp_path, list(names)).splitlines()
    found = {name: sorted(codes("\n".join(line for line in lines if line.startswith(f"{name}:")))) for name in names}
    assert found == dict(zip(names, plans.values(), strict=True))


@pytest.mark.parametrize("version", ["1.17.1", "1.0", "2.5.0", "3.0.0+dev"])
def test_other_versions_of_mypy_are_warned_about_and_checked_all_the_same(
    version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mypy_plugin.plugin(version) is mypy_plugin.TflowPlugin
    assert f"is tested with mypy 1.18 to 2.4; this is mypy {version}, so some of its rules" in capsys.readouterr().err


def test_the_versions_are_those_of_the_extra_and_the_installed_one_is_the_highest() -> None:
    project = (PACKAGE.parent / "pyproject.toml").read_text()
    (low, high) = mypy_plugin.LOWEST, mypy_plugin.HIGHEST
    assert f'"mypy>={low[0]}.{low[1]},<{high[0]}.{high[1] + 1}"' in project
    assert tuple(map(int, installed.split(".")[:2])) == high
    assert mypy_plugin.plugin(installed) is mypy_plugin.TflowPlugin


def test_what_the_plugin_needs_of_mypy_beyond_its_interface_is_still_there() -> None:
    """If this fails, mypy has moved something: read ``finish.py`` and ``TflowPlugin.marked``."""
    for name in ("defer_node", "lookup_type_or_none", "named_generic_type", "get_expression_type"):
        assert callable(getattr(TypeChecker, name)), name
    assert {"deferred_nodes", "scope", "tree", "path", "modules", "recurse_into_functions"} <= set(dir(TypeChecker))
    assert hasattr(FuncDef, "def_or_infer_vars")
    assert hasattr(CallExpr, "analyzed")
    assert hasattr(Scope, "function_scope")
    assert {"node", "kind", "fullname"} <= set(dir(NameExpr))
    assert hasattr(Var, "is_ready")


def test_the_digest_is_over_all_that_decides_what_is_found() -> None:
    """The rules, and the descriptions whose bounds the literal rule tries."""
    parts = {path.relative_to(PACKAGE).as_posix() for path in mypy_plugin.PARTS}
    for folder in ("mypy_plugin", "combinators", "rl"):
        assert parts >= {path.relative_to(PACKAGE).as_posix() for path in (PACKAGE / folder).rglob("*.py")}
    assert {"sentences.py", "types.py", "domain.py"} <= parts


def test_looking_names_up_imports_nothing_heavy() -> None:
    """It happens inside the user's mypy."""
    code = (
        "import sys\n"
        "from tflow.mypy_plugin.labels import public\n"
        "from tflow.mypy_plugin.public import homes\n"
        "found = [public(f'{module}.{name}') for name, module in homes().items()]\n"
        "assert sum(each is not None for each in found) > 60\n"
        "assert not {'torch', 'ray', 'gymnasium', 'hypothesis'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_trying_configurations_imports_nothing_heavy() -> None:
    """The literal rule makes the plans of configurations inside the user's mypy."""
    code = (
        "import sys\n"
        "from tflow import algos\n"
        "names = ('PPO', 'PPODQN', 'DQN', 'SAC', 'ApeX', 'MAML')\n"
        "made = [getattr(algos, name)().plan() for name in names]\n"
        "assert len(made) == 6\n"
        "assert not {'torch', 'ray', 'gymnasium', 'hypothesis'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
