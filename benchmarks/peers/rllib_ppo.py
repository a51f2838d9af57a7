"""RLlib's PPO on CartPole-v1: the settings of its own example, two env runners with 8 envs each."""

from __future__ import annotations

import argparse
import json
import logging
import time
import warnings
from importlib import import_module


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    ray = import_module("ray")
    ray.init(num_cpus=8, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    logging.getLogger("ray").setLevel(logging.ERROR)
    settings = import_module("ray.rllib.algorithms.ppo").PPOConfig()
    network = import_module("ray.rllib.core.rl_module.default_model_config").DefaultModelConfig
    settings.environment("CartPole-v1")
    settings.env_runners(num_env_runners=2, num_envs_per_env_runner=8, num_cpus_per_env_runner=1)
    settings.reporting(metrics_num_episodes_for_smoothing=20).learners(num_learners=0)
    settings.debugging(seed=given.seed, log_level="ERROR")
    settings.training(lr=3e-4, num_epochs=6, vf_loss_coeff=0.01, use_kl_loss=True)
    settings.rl_module(model_config=network(fcnet_hiddens=[32], fcnet_activation="linear", vf_share_layers=True))
    algorithm = settings.build_algo()
    began, reached, steps = time.perf_counter(), False, 0
    while not reached and time.perf_counter() - began < given.seconds:
        found = algorithm.train()
        steps = int(found["num_env_steps_sampled_lifetime"])
        reached = found["env_runners"].get("episode_return_mean", 0.0) >= 475
    print(json.dumps({"seconds": time.perf_counter() - began, "env_steps": steps, "reached": int(reached)}), flush=True)
    algorithm.stop()


if __name__ == "__main__":
    main()
