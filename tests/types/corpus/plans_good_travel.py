"""What travels although something near it could not: locks made late, files that are read at once, what is sent by name."""

from __future__ import annotations

import csv
import io
import logging
import queue
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from functools import wraps
from typing import ClassVar, TextIO

from tflow import (
    create_actors, flow, from_actors, Iter, Live, LiveOp, Metrics, ParIter, Plan, Shard, Stateless,
    TrainOneStep,
)
from tflow.algos import A2C


class Lazy(Stateless[int, int]):
    """It makes what it needs at the first item."""

    def __init__(self) -> None:
        self.lock: threading.Lock | None = None
        self.locks: dict[int, threading.Lock] = {}
        self.files: list[TextIO] = []
        self.made = defaultdict[int, threading.Lock](threading.Lock)

    def start(self) -> None:
        self.thread = threading.Thread(target=print)

    def apply(self, item: int, /) -> int:
        self.lock = self.locks[item] = threading.Lock()
        return item


class Reads(Stateless[int, int]):
    """It keeps what is in a file, not the file."""

    def __init__(self, file: TextIO, path: str) -> None:
        self.rows = file.readlines()
        self.other = open(path)
        self.size = len(self.other.read())
        del self.other

    def apply(self, item: int, /) -> int:
        return item


class Perhaps(Stateless[int, int]):
    """Nobody asks for the lock, nor for the file."""

    def __init__(self, path: str | None = None, *, careful: bool = False, quiet: bool = True) -> None:
        self.log = open(path) if path else None
        self.lock: threading.Lock | None = threading.Lock()
        if quiet:
            self.lock = None
        if careful:
            self.lock = threading.Lock()
        if path is None:
            return
        self.file = open(path)

    def apply(self, item: int, /) -> int:
        return item


@dataclass(frozen=True)
class Fields(Stateless[int, int]):
    """A lock of the class, one that is not there, and a file that is read."""

    source: InitVar[TextIO]
    shared: ClassVar[threading.Lock] = threading.Lock()
    lock: threading.Lock | None = None
    rows: list[str] = field(init=False)

    def __post_init__(self, source: TextIO) -> None:
        object.__setattr__(self, "rows", source.readlines())

    def apply(self, item: int, /) -> int:
        return item


class Again(LiveOp[int, int]):
    """It says itself how it is copied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __deepcopy__(self, memo: dict[int, object]) -> Again:
        return Again()

    def apply(self, live: Live, item: int, /) -> int:
        return item


class Calls(Stateless[int, int]):
    """On the driver functions are not copied, whatever they use."""

    def __init__(self, fn: Callable[[int], int]) -> None:
        self.fn = fn

    def apply(self, item: int, /) -> int:
        return self.fn(item)


class Worker:
    """Actors make what they like."""

    def __init__(self, shard: Shard) -> None:
        self.lock = threading.Lock()
        self.db = sqlite3.connect(":memory:")

    def sample(self) -> int:
        return 1


class Trainer:
    """Its functions that need no object go without it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.scale = 2

    @flow
    def build(self, shards: ParIter[int]) -> Iter[int]:
        scale = self.scale
        return shards.par_map(lambda number: number * scale).par_map(self.twice).par_map(self.plus).gather_sync()

    @staticmethod
    def twice(number: int) -> int:
        return 2 * number

    @classmethod
    def plus(cls, number: int) -> int:
        return number + 1


def locked(fn: Callable[[int], int]) -> Callable[[int], int]:
    lock = threading.Lock()

    @wraps(fn)
    def wrapper(number: int) -> int:
        with lock:
            return fn(number)

    return wrapper


@locked
def by_name(number: int) -> int:
    """It can be imported, lock and all."""
    return number


def sized(path: str) -> Callable[[int], int]:
    with open(path) as file:
        size = len(file.read())

    def add(number: int) -> int:
        return number + size

    return add


def chosen(careful: bool) -> Callable[[int], int]:
    lock = threading.Lock()

    def slow(number: int) -> int:
        with lock:
            return number

    return slow if careful else abs


@flow
def operators(shards: ParIter[int], path: str) -> Iter[int]:
    shards = shards.par_for_each(Lazy()).par_for_each(Reads(open(path), path)).par_for_each(Perhaps())
    return shards.par_for_each(Fields(open(path))).gather_sync().for_each(Again())


@flow
def functions(shards: ParIter[int], path: str) -> Iter[int]:
    lock = threading.Lock()

    def guarded(number: int) -> int:
        with lock:
            return number

    def local(lock: int) -> int:
        with threading.Lock():
            return lock

    sent = shards.par_map(by_name).par_map(sized(path)).par_map(chosen(careful=False)).par_map(local)
    return sent.gather_sync().for_each(Calls(guarded)).map(guarded)


@flow
def values(shards: ParIter[int], path: str) -> Iter[int]:
    with open(path) as file:
        table = list(csv.reader(file))
    buffer, loggers = io.StringIO(), {"a": logging.getLogger("a")}
    locks: dict[str, threading.Lock] = {}
    seen: queue.Queue[int] = queue.Queue()
    sent = shards.par_map(lambda number: len(table[number]) + len(locks)).par_tap(lambda number: buffer.write(f"{number}"))
    return sent.par_tap(lambda number: loggers["a"].info("%s", number)).gather_sync().tap(seen.put)


@flow
def actors() -> Iter[int]:
    return from_actors(create_actors(Worker), Worker.sample).gather_sync()


def seen_on_the_driver() -> Plan[Metrics]:
    lock = threading.Lock()
    return A2C().plan().tapped(TrainOneStep, lambda stats: print(stats, lock))


@flow
def none_here(shards: ParIter[int], lock: threading.Lock | None) -> Iter[int]:
    if lock is None:
        return shards.par_map(lambda number: number if lock is None else 0).gather_sync()
    return shards.gather_sync()


@flow
def made_elsewhere(shards: ParIter[int], op: Lazy) -> Iter[int]:
    """Whoever made it may have left its lock out."""
    return shards.par_for_each(op).gather_sync()
