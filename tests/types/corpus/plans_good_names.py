"""Right plans again: names that streams get, looks that consume nothing, and programs that run more than one plan."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pytest
from typing_extensions import assert_type
from world import (
    ApplyGradients,
    ComputeGradients,
    Gradients,
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

from tflow import (
    Async,
    Iter,
    LocalRuntime,
    ParIter,
    Plan,
    PlanError,
    Sync,
    Union,
    flow,
    from_actors,
    from_items,
    from_range,
    plan,
)

if TYPE_CHECKING:
    from tflow import Actors

try:
    from tflow import RayRuntime as Usual
except ImportError:
    from tflow import LocalRuntime as Usual  # type: ignore[assignment]  # either has what this program needs

log = logging.getLogger(__name__)


def double(number: int) -> int:
    return 2 * number


def useful(rollout: Rollout) -> bool:
    return rollout is not None


# --------------------------------------------------------------------------- looked at, and moved


@flow
def looked_at(stream: Iter[Rollout]) -> Iter[Rollout]:
    print(stream, repr(stream), str(stream), sep="\n")
    log.info("built %s", stream)
    title = f"{stream} and {stream!r}"
    assert_type(stream, Iter[Rollout, Async])
    assert stream is not None, title
    assert hash(stream) or stream.fingerprint or stream.node or stream.deterministic
    stream.validate()
    return stream.filter(useful)


@flow
def named_on_the_way(shards: ParIter[Rollout]) -> Iter[TrainStats]:
    if (stream := shards.gather_async()).deterministic:
        log.info("%s", stream)
    return (kept := stream.filter(useful)).named(f"{type(kept)}").for_each(OffPolicyStep())


@flow
def named_inside_a_call(few: Iter[int], many: Iter[int]) -> Iter[int]:
    return Union(small := few.take(3), large := many.take(30), weights=[1, 2 if small is not large else 1])


@flow
def moved(stream: Iter[int]) -> Iter[int]:
    numbers = stream
    result = numbers
    return result.map(double)


@flow
def moved_on_one_path(stream: Iter[int], quick: bool) -> Iter[int]:
    result = stream
    if quick:
        result = result.take(3)
    return result


@flow
def swapped(left: Iter[int], right: Iter[str]) -> Iter[tuple[str, int]]:
    first, second = right, left
    return first.zip(second)


@flow
def exchanged(left: Iter[int], right: Iter[int]) -> Iter[tuple[int, int]]:
    left, right = right, left
    return left.zip(right)


@flow
def let_go(stream: Iter[int]) -> Iter[int]:
    doubled = stream.map(double)
    del stream
    return doubled


@flow
def cast_on_the_way(stream: Iter[object]) -> Iter[int]:
    numbers = cast("Iter[int]", stream)
    return numbers.map(double)


@flow
def not_wanted(stream: Iter[int], _spare: Iter[int]) -> Iter[int]:
    _unused = from_range(3)
    kept, _ = stream.take(2), from_range(2)
    return kept


@flow
def renamed_generic(stream: Iter[T], times: int) -> Iter[T]:
    result = stream
    for number in range(times):
        result = result.named(f"turn {number}")
    return result


@flow
def grads_of(shards: ParIter[Rollout]) -> Iter[Gradients]:
    grads = shards.par_for_each(ComputeGradients())
    grads = grads.par_filter(lambda each: each is not None)
    return grads.gather_async()


@flow
def through_any(stream: Iter[int], untyped: Any) -> Iter[int]:  # Any: what a library without types gives
    """What happens to a stream in code without types is not known, so nothing is said of it."""
    result: Iter[int] = untyped.wrapped(stream)
    return result


@flow
def seen_and_kept(stream: Iter[int], seen: dict[str, object]) -> Iter[int]:
    seen["built"] = str(stream)
    seen.setdefault("fingerprint", stream.fingerprint)
    return stream


@flow
def later(stream: Iter[int]) -> Callable[[], Iter[int]]:
    """The stream is consumed when the function is called."""

    def build() -> Iter[int]:
        return stream.map(double)

    return build


@flow
def much_later(stream: Iter[int]) -> Callable[[int], Iter[int]]:
    return lambda count: stream.take(count)


def not_a_flow(stream: Iter[int], seen: list[Iter[int]]) -> None:
    """It keeps what it is given; nothing says that it builds a plan."""
    seen.append(stream)


def counted(streams: list[Iter[int]]) -> int:
    return len(streams)


# --------------------------------------------------------------------------- several plans over one stream

numbers = from_range(3)
doubled = numbers.map(double)
halves = numbers.map(lambda number: number / 2)
spare = numbers.take(2)
numbers.take(1)


def program() -> None:
    stream = from_actors(workers, Worker.sample).gather_async()
    stats = stream.for_each(OffPolicyStep())
    with Usual() as session, stats.run(runtime=session) as run:
        print(next(run))
    print(stats, len(list(stream.take(3).run())))


def test_the_same_stream_runs_again() -> None:
    stream = from_range(5)
    assert list(stream.map(double).run()) == list(stream.map(double).run())
    assert list(stream.run()) == list(stream.run(seed=1))


def test_two_plans_over_one_stream() -> None:
    stream = from_range(5)
    evens, odds = stream.filter(lambda x: x % 2 == 0), stream.filter(bool)
    assert list(evens.run()) != list(odds.run())
    for count in range(3):
        assert len(list(stream.take(count).run())) == count


def test_refuses() -> None:
    stream = from_range(5)
    with pytest.raises(PlanError, match="at least 1"):
        stream.batch(int("0"))
    with pytest.raises(PlanError):
        stream.split(len([]))
    with pytest.raises(AttributeError):
        stream.node = stream.node
    stream.batch(2)


def test_on_a_runtime() -> None:
    stream = from_items(["a", "b"])
    shards = from_actors(workers, Worker.sample)
    shards.gather_sync().validate()
    shards.gather_async().validate()
    with LocalRuntime() as session:
        assert [list(stream.run(runtime=session)) for _ in range(2)]


def compared(stream: Iter[int], shards: ParIter[Rollout]) -> bool:
    """It returns no stream and has no mark."""
    return str(stream.map(double)) == str(stream.map(double)) and bool(shards.gather_sync().node and shards.node)


@flow
def peeked_at(stream: Iter[int]) -> Iter[int]:
    """A chain that is run on the spot is a plan of its own."""
    first = next(stream.take(1).run())
    total = sum(stream.run())
    return stream.map(lambda number: number + first + total)


@plan
def tried_out() -> Plan[Metrics]:
    stream = from_actors(workers, Worker.sample).gather_sync()
    print(list(stream.take(2).run()))
    return Report(stream.for_each(OnPolicyStep()), workers)


def types(stream: Iter[Rollout, Sync], others: Actors[Worker]) -> None:
    """What checkers know of each is asked for; nothing is built."""
    assert_type(stream.for_each(OffPolicyStep()), Iter[TrainStats, Sync])
    assert_type(stream.for_each(OnPolicyStep()), Iter[TrainStats, Sync])
    assert_type(from_actors(others, Worker.sample).par_for_each(ComputeGradients()), ParIter[Gradients, Sync, Worker])
    assert_type(ApplyGradients(others), ApplyGradients)
    assert_type(learner.num, int)
