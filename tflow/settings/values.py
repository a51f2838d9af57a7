"""Values as text, written as in Python: numbers, texts, tuples, and descriptions such as ``MLP((64, 64))``.

Nothing is evaluated: a text is parsed, and the names that may be called stand in a table.

>>> read("Linear(1e-3, 0.0, steps=100_000)")
Linear(start=0.001, end=0.0, steps=100000)
>>> read("CartPole-v1")
'CartPole-v1'
>>> shown(MLP((64, 64)))
'MLP(hidden=(64, 64))'
"""

from __future__ import annotations

import ast
import inspect
from typing import Any

from tflow import loading, sentences
from tflow.algos.names import ALGORITHMS
from tflow.errors import PlanError
from tflow.rl.env_spec import EnvSpec
from tflow.rl.models import LSTM, MLP, ImpalaCNN, Members, NatureCNN, SmallCNN
from tflow.rl.schedules import Constant, Exponential, Linear, Piecewise

SCHEDULES: tuple[type, ...] = (Constant, Exponential, Linear, Piecewise)
MODELS: tuple[type, ...] = (LSTM, MLP, ImpalaCNN, Members, NatureCNN, SmallCNN)
DESCRIPTIONS = {kind.__name__: kind for kind in (*SCHEDULES, *MODELS, EnvSpec, *ALGORITHMS.values())}
WORDS = {"none": None, "true": True, "false": False}


def read(text: str) -> object:
    """The value that a text means; the text itself if it is no Python."""
    if text.strip().lower() in WORDS:
        return WORDS[text.strip().lower()]
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _own(text)
    if isinstance(tree, ast.Call):
        return _made(tree, text)
    try:
        return ast.literal_eval(tree)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return _own(text)


def shown(value: object) -> str | None:
    """The text from which ``read`` reads an equal value; None if there is none."""
    if isinstance(value, str):
        return value
    text = (loading.place_of(value) if callable(value) else None) or repr(value)
    try:
        return text if read(text) == value else None
    except PlanError:
        return None


def _own(text: str) -> object:
    """Something of the user's own, ``FILE.py:NAME`` or ``module:NAME``; what is not there is a text, such as gymnasium's
    ``module:id``."""
    if loading.is_file(text):
        return loading.find(text)
    module, colon, name = text.rpartition(":")
    if colon and module.replace(".", "_").isidentifier() and name.replace(".", "_").isidentifier():
        try:
            return loading.find(text)
        except PlanError:
            return text
    return text


def _made(call: ast.Call, text: str) -> object:
    name = ast.unparse(call.func)
    if name not in DESCRIPTIONS:
        known = sentences.did_you_mean(name, DESCRIPTIONS) or f" There are {', '.join(sorted(DESCRIPTIONS))}."
        raise PlanError(f"{text!r}: there is no {name}.{known}")
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
        keys = [None if key is None else _part(key, text) for key in tree.keys]
        return dict(zip(keys, [_part(each, text) for each in tree.values], strict=True))
    try:
        return ast.literal_eval(tree)
    except (ValueError, TypeError):
        what = ast.unparse(tree)
        raise PlanError(f"{text!r}: {what} is neither a number nor a text. Texts stand in quotes.") from None
