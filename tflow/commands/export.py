"""``tflow export``: a policy for programs without tflow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tflow.errors import PlanError


def export(
    run: Annotated[Path, typer.Argument(help="A run folder, or a policy file.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Write it there.", dir_okay=False)],
    form: Annotated[
        Literal["onnx", "torch", "torchscript"] | None,
        typer.Option("--format", "-f", help="Default: what the name of the output says: .onnx, .pt2 (torch.export), .pt or .ts."),
    ] = None,
    best: Annotated[bool, typer.Option("--best", help="The policy with the best evaluation, not the latest.")] = False,
    policy: Annotated[str | None, typer.Option(metavar="NAME", help="Which policy, if there are several.")] = None,
    masks: Annotated[bool, typer.Option("--masks", help="Let it take action masks, too.")] = False,
    model: Annotated[str | None, typer.Option(help="The model, where no file says it: FILE.py:NAME.", metavar="MODEL")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Write the deterministic action of a policy as ONNX, as a torch program or as TorchScript, and compare it with the policy.

    Preprocessing, normalisation and the bounds of actions are inside. TorchScript is deprecated by torch.
    """
    from tflow.commands.targets import Asked, policy_asked
    from tflow.rl.policy.export import SUFFIXES, export_policy

    chosen = form or SUFFIXES.get(output.suffix.lower())
    if chosen is None:
        raise PlanError(f"Which format? {output.name!r} does not say it: end it with {', '.join(SUFFIXES)}, or give --format.")
    if chosen == "torch" and output.suffix != ".pt2":
        raise PlanError(f"torch reads programs only from files that end with .pt2; got {output.name!r}.")
    typer.echo(str(export_policy(policy_asked(Asked(run, best, None, model), policy), output, chosen, masks=masks)))
