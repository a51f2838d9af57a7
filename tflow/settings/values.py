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
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any

from tflow import loading, sentences
from tflow.algos.names import ALGORITHMS
from tflow.errors import FieldError, PlanError
from tflow.rl.envs.env_spec import EnvSpec
from tflow.rl.policy.network_spec import GRU, LSTM, MLP, DictEncoder, GTrXL, ImpalaCNN, NatureCNN, SmallCNN
from tflow.rl.schedules import (
    Constant,
    Cosine,
    Exponential,
    Linear,
    Piecewise,
    Warmup,
    is_named_schedule,
    named_schedule,
)

SCHEDULES: tuple[type, ...] = (Constant, Cosine, Exponential, Linear, Piecewise, Warmup)
MODELS: tuple[type, ...] = (LSTM, GRU, GTrXL, MLP, ImpalaCNN, DictEncoder, NatureCNN, SmallCNN)
DESCRIPTIONS = {kind.__name__: kind for kind in (*SCHEDULES, *MODELS, EnvSpec, *ALGORITHMS.values())}
WORDS = {"none": None, "true": True, "false": False}
WRAPPERS = ("wrappers", "vector_wrappers")
UNWRITABLE = "cannot be written: "
"""In files, marks a value that cannot be written as text."""


def read(text: str, *, own: bool = False, of: Collection[type] = ()) -> object:
    """The value that a text means; the text itself if it is no Python. With ``own`` it may be the place of something of the
    user's own; ``of`` are the descriptions that errors name."""
    if text.strip().lower() in WORDS:
        return WORDS[text.strip().lower()]
    if is_named_schedule(text):
        return named_schedule(text)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _own(text) if own else text
    if isinstance(tree, ast.Call):
        return _made(tree, text, of)
    try:
        return ast.literal_eval(tree)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return _own(text) if own else text


@dataclass(frozen=True)
class WithArguments:
    """A wrapper with arguments: as ``partial``, but one that can be compared and written."""

    wrapper: Callable[..., Any]  # Any: wrappers take and make envs of all kinds
    arguments: Mapping[str, object]

    def __call__(self, env: object) -> Any:  # Any: as above
        return self.wrapper(env, **self.arguments)


def wrapper_named(text: str) -> Callable[[Any], Any]:  # Any: wrappers take and make envs of all kinds
    """A wrapper by its place, ``module:Class`` or ``FILE.py:NAME``, with arguments if it has some:
    ``gymnasium.wrappers:FrameStackObservation(stack_size=4)``."""
    place, bracket, _ = text.partition("(")
    found = loading.find(place.strip())
    if not callable(found):
        raise PlanError(f"{text!r} is no wrapper: write module:Class, or FILE.py:NAME of a class or function that takes an env.")
    if not bracket:
        return found
    try:
        call = ast.parse(f"wrapper({text.partition('(')[2]}", mode="eval").body
    except SyntaxError:
        call = None
    if not isinstance(call, ast.Call) or call.args or any(each.arg is None for each in call.keywords):
        raise PlanError(f"{text!r}: write the arguments of a wrapper by name, such as module:Class(size=4).")
    return WithArguments(found, {each.arg: _part(each.value, text) for each in call.keywords if each.arg is not None})


def _wrappers(given: object) -> list[object]:
    """Wrappers that stand in a text, by their places."""
    listed = given if isinstance(given, (list, tuple)) else [given]
    return [wrapper_named(each) if isinstance(each, str) else each for each in listed]


def _shown_wrapper(wrapper: object) -> str | None:
    if isinstance(wrapper, WithArguments):
        place = loading.place_of(wrapper.wrapper)
        given = ", ".join(f"{name}={value!r}" for name, value in wrapper.arguments.items())
        return None if place is None else f"{place}({given})"
    return loading.place_of(wrapper)


def _shown_env(spec: EnvSpec) -> str | None:
    """An env with its arguments and wrappers as a text: what is the user's own stands there by its place."""
    env = spec.env if isinstance(spec.env, str) else loading.place_of(spec.env)
    if env is None:
        return None
    given, usual = [repr(env)], EnvSpec(spec.env)
    for name in (each.name for each in fields(spec) if getattr(spec, each.name) != getattr(usual, each.name)):
        value = getattr(spec, name)
        written = tuple(map(_shown_wrapper, value)) if name in WRAPPERS else value
        if name in WRAPPERS and None in written:
            return None
        given.append(f"{name}={written!r}")
    return f"EnvSpec({', '.join(given)})"


def shown(value: object) -> str | None:
    """The text from which ``read`` reads an equal value; None if there is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, EnvSpec):
        text = _shown_env(value)
        return text if text is not None and _reads(text, value) else None
    text = (loading.place_of(value) if callable(value) else None) or repr(value)
    return text if _reads(text, value) else None


def _reads(text: str, value: object) -> bool:
    """True if the text is read as this value."""
    try:
        return bool(read(text, own=True) == value)
    except (PlanError, ValueError):  # it is no Python, or cannot be compared: an array
        return False


def _own(text: str) -> object:
    """Something of the user's own, ``FILE.py:NAME`` or ``module:NAME``; what is not there is a text, such as gymnasium's
    ``module:id``. An env of PettingZoo is a module, ``pettingzoo.sisl.waterworld_v4``; with a colon it is as good."""
    if loading.is_file(text):
        return loading.find(text)
    if text.endswith(loading.SUFFIXES):
        raise PlanError(f"{text!r} is a file. Say what in it: {text}:NAME.")
    if ":" in text and loading.is_import_path(text):
        module = text.replace(":", ".")
        with suppress(PlanError):
            found = loading.find(text)
            return module if isinstance(found, ModuleType) else found
        if text.startswith("pettingzoo."):  # an env of which something is missing
            return module
    return text


def _made(call: ast.Call, text: str, of: Collection[type] = ()) -> object:
    name = ast.unparse(call.func)
    if name not in DESCRIPTIONS:
        offered = [each.__name__ for each in of] or list(DESCRIPTIONS)
        known = sentences.did_you_mean(name, offered) or f" There are {', '.join(sorted(offered))}."
        raise PlanError(f"{text!r}: there is no {name}.{known}")
    if any(each.arg is None for each in call.keywords) or any(isinstance(each, ast.Starred) for each in call.args):
        raise PlanError(f"{text!r}: write each argument by itself, without * and **.")
    try:
        given = [_part(each, text) for each in call.args]
        named = {each.arg: _part(each.value, text) for each in call.keywords if each.arg is not None}
        if name == "EnvSpec":
            named |= {each: _wrappers(named[each]) for each in WRAPPERS if each in named}
        made = DESCRIPTIONS[name](*given, **named)
        return _with_own(made) if isinstance(made, EnvSpec) else made
    except FieldError as error:
        raise PlanError(f"{text!r}: {error}") from None
    except TypeError as error:
        allowed = str(inspect.signature(DESCRIPTIONS[name])).replace("'", "").replace(" -> None", "")
        raise PlanError(f"{text!r}: {str(error).replace('.__init__()', '')}. It is {name}{allowed}.") from None


def _with_own(spec: EnvSpec) -> EnvSpec:
    """The same; an env that stands there by its place is imported."""
    env: Any = _own(spec.env) if isinstance(spec.env, str) else spec.env  # Any: EnvSpec looks what it is
    return replace(spec, env=env)


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
