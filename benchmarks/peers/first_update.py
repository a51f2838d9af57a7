"""PPO of a peer with its own defaults on CartPole-v1, until it has trained on its first batch; says when that was."""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module


def sb3() -> None:
    model = import_module("stable_baselines3").PPO("MlpPolicy", "CartPole-v1", device="cpu")
    model.learn(model.n_steps)


def rllib() -> None:
    import_module("ray").init(include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    config = import_module("ray.rllib.algorithms.ppo").PPOConfig()
    config.environment("CartPole-v1")
    config.build_algo().train()


if __name__ == "__main__":
    {"sb3": sb3, "rllib": rllib}[sys.argv[1]]()
    print(json.dumps({"updated": time.time()}), flush=True)
