"""``verify``: all schedules are tried, equivalent ones once, and the smallest counterexample is told."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.one_of_each import one_of_each, right_plan, wrong_plan
from tflow import Actors, Iter, PlanError, Union, create_actor, from_actors, from_range, par_from_range
from tflow.runtime.base import Call
from tflow.testing import Faults, History, NotAllTried, Refuted, Verified, replay, verify
from tflow.testing.run_state import RunState, digest
from tflow.testing.sources import Announce, Item, Maker, makers
from tflow.testing.strategies import SEQUENTIAL, Total, an_empty_list

EVERYTHING = 10_000


def outcomes(
    plan: Callable[[], Iter[object]],
    *,
    faults: Faults,
    reduce: bool,
    limit: int,
    look: Callable[[History[object]], object] = lambda history: (),
) -> tuple[set[object], Verified]:
    """All that a plan can come to."""
    found: set[object] = set()

    def note(history: History[object]) -> None:
        sources = tuple(tuple(sorted(origin.sources)) for origin in history.origins)
        versions = tuple(repr(sorted(origin.versions.items())) for origin in history.origins)
        error = type(history.error).__name__
        found.add((repr(history.items), sources, versions, error, history.complete, history.weight_lag(), look(history)))

    told = verify(plan, note, events=60, faults=faults, limit=limit, reduce=reduce)
    assert told.exhausted
    return found, told


# --------------------------------------------------------------------------- soundness of the reduction


def head(dice: random.Random) -> Callable[[], Iter[int]]:
    """A small stream of numbers from actors."""
    items, shards = dice.randint(1, 3), dice.randint(1, 2)
    in_flight, per_call = dice.randint(1, 2), dice.randint(1, 2)
    on_death = dice.choice(["restart", "skip"])
    kind = dice.choice(["sync", "async", "call", "hand_off", "fed", "announced"])

    def make() -> Iter[int]:
        values = par_from_range(items, shards=shards)
        if kind == "sync":
            return values.gather_sync(on_death=on_death)  # type: ignore[arg-type]  # one of the two
        if kind == "async":
            return values.gather_async(in_flight=in_flight, per_call=per_call, on_death=on_death)  # type: ignore[arg-type]  # as above
        if kind == "call":
            return values.gather_async().call(create_actor(an_empty_list), Total())
        if kind == "hand_off":
            return from_range(items).hand_off(create_actor(an_empty_list), Total(), mailbox=in_flight)
        if kind == "fed":
            return par_from_range(items, shards=1).repartition(shards).gather_async()
        actors = makers(shards, [items] * shards)
        return sampled(actors)

    return make


def sampled(actors: Actors[Maker]) -> Iter[int]:
    return from_actors(actors, Maker.make).gather_async().for_each(Announce(actors)).map(number_of)


def number_of(item: Item) -> int:
    return 100 * item.version + 10 * item.source + item.number


def small_plan(dice: random.Random) -> Callable[[], Iter[object]]:
    """A small plan: one or two streams from actors, side by side or one after the other, and something on the driver."""
    heads = [head(dice) for _ in range(dice.choice([1, 1, 2]))]
    pieces = [dice.choice(SEQUENTIAL) for _ in range(dice.randint(0, 2))]
    joint = dice.choice(["turns", "async", "zip", "split"])

    def make() -> Iter[object]:
        streams = [each() for each in heads]
        stream = streams[0]
        if len(streams) == 2 and joint == "zip":
            stream = streams[0].zip(streams[1]).map(lambda pair: pair[0] + pair[1])
        elif len(streams) == 2:
            stream = Union(*streams, mode="async" if joint == "async" else "round_robin")
        elif joint == "split":
            stream = Union(*streams[0].split(2), mode="async")
        for piece in pieces:
            stream = piece(stream, lambda x: x + 1)
        return stream

    return make


@pytest.mark.parametrize(
    "faults", [Faults(), Faults(dies_before=1), Faults(dies_after=1, refuses=1), Faults(slow=1), Faults(raises=1)], ids=str
)
def test_what_is_pruned_leads_to_nothing_else(faults: Faults) -> None:
    """Over random small plans: with and without the reduction, the same outcomes and the same number of schedules."""
    dice, compared, pruned = random.Random(5), 0, 0
    for _ in range(16):
        plan = small_plan(dice)
        try:
            every, all_of_them = outcomes(plan, faults=faults, reduce=False, limit=120)
        except NotAllTried:
            continue  # too many to run them all
        fewer, told = outcomes(plan, faults=faults, reduce=True, limit=EVERYTHING)
        assert fewer == every
        assert told.schedules == all_of_them.schedules == all_of_them.runs
        compared, pruned = compared + 1, pruned + told.schedules - told.runs
    assert compared >= 4
    assert pruned > 10


def two_workers() -> Iter[int]:
    return par_from_range(4).gather_async()


def two_workers_and_a_learner() -> Iter[int]:
    return par_from_range(4).gather_async().hand_off(create_actor(an_empty_list), Total(), mailbox=2)


def test_a_reduction_that_goes_too_far_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    every, _ = outcomes(two_workers, faults=Faults(), reduce=False, limit=EVERYTHING)
    monkeypatch.setattr(RunState, "digest", lambda self, mailbox: digest(len(self.sim.trace), len(mailbox.finished)))
    fewer, _ = outcomes(two_workers, faults=Faults(), reduce=True, limit=EVERYTHING)
    assert fewer < every


def test_what_the_check_looks_at_decides_what_is_equivalent() -> None:
    """Whether two answers are seen together or one by one shows in the ledgers, and in nothing else."""

    def ledgers(history: History[object]) -> object:
        return tuple(map(str, history.ledgers))

    every, _ = outcomes(two_workers, faults=Faults(), reduce=False, limit=EVERYTHING, look=ledgers)
    fewer, told = outcomes(two_workers, faults=Faults(), reduce=True, limit=EVERYTHING, look=ledgers)
    _, blind = outcomes(two_workers, faults=Faults(), reduce=True, limit=EVERYTHING)
    assert fewer == every
    assert blind.runs < told.runs <= told.schedules

    def traces(history: History[object]) -> object:
        return tuple((moment.who, moment.what) for moment in history.trace)

    every, _ = outcomes(two_workers, faults=Faults(), reduce=False, limit=EVERYTHING, look=traces)
    assert outcomes(two_workers, faults=Faults(), reduce=True, limit=EVERYTHING, look=traces)[0] == every


# --------------------------------------------------------------------------- what it says


def in_order(history: History[int]) -> None:
    assert history.error is None
    assert sorted(history.items) == [0, 1, 2, 3]


def test_it_says_how_many_schedules_hold() -> None:
    told = verify(two_workers, in_order)
    assert (told.schedules, told.exhausted, told.longest) == (136, True, 6)
    assert str(told) == "all 136 schedules hold (48 were run, 88 pruned as equivalent; no run has more than 6 events)"
    bounded = verify(two_workers, in_order, events=3, faults=Faults(dies_after=1))
    assert not bounded.exhausted
    assert "schedules of up to 3 events under Faults(dies_after=1) or less hold (" in str(bounded)
    assert str(bounded).endswith("longer runs go on oldest first)")
    assert str(verify(lambda: from_range(3), lambda history: None)).startswith("the only schedule holds (1 were run")


def test_two_workers_and_a_learner_are_exhausted() -> None:
    def learned(history: History[int]) -> None:
        assert [sum(range(4))] == history.items[3:]

    told = verify(two_workers_and_a_learner, learned)
    assert told.exhausted
    assert told.schedules > 50_000
    assert told.runs + told.merged < 1_000


def test_the_first_counterexample_is_the_smallest(tmp_path: Path) -> None:
    with pytest.raises(Refuted, match="this mean is one-sided") as refuted:
        verify(wrong_plan, one_of_each, save=tmp_path)
    found = refuted.value.counterexample
    assert found.tape == [0, 0, 1]
    assert found.diagram in str(refuted.value)
    (saved,) = tmp_path.iterdir()
    with pytest.raises(AssertionError, match="this mean is one-sided"):
        replay(saved)
    assert verify(right_plan, one_of_each, events=5, faults=Faults(dies_after=1)).schedules > 90


class LateDeath:
    """Fails if shard 1 dies in its second call, after both shards have answered."""

    def __call__(self, history: History[int]) -> None:
        deaths = [number for number, moment in enumerate(history.trace) if moment.what == "dies_after"]
        answered = {moment.place for moment in history.trace[: deaths[0] if deaths else 0]}
        assert not deaths or len(answered) < 2 or deaths[0] < 4 or history.trace[deaths[0]].place[-2] != "1"


def test_faults_are_placed_everywhere() -> None:
    with pytest.raises(Refuted) as refuted:
        verify(two_workers, LateDeath(), faults=Faults(dies_after=1))
    assert refuted.value.counterexample.diagram.splitlines()[:8] == [
        "driver   par_from_range[0]   par_from_range[1]",
        "   |<------------|                   |           pull 0",
        "   *             |                   |           shows 0",
        "   |<------------|-------------------|           pull 2",
        "   *             |                   |           shows 2",
        "   |<------------|                   |           pull 1",
        "   *             |                   |           shows 1",
        "   |<------------|-------------------|           pull 3",
    ]


def test_faults_that_did_not_happen_are_left_out() -> None:
    with pytest.raises(Refuted) as refuted:
        verify(
            two_workers,
            lambda history: not history.happened("dies_after"),
            events=4,
            faults=Faults(dies_before=1, dies_after=1, refuses=1, slow=2),
        )
    found = refuted.value.counterexample
    assert (found.tape, found.faults) == ([0, 1], Faults(dies_after=1))


def test_a_diagram_for_mermaid() -> None:
    with pytest.raises(Refuted) as refuted:
        verify(two_workers, lambda history: not history.happened("dies_before"), faults=Faults(dies_before=1))
    told = refuted.value.counterexample.mermaid.splitlines()
    assert told[:4] == [
        "sequenceDiagram",
        "    participant driver",
        "    participant a0 as par_from_range[0]",
        "    participant a1 as par_from_range[1]",
    ]
    assert "    Note over a0: pull dies before it runs this" in told
    assert "    Note over driver,a1: time passes" in told
    assert "    Note over a0: starts again, incarnation 1" in told
    assert "    a1->>driver: pull 2" in told
    assert "    Note over driver: shows 2" in told


def test_it_never_stops_early_without_a_word() -> None:
    with pytest.raises(NotAllTried, match=r"^stopped after 20 schedules; not all were tried\. None of these failed"):
        verify(two_workers, in_order, limit=20)
    with pytest.raises(NotAllTried, match="raise limit= and seconds="):
        verify(two_workers_and_a_learner, lambda history: None, seconds=0.01)


def test_plans_that_do_not_end_are_stopped() -> None:
    def endless() -> Iter[Item]:
        return from_actors(makers(2), Maker.make).gather_async()

    told = verify(endless, lambda history: len(history.items) == 9, events=4, most=9)
    assert not told.exhausted


def test_a_plan_that_remembers_earlier_runs_is_named() -> None:
    runs: list[int] = []

    def changing() -> Iter[int]:
        runs.append(1)
        return par_from_range(4, shards=2 if len(runs) < 3 else 1).gather_async()

    with pytest.raises(PlanError, match="remembers something between runs"):
        verify(changing, lambda history: None)
    with pytest.raises(PlanError, match="remembers something between runs"):
        verify(two_workers, lambda history: runs.append(1) is None and len(runs) != 10)  # type: ignore[func-returns-value]  # so it is


def test_arguments_that_are_wrong_are_refused() -> None:
    with pytest.raises(PlanError, match="faults"):
        verify(two_workers, in_order, faults=1)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(PlanError, match="events"):
        verify(two_workers, in_order, events=-1)


def test_values_that_cannot_be_told_in_bytes_are_never_taken_for_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    def untellable(call: Call) -> bytes:
        raise TypeError

    monkeypatch.setattr("tflow.testing.run_state.content_of", untellable)
    told = verify(two_workers, in_order)
    assert told.runs == told.schedules == 136
