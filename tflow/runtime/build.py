"""From nodes to cells, on the driver and inside an actor; linear chains of per-item operators become one cell."""

from __future__ import annotations

from dataclasses import replace

from tflow.combinators import graph, nodes
from tflow.runtime.cell import CELLS, Cell, Site
from tflow.runtime.chain import Chain, Source, Step, step_of


def build(sink: nodes.Node, site: Site, *, fuse: bool = True) -> Cell:
    """The cell of ``sink``, with all cells before it."""
    made: dict[nodes.Node, Cell] = {}
    chain: list[Step] = []
    order = [node for node in graph.walk(sink) if site.shard is not None or not node.parallel]
    consumers = {up: node for node in order for up in node.inputs}

    def continues(node: nodes.Node) -> bool:
        return node in consumers and step_of(consumers[node], site) is not None

    for node in order:
        step = step_of(node, site)
        if step is None:
            cell = CELLS[type(node)](node, tuple(made[up] for up in inputs_at(site, node)), site)
            made[node] = cell
            if isinstance(cell, Source) and not continues(node):
                made[node] = Chain([], cell, site)
            continue
        chain.append(step)
        if fuse and continues(node):
            continue
        made[node] = Chain(chain, made[chain[0].node.inputs[0]], site)
        chain = []
    return made[sink]


def inputs_at(site: Site, node: nodes.Node) -> tuple[nodes.Node, ...]:
    """The inputs of a node that run at this site; for a gather on the driver, the streams that feed its shards."""
    if site.shard is not None or isinstance(node, nodes.CallActor):
        return node.inputs
    found: tuple[nodes.Node, ...] = ()
    for up in node.inputs:
        found += inputs_at(site, up) if up.parallel else (up,)
    return found


def localised(node: nodes.Node, shard: int, positions: dict[nodes.Node, int]) -> nodes.Node:
    """The part of a parallel plan that runs in one shard, as a plan of its own that can travel to the actor."""
    match node:
        case nodes.FromActors(pull=pull, opens=opens):
            return marked(nodes.Pulled(pull, opens), node, positions)
        case nodes.Scatter():
            return marked(nodes.Fed(), node, positions)
        case nodes.SelectShards(up=up, chosen=chosen):
            return localised(up, chosen[shard], positions)
        case nodes.ParUnionOf(streams=streams):
            for stream in streams:
                count = len(graph.shards(stream))
                if shard < count:
                    return localised(stream, shard, positions)
                shard -= count
            raise IndexError(shard)
        case nodes.Zip(left=left, right=right):
            sides = localised(left, shard, positions), localised(right, shard, positions)
            return marked(replace(node, left=sides[0], right=sides[1]), node, positions)
        case nodes.Unary(up=up):
            return marked(replace(node, up=localised(up, shard, positions)), node, positions)
        case _:
            raise TypeError(node)


def marked(copy: nodes.Node, original: nodes.Node, positions: dict[nodes.Node, int]) -> nodes.Node:
    """A copy for an actor, which knows what its original is called and where in the plan it stands."""
    return replace(copy, position=positions[original], shown_as=original.label)
