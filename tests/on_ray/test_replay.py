"""Asynchronous runs on Ray, with processes that die, repeated in this process: the same metrics and weights, bit for bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.algos.test_algorithms import SMALL
from tests.laws.world import ray_session
from tests.on_ray.test_resume import process
from tflow.algos.training_run import COMPARE_EVERY, Stop
from tflow.combinators import graph
from tflow.runtime.recording import ReplayRuntime

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("bounded")]


@pytest.mark.parametrize("name", ["A3C", "IMPALA", "ApeX", "SAC"])
def test_a_run_with_a_death_is_repeated(name: str, tmp_path: Path) -> None:
    path, found, again = tmp_path / "recording.txt", [], []
    with ray_session() as session:
        run = SMALL[name].run(runtime=session, seed=3, record=path, eval_every=200, eval_episodes=2, stop=Stop(updates=120))
        for metrics in run:
            found.append({key: value for key, value in metrics.flat().items() if not key.startswith("busy/")})
            if len(found) == 30:
                os.kill(run.run.ask(run.workers, process)[0], signal.SIGKILL)
        weights = run.policy().flat.get()
    with ReplayRuntime(path) as replay:
        run = SMALL[name].run(runtime=replay, seed=3, eval_every=200, eval_episodes=2, stop=Stop(updates=120))
        again = [{key: value for key, value in each.flat().items() if not key.startswith("busy/")} for each in run]
    assert [str(each) for each in again[:-1]] == [str(each) for each in found[:-1]]  # the last has the final evaluation
    assert run.policy().flat.get().tobytes() == weights.tobytes()
    assert replay.compared == -(-len(found) // COMPARE_EVERY)
    assert any("!" in line for line in path.read_text().splitlines()), "somebody died"


@pytest.mark.parametrize(("name", "dies"), [("IMPALA", "learner"), ("ApeX", "learner"), ("ApeX", "replay")])
def test_an_actor_that_was_restored_is_restored_again(name: str, dies: str, tmp_path: Path) -> None:
    path, found = tmp_path / "recording.txt", 0
    with ray_session() as session:
        run = SMALL[name].run(runtime=session, seed=3, record=path, stop=Stop(updates=120))
        for _ in run:
            found += 1
            if found in (20, 60):
                run.save(tmp_path / "saved")
            if found == 40:
                named = {actors.name: actors for actors in graph.actors_in(run.run.plan.node)}
                os.kill(run.run.ask(named[dies], process)[0], signal.SIGKILL)
        weights = run.policy().flat.get()
    lines = path.read_text().splitlines()
    assert any(line.startswith(f"r {dies}") for line in lines), "it died"
    assert sum(line.startswith("k ") for line in lines) == 2
    with ReplayRuntime(path) as replay:
        run = SMALL[name].run(runtime=replay, seed=3, stop=Stop(updates=120))
        run.finish()
    assert run.policy().flat.get().tobytes() == weights.tobytes()


def test_from_the_command_line_processes_choose_the_same_kernels(tmp_path: Path) -> None:
    """Initial weights and training depend on the threads that libraries were started with; nobody needs to know."""
    surroundings = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    train = ("train", "impala", "--runtime", "ray", "--workers", "1", "--stop-steps", "3000", "--out", "run", "--plain")
    for words in (train, ("replay", "run")):
        done = subprocess.run(
            [sys.executable, "-m", "tflow.cli", *words],
            cwd=tmp_path,
            env=surroundings,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert "hashes of the weights agree" in done.stdout
