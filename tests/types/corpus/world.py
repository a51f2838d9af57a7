"""A tiny typed world that the corpus composes: elements, actors and operators of every kind."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import TypeVar

from tflow import (
    ActorOp, Actors, Async, create_actor, create_actors, Live, LiveOp, Plan, Shard, Stateful, Stateless, Sync,
)
from tflow.types import OnActor, StatefulActorOp
from tflow import Iter as Iter


class Rollout: ...


class LongRollout(Rollout): ...


class Gradients: ...


class TrainStats: ...


class Metrics: ...


class Worker:
    def __init__(self, shard: Shard) -> None:
        self.shard = shard

    def sample(self) -> Rollout:
        return Rollout()

    def set_weights(self, weights: list[float]) -> None:
        self.weights = weights


class LongWorker(Worker): ...


class Learner:
    def __init__(self, shard: Shard) -> None:
        self.shard = shard


workers = create_actors(Worker, num=2)
learner = create_actor(Learner)
T = TypeVar("T")


class ComputeGradients(ActorOp[Worker, Rollout, Gradients]):
    """Only inside a rollout actor."""

    def apply(self, actor: Worker, item: Rollout, /) -> Gradients:
        return Gradients()


@dataclass(frozen=True)
class ApplyGradients(LiveOp[Gradients, TrainStats]):
    """Only on the driver."""

    workers: Actors[Worker]

    def apply(self, live: Live, item: Gradients, /) -> TrainStats:
        live[self.workers].advance()
        live[self.workers].update(Worker.set_weights, [1.0])
        return TrainStats()


class OnPolicyStep(Stateless[Rollout, TrainStats, Sync]):
    """Only behind a barrier."""

    def apply(self, item: Rollout, /) -> TrainStats:
        return TrainStats()


class OffPolicyStep(Stateless[Rollout, TrainStats, Async]):
    """Anywhere on the driver."""

    def apply(self, item: Rollout, /) -> TrainStats:
        return TrainStats()


class LearnerStep(ActorOp[Learner, Rollout, TrainStats]):
    """Only in an actor that is handed items."""

    def apply(self, actor: Learner, item: Rollout, /) -> TrainStats:
        return TrainStats()


class Length(Stateless[Rollout, int]):
    """Anywhere at all."""

    def apply(self, item: Rollout, /) -> int:
        return 1


class First(Stateless[list[T], T]):
    """Generic."""

    def apply(self, item: list[T], /) -> T:
        return item[0]


class Count(Stateful[object, int, int]):
    """Has state."""

    def init(self) -> int:
        return 0

    def step(self, state: int, item: object, /) -> tuple[int, int]:
        return state + 1, state + 1


class CountOnActor(StatefulActorOp[Worker, Rollout, int, int]):
    """Has state, beside its actor."""

    def init(self) -> int:
        return 0

    def step(self, actor: Worker, state: int, item: Rollout, /) -> tuple[int, int]:
        return state + 1, state + 1


class Report(Plan[Metrics]):
    """Ends a plan."""

    def __init__(self, stream: Iter[TrainStats], actors: Actors[Worker]) -> None:
        super().__init__(stream.node)
