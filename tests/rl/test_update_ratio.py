"""The update ratio of replay, counted exactly: by the limiter alone, and by plans that always train when they may."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import floor, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tflow
from tests.rl.test_plans import loose
from tflow import ParallelReplay, Stop, StoreToBuffer, Union, create_replay_actors
from tflow.algos import R2D2
from tflow.errors import Deadlock, PlanError
from tflow.models import LSTM, MLP
from tflow.rl.data.batch import Batch
from tflow.rl.replay.replay import Limiter
from tflow.rl.schedules import Linear, Piecewise, Schedule, schedule_of

RATIOS = st.one_of(
    st.builds(Fraction, st.integers(1, 20), st.integers(1, 64)), st.sampled_from([Fraction("0.1"), Fraction("0.3"), Fraction(20)])
)
FRAGMENTS = st.lists(st.integers(1, 20), min_size=1, max_size=15)


@dataclass(frozen=True)
class Step:
    """A ratio that changes at once."""

    before: float
    after: float
    at_row: int

    def at(self, steps: int, /) -> float:
        return self.before if steps < self.at_row else self.after


SCHEDULES: st.SearchStrategy[Schedule] = st.one_of(
    st.builds(Linear, st.floats(0, 2), st.floats(0, 2), steps=st.integers(1, 100)),
    st.builds(Step, st.sampled_from([0.0, 0.1, 1 / 3]), st.sampled_from([0.3, 2.0, 1 / 64]), st.integers(0, 60)),
    st.just(Piecewise(((0, 0.0), (50, 0.5), (60, 0.1)))),
)


def ask(limiter: Limiter, shard: int, incarnation: int = 0) -> int:
    """Ask an actor for as many batches as it may be asked for."""
    count = 0
    while not limiter.closed(shard, incarnation, 1):
        limiter.passed(shard, incarnation, 1)
        count += 1
    return count


def earned(ratio: Fraction | Schedule, first: int, stored: int) -> int:
    """The batches that the rows from the first on are worth."""
    if isinstance(ratio, Fraction):
        return floor(ratio * max(0, stored - first))
    return floor(sum(Fraction(ratio.at(row)) for row in range(first, stored)) + Fraction(1, 10**6))


@given(ratio=st.one_of(RATIOS, SCHEDULES), shards=st.integers(1, 4), min_size=st.integers(0, 60), fragments=FRAGMENTS)
def test_all_actors_together_are_asked_for_what_the_rows_are_worth(
    ratio: Fraction | Schedule, shards: int, min_size: int, fragments: list[int]
) -> None:
    limiter = Limiter(shards, min_size, float(ratio) if isinstance(ratio, Fraction) else ratio)
    stored = asked = 0
    for rows in fragments * 3:
        limiter.store(limiter.next_shard(shards), 0, rows)
        stored += rows
        asked += sum(ask(limiter, shard) for shard in range(shards))
        most = earned(ratio, min_size, stored)
        assert asked <= most
        if all(limiter.rows.get((shard, 0), 0) >= limiter.least for shard in range(shards)):
            assert asked == most


@given(ratio=st.one_of(RATIOS, SCHEDULES), min_size=st.integers(0, 60), shards=st.integers(1, 3), fragments=FRAGMENTS)
def test_a_plan_that_trains_when_it_may_makes_exactly_so_many_updates(
    ratio: Fraction | Schedule, min_size: int, shards: int, fragments: list[int]
) -> None:
    """Before each fragment is stored, all updates that the earlier ones were worth are made; in rounds, all whole rounds."""
    made, sizes, why = trained(fragments, shards, float(ratio) if isinstance(ratio, Fraction) else ratio, min_size)
    stored = np.cumsum([0, *sizes])
    for count, rows in zip(made, stored, strict=True):
        per_actor = [sum(sizes[shard : list(stored).index(rows) : shards]) for shard in range(shards)]
        ready = min(per_actor) >= max(1, -(-min_size // shards))
        assert count == (earned(ratio, min_size, int(rows)) // shards * shards if ready else 0)
    assert "update_ratio=" in why or "with which sampling starts" in why


def trained(sizes: Sequence[int], shards: int, ratio: float | Schedule, min_size: int) -> tuple[list[int], list[int], str]:
    """The updates of a plan before each fragment and at the end, the fragments, and why it did not go on."""
    replay = create_replay_actors(num_actors=shards, batch=2, kind="uniform", min_size=min_size, update_ratio=ratio)
    flags = {"terminated": False, "truncated": False}
    batches = [
        Batch[str]({"obs": np.zeros(size), "rewards": np.zeros(size), **{name: np.zeros(size, bool) for name in flags}})
        for size in sizes
    ]
    store = tflow.from_items(batches).for_each(StoreToBuffer(replay)).map(lambda batch: len(batch))
    train = ParallelReplay(replay).gather_sync().map(lambda batch: 0)
    made, stored, updates = [0], list[int](), 0
    with Union(store, train, weights=(1, inf)).run() as run, pytest.raises(Deadlock) as error:
        for rows in run:
            if rows:
                made[-1] = updates
                made.append(updates)
                stored.append(rows)
            updates += not rows
    made[-1] = updates
    return made, stored, str(error.value)


@pytest.mark.parametrize(("ratio", "rows"), [(0.1, 10), (0.3, 10), (1 / 3, 3), (1 / 64, 64), (0.7, 10), (Step(0.1, 0.1, 0), 10)])
def test_no_update_is_lost_by_rounding(ratio: float | Schedule, rows: int) -> None:
    at_once, one_by_one = Limiter(1, 5, ratio), Limiter(1, 5, ratio)
    at_once.store(0, 0, 5 + 1000 * rows)
    total = 0
    for _ in range(5 + 1000 * rows):
        one_by_one.store(0, 0, 1)
        total += ask(one_by_one, 0)
    each = ratio.at(0) if isinstance(ratio, Schedule) else ratio
    assert total == ask(at_once, 0) == round(each * rows) * 1000


def test_nothing_is_owed_when_sampling_starts() -> None:
    limiter = Limiter(1, 1000, 0.25)
    limiter.store(0, 0, 1000)
    assert ask(limiter, 0) == 0
    assert limiter.closed(0, 0, 1) == (
        "replay actor 0 has been asked for 0 batches, and 1 more would be above the 0 that update_ratio=0.25 allows it for "
        "0 rows after the first 1000"
    )
    limiter.store(0, 0, 3)
    assert ask(limiter, 0) == 0
    limiter.store(0, 0, 1)
    assert ask(limiter, 0) == 1


def test_an_actor_that_was_restarted_or_added_owes_nothing_either() -> None:
    limiter = Limiter(2, 20, 1.0)
    for _ in range(10):
        limiter.store(limiter.next_shard(2), 0, 10)
    assert ask(limiter, 0) + ask(limiter, 1) == 80
    for shard, incarnation in ((1, 1), (2, 0)):  # the second is there after a resize
        limiter.store(shard, incarnation, 9)
        limiter.store(0, 0, 9)
        assert "has been sent 9 of the 10 rows" in limiter.closed(shard, incarnation, 1)
        limiter.store(shard, incarnation, 1)
        assert ask(limiter, shard, incarnation) == 0
    limiter.next_shard(3)
    limiter.store(0, 0, 30)
    assert ask(limiter, 2) == 10
    assert ask(limiter, 1, 1) >= 10


@pytest.mark.parametrize(("length", "burn_in", "ratio"), [(8, 0, 0.25), (8, 4, 0.25), (5, 2, Linear(0.0, 1.0, steps=200))])
def test_sequences_are_counted_by_rows(length: int, burn_in: int, ratio: float | Schedule) -> None:
    config = R2D2(
        num_envs=2,
        fragment=8,
        length=length,
        burn_in=burn_in,
        batch=2,
        learning_starts=40,
        capacity=400,
        n_step=2,
        update_ratio=ratio,
        model=LSTM(4, MLP((4,))),
    )
    found, at = list(config.run(stop=Stop(updates=30))), schedule_of(ratio).at
    assert 40 < found[0].env_steps <= 40 + 16, "nothing is owed when it starts"
    for item, following in pairwise(found):
        if following.env_steps > item.env_steps:  # training has done what it was due
            assert item.training.updates == floor(sum(at(row) for row in range(40, item.env_steps)) + 1e-6)
    assert found[-1].env_steps > 100


def test_a_schedule_goes_by_the_rows_of_all_actors() -> None:
    limiter = Limiter(2, 0, Step(0.0, 1.0, 100))
    for _ in range(10):
        limiter.store(limiter.next_shard(2), 0, 10)
    assert ask(limiter, 0) + ask(limiter, 1) == 0
    limiter.store(0, 0, 10)
    assert ask(limiter, 0) + ask(limiter, 1) == 10


def test_without_a_ratio_there_is_no_limit() -> None:
    limiter = Limiter(1, 5, None)
    limiter.store(0, 0, 5)
    assert not limiter.closed(0, 0, 10**6)


@pytest.mark.parametrize(
    ("ratio", "sentence"),
    [
        (0, "update_ratio must be finite and above 0, got 0"),
        (-0.5, "update_ratio must be finite and above 0, got -0.5"),
        (float("nan"), "update_ratio: expected a finite number or a schedule"),
        ("often", "update_ratio: expected a finite number or a schedule"),
        (Linear(-1.0, 1.0, steps=5), "update_ratio after 0 rows must be .*0.*got -1"),
    ],
)
def test_ratios_that_make_no_sense(ratio: object, sentence: str) -> None:
    with pytest.raises(PlanError, match=f"create_replay_actors: {sentence}"):
        loose.create_replay_actors(update_ratio=ratio)
