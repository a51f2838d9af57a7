"""The replay buffers against slow models: lists, dictionaries, and loops over rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tflow.errors import CheckpointError
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch
from tflow.rl.replay.buffer import PrioritizedBuffer, ReservoirBuffer, UniformBuffer
from tflow.rl.replay.sequence_buffer import SequenceBuffer
from tflow.rl.replay.sumtree import ReplayError

KINDS: list[Callable[..., UniformBuffer]] = [UniformBuffer, PrioritizedBuffer, ReservoirBuffer]
COUNTS = st.lists(st.integers(0, 25), min_size=1, max_size=6)


def numbered(first: int, count: int, policy: str = "default") -> Batch[str]:
    """Rows that can be told apart."""
    numbers = np.arange(first, first + count)
    return Batch({"number": numbers, "image": np.stack([numbers, -numbers], axis=1).astype(np.float32)}, policy=policy)


def fill(buffer: UniformBuffer, counts: list[int]) -> None:
    for count in counts:
        buffer.insert(numbered(buffer.inserted, count))


def stored(buffer: UniformBuffer, name: str = "number") -> Array:
    return np.asarray(buffer.state()[f"columns/{name}"])


def same(left: UniformBuffer, right: UniformBuffer) -> bool:
    mine, other = left.state(), right.state()
    return mine.keys() == other.keys() and all(np.array_equal(mine[name], other[name]) for name in mine)


# --------------------------------------------------------------------------- the ring


@pytest.mark.parametrize("kind", [UniformBuffer, PrioritizedBuffer])
@given(capacity=st.integers(1, 30), counts=COUNTS)
def test_the_latest_rows_are_kept(kind: Callable[[int], UniformBuffer], capacity: int, counts: list[int]) -> None:
    buffer = kind(capacity)
    fill(buffer, counts)
    total = sum(counts)
    assert (len(buffer), buffer.inserted, buffer.sampled) == (min(total, capacity), total, 0)
    if total:
        assert sorted(stored(buffer)) == list(range(total))[-capacity:]
        batch = buffer.sample(40)
        assert np.array_equal(batch["image"], np.stack([batch["number"], -batch["number"]], axis=1))
        assert set(batch["number"]) <= set(range(total)[-capacity:])
        assert (len(batch), buffer.sampled, batch.env_steps) == (40, 40, 0)
        assert np.array_equal(batch.ends, np.arange(40))


@pytest.mark.parametrize("kind", KINDS)
@given(capacity=st.integers(1, 30), counts=COUNTS)
def test_inserting_the_parts_is_inserting_the_batch(
    kind: Callable[[int], UniformBuffer], capacity: int, counts: list[int]
) -> None:
    parts, whole = kind(capacity), kind(capacity)
    fill(parts, counts)
    fill(whole, [sum(counts)])
    assert same(parts, whole)


def test_all_rows_are_sampled_equally_often() -> None:
    buffer = UniformBuffer(100, seed=5)
    fill(buffer, [150])
    counts = np.bincount(buffer.sample(100_000)["number"], minlength=150)
    assert np.all(counts[:50] == 0)
    statistic = float(((counts[50:] - 1000.0) ** 2 / 1000).sum())
    assert abs(statistic - 99) < 4 * (2 * 99) ** 0.5  # chi-square: its mean and four standard deviations


@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_read_only_and_stay_as_they_are(kind: Callable[[int], UniformBuffer]) -> None:
    buffer = kind(10)
    fill(buffer, [10])
    batch = buffer.sample(5)
    before = {name: column.copy() for name, column in batch.columns.items()}
    fill(buffer, [1000])
    for name, column in batch.columns.items():
        assert np.array_equal(column, before[name])
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides(kind: Callable[..., UniformBuffer]) -> None:
    draws = []
    for seed in (1, 1, 2):
        buffer = kind(50, seed=seed)
        fill(buffer, [70])
        draws.append(buffer.sample(30)["number"].tolist())
    assert draws[0] == draws[1] != draws[2]


# --------------------------------------------------------------------------- priorities


class Model:
    """What a prioritized buffer should hold, as a dictionary from rows to priorities."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.rows: dict[int, float] = {}
        self.inserted = 0
        self.highest = 1.0
        self.stale = 0

    def insert(self, priorities: list[float | None]) -> None:
        highest = self.highest
        for priority in priorities:
            self.rows[self.inserted] = highest if priority is None else priority
            self.highest = max(self.highest, self.rows[self.inserted])
            self.rows.pop(self.inserted - self.capacity, None)
            self.inserted += 1

    def update(self, rows: list[int], priorities: list[float]) -> None:
        for row, priority in zip(rows, priorities, strict=True):
            if row in self.rows:
                self.rows[row] = priority
                self.highest = max(self.highest, priority)
            else:
                self.stale += 1


VALUES = st.one_of(st.floats(0, 10), st.just(0.0))


@given(data=st.data(), capacity=st.integers(1, 30), alpha=st.sampled_from([0.0, 0.6, 1.0]))
def test_priorities_are_those_of_the_model(data: st.DataObject, capacity: int, alpha: float) -> None:
    buffer, model = PrioritizedBuffer(capacity, alpha=alpha, incarnation=3), Model(capacity)
    sampled: list[int] = []  # ids, however old
    for _ in range(data.draw(st.integers(1, 6))):
        count = data.draw(st.integers(1, 20))
        batch = numbered(model.inserted, count)
        if data.draw(st.booleans()):
            given_ones = data.draw(st.lists(VALUES, min_size=count, max_size=count))
            buffer.insert(batch.with_columns({"priorities": np.array(given_ones)}))
            model.insert(cast("list[float | None]", given_ones))
        else:
            buffer.insert(batch)
            model.insert([None] * count)
        if any(model.rows.values()) or alpha == 0:
            drawn = buffer.sample(data.draw(st.integers(1, 8)))
            assert np.array_equal(drawn["ids"] - drawn["ids"][0], drawn["number"] - drawn["number"][0])
            assert np.array_equal(stored(buffer)[drawn["indices"]], drawn["number"])
            assert all(model.rows[row] > 0 or alpha == 0 for row in drawn["number"])
            sampled += drawn["ids"].tolist()
        ids = data.draw(st.lists(st.sampled_from(sampled), max_size=12)) if sampled else []
        values = data.draw(st.lists(VALUES, min_size=len(ids), max_size=len(ids)))
        buffer.update_priorities(np.array(ids, np.int64), np.array(values))
        model.update([row - (buffer._newest - buffer.inserted + 1) for row in ids], values)
        state = buffer.state()
        slots = dict(zip(stored(buffer).tolist(), np.asarray(state["priorities"]).tolist(), strict=True))
        # numpy rounds powers of arrays and of numbers differently, in the last digit
        assert slots == pytest.approx({row: float(value) ** alpha for row, value in model.rows.items()}, rel=1e-14, abs=0)
        assert (state["highest"], buffer.stale) == (model.highest, model.stale)


def test_news_of_rows_that_are_gone_is_counted_and_ignored() -> None:
    buffer = PrioritizedBuffer(4)
    fill(buffer, [4])
    old = buffer.sample(4)["ids"]
    fill(buffer, [3])  # only row 3 is left
    before = np.asarray(buffer.state()["priorities"])
    buffer.update_priorities(old[:3], [50.0] * 3)
    assert np.array_equal(np.asarray(buffer.state()["priorities"]), before)
    assert buffer.stale == 3
    assert buffer.state()["highest"] == 1.0
    buffer.update_priorities(old, [5.0] * 4)
    assert buffer.stale == 6
    assert np.asarray(buffer.state()["priorities"])[3] == 5.0**0.6


def test_news_of_another_incarnation_is_ignored_even_if_the_rows_have_the_same_numbers() -> None:
    first, second = (PrioritizedBuffer(4, incarnation=incarnation) for incarnation in (0, 1))
    fill(first, [4])
    second.load(first.state())
    for buffer, other in ((first, second), (second, first)):
        buffer.update_priorities(other.sample(4)["ids"], [9.0] * 4)
        assert buffer.stale == 4
        assert set(np.asarray(buffer.state()["priorities"])) == {1.0}
    assert (first.incarnation, second.incarnation) == (0, 1)


@given(
    values=st.lists(st.floats(1e-3, 100), min_size=1, max_size=40),
    alpha=st.sampled_from([0.0, 0.6, 1.0]),
    beta=st.sampled_from([None, 0.0, 0.7, 1.0]),
)
def test_weights_are_those_of_the_paper(values: list[float], alpha: float, beta: float | None) -> None:
    buffer = PrioritizedBuffer(50, alpha=alpha, beta=0.4)
    buffer.insert(numbered(0, len(values)).with_columns({"priorities": np.array(values)}))
    batch = buffer.sample(64) if beta is None else buffer.sample(64, beta)
    scaled = np.array(values) ** alpha
    weights = (len(values) * scaled / scaled.sum()) ** -(0.4 if beta is None else beta)
    drawn = weights[batch["indices"]]
    expected = (drawn / drawn.max()).astype(np.float32)
    assert batch["weights"].dtype == np.float32
    np.testing.assert_array_max_ulp(batch["weights"], expected, maxulp=1)


def test_one_row_that_is_learned_perfectly_does_not_make_the_weights_of_all_others_tiny() -> None:
    buffer = PrioritizedBuffer(100, alpha=1.0)
    buffer.insert(numbered(0, 100).with_columns({"priorities": np.array([1e-6] + [1.0] * 99)}))
    assert buffer.sample(32, beta=1.0)["weights"].max() == 1.0


def test_rows_without_priority_are_never_sampled_and_do_not_change_the_weights() -> None:
    buffer = PrioritizedBuffer(10, alpha=1.0)
    buffer.insert(numbered(0, 4).with_columns({"priorities": np.array([0.0, 2.0, 0.0, 4.0])}))
    batch = buffer.sample(30, beta=1.0)
    assert dict(zip(batch["number"].tolist(), batch["weights"].tolist(), strict=True)) == {1: 1.0, 3: 0.5}
    buffer.update_priorities(batch["ids"], np.zeros(30))
    with pytest.raises(ReplayError, match="all priorities are 0"):
        buffer.sample(1)
    assert buffer.sampled == 30


# --------------------------------------------------------------------------- n steps


@st.composite
def rollouts(draw: st.DrawFn) -> Batch[str]:
    """Some pieces of episodes: some terminated, some truncated, some cut."""
    lengths = draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    ends = np.cumsum(lengths) - 1
    rows = int(ends[-1]) + 1
    how = np.array(draw(st.lists(st.sampled_from(["terminated", "truncated", "cut"]), min_size=len(ends), max_size=len(ends))))
    columns: dict[str, Array] = {
        "obs": np.arange(rows, dtype=np.float32),
        "rewards": np.array(draw(st.lists(st.integers(-8, 8), min_size=rows, max_size=rows)), np.float32),
        "terminated": np.zeros(rows, bool),
        "truncated": np.zeros(rows, bool),
    }
    for reason in ("terminated", "truncated"):
        columns[reason][ends[how == reason]] = True
    return Batch(columns, ends=ends, finals={"obs": 1000 + ends.astype(np.float32)})


@given(batch=rollouts())
def test_next_observations_are_found(batch: Batch[str]) -> None:
    buffer = UniformBuffer(100)
    buffer.insert(batch)
    expected = [1000 + row if row in batch.ends else row + 1 for row in range(len(batch))]
    assert stored(buffer, "next_obs").tolist() == expected
    assert "discounts" not in buffer.sample(1)


@given(batch=rollouts(), n=st.integers(1, 5))
def test_transitions_over_several_steps_are_those_of_a_loop(batch: Batch[str], n: int) -> None:
    buffer = UniformBuffer(100, n_step=n, gamma=0.5)
    buffer.insert(batch)
    for row in range(len(batch)):
        end = int(batch.ends[np.searchsorted(batch.ends, row)])
        last = min(row + n - 1, end)
        expected = {
            "obs": row,
            "rewards": sum(0.5 ** (step - row) * batch["rewards"][step] for step in range(row, last + 1)),
            "discounts": 0.0 if batch["terminated"][last] else 0.5 ** (last - row + 1),
            "next_obs": 1000 + last if last == end else last + 1,
            "terminated": batch["terminated"][last],
            "truncated": batch["truncated"][last],
        }
        assert {name: stored(buffer, name)[row] for name in expected} == expected


def test_dict_observations_get_successors_too() -> None:
    obs = {"obs/a": np.arange(3.0), "obs/b": np.arange(6).reshape(3, 2)}
    batch = Batch[str](obs, finals={"obs/a": np.array([9.0]), "obs/b": np.array([[8, 9]])})
    buffer = UniformBuffer(5)
    buffer.insert(batch)
    assert stored(buffer, "next_obs/a").tolist() == [1, 2, 9]
    assert stored(buffer, "next_obs/b").tolist() == [[2, 3], [4, 5], [8, 9]]


# --------------------------------------------------------------------------- state


@pytest.mark.parametrize("kind", [*KINDS, lambda capacity, seed: SequenceBuffer(capacity, length=3, burn_in=1, seed=seed)])
@given(capacity=st.integers(1, 20), before=COUNTS, after=COUNTS, reservoir=st.integers(0, 5))
def test_a_loaded_buffer_goes_on_as_the_saved_one(
    kind: Callable[..., UniformBuffer], capacity: int, before: list[int], after: list[int], reservoir: int
) -> None:
    saved, loaded = kind(capacity, seed=1), kind(capacity, seed=2)
    fill(loaded, [5])  # what it held is forgotten
    fill(saved, before)
    if saved.inserted:
        for _ in range(reservoir):
            saved.sample(3)
    if isinstance(saved, PrioritizedBuffer):
        saved.update_priorities([0, 1], [3.0, 0.5])
    loaded.load(saved.state())
    assert same(saved, loaded)
    for count in after:
        for buffer in (saved, loaded):
            fill(buffer, [count])
        if saved.inserted:
            mine, other = saved.sample(4), loaded.sample(4)
            assert mine.columns.keys() == other.columns.keys()
            for name, column in mine.columns.items():
                assert np.array_equal(column, other.columns[name])
    assert same(saved, loaded)


def test_a_state_is_a_copy() -> None:
    buffer = PrioritizedBuffer(5)
    fill(buffer, [5])
    state = buffer.state()
    fill(buffer, [5])
    buffer.update_priorities(buffer.sample(2)["ids"], [7.0, 7.0])
    assert np.asarray(state["columns/number"]).tolist() == [0, 1, 2, 3, 4]
    assert set(np.asarray(state["priorities"])) == {1.0}
    assert all(isinstance(part, (int, float, np.ndarray)) for part in state.values())


@pytest.mark.parametrize("make", [*KINDS, lambda capacity: SequenceBuffer(capacity, length=2)])
def test_samples_say_whose_they_are(make: Callable[[int], UniformBuffer]) -> None:
    buffer, loaded = make(5), make(5)
    buffer.insert(numbered(0, 3, "Kater \N{CAT}"))
    loaded.load(buffer.state())
    for each in (buffer, loaded):
        assert each.sample(2).policy == each.policy == "Kater \N{CAT}"
        with pytest.raises(ReplayError, match="of the policy 'Kater \N{CAT}', got some of 'mouse'\\. Use a PerPolicyBuffer"):
            each.insert(numbered(0, 3, "mouse"))


def test_states_that_do_not_fit() -> None:
    buffer = PrioritizedBuffer(5)
    fill(buffer, [3])
    for other in (PrioritizedBuffer(4), UniformBuffer(5)):
        fill(other, [2])
        before = other.state()
        with pytest.raises(CheckpointError, match=rf"does not belong to a {type(other).__name__} of capacity {other.capacity}"):
            other.load(buffer.state())
        assert np.array_equal(before["columns/number"], other.state()["columns/number"])
    for name in ("columns/number", "priorities"):
        with pytest.raises(CheckpointError, match=rf"has 3 rows, but its columns have {{'{name.removeprefix('columns/')}': 2}}"):
            buffer.load(buffer.state() | {name: np.zeros(2)})
