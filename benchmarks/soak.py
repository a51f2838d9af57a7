"""A soak test: training on Ray while workers, replay, learner and driver are killed at random, and resumed each time.

python -m benchmarks.soak impala --minutes 60
python -m benchmarks.soak impala --undisturbed --steps 3000000 --seed 1
python -m benchmarks.soak --report

The first writes ``benchmarks/results/soak-ALGO.csv`` (a row every ten seconds: env steps, return, memory of driver, actors and
the rest of Ray with its store, processes, kills so far) and says what it found: whether training always went on, throughput
early and late, memory, and what was left behind: processes, unfinished checkpoints, files in shared memory. The second
writes the curve of a run that nobody disturbs, ``soak-ALGO-undisturbed-SEED.csv``. The third draws ``docs/soak.svg`` from both
and says how much of the disturbed curve lies within the spread of the others.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

RESULTS, PICTURE = Path(__file__).parent / "results", Path(__file__).parents[1] / "docs" / "soak.svg"
SAVE_EVERY, LOOK_EVERY_S, ROW_EVERY_S = "10s", 2.0, 10.0
KINDS, SHARES = ("actor", "driver"), (9, 1)
START_S = 240.0
"""How long a driver may take until it reports again."""
POINTS = 60
"""Points of a curve, at equal distances in env steps."""
Rows = list[dict[str, float]]


def started(algo: str, folder: Path, *, steps: int, seed: int) -> subprocess.Popen[bytes]:
    """Training in a process of its own, with its output in a file."""
    tool = [sys.executable, "-m", "tflow.cli", "train"]
    new = [algo, "--runtime", "ray", "--seed", str(seed), "--out", str(folder)]
    stop = ["--stop-steps", str(steps), "--save-every", SAVE_EVERY, "--plain"]
    with (folder.parent / f"{folder.name}.log").open("ab") as log:
        words = ["--resume", str(folder)] if folder.exists() else new
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
    return re.match(r"ray::(RemoteHost|.+\[\d+\])", name) is not None  # called by its shard, once it has started


def began_at(pid: int) -> str:
    """When a process began, which tells it from a later one with its number; empty if it has ended."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def in_shared_memory() -> set[str]:
    return {path.name for path in Path("/dev/shm").iterdir()}


def progress(folder: Path) -> tuple[int, float]:
    """Env steps and mean return in the last row of the metrics."""
    try:
        with (folder / "metrics.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 20_000))
            row = json.loads(file.read().splitlines()[-1])
    except (OSError, ValueError, IndexError):
        return 0, float("nan")
    return int(row["env_steps"]), float(row["return"] or "nan")


def curve(folder: Path, steps: int) -> Rows:
    """The mean return of training by env steps, at equal distances."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines() if line.endswith("}")]
    told = [(row["env_steps"], row["return"]) for row in rows if row["return"] is not None and row["env_steps"] <= steps]
    reached, returns = (np.array(each, float) for each in zip(*told, strict=True))
    borders = np.linspace(0, steps, POINTS + 1)
    places = np.clip(np.searchsorted(borders, reached) - 1, 0, POINTS - 1)
    means = [returns[places == place].mean() if (places == place).any() else np.nan for place in range(POINTS)]
    return [{"env_steps": float(borders[k + 1]), "return": round(float(mean), 1)} for k, mean in enumerate(means)]


def undisturbed(algo: str, out: Path, *, steps: int, seed: int) -> None:
    """Train without a kill, and note the curve."""
    folder = out / f"{algo}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    if code := started(algo, folder, steps=steps, seed=seed).wait():
        raise SystemExit(f"Training ended with {code}. See {folder}.log.")
    write(RESULTS / f"soak-{algo}-undisturbed-{seed}.csv", curve(folder, steps))


def soak(algo: str, out: Path, *, minutes: float, every: float, seed: int) -> None:
    """Train while processes are killed, and say what was seen."""
    rng, kills, rows = random.Random(seed), Counter[str](), Rows()
    folder, forever = out / algo, 10**9
    shutil.rmtree(folder, ignore_errors=True)
    began, everyone, shared = time.monotonic(), dict[int, str](), in_shared_memory()
    run = started(algo, folder, steps=forever, seed=seed)
    reported, kill_at, row_at = began, began + 30, began
    steps = 0
    try:
        while time.monotonic() - began < 60 * minutes:
            time.sleep(LOOK_EVERY_S)
            family = children_of(run.pid)
            everyone |= {pid: began_at(pid) for pid in family.keys() - everyone.keys()}
            now, (reached, mean_return) = time.monotonic(), progress(folder)
            if reached != steps:
                steps, reported = reached, now
            if run.poll() is not None:
                raise SystemExit(f"Training ended by itself, with {run.returncode}. See {folder}.log.")
            if now - reported > START_S:
                raise SystemExit(f"No progress for {START_S:.0f} s at {steps:,} env steps. See {folder}.log.")
            actors = {pid: rss for pid, (name, rss) in family.items() if is_actor(name)}
            if now >= row_at:
                row_at += ROW_EVERY_S
                driver = family.get(run.pid, ("", 0))[1]
                others = sum(rss for _, rss in family.values()) - sum(actors.values()) - driver
                rows.append(
                    {
                        "seconds": round(now - began, 1),
                        "env_steps": reached,
                        "return": mean_return,
                        "driver_mb": driver // 1024,
                        "actors_mb": sum(actors.values()) // 1024,
                        "ray_mb": others // 1024,
                        "processes": len(family),
                        "actors_killed": kills["actor"],
                        "drivers_killed": kills["driver"],
                    }
                )
            if now < kill_at or not actors or not (folder / "checkpoints").exists():
                continue
            kind = rng.choices(KINDS, SHARES)[0]
            kills[kind] += 1
            kill_at = now + rng.expovariate(1 / every)
            os.kill(run.pid if kind == "driver" else rng.choice(sorted(actors)), signal.SIGKILL)
            if kind == "driver":
                run.wait()
                run, kill_at = started(algo, folder, steps=forever, seed=seed), kill_at + 20
    finally:
        if run.poll() is None:
            run.send_signal(signal.SIGTERM)
            run.wait(60)
        write(RESULTS / f"soak-{algo}.csv", rows)
    time.sleep(30)  # Ray's own processes take a while to notice that they are alone
    left = [pid for pid, start in everyone.items() if start and began_at(pid) == start]
    unfinished = [path.name for path in folder.rglob("*.part")]
    print(f"{algo}: {dict(kills)} killed in {minutes:g} minutes; exit code {run.returncode}; {steps:,} env steps")
    print(f"left behind: processes {left}, unfinished checkpoints {unfinished}, in shared memory {in_shared_memory() - shared}")
    known = sorted(RESULTS.glob(f"soak-{algo}-undisturbed-*.csv"))
    write(RESULTS / f"soak-{algo}-curve.csv", curve(folder, int(read(known[0])[-1]["env_steps"]) if known else steps))
    print(summary(algo, rows))


def summary(algo: str, rows: Rows) -> str:
    """What a soak showed, and how its curve compares with undisturbed ones."""
    tenth = max(1, len(rows) // 10)
    early, late = rows[tenth : 3 * tenth], rows[-2 * tenth :]
    text = f"{algo}: env steps/s {speed(early):,.0f} early, {speed(late):,.0f} late"
    for name in ("driver_mb", "actors_mb", "ray_mb"):
        text += f"; {name} {np.median([row[name] for row in early]):.0f}, {np.median([row[name] for row in late]):.0f}"
    if others := [read(path) for path in sorted(RESULTS.glob(f"soak-{algo}-undisturbed-*.csv"))]:
        mine = returns(read(RESULTS / f"soak-{algo}-curve.csv"))
        spread = np.array([returns(each) for each in others])
        known = np.isfinite(mine) & np.isfinite(spread).all(axis=0)
        mine, spread = mine[known], spread[:, known]
        within = (mine >= spread.min(axis=0)) & (mine <= spread.max(axis=0))
        third = max(1, len(mine) // 3)
        text += f"; {within.mean():.0%} of the curve within those of {len(others)} undisturbed runs"
        text += f"; mean of its last third {mine[-third:].mean():.0f}, theirs {spread[:, -third:].mean(axis=1).round().tolist()}"
    return text


def returns(rows: Rows) -> NDArray[np.float64]:
    return np.array([row["return"] for row in rows])


def speed(rows: Rows) -> float:
    """Env steps per second, of the stretches in which they grew."""
    pairs = [(b["env_steps"] - a["env_steps"], b["seconds"] - a["seconds"]) for a, b in pairwise(rows)]
    grown = [(steps, seconds) for steps, seconds in pairs if steps > 0]
    return sum(steps for steps, _ in grown) / max(1e-9, sum(seconds for _, seconds in grown))


def write(path: Path, rows: Rows) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read(path: Path) -> Rows:
    with path.open() as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def soaked() -> list[str]:
    """The algorithms whose soak has been run."""
    names = [path.stem.removeprefix("soak-") for path in sorted(RESULTS.glob("soak-*.csv"))]
    return [name for name in names if "-" not in name]


def draw(picture: Path) -> None:
    """Per algorithm: throughput and kills, memory, and the curve beside undisturbed ones."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "tflow", "svg.fonttype": "none", "font.size": 8})
    from matplotlib.figure import Figure

    soaks = {name: read(RESULTS / f"soak-{name}.csv") for name in soaked()}
    figure = Figure(figsize=(9, 2.4 * len(soaks)), layout="constrained")
    panels = figure.subplots(len(soaks), 3, squeeze=False)
    for (speeds, memory, learned), (algo, rows) in zip(panels, soaks.items(), strict=True):
        minutes = [row["seconds"] / 60 for row in rows]
        window = 6
        starts = range(0, len(rows) - window, window)
        speeds.plot([minutes[k] for k in starts], [speed(rows[k : k + window + 1]) for k in starts], color="#1f77b4", linewidth=1)
        for before, after in pairwise(rows):
            if after["drivers_killed"] > before["drivers_killed"]:
                speeds.axvline(after["seconds"] / 60, color="#d62728", linewidth=0.5, alpha=0.6)
        killed = f"{rows[-1]['actors_killed']:.0f} actors killed, {rows[-1]['drivers_killed']:.0f} drivers (red)"
        speeds.set(title=f"{algo}: {killed}", xlabel="minutes", ylabel="env steps/s", ylim=(0, None))
        for name, colour in (("actors_mb", "#1f77b4"), ("driver_mb", "#ff7f0e"), ("ray_mb", "#888888")):
            memory.plot(minutes, [row[name] for row in rows], color=colour, linewidth=0.8, label=name.removesuffix("_mb"))
        memory.set(title="memory, MB", xlabel="minutes", ylim=(0, None))
        memory.legend(frameon=False, fontsize=6)
        for path in sorted(RESULTS.glob(f"soak-{algo}-undisturbed-*.csv")):
            other = read(path)
            learned.plot([row["env_steps"] / 1e6 for row in other], returns(other), color="#888888", linewidth=0.8)
        mine = read(RESULTS / f"soak-{algo}-curve.csv")
        learned.plot([row["env_steps"] / 1e6 for row in mine], returns(mine), color="#1f77b4", linewidth=1.2)
        learned.set(title="return; gray: undisturbed", xlabel="million env steps")
    figure.savefig(picture, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("algo", nargs="?", default="")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=float, default=15.0, help="mean seconds between kills")
    parser.add_argument("--undisturbed", action="store_true", help="no kills: train for --steps")
    parser.add_argument("--steps", type=int, default=3_000_000)
    parser.add_argument("--report", action="store_true", help="draw the picture, and say what was measured")
    parser.add_argument("--out", type=Path, default=Path("soak"))
    given = parser.parse_args()
    if not given.algo and not given.report:
        parser.error("say which algorithm, or --report")
    if given.report:
        draw(PICTURE)
        for name in soaked():
            print(summary(name, read(RESULTS / f"soak-{name}.csv")))
        return
    given.out.mkdir(exist_ok=True)
    if given.undisturbed:
        undisturbed(given.algo, given.out, steps=given.steps, seed=given.seed)
    else:
        soak(given.algo, given.out, minutes=given.minutes, every=given.every, seed=given.seed)


if __name__ == "__main__":
    main()
