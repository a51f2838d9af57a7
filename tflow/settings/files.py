"""Configurations as TOML files: every field with its documentation, and a table ``[run]`` with the settings of the run.

Such a file repeats a run: ``tflow train --config FILE``.
"""

from __future__ import annotations

import json
import numbers
import tomllib
from collections.abc import Iterator
from pathlib import Path

import tflow
from tflow.algos.algorithm import Algorithm
from tflow.errors import PlanError
from tflow.settings.fields import described
from tflow.settings.values import UNWRITABLE, shown


def read_file(path: Path) -> tuple[dict[str, object], dict[str, object]]:
    """The fields in a file, and its table ``[run]``."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PlanError(f"There is no file {str(path)!r}.") from None
    except OSError as error:
        raise PlanError(f"Cannot read {str(path)!r}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlanError(f"{str(path)!r} is no TOML file: {error}. It has lines such as lr = 1e-3.") from None
    run = found.pop("run", {})
    if not isinstance(run, dict):
        raise PlanError(f"{str(path)!r}: run must be a table, [run], with lines such as seed = 0.")
    return found, run


def written(config: object, run: object = None) -> str:
    """A configuration and the settings of a run as the text of a file. A value that cannot be written is marked, and
    must be given again when the file is read."""
    lines = [f"# Written by tflow {tflow.__version__}.", ""]
    lines += _fields(config)
    if run is not None:
        lines += ["", "[run]", *_fields(run)]
    return "\n".join(lines) + "\n"


def _fields(config: object, prefix: str = "") -> Iterator[str]:
    inner: list[tuple[str, Algorithm, str]] = []
    for name, value, meaning in described(config):
        if isinstance(value, Algorithm):
            inner.append((name, value, meaning))
            continue
        text = '"none"' if value is None else _toml(value)
        yield f"{name} = {text}  # {meaning}"
    for name, value, meaning in inner:
        yield from ("", f"[{prefix}{name}]  # {meaning}")
        yield from _fields(value, f"{prefix}{name}.")


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, numbers.Integral):
        return repr(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    text = shown(value) or f"{UNWRITABLE}{' '.join(repr(value).split())}"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
