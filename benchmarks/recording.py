"""What recording a run costs: the share of its time that goes into writing events and hashing weights.

OMP_NUM_THREADS=1 python -m benchmarks.recording

Each algorithm trains on CartPole on the local runtime; the time in the recorder is added up.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tflow import Stop
from tflow.algos import DQN, IMPALA, PPO, ApeX
from tflow.algos.algorithm import Algorithm
from tflow.algos.training_run import TrainingRun
from tflow.runtime.recording import RunRecorder

RUNS: dict[str, tuple[Algorithm, int]] = {
    "PPO": (PPO(), 100_000),
    "IMPALA": (IMPALA(), 100_000),
    "Ape-X": (ApeX(), 30_000),
    "DQN": (DQN(), 15_000),
}


def timed(owner: type, name: str, spent: list[float]) -> None:
    """Add up the time that a method takes."""
    real: Callable[..., Any] = getattr(owner, name)  # Any: whatever it takes and returns

    def call(*args: Any, **options: Any) -> Any:  # Any: as above
        began = time.perf_counter()
        try:
            return real(*args, **options)
        finally:
            spent[0] += time.perf_counter() - began

    setattr(owner, name, call)


def main() -> None:
    spent = [0.0]
    for owner, name in ((RunRecorder, "reading"), (RunRecorder, "collected"), (TrainingRun, "_digest")):
        timed(owner, name, spent)
    for name, (algorithm, steps) in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            spent[0], began = 0.0, time.perf_counter()
            reports = sum(1 for _ in algorithm.run(stop=Stop(env_steps=steps), record=Path(folder) / "recording.txt"))
            took = time.perf_counter() - began
        print(
            f"{name:7} {100 * spent[0] / took:5.2f} % of {took:.1f} s, {1e6 * spent[0] / reports:.0f} us per report", flush=True
        )


if __name__ == "__main__":
    main()
