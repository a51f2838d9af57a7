"""A drawing with a place for everything: what a layout is, and what a picture is made from."""

from __future__ import annotations

from dataclasses import dataclass

from tflow.drawing.model import Edge, Group, Node

TEXT, SMALL = 12.5, 10.5
"""Sizes of letters: in boxes, on wires."""
LINE, SMALL_LINE = 17.0, 13.5
Run = tuple[float, float, float]
"""A straight part of a wire: from where to where along the flow, and how far across."""


@dataclass(frozen=True)
class Box:
    """A node, drawn."""

    node: Node
    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Label:
    """The type on a wire, and under which condition it flows."""

    lines: tuple[str, ...]
    mark: tuple[str, ...]
    x: float
    y: float
    """A point on the wire, in the middle of the label."""


@dataclass(frozen=True)
class Wire:
    """An edge, drawn: straight runs, with bends between them."""

    edge: Edge
    runs: tuple[Run, ...]
    label: Label


@dataclass(frozen=True)
class Frame:
    """A group, drawn."""

    group: Group
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """A whole drawing, placed."""

    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    frames: tuple[Frame, ...]
    width: float
    height: float
    down: bool
