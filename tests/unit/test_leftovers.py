"""The law of leftovers: silent about windows, thinning and delays, which look much like operators that lose their last items."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st

from tflow import Batch, Stateful
from tflow.laws import LEFTOVERS, LawBroken
from tflow.rl.data.batch import Rollout
from tflow.testing import check_laws, rollouts
from tflow.types import AnyOp

floats = st.floats(-9, 9)
words = st.text("abc", max_size=2)


class Window(Stateful[float, list[object], tuple[float, ...]]):
    """Shows something of the last three items once there are so many, and keeps two or three of them."""

    def __init__(self, fn: Callable[[tuple[float, ...]], object], kept: int) -> None:
        self.fn, self.kept = fn, kept

    def init(self) -> tuple[float, ...]:
        return ()

    def step(self, state: tuple[float, ...], item: float, /) -> tuple[tuple[float, ...], list[object]]:
        window = (*state, item)[-3:]
        return (window[-self.kept :], [self.fn(window)]) if len(window) == 3 else (window, [])


class Change(Stateful[float, list[float], float | None]):
    """What has changed since the item before; nothing for the first."""

    def init(self) -> float | None:
        return None

    def step(self, state: float | None, item: float, /) -> tuple[float, list[float]]:
        return item, [] if state is None else [item - state]


class Before(Stateful[float, float | None, float | None]):
    """The item before; None for the first."""

    def init(self) -> float | None:
        return None

    def step(self, state: float | None, item: float, /) -> tuple[float, float | None]:
        return item, state


class Third(Stateful[float, list[float], int]):
    def init(self) -> int:
        return 0

    def step(self, state: int, item: float, /) -> tuple[int, list[float]]:
        return state + 1, [item] if state % 3 == 2 else []


class Warm(Stateful[float, float | None, tuple[int, float]]):
    """The running mean, once it is of four."""

    def init(self) -> tuple[int, float]:
        return 0, 0.0

    def step(self, state: tuple[int, float], item: float, /) -> tuple[tuple[int, float], float | None]:
        number, mean = state[0] + 1, state[1] + (item - state[1]) / (state[0] + 1)
        return (number, mean), mean if number >= 4 else None


class DropsTheRest(Stateful[float, list[float], list[float]]):
    """Groups of three; it says that a smaller one is dropped."""

    def init(self) -> list[float]:
        return []

    def step(self, state: list[float], item: float, /) -> tuple[list[float], list[float]]:
        held = [*state, item]
        return ([], held) if len(held) == 3 else (held, [])

    def at_end(self, state: list[float], /) -> tuple[()]:
        return ()


SHOWN: dict[str, Callable[[tuple[float, ...]], object]] = {
    "as it is": list,
    "as a mean": lambda window: sum(window) / 3,
    "by its largest": max,
    "by its spread": lambda window: float(np.std(window)),
    "as an array": np.array,
    "by its change": lambda window: window[2] - window[0],
}
SILENT: dict[str, tuple[AnyOp, st.SearchStrategy[object]]] = {
    **{f"a window {name}, {kept} kept": (Window(fn, kept), floats) for kept in (2, 3) for name, fn in SHOWN.items()},
    "a sum of what stays": (Window(sum, 3), floats),
    "words": (Window(" ".join, 2), words),  # type: ignore[arg-type]  # of text
    "change": (Change(), floats),
    "before": (Before(), floats),
    "thinned out": (Third(), floats),
    "a mean of at least four": (Warm(), floats),
    "dropped on purpose": (DropsTheRest(), floats),
}


@pytest.mark.parametrize("name", SILENT)
def test_nothing_is_said_of_operators_that_hold_nothing_back(name: str) -> None:
    op, items = SILENT[name]
    vars(check_laws(op, items=items, laws=[LEFTOVERS]))["test_leftovers"](object())


class Step(NamedTuple):
    obs: int
    reward: float


class Transitions(Stateful[Step, list[tuple[int, float, int]], Step | None]):
    """(observation, reward, next observation): the reward of the last step is never shown."""

    def init(self) -> Step | None:
        return None

    def step(self, state: Step | None, item: Step, /) -> tuple[Step, list[tuple[int, float, int]]]:
        return item, [] if state is None else [(state.obs, state.reward, item.obs)]


class Returns(Stateful[dict[str, float], dict[str, float] | None, "deque[dict[str, float]]"]):
    """The return of three rewards, beside the first observation."""

    def init(self) -> deque[dict[str, float]]:
        return deque()

    def step(
        self, state: deque[dict[str, float]], item: dict[str, float], /
    ) -> tuple[deque[dict[str, float]], dict[str, float] | None]:
        state.append(dict(item))
        if len(state) < 3:
            return state, None
        total = sum(0.9**number * each["reward"] for number, each in enumerate(state))
        return state, {"obs": state.popleft()["obs"], "return": total}


class Shuffles(Stateful[float, list[float], tuple[list[float], Random]]):
    """Holds four, and shows one of them when another comes."""

    def init(self) -> tuple[list[float], Random]:
        return [], Random(0)

    def step(self, state: tuple[list[float], Random], item: float, /) -> tuple[tuple[list[float], Random], list[float]]:
        held, dice = [*state[0], item], state[1]
        return (held, dice), [held.pop(dice.randrange(5))] if len(held) == 5 else []


class Concatenates(Stateful[Rollout, list[Rollout], list[Rollout]]):
    batching = True

    def init(self) -> list[Rollout]:
        return []

    def step(self, state: list[Rollout], item: Rollout, /) -> tuple[list[Rollout], list[Rollout]]:
        held = [*state, item]
        return ([], [Batch.concat(held)]) if len(held) == 3 else (held, [])


steps = st.builds(Step, st.integers(0, 9), floats)
LOSES: dict[str, tuple[AnyOp, st.SearchStrategy[object]]] = {
    "transitions": (Transitions(), steps),
    "returns": (Returns(), st.fixed_dictionaries({"obs": floats, "reward": floats})),
    "shuffled": (Shuffles(), floats),
    "concatenated": (Concatenates(), rollouts(min_pieces=1, dict_obs=False)),
    "a discounted sum": (Window(lambda window: window[0] + 0.9 * window[1] + 0.81 * window[2], 2), floats),
}


@pytest.mark.parametrize("name", LOSES)
def test_what_is_held_back_and_never_shown_is_found(name: str) -> None:
    op, items = LOSES[name]
    with pytest.raises(LawBroken, match=r"leftovers.*(nothing is seen|never seen)"):
        vars(check_laws(op, items=items, laws=[LEFTOVERS]))["test_leftovers"](object())
