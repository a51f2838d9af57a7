"""Right plans in every statement of Python: no checker and no rule about streams may object to one of them.

A stream is consumed once on each path, whatever the path looks like.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Literal, assert_never

from world import (
    ApplyGradients,
    ComputeGradients,
    Metrics,
    OffPolicyStep,
    OnPolicyStep,
    Report,
    Rollout,
    TrainStats,
    Worker,
    workers,
)

from tflow import Iter, ParIter, Plan, PlanError, Sync, Union, flow, from_actors, from_range, plan

log = logging.getLogger(__name__)


def sampled() -> ParIter[Rollout]:
    return from_actors(workers, Worker.sample)


def trained() -> Iter[TrainStats]:
    return sampled().gather_async().for_each(OffPolicyStep())


def double(number: int) -> int:
    return 2 * number


@contextlib.contextmanager
def titled(title: str) -> Iterator[str]:
    yield title


@plan
def straight() -> Plan[Metrics]:
    grads = sampled().par_for_each(ComputeGradients()).gather_async()
    stats = grads.for_each(ApplyGradients(workers))
    return Report(stats, workers)


# --------------------------------------------------------------------------- choices


@plan
def either_way(fresh: bool) -> Plan[Metrics]:
    shards = sampled()
    if fresh:
        stats: Iter[TrainStats] = shards.gather_sync().for_each(OnPolicyStep())
    else:
        stats = shards.gather_async().for_each(OffPolicyStep())
    return Report(stats, workers)


@flow
def one_of_three(stream: Iter[int], kind: str) -> Iter[int]:
    if kind == "double":
        found = stream.map(double)
    elif kind == "few":
        found = stream.take(3)
    else:
        found = stream
    return found


@flow
def leaves_early(stream: Iter[int], plain: bool) -> Iter[int]:
    if plain:
        return stream
    return stream.map(double)


@flow
def leaves_early_twice(stream: Iter[int], limit: int) -> Iter[int]:
    if limit < 0:
        return stream
    kept = stream.filter(bool)
    if limit == 0:
        return kept
    return kept.take(limit)


@plan
def a_source_for_one_path(small: bool) -> Plan[Metrics]:
    first, second = trained(), trained()
    if small:
        return Report(first, workers)
    return Report(Union(first, second), workers)


@flow
def refuses(stream: Iter[int], size: int) -> Iter[list[int]]:
    if size < 1:
        raise ValueError(size)
    return stream.batch(size)


@flow
def by_ternary(stream: Iter[int], twice: bool) -> Iter[int]:
    return stream.map(double) if twice else stream.take(2)


@flow
def ternary_of_streams(few: Iter[int], many: Iter[int], take_few: bool) -> Iter[int]:
    chosen = few if take_few else many
    return chosen.map(double)


@flow
def ternary_as_argument(left: Iter[int], right: Iter[int], swap: bool) -> Iter[int]:
    return Union(left.map(double) if swap else left, right if swap else right.map(double))


@flow
def by_match(stream: Iter[int], kind: Literal["double", "few", "all"]) -> Iter[int]:
    match kind:
        case "double":
            return stream.map(double)
        case "few":
            return stream.take(1)
        case "all":
            return stream
        case other:
            assert_never(other)


@flow
def match_then_join(stream: Iter[int], size: int | None) -> Iter[int]:
    match size:
        case None:
            kept = stream
        case number if number > 10:
            kept = stream.take(10)
        case number:
            kept = stream.take(number)
    return kept.map(double)


@flow
def declared_then_chosen(stream: Iter[int, Sync], fresh: bool) -> Iter[int]:
    chosen: Iter[int]
    if fresh:
        chosen = stream
    else:
        chosen = stream.shuffle(4)
    return chosen


@flow
def replaced_on_one_path(count: int) -> Iter[int]:
    numbers = from_range(3)
    if count > 3:
        numbers = from_range(count)
    return numbers


@flow
def the_last_of_several(sizes: list[int]) -> Iter[int]:
    numbers = from_range(3)
    for size in sizes:
        numbers = from_range(size)
    return numbers


@flow
def whatever_it_is(stream: Iter[int] | ParIter[int]) -> Iter[int]:
    if isinstance(stream, ParIter):
        return stream.gather_sync()
    return stream.map(double)


@flow
def gathered(stream: Iter[int] | ParIter[int]) -> Iter[int]:
    here = stream.gather_sync() if isinstance(stream, ParIter) else stream
    return here.map(double)


# --------------------------------------------------------------------------- what may be missing


@flow
def given_or_made(stream: Iter[int] | None = None) -> Iter[int]:
    if stream is None:
        stream = from_range(3)
    return stream.map(double)


@flow
def given_or_made_shortly(stream: Iter[int] | None = None) -> Iter[int]:
    chosen = from_range(3) if stream is None else stream
    return chosen.map(double)


@flow
def with_an_extra(stream: Iter[int], extra: Iter[int] | None = None) -> Iter[int]:
    return stream if extra is None else Union(stream, extra)


@flow
def set_on_one_path(stream: Iter[int], more: bool) -> Iter[int]:
    extra: Iter[int] | None = None
    if more:
        extra = from_range(3)
    if extra is not None:
        return Union(stream, extra)
    return stream


@flow
def must_be_there(stream: Iter[int] | None) -> Iter[int]:
    assert stream is not None
    assert isinstance(stream, Iter)
    return stream.map(double)


@flow
def refuses_nothing(stream: Iter[int] | None) -> Iter[int]:
    if stream is None:
        raise PlanError("give a stream")
    return stream.map(double)


# --------------------------------------------------------------------------- errors and contexts


@flow
def second_attempt(stream: Iter[int], size: int) -> Iter[list[int]]:
    try:
        batches = stream.batch(size)
    except PlanError:
        batches = stream.batch(1)
    return batches


@flow
def attempt_and_else(stream: Iter[int], text: str) -> Iter[int]:
    try:
        size = int(text)
    except ValueError:
        return stream
    else:
        return stream.take(size)
    finally:
        log.info("read %s", text)


@flow
def returns_from_try(stream: Iter[int], size: int) -> Iter[list[int]]:
    try:
        return stream.batch(size)
    except PlanError as error:
        log.warning("%s", error)
        raise
    finally:
        log.info("%s", stream)


@flow
def default_if_it_fails(size: int) -> Iter[int]:
    numbers = from_range(3)
    try:
        numbers = from_range(size)
    except PlanError:
        log.info("the usual ones")
    return numbers


@flow
def default_in_a_context(size: int) -> Iter[int]:
    numbers = from_range(3)
    with contextlib.suppress(PlanError):
        numbers = from_range(size)
    return numbers


@flow
def says_more(stream: Iter[int], size: int) -> Iter[list[int]]:
    try:
        batches = stream.batch(size)
    except PlanError as error:
        raise ValueError(f"no batches of {size} from {stream}") from error
    return batches


@flow
def in_a_context(stream: Iter[int]) -> Iter[int]:
    with titled("doubling") as title, contextlib.suppress(KeyError):
        log.info(title)
        return stream.map(double)
    return stream


@flow
def built_in_a_context() -> Iter[int]:
    with titled("numbers") as title:
        numbers = from_range(3).named(title)
    return numbers


# --------------------------------------------------------------------------- loops


@flow
def again_and_again(stream: Iter[int], times: int) -> Iter[int]:
    for _ in range(times):
        stream = stream.map(double)
    return stream


@flow
def while_large(stream: Iter[int], times: int) -> Iter[int]:
    while times > 0:
        stream = stream.map(double)
        times -= 1
        if times == 3:
            continue
        stream = stream.filter(bool)
    return stream


@flow
def until_found(stream: Iter[int], sizes: list[int]) -> Iter[int]:
    for size in sizes:
        if size < 0:
            break
        stream = stream.take(size)
    else:
        stream = stream.map(double)
    return stream


@flow
def returns_from_a_loop(stream: Iter[int], sizes: list[int]) -> Iter[int]:
    for size in sizes:
        if size > 0:
            return stream.take(size)
    return stream


@flow
def breaks_with_it(stream: Iter[int], sizes: list[int]) -> Iter[int]:
    found: Iter[int] | None = None
    for size in sizes:
        if size > 0:
            found = stream.take(size)
            break
    assert found is not None
    return found


@flow
def one_per_turn(names: list[str]) -> Iter[int]:
    found: list[Iter[int]] = []
    for name in names:
        numbers = from_range(3).named(name)
        if name == "plain":
            found.append(numbers)
            continue
        if not name:
            raise ValueError("a name is empty")
        found.append(numbers.map(double))
    return Union(*found)


@flow
def for_ever(stream: Iter[int], sizes: Iterator[int]) -> Iter[int]:
    while True:
        size = next(sizes)
        if size > 10:
            return stream
        stream = stream.take(size)
