"""The runtime for real processes and clusters. The only module that imports ray.

Every actor is a Ray actor (``remote.py``). A call is one short message (``wire.py``) and its answer one object, so an item costs
what a call costs by hand. Where the driver does not look into items (``refs.py``) an answer is two objects: the second, with the
items, stays in the store of the node that made it, and goes from there to the actor that takes it.

Ray restarts no actor and repeats no call here: the driver does, with the current weights and as the plan says.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import ray
from ray import exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tflow.combinators import check
from tflow.combinators.actors import Actors
from tflow.errors import Deadlock, PlanError, RunClosed, ShardFailed, StartDied, TflowError
from tflow.runtime import cluster
from tflow.runtime.base import Call, HostLoad, Mailbox, Runtime
from tflow.runtime.border import SIMPLE, Parcel
from tflow.runtime.host import NOTHING, bytes_in
from tflow.runtime.program import packed
from tflow.runtime.refs import Remote, has_remote
from tflow.runtime.remote import Failed, Handle, NodeAddress, RemoteHost, StartFailed, StartReport
from tflow.runtime.shards import LivePool
from tflow.runtime.tickets import acknowledged_by, urgent
from tflow.runtime.wire import Stored, pack, unpack_reply
from tflow.types import Shard, TimeBudget

if TYPE_CHECKING:
    from tflow.state.folders import ArrayFile, Written
    from tflow.state.values import Encoded

GRACE_S = 5.0
"""How long actors may take to close."""
INLINE_BYTES = 64 * 1024
"""Smaller values travel inside the call: that costs less than the store."""
DEAD = (exceptions.RayActorError, exceptions.WorkerCrashedError, exceptions.NodeDiedError, exceptions.OutOfMemoryError)
"""The actor is dead or unreachable: whether it ran the call is unknown."""
GONE = (exceptions.ObjectLostError, exceptions.ObjectFetchTimedOutError, exceptions.OwnerDiedError)
"""A value is gone with the node that had it."""
TAKEN = object()


def find_home() -> NodeAddress:
    """Where this process is."""
    return NodeAddress(ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]  # Ray's


def cannot_travel(error: exceptions.RayTaskError, place: str) -> PlanError:
    """Actors answer with their errors; so what Ray itself raises there is about what they answered with."""
    return PlanError(f"An item of {cluster.maker_of(error, place)} cannot travel: {cluster.brief(error)}.")


NOISE = ("A worker died or was killed while executing a task", "WARNING: ")
"""How lines of Ray's own begin that say at length what a warning of ours says in a sentence, or what is no trouble."""


def keep_ray_brief() -> None:
    """Leave out such lines; what actors print is printed as before. Ray has no public way to do so: if its own changes, they are
    back."""
    from ray._private import worker

    printed = getattr(worker, "print_to_stdstream", None)
    if printed is None or getattr(printed, "is_brief", False):
        return

    def brief(data: dict[str, Any], ignore_prefix: bool) -> None:  # Any: as Ray has it
        lines = data.get("lines", ())
        if data.get("pid") != "raylet" or not all(str(line).startswith(NOISE) for line in lines):
            printed(data, ignore_prefix)

    brief.is_brief = True  # type: ignore[attr-defined]  # a mark on a function
    setattr(worker, "print_to_stdstream", brief)  # noqa: B010  # checkers know it as a constant


class RayBox:
    """The items of one answer, in Ray's store."""

    def __init__(self, ref: Any, place: str) -> None:  # Any: a ref
        self.ref = ref
        self.place = place
        self.items: list[object] = []
        """Fetched, and not yet taken. Each item is handed out once, so that no two takers share one."""

    def take(self, index: int) -> object:
        if index >= len(self.items) or self.items[index] is TAKEN:
            try:
                self.items = list(ray.get(self.ref))
            except (*DEAD, *GONE) as error:
                raise ShardFailed(f"An item of {self.place} is lost: {cluster.brief(error)}.") from None
            except exceptions.RayTaskError as error:
                raise cannot_travel(error, self.place) from None
        item, self.items[index] = self.items[index], TAKEN
        return item


class RayRuntime(Runtime):
    """Runs actors as processes, on this machine or on a cluster.

    Without ``address`` it joins the Ray of this process if there is one, else it starts one, which ends with it: without a
    dashboard unless ``dashboard=True``, always with token authentication. ``modules`` are your own modules or packages (names,
    modules or paths) that the other nodes of a cluster need and do not have.
    """

    has_processes = True

    def __init__(
        self,
        address: str | None = None,
        *,
        num_cpus: int | None = None,
        num_gpus: int | None = None,
        store_mb: float | None = None,
        modules: Sequence[str | ModuleType | Path] = (),
        dashboard: bool = False,
        logs: bool = True,
        start_timeout_s: float = 120.0,
    ) -> None:
        super().__init__()
        self.closed = True  # until everything below has worked
        self.start_timeout_s = check.positive("RayRuntime", "start_timeout_s", start_timeout_s)
        settings = cluster.ClusterSettings(address, num_cpus, num_gpus, store_mb, modules, dashboard, logs)
        self.owns = not ray.is_initialized()
        """The connection ends with this session; a cluster that it started ends too."""
        settings.check(running=not self.owns)
        if self.owns:
            self._connect(settings, settings.arguments())
        self.cannot_grow = self.owns and address is None
        self.home = find_home()
        self.starting: dict[Any, Handle] = {}  # Any: a ref
        """Actors whose start report has not arrived."""
        self.parcels: dict[Actors[object], object] = {}
        """What makes the actors of each description, packed once."""
        self.closed = False

    def _connect(self, settings: cluster.ClusterSettings, arguments: dict[str, Any]) -> None:  # Any: keyword arguments
        if settings.address is None:
            cluster.secure()
        else:
            cluster.probe(settings.address)
        try:
            ray.init(**arguments)
        except Exception as error:  # on a slow machine Ray raises just that
            hint = " If the cluster asks for a token: RAY_AUTH_MODE=token, RAY_AUTH_TOKEN_PATH." if settings.address else ""
            where = settings.address or "a Ray of its own"
            raise PlanError(f"RayRuntime: could not connect to {where}: {str(error).rstrip('.')}.{hint}") from error
        keep_ray_brief()
        if settings.address is None and not cluster.is_secure():
            ray.shutdown()
            raise PlanError("RayRuntime: this Ray started without token authentication. Set RAY_AUTH_MODE to token or disabled.")

    def _check_ray(self) -> None:
        """Ray starts another cluster at any call that finds none."""
        if not ray.is_initialized():
            raise RunClosed("Ray is gone: it was shut down while this session was open.")

    # ------------------------------------------------------------------- actors

    def spawn(self, pool: LivePool, shard: Shard) -> Handle:
        self._check_ray()
        place = pool.actors.place
        if self.cannot_grow and place.needs:
            cluster.check_feasible(pool.name, place, self._nodes())
        if pool.actors not in self.parcels:
            self.parcels[pool.actors] = self._packed(pool)
        strategy = self._strategy(pool, shard)
        options: dict[str, object] = {"max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": strategy}
        options["enable_task_events"] = False  # else the process that keeps Ray's tables grows with every call
        if place.gpus or place.custom or place.cpus is not None:  # an actor that asks for nothing reserves nothing
            options |= {"num_cpus": place.cpus or 0, "num_gpus": place.gpus, "resources": dict(place.custom)}
        actor = ray.remote(RemoteHost).options(**options).remote(self.parcels[pool.actors], shard, find_home)
        handle = Handle(actor, shard, place.needs, spawned_at=self.now(), sought=getattr(strategy, "node_id", ""))
        self.starting[handle.start_report] = handle
        return handle

    def _packed(self, pool: LivePool) -> object:
        try:
            parcel = Parcel(pool.make)
        except Exception as error:
            raise PlanError(f"What makes {pool.name} cannot travel: {type(error).__name__}: {error}.") from error
        return parcel if parcel.size < INLINE_BYTES else ray.put(parcel)

    def _strategy(self, pool: LivePool, shard: Shard) -> object:
        """The scheduling strategy. A restarted actor may go to another node if its own is gone."""
        place, again = pool.actors.place, shard.incarnation > 0
        if place.nodes == "spread":
            return self._emptiest_node(pool)
        neighbours = [other for other in pool.shards if other.index != shard.index] if place.nodes == "same" else []
        if place.beside is not None:
            partners = self.pools[place.beside].shards
            neighbours = [partners[shard.index % len(partners)]]
        for neighbour in neighbours:
            if isinstance(neighbour.handle, Handle):
                if not again:
                    self.wait_until_started(neighbour.handle)
                if neighbour.handle.home.node:
                    return NodeAffinitySchedulingStrategy(neighbour.handle.home.node, soft=again)
        return None

    def _emptiest_node(self, pool: LivePool) -> object:
        """Where the fewest of a pool live. Ray's own way to spread may put two on one node while another is empty."""
        there = {other.handle for other in pool.shards if isinstance(other.handle, Handle)}
        there |= {handle for handle in self.starting.values() if handle.pool == pool.name}
        taken = Counter(handle.node for handle in there)
        roomy = [str(node["NodeID"]) for node in self._nodes() if cluster.fits(pool.actors.place, node)]
        return NodeAffinitySchedulingStrategy(min(roomy, key=taken.__getitem__), soft=True) if roomy else "SPREAD"

    def _nodes(self) -> list[dict[str, object]]:
        return cast("list[dict[str, object]]", ray.nodes())  # type: ignore[no-untyped-call]  # Ray's

    def wait_until_started(self, handle: object) -> None:
        assert isinstance(handle, Handle)
        if handle.pid:
            return
        try:
            start_report = cast("StartReport", ray.get(handle.start_report, timeout=self.start_timeout_s))
        except exceptions.GetTimeoutError:
            free = {name: amount for name, amount in ray.available_resources().items() if ":" not in name}  # type: ignore[no-untyped-call]  # Ray's
            raise ShardFailed(
                f"Shard {handle.place} did not start within {self.start_timeout_s:g} s. It needs {handle.needs or 'one CPU'}, "
                f"and free are {free}. Ask for less, or make room."
            ) from None
        except exceptions.RayError as error:
            self.starting.pop(handle.start_report, None)
            kind = StartDied if isinstance(error, DEAD) else ShardFailed
            raise kind(f"Shard {handle.place} died while it was made: {cluster.brief(error)}.") from None
        self.starting.pop(handle.start_report, None)
        if start_report.error is not None:
            raise start_report.error
        handle.on_started(start_report, self.now())

    def up_since(self, handle: object) -> float:
        assert isinstance(handle, Handle)
        return handle.up_at

    def deadline(self, call: Call) -> float:
        """As in the base class, but answers that have arrived and were not read yet count, also those to other runs."""
        shard, now = call.shard, self.now()
        for head in list(shard.in_flight) if call.timeout_s is not None else ():
            if head.mailbox is call.mailbox:
                break
            if not self._is_there(head):
                return now + (call.timeout_s or 0)  # look again
            del shard.in_flight[head]
            shard.last_answer_at = now
        due = super().deadline(call)
        return float("inf") if due <= now and self._is_there(call) else due

    def _is_there(self, call: Call) -> bool:
        return call.ticket is not None and bool(ray.wait([call.ticket], timeout=0, fetch_local=False)[0])

    def most_items(self, per_call: int | TimeBudget) -> int | TimeBudget:
        return per_call

    def stop(self, handles: Sequence[object]) -> None:
        actors = [handle for handle in handles if isinstance(handle, Handle)]
        if not actors or not ray.is_initialized():
            return
        closing = [handle.actor.close.remote() for handle in actors if handle.pid]
        closed, _ = ray.wait(closing, num_returns=len(closing), timeout=GRACE_S) if closing else ([], [])
        failures: list[BaseException] = []
        for ref in closed:
            try:
                failures += filter(None, [ray.get(ref)])
            except exceptions.RayError:
                continue  # it is dead already
        for handle in actors:
            self.end(handle)
        if failures:
            raise failures[0]

    def kill(self, handle: object) -> None:
        assert isinstance(handle, Handle)
        handle.kill_reason = "it took too long to answer and was ended"
        self.end(handle)

    def end(self, handle: Handle) -> None:
        """End a process, whatever it is doing."""
        self.starting.pop(handle.start_report, None)
        ray.kill(handle.actor, no_restart=True)
        if handle.home.node == self.home.node and cluster.is_stopped(handle.pid):  # then it does not hear Ray
            os.kill(handle.pid, signal.SIGKILL)

    def forget(self, handle: object, run: int) -> None:
        assert isinstance(handle, Handle)
        if ray.is_initialized():
            handle.actor.forget.remote(run)

    # ------------------------------------------------------------------- calls

    def hold(self, value: object) -> object:
        small = bytes_in(value) < INLINE_BYTES
        if has_remote(value) or (small and type(value) in SIMPLE):
            return value
        return Parcel(value) if small else Stored(ray.put(value))

    def unheld(self, held: object) -> object:
        if isinstance(held, Stored):
            return ray.get(cast("Any", held.ref))  # Any: a ref
        return held.open() if isinstance(held, Parcel) else held

    def settle(self, mailbox: Mailbox, *, timeout: float | None = None) -> bool:
        if mailbox.tickets:
            self._check_ray()
            for ticket in ray.wait([*mailbox.tickets], num_returns=1, timeout=timeout)[0]:
                self._receive(mailbox, acknowledged_by(ticket, mailbox.tickets))
        return not mailbox.tickets

    def save_hosts(self, saves: Sequence[tuple[object, ArrayFile | None]], run: int) -> list[Encoded | Written | None]:
        actors = [(handle, file) for handle, file in saves if isinstance(handle, Handle)]
        # On another machine, a folder of the same name may be another one: from there the arrays come through the store.
        refs = [handle.actor.save.remote(run, file if handle.node == self.home.node else None) for handle, file in actors]
        found: list[Encoded | Written | None] = []
        for (handle, _), ref in zip(actors, refs, strict=True):
            try:
                found += cast("list[Encoded | Written]", self._answers([handle], [ref]))
            except ShardFailed:
                found.append(None)
        return found

    def load_hosts(self, loads: Sequence[HostLoad]) -> None:
        actors, refs = [], []
        for handle, run, fuse, programs, state in loads:
            assert isinstance(handle, Handle)
            actors.append(handle)
            keys = [key for key, _ in programs]
            refs.append(handle.actor.load.remote(run, fuse, [packed(program) for _, program in programs], keys, state))
        self._answers(actors, refs)

    def _answers(self, actors: list[Handle], refs: list[Any]) -> list[object]:  # Any: refs
        """What actors answer to a question that is no call of a plan."""
        found: list[object] = []
        for handle, ref in zip(actors, refs, strict=True):
            try:
                found.append(ray.get(ref))
            except (*DEAD, *GONE) as error:
                raise StartDied(f"Shard {handle.place} died before it could answer: {cluster.brief(error)}.") from None
            if isinstance(found[-1], Failed):
                raise found[-1].error
        return found

    def submit(self, call: Call) -> None:
        handle = call.shard.handle
        assert isinstance(handle, Handle)
        self._check_ray()
        try:
            message, beside = pack(call)
            sent = handle.by_ref if call.by_ref else handle.direct
            answer = sent.again.remote() if message == handle.latest else sent.do.remote(message, *beside)
            handle.latest = b"" if beside else message
            call.ticket, call.box = answer if call.by_ref else (answer, None)
        except TflowError:
            raise
        except exceptions.RayError as error:
            raise RunClosed(f"Ray is gone: {cluster.brief(error)}.") from error
        except Exception as error:
            cause = error.__cause__ or error  # Ray wraps it into a page of advice
            raise PlanError(f"What is sent to {handle.place} cannot travel: {type(cause).__name__}: {cause}.") from None
        call.mailbox.tickets[call.ticket] = call

    def wait(self, mailbox: Mailbox, *, timeout: float | None = None) -> None:
        if mailbox.finished:
            return
        self._check_ray()
        if self.starting:
            timeout = self._end_late_starts(timeout)
        awaited = [*self.starting, *urgent(mailbox.tickets)]
        if not awaited:  # all calls wait for the restart of an actor
            if timeout is None:
                raise Deadlock("Nothing is under way.")
            time.sleep(timeout)
            return
        for ticket in ray.wait(awaited, num_returns=1, timeout=timeout)[0]:
            if ticket in self.starting:
                self._started(self.starting.pop(ticket))
            else:
                self._receive(mailbox, acknowledged_by(ticket, mailbox.tickets))

    def _receive(self, mailbox: Mailbox, tickets: list[Any]) -> None:  # Any: refs
        """Read the answers that are there, all at once if nothing went wrong."""
        calls = [mailbox.tickets.pop(ticket) for ticket in tickets]
        try:
            answers = ray.get(tickets)
        except exceptions.RayError:
            for call in calls:
                self._answered(call)
        else:
            for call, answer in zip(calls, answers, strict=True):
                self._received(call, answer)

    def _end_late_starts(self, timeout: float | None) -> float | None:
        """Kill restarted actors that exceed the start timeout. Returns how long to wait for the next of these."""
        latest = self.now() - self.start_timeout_s
        for handle in [handle for handle in self.starting.values() if handle.spawned_at <= latest]:
            handle.kill_reason = f"it did not start within {self.start_timeout_s:g} s, and needs {handle.needs or 'one CPU'}"
            self.end(handle)
        soonest = min((handle.spawned_at - latest for handle in self.starting.values()), default=None)
        return timeout if soonest is None else soonest if timeout is None else min(timeout, soonest)

    def _started(self, handle: Handle) -> None:
        """Note that a restarted actor is ready. If its start failed, its calls will say so."""
        try:
            handle.on_started(ray.get(handle.start_report), self.now())
        except exceptions.RayError:
            return

    def _answered(self, call: Call) -> None:
        try:
            answer = ray.get(call.ticket)
        except DEAD as error:
            self._lost(call, cluster.brief(error))
        except GONE as error:
            call.actor_survived = True
            call.shard.restore_state(call.piggyback.state)  # it may not have arrived
            if any(has_remote(value) for _, value in call.piggyback.state.values()):  # it may be what is lost: not for ever
                call.shard.back_off("state that was sent to it is lost", self.now())
            call.finish(lost=f"a value on its way is lost: {cluster.brief(error)}")
        except exceptions.RayTaskError as error:
            call.error = cannot_travel(error, call.shard.place)
            call.finish()
        except exceptions.RayError as error:
            call.error = ShardFailed(f"Shard {call.shard.place} could not answer: {cluster.brief(error)}.")
            call.finish()
        else:
            self._received(call, answer)

    def _received(self, call: Call, answer: Any) -> None:  # Any: one of the things that RemoteHost answers
        if isinstance(answer, StartFailed):
            self._lost(call, answer.why)
            return
        if answer is None:
            call.reply = NOTHING
        elif isinstance(answer, Failed):
            call.error = answer.error
        else:
            reply = unpack_reply(answer, call)
            if call.by_ref:
                box = RayBox(call.box, call.shard.place)
                facts = cast("list[tuple[int, int, object]]", reply.items)
                reply.items[:] = [Remote(box, index, *fact) for index, fact in enumerate(facts)]
            call.reply = reply
        call.finish()

    def _lost(self, call: Call, why: str) -> None:
        """The actor is dead, or out of reach; then it must not come back."""
        handle = call.shard.handle
        if isinstance(handle, Handle) and call.shard.incarnation == call.incarnation:
            why = f"{handle.kill_reason or why}{handle.where}"
            self.end(handle)
        call.finish(lost=why)

    def cancel(self, calls: Collection[Call]) -> list[Call]:
        for call in calls:
            call.mailbox.tickets.pop(call.ticket, None)
        return []

    def now(self) -> float:
        return time.monotonic()

    def close(self) -> None:
        if self.closed:
            return
        try:
            super().close()
        finally:
            if self.owns:
                ray.shutdown()
