"""Stable-Baselines3's SAC or TD3 on one env; settings that are not options are its defaults, and RL-Zoo's noise for TD3."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch

from benchmarks.peers.stopwatch import control_options, learn_with_sb3


def main() -> None:
    given = control_options().parse_args()
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    library = import_module("stable_baselines3")
    common = import_module("stable_baselines3.common.env_util")
    env = common.make_vec_env(given.env, seed=given.seed)
    shape = env.action_space.shape
    if given.algo == "sac":
        own: dict[str, Any] = {"ent_coef": "auto"}  # Any: arguments of either algorithm
    else:
        noise = import_module("stable_baselines3.common.noise").NormalActionNoise
        own = {"action_noise": noise(np.zeros(shape), 0.1 * np.ones(shape))}
    model = getattr(library, given.algo.upper())(
        "MlpPolicy",
        env,
        learning_rate=given.lr,
        buffer_size=min(1_000_000, given.steps),
        learning_starts=given.learning_starts,
        batch_size=256,
        tau=0.005,
        gamma=0.99,
        train_freq=1,
        gradient_steps=1,
        policy_kwargs={"net_arch": [256, 256], "activation_fn": torch.nn.ReLU},
        seed=given.seed,
        device="cpu",
        **own,
    )
    learn_with_sb3(model, given)


if __name__ == "__main__":
    main()
