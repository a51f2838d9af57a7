"""From actors to the driver, and to actors that are fed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

from tflow.combinators import hints
from tflow.combinators.actors import Actor, Actors
from tflow.combinators.hints import Hint
from tflow.combinators.nodes.node import FAULTS, Node, OnDeath, OnFull, Refs
from tflow.combinators.nodes.unary import Operating, Passing, Unary
from tflow.errors import PlanError
from tflow.types import TimeBudget


@dataclass(frozen=True, eq=False)
class Gathering(Unary):
    """A node that turns a parallel stream into a driver stream."""

    on_death: OnDeath = "restart"
    timeout_s: float | None = None
    gathers: ClassVar[bool] = True

    @cached_property
    def parallel(self) -> bool:
        return False

    @property
    def refs(self) -> Refs:
        return "takes"


@dataclass(frozen=True, eq=False)
class GatherSync(Gathering):
    rounds: bool = field(kw_only=True)
    limits: ClassVar[str] = "one call per shard and round" + FAULTS

    @cached_property
    def sync(self) -> bool:
        """A barrier, except over shards that are fed: the driver has pulled their items ahead of time."""
        return self.up.sync

    @property
    def what(self) -> str:
        return "gather_rounds()" if self.rounds else "gather_sync()"

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return hints.generic(list, inputs[0]) if self.rounds else inputs[0]


@dataclass(frozen=True, eq=False)
class GatherWhole(GatherSync):
    """Rounds of exactly one item of every shard; they go back to the shards."""

    @property
    def what(self) -> str:
        return "par_all_gather()"


@dataclass(frozen=True, eq=False, kw_only=True)
class GatherTogether(GatherWhole):
    """Rounds of up to ``size`` items of every shard; each shard gets its own back, as a list."""

    size: int
    share: float
    per_call: int | TimeBudget
    limits: ClassVar[str] = "size={size}, share={share}, per_call={per_call}" + FAULTS

    @property
    def what(self) -> str:
        return f"par_batch_together({self.size})"

    @property
    def one_item_per_call(self) -> bool:
        return False

    @property
    def unpredictable(self) -> str:
        return "" if self.share == 1 else "which shards are cut depends on timing"

    def element(self, inputs: tuple[Hint, ...]) -> Hint:
        return hints.generic(list, hints.generic(list, inputs[0]))


@dataclass(frozen=True, eq=False)
class GatherAsync(Gathering):
    in_flight: int = 1
    per_call: int | TimeBudget = 1
    max_staleness: int | None = None
    shape: ClassVar[str] = "gather_async()"
    limits: ClassVar[str] = "in_flight={in_flight}, per_call={per_call}, max_staleness={max_staleness}" + FAULTS
    chance: ClassVar[str] = "order depends on which actor answers first"
    always_sync: ClassVar[bool | None] = False

    @property
    def one_item_per_call(self) -> bool:
        return self.per_call == 1


@dataclass(frozen=True, eq=False, kw_only=True)
class CallActor(Operating):
    """Each item is a call to one actor; nothing else is pulled meanwhile."""

    actor: Actor[object]
    on_death: OnDeath = "raise"
    timeout_s: float | None = None
    shape: ClassVar[str] = "call({actor}, {applied})"
    limits: ClassVar[str] = "one call in flight" + FAULTS
    gathers: ClassVar[bool] = True

    @property
    def host(self) -> Actor[object]:
        return self.actor

    @property
    def where(self) -> Literal["driver", "actor"]:
        return "actor"

    @property
    def refs(self) -> Refs:
        return "takes"

    @property
    def actors(self) -> tuple[Actors[object], ...]:
        return (self.actor, *self.sends_to)


@dataclass(frozen=True, eq=False, kw_only=True)
class HandOff(CallActor):
    """Items fill the mailbox of one actor; results come back in order."""

    mailbox: int = 2
    on_full: OnFull = "block"
    shape: ClassVar[str] = "hand_off({actor}, {applied})"
    limits: ClassVar[str] = "mailbox={mailbox}, on_full={on_full}" + FAULTS
    chance: ClassVar[str] = "how far the actor has come depends on timing"
    always_sync: ClassVar[bool | None] = False


@dataclass(frozen=True, eq=False)
class Every(Passing):
    unit: Literal["items", "steps", "seconds"]
    amount: float
    shape: ClassVar[str] = "every({unit}={amount})"
    one_to_one: ClassVar[bool] = False

    @property
    def unpredictable(self) -> str:
        return "reads the clock" if self.unit == "seconds" else ""

    def check(self, given: tuple[Hint, ...], order: Sequence[Node]) -> None:
        if self.unit == "steps" and not any(isinstance(node, Gathering) for node in order):
            raise PlanError(
                f"{self.label} would never open: env steps are counted where items of actors arrive, and there are no items of "
                "actors in this plan."
            )
