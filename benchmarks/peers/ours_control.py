"""tflow's SAC or TD3 on one env, with the settings of its peers: eight env steps, then eight updates."""

from __future__ import annotations

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does, before torch is loaded

import torch

from benchmarks.peers.ours import learn_with_tflow
from benchmarks.peers.stopwatch import control_options
from tflow.algos import SAC, TD3
from tflow.models import MLP


def main() -> None:
    given = control_options().parse_args()
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    algorithm = {"sac": SAC, "td3": TD3}[given.algo](
        env=given.env,
        num_workers=1,
        num_envs=1,
        fragment=8,
        batch=256,
        lr=given.lr,
        gamma=0.99,
        tau=0.005,
        capacity=min(1_000_000, given.steps),
        learning_starts=given.learning_starts,
        update_ratio=1.0,
        model=MLP((256, 256), "relu"),
    )
    learn_with_tflow(algorithm, given)


if __name__ == "__main__":
    main()
