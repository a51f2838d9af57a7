"""Right plans in which a value could be taken for one that is refused: it is tested, set again, or not the one that is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tflow import (
    create_learner, create_rollout_workers, flow, from_range, Iter, Metrics, ParallelRollouts, Plan, plan, Select,
    Union,
)
from tflow.actors import AnyWorkers
from tflow.algos import PPO
from tflow.envs import EnvSpec
from tflow.losses import PPOLoss

ROWS = 0
SIZE = 0


def set_size(size: int) -> None:
    global SIZE
    SIZE = size


def register(losses: dict[str, PPOLoss]) -> None:
    losses["hen"] = PPOLoss()


def by_number(agent: str) -> str:
    return "fox" if agent == "agent_0" else "hen"


@dataclass(frozen=True, kw_only=True)
class Clipped(PPO):
    """What the user does to its fields first is not known."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", min(self.gamma, 1.0))
        super().__post_init__()


@flow
def guarded(stream: Iter[int]) -> Iter[object]:
    if ROWS:
        return stream.batch(ROWS)
    return stream


@flow
def set_elsewhere(stream: Iter[int]) -> Iter[list[int]]:
    return stream.batch(SIZE)


@flow
def one_way(stream: Iter[int], small: bool) -> Iter[list[int]]:
    size = 0 if small else 4
    return stream.batch(size)


@flow
def not_every_turn() -> Iter[object]:
    return Union(*[from_range(4).batch(size) if size else from_range(4) for size in (1, 0)])


@flow
def matched(stream: Iter[int], given: int) -> Iter[list[int]]:
    size = 0
    match given:
        case 0:
            pass
        case size:
            pass
    return stream.batch(size)


@plan
def clipped() -> Plan[Metrics]:
    return Clipped(gamma=2.0).plan()


@plan
def given_to_a_function() -> Plan[Metrics]:
    options: dict[str, int] = {"num_envs": 0}
    raised(options)
    return PPO(num_envs=options["num_envs"]).plan()


def raised(options: dict[str, int]) -> None:
    options["num_envs"] += 1


@flow
def added_by_a_function() -> Iter[object]:
    losses = {"fox": PPOLoss()}
    register(losses)
    workers = create_rollout_workers(env="x", losses=losses, policy_of=by_number)
    return Select(ParallelRollouts(workers).gather_sync(), policy="hen")


@flow
def any_workers(workers: AnyWorkers, name: str, make: Callable[[int], None]) -> Iter[object]:
    learner = create_learner(workers, policy="fox")
    return from_range(1).tap(make).map(lambda item: (item, learner, name))


def native(num_envs: int) -> EnvSpec:
    return EnvSpec("CartPole-v1")


@flow
def by_itself(stream: Iter[int]) -> Iter[int]:
    for size in (0, 2):
        if size == 0:
            continue
        stream = stream.shuffle(size)
    return stream
