"""``tflow algos``: what can be trained, and the fields of each."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tflow.combinators.labels import label_of


def algos(
    algo: Annotated[str | None, typer.Argument(help="One of them: shows all its fields.", show_default=False)] = None,
) -> None:
    """List the algorithms, or the fields of one."""
    from tflow.algos.names import ALGORITHMS
    from tflow.commands.choice import algorithm_named

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="dim")
    if algo is None:
        for title in ("name", "in Python", "what it is", "paper"):
            table.add_column(title, no_wrap=title != "what it is")
        for name, kind in ALGORITHMS.items():
            table.add_row(f"[bold]{name}[/bold]", f"tflow.{kind.__name__}", summary(kind), paper(kind))
        console.print(table)
        console.print("\nTrain one: tflow train ppo --env CartPole-v1. Its fields: tflow algos ppo.", soft_wrap=True)
        return
    kind = algorithm_named(algo)
    for paragraph in (inspect.getdoc(sys.modules[kind.__module__]) or summary(kind)).split("\n\n"):
        console.print(" ".join(paragraph.replace("``", "").split()) + "\n", markup=False)
    for title in ("flag", "default", "meaning"):
        table.add_column(title, no_wrap=title == "flag", max_width=20 if title == "default" else None)
    for flag, default, meaning in flags_of(kind):
        table.add_row(flag, default, meaning)
    console.print(table)


def flags_of(kind: type, prefix: str = "") -> list[tuple[str, str, str]]:
    """A row per field: flag, default, meaning. Those of configurations inside come with a dot."""
    from tflow.algos.algorithm import Algorithm
    from tflow.algos.fields import fields_of

    rows: list[tuple[str, str, str]] = []
    shared = {each.name for each in dataclasses.fields(Algorithm)} if prefix else set()
    for each in fields_of(kind):
        if isinstance(each.default, Algorithm):
            rows += flags_of(type(each.default), f"{each.name}.")
        elif each.name not in shared:
            usual = label_of(each.default) if callable(each.default) else str(each.default)
            rows.append((f"--{prefix}{each.name.replace('_', '-')}", usual, each.plain))
    return rows


def summary(kind: type) -> str:
    """The first line of what a class says of itself."""
    return (inspect.getdoc(kind) or "").partition("\n")[0].rstrip(".")


def paper(kind: type) -> str:
    """The arXiv number that its file cites first."""
    text = inspect.getdoc(sys.modules[kind.__module__]) or ""
    return next(
        (f"arXiv {word}" for word in text.replace(")", " ").replace(",", " ").split() if word[:4].isdigit() and "." in word), ""
    )
