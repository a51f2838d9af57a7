"""Next observations that are stored once, against buffers that store them as columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rl.test_buffers import same
from tflow.errors import CheckpointError
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch
from tflow.rl.replay.buffer import PrioritizedBuffer, ReservoirBuffer, UniformBuffer
from tflow.rl.replay.multi_buffer import LockstepBuffer, PerPolicyBuffer
from tflow.rl.replay.sequence_buffer import SequenceBuffer
from tflow.rl.replay.successors import ONCE_FROM, Successors
from tflow.rl.replay.sumtree import ReplayError

PICTURE = (ONCE_FROM // 4,)  # of float32, just large enough


class UniformColumns(UniformBuffer):
    """Stores next observations as columns, whatever their size."""

    links: ClassVar[bool] = False


class PrioritizedColumns(PrioritizedBuffer):
    """The same with priorities."""

    links: ClassVar[bool] = False


PAIRS = {
    "uniform": (UniformBuffer, UniformColumns),
    "prioritized": (PrioritizedBuffer, PrioritizedColumns),
    "reservoir": (ReservoirBuffer, ReservoirBuffer),
}


@dataclass
class Envs:
    """Some envs, stepped together, whose observations count, up to ``contents`` different ones."""

    count: int
    contents: int = 10**6
    nested: bool = False
    masks: bool = False
    now: list[int] = field(default_factory=list)
    number: int = 0

    def fresh(self) -> int:
        self.number += 1
        return self.number % self.contents

    def columns(self, numbers: list[int]) -> dict[str, Array]:
        pictures = np.multiply.outer(np.array(numbers, np.float32), np.ones(PICTURE, np.float32))
        pictures[:, ::2] *= -1  # so that there are zeros with a sign, which only bytes tell apart
        obs = {"obs/picture": pictures, "obs/speed": np.array(numbers, np.int16)} if self.nested else {"obs": pictures}
        return obs | ({"masks": np.array(numbers)[:, None] % np.arange(2, 5) == 0} if self.masks else {})

    def fragment(self, steps: int, outcomes: list[int]) -> Batch[str]:
        """So many steps of each env; an outcome of 0 terminates an episode, 1 truncates it, both 2."""
        self.now = self.now or [self.fresh() for _ in range(self.count)]
        rows: list[int] = []
        ends: list[int] = []
        finals: list[int] = []
        how: list[int] = []
        for env in range(self.count):
            for step in range(steps):
                rows.append(self.now[env])
                how.append(outcomes[(env * steps + step) % len(outcomes)])
                self.now[env] = self.fresh()
                if how[-1] <= 2 or step == steps - 1:
                    ends.append(len(rows) - 1)
                    finals.append(self.now[env])
                if how[-1] <= 2:
                    self.now[env] = self.fresh()
        reasons = np.array(how)
        columns = self.columns(rows) | {
            "rewards": np.arange(len(rows), dtype=np.float32),
            "terminated": np.isin(reasons, [0, 2]),
            "truncated": np.isin(reasons, [1, 2]),
        }
        return Batch(columns, ends=np.array(ends), finals=self.columns(finals))


OUTCOMES = st.lists(st.integers(0, 9), min_size=1, max_size=9)
ENVS = st.builds(
    Envs, st.integers(1, 3), st.sampled_from([2, 10**6]), nested=st.booleans(), masks=st.booleans()
)  # with two contents, many pieces could go on with many rows


def assert_equal(left: Batch[str], right: Batch[str]) -> None:
    assert left.columns.keys() == right.columns.keys()
    for name, column in left.columns.items():
        other = right.columns[name]
        assert (column.dtype, column.shape) == (other.dtype, other.shape)
        assert column.tobytes() == other.tobytes(), name


@pytest.mark.parametrize("kind", PAIRS)
@given(data=st.data(), envs=ENVS, capacity=st.integers(1, 40), n_step=st.integers(1, 4), gamma=st.sampled_from([None, 0.5]))
def test_samples_are_those_of_columns(
    kind: str, data: st.DataObject, envs: Envs, capacity: int, n_step: int, gamma: float | None
) -> None:
    options: dict[str, Any] = {"n_step": n_step if gamma else 1, "gamma": gamma, "seed": 3}  # Any: several kinds
    once, columns = (make(capacity, **options) for make in PAIRS[kind])
    for number in range(data.draw(st.integers(1, 12))):
        batch = envs.fragment(data.draw(st.integers(1, 5)), data.draw(OUTCOMES))
        if data.draw(st.integers(0, 5)) == 0:  # it went elsewhere
            continue
        if number and data.draw(st.integers(0, 5)) == 0:  # it brings next observations of its own
            batch = batch.with_next_obs()
            batch = batch.with_columns({"next_masks": batch.successors("masks")["masks"]}) if envs.masks else batch
        for buffer in (once, columns):
            buffer.insert(batch)
        if data.draw(st.integers(0, 3)) == 0:
            loaded = PAIRS[kind][0](capacity, **options)
            loaded.load(once.state())
            assert same(once, loaded)
            once = loaded
        assert_equal(once.sample(20), columns.sample(20))
        if isinstance(once, PrioritizedBuffer) and isinstance(columns, PrioritizedBuffer):
            drawn, other = once.sample(4), columns.sample(4)
            assert_equal(drawn, other)
            news = drawn["ids"], np.array(data.draw(st.lists(st.floats(0.1, 9), min_size=4, max_size=4)))
            for buffer in (once, columns):
                buffer.update_priorities(*news)
    assert (len(once), once.inserted, once.sampled) == (len(columns), columns.inserted, columns.sampled)


@given(data=st.data(), capacity=st.integers(1, 30), n_step=st.integers(1, 3), lockstep=st.booleans())
def test_samples_of_several_policies_are_those_of_columns(
    data: st.DataObject, capacity: int, n_step: int, lockstep: bool
) -> None:
    """One of them has small observations."""
    options: dict[str, Any] = {"n_step": n_step, "gamma": 0.9, "seed": 1}  # Any: several kinds

    def make(kind: Callable[..., UniformBuffer]) -> LockstepBuffer[UniformBuffer] | PerPolicyBuffer[UniformBuffer]:
        if lockstep:
            return LockstepBuffer(kind(capacity, **options))
        return PerPolicyBuffer({policy: kind(capacity, **options) for policy in ("cat", "mouse", "bird")})

    once, columns = make(PrioritizedBuffer), make(PrioritizedColumns)
    cats, mice = Envs(2), Envs(2, contents=2, nested=True)
    for _ in range(data.draw(st.integers(1, 8))):
        steps = data.draw(st.integers(1, 4))
        small = Envs(2).fragment(steps, data.draw(OUTCOMES))
        small = Batch(
            {**small.columns, "obs": small["obs"][:, :3]},
            ends=small.ends,
            finals={"obs": small.finals["obs"][:, :3]},
            policy="bird",
        )
        batches = {
            "cat": cats.fragment(steps, data.draw(OUTCOMES)),
            "mouse": mice.fragment(steps, data.draw(OUTCOMES)),
            "bird": small,
        }
        for buffer in (once, columns):
            buffer.insert(
                {
                    policy: Batch(batch.columns, ends=batch.ends, finals=batch.finals, policy=policy)
                    for policy, batch in batches.items()
                }
            )
        if data.draw(st.integers(0, 3)) == 0:
            state = once.state()
            once = make(PrioritizedBuffer)
            once.load(state)
        mine, others = once.sample(10), columns.sample(10)
        assert mine.keys() == others.keys()
        for policy, batch in mine.items():
            assert_equal(batch, others[policy])


@given(data=st.data(), envs=ENVS, capacity=st.integers(1, 40))
def test_storing_the_parts_is_storing_the_batch(data: st.DataObject, envs: Envs, capacity: int) -> None:
    """Down to what is stored: where a piece was cut, nothing is left of the cut."""
    parts, whole = UniformBuffer(capacity), UniformBuffer(capacity)
    for _ in range(3):
        batch = envs.fragment(data.draw(st.integers(1, 6)), data.draw(OUTCOMES))
        whole.insert(batch)
        cuts = sorted({0, len(batch), *data.draw(st.lists(st.integers(0, len(batch)), max_size=6))})
        for start, stop in pairwise(cuts):
            parts.insert(batch.slice(start, stop))
    assert_equal(parts.sample(30), whole.sample(30))
    if envs.contents > 2:  # if contents repeat, it depends on the order what goes on with what
        assert same(parts, whole)


@given(
    data=st.data(),
    count=st.integers(1, 4),
    steps=st.sampled_from([1, 1, 2, 5]),
    capacity=st.integers(4, 60),
    n_step=st.integers(1, 3),
)
def test_only_what_no_row_has_is_stored_beside_the_rows(
    data: st.DataObject, count: int, steps: int, capacity: int, n_step: int
) -> None:
    """The final observations of episodes that are over, and those of the pieces that the envs are in."""
    envs, buffer = Envs(count), UniformBuffer(capacity, n_step=n_step, gamma=0.9)
    over: list[bool] = []  # of each row: whether its episode ended, or its env has gone no further
    batch: Batch[str] = Batch({})
    ended, newest = list[bool](), list[bool]()
    for _ in range(data.draw(st.integers(1, 30))):
        batch = envs.fragment(steps, data.draw(OUTCOMES))
        buffer.insert(batch)
        ended = (batch["terminated"] | batch["truncated"]).tolist()
        over += ended
        newest = [number in batch.ends for number in range(len(batch))]
    expected = sum(over[: -len(batch)][-capacity + len(batch) :] if capacity > len(batch) else []) + sum(newest[-capacity:])
    finals = buffer._successors[""].finals
    assert finals == expected
    going_on = [new and not end for new, end in zip(newest, ended, strict=True)]
    assert np.count_nonzero(buffer.state()["open/"]) == sum(going_on[-capacity:]), "nothing else is looked for"
    row = PICTURE[0] * 4 + 4 + 1 + 1 + 4 + 8  # the observation, reward, terminated, truncated, discount, place
    assert buffer.nbytes == len(buffer) * row + finals * (PICTURE[0] * 4 + 8)


def test_memory_is_used_again() -> None:
    """However many episodes there are: no more final observations than at once."""
    envs, buffer = Envs(2), UniformBuffer(50)
    for _ in range(200):
        buffer.insert(envs.fragment(5, [9, 9, 0]))
    assert buffer._successors[""]._claimed <= 30
    assert not set(buffer._successors[""]._unused) & set(buffer._successors[""].places.tolist())


def test_small_observations_are_stored_as_columns() -> None:
    """The indirection costs more than it saves."""
    for size, once in ((ONCE_FROM // 4 - 1, False), (ONCE_FROM // 4, True)):
        buffer = UniformBuffer(10)
        rows = np.zeros((3, size), np.float32)
        buffer.insert(Batch({"obs": rows}, finals={"obs": rows[:1]}))
        assert ("columns/next_obs" in buffer.state()) is not once
        assert set(buffer.sample(2).columns) == {"obs", "next_obs"}


def test_keys_that_are_equal_by_chance_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Successors, "_keys_of", lambda self, places: [7] * len(places))
    once, columns = UniformBuffer(20), UniformColumns(20)
    envs = Envs(3, nested=True)
    for _ in range(20):
        batch = envs.fragment(1, [9, 9, 9, 9, 0])
        for buffer in (once, columns):
            buffer.insert(batch)
        assert_equal(once.sample(20), columns.sample(20))


def test_batches_must_look_alike_and_an_error_changes_nothing() -> None:
    batch = Envs(1).fragment(3, [9])
    buffer = UniformBuffer(10)
    buffer.insert(batch)
    before = buffer.state()
    bare: Batch[str] = Batch(batch.columns)
    with pytest.raises(ReplayError, match=r"Missing: \['next_obs'\]; not in the first: \[\]"):
        buffer.insert(bare)
    with pytest.raises(ReplayError, match=r"'next_obs' are float32 .*got float64"):
        buffer.insert(bare.with_columns({"next_obs": batch["obs"].astype(np.float64)}))
    with pytest.raises(ReplayError, match=r"Missing: \['next_obs', 'obs'\]; not in the first: .*'next_obs/picture'"):
        buffer.insert(Envs(1, nested=True).fragment(3, [9]))
    assert same_state(before, buffer.state())


def same_state(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:  # Any: arrays and numbers
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


def test_states_that_do_not_fit() -> None:
    buffer, other = UniformBuffer(10), UniformBuffer(10)
    buffer.insert(Envs(2).fragment(3, [9, 0, 9]))
    other.insert(Envs(1).fragment(2, [9]))
    state, before = buffer.state(), other.state()
    damages: list[tuple[dict[str, Array], str]] = [
        ({"places/": np.zeros(2, np.int64)}, "6 rows and 4 final observations, but 2 places"),
        ({"open/": np.zeros(2, np.bool_)}, r"6 rows and 2 final observations, but 6 places and {'obs': 4}"),
        ({"places/": np.full(6, 14)}, "places beyond its 4 final observations"),
        ({"open/cat:": np.zeros(4, np.bool_)}, "lacks parts"),
        ({"finals/speed": np.zeros(4)}, "lacks parts"),
    ]
    for damage, sentence in damages:
        with pytest.raises(CheckpointError, match=sentence):
            other.load(state | damage)
        assert same_state(before, other.state())
    with pytest.raises(CheckpointError, match="does not belong to a ReservoirBuffer"):
        ReservoirBuffer(10).load(state)


def test_sequences_and_states_of_columns_are_as_before() -> None:
    batch = Envs(1).fragment(6, [9])
    sequences = SequenceBuffer(5, length=3)
    sequences.insert(batch)
    assert "columns/finals:obs" in sequences.state()
    columns, once = UniformColumns(10), UniformBuffer(10)
    columns.insert(batch)
    once.load(columns.state())
    for buffer in (columns, once):
        buffer.insert(Envs(1).fragment(7, [0]))
    assert_equal(once.sample(9), columns.sample(9))


def test_a_buffer_that_is_too_large_for_the_machine_is_a_sentence() -> None:
    pictures = np.zeros((1, 4, 84, 84), np.uint8)
    batch: Batch[str] = Batch(
        {"obs": pictures, "rewards": np.zeros(1), "terminated": np.zeros(1, bool)}, finals={"obs": pictures}
    )
    with pytest.raises(ReplayError, match=r"needs 525713\.0 GiB for rows of uint8.*Make it smaller: capacity="):
        UniformBuffer(10_000_000_000).insert(batch)
