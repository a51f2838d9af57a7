"""The command line. Everything it needs is imported when a command runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from tflow import __version__
from tflow.checking.command import check
from tflow.checking.lsp.command import lsp
from tflow.commands.algos import algos
from tflow.commands.evaluate import evaluate
from tflow.commands.export import export
from tflow.commands.hub import hub
from tflow.commands.new import new
from tflow.commands.presets import presets
from tflow.commands.report import compare, report, runs
from tflow.commands.trace import trace
from tflow.commands.train import FLAGS, train
from tflow.commands.tune import tune
from tflow.drawing.command import graph
from tflow.errors import CheckpointError, EnvError, MissingExtra, PlanError, TflowError
from tflow.runtime.frames import SHOWS_ALL, frames_of_theirs, note_of_actor

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Typed dataflow plans for distributed reinforcement learning.",
)
MISTAKES = (PlanError, EnvError, MissingExtra, CheckpointError)
"""What was asked for cannot be: exit code 2. Other errors have exit code 1."""
INTERRUPTED = 130
os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # torch's threads spin briefly while they wait: see tflow.rl.policy.threads


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tflow {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Typed dataflow plans for distributed reinforcement learning."""


app.command("train", context_settings=FLAGS, add_help_option=False)(train)
app.command("eval")(evaluate)
app.command("algos")(algos)
app.command("presets")(presets)
app.command("report")(report)
app.command("runs")(runs)
app.command("compare")(compare)
app.command("trace")(trace)
app.command("new")(new)
app.command("tune", context_settings=FLAGS)(tune)
app.command("export")(export)
app.command("hub")(hub)
app.command("check")(check)
app.command("lsp")(lsp)
app.command("graph", context_settings=FLAGS)(graph)


@app.command()
def replay(
    file: Annotated[
        Path,
        typer.Argument(
            help="The folder of a run that was recorded, or a schedule that tflow.testing.explore saved.", exists=True
        ),
    ],
    until: Annotated[int | None, typer.Option(metavar="N", help="Of a run: stop after this many env steps.")] = None,
    plan: Annotated[
        str | None, typer.Option(metavar="FILE.py:NAME", help="Of a run: another plan, in the recorded order as far as it fits.")
    ] = None,
    pdb: Annotated[
        bool, typer.Option("--pdb", help="Stop in the debugger, where a schedule fails, or where a run stops.")
    ] = False,
) -> None:
    """Repeat a recorded run in this process, or run a saved schedule again and print what happens."""
    if file.is_dir():
        from tflow.commands.replay import replay_run

        for sentence in replay_run(file, until, plan=plan, debugger=pdb):
            typer.secho(sentence, fg=typer.colors.GREEN)
        return
    from tflow.testing.history import LATEST
    from tflow.testing.schedules import Saved

    sys.path.insert(0, str(Path.cwd()))
    saved = Saved.load(file)
    try:
        typer.echo(saved.replay())
    except Exception as error:
        typer.echo("\n".join(map(str, LATEST)))
        typer.secho(f"{type(error).__name__}: {error}", fg=typer.colors.RED, err=True)
        if pdb:
            import pdb as debugger

            debugger.post_mortem(error.__traceback__)
        raise typer.Exit(1) from None
    typer.secho("The check holds.", fg=typer.colors.GREEN)


def fail(sentence: str, code: int = 2) -> NoReturn:
    """Say what is wrong, and end."""
    typer.secho(sentence, fg=typer.colors.RED, err=True)
    sys.exit(code)


def main() -> None:
    """The console script: mistakes are one sentence and exit code 2; ``--debug`` shows where they come from."""
    debugging = not {"--debug", "--traceback"}.isdisjoint(sys.argv)
    if debugging:
        os.environ.setdefault(SHOWS_ALL, "full")
    try:
        sys.exit(app(standalone_mode=False))
    except TyperException as error:
        path, said = getattr(getattr(error, "ctx", None), "command_path", "tflow"), error.format_message()
        if not said:  # nothing was asked for, and help was shown
            sys.exit(2)
        fail(f"{said.rstrip('.')}{'' if said.endswith('?') else '.'} See {path} --help.")
    except (TflowError, KeyboardInterrupt) as error:
        if debugging:
            raise
        if isinstance(error, KeyboardInterrupt):
            fail("Interrupted.", INTERRUPTED)
        notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
        if not isinstance(error, PlanError):
            frames = frames_of_theirs(error)
            shown = f"In your code:\n{frames}" if frames else "" if notes else note_of_actor(error)
            typer.echo(shown.rstrip(), err=True, nl=bool(shown))
        fail(f"{error}{notes}", code=2 if isinstance(error, MISTAKES) else 1)


if __name__ == "__main__":
    main()
