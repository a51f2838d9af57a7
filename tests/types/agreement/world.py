"""What the written plans are composed of: elements, actors, functions and operators of every kind."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TypeVar

from tflow import ActorOp, Async, Live, LiveOp, Shard, Stateful, Stateless, Sync
from tflow.types import Ref, RefOp, StatefulActorOp

T = TypeVar("T")


class Worker:
    def __init__(self, shard: Shard) -> None:
        self.shard = shard

    def number(self) -> int:
        return self.shard.index

    def word(self) -> str:
        return str(self.shard.index)


class LongWorker(Worker): ...


class Teacher:
    def __init__(self, shard: Shard) -> None:
        self.shard = shard

    def number(self) -> int:
        return self.shard.index

    def word(self) -> str:
        return str(self.shard.index)


# --------------------------------------------------------------------------- functions


def double(number: int) -> int:
    return 2 * number


def show(number: int) -> str:
    return str(number)


def length(word: str) -> int:
    return len(word)


def louder(word: str) -> str:
    return word.upper()


def upto(number: int) -> list[int]:
    return list(range(number))


def letters(word: str) -> list[str]:
    return list(word)


def is_even(number: int) -> bool:
    return number % 2 == 0


def is_short(word: str) -> bool:
    return len(word) < 3


def add(total: int, number: int) -> int:
    return total + number


def join(text: str, word: str) -> str:
    return text + word


def same(item: T) -> T:
    return item


# --------------------------------------------------------------------------- operators


class Double(Stateless[int, int]):
    def apply(self, item: int, /) -> int:
        return 2 * item


class Show(Stateless[int, str]):
    def apply(self, item: int, /) -> str:
        return str(item)


class Louder(Stateless[str, str]):
    def apply(self, item: str, /) -> str:
        return item.upper()


class Length(Stateless[str, int]):
    def apply(self, item: str, /) -> int:
        return len(item)


@dataclass(frozen=True)
class Total(Stateful[int, int, int]):
    start: int = 0

    def init(self) -> int:
        return self.start

    def step(self, state: int, item: int, /) -> tuple[int, int]:
        return state + item, state + item


class Count(Stateful[object, int, int]):
    def init(self) -> int:
        return 0

    def step(self, state: int, item: object, /) -> tuple[int, int]:
        return state + 1, state + 1


class First(Stateless[list[T], T]):
    def apply(self, item: list[T], /) -> T:
        return item[0]


class FreshNumber(Stateless[int, int, Sync]):
    """Only behind a barrier."""

    def apply(self, item: int, /) -> int:
        return item


class FreshWord(Stateless[str, str, Sync]):
    def apply(self, item: str, /) -> str:
        return item


class OnDriver(Stateless[int, int, Async]):
    """Anywhere on the driver."""

    def apply(self, item: int, /) -> int:
        return item


class Notes(LiveOp[int, int]):
    """Only on the driver."""

    def apply(self, live: Live, item: int, /) -> int:
        return item


class Passes(RefOp[T]):
    def forward(self, live: Live, item: Ref[T], /) -> None:
        return


class BesideWorker(ActorOp[Worker, int, int]):
    def apply(self, actor: Worker, item: int, /) -> int:
        return item


class CountsBesideWorker(StatefulActorOp[Worker, str, int, int]):
    def init(self) -> int:
        return 0

    def step(self, actor: Worker, state: int, item: str, /) -> tuple[int, int]:
        return state + 1, state + 1


class Teach(ActorOp[Teacher, int, str]):
    def apply(self, actor: Teacher, item: int, /) -> str:
        return str(item)


class Grade(ActorOp[Teacher, str, int]):
    def apply(self, actor: Teacher, item: str, /) -> int:
        return len(item)


@dataclass(frozen=True)
class Holds(Stateless[int, int]):
    """Keeps what it is given."""

    held: object

    def apply(self, item: int, /) -> int:
        return item


class MakesLock(Stateless[int, int]):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def apply(self, item: int, /) -> int:
        return item


@dataclass(frozen=True)
class LockByDefault(Stateless[int, int]):
    lock: threading.Lock = field(default_factory=threading.Lock)

    def apply(self, item: int, /) -> int:
        return item
