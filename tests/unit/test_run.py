"""A run from start to end: waiting, stopping, failing, and what it leaves behind."""

from __future__ import annotations

import gc
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from types import FrameType
from typing import Any, cast

import pytest

from tflow import (
    Actors,
    LocalRuntime,
    Plan,
    PlanError,
    Shard,
    Stateful,
    Union,
    create_actors,
    from_actors,
    from_iterable,
    from_range,
    par_from_range,
)
from tflow.errors import OperatorError, RunClosed, ShardFailed
from tflow.runtime.base import Mailbox


class Env:
    """An actor that tells when it is opened and closed."""

    def __init__(self, log: list[str], shard: Shard) -> None:
        self.log = log
        self.name = shard.index
        self.steps = 0
        log.append(f"open {self.name}")

    def step(self) -> int:
        self.steps += 1
        return self.steps

    def close(self) -> None:
        self.log.append(f"close {self.name}")


def envs(log: list[str], num: int = 2) -> Actors[Env]:
    return create_actors(lambda shard: Env(log, shard), num=num, name="envs")


class Watched(LocalRuntime):
    """Counts waits and looks."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0
        self.time = 0.0

    def wait(self, mailbox: Mailbox, *, timeout: float | None = None) -> None:
        self.waits += timeout is None
        super().wait(mailbox, timeout=timeout)

    def now(self) -> float:
        return self.time


# --------------------------------------------------------------------------- items


def test_a_run_is_an_iterator_that_can_be_left_and_taken_up_again() -> None:
    run = from_range(6).run()
    assert next(run) == 0
    for item in run:
        if item == 2:
            break
    assert next(run) == 3
    assert list(run) == [4, 5]
    assert list(run) == []
    with pytest.raises(StopIteration):
        next(run)


def test_a_plan_iterates() -> None:
    class Report(Plan[int]):
        pass

    plan = Report(from_range(3).node)
    assert list(plan) == [0, 1, 2]
    assert list(plan) == [0, 1, 2], "a plan is a value"
    assert not hasattr(plan, "map")


def test_an_endless_filter_can_be_stopped() -> None:
    seen = count()

    def never(item: int) -> bool:
        if next(seen) == 1000:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        next(from_iterable(count).filter(never).run())


def test_a_plan_that_shows_nothing_for_long_says_so() -> None:
    with Watched() as runtime:

        def later(item: int) -> bool:
            runtime.time += 0.1
            return item == 2000

        stream = from_iterable(count).filter(later).named("picky").take(1)
        with pytest.warns(RuntimeWarning, match=r"No item for 60 s .* Nothing leaves filter\(later\) 'picky'"):
            assert list(stream.run(runtime=runtime)) == [2000]


def test_waits_once_per_answer_and_never_spins() -> None:
    with Watched() as runtime:
        stream = Union(par_from_range(50).gather_async(), par_from_range(50, shards=3).gather_async())
        polls = 0

        def counted(poll: Callable[[], object]) -> Callable[[], object]:
            def wrapper() -> object:
                nonlocal polls
                polls += 1
                return poll()

            return wrapper

        run = stream.run(runtime=runtime)
        first = next(run)
        for cell in run._driver.cells:
            cell.poll = cast("Any", counted(cell.poll))
        rest = list(run)
        assert len([first, *rest]) == 100
        calls = run.ledger.calls.answered
        assert runtime.waits <= calls
        assert polls <= 2 * (calls + len(rest)) + 10


# --------------------------------------------------------------------------- stopping


def test_everything_is_torn_down_at_the_end() -> None:
    log: list[str] = []
    assert len(list(from_actors(envs(log), Env.step).gather_sync().take(3).run())) == 3
    assert log == ["open 0", "open 1", "close 1", "close 0"]


def test_everything_is_torn_down_when_the_consumer_stops_early() -> None:
    log: list[str] = []
    gc.disable()  # it must not take a garbage collection
    try:
        for _ in from_actors(envs(log), Env.step).gather_async().run():
            break
        assert log == ["open 0", "open 1", "close 1", "close 0"]
    finally:
        gc.enable()


def test_everything_is_torn_down_on_an_error_and_on_ctrl_c() -> None:
    for error in (ValueError("bad"), KeyboardInterrupt()):
        log: list[str] = []

        def fail(item: int, error: BaseException = error) -> int:
            raise error

        for stream in (
            from_actors(envs(log), Env.step).gather_async().map(fail),
            from_actors(envs(log), Env.step).par_map(fail).gather_async(),
        ):
            run = stream.run()
            with pytest.raises((OperatorError, KeyboardInterrupt)):
                list(run)
            assert log == ["open 0", "open 1", "close 1", "close 0"]
            log.clear()
            assert run.ledger.balanced
            assert run.ledger.calls.in_flight == 0


def test_a_session_outlives_its_runs_and_then_closes_everything() -> None:
    log: list[str] = []
    actors = envs(log, 1)
    with LocalRuntime() as session:
        with from_actors(actors, Env.step).gather_async().run(runtime=session) as run:
            next(run)
        assert log == ["open 0"]
        (host,) = [shard.handle for pool in session.pools.values() for shard in pool.shards]
        assert cast("Any", host).chains == {}, "the run left nothing in the actor"
        assert not session.queue
    assert log == ["open 0", "close 0"]
    with pytest.raises(RunClosed, match="This LocalRuntime is closed; open a new one"):
        next(from_actors(actors, Env.step).gather_sync().run(runtime=session))


def test_a_closed_or_failed_run_says_so_instead_of_ending_quietly() -> None:
    with from_range(3).run() as run:
        pass
    with pytest.raises(RunClosed, match="This run is closed"):
        next(run)
    failing = from_range(3).map(lambda x: 1 // x).run()
    with pytest.raises(OperatorError):
        next(failing)
    with pytest.raises(RunClosed, match=r"This run failed earlier \(map\(<lambda>\).*\); start a new one") as caught:
        next(failing)
    assert isinstance(caught.value.__cause__, OperatorError)


def test_an_error_while_closing_does_not_hide_the_first() -> None:
    class Stubborn(Env):
        def close(self) -> None:
            raise RuntimeError("will not close")

    actors = create_actors(lambda shard: Stubborn([], shard), num=1)
    with pytest.raises(OperatorError, match="ZeroDivisionError") as caught:
        list(from_actors(actors, Env.step).gather_sync().map(lambda x: 1 // 0).run())
    assert caught.value.__notes__ == ["While closing: RuntimeError: will not close"]
    with pytest.raises(RuntimeError, match="will not close"):
        list(from_actors(actors, Env.step).gather_sync().take(1).run())


# --------------------------------------------------------------------------- failing


def test_an_actor_that_cannot_be_made_is_named() -> None:
    log: list[str] = []

    def make(shard: Shard) -> Env:
        if shard.index == 1:
            raise OSError("no display")
        return Env(log, shard)

    with pytest.raises(ShardFailed, match=r"Shard make\[1\] could not be made: OSError: no display") as caught:
        next(from_actors(create_actors(make), Env.step).gather_sync().run())
    assert isinstance(caught.value.__cause__, OSError)
    assert log == ["open 0", "close 0"]


def test_errors_survive_pickling() -> None:
    error = OperatorError("map(f)", item=3, cause=ValueError("bad"), shard="envs[1]")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) == "map(f) in shard envs[1], item 3, raised ValueError: bad"
    assert (copy.operator, copy.item, copy.shard, str(copy.cause)) == ("map(f)", 3, "envs[1]", "bad")


def test_stop_iteration_in_user_code_is_an_error_not_an_end() -> None:
    def stop(item: int) -> int:
        raise StopIteration

    for stream in (
        from_range(3).map(stop),
        from_range(3).flat_map(lambda x: [stop(x)]),
        par_from_range(3).par_map(stop).gather_sync(),
        par_from_range(3).par_map(stop).gather_async(),
    ):
        with pytest.raises(OperatorError, match="StopIteration"):
            list(stream.run())


@dataclass(frozen=True)
class Forgetful(Stateful[int, int, int]):
    """Returns no pair from some item on."""

    fails_at: int

    def init(self) -> int:
        return 0

    def step(self, state: int, item: int, /) -> tuple[int, int]:
        pair = (state, item)
        return pair if item < self.fails_at else cast("tuple[int, int]", item)


@pytest.mark.parametrize("fails_at", [0, 5])  # the first item is measured, the others are not
def test_a_step_that_returns_no_pair_is_told_so(fails_at: int) -> None:
    with pytest.raises(OperatorError, match=rf"Forgetful.* item {fails_at}, .*step must return a pair, \(state, item\)"):
        list(from_range(9).for_each(Forgetful(fails_at)).run())


def test_a_source_that_raises_is_named() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise ValueError("dry")

    found = []
    with pytest.raises(OperatorError, match=r"from_iterable\(source\) on the driver, item 1, raised ValueError: dry"):
        for item in from_iterable(source).map(lambda x: x).run():
            found.append(item)
    assert found == [1]


def test_pdb_works_user_code_runs_in_this_thread_with_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def hook() -> None:
        names: list[str] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        seen.append(names)

    monkeypatch.setattr(sys, "breakpointhook", hook)

    def inspect(item: int) -> int:
        breakpoint()
        return item

    list(par_from_range(1, shards=1).par_map(inspect).gather_async().run())
    assert seen[0][0] == "inspect"
    assert "test_pdb_works_user_code_runs_in_this_thread_with_its_frames" in seen[0]


def test_asking_actors_after_the_run_reads_their_final_state() -> None:
    actors = envs([], 2)
    run = from_actors(actors, Env.step).gather_sync().take(4).run()
    list(run)
    assert run.ask(actors, lambda env: env.steps) == [2, 2]
    with pytest.raises(PlanError, match="the plan does not name the actors"):
        run.ask(envs([]), lambda env: env.steps)
    with pytest.raises(OperatorError, match="ZeroDivisionError"):
        run.ask(actors, lambda env: 1 // 0)
