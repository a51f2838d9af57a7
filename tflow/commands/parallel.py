"""``tflow train --seeds 0..4 --jobs 2``: a process per seed, so many at a time, each with a folder of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from rich.console import Console

from tflow.commands.runs import GRACE_S, INTERRUPTED, THREADS, spread, where_seeds_are, write_table
from tflow.observe.console import Output
from tflow.observe.status import read_status

POLL_S = 0.2
LINE_EVERY = 25
"""Polls between lines about the runs."""
OWN_OPTIONS = ("--seeds", "--jobs", "--out")
OWN_FLAGS = ("--plain",)


def without_own(words: Sequence[str]) -> list[str]:
    """A command line without what is said to all processes together.

    >>> without_own(["train", "ppo", "--seeds", "0..4", "--jobs=2", "--lr", "1e-3", "--plain"])
    ['train', 'ppo', '--lr', '1e-3']
    """
    found: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in OWN_OPTIONS:
            rest = rest[1:]
        elif word not in OWN_FLAGS and not word.startswith(tuple(f"{each}=" for each in OWN_OPTIONS)):
            found.append(word)
    return found


@dataclass
class Job:
    """The run of one seed, in a process of its own."""

    seed: int
    folder: Path
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    outcome: int | None = field(default=None)

    @property
    def log_file(self) -> Path:
        """What it prints."""
        return self.folder.with_suffix(".log")

    def last_row(self) -> dict[str, float]:
        """The latest metrics that it has written."""
        with suppress(OSError, ValueError, IndexError):
            found: dict[str, float] = json.loads((self.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
            return found
        return {}

    def words(self) -> str:
        """How it stands."""
        row = self.last_row()
        if not row:
            return f"seed {self.seed}: starting"
        mean = row.get("return")
        return f"seed {self.seed}: env steps {row['env_steps']:,.0f}, return {'-' if mean is None else f'{mean:.1f}'}"


def start(seed: int, folder: Path, words: Sequence[str], threads: int) -> Job:
    """Start the run of a seed. Signals reach it through this process only, or a Ctrl-C would count twice."""
    out = folder / f"seed-{seed}"
    log = out.with_suffix(".log").open("wb")
    command = [sys.executable, "-m", "tflow.cli", *words, "--plain", "--seed", str(seed), "--out", str(out)]
    environment = {THREADS: str(threads), **os.environ}
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True)  # noqa: S603
    return Job(seed, out, process, log)


def run_all(seeds: Sequence[int], folder: Path, words: Sequence[str], jobs: int) -> None:
    """Run all seeds, ``jobs`` at a time, and say how they ended. One that fails stops no other."""
    console = Output(highlight=False, markup=False, soft_wrap=True)
    folder.mkdir(parents=True, exist_ok=True)
    threads = max(1, (os.cpu_count() or 1) // jobs)
    waiting, running, done = list(seeds), list[Job](), list[Job]()
    before = signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        polls = 0
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(start(waiting.pop(0), folder, words, threads))
                console.print(f"seed {running[-1].seed}: started, {running[-1].folder}")
            polls += 1
            if polls % LINE_EVERY == 0:
                console.print("  ".join(each.words() for each in running))
            with suppress(subprocess.TimeoutExpired):
                running[0].process.wait(POLL_S)
            done += collect(running, console)
    except KeyboardInterrupt:
        console.print("Interrupted: the runs are saved, then they end.")
        end(running)
        done += collect(running, console)
    finally:
        for each in running:  # it took too long
            each.process.kill()
            each.process.wait()
            each.log.close()
        signal.signal(signal.SIGTERM, before)
    summarize(done, seeds, folder, console)


def _as_interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def collect(running: list[Job], console: Console) -> list[Job]:
    """Take out those that have ended."""
    ended = [each for each in running if each.process.poll() is not None]
    for each in ended:
        running.remove(each)
        each.outcome = each.process.returncode
        each.log.close()
        how = (
            "finished" if each.outcome == 0 else "interrupted" if each.outcome == INTERRUPTED else f"failed, see {each.log_file}"
        )
        console.print(f"{each.words()}, {how}")
    return ended


def end(running: Sequence[Job]) -> None:
    """Let all save themselves and end."""
    for each in running:
        with suppress(ProcessLookupError):
            each.process.send_signal(signal.SIGINT)
    with suppress(KeyboardInterrupt):  # a second one: at once
        for each in running:
            with suppress(subprocess.TimeoutExpired):
                each.process.wait(GRACE_S)


def scores_in(folder: Path, seed: int) -> dict[str, float]:
    """The metrics that runs are compared by, from a run folder."""
    found = read_status(folder)
    metrics: Mapping[str, float | None] = found.get("metrics", {})
    named = {name.replace("/return", ""): name for name in metrics if name.endswith("/return")}
    several = {f"return {policy}": name for policy, name in named.items() if policy != "evaluation"}
    wanted = {**(several or {"return": "return"}), "evaluation": "evaluation/return", "env steps": "env_steps"}
    known = {shown: metrics.get(name) for shown, name in wanted.items()}
    return {
        "seed": seed,
        **{name: value for name, value in known.items() if value is not None},
        "seconds": found.get("seconds") or 0.0,
    }


def summarize(done: Sequence[Job], seeds: Sequence[int], folder: Path, console: Console) -> None:
    """Mean and standard deviation of those that have finished, and which have not."""
    finished = [each for each in sorted(done, key=lambda each: seeds.index(each.seed)) if each.outcome == 0]
    rows = [scores_in(each.folder, each.seed) for each in finished]
    if rows:
        write_table(folder / "seeds.csv", rows)
        console.print()
        console.print(spread(rows))
        console.print(f"\n{where_seeds_are(folder)}")
    if len(finished) == len(seeds):
        return
    console.print(f"{len(finished)} of {len(seeds)} seeds have finished.")
    failed = [each for each in done if each.outcome not in (0, INTERRUPTED)]
    for each in failed:
        lines = each.log_file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        console.print(f"seed {each.seed} failed: {lines[-1] if lines else f'exit code {each.outcome}'}")
    raise SystemExit(1 if failed else INTERRUPTED)
