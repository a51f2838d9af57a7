"""Every mistake that can be known before a plan starts is one sentence that names it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest

from tflow import (
    ActorOp,
    Actors,
    Live,
    LiveOp,
    LocalRuntime,
    ParUnion,
    PlanError,
    Shard,
    Stateless,
    Sync,
    Union,
    create_actor,
    create_actors,
    from_actors,
    from_items,
    from_iterable,
    from_range,
    par_from_items,
    par_from_iterables,
    par_from_range,
)
from tflow.actors import Actor
from tflow.types import Op

wrong = cast("Any", object())  # Any: what a user without a type checker might pass


class Worker:
    def __init__(self, shard: Shard) -> None:
        self.shard = shard

    def sample(self) -> str:
        return "sample"


class Other:
    def __init__(self, shard: Shard) -> None:
        self.shard = shard

    def method(self) -> int:
        return 1


class NoShard:
    """Cannot be made by a runtime."""


workers: Actors[Worker] = create_actors(Worker, num=2)
learner: Actor[Worker] = create_actor(Worker)
others: Actors[Other] = create_actors(Other)


class Shout(Stateless[str, str]):
    def apply(self, item: str, /) -> str:
        return item.upper()


class BesideWorker(ActorOp[Worker, str, str]):
    def apply(self, actor: Worker, item: str, /) -> str:
        return item


class OnPolicy(Stateless[str, str, Sync]):
    def apply(self, item: str, /) -> str:
        return item


@dataclass(frozen=True)
class Tell(LiveOp[str, str]):
    workers: Actors[Worker]

    def apply(self, live: Live, item: str, /) -> str:
        return item


class Bare(Op[str, str]):
    """Has no method to run."""


@dataclass
class Mutable(Stateless[int, int]):
    n: int = 0

    def apply(self, item: int, /) -> int:
        return item


letters = from_items("abc")
shards = from_actors(workers, Worker.sample)
numbers = from_range(3)

WHILE_BUILDING: list[tuple[Callable[[], object], str]] = [
    (lambda: numbers.batch(0), r"batch: size must be at least 1, got 0\. To pass items through unbatched, drop batch\(\)\."),
    (lambda: numbers.batch(wrong), "batch: size must be a whole number, got <object"),
    (lambda: numbers.batch(True), "batch: size must be a whole number, got True"),
    (lambda: shards.par_batch(0), "par_batch: size must be at least 1"),
    (lambda: numbers.take(-1), "take: count must be at least 0, got -1"),
    (lambda: shards.par_take(-1), "par_take: count must be at least 0"),
    (lambda: numbers.shuffle(0), "shuffle: buffer must be at least 1"),
    (lambda: numbers.shuffle(2, seed=-1), "shuffle: seed must be at least 0"),
    (lambda: shards.par_shuffle(0), "par_shuffle: buffer must be at least 1"),
    (lambda: numbers.map(wrong), "map: expected a function, got <object"),
    (lambda: letters.map(cast("Any", Shout())), r"map: Shout is an operator, not a function\. Use for_each\(Shout\(\.\.\.\)\)\."),
    (lambda: shards.par_map(cast("Any", Shout())), r"Use par_for_each\(Shout\(\.\.\.\)\)\."),
    (lambda: numbers.filter(wrong), "filter: expected a function"),
    (lambda: numbers.tap(wrong), "tap: expected a function"),
    (lambda: numbers.flat_map(wrong), "flat_map: expected a function"),
    (lambda: numbers.scan(wrong, 0), "scan: expected a function"),
    (lambda: shards.par_filter(wrong), "par_filter: expected a function"),
    (lambda: shards.par_tap(wrong), "par_tap: expected a function"),
    (lambda: shards.par_flat_map(wrong), "par_flat_map: expected a function"),
    (lambda: shards.par_scan(wrong, 0), "par_scan: expected a function"),
    (lambda: letters.for_each(wrong), "for_each: expected an operator, a value of a class that derives from Op, got <object"),
    (lambda: letters.for_each(cast("Any", print)), r"for_each: .* Plain functions go to map\(\)\."),
    (lambda: shards.par_for_each(cast("Any", print)), r"par_for_each: .* Plain functions go to par_map\(\)\."),
    (lambda: letters.for_each(cast("Any", Shout)), r"for_each: got the class Shout; pass a value of it, Shout\(\.\.\.\)\."),
    (lambda: letters.for_each(Bare()), "Bare derives from Op directly, which has no method to run. Derive from one of Stateless"),
    (lambda: numbers.for_each(Mutable()), r"Mutable is a dataclass that can change; declare it @dataclass\(frozen=True\)\."),
    (lambda: numbers.zip(wrong), "zip: other must be a driver stream"),
    (lambda: numbers.zip(cast("Any", shards)), "gather a parallel one first"),
    (lambda: shards.par_zip(wrong), "par_zip: other must be a parallel stream"),
    (lambda: shards.par_zip(cast("Any", par_from_range(3))), r"par_zip: the two streams run on different actors\. Gather both"),
    (lambda: numbers.split(0), r"split\(0\): n must be at least 1"),
    (lambda: numbers.split(2, max_lag=0), "max_lag must be at least 1, got 0. Leave it out to keep the branches in lock step"),
    (lambda: numbers.every(**cast("Any", {})), "every: give exactly one of items=, steps= and seconds=, got none"),
    (lambda: numbers.every(**cast("Any", {"items": 2, "steps": 3})), r"got \['items', 'steps'\]"),
    (lambda: numbers.every(items=0), "every: items must be at least 1"),
    (lambda: numbers.every(steps=0), "every: steps must be at least 1"),
    (lambda: numbers.every(seconds=0), "every: seconds must be finite and above 0"),
    (lambda: numbers.every(seconds=float("nan")), "every: seconds must be finite and above 0"),
    (lambda: numbers.every(seconds=wrong), "every: seconds must be a number"),
    (lambda: letters.call(wrong, Shout()), r"call: actor must be one actor, made by create_actor\(\)"),
    (lambda: letters.call(cast("Any", workers), Shout()), "call: actor must be one actor"),
    (lambda: letters.call(learner, wrong), "call: expected an operator"),
    (lambda: letters.hand_off(wrong, Shout()), "hand_off: actor must be one actor"),
    (lambda: letters.hand_off(learner, Shout(), mailbox=0), "hand_off: mailbox must be at least 1"),
    (
        lambda: letters.hand_off(learner, Shout(), on_full=cast("Any", "burn")),
        "hand_off: on_full must be 'block' or 'drop_oldest', got 'burn'",
    ),
    (lambda: numbers.named(wrong), "named: name must be a string"),
    (lambda: shards.named(wrong), "named: name must be a string"),
    (lambda: shards.select_shards(), "select_shards: give at least one shard"),
    (lambda: shards.select_shards(2), r"select_shards: there is no shard 2; the stream has 2 \(0 to 1\)\."),
    (lambda: shards.select_shards(-1), "select_shards: a shard must be at least 0"),
    (lambda: shards.select_shards(1, 1), "each shard can be selected once"),
    (lambda: shards.repartition(0), "repartition: shards must be at least 1"),
    (lambda: shards.repartition(2).gather_async(per_call=2), "after repartition.* each call carries one item"),
    (lambda: shards.repartition(2).gather_async(max_staleness=1), "belong to the gather before it"),
    (lambda: ParUnion(shards.repartition(2), shards), "a stream after repartition.* is fed by the driver"),
    (lambda: shards.gather_async(in_flight=0), "gather_async: in_flight must be at least 1"),
    (lambda: shards.gather_async(per_call=0), "gather_async: per_call must be at least 1"),
    (lambda: shards.gather_async(max_staleness=-1), "gather_async: max_staleness must be at least 0"),
    (lambda: cast("Any", Union)(), "Union: give at least one stream"),
    (lambda: Union(wrong), "Union: every input must be a driver stream"),
    (lambda: Union(cast("Any", shards)), "gather a parallel one first"),
    (lambda: Union(numbers, letters, weights=[1]), "Union: 2 streams got 1 weights; give one weight per stream"),
    (
        lambda: Union(numbers, letters, weights=[1, 0]),
        "Union: every weight must be above 0; one that is infinite gives priority. Got 0",
    ),
    (lambda: Union(numbers, letters, weights=[1, float("nan")]), "Union: every weight must be a number, got nan"),
    (lambda: Union(numbers, mode=cast("Any", "both")), "Union: mode must be 'round_robin' or 'async', got 'both'"),
    (lambda: Union(numbers, letters, weights=[1, 1], mode="async"), 'drop mode="async" or drop weights='),
    (lambda: cast("Any", ParUnion)(), "ParUnion: give at least one stream"),
    (lambda: ParUnion(wrong), "ParUnion: every input must be a parallel stream"),
    (lambda: from_items(wrong), "from_items: expected an iterable"),
    (lambda: from_items(iter([1])), r"from_items: got a live list_iterator, which can be read only once.*from_iterable\(\)"),
    (lambda: from_items(cast("Any", list)), r"use from_iterable\(\) for functions"),
    (lambda: from_range(-1), "from_range: count must be at least 0"),
    (lambda: from_iterable(cast("Any", [1])), r"from_iterable: expected a function .* For values use from_items\(\)\."),
    (lambda: par_from_items([1], shards=0), "par_from_items: shards must be at least 1"),
    (lambda: par_from_items(x for x in "ab"), "par_from_items: got a live generator"),
    (lambda: par_from_range(3, shards=0), "par_from_range: shards must be at least 1"),
    (lambda: par_from_range(-3), "par_from_range: count must be at least 0"),
    (lambda: par_from_iterables([]), "par_from_iterables: give at least one iterable"),
    (lambda: par_from_iterables([iter([1])]), "par_from_iterables: got a live list_iterator"),
    (lambda: from_actors(wrong, len), r"from_actors: actors must be actors, made by create_actors\(\)"),
    (lambda: from_actors(workers, wrong), "from_actors: expected a function"),
    (lambda: from_actors(workers, cast("Any", Other.method)), r"from_actors: Other\.method is not a method of Worker"),
    (lambda: from_actors(workers, cast("Any", lambda: 1)), r"is called with the actor alone: .*too many positional arguments"),
    (lambda: create_actors(cast("Any", NoShard)), r"NoShard is called with one argument, the Shard"),
    (lambda: create_actors(Worker, num=0), "Actors: num must be at least 1"),
    (lambda: create_actors(wrong), "Actors: expected a function"),
    (lambda: create_actors(Worker, name=wrong), "Actors: name must be a string"),
    (lambda: create_actor(Worker, mailbox=0), "Actor: mailbox must be at least 1"),
    (lambda: numbers.run(seed=-1), "run: seed must be at least 0"),
    (lambda: numbers.run(runtime=wrong), r"run: runtime must be a runtime, such as LocalRuntime\(\)"),
]


@pytest.mark.parametrize(("build", "sentence"), WHILE_BUILDING, ids=[sentence[:40] for _, sentence in WHILE_BUILDING])
def test_a_bad_argument_is_a_sentence(build: Callable[[], object], sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        build()


def twice() -> None:
    stream = numbers.map(abs).named("numbers")
    Union(stream.batch(2), stream).validate()


def branch_left_over() -> None:
    a, _b, _c = numbers.split(3)
    a.validate()


def branch_twice() -> None:
    a, _ = numbers.split()
    Union(a.map(str), a.named("again").map(str)).validate()


def shards_twice() -> None:
    Union(shards.gather_sync(), shards.gather_async()).validate()


WHEN_VALIDATED: list[tuple[Callable[[], object], str]] = [
    (twice, r"The stream map\(abs\) 'numbers' is consumed twice: by batch\(2\) and by Union\(\)\. .*split\(\)"),
    (shards_twice, r"from_actors\(Worker, sample\) is consumed twice: by gather_sync\(\) and by gather_async\(\)"),
    (branch_left_over, r"split\(3\): branch 1, 2 is never consumed, so the others would wait for it for ever"),
    (branch_twice, r"Branch 0 of split\(2\) is consumed twice"),
    (lambda: numbers.drain().take(3).validate(), r"take\(3\) would never end: everything before it is drained"),
    (
        lambda: numbers.for_each(cast("Any", Shout())).validate(),
        r'Ill-typed plan: "Shout" consumes str, but "from_range\(3\)" before it yields int\.',
    ),
    (
        lambda: letters.batch(2).for_each(cast("Any", Shout())).validate(),
        r'"Shout" consumes str, but "batch\(2\)" before it yields list\[str\]',
    ),
    (
        lambda: letters.for_each(cast("Any", BesideWorker())).validate(),
        r'"BesideWorker" works beside an actor, but for_each runs it on the driver\. Apply it with par_for_each before gathering',
    ),
    (
        lambda: letters.call(learner, cast("Any", OnPolicy())).validate(),
        r'"OnPolicy" must run on the driver, but call runs it inside an actor\. Use for_each\.',
    ),
    (
        lambda: shards.par_for_each(cast("Any", Tell(workers))).gather_sync().validate(),
        r'"Tell" must run on the driver, but par_for_each runs it inside the actors\. Gather first, then use for_each\.',
    ),
    (
        lambda: shards.gather_async().for_each(cast("Any", OnPolicy())).validate(),
        r'"OnPolicy" needs a synchronous stream, but "gather_async\(\)" makes it asynchronous\. Use gather_sync\(\)',
    ),
    (
        lambda: par_from_items("ab").par_for_each(cast("Any", BesideWorker())).gather_sync().validate(),
        r'"BesideWorker" works beside a Worker, but these shards hold no such actor',
    ),
    (
        lambda: shards.repartition(2).par_for_each(cast("Any", BesideWorker())).gather_sync().validate(),
        r"these shards hold no such actor",
    ),
    (lambda: numbers.every(steps=3).validate(), r"every\(steps=3\) would never open: .* no items of actors"),
    (
        lambda: from_actors(others, lambda other: "x").par_for_each(cast("Any", BesideWorker())).gather_sync().validate(),
        r'"BesideWorker" works beside a Worker, but \w+ runs it beside a Other',
    ),
    (
        lambda: letters.call(create_actor(Other), cast("Any", BesideWorker())).validate(),
        r'"BesideWorker" works beside a Worker, but \w+ runs it beside a Other',
    ),
]


@pytest.mark.parametrize(("check", "sentence"), WHEN_VALIDATED, ids=[sentence[:40] for _, sentence in WHEN_VALIDATED])
def test_a_bad_plan_is_a_sentence(check: Callable[[], object], sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        check()


def test_run_validates_before_anything_starts() -> None:
    made: list[int] = []
    actors = create_actors(lambda shard: made.append(shard.index))
    a, _ = from_actors(actors, lambda actor: 1).split()
    with pytest.raises(PlanError, match="never consumed"):
        a.run()
    assert made == []


def test_the_class_of_an_actor_made_by_a_lambda_is_checked_when_it_is_made() -> None:
    unknown = create_actors(lambda shard: Other(shard), num=1, name="unknown")
    stream = from_actors(unknown, lambda other: "x").par_for_each(cast("Any", BesideWorker())).gather_sync()
    stream.validate()
    with pytest.raises(PlanError, match=r'"BesideWorker" works beside a Worker, but shard unknown\[0\] is a Other'):
        list(stream.run())


def test_valid_plans_pass() -> None:
    a, b = shards.par_for_each(BesideWorker()).gather_sync().for_each(OnPolicy()).split()
    plan = Union(a.call(learner, BesideWorker()), b.for_each(Tell(workers)).map(len))
    plan.validate()
    assert len(list(plan.take(4).run())) == 4


def test_a_stream_does_not_iterate_and_cannot_be_changed() -> None:
    with pytest.raises(TypeError, match=r"A stream does not iterate .*split\(\)"):
        _a, _b = cast("Any", numbers)
    with pytest.raises(TypeError, match="A parallel stream does not iterate"):
        list(cast("Any", shards))
    with pytest.raises(AttributeError, match=r"has no 'map'\. Use par_map to do it inside the actors, or gather first"):
        cast("Any", shards).map(str)
    with pytest.raises(AttributeError, match=r"has no 'run'\. To do this, gather first: stream\.gather_sync\(\)\.run"):
        cast("Any", shards).run()
    with pytest.raises(AttributeError, match=r"has no 'par_map'\. It runs inside actors, and this stream is on the driver"):
        cast("Any", numbers).par_map(str)
    with pytest.raises(AttributeError, match="Iter is immutable"):
        cast("Any", numbers).node = None


def test_building_has_no_effects() -> None:
    events: list[str] = []

    def source() -> list[int]:
        events.append("read")
        return [1]

    actors = create_actors(lambda shard: events.append("made"), num=1)
    stream = Union(
        from_iterable(source).map(lambda x: events.append("map")),
        from_actors(actors, lambda actor: events.append("pull")).gather_async(),
    )
    stream.validate()
    assert str(stream)
    assert stream.fingerprint
    assert not stream.deterministic
    run = stream.run()
    assert run.stats().operators
    assert run.ledger.balanced
    assert events == []
    run.close()
    with LocalRuntime() as session:
        stream.run(runtime=session)
    assert events == []
