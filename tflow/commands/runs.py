"""Training runs of the command line: one, or one per seed, with a summary at the end."""

from __future__ import annotations

import csv
import math
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
from typing import NamedTuple

from rich.table import Table

from tflow.algos.evaluation import reporting
from tflow.algos.training_run import TrainingRun
from tflow.commands.choice import Choice
from tflow.errors import PlanError, TflowError
from tflow.observe.console import Output
from tflow.observe.folder import RunFolder, fresh_folder
from tflow.observe.progress import ShowProgress
from tflow.observe.view import clock
from tflow.rl.envs.env_spec import EnvSpec
from tflow.rl.metrics import Metrics
from tflow.rl.policy.files import BEST, LATEST, file_of

RUNS = Path("runs")
INTERRUPTED = 130
"""The exit code of programs that Ctrl-C has ended."""


class Trained(NamedTuple):
    """A finished run and its duration in seconds."""

    run: TrainingRun
    seconds: float
    best: str = ""
    """What the best policy is worth, in words."""

    @property
    def interrupted(self) -> bool:
        return self.run.outcome == "interrupted"


def single(choice: Choice, out: Path | None, *, plain: bool) -> None:
    """One run in a folder of its own."""
    console = Output(highlight=False, markup=False, soft_wrap=True)
    with place_for(choice, out) as folder:
        found = trained(choice, folder, plain=plain)
    console.print(f"\n{ending(found.run)}")
    if found.best:
        console.print(found.best)
    for line in next_steps(found.run, folder):
        console.print(line)
    if found.interrupted:
        raise SystemExit(INTERRUPTED)


def several(choice: Choice, seeds: Sequence[int], out: Path | None, *, plain: bool) -> None:
    """A run per seed, and mean and standard deviation of those that have finished."""
    console = Output(highlight=False, markup=False, soft_wrap=True)
    rows: list[dict[str, float]] = []
    with place_for(choice, out) as folder:
        try:
            for seed in seeds:
                each = trained(choice._replace(run=replace(choice.run, seed=seed)), folder / f"seed-{seed}", plain=plain)
                if each.interrupted:
                    break
                rows.append({"seed": seed, **scores(each.run), "seconds": round(each.seconds, 1)})
                write_table(folder / "seeds.csv", rows)
        finally:
            if rows:
                console.print()
                console.print(spread(rows))
                console.print(f"\nEach run, and seeds.csv with this table: {folder}")
            if len(rows) < len(seeds):
                console.print(f"{len(rows)} of {len(seeds)} seeds have finished.")
    if len(rows) < len(seeds):
        raise SystemExit(INTERRUPTED)


def note_of(choice: Choice) -> str:
    """Where settings come from that nobody has given."""
    return "" if choice.preset is None else f"With the preset for {choice.preset.env} (--preset none for the defaults)."


@contextmanager
def place_for(choice: Choice, out: Path | None) -> Iterator[Path]:
    """The folder of a run. Runs that cannot work, or cannot begin, leave none behind."""
    choice.algorithm.check()
    plan = choice.plan()
    if choice.run.start_from is not None:
        from tflow.rl.rollout.starting import initial_weights

        initial_weights(reporting(plan).workers.spec, choice.run.start_from)
    if out is not None and (out / "seeds.csv").exists():
        raise PlanError(f"There are runs in {str(out)!r} already. Choose another folder, or remove that one.")
    folder = fresh_folder(RUNS, name_of(choice)) if out is None else out
    try:
        yield folder
    finally:
        if out is None:
            with suppress(OSError):  # there is something in it, as there should be
                folder.rmdir()


def trained(choice: Choice, folder: Path, *, plain: bool) -> Trained:
    """Train to the end, or until Ctrl-C."""
    algorithm, settings = choice.algorithm, choice.run
    keeper = RunFolder(folder)
    with settings.open() as session, ended_like_ctrl_c():
        run = algorithm.run(
            stop=settings.stop(EnvSpec.of(algorithm.env)),
            callbacks=(keeper, ShowProgress(live=False if plain else None, note=note_of(choice))),
            eval_every=choice.eval_every,
            eval_episodes=settings.eval_episodes,
            runtime=session,
            seed=settings.seed,
            start_from=settings.start_from,
        )
        try:
            with run:
                run.finish()
        except KeyboardInterrupt as error:
            if run.metrics is None:  # there is nothing to save yet
                raise
            if notes := getattr(error, "__notes__", ()):
                raise TflowError(f"Interrupted, and not everything could be saved. {' '.join(notes)}") from error
        except PlanError:  # it never began
            raise
        except TflowError as error:
            steps = 0 if run.metrics is None else run.metrics.env_steps
            raise TflowError(f"Training failed after {steps:,} env steps: {error} What was saved is in {folder}.") from error
    return Trained(run, keeper.seconds, keeper.best_in_words)


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C: the policy is saved."""
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {getattr(signal, name): signal.getsignal(getattr(signal, name)) for name in names}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # nohup
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def name_of(choice: Choice) -> str:
    """What the folder of a run is called, but for its number."""
    env = EnvSpec.of(choice.algorithm.env).name
    return re.sub(r"[^\w.-]+", "-", f"{type(choice.algorithm).__name__.lower()}-{env}")


def ending(run: TrainingRun) -> str:
    """The outcome, in a sentence."""
    assert run.metrics is not None
    spent = f"after {run.metrics.env_steps:,} env steps and {run.metrics.training.updates:,} updates"
    known = {name: value for name, value in returns(run.metrics).items() if math.isfinite(value)}
    means = " and ".join(f"{value:.1f}{f' ({name})' if name else ''}" for name, value in known.items())
    how = {"interrupted": "Interrupted", "the plan ended": "The plan ended"}.get(run.outcome, f"Reached {run.outcome}")
    latest = run.metrics.evaluation
    told = f" The latest evaluation, at {latest.weights_at:,} env steps: {latest.mean_return:.1f}." if latest.count else ""
    return f"{how}: {f'mean return {means}' if means else 'no episode has ended'} {spent}.{told}"


def next_steps(run: TrainingRun, folder: Path) -> list[str]:
    """The files of the run, and commands to try next."""
    files = [(kind, file_of(kind, name)) for kind in (LATEST, BEST) for name in run.workers.learners]
    files += [("metrics", "metrics.csv"), ("plan", "plan.svg")]
    lines = [f"Run folder: {folder}", *(f"  {what:8}  {folder / name}" for what, name in files if (folder / name).exists())]
    lines += ["Try next:", f"  {tool('tflow')} eval {folder}"]
    if (folder / "tensorboard").exists():
        lines += [f"  {tool('tensorboard')} --logdir {folder}"]
    return [*lines, f"  {tool('tflow')} train --config {folder / 'config.toml'} --seed {run.seed + 1}"]


def tool(name: str) -> str:
    """How a program is called from here: by its name if the shell finds it or it is far away, else where this one was found."""
    beside = os.path.relpath(Path(sys.argv[0]).parent / name)
    return name if shutil.which(name) or beside.startswith("..") or not Path(beside).exists() else beside


def returns(metrics: Metrics) -> dict[str, float]:
    """The mean return over the latest episodes, of each policy or phase if there are several."""
    several = metrics.episodes.policies or metrics.episodes.phases
    return {name: each.mean_return for name, each in several.items()} or {"": metrics.mean_return}


def scores(run: TrainingRun) -> dict[str, float]:
    """The metrics that runs are compared by."""
    assert run.metrics is not None
    named = {f"return {name}".strip(): value for name, value in returns(run.metrics).items()}
    evaluated = {} if run.eval_every is None else {"evaluation": run.metrics.evaluation.mean_return}
    return {**named, **evaluated, "env steps": run.metrics.env_steps}


def write_table(path: Path, rows: Sequence[dict[str, float]]) -> None:
    """Write rows to a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)), restval="")
        writer.writeheader()
        writer.writerows(rows)


def spread(rows: Sequence[dict[str, float]]) -> Table:
    """A row per seed, then mean and standard deviation."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(shown(name, row.get(name, math.nan)) for name in names))
    if len(rows) > 1:
        table.add_section()
        for what, combine in (("mean", statistics.fmean), ("std", statistics.stdev)):
            columns = ([row[name] for row in rows if math.isfinite(row.get(name, math.nan))] for name in names[1:])
            found = (combine(values) if len(values) > 1 else math.nan for values in columns)
            table.add_row(what, *(shown(name, value) for name, value in zip(names[1:], found, strict=True)))
    return table


def shown(name: str, value: float) -> str:
    """A number of the table."""
    if not math.isfinite(value):
        return "-"
    if name == "seconds":
        return clock(value)
    return f"{value:,.0f}" if name in ("seed", "env steps") else f"{value:.1f}"
