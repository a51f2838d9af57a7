"""Right plans that are written in odd ways: each was, or could be, a false alarm of a rule that looks too quickly."""

from __future__ import annotations

import asyncio
import copy
import enum
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from world import Metrics, OffPolicyStep, Report, TrainStats, Worker, workers

from tflow import Iter, LocalRuntime, ParIter, Plan, Run, Sync, Union, flow, from_actors, from_range, plan


class Kind(enum.Enum):
    PLAIN = 1
    DOUBLED = 2


def double(number: int) -> int:
    return 2 * number


# --------------------------------------------------------------------------- looked at


@flow
def looked_at_closely(stream: Iter[int]) -> Iter[int]:
    facts = [type(stream), id(stream), hash(stream), repr(stream), str(stream), dir(stream), stream.__class__]
    truths = [stream is None, bool(stream), callable(stream), hasattr(stream, "node"), isinstance(stream, Union)]
    texts = ["{}".format(stream), "%s" % stream, f"{stream!r:>20}", format(stream), ", ".join([str(stream)])]
    print(facts, truths, texts, getattr(stream, "fingerprint", None))
    return stream


@flow
def shown_by_another_thread(stream: Iter[int]) -> Iter[int]:
    with ThreadPoolExecutor() as pool:
        print(pool.submit(str, stream).result())
    return stream


@flow
def told_to_a_function(stream: Iter[int], tell: Callable[[object], None]) -> Iter[int]:
    tell(stream)
    return stream


@flow
def run_in_a_comprehension(stream: Iter[int]) -> Iter[int]:
    with LocalRuntime() as session:
        print([list(stream.map(double).run(runtime=session)) for _ in range(3)])
    with stream.take(3).run() as run:
        print(next(run))
    return stream


@flow
def only_ever_run(stream: Iter[int]) -> None:
    for number in stream.take(3).run():
        print(number)


def returns_a_run() -> Run[int]:
    stream = from_range(3)
    print(stream.map(double))
    return stream.map(double).run()


@plan
def kept_in_a_name() -> Plan[Metrics]:
    built = Report(from_actors(workers, Worker.sample).gather_async().for_each(OffPolicyStep()), workers)
    built.validate()
    print(built, built.fingerprint)
    return built


def runs_a_plan() -> None:
    for metrics in kept_in_a_name():
        print(metrics)
        break
    kept_in_a_name()


# --------------------------------------------------------------------------- paths


@flow
def out_of_an_endless_loop(stream: Iter[int], sizes: Iterator[int]) -> Iter[int]:
    while True:
        size = next(sizes)
        if size > 2:
            kept = stream.take(size)
            break
    return kept


@flow
def first_that_works(count: int) -> Iter[int]:
    for size in range(count):
        numbers = from_range(size)
        try:
            return numbers.batch(size).flatten()
        except ValueError:
            continue
    return from_range(1)


@flow
def by_class(stream: Iter[int] | ParIter[int] | int) -> Iter[int]:
    match stream:
        case Iter():
            return stream.map(double)
        case ParIter():
            return stream.gather_sync()
        case int(count):
            return from_range(count)


@flow
def by_enum(stream: Iter[int], kind: Kind) -> Iter[int]:
    match kind:
        case Kind.PLAIN:
            return stream
        case Kind.DOUBLED:
            return stream.map(double)


@flow
def by_version(stream: Iter[int]) -> Iter[int]:
    if sys.version_info >= (3, 11):
        return stream.map(double)
    else:
        return stream


@flow
def never_the_other(stream: Iter[int]) -> Iter[int]:
    spare: Iter[int] | None = None
    return stream if spare is None else Union(stream, spare)


@flow
def all_kinds_of_errors(size: int) -> Iter[int]:
    try:
        numbers = from_range(size)
    except ValueError:
        numbers = from_range(1)
    except (TypeError, KeyError) as error:
        raise RuntimeError from error
    else:
        numbers = numbers.map(double)
    finally:
        print("built")
    return numbers


@flow
def on_the_stack(stream: Iter[int]) -> Iter[int]:
    with ExitStack() as stack:
        stack.callback(print, "done")
        doubled = stream.map(double)
    return doubled


@flow
def let_go_on_one_path(stream: Iter[int], tidy: bool) -> Iter[int]:
    doubled = stream.map(double)
    if tidy:
        del stream
    return doubled


@flow
def narrowed(stream: Iter[int] | ParIter[int], extra: Iter[int] | None) -> Iter[int]:
    if isinstance(stream, ParIter):
        stream = stream.gather_sync()
    if extra is not None:
        stream = Union(stream, extra)
    return stream


@flow
def this_or_that(stream: Iter[int] | None, usual: Iter[int]) -> Iter[int]:
    return stream or usual


@flow
async def awaited(stream: Iter[int]) -> Iter[int]:
    await asyncio.sleep(0)
    return stream.map(double)


# --------------------------------------------------------------------------- data


@flow
def in_a_queue(stream: Iter[int]) -> Iter[int]:
    queue = deque(stream.split(3))
    while len(queue) > 1:
        queue.append(Union(queue.popleft(), queue.popleft()))
    return queue.pop()


@flow
def without_the_missing(first: Iter[int] | None, second: Iter[int] | None) -> Iter[int]:
    return Union(*[stream for stream in (first, second) if stream is not None])


@flow
def in_a_mapping(streams: Mapping[str, Iter[int]]) -> Iter[int]:
    first, second = streams.get("first"), streams["second"]
    return second if first is None else Union(first, second)


@flow
def tuples_in_tuples(stream: Iter[int]) -> Iter[int]:
    (left, right), other = stream.split(), from_range(3)
    [first, second] = other.split()
    return Union(left, right, *(first,), *[second])


@flow
def by_two_names(stream: Iter[int]) -> Iter[int]:
    shown = kept = stream.map(double)
    print(shown)
    return kept


@flow
def by_keyword(**streams: Iter[int]) -> Iter[int]:
    return Union(*streams.values())


@flow
def copied(stream: Iter[int]) -> Iter[int]:
    return copy.copy(stream)


@flow
def method_as_value(stream: Iter[int]) -> Iter[int]:
    apply = stream.map
    return apply(double)


@flow
def method_of_the_class(stream: Iter[int]) -> Iter[int]:
    return Iter.map(stream, double)


@flow
def given_out(stream: Iter[int]) -> Iterator[Iter[int]]:
    yield from stream.split(2)


@plan
def one_per_turn(count: int) -> Plan[Metrics]:
    found: list[Iter[TrainStats]] = []
    for _ in range(count):
        found.append(from_actors(workers, Worker.sample).gather_async().for_each(OffPolicyStep()))
    return Report(Union(*found), workers)


# --------------------------------------------------------------------------- arguments


@flow
def smallest(stream: Iter[int], shards: ParIter[int]) -> Iter[int]:
    left, right = stream.take(0).split(2, max_lag=1)
    here = shards.par_take(0).gather_async(in_flight=1, per_call=1, max_staleness=0)
    return Union(left, right, here, from_range(0), weights=[0.5, 1, 1e-3, 2], mode="round_robin")


@flow
def weights_of_unknown(stream: Iter[int], two: tuple[Iter[int], Iter[int]], more: list[Iter[int]]) -> Iter[int]:
    three = Union(stream, *two, weights=[1, 2, 3])
    return Union(three, Union(*more, weights=[1, 2]), weights=[share for share in (1, 2)], mode=None)


# --------------------------------------------------------------------------- travel


@dataclass(frozen=True)
class Scale:
    """It travels: there are only numbers in it."""

    factor: int = 2

    @flow
    def applied(self, shards: ParIter[int]) -> Iter[int, Sync]:
        return shards.par_map(lambda number: number * self.factor).par_map(self.times).gather_sync()

    def times(self, number: int) -> int:
        return number * self.factor


@flow
def other_names(shards: ParIter[int]) -> Iter[int]:
    """The parameter of the lambda has the name of a lock, and is none."""
    lock = threading.Lock()
    print(lock)
    return shards.par_map(lambda lock: lock + 1).gather_sync().map(lambda number: number if lock else 0)


@flow
def made_where_it_is_used(shards: ParIter[int], path: str) -> Iter[int]:
    def locked(number: int) -> int:
        lock = threading.Lock()
        with lock, open(path) as file:
            return number + len(file.read())

    return shards.par_map(locked).par_map(lambda number: sum(each for each in iter(range(number)))).gather_sync()


@flow
def plain_values(shards: ParIter[int], seed: int) -> Iter[int]:
    random, log, sizes, names = np.random.default_rng(seed), logging.getLogger("x"), range(10), {"a": 1}
    drawn = shards.par_map(lambda number: number + int(random.integers(3)) + len(sizes) + names["a"])
    return drawn.par_tap(lambda number: log.info("%s", number)).gather_sync()


Tree = int | list["Tree"] | dict[str, "Tree"]


def numbers_in(tree: Tree) -> list[int]:
    return []


@flow
def types_that_contain_themselves(stream: Iter[Tree]) -> Iter[list[int]]:
    def deep(tree: Tree) -> Tree:
        return [tree, [tree]]

    return stream.map(lambda tree: numbers_in(deep(tree)))
