"""What a trace costs: the CPU time of a run with one, by that of the same run without.

OMP_NUM_THREADS=1 python -m benchmarks.tracing

Each algorithm trains on CartPole on the local runtime, with and without a trace, in turns; of the ratios of each pair the median
is told, with the lowest and the highest, and how many events and bytes a second of CPU time makes.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from tflow import Stop
from tflow.algos import DQN, IMPALA, PPO, ApeX
from tflow.algos.algorithm import Algorithm

RUNS: dict[str, tuple[Algorithm, int]] = {
    "DQN": (DQN(), 3_000),
    "Ape-X": (ApeX(), 4_000),
    "PPO": (PPO(), 10_000),
    "IMPALA": (IMPALA(), 10_000),
}
ROUNDS = 5


def seconds(algorithm: Algorithm, env_steps: int, trace: Path | None) -> float:
    """CPU seconds of a run."""
    began = time.process_time()
    algorithm.run(stop=Stop(env_steps=env_steps), trace=trace).finish()
    return time.process_time() - began


def main() -> None:
    for name, (algorithm, steps) in RUNS.items():
        ratios: list[float] = []
        seconds(algorithm, steps // 4, None)  # imports, and the first calls of torch
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            took = 0.0
            for turn in range(ROUNDS):
                first = 0.0 if turn % 2 else seconds(algorithm, steps, None)
                took = seconds(algorithm, steps, path)
                ratios.append(took / (first or seconds(algorithm, steps, None)))
            text = path.read_text(encoding="utf-8")
        print(
            f"{name:7} {statistics.median(ratios):.3f} [{min(ratios):.3f}..{max(ratios):.3f}]  "
            f"{text.count(chr(10)) / took:,.0f} events/s, {len(text) / 1e6 / took:.2f} MB/s",
            flush=True,
        )


if __name__ == "__main__":
    main()
