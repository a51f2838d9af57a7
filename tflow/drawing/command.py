"""``tflow graph``: a plan on paper, by its types alone, or as it was really built."""

from __future__ import annotations

import atexit
import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tflow.drawing.mermaid import mermaid
from tflow.drawing.svg import svg
from tflow.drawing.text import text
from tflow.errors import PlanError
from tflow.extras import require

if TYPE_CHECKING:
    from tflow.combinators.runnable import Described
    from tflow.drawing.model import Graph

Format = Literal["text", "mermaid", "svg"]
Direction = Literal["right", "down"]
SUFFIXES: dict[str, Format] = {".svg": "svg", ".mmd": "mermaid", ".mermaid": "mermaid"}
MOST_ERRORS = 5


def graph(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE[:NAME]|ALGO|RUN",
            help="A function, Class.method, stream or plan in a file; without NAME, the only plan in it. Or an algorithm, with "
            "any of its fields as flags, or a run folder.",
        ),
    ],
    form: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="Default: what the name of the output says, else text.", show_default=False),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there.", dir_okay=False)] = None,
    expand: Annotated[bool, typer.Option("--expand", help="Look into functions that take or make streams.")] = False,
    built: Annotated[
        bool, typer.Option("--built", help="Import the file, call the function, and draw what was really built.")
    ] = False,
    direction: Annotated[
        Direction | None,
        typer.Option("--direction", help="Where the flow goes in a picture. Default: to the right if that fits a page."),
    ] = None,
) -> None:
    """Draw a plan with the type of every stream, without running it.

    Nothing of a file is executed, unless --built says so. Of an algorithm or a run it is the plan that tflow train runs.
    """
    chosen = form or (SUFFIXES.get(output.suffix.lower(), "text") if output is not None else "text")
    if is_algorithm(target) or context.args:  # only algorithms have settings
        drawn = algorithm_drawing(target, context.args, chosen, direction)
    else:
        drawn = built_drawing(target, chosen, direction) if built else source_drawing(target, chosen, direction, expand)
    if output is None:
        typer.echo(drawn.rstrip("\n"))
        return
    try:
        output.write_text(drawn.rstrip("\n") + "\n", encoding="utf-8")
    except OSError as error:
        raise PlanError(f"Cannot write {str(output)!r}: {error.strerror}.") from None


def source_drawing(target: str, form: Format, direction: Direction | None, expand: bool) -> str:
    """A drawing by types; what mypy finds fault with is said beside it."""
    require("mypy", extra="check", feature="Drawings by types (--built works without)")
    from tflow.drawing.static.read import of_source

    path, name = parted(target)
    read = of_source(path, name, expand=expand)
    atexit.register(gc.freeze)  # mypy leaves a lot behind, and going through all of it at the end takes seconds
    if read.errors:
        count = len(read.errors)
        typer.secho(f"{path} has {count} type error{'s' * (count > 1)}; it is drawn all the same.", fg="yellow", err=True)
        for line in read.errors[:MOST_ERRORS]:
            typer.secho(f"  {line}", err=True)
        if count > MOST_ERRORS:
            typer.secho(f"  and {count - MOST_ERRORS} more: tflow check {path}", err=True)
    return rendered(read.graph, form, direction)


def built_drawing(target: str, form: Format, direction: Direction | None) -> str:
    """A drawing of what a file really builds."""
    from tflow.drawing.built import load

    return plan_drawing(load(target), target.rpartition(":")[2], form, direction)


def algorithm_drawing(target: str, flags: list[str], form: Format, direction: Direction | None) -> str:
    """A drawing of the plan that ``tflow train`` runs, for an algorithm with these flags, or in a run folder."""
    from tflow.commands.choice import chosen
    from tflow.observe.folder import CONFIG

    folder = Path(target) / CONFIG
    choice = chosen(flags, file=folder) if folder.is_file() else chosen([target, *flags])
    return plan_drawing(choice.plan(), type(choice.algorithm).__name__, form, direction)


def plan_drawing(plan: Described, title: str, form: Format, direction: Direction | None) -> str:
    """A plan that exists; as text, it is what ``print(plan)`` shows."""
    from tflow.drawing.built import of_plan

    return str(plan) if form == "text" else rendered(of_plan(plan, title), form, direction)


def rendered(drawing: Graph, form: Format, direction: Direction | None) -> str:
    """A graph in one of the formats."""
    down = None if direction is None else direction == "down"
    if form == "svg":
        return svg(drawing, down=down)
    return mermaid(drawing, down=bool(down)) if form == "mermaid" else text(drawing)


def is_algorithm(target: str) -> bool:
    """True if it is no file: a run folder, or a word that an algorithm might be called by."""
    return (Path(target) / "config.toml").is_file() or (target.replace("-", "_").isidentifier() and not Path(target).exists())


def parted(target: str) -> tuple[Path, str | None]:
    """``plans.py:a3c`` as a file and a name; the name may be missing."""
    whole = Path(target)
    file, _, name = target.rpartition(":")
    path = whole if whole.is_file() or not file else Path(file)
    if path.is_dir():
        raise PlanError(f"{str(path)!r} is a folder; expected FILE:NAME, such as plans.py:a3c.")
    if not path.is_file():
        raise PlanError(f"There is no file {str(path)!r}.")
    if path.suffix not in (".py", ".pyw"):
        raise PlanError(f"{str(path)!r} is not a Python file.")
    return path, name if path != whole and name else None
