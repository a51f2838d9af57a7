"""A drawing with a place for everything: what a layout is, and what a picture is made from."""

from __future__ import annotations

from dataclasses import dataclass

from tflow.drawing.model import DrawnEdge, DrawnNode

TEXT, SMALL = 12.5, 10.5
"""Sizes of letters: in boxes, on wires."""
LINE, SMALL_LINE = 17.0, 13.5
BEHIND = 8.0
"""How far the boxes behind a stacked one look out, to the right and above."""
Point = tuple[float, float]
Run = tuple[float, float, float]
"""A straight part of a wire: from where to where along the flow, and how far across."""


@dataclass(frozen=True)
class Box:
    """A node, drawn. What is stacked behind it is within its bounds."""

    node: DrawnNode
    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Label:
    """Text on a wire or a route."""

    lines: tuple[str, ...]
    x: float
    y: float
    """On a wire: the middle of the text, on the wire. On a route: where the text begins, and its base line."""


@dataclass(frozen=True)
class Wire:
    """An edge of the flow, drawn: straight runs, with bends between them."""

    edge: DrawnEdge
    runs: tuple[Run, ...]
    label: Label


@dataclass(frozen=True)
class Route:
    """An edge from an operator to actors, drawn: straight from point to point, around everything that is in the way."""

    edge: DrawnEdge
    points: tuple[Point, ...]
    label: Label


@dataclass(frozen=True)
class Layout:
    """A whole drawing, placed."""

    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    routes: tuple[Route, ...]
    width: float
    height: float
    down: bool
