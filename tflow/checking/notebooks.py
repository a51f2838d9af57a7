"""Notebooks as modules: the code cells in their order, and for each line of the module the cell and the line that it comes from.

Lines keep their columns. What only IPython understands (``%magic``, ``!command``, ``name?``) becomes a call of ``get_ipython``,
as in IPython itself; the name is known here and has no type. What is normal in notebooks is no finding: ``await`` outside
functions, and names that later cells define anew, whose types are then unknown.
"""

from __future__ import annotations

import io
import json
import os
import re
import symtable
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

from tflow.checking.findings import SYNTAX, Finding

SUFFIX = ".ipynb"
OPAQUE = "get_ipython()"
COMMAND = re.compile(r"\s*(?:[%!?/,;]|[\w.*\[\]'\"]+\?\??\s*$)")
"""The beginning of a line for IPython, if a statement could begin there. (None of Python's begins so.)"""
ASSIGNED = re.compile(r"\s*[^=#'\"()]+=\s*(?=%\w|!)")
MAGIC = re.compile(r"(%%?)(\w+)\s*(.*)")
TIMED = re.compile(r"%(?:time|timeit|prun)\b(?=\s+[^-\s])")
"""Magics that run the statement after them."""
TIMED_CELLS = {"time", "timeit", "prun", "capture"}
QUIET = {
    *("autoreload", "bash", "cd", "conda", "config", "debug", "env", "file", "history", "html", "javascript", "js", "latex"),
    *(
        "load_ext",
        "ls",
        "lsmagic",
        "markdown",
        "matplotlib",
        "pdb",
        "perl",
        "pip",
        "precision",
        "pwd",
        "reload_ext",
        "ruby",
        "set_env",
    ),
    *("sh", "svg", "system", "tflow_check", "time", "timeit", "prun", "unload_ext", "uv", "who", "whos", "writefile", "xmode"),
}
"""Magics that bring no names. Others may, as ``%run`` does."""
SHELL_NAMES = re.compile(r"get_ipython|display|In|Out|exit|quit|_+|_i*\d*|_[iod]h")
QUOTED = re.compile(r'Name "(\w+)"')
LINE = re.compile(r"\bline (\d+)")
COMPREHENSIONS = {"listcomp", "setcomp", "dictcomp", "genexpr"}
PREAMBLE = "from typing import Any as __Any"


@dataclass(frozen=True)
class Line:
    """A line of a cell; cells and lines count from 1."""

    cell: int
    number: int
    text: str


@dataclass(frozen=True)
class Notebook:
    """The module, where each of its lines comes from, and what is known of the cells."""

    module: str
    lines: tuple[Line, ...]
    broken: tuple[Finding, ...]
    """The syntax errors of cells, which are left out of the module."""
    redefined: frozenset[str]
    unknown_names: bool
    """True if names may come from elsewhere: from a magic, or a cell that cannot be read."""

    def place(self, finding: Finding, file: str) -> Finding | None:
        """A finding about the module, in the notebook; None if that is normal there."""
        name = QUOTED.match(finding.message)
        unknown = finding.code == "name-defined" and (self.unknown_names or (name and SHELL_NAMES.fullmatch(name[1])))
        redefined = finding.code == "no-redef" and name and name[1] in self.redefined
        awaits = finding.code == "top-level-await" or finding.message.endswith("outside async function")
        if unknown or redefined or awaits:
            return None
        line, last = self.line(finding.line), self.line(finding.end_line)
        return replace(
            finding,
            file=file,
            cell=line.cell,
            line=line.number,
            end_line=last.number,
            message=self.told(finding.message, line.cell),
            notes=tuple(self.told(note, line.cell) for note in finding.notes),
            source=line.text,
        )

    def line(self, number: int) -> Line:
        return self.lines[min(number, len(self.lines)) - 1]

    def in_module(self, finding: Finding) -> Finding:
        """A finding in the notebook, at its line of the module."""
        places = [(line.cell, line.number) for line in self.lines]
        here = finding.cell or 0, finding.line
        return replace(finding, line=places.index(here) + 1) if here in places else finding

    def told(self, sentence: str, cell: int) -> str:
        """With the lines that it names as they are called in the notebook."""

        def called(found: re.Match[str]) -> str:
            line = self.line(int(found[1]))
            return f"line {line.number}" if line.cell == cell else f"line {line.number} of cell {line.cell}"

        return LINE.sub(called, sentence)


def notebook(path: Path) -> Notebook | None:
    """The notebook in a file, or None if it is in another language than Python. What is no notebook is an empty one, with a
    finding that says so."""
    now = path.stat()
    return _read(path, now.st_mtime_ns, now.st_size)


@lru_cache(maxsize=256)
def _read(path: Path, changed: int, size: int) -> Notebook | None:  # while it is watched, a file is looked at often
    try:
        content = json.loads(path.read_text(encoding="utf-8") or '{"nbformat": 4, "cells": []}')
        if content["nbformat"] != 4:
            return unreadable(f"This is a notebook of format {content['nbformat']}; save it anew with Jupyter, in format 4.")
        metadata = content.get("metadata", {})
        language = metadata.get("language_info", {}).get("name") or metadata.get("kernelspec", {}).get("language") or "python"
        if language.lower() not in ("python", "ipython"):
            return None
        return joined([(number, "".join(cell["source"])) for number, cell in enumerate(content["cells"], 1) if _is_code(cell)])
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        return unreadable(f"This is not a notebook: it is not JSON ({error}). Save it anew with Jupyter.")
    except (KeyError, TypeError, AttributeError):
        return unreadable("This is not a notebook: its JSON is not as Jupyter writes it. Save it anew with Jupyter.")


def unreadable(why: str) -> Notebook:
    """Nothing, and why."""
    found = Finding(file="", line=1, column=1, end_line=1, end_column=2, message=why, code=SYNTAX)
    return Notebook("", (Line(1, 1, ""),), (found,), frozenset(), unknown_names=False)


def _is_code(cell: Mapping[str, Any]) -> bool:  # Any: JSON
    """True for cells in Python: editors keep other languages of single cells in their metadata."""
    language: object = cell.get("metadata", {}).get("vscode", {}).get("languageId", "python")
    return bool(cell["cell_type"] == "code") and language == "python"


def joined(cells: Iterable[tuple[int, str]]) -> Notebook:
    """Cells, by their numbers, as one module."""
    lines, python, broken = [Line(1, 1, "")] * 2, [PREAMBLE, ""], list[Finding]()
    bound, assigned, defined, kept = Counter[str](), set[str](), set[str](), set[str]()
    unknown = False
    for number, source in cells:
        texts = re.split(r"\r\n|\r|\n", source)
        code, may_bring = without_magics(texts)
        unknown |= may_bring
        try:
            table = parsed("\n".join(code))
        except (SyntaxError, ValueError) as error:  # a null byte is a ValueError before Python 3.12
            broken.append(syntax_error(error, number, texts))
            unknown = True
            continue
        python += code
        lines += [Line(number, count, text) for count, text in enumerate(texts, 1)]
        names = table.get_symbols()
        bound.update(name.get_name() for name in names if name.is_assigned() or name.is_imported())
        assigned |= {name.get_name() for name in names if name.is_assigned()}
        defined |= {name.get_name() for name in names if name.is_namespace()}
        kept |= kept_for_later(table)
    redefined = frozenset(name for name in defined | (assigned & kept) if bound[name] > 1)
    python[1] = "; ".join(f"{name}: __Any" for name in sorted(redefined))  # mypy believes the first definition
    return Notebook("\n".join(python) + "\n", tuple(lines), tuple(broken), redefined, unknown)


def parsed(code: str) -> symtable.SymbolTable:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the user's strings, which are not ours to judge
        return symtable.symtable(code, "cell", "exec")


def kept_for_later(table: symtable.SymbolTable, *, later: bool = False) -> set[str]:
    """The names outside that functions look up when they are called: what they are by then depends on other cells."""
    later = later or (table.get_type() == "function" and table.get_name() not in COMPREHENSIONS)
    own = {name.get_name() for name in table.get_symbols() if name.is_global()} if later else set[str]()
    return own.union(*(kept_for_later(child, later=later) for child in table.get_children()))


def syntax_error(error: SyntaxError | ValueError, cell: int, texts: Sequence[str]) -> Finding:
    at = error if isinstance(error, SyntaxError) else SyntaxError(str(error))
    line = min(max(at.lineno or 1, 1), len(texts))
    column = max(at.offset or 1, 1)
    last = min(max(at.end_lineno or line, line), len(texts))
    end = at.end_offset or 0
    return Finding(
        file="",
        cell=cell,
        line=line,
        column=column,
        end_line=last,
        end_column=max(end, column + 1) if last == line else max(end, 1),
        message=at.msg[:1].upper() + at.msg[1:],
        code=SYNTAX,
        source=texts[line - 1],
    )


def without_magics(lines: Sequence[str]) -> tuple[list[str], bool]:
    """The lines of a cell in Python, as many as they were; and whether its magics may bring names."""
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    if found := MAGIC.match(lines[first]):
        kind, name, rest = found.groups()
        if kind == "%%" and name not in TIMED_CELLS:
            return [""] * len(lines), name not in QUIET or "--" in rest
        if kind == "%%":
            body, may_bring = without_magics(lines[first + 1 :]) if lines[first + 1 :] else ([], False)
            return [*[""] * (first + 1), *body], may_bring or (name == "capture" and bool(rest) and not rest.startswith("-"))
    try:
        parsed("\n".join(lines))
    except (SyntaxError, ValueError):
        return list(_translated(lines)), any(_may_bring(line) for line in lines)
    return list(lines), False


def _translated(lines: Sequence[str]) -> Iterator[str]:
    statement, goes_on = "", False
    for line in lines:
        indentation = line[: len(line) - len(line.lstrip())]
        is_command = COMMAND.match(line) is not None
        if goes_on:
            goes_on = line.endswith("\\")
            yield ""
        elif not statement and is_command and (timed := TIMED.match(line.strip())):
            yield f"{indentation}{'pass;'.ljust(timed.end())}{line.strip()[timed.end() :]}"
        elif not statement and (is_command or ASSIGNED.match(line)):
            goes_on = line.endswith("\\")
            target = ASSIGNED.match(line)
            yield (indentation if is_command or target is None else target[0]) + OPAQUE
        else:
            statement += f"{line}\n"
            if is_whole(statement):
                statement = ""
            yield line


def _may_bring(line: str) -> bool:
    found = MAGIC.match(line.strip())
    return found is not None and found[2] not in QUIET


def is_whole(statement: str) -> bool:
    """False inside of brackets and of strings of several lines, where nothing is a command."""
    try:
        for _ in tokenize.generate_tokens(io.StringIO(statement).readline):
            pass
    except tokenize.TokenError as error:
        return not any(words in str(error) for words in ("multi-line", "triple-quoted", "unexpected EOF"))
    except SyntaxError:
        return True
    return True


class Modules:
    """The notebooks among the files of a run of mypy, written as modules into a folder that is gone afterwards."""

    def __init__(self, files: Iterable[str], folder: Path, desk: Path) -> None:
        self.notebooks: dict[str, tuple[str, Notebook]] = {}
        """By the path of the module: the file, and what is in it."""
        self.paths: list[str] = []
        """What mypy reads."""
        for file in files:
            found = notebook(folder / file) if file.endswith(SUFFIX) else None
            if found is None:
                self.paths.append(file)
                continue
            path = desk / f"notebook_{sha256(file.encode()).hexdigest()[:12]}.py"
            write_newer(path, found.module)
            self.paths.append(PurePath(os.path.relpath(path, folder)).as_posix())
            self.notebooks[self.paths[-1]] = file, found

    def findings(self, found: Iterable[Finding]) -> list[Finding]:
        """Those about modules, in their notebooks, and the syntax errors of cells."""
        here = [replace(each, file=file) for file, notebook in self.notebooks.values() for each in notebook.broken]
        for each in found:
            file, notebook = self.notebooks.get(each.file, ("", None))
            placed = notebook.place(each, file) if notebook else each
            if placed:
                here.append(placed)
        return here


def write_newer(path: Path, text: str) -> None:
    """Write a file if it changes, at least a second after the last time: mypy's daemon looks at whole seconds."""
    before = path.stat().st_mtime if path.exists() else 0
    if before and path.read_text(encoding="utf-8") == text:
        return
    path.write_text(text, encoding="utf-8")
    if path.stat().st_mtime < before + 1:
        os.utime(path, (before + 1, before + 1))
