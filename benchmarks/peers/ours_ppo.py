"""tflow's PPO on CartPole-v1. ``--like sb3``: as much learning per env step as Stable-Baselines3's defaults, and no target."""

from __future__ import annotations

import argparse
import json
import logging
import time
from dataclasses import replace

from tflow import LocalRuntime, RayRuntime
from tflow.algos import PPO
from tflow.rl.rollout.worker import RolloutWorker
from tflow.runtime.base import Runtime

FAST = PPO(
    num_envs=32,
    fragment=64,
    lr=3e-3,
    epochs=4,
    entropy_coef=0.0,
    max_kl=None,
    normalize_obs=False,
    normalize_rewards=False,
)
"""Chosen for CartPole. The defaults are safer, and slower there."""
LIKE_SB3 = replace(FAST, epochs=10, minibatch=64, lr=3e-4)
"""The same network as theirs is the default: 64 x 64 tanh, apart for actions and values."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--runtime", choices=("local", "ray"), default="local")
    parser.add_argument("--like", choices=("ours", "sb3"), default="ours")
    parser.add_argument("--endless", action="store_true", help="go on when the target is reached")
    given = parser.parse_args()
    algorithm = FAST if given.like == "ours" else LIKE_SB3
    target = float("inf") if given.like == "sb3" or given.endless else 475.0
    if given.runtime == "local":
        print(json.dumps(trained(algorithm, target, LocalRuntime(), given.seed, given.seconds)))
        return
    import ray

    ray.init(num_cpus=8, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    print(json.dumps(trained(algorithm, target, RayRuntime(), given.seed, given.seconds)))


def is_there(_: RolloutWorker) -> bool:
    return True


def trained(algorithm: PPO, target: float, runtime: Runtime, seed: int, limit: float) -> dict[str, float]:
    """Until the last 20 episodes are good enough, or the time is over. The clock runs from when workers and learner are there."""
    with algorithm.run(runtime=runtime, seed=seed) as run:
        run.run.ask(run.workers, is_there)
        run.policy(untrained=True)
        began = time.perf_counter()
        for metrics in run:
            seconds = time.perf_counter() - began
            latest = metrics.episodes.returns[-20:]
            reached = len(latest) == 20 and sum(latest) / 20 >= target
            if reached or seconds > limit:
                return {"seconds": seconds, "env_steps": metrics.env_steps, "reached": int(reached)}
    raise AssertionError("PPO does not end by itself")


if __name__ == "__main__":
    main()
