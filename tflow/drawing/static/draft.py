"""A graph while it is being read: nodes are numbered as they are met, and put in order at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tflow.drawing.model import Edge, Graph, Group, Kind, Node, Where, walk
from tflow.drawing.static.values import Bound, Callee, Carried, Choice, Opaque, Several, Split, Stream, Value, both


@dataclass(frozen=True)
class Input:
    """An edge to a node that is being made."""

    node: int
    shown: str
    mark: str = ""


@dataclass
class Sketch:
    """A node that may still change."""

    label: str
    carried: Carried
    where: Where
    inputs: list[Input]
    kind: Kind = "operator"
    line: int | None = None
    group: int | None = None
    wanted: bool = True
    """True if it is drawn even when nothing consumes it."""


@dataclass
class Draft:
    """All nodes so far."""

    nodes: list[Sketch] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    group: int | None = None
    wanted: bool = True
    """False while something is read that is only drawn where it is used, such as the rest of a module."""
    choices: dict[Choice, int] = field(default_factory=dict)
    taken: dict[Split, dict[int, int]] = field(default_factory=dict)
    """Which branches of each split have become nodes."""

    def add(
        self,
        label: str,
        inputs: Sequence[Input],
        carried: Carried,
        *,
        where: Where | None = None,
        kind: Kind = "operator",
        line: int | None = None,
    ) -> Stream:
        """One more node, and the stream that leaves it."""
        place = carried.where if where is None else where
        self.nodes.append(Sketch(label, carried, place, list(inputs), kind, line, self.group, self.wanted))
        return Stream(len(self.nodes) - 1, carried)

    @contextmanager
    def inside(self, title: str) -> Iterator[None]:
        """Nodes made meanwhile belong together."""
        before = self.group
        self.groups.append(Group(len(self.groups), title, before))
        self.group = len(self.groups) - 1
        try:
            yield
        finally:
            self.group = before

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Nodes made meanwhile are drawn only if they lead to something that is."""
        before = self.wanted, self.group
        self.wanted, self.group = False, None
        try:
            yield
        finally:
            self.wanted, self.group = before

    # ------------------------------------------------------------------- from values to edges

    def edges(self, value: Value, mark: str = "") -> list[Input]:
        """Everything that flows out of a value."""
        match value:
            case Stream(node=node, carried=carried):
                return [Input(node, str(carried), both(value.mark, mark))]
            case Opaque(node=node):
                return [Input(node, str(self.nodes[node].carried), both(value.mark, mark))]
            case Split(branches=None):
                return [Input(value.node, str(value.carried), both("*", mark))]
            case Split(branches=int(count)):
                return [edge for index in range(count) for edge in self.edges(self.branch(value, index), mark)]
            case Several(items=items):
                return [edge for item in items for edge in self.edges(item.value, both(item.mark, mark))]
            case Choice():
                return self.edges(self.chosen(value), mark)
            case Bound(owner=owner):
                return self.edges(owner, mark)
            case Callee(captured=captured):
                return [edge for each in captured for edge in self.edges(each, mark)]
            case _:
                return []

    def branch(self, split: Split, index: int) -> Stream:
        """A branch of a split, the same node each time."""
        known = self.taken.setdefault(split, {})
        if index not in known:
            sketch = self.nodes[split.node]
            made = self.add(f"branch {index}", [Input(split.node, str(split.carried))], split.carried, line=sketch.line)
            self.nodes[made.node].wanted, self.nodes[made.node].group = sketch.wanted, sketch.group
            known[index] = made.node
        return Stream(known[index], split.carried)

    def chosen(self, choice: Choice, carried: Carried | None = None) -> Stream:
        """The node of a choice: one stream out of several."""
        if choice not in self.choices:
            inputs = [edge for mark, value in choice.alternatives for edge in self.edges(value, mark)]
            made = self.add(choice.label, inputs, carried or self.common(inputs), kind="choice", line=choice.line)
            self.choices[choice] = made.node
        node = self.choices[choice]
        return Stream(node, self.nodes[node].carried)

    def container(self, label: str, value: Value, carried: Carried | None, line: int, mark: str = "") -> Stream:
        """A node for streams that are kept together, of which one is taken."""
        inputs = self.edges(value)
        made = self.add(label, inputs, carried or self.common(inputs), kind="container", line=line)
        return Stream(made.node, made.carried, mark)

    def common(self, inputs: Sequence[Input]) -> Carried:
        """What several streams have in common."""
        found = [self.nodes[edge.node].carried for edge in inputs] or [Carried()]
        offers = "Sync" if {each.offers for each in found} == {"Sync"} else "Async" if any(e.offers for e in found) else ""
        return Carried(found[0].kind, " | ".join(dict.fromkeys(each.element for each in found)), offers)

    # ------------------------------------------------------------------- at the end

    def finished(self, title: str, ends: Sequence[int]) -> Graph:
        """The graph of what leads to the ends, then of what else was made and is consumed by nothing."""
        for split in list(self.taken):  # branches that nobody took are there, and nothing consumes them
            for index in range(split.branches or 0):
                self.branch(split, index)
        consumed = {edge.node for sketch in self.nodes for edge in sketch.inputs}
        loose = [index for index, sketch in enumerate(self.nodes) if sketch.wanted and index not in consumed]
        inputs = {index: [edge.node for edge in sketch.inputs] for index, sketch in enumerate(self.nodes)}
        order = walk([*ends, *loose], inputs)
        position = {index: new for new, index in enumerate(order)}
        nodes: list[Node] = []
        edges: list[Edge] = []
        for index in order:
            sketch = self.nodes[index]
            number = position[index]
            nodes.append(Node(number, sketch.label, sketch.where, str(sketch.carried), sketch.kind, sketch.line, sketch.group))
            edges.extend(Edge(position[edge.node], number, edge.shown, edge.mark) for edge in sketch.inputs)
        return Graph(title, tuple(nodes), tuple(edges), self._groups({node.group for node in nodes}))

    def _groups(self, used: set[int | None]) -> tuple[Group, ...]:
        """The groups that have nodes in them, or groups that have."""
        for group in reversed(self.groups):
            if group.id in used:
                used.add(group.parent)
        return tuple(group for group in self.groups if group.id in used)
