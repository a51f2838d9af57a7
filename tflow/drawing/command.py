"""``tflow graph``: a plan on paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tflow.combinators.runnable import Described, Runnable
from tflow.drawing.built import of_plan
from tflow.drawing.mermaid import mermaid
from tflow.drawing.named import load
from tflow.drawing.svg import svg
from tflow.drawing.text import text
from tflow.errors import PlanError

Format = Literal["text", "mermaid", "svg"]
Direction = Literal["right", "down"]
SUFFIXES: dict[str, Format] = {".svg": "svg", ".mmd": "mermaid", ".mermaid": "mermaid", ".txt": "text"}
"""What the name of a file says it holds."""


def graph(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE[:NAME]|ALGO|RUN",
            help="A stream, plan, function, method or configuration in a file; without NAME, the only plan in it. Or an "
            "algorithm, with any of its fields as flags, or a run folder.",
        ),
    ],
    form: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="Default: what the name of the output says; text without one.", show_default=False),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there.", dir_okay=False)] = None,
    direction: Annotated[
        Direction | None,
        typer.Option("--direction", help="Where the flow goes in a picture. Default: to the right if that fits a page."),
    ] = None,
) -> None:
    """Draw a plan with the type of every stream and the messages to actors, without running it.

    A file is imported and the plan is built, which starts nothing. What a function needs is made up from its annotations. Of an
    algorithm or a run it is the plan that tflow train runs.
    """
    chosen = form or format_of(output)
    check_folder(target)
    title, plan = of_algorithm(target, context.args) if is_algorithm(target) or context.args else load(target)
    drawn = rendered(plan, title, chosen, direction).rstrip("\n")
    if isinstance(plan, Runnable):
        try:
            plan.validate()
        except PlanError as error:  # a picture helps to see why
            typer.secho(f"This plan cannot be run: {error}", fg=typer.colors.YELLOW, err=True)
    if output is None:
        typer.echo(drawn)
        return
    try:
        output.write_text(f"{drawn}\n", encoding="utf-8")
    except OSError as error:
        raise PlanError(f"Cannot write {str(output)!r}: {error.strerror}.") from None


def check_folder(target: str) -> None:
    """Raise for a folder with runs in it, as ``--seeds`` makes them."""
    if Path(target).is_dir() and not is_algorithm(target):
        from tflow.observe.kept import no_run, runs_in

        if runs_in(Path(target)):
            raise PlanError(f"{target!r} {no_run(Path(target))}")


def format_of(output: Path | None) -> Format:
    """What the name of a file asks for. Raises for what is no format of ours: a picture in text would look like one, until it is
    opened."""
    if output is None or not output.suffix:
        return "text"
    found = SUFFIXES.get(output.suffix.lower())
    if found is None:
        raise PlanError(
            f"tflow graph does not write {output.suffix}: {str(output)!r}. It writes .svg, which browsers open and print, "
            ".mmd for mermaid, and .txt; or say --format."
        )
    return found


def of_algorithm(target: str, flags: list[str]) -> tuple[str, Described]:
    """The plan that ``tflow train`` runs, for an algorithm with these flags, or in a run folder. Only these have settings."""
    from tflow.commands.choice import chosen
    from tflow.observe.folder import CONFIG

    folder = Path(target) / CONFIG
    choice = chosen(flags, file=folder) if folder.is_file() else chosen([target, *flags])
    return type(choice.algorithm).__name__, choice.plan()


def is_algorithm(target: str) -> bool:
    """True if it is not a file: a run folder, or a word that an algorithm might be called by."""
    return (Path(target) / "config.toml").is_file() or (target.replace("-", "_").isidentifier() and not Path(target).exists())


def rendered(plan: Described, title: str, form: Format, direction: Direction | None) -> str:
    """A plan in one of the formats."""
    drawing = of_plan(plan, title)
    down = None if direction is None else direction == "down"
    if form == "svg":
        return svg(drawing, down=down)
    return mermaid(drawing, down=bool(down)) if form == "mermaid" else text(plan, drawing)
