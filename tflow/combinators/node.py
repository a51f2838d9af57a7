"""What every node of a plan is: a frozen description, compared by identity, that knows its inputs and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tflow.combinators.labels import Shown


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """One operator of a plan and, at the same time, the edge that leaves it."""

    name: str | None = None
    position: int = -1
    """Where the node stands in its plan; set only on the copies that travel to actors."""
    shown_as: str | None = None
    """The label of the original, on such a copy."""

    shape: ClassVar[str]
    """The operator with its arguments, such as ``batch({size})``."""
    limits: ClassVar[str] = ""
    """What bounds it: calls in flight, buffers, sizes."""
    chance: ClassVar[str] = ""
    """Why it may decide differently in another run; empty if it cannot."""
    always_sync: ClassVar[bool | None] = None
    """None: it is synchronous if its inputs are."""
    holds_back: ClassVar[bool] = False
    """True if, inside an actor, items of an earlier call may wait in it for a later one: then they are not fresh."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes whose edges this one consumes."""
        return ()

    @cached_property
    def parallel(self) -> bool:
        """True if it runs inside the actors of a parallel stream."""
        return bool(self.inputs) and all(node.parallel for node in self.inputs)

    @cached_property
    def sync(self) -> bool:
        """True if an update made between two items reaches all that follow."""
        if self.always_sync is not None:
            return self.always_sync
        return all(node.sync for node in self.inputs) and not (self.parallel and self.holds_back)

    @cached_property
    def deterministic(self) -> bool:
        """True if no decision up to here depends on completion order or on the clock."""
        return not self.unpredictable and all(node.deterministic for node in self.inputs)

    @property
    def what(self) -> str:
        """The operator as users wrote it, such as ``par_map(double)``."""
        text = self.shape.format_map(Shown(self))
        return f"par_{text}" if self.parallel and self.inputs and text[0].islower() else text

    @property
    def label(self) -> str:
        """How errors and drawings call this node."""
        return self.shown_as or (f"{self.what} '{self.name}'" if self.name else self.what)

    @property
    def bounds(self) -> str:
        """The limits that are set, filled in."""
        limits = self.limits.format_map(Shown(self)).split(", ")
        usual = f"on_death={getattr(type(self), 'on_death', None)}"  # goes without saying
        return ", ".join(limit for limit in limits if not limit.endswith("=None") and limit != usual)

    @property
    def unpredictable(self) -> str:
        """Why this node may decide differently in another run; empty if it cannot."""
        return self.chance
