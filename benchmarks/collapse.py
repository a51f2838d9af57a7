"""What becomes of success: CartPole-v1 for 500,000 env steps, next to Stable-Baselines3 (``make bench-collapse``; 25 minutes).

PPO and A2C, each with the defaults of its library, and both libraries with the settings that ours had as defaults once: large
learning rates, nothing normalised. Evaluations are over 10 whole episodes that begin alike for all. What was found is kept as one
row per evaluation in ``benchmarks/results/collapse.csv``; runs that are there are not made again.
"""

from __future__ import annotations

import json
import os
import subprocess

from benchmarks.contest import OURS, PEERS, RESULTS, ROOT, Row, read, write

PATH = RESULTS / "collapse.csv"
COLUMNS = ("contestant", "seed", "env_steps", "evaluation")
SEEDS = range(2)
STEPS, EVERY, GOOD = 500_000, 25_000, 475.0
PROGRAMS = {
    "tflow": (OURS, "-m", "benchmarks.peers.ours_on_policy"),
    "SB3": (str(PEERS["sb3"]), "-m", "benchmarks.peers.sb3_on_policy"),
}
CONTESTANTS = {
    f"{name}, {algo.upper()}, {said}": (*program, "--algo", algo, "--settings", settings)
    for algo in ("ppo", "a2c")
    for settings, said in (("defaults", "its defaults"), ("former", "our former defaults"))
    for name, program in PROGRAMS.items()
}


def evaluations(contestant: str, seed: int) -> list[Row]:
    """Train once; a row per evaluation."""
    steps = ("--steps", str(STEPS), "--evaluate-at", *map(str, range(EVERY, STEPS + 1, EVERY)))
    command = (*CONTESTANTS[contestant], "--seed", str(seed), *steps)
    around = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=around, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines() if "evaluation" in line]
    return [
        {
            "contestant": contestant,
            "seed": str(seed),
            "env_steps": str(each["env_steps"]),
            "evaluation": f"{each['evaluation']:.0f}",
        }
        for each in found
    ]


def table() -> str:
    """Markdown: by seed, the last evaluation, the first good one, the worst after it, and how many after it were not good."""
    lines = [
        "| contestant | seed | last evaluation | first of at least 475, after env steps | worst after it | below 356 after it |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    runs: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for row in read(PATH):
        runs.setdefault((row["contestant"], row["seed"]), []).append((int(row["env_steps"]), float(row["evaluation"])))
    for contestant in CONTESTANTS:
        for seed in map(str, SEEDS):
            if found := runs.get((contestant, seed)):
                first = next((place for place, (_, value) in enumerate(found) if value >= GOOD), len(found))
                after = [value for _, value in found[first + 1 :]]
                reached = f"{found[first][0]:,}" if first < len(found) else "-"
                fallen = f"{sum(value < 0.75 * GOOD for value in after)} of {len(after)}"
                lines.append(
                    f"| {contestant} | {seed} | {found[-1][1]:.0f} | {reached} | {min(after, default=0):.0f} | {fallen} |"
                )
    return "\n".join(lines)


def main() -> None:
    for seed in SEEDS:
        for contestant in CONTESTANTS:
            rows = read(PATH)
            if (contestant, str(seed)) not in {(row["contestant"], row["seed"]) for row in rows}:
                write(PATH, [*rows, *evaluations(contestant, seed)], COLUMNS)
                print(table().splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
    print(table())
