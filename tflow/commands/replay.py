"""``tflow replay``: repeats a recorded run in this process."""

from __future__ import annotations

import bdb
import os
import pdb
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tflow import loading
from tflow.algos.algorithm import Algorithm
from tflow.algos.training_run import TrainingRun, train
from tflow.combinators.runnable import Plan
from tflow.commands.choice import Choice, chosen
from tflow.commands.runs import THREADS
from tflow.errors import PlanError
from tflow.observe.folder import CONFIG
from tflow.observe.recordings import Recording, read_facts, recordings_in
from tflow.rl.metrics import Metrics

if TYPE_CHECKING:
    from tflow.runtime.recording import ReplayRuntime


def replay_run(folder: Path, until: int | None = None, *, plan: str | None = None, debugger: bool = False) -> list[str]:
    """Repeat a recorded run in this process, and say what was found, a sentence for each of its recordings.

    Args:
        folder: The run folder.
        until: Stop after so many env steps, in the recording that has them.
        plan: Another plan, ``FILE.py:NAME``, to run in the recorded order as far as that makes sense.
        debugger: Stop in the debugger at the end.
    """
    recordings = recordings_in(folder)
    if not recordings:
        raise PlanError(f"{folder} has no recording.txt: it was not recorded. tflow train --record does so.")
    same_kernels_as(recordings[0].path)
    if until is not None:
        recordings = [each for each in recordings if each.env_steps < until][-1:] or recordings[:1]
    choice = chosen([], {}, folder / CONFIG)
    return [_replayed(choice, each, until, plan, debugger=debugger) for each in recordings]


def same_kernels_as(recording: Path) -> None:
    """Let libraries under torch choose their kernels as they did in the recorded run."""
    threads = read_facts(recording).get(THREADS)
    if "torch" in sys.modules:
        return  # they have chosen
    if threads is None:
        os.environ.pop(THREADS, None)
    else:
        os.environ[THREADS] = str(threads)


def _replayed(choice: Choice, recording: Recording, until: int | None, plan: str | None, *, debugger: bool) -> str:
    from tflow.runtime.recording import Differs, ReplayRuntime

    with ReplayRuntime(recording.path, any_plan=plan is not None) as session:
        run, ended = _run_of(choice, recording, session, plan), ""
        with run, suppress(bdb.BdbQuit):
            try:
                while session.events and (until is None or run.metrics is None or run.metrics.env_steps < until):
                    if next(run, None) is None:
                        break
            except Differs as difference:
                if plan is None:
                    raise
                ended = f" Then its way parts: {difference}"
            if debugger:
                pdb.set_trace()  # that is what was asked for: run and session are here
    steps = 0 if run.metrics is None else run.metrics.env_steps
    done = f"Repeated {session.read:,} events, {steps:,} env steps"
    if plan is not None:
        returns = "" if run.metrics is None else f", mean return {run.metrics.mean_return:.1f}"
        return f"{done} with {plan}{returns}.{ended}"
    return f"{done}: the same answers in the same order, and {session.compared} hashes of the weights agree."


def _run_of(choice: Choice, recording: Recording, session: ReplayRuntime, plan: str | None) -> TrainingRun:
    return train(
        choice.algorithm.plan() if plan is None else _plan_called(plan),
        eval_every=choice.eval_every,
        eval_episodes=choice.run.eval_episodes,
        runtime=session,
        seed=choice.run.seed,
        start_from=choice.run.start_from if recording.checkpoint is None else None,
        resume=recording.checkpoint,
    )


def _plan_called(name: str) -> Plan[Metrics]:
    """A plan of one's own, or what an algorithm, or a function without arguments, makes."""
    found = loading.find(name)
    made = found.plan() if isinstance(found, Algorithm) else found() if callable(found) else found
    made = made.plan() if isinstance(made, Algorithm) else made
    if not isinstance(made, Plan):
        raise PlanError(f"--plan: {name} must be a plan, an algorithm such as PPO(...), or a function that makes one.")
    return made
