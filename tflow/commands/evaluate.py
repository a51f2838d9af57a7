"""``tflow eval``: plays whole episodes with a policy that a run has left, without exploring."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tflow.errors import PlanError

if TYPE_CHECKING:
    from tflow.rl.episodes import Episodes
    from tflow.rl.workers import WorkerSpec

MOST_ENVS = 16


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.", show_default=False)],
    episodes: Annotated[int, typer.Option(help="How many episodes.", min=1)] = 100,
    best: Annotated[bool, typer.Option("--best", help="The policy with the best evaluation, not the latest.")] = False,
    seed: Annotated[int, typer.Option(help="Of the episodes.", min=0)] = 0,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    """Play whole episodes with the policy of a run, without exploring."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    found = played(run, episodes=episodes, best=best, seed=seed)
    for title in (*([""] if len(found) > 1 else []), "episodes", "mean return", "std", "min", "max", "mean length"):
        table.add_column(title, justify="right")
    for name, each in found.items():
        numbers = (each.mean_return, statistics.pstdev(each.returns), min(each.returns), max(each.returns), each.mean_length)
        row = (name, str(each.count), *(f"{number:.1f}" for number in numbers))
        table.add_row(*(row if len(found) > 1 else row[1:]))
    Console(highlight=False).print(table)


def played(folder: Path, *, episodes: int, best: bool = False, seed: int = 0) -> dict[str, Episodes]:
    """The episodes that a policy of a run plays, by policy or phase if there are several."""
    from tflow.algos.evaluating import report_of
    from tflow.commands.choice import chosen
    from tflow.observe.folder import BEST, CONFIG, LATEST, file_of

    if not (folder / CONFIG).is_file():
        runs = sorted(str(each.parent) for each in folder.glob(f"*/{CONFIG}"))
        hint = f" There are runs in it: {', '.join(runs[:5])}." if runs else " tflow train makes one."
        raise PlanError(f"{str(folder)!r} is no run folder: it has no {CONFIG}.{hint}")
    spec = report_of(chosen([], file=folder / CONFIG).algorithm.plan()).workers.spec
    files = {name: folder / file_of(BEST if best else LATEST, name) for name in spec.losses}
    for file in files.values():
        if not file.is_file():
            why = "there were no evaluations (--eval-every)" if best else "it ended before anything was learned"
            raise PlanError(f"{str(folder)!r} has no {file.name}: {why}.")
    return episodes_of(spec, files, episodes=episodes, seed=seed)


def episodes_of(spec: WorkerSpec, files: dict[str, Path], *, episodes: int, seed: int) -> dict[str, Episodes]:
    """One worker plays, with weights from files."""
    from tflow.rl.episodes import NONE, Episodes
    from tflow.rl.meta import AdaptToTask
    from tflow.rl.policy import Policy
    from tflow.rl.worker import SingleWorker, Weights
    from tflow.types import Shard

    adapts = any(loss.adapts for loss in spec.losses.values())
    num = spec.num_envs if adapts else min(MOST_ENVS, episodes)
    worker = replace(spec, num_envs=num, explore=adapts, episodes=episodes)(Shard("evaluation", 0, 1, 0, seed))
    try:
        for name, file in files.items():
            policy = Policy.load(file, model=spec.model_of(name))
            worker.set_weights(Weights(name, policy.flat.get(), 0))
        if not adapts:
            found = worker.evaluate()
            return dict(found.policies) or {"": found}
        assert isinstance(worker, SingleWorker)
        total = NONE
        while total.count < episodes:  # each task is played before and after adapting to it
            summary = AdaptToTask().apply(worker, worker.sample()).summary
            assert isinstance(summary, Episodes)
            total = total.merged(summary)
        return dict(total.phases)
    finally:
        worker.close()
