"""``tflow eval``: evaluates a policy of a run, or of a file, on whole episodes, without exploration."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tflow.errors import PlanError

if TYPE_CHECKING:
    from tflow.commands.targets import Asked
    from tflow.rl.data.episodes import Episodes
    from tflow.rl.rollout.worker import SingleWorker
    from tflow.rl.rollout.worker_spec import WorkerSpec

MOST_TASKS = 10_000
TASKS_WITHOUT = 10
"""After this many tasks without a finished episode, evaluation gives up."""


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder, or a policy file.", show_default=False)],
    episodes: Annotated[int, typer.Option(help="Number of episodes.", min=1)] = 100,
    best: Annotated[bool, typer.Option("--best", help="The policy with the best evaluation, not the latest.")] = False,
    env: Annotated[str | None, typer.Option(help="Another env: an id, EnvSpec(...), or FILE.py:NAME.", metavar="ENV")] = None,
    model: Annotated[
        str | None, typer.Option(help="The model, where no file says it: FILE.py:NAME of your own.", metavar="MODEL")
    ] = None,
    deterministic: Annotated[
        bool | None,
        typer.Option("--deterministic/--no-deterministic", help="The most likely actions (the default), or sampled ones."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    video: Annotated[
        Path | None, typer.Option(metavar="FILE.gif|.mp4", help="Film another episode.", show_default=False, dir_okay=False)
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Evaluate the policy of a run, or of a file, on whole episodes, without exploration."""
    from rich.table import Table

    from tflow.commands.targets import Asked
    from tflow.observe.console import Output

    if video is not None:
        from tflow.rl.rollout.video import check_video

        check_video(video)
    table = Table(box=None, pad_edge=False, header_style="dim")
    found = evaluate_asked(Asked(run, best, env, model), episodes=episodes, seed=seed, deterministic=deterministic)
    for title in (*([""] if len(found) > 1 else []), "episodes", "mean return", "std", "min", "max", "mean length"):
        table.add_column(title, justify="right")
    for name, each in found.items():
        values, mean = each.returns, each.mean_return
        numbers = (mean, statistics.pstdev(values), min(values), max(values), each.mean_length) if values else ()
        row = (name, str(each.count), *(f"{number:.1f}" for number in numbers))
        table.add_row(*(row if len(found) > 1 else row[1:]))
    Output(highlight=False, markup=False).print(table)
    if video is not None:
        typer.echo(film(Asked(run, best, env, model), video, seed=seed, deterministic=deterministic is not False))


def film(asked: Asked, path: Path, *, seed: int, deterministic: bool) -> str:
    """Film an episode. Returns what was written, in a sentence."""
    from tflow.commands.targets import Lone, found
    from tflow.rl.rollout.video import check_video, record_episode, write_video

    check_video(path)
    target = found(asked)
    if not isinstance(target, Lone):
        raise PlanError(
            "A video shows one policy that acts alone; here are several, or one that adapts to tasks. Leave out --video."
        )
    recording = record_episode(target.policy(), target.env, seed=seed, deterministic=deterministic)
    write_video(recording, path)
    return f"{path}: an episode of {recording.length:,} steps, return {recording.episode_return:.1f}."


def evaluate_asked(asked: Asked, *, episodes: int, seed: int = 0, deterministic: bool | None = None) -> dict[str, Episodes]:
    """Evaluate the policy that is asked for; by policy or phase if there are several."""
    from tflow.commands.targets import Lone, found
    from tflow.rl.rollout.evaluate import evaluate as evaluate_policy

    target = found(asked)
    if isinstance(target, Lone):
        acts = True if deterministic is None else deterministic
        return {"": evaluate_policy(target.policy(), target.env, episodes=episodes, seed=seed, deterministic=acts)}
    return episodes_of(target.spec, target.files, episodes=episodes, seed=seed, deterministic=deterministic)


def episodes_of(
    spec: WorkerSpec, files: dict[str, Path], *, episodes: int, seed: int, deterministic: bool | None
) -> dict[str, Episodes]:
    """Evaluate weights from files with one worker."""
    from tflow.commands.targets import load_from_run
    from tflow.rl.policy.weights import Weights
    from tflow.rl.rollout.evaluate import MOST_ENVS
    from tflow.rl.rollout.worker import SingleWorker
    from tflow.types import Shard

    adapts = any(loss.adapts for loss in spec.losses.values())
    if adapts and deterministic:
        raise PlanError("A policy that adapts to tasks learns from actions that are sampled. Leave out --deterministic.")
    num = spec.num_envs if adapts else min(MOST_ENVS, episodes)
    worker = replace(spec, num_envs=num, explore=adapts, episodes=episodes)(Shard("evaluation", 0, 1, 0, seed))
    worker.deterministic = deterministic is not False
    try:
        for name, file in files.items():
            agent = spec.agents[name]
            policy = load_from_run(file, agent.loss.policy(), agent.model, model=agent.model)
            if policy.flat.get().shape != worker.policies[name].flat.get().shape:
                raise PlanError(f"{str(file)!r} does not fit {spec.env.name} and the model of its run: {policy}.")
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
