"""tflow's PPO or A2C on CartPole-v1: by its defaults, or with the settings that were its defaults once."""

from __future__ import annotations

from dataclasses import replace

import torch

from benchmarks.peers.ours import learn_with_tflow
from benchmarks.peers.ours_ppo import FAST
from benchmarks.peers.stopwatch import on_policy_options
from tflow.algos import A2C, PPO

FORMER = {
    "ppo": replace(FAST, advantage_floor=0.0),
    "a2c": A2C(lr=2e-3, normalize_obs=False, normalize_rewards=False),
}
DEFAULTS = {"ppo": PPO(), "a2c": A2C()}


def main() -> None:
    given = on_policy_options().parse_args()
    torch.set_num_threads(1)
    chosen = (FORMER if given.settings == "former" else DEFAULTS)[given.algo]
    learn_with_tflow(replace(chosen, env=given.env), given)


if __name__ == "__main__":
    main()
