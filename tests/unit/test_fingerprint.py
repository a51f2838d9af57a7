"""A fingerprint is a function of what was built, in this process and in any other."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from collections import deque
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from threading import Lock

import numpy as np
import pytest

from tflow import Iter, Stateless, Union, create_actors, from_actors, from_items, from_range, par_from_items

SCRIPT = """
from tflow import Union, from_items, par_from_items, create_actors, from_actors
def keep(x): return x in {"a", "b", "c"}
workers = create_actors(lambda shard: iter(range(3)), num=2)
plan = Union(
    par_from_items(["a", "b"]).par_filter(keep).gather_async(),
    from_actors(workers, next).gather_sync().map(lambda x: x + 1),
    from_items([frozenset({"x", "y", "z"}), {"k": 1.5}, None]),
)
print(plan.fingerprint)
"""


def test_it_is_the_same_in_every_process() -> None:
    found = set()
    for seed in ("1", "2", "3"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}, timeout=60
        )
        found.add(done.stdout.strip())
    assert len(found) == 1
    assert len(found.pop()) == 12


@dataclass(frozen=True)
class Scale(Stateless[int, int]):
    by: int

    def apply(self, item: int, /) -> int:
        return self.by * item


def build(*, factor: int = 2, size: int = 3, extra: int = 1, op: int = 1, name: str = "x") -> Iter[object]:
    actors = create_actors(lambda shard: iter([factor]), num=2)
    stream = from_actors(actors, next).par_map(lambda x: x * factor).gather_sync().for_each(Scale(op)).batch(size)
    return Union(stream.named(name), from_items([extra]))


class Twice(Stateless[int, int]):
    def apply(self, item: int, /) -> int:
        return 2 * item


class Thrice(Stateless[int, int]):
    def apply(self, item: int, /) -> int:
        return 3 * item


Thrice.__qualname__ = Twice.__qualname__  # so that they differ in nothing but their code


def test_the_code_of_an_operator_counts() -> None:
    assert from_range(3).for_each(Twice()).fingerprint == from_range(3).for_each(Twice()).fingerprint
    assert from_range(3).for_each(Twice()).fingerprint != from_range(3).for_each(Thrice()).fingerprint


def test_building_again_gives_the_same() -> None:
    assert build().fingerprint == build().fingerprint


@pytest.mark.parametrize("change", [{"factor": 3}, {"size": 4}, {"extra": 2}, {"op": 2}, {"name": "y"}])
def test_every_change_shows(change: dict[str, int]) -> None:
    assert build(**change).fingerprint != build().fingerprint  # type: ignore[arg-type]  # one of them is a string


def test_code_data_and_sharing_count() -> None:
    one, two = create_actors(lambda shard: iter("a"), num=1), create_actors(lambda shard: iter("a"), num=1)

    def pair(first, second) -> str:  # type: ignore[no-untyped-def]  # actors of an iterator
        return Union(from_actors(first, next).gather_sync(), from_actors(second, next).gather_sync()).fingerprint

    assert pair(one, two) != pair(one, one), "two sets of actors are not one set used twice"
    assert from_range(3).map(lambda x: x + 1).fingerprint != from_range(3).map(lambda x: x + 2).fingerprint
    assert from_items([np.zeros(3)]).fingerprint == from_items([np.zeros(3)]).fingerprint
    assert from_items([np.zeros(3)]).fingerprint != from_items([np.ones(3)]).fingerprint
    assert par_from_items("ab").gather_sync().fingerprint != par_from_items("ab").gather_async().fingerprint


def base(x: int, e: int = 1) -> int:
    return x


def other(x: int, e: int = 1) -> int:
    return x + 1


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a: int) -> None:
        self.a = a


DIFFERENT: list[tuple[object, object]] = [
    (date(2020, 1, 1), date(2020, 1, 2)),
    (Decimal(1), Decimal(2)),
    (Path("a"), Path("b")),
    (deque([1]), deque([2])),
    (bytearray(b"a"), bytearray(b"b")),
    (Slotted(1), Slotted(2)),
    (re.compile("a"), re.compile("b")),
    (partial(base, e=1), partial(base, e=2)),
    (partial(base), partial(other)),
    (",".join, ";".join),
    (re.compile("a").match, re.compile("b").match),
    (len, max),
]


@pytest.mark.parametrize(("one", "two"), DIFFERENT, ids=[type(one).__name__ for one, _ in DIFFERENT])
def test_values_and_functions_of_all_kinds_count(one: object, two: object) -> None:
    assert from_items([one]).fingerprint == from_items([copy.copy(one)]).fingerprint
    assert from_items([one]).fingerprint != from_items([two]).fingerprint


def test_what_refers_to_itself_or_is_not_there_yet_has_a_fingerprint() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert from_items([loop, {1: loop}]).fingerprint

    def reads_later(x: int) -> int:
        return later + x

    early = from_range(1).map(reads_later).fingerprint
    later = 1
    assert early != from_range(1).map(reads_later).fingerprint
    assert from_items([Lock()]).fingerprint
