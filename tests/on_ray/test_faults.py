"""Real faults on a real Ray: processes that are killed, hang, refuse to start or cannot be reached."""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import cast

import pytest
import ray
from ray import exceptions

from tests.laws.world import ray_session
from tests.on_ray.mortals import (
    Deed,
    Diaries,
    Learn,
    Learner,
    Told,
    WriteThenDie,
    at_most,
    diary,
    in_order,
    is_gone,
    mortals,
    order,
    per_life,
    pull,
    sampling,
    told,
    wait_until,
)
from tflow import ActorOp, Iter, create_actor, from_range
from tflow.errors import NoHealthyShards, ShardFailed
from tflow.runtime import cluster, driver, shards

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("bounded")]


# --------------------------------------------------------------------------- a process dies in a call


def test_a_worker_that_is_killed_in_a_call_comes_back_with_the_current_weights(tmp_path: Path) -> None:
    actors = mortals(tmp_path)
    plan = sampling(actors).gather_async(in_flight=2).for_each(Learn(actors))
    with ray_session() as session, plan.run(runtime=session) as run:
        first = pull(run, lambda item: item.shard == 1)
        order(tmp_path, "hang", 1)
        before = pull(run, lambda _: told(tmp_path, "stuck", 1))
        before += [next(run) for _ in range(20)]  # all that it had answered is here, two calls are with it
        pid = told(tmp_path, "stuck", 1)
        assert pid in {item.pid for item in first + before if item.shard == 1}
        assert pid is not None
        version = len(first + before)
        os.kill(pid, signal.SIGKILL)
        after = pull(run, lambda item: item.shard == 1)
        back = after[-1]
        assert back.weights == run.provenance.versions["default"] >= version, "sent to the earlier life, known to this one"
        assert {(source.shard, source.incarnation) for source in run.provenance.sources} == {(1, 1)}
        assert (back.life, back.sequence) == (1, 0)
        assert back.pid != pid
        assert run.ledger.calls.lost == 2, "the one that it was working on, and the one behind it"
        assert in_order(first + before + after)
        assert len(after) > 1, "the other shard went on meanwhile"
        assert {item.life for item in after if item.shard == 0} == {0}


def test_a_round_stays_whole_when_a_worker_dies_in_it(tmp_path: Path) -> None:
    order(tmp_path, "exit", 1, 1)
    with ray_session() as session, sampling(mortals(tmp_path)).gather_rounds().take(3).run(runtime=session) as run:
        rounds = []
        for each in run:
            rounds.append([(item.shard, item.life, item.sequence) for item in each])
            assert run.ledger.balanced
        assert rounds == [[(0, 0, 0), (1, 0, 0)], [(0, 0, 1), (1, 1, 0)], [(0, 0, 2), (1, 1, 1)]]
        assert run.ledger.calls.lost == 1


def test_the_log_says_that_a_process_died_and_not_why_it_might_have(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Ray's text lists all causes that it can think of; only one that is known may be named."""
    order(tmp_path, "exit", 0, 1)
    with ray_session() as session:
        first, second = sampling(mortals(tmp_path, num=1)).gather_sync().take(2).run(runtime=session)
    assert (first.life, second.life) == (0, 1)
    (message,) = [record.getMessage() for record in caplog.records]
    address = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]  # Ray's
    assert message == (
        f"Shard env[0] died: its process died (process {first.pid} on node {address}). Calls that it had not answered are lost."
    )


@pytest.mark.parametrize("flow", ["call", "hand_off"])
def test_what_a_learner_did_before_it_died_is_not_done_again(flow: str, tmp_path: Path) -> None:
    learner = create_actor(Diaries(tmp_path), name="learner")
    plan: Iter[int] = (
        from_range(8).call(learner, WriteThenDie(3), on_death="restart")
        if flow == "call"
        else from_range(8).hand_off(learner, WriteThenDie(3), on_death="restart")
    )
    with ray_session() as session, plan.run(runtime=session) as run:
        results = list(run)
        assert run.ledger.balanced
    done, lost = diary(tmp_path), run.ledger.calls.lost
    assert done == sorted(set(done)), "in order, and nothing twice"
    assert {*results, 3} <= set(done)
    assert results == [item for item in range(8) if item in results and item != 3], "in order, and of item 3 nobody heard"
    assert run.ledger.items.dropped == {"lost": lost}
    assert len(results) + lost == 8
    if flow == "call":
        assert (done, lost) == (list(range(8)), 1)
    else:
        assert lost in (1, 2), "what was in its mailbox goes with it; so does an answer that had not yet left its process"


def padded(item: Told) -> tuple[Told, bytes]:
    """Too large to travel inside an answer."""
    return item, bytes(300_000)


@dataclass(frozen=True)
class Unpad(ActorOp[Learner, list[tuple[Told, bytes]], list[Told]]):
    """Takes items that the driver did not open."""

    def apply(self, actor: Learner, item: list[tuple[Told, bytes]], /) -> list[Told]:
        return [told for told, padding in item if padding == bytes(300_000)]


def test_items_that_stay_in_the_store_outlive_the_process_that_made_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver only knows where the first one is, when its maker dies."""
    monkeypatch.setattr(shards, "FIRST_PAUSE_S", 0.01)
    order(tmp_path, "exit", 0, 1)
    items = sampling(mortals(tmp_path, num=1)).par_map(padded).gather_async()
    plan = items.batch(2).call(create_actor(Learner), Unpad())
    with ray_session() as session, plan.run(runtime=session) as run:
        assert [item[:3] for item in next(run)] == [(0, 0, 0), (0, 1, 0)]
        assert run.ledger.calls.lost == 1
        order(tmp_path, "refuse", 0, 1)
        order(tmp_path, "exit", 0)
        pairs = pull(run, lambda pair: any(item.life > 1 for item in pair))
        assert {item.life for pair in pairs for item in pair} <= {1, 3}, "the life between them could not begin"
        assert run.ledger.calls.lost == 3


# --------------------------------------------------------------------------- constructors


def test_a_constructor_that_raises_ends_the_start_and_all_other_actors(tmp_path: Path) -> None:
    order(tmp_path, "refuse", 1, 1)
    with ray_session() as session, sampling(mortals(tmp_path, num=3)).gather_async().run(runtime=session) as run:
        with pytest.raises(ShardFailed) as caught:
            next(run)
        assert str(caught.value) == "Shard env[1] could not be made: ValueError: no env today, 1"
        assert isinstance(caught.value.__cause__, ValueError)
        (note,) = caught.value.__cause__.__notes__
        assert note.startswith(f"Raised in env[1], process {told(tmp_path, 'born', 1)} on node ")
        assert "in __init__\n" in note, "where it was raised"
        born = [pid for shard in range(3) if (pid := told(tmp_path, "born", shard)) is not None]
        assert len(born) >= 2
        wait_until(lambda: all(map(is_gone, born)), "the actors of the pool end")
        assert session.pools == {}


def test_a_process_that_dies_while_it_is_made_ends_the_start(tmp_path: Path) -> None:
    order(tmp_path, "abort", 0)
    with ray_session() as session, pytest.raises(ShardFailed, match=r"^Shard env\[0\] died while it was made: "):
        list(sampling(mortals(tmp_path, num=1)).gather_async().take(1).run(runtime=session))


def test_a_constructor_that_raises_at_first_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "FIRST_PAUSE_S", 0.01)
    with ray_session() as session, sampling(mortals(tmp_path)).gather_async().run(runtime=session) as run:
        items = pull(run, lambda item: item.shard == 1)
        order(tmp_path, "refuse", 1, 2)
        order(tmp_path, "exit", 1)
        items += pull(run, lambda item: item.life > 0)
        assert items[-1][:3] == (1, 3, 0), "two lives could not begin"
        assert run.ledger.calls.lost == 3
        assert in_order(items)


def test_a_shard_that_never_comes_back_is_given_up_while_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shards, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(shards, "LONGEST_PAUSE_S", 0.05)
    deaths_at_items: set[int] = set()
    items: list[Told] = []
    with ray_session() as session, sampling(mortals(tmp_path)).gather_async().run(runtime=session) as run:
        items += pull(run, lambda item: item.shard == 1)
        order(tmp_path, "refuse", 1, 99)
        order(tmp_path, "exit", 1)
        with pytest.raises(ShardFailed) as caught:
            for item in run:
                items.append(item)
                deaths_at_items.add(len(caplog.records))
                assert run.ledger.balanced
    assert deaths_at_items >= set(range(shards.MOST_DEATHS + 1)), "between any two deaths the other shard gave items"
    assert in_order(items)
    message = str(caught.value)
    assert message.startswith("Shard env[1] died under gather_async(): its constructor raised ValueError: no env today, ")
    assert message.endswith(". It died 6 times in a row and is given up.")
    assert run.ledger.calls.lost == shards.MOST_DEATHS + 1
    assert run.ledger.balanced


# --------------------------------------------------------------------------- skip and raise


def test_when_all_workers_have_died_the_run_says_so_after_what_had_arrived(tmp_path: Path) -> None:
    order(tmp_path, "exit", 0, 4)
    order(tmp_path, "exit", 1, 2)
    items: list[Told] = []
    with ray_session() as session:
        run = sampling(mortals(tmp_path)).gather_async(on_death="skip").run(runtime=session)
        with pytest.raises(NoHealthyShards, match=r"^gather_async\(.*\): all shards died\. Shard env\[[01]\] was the last: "):
            for item in run:
                items.append(item)
    assert per_life(items) == {(0, 0): [0, 1, 2, 3], (1, 0): [0, 1]}
    assert run.ledger.calls.lost == 2
    assert run.ledger.balanced


def test_raise_names_the_shard_after_what_had_arrived(tmp_path: Path) -> None:
    order(tmp_path, "exit", 1, 2)
    items: list[Told] = []
    with ray_session() as session:
        run = sampling(mortals(tmp_path)).gather_async(on_death="raise").run(runtime=session)
        with pytest.raises(ShardFailed, match=r"^Shard env\[1\] died under gather_async\(.*\): "):
            for item in run:
                items.append(item)
    assert in_order(items)
    assert per_life(items)[1, 0] == [0, 1]
    assert run.ledger.calls.lost == 1
    assert run.ledger.balanced


# --------------------------------------------------------------------------- time


@pytest.mark.parametrize("deed", ["hang", "stop"])
def test_a_worker_that_hangs_is_ended_and_replaced(deed: Deed, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """``stop`` is SIGSTOP: a process that does not even hear Ray."""
    order(tmp_path, deed, 1, 1)
    with ray_session() as session, sampling(mortals(tmp_path)).gather_async(timeout_s=3).run(runtime=session) as run:
        before = pull(run, lambda _: told(tmp_path, "stuck", 1))
        after = pull(run, lambda item: item.life > 0)
        late = [next(run) for _ in range(50)]
        pid = told(tmp_path, "stuck", 1)
        assert pid is not None
        wait_until(lambda: is_gone(pid), "the process ends")
        assert run.ledger.calls.lost == 1
    assert after[-1][:3] == (1, 1, 0)
    assert in_order(before + after + late), "nothing of the first life comes later"
    assert per_life(before + after)[1, 0] == [0]
    assert len(after) > 20, "the other shard went on"
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith(f"Shard env[1] died: it took too long to answer and was ended (process {pid} on node ")


def test_a_slow_constructor_is_not_taken_for_a_hang(tmp_path: Path) -> None:
    order(tmp_path, "exit", 0, 1)
    order(tmp_path, "drag", 0, 3)
    with ray_session() as session, sampling(mortals(tmp_path, num=1)).gather_async(timeout_s=1.5).run(runtime=session) as run:
        items = [next(run) for _ in range(3)]
        assert [item[:3] for item in items] == [(0, 0, 0), (0, 1, 0), (0, 1, 1)]
        assert run.ledger.calls.lost == 1


# --------------------------------------------------------------------------- out of reach


def test_an_actor_out_of_reach_is_ended_and_its_call_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it ran the call is unknown, and it may come back: so the old process must not live beside the new one."""
    get = cast("Callable[..., object]", ray.get)
    next_is_out_of_reach: list[bool] = []
    out_of_reach: set[object] = set()

    def get_unless_out_of_reach(refs: object, *, timeout: float | None = None) -> object:
        asked = refs if isinstance(refs, list) else [refs]
        if next_is_out_of_reach:
            next_is_out_of_reach.clear()
            out_of_reach.update(asked)
        if not out_of_reach.isdisjoint(asked):
            raise exceptions.ActorUnavailableError("The actor is temporarily unavailable: RpcError", None)
        return get(refs, timeout=timeout)

    monkeypatch.setattr("tflow.runtime.ray.ray.get", get_unless_out_of_reach)
    with ray_session() as session, sampling(mortals(tmp_path, num=1)).gather_async().run(runtime=session) as run:
        first = next(run)
        next_is_out_of_reach.append(True)
        second = next(run)
        assert (first[:3], second[:3]) == ((0, 0, 0), (0, 1, 0))
        assert run.ledger.calls.lost == 1
        assert run.ledger.balanced
        wait_until(lambda: is_gone(first.pid), "the old process ends")
        assert not is_gone(second.pid)


STARVED = "Task was killed due to the node running low on memory. Memory on the node was 3.77GB used / 3.7GB limit."
KILLED = (
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
    "unexpectedly exits with a connection error code 2. End of file. Some common causes include: (1) the process was killed by "
    "the OOM killer due to high memory usage, (2) ray stop --force was called, or (3) the worker crashed unexpectedly due to "
    "SIGSEGV or another unexpected error. If the process was killed by the kernel OOM killer (verifiable by checking for OOM in "
    "dmesg of the OOMing node), consider enabling resource isolation via --enable-resource-isolation to prevent node deaths."
)


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (exceptions.ActorUnavailableError("The actor is temporarily unavailable: RpcError", None), "it cannot be reached"),
        (exceptions.RayActorError(error_msg=STARVED), "it was ended because its node ran out of memory"),
        (exceptions.RayActorError(error_msg=KILLED), "its process died"),
        (exceptions.RayError("a room that is full"), "RayError: a room that is full"),
    ],
)
def test_errors_of_ray_are_said_in_a_few_words(error: Exception, meaning: str) -> None:
    assert meaning in cluster.brief(error)
    assert "\n" not in cluster.brief(error)


# --------------------------------------------------------------------------- a process that is stopped, without a time limit


def test_a_run_says_whom_it_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(driver, "PATIENCE_S", 0.3)
    actors = mortals(tmp_path)
    with ray_session() as session, sampling(actors).gather_sync().run(runtime=session) as run:
        first = [next(run) for _ in range(4)]
        order(tmp_path, "stop", 1)
        pid = next(item.pid for item in first if item.shard == 1)

        class Helper(logging.Handler):
            """Does what the sentence says."""

            def emit(self, record: logging.LogRecord) -> None:
                if "Waiting for" in record.getMessage():
                    os.kill(pid, signal.SIGKILL)

        helper = Helper()
        logging.getLogger("tflow").addHandler(helper)
        try:
            rest = [next(run) for _ in range(8)]
        finally:
            logging.getLogger("tflow").removeHandler(helper)
    assert {item.shard for item in rest} == {0, 1}
    assert re.search(
        r"Waiting for \w+\[1\] since \d+ s \(its longest call so far took [\d.]+ s\)\. If it is stopped", caplog.text
    )


@pytest.mark.parametrize("others_answer", [False, True])
def test_with_a_limit_in_terms_of_usual_calls_it_is_ended(
    others_answer: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "PATIENCE_S", 0.2)
    monkeypatch.setattr(driver, "LEAST_HANG_S", 1.0)
    sampled = sampling(mortals(tmp_path))
    stream = sampled.gather_async() if others_answer else sampled.gather_sync()
    with ray_session() as session, stream.run(runtime=session) as run, at_most():
        session.hung_after = 3.0
        while {item.shard for item in islice(run, 4)} != {0, 1}:
            continue
        order(tmp_path, "stop", 1)
        assert any(item.life == 1 for item in run if item.shard == 1)
