"""A drawing before it is drawn: nodes, edges and groups as plain values, whatever they were read from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

Where = Literal["actor", "driver", "learner"]
WHERE: tuple[Where, ...] = ("actor", "driver", "learner")
Kind = Literal["operator", "input", "flow", "choice", "container", "end", "unknown"]
"""An operator; a stream that comes from outside; a function or class that is not looked into; one stream out of several; streams
kept together; what a function returns; an expression that could not be followed."""
Key = TypeVar("Key")


@dataclass(frozen=True)
class Node:
    """One box."""

    id: int
    """Its position: inputs come before what consumes them."""
    label: str
    where: Where = "driver"
    yields: str = "?"
    """The type of what leaves it."""
    kind: Kind = "operator"
    line: int | None = None
    group: int | None = None
    """The innermost group that it is in."""


@dataclass(frozen=True)
class Edge:
    """What flows from one node to another."""

    source: int
    target: int
    shown: str
    """Its type."""
    mark: str = ""
    """``*`` for several streams, ``for each`` for one at a time, or the condition under which it flows."""


@dataclass(frozen=True)
class Group:
    """Nodes that belong together: a function that was looked into, or a loop, whose body is drawn once."""

    id: int
    title: str
    parent: int | None = None


@dataclass(frozen=True)
class Graph:
    """A whole drawing."""

    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    groups: tuple[Group, ...] = ()

    @cached_property
    def inputs(self) -> Mapping[int, tuple[Edge, ...]]:
        """The edges that enter each node, in the order of its arguments."""
        return {node.id: tuple(edge for edge in self.edges if edge.target == node.id) for node in self.nodes}


def walk(ends: Sequence[Key], inputs: Mapping[Key, Sequence[Key]]) -> list[Key]:
    """Everything that leads to the ends, inputs before consumers, in the order in which ``print(plan)`` has them."""
    order: dict[Key, None] = {}
    stack = [(end, False) for end in reversed(ends)]
    while stack:
        key, ready = stack.pop()
        if key in order:
            continue
        if ready:
            order[key] = None
            continue
        stack.append((key, True))
        stack.extend((up, False) for up in reversed(inputs[key]))
    return list(order)


def shorter(text: str, most: int = 48) -> str:
    """Source text on one line, cut where it gets long."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
