"""tflow's IMPALA on Pong: two workers on Ray, the Nature network, 500 rows per update."""

from __future__ import annotations

import argparse
import json
import logging
import time

from tflow import RayRuntime
from tflow.algos import IMPALA
from tflow.models import NatureCNN


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    given = parser.parse_args()
    import ray

    ray.init(num_cpus=8, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    algorithm = IMPALA(env="ALE/Pong-v5", model=NatureCNN(), num_workers=2, num_envs=10, fragment=50, lr=5e-4)
    began, first = 0.0, 0
    with algorithm.run(runtime=RayRuntime(), seed=given.seed) as run:
        for metrics in run:
            now, rows = time.perf_counter(), metrics.training.rows
            if not began:
                began, first = now, rows  # what starts late is not counted
            elif now - began > given.seconds:
                print(json.dumps({"seconds": now - began, "env_steps": rows - first, "reached": 0}))
                return


if __name__ == "__main__":
    main()
