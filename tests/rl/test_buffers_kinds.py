"""Reservoirs, sequences, several policies, and the sentences of all buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rl.test_buffers import COUNTS, KINDS, fill, numbered, rollouts, stored
from tflow.errors import CheckpointError, PlanError
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch
from tflow.rl.replay.buffer import PrioritizedBuffer, ReservoirBuffer, UniformBuffer
from tflow.rl.replay.multi_buffer import LockstepBuffer, PerPolicyBuffer
from tflow.rl.replay.sequence_buffer import SequenceBuffer, sequence_priorities
from tflow.rl.replay.sumtree import ReplayError

# --------------------------------------------------------------------------- reservoir


def test_every_row_ever_inserted_is_kept_with_equal_probability() -> None:
    trials, capacity, rows = 3000, 10, 60
    kept = np.zeros(rows)
    for seed in range(trials):
        buffer = ReservoirBuffer(capacity, seed=seed)
        fill(buffer, [7, 20, 33])
        assert len(set(stored(buffer))) == capacity
        kept[stored(buffer)] += 1
    share = capacity / rows
    deviation = (trials * share * (1 - share)) ** 0.5
    assert np.abs(kept - trials * share).max() < 4.5 * deviation  # 60 binomial counts, all within 4.5 standard deviations


@given(capacity=st.integers(1, 12), counts=COUNTS, seed=st.integers(0, 50))
def test_a_reservoir_is_that_of_the_algorithm_row_by_row(capacity: int, counts: list[int], seed: int) -> None:
    buffer = ReservoirBuffer(capacity, seed=seed)
    fill(buffer, counts)
    dice, model = np.random.default_rng(seed), list[int]()
    for row in range(sum(counts)):
        if row < capacity:
            model.append(row)
        elif (place := dice.integers(np.array([row + 1]))[0]) < capacity:
            model[place] = row
    assert (stored(buffer).tolist() if model else []) == model
    assert len(buffer) == min(capacity, sum(counts))


# --------------------------------------------------------------------------- sequences


def recurrent(batch: Batch[str]) -> Batch[str]:
    return batch.with_columns({"state": np.stack([batch["obs"]] * 2, axis=1) + 0.5})


@given(batch=rollouts(), length=st.integers(1, 5), data=st.data())
def test_sequences_come_out_as_they_went_in(batch: Batch[str], length: int, data: st.DataObject) -> None:
    burn_in = data.draw(st.integers(0, length - 1))
    cut = cast("Batch[Any]", recurrent(batch).sequences(length, burn_in=burn_in))  # Any: it has the columns of a rollout
    buffer = SequenceBuffer(100, length=length, burn_in=burn_in)
    buffer.insert(recurrent(batch))
    assert len(buffer) == len(cut.ends)
    drawn = buffer.sample(20)
    assert np.array_equal(drawn.ends, np.arange(length - 1, 20 * length, length))
    assert set(drawn.finals) == {"ids", "indices", "obs", "state"}
    for position, slot in enumerate(drawn.finals["indices"]):
        rows = slice(position * length, (position + 1) * length)
        for name, column in cut.columns.items():
            assert np.array_equal(drawn[name][rows], column[slot * length : (slot + 1) * length])
        for name, final in cut.finals.items():
            assert np.array_equal(drawn.finals[name][position], final[slot])
    assert drawn["weights"].tolist() == [1.0] * 20 * length


def test_sequences_have_priorities_of_their_own() -> None:
    buffer = SequenceBuffer(10, length=2, alpha=1.0, eta=0.5)
    rows = numbered(0, 5).with_columns({"priorities": np.array([1.0, 3.0, 0.0, 0.0, 4.0])})
    buffer.insert(rows)
    assert np.asarray(buffer.state()["priorities"]).tolist() == [2.5, 0.0, 4.0]  # of max and mean; padding does not count
    batch = buffer.sample(13)
    assert batch.finals["indices"].tolist().count(0) == 5
    assert batch["weights"].tolist() == pytest.approx([1.0] * 10 + [0.625**0.6] * 16)
    buffer.update_priorities(batch.finals["ids"], np.full(13, 9.0))
    assert np.asarray(buffer.state()["priorities"]).tolist() == [9.0, 0.0, 9.0]
    assert (len(buffer), buffer.inserted, buffer.sampled, buffer.stale) == (3, 3, 13, 0)


@given(batch=rollouts(), length=st.integers(1, 5), eta=st.sampled_from([0.0, 0.9, 1.0]), data=st.data())
def test_priorities_of_sequences_are_those_of_a_loop(batch: Batch[str], length: int, eta: float, data: st.DataObject) -> None:
    cut = batch.sequences(length, burn_in=data.draw(st.integers(0, length - 1)))
    columns = cast("Batch[Literal['mask', 'burn_in']]", cut)
    errors = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=len(cut), max_size=len(cut))), np.float64)
    errors[~columns["mask"]] = np.nan  # whatever the learner says of padding
    expected = []
    for last in cut.ends:
        rows = range(last - length + 1, last + 1)
        counted = [abs(errors[row]) for row in rows if columns["mask"][row] and not columns["burn_in"][row]]
        expected.append(eta * max(counted) + (1 - eta) * (sum(counted) / len(counted)))
    assert sequence_priorities(errors, columns, eta=eta).tolist() == expected


# --------------------------------------------------------------------------- several policies


def test_policies_have_buffers_of_their_own() -> None:
    buffer = PerPolicyBuffer({"cat": PrioritizedBuffer(10), "mouse": PrioritizedBuffer(3)})
    with pytest.raises(ReplayError, match="PerPolicyBuffer is empty"):
        buffer.sample(1)
    buffer.insert({"cat": numbered(0, 4, "cat")})
    assert list(buffer.sample(2)) == ["cat"]
    buffer.insert({"cat": numbered(4, 2, "cat"), "mouse": numbered(100, 5, "mouse")})
    assert (len(buffer), buffer.inserted, buffer.sampled) == (9, 11, 2)
    batches = buffer.sample(6)
    assert set(batches["cat"]["number"]) <= set(range(6))
    assert set(batches["mouse"]["number"]) <= {102, 103, 104}
    buffer["mouse"].update_priorities(batches["mouse"]["ids"], np.full(6, 2.0))
    again = PerPolicyBuffer({"cat": PrioritizedBuffer(10), "mouse": PrioritizedBuffer(3)})
    again.load(buffer.state())
    for policy, batch in buffer.sample(5).items():
        assert np.array_equal(again[policy].sample(5)["number"], batch["number"])
        assert batch.policy == policy
    with pytest.raises(ReplayError, match=r"buffers for \['cat', 'mouse'\], not for 'dog'"):
        buffer.insert({"cat": numbered(6, 1), "dog": numbered(0, 1)})
    assert buffer.inserted == 11
    with pytest.raises(CheckpointError, match=r"the policies \['cat', 'mouse'\], but the buffers are for \['cat'\]"):
        PerPolicyBuffer({"cat": PrioritizedBuffer(10)}).load(buffer.state())


def test_in_lockstep_the_rows_of_a_step_are_sampled_together() -> None:
    rows = PrioritizedBuffer(10, n_step=2, gamma=1.0)
    buffer = LockstepBuffer(rows)

    def steps(first: int) -> Batch[str]:
        numbers = np.arange(first, first + 8, dtype=np.float32)
        flags = np.zeros(8, bool)
        columns = {"obs": numbers, "rewards": numbers, "terminated": flags, "t": np.arange(8)}
        return Batch(columns, finals={"obs": numbers[-1:] + 1})

    for _ in range(3):
        buffer.insert({"cat": steps(0), "mouse": steps(100)})
    batches = buffer.sample(50)
    assert list(batches) == ["cat", "mouse"]
    cat, mouse = batches.values()
    assert (cat.policy, mouse.policy) == ("cat", "mouse")
    for name in ("obs", "next_obs"):
        assert np.array_equal(cat[name] + 100, mouse[name])
    assert len(set(cat["obs"].tolist())) > 5
    assert np.array_equal(cat["ids"], mouse["ids"])
    assert (len(buffer), rows.inserted, rows.sampled) == (10, 24, 50)
    rows.update_priorities(cat["ids"], np.ones(50))
    again = LockstepBuffer(PrioritizedBuffer(10, n_step=2, gamma=1.0))
    again.load(buffer.state())
    assert np.array_equal(again.sample(5)["mouse"]["obs"], buffer.sample(5)["mouse"]["obs"])
    short = steps(0).slice(0, 7)
    for other in (short, steps(0).with_columns({"t": np.arange(1, 9)})):
        with pytest.raises(ReplayError, match="rows of the same steps"):
            buffer.insert({"cat": steps(0), "mouse": other})
    with pytest.raises(ReplayError, match=r"first\. Missing: .*mouse:obs"):
        buffer.insert({"cat": steps(0)})
    with pytest.raises(ReplayError, match="without colons"):
        buffer.insert({"c:at": steps(0)})
    buffer.insert({})
    buffer.insert({"cat": steps(0).slice(0, 0), "mouse": steps(0).slice(0, 0)})
    assert rows.inserted == 24


# --------------------------------------------------------------------------- sentences


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: UniformBuffer(0), "UniformBuffer: the capacity must be at least 1, got 0"),
        (lambda: ReservoirBuffer(-1), "ReservoirBuffer: the capacity must be at least 1, got -1"),
        (lambda: UniformBuffer(5, n_step=3), "above 1 it needs gamma; got n_step=3, gamma=None"),
        (lambda: UniformBuffer(5, n_step=0), "n_step must be at least 1"),
        (lambda: UniformBuffer(5, incarnation=-1), "incarnation must be from 0 to 4194303, got -1"),
        (lambda: PrioritizedBuffer(5, alpha=1.1), "PrioritizedBuffer: alpha must be from 0 to 1, got 1.1"),
        (lambda: PrioritizedBuffer(5, beta=-0.1), "PrioritizedBuffer: beta must be from 0 to 1, got -0.1"),
        (lambda: SequenceBuffer(5, length=2, burn_in=2), "burn_in must be from 0 to length - 1"),
        (lambda: SequenceBuffer(5, length=2, stride=0), "stride must be at least 1, got 0"),
        (lambda: SequenceBuffer(5, length=2, eta=2), "SequenceBuffer: eta must be from 0 to 1, got 2"),
        (lambda: PerPolicyBuffer({}), r"a buffer per policy, with names without colons; got \[\]"),
        (lambda: PerPolicyBuffer({"a:b": UniformBuffer(5)}), "names without colons"),
        (lambda: PerPolicyBuffer(dict.fromkeys("ab", UniformBuffer(5))), "two policies have the same buffer"),
        (lambda: LockstepBuffer(SequenceBuffer(5, length=2)), "Give a buffer of rows"),
    ],
)
def test_what_cannot_be_made(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        make()


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_inserted_or_sampled(kind: Callable[[int], UniformBuffer]) -> None:
    buffer = kind(10)
    name = cast("type", kind).__name__
    with pytest.raises(ReplayError, match=f"{name} is empty"):
        buffer.sample(3)
    buffer.insert(Batch({}))
    fill(buffer, [5])
    before = buffer.state()
    with pytest.raises(ReplayError, match=f"{name}: sample at least 1 row, not 0"):
        buffer.sample(0)
    numbers = np.arange(2)
    image = np.zeros((2, 2), np.float32)
    wrong: list[tuple[dict[str, Array], str]] = [
        ({"number": numbers}, r"Missing: \['image'\]; not in the first: \[\]"),
        ({"number": numbers, "image": image, "more": numbers}, r"Missing: \[\]; not in the first: \['more'\]"),
        ({"number": numbers, "image": image.astype(float)}, r"'image' are float32 of shape \(2,\).*got float64 of shape \(2,\)"),
        ({"number": numbers, "image": image[:, :1]}, r"'image' are float32 of shape \(2,\).*got float32 of shape \(1,\)"),
    ]
    for columns, sentence in wrong:
        with pytest.raises(ReplayError, match=sentence):
            buffer.insert(Batch(columns))
    after = buffer.state()
    assert all(np.array_equal(before[part], after[part]) for part in before)


def test_priorities_that_cannot_be_used() -> None:
    buffer = PrioritizedBuffer(10)
    fill(buffer, [5])
    before = buffer.state()
    ids = buffer.sample(3)["ids"]
    with pytest.raises(ReplayError, match="got nan at position 1"):
        buffer.update_priorities(ids, [1.0, np.nan, 3.0])
    with pytest.raises(ReplayError, match="3 ids and 2 priorities"):
        buffer.update_priorities(ids, [1.0, 2.0])
    with pytest.raises(ReplayError, match=r"got -1\.0 at position 0"):
        buffer.insert(numbered(5, 2).with_columns({"priorities": np.array([-1.0, 1.0])}))
    with pytest.raises(ReplayError, match="Missing"):
        buffer.insert(Batch({"priorities": np.array([100.0, 1.0])}))
    with pytest.raises(PlanError, match="beta must be from 0 to 1, got 3"):
        buffer.sample(2, beta=3)
    after = buffer.state()
    assert all(np.array_equal(before[part], after[part]) for part in before if part not in {"rng", "sampled"})
    with pytest.raises(ReplayError, match=r"one error per row, 2; got an array of shape \(3,\)"):
        sequence_priorities(np.zeros(3), cast("Batch[Any]", numbered(0, 2)))  # Any: it is refused before its columns are read
