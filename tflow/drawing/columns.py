"""Pieces in columns: an order with few crossings, then places that keep wires straight. Knows nothing of what the pieces are."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

SWEEPS = 12
SMOOTHINGS = 60
FAR = 1e9


@dataclass(eq=False)
class Piece:
    """Something that takes up room in a column: a box, a label on a wire, or a wire that passes."""

    before: float
    """How far it reaches across the flow, from its anchor."""
    after: float
    passing: bool = False
    """True for labels and wires, which should be straight before all else."""
    place: float = 0.0
    """Where its anchor is, across the flow."""
    left: list[Tie] = field(default_factory=list)
    right: list[Tie] = field(default_factory=list)


@dataclass(eq=False)
class Tie:
    """Two pieces in neighbouring columns that a wire connects, and where it meets each."""

    left: Piece
    right: Piece
    left_offset: float = 0.0
    right_offset: float = 0.0

    @property
    def weight(self) -> float:
        return (1.0, 2.0, 8.0)[self.left.passing + self.right.passing]


Columns = list[list[Piece]]


def tie(left: Piece, right: Piece) -> Tie:
    """Connect two pieces."""
    made = Tie(left, right)
    left.right.append(made)
    right.left.append(made)
    return made


# --------------------------------------------------------------------------- order


def order(columns: Columns) -> None:
    """Put the pieces of each column in an order in which wires cross little: each near the middle of its neighbours."""
    best, fewest = [list(column) for column in columns], crossings(columns)
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        indices = range(1, len(columns)) if forward else range(len(columns) - 2, -1, -1)
        for index in indices:
            _sort(columns[index], columns[index - 1 if forward else index + 1], forward)
        found = crossings(columns)
        if found < fewest:
            best, fewest = [list(column) for column in columns], found
    for column, kept in zip(columns, best, strict=True):
        column[:] = kept


def _sort(column: list[Piece], fixed: list[Piece], forward: bool) -> None:
    rank = {id(piece): index for index, piece in enumerate(fixed)}
    middle: dict[int, float] = {}
    for index, piece in enumerate(column):
        ends = [rank[id(each.left if forward else each.right)] for each in (piece.left if forward else piece.right)]
        middle[id(piece)] = sum(ends) / len(ends) if ends else index
    column.sort(key=lambda piece: middle[id(piece)])


def crossings(columns: Columns) -> int:
    """How often wires cross between neighbouring columns."""
    total = 0
    for left, right in pairwise(columns):
        rank = {id(piece): index for index, piece in enumerate(right)}
        ends = [rank[id(each.right)] for piece in left for each in sorted(piece.right, key=lambda t: rank[id(t.right)])]
        total += sum(later < earlier for index, earlier in enumerate(ends) for later in ends[index + 1 :])
    return total


# --------------------------------------------------------------------------- places


@dataclass(eq=False)
class Thread:
    """Pieces one behind the other with no other wires at them: they are moved together, so the wire through them is straight."""

    pieces: list[tuple[Piece, float]]
    """Each with how far its anchor is from that of the thread."""
    place: float = 0.0
    above: dict[Thread, float] = field(default_factory=dict)
    """Threads that must stay above, and by how much."""
    below: dict[Thread, float] = field(default_factory=dict)

    @property
    def wish(self) -> float | None:
        """Where the other ends of its wires are, on average; None if it has none."""
        own = {id(piece) for piece, _ in self.pieces}
        total, weight = 0.0, 0.0
        for piece, shift in self.pieces:
            for each in piece.left:
                if id(each.left) not in own:
                    total += each.weight * (each.left.place + each.left_offset - each.right_offset - shift)
                    weight += each.weight
            for each in piece.right:
                if id(each.right) not in own:
                    total += each.weight * (each.right.place + each.right_offset - each.left_offset - shift)
                    weight += each.weight
        return total / weight if weight else None

    def move(self, place: float) -> None:
        self.place = place
        for piece, shift in self.pieces:
            piece.place = place + shift


def settle(columns: Columns, apart: float) -> None:
    """Give every piece a place, ``apart`` from the next one, near what it is connected with."""
    threads = _ordered(columns, apart)
    for thread in threads:
        thread.move(max((other.place + gap for other, gap in thread.above.items()), default=0.0))
    for turn in range(SMOOTHINGS):
        for thread in threads if turn % 2 else threads[::-1]:
            wish = thread.wish
            lowest = max((other.place + gap for other, gap in thread.above.items()), default=-FAR)
            highest = min((other.place - gap for other, gap in thread.below.items()), default=FAR)
            if wish is not None:
                thread.move(min(max(wish, lowest), highest))


def _ordered(columns: Columns, apart: float) -> list[Thread]:
    """The threads, each behind those above it. Threads that cross cannot be ordered and are taken apart."""
    torn: set[int] = set()
    while True:
        threads = _threads(columns, torn)
        _keep_apart(columns, threads, apart)
        done: dict[Thread, None] = {}
        left = list(threads)
        while True:
            free = [thread for thread in left if all(other in done for other in thread.above)]
            if not free:
                break
            done.update(dict.fromkeys(free))
            left = [thread for thread in left if thread not in done]
        if not left:
            return list(done)
        longest = max(left, key=lambda thread: len(thread.pieces))
        torn.update(id(piece) for piece, _ in longest.pieces)


def _threads(columns: Columns, torn: set[int]) -> list[Thread]:
    of: dict[int, Thread] = {}
    found = []
    for column in columns:
        for piece in column:
            before = piece.left[0] if len(piece.left) == 1 else None
            if before is not None and len(before.left.right) == 1 and not {id(piece), id(before.left)} & torn:
                thread = of[id(before.left)]
                shift = next(shift for other, shift in thread.pieces if other is before.left)
                thread.pieces.append((piece, shift + before.left_offset - before.right_offset))
            else:
                thread = Thread([(piece, 0.0)])
                found.append(thread)
            of[id(piece)] = thread
    return found


def _keep_apart(columns: Columns, threads: list[Thread], apart: float) -> None:
    of = {id(piece): (thread, shift) for thread in threads for piece, shift in thread.pieces}
    for column in columns:
        for upper, lower in pairwise(column):
            (above, up), (below, down) = of[id(upper)], of[id(lower)]
            gap = upper.after + apart + lower.before + up - down
            gap = max(gap, below.above.get(above, gap))
            below.above[above] = above.below[below] = gap
