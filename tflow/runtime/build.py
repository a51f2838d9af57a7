"""From nodes to cells, on the driver and inside an actor; linear chains of per-item operators become one cell."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tflow.combinators import graph, nodes
from tflow.errors import PlanError
from tflow.runtime import joints, unary
from tflow.runtime.cell import Cell, Site
from tflow.runtime.chain import AtEnd, Chain, SourceCell, Step, step_of
from tflow.runtime.refs import Fetch

Maker = Callable[[Any, tuple[Cell, ...], Site], Cell]  # Any: each maker takes the one node class it stands behind
CELLS: dict[type[nodes.Node], Maker] = {
    nodes.FromItems: unary.ItemsCell,
    nodes.Pulled: unary.PullCell,
    nodes.Fed: unary.Inbox,
    nodes.BatchItems: unary.BatchCell,
    nodes.Shuffle: unary.ShuffleCell,
    nodes.MixIn: unary.MixInCell,
    nodes.Flatten: unary.FlattenCell,
    nodes.FlatMap: unary.FlattenCell,
    nodes.Take: unary.TakeCell,
    nodes.Drain: unary.DrainCell,
    nodes.Every: joints.EveryCell,
    nodes.Zip: joints.ZipCell,
    nodes.Split: joints.SplitCell,
    nodes.Branch: joints.BranchCell,
    nodes.UnionOf: joints.union,
}
"""What runs tflow's own nodes, on the driver and inside actors; another node says it on its class."""
MOST_DEPTH = 5_000
"""Cells one after another. Each asks the one before it, which takes stack: threads have room for about four times as many."""
FRAMES_PER_CELL = 5
"""At most: of answering, and of closing."""
SPARE_FRAMES = 250
"""What a plan takes of the usual limit; the rest is the user's."""


def build(sink: nodes.Node, site: Site, *, fuse: bool = True, cells: Mapping[type[nodes.Node], Maker] = CELLS) -> Cell:
    """The cell of ``sink``, with all cells before it."""
    made: dict[nodes.Node, Cell] = {}
    chain: list[Step] = []
    order = [node for node in graph.walk(sink) if site.shard is not None or not node.parallel]
    consumers = {up: node for node in order for up in node.inputs}
    remote = site.carriers

    def continues(node: nodes.Node) -> bool:
        return node in consumers and consumers[node].step is not None

    def input_of(node: nodes.Node, up: nodes.Node) -> Cell:
        return Fetch(made[up], site) if up in remote and node.refs == "opens" else made[up]

    for node in order:
        if node.step is not None:
            chain.append(step_of(node, site))
            if not (fuse and continues(node)) or node.shows_more:
                whole = Chain(chain, input_of(chain[0].node, chain[0].node.inputs[0]), site)
                made[node] = AtEnd(whole, site) if node.shows_more else whole
                chain = []
            continue
        cell = maker_of(node, cells)(node, tuple(input_of(node, up) for up in inputs_at(site, node)), site)
        made[node] = Chain([], cell, site) if isinstance(cell, SourceCell) and not continues(node) else cell
    last = Fetch(made[sink], site) if sink in remote else made[sink]
    make_room(depth_of(site.cells), sink)
    return last


def depth_of(cells: Iterable[Cell]) -> int:
    """The longest way from a source, in cells, which come in the order in which they were made."""
    depths: dict[Cell, int] = {}
    for cell in cells:
        depths[cell] = 1 + max((depths[up] for up in cell.ups), default=0)
    return max(depths.values(), default=0)


def make_room(depth: int, sink: nodes.Node) -> None:
    """Python allows a thousand calls inside each other, whatever the stack has room for: allow a deep plan what it needs."""
    if depth > MOST_DEPTH:
        raise PlanError(
            f"{sink.label} comes after more than {MOST_DEPTH:,} operators that cannot be fused into one loop, for which the "
            "stack has no room. Do several steps in one operator."
        )
    needed = FRAMES_PER_CELL * depth + 1_000
    if depth * FRAMES_PER_CELL > SPARE_FRAMES and sys.getrecursionlimit() < needed:
        sys.setrecursionlimit(needed)


def maker_of(node: nodes.Node, cells: Mapping[type[nodes.Node], Maker]) -> Maker:
    """What makes the cell of a node."""
    found: Maker | None = type(node).cell or next((cells[kind] for kind in type(node).__mro__ if kind in cells), None)
    if found is None:
        raise PlanError(f"{node.label}: nothing runs a {type(node).__name__}. Name its cell on the class: cell = MyCell.")
    return found


def inputs_at(site: Site, node: nodes.Node) -> tuple[nodes.Node, ...]:
    """The inputs of a node that run at this site; for a gather on the driver, the streams that feed its shards."""
    if site.shard is not None or node.host is not None:
        return node.inputs
    found: list[nodes.Node] = []
    for up in node.inputs:
        found += [fed for source in graph.par_sources(up) for fed in source.inputs] if up.parallel else [up]
    return tuple(found)
