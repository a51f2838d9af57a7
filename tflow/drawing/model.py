"""A drawing before it is drawn: boxes and edges as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Where = Literal["actor", "driver", "learner"]
WHERE: tuple[Where, ...] = ("actor", "driver", "learner")
Shape = Literal["operator", "input", "actors"]
"""A node of the plan; a stream that the plan is given; actors, a learner or another object that operators use."""
Flow = Literal["sync", "async", "barrier"]
"""Behind a barrier; items may be older than the latest update; where all actors are waited for."""
Relation = Literal["message", "use"]
"""An operator sends something to actors; it works in them, or with them."""


@dataclass(frozen=True)
class DrawnNode:
    """One box."""

    id: int
    """Its position: inputs come before what consumes them, actors after all operators."""
    label: str
    where: Where = "driver"
    yields: str = ""
    """The type of the stream that leaves it."""
    shape: Shape = "operator"
    stacked: bool = False
    """True if there are several: one per actor."""
    share: float = 0.0
    """How busy it was, of the time of the run: from 0 to 1."""


@dataclass(frozen=True)
class DrawnEdge:
    """What goes from one box to another: items, or a message to actors."""

    source: int
    target: int
    shown: str = ""
    """The type of the items, or what is sent."""
    kind: Flow | Relation = "sync"

    @property
    def is_flow(self) -> bool:
        """True if items of the stream take it."""
        return self.kind in ("sync", "async", "barrier")


@dataclass(frozen=True)
class Graph:
    """A whole drawing."""

    title: str
    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]

    @cached_property
    def flow(self) -> tuple[DrawnEdge, ...]:
        """The edges that items take, from operator to operator."""
        return tuple(edge for edge in self.edges if edge.is_flow)

    @cached_property
    def relations(self) -> tuple[DrawnEdge, ...]:
        """The edges from operators to actors."""
        return tuple(edge for edge in self.edges if not edge.is_flow)
