"""Corners that a review found broken once: several shards on one actor, sessions shared by runs, ends in the middle."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from threading import Lock
from typing import Any, TypeGuard, cast

import cloudpickle
import numpy as np
import pytest
from typing_extensions import TypeIs

from tests.laws.world import RUNTIMES, Learn, Sample, Sampler, samplers, sampling
from tflow import (
    Actors,
    Iter,
    Live,
    LiveOp,
    LocalRuntime,
    ParUnion,
    PlanError,
    Shard,
    Stateful,
    Stateless,
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
from tflow.combinators.nodes import Node
from tflow.errors import OperatorError, RunClosed
from tflow.runtime.border import is_frozen
from tflow.types import Frozen


class Same(Stateless[Any, Any]):  # Any: passes everything on
    def apply(self, item: Any, /) -> Any:  # Any: passes everything on
        return item


class Desk:
    """An actor with two trays."""

    def __init__(self, shard: Shard) -> None:
        self.notes: list[object] = []

    def left(self) -> str:
        return "left"

    def right(self) -> str:
        return "right"

    def note(self, value: object) -> None:
        self.notes.append(value)

    def read(self) -> list[object]:
        return self.notes


# --------------------------------------------------------------------------- messages and provenance


def test_one_actor_can_serve_several_shards_of_one_gather() -> None:
    desk = create_actors(Desk, num=1)
    both = ParUnion(
        from_actors(desk, Desk.left).par_map(lambda x: ("A", x)), from_actors(desk, Desk.right).par_map(lambda x: ("B", x))
    )
    assert list(both.gather_sync().take(4).run()) == [("A", "left"), ("B", "right")] * 2


@dataclass(frozen=True)
class Notes(LiveOp[int, int]):
    desk: Actors[Desk]

    def apply(self, live: Live, item: int, /) -> int:
        handles = live[self.desk]
        handles.update(Desk.note, f"p{item}", policy="p")
        handles.update(Desk.note, f"q{item}", policy="q")
        handles.update(lambda desk, value: desk.notes.append(("one", value)), item)
        handles.update(lambda desk, value: desk.notes.append(("two", value)), item)
        handles.update(Desk.note, f"P{item}", policy="p")
        return item


def test_state_is_merged_per_policy_and_method_and_comes_in_the_order_of_the_latest() -> None:
    desk = create_actors(Desk, num=1)
    run = from_range(1).for_each(Notes(desk)).run()
    list(run)
    assert run.ask(desk, Desk.read) == [["q0", ("one", 0), ("two", 0), "P0"]]


def test_state_that_rode_with_an_abandoned_call_is_not_lost() -> None:
    actors = samplers(2)
    with LocalRuntime() as session:
        run = sampling(actors).gather_async().for_each(Learn(actors, sender_only=True)).take(4).run(runtime=session)
        list(run)
        assert run.ask(actors, lambda sampler: sampler.weights) == [3, 4]
        after = sampling(actors).gather_sync().run(runtime=session)
        assert next(after).weights == 3
        assert after.provenance.versions == {"default": 3}


def test_calls_that_nobody_wants_are_not_made_later() -> None:
    actors = samplers(2)
    with LocalRuntime() as session:
        run = sampling(actors).gather_async().take(1).run(runtime=session)
        list(run)
        assert run.ledger.calls.abandoned == 1
        assert run.ask(actors, Sampler.samples_made) == [1, 0]


@pytest.mark.parametrize("mailbox", [1, 2, 3])
def test_provenance_survives_a_hand_off(mailbox: int) -> None:
    learner = create_actor(Desk)
    run = sampling(samplers(2)).gather_sync().hand_off(learner, Same(), mailbox=mailbox).take(6).run()
    for sample in run:
        assert [(s.shard, s.sequence) for s in run.provenance.sources] == [(sample.shard, sample.sequence)]


def test_provenance_survives_a_shuffle_in_other_actors() -> None:
    run = sampling(samplers(2, [6, 6])).repartition(2).par_shuffle(3).gather_async().run()
    for sample in run:
        assert [(s.shard, s.sequence) for s in run.provenance.sources] == [(sample.shard, sample.sequence)]


def test_sources_are_unique_although_two_streams_share_the_actors() -> None:
    actors = samplers(1)
    run = Union(sampling(actors).gather_sync(), sampling(actors).gather_sync()).take(6).run()
    sources = [source for _ in run for source in run.provenance.sources]
    assert len(set(sources)) == 6


# --------------------------------------------------------------------------- fed shards


def test_shards_that_end_early_are_fed_no_more_and_what_they_cannot_use_is_counted() -> None:
    endless = par_from_range(12, shards=6, repeat=True).repartition(2).par_take(2)
    for stream in (endless.gather_sync(), endless.gather_async(in_flight=3)):
        run = stream.run()
        assert len(list(run)) == 4
        assert run.ledger.balanced
        assert run.ledger.calls.in_flight == 0
    assert run.ledger.items.dropped["ended"] > 0


@pytest.mark.parametrize(
    ("flow", "steps"),
    [
        (lambda s: s.gather_sync(), 40),
        (lambda s: s.gather_async(), 40),
        (lambda s: s.repartition(2).gather_sync(), 40),
        (lambda s: s.gather_sync().call(create_actor(Desk), Same()), 40),
        (lambda s: s.par_batch(2).gather_sync(), 40),
    ],
)
def test_env_steps_are_counted_once(flow: Any, steps: int) -> None:  # Any: any flow
    @dataclass(frozen=True)
    class Fragment:
        env_steps: int = 10

    run = flow(par_from_items([Fragment() for _ in range(4)])).run()
    list(run)
    assert run.stats().env_steps == steps


# --------------------------------------------------------------------------- runs


def test_a_run_that_is_closed_in_a_loop_stops_there() -> None:
    streams: list[Iter[object]] = [from_range(10), par_from_range(9).gather_sync(), par_from_range(9).gather_async()]
    for stream in streams:
        run = stream.run()
        seen = 0
        for _ in run:
            seen += 1
            if seen == 2:
                run.close()
        assert seen == 2
        assert run.ledger.balanced
        assert run.ledger.calls.in_flight == 0
        with pytest.raises(RunClosed, match=r"^This run is closed; start a new one with plan\.run\(\)\.$"):
            next(run)
        with pytest.raises(RunClosed, match=r"^This run is closed"):
            next(run)


def test_a_session_closed_under_a_run_stops_it() -> None:
    with LocalRuntime() as session:
        run = sampling(samplers(1)).gather_sync().run(runtime=session)
        next(run)
    with pytest.raises(RunClosed, match="The LocalRuntime of this run is closed, and its actors with it"):
        next(run)


def test_two_runs_of_a_session_have_books_of_their_own() -> None:
    with LocalRuntime() as session:
        one = sampling(samplers(2)).gather_async(in_flight=2).run(runtime=session)
        two = sampling(samplers(1)).gather_async().run(runtime=session)
        next(one)
        next(two)
        assert one.ledger.balanced
        one.close()
        assert one.ledger.balanced
        assert next(two).sequence == 1


def test_an_interrupt_in_a_call_of_another_run_leaves_that_run_with_an_error() -> None:
    def interrupt(sample: Sample) -> Sample:
        raise KeyboardInterrupt

    with LocalRuntime() as session:
        other = sampling(samplers(1)).par_map(interrupt).gather_async().run(runtime=session)
        plain = sampling(samplers(1)).gather_async().run(runtime=session)
        driver = other._driver
        cell = other._started()
        cell.poll()  # its call is queued first
        with pytest.raises(KeyboardInterrupt):
            next(plain)
        assert plain.ledger.balanced
        with pytest.raises(OperatorError, match="KeyboardInterrupt"):
            next(other)
        assert not driver.mailbox.in_flight


def test_seeds_do_not_depend_on_who_is_made_first() -> None:
    a, b = create_actors(lambda shard: shard, num=1, name="a"), create_actors(lambda shard: shard, num=1, name="b")
    plan = Union(from_actors(a, lambda s: s.seed).gather_sync(), from_actors(b, lambda s: s.seed).gather_sync()).take(2)
    expected = list(plan.run())
    run = plan.run()
    run.ask(b, lambda shard: shard.seed)
    assert list(run) == expected


def test_generators_of_users_are_closed_with_the_run() -> None:
    closed: list[str] = []

    def numbers(name: str) -> Iterator[int]:
        try:
            yield from count()
        finally:
            closed.append(name)

    list(from_iterable(lambda: numbers("driver")).take(2).run())
    list(par_from_iterables([lambda: numbers("actor")]).gather_sync().take(2).run())
    with from_iterable(lambda: numbers("early")).map(abs).run() as run:
        next(run)
    assert closed == ["driver", "actor", "early"]


@dataclass(frozen=True)
class Flood(LiveOp[int, int]):
    desk: Actors[Desk]

    def apply(self, live: Live, item: int, /) -> int:
        for n in range(10):
            live[self.desk].send(Desk.note, n)
        return item


def test_messages_are_delivered_when_another_branch_ends_the_plan() -> None:
    desk = create_actor(Desk, mailbox=2)
    slow = from_range(1).for_each(Flood(desk))
    run = Union(slow, from_range(5), mode="async").take(1).run()
    list(run)
    assert run.ask(desk, Desk.read) == [list(range(10))]
    assert run.ledger.balanced


def test_messages_that_a_closed_run_never_sent_are_counted() -> None:
    desk = create_actor(Desk, mailbox=2)
    with LocalRuntime() as session:
        run = Union(from_range(1).for_each(Flood(desk)), from_range(5), mode="async").run(runtime=session)
        next(run)
        run.close()
    assert run.ledger.balanced
    assert run.ledger.calls.abandoned >= 8


class BadStart(Stateful[int, int, int]):
    def init(self) -> int:
        raise ValueError("no state")

    def step(self, state: int, item: int, /) -> tuple[int, int]:
        return state, item


def test_a_state_that_cannot_be_made_names_its_operator() -> None:
    with pytest.raises(OperatorError, match=r"^for_each\(BadStart\) on the driver, item 0, raised ValueError: no state"):
        list(from_range(2).for_each(BadStart()).run())
    with pytest.raises(OperatorError, match=r"^par_for_each\(BadStart\) in shard par_from_range\[0\], item 0"):
        list(par_from_range(2).par_for_each(BadStart()).gather_sync().run())


def test_rounds_and_stale_items_are_counted_as_items() -> None:
    run = par_from_range(5, shards=2).gather_rounds().run()
    list(run)
    stats = run.stats()["gather_rounds()"]
    assert (stats.seen, stats.shown) == (5, 3)


# --------------------------------------------------------------------------- values


@dataclass(frozen=True)
class Late:
    value: int = field(init=False)


class Marked(tuple[int, ...]):
    """A tuple with room for more."""


class Sealed(Frozen):
    pass


def test_only_what_nobody_can_change_is_shared_by_branches() -> None:
    array = np.zeros(3)
    view = array[:]
    view.flags.writeable = False
    own = np.zeros(3)
    own.flags.writeable = False
    marked = Marked([1])
    marked.note = []  # type: ignore[attr-defined]  # that is the point
    frozen: list[object] = [1, "a", (1, (2,)), Sample(0, 0, 0), own, Sealed(), Late(), None]
    changeable: list[object] = [array, view, marked, [1], {}, (1, []), bytearray()]
    assert list(map(is_frozen, frozen)) == [True] * len(frozen)
    assert list(map(is_frozen, changeable)) == [False] * len(changeable)
    a, b = from_items([Late()]).split()
    assert len(list(Union(a, b).run())) == 2


class Named(str):
    """A string with room for more."""


@dataclass(frozen=True)
class Base:
    value: int = 1


class Loose(Base):
    """Not frozen any more."""


def test_subclasses_with_room_for_more_are_not_frozen() -> None:
    name, loose = Named("a"), Loose()
    assert is_frozen(Base())
    object.__setattr__(name, "notes", [])
    object.__setattr__(loose, "notes", [])
    assert not is_frozen(name)
    assert not is_frozen(loose)


def test_unions_and_selections_of_shards_are_counted() -> None:
    run = ParUnion(par_from_items("ab"), par_from_items("cd")).select_shards(0, 2).gather_sync().run()
    assert list(run) == ["a", "c"]
    for operator in ("ParUnion()", "select_shards"):
        stats = run.stats()[operator]
        assert (stats.seen, stats.shown, stats.busy_s, stats.queued) == (2, 2, 0, 0)


def test_an_error_of_a_run_inside_flat_map_names_flat_map() -> None:
    broken = from_range(2).map(lambda x: 1 // 0).named("inner")
    with pytest.raises(OperatorError, match=r"^flat_map\(<lambda>\) on the driver, item 0, raised OperatorError: map"):
        list(from_range(1).flat_map(lambda x: broken.run()).run())


def test_branches_do_not_see_each_others_changes() -> None:
    def spoil(values: list[int]) -> int:
        values.append(9)
        return len(values)

    a, b = from_items([[1], [1, 2]]).split()
    assert list(a.map(spoil).zip(b.map(spoil)).run()) == [(2, 2), (3, 3)]


def test_streams_can_be_copied_and_pickled() -> None:
    stream = Union(from_range(3).map(str), from_items("ab"))
    for twin in (copy.copy(stream), copy.deepcopy(stream), pickle.loads(pickle.dumps(stream))):
        assert type(twin) is Union
        assert list(twin.run()) == list(stream.run())
        assert twin.fingerprint == stream.fingerprint


def test_long_plans_work() -> None:
    stream: Iter[int] = from_range(2)
    for _ in range(2000):
        stream = stream.map(lambda x: x + 1)
    assert list(Union(stream, from_range(1)).run()) == [2000, 0, 2001]
    assert "2000  map(<lambda>)" in str(stream)


class Awkward(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


def test_errors_travel_even_if_their_cause_cannot() -> None:
    error = pickle.loads(pickle.dumps(OperatorError("map(f)", item=1, cause=Awkward(1, 2), shard="x[0]")))
    assert "Awkward: 1 and 2" in str(error.cause)
    assert isinstance(error.cause, Exception)


def test_a_round_as_one_list_is_whole_or_fails() -> None:
    def check(sample: Sample) -> Sample:
        if (sample.shard, sample.sequence) == (1, 1):
            raise ValueError("bad sample")
        return sample

    run = sampling(samplers(3)).par_map(check).gather_rounds().run()
    assert len(next(run)) == 3
    with pytest.raises(OperatorError, match="bad sample"):
        next(run)
    assert run.ledger.items.dropped == {"failed": 2}
    assert run.ledger.balanced


def test_a_value_that_no_branch_can_have_a_copy_of_names_the_split() -> None:
    a, b = from_items([Lock()]).split()
    with pytest.raises(OperatorError, match=r"split\(2\) on the driver, item 0, raised TypeError"):
        list(Union(a, b).run())


def test_unions_and_selections_of_shards_can_be_nested() -> None:
    abc = ParUnion(par_from_items("ab"), ParUnion(par_from_items("cd"), par_from_items("ef")))
    assert list(abc.select_shards(5, 0, 3).par_map(str.upper).gather_sync().run()) == ["F", "A", "D"]


@dataclass(frozen=True)
class Misdirected(LiveOp[int, int]):
    desks: Actors[Desk]
    shard: int | None

    def apply(self, live: Live, item: int, /) -> int:
        live[self.desks].send(Desk.note, item, shard=self.shard)
        return item


def test_messages_to_nobody_are_refused() -> None:
    desks = create_actors(Desk, num=2, name="desks")
    with pytest.raises(OperatorError, match="send: there is no shard 2; desks has 2"):
        list(from_range(1).for_each(Misdirected(desks, 2)).run())
    with pytest.raises(OperatorError, match="send: desks has 2 actors; say which with shard="):
        list(from_range(1).for_each(Misdirected(desks, None)).run())


@dataclass(frozen=True)
class Locked(Stateless[int, int]):
    lock: object

    def apply(self, item: int, /) -> int:
        return item


def test_an_operator_that_cannot_be_copied_is_refused_with_a_sentence() -> None:
    with pytest.raises(PlanError, match=r"Locked cannot be copied for a run.*Keep locks.*out of operators"):
        list(from_range(1).for_each(Locked(Lock())).run())


@pytest.mark.parametrize("runtime", ["local", "sim", pytest.param("ray", marks=pytest.mark.ray)])
def test_long_chains_inside_actors_are_no_trouble(runtime: str) -> None:
    stream = par_from_range(3, shards=2)
    for _ in range(1_500):
        stream = stream.par_map(add_one)
    joined = ParUnion(stream, par_from_range(1, shards=1).par_map(add_one)).select_shards(2, 0)
    with RUNTIMES[runtime]() as session:
        assert sorted(joined.gather_sync().run(runtime=session)) == [1, 1500, 1501]


def add_one(value: int) -> int:
    return value + 1


def is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str)


def is_number(value: int | str) -> TypeIs[int]:
    return isinstance(value, int)


class Shout(Stateless[str, str]):
    def apply(self, item: str, /) -> str:
        return item.upper()


class Halve(Stateless[int, float]):
    def apply(self, item: int, /) -> float:
        return item / 2


def test_a_filter_narrows_what_follows() -> None:
    both: list[int | str] = [1, "a", 2]
    assert list(from_items(both).filter(is_text).for_each(Shout()).run()) == ["A"]
    assert list(from_items(both).filter(is_number).for_each(Halve()).run()) == [0.5, 1]
    assert list(par_from_items(both).par_filter(is_text).par_for_each(Shout()).gather_sync().run()) == ["A"]
    with pytest.raises(PlanError, match=r'"Halve" consumes int, but "filter\(is_text\)" before it yields str'):
        from_items(both).filter(is_text).for_each(Halve()).validate()  # type: ignore[arg-type]  # wrong on purpose


def test_functions_may_refer_to_other_plans_and_runs() -> None:
    def adding(other: Iter[int]) -> Iter[int]:
        return from_range(3).map(lambda x: x + next(iter(other.run())))

    plan = adding(from_items([7]))
    assert str(plan).startswith("Iter of ?, fingerprint ")
    assert plan.fingerprint == adding(from_items([7])).fingerprint != adding(from_items([8])).fingerprint
    assert list(plan.run()) == [7, 8, 9]
    one: list[Iter[int]] = []
    first = from_range(1).map(lambda x: x + len(one))
    second = from_range(2).map(lambda x: x + len(str(first)))
    one.append(second)
    assert first.fingerprint != second.fingerprint, "two plans that refer to each other"
    with from_items([4, 5]).run() as run:
        following = from_range(2).map(lambda x: x + next(run))
        assert following.fingerprint
        assert "from_range(2)" in str(following)
        assert list(following.run()) == [4, 6]


def test_a_cut_or_a_weight_that_makes_no_sense_ends_all_the_same() -> None:
    items = [[1, 2, 3], [4]]
    cuts: list[Callable[[list[int], int], tuple[list[int], list[int]]]] = [
        lambda item, at: ([], item),
        lambda item, at: (item, item),
    ]
    for cut in cuts:
        groups = list(from_items(items).batch(2, weigh=len, cut=cut).run())
        assert len(groups) == 2
    for weigh in (lambda item: None, lambda item: "a"):
        with pytest.raises(OperatorError, match=r"batch\(2\) on the driver, item 0"):
            list(from_items(items).batch(2, weigh=weigh).run())  # type: ignore[arg-type]  # wrong on purpose


def test_long_plans_are_tapped_pickled_and_copied() -> None:
    stream: Iter[int] = from_range(2)
    for _ in range(1_500):
        stream = stream.map(add_one)
    seen: list[int] = []
    assert list(stream.tapped("from_range", seen.append).run()) == [1500, 1501]
    assert seen == [0, 1]
    assert list(cast("Iter[int]", cloudpickle.loads(cloudpickle.dumps(stream))).run()) == [1500, 1501]


class Noted(Iter[int]):
    """A stream with attributes of its own."""

    __slots__ = ("__weakref__", "note", "unset")
    note: str

    def __init__(self, node: Node, note: str) -> None:
        object.__setattr__(self, "note", note)
        super().__init__(node)


def test_what_a_class_of_streams_adds_stays_with_it() -> None:
    noted = Noted(from_range(2).node, "mine")
    assert copy.copy(noted).note == noted.tapped("from_range", abs).note == "mine"
