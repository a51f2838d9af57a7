"""A run as a live operator sees it, played by the kit: no actor is made, and every message is noted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

from tflow.combinators.actors import Actors, Resident
from tflow.combinators.signatures import actors_named_by
from tflow.errors import PlanError
from tflow.runtime.ledger import LedgerCounters
from tflow.runtime.stats import RunStats
from tflow.testing.values import snapshot
from tflow.types import AnyOp, Provenance, Ref, Shard, Source, steps_of


class Message(NamedTuple):
    """What an operator did to its actors: ``send``, ``update``, ``reply`` or ``advance``."""

    kind: str
    to: str
    shards: tuple[int, ...]
    method: str
    value: object
    """What was sent; for ``advance``, the version."""
    looked: object
    """What it was made of when it was sent."""
    policy: str = ""

    @property
    def told(self) -> tuple[object, ...]:
        """The message as data."""
        return self.kind, self.to, self.shards, self.method, self.looked, self.policy

    @property
    def arrives(self) -> list[tuple[object, ...]]:
        """What each shard is told, however it was sent."""
        sent = [] if self.kind == "advance" else self.shards
        return [(self.to, shard, self.method, self.looked, self.policy or "default") for shard in sent]


class SpyRef(Ref[Any]):  # Any: whatever the item is
    """An item that notes when it is opened."""

    __slots__ = ("item", "opened")

    def __init__(self, item: object) -> None:
        self.item, self.opened = item, list[str]()

    @property
    def held(self) -> object:  # type: ignore[override]  # a slot there
        self.opened.append("held")
        return self.item

    @property
    def env_steps(self) -> int:
        return Ref[Any](self.item).env_steps  # Any: see above

    @property
    def rows(self) -> int:
        return Ref[Any](self.item).rows  # Any: see above

    @property
    def summary(self) -> object:
        return Ref[Any](self.item).summary  # Any: see above


def opened(value: object) -> object:
    """What is in a message: the item, if it was sent without being opened."""
    return value.item if isinstance(value, SpyRef) else value.held if isinstance(value, Ref) else value


class SpyHandles:
    """The actors of one description."""

    def __init__(self, live: SpyLive, actors: Actors[object]) -> None:
        self.live, self.actors = live, actors

    def __len__(self) -> int:
        return self.actors.num

    def send(self, method: Callable[..., object], value: object, /, *, shard: int | None = None) -> None:
        if shard is None and len(self) > 1:
            raise PlanError(f"send: {self.actors.name} has {len(self)} actors; say which with shard=.")
        self.live.note("send", self.actors, (self.shard("send", shard or 0),), method, value)

    def update(
        self,
        method: Callable[..., object],
        value: object,
        /,
        *,
        shards: Iterable[int] | None = None,
        policy: str = "default",
    ) -> None:
        to = range(len(self)) if shards is None else [self.shard("update", shard) for shard in shards]
        self.live.note("update", self.actors, tuple(to), method, value, policy)
        self.live.updated |= {(self.actors, shard, policy): self.version(policy) for shard in to}

    def shard(self, where: str, shard: int) -> int:
        if not 0 <= shard < len(self):
            raise PlanError(f"{where}: there is no shard {shard!r} in {self.actors!r}.")
        return shard

    def advance(self, policy: str = "default", /) -> int:
        version = self.live.versions[self.actors, policy] = self.version(policy) + 1
        self.live.note("advance", self.actors, (), "", version, policy)
        return version

    def version(self, policy: str = "default", /) -> int:
        return self.live.versions.get((self.actors, policy), 0)

    def incarnation(self, shard: int, /) -> int:
        return 0

    def behind(self, policy: str = "default", /) -> set[int]:
        return {n for n in range(len(self)) if self.live.updated.get((self.actors, n, policy), 0) < self.version(policy)}


class SpyProgress:
    """A run that takes one second per item."""

    def __init__(self) -> None:
        self.items, self.steps, self.latest = 0, 0, None

    def now(self) -> float:
        return float(self.items)

    seconds = now

    def is_over(self) -> bool:
        return False

    def env_steps(self, actors: object, /) -> int:
        return self.steps

    def stops_at(self) -> int | None:
        return None

    def summary(self, actors: object, /) -> object:
        return self.latest

    def stats(self) -> RunStats:
        return RunStats((), self.steps)

    def ledger(self) -> object:
        return LedgerCounters().snapshot(in_flight=0, buffered=0)


class SpyLive:
    """What a live operator reaches. Items come from the actors that it names, from one shard after the other."""

    def __init__(self, op: AnyOp) -> None:
        named = list(actors_named_by(op))
        self.actors = [actors for actors in named if not isinstance(actors, Resident)]
        self.residents = {each: each.make(Shard(each.name, 0, 1, 0, 0)) for each in named if isinstance(each, Resident)}
        self.versions: dict[tuple[object, str], int] = {}
        self.updated: dict[tuple[object, int, str], int] = {}
        self.messages: list[Message] = []
        self.progress = SpyProgress()
        self.provenance = Provenance(frozenset(), {})

    def receive(self, item: object, number: int) -> None:
        """The next item is at hand."""
        sources = {Source(actors.name, number % actors.num, 0, number // actors.num) for actors in self.actors}
        versions = {policy: version for (_, policy), version in self.versions.items()}
        self.provenance = Provenance(frozenset(sources), versions)
        self.messages = []
        self.progress.items += 1
        self.progress.steps += steps_of(item)

    def note(
        self, kind: str, to: Actors[object], shards: tuple[int, ...], method: object, value: object, policy: str = ""
    ) -> None:
        name = getattr(method, "__qualname__", str(method))
        self.messages.append(Message(kind, to.name, shards, name, value, snapshot(opened(value)), policy))

    def __getitem__(self, actors: Actors[object], /) -> SpyHandles:
        if actors not in self.actors:
            raise PlanError(f"An operator sends to {actors!r}, which it does not name. Put it into one of its fields.")
        return SpyHandles(self, actors)

    def shards(self, actors: Actors[object], /) -> tuple[int, ...]:
        return tuple(sorted({source.shard for source in self.provenance.sources if source.actors == self[actors].actors.name}))

    def comes_from(self, actors: Actors[object], /) -> bool:
        return bool(self.shards(actors))

    def resident(self, resident: Resident[object], /) -> object:
        if resident not in self.residents:
            raise PlanError(f"An operator asks for {resident!r}, which it does not name. Put it into one of its fields.")
        return self.residents[resident]

    def reply(self, method: Callable[..., object], value: object, /) -> None:
        for actors in self.actors:
            self.note("reply", actors, self.shards(actors), method, value)


def spy(op: AnyOp) -> Any:  # Any: stands for a Live
    """A run for an operator."""
    return cast("Any", SpyLive(op))  # Any: as above
