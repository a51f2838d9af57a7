"""Right code about which mypy is not content, for lack of knowledge, and mistakes that look much like it."""

from __future__ import annotations

from pathlib import Path

from tests.checking.support import run, write
from tests.checking.test_notebooks import as_notebook

RIGHT = """
from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from tflow import (
    ApplyGradients, Batch, ComputeAdvantages, ComputeGradients, Iter, Metrics, ParallelReplay, ParallelRollouts, Plan,
    ReportMetrics, Rollout, StoreToBuffer, Sync, TrainOneStep, Union, create_replay_actors, create_rollout_workers,
    from_items, par_from_iterables,
)
from tflow.actors import AnyWorkers
from tflow.algos import PPO
from tflow.losses import A3CLoss, DQNLoss, PPOLoss
from tflow.rl.envs.samples import MultiCartPole

SETTINGS = {"num_envs": 4, "fragment": 16}
COMMON = {"num_workers": 2, "num_envs": 2}


def options() -> Plan[Metrics]:
    return replace(PPO(**SETTINGS), **{"gamma": 0.9}).plan()


def of_workers() -> AnyWorkers:
    return create_rollout_workers(env="CartPole-v1", loss=A3CLoss(), **COMMON)


def losses_in_a_variable() -> AnyWorkers:
    losses = {"ppo": PPOLoss(), "dqn": DQNLoss()}
    return create_rollout_workers(env=MultiCartPole, losses=losses, policy_of=lambda agent: "ppo")


def scaled(stream: Iter[float]) -> Iter[float]:
    for k in (1.0, 2.0):
        stream = stream.map(lambda item, k=k: item * k)
    for fn in (abs, math.sqrt, math.floor):
        stream = stream.map(fn).map(float)
    return stream


def collected() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=DQNLoss())
    replay = create_replay_actors(capacity=5_000, batch=32, min_size=200)
    flows = []
    flows.append(ParallelRollouts(workers).gather_async().for_each(StoreToBuffer(replay)).drain())
    flows.append(ParallelReplay(replay).gather_async().for_each(TrainOneStep(workers)))
    return ReportMetrics(Union(*flows), workers)


def noise() -> list[float]:
    return [1.0]


def of_two_kinds() -> Iter[float]:
    return par_from_iterables([noise, noise, [1.0]]).gather_sync()


def narrower(stream: Iter[Rollout, Sync]) -> None:
    wanted: Iter[Batch[Literal["obs", "advantages"]], Sync] = stream.with_columns(ComputeAdvantages())
    print(wanted)

def under_names() -> dict[str, Plan[Metrics]]:
    found = {}
    for name in ("CartPole-v1", "Acrobot-v1"):
        workers = create_rollout_workers(env=name, loss=A3CLoss())
        stats = ParallelRollouts(workers).par_for_each(ComputeGradients()).gather_async().for_each(ApplyGradients(workers))
        found[name] = ReportMetrics(stats, workers)
    return found


def unions(left: Iter[int, Sync], right: Iter[int, Sync]) -> list[Iter[int]]:
    out = []
    out.append(Union(left, right))
    return out


def all_of(streams: list[Iter[int]]) -> Iter[int]:
    return Union(*streams)


def given_on(left: Iter[int], right: Iter[int]) -> Iter[int]:
    made = [left.map(abs).zip(right).map(sum), Union(from_items([1]), from_items([2]))]
    both = [Union(from_items([1]), from_items([2]))]
    kept: list[Iter[int]] = both
    return Union(all_of(both), all_of(kept), *made)


def of_a_pair(stream: Iter[float]) -> Iter[float]:
    left, right = (branch.map(fn) for branch, fn in zip(stream.split(), (abs, math.sqrt)))
    return Union(left, right)


try:
    import wandb
except ImportError:
    wandb = None

try:
    import tomllib
    from tomllib import loads
except (ImportError, AttributeError):
    import json as tomllib

    def loads(text: str) -> None:
        print(text)
"""

WRONG = """
import math

from tflow import Iter, Metrics, Plan, from_items
from tflow.algos import PPO

SETTINGS = {"num_envs": 0, "fragment": 16}


def refused() -> Plan[Metrics]:
    return PPO(**SETTINGS).plan()  # 11


def text(item: str) -> str:
    return item


def of_another_type() -> Iter[str]:
    return from_items([1]).map(text)  # 19


def annotated() -> list[Iter[str]]:
    found: list[Iter[str]] = []
    found.append(from_items([1]))  # 24
    return found


def others() -> list[Iter[str]]:
    out = []
    out.append(from_items([1]))
    return out  # 31


try:
    import wandb
except ImportError:
    print(math.sqrt("x"))  # 37


try:
    from tflow import Unions  # 41
except ImportError:
    from tflow import Onion  # 43
"""


def test_what_mypy_does_not_know_is_no_mistake(project: Path) -> None:
    write(project, {"right.py": RIGHT})
    done = run("right.py", cwd=project)
    assert (done.returncode, done.stdout) == (0, "No findings in 1 file\n")


def test_mistakes_of_the_same_kind_are_found(project: Path) -> None:
    write(project, {"wrong.py": WRONG})
    lines = [line.split(":")[1] for line in run("wrong.py", cwd=project).stdout.splitlines() if line.startswith("wrong.py:")]
    assert lines == ["11", "19", "24", "31", "37", "41", "43"]


JOINED = """
from tflow import create_rollout_workers
from tflow.algos import PPO
from tflow.losses import A3CLoss, DQNLoss, PPOLoss
from tflow.rl.envs.samples import MultiCartPole
from tflow.schedules import Linear

LOSSES = {"ppo": PPOLoss(), "dqn": DQNLoss()}


def several() -> object:
    return create_rollout_workers(env=MultiCartPole, losses=LOSSES, policy_of=lambda agent: "ppo")


def one_of(name: str) -> object:
    losses = {"ppo": PPOLoss(), "a3c": A3CLoss()}
    return create_rollout_workers(env="CartPole-v1", loss=losses[name])


def rates(name: str) -> PPO:
    known = {"constant": 1e-3, "linear": Linear(1e-3, 0.0)}
    return PPO(lr=known[name])


def said(rate: object) -> PPO:
    return PPO(lr=rate)  # 26
"""


def test_what_members_have_in_common_is_no_mistake_beside_an_object(project: Path) -> None:
    write(project, {"joined.py": JOINED})
    lines = [line.split(":")[1] for line in run("joined.py", cwd=project).stdout.splitlines() if line.startswith("joined.py:")]
    assert lines == ["26"]


HIDDEN = """
import math


def need(number: int) -> None: ...


def grown() -> None:
    out = []
    out.append(1.0)
    out.append(math.sqrt("x"))  # 11


def load() -> list[int]:
    return [1]


def of_a_type() -> None:
    rows = load()
    rows.append("word")  # 20


def of_anything(given: object) -> None:
    need(given)  # 24
"""


def test_plain_mistakes_are_shown(project: Path) -> None:
    write(project, {"plain.py": HIDDEN})
    lines = [line.split(":")[1] for line in run("plain.py", cwd=project).stdout.splitlines() if line.startswith("plain.py:")]
    assert lines == ["11", "20", "24"]


def test_calls_in_notebooks_are_seen(project: Path) -> None:
    write(project, {"right.ipynb": as_notebook(*RIGHT.split("\n\n\n")), "plain.ipynb": as_notebook(*HIDDEN.split("\n\n\n"))})
    done = run("right.ipynb", cwd=project)
    assert (done.returncode, done.stdout) == (0, "No findings in 1 file\n")
    lines = [line.split(":") for line in run("plain.ipynb", cwd=project).stdout.splitlines() if line.startswith("plain.ipynb:")]
    assert [line[1:3] for line in lines] == [["cell 4", "4"], ["cell 6", "3"], ["cell 7", "2"]]
