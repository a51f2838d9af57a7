"""Where the time of an update of SAC goes: CPU microseconds with one thread (``python -m benchmarks.where_sac``; half a minute).

256 rows, networks of 256 x 256, twin critics: the settings of ``benchmarks.sac``. ``--return-memory`` leaves glibc as it is: then
freed activations go back to the system, and are cleared page by page when they are needed again.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from time import process_time

import numpy as np
import torch

from tflow.algos import SAC
from tflow.rl.data.batch import Batch
from tflow.rl.learning import learner as learning
from tflow.rl.learning.learner import Learner, LossReport, checked, tensors_of
from tflow.rl.policy.policy_spec import make_policy

ROWS, ROUNDS, UPDATES = 256, 8, 40


def replayed(rows: int) -> Batch[str]:
    """Rows as Pendulum's."""
    rng = np.random.default_rng(0)
    columns = {
        "obs": rng.standard_normal((rows, 3), np.float32),
        "next_obs": rng.standard_normal((rows, 3), np.float32),
        "actions": np.tanh(rng.standard_normal((rows, 1), np.float32)),
        "rewards": rng.standard_normal(rows, np.float32),
        "discounts": np.full(rows, 0.99, np.float32),
        "weights": np.ones(rows, np.float32),
    }
    return Batch(columns, ends=np.arange(rows))


def phases(learner: Learner, batch: Batch[str]) -> dict[str, float]:
    """CPU seconds of each phase of some updates."""
    found: dict[str, float] = defaultdict(float)
    last = process_time()

    def lap(name: str) -> None:
        nonlocal last
        now = process_time()
        found[name] += now - last
        last = now

    for _ in range(UPDATES):
        tensors, report = tensors_of(learner.policy, batch), LossReport()
        for name, evaluate in learner.loss.losses(learner.policy, tensors, target=learner.target, steps=0).items():
            value, part = checked(learner.loss, evaluate(), name), learner.parts[name]
            report.add(name, value)
            lap(f"{name}: forward")
            part.weights.gradients_of(value.total)
            lap(f"{name}: backward")
            part.step(0)
            lap(f"{name}: Adam")
        learner.updates += 1
        learner.update_target(tau=0.005)
        lap("targets")
        report.means()
        learner.policy.flat.get(acting=True)
        lap("statistics and weights")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--return-memory", action="store_true")
    if parser.parse_args().return_memory:
        setattr(learning, "keep_freed_memory", lambda: None)  # noqa: B010  # the name that the learner calls
    from gymnasium import spaces

    torch.set_num_threads(1)
    config = SAC()
    box = spaces.Box(-1, 1, (3,), np.float32), spaces.Box(-2, 2, (1,), np.float32)
    policy = make_policy(config.loss().policy(), "auto", *box)
    learner, batch = Learner(policy, config.loss(), config.optimizer()), replayed(ROWS)
    rounds = [phases(learner, batch) for _ in range(ROUNDS)]
    best = min(rounds[1:], key=lambda each: sum(each.values()))
    for name, seconds in best.items():
        print(f"{1e6 * seconds / UPDATES:7.0f} us  {name}")
    print(f"{1e6 * sum(best.values()) / UPDATES:7.0f} us  an update")


if __name__ == "__main__":
    main()
