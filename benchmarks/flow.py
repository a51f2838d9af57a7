"""The two figures of the paper: sampling with a dummy policy, and IMPALA, as plans and as loops by hand (``make bench-flow``).

Everything that is compared runs in one process, in short turns, so that a busy machine is busy for all. Sampling: CartPole-v1, a
policy that is one number, 64 env steps per item; ``ray.util.iter`` is what RLlib Flow was made of. IMPALA: the same workers and
the same learner, in actors of their own on both sides. RLlib's own IMPALA of today is in ``make bench-pong``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import gymnasium as gym
import numpy as np
import ray
from numpy.typing import NDArray
from ray.util.iter import from_iterators

from benchmarks.contest import RESULTS, ROOT, Row, fill, read, spread, write
from benchmarks.ray_loops import Endless, Handle, hand_gather
from benchmarks.ray_overhead import Turn, as_plan, by_hand, free, measured
from tflow import Iter, RayRuntime, Shard, create_actors, from_actors
from tflow.algos import IMPALA
from tflow.rl.policy.weights import Weights
from tflow.rl.rollout.worker import RolloutWorker
from tflow.rl.rollout.worker_spec import LearnerSpec, WorkerSpec

FLOW = RESULTS / "flow.csv"
COLUMNS = ("contestant", "seed", "rate", "against")
ROUNDS, SECONDS, STEPS = 25, 0.2, 64
WORKERS = (1, 2, 4, 8)
HAND = "by hand"
Rates = Mapping[str, Sequence[float]]


class Sampler:
    """Plays CartPole with a policy that is one number."""

    def __init__(self, shard: Shard | None = None) -> None:
        self.env: gym.Env[Any, Any] = gym.make("CartPole-v1")  # Any: gymnasium's observations
        self.obs, _ = self.env.reset(seed=0 if shard is None else shard.index)
        self.weight = 0.0

    def sample(self) -> dict[str, NDArray[Any]]:  # Any: of several kinds
        rows = []
        for _ in range(STEPS):
            action = int(self.obs[2] > self.weight)
            following, reward, terminated, truncated, _ = self.env.step(action)
            rows.append((self.obs, action, reward, terminated))
            self.obs = self.env.reset()[0] if terminated or truncated else following
        return {str(name): np.array(column) for name, column in enumerate(zip(*rows, strict=True))}


def endless() -> Iterator[object]:
    sampler = Sampler()
    while True:
        yield sampler.sample()


def sampling(session: RayRuntime, num: int) -> Rates:
    """Items per second from so many workers."""
    mine = [create_actors(Sampler, num=num, name=f"{name}{num}") for name in ("once", "ahead")]
    plans: list[Iter[object]] = [from_actors(mine[0], Sampler.sample).gather_async()]
    plans.append(from_actors(mine[1], Sampler.sample).gather_async(in_flight=2))
    kind: Any = ray.remote(Sampler)  # Any: Ray makes the methods of its actors at run time
    actors: list[Handle] = [kind.remote() for _ in range(num)]
    theirs: Any = from_iterators(cast("Any", [endless] * num))  # Any: it takes functions, and its types do not say so
    turns: dict[str, Turn] = {
        HAND: by_hand(hand_gather(actors)),
        "tflow": as_plan(plans[0], session),
        "tflow, in_flight=2": as_plan(plans[1], session),
        "ray.util.iter": by_hand(theirs.gather_async()),
    }
    rates, _ = measured(turns, ROUNDS, SECONDS)
    free(actors)
    return rates


ALGORITHM = IMPALA(num_workers=2, normalize_obs=False, normalize_rewards=False)


def impala_by_hand(spec: WorkerSpec, num: int, mailbox: int) -> Endless:
    """Rollouts go from workers to the learner by reference, at most ``mailbox`` at a time; the latest weights go, by reference
    too, to whoever has sampled. Yields once per rollout trained on."""
    learning: Any = ray.remote(HandLearner)  # Any: Ray makes the methods of its actors at run time
    working: Any = ray.remote(HandWorker)  # Any: as above
    learner, workers = learning.remote(spec), [working.remote(spec, index, num) for index in range(num)]
    sampling = {worker.sample.remote(): worker for worker in workers}
    training: list[Any] = []  # Any: refs
    weights: object = None
    while True:
        (ready,), _ = ray.wait([*training, *(sampling if len(training) < mailbox else ())])
        if ready in training:
            training.remove(ready)
            weights = ready
            yield ready
            continue
        worker = sampling.pop(ready)
        training.append(learner.train.remote(ready))
        if weights is not None:
            worker.set_weights.remote(weights)
        sampling[worker.sample.remote()] = worker


class HandWorker:
    def __init__(self, spec: WorkerSpec, index: int, num: int) -> None:
        self.worker: RolloutWorker = spec(Shard("worker", index, num, 0, index))

    def sample(self) -> object:
        return self.worker.sample()

    def set_weights(self, weights: Any) -> None:  # Any: an array
        self.worker.set_weights(Weights("default", weights))


class HandLearner:
    def __init__(self, spec: WorkerSpec) -> None:
        self.learner = LearnerSpec(spec, "default")(Shard("learner", 0, 1, 0, 0))

    def train(self, rollout: Any) -> object:  # Any: as a worker made it
        self.learner.train(rollout)
        return self.learner.weights


def impala(session: RayRuntime) -> Rates:
    """Rollouts trained on per second."""
    workers = ALGORITHM.workers(ALGORITHM.loss())
    turns: dict[str, Turn] = {
        HAND: by_hand(impala_by_hand(workers.spec, ALGORITHM.num_workers, ALGORITHM.mailbox)),
        "tflow": as_plan(ALGORITHM.plan(), session),
    }
    rates, _ = measured(turns, ROUNDS, 4 * SECONDS)
    return {name: [each * ALGORITHM.num_envs * ALGORITHM.fragment for each in found] for name, found in rates.items()}


PARTS: dict[str, Callable[[RayRuntime], Rates]] = {
    **{f"sampling, {num} worker{'s' if num > 1 else ''}": partial(sampling, num=num) for num in WORKERS},
    "IMPALA, 2 workers": impala,
}


def hold() -> None:
    """Measure what was not measured yet."""
    rows = read(FLOW)
    done = {row["contestant"].partition(": ")[0] for row in rows}
    for part, measure in PARTS.items():
        if part in done:
            continue
        with RayRuntime(num_cpus=32, logs=False) as session:
            rates = measure(session)
        for name, found in rates.items():
            for number, (rate, base) in enumerate(zip(found, rates[HAND], strict=True)):
                row: Row = {
                    "contestant": f"{part}: {name}",
                    "seed": str(number),
                    "rate": f"{rate:.1f}",
                    "against": f"{rate / base:.3f}",
                }
                rows.append(row)
        write(FLOW, rows, COLUMNS)


def table() -> str:
    """Markdown: rates, and against the loop by hand."""
    rows = read(FLOW)
    lines = ["| | items, or env steps trained on, per second | against the loop by hand |", "|---|---:|---:|"]
    for name in dict.fromkeys(row["contestant"] for row in rows):
        own = [row for row in rows if row["contestant"] == name]
        against = "1" if name.endswith(HAND) else spread([float(row["against"]) for row in own], ".2f")
        lines.append(f"| {name} | {spread([float(row['rate']) for row in own], ',.0f')} | {against} |")
    return "\n".join(lines)


if __name__ == "__main__":
    hold()
    fill(ROOT / "docs" / "performance.md", "flow", table())
    print(table())
