"""Env steps per second of a rollout worker as a share of the bare env's own speed.

    python -m benchmarks.rollouts [cartpole] [pong] [--seconds 1.0] [--rounds 5]

Everything runs in one process, cases in turn, the order rotating from round to round; a figure is the median over the rounds,
with the least and the largest. ``bare``: the vector env alone, stepped with random actions that were drawn beforehand.
``worker``: a rollout worker, with the inference of its policy, recording and statistics of episodes, without learning. Networks
compute with one thread, the Atari emulator with as many as there are cores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from tflow import Shard
from tflow.envs import EnvSpec
from tflow.losses import A3CLoss
from tflow.rl.learning.agent import Agent
from tflow.rl.policy.network_spec import MLP, ModelLike, NatureCNN, SmallCNN
from tflow.rl.policy.policy_spec import ActorCriticSpec
from tflow.rl.rollout.worker import SingleWorker
from tflow.rl.rollout.worker_spec import WorkerSpec

SHARD = Shard("workers", 0, 1, 0, seed=0)
Case = Callable[[], int]
"""Does some work and says how many env steps that was."""


def bare(env: str, num: int) -> Case:
    """The vector env that a worker would use, alone."""
    import gymnasium

    EnvSpec(env)._registered()  # registers Atari games
    options: dict[str, Any] = {}  # Any: whatever the env takes
    if env.startswith("ALE/"):
        options["autoreset_mode"] = gymnasium.vector.AutoresetMode.SAME_STEP
    envs = gymnasium.make_vec(env, num_envs=num, vectorization_mode="vector_entry_point", **options)
    envs.reset(seed=0)
    actions = [envs.action_space.sample() for _ in range(64)]

    def run() -> int:
        for action in actions:
            envs.step(action)
        return num * len(actions)

    return run


def worker(env: str, num: int, model: ModelLike, *, shared: bool) -> Case:
    """A rollout worker."""
    loss = A3CLoss(spec=ActorCriticSpec(shared=shared))
    made = SingleWorker(WorkerSpec(EnvSpec(env), {"default": Agent(loss, model)}, num_envs=num, fragment=64), SHARD)

    def run() -> int:
        made.sample()
        return num * 64

    return run


def speed(case: Case, seconds: float) -> float:
    """Env steps per second, over at least so many seconds."""
    start, done = time.perf_counter(), 0
    while (past := time.perf_counter() - start) < seconds:
        done += case()
    return done / past


def measure(cases: dict[str, Case], seconds: float, rounds: int) -> dict[str, list[float]]:
    """Speeds of all cases, in turn."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    names = list(cases)
    for case in cases.values():
        case()  # warm up
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            found[name].append(speed(cases[name], seconds))
    return found


def report(title: str, cases: dict[str, Case], seconds: float, rounds: int) -> None:
    """Print a table; shares are taken round by round."""
    found = measure(cases, seconds, rounds)
    base = found["bare"]
    print(f"\n{title}\n| case | env steps/s | share of the bare env |\n|---|---|---|")
    for name, speeds in found.items():
        shares = [one / other for one, other in zip(speeds, base, strict=True)]
        spread = f"{median(speeds):,.0f} [{min(speeds):,.0f}..{max(speeds):,.0f}]"
        print(f"| {name} | {spread} | {median(shares):.2f} [{min(shares):.2f}..{max(shares):.2f}] |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["cartpole", "pong"], help="cartpole, pong")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--envs", type=int, nargs="+", default=[1, 8, 64])
    given = parser.parse_args()
    for num in given.envs:
        if "cartpole" in given.what:
            env = "CartPole-v1"
            cases = {
                "bare": bare(env, num),
                "worker, MLP 64x64, shared": worker(env, num, MLP(), shared=True),
                "worker, MLP 64x64 twice": worker(env, num, MLP(), shared=False),
            }
            report(f"{env}, {num} envs", cases, given.seconds, given.rounds)
    for num in given.envs:
        if "pong" in given.what:
            env = "ALE/Pong-v5"
            cases = {
                "bare": bare(env, num),
                "worker, two convolutions": worker(env, num, SmallCNN(), shared=True),
                "worker, Nature network": worker(env, num, NatureCNN(), shared=True),
            }
            report(f"{env}, {num} envs", cases, given.seconds, given.rounds)


if __name__ == "__main__":
    main()
