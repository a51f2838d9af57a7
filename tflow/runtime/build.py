"""From nodes to cells, on the driver and inside an actor; linear chains of per-item operators become one cell."""

from __future__ import annotations

from tflow.combinators import graph, nodes
from tflow.runtime.cell import CELLS, Cell, Site
from tflow.runtime.chain import Chain, Source, Step, fuses, step_of
from tflow.runtime.refs import Fetch, looks_in


def build(sink: nodes.Node, site: Site, *, fuse: bool = True) -> Cell:
    """The cell of ``sink``, with all cells before it."""
    made: dict[nodes.Node, Cell] = {}
    chain: list[Step] = []
    order = [node for node in graph.walk(sink) if site.shard is not None or not node.parallel]
    consumers = {up: node for node in order for up in node.inputs}
    remote = site.carriers

    def continues(node: nodes.Node) -> bool:
        return node in consumers and fuses(consumers[node])

    def input_of(node: nodes.Node, up: nodes.Node) -> Cell:
        return Fetch(made[up], site) if up in remote and looks_in(node) else made[up]

    for node in order:
        if fuses(node):
            chain.append(step_of(node, site))
            if not (fuse and continues(node)):
                made[node] = Chain(chain, input_of(chain[0].node, chain[0].node.inputs[0]), site)
                chain = []
            continue
        cell = CELLS[type(node)](node, tuple(input_of(node, up) for up in inputs_at(site, node)), site)
        made[node] = Chain([], cell, site) if isinstance(cell, Source) and not continues(node) else cell
    return Fetch(made[sink], site) if sink in remote else made[sink]


def inputs_at(site: Site, node: nodes.Node) -> tuple[nodes.Node, ...]:
    """The inputs of a node that run at this site; for a gather on the driver, the streams that feed its shards."""
    if site.shard is not None or isinstance(node, nodes.CallActor):
        return node.inputs
    found: tuple[nodes.Node, ...] = ()
    for up in node.inputs:
        found += inputs_at(site, up) if up.parallel else (up,)
    return found
