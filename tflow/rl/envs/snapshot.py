"""The state of an environment, if it can be had, for checkpoints.

An env of one's own says it: ``state()`` and ``load(state)``. Of all others the attributes are taken, of the env and of its
wrappers, if they are data; functions, classes and spaces are the same in a twin. MuJoCo and the Arcade Learning Environment have
ways of their own. If there is anything else in an env, such as the world of a physics engine, or if two attributes share
something that can change, it has no state that could be saved, and nothing is guessed.
"""

from __future__ import annotations

import logging
from abc import ABCMeta
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import EnumMeta
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, cast

import numpy as np
from gymnasium import Env, spaces
from gymnasium.envs.registration import EnvSpec as GymnasiumSpec

from tflow.rl.data.arrays import Array
from tflow.rl.envs.spaces import AnySpace
from tflow.state.values import encode_or_none, has_state

CONSTANT = (FunctionType, BuiltinFunctionType, MethodType, ModuleType, type, logging.Logger, np.ufunc, np.dtype, GymnasiumSpec)
"""What a twin has as well."""
OUTSIDE = frozenset(
    ("multiprocessing", "threading", "_thread", "socket", "ssl", "select", "selectors", "subprocess", "asyncio", "concurrent",
     "io", "queue", "ctypes", "weakref", "mmap", "tempfile", "sqlite3", "logging")
)  # fmt: skip
"""Modules whose objects stand for something outside of the process, or for what other threads do."""
HEAP_TYPE = 1 << 9
"""Set in the flags of classes that are not part of a compiled module."""


class NoSnapshot(Exception):
    """An env has something in it that cannot be saved."""


def env_state(env: object) -> object | None:
    """The state of an env as data; None if it cannot be had. ``load_env`` takes it."""
    try:
        return _Capture().of(env)
    except Exception:  # whatever hinders it: an attribute may do anything when it is looked at
        return None


def load_env(env: object, state: Any) -> None:  # Any: what env_state gave
    """Give a twin of an env its state: one that was made in the same way."""
    _load(env, state)


class _Capture:
    """Walks through the objects of one env. What two of its objects share would be two things in a twin, so that is refused."""

    def __init__(self) -> None:
        self.met: dict[int, object] = {}
        """Objects by identity; kept, so that no identity is used twice."""
        self.memory: list[Array] = []

    def of(self, owner: object, depth: int = 0) -> dict[str, object]:
        """The state of an object that a twin has as well."""
        self.met[id(owner)] = owner
        if depth > DEEPEST:
            raise NoSnapshot("too many objects inside each other")
        if has_state(owner):
            return {"own": self.plain(owner.state())}
        special = next((save for name, (save, _) in BACKENDS.items() if _is(owner, name)), None)
        if special is not None:
            return {"backend": special(owner)}
        if isinstance(owner, spaces.Space):
            if any(each._np_random is not None for each in _inner(owner)):
                raise NoSnapshot("a space of several that was seeded")
            return {"attributes": {"_np_random": self.plain(owner._np_random)}, "inside": {}}
        kind = type(owner)
        if not is_python(kind) or kind.__module__.partition(".")[0] in OUTSIDE or any(map(_has_slots, kind.__mro__)):
            raise NoSnapshot(kind.__name__)
        return self.attributes_of(owner, depth)

    def attributes_of(self, owner: object, depth: int) -> dict[str, object]:
        """The attributes of a Python object, and the states of the objects in them."""
        data: dict[str, object] = {}
        inside: dict[str, object] = {}
        for name, value in vars(owner).items():
            if isinstance(value, MethodType):
                raise NoSnapshot("a method, which may be another one at another time")
            if is_constant(value):
                continue
            if id(value) in self.met:
                if not isinstance(value, (Env, spaces.Space)) and not _is_backend(value):
                    raise NoSnapshot("an object with two names")
                continue
            members = list(_members(value))
            if not all(map(_in_every_twin, members)):
                raise NoSnapshot("an object that a twin may not have, or not of this class")
            if members:
                inside[name] = [self.of(each, depth + 1) if id(each) not in self.met else {} for each in members]
            else:
                data[name] = self.plain(value)
        return {"attributes": data, "inside": inside, "all": True}

    def plain(self, value: object) -> object:
        """A value that is data, and shares nothing that can change."""
        if encode_or_none(value) is None:
            raise NoSnapshot(type(value).__name__)
        for each in _changeable(value):
            if isinstance(each, (set, frozenset)):
                raise NoSnapshot("a set, whose order would be another one")
            if id(each) in self.met:
                raise NoSnapshot("something with two names")
            self.met[id(each)] = each
            if isinstance(each, np.ndarray):
                if each.nbytes and any(np.may_share_memory(each, other) for other in self.memory):
                    raise NoSnapshot("arrays that share memory")
                self.memory.append(each)
        return value


DEEPEST = 30
"""Objects inside each other; an env with more has a structure of its own, such as a linked list."""


def _changeable(value: object) -> Iterator[object]:
    """All parts of a value that can change, itself included."""
    if isinstance(value, (dict, list, tuple, deque, set, frozenset)):
        if not isinstance(value, (tuple, frozenset)) or (isinstance(value, frozenset) and len(value) > 1):
            yield value
        for member in (*value.keys(), *value.values()) if isinstance(value, dict) else value:
            yield from _changeable(member)
    elif is_dataclass(value) and not isinstance(value, type):
        yield value
        for member in vars(value).values() if hasattr(value, "__dict__") else ():
            yield from _changeable(member)
    elif (
        isinstance(value, (np.ndarray, np.random.Generator, np.random.RandomState, bytearray))
        or type(value).__module__ == "random"
    ):
        yield value


def _inner(space: AnySpace) -> Iterator[AnySpace]:
    """The spaces inside a space."""
    parts = getattr(space, "spaces", ())
    for part in parts.values() if isinstance(parts, Mapping) else parts:
        yield part
        yield from _inner(part)


def _in_every_twin(value: object) -> bool:
    """True for objects that a twin has in the same place: envs, spaces, what wrappers of gymnasium keep, what says its state."""
    known = isinstance(value, (Env, spaces.Space)) or type(value).__module__.partition(".")[0] == "gymnasium"
    return known or _is_backend(value) or has_state(value)


def _has_slots(kind: type) -> bool:
    return bool(vars(kind).get("__slots__", ())) and kind.__module__ not in ("typing", "abc", "collections.abc")


def _is_backend(value: object) -> bool:
    return any(_is(value, name) for name in BACKENDS)


def _members(value: object) -> Iterator[object]:
    """The objects in an attribute that have a state of their own: itself, or those in a list, tuple or dictionary."""
    if isinstance(value, (list, tuple, dict)):
        each = list(value.values() if isinstance(value, dict) else value)
        if each and all(is_object(member) for member in each):
            yield from each
    elif is_object(value):
        yield value


def is_constant(value: object) -> bool:
    """True for functions, classes and the like, and for collections of them."""
    if isinstance(value, (list, tuple, dict)) and value:
        return all(is_constant(member) for member in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, CONSTANT)


def is_object(value: object) -> bool:
    """True for what may change by itself, and is no data."""
    return not isinstance(value, CONSTANT) and encode_or_none(value) is None


def is_python(kind: type) -> bool:
    """True for classes without anything compiled among their bases: all that their instances have is in their attributes."""
    return all(base is object or _is_python(base) for base in kind.__mro__)


def _is_python(base: type) -> bool:
    if type(base) not in (type, ABCMeta, EnumMeta) and type(base).__module__ not in ("typing", "typing_extensions"):
        return False
    if base.__module__ in ("typing", "abc", "collections.abc"):
        return True
    made_here = {"__dict__", "__slots__", "__weakref__", "__init__"} & vars(base).keys()
    inherits = any(each is not object and _is_python(each) for each in base.__bases__)  # then it has no such names of its own
    return bool(base.__flags__ & HEAP_TYPE) and (bool(made_here) or inherits)


def _load(owner: object, state: Any) -> None:  # Any: as above
    if not state:
        return  # it was met elsewhere in the env
    if "own" in state:
        cast("Any", owner).load(state["own"])  # Any: it has been seen to have one
        return
    if "backend" in state:
        next(load for name, (_, load) in BACKENDS.items() if _is(owner, name))(owner, state["backend"])
        return
    for name, parts in state["inside"].items():
        for member, part in zip(list(_members(vars(owner)[name])), parts, strict=True):
            _load(member, part)
    if "all" in state:
        known = state["attributes"].keys() | state["inside"].keys()
        for name in [name for name, value in vars(owner).items() if name not in known and encode_or_none(value) is not None]:
            if not is_constant(vars(owner)[name]):
                delattr(owner, name)
    for name, value in state["attributes"].items():
        object.__setattr__(owner, name, value)


def _fits(present: Array, value: Array) -> bool:
    return present.flags.writeable and (present.shape, present.dtype) == (value.shape, value.dtype)


# --------------------------------------------------------------------------- compiled envs


def _is(owner: object, name: str) -> bool:
    return any(f"{getattr(kind, '__module__', '')}.{kind.__qualname__}" == name for kind in type(owner).__mro__)


COMPUTED = (
    "x", "geom_x", "site_x", "cam_x", "light_x", "subtree_", "cdof", "cinert", "crb", "cvel", "cacc", "cfrc", "ten_", "actuator_",
    "qfrc", "qacc", "sensordata", "energy",
)  # fmt: skip
"""How the names of what MuJoCo computes begin, if its size is fixed: positions, velocities and forces."""


def _save_mujoco(data: Any) -> dict[str, object]:  # Any: mujoco has no types
    """The state of the integrator, and what it has computed: some envs look at that before the next step."""
    mujoco: Any = import_module("mujoco")  # Any: it has no types
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(data.model, kind))
    mujoco.mj_getState(data.model, data, state, kind)
    names = [name for name in dir(data) if name.startswith(COMPUTED)]
    computed = {name: np.array(value) for name in names if isinstance(value := getattr(data, name), np.ndarray)}
    return {"state": state, "computed": computed}


def _load_mujoco(data: Any, state: dict[str, Any]) -> None:  # Any: as above
    mujoco: Any = import_module("mujoco")  # Any: as above
    mujoco.mj_setState(data.model, data, state["state"], mujoco.mjtState.mjSTATE_INTEGRATION)
    mujoco.mj_forward(data.model, data)
    for name, value in state["computed"].items():
        present = getattr(data, name)
        if _fits(present, value):
            present[...] = value
    mujoco.mj_setState(data.model, data, state["state"], mujoco.mjtState.mjSTATE_INTEGRATION)


def _save_atari(env: Any) -> dict[str, object]:  # Any: ale-py has no types
    if env.ale.getFloat("repeat_action_probability") > 0:
        raise NoSnapshot("an emulator with sticky actions, which does not tell the action that it may repeat")
    return {"ale": env.ale.cloneState(include_rng=True).__getstate__(), "_np_random": env._np_random}


def _load_atari(env: Any, state: dict[str, Any]) -> None:  # Any: as above
    import ale_py

    saved = ale_py.ALEState.__new__(ale_py.ALEState)
    saved.__setstate__(state["ale"])
    env.ale.restoreState(saved)
    env._np_random = state["_np_random"]


Backend = tuple[Callable[[Any], dict[str, object]], Callable[[Any, dict[str, Any]], None]]  # Any: as above
BACKENDS: dict[str, Backend] = {
    "mujoco._structs.MjModel": (lambda model: {}, lambda model, state: None),
    "gymnasium.envs.mujoco.mujoco_rendering.MujocoRenderer": (lambda renderer: {}, lambda renderer, state: None),
    "mujoco._structs.MjData": (_save_mujoco, _load_mujoco),
    "ale_py.env.AtariEnv": (_save_atari, _load_atari),
}
"""Classes that are compiled and have a way of their own, by name: none of them is imported for it."""
