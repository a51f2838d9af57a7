"""``tflow new``: a small project with an algorithm of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def new(
    project: Annotated[Path, typer.Argument(metavar="NAME", help="A new folder; its name is that of the package and algorithm.")],
) -> None:
    """Start a project: an algorithm, an operator with its law tests, configuration of type checkers, a CI file."""
    from tflow.scaffold import create

    for file in create(project):
        typer.echo(file)
    typer.echo(f"\nNext: cd {project}, make setup, make test, tflow train {project.name} --env CartPole-v1.")
