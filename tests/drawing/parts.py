"""What ``plans.py`` imports: actors, constants and flows of another module."""

from __future__ import annotations

from tflow import Iter, Shard, create_actors, from_range


class Worker:
    def __init__(self, shard: Shard) -> None:
        self.index = shard.index

    def sample(self) -> int:
        return self.index


workers = create_actors(Worker, num=2)
SIZE = 4
numbers = from_range(9)


def doubled(stream: Iter[int]) -> Iter[int]:
    return stream.map(twice)


def twice(x: int) -> int:
    return 2 * x
