"""Actors that hold what cannot be made again come back from the latest checkpoint; never anew without a word."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tflow import ActorOp, Iter, Shard, create_actor, create_actors, from_actors, from_range
from tflow.errors import CheckpointError, ShardFailed
from tflow.runtime.base import Runtime
from tflow.runtime.sim import Faults, SimHost, SimRuntime
from tflow.state import folders


class Sum:
    """Adds up what it is given."""

    def __init__(self, shard: Shard) -> None:
        self.total = 0

    def state(self) -> int:
        return self.total

    def load(self, state: int) -> None:
        self.total = state

    def next(self) -> int:
        self.total += 1
        return self.total


class Add(ActorOp[Sum, int, int]):
    def apply(self, actor: Sum, item: int, /) -> int:
        actor.total += item
        return actor.total


def handed(*, restores: bool) -> Iter[int]:
    return from_range(20).map(lambda _: 1).hand_off(create_actor(Sum, name="sum", restores=restores), Add(), mailbox=1)


def kill(session: Runtime, name: str) -> None:
    """An actor dies, as under ``kill -9``."""
    assert isinstance(session, SimRuntime)
    for pool in session.pools.values():
        if pool.name == name:
            for shard in pool.shards:
                assert isinstance(shard.handle, SimHost)
                session.die(shard.handle, "it was killed")


def test_a_learner_that_dies_comes_back_with_its_last_save(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with SimRuntime() as session, handed(restores=True).run(runtime=session) as run:
        assert [next(run) for _ in range(5)] == [1, 2, 3, 4, 5]
        run.save(tmp_path / "saved")
        assert [next(run) for _ in range(3)] == [6, 7, 8]
        kill(session, "sum")
        rest = list(run)
    assert rest[0] <= 8, "what came after the save is lost"
    assert rest == list(range(rest[0], rest[0] + len(rest)))
    assert rest[0] >= 6, "and what was saved is not"
    assert "Shard sum[0] is back, with its state in the latest checkpoint." in caplog.text
    assert run.ledger.balanced


@pytest.mark.parametrize("noticed", [True, False])
def test_a_save_while_it_is_dead_keeps_what_it_will_come_back_with(tmp_path: Path, *, noticed: bool) -> None:
    plan = handed(restores=True)
    with SimRuntime() as session, plan.run(runtime=session) as run:
        assert [next(run) for _ in range(5)] == [1, 2, 3, 4, 5]
        run.save(tmp_path / "first")
        kill(session, "sum")
        if noticed:
            (shard,) = next(pool for pool in session.pools.values() if pool.name == "sum").shards
            session.found_dead(shard, "it was killed")
            assert shard.handle is None
        run.save(tmp_path / "second")
        shutil.rmtree(tmp_path / "first")
        on = list(run)
    with plan.run(runtime=SimRuntime(), resume=tmp_path / "second") as resumed:
        again = list(resumed)
    for rest in (on, again):
        assert rest[0] in (6, 7), "it goes on from what the first save had"
        assert rest == list(range(rest[0], rest[0] + len(rest)))


def test_a_save_without_what_is_dead_is_refused(tmp_path: Path) -> None:
    sums = create_actors(Sum, num=2, name="sum", restores=True)
    with SimRuntime() as session, from_actors(sums, Sum.next).gather_async().run(runtime=session) as run:
        assert next(run) == 1
        shard = next(iter(session.pools.values())).shards[1]
        assert isinstance(shard.handle, SimHost)
        session.die(shard.handle, "it was killed")
        assert any(shard.waiting for _ in islice(run, 20)), "a call waits for its next incarnation"
        with pytest.raises(
            CheckpointError, match=r"sum\[1\] is dead, and no checkpoint has what it had. Save again when it is back"
        ):
            run.save(tmp_path / "saved")
        assert not (tmp_path / "saved").exists()
        assert any(shard.handle is not None for _ in islice(run, 500)), "it comes back"
        run.save(tmp_path / "saved")


def test_without_a_checkpoint_its_death_ends_the_run(tmp_path: Path) -> None:
    with SimRuntime() as session, handed(restores=True).run(runtime=session) as run:
        next(run)
        kill(session, "sum")
        with pytest.raises(ShardFailed, match=r"sum\[0\] died under hand_off"):
            list(run)


def test_one_that_is_not_restored_ends_the_run_although_there_is_a_checkpoint(tmp_path: Path) -> None:
    with SimRuntime() as session, handed(restores=False).run(runtime=session) as run:
        next(run)
        run.save(tmp_path / "saved")
        kill(session, "sum")
        with pytest.raises(ShardFailed, match=r"sum\[0\] died under hand_off"):
            list(run)


def test_a_source_starts_anew_with_a_word_and_after_a_save_without_a_gap(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sums = create_actors(Sum, num=1, name="sum", restores=True)
    with SimRuntime() as session, from_actors(sums, Sum.next).gather_async().run(runtime=session) as run:
        assert [next(run) for _ in range(4)] == [1, 2, 3, 4]
        kill(session, "sum")
        assert next(run) == 1
        assert "Shard sum[0] starts anew, without what it had: there is no checkpoint of this run yet." in caplog.text
        assert [next(run) for _ in range(4)] == [2, 3, 4, 5]
        run.save(tmp_path / "saved")
        kill(session, "sum")
        assert next(run) in (5, 6)


def test_a_checkpoint_that_is_gone_is_a_sentence(tmp_path: Path) -> None:
    with SimRuntime((), Faults()) as session, handed(restores=True).run(runtime=session) as run:
        next(run)
        run.save(tmp_path / "saved")
        for file in (tmp_path / "saved").iterdir():
            file.unlink()
        kill(session, "sum")
        with pytest.raises(ShardFailed, match="its state could not be restored"):
            list(run)


def test_of_a_checkpoint_only_the_file_of_the_dead_actor_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sums = create_actors(Sum, num=3, name="sum", restores=True)
    with SimRuntime() as session, from_actors(sums, Sum.next).gather_async().run(runtime=session) as run:
        assert [next(run) for _ in range(6)] == [1, 1, 1, 2, 2, 2]
        run.save(tmp_path / "saved")
        held, seen = folders._content, list[str]()

        def content(folder: Path, name: str, files: Mapping[str, Any]) -> bytes:  # Any: facts of all kinds
            seen.append(name)
            return held(folder, name, files)

        monkeypatch.setattr(folders, "_content", content)
        shard = next(iter(session.pools.values())).shards[1]
        assert isinstance(shard.handle, SimHost)
        session.die(shard.handle, "it was killed")
        assert any(seen for _ in islice(run, 500)), "it comes back"
        assert sorted(set(seen)) == ["arrays.safetensors", "state.json", "sum-1-0.safetensors"]
