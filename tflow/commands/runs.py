"""Running what was chosen: once, or once per seed, and saying in the end what came of it and where it is."""

from __future__ import annotations

import csv
import os
import re
import shutil
import signal
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tflow.algos.training import TrainingRun
from tflow.commands.choice import Choice
from tflow.observe.folder import BEST, LATEST, RunFolder, file_of, fresh_folder
from tflow.observe.progress import ShowProgress
from tflow.observe.view import clock
from tflow.rl.env_spec import EnvSpec
from tflow.rl.metrics import Metrics

RUNS = Path("runs")
INTERRUPTED = 130
"""The exit code of programs that Ctrl-C has ended."""


def end_like_ctrl_c(number: int, frame: object) -> None:
    """To be told to end is to be interrupted: what was learned is kept."""
    raise KeyboardInterrupt


def single(choice: Choice, out: Path | None, *, plain: bool) -> None:
    """One run in a folder of its own."""
    folder = place_for(choice, out)
    console = Console(highlight=False, soft_wrap=True)
    run, _ = trained(choice, folder, plain=plain)
    console.print()
    console.print(ending(run))
    for line in next_steps(run, folder):
        console.print(line, markup=False)
    if run.outcome == "interrupted":
        raise SystemExit(INTERRUPTED)


def several(choice: Choice, seeds: Sequence[int], out: Path | None, *, plain: bool) -> None:
    """A run per seed, and how far they are apart."""
    folder = place_for(choice, out)
    console = Console(highlight=False, soft_wrap=True)
    rows: list[dict[str, float]] = []
    for seed in seeds:
        run, seconds = trained(Choice(choice.algorithm, replace(choice.run, seed=seed)), folder / f"seed-{seed}", plain=plain)
        if run.outcome == "interrupted":
            break
        assert run.metrics is not None
        rows.append({"seed": seed, **scores(run.metrics), "seconds": round(seconds, 1)})
        with (folder / "seeds.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    console.print()
    console.print(spread(rows))
    console.print(f"\nEach run, and seeds.csv with this table: {folder}", markup=False)
    if len(rows) < len(seeds):
        console.print(f"Interrupted: {len(rows)} of {len(seeds)} seeds have finished.")
        raise SystemExit(INTERRUPTED)


def place_for(choice: Choice, out: Path | None) -> Path:
    """The folder of a run. Nothing is left behind by a run that cannot work."""
    choice.algorithm.check()
    choice.plan()
    return fresh_folder(RUNS, name_of(choice)) if out is None else out


def trained(choice: Choice, folder: Path, *, plain: bool) -> tuple[TrainingRun, float]:
    """Train until it is over, or until Ctrl-C; the seconds that it took."""
    algorithm, settings = choice
    env = EnvSpec.of(algorithm.env)
    signal.signal(signal.SIGTERM, end_like_ctrl_c)
    keeper = RunFolder(folder, settings=settings)
    shown = ShowProgress(live=False if plain else None)
    with removed_if_empty(folder), settings.open() as session:
        run = algorithm.run(
            stop=settings.stop(env),
            callbacks=(keeper, shown),
            eval_every=settings.eval_every,
            eval_episodes=settings.eval_episodes,
            runtime=session,
            seed=settings.seed,
        )
        try:
            with run:
                run.finish()
        except KeyboardInterrupt:
            if run.metrics is None:  # nothing was learned that one could keep
                raise
    return run, keeper.seconds


@contextmanager
def removed_if_empty(folder: Path) -> Iterator[None]:
    """A run that could not begin, because there is no such cluster, say, leaves no folder behind."""
    try:
        yield
    except BaseException:
        with suppress(OSError):  # there is something in it
            folder.rmdir()
        raise


def name_of(choice: Choice) -> str:
    """What the folder of a run is called, but for its number."""
    env = EnvSpec.of(choice.algorithm.env).name
    return re.sub(r"[^\w.-]+", "-", f"{type(choice.algorithm).__name__.lower()}-{env}")


def ending(run: TrainingRun) -> str:
    """How it ended, in a sentence."""
    assert run.metrics is not None
    metrics = run.metrics
    spent = f"after {metrics.env_steps:,} env steps and {metrics.training.updates:,} updates"
    told = " and ".join(f"{value:.1f}{f' ({name})' if name else ''}" for name, value in returns(metrics).items())
    how = "Interrupted" if run.outcome == "interrupted" else f"Reached {run.outcome}"
    return f"{how}: mean return {told} {spent}."


def next_steps(run: TrainingRun, folder: Path) -> list[str]:
    """Where everything is, and what to try."""
    (first, *_) = run.workers.learners
    best = folder / file_of(BEST, first)
    lines = [f"Run folder: {folder}", f"  policy    {folder / file_of(LATEST, first)}"]
    lines += [f"  best      {best}"] if best.exists() else []
    lines += [f"  metrics   {folder / 'metrics.csv'}", f"  plan      {folder / 'plan.svg'}", "Try next:"]
    lines += [f"  {tool('tflow')} eval {folder}"]
    if (folder / "tensorboard").exists():
        lines += [f"  {tool('tensorboard')} --logdir {folder}"]
    return [*lines, f"  {tool('tflow')} train --config {folder / 'config.toml'} --seed {run.seed + 1}"]


def tool(name: str) -> str:
    """How a program is called from here: by its name if the shell finds it, else where this one was found."""
    beside = Path(sys.argv[0]).parent / name
    return name if shutil.which(name) or not beside.exists() else os.path.relpath(beside)


def returns(metrics: Metrics) -> dict[str, float]:
    """The mean return over the latest episodes, of each policy or phase if there are several."""
    several = metrics.episodes.policies or metrics.episodes.phases
    return {name: each.mean_return for name, each in several.items()} or {"": metrics.mean_return}


def scores(metrics: Metrics) -> dict[str, float]:
    """What runs are compared by."""
    named = {f"return {name}".strip(): value for name, value in returns(metrics).items()}
    evaluated = {"evaluation": metrics.evaluation.mean_return} if metrics.evaluations else {}
    return {**named, **evaluated, "env steps": metrics.env_steps}


def spread(rows: Sequence[dict[str, float]]) -> Table:
    """A row per seed, then mean and standard deviation."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in rows[0] if rows else ("seed",):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(shown(name, value) for name, value in row.items()))
    if len(rows) > 1:
        table.add_section()
        for what, combine in (("mean", statistics.fmean), ("std", statistics.stdev)):
            table.add_row(what, *(shown(name, combine([row[name] for row in rows])) for name in rows[0] if name != "seed"))
    return table


def shown(name: str, value: float) -> str:
    """A number of the table."""
    if name == "seconds":
        return clock(value)
    return f"{value:,.0f}" if name in ("seed", "env steps") else f"{value:.1f}"
