"""Streams during the traversal of a function body: which there are, what they are called, and where they are consumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from mypy.nodes import CallExpr, Context, LambdaExpr, SymbolNode, Var

from tflow.mypy_plugin.facts import Facts
from tflow.mypy_plugin.labels import CallLabel


@dataclass(frozen=True)
class Use:
    """A stream is consumed ``by`` an operator, somewhere."""

    by: str | CallLabel
    where: Context
    copy: int = 0
    """Of several that stand at one place, such as the members of a list."""
    turn: int = 0
    """The turn of a loop in which it is consumed; all turns have different numbers."""

    @property
    def place(self) -> tuple[int, int, int]:
        """Line and column, and which it is of several."""
        return self.where.line, self.where.column, self.copy


@dataclass(eq=False)
class StreamEdge:
    """A stream."""

    label: str | CallLabel
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
    dropped: Context | None = None
    """Where a path ends on which it was not consumed, although it is on others."""

    def mark(self, *, released: bool = False) -> None:
        """It is consumed, or can no longer be followed."""
        if self.consumed and (self.released or not released):
            return  # and so are its parts
        self.consumed = True
        self.released = self.released or released
        for part in self.parts:
            part.mark(released=released)

    def all_parts(self) -> Iterator[StreamEdge]:
        """Itself, and all that it may be."""
        yield self
        for part in self.parts:
            yield from part.all_parts()


@dataclass(frozen=True, eq=False)
class Members:
    """A list, tuple or dictionary whose members are known."""

    members: tuple[Value | None, ...]
    keys: tuple[object, ...] | None = None
    """Of a dictionary."""
    fields: tuple[str, ...] = ()
    """Of a named tuple, or a dataclass: the attributes."""

    def streams(self) -> Iterator[StreamEdge]:
        """All streams in it, one as often as it is there."""
        for member in self.members:
            if isinstance(member, StreamEdge):
                yield member
            elif isinstance(member, Members):
                yield from member.streams()
            elif isinstance(member, Method):
                yield member.edge


@dataclass(frozen=True, eq=False)
class Method:
    """A method of a stream that has a name of its own: ``apply = stream.map``."""

    edge: StreamEdge
    name: str


Value: TypeAlias = StreamEdge | Members | Method
"""What an expression is, as far as it is followed."""
Attribute: TypeAlias = tuple[SymbolNode, str]
"""``self.rewards``: a name, and what comes after the dot."""
Sources: TypeAlias = frozenset[tuple[StreamEdge, Use]]


@dataclass
class State:
    """What is known at one point of the body."""

    names: dict[Var, StreamEdge] = field(default_factory=dict)
    used: dict[StreamEdge, Use] = field(default_factory=dict)
    held: dict[Var, Members | Method | LambdaExpr] = field(default_factory=dict)
    """Names of what is no stream, and has to do with some."""
    attributes: dict[Attribute, StreamEdge] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)
    made: dict[StreamEdge, None] = field(default_factory=dict)
    """Branches of splits that got a name on this path."""
    certain: bool = True
    """False if it is not known whether this path is ever taken."""

    def copy(self) -> State:
        """For a path of its own."""
        facts, made = self.facts.copy(), dict(self.made)
        return State(dict(self.names), dict(self.used), dict(self.held), dict(self.attributes), facts, made, self.certain)

    def like(self, other: State) -> bool:
        """True if streams are the same here and there."""
        same = self.names == other.names and self.held == other.held and self.attributes == other.attributes
        return same and self.used.keys() == other.used.keys() and self.certain == other.certain
