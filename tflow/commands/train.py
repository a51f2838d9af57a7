"""``tflow train``: an algorithm on an env, with a live view and a run folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tflow.errors import PlanError

if TYPE_CHECKING:
    from tflow.commands.choice import Choice

FLAGS = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": True}
"""Of commands that take any field of an algorithm as a flag."""


def train(
    context: typer.Context,
    algo: Annotated[
        str | None, typer.Argument(help="A name that tflow algos lists, or FILE.py:NAME of your own.", show_default=False)
    ] = None,
    env: Annotated[
        str | None, typer.Option(help="A gymnasium id, or FILE.py:NAME of what makes an env.", show_default=False)
    ] = None,
    env_arg: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An argument of what makes the env; once per argument.")
    ] = None,
    wrapper: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PLACE",
            help="A wrapper of the env, module:Class or FILE.py:NAME, with arguments in brackets; innermost first.",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings from a TOML file, such as the config.toml of a run.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(metavar="ENV|none", help="Settings for an env, which tflow presets lists. Default: of the env.")
    ] = None,
    runtime: Annotated[
        str | None, typer.Option(metavar="local|ray", help="In this process (default), or a process per worker.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster to join.", show_default=False)] = None,
    workers: Annotated[str | None, typer.Option(metavar="N", help="Rollout workers: the field num_workers.")] = None,
    seed: Annotated[str | None, typer.Option(metavar="N", help="Random seed. Default: 0.")] = None,
    seeds: Annotated[str | None, typer.Option(metavar="A..B", help="Several runs, one per seed: 0..4, or 1,5,7.")] = None,
    jobs: Annotated[
        str | None, typer.Option(metavar="N", help="With --seeds: so many processes at a time. Default: one run after the other.")
    ] = None,
    stop_return: Annotated[
        str | None,
        typer.Option(metavar="X", help="Stop at this mean return over 100 episodes. Default: gymnasium's reward threshold."),
    ] = None,
    stop_steps: Annotated[str | None, typer.Option(metavar="N", help="Stop after this many env steps.")] = None,
    stop_time: Annotated[str | None, typer.Option(metavar="S", help="Stop after this many seconds.")] = None,
    patience: Annotated[
        str | None, typer.Option(metavar="N", help="Stop after N evaluations in a row without improvement.")
    ] = None,
    min_delta: Annotated[
        str | None, typer.Option(metavar="X", help="What counts as an improvement. Default: anything above 0.")
    ] = None,
    eval_every: Annotated[
        str | None,
        typer.Option(
            metavar="N|none", help="Env steps between evaluations, alongside training. Default: 25,000, or by stop-steps."
        ),
    ] = None,
    eval_episodes: Annotated[str | None, typer.Option(metavar="N", help="Episodes per evaluation. Default: 20.")] = None,
    start_from: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="PATH", help="Start with the weights of a policy file, or of the latest policy of a run folder."
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Resume the run in this folder, exactly; --stop-... say how far."),
    ] = None,
    save_every: Annotated[
        str | None,
        typer.Option(metavar="5m|N|none", help="Time or env steps between checkpoints; there is one at the end. Default: 5m."),
    ] = None,
    logger: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Loggers beside the files: wandb, mlflow, or FILE.py:NAME of your own."),
    ] = None,
    record: Annotated[
        bool | None,
        typer.Option(
            "--record/--no-record",
            help="Write down the order of answers, so that tflow replay RUN repeats the run. Default: with --runtime ray.",
        ),
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Write trace.json: who worked on what, when, for https://ui.perfetto.dev.")
    ] = False,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="The run folder. Default: a new one in runs/.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of the live view.")] = False,
    debug: Annotated[bool, typer.Option("--debug", "--traceback", help="Show the whole traceback of an error.")] = False,
    wants_help: Annotated[
        bool, typer.Option("--help", help="Show this, and the fields of the algorithm if it is named.")
    ] = False,
) -> None:
    """Train an algorithm on an env.

    Every field of the algorithm is a flag, too: --lr 1e-3, --num-envs 16, --device cuda, --model "MLP((64, 64))".
    tflow algos ALGO lists them.
    """
    if wants_help:
        typer.echo(context.get_help())
        if algo is not None:
            from tflow.commands.algos import algos

            algos(algo)
        return
    from tflow.commands.choice import chosen
    from tflow.commands.runs import resume_run, same_kernels, several, single

    if out == "":
        raise PlanError("--out is empty. Name a folder, or leave it out for a new one in runs/.")
    folder = None if out is None else Path(out)
    if seed is not None and seeds is not None:
        raise PlanError("Give --seed for one run or --seeds for several, not both.")
    options: dict[str, object | None] = {
        "preset": preset,
        "env_arg": env_arg or None,
        "wrapper": wrapper or None,
        "runtime": runtime,
        "address": address,
        "seed": seed,
        "stop_return": stop_return,
        "stop_steps": stop_steps,
        "stop_time": stop_time,
        "patience": patience,
        "min_delta": min_delta,
        "eval_every": eval_every,
        "eval_episodes": eval_episodes,
        "start_from": start_from,
        "save_every": save_every,
        "logger": logger,
    }
    words = [*([] if algo is None else [algo]), *context.args]  # a flag of the algorithm may stand before its name
    for name, value in (("--env", env), ("--workers", workers)):
        words += [] if value is None else [f"{name}={value}"]
    if resume is not None:
        for flag, given in (("--config", config), ("--seed", seed), ("--seeds", seeds), ("--out", out), ("--from", start_from)):
            if given is not None:
                raise PlanError(f"--resume takes the settings of its run; leave out {flag}.")
        resume_run(resume, words, options, plain=plain, record=record, trace=trace)
        return
    choice = chosen(words, options, config)
    same_kernels(choice.run.runtime)
    record = choice.run.runtime == "ray" if record is None else record
    if jobs is not None:
        in_parallel(choice, seeds, jobs, folder)
    elif seeds is None:
        single(choice, folder, plain=plain, record=record, trace=trace)
    else:
        several(choice, seeds_in(seeds), folder, plain=plain, record=record, trace=trace)


def in_parallel(choice: Choice, seeds: str | None, jobs: str, folder: Path | None) -> None:
    """A process per seed."""
    from tflow.commands.parallel import run_all, without_own
    from tflow.commands.runs import place_for

    if seeds is None:
        raise PlanError("--jobs runs several seeds at a time; say which, such as --seeds 0..4.")
    if not jobs.isdecimal() or int(jobs) < 1:
        raise PlanError(f"--jobs must be a whole number, at least 1; got {jobs!r}.")
    wanted = seeds_in(seeds)
    with place_for(choice, folder) as place:
        run_all(wanted, place, without_own(sys.argv[1:]), int(jobs))


def seeds_in(text: str) -> list[int]:
    """
    >>> seeds_in("0..3"), seeds_in("1,5,7")
    ([0, 1, 2, 3], [1, 5, 7])
    """
    first, dots, last = text.partition("..")
    try:
        found = list(range(int(first), int(last) + 1)) if dots else [int(each) for each in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 0 or len(found) != len(set(found)):
        raise PlanError(f"--seeds must be a range such as 0..4, or whole numbers such as 1,5,7; got {text!r}.")
    return found
