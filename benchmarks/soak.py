"""A soak test: training on Ray while workers, replay, learner and driver are killed at random, and resumed each time.

python -m benchmarks.soak impala --minutes 60 --seed 0
python -m benchmarks.soak apex --minutes 60 --seed 0

It writes ``soak-ALGO.csv`` (a row every few seconds: env steps, return, memory of driver and actors, processes, kills so far)
and says at the end what it found: whether training always went on, throughput early and late, memory, and what was left behind:
processes, unfinished checkpoints.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

SAVE_EVERY, LOOK_EVERY_S = "10s", 2.0
KINDS = ("worker", "driver")
START_S = 90.0
"""How long a driver may take until it reports again."""


def started(algo: str, folder: Path) -> subprocess.Popen[bytes]:
    """Training in a process of its own, with its output in a file."""
    tool = [sys.executable, "-m", "tflow.cli", "train"]
    words = [algo, "--runtime", "ray", "--out", str(folder)] if not folder.exists() else ["--resume", str(folder)]
    stop = ["--stop-steps", "1000000000", "--save-every", SAVE_EVERY, "--plain"]
    with (folder.parent / f"{folder.name}.log").open("ab") as log:
        return subprocess.Popen([*tool, *words, *stop], stdout=log, stderr=log, start_new_session=True)


def children_of(pid: int) -> dict[int, tuple[str, int]]:
    """All processes below one: what they are called, and their resident memory in kB."""
    parents: dict[int, int] = {}
    facts: dict[int, tuple[str, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                lines = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines() if ":" in line)
                name = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            except (OSError, ValueError):
                continue
            parents[int(entry.name)] = int(lines["PPid"])
            facts[int(entry.name)] = name, int(lines.get("VmRSS", "0 kB").split()[0])
    found, border = {pid}, [pid]
    while border:
        border = [child for child, parent in parents.items() if parent in border and child not in found]
        found.update(border)
    return {each: facts[each] for each in found if each in facts}


def is_actor(name: str) -> bool:
    return name.startswith("ray::RemoteHost")


def progress(folder: Path) -> tuple[int, float]:
    """Env steps and mean return in the last row of the metrics."""
    try:
        *_, last = (folder / "metrics.jsonl").read_text().splitlines()
        row = json.loads(last)
    except (OSError, ValueError):
        return 0, float("nan")
    return int(row["env_steps"]), float(row["return"] or "nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("algo")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=float, default=15.0, help="mean seconds between kills")
    parser.add_argument("--out", type=Path, default=Path("soak"))
    given = parser.parse_args()
    rng = random.Random(given.seed)
    folder = given.out / given.algo
    shutil.rmtree(folder, ignore_errors=True)
    given.out.mkdir(exist_ok=True)
    rows: list[dict[str, float]] = []
    kills: Counter[str] = Counter()
    began, everyone = time.monotonic(), set[int]()
    run = started(given.algo, folder)
    reported, kill_at = time.monotonic(), time.monotonic() + 30
    steps = 0
    try:
        while time.monotonic() - began < 60 * given.minutes:
            time.sleep(LOOK_EVERY_S)
            family = children_of(run.pid)
            everyone |= family.keys()
            now, (reached, mean_return) = time.monotonic(), progress(folder)
            if reached != steps:
                steps, reported = reached, now
            if run.poll() is not None:
                raise SystemExit(f"Training ended by itself, with {run.returncode}. See {folder}.log.")
            if now - reported > START_S:
                raise SystemExit(f"No progress for {START_S:.0f} s at {steps:,} env steps. See {folder}.log.")
            actors = {pid: rss for pid, (name, rss) in family.items() if is_actor(name)}
            rows.append(
                {
                    "seconds": round(now - began, 1),
                    "env_steps": reached,
                    "return": mean_return,
                    "driver_mb": family.get(run.pid, ("", 0))[1] / 1024,
                    "actors_mb": sum(actors.values()) / 1024,
                    "processes": len(family),
                    "kills": sum(kills.values()),
                }
            )
            if now < kill_at or not actors or not (folder / "checkpoints").exists():
                continue
            kind = rng.choices(KINDS, (4, 1))[0]
            kills[kind] += 1
            kill_at = now + rng.expovariate(1 / given.every)
            os.kill(run.pid if kind == "driver" else rng.choice(sorted(actors)), signal.SIGKILL)
            if kind == "driver":
                run.wait()
                run, kill_at = started(given.algo, folder), kill_at + 20
    finally:
        if run.poll() is None:
            run.send_signal(signal.SIGTERM)
            run.wait(60)
        write(given.out / f"soak-{given.algo}.csv", rows)
    time.sleep(5)
    left = [
        pid for pid in everyone if Path(f"/proc/{pid}").exists() and "tflow" in (Path(f"/proc/{pid}") / "cmdline").read_text()
    ]
    unfinished = [path.name for path in folder.rglob("*.part")]
    tenth = max(1, len(rows) // 10)
    early, late = (speed(part) for part in (rows[tenth : 3 * tenth], rows[-2 * tenth :]))
    print(f"{given.algo}: {dict(kills)} killed in {given.minutes:g} minutes; exit code {run.returncode}; {steps:,} env steps")
    print(f"env steps/s: {early:,.0f} early, {late:,.0f} late; return {rows[-1]['return']:.0f}")
    print(
        f"driver {rows[tenth]['driver_mb']:.0f} -> {rows[-1]['driver_mb']:.0f} MB, actors {rows[tenth]['actors_mb']:.0f} -> ",
        end="",
    )
    print(f"{rows[-1]['actors_mb']:.0f} MB; left behind: {left or 'no process'}, {unfinished or 'no unfinished checkpoint'}")


def speed(rows: list[dict[str, float]]) -> float:
    """Env steps per second, of the stretches in which they grew."""
    pairs = [(b["env_steps"] - a["env_steps"], b["seconds"] - a["seconds"]) for a, b in pairwise(rows)]
    grown = [(steps, seconds) for steps, seconds in pairs if steps > 0]
    return sum(steps for steps, _ in grown) / max(1e-9, sum(seconds for _, seconds in grown))


def write(path: Path, rows: list[dict[str, float]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
