"""The command ``tflow check``. What it needs is imported when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from tflow.checking.engine import Engine
    from tflow.checking.findings import Report


class Format(StrEnum):
    """How to show what was found."""

    text = "text"
    json = "json"
    github = "github"
    sarif = "sarif"


def check(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files and folders; by default those of pyproject.toml, or all.")
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="How to show what was found.")] = Format.text,
    ours: Annotated[bool, typer.Option("--ours", help="Leave other type errors to your own type checker.")] = False,
    everything: Annotated[bool, typer.Option("--all", hidden=True, help="Show all type errors, as is usual.")] = False,
    disable: Annotated[list[str] | None, typer.Option("--disable", metavar="CODE", help="Switch a rule off.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Check again whenever a file changes.")] = False,
    explain: Annotated[str | None, typer.Option("--explain", metavar="CODE", help="Show the page of a rule.")] = None,
) -> None:
    """Check plans without running them, whichever type checker you use."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    if explain is not None:
        show_page(explain, console)
        return
    from tflow.checking.config import rules, settings
    from tflow.checking.engine import Engine, confirmed
    from tflow.checking.findings import CheckFailed, Report, sorted_out
    from tflow.checking.layout import python_files
    from tflow.checking.places import Sources
    from tflow.checking.resident import ResidentEngine
    from tflow.checking.watch import Watch
    from tflow.errors import PlanError

    folder = Path.cwd()
    project = settings(folder)
    wanted: Sequence[str | Path] = paths or project.paths or ["."]
    disabled = project.disable | rules(disable or [])
    if watch and output is not Format.text:
        raise PlanError(f"--watch prints text for people; leave --format {output.value} out.")
    files = python_files(wanted, folder)

    def report(engine: Engine, strict: Engine, files: Sequence[str]) -> Report:
        found = engine.check(files) if ours else confirmed(engine.check(files), strict.check, Sources(folder))
        return sorted_out(found, files=files, disabled=disabled, show_all=everything or not ours)

    if watch:
        from tflow.checking.formats import show_text

        with (
            ResidentEngine(folder, skip=project.skip) as engine,
            ResidentEngine(folder, skip=project.skip, redefine=False) as strict,
        ):
            Watch(
                wanted,
                folder,
                check=lambda files: report(engine, strict, files),
                show=lambda found: show_text(found, console),
                say=lambda line: console.print(line, soft_wrap=True),
            ).run()
        return
    try:
        with Engine(folder, skip=project.skip) as once, Engine(folder, skip=project.skip, redefine=False) as strictly:
            found = report(once, strictly, files)
    except CheckFailed as failure:  # whatever the format, it says so
        found = Report(files=len(files), failure=str(failure))
    show(found, output, folder, console)
    raise typer.Exit(found.exit_code)


def show(report: Report, output: Format, folder: Path, console: Console) -> None:
    from tflow.checking.formats import as_github, as_json, show_text
    from tflow.checking.sarif import as_sarif

    if output is Format.text:
        show_text(report, console)
    elif output is Format.json:
        typer.echo(as_json(report))
    elif output is Format.github:
        typer.echo(as_github(report, folder))
    else:
        typer.echo(as_sarif(report, folder))


def show_page(name: str, console: Console) -> None:
    """Set nicely on a terminal, as it is otherwise."""
    from tflow.checking.pages import code_of, pages

    text = pages()[code_of(name)].text
    if not console.is_terminal:
        typer.echo(text, nl=False)
        return
    from rich.markdown import Markdown

    console.print(Markdown(text))
