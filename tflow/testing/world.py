"""The process that an operator works in: what it must leave as it found it, and another world to try it in."""

from __future__ import annotations

import copy
import datetime
import decimal
import functools
import gc
import locale
import logging
import os
import random
import socket
import sys
import sysconfig
import threading
import time
import types
import warnings
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np

from tflow.testing.reach import is_tensor, walk

LIBRARIES = tuple({os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
HOME = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep
Settings = dict[str, object]


def torch_module() -> Any:  # Any: torch is optional here
    """Torch, if somebody has imported it."""
    return sys.modules.get("torch")


# --------------------------------------------------------------------------- as it was found


def dice() -> Settings:
    """The states of the global random generators."""
    kind, keys, *rest = np.random.get_state()
    found: Settings = {"random": random.getstate(), "numpy.random": (kind, bytes(np.asarray(keys)), *rest)}
    if (torch := torch_module()) is not None:
        found["torch"] = bytes(torch.get_rng_state().numpy())
    return found


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Set the global generators, and set them back."""
    before, numpy_before, torch = random.getstate(), np.random.get_state(), torch_module()
    torch_before = None if torch is None else torch.get_rng_state()
    random.seed(seed)
    np.random.seed(seed)
    if torch is not None:
        torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(numpy_before)
        if torch is not None and torch_before is not None:
            torch.set_rng_state(torch_before)


def settings() -> Settings:
    """What belongs to the whole process, by name."""
    found: Settings = {
        "os.environ": dict(os.environ),
        "the current directory": os.getcwd(),
        "sys.path": list(sys.path),
        "the filters of warnings": list(warnings.filters),
        "np.seterr": np.geterr(),
        "np.set_printoptions": {name: repr(value) for name, value in np.get_printoptions().items()},
        "the recursion limit": sys.getrecursionlimit(),
        "the level of the root logger": logging.getLogger().level,
        "the default timeout of sockets": socket.getdefaulttimeout(),
        "the decimal context": repr(decimal.getcontext()),
        "the locale": locale.setlocale(locale.LC_ALL),
        "gc": gc.isenabled(),
        "threads": threading.active_count(),
        **{f"the handlers of the logger {name!r}": handlers for name, handlers in handlers_of_loggers().items()},
    }
    if (torch := torch_module()) is not None:
        found |= {
            "torch.set_grad_enabled": torch.is_grad_enabled(),
            "torch.inference_mode": torch.is_inference_mode_enabled(),
            "torch.set_default_dtype": str(torch.get_default_dtype()),
            "torch.set_num_threads": torch.get_num_threads(),
            "torch.use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "torch.autograd.set_detect_anomaly": torch.is_anomaly_enabled(),
        }
    return found


def handlers_of_loggers() -> dict[str, list[logging.Handler]]:
    """What writes the logs of users; libraries set up theirs when they are first used."""
    loggers = {"root": logging.getLogger(), **logging.root.manager.loggerDict}
    return {
        name: list(logger.handlers)
        for name, logger in loggers.items()
        if isinstance(logger, logging.Logger) and logger.handlers and not is_library(name.partition(".")[0])
    }


def is_library(name: str) -> bool:
    return name in sys.modules and not is_of_user(sys.modules[name])


@contextmanager
def contained() -> Iterator[None]:
    """Whatever is done to the process inside is undone afterwards."""
    environ = dict(os.environ._data)  # type: ignore[attr-defined]  # the encoded one: quicker to copy and to compare
    folder, path, filters = os.getcwd(), list(sys.path), list(warnings.filters)
    errors, shown, limit, level = np.geterr(), np.get_printoptions(), sys.getrecursionlimit(), logging.getLogger().level
    timeout, context, collects, torch = socket.getdefaulttimeout(), decimal.getcontext().copy(), gc.isenabled(), torch_module()
    handlers = handlers_of_loggers()
    modes = None
    if torch is not None:
        modes = torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads()
    try:
        with global_seed(0):
            yield
    finally:
        if os.environ._data != environ:  # type: ignore[attr-defined]  # see above
            os.environ.clear()
            os.environ.update({os.fsdecode(name): os.fsdecode(value) for name, value in environ.items()})
        if os.getcwd() != folder:
            os.chdir(folder)
        sys.path[:], warnings.filters[:] = path, filters  # type: ignore[index]  # a list, whatever its annotation says
        np.seterr(**errors)
        np.set_printoptions(**shown)
        sys.setrecursionlimit(limit)
        if logging.getLogger().level != level:
            logging.getLogger().setLevel(level)
        for name in changed({**handlers}, {**handlers_of_loggers()}):
            logging.getLogger(name).handlers[:] = handlers.get(name, [])
        socket.setdefaulttimeout(timeout)
        decimal.setcontext(context)
        (gc.enable if collects else gc.disable)()
        if torch is not None and modes is not None:
            torch.set_grad_enabled(modes[0])
            torch.set_default_dtype(modes[1])
            if torch.get_num_threads() != modes[2]:
                torch.set_num_threads(modes[2])


def modes_of(actor: object) -> Settings:
    """What an operator leaves in its actor as it found it: the attributes it has, and the modes of its networks."""
    found: Settings = {"the attributes of the actor": sorted(getattr(actor, "__dict__", {}))}
    for path, value in walk([("actor", actor)]):
        if isinstance(getattr(value, "training", None), bool):
            found[f"{path}.training"] = value.training
        elif is_tensor(value) and value.is_leaf:
            found[f"{path}.requires_grad"] = bool(value.requires_grad)
    return found


def changed(before: Settings, after: Settings) -> list[str]:
    """The names of what differs."""
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


# --------------------------------------------------------------------------- another world


class OtherEnviron(dict[Any, Any]):  # Any: bytes on most systems, text on others
    """The environment of another machine, for those who ask from outside of libraries."""

    def __init__(self, real: Mapping[Any, Any]) -> None:  # Any: see above
        super().__init__(real)
        self.asked = count()

    def __getitem__(self, key: Any) -> Any:  # Any: see above
        if not asked_by_user():
            return super().__getitem__(key)
        if key not in self:  # set there, to what some mean by yes, and to another number
            said = "17"[next(self.asked) % 2]
        else:
            try:
                said = str(float(super().__getitem__(key)) + 1)
            except ValueError:
                raise KeyError(key) from None
        return said.encode() if isinstance(key, bytes) else said


def asked_by_user() -> bool:
    """True if neither Python, nor an installed package, nor tflow itself is asking."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith("<frozen"):
        frame = frame.f_back
    return frame is not None and is_file_of_user(frame.f_code.co_filename)


@contextmanager
def other_world(surroundings: Surroundings) -> Iterator[list[str]]:
    """The clock jumps, the process has another number, the environment other values. Yields a list of the entropy asked for."""
    asked, real_entropy, processors = list[str](), os.urandom, os.cpu_count()

    def entropy(size: int) -> bytes:
        asked.append("os.urandom")
        return real_entropy(size)

    new: dict[int, object] = {
        id(os.urandom): entropy,
        id(os.getpid): lambda: 4_000_001,
        id(os.cpu_count): lambda: (processors or 1) + 3,
        id(socket.gethostname): lambda: "another-host",
        **other_clocks(),
    }
    places: list[dict[str, Any]] = [vars(module) for module in (time, os, datetime, random, socket)]  # Any: what modules hold
    undo = []
    for place in [*places, *surroundings.namespaces]:
        for name, value in list(place.items()):
            if id(value) in new and not name.startswith("__"):
                undo.append((place, name, value))
    data = os.environ._data  # type: ignore[attr-defined]  # the only place where reading can be seen
    try:
        for place, name, value in undo:
            place[name] = new[id(value)]
        os.environ._data = OtherEnviron(data)  # type: ignore[attr-defined]  # see above
        yield asked
    finally:
        os.environ._data = data  # type: ignore[attr-defined]  # see above
        for place, name, value in undo:
            place[name] = value


def other_clocks() -> dict[int, object]:
    """What tells the time, by identity, and what tells another each time that it is asked."""
    ticks, real_datetime, real_time = count(1), datetime.datetime, time.time

    def later(real: Callable[[], Any], step: float) -> Callable[[], Any]:  # Any: seconds or nanoseconds
        start = real()
        return lambda: start + type(start)(step * next(ticks) ** 2)

    def another_day(real: Callable[..., Any], place: int, now: Callable[[float], object]) -> Callable[..., Any]:  # Any: a time
        """Of functions that take the time as an argument in this place, and the time that it is if they are given none."""

        def told(*given: object) -> Any:  # Any: a time
            if len(given) > place and given[place] is not None:
                return real(*given)
            return real(*given[:place], now(real_time() + 3e8 + DAYS_S * (next(ticks) % 40)))

        return told

    class OtherDatetime(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:  # Any: of the class that is replaced
            return real_datetime.now(tz) + datetime.timedelta(days=97 * next(ticks) + 3650.31)

        @classmethod
        def utcnow(cls) -> Any:  # Any: as above
            return real_datetime.utcnow() + datetime.timedelta(days=97 * next(ticks) + 3650.31)

    new: dict[int, object] = {id(datetime.datetime): OtherDatetime}
    clocks = ("time", "monotonic", "perf_counter", "process_time")
    new |= {id(real := getattr(time, name)): later(real, 1e4) for name in clocks}
    new |= {id(real := getattr(time, f"{name}_ns")): later(real, 1e13) for name in clocks}
    dates: list[Callable[..., Any]] = [time.localtime, time.gmtime, time.ctime]  # Any: a time
    new |= {id(real): another_day(real, 0, float) for real in dates}
    new |= {id(time.asctime): another_day(time.asctime, 0, time.localtime)}
    new |= {id(time.strftime): another_day(time.strftime, 1, time.localtime)}
    return new


DAYS_S = 8_434_188.0
"""97 days and 15 hours: all times of the day and of the year come soon."""


# --------------------------------------------------------------------------- what is around an operator

PLAIN = (int, float, complex, str, bytes, bool, type(None))
HOLDS = (
    *PLAIN,
    dict,
    list,
    set,
    deque,
    OrderedDict,
    defaultdict,
    np.ndarray,
    random.Random,
    np.random.Generator,
    count,
    bytearray,
)
"""Kinds of global values that can be put back as they were."""


class Surroundings:
    """The globals and class attributes that an operator can reach, as they were when this was made."""

    def __init__(self, *values: object) -> None:
        self.namespaces: list[dict[str, Any]] = []  # Any: whatever modules hold
        self.saved: list[tuple[object, dict[str, object]]] = []
        self.caches: list[Any] = []  # Any: functions that functools.lru_cache made
        seen: set[int] = set()
        waiting: deque[object] = deque(values)
        while waiting:
            value = waiting.popleft()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if callable(getattr(value, "cache_clear", None)) and hasattr(value, "__wrapped__"):
                self.caches.append(value)
                waiting.append(getattr(value, "__wrapped__", None))
            elif isinstance(value, functools.partial):
                waiting.extend([value.func, *value.args])
            elif isinstance(value, types.MethodType):
                waiting.extend([value.__func__, value.__self__])
            elif isinstance(value, (types.FunctionType, staticmethod, classmethod, property)):
                waiting.extend(self.of_function(getattr(value, "fget", None) or getattr(value, "__func__", value)))
            elif isinstance(value, type):
                waiting.extend(self.of_class(value))
            elif type(value).__module__ not in ("builtins", "numpy", "torch"):
                waiting.append(type(value))
                waiting.extend(each for each in getattr(value, "__dict__", {}).values() if callable(each))

    def of_class(self, kind: type) -> Iterator[object]:
        for each in kind.__mro__:
            if is_of_user(each):
                own = {name: value for name, value in vars(each).items() if not name.startswith("__")}
                self.save(each, {name: value for name, value in own.items() if isinstance(value, HOLDS)})
                yield from (value for value in vars(each).values() if callable(value) or hasattr(value, "__func__"))

    def of_function(self, function: Any) -> Iterator[object]:  # Any: a function
        if not is_of_user(function):
            return
        space = function.__globals__
        if space not in self.namespaces:
            self.namespaces.append(space)
        code = [function.__code__, *(each for each in function.__code__.co_consts if isinstance(each, types.CodeType))]
        used = {name: space[name] for each in code for name in each.co_names if name in space}
        module = sys.modules.get(function.__module__)
        if module is not None:
            self.save(module, {name: value for name, value in used.items() if isinstance(value, HOLDS)})
        self.save(function, {name: value for name, value in vars(function).items() if name != "__wrapped__"})
        self.defaults(function)
        for value in used.values():
            if isinstance(value, (type, types.FunctionType)) or hasattr(value, "cache_clear"):
                yield value
            elif is_of_user(type(value)) and hasattr(value, "__dict__") and not isinstance(value, types.ModuleType):
                self.save(value, dict(vars(value)))
                yield type(value)
        for cell in function.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not yet set
                continue

    def defaults(self, function: types.FunctionType) -> None:
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            if isinstance(value, (dict, list, set, deque)):
                self.saved.append((value, {"": copy.copy(value)}))

    def save(self, place: object, values: dict[str, object]) -> None:
        copies = {name: _copied(value) for name, value in values.items()}
        self.saved.append((place, {name: value for name, value in copies.items() if value is not _NONE}))

    def named(self) -> dict[int, object]:
        """What globals, and attributes of classes, refer to, by identity; not what holds other things, which can change."""
        modules = [value for space in self.namespaces for value in space.values() if isinstance(value, types.ModuleType)]
        spaces: list[Mapping[str, object]] = [*self.namespaces, *(vars(module) for module in modules if is_of_user(module))]
        spaces += [vars(place) for place, _ in self.saved if isinstance(place, type)]
        return {id(value): value for space in spaces for value in space.values() if not isinstance(value, HOLDS)}

    def restore(self) -> None:
        """Put everything back, as in a process that has just started."""
        for cache in self.caches:
            cache.cache_clear()
        for place, values in self.saved:
            if isinstance(place, (dict, list, set, deque)):
                _refill(place, values[""])
                continue
            if isinstance(place, types.FunctionType):
                vars(place).clear()
            for name, value in values.items():
                now = getattr(place, name, None)
                if isinstance(value, PLAIN) and type(now) is type(value) and now == value:
                    continue
                if type(now) is type(value) and isinstance(now, (dict, list, set, deque)):
                    _refill(now, copy.deepcopy(value))
                else:
                    setattr(place, name, copy.deepcopy(value))

    def roots(self) -> list[tuple[str, object]]:
        """What is there now, by name."""
        found: list[tuple[str, object]] = []
        for place, values in self.saved:
            if isinstance(place, (dict, list, set, deque)):
                found.append(("a default argument", place))
            else:
                label = getattr(place, "__name__", type(place).__name__)
                now = (
                    vars(place)
                    if isinstance(place, types.FunctionType)
                    else {name: getattr(place, name, None) for name in values}
                )
                found += [(f"{label}.{name}", value) for name, value in now.items()]
        return found + [(f"the cache of {cache.__name__}", cache) for cache in self.caches]


_NONE = object()


def _copied(value: object) -> object:
    try:
        return copy.deepcopy(value)
    except Exception:  # it cannot be put back
        return _NONE


def _refill(container: Any, content: Any) -> None:  # Any: one of several kinds of containers, and its copy
    container.clear()
    (container.extend if isinstance(container, (list, deque)) else container.update)(content)


def is_of_user(value: object) -> bool:
    """True for what was defined in neither Python, nor an installed package, nor tflow itself."""
    module = value if isinstance(value, types.ModuleType) else sys.modules.get(getattr(value, "__module__", None) or "")
    if module is None:
        return False
    name = getattr(module, "__file__", None)
    if name is None:
        return getattr(module, "__name__", "") == "__main__"
    return is_file_of_user(name)


@functools.cache
def is_file_of_user(name: str) -> bool:
    """As ``is_of_user``; remembered, because it is asked for each item, and links are followed on disk."""
    return not os.path.realpath(name).startswith((*LIBRARIES, HOME))
