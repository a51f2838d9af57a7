"""Runs on Ray that are saved, continued, and whose learner or replay is killed."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.algos.test_algorithms import SMALL
from tests.algos.test_resume import numbers, plan_of, reports
from tests.laws.test_restore import Add, Sum
from tests.laws.world import ray_session
from tests.on_ray.mortals import is_gone, wait_until
from tflow import Shard, create_actor, create_actors, from_actors, from_range
from tflow.algos import ApeX
from tflow.algos.evaluation import reporting
from tflow.combinators.actors import Actors
from tflow.rl.metrics import Metrics
from tflow.runtime.executor import Run

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("bounded")]


def process(actor: object) -> int:
    return os.getpid()


def killed(run: Run[Metrics], actors: Actors[object]) -> None:
    """Kill the processes of some actors."""
    for pid in run.ask(actors, process):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("name", ["PPO", "A2C"])
def test_a_synchronous_plan_goes_on_bit_for_bit_here_and_there(name: str, tmp_path: Path) -> None:
    """Begun on Ray, it goes on on Ray as it does in this process."""
    with plan_of(SMALL[name], evaluated=False).run(seed=3) as whole:
        expected = reports(whole, 8)
    with ray_session() as session, plan_of(SMALL[name], evaluated=False).run(seed=3, runtime=session) as first:
        np.testing.assert_equal(reports(first, 4), expected[:4])
        first.save(tmp_path / "saved")
    with (
        ray_session() as session,
        plan_of(SMALL[name], evaluated=False).run(resume=tmp_path / "saved", runtime=session) as second,
    ):
        np.testing.assert_equal(reports(second, 4), expected[4:])
    with plan_of(SMALL[name], evaluated=False).run(resume=tmp_path / "saved") as third:
        np.testing.assert_equal(reports(third, 4), expected[4:])


@pytest.mark.parametrize("name", ["IMPALA", "ApeX"])
def test_an_asynchronous_plan_goes_on_and_its_books_with_it(name: str, tmp_path: Path) -> None:
    algorithm = SMALL[name]
    with ray_session() as session, algorithm.plan().run(seed=3, runtime=session) as first:
        before = reports(first, 30)[-1]
        first.save(tmp_path / "saved")
        ledger = first.ledger
    with ray_session() as session, algorithm.plan().run(resume=tmp_path / "saved", runtime=session) as second:
        again = numbers(next(second))
        after = reports(second, 20)[-1]
        assert second.ledger.balanced
        assert second.ledger.calls.issued >= ledger.calls.issued
        assert second.ledger.items.received >= ledger.items.received
    for count in ("env_steps", "updates", "trained", "episodes"):
        assert before[count] <= again[count] <= after[count]
    assert again["env_steps"] < 2 * before["env_steps"] + 1000, "nothing is counted twice"


def test_a_learner_and_a_replay_actor_that_are_killed_come_back_with_what_they_had(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    algorithm = SMALL["ApeX"]
    assert isinstance(algorithm, ApeX)
    plan = algorithm.plan()
    with ray_session() as session, plan.run(seed=3, runtime=session) as run:
        reports(run, 60)
        run.save(tmp_path / "saved")
        saved = numbers(next(run))
        for actors in dict.fromkeys(pool.actors for pool in session.pools.values() if pool.actors.restores):
            killed(run, actors)
        later = saved
        for _ in range(2_000):
            later = numbers(next(run))
            if (
                caplog.text.count("is back, with its state in the latest checkpoint") >= 2
                and later["updates"] > saved["updates"] + 5
            ):
                break
        assert later["updates"] > saved["updates"] + 5, "training goes on"
        assert run.ledger.balanced


def test_an_actor_that_is_killed_in_the_midst_goes_on_from_the_save(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    actor = create_actor(Sum, name="sum", restores=True)
    plan = from_range(400).map(lambda _: 1).hand_off(actor, Add(), mailbox=2)
    with ray_session() as session, plan.run(runtime=session) as run:
        found = [next(run) for _ in range(50)]
        run.save(tmp_path / "saved")
        found += [next(run) for _ in range(50)]
        assert found == list(range(1, 101))
        (pid,) = run.ask(actor, process)
        os.kill(pid, signal.SIGKILL)
        rest = list(run)
        assert rest[-1] < 400
        back = next(n for n in range(1, len(rest)) if rest[n] <= rest[n - 1])
        assert 50 < rest[back] < 60, "with what it had been given when it was saved"
    assert "Shard sum[0] is back" in caplog.text


def test_a_worker_that_dies_just_before_does_not_hinder_a_save(tmp_path: Path) -> None:
    plan = SMALL["A3C"].plan()
    with ray_session() as session, plan.run(seed=3, runtime=session) as run:
        before = reports(run, 20)[-1]
        pid = run.ask(reporting(plan).workers, process)[0]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: is_gone(pid), "the process ends")
        run.save(tmp_path / "saved")
    with ray_session() as session, SMALL["A3C"].plan().run(resume=tmp_path / "saved", runtime=session) as run:
        after = reports(run, 40)[-1]
        assert after["updates"] == before["updates"] + 40
        assert run.ledger.balanced
        assert {shard.incarnation for pool in session.pools.values() for shard in pool.shards} == {0, 1}


class Fragile(Sum):
    """Its process ends when it begins, or when it is given its state: once for each of the files that it is told."""

    def __init__(self, shard: Shard, *, at_start: Path, at_load: Path) -> None:
        super().__init__(shard)
        self.at_load = at_load
        die_once(at_start)

    def load(self, state: int) -> None:
        die_once(self.at_load)
        super().load(state)


def die_once(file: Path) -> None:
    if file.exists():
        file.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def test_an_actor_that_dies_while_it_starts_or_is_given_its_state_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    at_start, at_load = tmp_path / "start", tmp_path / "load"
    sums = create_actors(partial(Fragile, at_start=at_start, at_load=at_load), num=2, name="sums")
    plan = from_actors(sums, Fragile.next).gather_sync().take(8)
    at_start.touch()
    with ray_session() as session, plan.run(runtime=session) as first:
        assert [next(first) for _ in range(4)] == [1, 1, 2, 2]
        first.save(tmp_path / "saved")
    assert "died while it was made" in caplog.text
    at_load.touch()
    with ray_session() as session, plan.run(resume=tmp_path / "saved", runtime=session) as second:
        assert list(second) == [3, 3, 4, 4]
    assert "died before it could answer" in caplog.text
    assert not at_start.exists()
    assert not at_load.exists()
