"""``tflow new``: what it writes is a project that is right, and that tflow finds once it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own

from tests.commands.conftest import Typed
from tests.commands.conftest import typed as typed
from tflow.algos import installed
from tflow.algos.names import ALGORITHMS
from tflow.commands.choice import chosen
from tflow.errors import PlanError
from tflow.presets import presets_of
from tflow.scaffold import PROJECT, SUFFIX, create

TOOLS = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]


def run(*words: object, folder: Path, path: Path | None = None) -> str:
    """What a command prints; it has to succeed."""
    environment = {**os.environ, "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("HYPOTHESIS_PROFILE", None)
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run([*map(str, words)], cwd=folder, capture_output=True, text=True, timeout=1500, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_new_project_is_formatted_typed_and_passes_its_tests(tmp_path: Path) -> None:
    """Among them the laws of its operator. mypy does not follow torch here, which would take a minute."""
    folder = tmp_path / "curious"
    create(folder)
    run("make", "lint", f"PYTHON={sys.executable}", folder=folder)
    assert " passed" in run("make", "tests", f"PYTHON={sys.executable}", folder=folder)
    command = (
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file",
        ROOT / "tests" / "types" / "plugin.ini",
        "curious",
        "tests",
    )
    assert "Success: no issues found in 5 source files" in run(*command, folder=folder, path=ROOT)


@pytest.mark.full
def test_make_test_passes_in_a_new_project(tmp_path: Path) -> None:
    """All of it as users have it."""
    create(tmp_path / "curious")
    said = run("make", "test", f"PYTHON={sys.executable}", folder=tmp_path / "curious")
    assert "Success: no issues found" in said
    assert " passed" in said


@pytest.mark.full
def test_other_type_checkers_understand_its_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "my_own"
    create(folder)
    assert "0 errors" in run(TOOLS / "basedpyright", "--pythonpath", sys.executable, folder=folder)
    run(TOOLS / "pyrefly", "check", "--python-interpreter-path", sys.executable, folder=folder)
    operators = folder / "my_own" / "operators.py"
    operators.write_text(operators.read_text().replace('batch["rewards"]', 'batch["reward"]'))
    assert subprocess.run([TOOLS / "basedpyright", "--pythonpath", sys.executable], cwd=folder, capture_output=True).returncode
    assert subprocess.run([TOOLS / "pyrefly", "check", "--python-interpreter-path", sys.executable], cwd=folder).returncode


@pytest.mark.parametrize("name", ["x1", "curiosity_driven_search_2"])
def test_short_and_long_names_are_well_formatted(name: str, tmp_path: Path) -> None:
    written = create(tmp_path / name)
    assert len(written) == len(list(PROJECT.rglob(f"*{SUFFIX}"))) > 10
    run(TOOLS / "ruff", "format", "--check", ".", folder=tmp_path / name)
    run(TOOLS / "ruff", "check", ".", folder=tmp_path / name)
    left = [path for path in written if "my_algo" in path.read_text() or "MyAlgo" in path.read_text() or "my_algo" in str(path)]
    assert left == []
    for path in written:
        if path.suffix in (".yml", ".yaml"):
            assert yaml.safe_load(path.read_text())
        if path.suffix == ".toml":
            assert tomllib.loads(path.read_text())


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "my-algo",
            "'my-algo' is no name for a package: lower-case letters, digits and _, and no word of Python. Such as my_algo.",
        ),
        ("MyAlgo", "Such as my_algo."),
        ("2fast", "Such as fast."),
        ("class", "no word of Python."),
        ("é", "is no name for a package"),
        ("ppo", "There is already an algorithm called 'ppo'. Choose another name, such as my_ppo."),
        ("json", "There is already a module called 'json'. Choose another name, such as json_rl."),
        ("numpy", "There is already a module called 'numpy'."),
        ("tests", "There is already a module called 'tests'."),
        ("full", "is already there. Choose another name, or remove it."),
        ("file", "is already there."),
        ("nowhere/my_algo", "There is no folder "),
    ],
)
def test_names_that_cannot_be_are_refused(
    name: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    (tmp_path / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    code, _, err = typed("new", name)
    assert code == 2
    assert sentence in err
    assert sorted(tmp_path.rglob("*")) == before, "nothing was written"


def test_an_empty_folder_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_algo").mkdir()
    code, out, _ = typed("new", "my_algo")
    assert code == 0
    assert "Next: cd my_algo, make setup, make test, tflow train my_algo --env CartPole-v1." in out


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(tmp_path)
    forget()
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    forget()


def forget() -> None:
    """Look for packages again."""
    installed.registered.cache_clear()
    installed.installed.cache_clear()
    presets_of.cache_clear()


def register(site: Path, package: str, entries: str) -> None:
    """The metadata that pip would write."""
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{installed.GROUP}]\n{entries}\n")
    forget()


def test_a_project_that_pip_has_installed_is_trained_by_its_name(site: Path, tmp_path: Path) -> None:
    create(tmp_path / "newcomer")
    shutil.rmtree(tmp_path / "newcomer" / "tests")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    run(*pip, "--disable-pip-version-check", "--target", site, tmp_path / "newcomer", folder=tmp_path)
    tflow = (sys.executable, "-m", "tflow.cli")
    away = tmp_path / "away"
    away.mkdir()
    assert "newcomer.algorithm.Newcomer" in run(*tflow, "algos", folder=away, path=site).replace("\n", "")
    assert "CartPole-v1" in run(*tflow, "presets", "newcomer", folder=away, path=site)
    said = run(*tflow, "train", "newcomer", "--stop-steps", "600", "--plain", "--out", "run", folder=away, path=site)
    assert "With the preset for CartPole-v1" in said
    config = tomllib.loads((away / "run" / "config.toml").read_text())
    assert config["run"]["algo"] == "newcomer"
    assert config["scale"] == 1.0
    run(*tflow, "eval", "run", "--episodes", "1", folder=away, path=site)
    assert "SquashRewards" in run(*tflow, "graph", "run", folder=away, path=site)


def test_wrong_entry_points_are_told_and_are_in_nobodys_way(site: Path, typed: Typed) -> None:
    (site / "good_one.py").write_text(
        "from dataclasses import dataclass\nfrom tflow.algos import A2C\n\n"
        '@dataclass(frozen=True, kw_only=True)\nclass Good(A2C):\n    """A good one."""\n'
    )
    (site / "broken.py").write_text("raise RuntimeError('half installed')\n")
    (site / "other.py").write_text("thing = 3\n")
    register(site, "good", "Good-One = good_one:Good")
    register(
        site, "bad", "gone = no_such_module:Algo\nbroken = broken:Algo\nno-name = other:Algo\nthing = other:thing\nodd = ???"
    )
    register(site, "same", "ppo = good_one:Good\ntwice = good_one:Good")
    register(site, "again", "twice = other:thing")
    code, out, err = typed("algos")
    assert code == 0, err
    told = " ".join(out.split())
    assert "good_one.Good" in told
    for sentence in (
        "The package bad says that its algorithm gone is 'no_such_module:Algo', which cannot be imported: ModuleNotFoundError: "
        "No module named 'no_such_module'.",
        "'broken:Algo', which cannot be imported: RuntimeError: half installed.",
        "'other:Algo', which cannot be imported: AttributeError",
        "'other:thing', which is not an algorithm: derive a dataclass from one, such as class MyAlgo(PPO).",
        "its algorithm odd is '",
        "An algorithm of same is called 'ppo' like one of tflow, which is taken.",
        "There are several algorithms called 'twice', of the packages ",
    ):
        assert sentence in told
    assert type(chosen(["good-one"]).algorithm).__name__ == "Good"
    assert chosen(["good_one"]).run.algo == "good_one"
    assert type(chosen(["ppo"]).algorithm) is ALGORITHMS["ppo"]
    for name in ("broken", "twice", "thing", "odd"):
        with pytest.raises(PlanError, match=r"which cannot|several|is not an algorithm"):
            chosen([name])
    with pytest.raises(PlanError, match="Did you mean good_one"):
        chosen(["goodone"])


def test_presets_that_cannot_be_read_are_told_where_they_are_asked_for(site: Path, typed: Typed) -> None:
    (site / "illegible" / "presets").mkdir(parents=True)
    (site / "illegible" / "__init__.py").write_text("from tflow.algos import A2C\n")
    (site / "illegible" / "presets" / "illegible.toml").write_text("[CartPole-v1\n")
    register(site, "illegible", "illegible = illegible:A2C")
    code, out, _ = typed("presets")
    assert code == 0
    assert "LunarLander-v3" in out
    assert "illegible.toml' cannot be read" in " ".join(out.split())
    code, _, err = typed("presets", "illegible")
    assert code == 2
    assert "cannot be read" in err
    assert chosen(["ppo"]).preset is not None
