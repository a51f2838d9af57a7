"""What contestants of ours that replay have in common."""

from __future__ import annotations

import argparse

from benchmarks.peers.stopwatch import Stopwatch
from tflow import LocalRuntime, Stop
from tflow.algos import Algorithm


def learn_with_tflow(algorithm: Algorithm, given: argparse.Namespace) -> None:
    """Train in this process, looking at the watch with every report."""
    with algorithm.run(stop=Stop(env_steps=given.steps), runtime=LocalRuntime(), seed=given.seed) as run:
        watch = Stopwatch(given, lambda: run.policy().act)
        for metrics in run:
            if watch.over(metrics.env_steps):
                return
