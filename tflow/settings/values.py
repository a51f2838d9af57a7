"""Values as text, written as in Python: numbers, texts, tuples, and descriptions such as ``MLP((64, 64))``.

Nothing is evaluated: a text is parsed, and the names that may be called stand in a table. Only where something of the user's own
may stand, such as an env, is ``FILE.py:NAME`` imported.

>>> read("Linear(1e-3, 0.0, steps=100_000)")
Linear(start=0.001, end=0.0, steps=100000)
>>> read("CartPole-v1")
'CartPole-v1'
>>> shown(Linear(1, 0, 10))
'Linear(start=1, end=0, steps=10)'
"""

from __future__ import annotations

import ast
import inspect
from contextlib import suppress
from typing import Any

from tflow import loading, sentences
from tflow.algos.names import ALGORITHMS
from tflow.errors import PlanError
from tflow.rl.envs.env_spec import EnvSpec
from tflow.rl.policy.network_spec import LSTM, MLP, DictEncoder, ImpalaCNN, NatureCNN, SmallCNN
from tflow.rl.schedules import Constant, Exponential, Linear, Piecewise

SCHEDULES: tuple[type, ...] = (Constant, Exponential, Linear, Piecewise)
MODELS: tuple[type, ...] = (LSTM, MLP, ImpalaCNN, DictEncoder, NatureCNN, SmallCNN)
DESCRIPTIONS = {kind.__name__: kind for kind in (*SCHEDULES, *MODELS, EnvSpec, *ALGORITHMS.values())}
WORDS = {"none": None, "true": True, "false": False}
UNWRITABLE = "cannot be written: "
"""In files, marks a value that cannot be written as text."""


def read(text: str, *, own: bool = False) -> object:
    """The value that a text means; the text itself if it is no Python. With ``own`` it may be the place of something of the
    user's own."""
    if text.strip().lower() in WORDS:
        return WORDS[text.strip().lower()]
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _own(text) if own else text
    if isinstance(tree, ast.Call):
        return _made(tree, text)
    try:
        return ast.literal_eval(tree)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return _own(text) if own else text


def shown(value: object) -> str | None:
    """The text from which ``read`` reads an equal value; None if there is none."""
    if isinstance(value, str):
        return value
    text = (loading.place_of(value) if callable(value) else None) or repr(value)
    try:
        return text if bool(read(text, own=True) == value) else None
    except (PlanError, ValueError):  # it is no Python, or cannot be compared: an array
        return None


def _own(text: str) -> object:
    """Something of the user's own, ``FILE.py:NAME`` or ``module:NAME``; what is not there is a text, such as gymnasium's
    ``module:id``."""
    if loading.is_file(text):
        return loading.find(text)
    if text.endswith(loading.SUFFIXES):
        raise PlanError(f"{text!r} is a file. Say what in it: {text}:NAME.")
    if ":" in text and loading.is_import_path(text):
        with suppress(PlanError):
            return loading.find(text)
    return text


def _made(call: ast.Call, text: str) -> object:
    name = ast.unparse(call.func)
    if name not in DESCRIPTIONS:
        known = sentences.did_you_mean(name, DESCRIPTIONS) or f" There are {', '.join(sorted(DESCRIPTIONS))}."
        raise PlanError(f"{text!r}: there is no {name}.{known}")
    if any(each.arg is None for each in call.keywords) or any(isinstance(each, ast.Starred) for each in call.args):
        raise PlanError(f"{text!r}: write each argument by itself, without * and **.")
    try:
        given = [_part(each, text) for each in call.args]
        named = {each.arg: _part(each.value, text) for each in call.keywords if each.arg is not None}
        return DESCRIPTIONS[name](*given, **named)
    except TypeError as error:
        allowed = str(inspect.signature(DESCRIPTIONS[name])).replace("'", "").replace(" -> None", "")
        raise PlanError(f"{text!r}: {str(error).replace('.__init__()', '')}. It is {name}{allowed}.") from None


def _part(tree: ast.expr, text: str) -> Any:  # Any: an argument of whatever kind
    if isinstance(tree, ast.Call):
        return _made(tree, text)
    if isinstance(tree, (ast.Tuple, ast.List)):
        parts = [_part(each, text) for each in tree.elts]
        return tuple(parts) if isinstance(tree, ast.Tuple) else parts
    if isinstance(tree, ast.Dict):
        if None in tree.keys:
            raise PlanError(f"{text!r}: write each argument by itself, without * and **.")
        keys = [_part(key, text) for key in tree.keys if key is not None]
        return dict(zip(keys, [_part(each, text) for each in tree.values], strict=True))
    try:
        return ast.literal_eval(tree)
    except (ValueError, TypeError):
        what = ast.unparse(tree)
        raise PlanError(f"{text!r}: {what} is neither a number nor a text. Texts stand in quotes.") from None
