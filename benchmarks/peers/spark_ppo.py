"""PPO's loop in Spark, on this machine: a job per iteration, or structured streaming with its state in files."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.ppo_halves import Learner, Rollout, sampled


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--how", choices=("jobs", "streaming"), required=True)
    given = parser.parse_args()
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.getcwd(), "SPARK_LOCAL_IP": "127.0.0.1"}
    session = session_of(given.workers)
    learner = Learner(given.seed)
    (as_jobs if given.how == "jobs" else as_stream)(session, learner, given.workers, given.seconds)
    print(learner.report())
    session.stop()


def session_of(workers: int) -> Any:  # Any: Spark makes its classes at run time
    builder: Any = import_module("pyspark.sql").SparkSession.builder  # Any: as above
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(workers),
        "spark.sql.files.minPartitionNum": str(workers),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.master(f"local[{workers}]").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def as_jobs(session: Any, learner: Learner, workers: int, seconds: float) -> None:  # Any: as above
    """The best case: weights are broadcast, rollouts collected, and the loop is the driver's."""
    context, weights = session.sparkContext, learner.weights()
    shards = context.parallelize(range(workers), workers)
    while not learner.over(seconds):
        sent = context.broadcast(weights)
        rollouts = shards.map(lambda shard, sent=sent: sampled(shard, lambda: sent.value)).collect()
        sent.unpersist()
        weights = learner.learn(rollouts)


def as_stream(session: Any, learner: Learner, workers: int, seconds: float) -> None:  # Any: as above
    """The paper's way: a stream cannot go in a circle, so what is learned comes back as files in the folder that it reads."""
    with tempfile.TemporaryDirectory() as root:
        folder, latest = Path(root) / "rounds", str(Path(root) / "weights.npy")
        folder.mkdir()

        def next_round(weights: Any) -> None:  # Any: an array
            np.save(latest, weights)
            for shard in range(workers):
                name = f"{learner.iterations}-{shard}.txt"
                (Path(root) / name).write_text(f"{shard}\n")
                (Path(root) / name).rename(folder / name)

        def sample(rows: Iterator[Any]) -> Iterator[Rollout]:  # Any: Spark's
            for row in rows:
                yield sampled(int(row.value), lambda: np.load(latest))

        def on_batch(batch: Any, _: int) -> None:  # Any: as above
            rollouts.extend(batch.rdd.mapPartitions(sample).collect())
            if len(rollouts) == workers:  # a round may be seen in two batches
                weights = learner.learn(rollouts)
                rollouts.clear()
                if not learner.over(seconds):
                    next_round(weights)

        rollouts: list[Rollout] = []
        stream = session.readStream.format("text").load(str(folder)).writeStream.foreachBatch(on_batch)
        next_round(learner.weights())
        query = stream.option("checkpointLocation", f"{root}/checkpoint").trigger(processingTime="0 seconds").start()
        while not learner.over(seconds):
            query.awaitTermination(1)
        query.stop()


if __name__ == "__main__":
    main()
