"""Where the time of an update of SAC goes: CPU microseconds with one thread (``python -m benchmarks.where_sac``; half a minute).

256 rows, networks of 256 x 256, twin critics: the settings of ``benchmarks.sac``. Below the phases, what was chosen is measured
next to what it took the place of. ``--return-memory`` leaves glibc as it is: then freed activations go back to the system, and
are cleared page by page when they are needed again. ``--threads 2`` prints wall milliseconds of whole updates instead; try it
with and without ``GOMP_SPINCOUNT=1000``, alone and beside another program.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from time import perf_counter, process_time

import numpy as np
import torch

from tflow.algos import SAC
from tflow.rl.data.batch import Batch
from tflow.rl.learning import learner as learning
from tflow.rl.learning.learner import Learner, LossReport, checked, tensors_of
from tflow.rl.learning.optimizers import Adam, FlatAdam
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


def least(job: Callable[[], object], clock: Callable[[], float] = process_time) -> float:
    """Microseconds of a job, of several rounds the least."""
    found = []
    for _ in range(ROUNDS):
        began = clock()
        for _ in range(UPDATES):
            job()
        found.append(1e6 * (clock() - began) / UPDATES)
    return min(found)


def choices(learner: Learner, batch: Batch[str]) -> dict[str, float]:
    """CPU microseconds of what was chosen, and of what it took the place of."""
    features, weights = torch.randn(2, ROWS, 256), torch.randn(2, 256, 1)
    fused, plain = (FlatAdam(torch.nn.Parameter(torch.randn(135_000)), Adam()) for _ in range(2))
    plain.fused = None
    for each in (fused, plain):
        each.parameter.grad = torch.randn(135_000)
    actor, tensors = learner.parts["actor"].weights, tensors_of(learner.policy, batch)

    def actor_loss() -> torch.Tensor:
        return learner.loss.losses(learner.policy, tensors, target=learner.target, steps=0)["actor"]().total

    def update() -> None:
        learner.train(batch)

    def in_bfloat16() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            learner.train(batch)

    forward = least(actor_loss)
    return {
        "a product with a vector, batched": least(lambda: torch.bmm(features, weights)),
        "as a sum": least(lambda: (features * weights.transpose(1, 2)).sum(-1)),
        "Adam of 135,000 weights, operation by operation": least(plain.step),
        "in one pass": least(fused.step),
        "the actor's backward pass, for all weights": least(lambda: actor_loss().backward()) - forward,  # type: ignore[no-untyped-call]  # torch has no types for it
        "for its own": least(lambda: actor.gradients_of(actor_loss())) - forward,
        "an update": least(update),
        "in bfloat16": least(in_bfloat16),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--return-memory", action="store_true")
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    if given.return_memory:
        setattr(learning, "keep_freed_memory", lambda: None)  # noqa: B010  # the name that the learner calls
    from gymnasium import spaces

    torch.set_num_threads(1)
    config = SAC()
    box = spaces.Box(-1, 1, (3,), np.float32), spaces.Box(-2, 2, (1,), np.float32)
    policy = make_policy(config.loss().policy(), "auto", *box)
    learner, batch = Learner(policy, config.loss(), config.optimizer(), threads=given.threads or 1), replayed(ROWS)
    if given.threads is not None:
        print(f"{least(lambda: learner.train(batch), perf_counter) / 1000:7.1f} ms  an update, on the wall clock")
        return
    rounds = [phases(learner, batch) for _ in range(ROUNDS)]
    best = min(rounds[1:], key=lambda each: sum(each.values()))
    for name, seconds in best.items():
        print(f"{1e6 * seconds / UPDATES:7.0f} us  {name}")
    print(f"{1e6 * sum(best.values()) / UPDATES:7.0f} us  all of these")
    for name, found in choices(learner, batch).items():
        print(f"{found:7.0f} us  {name}")


if __name__ == "__main__":
    main()
