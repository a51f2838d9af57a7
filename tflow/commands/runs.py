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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from tflow.algos.evaluation import reporting
from tflow.algos.names import ALGORITHMS
from tflow.algos.training_run import TrainingRun
from tflow.commands.choice import Choice, chosen
from tflow.errors import MissingExtra, PlanError, TflowError
from tflow.observe.console import Output
from tflow.observe.folder import CONFIG, RunFolder, fresh_folder
from tflow.observe.progress import ShowProgress
from tflow.observe.recordings import next_recording, recordings_in
from tflow.observe.status import lives, read_status
from tflow.observe.traces import next_trace
from tflow.observe.view import clock
from tflow.rl.envs.env_spec import EnvSpec
from tflow.rl.metrics import Metrics
from tflow.rl.policy.files import BEST, LATEST, file_of
from tflow.state.folders import CHECKPOINTS, checkpoints_in, newest_manifest

RUNS = Path("runs")
INTERRUPTED = 130
"""The exit code of programs that Ctrl-C has ended."""
THREADS = "OMP_NUM_THREADS"
GRACE_S = 30.0
"""How long a run may take, after a signal, until it is where it can be saved, and until it is saved."""
SOON_S = 0.01


class Trained(NamedTuple):
    """A finished run and its duration in seconds."""

    run: TrainingRun
    seconds: float
    best: str = ""
    """What the best policy is worth, in words."""
    exit_code: int = INTERRUPTED
    """That of the program, if it was interrupted."""

    @property
    def interrupted(self) -> bool:
        return self.run.outcome == "interrupted"


def single(choice: Choice, out: Path | None, *, plain: bool, record: bool, trace: bool) -> None:
    """One run in a folder of its own."""
    with place_for(choice, out) as folder:
        found = trained(choice, folder, plain=plain, record=record, trace=trace)
    tell(found, folder)


def tell(found: Trained, folder: Path) -> None:
    """Say how a run ended, and end as it did."""
    console = Output(highlight=False, markup=False, soft_wrap=True)
    console.print(f"\n{ending(found.run)}")
    if found.best:
        console.print(found.best)
    for line in next_steps(found.run, folder):
        console.print(line)
    if found.interrupted:
        raise SystemExit(found.exit_code)


def resume_run(
    folder: Path, words: Sequence[str], options: Mapping[str, object | None], *, plain: bool, record: bool | None, trace: bool
) -> None:
    """Resume the run in a folder. It is recorded if it was before, or if that is asked for."""
    if not (folder / CONFIG).exists():
        said = f"has no {CONFIG}, so tflow train has not written it" if folder.exists() else "does not exist"
        raise PlanError(f"--resume: {folder} {said}. In Python, train(plan, resume=...) goes on with a plan of your own.")
    ended, stops = outcome_of(folder), {name: options.get(name) for name in STOPS}
    if not checkpoints_in(folder / CHECKPOINTS):
        again = f"{tool('tflow')} train --config {folder / CONFIG}"
        raise PlanError(f"There is no checkpoint in {folder}: it ended before one was written. {again} starts again.")
    reached = newest_manifest(folder / CHECKPOINTS).get("env_steps", 0)
    if any(stops.values()):  # a new end replaces the old one
        options = {**options, **{name: given or "none" for name, given in stops.items()}}
    elif ended is not None:
        raise PlanError(
            f"--resume: the run in {folder} has finished: {ended}. Say how far it goes on, such as --stop-steps 1000000."
        )
    choice = chosen(words, options, folder / CONFIG)
    if stops["stop_steps"] is not None and reached >= (choice.run.stop_steps or math.inf):
        raise PlanError(
            f"--resume: the run in {folder} is at {reached:,} env steps already, and --stop-steps {choice.run.stop_steps} is not "
            "beyond that. Say a larger number."
        )
    same_kernels(choice.run.runtime)
    record = bool(recordings_in(folder)) if record is None else record
    tell(trained(choice, folder, plain=plain, resume=folder, record=record, trace=trace), folder)


def same_kernels(runtime: str) -> None:
    """Let libraries under torch choose their kernels in this process as they do in Ray's, which a replay in one process needs.
    How many threads a learner computes with is another matter."""
    if runtime == "ray" and "torch" not in sys.modules:  # else they have chosen
        os.environ.setdefault(THREADS, "1")


STOPS = ("stop_return", "stop_steps", "stop_time")


def outcome_of(folder: Path) -> str | None:
    """Why a run has finished, in words; None if it has not. Raises if it still runs."""
    found = read_status(folder)
    if found.get("status") == "running" and lives(found) == "yes":
        raise PlanError(f"--resume: the run in {folder} is still running, as process {found['pid']}. End it first.")
    return str(found.get("outcome")) if found.get("status") == "finished" else None


def several(choice: Choice, seeds: Sequence[int], out: Path | None, *, plain: bool, record: bool, trace: bool) -> None:
    """A run per seed, and mean and standard deviation of those that have finished."""
    console = Output(highlight=False, markup=False, soft_wrap=True)
    rows: list[dict[str, float]] = []
    with place_for(choice, out) as folder:
        try:
            for seed in seeds:
                one = choice._replace(run=replace(choice.run, seed=seed))
                each = trained(one, folder / f"seed-{seed}", plain=plain, record=record, trace=trace)
                if each.interrupted:
                    break
                rows.append({"seed": seed, **scores(each.run), "seconds": round(each.seconds, 1)})
                write_table(folder / "seeds.csv", rows)
        finally:
            if rows:
                console.print()
                console.print(spread(rows))
                console.print(f"\n{where_seeds_are(folder)}")
            if len(rows) < len(seeds):
                console.print(f"{len(rows)} of {len(seeds)} seeds have finished.")
    if len(rows) < len(seeds):
        raise SystemExit(INTERRUPTED)


def note_of(choice: Choice) -> str:
    """Where settings come from that nobody has given, and what does not stop the run although it would otherwise."""
    said = [] if choice.preset is None else [f"With the preset for {choice.preset.env} (--preset none for the defaults)."]
    run, env = choice.run, EnvSpec.of(choice.algorithm.env)
    solved = env.solved_at()
    if solved is not None and run.stop_return is None and (run.stop_steps is not None or run.stop_time is not None):
        stops = f"--stop-return {solved:g} stops there"
        said.append(f"Trains on beyond the return of {solved:g}, at which {env.name} is solved ({stops}).")
    starts = getattr(choice.algorithm, "learning_starts", 0)
    if run.stop_steps is not None and run.stop_steps < starts:
        said.append(f"Goes on beyond --stop-steps {run.stop_steps:,} until learning starts, with {starts:,} (--learning-starts).")
    return "\n".join(said)


@contextmanager
def place_for(choice: Choice, out: Path | None) -> Iterator[Path]:
    """The folder of a run. Runs that cannot work, or cannot begin, leave none behind."""
    with Output(stderr=True).status("starting: loading torch, trying the env and the networks"):  # on a terminal only
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


def trained(
    choice: Choice, folder: Path, *, plain: bool, record: bool, trace: bool = False, resume: Path | None = None
) -> Trained:
    """Train to the end, or until Ctrl-C."""
    algorithm, settings = choice.algorithm, choice.run
    keeper = RunFolder(folder, checkpoint_every=settings.save_every, keep=settings.keep, loggers=settings.loggers)
    code = INTERRUPTED
    with settings.open() as session:
        run = algorithm.run(
            stop=settings.stop(EnvSpec.of(algorithm.env)),
            callbacks=(keeper, ShowProgress(live=False if plain else None, note=note_of(choice))),
            eval_every=choice.eval_every,
            eval_episodes=settings.eval_episodes,
            runtime=session,
            seed=settings.seed,
            start_from=None if resume is not None else settings.start_from,
            resume=resume,
            record=next_recording(folder) if record else None,
            trace=next_trace(folder) if trace else None,
        )
        try:
            with saved_on_signals(run), run:
                run.finish()
        except KeyboardInterrupt as error:
            code = 128 + error.number if isinstance(error, Interrupted) else INTERRUPTED
            if notes := getattr(error, "__notes__", ()):
                raise TflowError(f"Interrupted, and not everything could be saved. {' '.join(notes)}") from error
        except (PlanError, MissingExtra):  # it never began
            raise
        except TflowError as error:
            steps = 0 if run.metrics is None else run.metrics.env_steps
            raise TflowError(f"Training failed after {steps:,} env steps: {error} What was saved is in {folder}.") from error
    return Trained(run, keeper.seconds, keeper.best_in_words, code)


class Interrupted(KeyboardInterrupt):
    """A signal has ended the run, in good order."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def saved_on_signals(run: TrainingRun) -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP end a run where it can be saved; a second one, or the end of the grace period, ends it at
    once."""
    asked: list[int] = []

    def at_once(number: int, frame: object) -> None:
        raise Interrupted(asked[0])

    def stop(number: int, frame: object) -> None:
        if asked:
            at_once(number, frame)
        asked.append(number)
        sys.stderr.write(f"{signal.Signals(number).name}: the run is saved, then it ends. Once more ends it at once.\n")
        run.interrupt(Interrupted(number))
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, GRACE_S)

    def unraisable(what: sys.UnraisableHookArgs) -> None:
        if isinstance(what.exc_value, KeyboardInterrupt) and hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, SOON_S)  # it was asked for where nothing can end the run, such as in __del__
        else:
            show(what)

    show, sys.unraisablehook = sys.unraisablehook, unraisable
    handled = {name: stop for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)}
    handled |= {name: at_once for name in ("SIGALRM",) if hasattr(signal, name)}
    before = {getattr(signal, name): signal.getsignal(getattr(signal, name)) for name in handled}
    for name, handler in handled.items():
        if before[getattr(signal, name)] is not signal.SIG_IGN:  # nohup
            signal.signal(getattr(signal, name), handler)
    try:
        yield
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, earlier in before.items():
            signal.signal(number, earlier)
        sys.unraisablehook = show


def name_of(choice: Choice) -> str:
    """What the folder of a run is called, but for its number."""
    env = EnvSpec.of(choice.algorithm.env).name
    kind = type(choice.algorithm)
    algo = next((name for name, each in ALGORITHMS.items() if each is kind), kind.__name__.lower())
    return re.sub(r"[^\w.-]+", "-", f"{algo}-{env}")


def ending(run: TrainingRun) -> str:
    """The outcome, in a sentence."""
    if run.metrics is None:
        return "Interrupted before the first report: nothing has been learned yet."
    spent = f"after {run.metrics.env_steps:,} env steps and {run.metrics.training.updates:,} updates"
    known = {name: value for name, value in returns(run.metrics).items() if math.isfinite(value)}
    means = " and ".join(f"{value:.1f}{f' ({name})' if name else ''}" for name, value in known.items())
    how = {"interrupted": "Interrupted", "the plan ended": "The plan ended"}.get(run.outcome, f"Reached {run.outcome}")
    latest = run.metrics.evaluation
    told = (
        f" The latest evaluation, at {latest.weights_at:,} {run.metrics.unit}: {latest.mean_return:.1f}." if latest.count else ""
    )
    return f"{how}: {f'mean return {means}' if means else 'no episode has ended'} {spent}.{told}"


def next_steps(run: TrainingRun, folder: Path) -> list[str]:
    """The files of the run, and commands to try next."""
    files = [(kind, file_of(kind, name)) for kind in (LATEST, BEST) for name in run.workers.learners]
    files += [("metrics", "metrics.csv"), ("plan", "plan.svg")]
    lines = [f"Run folder: {folder}", *(f"  {what:8}  {folder / name}" for what, name in files if (folder / name).exists())]
    lines += ["Try next:", f"  {tool('tflow')} eval {folder}", f"  {tool('tflow')} report {folder}"]
    if checkpoints_in(folder / CHECKPOINTS):
        further = "" if run.outcome == "interrupted" else f" --stop-steps {_further(run)}"
        lines += [f"  {tool('tflow')} train --resume {folder}{further}"]
    if (folder / "tensorboard").exists():
        lines += [f"  {tool('tensorboard')} --logdir {folder}"]
    return [*lines, f"  {tool('tflow')} train --config {folder / 'config.toml'} --seed {run.seed + 1}"]


def _further(run: TrainingRun) -> int:
    """Twice as many env steps, rounded up to two digits."""
    steps = 2 * max(1, 0 if run.metrics is None else run.metrics.env_steps)
    unit = int("1" + "0" * (len(str(steps)) - 2)) if steps >= 10 else 1
    return -(-steps // unit) * unit


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


def where_seeds_are(folder: Path) -> str:
    """Where the runs of several seeds are, and what to do with them."""
    return f"Each run, and seeds.csv with this table: {folder}\nAll of them on a page: {tool('tflow')} report {folder}"


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
