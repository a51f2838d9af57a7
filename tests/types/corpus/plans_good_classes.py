"""Right plans in classes, and the exact types of unions and splits of every size."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar, overload

from typing_extensions import Self, assert_type, override
from world import (
    ApplyGradients,
    ComputeGradients,
    Gradients,
    LearnerStep,
    Metrics,
    OffPolicyStep,
    OnPolicyStep,
    Report,
    Rollout,
    T,
    TrainStats,
    Worker,
    learner,
    workers,
)

from tflow import Actors, Async, Iter, ParIter, Plan, Sync, Union, create_actors, flow, from_actors, from_range, plan

F = TypeVar("F", bound=Callable[..., object])


def noted(fn: F) -> F:
    """A decorator of a user."""
    return fn


class Trainer:
    """Methods of every kind that build plans."""

    size: ClassVar[int] = 4

    def __init__(self, pool: Actors[Worker]) -> None:
        self.pool = pool
        self.lock = threading.Lock()
        self.scale = 2
        self.streams: list[Iter[int]] = []

    @plan
    def plan(self) -> Plan[Metrics]:
        stats = self.trained(self.rollouts.gather_async())
        return Report(stats, self.pool)

    @flow
    def trained(self, stream: Iter[Rollout]) -> Iter[TrainStats]:
        with self.lock:
            return stream.for_each(OffPolicyStep())

    @property
    def rollouts(self) -> ParIter[Rollout]:
        return from_actors(self.pool, Worker.sample)

    @cached_property
    def batches(self) -> Iter[list[Rollout]]:
        return self.rollouts.gather_sync().batch(self.size)

    @classmethod
    @flow
    def counted(cls, stream: Iter[T]) -> Iter[list[T]]:
        return stream.batch(cls.size)

    @staticmethod
    @flow
    def doubled(stream: Iter[int]) -> Iter[int]:
        return stream.map(lambda number: 2 * number)

    @classmethod
    def of_size(cls, num: int) -> Self:
        return cls(create_actors(Worker, num=num))

    @flow
    def keeps(self, stream: Iter[int]) -> None:
        """What is put into a field is somebody else's."""
        self.streams.append(stream)

    @flow
    def scaled(self, shards: ParIter[int]) -> Iter[int]:
        """A number is taken out of the object, which stays."""
        scale = self.scale
        return shards.par_map(lambda number: number * scale).gather_sync()

    def __call__(self, stream: Iter[int]) -> Iter[int]:
        return Union(*self.streams, stream) if self.streams else stream

    def __iter__(self) -> Iterator[Iter[int]]:
        for stream in self.streams:
            yield stream


class Careful(Trainer):
    @override
    @flow
    def trained(self, stream: Iter[Rollout]) -> Iter[TrainStats]:
        return super().trained(stream.filter(lambda rollout: rollout is not None))

    @noted
    @flow
    @noted
    def decorated(self, stream: Iter[Rollout, Sync]) -> Iter[TrainStats]:
        return stream.call(learner, LearnerStep())


class Algorithm(ABC):
    """What has no body consumes nothing, and owes nothing."""

    @abstractmethod
    @flow
    def step(self, stream: Iter[Rollout]) -> Iter[TrainStats]: ...

    @flow
    def prepare(self, stream: Iter[Rollout]) -> Iter[Rollout]:
        """To be overridden."""
        raise NotImplementedError

    @plan
    def plan(self) -> Plan[Metrics]:
        return Report(self.step(self.prepare(from_actors(workers, Worker.sample).gather_async())), workers)


class Flow(Protocol):
    """A part of a plan as a value."""

    def __call__(self, stream: Iter[Rollout], /) -> Iter[TrainStats]: ...


@flow
def composed(stream: Iter[Rollout], build: Flow) -> Iter[TrainStats]:
    return build(stream)


@overload
def wrapped(item: int) -> Iter[int]: ...
@overload
def wrapped(item: Iter[int]) -> Iter[int]: ...
def wrapped(item: int | Iter[int]) -> Iter[int]:
    return from_range(item) if isinstance(item, int) else item


# --------------------------------------------------------------------------- streams in objects


@dataclass(frozen=True)
class Pair(Generic[T]):
    left: Iter[T]
    right: Iter[T]
    spare: Iter[T] | None = None

    def joined(self) -> Iter[T]:
        return Union(self.left, self.right)

    @classmethod
    def of(cls, stream: Iter[T]) -> Pair[T]:
        left, right = stream.split()
        return cls(left, right)


class Named(NamedTuple):
    name: str
    stream: Iter[int]


@dataclass
class Builder:
    """A fluent builder: each call adds a source."""

    found: list[Iter[int]] = field(default_factory=list)

    def add(self, stream: Iter[int]) -> Builder:
        self.found.append(stream)
        return self

    def build(self) -> Iter[int]:
        return Union(*self.found)


@flow
def through_an_object(stream: Iter[int]) -> Iter[int]:
    pair = Pair.of(stream)
    return Pair(pair.left.take(1), pair.right).joined()


@flow
def through_a_named_tuple(stream: Iter[int]) -> Iter[int]:
    name, found = Named("numbers", stream)
    return found.named(name)


@flow
def through_a_builder(stream: Iter[int], other: Iter[int]) -> Iter[int]:
    return Builder().add(stream).add(other.take(3)).build()


@flow
def through_a_field(stream: Iter[int], builder: Builder) -> None:
    builder.found = [stream]


@flow
def through_a_partial(stream: Iter[Rollout], build: Flow) -> Iter[TrainStats]:
    later = partial(composed, stream, build)
    return later()


# --------------------------------------------------------------------------- exact types


@flow
def split_of_one(s: Iter[int, Sync]) -> Iter[int]:
    (a,) = s.split(1)
    assert_type(a, Iter[int, Sync])
    return a


@flow
def split_of_two(s: ParIter[int]) -> Iter[int]:
    a, b = s.split()
    assert_type(b, Iter[int, Sync])
    return Union(a, b)


@flow
def split_of_three(s: Iter[int]) -> Iter[int | str]:
    a, b, c = s.split(3)
    found = Union(a, b, c.map(str))
    assert_type(found, Union[int | str])
    return found


@flow
def split_of_four(s: Iter[int, Sync]) -> Iter[int]:
    a, b, c, d = s.split(4, max_lag=2)
    assert_type(d, Iter[int, Async])
    return Union(a, b, c, d)


@flow
def split_of_five(s: Iter[int]) -> Iter[int | float]:
    a, b, c, d, e = s.split(5)
    return Union(a, b, c, d, e.map(float), weights=[1, 1, 1, 1, 2])


@flow
def split_of_six(s: Iter[int]) -> Iter[int]:
    a, b, c, d, e, f = s.split(6)
    return Union(a, b, c, d, e, f, mode="round_robin")


@flow
def split_of_seven(s: ParIter[int]) -> Iter[int]:
    a, b, c, d, e, f, g = s.split(7)
    assert_type(g, Iter[int, Sync])
    return Union(a, b, c, d, e, f, g)


@flow
def split_of_eight(s: Iter[int]) -> Iter[int | str | bytes]:
    a, b, c, d, e, f, g, h = s.split(8)
    found = Union(a, b, c, d, e, f, g.map(str), h.map(lambda number: bytes(number)))
    assert_type(found, Union[int | str | bytes])
    return found


@flow
def split_of_many(s: Iter[int], n: int) -> Iter[int]:
    found = s.split(n)
    assert_type(found, tuple[Iter[int, Async], ...])
    return Union(*found)


def unions(a: Iter[int], b: Iter[str], c: Iter[bytes], d: Iter[float]) -> None:
    """Each is a plan of its own."""
    assert_type(Union(a), Union[int])
    assert_type(Union(a, b), Union[int | str])
    assert_type(Union(a, b, c), Union[int | str | bytes])
    assert_type(Union(a, b, c, d, weights=[1, 2, 3, 4]), Union[int | str | bytes | float])
    assert_type(Union(b, Union(c, d)), Union[str | bytes | float])


@plan
def synchronous() -> Plan[Metrics]:
    fresh = from_actors(workers, Worker.sample).gather_sync().for_each(OnPolicyStep())
    assert_type(fresh, Iter[TrainStats, Sync])
    return Report(fresh, workers)


@plan
def asynchronous() -> Plan[Metrics]:
    grads = from_actors(workers, Worker.sample).par_for_each(ComputeGradients())
    assert_type(grads, ParIter[Gradients, Sync, Worker])
    left, right = grads.gather_async().split()
    return Report(Union(left.for_each(ApplyGradients(workers)), right.drain()), workers)
