"""Runs mypy with the plugin: in a process of its own, with a configuration and a cache of its own, and reads what it says.

The configuration of the user is never read. A run that ended in any other way than 'checked' is a ``CheckFailed`` with a
sentence: it must never look like 'nothing found'.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from types import TracebackType
from typing import Self

from tflow.checking.findings import SYNTAX, CheckFailed, Finding
from tflow.checking.layout import FileGroup, file_groups, imported
from tflow.checking.notebooks import Modules, notebook
from tflow.checking.places import Sources
from tflow.checking.unsure import is_unsure
from tflow.extras import require

CACHE = ".tflow_cache"
CONFIG = "mypy.toml"
PLUGIN = "tflow.mypy_plugin"
EXACT_CACHE = "tflow.checking.exact_cache"
SKIPPED_LIBRARIES = ("torch", "torchvision", "ray", "gymnasium")
"""Large libraries whose types no rule asks about: following them would cost most of the time."""
OUR_LIBRARIES = ("hypothesis", "pytest", "rich", "typer")
"""Libraries that tflow imports for its own ends. They are followed if a file that is checked imports them, too."""
NUMPY = "char core ctypeslib f2py fft lib linalg ma matlib matrixlib polynomial rec strings testing"
PARTS_OF_LIBRARIES = {"numpy": NUMPY.split()}
"""By library: parts that none of our types is about, and which take a quarter of the time. As above."""
RAISED = re.compile(r"^(?!note|error|version)([A-Za-z_][\w.]*): (.+)$", re.MULTILINE)
"""The last line of a traceback."""


@dataclass(frozen=True)
class Said:
    """What a process said before it ended."""

    code: int
    out: str
    err: str


class Engine:
    """Checks groups of files, with one run of mypy each. A context manager: its files are gone at the end."""

    whole: tuple[str, ...] = ()
    """Libraries of which all parts are followed in any case."""

    def __init__(self, folder: Path, *, skip: Sequence[str] = (), plugin: str = PLUGIN, redefine: bool = True) -> None:
        require("mypy", extra="check", feature="Checks of plans")
        self.folder = folder
        self.skip = (*SKIPPED_LIBRARIES, *skip)
        self.plugin = plugin
        self.modules = Modules((), folder, folder)
        self.redefine = redefine
        """Whether a name may change its type."""
        self.cache = folder / CACHE
        try:
            self.cache.mkdir(exist_ok=True)
            (self.cache / ".gitignore").write_text("*\n")
            self.desk = Path(mkdtemp(prefix="run-", dir=self.cache))
            """A folder for this run alone, since several may check at a time."""
        except OSError as error:
            raise CheckFailed(f"{CACHE} is where findings are remembered, and it cannot be written: {error}.") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        rmtree(self.desk, ignore_errors=True)

    def check(self, files: Sequence[str]) -> list[Finding]:
        """Everything that mypy and the plugin object to, in whichever file."""
        return [finding for group in file_groups(files, self.folder) for finding in self.check_group(group)]

    def check_group(self, group: FileGroup) -> list[Finding]:
        listed = self.desk / "files.txt"  # a file, since a command line has a limit
        listed.write_text("\n".join(self.arguments(group)), encoding="utf-8")
        return self.read(self.run("mypy", *self.options(group), f"@{listed}"))

    def arguments(self, group: FileGroup) -> list[str]:
        """What mypy is told to check: notebooks are modules to it."""
        self.modules = Modules(group.files, self.folder, self.desk)
        return [as_argument(path) for path in self.modules.paths]

    def imports(self, file: str) -> set[str]:
        """The modules that a file imports."""
        return imported(self.folder / file)

    def followed(self, group: FileGroup) -> tuple[str, ...]:
        """Those of our libraries that the files import."""
        wanted = {name.partition(".")[0] for file in group.files for name in self.imports(file)}
        return tuple(name for name in (*OUR_LIBRARIES, *PARTS_OF_LIBRARIES) if name in wanted and name not in self.whole)

    def cache_folder(self, followed: Sequence[str]) -> Path:
        """Where mypy keeps what it knows. What is not followed changes what is known of modules that import it: one folder for
        all would be made anew in turns."""
        return self.cache / "-".join([*(() if self.redefine else ("strict",)), *followed])

    def options(self, group: FileGroup) -> list[str]:
        config, followed = self.desk / CONFIG, self.followed(group)
        skip = [*self.skip, *(name for name in OUR_LIBRARIES if name not in followed)]
        whole = {*followed, *self.whole}
        skip += [f"{name}.{part}" for name, parts in PARTS_OF_LIBRARIES.items() if name not in whole for part in parts]
        config.write_text(configuration(self.folder, self.plugin, skip, group.roots, redefine=self.redefine), encoding="utf-8")
        given = [
            "--config-file",
            str(config),
            "--cache-dir",
            str(self.cache_folder(followed)),
            "--output",
            "json",
        ]
        return [*given, "--no-error-summary", "--show-traceback"]

    def run(self, *command: str) -> Said:
        done = subprocess.run(  # noqa: S603  # our own interpreter and our own words
            [sys.executable, "-m", *command],
            cwd=self.folder,
            env=environment(),
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def read(self, said: Said, sources: Sources | None = None) -> list[Finding]:
        """The findings, or ``CheckFailed`` if mypy did not get to the end."""
        lines = [*said.out.splitlines(), *said.err.splitlines()]
        errors = [json.loads(line) for line in lines if line.startswith('{"file": ')]
        stopped = said.code not in (0, 1)
        if stopped and ("Traceback" in said.err or "INTERNAL ERROR" in said.err):
            raise CheckFailed(self.crash(said))
        for error in errors:
            if (stopped or error["line"] < 1) and error["severity"] == "error" and error["code"] != SYNTAX:
                hint = (error["hint"] or "").partition("\n")[0]
                if "shadows library module" in error["message"]:
                    hint = f"{hint.rstrip('.')}. Rename it, or put it into a package".removeprefix(". ")
                what = "start" if error["file"].endswith(CONFIG) else f"check {error['file']}"
                raise CheckFailed(f"mypy could not {what}: {error['message']}. {hint}".strip())
        if not errors and said.code != 0:
            own = [line for line in lines if line.startswith("tflow")]  # the plugin's own words, such as about versions
            words = " ".join(filter(None, lines)) or "it said nothing"
            raise CheckFailed(own[0] if own else f"mypy stopped with exit code {said.code}: {words}")
        return self.modules.findings((sources or Sources(self.folder)).findings(errors))

    def crash(self, said: Said) -> str:
        """One sentence; the traceback goes to a file. What tflow itself raises on purpose is passed on as it is."""
        raised = RAISED.findall(f"{said.err}\n{said.out}")  # mypy itself writes it there, its daemon here
        name, words = raised[-1] if raised else ("it said", " ".join(said.err.split()))
        if name.startswith("tflow."):
            return words
        log = self.cache / "crash.txt"
        log.write_text(f"{said.out}\n{said.err}", encoding="utf-8")
        place = re.search(r"^(.+?): error: INTERNAL ERROR", said.err, re.MULTILINE)
        where = f" at {place[1]}" if place else ""
        number = ".".join(map(str, mypy_version()))
        return f"mypy {number} crashed{where} ({name}: {words}). The traceback is in {CACHE}/{log.name}."


def confirmed(found: list[Finding], strictly: Callable[[Sequence[str]], Iterable[Finding]], sources: Sources) -> list[Finding]:
    """Without what mypy says only because it does not know better (``unsure.py``), or because names may change their types
    here, as other checkers allow. Ours are about streams, whose names do change their types.

    Args:
        found: What was found.
        strictly: Checks files without letting names change their types.
        sources: The texts of the files.
    """
    found = [each for each in found if each.ours or each.code == SYNTAX or not is_unsure(*in_text(each, sources))]
    others = [each for each in found if not each.ours and each.code != SYNTAX]
    if not others:
        return found
    again = {(each.file, each.cell, each.line) for each in strictly(sorted({each.file for each in others}))}
    return [each for each in found if each.ours or each.code == SYNTAX or (each.file, each.cell, each.line) in again]


def in_text(finding: Finding, sources: Sources) -> tuple[Finding, str]:
    """A finding, with the Python that it is about: that of a notebook is the module of its cells."""
    book = notebook(sources.folder / finding.file) if finding.cell else None
    return (finding, sources.text(finding.file)) if book is None else (book.in_module(finding), book.module)


def as_argument(file: str) -> str:
    """A file whose name looks like an option is still a file."""
    return f"./{file}" if file.startswith(("-", "@")) else file


def environment() -> dict[str, str]:
    """Ours, so that no module of the working directory shadows one of mypy's, and tflow is found wherever it is."""
    places = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(Path(__file__).parents[2])]
    return os.environ | {"PYTHONSAFEPATH": "1", "PYTHONUTF8": "1", "PYTHONPATH": os.pathsep.join(filter(None, places))}


def mypy_version() -> tuple[int, ...]:
    with suppress(PackageNotFoundError):
        return tuple(int(part) for part in re.findall(r"\d+", version("mypy"))[:3])
    return (0,)


def configuration(folder: Path, plugin: str, skip: Iterable[str], roots: Iterable[str], *, redefine: bool = True) -> str:
    """The whole configuration of mypy. (JSON strings and lists are TOML, too.)"""
    installed = mypy_version()
    redefinition = "allow_redefinition" if installed >= (2,) else "allow_redefinition_new"
    lines = [
        "[tool.mypy]",
        f"plugins = {json.dumps([plugin, EXACT_CACHE])}",
        f"mypy_path = {json.dumps([str(folder / root) for root in roots])}",
        "check_untyped_defs = true",
        "ignore_missing_imports = true",
        "namespace_packages = true",
        "explicit_package_bases = true",
        'follow_imports = "skip"',  # as for all modules below, but the daemon wants to hear one of two words here
        f"{redefinition} = {json.dumps(redefine)}",  # `stream = stream.gather_sync()` is fine for other checkers; here, too
        "local_partial_types = true",  # which the line above needs, and the daemon
        "native_parser = false" if installed >= (1, 20) else "",  # its columns are wrong after letters beyond ASCII
        "",
        "[[tool.mypy.overrides]]",
        'module = ["*.*"]',
        'follow_imports = "silent"',  # only what is named is reported on; what is wrong inside tflow is not the user's
        "",
        "[[tool.mypy.overrides]]",
        'module = ["tflow.*"]',
        "ignore_missing_imports = false",  # a module of ours that is not there is misspelt
        "",
        "[[tool.mypy.overrides]]",
        f"module = {json.dumps([f'{library}.*.*' for library in skip])}",
        'follow_imports = "skip"',
        "follow_imports_for_stubs = true",
    ]
    return "\n".join(lines) + "\n"
