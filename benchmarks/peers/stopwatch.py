"""What off-policy contestants have in common: their options, one clock for all, and one evaluation for all.

It needs gymnasium alone, which all environments have. A contestant prints a line of JSON per evaluation asked for
(``--evaluate-at``), and one at the end: ``env_steps`` and ``seconds`` from the warm-up on, without evaluations.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym

WARM_UP = 400
"""Env steps after learning has started that are not measured."""
EPISODES, FIRST_SEED = 10, 1_000_000
Act = Callable[[Any], Any]  # Any: observations and actions are what the env says


def options(env: str, *, lr: float, learning_starts: int) -> argparse.ArgumentParser:
    """The command line, with the defaults of an algorithm."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default=env)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--steps", type=int, default=1_000_000, help="env steps at most")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="seconds at most, from the warm-up on")
    parser.add_argument("--lr", type=float, default=lr)
    parser.add_argument("--learning-starts", type=int, default=learning_starts)
    parser.add_argument("--threads", type=int, help="torch's threads; by default what the library does")
    parser.add_argument("--evaluate-at", type=int, nargs="*", default=(), help="env steps")
    return parser


def control_options() -> argparse.ArgumentParser:
    """The command line of continuous control."""
    parser = options("Pendulum-v1", lr=3e-4, learning_starts=100)
    parser.add_argument("--algo", choices=("sac", "td3"), default="sac")
    return parser


def on_policy_options() -> argparse.ArgumentParser:
    """The command line of policy gradients."""
    parser = options("CartPole-v1", lr=0.0, learning_starts=0)
    parser.add_argument("--algo", choices=("ppo", "a2c"), default="ppo")
    parser.add_argument("--settings", choices=("defaults", "former"), default="defaults")
    return parser


class Stopwatch:
    """Look at it after each env step or report; it evaluates when that is due, and says when to stop."""

    def __init__(self, given: argparse.Namespace, policy: Callable[[], Act]) -> None:
        self._given, self._policy = given, policy
        self._due = sorted(given.evaluate_at)
        self._began, self._evaluating = time.perf_counter(), 0.0
        self._warm: tuple[float, int] | None = None

    @property
    def seconds(self) -> float:
        """Since it was made, without evaluations."""
        return time.perf_counter() - self._began - self._evaluating

    def over(self, env_steps: int) -> bool:
        """True if it is time to stop; what came of it is printed then."""
        seconds, given = self.seconds, self._given
        if self._warm is None and env_steps >= given.learning_starts + WARM_UP:
            self._warm = seconds, env_steps
        if self._due and env_steps >= self._due[0]:
            self._evaluate(env_steps, seconds)
        from_when, first = self._warm or (seconds, env_steps)
        if env_steps < given.steps and seconds - from_when < given.seconds:
            return False
        if env_steps == first:
            raise SystemExit(f"--steps must be more than {given.learning_starts + WARM_UP}: what comes before is not measured.")
        self._print(seconds=seconds - from_when, env_steps=env_steps - first, reached=0)
        return True

    def _evaluate(self, env_steps: int, seconds: float) -> None:
        self._due = [each for each in self._due if each > env_steps]
        found = mean_return(self._given.env, self._policy())
        self._print(env_steps=env_steps, seconds=seconds, evaluation=found)
        self._evaluating += self.seconds - seconds

    def _print(self, **found: float) -> None:
        print(json.dumps(found), flush=True)


def learn_with_sb3(model: Any, given: argparse.Namespace) -> None:  # Any: a model of Stable-Baselines3
    """Train a model of Stable-Baselines3, looking at the watch after every env step."""
    watch = Stopwatch(given, lambda: lambda obs: model.predict(obs, deterministic=True)[0])

    def look(local: dict[str, Any], _: object) -> bool:  # Any: the variables of their loop
        return not watch.over(local["self"].num_timesteps)

    model.learn(given.steps, callback=look)


def mean_return(env_id: str, act: Act) -> float:
    """Over whole episodes that begin alike for everybody."""
    env: gym.Env[Any, Any] = gym.make(env_id)  # Any: as above
    total = 0.0
    for episode in range(EPISODES):
        obs, _ = env.reset(seed=FIRST_SEED + episode)
        over = False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(act(obs))
            total += float(reward)
            over = terminated or truncated
    env.close()
    return total / EPISODES
