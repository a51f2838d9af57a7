"""Envs in checkpoints: a run that is resumed does what the run does that goes on, whatever the env has in it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from tests.algos.test_resume import reports
from tflow import Plan
from tflow.algos import PPO
from tflow.models import MLP
from tflow.rl.metrics import Metrics


class Base(gymnasium.Env[Any, Any]):  # Any: arrays and numbers
    """Shows one number, which derived classes make of whatever they have."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1e6, 1e6, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.t = 0
        self.level = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:  # Any: as above
        super().reset(seed=seed)
        self.t = 0
        self.level += 1
        self.begin()
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # Any: as above
        self.t += 1
        self.act(int(action))
        return self.seen(), float(self.value()), self.t >= 13, False, {}

    def begin(self) -> None:
        return

    def act(self, action: int) -> None:
        return

    def value(self) -> float:
        return float(self.level)

    def seen(self) -> Any:  # Any: as above
        return np.array([self.t / 10, self.value()], np.float32)


class Plain(Base):
    """Everything in it is data; and it has no constructor of its own."""

    def begin(self) -> None:
        self.pos = self.np_random.random(2)

    def act(self, action: int) -> None:
        self.pos = self.pos + action * self.np_random.random(2)

    def value(self) -> float:
        return float(self.pos.sum()) + self.level


class OwnState(Base):
    """Says its state itself, because of the lock."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def state(self) -> tuple[object, ...]:
        return self.t, self.level, self.np_random

    def load(self, state: tuple[Any, ...]) -> None:  # Any: as above
        self.t, self.level, self.np_random = state


START = np.array([1.0, 2.0])


class Aliases(Base):
    """The position is the start itself at first."""

    def begin(self) -> None:
        self.start = self.pos = START

    def act(self, action: int) -> None:
        self.pos = self.pos + (action + 1) * 0.1

    def value(self) -> float:
        return float(self.pos.sum())


class Shared(Base):
    def begin(self) -> None:
        self.body: list[float] = [0.0]
        self.view = self.body

    def act(self, action: int) -> None:
        self.body.append(float(action))

    def value(self) -> float:
        return sum(self.view)


@dataclass
class Player:
    x: float = 0.0


class Thing:
    def __init__(self, x: float) -> None:
        self.x = x


class Entities(Base):
    def begin(self) -> None:
        self.player = Player()
        self.entities = [self.player, Player()]

    def act(self, action: int) -> None:
        self.player.x += action

    def value(self) -> float:
        return sum(each.x for each in self.entities)


class Grows(Base):
    def begin(self) -> None:
        self.things: list[Thing] = []

    def act(self, action: int) -> None:
        self.things.append(Thing(action))

    def value(self) -> float:
        return sum(each.x for each in self.things)


class Later(Base):
    def begin(self) -> None:
        self.target: Thing | None = None

    def act(self, action: int) -> None:
        if self.t == 3:
            self.target = Thing(3.0)

    def value(self) -> float:
        return 0.0 if self.target is None else self.target.x


class Modes(Base):
    def begin(self) -> None:
        self.mode: Callable[[], float] = self.walk

    def act(self, action: int) -> None:
        if self.t == 4:
            self.mode = self.run

    def walk(self) -> float:
        return 1.0

    def run(self) -> float:
        return 2.0

    def value(self) -> float:
        return self.mode()


class Views(Base):
    def begin(self) -> None:
        self.grid = np.zeros((4, 5))
        self.column = self.grid[:, 1]

    def act(self, action: int) -> None:
        self.column += action + 1

    def value(self) -> float:
        return float(self.grid.sum())


class Loses(Base):
    def begin(self) -> None:
        self.bonus = 5.0

    def act(self, action: int) -> None:
        if self.t == 2:
            del self.bonus

    def value(self) -> float:
        return getattr(self, "bonus", 1.0)


class Sets(Base):
    def begin(self) -> None:
        self.free = set(range(0, 4000, 7))

    def act(self, action: int) -> None:
        for _ in range(40):
            self.free.pop()

    def value(self) -> float:
        return float(next(iter(self.free)))


class Slotted:
    __slots__ = ("hidden",)


class Slots(Base, Slotted):
    def begin(self) -> None:
        self.hidden = 0.0

    def act(self, action: int) -> None:
        self.hidden += 1.0

    def value(self) -> float:
        return self.hidden


class ScaledCart(CartPoleEnv):
    """One overrides a method, and no more."""

    def step(self, action: Any) -> Any:  # Any: as above
        seen, reward, *rest = super().step(action)  # type: ignore[no-untyped-call]  # gymnasium's
        return seen, float(reward) - abs(float(seen[0])), *rest


def normalised() -> gymnasium.Env[Any, Any]:  # Any: as above
    return wrappers.NormalizeReward(wrappers.NormalizeObservation(gymnasium.make("Pendulum-v1")))


def stacked() -> gymnasium.Env[Any, Any]:  # Any: as above
    return wrappers.TransformObservation(wrappers.RecordEpisodeStatistics(normalised()), lambda seen: np.clip(seen, -5, 5), None)


EXACT = [Plain, OwnState, Aliases, Loses, ScaledCart, normalised]
"""Their state can be had."""
RENEWED = [Shared, Entities, Grows, Later, Modes, Views, Sets, Slots, stacked]
"""Theirs cannot, or could not be trusted."""


def plan(env: Callable[[], gymnasium.Env[Any, Any]]) -> Plan[Metrics]:  # Any: as above
    return PPO(env=env, num_workers=1, num_envs=2, fragment=5, epochs=1, minibatch=10, model=MLP((8,))).plan()


@pytest.mark.parametrize("env", [*EXACT, *RENEWED], ids=lambda env: env.__name__)
def test_a_resumed_run_does_what_the_one_does_that_goes_on(
    env: Callable[[], gymnasium.Env[Any, Any]],  # Any: as above
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with plan(env).run(seed=3) as run:
        expected = reports(run, 8)[4:]
    with plan(env).run(seed=3) as run:
        reports(run, 4)
        run.save(tmp_path / "saved")
        after = reports(run, 4)
    assert START.tolist() == [1.0, 2.0], "nothing of the user's is touched"
    with plan(env).run(resume=tmp_path / "saved") as run:
        np.testing.assert_equal(reports(run, 4), after)
    assert START.tolist() == [1.0, 2.0]
    assert ("has no state that can be saved: its episodes end at every checkpoint" in caplog.text) == (env in RENEWED)
    if env in EXACT:
        np.testing.assert_equal(after, expected)
