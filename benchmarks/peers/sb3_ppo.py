"""Stable-Baselines3's PPO on CartPole-v1, by its defaults or by those of RL-Zoo. ``--target inf``: throughput alone."""

from __future__ import annotations

import argparse
import json
import time
from importlib import import_module
from typing import Any

import torch


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--target", type=float, default=475.0)
    parser.add_argument("--zoo", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, float] = {}
    began = 0.0

    def look(local: dict[str, Any], _: object) -> bool:  # Any: the variables of their loop
        """After every step of all envs."""
        nonlocal began
        began = began or time.perf_counter()
        seconds, model = time.perf_counter() - began, local["self"]
        latest = [episode["r"] for episode in list(model.ep_info_buffer)[-20:]]
        reached = len(latest) == 20 and sum(latest) / 20 >= given.target
        found.update(seconds=seconds, env_steps=model.num_timesteps, reached=int(reached))
        return not reached and seconds < given.seconds

    make_vec_env = import_module("stable_baselines3.common.env_util").make_vec_env
    kind = import_module("stable_baselines3").PPO
    if given.zoo:
        settings = {"n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20, "ent_coef": 0.0}
        rates = {"learning_rate": lambda left: 1e-3 * left, "clip_range": lambda left: 0.2 * left}
        model = kind(
            "MlpPolicy", make_vec_env("CartPole-v1", 8, seed=given.seed), seed=given.seed, device="cpu", **settings, **rates
        )
        model.learn(100_000, callback=look)
    else:
        model = kind("MlpPolicy", make_vec_env("CartPole-v1", 4, seed=given.seed), seed=given.seed, device="cpu")
        model.learn(10_000_000, callback=look)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
