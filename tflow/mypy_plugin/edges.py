"""Streams during the traversal of a function body: which there are, what they are called, and where they are consumed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from mypy.nodes import CallExpr, Context, Var


@dataclass(frozen=True)
class Use:
    """A stream is consumed ``by`` an operator, somewhere."""

    by: str
    where: Context

    @property
    def place(self) -> tuple[int, int]:
        """Line and column."""
        return self.where.line, self.where.column


@dataclass(eq=False)
class StreamEdge:
    """A stream."""

    label: str
    where: Context | None = None
    """Where it got its name; None if it has none."""
    name: str = ""
    parameter: bool = False
    plan: bool = False
    owed: bool = True
    """False for what belongs to something else, such as an item of a list: it need not be consumed here."""
    several: bool = False
    """All branches of a split under one name: it counts as consumed as soon as it is looked at."""
    branch: tuple[CallExpr, int] | None = None
    parts: tuple[StreamEdge, ...] = ()
    """What it is on different paths."""
    sources: Sources = frozenset()
    """All that was consumed to make it."""
    consumed: bool = False
    """On some path."""
    released: bool = False
    """It went where it cannot be followed."""
    overwritten: Context | None = None

    def mark(self, *, released: bool = False) -> None:
        """It is consumed, or can no longer be followed."""
        if self.consumed and (self.released or not released):
            return  # and so are its parts
        self.consumed = True
        self.released = self.released or released
        for part in self.parts:
            part.mark(released=released)


Sources: TypeAlias = frozenset[tuple[StreamEdge, Use]]


@dataclass
class State:
    """What is known at one point of the body."""

    names: dict[Var, StreamEdge] = field(default_factory=dict)
    used: dict[StreamEdge, Use] = field(default_factory=dict)

    def copy(self) -> State:
        """For a path of its own."""
        return State(dict(self.names), dict(self.used))
