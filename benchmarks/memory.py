"""What memory training takes, by process, on Ray and in one process beside Stable-Baselines3 (``make bench-memory``; 8 minutes).

Megabytes when so many env steps were made: resident, and thereof private, which no other process shares. Libraries such as torch
are resident in each process, but in memory once; what is private in a lone process depends on who else runs, and is left out.
Bytes per row of replay are in ``python -m benchmarks.growth replay``.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.contest import OURS, PEERS, RESULTS, ROOT, Row, fill, read, write
from benchmarks.soak import children_of, progress

MEMORY = RESULTS / "memory.csv"
COLUMNS = ("contestant", "seed", "role", "processes", "resident", "private")
LONGEST_S = 240.0
ON_RAY: Mapping[str, tuple[str, str, int]] = {
    "ppo": ("PPO", "CartPole-v1", 100_000),
    "impala": ("IMPALA", "CartPole-v1", 100_000),
    "apex": ("Ape-X", "CartPole-v1", 30_000),
    "sac": ("SAC", "Pendulum-v1", 5_000),
}
"""By command: the algorithm, the env, and after how many env steps it is looked at."""
FOREVER = ("--stop-steps", "1_000_000_000")
SB3 = str(PEERS["sb3"])
ALONE: Mapping[str, Sequence[str]] = {
    "PPO, CartPole": (OURS, "-m", "benchmarks.peers.ours_ppo", "--endless", "--seconds", "1000"),
    "PPO, CartPole, SB3": (SB3, "-m", "benchmarks.peers.sb3_ppo", "--seconds", "1000", "--target", "inf"),
    "DQN, CartPole": (OURS, "-m", "benchmarks.peers.ours_dqn"),
    "DQN, CartPole, SB3": (SB3, "-m", "benchmarks.peers.sb3_dqn"),
    "SAC, Pendulum": (OURS, "-m", "benchmarks.peers.ours_control", "--algo", "sac"),
    "SAC, Pendulum, SB3": (SB3, "-m", "benchmarks.peers.sb3_control", "--algo", "sac"),
}
ALONE_S = 40.0
"""When a program of one process is looked at, after its start."""


def sizes(pid: int) -> tuple[float, float]:
    """Resident and private megabytes; nothing if it has just ended."""
    try:
        lines = (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return 0.0, 0.0
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return kilobytes["Rss"] / 1024, (kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]) / 1024


def role(pid: int, driver: int, name: str) -> str:
    """What a process is there for."""
    if pid == driver:
        return "driver"
    if found := re.match(r"ray::(?!IDLE)(.+)\[\d+\]", name):
        return found[1]
    if "gcs_server" in name:
        return "Ray's tables"
    return "the rest of Ray"


def by_role(pid: int) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for each, (name, _) in children_of(pid).items():
        found[role(each, pid, name)].append(sizes(each))
    return found


def looked_at(command: Sequence[str], folder: Path, *, steps: int | None) -> dict[str, list[tuple[float, float]]]:
    """The sizes of a program after so many env steps in its run folder, or else after ``ALONE_S``; then it is ended."""
    around = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=ROOT, env=around, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    began = time.monotonic()
    try:
        while time.monotonic() - began < (ALONE_S if steps is None else LONGEST_S):
            time.sleep(0.5)
            if process.poll() is not None:
                raise SystemExit(f"{' '.join(command)} ended by itself, with {process.returncode}.")
            if steps is not None and progress(folder)[0] >= steps:
                break
        return by_role(process.pid)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def hold(rounds: int = 1) -> None:
    """Look at what was not looked at yet."""
    rows = read(MEMORY)
    done = {(row["contestant"], row["seed"]) for row in rows}
    for number in range(rounds):
        commands: dict[str, tuple[Sequence[str], int | None]] = {
            name: ((*words, "--seed", "0"), None) for name, words in ALONE.items()
        }
        for word, (name, env, after) in ON_RAY.items():
            train = (
                OURS,
                "-m",
                "tflow.cli",
                "train",
                word,
                "--env",
                env,
                "--preset",
                "none",
                "--runtime",
                "ray",
                "--plain",
                *FOREVER,
            )
            commands[f"{name} on Ray"] = train, after
        for name, (words, steps) in commands.items():
            if (name, str(number)) in done or not Path(words[0]).exists():
                continue
            with tempfile.TemporaryDirectory() as root:
                folder = Path(root) / "run"
                found = looked_at([*words, *(["--out", str(folder)] if steps else [])], folder, steps=steps)
            for what, each in found.items():
                sums = {
                    key: f"{sum(sizes):.0f}" for key, sizes in zip(("resident", "private"), zip(*each, strict=True), strict=True)
                }
                rows.append({"contestant": name, "seed": str(number), "role": what, "processes": str(len(each)), **sums})
            write(MEMORY, rows, COLUMNS)
            print(name, {what: [tuple(map(round, each)) for each in sizes] for what, sizes in found.items()}, flush=True)


def table() -> str:
    """Markdown: megabytes by program and role."""
    rows: list[Row] = read(MEMORY)
    lines = ["| | process | number | resident MB together | private MB together |", "|---|---|---:|---:|---:|"]
    for name, what in dict.fromkeys((row["contestant"], row["role"]) for row in rows):
        own = [row for row in rows if (row["contestant"], row["role"]) == (name, what)]
        number, resident, private = (median(float(row[key]) for row in own) for key in ("processes", "resident", "private"))
        shown = "-" if name in ALONE else f"{private:,.0f}"
        lines.append(f"| {name} | {what} | {number:.0f} | {resident:,.0f} | {shown} |")
    return "\n".join(lines)


if __name__ == "__main__":
    hold()
    fill(ROOT / "docs" / "performance.md", "memory", table())
    print(table())
