"""Live operators: what they send waits in an outbox that leaves, within bounds, before the item moves on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Never, cast

from tflow.combinators import check, nodes
from tflow.combinators.actors import Actors, Resident
from tflow.combinators.signatures import actors_named_by
from tflow.combinators.travel import own_copy
from tflow.errors import PlanError
from tflow.runtime.answers import DONE, WAITING, Answer, Ready
from tflow.runtime.base import Call, Runtime
from tflow.runtime.cell import Cell, Site
from tflow.runtime.chain import first_state, rest_of
from tflow.runtime.driver import Driver
from tflow.runtime.report import RunProgress
from tflow.runtime.shards import LivePool, LiveShard
from tflow.types import NOWHERE, AnyOp, LiveOp, Provenance, Ref, StatefulLiveOp, V, W

if TYPE_CHECKING:
    from tflow.runtime.checkpoint_names import CheckpointNames

Event = tuple[LiveShard, Callable[..., object], object]


class LiveHandles(Generic[W]):
    """Handles to the live actors of one description, for an operator."""

    cannot_travel: ClassVar[str] = "a handle of the driver"

    def __init__(self, pool: LivePool, outbox: deque[Event], runtime: Runtime) -> None:
        self.pool = pool
        self.outbox = outbox
        self.runtime = runtime

    def __len__(self) -> int:
        return len(self.pool.shards)

    def send(self, method: Callable[[W, V], object], value: V | Ref[V], /, *, shard: int | None = None) -> None:
        check.function("send", method)
        if shard is None:
            if len(self) > 1:
                raise PlanError(f"send: {self.pool.name} has {len(self)} actors; say which with shard=.")
            shard = 0
        self.outbox.append((self._shard("send", shard), method, value.held if isinstance(value, Ref) else value))

    def update(
        self,
        method: Callable[[W, V], object],
        value: V | Ref[V],
        /,
        *,
        shards: Iterable[int] | None = None,
        policy: str = "default",
    ) -> None:
        check.function("update", method)
        version, held = self.version(policy), self.pool.hold(value.held if isinstance(value, Ref) else value, self.runtime.hold)
        for shard in range(len(self)) if shards is None else shards:
            self._shard("update", shard).put_state(method, held, policy, version)

    def advance(self, policy: str = "default", /) -> int:
        self.pool.versions[policy] = self.version(policy) + 1
        return self.pool.versions[policy]

    def version(self, policy: str = "default", /) -> int:
        return self.pool.versions.get(policy, 0)

    def behind(self, policy: str = "default", /) -> set[int]:
        return {shard.index for shard in self.pool.shards if shard.versions.get(policy, 0) < self.version(policy)}

    def incarnation(self, shard: int, /) -> int:
        return self._shard("incarnation", shard).incarnation

    def _shard(self, where: str, shard: int) -> LiveShard:
        if not 0 <= shard < len(self):
            raise IndexError(f"{where}: there is no shard {shard}; {self.pool.name} has {len(self)}.")
        return self.pool.shards[shard]


class LiveView:
    """What a live operator may reach: the actors that it names, and where its item comes from."""

    cannot_travel: ClassVar[str] = "a handle of the driver"

    def __init__(self, op: AnyOp, driver: Driver) -> None:
        self.name = type(op).__name__
        self.provenance: Provenance = NOWHERE
        self.outbox: deque[Event] = deque()
        self.handles: dict[Actors[object], LiveHandles[object]] = {
            actors: LiveHandles(driver.live(actors), self.outbox, driver.runtime)
            for actors in actors_named_by(op)
            if not isinstance(actors, Resident)
        }
        self.residents = {actors: driver.resident(actors) for actors in actors_named_by(op) if isinstance(actors, Resident)}
        self.progress = RunProgress(driver)
        self.pools = driver.pools

    def __getitem__(self, actors: Actors[W], /) -> LiveHandles[W]:
        if actors not in self.handles:
            raise PlanError(
                f"{self.name} asks for the actors {actors!r}, which it does not name. Put them into one of its fields."
            )
        return cast("LiveHandles[W]", self.handles[actors])

    def resident(self, resident: Resident[W], /) -> W:
        if resident not in self.residents:
            raise PlanError(f"{self.name} asks for {resident!r}, which it does not name. Put it into one of its fields.")
        return cast("W", self.residents[resident])

    def comes_from(self, actors: Actors[W], /) -> bool:
        name = self[actors].pool.name
        return any(source.actors == name for source in self.provenance.sources)

    def reply(self, method: Callable[[W, V], object], value: V, /) -> None:
        check.function("reply", method)
        asked = {(source.actors, source.shard) for source in self.provenance.sources}
        for pool in self.pools:
            self.outbox.extend((shard, method, value) for shard in pool.shards if (pool.name, shard.index) in asked)

    def shards(self, actors: Actors[W], /) -> tuple[int, ...]:
        pool = self[actors].pool
        found = {source.shard for source in self.provenance.sources if source.actors == pool.name}
        return tuple(sorted(shard for shard in found if shard < len(pool.shards)))  # some may have left


class LiveCell(Cell):
    """A driver operator that talks to actors. Other operators never come here: they are steps of a chain."""

    made_anew: ClassVar[frozenset[str]] = frozenset({"op", "live"})
    node: nodes.ForEach
    site: Driver

    def __init__(self, node: nodes.ForEach, ups: tuple[Cell, ...], site: Site) -> None:
        assert isinstance(site, Driver)
        assert isinstance(node.op, (LiveOp, StatefulLiveOp))
        self.op = own_copy(node.op)
        self.live = LiveView(node.op, site)
        self.memory = first_state(site, node, self.op.init) if isinstance(self.op, StatefulLiveOp) else None
        self.held: Ready | None = None
        """Waits until everything that was sent for it has left."""
        self.left: list[object] | None = None
        """What the operator shows after its last item; None until its input has ended."""
        super().__init__(node, ups, site)

    def answers(self) -> Iterator[Answer]:
        while True:
            while not self.sent():
                self.site.polled_while_waiting()
                yield WAITING
            if self.held is not None:
                ready, self.held = self.held, None
                self.shown += 1
                yield ready
            answer = self.ups[0].poll() if self.left is None else DONE
            if type(answer) is tuple:
                self.seen += 1
                value, self.live.provenance = answer
                self.held = self.apply(value), answer[1]
            elif answer is DONE and self.left is None:
                self.left = self.rest()
            elif answer is DONE and self.left:
                self.held = self.left.pop(0), self.live.provenance
            else:
                yield answer

    def state(self, names: CheckpointNames) -> dict[str, Any]:  # Any: as in the base class
        outbox = [(names.shard(shard), names.method(method), value) for shard, method, value in self.live.outbox]
        return {**super().state(names), "outbox": outbox, "provenance": self.live.provenance}

    def load(self, state: dict[str, Any], names: CheckpointNames) -> None:  # Any: as above
        self.live.provenance = state.pop("provenance")
        self.live.outbox.extend((names.shards[n], names.method_called(name), value) for n, name, value in state.pop("outbox"))
        super().load(state, names)

    def apply(self, value: object) -> object:
        op = self.op
        start = perf_counter_ns()
        try:
            if isinstance(op, StatefulLiveOp):
                self.memory, value = op.step(self.live, self.memory, cast("Never", value))
            elif isinstance(op, LiveOp):
                value = op.apply(self.live, cast("Never", value))
        except Exception as error:
            raise self.site.blame(self.node, self.seen - 1, error) from error
        self.worked(start)
        return value

    def rest(self) -> list[object]:
        """What the operator shows, and sends, when its input has ended."""
        if not isinstance(self.op, StatefulLiveOp):
            return []
        return rest_of(self.site, self.node, self.seen, partial(self.op.at_end, self.live, self.memory))

    def sent(self) -> bool:
        """Send what waits, in order, as long as the actors have room; True if nothing is left."""
        outbox, events = self.live.outbox, self.site.events
        while outbox:
            shard, method, value = outbox[0]
            if events.get(shard, 0) >= shard.pool.actors.mailbox:
                return False
            outbox.popleft()
            events[shard] = events.get(shard, 0) + 1
            self.site.issue(shard, "tell", (method, value), self, timeout_s=shard.pool.actors.timeout_s)
        return True

    def arrived(self, call: Call) -> None:
        self.site.events[call.shard] -= 1
        if call.lost and call.shard.restarts_exhausted:
            self.site.failure = self.site.failure or call.shard.failure("takes no more messages")
        self.site.failure = self.site.failure or call.error

    def queued(self) -> int:
        return len(self.live.outbox)

    def abandon_outbox(self) -> None:
        """The run was closed before these messages could leave."""
        self.site.counters.issued += len(self.live.outbox)
        self.site.counters.abandoned += len(self.live.outbox)
        self.live.outbox.clear()
