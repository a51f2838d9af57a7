"""Where the time goes in what ``benchmarks.ppo`` and ``benchmarks.impala_pong`` measure (``make bench-where``; one minute).

PPO on CartPole-v1: the share of each operator, on the local runtime, what an update costs, and what the activations of its four
hidden layers do. IMPALA on Pong: milliseconds of
one core per env step, for the emulator, for a worker (the emulator and acting), and for the learner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import process_time

import numpy as np
import torch

from benchmarks.peers.ours_ppo import FAST
from tflow import Stop
from tflow.algos import IMPALA, PPO
from tflow.algos.evaluation import reporting
from tflow.models import NatureCNN
from tflow.rl.data.advantages import ComputeAdvantages
from tflow.rl.policy.network import Tanh
from tflow.rl.rollout.worker import SingleWorker
from tflow.rl.rollout.worker_spec import LearnerSpec
from tflow.types import Shard

PONG = IMPALA(env="ALE/Pong-v5", model=NatureCNN(), num_envs=10, fragment=50, lr=5e-4)
SHARD = Shard("where", 0, 1, 0, 0)


def shares(algorithm: PPO, env_steps: int) -> dict[str, float]:
    """Of the time that operators were busy."""
    busy = algorithm.run(stop=Stop(env_steps=env_steps)).finish().speed.operators
    return {name: seconds / sum(busy.values()) for name, seconds in busy.items()}


def per_update(algorithm: PPO, rows: int) -> float:
    """CPU milliseconds of one update on so many rows."""
    torch.set_num_threads(1)
    spec = reporting(algorithm.plan()).workers.spec
    worker = spec(SHARD)
    assert isinstance(worker, SingleWorker)
    rollout = worker.sample()
    ready = rollout.with_columns(ComputeAdvantages(gamma=algorithm.gamma, lam=algorithm.lam).compute(rollout))
    learner, updates = LearnerSpec(replace(spec, device="cpu"), rollout.policy)(SHARD), -(-len(ready) // rows)
    return 1000 * least(lambda: learner.train(ready, minibatch=rows)) / updates


def per_activation(activation: Callable[[torch.Tensor], torch.Tensor], rows: int) -> float:
    """CPU milliseconds for a layer of 64."""
    torch.set_num_threads(1)
    features, times = torch.randn(rows, 64), 1000

    def job() -> None:
        for _ in range(times):
            activation(features)

    return 1000 * least(job) / times


def costs(algorithm: IMPALA) -> dict[str, float]:
    """CPU milliseconds per env step."""
    torch.set_num_threads(1)
    spec = reporting(algorithm.plan()).workers.spec
    worker = spec(SHARD)
    assert isinstance(worker, SingleWorker)
    rollout, rows = worker.sample(), algorithm.num_envs * algorithm.fragment
    rng = np.random.default_rng(0)

    def emulate() -> None:
        for _ in range(algorithm.fragment):
            for lane in worker.lanes:
                lane.envs.begin(rng.integers(6, size=lane.envs.num))
            for lane in worker.lanes:
                lane.envs.finish()

    learner = LearnerSpec(replace(spec, device="cpu"), rollout.policy)(SHARD)
    return {
        "emulator": 1000 * least(emulate) / rows,
        "emulator and acting": 1000 * least(worker.sample) / rows,
        "learner": 1000 * least(lambda: learner.train(rollout)) / rows,
    }


def least(job: Callable[[], object]) -> float:
    """CPU seconds, of five times the least; those of threads count."""
    found = []
    for _ in range(5):
        began = process_time()
        job()
        found.append(process_time() - began)
    return min(found)


if __name__ == "__main__":
    for name, share in shares(FAST, 300_000).items():
        print(f"{share:6.1%}  {name}")
    for rows in (64, 512):
        print(f"{per_update(FAST, rows):6.2f} ms  an update of PPO on {rows} rows")
    for name, activation in (
        ("torch.tanh", torch.tanh),
        ("torch.sigmoid", torch.sigmoid),
        ("tanh by numpy, as in networks", Tanh()),
    ):
        print(f"{per_activation(activation, 512):6.3f} ms  {name}, 512 rows of 64; an update has four")
    for name, milliseconds in costs(PONG).items():
        print(f"{milliseconds:6.2f} ms  {name}")
