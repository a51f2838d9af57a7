"""Programs that do the same, side by side: one after the other in rounds whose order rotates, so that all meet the same weather.

A contestant is a command that takes ``--seed N`` and prints, as its last line, what came of it as JSON. What was found is kept as
one row per run in ``benchmarks/results``; rows that are there are not made again.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
OURS = sys.executable
PEERS = {name: ROOT / f".venv-{name}" / "bin" / "python" for name in ("sb3", "rllib", "jax", "spark")}
"""Environments that ``make peers`` builds."""
Row = dict[str, str]
COLUMNS: tuple[str, ...] = ("contestant", "seed", "seconds", "env_steps", "reached", "besides")


THREADS: Mapping[str, tuple[str, ...]] = {"1 thread": ("--threads", "1"), "default threads": ()}
"""Torch's threads, as options of contestants. ``hold`` must leave them their choice."""


def by_threads(contestants: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Each contestant with one thread, and with as many as its library takes."""
    return {f"{name}, {those}": (*command, *option) for those, option in THREADS.items() for name, command in contestants.items()}


def steps_shown(found: Mapping[str, float]) -> Row:
    return {"seconds": f"{found['seconds']:.2f}", "env_steps": f"{found['env_steps']:.0f}", "reached": f"{found['reached']:.0f}"}


def hold(
    path: Path,
    contestants: Mapping[str, Sequence[str]],
    seeds: Sequence[int],
    *,
    one_thread: bool = True,
    shown: Callable[[Mapping[str, float]], Row] = steps_shown,
    columns: Sequence[str] = COLUMNS,
) -> None:
    """Run what has not been run yet, and write it down: ``columns``, as ``shown`` makes them of what came of a run."""
    rows = read(path)
    done = {(row["contestant"], row["seed"]) for row in rows}
    names = list(contestants)
    for seed in seeds:
        for name in names[seed % len(names) :] + names[: seed % len(names)]:
            if (name, str(seed)) in done:
                continue
            began = time.perf_counter()
            found = outcome([*contestants[name], "--seed", str(seed)], one_thread=one_thread)
            besides = time.perf_counter() - began - found["seconds"]
            rows.append({"contestant": name, "seed": str(seed), "besides": f"{besides:.1f}", **shown(found)})
            print("  ".join(rows[-1].values()), flush=True)
            write(path, rows, columns)


def outcome(command: Sequence[str], *, one_thread: bool = True) -> dict[str, float]:
    """What a contestant prints last."""
    around = {**os.environ, "RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    around.pop("OMP_NUM_THREADS", None)
    if one_thread:
        around["OMP_NUM_THREADS"] = "1"
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=around, timeout=600)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def read(path: Path) -> list[Row]:
    """The rows of a file; none if it is not there."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: Sequence[Row], columns: Sequence[str] = COLUMNS) -> None:
    """Write rows, by contestant and seed."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: (row["contestant"], int(row["seed"]))))


def with_table(text: str, name: str, table: str) -> str:
    """A page with this between ``<!-- name -->`` and ``<!-- end name -->``."""
    before, _, rest = text.partition(f"<!-- {name} -->")
    return f"{before}<!-- {name} -->\n{table}\n<!-- end {name} -->{rest.partition(f'<!-- end {name} -->')[2]}"


def fill(page: Path, name: str, table: str) -> None:
    """Write a table into a page."""
    page.write_text(with_table(page.read_text(), name, table))


def spread(values: Sequence[float], form: str) -> str:
    """Median, least and most."""
    if not values:
        return "-"
    return f"{median(values):{form}} [{min(values):{form}}..{max(values):{form}}]"


def speed(row: Row) -> float:
    """Env steps per second."""
    return float(row["env_steps"]) / float(row["seconds"])


def ratios(own: list[Row], base: str, rows: list[Row], of: Callable[[Row], float]) -> list[float]:
    """Seed by seed, so that both ran in the same minutes."""
    bases = {row["seed"]: of(row) for row in rows if row["contestant"] == base}
    return [of(row) / bases[row["seed"]] for row in own if row["seed"] in bases]


def speeds(path: Path, contestants: Iterable[str], heading: str, *, base: str, times: int = 1) -> str:
    """Markdown: env steps per second, or ``times`` as many of something, and against those of ``base``."""
    rows = read(path)
    lines = [f"| contestant | {heading} |", "|---|---:|---:|"]
    for name in contestants:
        own = [row for row in rows if row["contestant"] == name]
        against = ratios(own, base, rows, speed)
        lines.append(f"| {name} | {spread([times * speed(row) for row in own], ',.0f')} | {spread(against, '.2f')} |")
    return "\n".join(lines)


def speeds_by_threads(path: Path, contestants: Iterable[str], *, base: str) -> str:
    """Markdown: env steps per second of ``by_threads``, each against ``base`` with the same threads."""
    names = list(contestants)
    tables = [
        speeds(path, [f"{name}, {those}" for name in names], f"env steps/s | against {base}'s", base=f"{base}, {those}")
        for those in THREADS
    ]
    return "\n".join([*tables[0].splitlines()[:2], *(line for table in tables for line in table.splitlines()[2:])])
