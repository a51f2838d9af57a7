"""Stable-Baselines3's DQN on CartPole-v1: uniform replay, no double Q-learning, one update every 4 env steps."""

from __future__ import annotations

from importlib import import_module

import torch

from benchmarks.peers.stopwatch import learn_with_sb3, options

EXPLORING, EPSILON = 8_000, 0.02
"""Env steps until epsilon has fallen from 1 to its last value: those of our defaults."""


def main() -> None:
    parser = options("CartPole-v1", lr=1e-3, learning_starts=1_000)
    parser.add_argument("--target-every", type=int, default=10_000, help="env steps")
    given = parser.parse_args()
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    model = import_module("stable_baselines3").DQN(
        "MlpPolicy",
        given.env,
        learning_rate=given.lr,
        buffer_size=min(1_000_000, given.steps),
        learning_starts=given.learning_starts,
        batch_size=64,
        tau=1.0,
        gamma=0.99,
        train_freq=4,
        gradient_steps=1,
        target_update_interval=given.target_every,
        exploration_fraction=min(1.0, EXPLORING / given.steps),
        exploration_final_eps=EPSILON,
        policy_kwargs={"net_arch": [64, 64], "activation_fn": torch.nn.ReLU},
        seed=given.seed,
        device="cpu",
    )
    learn_with_sb3(model, given)


if __name__ == "__main__":
    main()
