"""The state of a whole run as data, and a run that goes on from there.

A snapshot is taken between two polls. Nothing is executed for it: what waits in a queue of this process is kept as it waits;
where actors have processes of their own, their answers are awaited first, and kept as answers that nobody has looked at. So
taking a snapshot is invisible: the run that goes on and the run that is made of it do the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

from tflow.combinators import graph, nodes
from tflow.combinators.actors import Actors, Resident
from tflow.combinators.travel import own_copy
from tflow.errors import CheckpointError, PlanError, StartDied, TflowError
from tflow.runtime.base import Call, HostLoad, Owner
from tflow.runtime.cell import Cell
from tflow.runtime.checkpoint_names import CheckpointNames
from tflow.runtime.driver import Driver
from tflow.runtime.gather import Gather, ShardLink
from tflow.runtime.host import Piggyback, Request, State
from tflow.runtime.messages import LiveCell
from tflow.runtime.shards import LivePool, LiveShard
from tflow.state.folders import ArrayFile, Files, read, whole
from tflow.state.values import Encoded, Json, StateEncoder, decode, load_into, load_random_numbers, random_numbers, state_of
from tflow.types import Stateful, StatefulActorOp, StatefulLiveOp

Saved = dict[str, Any]  # Any: plain data of all kinds
ALIVE, DEAD, GONE = "alive", "dead", "gone"


def names_for(sink: nodes.Node) -> CheckpointNames:
    """Names for the checkpoints of a plan, which may call methods of its own modules."""
    kinds: list[type] = [type(node.operator) for node in graph.walk(sink) if node.operator is not None]
    kinds += [kind for actors in graph.actors_in(sink) if (kind := actors.actor_class()) is not None]
    return CheckpointNames(frozenset(base.__module__ for kind in kinds for base in kind.__mro__))


def check_savable(sink: nodes.Node) -> None:
    """Raise if it can be known before a run that it could not be saved."""
    for node in graph.walk(sink):
        op, initial = node.operator, getattr(node, "initial", None) if node.step == "scan" else None
        if isinstance(op, (Stateful, StatefulActorOp, StatefulLiveOp)):
            with suppress(Exception):  # it raises again in the run, with its place
                initial = own_copy(op).init()  # type: ignore[attr-defined]  # a copy of the same kind
        try:
            StateEncoder().part(node.label, initial)
        except CheckpointError as error:
            raise PlanError(str(error)) from error
    for actors in graph.actors_in(sink):
        kind = actors.actor_class()
        says, loads = (callable(getattr(kind, name, None)) for name in ("state", "load"))
        if kind is not None and says != loads:
            has, lacks = ("state", "load") if says else ("load", "state")
            raise PlanError(f"{actors.name} cannot be saved: {kind.__name__} has {has}() and no {lacks}(). It needs both.")


# --------------------------------------------------------------------------- a run as data


def snapshot(driver: Driver) -> Encoded:
    """The state of a run, in memory."""
    return snapshot_into(driver, None)[0]


def snapshot_into(driver: Driver, folder: Path | None, before: Path | None = None) -> tuple[Encoded, Files]:
    """The state of a run. With a folder, the arrays of actors go into files there, but for what is in the checkpoint before."""
    runtime = driver.runtime
    if driver.failure is not None:
        raise CheckpointError(f"There is nothing to continue: the run is about to fail. {driver.failure}")
    driver.settle()
    encoder, names = StateEncoder(), names_for(driver.sink)
    pools = sorted(driver.pools, key=lambda pool: driver.ranks[pool.actors])
    for pool in pools:
        for shard in (*pool.shards, *pool.draining):
            names.shard(shard)
    for call in runtime.pending(driver.mailbox):
        names.call(call)
    owners = {id(cell): number for number, cell in enumerate(driver.cells)}
    tree: Saved = {
        "seed": driver.run_seed,
        "fuse": driver.fuse,
        "session_seed": runtime.session_seed,
        "cells": [encoder.part(cell.node.label, cell.state(names)) for cell in driver.cells],
        "residents": [
            [driver.ranks[each], encoder.part(each.name, state_of(runtime.residents[each]))]
            for each in residents_of(driver)
            if each in runtime.residents
        ],
        "given": [[driver.ranks[actors], encoder.part(actors.name, value)] for actors, value in driver.given.items()],
        "driver": encoder.part("The driver", driver.state()),
    }
    waiting = {names.shard(shard): [names.call(call) for call in mine(shard.waiting, driver)] for shard in tuple(names.shards)}
    tree["pools"] = [encoder.part(pool.name, pool_state(pool, driver)) for pool in pools]
    tree["calls"] = [encoder.part(call.shard.place, call_state(call, driver, names, owners)) for call in names.calls]
    alive = [shard for shard in names.shards if shard.handle is not None]
    places = [None if folder is None else ArrayFile(folder / f"{file_name(shard)}.safetensors", before) for shard in alive]
    states = runtime.save_hosts([(shard.handle, file) for shard, file in zip(alive, places, strict=True)], driver.run)
    tree["hosts"] = []
    files: Files = {}
    died = {shard for shard, state in zip(alive, states, strict=True) if state is None}
    # Gathers know shards that have left, and calls have named none that is not here by now.
    tree["shards"] = [
        encoder.part(shard.place, {**shard_state(shard, pools, driver, names, shard in died), "waiting": waiting.get(number, [])})
        for number, shard in enumerate(names.shards)
    ]
    for shard, state in zip(alive, states, strict=True):
        if state is None:
            continue
        if isinstance(state, Encoded):
            part = encoder.embedded(state)
        else:
            part = encoder.elsewhere(state.tree, state.file)
            files |= state.files
        tree["hosts"].append([names.shard(shard), part])
    dead = kept(names.shards, died)
    tree["kept"] = [[names.shard(shard), encoder.embedded(state)] for shard, state in dead]
    note_saved(pools, [*(shard for shard in alive if shard not in died), *(shard for shard, _ in dead)])
    tree["random"] = encoder.part("The random numbers of the driver", random_numbers())  # last: generators may have drawn some
    return Encoded(tree, encoder.arrays), files


def kept(shards: Iterable[LiveShard], died: set[LiveShard]) -> list[tuple[LiveShard, Encoded]]:
    """What actors that are dead at the moment will come back with: their state in the checkpoint before, which may be gone when
    this one is the latest. A checkpoint without it would be one to start anew from. Those that nobody waits for, or that are
    given up, do not come back."""
    restoring = [shard for shard in shards if shard.pool.actors.restores and shard in shard.pool.shards]
    dead = [shard for shard in restoring if shard.handle is None or shard in died]
    for shard in dead:
        if not shard.can_be_restored and (shard in died or (shard.waiting and not shard.restarts_exhausted)):
            raise CheckpointError(f"{shard.place} is dead, and no checkpoint has what it had. Save again when it is back.")
    return [(shard, shard.pool.saved[shard.index]()) for shard in dead if shard.can_be_restored]


def note_saved(pools: Iterable[LivePool], shards: Sequence[LiveShard]) -> None:
    """The latest snapshot has the state of these."""
    for pool in pools:
        pool.in_snapshot = {shard.index for shard in shards if shard.pool is pool}


def remember(driver: Driver, folder: Path) -> None:
    """A checkpoint is written, or the run goes on from one: actors that die can be restored from it."""
    restore_from(
        driver, lambda pool, index: saved_actor(read(whole(folder), wanted=partial(_file_of, pool, index))[1], pool, index)
    )


def remember_in_memory(driver: Driver, encoded: Encoded) -> None:
    """The same without a folder."""
    restore_from(driver, partial(saved_actor, encoded))


def restore_from(driver: Driver, saved: Callable[[str, int], Encoded]) -> None:
    for pool in driver.pools:
        if pool.actors.restores:
            pool.saved = {index: partial(saved, pool.name, index) for index in pool.in_snapshot}


def saved_actor(encoded: Encoded, pool: str, index: int) -> Encoded:
    """The state of an actor in a checkpoint, without what the run has in it: that is sent anew."""
    part = _part_of(pool, index, encoded.tree)
    state = None if part is None else decode(Encoded(part, encoded.arrays, encoded.files))
    if not isinstance(state, Encoded):
        raise CheckpointError(f"The latest checkpoint does not have {pool}[{index}].")
    return Encoded({**state.tree, "chains": []}, state.arrays)


def _part_of(pool: str, index: int, tree: Saved) -> Json:
    """What a checkpoint has of an actor; None if that is nothing."""
    names = [each["name"] for each in tree["pools"]]
    for number, part in (*tree["hosts"], *tree.get("kept", ())):  # older checkpoints lack these
        shard = tree["shards"][number]
        if (names[shard["pool"]], shard["index"]) == (pool, index):
            return part
    return None


def _file_of(pool: str, index: int, tree: Saved) -> list[str]:
    """The file in which an actor has its arrays, if it has one of its own."""
    part = _part_of(pool, index, tree)
    return [part["file"]] if part is not None and "file" in part else []


def file_name(shard: LiveShard) -> str:
    """What the file of a shard is called: two shards never live at once under one name, index and incarnation."""
    return re.sub(r"[^\w]+", "-", f"{shard.pool.name}-{shard.index}-{shard.incarnation}")


def mine(calls: Iterable[Call], driver: Driver) -> list[Call]:
    """The calls of this run; others of its session may have some, too."""
    return [call for call in calls if call.mailbox is driver.mailbox]


def residents_of(driver: Driver) -> list[Resident[object]]:
    """The residents that the plan names, in order."""
    return [actors for actors in driver.ranks if isinstance(actors, Resident)]


def pool_state(pool: LivePool, driver: Driver) -> Saved:
    return {
        "rank": driver.ranks[pool.actors],
        "name": pool.name,
        "versions": pool.versions,
        "next_incarnations": pool.next_incarnations,
    }


def shard_state(shard: LiveShard, pools: list[LivePool], driver: Driver, names: CheckpointNames, died: bool) -> Saved:
    """What the driver knows of a shard; if it has ``died``, what the driver will know when it notices."""
    runtime = driver.runtime
    there = shard in shard.pool.shards or shard in shard.pool.draining
    return {
        "pool": pools.index(shard.pool),
        "index": shard.index,
        "is": ALIVE if shard.handle is not None and not died else DEAD if there else GONE,
        "draining": shard.draining,
        "incarnation": shard.incarnation + died,
        "deaths": shard.deaths,
        "death_reason": shard.death_reason,
        "restart_in": max(0.0, shard.restart_at - runtime.now()),
        "events": driver.events.get(shard, 0),
        "state": updates(shard.sent if died else shard.state, driver, names),
        "sent": updates(shard.sent, driver, names),
        "versions": dict(shard.versions),
    }


def updates(state: State, driver: Driver, names: CheckpointNames) -> list[tuple[str, str, int, object]]:
    """State updates as data: policy, method, number and value."""
    unheld = driver.runtime.unheld
    return [(policy, names.method(method), number, unheld(value)) for (policy, method), (number, value) in state.items()]


def call_state(call: Call, driver: Driver, names: CheckpointNames, owners: dict[int, int]) -> Saved:
    if call.error is not None:
        raise CheckpointError(f"There is nothing to continue: the run is about to fail. {call.error}")
    request = call.args[0] if call.args else None
    args: object
    if isinstance(request, Request):
        args = request._replace(key=(0, *request.key[1:]), program=None), request.program is not None
    else:
        method, value = call.args
        args = names.method(cast("Callable[..., object]", method)), value
    return {
        "shard": names.shard(call.shard),
        "owner": owners[id(call.owner)],
        "method": call.method,
        "args": args,
        "state": updates(call.piggyback.state, driver, names),
        "versions": dict(call.piggyback.versions),
        "incarnation": call.incarnation,
        "timeout_s": call.timeout_s,
        "reply": call.reply,
        "lost": call.lost,
        "actor_survived": call.actor_survived,
        "done": call.done,
    }


# --------------------------------------------------------------------------- a run from data


class SavedRun:
    """A snapshot that was read: what a run that goes on needs, in the order in which it needs it."""

    def __init__(self, encoded: Encoded, folder: Path | None = None) -> None:
        self.encoded, self.folder = encoded, folder
        self.name = "in memory" if folder is None else folder.name
        self.tree: Saved = encoded.tree
        try:
            self.seed, self.fuse, self.session_seed = (self.tree[name] for name in ("seed", "fuse", "session_seed"))
            self.pools = {saved["rank"]: saved for saved in self.read("pools")}
            self.shards: list[Saved] = self.read("shards")
        except (LookupError, TypeError, ValueError) as error:
            raise CheckpointError(f"The checkpoint is damaged: it lacks {error}.") from error
        self.names: CheckpointNames | None = None

    def read(self, name: str) -> Any:  # Any: what was saved under that name
        return decode(Encoded(self.tree[name], self.encoded.arrays, self.encoded.files))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Where something is missing that the code expects, or is of another kind, the checkpoint is to blame."""
        try:
            yield
        except TflowError:
            raise
        except Exception as error:  # files may hold anything
            raise CheckpointError(f"The checkpoint {self.name} cannot be loaded: {type(error).__name__}: {error}.") from error

    def give(self, driver: Driver) -> None:
        """Before anything is made: what actors are made with."""
        with self.reading():
            self._give(driver)

    def _give(self, driver: Driver) -> None:
        self.names = names_for(driver.sink)
        by_rank = {rank: actors for actors, rank in driver.ranks.items()}
        driver.given = {by_rank[rank]: value for rank, value in self.read("given")}

    def revived(self, driver: Driver, actors: Actors[object], seed: int) -> LivePool | None:
        """The actors of a description, each in the incarnation that it had; None if the run had not made them yet."""
        with self.reading():
            return self._revived(driver, actors, seed)

    def _revived(self, driver: Driver, actors: Actors[object], seed: int) -> LivePool | None:
        number = next((n for n, rank in enumerate(self.pools) if rank == driver.ranks[actors]), None)
        if number is None:
            return None
        saved = self.pools[driver.ranks[actors]]
        lives = [shard for shard in self.shards if shard["pool"] == number and shard["is"] != GONE]
        pool = driver.runtime.revive(
            actors,
            saved["name"],
            seed,
            driver.given.get(actors),
            [(s["index"], s["incarnation"], s["is"] == ALIVE) for s in lives],
        )
        pool.versions, pool.next_incarnations = saved["versions"], saved["next_incarnations"]
        for shard, each in zip(tuple(pool.shards), lives, strict=True):
            if each["draining"]:
                shard.draining = True
                pool.shards.remove(shard)
                pool.draining.append(shard)
        return pool

    def load(self, driver: Driver) -> None:
        """When all cells are built: let them go on where they were."""
        with self.reading():
            self._load(driver)

    def _load(self, driver: Driver) -> None:
        names = self.names
        assert names is not None
        by_rank = {rank: actors for actors, rank in driver.ranks.items()}
        pools = [driver.live(by_rank[rank]) for rank in self.pools]
        for saved in self.shards:
            self.load_shard(driver, names, pools[saved["pool"]], saved)
        owners = driver.cells
        calls = self.read("calls")
        for saved in calls:
            names.call(self.load_call(driver, names, owners, saved))
        cells = self.read("cells")
        if len(cells) != len(owners):
            raise CheckpointError(f"The checkpoint has {len(cells)} operators at work, and the plan {len(owners)}: another plan.")
        for cell, state in zip(owners, cells, strict=True):
            cell.load(state, names)
        for rank, state in self.read("residents"):
            load_into(driver.resident(cast("Resident[object]", by_rank[rank])), state)
        driver.load(self.read("driver"))
        self.load_hosts(driver, names)
        waiting = {number for shard in self.shards for number in shard["waiting"]}
        for number, call in enumerate(names.calls):
            self.load_request(call)
            if not call.done:
                self.send(driver, call, waits=number in waiting)
        if self.folder is not None:
            remember(driver, self.folder)
        load_random_numbers(self.read("random"))
        for cell in owners:
            cell.start()

    @staticmethod
    def send(driver: Driver, call: Call, *, waits: bool) -> None:
        """Put a call where it was: at its actor, before the next incarnation of it, or answered and not looked at."""
        driver.mailbox.in_flight[call] = None
        if call.timeout_s is not None and driver.runtime.limits_time:
            driver.timed[call] = None
        if waits:
            call.shard.waiting.append(call)
        elif call.reply is not None or call.lost:
            call.shard.in_flight[call] = None
            call.finish(lost=call.lost)
        else:
            driver.runtime.resubmit(call)

    def load_shard(self, driver: Driver, names: CheckpointNames, pool: LivePool, saved: Saved) -> None:
        key = saved["index"], saved["incarnation"]
        there = {(shard.index, shard.incarnation): shard for shard in (*pool.shards, *pool.draining)}
        shard = there[key] if saved["is"] != GONE else LiveShard(pool, saved["index"], None, saved["incarnation"])
        names.shard(shard)
        shard.draining = saved["draining"]
        shard.deaths, shard.death_reason = saved["deaths"], saved["death_reason"]
        now = driver.runtime.now()
        shard.restart_at, shard.last_answer_at = now + saved["restart_in"], now
        shard.state = self.updates(driver, names, saved["state"])
        shard.sent = self.updates(driver, names, saved["sent"])
        shard.versions = saved["versions"]
        if saved["events"]:
            driver.events[shard] = saved["events"]
        if saved["is"] == DEAD and not shard.restarts_exhausted:
            driver.runtime.dead.append(shard)

    @staticmethod
    def updates(driver: Driver, names: CheckpointNames, saved: list[tuple[str, str, int, object]]) -> State:
        hold = driver.runtime.hold
        return {(policy, names.method_called(name)): (number, hold(value)) for policy, name, number, value in saved}

    def load_call(self, driver: Driver, names: CheckpointNames, owners: list[Cell], saved: Saved) -> Call:
        """A call, without its arguments: the program of a shard is known when its gather is."""
        owner = cast("Owner", owners[saved["owner"]])
        call = Call(names.shards[saved["shard"]], saved["method"], (), driver.mailbox, owner)
        call.piggyback = Piggyback(self.updates(driver, names, saved["state"]), saved["versions"])
        call.incarnation, call.timeout_s, call.sent_at = saved["incarnation"], saved["timeout_s"], driver.runtime.now()
        call.reply, call.lost = saved["reply"], saved["lost"]
        call.actor_survived, call.done = saved["actor_survived"], saved["done"]
        call.number = next(driver.numbers)  # recordings name it by that
        if isinstance(owner, LiveCell):
            name, value = saved["args"]
            call.args = names.method_called(name), value
        else:
            request, has_program = saved["args"]
            call.args = (request._replace(key=(driver.run, *request.key[1:])), has_program)
        return call

    @staticmethod
    def load_request(call: Call) -> None:
        """Add the program of its shard to a request that had it."""
        link = call.tag
        if isinstance(link, ShardLink):
            request, has_program = cast("tuple[Request, bool]", call.args)
            call.args = (request._replace(program=link.program if has_program else None),)

    def load_hosts(self, driver: Driver, names: CheckpointNames) -> None:
        programs: dict[LiveShard, list[tuple[tuple[int, int], nodes.Node]]] = {}
        for cell in driver.cells:
            if isinstance(cell, Gather):
                for link in cell.links:
                    programs.setdefault(link.shard, []).append(((cell.position, link.index), link.program))
        hosts = [(names.shards[number], state) for number, state in self.read("hosts")]
        dead = [names.shards[number] for number, _ in self.tree.get("kept", [])]
        note_saved(driver.pools, [*(shard for shard, _ in hosts), *dead])

        def load(saved: list[tuple[LiveShard, Encoded]]) -> None:
            driver.runtime.load_hosts(
                [HostLoad(shard.handle, driver.run, driver.fuse, programs.get(shard, []), state) for shard, state in saved]
            )

        try:
            load(hosts)
        except StartDied:  # one of them: each by itself, then
            for each in hosts:
                driver.runtime.try_again(each[0], partial(load, [each]))
