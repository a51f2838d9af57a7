"""Stable-Baselines3's PPO or A2C on CartPole-v1: by its defaults, or with the settings that ours once had as defaults."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from benchmarks.peers.stopwatch import learn_with_sb3, on_policy_options

FORMER: dict[str, dict[str, Any]] = {  # Any: arguments of either algorithm
    "ppo": {"n_steps": 64, "batch_size": 512, "n_epochs": 4, "learning_rate": 3e-3, "ent_coef": 0.0},
    "a2c": {"n_steps": 10, "learning_rate": 2e-3, "ent_coef": 0.01},
}
"""What ``FORMER`` in ``ours_on_policy.py`` says, in their words."""
ENVS = {"ppo": (4, 64), "a2c": (4, 16)}
"""Envs by default, and with these settings."""


def main() -> None:
    given = on_policy_options().parse_args()
    torch.set_num_threads(1)
    library, common = import_module("stable_baselines3"), import_module("stable_baselines3.common.env_util")
    settings: dict[str, Any] = {}  # Any: as above
    if given.settings == "former":
        optimizer = {"optimizer_class": torch.optim.Adam, "optimizer_kwargs": {"eps": 1e-5}}
        settings = {**FORMER[given.algo], "policy_kwargs": optimizer}
    env = common.make_vec_env(given.env, ENVS[given.algo][given.settings == "former"], seed=given.seed)
    model = getattr(library, given.algo.upper())("MlpPolicy", env, seed=given.seed, device="cpu", **settings)
    learn_with_sb3(model, given)


if __name__ == "__main__":
    main()
