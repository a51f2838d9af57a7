"""RLlib's IMPALA on Pong: two env runners, the Nature network, 500 rows per update, otherwise the settings of its own example."""

from __future__ import annotations

import argparse
import json
import logging
import time
import warnings
from importlib import import_module
from typing import Any

ENVS = 5
"""As in its example."""


def make_pong(_: object) -> Any:  # Any: gymnasium's, of their environment
    gym = import_module("gymnasium")
    gym.register_envs(import_module("ale_py"))
    wrapped = import_module("ray.rllib.env.wrappers.atari_wrappers").wrap_atari_for_new_api_stack
    return wrapped(gym.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.25), dim=84, framestack=4)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    ray = import_module("ray")
    ray.init(num_cpus=8, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    logging.getLogger("ray").setLevel(logging.ERROR)
    import_module("ray.tune.registry").register_env("pong", make_pong)
    settings = import_module("ray.rllib.algorithms.impala").IMPALAConfig()
    network = import_module("ray.rllib.core.rl_module.default_model_config").DefaultModelConfig
    settings.environment("pong")
    settings.env_runners(num_env_runners=2, num_envs_per_env_runner=ENVS, num_cpus_per_env_runner=1)
    settings.learners(num_learners=0).debugging(seed=given.seed, log_level="ERROR")
    settings.training(
        train_batch_size_per_learner=500,
        grad_clip=40.0,
        grad_clip_by="global_norm",
        lr=5e-4,
        vf_loss_coeff=0.5,
        entropy_coeff=0.008,
        broadcast_interval=5,
    )
    nature = [[32, 8, 4], [64, 4, 2], [64, 3, 1]]
    settings.rl_module(
        model_config=network(conv_filters=nature, conv_activation="relu", head_fcnet_hiddens=[512], vf_share_layers=True)
    )
    algorithm = settings.build_algo()
    first = trained_steps(algorithm.train())  # what starts late is not counted
    began, steps = time.perf_counter(), first
    while time.perf_counter() - began < given.seconds:
        steps = trained_steps(algorithm.train())
    print(json.dumps({"seconds": time.perf_counter() - began, "env_steps": steps - first, "reached": 0}), flush=True)
    algorithm.stop()


def trained_steps(found: dict[str, Any]) -> int:  # Any: their results
    """Env steps that went into updates."""
    modules = found.get("learners", {}).get("__all_modules__", {})
    return int(modules.get("num_env_steps_trained_lifetime", 0))


if __name__ == "__main__":
    main()
