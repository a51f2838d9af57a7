"""Builds the wheel and the source archive, and tries the wheel as a user would: ``make test-wheel``.

Per Python: a new environment, ``pip install`` of the wheel, and then, away from the sources, how long ``import tflow`` takes, a
plan, whether mypy sees the types, ``tflow train ppo`` for 2,000 steps, and a project of ``tflow new``, installed. The wheel that
is made of the source archive has to have the same files.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMPORT = """
import sys, time
start = time.perf_counter()
import tflow
took = time.perf_counter() - start
assert "site-packages" in tflow.__file__, tflow.__file__
heavy = {"torch", "ray", "gymnasium"} & set(sys.modules)
assert not heavy, heavy
assert list(tflow.par_from_range(3).gather_sync().run()) == [0, 2, 1]
print(f"{sys.version.split()[0]}: import tflow {took * 1000:.0f} ms")
"""
TYPED = "import tflow\nfrom tflow.algos import PPO\nreveal_type(PPO().plan())\nplan: tflow.Plan[int] = PPO().plan()\n"


def run(*words: object, folder: Path, code: int = 0) -> str:
    """What a command prints; it has to end as expected."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([*map(str, words)], cwd=folder, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != code:
        raise SystemExit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def build(folder: Path) -> Path:
    """The wheel; it and the one that the source archive gives have the same files."""
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, folder=ROOT)
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        sources.extractall(folder / "sources", filter="data")
    (unpacked,) = (folder / "sources").iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "again", folder=unpacked)
    (again,) = (folder / "again").glob("*.whl")
    assert names(wheel) == names(again), names(wheel) ^ names(again)
    assert {"tflow/py.typed", "tflow/__init__.pyi", "tflow/scaffold/project/Makefile.template"} <= names(wheel)
    print(f"{wheel.name} {wheel.stat().st_size / 1e6:.1f} MB, {archive.name} {archive.stat().st_size / 1e6:.1f} MB")
    return wheel


def names(wheel: Path) -> set[str]:
    """The files in a wheel."""
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


def try_out(wheel: Path, python: str, folder: Path) -> None:
    """Install a wheel in a new environment, and use it."""
    run(python, "-m", "venv", folder / "env", folder=folder)
    inside = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    pip = (inside / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
    run(*pip, f"{wheel}[check]", folder=folder)
    print(run(inside / "python", "-c", IMPORT, folder=folder).strip())
    (folder / "typed.py").write_text(TYPED)
    seen = run(inside / "python", "-m", "mypy", "--strict", "typed.py", folder=folder, code=1)
    assert "Plan[tflow.rl.metrics.Metrics]" in seen, seen
    assert 'has type "Plan[Metrics]", variable has type "Plan[int]"' in seen, seen
    trained = run(inside / "tflow", "train", "ppo", "--env", "CartPole-v1", "--stop-steps", "2000", "--plain", folder=folder)
    print(trained.strip().splitlines()[-1])
    run(inside / "tflow", "new", "my_algo", folder=folder)
    run(*pip[:4], "--quiet", "--no-deps", folder / "my_algo", folder=folder)
    assert "my_algo" in run(inside / "tflow", "algos", folder=folder)


def main() -> None:
    """Build once, and try it on every Python that was given and is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="+", help="Interpreters; those that are not there are left out, and named.")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        wheel = build(folder / "dist")
        for python in parser.parse_args().pythons:
            if shutil.which(python) is None:
                print(f"{python}: not on this machine")
                continue
            place = folder / Path(python).name
            place.mkdir()
            try_out(wheel, python, place)
            shutil.rmtree(place)


if __name__ == "__main__":
    main()
