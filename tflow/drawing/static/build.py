"""One run of mypy over a file, with settings of its own, for the types of its expressions.

What the file imports is looked at once and then comes from a cache. The file itself is always read: for it we need the tree and
the types, which caches do not keep.
"""

from __future__ import annotations

import ast
import importlib
import io
import os
import re
import sys
import tokenize
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mypy import build
from mypy.checker import TypeChecker
from mypy.errors import CompileError
from mypy.find_sources import InvalidSourceList, create_source_list
from mypy.modulefinder import BuildSource
from mypy.options import Options

from tflow.drawing.static.source import Module, Program
from tflow.errors import PlanError

SKIPPED = ("torch", "ray", "gymnasium")
"""Large, and no stream has their types."""
ROUNDS = 4
"""How often modules are added that turn out to be needed."""


@dataclass(frozen=True)
class Checked:
    """What mypy says of a file."""

    program: Program
    main: str
    """The name of the module."""
    errors: list[str]
    """Those about the file itself."""


def cache_folder() -> Path:
    """Where types of imported modules are kept between runs: ``TFLOW_CACHE``, or where caches of the user are."""
    given = os.environ.get("TFLOW_CACHE")
    if given:
        return Path(given) / "mypy"
    usual = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else None)
    return (Path(usual) if usual else Path.home() / ".cache") / "tflow" / "mypy"


def checked(path: Path, also: Mapping[str, str] | None = None, cache: Path | None = None) -> Checked:
    """Check a file, and other modules by name and path whose trees are needed as well."""
    text = text_of(path)
    try:
        ast.parse(text)
    except SyntaxError as error:
        raise PlanError(f"{path}, line {error.lineno}: {error.msg}. Python cannot read it.") from None
    options = settings(path, cache or cache_folder())
    main = source_of(path, text, options)
    sources = [main, *(BuildSource(where, name, text_of(Path(where))) for name, where in (also or {}).items())]
    for source in sources:
        options.per_module_options[source.module] = {"preserve_asts": True, **parser(options, quick=False)}
    result = built(sources, options, path)
    modules = {}
    for source in sources:
        state = result.graph[source.module]
        if state.tree is not None:
            where, text = Path(source.path or ""), source.text or ""
            modules[source.module] = Module(source.module, state.tree, where, text, partial(fresh_checker, state))
    own = {name: str(state.path) for name, state in result.graph.items() if is_own(state.path)}
    return Checked(Program(modules, result.types, own), main.module, [line for line in result.errors if is_about(line, path)])


def built(sources: list[BuildSource], options: Options, path: Path) -> build.BuildResult:
    """Run mypy. If it trips over its cache or over the plugin, once more without them."""
    try:
        return _built(sources, options)
    except Exception:  # whatever it is, the second attempt says whether it matters
        options.cache_dir, options.incremental, options.plugins = os.devnull, False, []
    try:
        return _built(sources, options)
    except CompileError as error:
        raise PlanError(blocked(error)) from None
    except Exception as error:  # a bug in mypy is no reason to show its traceback
        problem = f"mypy failed at {path} ({type(error).__name__}: {error})"
        raise PlanError(f"{problem}. To draw what the file really builds: tflow graph --built {path}:NAME.") from error


def _built(sources: list[BuildSource], options: Options) -> build.BuildResult:
    silence = io.StringIO()
    with redirect_stdout(silence), redirect_stderr(silence):
        return build.build(sources, options)


def is_about(line: str, path: Path) -> bool:
    """True for an error in the file itself."""
    found = re.match(r"(.+?):\d+: error:", line)
    return found is not None and os.path.abspath(found.group(1)) == os.path.abspath(path)


def fresh_checker(state: build.State) -> TypeChecker:
    """A checker for a module that has been checked, without a memory of what it was asked."""
    state.free_state()
    return state.type_checker()


def settings(path: Path, cache: Path) -> Options:
    """Options that depend on nothing but the file: no configuration is read."""
    options = Options()
    options.export_types = True
    options.preserve_asts = True
    options.incremental = True
    options.sqlite_cache = False  # plain files: several runs may write at the same time
    options.cache_dir = str(cache)
    options.follow_imports = "silent"
    options.ignore_missing_imports = True
    options.check_untyped_defs = True
    options.namespace_packages = False  # a folder without __init__.py is where its files are run, not a package
    options.mypy_path = [str(path.resolve().parent)]
    options.python_version = sys.version_info[:2]
    options.python_executable = sys.executable
    options.raise_exceptions = True  # instead of ending the process
    for name, value in parser(options, quick=False).items():
        setattr(options, name, value)
    # Only the modules that are asked for keep their trees: of all others mypy may skip what functions do.
    skipped: dict[str, object] = {"follow_imports": "skip", "follow_imports_for_stubs": True}
    others: dict[str, object] = {"preserve_asts": False, **parser(options, quick=True)}
    options.per_module_options = {"*.*": others, **{f"{name}.*": skipped for name in SKIPPED}}
    if has_plugin():
        options.plugins = ["tflow.mypy_plugin"]
    return options


def parser(options: Options, *, quick: bool) -> dict[str, object]:
    """Which parser reads a module: the new one of mypy 2 is quicker, but loses count of columns behind letters that are not
    ASCII."""
    return {"native_parser": quick} if hasattr(options, "native_parser") else {}


def has_plugin() -> bool:
    """The plugin may be missing, or too new for this mypy; types are found without it too."""
    try:
        return hasattr(importlib.import_module("tflow.mypy_plugin"), "plugin")
    except ImportError:
        return False


def source_of(path: Path, text: str, options: Options) -> BuildSource:
    """The file as mypy likes to be given it, with its text, so that no cache stands in for it."""
    try:
        (found,) = create_source_list([str(path)], options)
    except (InvalidSourceList, ValueError):
        found = BuildSource(str(path), "__main__")
    return BuildSource(str(path), found.module, text, found.base_dir)


def text_of(path: Path) -> str:
    """The text of a Python file, in whatever encoding it declares."""
    try:
        with tokenize.open(path) as file:
            return file.read()
    except (SyntaxError, UnicodeDecodeError) as error:
        raise PlanError(f"{path} is not text that Python can read: {error}.") from None
    except OSError as error:
        raise PlanError(f"{path} cannot be read: {error.strerror}.") from None


def blocked(error: CompileError) -> str:
    """Why mypy could not look at a file at all, as a sentence."""
    problems = [line.replace(" error: ", " ") for line in error.messages if ": error:" in line] or error.messages
    return f"The types cannot be looked at: {problems[0] if problems else error}"


def is_own(path: str | None) -> bool:
    """True for modules of the user: not installed, not a stub, and not tflow itself."""
    if path is None or not path.endswith(".py"):
        return False
    inside = Path(path).resolve().parts
    package = Path(__file__).resolve().parents[2]
    return "site-packages" not in inside and "typeshed" not in inside and not Path(path).resolve().is_relative_to(package)
