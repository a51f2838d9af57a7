"""The lane beside the flow: actors, and how messages get to them around everything else.

An edge leaves its operator on the side of the lane, goes straight there or through the gap behind its column, takes a track of
its own to its actors, and enters them. Short ones have the inner tracks, and actors are entered in the order in which edges come:
so few of them cross.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

from tflow.drawing.model import DrawnEdge, DrawnNode
from tflow.drawing.placed import SMALL, SMALL_LINE, Box, Label, Point, Route
from tflow.drawing.wrapping import width

CHANNEL = 8.0
"""Room between two edges in the gap behind a column."""
FIRST, STEP = 7.0, 5.0
"""From a box to the first edge that passes between it and the next one, and from that to the second."""
PORT = 14.0
TRACK = 10.0
"""Room between tracks."""
MARGIN = 12.0
NEAR = 0.5
PLACES = 8
"""How many places on its track are tried for a label."""


@dataclass(eq=False)
class Exit:
    """Where an edge leaves the flow."""

    edge: DrawnEdge
    layer: int
    side: float
    """Where its operator ends, across the flow."""
    place: int
    """Which of the edges of its operator it is, of how many."""
    count: int
    free: bool
    """True if nothing is between its operator and the lane."""
    channel: int = 0
    port: float = 0.0
    """Where it leaves its operator, along the flow."""
    at: float = 0.0
    """Where it comes to the lane, along the flow."""

    def leave(self, start: float, along: float, gap: float) -> None:
        """Take a place: an operator begins at ``start`` and is ``along`` long, the gap behind it begins at ``gap``."""
        self.port = start + along / 2 + (self.place - (self.count - 1) / 2) * PORT
        self.at = self.port if self.free else gap + CHANNEL * (self.channel + 1)

    @property
    def turn(self) -> float:
        """Where it turns to the gap, across the flow, if something is in its way."""
        return self.side + FIRST + STEP * (self.count - 1 - self.place)

    def path(self) -> list[Point]:
        """The way to the lane, without its end."""
        begin = (self.port, self.side)
        return [begin] if self.free else [begin, (self.port, self.turn), (self.at, self.turn)]


@dataclass(eq=False)
class Stand:
    """Actors in the lane."""

    node: DrawnNode
    along: float
    across: float
    lines: tuple[str, ...]
    exits: list[Exit]
    start: float = 0.0

    def offset(self, each: Exit) -> float:
        """Where an edge enters, from the middle."""
        return (self.exits.index(each) - (len(self.exits) - 1) / 2) * PORT

    @property
    def wish(self) -> float:
        """Where it would begin, if an operator that works with it were right opposite."""
        nearest = min(self.exits, key=lambda each: each.edge.kind != "use")
        return nearest.at - self.offset(nearest) - self.along / 2

    def entry(self, each: Exit) -> float:
        return self.start + self.along / 2 + self.offset(each)


@dataclass
class Track:
    """Edges that share a line, because they do not meet."""

    taken: list[tuple[float, float]] = field(default_factory=list)
    size: float = 0.0
    at: float = 0.0

    def fits(self, first: float, last: float) -> bool:
        return all(last + TRACK < begin or end + TRACK < first for begin, end in self.taken)


class MessageLane:
    """Everything beside the flow, which is ``edge`` wide."""

    def __init__(self, down: bool, edge: float) -> None:
        self.down, self.edge = down, edge
        self.stands: list[Stand] = []
        self.tracks: dict[Exit, Track] = {}
        self.top = self.across = edge
        self.along = 0.0

    def add(self, node: DrawnNode, along: float, across: float, lines: tuple[str, ...], exits: list[Exit]) -> None:
        """Actors, and the edges that lead to them."""
        self.stands.append(Stand(node, along, across, lines, sorted(exits, key=lambda each: each.at)))

    def settle(self, apart: float) -> None:
        """Give everything a place."""
        if not self.stands:
            return
        end = -apart
        for stand in sorted(self.stands, key=lambda each: each.wish):
            stand.start = max(stand.wish, end + apart, 0.0)
            end = stand.start + stand.along
        self.along = end
        self.top = self.edge + MARGIN
        for track in self._tracks():
            self.top += track.size if not self.down else 0.0
            track.at = self.top
            self.top += track.size if self.down else 0.0
            self.top += TRACK
        self.top += TRACK
        self.across = self.top + max(stand.across for stand in self.stands)

    def span(self, stand: Stand, each: Exit) -> tuple[float, float]:
        """From where to where an edge and its label need their track."""
        ends = sorted((each.at, stand.entry(each)))
        room = SMALL_LINE + 3 if self.down else width([each.edge.shown], SMALL) + 10
        return ends[0], max(ends[1], ends[0] + room if each.edge.shown else 0.0)

    def _tracks(self) -> list[Track]:
        """The tracks that are needed, from the flow outwards, and who takes which."""
        wanted = [(self.span(stand, each), each) for stand in self.stands for each in stand.exits]
        tracks: list[Track] = []
        for (first, last), each in sorted(wanted, key=lambda item: item[0][1] - item[0][0]):
            if last - first < NEAR:
                continue
            track = next((track for track in tracks if track.fits(first, last)), None)
            if track is None:
                track = Track()
                tracks.append(track)
            track.taken.append((first, last))
            if each.edge.shown:
                track.size = max(track.size, width([each.edge.shown], SMALL) + 4 if self.down else SMALL_LINE)
            self.tracks[each] = track
        self.along = max([self.along, *(last for track in tracks for _, last in track.taken)])
        return tracks

    # ------------------------------------------------------------------- places

    def boxes(self) -> list[Box]:
        """The actors."""
        return [
            Box(stand.node, self.top, stand.start, stand.across, stand.along, stand.lines)
            if self.down
            else Box(stand.node, stand.start, self.top, stand.along, stand.across, stand.lines)
            for stand in self.stands
        ]

    def routes(self, edges: tuple[DrawnEdge, ...]) -> tuple[Route, ...]:
        """The edges to the actors, in their order in the graph."""
        paths = {each: self._points(stand, each) for stand in self.stands for each in stand.exits}
        found = {id(each.edge): Route(each.edge, points, self._label(each, paths)) for each, points in paths.items()}
        return tuple(found[id(edge)] for edge in edges)

    def _points(self, stand: Stand, each: Exit) -> tuple[Point, ...]:
        entry, track = stand.entry(each), self.tracks.get(each)
        points = [*each.path(), *([(each.at, track.at), (entry, track.at)] if track is not None else ()), (entry, self.top)]
        kept = [points[0], *(here for before, here in pairwise(points) if math.dist(before, here) > NEAR)]
        return tuple((y, x) if self.down else (x, y) for x, y in kept)

    def _label(self, each: Exit, paths: dict[Exit, tuple[Point, ...]]) -> Label:
        """What is sent, beside the track; where nothing else passes, if there is such a place."""
        track, wide = self.tracks.get(each), width([each.edge.shown], SMALL)
        if track is None or not each.edge.shown:
            return Label((), 0.0, 0.0)
        others = [part for other, points in paths.items() if other is not each for part in pairwise(points)]
        stand = next(stand for stand in self.stands if each in stand.exits)
        begin, end = sorted((each.at, stand.entry(each)))
        length = SMALL_LINE + 3 if self.down else wide + 12
        places = [begin + max(0.0, end - begin - length) * step / PLACES for step in range(PLACES + 1)]
        labels = [
            Label((each.edge.shown,), track.at + 5, place + SMALL + 3)
            if self.down
            else Label((each.edge.shown,), place + 6, track.at - 4)
            for place in places
        ]
        return next((label for label in labels if not any(crosses(part, label, wide) for part in others)), labels[0])


def crosses(part: tuple[Point, Point], label: Label, wide: float) -> bool:
    """True if a straight part of a route goes through a text."""
    (left, right), (top, bottom) = (sorted(ends) for ends in zip(*part, strict=True))
    return left < label.x + wide + 2 and right > label.x - 2 and top < label.y + 3 and bottom > label.y - SMALL
