"""Proof that an algorithm learns: one cell of the table in ``docs/results.md``.

    python -m benchmarks.learn ppo --seed 0 --runtime local

A cell is an algorithm with its usual settings, on an env, with a seed and a runtime. It trains until an evaluation over 100 whole
episodes without exploring reaches the target, or until the time is over. With a budget it trains for just so many env steps, and
the last evaluation counts. It writes one small file with a row per evaluation, ``benchmarks/curves/CELL-RUNTIME-SEED.csv``; one
that is there is not made again, so that all cells can be asked for over and over until they are done; ``--again`` makes it anew.
``python -m benchmarks.curves`` puts them together in ``docs/results.md``.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import adapting
from tflow import Metrics, Stop
from tflow.commands.choice import chosen

CURVES = Path(__file__).parent / "curves"
EPISODES = 100
COLUMNS: tuple[str, ...] = ("seconds", "env_steps", "updates", "return", "evaluation", "reached")


@dataclass(frozen=True)
class Cell:
    """What is trained, how good it must get, and how long it may take."""

    words: str
    """As on the command line, behind ``tflow train``."""
    target: float
    seconds: float
    every: int
    """Env steps between two evaluations."""
    steps: int | None = None
    """The budget in env steps: what counts is the evaluation after these. None: the first that reaches the target."""
    published: str = ""
    """A figure from elsewhere at the same budget."""


PIXELS = "--env benchmarks.pixels:MinAtar/{}-v1 --model benchmarks/pixels.py:Network"
DISCRETE = "--n-step 5 --fragment 8 --tau 0.01 --lr 1e-3 --batch 64 --learning-starts 1000 --model MLP((64,64),'relu')"
CELLS = {
    "ppo": Cell("ppo --env CartPole-v1", 475, 180, 5_000),
    "a2c": Cell("a2c --env CartPole-v1", 475, 300, 10_000),
    "a3c": Cell("a3c --env CartPole-v1", 475, 300, 10_000),
    "impala": Cell("impala --env CartPole-v1", 475, 300, 10_000),
    "dqn": Cell("dqn --env CartPole-v1", 450, 300, 2_000),
    "apex": Cell("apex --env CartPole-v1", 450, 300, 5_000),
    "ppo_dqn": Cell("ppo_dqn", 450, 600, 5_000),
    "ppo-pendulum": Cell("ppo --env Pendulum-v1", -300, 600, 20_000),
    "ppo-breakout": Cell(f"ppo {PIXELS.format('Breakout')} --entropy-coef 0.01", 10, 600, 100_000),
    "sac-pendulum": Cell("sac --env Pendulum-v1", -200, 1500, 5_000, 20_000, "-157 (RL-Zoo)"),
    "tqc-pendulum": Cell("tqc --env Pendulum-v1", -200, 1500, 5_000, 20_000, "-151 (RL-Zoo)"),
    "crossq-pendulum": Cell("crossq --env Pendulum-v1", -200, 1500, 5_000, 20_000),
    "td3-pendulum": Cell("td3 --env Pendulum-v1", -200, 1500, 5_000, 20_000, "-152 (RL-Zoo)"),
    "ddpg-pendulum": Cell("ddpg --env Pendulum-v1", -200, 1500, 5_000, 20_000, "-152 (RL-Zoo)"),
    "sac-cartpole": Cell(f"sac --env CartPole-v1 {DISCRETE}", 450, 1500, 5_000, 40_000),
    "sac-lander": Cell("sac --env LunarLanderContinuous-v3 --fragment 4", 200, 7200, 20_000, 200_000, "260 at 500,000 (RL-Zoo)"),
    "impala-invaders": Cell(f"impala {PIXELS.format('SpaceInvaders')} --lr 1e-3", 20, 600, 100_000),
}
"""``maml`` is a cell, too, with a judge of its own: ``benchmarks.adapting``."""


def rows(cell: Cell, *, seed: int, runtime: str) -> Iterator[dict[str, float]]:
    """One row per evaluation, until the target is reached or the time is over."""
    choice = chosen(cell.words.split(), {"seed": seed, "runtime": runtime})
    with choice.run.open() as session:
        began = time.monotonic()
        stop = None if cell.steps is None else Stop(env_steps=cell.steps)
        run = choice.algorithm.run(stop=stop, eval_every=cell.every, eval_episodes=EPISODES, runtime=session, seed=seed)
        with run:
            done = 0
            for metrics in run:
                seconds = time.monotonic() - began
                if metrics.evaluations > done:
                    done = metrics.evaluations
                    found = worst(metrics)
                    yield {
                        "seconds": round(seconds, 2),
                        "env_steps": metrics.evaluation.weights_at,
                        "updates": metrics.training.updates,
                        "return": round(metrics.mean_return, 2),
                        "evaluation": round(found, 2),
                        "reached": int(found >= cell.target),
                    }
                    if found >= cell.target and cell.steps is None:
                        return
                if seconds > cell.seconds:
                    return


def worst(metrics: Metrics) -> float:
    """The mean return of the latest evaluation; with several policies, of the one that is worst."""
    policies = metrics.evaluation.policies.values()
    return min((each.mean_return for each in policies), default=metrics.evaluation.mean_return)


def rows_of(name: str, seed: int, runtime: str) -> Iterator[dict[str, float]]:
    """What comes of a cell."""
    if name != "maml":
        yield from rows(CELLS[name], seed=seed, runtime=runtime)
        return
    with chosen(["maml"], {"seed": seed, "runtime": runtime}).run.open() as session:
        yield from adapting.rows(seed=seed, runtime=session)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cell", choices=(*CELLS, "maml"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runtime", choices=("local", "ray"), default="local")
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    path = CURVES / f"{given.cell}-{given.runtime}-{given.seed}.csv"
    if path.exists() and not given.again:
        print(f"{path.name} is there already")
        return
    CURVES.mkdir(exist_ok=True)
    found: list[dict[str, float]] = []
    for row in rows_of(given.cell, given.seed, given.runtime):
        found.append(row)
        print("  ".join(f"{name} {value:,}" for name, value in row.items()), flush=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, adapting.COLUMNS if given.cell == "maml" else COLUMNS)
        writer.writeheader()
        writer.writerows(found)
    print(f"{'reached' if found and found[-1]['reached'] else 'NOT reached'}: {path.name}")


if __name__ == "__main__":
    main()
