"""A run as operators see it: live actors that they may send to, and how far the run has come."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from tflow.types import Provenance, Ref, V, W, W_co

if TYPE_CHECKING:
    from tflow.combinators.actors import Actors, Resident
    from tflow.runtime.ledger import Ledger
    from tflow.runtime.stats import RunStats


class Handles(Protocol[W_co]):
    """The live actors of one description. Messages wait in an outbox that the executor empties, within bounds."""

    def __len__(self) -> int:
        """How many actors there are."""
        ...

    def send(self, method: Callable[[W_co, V], object], value: V | Ref[V], /, *, shard: int | None = None) -> None:
        """An event: call ``method(actor, value)`` once, in order. Never merged, bounded per actor. ``shard`` may be left out
        if there is one actor only."""

    def update(
        self,
        method: Callable[[W_co, V], object],
        value: V | Ref[V],
        /,
        *,
        shards: Iterable[int] | None = None,
        policy: str = "default",
    ) -> None:
        """State, such as weights: the latest wins and is sent inside the next call to each shard (default: all)."""

    def advance(self, policy: str = "default", /) -> int:
        """Count one update of a policy; later ``update`` calls carry the new version. Returns it."""
        ...

    def version(self, policy: str = "default", /) -> int:
        """The version of a policy: how often it was advanced."""
        ...

    def incarnation(self, shard: int, /) -> int:
        """The incarnation of the actor that will receive what is sent now."""
        ...

    def behind(self, policy: str = "default", /) -> set[int]:
        """The shards that have not been sent the current version."""
        ...


class Progress(Protocol):
    """Progress of a run."""

    def now(self) -> float:
        """Seconds on the runtime's clock."""
        ...

    def seconds(self) -> float:
        """Seconds since the run began."""
        ...

    def is_over(self) -> bool:
        """True if the time of the run is over: what takes long may be cut short."""
        ...

    def env_steps(self, actors: Actors[W], /) -> int:
        """The env steps in all items of these actors that have reached the driver."""
        ...

    def stops_at(self) -> int | None:
        """The env steps after which the run will stop; None if that is not known."""
        ...

    def summary(self, actors: Actors[W], /) -> object:
        """The summaries of these items, merged."""
        ...

    def stats(self) -> RunStats:
        """Counts and busy time of every operator."""
        ...

    def ledger(self) -> Ledger:
        """Where every call and every item is."""
        ...


class Gate(Protocol):
    """Decides on the driver when a source of items may be asked, by what the plan has done so far."""

    def closed(self, shard: int, incarnation: int, items: int, /) -> str:
        """Why this actor is not to be asked for so many items yet; empty if it may be."""
        ...

    def passed(self, shard: int, incarnation: int, items: int, /) -> None:
        """It has been asked."""


class Live(Protocol):
    """What a live operator may reach while it handles one item."""

    @property
    def provenance(self) -> Provenance:
        """Where the item in hand comes from."""
        ...

    def __getitem__(self, actors: Actors[W], /) -> Handles[W]:
        """The live actors of a description that the operator names in its fields."""
        ...

    def shards(self, actors: Actors[W], /) -> tuple[int, ...]:
        """The shards of these actors that the item in hand comes from."""
        ...

    def comes_from(self, actors: Actors[W], /) -> bool:
        """True if the item in hand, or a part of it, was made by these actors, be they still there or not."""
        ...

    def resident(self, resident: Resident[W], /) -> W:
        """The object that lives in the driver, of a description that the operator names in its fields."""
        ...

    def reply(self, method: Callable[[W, V], object], value: V, /) -> None:
        """Send an event to each actor that the item in hand comes from."""

    @property
    def progress(self) -> Progress:
        """How far the run has come."""
        ...
