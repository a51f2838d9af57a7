"""However a run ends, all of it ends, and it says how."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import pytest

from tests.laws.test_runs import Deal, Store
from tests.laws.world import Sample, samplers, sampling
from tflow import (
    ActorOp,
    LocalRuntime,
    Run,
    Shard,
    create_actor,
    create_actors,
    from_actors,
    from_iterable,
    from_range,
    par_from_iterables,
)
from tflow.errors import OperatorError, RunClosed, ShardFailed, TflowError
from tflow.runtime.sim import SimRuntime


class Env:
    closed: list[int]

    def __init__(self, closed: list[int], shard: Shard) -> None:
        self.log, self.index = closed, shard.index

    def step(self) -> int:
        return self.index

    def close(self) -> None:
        self.log.append(self.index)


class Same(ActorOp[Env, int, int]):
    def apply(self, actor: Env, item: int, /) -> int:
        return item


def spiteful(log: list[str] | None = None, name: str = "") -> Iterator[int]:
    try:
        yield from count()
    finally:
        if log is not None:
            log.append(name)
        raise ValueError(f"will not close {name}")


def test_an_error_in_one_part_of_the_teardown_does_not_spare_the_others() -> None:
    closed: list[int] = []
    run = from_iterable(spiteful).call(create_actor(lambda shard: Env(closed, shard)), Same()).run()
    next(run)
    with pytest.raises(OperatorError, match="will not close"):
        run.close()
    assert closed == [0]
    log: list[str] = []
    sources: list[Callable[[], Iterator[int]]] = [partial(spiteful, log, name) for name in "abc"]
    run = par_from_iterables(sources).gather_sync().run()
    next(run)
    with pytest.raises(OperatorError, match="will not close a"):
        run.close()
    assert log == ["a", "b", "c"]


def test_generators_of_flat_map_are_closed() -> None:
    log: list[str] = []

    def members(n: int) -> Iterator[int]:
        try:
            yield from count()
        finally:
            log.append(f"closed {n}")

    assert list(from_range(2).flat_map(members).take(1).run()) == [0]
    assert log == ["closed 0"]


def test_a_run_can_be_closed_from_inside_its_operators() -> None:
    seen: list[int] = []
    runs: list[Run[int]] = []

    def close_after_three(item: int) -> None:
        seen.append(item)
        if item == 3:
            runs[0].close()

    runs.append(from_iterable(count).tap(close_after_three).filter(lambda x: False).run())
    assert list(runs[0]) == []
    assert seen == [0, 1, 2, 3]

    def numbers() -> Iterator[int]:
        yield 1
        runs[1].close()
        yield 2

    runs.append(from_iterable(numbers).run())
    assert list(runs[1]) == [1, 2], "the item in the making is the last"
    with pytest.raises(RunClosed):
        next(runs[1])


def test_user_code_that_raises_generator_exit_does_not_hang() -> None:
    def leave(item: int) -> int:
        raise GeneratorExit

    run = from_range(3).map(leave).run()
    with pytest.raises(GeneratorExit):
        next(run)
    with pytest.raises(RunClosed, match="GeneratorExit"):
        next(run)


def test_after_a_failure_no_iterator_of_the_run_ends_quietly() -> None:
    run = from_range(3).map(lambda x: 1 // (1 - x)).run()
    one, two = iter(run), iter(run)
    assert next(one) == 1
    with pytest.raises(OperatorError):
        next(two)
    with pytest.raises(RunClosed, match="failed earlier"):
        next(one)

    def check(sample: Sample) -> Sample:
        if sample.shard == 1:
            raise ValueError("bad sample")
        return sample

    late = sampling(samplers(2)).par_map(check).gather_sync().take(1).run()
    next(late)
    with pytest.raises(OperatorError, match="bad sample"):
        next(late)
    with pytest.raises(RunClosed, match="failed earlier"):
        next(late)


def test_actors_are_made_all_or_none() -> None:
    closed: list[int] = []

    def make(shard: Shard) -> Env:
        if shard.index == 2:
            raise OSError("no display")
        return Env(closed, shard)

    envs = create_actors(make, num=3)
    with LocalRuntime() as session:
        for _ in range(2):
            with pytest.raises(ShardFailed, match=r"make\[2\]"):
                next(from_actors(envs, Env.step).gather_sync().run(runtime=session))
        assert closed == [1, 0, 1, 0]
    assert closed == [1, 0, 1, 0]


def test_a_run_inside_an_actor_may_use_other_actors_of_the_session_but_not_its_own() -> None:
    with LocalRuntime() as session:
        inner = sampling(samplers(1)).gather_sync().take(2)

        def nested(sample: Sample) -> int:
            return len(list(inner.run(runtime=session)))

        outer = sampling(samplers(2)).par_map(nested).gather_async(in_flight=2).take(4)
        assert list(outer.run(runtime=session)) == [2, 2, 2, 2]

        own = samplers(1)

        def selfish(sample: Sample) -> Sample:
            return next(sampling(own).gather_sync().run(runtime=session))

        with pytest.raises(OperatorError, match=r"waits for that actor itself: make"):
            next(sampling(own).par_map(selfish).gather_sync().run(runtime=session))


def test_a_failed_message_is_not_forgotten_because_somebody_asked_in_between() -> None:
    stores = create_actors(Store, num=1)
    run = from_iterable(lambda: iter([1, -1, 2, 3])).for_each(Deal(stores)).run()
    assert [next(run), next(run)] == [1, -1]
    assert run.ask(stores, Store.contents) == [[1]]
    with pytest.raises(OperatorError, match="negative"):
        list(run)


def test_a_source_that_raises_when_it_is_closed_does_not_take_the_last_item_along() -> None:
    shown: list[int] = []
    with pytest.raises(
        OperatorError, match=r"^from_iterable\(spiteful\) on the driver, item \d, raised ValueError: will not close"
    ):
        list(from_iterable(spiteful).take(3).tap(shown.append).run())
    assert shown == [0, 1, 2]


def test_members_that_raise_when_they_are_closed_are_named() -> None:
    with pytest.raises(OperatorError, match=r"^flat_map.* raised ValueError: will not close"):
        list(from_range(2).flat_map(lambda _: spiteful()).take(2).run())


class Ours(TflowError):
    """A user may derive from the root of our errors."""


@pytest.mark.parametrize("runtime", [LocalRuntime, SimRuntime])
def test_one_of_our_errors_raised_by_an_actor_says_where(runtime: Callable[[], LocalRuntime]) -> None:
    def fail(actor: object) -> int:
        raise Ours("no more disk")

    plan = from_actors(create_actors(lambda shard: shard, num=1, name="envs"), fail).gather_sync()
    with runtime() as session, pytest.raises(Ours, match=r"^no more disk") as raised:
        list(plan.run(runtime=session))
    assert raised.value.__notes__ == ["Raised by from_actors(envs, fail) in shard envs[0], item 0."]


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("I say nothing")


def test_an_exception_that_cannot_be_printed_does_not_mask_itself() -> None:
    def fail(_: int) -> int:
        raise Mute

    with pytest.raises(OperatorError, match=r"raised Mute: \(its __str__ raised RuntimeError\)$") as raised:
        list(from_range(1).map(fail).run())
    assert isinstance(raised.value.cause, Mute)
