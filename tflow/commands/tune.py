"""``tflow tune``: searches hyperparameters with Optuna."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tflow.errors import PlanError


def tune(
    context: typer.Context,
    algo: Annotated[str, typer.Argument(help="A name that tflow algos lists, or FILE.py:NAME of your own.", show_default=False)],
    env: Annotated[
        str | None, typer.Option(help="A gymnasium id, or FILE.py:NAME of what makes an env.", show_default=False)
    ] = None,
    trials: Annotated[
        int, typer.Option(metavar="N", help="Trials of the study, those of earlier sessions included.", min=1)
    ] = 50,
    search: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD=A..B[:log],...", help="What is tried: lr=1e-4..1e-2:log,clip=0.1|0.2|0.3. Default: usual ranges."
        ),
    ] = None,
    stop_steps: Annotated[str, typer.Option(metavar="N", help="Env steps of each trial.")] = "50_000",
    eval_every: Annotated[
        str | None, typer.Option(metavar="N", help="Env steps between evaluations. Default: a tenth of stop-steps.")
    ] = None,
    eval_episodes: Annotated[int, typer.Option(metavar="N", help="Episodes per evaluation.", min=1)] = 20,
    jobs: Annotated[int, typer.Option(metavar="N", help="Trials at once, each in a process.", min=1)] = 1,
    prune: Annotated[bool, typer.Option(help="End trials whose evaluations are below the median.")] = True,
    seed: Annotated[int, typer.Option(help="Random seed of all trials, and of the search.", min=0)] = 0,
    preset: Annotated[
        str | None, typer.Option(metavar="ENV|none", help="What the search starts from. Default: that of the env.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings from a TOML file, which the search starts from.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder of the study, which goes on there. Default: a new one in runs/."),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Search for good settings of an algorithm on an env, with Optuna. Every field is a flag, too: it is then not searched.

    The folder has study.journal, which the search goes on from, trials.csv, and best.toml for tflow train --config.
    """
    from tflow.commands.choice import chosen
    from tflow.commands.runs import RUNS, name_of, tool
    from tflow.observe.folder import fresh_folder
    from tflow.settings.flags import from_flags
    from tflow.tuning.space import asked_space, in_words, possible, usual_space
    from tflow.tuning.study import BEST, WHY, StudySearch, best_config, optuna, run_search

    optuna()  # else it is missing, which is said before anything else
    words = [algo, *context.args, *([] if env is None else [f"--env={env}"])]
    choice = chosen(words, {"preset": preset, "stop_steps": stop_steps, "seed": str(seed)}, config)
    steps = choice.run.stop_steps
    every = str(max(1, int(steps or 0) // 10)) if eval_every is None else eval_every
    choice = chosen(
        words,
        {"preset": preset, "stop_steps": stop_steps, "seed": str(seed), "eval_every": every, "eval_episodes": str(eval_episodes)},
        config,
    )
    if choice.eval_every is None:
        raise PlanError("tflow tune compares evaluations, but there are none. Say --eval-every N.")
    kind = type(choice.algorithm)
    said = from_flags(words)[1]
    usual = {name: each for name, each in usual_space(kind).items() if name not in said}
    space = asked_space(search, kind) if search else possible(usual, choice.algorithm)
    if not space:
        raise PlanError(f"No field of {kind.__name__} has a usual range. Say what to try: --search lr=1e-4..1e-2:log.")
    choice.algorithm.check()
    folder = fresh_folder(RUNS, f"tune-{name_of(choice)}") if out is None else out
    asked = StudySearch(choice.algorithm, replace(choice.run, algo=algo), space, folder, trials, prune)
    typer.echo(f"{kind.__name__} on {name_of(choice).partition('-')[2]}: {trials} trials of {steps:,} env steps in {folder}")
    typer.echo(f"Tried: {in_words(space)}")
    study = run_search(asked, jobs)
    found = study.get_trials(deepcopy=False)
    counts = {state: sum(each.state.name == state for each in found) for state in ("COMPLETE", "PRUNED", "FAIL")}
    typer.echo(f"{counts['COMPLETE']} trials completed, {counts['PRUNED']} pruned, {counts['FAIL']} failed.")
    for sentence in dict.fromkeys(each.user_attrs[WHY] for each in found if WHY in each.user_attrs):
        typer.echo(f"  failed: {sentence}")
    best = best_config(asked, study)
    if best is None:
        raise PlanError("No trial was completed, so there are no best settings. Change what is tried, or let trials run longer.")
    value = max(each.value for each in found if each.state.name == "COMPLETE")
    values = ", ".join(
        f"{name}={getattr(best, name):.4g}" if isinstance(getattr(best, name), float) else f"{name}={getattr(best, name)}"
        for name in space
    )
    typer.echo(f"The best, with an evaluation of {value:.1f}: {values}")
    typer.echo(f"Train with it: {tool('tflow')} train --config {folder / BEST}")
