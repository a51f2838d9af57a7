"""Items that stay where they were made, while the driver passes on where that is.

Between a gather and an operator that hands items to actors (``call``, ``hand_off``, ``repartition``, a ``RefOp``) the driver need
not see them. Whether it does is a question about the plan, answered before it runs: ``carriers`` finds the streams that may carry
remote items, and where such a stream meets an operator that looks into items, ``build`` puts a ``Fetch`` between the two.

Only a runtime with processes has remote items. Elsewhere a stream that may carry them carries plain ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tflow.combinators import nodes
from tflow.errors import ShardFailed
from tflow.runtime.answers import SKIP, Answer
from tflow.runtime.cell import Cell, Site
from tflow.runtime.stats import Reading
from tflow.types import Frozen


class RemoteBox(Protocol):
    """The items of one answer, in the store of a cluster."""

    def take(self, index: int) -> object:
        """Fetch one. Raises ``ShardFailed`` if it is lost."""
        ...


class Remote(Frozen):
    """An item that is elsewhere, with what travels beside it."""

    __slots__ = ("box", "env_steps", "index", "rows", "summary")

    def __init__(self, box: RemoteBox, index: int, env_steps: int, rows: int, summary: object) -> None:
        self.box = box
        self.index = index
        self.env_steps = env_steps
        self.rows = rows
        self.summary = summary

    def __deepcopy__(self, memo: object) -> Remote:
        return self

    def state(self) -> object:
        """The item itself: a checkpoint holds values, not where they are."""
        return self.box.take(self.index)

    @classmethod
    def from_state(cls, state: object) -> object:
        """A stream that may carry remote items may carry plain ones as well."""
        return state


def has_remote(value: object) -> bool:
    """True for a remote item, and for a list with one in it."""
    return type(value) is Remote or (type(value) is list and any(map(has_remote, value)))


def fetched(value: object) -> object:
    """The value itself, with everything in it that is remote: what was gathered in rounds or batched is a list."""
    if type(value) is Remote:
        return value.box.take(value.index)
    return [fetched(member) for member in value] if type(value) is list and has_remote(value) else value


def items_in(value: object) -> int:
    """How many items were delivered as this one."""
    return sum(map(items_in, value)) if type(value) is list else 1


def carriers(order: list[nodes.Node]) -> set[nodes.Node]:
    """The driver streams of a plan that may carry remote items: those on a way from a gather to an operator that takes them
    unopened. Where each call brings several items, they are small, and fetching them one by one would cost more."""
    wanted: set[nodes.Node] = set()
    for node in reversed(order):
        if node.refs == "takes" or (node in wanted and node.refs == "passes"):
            wanted.update(up for up in node.inputs if not up.parallel)
    found: set[nodes.Node] = set()
    for node in order:
        if node.gathers:
            if node in wanted and node.one_item_per_call:
                found.add(node)
        elif not node.parallel and node.refs != "opens" and any(up in found for up in node.inputs):
            found.add(node)
    return found


class Fetch(Cell):
    """Between a stream that may carry remote items and an operator that looks into them."""

    def __init__(self, up: Cell, site: Site) -> None:
        super().__init__(up.node, (up,), site)

    def answers(self) -> Iterator[Answer]:
        for answer in self.ups[0].stream:
            if type(answer) is tuple:
                try:
                    answer = fetched(answer[0]), answer[1]
                except ShardFailed as loss:
                    self.site.lose(loss, items_in(answer[0]))
                    answer = SKIP
            yield answer

    def readings(self) -> Iterator[tuple[nodes.Node, Reading]]:
        return iter(())
