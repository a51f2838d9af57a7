"""Plans that work are not refused at run time, however their types are written; and what no annotation tells is no mistake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Generic, Optional, TypeVar, cast

import numpy as np
import pytest

from tflow import (
    ActorOp,
    Iter,
    Live,
    LiveOp,
    PlanError,
    Shard,
    Stateless,
    Sync,
    create_actors,
    from_actors,
    from_items,
    from_range,
)

T = TypeVar("T")
Obs = TypeVar("Obs")


class Step: ...


class Episode(Generic[Obs]):
    """A generic whose argument is not its element."""

    def __iter__(self) -> Iterator[Step]:
        return iter([Step()])


def episode(n: int) -> Episode[str]:
    return Episode()


def optional_first(n: int) -> int | None:
    return n


def pair(n: int) -> tuple[int, str]:
    return n, "x"


def listed(total: list[int], item: int) -> tuple[int, ...]:
    return (*total, item)


def broken(n: int) -> np.no_such_name:  # type: ignore[name-defined]  # on purpose
    return n


class OfStep(Stateless[Step, Step]):
    def apply(self, item: Step, /) -> Step:
        return item


class Positive(Stateless[Annotated[int, "above 0"], int]):
    def apply(self, item: int, /) -> int:
        return item


class OfInt(Stateless[int, int]):
    def apply(self, item: int, /) -> int:
        return item


class OfFloat(Stateless[float, float]):
    def apply(self, item: float, /) -> float:
        return item


class FirstOf(Stateless[Iterable[T], T]):
    def apply(self, item: Iterable[T], /) -> T:
        return next(iter(item))


class Required(Stateless[Optional[T], T]):  # noqa: UP045  # written as some do
    def apply(self, item: T | None, /) -> T:
        assert item is not None
        return item


class OfTuple(Stateless[tuple[int, ...], int]):
    def apply(self, item: tuple[int, ...], /) -> int:
        return len(item)


class OfIntOrStr(Stateless[int | str, str]):
    def apply(self, item: int | str, /) -> str:
        return str(item)


class BesideAny(ActorOp[Any, int, int]):  # Any: works beside everything
    def apply(self, actor: Any, item: int, /) -> int:  # Any: works beside everything
        return item


class Worker:
    element = str

    def __init__(self, shard: Shard) -> None: ...

    def sample(self) -> int:
        return 1


def make_any(shard: Shard) -> Any:  # Any: says nothing of what it makes
    return Worker(shard)


three = from_range(3)
ACCEPTED: dict[str, Iter[object]] = {
    "flatten of a generic that is no container": three.map(episode).flatten().for_each(OfStep()),
    "flat_map to a generic that is no container": three.flat_map(episode).for_each(OfStep()),
    "annotated": three.for_each(Positive()),
    "a generic operator over another generic": three.map(episode).for_each(FirstOf()).for_each(OfStep()),
    "a generic operator over a list": three.batch(2).for_each(FirstOf()).for_each(OfInt()),
    "optional, None first": three.map(optional_first).for_each(cast("Any", Required())).for_each(OfInt()),
    "members of a tuple": three.map(pair).flatten().for_each(cast("Any", OfIntOrStr())),
    "numpy integers": from_items(list(np.arange(1, 3))).for_each(cast("Any", OfInt())),
    "numpy floats": from_items(list(np.ones(2, dtype=np.float32))).for_each(cast("Any", OfFloat())),
    "scan to another type": three.scan(cast("Any", listed), ()).for_each(OfTuple()),
    "beside anything": from_actors(create_actors(Worker), Worker.sample).par_for_each(BesideAny()).gather_sync().take(2),
    "actors of unknown class": from_actors(create_actors(make_any), Worker.sample)
    .par_for_each(BesideAny())
    .gather_sync()
    .take(2),
    "numpy arguments": three.batch(cast("Any", np.int64(2))).flatten().take(cast("Any", np.int32(2))),
    "an annotation that cannot be evaluated": three.map(broken).for_each(OfInt()),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_good_plan_is_not_refused(name: str) -> None:
    assert len(list(ACCEPTED[name].run())) >= 2
    assert str(ACCEPTED[name])


class Mixed(Generic[T]):
    """Has nothing to do with operators."""


class Mix(Mixed[int]): ...


class OnPolicy(Stateless[int, int, Sync]):
    def apply(self, item: int, /) -> int:
        return item


class MixedIn(Mix, OnPolicy):
    """Its own bases say nothing of types; those of its parents do."""


class Untyped(LiveOp):  # type: ignore[type-arg]  # on purpose
    def apply(self, live: Live, item: object, /) -> object:
        return item


def test_types_are_found_through_mixins_and_kinds() -> None:
    shards = from_actors(create_actors(Worker), Worker.sample)
    with pytest.raises(PlanError, match=r"MixedIn.*needs a synchronous"):
        shards.gather_async().for_each(cast("Any", MixedIn())).validate()
    with pytest.raises(PlanError, match=r"Untyped.*must run on the driver"):
        shards.par_for_each(cast("Any", Untyped())).gather_sync().validate()
    with pytest.raises(PlanError, match=r"OnPolicy.*needs a synchronous"):
        shards.repartition(2).gather_sync().for_each(cast("Any", OnPolicy())).validate()
    with pytest.raises(PlanError, match=r"OnPolicy.*needs a synchronous"):
        shards.par_flat_map(lambda x: [x, x]).gather_sync().for_each(cast("Any", OnPolicy())).validate()
    shards.par_batch(2).par_map(len).gather_sync().for_each(OnPolicy()).validate()
