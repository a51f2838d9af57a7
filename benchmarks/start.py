"""How long a library takes to its first update, and what memory that takes, against peers (``python -m benchmarks.start``).

Each contestant is a process of its own, three rounds, in turns: PPO on CartPole-v1 with its own defaults, from the start of
Python until the first batch is trained on (ours: until all is over, with an evaluation of 20 episodes and a run folder), and the
largest resident size of all its processes together.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.contest import OURS, PEERS, RESULTS, ROOT, Row, read, spread, write
from benchmarks.soak import children_of

STARTS = RESULTS / "start.csv"
COLUMNS = ("contestant", "seed", "seconds", "megabytes")
ROUNDS = range(3)
TFLOW = str(Path(OURS).parent / "tflow")
TRAIN = (TFLOW, "train", "ppo", "--env", "CartPole-v1", "--stop-steps", "1", "--eval-every", "1_000_000", "--plain")
CONTESTANTS: Mapping[str, Sequence[str]] = {
    "`import tflow`": (OURS, "-c", "import tflow"),
    "`tflow --help`": (TFLOW, "--help"),
    "`tflow train ppo`, local": TRAIN,
    "`tflow train ppo`, Ray": (*TRAIN, "--runtime", "ray"),
    "SB3": (str(PEERS["sb3"]), "-m", "benchmarks.peers.first_update", "sb3"),
    "RLlib": (str(PEERS["rllib"]), "-m", "benchmarks.peers.first_update", "rllib"),
}


class LargestSize:
    """Watches the resident size of a process and its children."""

    def __init__(self, pid: int) -> None:
        self.pid, self.kilobytes, self.over = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self) -> None:
        while not self.over.wait(0.05):
            self.kilobytes = max(self.kilobytes, sum(size for _, size in children_of(self.pid).values()))


def measured(command: Sequence[str], folder: Path) -> dict[str, float]:
    """Seconds to the first update, or to the end if the program does not say when that was, and megabytes."""
    around = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT)}
    began = time.time()
    process = subprocess.Popen(command, cwd=folder, env=around, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    size = LargestSize(process.pid)
    out, errors = process.communicate(timeout=300)
    ended = time.time()
    size.over.set()
    size.thread.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{errors[-3000:]}")
    last = out.strip().splitlines()[-1:] or [""]
    when = float(json.loads(last[0])["updated"]) if last[0].startswith('{"updated"') else ended
    return {"seconds": when - began, "megabytes": size.kilobytes / 1024}


def hold() -> None:
    """Run what was not run yet."""
    import tempfile

    rows = read(STARTS)
    done = {(row["contestant"], row["seed"]) for row in rows}
    for seed in ROUNDS:
        for name, command in CONTESTANTS.items():
            if (name, str(seed)) not in done and Path(command[0]).exists():
                with tempfile.TemporaryDirectory() as folder:
                    found = measured(command, Path(folder))
                row: Row = {"contestant": name, "seed": str(seed)} | {key: f"{value:.2f}" for key, value in found.items()}
                rows.append(row)
                print("  ".join(row.values()), flush=True)
                write(STARTS, rows, COLUMNS)


def table() -> str:
    """Markdown: seconds and megabytes of each."""
    rows = read(STARTS)
    lines = ["| | seconds | MB |", "|---|---:|---:|"]
    for name in CONTESTANTS:
        own = [row for row in rows if row["contestant"] == name]
        megabytes = f"{median(float(row['megabytes']) for row in own):,.0f}" if own else "-"
        lines.append(f"| {name} | {spread([float(row['seconds']) for row in own], '.2f')} | {megabytes} |")
    return "\n".join(lines)


if __name__ == "__main__":
    hold()
    print(table())
