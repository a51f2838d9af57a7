"""On a cluster of several nodes: where actors live, and what is left when a node is lost."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import ray
from ray.experimental import get_object_locations

from tests.laws.world import Sample, per_shard, sampling
from tests.on_ray.cluster_world import (
    Keep,
    Maker,
    Meanwhile,
    Replay,
    Rollout,
    Teach,
    Town,
    Worker,
    built,
    far_module,
    is_running,
    until,
    within,
)
from tflow import Actors, Iter, Live, PlanError, RayRuntime, Run, create_actor, create_actors, from_actors
from tflow.actors import Actor, Place
from tflow.errors import ShardFailed
from tflow.runtime import cluster
from tflow.runtime.ray import RayBox
from tflow.types import Ref, RefOp

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def town() -> Iterator[Town]:
    with built() as town:
        yield town


@pytest.fixture
def session(town: Town) -> Iterator[RayRuntime]:
    with RayRuntime(town.address, logs=False) as session:
        yield session


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """No test waits for ever, whatever is broken."""
    with within(120):
        yield


def nodes_of(actors: Actors[Worker], session: RayRuntime) -> list[str]:
    """The node of each shard."""
    return list(from_actors(actors, Worker.node).gather_sync().take(actors.num).run(runtime=session))


def finish(run: Run[object]) -> None:
    """Nothing is unaccounted for."""
    run.close()
    assert run.ledger.balanced, run.ledger
    assert run.ledger.calls.in_flight == 0


# --------------------------------------------------------------------------- joining and leaving


def test_a_session_joins_runs_and_leaves_the_cluster_as_it_was(town: Town) -> None:
    workers = create_actors(Worker, num=2)
    with RayRuntime(town.address) as session:
        with sampling(workers).gather_sync().take(4).run(runtime=session) as run:
            assert per_shard(list(run)) == {0: [0, 1], 1: [0, 1]}
            processes = run.ask(workers, Worker.process)
        assert all(map(is_running, processes))
    assert not ray.is_initialized()
    until(lambda: not any(map(is_running, processes)), "actors end with their session")
    assert town.cluster.remaining_processes_alive()  # type: ignore[no-untyped-call]  # Ray's
    with RayRuntime(town.address):
        assert [node["Alive"] for node in ray.nodes()] == [True] * 3  # type: ignore[no-untyped-call]  # Ray's


def test_one_process_is_on_one_cluster_and_sessions_share_it(town: Town, session: RayRuntime) -> None:
    with pytest.raises(PlanError, match=r"connected to a Ray cluster already, so address would come too late.*ray\.shutdown"):
        RayRuntime(town.address)
    with RayRuntime() as guest:
        assert len(nodes_of(create_actors(Worker, num=2), guest)) == 2
    assert ray.is_initialized()  # whoever joined leaves nothing behind, and takes nothing away
    assert len(nodes_of(create_actors(Worker, num=1), session)) == 1


def test_a_ray_that_does_not_start_in_time_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(**_: object) -> None:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", slow)
    with pytest.raises(PlanError, match=r"could not connect to a Ray of its own: The current node timed out during startup\.$"):
        RayRuntime()


def test_addresses_that_cannot_work_are_refused_at_once(town: Town) -> None:
    with pytest.raises(PlanError, match=r"ray://.* is Ray's client protocol.*Run the driver on a node"):
        RayRuntime("ray://127.0.0.1:10001")
    with pytest.raises(PlanError, match="num_cpus cannot be chosen for a cluster that runs already"):
        RayRuntime(town.address, num_cpus=2)
    with pytest.raises(PlanError, match="could not connect to nonsense: Invalid address format"):
        RayRuntime("nonsense")
    assert not ray.is_initialized()


def test_an_address_where_nobody_answers_is_refused_soon() -> None:
    """In a process of its own, because Ray by itself tries for a quarter of an hour."""
    code = "from tflow import PlanError, RayRuntime\ntry: RayRuntime('127.0.0.1:1')\nexcept PlanError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert "RayRuntime: could not connect to 127.0.0.1:1" in done.stdout


# --------------------------------------------------------------------------- places


def test_actors_live_where_their_place_says(town: Town, session: RayRuntime) -> None:
    there = create_actors(Worker, num=1, place=Place(custom={"right": 1}))
    beside = create_actors(Worker, num=2, place=Place(beside=there))
    assert nodes_of(there, session) == [town.right.node_id]
    assert nodes_of(beside, session) == [town.right.node_id] * 2
    spread = create_actors(Worker, num=3, place=Place(nodes="spread"))
    homes = nodes_of(spread, session)
    assert len(set(homes)) == 3
    partners = create_actors(Worker, num=4, place=Place(beside=spread))
    assert nodes_of(partners, session) == [*homes, homes[0]]
    assert len(set(nodes_of(create_actors(Worker, num=2, place=Place(nodes="same")), session))) == 1


def test_what_an_actor_needs_is_reserved_until_it_ends(town: Town) -> None:
    with RayRuntime(town.address) as session:
        nodes_of(create_actors(Worker, num=2, place=Place(cpus=0.5, custom={"left": 1})), session)
        until(lambda: free("CPU", "left") == (5.0, 0), "one CPU and all of left are taken")
    with RayRuntime(town.address):
        until(lambda: free("CPU", "left") == (6.0, 2.0), "they are free again")


def test_an_actor_that_asks_for_nothing_takes_nothing(town: Town, session: RayRuntime) -> None:
    """Else a cluster would be full of actors that only wait for each other."""
    nodes_of(create_actors(Worker, num=7), session)  # more than there are CPUs
    nodes_of(create_actors(Worker, num=2, place=Place(custom={"left": 1})), session)
    until(lambda: free("CPU", "left") == (6.0, 0), "only what was asked for is taken")


def free(*names: str) -> tuple[float, ...]:
    resources = ray.available_resources()  # type: ignore[no-untyped-call]  # Ray's
    return tuple(resources.get(name, 0) for name in names)


def test_a_cluster_may_grow_so_what_it_lacks_is_missed_only_after_a_while(town: Town) -> None:
    with RayRuntime(town.address, start_timeout_s=1) as session:
        plan = sampling(create_actors(Worker, num=1, place=Place(custom={"moon": 1}))).gather_sync().take(1)
        with pytest.raises(ShardFailed, match=r"Worker\[0\] did not start within 1 s. It needs {'moon': 1}, and free are"):
            list(plan.run(runtime=session))


def test_what_no_node_can_ever_hold_is_found_without_waiting() -> None:
    nodes = [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False, "Resources": {"CPU": 9.0}}]
    cluster.check_feasible("Worker", Place(cpus=2), nodes)
    with pytest.raises(
        PlanError, match=r"each of Worker needs {'CPU': 3}, and no node has that. The nodes have \[{'CPU': 2.0}\]"
    ):
        cluster.check_feasible("Worker", Place(cpus=3), nodes)


# --------------------------------------------------------------------------- a node is lost


def test_shards_of_a_lost_node_come_back_elsewhere_with_the_current_weights(town: Town, session: RayRuntime) -> None:
    town.make_spare()
    workers = create_actors(Worker, num=2, place=Place(custom={"pair": 1}))
    run = sampling(workers).gather_async(in_flight=2, on_death="restart").for_each(Teach(workers)).run(runtime=session)
    taken = [next(run) for _ in range(4)]
    homes = run.ask(workers, Worker.node)
    doomed = homes.index(str(town.make_spare().node_id))
    town.lose_spare()
    lost_at = len(taken)
    fresh = town.make_spare()
    healthy = [item for item in taken if item.shard != doomed]
    returned: Sample | None = None
    while returned is None:
        item = next(run)
        assert run.ledger.balanced, run.ledger
        (source,) = run.provenance.sources
        if source.shard != doomed:
            healthy.append(item)
        elif source.incarnation:
            assert source.incarnation == 1
            returned = item
    assert returned.sequence == 0  # what it remembered is gone
    assert lost_at <= returned.weights == run.provenance.versions["default"]  # and the weights are not
    assert [item.sequence for item in healthy] == list(range(len(healthy)))
    assert 1 <= run.ledger.calls.lost <= 2
    assert run.ask(workers, Worker.node)[doomed] == fresh.node_id
    assert run.ask(workers, Worker.node)[1 - doomed] == town.left.node_id
    finish(run)


# --------------------------------------------------------------------------- items that the driver does not open


@dataclass(frozen=True)
class Store(RefOp[Rollout]):
    """Into the replay, as an event."""

    replay: Actors[Replay]

    def forward(self, live: Live, item: Ref[Rollout], /) -> None:
        live[self.replay].send(Replay.add, item)


def handed(items: Iter[Rollout], way: str, replay: Actor[Replay]) -> Iter[object]:
    """Each item goes to the replay, and the driver sees at most numbers."""
    ways = {"call": items.call, "hand_off": items.hand_off}
    return items.for_each(Store(replay)).drain() if way == "send" else ways[way](replay, Keep())


@pytest.mark.parametrize("way", ["send", "call", "hand_off"])
def test_items_go_from_node_to_node_and_past_the_driver(
    town: Town, session: RayRuntime, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RayBox, "take", None)  # the driver opens no item
    refs: list[ray.ObjectRef[object]] = []
    replay = create_actor(Replay, place=Place(custom={"right": 1}))
    makers = create_actors(Maker, num=1, place=Place(custom={"left": 1}))
    watch = Meanwhile(lambda live, item: refs.append(getattr(getattr(item.held, "box"), "ref")), replay)  # noqa: B009
    run = handed(from_actors(makers, Maker.make).gather_async().for_each(watch), way, replay).run(runtime=session)
    assert list(run) == ([] if way == "send" else [1, 2, 3, 4])
    assert run.ask(replay, Replay.contents) == [[(number, float(number), False) for number in (1, 2, 3, 4)]]
    places = get_object_locations(refs)
    assert {node for ref in refs for node in places[ref]["node_ids"]} == {town.left.node_id, town.right.node_id}
    finish(run)


def test_an_item_that_is_lost_before_it_is_opened_is_dropped_by_name(town: Town, session: RayRuntime) -> None:
    spare = str(town.make_spare().node_id)
    makers = create_actors(Maker, num=2, place=Place(custom={"pair": 1}))
    replay = create_actor(Replay)

    def lose(live: Live, item: Ref[Rollout]) -> None:
        if item.summary == spare:
            town.replace_spare(lost=spare)

    run = from_actors(makers, Maker.make).gather_async(on_death="skip").for_each(Meanwhile(lose, replay)).run(runtime=session)
    assert [(item.number, item.summary) for item in run] == [(number, town.left.node_id) for number in (1, 2, 3, 4)]
    assert run.ledger.items.dropped["lost"] >= 1
    finish(run)


@pytest.mark.parametrize(
    "way", [pytest.param("send", marks=pytest.mark.full), pytest.param("call", marks=pytest.mark.full), "hand_off"]
)
def test_an_item_that_is_lost_on_its_way_takes_no_actor_with_it(town: Town, session: RayRuntime, way: str) -> None:
    """The very first call to the replay is lost, with the operator that travels inside it."""
    spare = str(town.make_spare().node_id)
    makers = create_actors(Maker, num=1, place=Place(custom={"spare": 1}))
    replay = create_actor(Replay, place=Place(custom={"right": 1}))

    def lose(live: Live, item: Ref[Rollout]) -> None:
        if item.summary == spare:
            town.replace_spare(lost=spare)

    items = from_actors(makers, Maker.make).gather_async().for_each(Meanwhile(lose, replay))
    run = handed(items, way, replay).run(runtime=session)
    assert list(run) == ([] if way == "send" else [1, 2, 3, 4])
    assert [number for number, _, _ in run.ask(replay, Replay.contents)[0]] == [1, 2, 3, 4]
    assert session.pools[replay].shards[0].incarnation == 0
    assert run.ledger.calls.lost >= 2
    finish(run)


def test_an_actor_that_finds_no_place_again_ends_the_run(town: Town, session: RayRuntime) -> None:
    """A cluster may get another node like the one that was lost; it is not waited for without end."""
    town.make_spare()
    run = sampling(create_actors(Worker, num=1, place=Place(custom={"spare": 1}))).gather_async().run(runtime=session)
    next(run)
    town.lose_spare()
    session.start_timeout_s = 0.3
    with within(60), pytest.raises(ShardFailed, match=r"Worker\[0\] died .* did not start within 0.3 s, and needs {'spare': 1}"):
        list(run)
    finish(run)


# --------------------------------------------------------------------------- modules


def far_plan(module: ModuleType) -> Iter[object]:
    actors: Actors[object] = create_actors(module.Far, num=1, place=Place(custom={"left": 1}))
    return from_actors(actors, module.Far.value).par_map(module.double).gather_sync().take(1)


@pytest.mark.parametrize(("kind", "result"), [("file", 40), ("package", 42)])
def test_modules_travel_to_the_other_nodes(town: Town, tmp_path: Path, kind: str, result: int) -> None:
    module = far_module(tmp_path, kind)
    with RayRuntime(town.address, modules=[module]) as session:
        assert list(far_plan(module).run(runtime=session)) == [result]


def test_a_module_that_is_missing_there_is_named(town: Town, session: RayRuntime, tmp_path: Path) -> None:
    module = far_module(tmp_path, "file")
    with pytest.raises(ShardFailed, match=r"Far\[0\] could not be made: ModuleNotFoundError: No module named 'far_file'"):
        list(far_plan(module).run(runtime=session))


# --------------------------------------------------------------------------- more and fewer


def test_a_pool_grows_over_the_nodes_and_shrinks_without_a_loss(town: Town, session: RayRuntime) -> None:
    workers = create_actors(Worker, num=1, place=Place(nodes="spread"))
    run = sampling(workers).gather_async(in_flight=2).for_each(Teach(workers)).run(runtime=session)
    items = [next(run) for _ in range(3)]
    run.resize(workers, 3)
    while {item.shard for item in items} != {0, 1, 2}:
        items.append(next(run))
        assert items[-1].shard == 0 or items[-1].sequence or items[-1].weights >= 3
    assert len(set(run.ask(workers, Worker.node))) == 3
    _, *leavers = run.ask(workers, Worker.process)
    run.resize(workers, 1)

    def gone() -> bool:
        items.append(next(run))
        return not any(map(is_running, leavers))

    until(gone, "those that leave end")
    assert all(numbers == list(range(len(numbers))) for numbers in per_shard(items).values())
    assert run.ledger.calls.lost == 0
    finish(run)


# --------------------------------------------------------------------------- a Ray of its own


ALONE = """
from tflow import create_actors, from_actors, PlanError, RayRuntime
from tflow.actors import Place
class Sampler:
    def __init__(self, shard):
        self.index = shard.index
    def sample(self):
        print(["apples", "pears"][self.index])
        return self.index
with RayRuntime(num_cpus=1) as session:
    try:
        moon = create_actors(Sampler, place=Place(custom={"moon": 1}), name="Moon")
        list(from_actors(moon, Sampler.sample).gather_sync().take(1).run(runtime=session))
    except PlanError as error:
        print(error, flush=True)
    list(from_actors(create_actors(Sampler), Sampler.sample).gather_sync().take(2).run(runtime=session))
    input()
"""


def test_lines_that_actors_print_say_which_shard(town: Town) -> None:
    """In a process with a Ray of its own, although there is a cluster on this machine that Ray would rather join."""
    begun = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-uc", ALONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        text = ""
        try:
            while not ("apples" in text and "pears" in text) and (line := process.stdout.readline()):
                text += line
            print("\n", file=process.stdin, flush=True)
            assert process.wait(30) == 0, text + process.stdout.read()
        finally:
            process.kill()
    assert "each of Moon needs {'moon': 1}, and no node has that" in text
    assert any("Sampler[0]" in line for line in text.splitlines() if "apples" in line), text
    assert any("Sampler[1]" in line for line in text.splitlines() if "pears" in line), text
    assert time.monotonic() - begun < 60
