"""Live operators: what they send waits in an outbox that leaves, within bounds, before the item moves on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from typing import Generic, cast

from tflow.combinators import check, nodes
from tflow.combinators.actors import Actors
from tflow.errors import PlanError
from tflow.runtime.answers import WAITING, Answer, Ready
from tflow.runtime.base import Call, LivePool, LiveShard
from tflow.runtime.cell import Cell, Site, runs
from tflow.runtime.driver import Driver
from tflow.types import NOWHERE, LiveOp, Op, Provenance, StatefulLiveOp, V, W

Event = tuple[LiveShard, Callable[..., object], object]


def actors_of(op: Op[object, object, object]) -> list[Actors[object]]:
    """The actors that an operator names in its fields, also inside tuples, lists and dicts."""
    names: list[str] = list(getattr(op, "__dataclass_fields__", ()) or getattr(op, "__dict__", ()))
    return list(_actors_in([getattr(op, name) for name in names]))


def _actors_in(value: object) -> Iterator[Actors[object]]:
    if isinstance(value, Actors):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _actors_in(item)
    elif isinstance(value, dict):
        yield from _actors_in(list(value.values()))


class LiveHandles(Generic[W]):
    """The live actors of one description, in the hands of an operator."""

    def __init__(self, pool: LivePool, outbox: deque[Event]) -> None:
        self.pool = pool
        self.outbox = outbox

    def __len__(self) -> int:
        return len(self.pool.shards)

    def send(self, shard: int, method: Callable[[W, V], object], value: V, /) -> None:
        check.function("send", method)
        self.outbox.append((self._shard("send", shard), method, value))

    def update(
        self,
        method: Callable[[W, V], object],
        value: V,
        /,
        *,
        shards: Iterable[int] | None = None,
        policy: str = "default",
    ) -> None:
        check.function("update", method)
        version = self.version(policy)
        for shard in range(len(self)) if shards is None else shards:
            self._shard("update", shard).put_state(method, value, policy, version)

    def advance(self, policy: str = "default", /) -> int:
        self.pool.versions[policy] = self.version(policy) + 1
        return self.pool.versions[policy]

    def version(self, policy: str = "default", /) -> int:
        return self.pool.versions.get(policy, 0)

    def _shard(self, where: str, shard: int) -> LiveShard:
        if not 0 <= shard < len(self):
            raise IndexError(f"{where}: there is no shard {shard}; {self.pool.name} has {len(self)}.")
        return self.pool.shards[shard]


class LiveView:
    """What a live operator may reach: the actors that it names, and where its item comes from."""

    def __init__(self, op: Op[object, object, object], driver: Driver) -> None:
        self.name = type(op).__name__
        self.provenance: Provenance = NOWHERE
        self.outbox: deque[Event] = deque()
        self.handles: dict[int, LiveHandles[object]] = {
            id(actors): LiveHandles(driver.live(actors), self.outbox) for actors in actors_of(op)
        }

    def __getitem__(self, actors: Actors[W], /) -> LiveHandles[W]:
        if id(actors) not in self.handles:
            raise PlanError(
                f"{self.name} asks for the actors {actors!r}, which it does not name. Put them into one of its fields."
            )
        return cast("LiveHandles[W]", self.handles[id(actors)])

    def shards(self, actors: Actors[W], /) -> tuple[int, ...]:
        name = self[actors].pool.name
        return tuple(sorted({source.shard for source in self.provenance.sources if source.actors == name}))


@runs(nodes.ForEach)
class Live(Cell):
    """A driver operator that talks to actors. Other operators never come here: they are steps of a chain."""

    node: nodes.ForEach
    site: Driver

    def __init__(self, node: nodes.ForEach, ups: tuple[Cell, ...], site: Site) -> None:
        assert isinstance(site, Driver)
        assert isinstance(node.op, (LiveOp, StatefulLiveOp))
        self.live = LiveView(node.op, site)
        self.state = node.op.init() if isinstance(node.op, StatefulLiveOp) else None
        self.held: Ready | None = None
        """Waits until everything that was sent for it has left."""
        super().__init__(node, ups, site)

    def answers(self) -> Iterator[Answer]:
        while True:
            while not self.sent():
                yield WAITING
            if self.held is not None:
                ready, self.held = self.held, None
                self.shown += 1
                yield ready
            answer = self.ups[0].poll()
            if type(answer) is tuple:
                self.seen += 1
                value, self.live.provenance = answer
                self.held = self.apply(value), answer[1]
            else:
                yield answer

    def apply(self, value: object) -> object:
        op = self.node.op
        start = perf_counter_ns()
        try:
            if isinstance(op, StatefulLiveOp):
                self.state, value = op.step(self.live, self.state, value)
            elif isinstance(op, LiveOp):
                value = op.apply(self.live, value)
        except Exception as error:
            raise self.site.blame(self.node, self.seen - 1, error) from error
        self.busy_ns += perf_counter_ns() - start
        return value

    def sent(self) -> bool:
        """Send what waits, in order, as long as the actors have room; True if nothing is left."""
        outbox, events = self.live.outbox, self.site.events
        while outbox:
            shard, method, value = outbox[0]
            if events.get(shard, 0) >= shard.pool.actors.mailbox:
                return False
            outbox.popleft()
            events[shard] = events.get(shard, 0) + 1
            self.site.issue(shard, "tell", (method, value), self)
        return True

    def arrived(self, call: Call) -> None:
        self.site.events[call.shard] -= 1
        if call.error is not None:
            raise call.error

    def queued(self) -> int:
        return len(self.live.outbox)
