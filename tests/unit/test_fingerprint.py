"""A fingerprint is a function of what was built, in this process and in any other."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

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
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        from_items(loop).fingerprint  # noqa: B018
