"""Batches: the laws of concatenation, slices, minibatches and sequences, and who follows whom."""

from __future__ import annotations

import itertools
import pickle
from typing import Literal, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tflow import Batch
from tflow.data import MultiBatch
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import AnyBatch, Rollout
from tflow.rl.data.episodes import Episodes
from tflow.runtime.border import serialised_copy
from tflow.testing.batches import rollouts


def same(one: AnyBatch, other: AnyBatch) -> None:
    """The two say the same in every respect."""
    a, b = one.untyped(), other.untyped()
    assert a.columns.keys() == b.columns.keys()
    assert a.finals.keys() == b.finals.keys()
    for name in a.columns:
        assert a[name].dtype == b[name].dtype
        np.testing.assert_array_equal(a[name], b[name])
    for name in a.finals:
        np.testing.assert_array_equal(a.finals[name], b.finals[name])
    np.testing.assert_array_equal(a.ends, b.ends)
    assert (a.env_steps, a.policy, a.summary) == (b.env_steps, b.policy, b.summary)


def numbers(batch: Rollout) -> list[float]:
    """The observations, each of which is a number of its own."""
    obs = batch.nested("obs")
    return [float(x) for x in (obs["here"] if isinstance(obs, dict) else obs[:, 0])]


def followers(batch: Rollout) -> list[float]:
    """The observation after each row."""
    found = batch.successors("obs")
    return [float(x) for x in (found["obs/here"] if "obs/here" in found else found["obs"][:, 0])]


@given(rollouts())
def test_the_observation_after_a_row_is_the_next_number(batch: Rollout) -> None:
    assert followers(batch) == [number + 1 for number in numbers(batch)]
    widened = batch.with_next_obs()
    assert len(widened) == len(batch)
    assert "next_obs" in widened or not len(batch)


@given(rollouts(dict_obs=False), rollouts(dict_obs=False), rollouts(dict_obs=False))
def test_concat_is_associative_and_adds_up(a: Rollout, b: Rollout, c: Rollout) -> None:
    left = Batch.concat([Batch.concat([a, b]), c])
    same(left, Batch.concat([a, Batch.concat([b, c])]))
    same(left, Batch.concat([a, b, c]))
    assert left.env_steps == a.env_steps + b.env_steps + c.env_steps
    np.testing.assert_array_equal(left["rewards"], np.concatenate([a["rewards"], b["rewards"], c["rewards"]]))
    assert len(left.ends) == len(a.ends) + len(b.ends) + len(c.ends)
    merged = [each.summary for each in (a, b, c) if isinstance(each.summary, Episodes)]
    if merged:
        assert isinstance(left.summary, Episodes)
        assert left.summary.count == sum(each.count for each in merged)


@given(rollouts(dict_obs=False), rollouts(dict_obs=False))
def test_who_follows_whom_survives_concat(a: Rollout, b: Rollout) -> None:
    assert followers(Batch.concat([a, b])) == followers(a) + followers(b)


@given(rollouts(), st.data())
def test_slices_of_a_partition_concatenate_to_the_batch(batch: Rollout, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(batch)), max_size=4)))
    edges = [0, *cuts, len(batch)]
    parts = [batch.slice(start, stop) for start, stop in itertools.pairwise(edges)]
    assert sum(part.env_steps for part in parts) == batch.env_steps
    assert [each for part in parts for each in followers(part)] == followers(batch)
    whole = Batch.concat(parts) if len(batch) else parts[0]
    for name in batch.columns:
        np.testing.assert_array_equal(whole.columns[name], batch.columns[name])
    cut_rows = {edge - 1 for edge in edges if edge > 0} | {int(end) for end in batch.ends}
    assert sorted(cut_rows - {-1}) == [int(end) for end in whole.ends]


@given(rollouts(), st.integers(1, 7), st.integers(0, 2**32))
def test_minibatches_are_a_permutation_and_a_function_of_the_seed(batch: Rollout, size: int, seed: int) -> None:
    once = list(batch.minibatches(size, np.random.default_rng(seed)))
    again = list(batch.minibatches(size, np.random.default_rng(seed)))
    assert sorted(number for part in once for number in numbers(part)) == numbers(batch)
    assert [len(part) for part in once[:-1]] == [size] * (len(once) - 1)
    for part, twin in zip(once, again, strict=True):
        same(part, twin)
    assert sum(part.env_steps for part in once) == 0, "what is picked was not sampled again"
    assert sorted(numbers(batch.shuffle(np.random.default_rng(seed)))) == numbers(batch)


@given(rollouts())
def test_pieces_and_episodes(batch: Rollout) -> None:
    pieces = batch.pieces()
    assert [number for piece in pieces for number in numbers(piece)] == numbers(batch)
    assert all(len(piece.ends) == 1 for piece in pieces)
    whole = [piece for piece in pieces if piece["t"][0] == 0 and (piece["terminated"] | piece["truncated"])[-1]]
    found = batch.episodes()
    assert [numbers(episode) for episode in found] == [numbers(piece) for piece in whole]


@given(rollouts(min_pieces=1), st.integers(1, 5), st.data())
def test_sequences_hold_every_row_once(batch: Rollout, length: int, data: st.DataObject) -> None:
    burn_in = data.draw(st.integers(0, length - 1))
    sequences = batch.sequences(length, burn_in=burn_in)
    assert len(sequences) == len(sequences.ends) * length
    counted = sequences["mask"] & ~sequences["burn_in"]
    obs = sequences.nested("obs")
    seen = (obs["here"] if isinstance(obs, dict) else obs[:, 0])[counted]
    assert [float(x) for x in seen] == numbers(batch)
    # padding is at the end of a sequence, burn-in at its beginning
    mask, warm = sequences["mask"].reshape(-1, length), sequences["burn_in"].reshape(-1, length)
    assert np.all(mask[:, :-1] >= mask[:, 1:])
    assert np.all(warm[:, :-1] >= warm[:, 1:])
    finals = sequences.finals["obs/here"] if "obs/here" in sequences.finals else sequences.finals["obs"][:, 0]
    numbered = (obs["here"] if isinstance(obs, dict) else obs[:, 0]).reshape(-1, length)
    for row, valid, final in zip(numbered, mask, finals, strict=True):
        assert float(final) == float(row[valid][-1]) + 1
        assert (row[~valid] == row[0]).all(), "a network reads padding, so it looks like an observation"
    assert not sequences["rewards"][~sequences["mask"]].any()


def test_sequences_take_the_memory_of_their_first_row() -> None:
    state = np.arange(10, dtype=np.float32).reshape(5, 2)
    batch: Batch[str] = Batch({"obs": np.zeros((5, 1)), "state": state}, ends=np.array([2, 4]))
    sequences = batch.sequences(2)
    assert sequences.finals["state"].tolist() == [[0, 1], [4, 5], [6, 7]]
    assert "state" not in sequences


def test_arrays_are_read_only_and_stay_so_across_a_border() -> None:
    batch: Batch[Literal["rewards"]] = Batch({"rewards": np.zeros(3)}, finals={"obs": np.zeros((1, 2))}, env_steps=3)
    for copy in (batch, pickle.loads(pickle.dumps(batch)), serialised_copy(batch)):
        assert isinstance(copy, Batch)
        same(copy, batch)
        for array in (copy["rewards"], copy.ends, copy.finals["obs"]):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


@pytest.mark.parametrize(
    ("columns", "more", "message"),
    [
        ({"a": np.zeros(2), "b": np.zeros(3)}, {}, "same length, got {'a': 2, 'b': 3}"),
        ({"a": np.zeros(2)}, {"ends": np.array([0])}, "stop at the last row, 1"),
        ({"a": np.zeros(2)}, {"ends": np.array([1, 1])}, "must increase"),
        ({"a": np.zeros(2)}, {"finals": {"a": np.zeros(2)}}, "one row per piece, 1 here; got {'a': 2}"),
    ],
)
def test_what_does_not_fit_is_refused(columns: dict[str, Array], more: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Batch(columns, **more)  # type: ignore[arg-type]  # wrong on purpose


def test_sentences() -> None:
    batch: Batch[str] = Batch({"obs/camera": np.zeros((2, 3)), "rewards": np.zeros(2)})
    with pytest.raises(KeyError, match="has no column 'advantages', only"):
        batch["advantages"]
    with pytest.raises(KeyError, match=r"read nested\('obs'\)\[\.\.\.\] with one of \['camera'\]"):
        batch["obs"]
    with pytest.raises(ValueError, match="what follows the last row of each piece is not known for"):
        batch.take(np.array([0])).successors("obs")
    with pytest.raises(ValueError, match="the batch has 2 rows"):
        batch.with_columns({"a": np.zeros(3)})
    with pytest.raises(ValueError, match="same columns; \\['b'\\] are in some"):
        Batch.concat([Batch({"a": np.zeros(1)}), Batch({"a": np.zeros(1), "b": np.zeros(1)})])
    with pytest.raises(ValueError, match="policies 'x' and 'y'"):
        Batch.concat([Batch({"a": np.zeros(1)}, policy="x"), Batch({"a": np.zeros(1)}, policy="y")])
    with pytest.raises(ValueError, match="give at least one"):
        Batch.concat([])
    with pytest.raises(ValueError, match="burn_in must be below length"):
        batch.sequences(2, burn_in=2)
    with pytest.raises(KeyError, match="no policy 'z', only \\['x'\\]"):
        MultiBatch(cast("dict[str, Batch[str]]", {"x": batch}))["z"]


def test_a_batch_of_several_policies_survives_pickling() -> None:
    one: Batch[str] = Batch({"a": np.zeros(2)}, policy="x")
    many = MultiBatch({"x": one}, env_steps=2, summary=Episodes(1))
    copy = pickle.loads(pickle.dumps(many))
    same(copy["x"], one)
    assert (copy.env_steps, copy.summary, len(copy)) == (2, Episodes(1), 2)
    assert "x: 2 rows" in repr(copy)
    assert "2 rows in 1 pieces: a float64" in repr(one)


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 9)), max_size=130), st.data())
def test_merging_statistics_of_episodes_is_associative(episodes: list[tuple[int, int]], data: st.DataObject) -> None:
    def counted(some: list[tuple[int, int]]) -> Episodes:
        found = Episodes()
        for value, length in some:
            found = found.merged(Episodes(1, (value,), (length,), policies={"p": Episodes(1, (value,), (length,))}))
        return found

    cut = data.draw(st.integers(0, len(episodes)))
    whole = counted(episodes)
    assert counted(episodes[:cut]).merged(counted(episodes[cut:])) == whole
    assert whole.count == len(episodes)
    assert whole.returns == tuple(value for value, _ in episodes[-100:])
    if episodes:
        assert whole.policies["p"].mean_length == pytest.approx(np.mean([length for _, length in episodes[-100:]]))
