"""``tflow trace``: who worked on what, when, in the format that Perfetto and Chrome show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tflow.errors import PlanError

VIEWER = "https://ui.perfetto.dev"


def trace(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    seconds: Annotated[
        float,
        typer.Option(
            metavar="S", help="If the run was not traced: how long its settings are run again after the first report.", min=0.1
        ),
    ] = 10.0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Default: trace.json in the run folder; RUN-trace.json here, if the run was not traced.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show what driver and actors of a run did, and where its trace is: tflow train --trace has written it.

    A run that was not traced is left alone, folder and all: its settings are run again for some seconds, from the beginning, with
    a trace.
    """
    from tflow.observe.kept import CONFIG, is_run, no_run
    from tflow.observe.traces import mend, read_trace, told, traces_in

    if not is_run(run) and not (run / CONFIG).is_file():
        raise PlanError(f"{str(run)!r} {no_run(run)}")
    paths = traces_in(run)
    if not paths:
        paths = [traced_again(run, seconds, output or Path(f"{run.resolve().name}-trace.json"))]
        output = None
    for path in paths:
        events, whole = read_trace(path)
        place = (
            path if output is None else output if len(paths) == 1 else output.with_stem(f"{output.stem}-{paths.index(path) + 1}")
        )
        if not whole or place != path:
            mend(place, events)
        typer.echo(f"{place}: open it at {VIEWER}, or in chrome://tracing.")
        for line in told(events):
            typer.echo(line)


def traced_again(run: Path, seconds: float, place: Path) -> Path:
    """Run the settings of a run again, for some seconds, with a trace."""
    from tflow.commands.choice import chosen
    from tflow.commands.runs import same_kernels
    from tflow.observe.kept import CONFIG
    from tflow.observe.traces import EndsAfter

    if not (run / CONFIG).is_file():
        raise PlanError(f"{run} was not traced, and has no {CONFIG} to run it again. In Python: train(plan, trace='trace.json').")
    choice = chosen([], file=run / CONFIG)
    same_kernels(choice.run.runtime)
    typer.echo(f"{run} was not traced. Running its settings again for {seconds:g} s, with a trace.")
    with choice.run.open() as session:
        choice.algorithm.run(
            callbacks=[EndsAfter(seconds)],
            eval_every=choice.eval_every,
            eval_episodes=choice.run.eval_episodes,
            runtime=session,
            seed=choice.run.seed,
            trace=place,
        ).finish()
    return place
