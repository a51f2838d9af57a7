"""SAC and TD3 on HalfCheetah-v5 against Stable-Baselines3: learning curves at equal env steps (``make bench-cheetah``; an hour).

One env; networks of 256 x 256 ReLU; one update of 256 rows per env step; RL-Zoo's learning rates and 10,000 random steps at
first. Evaluations are over 10 whole episodes that begin alike for all (``benchmarks/peers/stopwatch.py``). What was found is
kept as one row per evaluation in ``benchmarks/results/cheetah.csv``; runs that are there are not made again.
"""

from __future__ import annotations

import json
import os
import subprocess

from benchmarks.contest import OURS, PEERS, RESULTS, ROOT, Row, read, write

PATH = RESULTS / "cheetah.csv"
COLUMNS = ("contestant", "seed", "env_steps", "seconds", "evaluation")
SEEDS = range(1)
STEPS = range(10_000, 60_001, 10_000)
SETTINGS = {"sac": ("--lr", "3e-4"), "td3": ("--lr", "1e-3")}
PROGRAMS = {
    "tflow": (OURS, "-m", "benchmarks.peers.ours_control"),
    "SB3": (str(PEERS["sb3"]), "-m", "benchmarks.peers.sb3_control"),
}


def evaluations(name: str, algo: str, seed: int) -> list[Row]:
    """Train once; a row per evaluation."""
    options = ("--algo", algo, "--env", "HalfCheetah-v5", "--learning-starts", "10000", *SETTINGS[algo], "--seed", str(seed))
    steps = ("--steps", str(STEPS[-1]), "--evaluate-at", *map(str, STEPS))
    around = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        (*PROGRAMS[name], *options, *steps), stdout=subprocess.PIPE, text=True, cwd=ROOT, env=around, check=True
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if "evaluation" in line]
    return [
        {
            "contestant": f"{name}, {algo.upper()}",
            "seed": str(seed),
            "env_steps": str(each["env_steps"]),
            "seconds": f"{each['seconds']:.0f}",
            "evaluation": f"{each['evaluation']:.0f}",
        }
        for each in found
    ]


def table() -> str:
    """Markdown: a line per contestant and seed, a column per evaluation."""
    lines = ["| contestant | seed |" + "".join(f" {steps:,} |" for steps in STEPS), "|---|---:|" + "---:|" * len(STEPS)]
    curves: dict[tuple[str, str], list[str]] = {}
    for row in read(PATH):
        curves.setdefault((row["contestant"], row["seed"]), []).append(f"{float(row['evaluation']):,.0f}")
    lines += [f"| {name} | {seed} | {' | '.join(values)} |" for (name, seed), values in curves.items()]
    return "\n".join(lines)


def main() -> None:
    for seed in SEEDS:
        for algo in SETTINGS:
            for name in PROGRAMS:
                rows = read(PATH)
                if (f"{name}, {algo.upper()}", str(seed)) not in {(row["contestant"], row["seed"]) for row in rows}:
                    write(PATH, [*rows, *evaluations(name, algo, seed)], COLUMNS)
                    print(table(), flush=True)


if __name__ == "__main__":
    main()
