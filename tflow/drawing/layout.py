"""Where everything in a drawing goes: operators in columns along the flow, the types of streams in the gaps between them.

A type has a place of its own, as a box has, so nothing lies on anything else. Actors are in a lane beside the flow (``lane.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tflow.drawing.columns import Columns, Piece, Tie, order, settle, tie
from tflow.drawing.lane import CHANNEL, Exit, MessageLane
from tflow.drawing.model import DrawnEdge, DrawnNode, Graph
from tflow.drawing.placed import BEHIND, LINE, SMALL, SMALL_LINE, TEXT, Box, Label, Layout, Wire
from tflow.drawing.wrapping import width, wrapped

WIDE, WIDE_DOWN, NARROW = 22, 30, 24
"""Letters per line: in boxes, in boxes below each other, on wires."""
PAD = 13.0
APART = 22.0
"""Room between things side by side."""
GAP, BEND = 20.0, 44.0
"""Room before and behind a label on a wire, and how much more at most where wires bend."""
PORT = 14.0
"""Room between two wires at the same box."""


@dataclass
class UnplacedBox:
    """A box before it has a place."""

    node: DrawnNode
    along: float
    """How long it is, along the flow."""
    piece: Piece
    lines: tuple[str, ...]
    layer: int = 0
    start: float = 0.0
    """Where it begins, along the flow."""


@dataclass
class UnplacedWire:
    """An edge of the flow before it has a place."""

    edge: DrawnEdge
    tail: UnplacedBox
    head: UnplacedBox
    ties: list[Tie] = field(default_factory=list)
    pieces: list[tuple[int, Piece]] = field(default_factory=list)
    """What stands for it in the columns between the two: column and piece."""


def layout(graph: Graph, *, down: bool = False) -> Layout:
    """Places for everything in a drawing. The flow goes to the right, or ``down``."""
    return LayoutBuilder(graph, down).layout()


class LayoutBuilder:
    """Lays out a graph. Even columns have boxes, odd ones what is between them."""

    def __init__(self, graph: Graph, down: bool) -> None:
        self.graph, self.down = graph, down
        self.items = {node.id: self.boxed(node) for node in graph.nodes}
        self.flow = [item for item in self.items.values() if item.node.shape != "actors"]
        self.links = [UnplacedWire(edge, self.items[edge.source], self.items[edge.target]) for edge in graph.flow]
        self._layers()
        last = max((item.layer for item in self.flow), default=0)
        self.columns: Columns = [[] for _ in range(2 * last + 2)]
        self.sizes = [0.0] * len(self.columns)
        self.pads = [(0.0, 0.0)] * len(self.columns)
        """Room before and behind the labels of a column."""
        self.starts: list[float] = []

    def layout(self) -> Layout:
        for item in self.flow:
            self.columns[2 * item.layer].append(item.piece)
        for link in self.links:
            self._strung(link)
        order(self.columns)
        self._ports()
        settle(self.columns, APART)
        pieces = [piece for column in self.columns for piece in column]
        top = min((piece.place - piece.before for piece in pieces), default=0.0)
        for piece in pieces:
            piece.place -= top
        exits = self._exits()
        along = self._along(exits)
        lane = MessageLane(self.down, max((piece.place + piece.after for piece in pieces), default=0.0))
        for each in exits:
            item = self.items[each.edge.source]
            each.leave(item.start, item.along, self.starts[2 * item.layer + 1])
        for item in self.items.values():
            if item.node.shape == "actors":
                mine = [each for each in exits if each.edge.target == item.node.id]
                lane.add(item.node, item.along, item.piece.before + item.piece.after, item.lines, mine)
        lane.settle(APART)
        boxes = tuple(self._box(item) for item in self.flow)
        wires = tuple(map(self._wire, self.links))
        size = max(along, lane.along), lane.across
        wide, high = size[::-1] if self.down else size
        return Layout((*boxes, *lane.boxes()), wires, lane.routes(self.graph.relations), wide, high, self.down)

    def boxed(self, node: DrawnNode) -> UnplacedBox:
        """A node, with the size that its label and its wires need."""
        lines = tuple(wrapped(node.label, WIDE_DOWN if self.down else WIDE))
        behind = BEHIND if node.stacked else 0.0
        wide, high = width(list(lines), TEXT) + 2 * PAD + behind, len(lines) * LINE + 14 + behind
        if node.shape == "actors":
            high += 12  # a cylinder has a lid
        enter = sum(edge.target == node.id for edge in self.graph.edges)
        leave = sum(edge.source == node.id for edge in self.graph.flow)
        sent = sum(edge.source == node.id for edge in self.graph.relations)
        side, end = PORT * max(enter, leave) + 8 + behind, PORT * sent + 8 + behind
        if node.shape == "actors":
            side, end = 0.0, PORT * enter + 8 + behind
        wide, high = (max(wide, side), max(high, end)) if self.down else (max(wide, end), max(high, side))
        across = wide if self.down else high
        return UnplacedBox(node, high if self.down else wide, Piece(across / 2, across / 2), lines)

    def _layers(self) -> None:
        """How many steps each item is behind where things begin."""
        for link in self.links:  # in the order of the plan: what is before is known
            link.head.layer = max(link.head.layer, link.tail.layer + 1)

    def _strung(self, link: UnplacedWire) -> None:
        """A piece in every column that a link passes, the first of them its label."""
        first, last = 2 * link.tail.layer, 2 * link.head.layer
        before = link.tail.piece
        for index in range(first + 1, last):
            piece = Piece(3.0, 3.0, passing=True)
            if index == first + 1:
                piece, along = self.label_piece(link.edge)
                self.sizes[index] = max(self.sizes[index], along)
            self.columns[index].append(piece)
            link.pieces.append((index, piece))
            link.ties.append(tie(before, piece))
            before = piece
        link.ties.append(tie(before, link.head.piece))

    def label_piece(self, edge: DrawnEdge) -> tuple[Piece, float]:
        """The room that a label needs across and along the flow: above the wire, or beside it."""
        lines = wrapped(edge.shown, NARROW)
        wide = width(lines, SMALL)
        if self.down:
            return Piece(4.0, wide + 8, passing=True), len(lines) * SMALL_LINE
        return Piece(len(lines) * SMALL_LINE + 4, 4.0, passing=True), wide

    def _ports(self) -> None:
        """Where wires meet the items: spread over a side in the order in which they come."""
        rank = {id(piece): place for column in self.columns for place, piece in enumerate(column)}
        for item in self.flow:
            reach = item.piece.before + item.piece.after - 12
            for ties, other in ((item.piece.left, "left"), (item.piece.right, "right")):
                ordered = sorted(ties, key=lambda each: rank[id(getattr(each, other))])  # used at once
                step = min(16.0, reach / max(1, len(ordered)))
                for place, each in enumerate(ordered):
                    offset = (place - (len(ordered) - 1) / 2) * step
                    if other == "left":
                        each.right_offset = offset
                    else:
                        each.left_offset = offset

    def _exits(self) -> list[Exit]:
        """Where edges to actors leave their boxes: straight to the lane, or through the gap behind the column if something is in
        the way."""
        found = []
        for item in self.flow:
            own = [edge for edge in self.graph.relations if edge.source == item.node.id]
            free = all(piece.place <= item.piece.place for piece in self.columns[2 * item.layer])
            for place, edge in enumerate(own):
                found.append(Exit(edge, item.layer, item.piece.place + item.piece.after, place, len(own), free))
        for layer in {each.layer for each in found}:
            passing = [each for each in found if each.layer == layer and not each.free]
            for channel, each in enumerate(sorted(passing, key=lambda one: -one.turn)):
                each.channel = channel
        return found

    def _along(self, exits: list[Exit]) -> float:
        """Where columns begin: each is as wide as what is in it. Returns where the last one ends."""
        for item in self.flow:
            self.sizes[2 * item.layer] = max(self.sizes[2 * item.layer], item.along)
        for index in range(1, len(self.columns), 2):
            last = index == len(self.columns) - 1
            channels = CHANNEL * sum(not each.free and 2 * each.layer + 1 == index for each in exits)
            bends = (0.0, 0.0) if last else (bend(self.columns[index - 1]), bend(self.columns[index]))
            least = 0.0 if last else GAP
            self.pads[index] = channels + least + min(BEND, bends[0] / 4), least + min(BEND, bends[1] / 4)
            self.sizes[index] += sum(self.pads[index])
        start = 0.0
        for size in self.sizes:
            self.starts.append(start)
            start += size
        for item in self.flow:
            column = 2 * item.layer
            if not self.down and item.along >= self.sizes[column] / 2:
                item.along = self.sizes[column]  # boxes of a column are equally wide
            item.start = self.starts[column] + (self.sizes[column] - item.along) / 2
        return start

    # ------------------------------------------------------------------- places

    def _box(self, item: UnplacedBox) -> Box:
        top, size = item.piece.place - item.piece.before, item.piece.before + item.piece.after
        x, y, wide, high = (top, item.start, size, item.along) if self.down else (item.start, top, item.along, size)
        return Box(item.node, x, y, wide, high, item.lines)

    def _wire(self, link: UnplacedWire) -> Wire:
        end, begin = link.tail.start + link.tail.along, link.head.start
        leaves = link.tail.piece.place + link.ties[0].left_offset
        arrives = link.head.piece.place + link.ties[-1].right_offset
        runs = [(end, end, leaves), (begin, begin, arrives)]
        lines = tuple(wrapped(link.edge.shown, NARROW))
        label = Label(lines, 0.0, 0.0)
        for index, piece in link.pieces:
            before, after = self.pads[index]
            start, stop = self.starts[index] + before, self.starts[index] + self.sizes[index] - after
            if index == 2 * link.tail.layer + 1:
                _, room = self.label_piece(link.edge)
                middle = (start + stop) / 2
                start, stop = middle - room / 2, middle + room / 2
                label = Label(lines, piece.place, middle) if self.down else Label(lines, middle, piece.place)
            runs.append((start, stop, piece.place))
        return Wire(link.edge, tuple(sorted(runs)), label)


def bend(column: list[Piece]) -> float:
    """How far across wires go at most, between a column and the next."""
    ties = (each for piece in column for each in piece.right)
    return max((abs(t.left.place + t.left_offset - t.right.place - t.right_offset) for t in ties), default=0.0)
