"""What checking plans costs: mypy with and without the plugin over generated projects, cold; and the daemon after an edit.

Each pair of runs is made side by side, and the best of several counts. torch, ray and gymnasium are skipped, as ``tflow check``
does. ``python -m benchmarks.check`` takes about six minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN = Path(sys.executable).parent
ROUNDS = 3
PLANS_PER_MODULE = 10
HEAD = """from __future__ import annotations

from tflow import (
    ApplyGradients, ComputeAdvantages, ComputeGradients, ConcatRounds, create_replay_actors,
    create_rollout_workers, flow, Iter, Metrics, ParallelReplay, ParallelRollouts, Plan, plan, ReportMetrics,
    Rollout, Select, StandardizeFields, StoreToBuffer, Sync, TrainOneStep, TrainStats, Union,
    UpdatePriorities, UpdateTargetNetwork, UpdateWeights,
)
from tflow.losses import A3CLoss, DQNLoss, PPOLoss
"""
PLANS = (
    """
@plan
def a3c_{n}() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss(), num_workers={n} + 1)
    grads = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async()
    return ReportMetrics(grads.for_each(ApplyGradients(workers)), workers)
""",
    """
@plan
def ppo_{n}(rows: int) -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=PPOLoss(), fragment=64)
    rounds = ConcatRounds(ParallelRollouts(workers).par_with_columns(ComputeAdvantages(gamma=0.99)).gather_rounds())
    standard = rounds.with_columns(StandardizeFields("advantages"))
    return ReportMetrics(standard.for_each(TrainOneStep(workers, epochs=4, minibatch=rows)), workers)
""",
    """
@plan
def apex_{n}() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=DQNLoss(), num_workers=4)
    replay = create_replay_actors(num_actors=2, batch=64)
    rollouts = ParallelRollouts(workers).gather_async(in_flight=2)
    stored = rollouts.for_each(StoreToBuffer(replay)).for_each(UpdateWeights(workers))
    replayed = ParallelReplay(replay).gather_async().for_each(UpdatePriorities(workers))
    trained = replayed.for_each(TrainOneStep(workers)).for_each(UpdateTargetNetwork(workers, every=100))
    return ReportMetrics(Union(stored.drain(), trained), workers)
""",
    """
@flow
def on_policy_{n}(stream: Iter[Rollout, Sync], verbose: bool) -> Iter[Rollout, Sync]:
    first, second = stream.split()
    if verbose:
        first = first.tap(print)
    shown = [each.filter(lambda rollout: len(rollout) > 0) for each in (first, second)]
    return shown[0]
""",
    """
@plan
def several_{n}() -> Plan[Metrics]:
    losses = {{"PPO": PPOLoss(), "other": PPOLoss()}}
    workers = create_rollout_workers(env="pursuit", losses=losses, policy_of=lambda agent: "PPO")
    r1, r2 = ParallelRollouts(workers).split()
    one = Select(r1, policy="PPO").with_columns(ComputeAdvantages()).for_each(TrainOneStep(workers, loss=PPOLoss()))
    two = Select(r2, policy="other").with_columns(ComputeAdvantages()).for_each(TrainOneStep(workers, loss=PPOLoss()))
    return ReportMetrics(Union(one, two), workers)
""",
)
CONFIG = """[mypy]
strict = True
follow_imports = skip
{plugin}
[mypy-tflow.*,numpy.*]
follow_imports = silent
"""


def project(folder: Path, plans: int) -> list[str]:
    """Modules with so many plans; none of them has a mistake."""
    names = []
    for start in range(0, plans, PLANS_PER_MODULE):
        name = f"plans_{start // PLANS_PER_MODULE}.py"
        numbers = range(start, min(plans, start + PLANS_PER_MODULE))
        (folder / name).write_text(HEAD + "\n".join(PLANS[n % len(PLANS)].format(n=n) for n in numbers))
        names.append(name)
    for kind, line in (("plain", ""), ("plugin", "plugins = tflow.mypy_plugin")):
        (folder / f"{kind}.ini").write_text(CONFIG.format(plugin=line))
    return names


def seconds(command: list[str], folder: Path) -> float:
    """How long a command takes that must find nothing; processor time, which other work on the machine disturbs less."""
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    after = os.times()
    return min(time.perf_counter() - began, sum(after[2:4]) - sum(before[2:4]))


def cold(folder: Path, names: list[str], kind: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        return seconds([str(BIN / "mypy"), "--config-file", f"{kind}.ini", "--cache-dir", cache, *names], folder)


def after_an_edit(folder: Path, names: list[str]) -> list[float]:
    """The daemon's time for each of several edits of one file, beyond that of a client that asks for nothing."""
    dmypy = [str(BIN / "dmypy"), "--status-file", str(folder / "dmypy.json")]
    ask = [*dmypy, "run", "--timeout", "900", "--", "--config-file", "plugin.ini", *names]
    try:
        seconds(ask, folder)
        found = []
        for turn in range(5):
            text = (folder / names[0]).read_text()
            (folder / names[0]).write_text(text.replace("num_workers=", f"name={'x' * (turn + 1)!r}, num_workers=", 1))
            began = time.perf_counter()
            subprocess.run(ask, cwd=folder, capture_output=True, check=True, timeout=900)
            found.append(time.perf_counter() - began)
            (folder / names[0]).write_text(text)
            subprocess.run(ask, cwd=folder, capture_output=True, check=True, timeout=900)
        return found
    finally:
        subprocess.run([*dmypy, "stop"], cwd=folder, capture_output=True, timeout=60)


def main() -> None:
    for plans in (20, 200, 1000):
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            names = project(folder, plans)
            times: dict[str, list[float]] = {"plain": [], "plugin": []}
            for _ in range(ROUNDS):
                for kind, found in times.items():
                    found.append(cold(folder, names, kind))
            plain, plugin = min(times["plain"]), min(times["plugin"])
            edits = after_an_edit(folder, names)
            print(
                f"{plans:5} plans: plain {plain:6.2f} s, with plugin {plugin:6.2f} s "
                f"(+{plugin - plain:.2f} s, {100 * (plugin / plain - 1):+.0f} %); after an edit, the daemon {min(edits):.2f} s"
            )


if __name__ == "__main__":
    main()
