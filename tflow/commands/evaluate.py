"""``tflow eval``: evaluates a policy of a run on whole episodes, without exploration."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tflow.errors import PlanError

if TYPE_CHECKING:
    from tflow.rl.data.episodes import Episodes
    from tflow.rl.rollout.worker import SingleWorker
    from tflow.rl.rollout.worker_spec import WorkerSpec

MOST_ENVS = 16
MOST_TASKS = 10_000
TASKS_WITHOUT = 10
"""After this many tasks without a finished episode, evaluation gives up."""


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.", show_default=False)],
    episodes: Annotated[int, typer.Option(help="Number of episodes.", min=1)] = 100,
    best: Annotated[bool, typer.Option("--best", help="The policy with the best evaluation, not the latest.")] = False,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Evaluate the policy of a run on whole episodes, without exploration."""
    from rich.table import Table

    from tflow.observe.console import Output

    table = Table(box=None, pad_edge=False, header_style="dim")
    found = evaluate_folder(run, episodes=episodes, best=best, seed=seed)
    for title in (*([""] if len(found) > 1 else []), "episodes", "mean return", "std", "min", "max", "mean length"):
        table.add_column(title, justify="right")
    for name, each in found.items():
        values, mean = each.returns, each.mean_return
        numbers = (mean, statistics.pstdev(values), min(values), max(values), each.mean_length) if values else ()
        row = (name, str(each.count), *(f"{number:.1f}" for number in numbers))
        table.add_row(*(row if len(found) > 1 else row[1:]))
    Output(highlight=False, markup=False).print(table)


def evaluate_folder(folder: Path, *, episodes: int, best: bool = False, seed: int = 0) -> dict[str, Episodes]:
    """Evaluate the policy of a run folder; by policy or phase if there are several."""
    from tflow.algos.evaluation import reporting
    from tflow.commands.choice import chosen
    from tflow.observe.folder import BEST, CONFIG, LATEST, file_of

    if not (folder / CONFIG).is_file():
        runs = sorted(str(each.parent) for each in folder.glob(f"*/{CONFIG}"))
        hint = f" There are runs in it: {', '.join(runs[:5])}." if runs else " tflow train makes one."
        raise PlanError(f"{str(folder)!r} is not a run folder: it has no {CONFIG}.{hint}")
    spec = reporting(chosen([], file=folder / CONFIG).algorithm.plan()).workers.spec
    files = {name: folder / file_of(BEST if best else LATEST, name) for name in spec.losses}
    for file in files.values():
        if not file.is_file():
            why = "no evaluation was made before it ended (--eval-every)" if best else "it ended before anything was learned"
            raise PlanError(f"{str(folder)!r} has no {file.name}: {why}.")
    return episodes_of(spec, files, episodes=episodes, seed=seed)


def episodes_of(spec: WorkerSpec, files: dict[str, Path], *, episodes: int, seed: int) -> dict[str, Episodes]:
    """Evaluate weights from files with one worker."""
    from tflow.observe.folder import CONFIG
    from tflow.rl.policy.policy import Policy
    from tflow.rl.policy.weights import Weights
    from tflow.rl.rollout.worker import SingleWorker
    from tflow.types import Shard

    adapts = any(loss.adapts for loss in spec.losses.values())
    num = spec.num_envs if adapts else min(MOST_ENVS, episodes)
    worker = replace(spec, num_envs=num, explore=adapts, episodes=episodes)(Shard("evaluation", 0, 1, 0, seed))
    try:
        for name, file in files.items():
            policy = Policy.load(file, model=spec.agents[name].model)
            if policy.flat.get().shape != worker.policies[name].flat.get().shape:
                raise PlanError(f"{str(file)!r} does not fit the env and the model of its {CONFIG}: {policy}.")
            worker.set_weights(Weights(name, policy.flat.get(), 0))
        if isinstance(worker, SingleWorker) and adapts:
            return before_and_after(worker, episodes)
        found = worker.evaluate()
        return dict(found.policies) or {"": found}
    finally:
        worker.close()


def before_and_after(worker: SingleWorker, episodes: int) -> dict[str, Episodes]:
    """Episodes on newly drawn tasks, before and after adaptation to each."""
    from tflow.rl.data.episodes import Episodes
    from tflow.rl.learning.meta import AdaptToTask

    found: dict[str, list[tuple[float, int]]] = {"before": [], "after": []}
    for task in range(MOST_TASKS):
        summary = AdaptToTask().apply(worker, worker.sample()).summary
        assert isinstance(summary, Episodes)
        for phase, each in summary.phases.items():
            found[phase] += zip(each.returns, each.lengths, strict=True)
        if min(map(len, found.values())) >= episodes:
            break
        if task == TASKS_WITHOUT and not any(found.values()):
            raise PlanError(f"No episode has ended on {task + 1} tasks: make fragment= at least as long as an episode.")
    cut = {phase: each[:episodes] for phase, each in found.items()}
    return {
        phase: Episodes(len(each), tuple(value for value, _ in each), tuple(length for _, length in each))
        for phase, each in cut.items()
    }
