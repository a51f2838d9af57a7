"""Operators with one input agree with itertools, on the driver and, shard by shard, inside actors."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import accumulate, chain, islice

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.world import items, over_runtimes, over_runtimes_and_ray, proves, results, shard_counts, sizes
from tflow import Async, Iter, ParIter, Stateful, from_items, from_range, par_from_items, par_from_iterables
from tflow.laws import CONSERVATION, DETERMINISM, EQUIVALENCE, ISOLATION

Function = Callable[[int], int]
functions: st.SearchStrategy[Function] = st.sampled_from(
    [lambda x: x + 1, lambda x: 2 * x, lambda x: -x, lambda x: x * x, lambda x: abs(x)]
)
predicates: st.SearchStrategy[Callable[[int], bool]] = st.sampled_from(
    [lambda x: x > 0, lambda x: x % 2 == 0, lambda x: True, lambda x: False]
)


class Running(Stateful[int, int, int]):
    """A running total."""

    def init(self) -> int:
        return 0

    def step(self, state: int, item: int, /) -> tuple[int, int]:
        return state + item, state + item


@proves(EQUIVALENCE, "Iter.map")
@over_runtimes
@given(values=items, f=functions, g=functions)
def test_map_identity_and_composition(runtime: str, values: list[int], f: Function, g: Function) -> None:
    stream = from_items(values)
    assert results(stream.map(lambda x: x), runtime) == values
    assert results(stream.map(f).map(g), runtime) == results(stream.map(lambda x: g(f(x))), runtime)


@proves(EQUIVALENCE, "Iter.filter", "ParIter.par_filter")
@over_runtimes_and_ray
@given(values=items, keep=predicates)
def test_filter_is_the_builtin(runtime: str, values: list[int], keep: Callable[[int], bool]) -> None:
    assert results(from_items(values).filter(keep), runtime) == list(filter(keep, values))
    assert results(par_from_items(values, shards=1).par_filter(keep).gather_sync(), runtime) == list(filter(keep, values))


@proves(EQUIVALENCE, "Iter.batch", "Iter.flatten")
@over_runtimes
@given(values=items, size=sizes)
def test_batch_then_flatten_is_the_identity(runtime: str, values: list[int], size: int) -> None:
    batches = results(from_items(values).batch(size), runtime)
    assert list(chain.from_iterable(batches)) == values
    assert all(len(batch) == size for batch in batches[:-1])
    assert all(0 < len(batch) <= size for batch in batches)
    assert results(from_items(values).batch(size).flatten(), runtime) == values


@proves(EQUIVALENCE, "ParIter.par_batch", "ParIter.par_flatten")
@over_runtimes
@given(values=items, size=sizes, shards=shard_counts)
def test_par_batch_then_par_flatten_is_the_identity(runtime: str, values: list[int], size: int, shards: int) -> None:
    stream = par_from_items(values, shards=shards)
    assert results(stream.par_batch(size).par_flatten().gather_sync(), runtime) == results(stream.gather_sync(), runtime)


@proves(EQUIVALENCE, "Iter.flat_map")
@over_runtimes
@given(values=st.lists(st.integers(0, 4), max_size=12))
def test_flat_map_is_map_then_flatten(runtime: str, values: list[int]) -> None:
    stream = from_items(values)
    expected = [n for value in values for n in range(value)]
    assert results(stream.flat_map(range), runtime) == expected
    assert results(stream.map(range).flatten(), runtime) == expected
    nested = stream.flat_map(range).flat_map(range)
    assert results(nested, runtime) == results(stream.flat_map(lambda x: [m for n in range(x) for m in range(n)]), runtime)


@proves(EQUIVALENCE, "Iter.take")
@over_runtimes
@given(values=items, count=st.integers(0, 40))
def test_take_is_islice(runtime: str, values: list[int], count: int) -> None:
    assert results(from_items(values).take(count), runtime) == list(islice(values, count))
    assert results(par_from_items(values, shards=1).par_take(count).gather_sync(), runtime) == list(islice(values, count))


@proves(EQUIVALENCE, "Iter.scan", "Iter.for_each")
@over_runtimes
@given(values=items)
def test_scan_and_stateful_operators_accumulate(runtime: str, values: list[int]) -> None:
    expected = list(accumulate(values))
    stream = from_items(values)
    for flow in (
        stream.scan(lambda total, x: total + x, 0),
        stream.for_each(Running()),
        par_from_items(values, shards=1).par_for_each(Running()).gather_sync(),
        par_from_items(values, shards=1).par_scan(lambda total, x: total + x, 0).gather_sync(),
    ):
        assert results(flow, runtime) == expected
        assert results(flow, runtime) == expected, "a second run starts fresh"


@proves(ISOLATION, "Iter.scan")
@over_runtimes
@given(values=items)
def test_scan_copies_its_initial_state(runtime: str, values: list[int]) -> None:
    def remember(seen: list[int], item: int) -> list[int]:
        seen.append(item)  # changes the state in place, as users do
        return seen

    nothing: list[int] = []
    stream = from_items(values).scan(remember, nothing).map(len)
    assert results(stream, runtime) == list(range(1, len(values) + 1))
    assert results(stream, runtime) == list(range(1, len(values) + 1))


@proves(EQUIVALENCE, "Iter.zip")
@over_runtimes
@given(left=items, right=items)
def test_zip_is_the_builtin(runtime: str, left: list[int], right: list[int]) -> None:
    assert results(from_items(left).zip(from_items(right)), runtime) == list(zip(left, right, strict=False))


@proves(CONSERVATION, "Iter.shuffle")
@over_runtimes
@given(values=st.lists(st.integers(), max_size=40, unique=True), buffer=st.integers(1, 12), seed=st.integers(0, 5))
def test_shuffle_is_a_seeded_permutation_of_bounded_reach(runtime: str, values: list[int], buffer: int, seed: int) -> None:
    stream = from_items(values).shuffle(buffer, seed=seed)
    shuffled = results(stream, runtime)
    assert Counter(shuffled) == Counter(values)
    assert shuffled == results(stream, runtime)
    for place, value in enumerate(shuffled):
        assert values.index(value) - place <= buffer


@proves(DETERMINISM, "Iter.shuffle", "ParIter.par_shuffle")
@over_runtimes
def test_shuffle_depends_on_seed_and_shard(runtime: str) -> None:
    stream = from_range(50)
    assert results(stream.shuffle(20, seed=1), runtime) != results(stream.shuffle(20, seed=2), runtime)
    twins = par_from_iterables([range(50), range(50)]).par_shuffle(20, seed=1)
    assert results(twins.select_shards(0).gather_sync(), runtime) != results(twins.select_shards(1).gather_sync(), runtime)


@proves(EQUIVALENCE, "Iter.drain")
@over_runtimes
@given(values=items)
def test_drain_consumes_all_and_shows_nothing(runtime: str, values: list[int]) -> None:
    seen: list[int] = []
    assert results(from_items(values).tap(seen.append).drain(), runtime) == []
    assert seen == values


@proves(EQUIVALENCE, "Iter.tap", "Iter.named", "ParIter.named")
@over_runtimes
@given(values=items)
def test_tap_and_named_are_the_identity(runtime: str, values: list[int]) -> None:
    seen: list[int] = []
    assert results(from_items(values).tap(seen.append).named("look"), runtime) == values
    assert seen == values


@proves(EQUIVALENCE, "Iter.every")
@over_runtimes
@given(values=items, n=sizes)
def test_every_items_shows_each_nth(runtime: str, values: list[int], n: int) -> None:
    assert results(from_items(values).every(items=n), runtime) == values[n - 1 :: n]


def random_flow(stream: Iter[int], choices: list[int]) -> Iter[int]:
    """A chain of operators picked by numbers."""
    steps: list[Callable[[Iter[int]], Iter[int]]] = [
        lambda s: s.map(lambda x: x + 1),
        lambda s: s.filter(lambda x: x % 3 != 0),
        lambda s: s.batch(2).flatten(),
        lambda s: s.tap(lambda x: None),
        lambda s: s.for_each(Running()),
        lambda s: s.flat_map(lambda x: [x] * (x % 3)),
        lambda s: s.scan(lambda total, x: total - x, 1),
        lambda s: s.take(9),
    ]
    for choice in choices:
        stream = steps[choice](stream)
    return stream


def random_par_flow(stream: ParIter[int, Async], choices: list[int]) -> ParIter[int, Async]:
    """The same chain inside the actors."""
    steps: list[Callable[[ParIter[int, Async]], ParIter[int, Async]]] = [
        lambda s: s.par_map(lambda x: x + 1),
        lambda s: s.par_filter(lambda x: x % 3 != 0),
        lambda s: s.par_batch(2).par_flatten(),
        lambda s: s.par_tap(lambda x: None),
        lambda s: s.par_for_each(Running()),
        lambda s: s.par_flat_map(lambda x: [x] * (x % 3)),
        lambda s: s.par_scan(lambda total, x: total - x, 1),
        lambda s: s.par_take(9),
    ]
    for choice in choices:
        stream = steps[choice](stream)
    return stream


@over_runtimes
@given(values=items, choices=st.lists(st.integers(0, 7), max_size=8))
def test_the_fused_plan_yields_what_the_plain_plan_yields(runtime: str, values: list[int], choices: list[int]) -> None:
    stream = random_flow(from_items(values), choices)
    assert results(stream, runtime, fuse=True) == results(stream, runtime, fuse=False)
    with_counts = []
    for fuse in (True, False):
        run = stream.run(fuse=fuse)
        list(run)
        with_counts.append([(s.operator, s.seen, s.shown) for s in run.stats().operators])
    assert with_counts[0] == with_counts[1]


@proves(
    EQUIVALENCE,
    "ParIter.par_map",
    "ParIter.par_for_each",
    "ParIter.par_tap",
    "ParIter.par_flat_map",
    "ParIter.par_take",
    "ParIter.par_scan",
)
@proves(CONSERVATION, "ParIter.par_shuffle")
@over_runtimes
@given(values=items, shards=shard_counts, choices=st.lists(st.integers(0, 7), max_size=6))
def test_par_operators_do_per_shard_what_the_others_do(runtime: str, values: list[int], shards: int, choices: list[int]) -> None:
    stream = random_par_flow(par_from_items(values, shards=shards), choices)
    for shard in range(shards):
        expected = results(random_flow(from_items(values[shard::shards]), choices), runtime)
        assert results(stream.select_shards(shard).gather_sync(), runtime) == expected


def test_items_may_be_anything_even_none_and_tuples() -> None:
    values: list[object] = [None, (), (1, 2), random, "", 0, NotImplemented]
    flow = from_items(values).map(lambda x: x).filter(lambda x: True).batch(2).flatten()
    assert results(flow, "local") == values
    assert results(par_from_items(values).par_map(lambda x: x).gather_async(), "local") == values
