"""Cells where streams meet or part: zip, split, both kinds of union, and the gate."""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from math import inf

from tflow.combinators import nodes
from tflow.runtime.answers import DONE, SKIP, WAITING, Answer, Blocked, Ready
from tflow.runtime.border import is_frozen
from tflow.runtime.cell import Cell, Site
from tflow.runtime.unary import united


class EveryCell(Cell):
    """A gate: one item per so many items, env steps or seconds."""

    node: nodes.Every
    opened: float | None = None
    """When it last let an item through."""

    def answers(self) -> Iterator[Answer]:
        amount = self.node.amount
        if self.opened is None:
            self.opened = self.measure()
        for answer in self.ups[0].stream:
            if type(answer) is not tuple:
                yield answer
                continue
            self.seen += 1
            now = self.measure()
            if now - self.opened >= amount:
                self.opened = now
                self.shown += 1
                yield answer
            else:
                yield SKIP

    def measure(self) -> float:
        if self.node.unit == "items":
            return self.seen
        return self.site.env_steps if self.node.unit == "steps" else self.site.now()


class ZipCell(Cell):
    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        self.slots: list[Ready | None] = [None, None]
        super().__init__(node, ups, site)

    def answers(self) -> Iterator[Answer]:
        slots = self.slots
        while not self.closed:
            left, right = slots
            if left and right:
                slots[:] = None, None
                self.shown += 1
                yield (left[0], right[0]), united([left, right])
                continue
            answer = self.fill()
            if answer is DONE:
                self.close()
                slots[:] = None, None
            if answer is not None:
                yield answer
        while True:
            yield DONE

    def fill(self) -> Answer | None:
        """Ask the sides that are still missing; None if none is any more. Both are asked even if the first is stuck: it may need
        the second to move."""
        stuck: list[Answer] = []
        moved = False
        for index, up in enumerate(self.ups):
            if self.slots[index] is None:
                answer = up.poll()
                if type(answer) is tuple:
                    self.seen += 1
                    self.slots[index] = answer
                    moved = True
                elif answer is DONE or answer is SKIP:
                    return answer
                else:
                    stuck.append(answer)
        if not stuck:
            return None
        return SKIP if moved else WAITING if WAITING in stuck else stuck[0]

    def queued(self) -> int:
        return sum(slot is not None for slot in self.slots)


class SplitCell(Cell):
    """The shared side of a split. It is asked by its branches, never polled."""

    node: nodes.Split

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        super().__init__(node, ups, site)
        count = self.node.branches
        self.open = set(range(count))
        self.queues: list[deque[Ready]] = [deque() for _ in range(count)]
        self.asked: set[int] = set()
        self.over = False

    def answers(self) -> Iterator[Answer]:
        yield DONE

    def ask(self, branch: int) -> Answer:
        """The next item for one branch."""
        if self.queues[branch]:
            return self.queues[branch].popleft()
        if self.over:
            return DONE
        self.asked.add(branch)
        blocked_reason = self.blocked_reason(branch)
        if blocked_reason:
            return Blocked(blocked_reason)
        answer = self.ups[0].poll()
        if type(answer) is tuple:
            self.seen += 1
            self.asked.clear()
            for other in self.open - {branch}:
                self.queues[other].append((self.own(answer[0]), answer[1]))
        elif answer is DONE:
            self.over = True
        return answer

    def own(self, value: object) -> object:
        """The value for a further branch: itself if nobody can change it, else a copy."""
        if is_frozen(value):
            return value
        try:
            return copy.deepcopy(value)
        except Exception as error:
            raise self.site.blame(self.node, self.seen - 1, error) from error

    def blocked_reason(self, branch: int) -> str:
        """Why no further item may be pulled for this branch; empty if it may."""
        lag = self.node.max_lag
        for other in sorted(self.open - {branch}):
            if lag is None and other not in self.asked:
                return (
                    f"{self.node.label}: branch {branch} wants the next item, but branch {other} has not finished with this "
                    "one; the branches consume at different rates"
                )
            if lag is not None and len(self.queues[other]) >= lag:
                return f"{self.node.label}: branch {branch} is max_lag={lag} items ahead of branch {other}"
        return ""

    def leave(self, branch: int) -> None:
        """A branch asks no more; the last one to leave closes the stream."""
        self.open.discard(branch)
        self.queues[branch].clear()
        if not self.open:
            self.close()

    def queued(self) -> int:
        return sum(map(len, self.queues))


class BranchCell(Cell):
    node: nodes.Branch

    def answers(self) -> Iterator[Answer]:
        split, index = self.ups[0], self.node.index
        assert isinstance(split, SplitCell)
        while True:
            answer = split.ask(index)
            if type(answer) is tuple:
                self.seen += 1
                self.shown += 1
                split.shown = max(split.shown, self.shown)
            yield answer

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            split = self.ups[0]
            assert isinstance(split, SplitCell)
            split.leave(self.node.index)


class Merge(Cell):
    """What both kinds of union share: inputs leave when they are done."""

    def __init__(self, node: nodes.Node, ups: tuple[Cell, ...], site: Site) -> None:
        self.alive = list(range(len(ups)))
        super().__init__(node, ups, site)

    def answers(self) -> Iterator[Answer]:
        while self.alive:
            yield self.turn()
        while True:
            yield DONE

    def turn(self) -> Answer:
        """Poll the inputs until one is served, or none can be."""
        raise NotImplementedError

    def serve(self, index: int, answer: Answer) -> Answer:
        """Input ``index`` has its turn: it answered with an item or a skip."""
        if type(answer) is tuple:
            self.seen += 1
            self.shown += 1
        return answer


class RoundRobin(Merge):
    """Shares out turns by weight. It waits for an input that is waiting and passes one that is blocked, so its choices
    are a function of the plan alone.

    An input earns its share of every turn in which it takes part and pays one for each that it is given; the most urgent is
    next. A blocked input takes no part, so it cannot save up turns; nor does any beside one whose weight is infinite.
    """

    node: nodes.UnionOf

    def __init__(self, node: nodes.UnionOf, ups: tuple[Cell, ...], site: Site) -> None:
        self.weights = node.weights or (1.0,) * len(ups)
        self.credit = [0.0] * len(ups)
        self.given: tuple[int, list[tuple[int, float]]] | None = None
        """A turn whose input is still waiting: it keeps the turn, with the same competitors."""
        super().__init__(node, ups, site)
        self.everyone = self.shares(self.alive)

    def turn(self) -> Answer:
        passed: dict[int, str] = {}
        while self.alive:
            if self.given is None:
                field = self.everyone
                if passed:
                    field = self.shares([index for index in self.alive if index not in passed])
                if not field:
                    return Blocked("; ".join(passed.values()))
                self.given = most_urgent(self.credit, field), field
            chosen, field = self.given
            answer = self.ups[chosen].poll()
            if answer is WAITING:
                return WAITING
            self.given = None
            if isinstance(answer, Blocked):
                passed[chosen] = answer.why
            elif answer is DONE:
                self.alive.remove(chosen)
                self.everyone = self.shares(self.alive)
                passed = {}  # its end may have freed the others
            else:
                for index, share in field:
                    self.credit[index] += share
                self.credit[chosen] -= 1
                return self.serve(chosen, answer)
        return DONE

    def shares(self, field: list[int]) -> list[tuple[int, float]]:
        """What each of these inputs earns by a turn in which they, and no others, are not blocked."""
        first = [index for index in field if self.weights[index] == inf]
        if first:
            return [(index, 1 / len(first)) for index in first]
        total = sum(self.weights[index] for index in field)
        return [(index, self.weights[index] / total) for index in field]


def most_urgent(credit: list[float], shares: list[tuple[int, float]]) -> int:
    """Who is next: of those whose credit allows a turn, the one that would be first to have too much of it.

    This is Tijdeman's rule for the chairman assignment problem (1980): with k inputs no credit ever exceeds 1 - 1/(2k - 2), so
    every prefix is within one turn of the shares. The simpler rule, the most credit first, breaks that from five inputs on.
    """
    margin = 1 / (2 * len(shares) - 2) if len(shares) > 1 else 0.0
    chosen, least = -1, float("inf")
    for index, share in shares:
        worth = credit[index] + share
        if worth >= margin - ROUNDING:
            turns_left = (1 - margin - worth) / share
            if turns_left < least - ROUNDING:  # ties go to the first
                chosen, least = index, turns_left
    if chosen < 0:  # only after others were blocked: everybody here is in debt
        chosen = max(shares, key=lambda each: credit[each[0]] + each[1])[0]
    return chosen


ROUNDING = 1e-9


class FirstReady(Merge):
    """Serves an input that is ready, round robin from the one after the last served."""

    first = 0

    def turn(self) -> Answer:
        while self.alive:
            waiting = ended = False
            reasons = []
            start = bisect_left(self.alive, self.first)
            for index in self.alive[start:] + self.alive[:start]:
                answer = self.ups[index].poll()
                if answer is DONE:
                    self.alive.remove(index)
                    ended = True
                elif answer is WAITING:
                    waiting = True
                elif isinstance(answer, Blocked):
                    reasons.append(answer.why)
                else:
                    self.first = index + 1
                    return self.serve(index, answer)
            if waiting:
                return WAITING
            if not ended:  # an end may have freed the others: then ask them again first
                return Blocked("; ".join(reasons))
        return DONE


def union(node: nodes.UnionOf, ups: tuple[Cell, ...], site: Site) -> Cell:
    """The cell for the union's mode."""
    return (RoundRobin if node.mode == "round_robin" else FirstReady)(node, ups, site)
