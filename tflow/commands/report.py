"""``tflow report``, ``runs`` and ``compare``: what run folders have to say."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tflow.errors import PlanError

if TYPE_CHECKING:
    from rich.table import Table

    from tflow.observe.console import Output
    from tflow.observe.groups import Group
    from tflow.observe.kept import KeptRun

PAGES = ("", ".html", ".htm")
"""What the names of reports end with."""
WIDE = 100
"""Terminals with fewer columns do not show when a run began: the latest is the last anyway."""
UNLIMITED = 10_000
LEAST_RUN, LEAST_NAME = 12, 8
"""Columns that folders, and names of algorithms and envs, have at least."""
RunPaths = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="Run folders, or folders with runs in them, as --seeds makes them.")
]


def report(
    runs: RunPaths,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Default: report.html in the run folder, or here if there are several."
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Serve it on this machine, up to date, until Ctrl-C. The address has a secret in it.")
    ] = False,
    port: Annotated[int, typer.Option(help="With --live. Default: any that is free.", min=0, max=65535)] = 0,
) -> None:
    """Write what runs have learned, where their time went and how they were set, as one HTML page that needs nothing else."""
    from tflow.observe.kept import asked_runs
    from tflow.observe.page import page

    check_html(output)
    found = asked_runs(runs)
    if live:
        if output is not None:
            raise PlanError("--live serves the report and writes no file; leave out --output.")
        serve(runs, port)
        return
    place = output or (runs[0] / "report.html" if len(runs) == 1 else Path("report.html"))
    save(place, page(found))
    typer.echo(f"{place} ({len(found)} {'run' if len(found) == 1 else 'runs'}): open it in a browser.")


def check_html(output: Path | None) -> None:
    """Raise for the name of a file that a report is not: it would look like one, until it is opened."""
    if output is not None and output.suffix.lower() not in PAGES:
        raise PlanError(
            f"A report is a page of HTML, not {output.suffix}: {str(output)!r}. Name a file that ends with .html; browsers open "
            "and print it."
        )


def save(place: Path, text: str) -> None:
    try:
        place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PlanError(f"Cannot write {str(place)!r}: {error.strerror}.") from None


def serve(paths: Sequence[Path], port: int) -> None:
    from tflow.observe.server import ReportServer

    with ReportServer(paths, port) as server:
        typer.echo(f"{server.url}\nOnly this machine can reach it. Ctrl-C ends it.")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("Ended.")


def runs(
    folder: Annotated[Path, typer.Argument(help="Where to look for runs, also in the folders in it.")] = Path("runs"),
) -> None:
    """List runs: how they stand, what they reached, when they began. The latest is the last."""
    from tflow.observe.kept import read_run, runs_in

    if not folder.is_dir():
        raise PlanError(
            f"There is no folder {str(folder)!r}. tflow train makes runs; those that are elsewhere: tflow runs FOLDER."
        )
    found = sorted(map(read_run, runs_in(folder)), key=lambda run: (run.began.timestamp() if run.began else 0.0, run.name))
    if not found:
        typer.echo(f"No run is in {folder}. tflow train makes one.")
        return
    show(runs_table(found))


def runs_table(found: Sequence[KeptRun]) -> Table:
    from rich.table import Table
    from rich.text import Text

    wide = console().width >= WIDE
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2 if wide else 1, 0, 0))
    table.add_column("run", overflow="fold", min_width=LEAST_RUN)
    table.add_column("state", no_wrap=True)
    for name in ("algorithm", "env"):
        table.add_column(name, overflow="fold", min_width=LEAST_NAME)
    for name in ("steps", "return", "evaluation", *(["began"] if wide else [])):
        table.add_column(name, justify="right", no_wrap=True)
    colours = {"finished": "green", "failed": "red", "killed": "red"}
    for run in found:
        last = run.last
        evaluated = run.evaluations[-1][1] if run.evaluations else None
        steps = last.get("env_steps") or 0
        table.add_row(
            Text(str(run.path)),
            Text(run.state, colours.get(run.state, "yellow")),
            Text(run.short_algorithm),
            Text(run.short_env),
            f"{steps:,.0f}",
            f"{last['return']:.1f}" if "return" in last else "-",
            "-" if evaluated is None else f"{evaluated:.1f}",
            *(["-" if run.began is None else f"{run.began.astimezone():%m-%d %H:%M}"] if wide else []),
        )
    return table


def compare(
    runs: RunPaths,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the report of all of them, too.", show_default=False),
    ] = None,
) -> None:
    """Compare runs: those with the same settings are taken together, whatever their seeds, and told by what differs.

    Scores are means of the evaluations in the last tenth of a run, or its last mean return; several seeds give the interquartile
    mean and its 95 % interval by a stratified bootstrap. Of several runs with one seed, the longest counts.
    """
    from tflow.observe.groups import envs_of, grouped, overall
    from tflow.observe.kept import asked_runs

    check_html(output)
    found = asked_runs(runs)
    groups = grouped(found)
    for env in envs_of(groups):
        typer.echo(f"{env}:")
        show(scores_table([group for group in groups if group.env == env]))
        typer.echo("")
    united = overall(groups)
    if united:
        typer.echo("All envs, each from 0, its lowest run, to 1, its highest:")
        for name, each in sorted(united.items(), key=lambda item: -item[1].value):
            typer.echo(f"  {name}: {each.value:.2f} [{each.low:.2f}..{each.high:.2f}]")
    elif len(envs_of(groups)) > 1:
        typer.echo("Not the same algorithms ran on each env, so there is no score over all of them.")
    if any(len(group.counted) < len(group.runs) for group in groups):
        typer.echo("Some runs have the same settings and the same seed. A seed counts once, with the longest of its runs.")
    if any(not group.scores for group in groups):
        typer.echo("No score: no episode has ended, and nothing was evaluated.")
    if output is not None:
        from tflow.observe.page import page

        save(output, page(found))
        typer.echo(f"{output}: open it in a browser.")


def scores_table(groups: Sequence[Group]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from tflow.observe.view import clock

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("what", overflow="fold")
    for name in ("runs", "IQM", "95 %", "lowest", "highest", "steps", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    worth = {group: group.estimate for group in groups}
    for group, each in sorted(worth.items(), key=lambda item: -item[1].value if item[1] else float("inf")):
        steps = max(run.last.get("env_steps", 0.0) for run in group.runs)
        seconds = sum(run.seconds or 0.0 for run in group.runs) / len(group.runs)
        numbers = ("-",) * 4
        if each is not None:
            between = f"{each.low:.1f}..{each.high:.1f}" if len(group.scores) > 1 else "-"
            numbers = (f"{each.value:.1f}", between, f"{min(group.scores):.1f}", f"{max(group.scores):.1f}")
        table.add_row(Text(group.name), group.count, *numbers, f"{steps:,.0f}", clock(seconds))
    return table


def show(table: Table) -> None:
    console().print(table)


def console() -> Output:
    """Where tables are printed. Files and pipes have room for whole lines, so that names can be looked for, and copied."""
    from tflow.observe.console import Output

    found = Output(highlight=False, markup=False)
    if not found.is_terminal and "COLUMNS" not in os.environ:
        found.width = UNLIMITED
    return found
