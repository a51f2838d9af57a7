"""What an expression is worth to a drawing: a stream, several of them, actors and their name, or something with no streams in it.

Values never change. Where paths of a program meet, what a variable may be on each of them is joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from mypy.nodes import FuncDef, LambdaExpr
from mypy.types import Instance, Type

from tflow.drawing.model import Where
from tflow.drawing.shown import shown, stream_base


@dataclass(frozen=True)
class Carried:
    """The type of a stream, in parts."""

    kind: str = ""
    """Iter, ParIter or Plan; empty for what is no stream, or not known to be one."""
    element: str = "?"
    offers: str = ""

    @staticmethod
    def by(given: Type | None) -> Carried:
        """The parts of a type."""
        base: Instance | None = stream_base(given)
        if base is None:
            return Carried("", shown(given))
        element, *offers = base.args
        return Carried(base.type.name, shown(element), *map(shown, offers))

    def __str__(self) -> str:
        if not self.kind:
            return self.element
        usual = not self.offers or (self.kind == "ParIter" and self.offers == "Sync")
        return f"{self.kind}[{self.element}]" if usual else f"{self.kind}[{self.element}, {self.offers}]"

    @property
    def where(self) -> Where:
        """Parallel streams are in actors."""
        return "actor" if self.kind == "ParIter" else "driver"

    @property
    def gathered(self) -> str:
        """What the stream offers behind a barrier."""
        return self.offers or ("Sync" if self.kind == "ParIter" else "Async")

    def but(self, kind: str | None = None, element: str | None = None, offers: str | None = None) -> Carried:
        """The same in other respects."""
        return Carried(
            self.kind if kind is None else kind,
            self.element if element is None else element,
            self.offers if offers is None else offers,
        )


@dataclass(frozen=True)
class Stream:
    """The stream that leaves a node."""

    node: int
    carried: Carried
    mark: str = ""
    """For the edge to whatever consumes it."""


@dataclass(frozen=True)
class Split:
    """The branches of a split, which become nodes when they are taken."""

    node: int
    branches: int | None
    carried: Carried


@dataclass(frozen=True)
class Item:
    """A member of something that holds several values."""

    value: Value
    mark: str = ""
    """``*`` if there may be more like it, or the condition under which it is there."""
    key: str | int | None = None
    """Under which name it is kept, where that is known."""


@dataclass(frozen=True)
class Several:
    """A tuple, list, dictionary, or an object with streams in its fields."""

    items: tuple[Item, ...] = ()
    keyed: bool = False
    """True if members are found by their key, not by their position."""


@dataclass(frozen=True)
class Opaque:
    """Something with streams in it that a node made, or that came in from outside."""

    node: int
    mark: str = ""


@dataclass(frozen=True)
class Described:
    """Actors."""

    name: str


@dataclass(frozen=True)
class Constant:
    """A number, a string, True, False or None."""

    value: float | str | bool | None


@dataclass(frozen=True)
class Callee:
    """A function that was defined, or named, in the source."""

    name: str
    definition: FuncDef | LambdaExpr | None = None
    scope: Mapping[str, Value] = field(default_factory=dict, compare=False)
    """The variables around it."""
    captured: tuple[Value, ...] = ()
    """Streams around it that it uses."""
    module: str = ""
    """Where it is defined, if it is inside another function."""


@dataclass(frozen=True)
class Made:
    """An object, by the name of its class."""

    name: str


@dataclass(frozen=True)
class Bound:
    """A method of a stream, or of something that holds streams."""

    owner: Value
    name: str


@dataclass(frozen=True, eq=False)
class Choice:
    """One of several values, depending on conditions. It becomes a node when it is consumed."""

    alternatives: tuple[tuple[str, Value], ...]
    label: str
    line: int


@dataclass(frozen=True)
class Unknown:
    """Nothing that a drawing shows."""


Value: TypeAlias = Stream | Split | Several | Opaque | Described | Constant | Callee | Made | Bound | Choice | Unknown
UNKNOWN = Unknown()
Alternatives = Sequence[tuple[str, Value]]


def streams_in(value: Value) -> bool:
    """True if there is a stream in a value."""
    match value:
        case Stream() | Split() | Opaque():
            return True
        case Several(items=items):
            return any(streams_in(item.value) for item in items)
        case Choice(alternatives=alternatives):
            return any(streams_in(each) for _, each in alternatives)
        case Bound(owner=owner):
            return streams_in(owner)
        case Callee(captured=captured):
            return bool(captured)
        case _:
            return False


def marked(value: Value, mark: str) -> Value:
    """A value whose streams flow only under a condition, or one at a time."""
    match value:
        case Stream() | Opaque():
            return replace(value, mark=both(value.mark, mark))
        case Several(items=items):
            return replace(value, items=tuple(replace(item, value=marked(item.value, mark)) for item in items))
        case _:
            return value


def both(first: str, second: str) -> str:
    """Two marks as one."""
    return ", ".join(dict.fromkeys(mark for mark in (first, second) if mark))


def joined(alternatives: Alternatives, label: str, line: int) -> Value:
    """What a variable is where several paths meet."""
    values = [value for _, value in alternatives]
    if all(value == values[0] for value in values):
        return values[0]
    if all(isinstance(value, Several) for value in values):
        return _joined_members([(mark, value) for mark, value in alternatives if isinstance(value, Several)], label, line)
    with_streams = [(mark, value) for mark, value in alternatives if streams_in(value)]
    if not with_streams:
        return UNKNOWN
    if len(with_streams) == 1 and not isinstance(with_streams[0][1], (Choice, Split, Bound)):
        return marked(with_streams[0][1], with_streams[0][0])
    return Choice(tuple(with_streams), label, line)


def _joined_members(alternatives: Sequence[tuple[str, Several]], label: str, line: int) -> Value:
    first = alternatives[0][1]
    sizes = {len(value.items) for _, value in alternatives}
    keys = {tuple(item.key for item in value.items) for _, value in alternatives}
    if len(sizes) == 1 and len(keys) == 1:  # the same shape: member by member
        items = []
        for index, item in enumerate(first.items):
            items.append(replace(item, value=joined([(mark, v.items[index].value) for mark, v in alternatives], label, line)))
        return replace(first, items=tuple(items))
    common = 0
    while common < min(sizes) and all(value.items[common] == first.items[common] for _, value in alternatives):
        common += 1
    added = [replace(item, mark=both(item.mark, mark)) for mark, value in alternatives for item in value.items[common:]]
    return replace(first, items=(*first.items[:common], *added))
