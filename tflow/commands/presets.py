"""``tflow presets``: lists settings that were chosen for an env, and what they have reached."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from tflow.errors import PlanError
from tflow.observe.console import Output

if TYPE_CHECKING:
    from tflow.presets import Preset

SPECIAL = frozenset('"$`\\!')
"""What shells do not leave alone between double quotation marks."""


def presets(
    algo: Annotated[str | None, typer.Argument(help="An algorithm: lists its presets only.", show_default=False)] = None,
) -> None:
    """List the presets: settings of an algorithm for an env, and what they were measured to reach."""
    from tflow.algos.installed import algorithm_names
    from tflow.presets import no_preset, presets_of

    found: list[Preset] = []
    wrong: list[str] = []
    for name in algorithm_names() if algo is None else (algo,):
        try:
            found += presets_of(name)
        except PlanError as error:  # of a package
            wrong.append(str(error))
    if algo is not None and wrong:
        raise PlanError(wrong[0])
    if algo is not None and not found:
        raise no_preset(algo, "")
    console = Output(highlight=False, markup=False, soft_wrap=True)
    wide = max(len(each.env) for each in found)
    console.print(f"{'algorithm':10} {'env':{wide}} {'env steps':>10}  final return, by seed", style="dim")
    for each in found:
        steps, reached = "-", "not measured"
        if each.measured is not None:
            steps, reached = f"{each.measured.env_steps:,}", ", ".join(f"{value:,.0f}" for value in each.measured.final)
        console.print(f"{each.algo:10} {each.env:{wide}} {steps:>10}  {reached}")
        if each.fields:
            console.print(" " * 11 + flags(each), style="dim")
    for sentence in wrong:
        console.print(f"\n{sentence}", style="yellow")
    console.print(f"\nOthers take the defaults. Train with one: {found[0].command}. Without it: --preset none.")


def flags(preset: Preset) -> str:
    """Its settings, as one would write them."""
    return " ".join(flag(name.replace("_", "-"), value) for name, value in preset.fields.items())


def flag(name: str, value: object) -> str:
    """A setting; double quotation marks, where a shell needs some, since values are full of single ones."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    text, quoted = str(value), shlex.quote(str(value))
    if quoted != text and not SPECIAL & set(text):
        quoted = f'"{text}"'
    return f"--{name} {quoted}"
