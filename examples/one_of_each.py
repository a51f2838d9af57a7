"""A bug that no ordinary test finds, and that schedule exploration finds at once.

Gradients of two workers are averaged in pairs. The author assumes that a pair has one gradient of each worker, and on one
machine, where workers answer in turn, that is so. On a cluster one worker may answer twice before the other answers once: then
the mean is over one worker's data only, and training drifts towards whoever is fast.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflow import Iter, Shard, create_actors, from_actors
from tflow.testing import History, explore


@dataclass(frozen=True)
class Gradient:
    worker: int
    value: float


class Worker:
    """Computes gradients; here, numbers that say where they come from."""

    def __init__(self, shard: Shard) -> None:
        self.index = shard.index
        self.steps = 0

    def gradient(self) -> Gradient:
        self.steps += 1
        return Gradient(self.index, self.steps / 10)


def wrong_plan() -> Iter[list[Gradient]]:
    """The next two gradients, whoever they are from."""
    return from_actors(create_actors(Worker, num=2), Worker.gradient).gather_async().batch(2).take(3)


def right_plan() -> Iter[list[Gradient]]:
    """One gradient of each worker."""
    return from_actors(create_actors(Worker, num=2), Worker.gradient).gather_rounds().take(3)


def one_of_each(history: History[list[Gradient]]) -> None:
    """What the author relies on."""
    for pair in history.items:
        assert sorted(gradient.worker for gradient in pair) == [0, 1], f"this mean is one-sided: {pair}"


def main() -> None:
    print(wrong_plan())
    print("\nOn the local runtime the assumption holds:")
    for pair in wrong_plan().run():
        print("  workers", [gradient.worker for gradient in pair])
    print("\nUnder another schedule it does not:")
    print(explore(wrong_plan, one_of_each))
    print("\nWith gather_rounds() it holds under every schedule that was tried:", explore(right_plan, one_of_each) is None)


if __name__ == "__main__":
    main()
