"""``tflow algos``: lists the algorithms, and the fields of each."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from tflow.combinators.labels import label_of
from tflow.observe.console import Output


def algos(
    algo: Annotated[str | None, typer.Argument(help="An algorithm: lists all its fields.", show_default=False)] = None,
) -> None:
    """List the algorithms, or the fields of one."""
    from tflow.algos.installed import usable
    from tflow.algos.names import ALGORITHMS
    from tflow.commands.choice import algorithm_named

    console = Output(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="dim")
    if algo is None:
        for title in ("name", "in Python", "what it is", "paper"):
            table.add_column(title, no_wrap=title != "what it is")
        found, wrong = usable()
        for name, kind in {**ALGORITHMS, **found}.items():
            home = "tflow.algos" if name in ALGORITHMS else kind.__module__
            table.add_row(f"[bold]{name}[/bold]", f"{home}.{kind.__name__}", summary(kind), paper(kind))
        console.print(table)
        for sentence in wrong:
            console.print(f"\n{sentence}", style="yellow", markup=False, soft_wrap=True)
        console.print("\nTrain one: tflow train ppo --env CartPole-v1. Its fields: tflow algos ppo.", soft_wrap=True)
        return
    kind = algorithm_named(algo)
    for paragraph in (inspect.getdoc(sys.modules[kind.__module__]) or summary(kind)).split("\n\n"):
        console.print(" ".join(paragraph.replace("``", "").split()) + "\n", markup=False)
    for title in ("flag", "default", "meaning"):
        table.add_column(title, no_wrap=title == "flag", max_width=20 if title == "default" else None)
    for row in flags_of(kind):
        table.add_row(*map(Text, row))
    console.print(table)


def flags_of(kind: type, prefix: str = "", base: object = None) -> list[tuple[str, str, str]]:
    """A row per field: flag, default, meaning. Those of configurations inside come with a dot; ``base`` has their defaults."""
    from tflow.algos.algorithm import Algorithm
    from tflow.algos.fields import fields_of

    rows: list[tuple[str, str, str]] = []
    shared = {each.name for each in dataclasses.fields(Algorithm)} if prefix else set()
    for each in fields_of(kind):
        default = getattr(base, each.name, each.default)
        if isinstance(default, Algorithm):
            rows += flags_of(type(default), f"{each.name}.", default)
        elif each.name not in shared:
            usual = "" if default is dataclasses.MISSING else label_of(default) if callable(default) else str(default)
            rows.append((f"--{prefix}{each.name.replace('_', '-')}", usual, each.plain_text))
    return rows


def summary(kind: type) -> str:
    """The first line of the docstring of a class."""
    return (inspect.getdoc(kind) or "").partition("\n")[0].rstrip(".")


def paper(kind: type) -> str:
    """The arXiv number that its file cites first."""
    text = inspect.getdoc(sys.modules[kind.__module__]) or ""
    return next(
        (f"arXiv {word}" for word in text.replace(")", " ").replace(",", " ").split() if word[:4].isdigit() and "." in word), ""
    )
