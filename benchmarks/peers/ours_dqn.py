"""tflow's DQN on CartPole-v1, with the settings of its peer: one update per four env steps.

Eight envs are stepped together: 32 env steps, then eight updates.
"""

from __future__ import annotations

import torch

from benchmarks.peers.ours import learn_with_tflow
from benchmarks.peers.stopwatch import options
from tflow.algos import DQN
from tflow.models import MLP
from tflow.rl.schedules import Linear

STEPS, ENVS = 4, 8
"""Env steps per update, and envs."""


def main() -> None:
    parser = options("CartPole-v1", lr=1e-3, learning_starts=1_000)
    parser.add_argument("--target-every", type=int, default=10_000, help="env steps")
    given = parser.parse_args()
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    algorithm = DQN(
        env=given.env,
        num_workers=1,
        num_envs=ENVS,
        fragment=STEPS,
        batch=64,
        lr=given.lr,
        gamma=0.99,
        epsilon=Linear(1.0, 0.02, steps=8_000),
        capacity=min(1_000_000, given.steps),
        learning_starts=given.learning_starts,
        update_ratio=1 / STEPS,
        target_every=max(1, given.target_every // STEPS),
        double=False,
        prioritized=False,
        n_step=1,
        model=MLP((64, 64), "relu"),
        normalize_obs=False,
        normalize_rewards=False,
    )
    learn_with_tflow(algorithm, given)


if __name__ == "__main__":
    main()
