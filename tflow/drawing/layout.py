"""Where everything in a drawing goes: boxes in columns along the flow, labels in the gaps between them, groups in frames.

A label has a place of its own, as a box has, so nothing lies on anything else. A group is laid out by itself and then stands in
the layout around it as one large box.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tflow.drawing.columns import Columns, Piece, Tie, order, settle, tie
from tflow.drawing.model import Edge, Graph, Group, Kind, Node
from tflow.drawing.placed import LINE, SMALL, SMALL_LINE, TEXT, Box, Frame, Label, Layout, Run, Wire
from tflow.drawing.wrapping import width, wrapped

WIDE, WIDE_DOWN, NARROW = 22, 30, 24
"""Letters per line: in boxes, in boxes below each other, on wires."""
PAD = 13.0
APART = 18.0
"""Room between things side by side."""
GAP, BEND = 20.0, 44.0
"""Room before and behind a label on a wire, and how much more at most where wires bend."""
HEAD = 24.0
"""Room for the title of a frame."""
SMALL_KINDS: tuple[Kind, ...] = ("choice", "end")


@dataclass
class Item:
    """A box, a frame with its contents, or the place in a frame where a wire enters or leaves it."""

    along: float
    piece: Piece
    node: Node | None = None
    inner: Level | None = None
    lines: tuple[str, ...] = ()
    layer: int = 0
    start: float = 0.0
    """Where it begins, along the flow."""


@dataclass
class Link:
    """The part of an edge that lies in one level: between two items of it."""

    number: int
    """Which edge: there may be two that are equal."""
    edge: Edge
    tail: Item
    head: Item
    labelled: bool
    ties: list[Tie] = field(default_factory=list)
    pieces: list[tuple[int, Piece]] = field(default_factory=list)
    """What stands for it in the columns between the two: column and piece."""


@dataclass
class Level:
    """One group, or everything: its items in columns."""

    group: Group | None
    items: list[Item]
    links: list[Link]
    entries: dict[int, Item]
    exits: dict[int, Item]
    along: float = 0.0
    across: float = 0.0
    columns: Columns = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    sizes: list[float] = field(default_factory=list)
    pads: list[tuple[float, float]] = field(default_factory=list)
    """Room before and behind the labels of a column."""


def layout(graph: Graph, *, down: bool = False) -> Layout:
    """Places for everything in a drawing. The flow goes to the right, or ``down``."""
    maker = Maker(graph, down)
    top = maker.level(None)
    boxes, wires, frames = maker.placed(top)
    size = (top.across, top.along) if down else (top.along, top.across)
    return Layout(tuple(boxes), tuple(wires), tuple(frames), *size, down)


class Maker:
    """Lays out the groups of a graph, inner ones first."""

    def __init__(self, graph: Graph, down: bool) -> None:
        self.graph, self.down = graph, down
        self.groups = {group.id: group for group in graph.groups}
        self.nodes = {node.id: node for node in graph.nodes}
        self.loose = entangled(graph)

    def chain(self, node: Node) -> list[int | None]:
        """The groups that a node is in, from the outermost, which is everything."""
        found: list[int | None] = []
        group = node.group
        while group is not None:
            if group not in self.loose:
                found.append(group)
            group = self.groups[group].parent
        return [None, *reversed(found)]

    # ------------------------------------------------------------------- levels

    def level(self, group: int | None) -> Level:
        """The items of a group, in columns and with places."""
        made = Level(None if group is None else self.groups[group], [], [], {}, {})
        of_node: dict[int, Item] = {}
        inner: dict[int, Item] = {}
        for node in self.graph.nodes:
            chain = self.chain(node)
            if group not in chain:
                continue
            depth = chain.index(group) + 1
            if depth == len(chain):
                of_node[node.id] = self.boxed(node)
                made.items.append(of_node[node.id])
                continue
            child = chain[depth]
            assert child is not None
            if child not in inner:
                inner[child] = self.framed(child)
                made.items.append(inner[child])
            of_node[node.id] = inner[child]
        self._connect(made, group, of_node)
        self._layers(made)
        self._columns(made)
        return made

    def boxed(self, node: Node) -> Item:
        """A node, with the size that its label needs."""
        small = node.kind in SMALL_KINDS
        lines = tuple(wrapped(node.label, WIDE_DOWN if self.down else WIDE))
        wide = width(list(lines), TEXT) + 2 * (PAD if not small else 9)
        high = len(lines) * LINE + (14 if not small else 8)
        ports = max(len(self.graph.inputs[node.id]), sum(edge.source == node.id for edge in self.graph.edges))
        if self.down:
            wide = max(wide, 14.0 * ports + 8)
        else:
            high = max(high, 14.0 * ports + 8)
        across = wide if self.down else high
        return Item(high if self.down else wide, Piece(across / 2, across / 2), node, None, lines)

    def framed(self, group: int) -> Item:
        """A group, laid out, as one item."""
        inner = self.level(group)
        title = width([self.groups[group].title], SMALL) + 2 * PAD
        if self.down:
            inner.along += HEAD + PAD
            inner.across = max(inner.across + 2 * PAD, title)
            piece = Piece(inner.across / 2, inner.across / 2)
        else:
            inner.along = max(inner.along + 2 * PAD, title)
            middle = inner.across / 2
            piece = Piece(middle + HEAD, middle + PAD)
            inner.across += HEAD + PAD
        return Item(inner.along, piece, None, inner)

    def _connect(self, made: Level, group: int | None, of_node: dict[int, Item]) -> None:
        for number, edge in enumerate(self.graph.edges):
            tail, head = of_node.get(edge.source), of_node.get(edge.target)
            if tail is None and head is None:
                continue
            if tail is not None and head is not None:
                if tail is not head:
                    made.links.append(Link(number, edge, tail, head, True))
                continue
            port = Item(0.0, Piece(5.0, 5.0))
            made.items.append(port)
            if tail is None and head is not None:
                made.entries[number] = port
                made.links.append(Link(number, edge, port, head, False))
            elif tail is not None:
                made.exits[number] = port
                made.links.append(Link(number, edge, tail, port, False))

    def _layers(self, made: Level) -> None:
        """How many steps each item is behind where things begin."""
        for _ in made.items:  # each turn settles at least one more
            moved = False
            for link in made.links:
                if link.head.layer <= link.tail.layer:
                    link.head.layer, moved = link.tail.layer + 1, True
            if not moved:
                break
        last = max((item.layer for item in made.items), default=0)
        for port in made.exits.values():
            port.layer = last

    def _columns(self, made: Level) -> None:
        last = max((item.layer for item in made.items), default=0)
        made.columns = [[] for _ in range(2 * last + 1)]
        for item in made.items:
            made.columns[2 * item.layer].append(item.piece)
        made.sizes = [0.0] * len(made.columns)
        made.pads = [(0.0, 0.0)] * len(made.columns)
        for link in made.links:
            self._strung(made, link)
        order(made.columns)
        self._ports(made)
        settle(made.columns, APART)
        self._along(made)
        lowest = min((piece.place - piece.before for column in made.columns for piece in column), default=0.0)
        for column in made.columns:
            for piece in column:
                piece.place -= lowest
        made.across = max((piece.place + piece.after for column in made.columns for piece in column), default=0.0)

    def _strung(self, made: Level, link: Link) -> None:
        """A piece in every column that a link passes, the first of them its label."""
        first, last = 2 * link.tail.layer, 2 * link.head.layer
        before = link.tail.piece
        for index in range(first + 1, last):
            piece = Piece(3.0, 3.0, passing=True)
            if link.labelled and index == first + 1:
                piece, along = self.label_piece(link.edge)
                made.sizes[index] = max(made.sizes[index], along)
            made.columns[index].append(piece)
            link.pieces.append((index, piece))
            link.ties.append(tie(before, piece))
            before = piece
        link.ties.append(tie(before, link.head.piece))

    def label_piece(self, edge: Edge) -> tuple[Piece, float]:
        """The room that a label needs across and along the flow: above the wire, the mark below; or beside it."""
        lines, mark = label_lines(edge)
        wide = width([*lines, *mark], SMALL)
        if self.down:
            return Piece(4.0, wide + 8, passing=True), (len(lines) + len(mark)) * SMALL_LINE
        return Piece(len(lines) * SMALL_LINE + 4, len(mark) * SMALL_LINE + 4, passing=True), wide

    def _ports(self, made: Level) -> None:
        """Where wires meet the items: spread over a side in the order in which they come."""
        rank = {id(piece): place for column in made.columns for place, piece in enumerate(column)}
        for item in made.items:
            if item.inner is not None:
                continue
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
        for link in made.links:
            for item, inside in ((link.tail, "exits"), (link.head, "entries")):
                if item.inner is None:
                    continue
                port = getattr(item.inner, inside)[link.number].piece.place + self._frame_shift(item)
                if inside == "exits":
                    link.ties[0].left_offset = port
                else:
                    link.ties[-1].right_offset = port

    def _frame_shift(self, item: Item) -> float:
        """From places inside a frame to its anchor."""
        return (PAD if self.down else HEAD) - item.piece.before

    def _along(self, made: Level) -> None:
        """Where columns begin: each is as wide as what is in it."""
        for item in made.items:
            made.sizes[2 * item.layer] = max(made.sizes[2 * item.layer], item.along)
        for index in range(1, len(made.columns), 2):
            least = GAP if made.sizes[index] else GAP / 2
            bends = bend(made.columns[index - 1]), bend(made.columns[index])
            made.pads[index] = least + min(BEND, bends[0] / 4), least + min(BEND, bends[1] / 4)
            made.sizes[index] += sum(made.pads[index])
        start = 0.0
        for size in made.sizes:
            made.starts.append(start)
            start += size
        made.along = start
        for item in made.items:
            column = 2 * item.layer
            small = item.node is not None and item.node.kind in SMALL_KINDS
            if item.node is not None and not small and not self.down and item.along >= made.sizes[column] / 2:
                item.along = made.sizes[column]  # boxes of a column are equally wide
            item.start = made.starts[column] + (made.sizes[column] - item.along) / 2

    # ------------------------------------------------------------------- from levels to places

    def placed(self, level: Level) -> tuple[list[Box], list[Wire], list[Frame]]:
        """Everything in a level, and in those inside it, where it goes."""
        boxes: list[Box] = []
        frames: list[Frame] = []
        runs: dict[int, list[Run]] = {}
        labels: dict[int, Label] = {}
        self._place(level, 0.0, 0.0, boxes, frames, runs, labels)
        wires = [Wire(edge, tuple(sorted(runs[n])), labels[n]) for n, edge in enumerate(self.graph.edges)]
        return boxes, wires, frames

    def _place(
        self,
        level: Level,
        along: float,
        across: float,
        boxes: list[Box],
        frames: list[Frame],
        runs: dict[int, list[Run]],
        labels: dict[int, Label],
    ) -> None:
        for item in level.items:
            begin, top = along + item.start, across + item.piece.place - item.piece.before
            size = item.piece.before + item.piece.after
            x, y, wide, high = (top, begin, size, item.along) if self.down else (begin, top, item.along, size)
            if item.node is not None:
                boxes.append(Box(item.node, x, y, wide, high, item.lines))
            elif item.inner is not None and item.inner.group is not None:
                frames.append(Frame(item.inner.group, x, y, wide, high))
                shift = (HEAD, PAD) if self.down else (PAD, HEAD)
                self._place(item.inner, begin + shift[0], top + shift[1], boxes, frames, runs, labels)
        for link in level.links:
            self._wire(level, link, along, across, runs.setdefault(link.number, []), labels)

    def _wire(
        self,
        level: Level,
        link: Link,
        along: float,
        across: float,
        runs: list[Run],
        labels: dict[int, Label],
    ) -> None:
        end, begin = link.tail.start + link.tail.along, link.head.start
        leaves = link.tail.piece.place + link.ties[0].left_offset
        arrives = link.head.piece.place + link.ties[-1].right_offset
        found = [(end, end, leaves), (begin, begin, arrives)]
        for index, piece in link.pieces:
            before, after = level.pads[index]
            start, stop = level.starts[index] + before, level.starts[index] + level.sizes[index] - after
            if link.labelled and index == 2 * link.tail.layer + 1:
                lines, mark = label_lines(link.edge)
                _, room = self.label_piece(link.edge)
                middle = (start + stop) / 2
                start, stop = middle - room / 2, middle + room / 2
                point = along + middle, across + piece.place
                labels[link.number] = Label(lines, mark, *(point[::-1] if self.down else point))
            found.append((start, stop, piece.place))
        runs.extend((along + first, along + last, across + place) for first, last, place in found)


def bend(column: list[Piece]) -> float:
    """How far across wires go at most, between a column and the next."""
    ties = (each for piece in column for each in piece.right)
    return max((abs(t.left.place + t.left_offset - t.right.place - t.right_offset) for t in ties), default=0.0)


def label_lines(edge: Edge) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The type and the mark of an edge, broken into lines."""
    mark = tuple(wrapped(edge.mark, NARROW)) if edge.mark else ()
    return tuple(wrapped(edge.shown, NARROW)), mark


def entangled(graph: Graph) -> set[int]:
    """Groups that a path leaves and enters again, or that feed each other both ways: they cannot be one box of the layout, so
    they get no frame."""
    parents = {group.id: group.parent for group in graph.groups}
    loose: set[int] = set()
    while True:
        knot = _knot(graph, parents, loose)
        if knot is None:
            return loose
        loose.add(knot)


def _knot(graph: Graph, parents: dict[int, int | None], loose: set[int]) -> int | None:
    """A group that is part of a circle, when every group is taken for one box."""
    chains: dict[int, list[int | None]] = {}
    for node in graph.nodes:
        chain: list[int | None] = []
        group = node.group
        while group is not None:
            if group not in loose:
                chain.insert(0, group)
            group = parents[group]
        chains[node.id] = [None, *chain]
    before: dict[tuple[int | None, object], set[tuple[int | None, object]]] = {}
    for edge in graph.edges:
        one, other = chains[edge.source], chains[edge.target]
        depth = 0
        while depth + 1 < min(len(one), len(other)) and one[depth + 1] == other[depth + 1]:
            depth += 1
        tail = (one[depth + 1], "group") if depth + 1 < len(one) else (None, edge.source)
        head = (other[depth + 1], "group") if depth + 1 < len(other) else (None, edge.target)
        before.setdefault(head, set()).add(tail)
        before.setdefault(tail, set())
    while True:
        free = [item for item, tails in before.items() if not tails]
        if not free:
            return next((group for group, _ in before if group is not None), None)
        for item in free:
            del before[item]
        for tails in before.values():
            tails.difference_update(free)
