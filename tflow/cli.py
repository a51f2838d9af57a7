"""The command line. Everything it needs is imported when a command runs."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Annotated

import typer

from tflow import __version__
from tflow.checking.command import check
from tflow.drawing.command import graph
from tflow.errors import PlanError, TflowError

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Typed dataflow plans for distributed reinforcement learning.")


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tflow {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Typed dataflow plans for distributed reinforcement learning."""


app.command("check")(check)
app.command("graph")(graph)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A schedule that tflow.testing.explore saved.", exists=True, dir_okay=False)],
    pdb: Annotated[bool, typer.Option("--pdb", help="Stop in the debugger where it fails.")] = False,
) -> None:
    """Run a saved schedule again and print what happens."""
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


def load(target: str) -> object:
    """The stream or plan called NAME in FILE; a function is called."""
    from tflow.combinators.runnable import Described

    file, _, name = target.rpartition(":")
    path = Path(file)
    if not file or not name:
        raise PlanError(f"Expected FILE:NAME, such as plans.py:a3c, got {target!r}.")
    if not path.is_file():
        raise PlanError(f"There is no file {file!r}.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise PlanError(f"{file!r} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if found is None:
        known = sorted(key for key, value in vars(module).items() if isinstance(value, Described))
        raise PlanError(f"{file} has no {name!r}. Streams and plans in it: {', '.join(known) or 'none'}.")
    if callable(found) and not isinstance(found, Described):
        needed = [p.name for p in inspect.signature(found).parameters.values() if p.default is p.empty]
        if needed:
            raise PlanError(f"{target} needs {', '.join(needed)}; name a stream, a plan, or a function without arguments.")
        found = found()
    made = found
    if not isinstance(made, Described):
        raise PlanError(f"{target} is a {type(made).__name__}; expected a stream or a plan.")
    return made


def main() -> None:
    """The console script: mistakes are one sentence and exit code 2."""
    try:
        app()
    except TflowError as error:
        typer.secho(str(error), fg=typer.colors.RED, err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
