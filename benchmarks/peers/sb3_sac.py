"""Stable-Baselines3's SAC on one env; the settings are its defaults."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from benchmarks.peers.stopwatch import Stopwatch, options


def main() -> None:
    given = options("Pendulum-v1", lr=3e-4, learning_starts=100).parse_args()
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    model = import_module("stable_baselines3").SAC(
        "MlpPolicy",
        given.env,
        learning_rate=given.lr,
        buffer_size=min(1_000_000, given.steps),
        learning_starts=given.learning_starts,
        batch_size=256,
        tau=0.005,
        gamma=0.99,
        train_freq=1,
        gradient_steps=1,
        ent_coef="auto",
        policy_kwargs={"net_arch": [256, 256], "activation_fn": torch.nn.ReLU},
        seed=given.seed,
        device="cpu",
    )
    watch = Stopwatch(given, lambda: lambda obs: model.predict(obs, deterministic=True)[0])

    def look(local: dict[str, Any], _: object) -> bool:  # Any: the variables of their loop
        """After every env step."""
        return not watch.over(local["self"].num_timesteps)

    model.learn(given.steps, callback=look)


if __name__ == "__main__":
    main()
