"""The loop of ``spark_ppo.py`` on Ray: as a plan, and as one would write it by hand."""

from __future__ import annotations

import argparse
import logging
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.ppo_halves import Learner, Rollout, Sampler
from tflow import Actors, Iter, Live, LiveOp, RayRuntime, Shard, create_actors, from_actors
from tflow.actors import Resident, create_resident


class Worker(Sampler):
    def __init__(self, shard: Shard) -> None:
        super().__init__(shard.index)


@dataclass(frozen=True)
class Learn(LiveOp[list[Rollout], bool]):
    """One iteration; True if that was the last."""

    workers: Actors[Worker]
    learner: Resident[Learner]
    seconds: float

    def apply(self, live: Live, item: list[Rollout], /) -> bool:
        learner = live.resident(self.learner)
        live[self.workers].advance()
        live[self.workers].update(Worker.set_weights, learner.learn(item))
        return learner.over(self.seconds)


def plan(workers: Actors[Worker], learner: Resident[Learner], seconds: float) -> Iter[bool]:
    return from_actors(workers, Worker.sample).gather_rounds().for_each(Learn(workers, learner, seconds))


def by_hand(learner: Learner, num: int, seconds: float) -> None:
    import ray

    kind: Any = ray.remote(Sampler)  # Any: Ray makes the methods of its actors at run time
    workers = [kind.remote(shard) for shard in range(num)]
    while not learner.over(seconds):
        weights = learner.learn(ray.get([worker.sample.remote() for worker in workers]))
        sent = ray.put(weights)
        for worker in workers:
            worker.set_weights.remote(sent)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--how", choices=("plan", "hand"), required=True)
    given = parser.parse_args()
    learner = Learner(given.seed)
    if given.how == "hand":
        import ray

        ray.init(num_cpus=8, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
        by_hand(learner, given.workers, given.seconds)
    else:
        workers = create_actors(Worker, num=given.workers)
        with RayRuntime(num_cpus=8) as session:
            for over in plan(workers, create_resident(lambda _: learner), given.seconds).run(runtime=session):
                if over:
                    break
    print(learner.report())


if __name__ == "__main__":
    main()
