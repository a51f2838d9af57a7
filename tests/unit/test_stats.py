"""Counts are exact, busy time is an estimate, queues are what is really held back; gates use the run's steps and clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.test_gather import Total, ledger_actor
from tests.laws.world import Sample, Sampler, samplers, sampling
from tflow import ActorOp, Live, LiveOp, LocalRuntime, Union, create_actor, from_items, from_range, par_from_items, par_from_range
from tflow.actors import Actor
from tflow.combinators import graph, nodes
from tflow.runtime import chain
from tflow.runtime.stats import OperatorStats
from tflow.testing import SimRuntime, tapes
from tflow.testing.strategies import PARALLEL, SEQUENTIAL, build


class FakeClock(LocalRuntime):
    time = 0.0

    def now(self) -> float:
        return self.time


@dataclass(frozen=True)
class Fragment:
    env_steps: int


@given(length=st.integers(0, 300), stop=st.integers(0, 300))
def test_counts_are_exact_at_any_moment(length: int, stop: int) -> None:
    stream = from_range(length).map(abs).filter(lambda x: x % 3 != 0).map(str).batch(4)
    with stream.run() as run:
        shown = 0
        for _ in run:
            shown += 1
            if shown == stop:
                break
        kept = [x for x in range(length) if x % 3 != 0]
        stats = run.stats()
        read = stats["map(abs)"].seen
        passed = len([x for x in kept if x < read])
        assert stats["from_range"].shown == read
        assert (stats["filter"].seen, stats["filter"].shown) == (read, passed)
        assert (stats["map(str)"].seen, stats["map(str)"].shown) == (passed, passed)
        assert (stats["batch(4)"].seen, stats["batch(4)"].shown) == (passed, shown)
        assert stats["batch(4)"].queued == (passed % 4 if shown == passed // 4 else 0)


NOT_CUT_SHORT = [n for n in range(len(SEQUENTIAL) + len(PARALLEL)) if n not in (6, 9, 21, 22, 25)]
"""Pieces that consume their input to its end: not ``take``, ``zip``, nor what shows items twice or drops them."""


@given(pieces=st.lists(st.sampled_from(NOT_CUT_SHORT), max_size=4), length=st.integers(0, 12), tape=tapes())
def test_what_enters_an_operator_is_what_left_those_before_it(pieces: list[int], length: int, tape: list[int]) -> None:
    plan = build(pieces, length)
    with SimRuntime(tape) as sim:
        run = plan.run(runtime=sim)
        shown = len(list(run))
    counted = dict(zip(graph.walk(plan.node), run.stats().operators, strict=True))
    for node, stats in counted.items():
        if node.inputs:
            shares = node.of.num if isinstance(node, nodes.FedSource) and node.feeds != "one" else 1  # each shard sees its own
            assert stats.seen == shares * sum(counted[up].shown for up in node.inputs), stats
        assert stats.queued == 0, stats
    assert counted[plan.node].shown == shown


def test_a_gate_counts_what_it_lets_through() -> None:
    run = from_range(7).every(items=3).run()
    assert list(run) == [2, 5]
    assert (run.stats()["every"].seen, run.stats()["every"].shown) == (7, 2)


def test_zip_counts_pairs_and_says_what_waits() -> None:
    waiting: list[int] = []
    plan = from_range(5).zip(par_from_range(3, shards=1).gather_async().tap(lambda x: waiting.append(zipped().queued)))
    run = plan.run()

    def zipped() -> OperatorStats:
        return run.stats()["zip()"]

    assert zipped().queued == 0
    assert len(list(run)) == 3
    assert waiting == [1, 1, 1], "the left side waits for the right"
    assert (zipped().seen, zipped().shown, zipped().queued) == (7, 3, 0)


class Scale(ActorOp[Sampler, int, int]):
    def apply(self, actor: Sampler, item: int, /) -> int:
        return item * actor.weights


class Rescale(LiveOp[int, int]):
    def __init__(self, learner: Actor[Sampler]) -> None:
        self.learner = learner

    def apply(self, live: Live, item: int, /) -> int:
        live[self.learner].update(Sampler.set_weights, live[self.learner].advance())
        return item


def test_staleness_is_about_items_that_an_actor_made() -> None:
    learner = create_actor(Sampler)
    run = from_range(4).for_each(Rescale(learner)).call(learner, Scale()).run()
    assert list(run) == [0, 2, 6, 12], "each call takes the latest along"
    assert run.stats()["call"].staleness == {}


def test_counts_of_actors_are_summed_over_shards() -> None:
    stream = par_from_range(10, shards=3).par_filter(lambda x: x % 2 == 0).par_map(str).gather_async(per_call=2)
    run = stream.run()
    list(run)
    stats = run.stats()
    assert stats["par_from_range"].shown == 10
    assert (stats["par_filter"].seen, stats["par_filter"].shown) == (10, 5)
    assert stats["par_map(str)"].seen == 5
    assert stats["gather_async"].shown == 5
    assert [s.where for s in stats.operators] == ["actor", "actor", "actor", "driver"]
    with pytest.raises(KeyError, match="no operator 'nope'; there are"):
        stats["nope"]
    assert "par_filter(<lambda>)" in str(stats)


def test_counts_are_those_of_the_actors_even_for_items_that_nobody_took() -> None:
    actors = samplers(3)
    run = sampling(actors).gather_async(in_flight=2).call(ledger_actor(), Total3()).take(5).run()
    list(run)
    made = sum(run.ask(actors, lambda sampler: sampler.samples_made()))
    assert made > 5
    assert run.stats()["from_actors"].shown == made


class Total3(ActorOp[list[int], Sample, int]):
    def apply(self, actor: list[int], item: Sample, /) -> int:
        return item.sequence


def test_queues_show_what_is_held_back() -> None:
    a, b = from_range(10).split(max_lag=3)
    with Union(a, b.batch(3).drain(), weights=[3, 1]).run() as run:
        for _ in range(4):
            next(run)
        stats = run.stats()
        assert stats["split(2)"].queued == 3
        assert stats["batch(3)"].queued == 1


def test_busy_time_is_sampled_for_quick_operators_and_measured_for_slow_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0

    def now() -> int:
        return clock

    monkeypatch.setattr(chain, "perf_counter_ns", now)

    def spend(nanoseconds: int) -> Callable[[int], int]:
        def work(item: int) -> int:
            nonlocal clock
            clock += nanoseconds
            return item

        return work

    def busy(nanoseconds: int, items: int) -> float:
        run = from_range(items).map(spend(nanoseconds)).named("work").run()
        list(run)
        return run.stats()["map(work) 'work'"].busy_s

    assert busy(1_000, 640) == pytest.approx(640 * 1e-6)
    assert busy(50_000_000, 100) == pytest.approx(100 * 0.05, rel=0.7)

    switching = from_range(1000).map(spend(chain.SLOW_NS)).run()
    list(switching)
    (cell,) = [c for c in switching._driver.cells if isinstance(c, chain.Chain)]
    assert cell.quick == 0, "slow operators are measured every time"


def test_env_steps_are_counted_where_items_enter_the_driver_and_open_gates() -> None:
    fragments = [Fragment(3) for _ in range(10)]
    stream = par_from_items(fragments, shards=2).gather_sync().every(steps=10)
    run = stream.run()
    shown = list(run)
    assert run.stats().env_steps == 30
    assert len(shown) == 2
    plain = from_items([1, 2]).run()
    list(plain)
    assert plain.stats().env_steps == 0


def test_a_gate_of_seconds_uses_the_clock_of_the_runtime() -> None:
    with FakeClock() as runtime:

        def tick(item: int) -> int:
            runtime.time += 0.5
            return item

        assert list(from_range(10).map(tick).every(seconds=2).run(runtime=runtime)) == [3, 7]


def test_call_and_hand_off_are_counted_like_operators() -> None:
    run = from_range(5).hand_off(ledger_actor(), Total(), mailbox=2).run()
    list(run)
    (stats,) = [s for s in run.stats().operators if s.operator.startswith("hand_off")]
    assert (stats.seen, stats.shown, stats.where) == (5, 5, "actor")
