"""Which weights an item was made with, through everything that holds items or calls back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.laws.test_gather import ledger_actor
from tests.laws.world import RUNTIMES, Learn, Sample, Sampler, over_runtimes, samplers, sampling
from tests.unit.test_corners import Same
from tflow import (
    Actors,
    Async,
    Iter,
    Live,
    LocalRuntime,
    ParIter,
    Union,
    from_actors,
    from_range,
    par_from_items,
    par_from_iterables,
)
from tflow.types import Provenance, Source, StatefulLiveOp

HOLDS_BACK: dict[str, Callable[[ParIter[Sample]], ParIter[Sample, Async]]] = {
    "flat_map": lambda s: s.par_flat_map(lambda sample: [sample] * 4),
    "shuffle": lambda s: s.par_shuffle(3),
    "batches": lambda s: s.par_batch(3).par_map(lambda batch: batch[0]),
    "nothing": lambda s: s,
}


@pytest.mark.parametrize("name", HOLDS_BACK)
def test_items_that_wait_inside_an_actor_keep_the_version_they_were_made_with(name: str) -> None:
    actors = samplers(2)
    run = HOLDS_BACK[name](sampling(actors)).gather_async().for_each(Learn(actors)).take(20).run()
    for sample in run:
        assert run.provenance.versions.get("default", 0) == sample.weights


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_staleness_is_bounded_for_items_that_were_held_back(bound: int) -> None:
    actors = samplers(1)
    stream = sampling(actors).par_flat_map(lambda sample: [sample] * 4).gather_async(max_staleness=bound)
    run = stream.for_each(Learn(actors)).take(12).run()
    for updates, sample in enumerate(run):
        assert updates - sample.weights <= bound
    assert run.ledger.items.dropped.get("stale", 0) > 0 or bound == 3


@dataclass(frozen=True)
class LearnAndTell(StatefulLiveOp[Sample, Sample, int]):
    """Updates every time, and sends an event with the second, so that a message takes the newest state along."""

    actors: Actors[Sampler]

    def init(self) -> int:
        return 0

    def step(self, live: Live, state: int, item: Sample, /) -> tuple[int, Sample]:
        handles = live[self.actors]
        handles.update(Sampler.set_weights, handles.advance())
        if state == 1:
            handles.send(lambda sampler, value: None, 0, shard=0)
        return state + 1, item


def test_weights_never_go_backwards() -> None:
    actors = samplers(1)
    with LocalRuntime() as session:
        list(sampling(actors).gather_async(in_flight=2).for_each(LearnAndTell(actors)).take(2).run(runtime=session))
        after = sampling(actors).gather_sync().run(runtime=session)
        assert next(after).weights == 2
        assert after.provenance.versions == {"default": 2}


def test_versions_concern_only_the_actors_that_have_them() -> None:
    learned, other = Source("workers", 0, 0, 0), Source("other", 0, 0, 0)
    parts = [Provenance(frozenset([learned]), {"default": 2}), Provenance(frozenset([other]), {})]
    assert Provenance.unite(parts).versions == {"default": 2}
    parts.append(Provenance(frozenset([Source("workers", 1, 0, 0)]), {}))
    assert Provenance.unite(parts).versions == {"default": 0}


# --------------------------------------------------------------------------- looking in between


def test_batches_and_filters_before_a_hand_off() -> None:
    assert [len(batch) for batch in from_range(300).batch(100).hand_off(ledger_actor(), Same()).run()] == [100] * 3
    assert list(from_range(300).filter(lambda x: x == 299).hand_off(ledger_actor(), Same()).run()) == [299]


@over_runtimes
def test_a_look_that_collects_the_last_call_is_no_deadlock(runtime: str) -> None:
    for length in (63, 64) if runtime == "ray" else range(60, 68):
        with RUNTIMES[runtime]() as session:
            stream: Iter[int] = Union(par_from_iterables([[1]]).gather_async(), from_range(length).drain(), mode="async")
            assert list(stream.run(runtime=session)) == [1]
            sampled = sampling(samplers(1)).gather_async().take(3).map(lambda sample: sample.sequence)
            both: Iter[int] = Union(sampled, from_range(2 * length))
            assert len(list(both.run(runtime=session))) == 3 + 2 * length


@dataclass(frozen=True)
class Fragment:
    env_steps: int = 1


def test_a_gate_of_steps_opens_at_the_same_items_on_every_runtime() -> None:
    def shown(runtime: str) -> list[object]:
        gated = par_from_items([Fragment() for _ in range(12)], shards=2).gather_sync().every(steps=3)
        stream = gated.zip(par_from_items(range(12), shards=3).gather_sync())
        assert stream.deterministic
        with RUNTIMES[runtime]() as session:
            return list(stream.run(runtime=session))

    assert shown("local") == shown("sim, any order") == shown("sim, shuffled")


# --------------------------------------------------------------------------- methods


class Helper:
    def sample(self, sampler: Sampler) -> str:
        return "helped"

    @staticmethod
    def set_weights(sampler: Sampler) -> str:
        return "static"


def test_only_methods_of_the_actor_are_looked_up_on_the_actor() -> None:
    actors = samplers(1)
    assert list(from_actors(actors, Helper().sample).gather_sync().take(1).run()) == ["helped"]
    assert list(from_actors(actors, Helper.set_weights).gather_sync().take(1).run()) == ["static"]
