"""Learning curves to a fixed budget: the cells of the table in ``docs/results.md``.

    python -m benchmarks.learn ppo-cartpole --seed 0 --runtime local
    python -m benchmarks.learn --all
    python -m benchmarks.learn --random

A cell is an algorithm on an env with a seed and a runtime. It trains for a fixed number of env steps, whatever happens on the
way, with 20 evaluations of whole episodes without exploration. It writes one small file with a row per evaluation,
``benchmarks/curves/CELL-RUNTIME-SEED.csv``; one that is there is not made again, so that ``--all`` can be stopped and started
until all are done; ``--again`` makes one anew. ``python -m benchmarks.curves`` puts them together in ``docs/results.md``.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium as gym

from benchmarks import adapting
from tflow import Metrics, Stop
from tflow.commands.choice import chosen

CURVES = Path(__file__).parent / "curves"
EVALUATIONS = 20
COLUMNS: tuple[str, ...] = ("seconds", "env_steps", "updates", "return", "evaluation")
SEEDS = range(5)


@dataclass(frozen=True)
class Task:
    """An env, and what is known of it."""

    env: str
    """As on the command line."""
    random: float
    """Mean return of random actions, over 100 episodes (``--random``)."""
    episodes: int = 100
    """Episodes per evaluation; fewer where they are long."""


@dataclass(frozen=True)
class Cell:
    """What is trained, for how long, and what others have reached."""

    algo: str
    """As on the command line, with flags that are not the defaults or the preset."""
    task: Task
    steps: int
    """The budget in env steps."""
    published: float | None = None
    """RL-Zoo's figure for this algorithm and env: the final policy of a single run, with settings tuned for it."""
    published_at: int = 0
    """Its env steps."""
    seeds: int = len(SEEDS)
    """Seeds that are asked for: fewer for long ones."""

    @property
    def words(self) -> str:
        """As on the command line, behind ``tflow train``."""
        name, _, flags = self.algo.partition(" ")
        return " ".join(each for each in (name, self.task.env and f"--env {self.task.env}", flags) if each)

    @property
    def asked(self) -> float | None:
        """80 % of the way from random actions to the published figure, or to the best one on this env; None if there is none."""
        others = [cell.published for cell in CELLS.values() if cell.task is self.task and cell.published is not None]
        goal = self.published if self.published is not None else max(others, default=None)
        return None if goal is None else self.task.random + 0.8 * (goal - self.task.random)


CARTPOLE = Task("CartPole-v1", 23.7)
ACROBOT = Task("Acrobot-v1", -497.1)
MOUNTAIN_CAR = Task("MountainCar-v0", -200)
MOUNTAIN_CAR_CONTINUOUS = Task("MountainCarContinuous-v0", -33.3)
PENDULUM = Task("Pendulum-v1", -1207.6)
LANDER = Task("LunarLander-v3", -192.0, 50)
LANDER_CONTINUOUS = Task("LunarLanderContinuous-v3", -212.7, 50)
WALKER = Task("BipedalWalker-v3", -102.8, 20)
CHEETAH = Task("HalfCheetah-v5", -274.9, 20)
HOPPER = Task("Hopper-v5", 16.7, 20)
BREAKOUT = Task("benchmarks.pixels:MinAtar/Breakout-v1", 0.4, 50)
INVADERS = Task("benchmarks.pixels:MinAtar/SpaceInvaders-v1", 4.5, 50)
ASTERIX = Task("benchmarks.pixels:MinAtar/Asterix-v1", 0.4, 50)
DOORS = Task("tflow/Doors-v0", 0.95)
"""With action masks; the best return is 1.4 on average."""
STATELESS = Task("tflow/StatelessCartPole-v1", 23.7, 20)
"""Needs a memory, as the next one does."""
REPEAT = Task("tflow/RepeatAfterMe-v0", 0.0, 20)
"""The best return is 100."""
PARAMETRIC = Task("tflow/ParametricCartPole-v0", 22.0)
KEY_DOOR = Task("tflow/KeyDoor-v0", 0.0)
"""Nothing is found by chance: it needs exploration. The best return is 1."""
TWO = Task("", 23.7)
"""The env of ``ppo_dqn``: agents that balance a CartPole each."""

CELLS = {
    "ppo-cartpole": Cell("ppo", CARTPOLE, 500_000, 500, 100_000),
    "ppo-cartpole-defaults": Cell("ppo --preset none", CARTPOLE, 500_000, 500, 100_000),
    "a2c-cartpole": Cell("a2c", CARTPOLE, 500_000, 500, 500_000),
    "a3c-cartpole": Cell("a3c", CARTPOLE, 500_000),
    "impala-cartpole": Cell("impala", CARTPOLE, 500_000),
    "appo-cartpole": Cell("appo", CARTPOLE, 500_000, seeds=3),
    "pg-cartpole": Cell("pg", CARTPOLE, 500_000, seeds=3),
    "ddppo-cartpole": Cell("ddppo", CARTPOLE, 500_000, seeds=3),
    "pqn-cartpole": Cell("pqn", CARTPOLE, 500_000, 495, 500_000, seeds=3),
    "simple_q-cartpole": Cell("simple_q", CARTPOLE, 200_000, seeds=3),
    "rainbow-cartpole": Cell("rainbow", CARTPOLE, 200_000, seeds=3),
    "dqn-cartpole": Cell("dqn", CARTPOLE, 500_000, 500, 50_000),
    "apex-cartpole": Cell("apex", CARTPOLE, 500_000),
    "sac-cartpole": Cell("sac", CARTPOLE, 40_000),
    "ppo_dqn-cartpole": Cell("ppo_dqn", TWO, 200_000, 500, 100_000, seeds=3),
    "ppo-acrobot": Cell("ppo", ACROBOT, 500_000, -74, 1_000_000),
    "a2c-acrobot": Cell("a2c", ACROBOT, 500_000, -83, 500_000),
    "impala-acrobot": Cell("impala", ACROBOT, 500_000),
    "dqn-acrobot": Cell("dqn", ACROBOT, 100_000, -77, 100_000),
    "ppo-mountaincar": Cell("ppo", MOUNTAIN_CAR, 500_000, -110, 1_000_000),
    "dqn-mountaincar": Cell("dqn", MOUNTAIN_CAR, 120_000, -101, 120_000),
    "ppo-mountaincarcontinuous": Cell("ppo", MOUNTAIN_CAR_CONTINUOUS, 100_000, 88, 20_000),
    "sac-mountaincarcontinuous": Cell("sac", MOUNTAIN_CAR_CONTINUOUS, 50_000, 95, 50_000, seeds=3),
    "ppo-pendulum": Cell("ppo", PENDULUM, 200_000, -172, 100_000),
    "sac-pendulum": Cell("sac", PENDULUM, 20_000, -157, 20_000),
    "tqc-pendulum": Cell("tqc", PENDULUM, 20_000, -151, 20_000),
    "crossq-pendulum": Cell("crossq", PENDULUM, 20_000),
    "td3-pendulum": Cell("td3", PENDULUM, 20_000, -152, 20_000),
    "ddpg-pendulum": Cell("ddpg", PENDULUM, 20_000, -152, 20_000),
    "ppo-lander": Cell("ppo", LANDER, 500_000, 242, 1_000_000),
    "a2c-lander": Cell("a2c", LANDER, 200_000, 156, 200_000),
    "impala-lander": Cell("impala", LANDER, 1_000_000, seeds=3),
    "dqn-lander": Cell("dqn", LANDER, 100_000, 154, 100_000),
    "dqn-lander-defaults": Cell("dqn --preset none", LANDER, 100_000, 154, 100_000, seeds=3),
    "ppo-landercontinuous": Cell("ppo", LANDER_CONTINUOUS, 500_000, 271, 1_000_000),
    "sac-landercontinuous": Cell("sac", LANDER_CONTINUOUS, 200_000, 260, 500_000, seeds=3),
    "tqc-landercontinuous": Cell("tqc", LANDER_CONTINUOUS, 200_000, seeds=3),
    "ppo-walker": Cell("ppo", WALKER, 2_000_000, 250, 5_000_000, seeds=3),
    "ppo-cheetah": Cell("ppo", CHEETAH, 1_000_000, 5_819, 1_000_000, seeds=3),
    "ppo-hopper": Cell("ppo", HOPPER, 1_000_000, 2_410, 1_000_000, seeds=3),
    "ppo-breakout": Cell("ppo", BREAKOUT, 1_000_000, seeds=3),
    "ppo-invaders": Cell("ppo", INVADERS, 1_000_000, seeds=3),
    "ppo-asterix": Cell("ppo", ASTERIX, 1_000_000, seeds=3),
    "pqn-breakout": Cell("pqn", BREAKOUT, 1_000_000, seeds=3),
    "impala-breakout": Cell("impala", BREAKOUT, 1_000_000, seeds=3),
    "impala-invaders": Cell("impala", INVADERS, 1_000_000, seeds=3),
    "ppo-doors": Cell("ppo", DOORS, 30_000, seeds=3),
    "dqn-doors": Cell("dqn", DOORS, 20_000, seeds=3),
    "ppo-stateless": Cell("ppo", STATELESS, 300_000, seeds=3),
    "appo-stateless": Cell("appo", STATELESS, 200_000, seeds=3),
    "r2d2-stateless": Cell("r2d2", STATELESS, 30_000, seeds=3),
    "rnnsac-stateless": Cell("rnnsac", STATELESS, 20_000, seeds=3),
    "ppo-repeat": Cell("ppo", REPEAT, 40_000, seeds=3),
    "ppo-parametric": Cell("ppo", PARAMETRIC, 300_000, seeds=3),
    "dqn-parametric": Cell("dqn", PARAMETRIC, 100_000, seeds=3),
    "rnd-keydoor": Cell("rnd", KEY_DOOR, 300_000, seeds=3),
    "ppo-keydoor": Cell("ppo", KEY_DOOR, 300_000, seeds=3),
}
"""``maml`` is a cell, too, with a judge of its own: ``benchmarks.adapting``."""


def rows(cell: Cell, *, seed: int, runtime: str) -> Iterator[dict[str, float]]:
    """One row per evaluation."""
    choice = chosen(cell.words.split(), {"seed": seed, "runtime": runtime})
    every, episodes = cell.steps // EVALUATIONS, cell.task.episodes
    with choice.run.open() as session:
        began = time.monotonic()
        stop = Stop(env_steps=cell.steps)
        with choice.algorithm.run(stop=stop, eval_every=every, eval_episodes=episodes, runtime=session, seed=seed) as run:
            done = 0
            for metrics in run:
                if metrics.evaluations > done:
                    done = metrics.evaluations
                    yield {
                        "seconds": round(time.monotonic() - began, 2),
                        "env_steps": metrics.evaluation.weights_at,
                        "updates": metrics.training.updates,
                        "return": round(metrics.mean_return, 2),
                        "evaluation": round(worst(metrics), 2),
                    }


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


def path_of(name: str, seed: int, runtime: str) -> Path:
    """The file of a cell."""
    return CURVES / f"{name}-{runtime}-{seed}.csv"


def learn(name: str, seed: int, runtime: str) -> None:
    """Run a cell and write its file; one that is interrupted leaves none."""
    CURVES.mkdir(exist_ok=True)
    found: list[dict[str, float]] = []
    for row in rows_of(name, seed, runtime):
        found.append(row)
        print("  ".join(f"{column} {value:,}" for column, value in row.items()), flush=True)
    with path_of(name, seed, runtime).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(found[0]))
        writer.writeheader()
        writer.writerows(found)


def learn_all(runtimes: tuple[str, ...]) -> None:
    """Run every cell that has no file, each in a process of its own: first one seed of each, then the next."""
    failed = []
    for seed in SEEDS:
        for runtime in runtimes:
            for name, seeds in (*((name, cell.seeds) for name, cell in CELLS.items()), ("maml", 3)):
                if seed >= seeds or path_of(name, seed, runtime).exists():
                    continue
                print(f"{name}, seed {seed}, {runtime}", flush=True)
                command = (sys.executable, "-m", "benchmarks.learn", name, "--seed", str(seed), "--runtime", runtime)
                if subprocess.run(command, check=False).returncode:
                    failed.append(f"{name} {seed} {runtime}")
    print(f"Failed: {', '.join(failed)}" if failed else "All are there.")


def random_return(task: Task, episodes: int = 100) -> float:
    """The mean return of random actions."""
    env: gym.Env[Any, Any] = gym.make(task.env)  # Any: whatever it observes
    env.action_space.seed(0)
    returns = []
    for episode in range(episodes):
        _, infos = env.reset(seed=episode)
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, infos = env.step(env.action_space.sample(infos.get("action_mask")))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return fmean(returns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cell", nargs="?", choices=(*CELLS, "maml"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runtime", choices=("local", "ray"))
    parser.add_argument("--again", action="store_true", help="run it even if it has a file")
    parser.add_argument("--all", action="store_true", help="run every cell that has no file")
    parser.add_argument("--random", action="store_true", help="print the mean return of random actions on each env")
    given = parser.parse_args()
    if given.random:
        for task in dict.fromkeys(cell.task for cell in CELLS.values() if cell.task.env):
            print(f"{task.env} {random_return(task):.1f}", flush=True)
    elif given.all:
        learn_all((given.runtime,) if given.runtime else ("local", "ray"))
    elif given.cell is None:
        parser.error("name a cell, or say --all")
    elif path_of(given.cell, given.seed, given.runtime or "local").exists() and not given.again:
        print(f"{given.cell}, seed {given.seed}: it is there already")
    else:
        learn(given.cell, given.seed, given.runtime or "local")


if __name__ == "__main__":
    main()
