"""Operators with one mistake each: ``check_laws`` finds every one of them, and says so with the law that it breaks."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from threading import Lock

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from tests.quality.hunt import hunt
from tflow import ActorOp, Shard, Stateful, Stateless
from tflow.laws import LAWS
from tflow.testing import check_laws

EXAMPLES = 30
"""Each is found within so many examples."""
SIZE = 6
"""And shown with a counterexample no larger than this."""

numbers = st.integers(-9, 9)
lists = st.lists(numbers, min_size=1, max_size=3)
arrays = st.builds(lambda values: np.array(values, dtype=np.float64), lists)


class NormalisesInPlace(Stateless[np.ndarray, np.ndarray]):
    """The original's StandardizeFields: the other branch of a split trains on what this one has changed."""

    def apply(self, item: np.ndarray, /) -> np.ndarray:
        item += 1
        return item.copy()


class CountsInItself(Stateful[int, int, None]):
    """State in the operator, where no checkpoint finds it."""

    def __init__(self) -> None:
        self.count = 0

    def init(self) -> None:
        return None

    def step(self, state: None, item: int, /) -> tuple[None, int]:
        self.count += 1
        return None, self.count


class SharesItsInitialState(Stateful[int, int, list[int]]):
    """Every run starts where the last one ended."""

    kept: list[int] = []

    def init(self) -> list[int]:
        return SharesItsInitialState.kept

    def step(self, state: list[int], item: int, /) -> tuple[list[int], int]:
        state.append(item)
        return state, len(state)


class RollsTheGlobalDice(Stateless[int, float]):
    """The original's fractional weights: deterministic by name only."""

    def apply(self, item: int, /) -> float:
        return item + random.random()


class RollsNumpysDice(Stateless[int, float]):
    def apply(self, item: int, /) -> float:
        return float(item + np.random.random())


class KeepsTheLastItem(Stateful[list[int], list[int], list[int]]):
    """Shows the item before: a reference, so it shows what has become of it."""

    def init(self) -> list[int]:
        return []

    def step(self, state: list[int], item: list[int], /) -> tuple[list[int], list[int]]:
        return item, list(state)


class ReturnsNothing(Stateless[int, int]):
    """The original's ApplyGradients: typed as a stream of something, a stream of None."""

    def apply(self, item: int, /) -> int:
        return None  # type: ignore[return-value]  # the mistake


class PromisesText(Stateless[int, list[str]]):
    def apply(self, item: int, /) -> list[str]:
        return [item]  # type: ignore[list-item]  # the mistake


class AveragesBySumming(Stateless[list[int], float]):
    """The original's AverageGradients."""

    def apply(self, item: list[int], /) -> float:
        return float(sum(item))


class SwallowsErrors(Stateless[list[int], int]):
    """A broken environment looks like one that earns nothing."""

    def apply(self, item: list[int], /) -> int:
        try:
            return sum(item)
        except Exception:
            return 0


class HoldsALock(Stateless[int, int]):
    """Works on the laptop; cannot travel."""

    def __init__(self) -> None:
        self.lock = Lock()

    def apply(self, item: int, /) -> int:
        return item


class WritesIntoItsInput(Stateless[np.ndarray, float]):
    """Puts back what it changes, so nobody notices, until the array comes read-only from another process."""

    def apply(self, item: np.ndarray, /) -> float:
        item += 1
        total = float(item.sum())
        item -= 1
        return total


class RemembersIdentities(Stateful[tuple[int, ...], int, dict[int, int]]):
    """A cache keyed by ``id``: which items are the same object depends on how they travelled."""

    numbers = count()

    def init(self) -> dict[int, int]:
        return {}

    def step(self, state: dict[int, int], item: tuple[int, ...], /) -> tuple[dict[int, int], int]:
        return state, next(self.numbers)


class CountsWithoutAState(Stateless[int, int]):
    """Memory in an operator that says it has none."""

    def __init__(self) -> None:
        self.count = 0

    def apply(self, item: int, /) -> int:
        self.count += 1
        return self.count


class KeepsTensors(Stateful[torch.Tensor, float, torch.Tensor]):
    def init(self) -> torch.Tensor:
        return torch.zeros(1)

    def step(self, state: torch.Tensor, item: torch.Tensor, /) -> tuple[torch.Tensor, float]:
        return item, float(state.sum())


@dataclass
class Roll:
    reward: float


class KeepsRolls(Stateful[Roll, float, Roll]):
    def init(self) -> Roll:
        return Roll(0.0)

    def step(self, state: Roll, item: Roll, /) -> tuple[Roll, float]:
        return item, state.reward


class ShowsItsBuffer(ActorOp["Buffer", float, np.ndarray]):
    """Several items of one call are one array."""

    def apply(self, actor: Buffer, item: float, /) -> np.ndarray:
        actor.values += item
        return actor.values


class Buffer:
    def __init__(self, shard: Shard) -> None:
        self.values = np.zeros(1)


class ChangesWithTheCall(ActorOp[list[int], int, int]):
    """Uses its actor as memory and forgets that the actor is shared and is restarted: not the same the second time."""

    seen: list[int] = []

    def apply(self, actor: list[int], item: int, /) -> int:
        self.seen.append(item)
        return len(self.seen)


def an_empty_list(shard: Shard) -> list[int]:
    return []


def mean(items: list[list[int]]) -> list[object]:
    return [sum(item) / len(item) for item in items]


PLANTED: dict[str, tuple[Callable[[], object], st.SearchStrategy[object], dict[str, object]]] = {
    "purity": (NormalisesInPlace, arrays, {}),
    "resumption": (CountsInItself, numbers, {}),
    "repeatability, across runs": (SharesItsInitialState, numbers, {}),
    "repeatability": (RollsTheGlobalDice, numbers, {}),
    "repeatability, of numpy": (RollsNumpysDice, numbers, {}),
    "release": (KeepsTheLastItem, lists, {}),
    "typing": (ReturnsNothing, numbers, {}),
    "typing, of members": (PromisesText, numbers, {}),
    "equivalence": (AveragesBySumming, lists, {"like": mean}),
    "error_propagation": (SwallowsErrors, lists, {}),
    "travel": (HoldsALock, numbers, {}),
    "travel, of arrays": (WritesIntoItsInput, arrays, {}),
    "chunking": (RemembersIdentities, st.tuples(numbers), {}),
    "chunking, of buffers": (ShowsItsBuffer, st.just(1.0), {"actor": Buffer}),
    "resumption, without a state": (CountsWithoutAState, numbers, {}),
    "release, of tensors": (KeepsTensors, st.builds(torch.ones, st.integers(1, 2)), {}),
    "release, of objects": (KeepsRolls, st.builds(Roll, st.just(1.0)), {}),
    "repeatability, beside an actor": (ChangesWithTheCall, numbers, {"actor": an_empty_list}),
}
"""By the law that each breaks."""


@pytest.mark.parametrize("planted", PLANTED)
def test_the_kit_finds_a_wrong_operator(planted: str) -> None:
    make, items, more = PLANTED[planted]
    law = planted.split(",")[0]
    assert law in LAWS
    tests = check_laws(make(), items=items, **more)  # type: ignore[arg-type]  # operators of many types in one table
    found = hunt(vars(tests)[f"test_{law}"], examples=EXAMPLES)
    assert found is not None, "not found"
    assert found.size <= SIZE, found


def test_right_operators_pass() -> None:
    class Mean(Stateless[list[int], float]):
        def apply(self, item: list[int], /) -> float:
            return sum(item) / len(item)

    class Window(Stateful[list[int], list[int], tuple[int, ...]]):
        def init(self) -> tuple[int, ...]:
            return ()

        def step(self, state: tuple[int, ...], item: list[int], /) -> tuple[tuple[int, ...], list[int]]:
            return (*state, *item)[-4:], list(state)

    class Push(ActorOp[list[int], int, int]):
        def apply(self, actor: list[int], item: int, /) -> int:
            actor.append(item)
            return len(actor)

    for tests in (
        check_laws(Mean(), items=lists, like=mean),
        check_laws(Window(), items=lists),
        check_laws(Push(), items=numbers, actor=an_empty_list),
    ):
        for name, test in vars(tests).items():
            if name.startswith("test_"):
                test(object())
